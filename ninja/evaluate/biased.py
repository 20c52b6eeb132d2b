"""Biased and unbiased word error rates: on the rare words a biasing list holds, and on all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ninja.errors import FormatError
from ninja.evaluate.biasing_lists import BiasingList
from ninja.evaluate.error_rate import Alignment, ErrorRate, Pair, align_at_costs, count_errors
from ninja.evaluate.scoring import Mode, count_absent, scored_keys

_INSERTION, _DELETION, _SUBSTITUTION = 3, 3, 4  # the benchmark's costs


@dataclass(frozen=True, slots=True)
class BiasedRate:
    """Word errors on rare words and on the others; add them up, or use ``sum(rates, BiasedRate())``.

    Each part counts all sentences, and as wrong those with an error of its own kind.
    """

    overall: ErrorRate = field(default_factory=ErrorRate)
    unbiased: ErrorRate = field(default_factory=ErrorRate)  # on words that are not in the utterance's rare list
    biased: ErrorRate = field(default_factory=ErrorRate)  # on words that are; insertions of such words

    def __add__(self, other: BiasedRate) -> BiasedRate:
        if not isinstance(other, BiasedRate):
            return NotImplemented
        return BiasedRate(self.overall + other.overall, self.unbiased + other.unbiased, self.biased + other.biased)

    def __str__(self) -> str:
        """Return the three lines the benchmark's own scorer prints."""
        parts = {"WER": self.overall, "U-WER": self.unbiased, "B-WER": self.biased}
        return "\n".join(
            f"{name}: error_rate={rate.wer}, ref_words={rate.words}, subs={rate.substitutions}, "
            f"ins={rate.insertions}, dels={rate.deletions}"
            for name, rate in parts.items()
        )


def score_biased(
    references: Mapping[str, Sequence[str]],
    hypotheses: Mapping[str, Sequence[str]],
    lists: Mapping[str, BiasingList],
    mode: Mode = "strict",
) -> BiasedRate:
    """Count word errors over a test set, apart on the rare words of each utterance and on the others.

    Args:
        references: Words said, by utterance id.
        hypotheses: Words recognised; ids without a reference are counted, not scored.
        lists: Biasing list of each reference; those of other utterances are left alone.
        mode: Of references without a hypothesis, as in ``score``.

    Raises:
        FormatError: A reference has no biasing list, or as in ``score``.
        OptionError: ``mode`` is none of the three.

    Source: Le et al. 2021, "Contextualized Streaming End-to-End Speech Recognition with Trie-Based Deep Biasing and
        Shallow Fusion"; its benchmark's score.py for the alignment and the rules of counting.
    """
    keys = scored_keys(references, hypotheses, mode)
    if unlisted := [key for key in keys if key not in lists]:
        raise FormatError(
            f"{len(unlisted)} of {len(keys)} references have no biasing list; an utterance without rare words needs "
            "an empty one",
            key=unlisted[0],
        )
    parts = (_rate(align(references[key], hypotheses.get(key, ())), lists[key].rare) for key in keys)
    absent = count_absent(references, hypotheses)
    return sum(parts, BiasedRate(absent, absent, absent))


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> Alignment:
    """Lay a hypothesis beside its reference at the benchmark's costs: substitution 4, insertion and deletion 3.

    So two substitutions are dearer than an insertion and a deletion around a word that fits, and the number of
    errors may be larger than of the alignment with the fewest. Ties count: they decide on which words errors fall.
    """
    return align_at_costs(reference, hypothesis, _INSERTION, _DELETION, _SUBSTITUTION)


def _rate(alignment: Alignment, rare: frozenset[str]) -> BiasedRate:
    unbiased: list[Pair] = []
    biased: list[Pair] = []
    for said, heard in alignment.pairs:
        (biased if (heard if said is None else said) in rare else unbiased).append((said, heard))
    return BiasedRate(alignment.rate(), count_errors(unbiased), count_errors(biased))
