"""Options of retrieval; without torch."""

from __future__ import annotations

from dataclasses import dataclass

LONG_LIST = 1000  # phrases from which on a list is not searched whole


@dataclass(frozen=True, slots=True)
class RetrievalOptions:
    """Bounds of retrieval."""

    from_phrases: int = LONG_LIST
    phrases: int = 200  # of a list, those most like any span
    beam: float = 6.0  # -ln of the least posterior of a span's path, nats
    max_words: int = 4  # of a span
    max_spans: int = 1000  # of a lattice, the likeliest
