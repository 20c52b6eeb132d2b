"""``NBest``: the hypotheses of an utterance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ninja.errors import LatticeError, counted
from ninja.lattice.lattice import ListRecord

Costs = tuple[float, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Hypothesis:
    """A word sequence with unscaled natural-log costs; lower is better."""

    words: tuple[str, ...] | tuple[int, ...]  # [num_words], names, or ids if the symbol table is unknown
    graph: Costs  # [num_words + 1], costs of the words and of the sentence end, or the total cost at the end only
    acoustic: Costs  # [num_words + 1]
    begin: tuple[int, ...] | None = None  # [num_words], first frame of each word
    end: tuple[int, ...] | None = None  # [num_words], frame after the last frame of each word
    labels: tuple[tuple[int, ...], ...] | None = None  # [num_words + 1], alignment: transition ids in Kaldi
    line: int | None = field(default=None, compare=False)  # line number in the file, for messages

    @property
    def graph_cost(self) -> float:
        """Graph cost of the whole sentence."""
        return math.fsum(self.graph)

    @property
    def acoustic_cost(self) -> float:
        """Acoustic cost of the whole sentence."""
        return math.fsum(self.acoustic)

    def __repr__(self) -> str:
        text = " ".join(map(str, self.words))
        return f"Hypothesis({text!r}; graph cost {self.graph_cost:.7g}, acoustic cost {self.acoustic_cost:.7g})"


@dataclass(frozen=True, slots=True, repr=False)
class NBest:
    """The hypotheses of an utterance, in the order in which the file lists them."""

    key: str
    hypotheses: tuple[Hypothesis, ...]
    frame_shift: float | None = None  # seconds per frame, if the hypotheses have times
    record: ListRecord | None = field(default=None, compare=False)  # additional fields of the file

    def __repr__(self) -> str:
        first = f", the first {self.hypotheses[0]!r}" if self.hypotheses else ""
        return f"NBest({self.key!r}, {counted(len(self.hypotheses), 'hypothesis', 'hypotheses')}{first})"


def sentence(
    words: Sequence[str] | Sequence[int],
    graph_cost: float = 0.0,
    acoustic_cost: float = 0.0,
    line: int | None = None,
    times: tuple[tuple[int, ...], tuple[int, ...]] | None = None,
) -> Hypothesis:
    """Create a hypothesis from the costs of the whole sentence, which are assigned to the end of the sentence.

    Args:
        words: The words, or their ids.
        graph_cost: Graph cost of the sentence.
        acoustic_cost: Acoustic cost of the sentence.
        line: Line number in the file, for messages.
        times: First frame of each word, and the frame after its last frame.
    """
    none = (0.0,) * len(words)
    begin, end = times or (None, None)
    return Hypothesis(tuple(words), (*none, graph_cost), (*none, acoustic_cost), begin, end, line=line)  # type: ignore[arg-type]


def with_silence(nbest: NBest) -> NBest:
    """Add an empty hypothesis with cost 0 to a list without hypotheses; return other lists unchanged.

    A list has no hypotheses if the recogniser output no words.
    """
    return nbest if nbest.hypotheses else replace(nbest, hypotheses=(sentence(()),))


def check(nbest: NBest) -> None:
    """Check that each hypothesis has as many costs, times and labels as its number of words requires.

    Raises:
        LatticeError: A length is wrong, or only some of the hypotheses have times or labels.
    """
    for number, hypothesis in enumerate(nbest.hypotheses, start=1):
        length = len(hypothesis.words)
        for name in ("graph", "acoustic", "labels"):
            values = getattr(hypothesis, name)
            if values is not None and len(values) != length + 1:
                message = f"hypothesis {number} has {length} words and {len(values)} values of {name}"
                raise LatticeError(f"{message}, but must have {length + 1} values", key=nbest.key)
        lengths = [None if times is None else len(times) for times in (hypothesis.begin, hypothesis.end)]
        if lengths not in ([None, None], [length, length]):
            raise LatticeError(f"hypothesis {number} must have a start and an end time for each word", key=nbest.key)
    if len({(item.begin is None, item.labels is None) for item in nbest.hypotheses if item.words}) > 1:
        raise LatticeError("some hypotheses have times or labels, but others have none", key=nbest.key)
