"""The log of a run with language models."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ninja.lm.word_map import Coverage
from ninja.log import Log


@dataclass(slots=True)
class RescoreReport(Log):
    """Log of a run of ``rescore``: its failures and notes, and the work done."""

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

    def cover(self, coverages: Iterable[Coverage]) -> None:
        """Keep how well language models know the words of the first lattices."""
        for coverage in coverages:
            self.coverages = (*self.coverages, coverage)
            if self.on_note is not None:
                self.on_note(f"vocabulary: {coverage}")

    def summary(self, seconds: float, frame_shift: float) -> str:
        """Sum the run up in a line, given its wall time and the seconds of a frame."""
        audio = self.frames * frame_shift
        sound = f", {audio:.0f} s of audio (real-time factor {seconds / audio:.4f})" if audio else ""
        return (
            f"{self.lattices} lattices, {self.arcs} arcs ({self.expanded_arcs} expanded), {self.histories} histories, "
            f"{self.calls} LM steps of {self.scores} scores, {seconds:.1f} s ({self.lm_seconds:.1f} s in the LM){sound}"
        )

    def merge(self, part: Log) -> None:
        """Add the log of a worker process; the first one says how well the words are known."""
        if isinstance(part, RescoreReport) and not self.coverages:
            self.cover(part.coverages)
        Log.merge(self, part)
