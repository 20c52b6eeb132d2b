"""`RescoreReport`: the log of a rescoring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ninja.lm.coverage import Coverage, added
from ninja.log import Log
from ninja.rescoring.vocabulary import VocabularyCheck


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
    merged: int = 0  # hypotheses of n-best lists with the text of another, whose probability they were added to
    left_out: int = 0  # hypotheses of n-best lists beyond num_best
    coverages: tuple[Coverage, ...] = ()  # of the words of all lattices, by each language model
    vocabulary: VocabularyCheck | None = None  # made by the caller, who knows the files: stages make none

    def cover(self, coverages: Sequence[Coverage]) -> None:
        """Add the coverage of some lattices' words by the language models."""
        self.coverages = added(self.coverages, coverages)

    def tell_coverage(self) -> None:
        """Pass the coverage of all lattices' words on as notes."""
        for coverage in self.coverages:
            if self.on_note is not None:
                self.on_note(f"vocabulary: {coverage}")

    def summary(self, seconds: float, frame_shift: float) -> str:
        """Sum the run up in a line, given its wall time and the seconds of a frame."""
        audio = self.frames * frame_shift
        sound = f", {audio:.0f} s of audio (real-time factor {seconds / audio:.4f})" if audio else ""
        lists = f", {self.merged} equal texts added up" if self.merged else ""
        lists += f", {self.left_out} hypotheses beyond --num-best left out" if self.left_out else ""
        return (
            f"{self.lattices} lattices{lists}, {self.arcs} arcs ({self.expanded_arcs} expanded), "
            f"{self.histories} histories, {self.calls} LM steps of {self.scores} scores, {seconds:.1f} s "
            f"({self.lm_seconds:.1f} s in the LM){sound}"
        )

    def merge(self, part: Log) -> None:
        """Add the log of a thread."""
        if isinstance(part, RescoreReport) and self.vocabulary is None:
            self.cover(part.coverages)
        Log.merge(self, part)
