"""Options of language models behind completions endpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ninja.errors import check_range, described, documented

KEY_VARIABLE = "NINJA_ENDPOINT_KEY"  # environment variable that contains the API key of the server


@documented
@dataclass(frozen=True)
class EndpointOptions:
    """Options of a language model behind a completions endpoint; see ``ninja.lm.endpoint.loading``.

    The environment variable ``NINJA_ENDPOINT_KEY`` contains the API key, if the server requires one.
    """

    section: ClassVar[str] = "Models: completions endpoint"

    model: str | None = described(None, "Name of the model on the server.  [default: the server's only model]")
    bos: str | None = described(
        None, "Token that begins a text, such as <s>.  [default: as reported by the server, else the end-of-text token]"
    )
    eos: str | None = described(
        None, "End-of-text token, such as </s>; required for servers that do not report it, such as vLLM."
    )
    cache: str | None = described(None, "File that stores scores for later runs; delete it when the model changes.")
    max_requests: int = described(10_000, "Stop the run after this many requests.")
    max_tokens: int = described(10_000_000, "Stop the run before it sends more than this many tokens.")
    max_seconds: float = described(3600.0, "Stop the run after it has waited this many seconds for the server.")
    timeout: float = described(60.0, "Seconds to wait for a response before a request is repeated.")
    retries: int = described(4, "Number of times to repeat a failed request, with increasing pauses.")
    batch: int = described(32, "Number of texts per request (vLLM).")
    connections: int = described(4, "Number of concurrent requests.")

    def __post_init__(self) -> None:
        """Check that the numeric options are in range."""
        for name in ("max_requests", "max_tokens", "batch", "connections"):
            check_range(f"endpoint_{name}", getattr(self, name), least=1)
        check_range("endpoint_retries", self.retries, least=0)
        for name in ("max_seconds", "timeout"):
            check_range(f"endpoint_{name}", getattr(self, name), above=0)
