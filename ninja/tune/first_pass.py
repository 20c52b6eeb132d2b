"""Choice of the acoustic scale and the word penalty of lattices, without a language model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from ninja.errors import FormatError, NinjaError, OptionError
from ninja.graph import best_path
from ninja.lattice import Lattice, Scales
from ninja.lattice.text import LexicalForms
from ninja.log import Log
from ninja.tune.search import Axis, Search
from ninja.tune.weights import ACOUSTIC_FACTORS, DIGITS, WORD_PENALTIES
from ninja.tune.word_errors import Reference

Keyed = tuple[str, Lattice]


@dataclass(frozen=True, slots=True)
class TunedScales:
    """The result of ``tune_first_pass``; word error rates in percent."""

    scales: Scales
    wer: float
    wer_before: float  # at the initial scales
    edges: tuple[str, ...]  # scales at the ends of their ranges
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
    forms: LexicalForms | None = None,
    log: Log | None = None,
) -> TunedScales:
    """Choose the acoustic scale and the word penalty with the fewest word errors of the best paths.

    A coarse grid around the start is searched first, then each scale alternately on shorter and shorter lines around
    the best point. The rates are those at the returned scales, which are rounded to four decimal places.

    Args:
        lattices: A development set with symbol tables, which is kept in memory. Lattices without a reference are
            ignored.
        references: Reference words by key.
        start: The initial scales; the LM scale is kept.
        forms: Lexical forms, by which words are compared.
        log: Log of lattices without a path.

    Raises:
        FormatError: No lattice has a reference.
        OptionError: The initial acoustic scale is 0.
        NinjaError: A lattice has no path, and there is no log.
    """
    if start.acoustic == 0.0:
        raise OptionError("the initial acoustic scale is 0, so no other scale would be tried; set a nonzero scale")
    utterances = []
    for key, lattice in lattices:
        if key not in references:
            continue
        try:
            utterances.append(_Utterance.of(lattice, references[key], start, forms or LexicalForms()))
        except NinjaError as error:
            (log or Log()).fail(error)
    if not utterances:
        raise FormatError("no lattice has a reference; are these utterance ids of the same set?")
    if log is not None:
        log.lattices += len(utterances)
    search = _Search(utterances, start)
    best = search.best()
    edges = tuple(search.edges(best))
    best = replace(best, acoustic=round(best.acoustic, DIGITS), word_penalty=round(best.word_penalty, DIGITS))
    fewest, initial = search.ranks([best, start])
    words = max(sum(len(utterance.reference.ids) for utterance in utterances), 1)
    return TunedScales(best, 100.0 * fewest / words, 100.0 * initial / words, edges, len(utterances))


@dataclass(slots=True)
class _Utterance:
    """A lattice with its reference, and the cached errors of its transcripts."""

    lattice: Lattice
    reference: Reference
    errors_of: dict[bytes, int] = field(default_factory=dict)  # by the bytes of the words

    @classmethod
    def of(cls, lattice: Lattice, reference: Sequence[str], start: Scales, forms: LexicalForms) -> _Utterance:
        utterance = cls(lattice, Reference.of(lattice, reference, forms))
        utterance.errors(start)  # raises if there is no path
        return utterance

    def errors(self, scales: Scales) -> int:
        words = best_path(self.lattice, scales).words
        name = words.tobytes()
        if name not in self.errors_of:
            self.errors_of[name] = self.reference.errors(words)
        return self.errors_of[name]


class _Search(Search[Scales]):
    """The search for the scales with the fewest word errors."""

    rounds, num_on_line = 4, 11

    def __init__(self, utterances: Sequence[_Utterance], start: Scales) -> None:
        self._utterances = utterances
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
                self._ranks[point] = sum(utterance.errors(point) for utterance in self._utterances)
        return [self._ranks[point] for point in points]

    def preference(self, point: Scales) -> float:
        """Return the distance from the start in steps of the grid."""
        ratio = abs(math.log2(point.acoustic / self._start.acoustic)) / 0.25
        return math.hypot(ratio, (point.word_penalty - self._start.word_penalty) / 0.5)

    def value(self, point: Scales, axis: int) -> float:
        return (point.acoustic, point.word_penalty)[axis]

    def moved(self, point: Scales, axis: int, value: float) -> Scales:
        changed: dict[str, Any] = {("acoustic", "word_penalty")[axis]: value}
        return replace(point, **changed)
