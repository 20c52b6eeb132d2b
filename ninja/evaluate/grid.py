"""Word errors on the best paths through lattices, for several sets of scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ninja.errors import OptionError
from ninja.evaluate.error_rate import ErrorRate, align
from ninja.evaluate.lexical import NormalizerName, lexical_references
from ninja.evaluate.normal_form import composed
from ninja.evaluate.scoring import Mode, count_absent, scored_keys
from ninja.evaluate.word_filters import WordFilter
from ninja.graph.best_path import best_path
from ninja.lattice import Lattice, Scales
from ninja.lattice.text import NONE, make_normalizer

Words = Sequence[str]


@dataclass(frozen=True, slots=True)
class Hypotheses:
    """The distinct best transcripts of a lattice for several sets of scales."""

    words: tuple[Words, ...]
    under: tuple[int, ...]  # [num_scales], index into `words` of the transcript for each set of scales


def filtered(hypotheses: Mapping[str, Hypotheses], word_filter: WordFilter) -> dict[str, Hypotheses]:
    """Apply a filter to all transcripts, running its script once."""
    lines = [(key, words) for key, texts in hypotheses.items() for words in texts.words]
    changed = iter(word_filter.lines(lines))
    return {key: replace(texts, words=tuple(next(changed) for _ in texts.words)) for key, texts in hypotheses.items()}


def hypotheses_under(lattice: Lattice, scales: Sequence[Scales]) -> Hypotheses:
    """Find the best transcript of a lattice for each set of scales; without a symbol table, words are decimal ids.

    Raises:
        LatticeError: No path leads from the start to a final state.
    """
    numbers: dict[bytes, int] = {}
    transcripts: list[Words] = []
    under = []
    for point in scales:
        words = best_path(lattice, point).words
        under.append(number := numbers.setdefault(words.tobytes(), len(transcripts)))
        if number == len(transcripts):
            transcripts.append(lattice.words.spell(words) if lattice.words else [str(word) for word in words.tolist()])
    return Hypotheses(tuple(transcripts), tuple(under))


@dataclass(frozen=True, slots=True)
class Grid:
    """Word errors for each of several sets of scales."""

    scales: tuple[Scales, ...]
    rates: tuple[ErrorRate, ...]
    best: int = field(init=False)  # index of the scales with the fewest word errors; the first in case of a tie

    def __post_init__(self) -> None:
        if not self.rates:
            raise OptionError("there are no scales to score; specify at least one")
        object.__setattr__(self, "best", min(range(len(self.rates)), key=lambda index: self.rates[index].errors))


def score_grid(
    references: Mapping[str, Words],
    hypotheses: Mapping[str, Hypotheses],
    scales: Sequence[Scales],
    mode: Mode = "strict",
    *,
    normalizer: NormalizerName = NONE,
) -> Grid:
    """Count the word errors for each of several sets of scales; each distinct transcript is aligned once.

    Args:
        references: Reference words by utterance id.
        hypotheses: Best transcripts for each set of scales, by utterance id.
        scales: The sets of scales, in the order of ``Hypotheses.under``.
        mode: Treatment of references without a hypothesis; see ``score``.
        normalizer: Normalizer applied before words are compared; see ``score``.

    Raises:
        NinjaError: See ``score``.
        OptionError: There are no scales.
    """
    absent = count_absent(references, hypotheses)
    empty = Hypotheses(((),), (0,) * len(scales))
    totals = [absent] * len(scales)
    normalizer = make_normalizer(normalizer)
    references = lexical_references(references, normalizer)
    for key in scored_keys(references, hypotheses, mode):
        texts = hypotheses.get(key, empty)
        transcripts = composed(texts.words if normalizer.is_identity else list(map(normalizer.words, texts.words)))
        rates = [align(references[key], words).rate() for words in transcripts]
        totals = [total + rates[number] for total, number in zip(totals, texts.under, strict=True)]
    return Grid(tuple(scales), tuple(totals))
