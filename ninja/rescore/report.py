"""What a rescoring run did, counted."""

from __future__ import annotations

from dataclasses import dataclass, field

from ninja.errors import NinjaError
from ninja.rescore.vocabulary import Coverage


@dataclass(slots=True)
class RescoreReport:
    """Counters of one run of ``rescore``; it fills them as it goes."""

    lattices: int = 0  # rescored
    arcs: int = 0  # read
    arcs_written: int = 0
    expanded_arcs: int = 0  # (hypothesis, arc) pairs the language model was asked about
    histories: int = 0  # distinct word histories, i.e. steps of the language model
    scores: int = 0  # distinct (history, word) pairs
    calls: int = 0  # batched calls of the language model
    frames: int = 0  # alignment labels on the best paths, where the lattices carry any
    seconds: float = 0.0
    lm_seconds: float = 0.0  # of these, inside the language model
    coverage: Coverage | None = None
    failures: list[NinjaError] = field(default_factory=list)
