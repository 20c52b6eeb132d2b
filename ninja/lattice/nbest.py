"""``NBest``: the hypotheses of an utterance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ninja.errors import LatticeError
from ninja.lattice.lattice import ListRecord

Costs = tuple[float, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Hypothesis:
    """A sentence and its costs, which are unscaled natural-log costs, lower is better."""

    words: tuple[str, ...] | tuple[int, ...]  # names, or ids of a symbol table where there are no names
    graph: Costs  # [words + 1]: of each word, and of the end; all at the end if costs of words are unknown
    acoustic: Costs  # [words + 1]
    begin: tuple[int, ...] | None = None  # [words], frame in which each begins
    end: tuple[int, ...] | None = None  # [words], the frame after its last
    labels: tuple[tuple[int, ...], ...] | None = None  # [words + 1], alignment: transition ids in Kaldi
    line: int | None = field(default=None, compare=False)  # of the file, for messages

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
    """The hypotheses of an utterance, in the order of their file."""

    key: str
    hypotheses: tuple[Hypothesis, ...]
    frame_shift: float | None = None  # seconds, where there are times
    record: ListRecord | None = field(default=None, compare=False)  # other fields of the file

    def __repr__(self) -> str:
        first = f", the first {self.hypotheses[0]!r}" if self.hypotheses else ""
        return f"NBest({self.key!r}, {len(self.hypotheses)} hypotheses{first})"


def sentence(
    words: Sequence[str] | Sequence[int],
    graph_cost: float = 0.0,
    acoustic_cost: float = 0.0,
    line: int | None = None,
) -> Hypothesis:
    """Make a hypothesis with the costs of the whole sentence, which become those of its end."""
    none = (0.0,) * len(words)
    return Hypothesis(tuple(words), (*none, graph_cost), (*none, acoustic_cost), line=line)  # type: ignore[arg-type]


def with_silence(nbest: NBest) -> NBest:
    """Add an empty sentence at no cost to a list without hypotheses: the recogniser found no word."""
    return nbest if nbest.hypotheses else replace(nbest, hypotheses=(sentence(()),))


def check(nbest: NBest) -> None:
    """Check that costs, times and labels of hypotheses fit their words."""
    for number, one in enumerate(nbest.hypotheses, start=1):
        length = len(one.words)
        for name in ("graph", "acoustic", "labels"):
            values = getattr(one, name)
            if values is not None and len(values) != length + 1:
                message = f"hypothesis {number} has {length} words, but {len(values)} values of {name}; "
                raise LatticeError(message + f"{length + 1} are needed", key=nbest.key)
        lengths = [None if times is None else len(times) for times in (one.begin, one.end)]
        if lengths not in ([None, None], [length, length]):
            raise LatticeError(f"hypothesis {number} does not have a begin and an end for each word", key=nbest.key)
    if len({(one.begin is None, one.labels is None) for one in nbest.hypotheses if one.words}) > 1:
        raise LatticeError("some hypotheses have times or labels, and others have not", key=nbest.key)
