"""Word errors of the best paths of lattices under many scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ninja.errors import OptionError
from ninja.evaluate.error_rate import ErrorRate, align
from ninja.evaluate.scoring import Mode, count_absent, scored_keys
from ninja.evaluate.word_filters import WordFilter
from ninja.graph.best_path import best_path
from ninja.lattice import Lattice, Scales

Words = Sequence[str]


@dataclass(frozen=True, slots=True)
class Hypotheses:
    """The different transcripts of a lattice, and which of them is the best under each of some scales."""

    words: tuple[Words, ...]
    under: tuple[int, ...]


def filtered(found: Mapping[str, Hypotheses], how: WordFilter) -> dict[str, Hypotheses]:
    """Return transcripts changed by a filter, which sees all of them at once."""
    lines = [(key, words) for key, each in found.items() for words in each.words]
    changed = iter(how.lines(lines))
    return {key: replace(each, words=tuple(next(changed) for _ in each.words)) for key, each in found.items()}


def hypotheses_under(lattice: Lattice, scales: Sequence[Scales]) -> Hypotheses:
    """Find the best path under each of some scales; words are spelled, or ids where there is no symbol table.

    Raises:
        LatticeError: No path leads from the start to a final state.
    """
    numbers: dict[bytes, int] = {}
    found: list[Words] = []
    under = []
    for each in scales:
        words = best_path(lattice, each).words
        under.append(number := numbers.setdefault(words.tobytes(), len(found)))
        if number == len(found):
            found.append(lattice.words.spell(words) if lattice.words else [str(word) for word in words.tolist()])
    return Hypotheses(tuple(found), tuple(under))


@dataclass(frozen=True, slots=True)
class Grid:
    """Word errors under each of some scales."""

    scales: tuple[Scales, ...]
    rates: tuple[ErrorRate, ...]
    best: int = field(init=False)  # of fewest word errors; of equals the first

    def __post_init__(self) -> None:
        """Find the best."""
        if not self.rates:
            raise OptionError("there are no scales to score under")
        object.__setattr__(self, "best", min(range(len(self.rates)), key=lambda place: self.rates[place].errors))


def score_grid(
    references: Mapping[str, Words],
    found: Mapping[str, Hypotheses],
    scales: Sequence[Scales],
    mode: Mode = "strict",
) -> Grid:
    """Count the word errors under each of some scales; different transcripts of a lattice are aligned once each.

    Args:
        references: Words said, by key.
        found: Transcripts under these scales, by key.
        mode: As of ``score``.

    Raises:
        FormatError: As ``score`` raises.
        OptionError: There are no scales.
    """
    absent = count_absent(references, found)
    silent = Hypotheses(((),), (0,) * len(scales))
    totals = [absent] * len(scales)
    for key in scored_keys(references, found, mode):
        each = found.get(key, silent)
        rates = [align(references[key], words).rate() for words in each.words]
        totals = [total + rates[number] for total, number in zip(totals, each.under, strict=True)]
    return Grid(tuple(scales), tuple(totals))
