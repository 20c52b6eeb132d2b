"""The class `ServeOptions`: the server's limits."""

from __future__ import annotations

from dataclasses import dataclass

from ninja.errors import check_range, described, documented

MAX_SECONDS = 1e9  # timeouts of threads are limited to about 9e9 seconds


@documented
@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The server's limits."""

    max_body: int = described(4_000_000, "Maximum size of a request body in bytes, before and after decompression.")
    max_lattice_arcs: int = described(200_000, "Maximum number of arcs in a lattice, or of words in a transcript.")
    max_phrases: int = described(2_000, "Maximum number of phrases in a request.")
    max_requests: int = described(256, "Maximum number of concurrent requests; further requests receive status 429.")
    max_seconds: float = described(30.0, "Time limit for a request in seconds, including the transfer of its body.")
    max_sessions: int = described(64, "Maximum number of streaming sessions; further sessions receive status 429.")
    max_idle: float = described(60.0, "Seconds after which a streaming session without a message is closed.")
    max_latency: float = described(
        0.01, "Maximum number of seconds that an idle server waits for more lattices before it starts a batch."
    )

    def __post_init__(self) -> None:
        for name in ("max_body", "max_lattice_arcs", "max_phrases", "max_requests", "max_sessions"):
            check_range(name, getattr(self, name), least=1)
        for name in ("max_seconds", "max_idle"):
            check_range(name, getattr(self, name), above=0, most=MAX_SECONDS)
        check_range("max_latency", self.max_latency, least=0, most=MAX_SECONDS)
