"""What a rescoring run did, counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ninja.errors import NinjaError
from ninja.rescoring.vocabulary import Coverage


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
    coverages: tuple[Coverage, ...] = ()  # of the first lattices' words, by each language model
    notes: list[str] = field(default_factory=list)  # what a user should be told
    failures: list[NinjaError] = field(default_factory=list)

    @classmethod
    def of_passes(cls, reports: Sequence[RescoreReport]) -> RescoreReport:
        """Return what several passes over the same lattices came to: what went in, what came out, work in all."""
        first, last = reports[0], reports[-1]
        return cls(
            lattices=last.lattices,
            arcs=first.arcs,
            arcs_written=last.arcs_written,
            expanded_arcs=sum(each.expanded_arcs for each in reports),
            histories=sum(each.histories for each in reports),
            scores=sum(each.scores for each in reports),
            calls=sum(each.calls for each in reports),
            frames=last.frames,
            seconds=last.seconds,  # each pass draws on the one before it, whose time is within its own
            lm_seconds=sum(each.lm_seconds for each in reports),
            coverages=tuple(coverage for each in reports for coverage in each.coverages),
            notes=[note for each in reports for note in each.notes],
            failures=[failure for each in reports for failure in each.failures],
        )
