"""Choosing acoustic scale and word penalty of lattices as they are, without any language model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from ninja.errors import FormatError, NinjaError, OptionError
from ninja.evaluate import edits
from ninja.graph import best_path
from ninja.lattice import Lattice, Scales
from ninja.log import Log
from ninja.tune.search import Axis, Search
from ninja.tune.weights import ACOUSTIC_FACTORS, DIGITS, WORD_PENALTIES

Keyed = tuple[str, Lattice]


@dataclass(frozen=True, slots=True)
class TunedScales:
    """The outcome of ``tune_first_pass``; word error rates in percent."""

    scales: Scales
    wer: float
    wer_before: float  # at the scales to start with
    edges: tuple[str, ...]  # which scales lie at the end of what was tried
    num_lattices: int

    @property
    def story(self) -> str:
        """Word error rates before and after."""
        return f"WER {self.wer_before:.2f} with the scales given, {self.wer:.2f} with these"


def tune_first_pass(
    lattices: Iterable[Keyed],
    references: Mapping[str, Sequence[str]],
    start: Scales = Scales(0.1),
    *,
    log: Log | None = None,
) -> TunedScales:
    """Choose the acoustic scale and the word penalty under which the best paths have the fewest word errors.

    Every pair of a coarse grid about the start is tried, then one after the other on ever shorter lines about the best.
    The rates are those of the best paths at the scales as they are returned, which have four digits behind the point.

    Args:
        lattices: A development set, with symbol tables; it is kept in memory. Those without a reference are left out.
        references: Words said, by key.
        start: The scales to start with; the LM scale stays as it is.
        log: Takes lattices that have no path.

    Raises:
        FormatError: No lattice has a reference.
        OptionError: The acoustic scale to start with is 0.
        NinjaError: A lattice has no path, and there is no log.
    """
    if start.acoustic == 0.0:
        raise OptionError("the acoustic scale to start with is 0, so that no other would be tried; give another")
    known = []
    for key, lattice in lattices:
        if key not in references:
            continue
        try:
            known.append(_Known.of(lattice, references[key], start))
        except NinjaError as error:
            (log or Log()).fail(error)
    if not known:
        raise FormatError("no lattice has a reference; do the utterance ids belong together?")
    if log is not None:
        log.lattices += len(known)
    search = _Search(known, start)
    best = search.best()
    edges = tuple(search.edges(best))
    best = replace(best, acoustic=round(best.acoustic, DIGITS), word_penalty=round(best.word_penalty, DIGITS))
    fewest, as_given = search.ranks([best, start])
    words = max(sum(each.reference_words for each in known), 1)
    return TunedScales(best, 100.0 * fewest / words, 100.0 * as_given / words, edges, len(known))


@dataclass(slots=True)
class _Known:
    """A lattice with its reference, and the errors of the transcripts that were met."""

    lattice: Lattice
    said: list[int]  # -1: a word that the lattice lacks
    errors_of: dict[bytes, int] = field(default_factory=dict)  # by the bytes of the words

    @property
    def reference_words(self) -> int:
        return len(self.said)

    @classmethod
    def of(cls, lattice: Lattice, reference: Sequence[str], start: Scales) -> _Known:
        words = lattice.words
        numbers = (None if words is None else words.id(each) for each in reference)
        made = cls(lattice, [-1 if number is None else number for number in numbers])
        made.errors(start)  # whether there is a path
        return made

    def errors(self, scales: Scales) -> int:
        words = best_path(self.lattice, scales).words
        name = words.tobytes()
        if name not in self.errors_of:
            self.errors_of[name] = edits(self.said, words.tolist())
        return self.errors_of[name]


class _Search(Search[Scales]):
    """The search for the scales with the fewest word errors."""

    rounds, num_on_line = 4, 11

    def __init__(self, lattices: Sequence[_Known], start: Scales) -> None:
        self._lattices = lattices
        self._start = start
        self._ranks: dict[Scales, int] = {}
        factors = start.acoustic * ACOUSTIC_FACTORS
        low, high = float(factors[0]), float(factors[-1])
        penalties = start.word_penalty + WORD_PENALTIES
        self._grid = (factors.tolist(), penalties.tolist())
        self.axes = [
            Axis("acoustic_scale", low, high, (high - low) / (factors.size - 1)),
            Axis("word_penalty", float(penalties[0]), float(penalties[-1]), 0.5),
        ]

    def grid(self) -> list[Scales]:
        pairs = product(*self._grid)
        return [*(replace(self._start, acoustic=scale, word_penalty=penalty) for scale, penalty in pairs), self._start]

    def ranks(self, points: Sequence[Scales]) -> list[int]:
        for point in points:
            if point not in self._ranks:
                self._ranks[point] = sum(each.errors(point) for each in self._lattices)
        return [self._ranks[point] for point in points]

    def preference(self, point: Scales) -> float:
        """Return how far away the start is, in steps of the grid."""
        ratio = abs(math.log2(point.acoustic / self._start.acoustic)) / 0.25
        return math.hypot(ratio, (point.word_penalty - self._start.word_penalty) / 0.5)

    def value(self, point: Scales, axis: int) -> float:
        return (point.acoustic, point.word_penalty)[axis]

    def moved(self, point: Scales, axis: int, value: float) -> Scales:
        changed: dict[str, Any] = {("acoustic", "word_penalty")[axis]: value}
        return replace(point, **changed)
