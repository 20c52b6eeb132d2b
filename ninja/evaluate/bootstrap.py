"""Confidence intervals of word error rates, and of their differences, by the bootstrap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError, check_range
from ninja.evaluate.error_rate import edits
from ninja.evaluate.scoring import Mode, scored_keys

REPLICATIONS = 10_000
_STANDARD_ERRORS = 1.96  # of a normal distribution, 95 % lie within as many standard deviations of its mean
_DRAWN_AT_ONCE = 1 << 20  # utterances; bounds the memory

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over the replications, and 95 % confidence on either side of it; all in percent."""

    mean: float
    half_width: float

    @property
    def low(self) -> float:
        """Lower end."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """Upper end."""
        return self.mean + self.half_width

    def __contains__(self, percent: float) -> bool:
        return abs(percent - self.mean) <= self.half_width + 1e-9 * max(1.0, abs(percent))


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Word error rates of one or two systems, with their confidence."""

    first: Interval
    second: Interval | None = None
    difference: Interval | None = None  # second less first: below 0 where the second is better
    probability: float | None = None  # in percent, that the second makes fewer errors than the first

    def __str__(self) -> str:
        """Return the lines that Kaldi's compute-wer-bootci prints."""
        lines = [
            f"Set{number}: %WER {each.mean:.2f} 95% Conf Interval [ {each.low:.2f}, {each.high:.2f} ]"
            for number, each in enumerate((self.first, self.second), start=1)
            if each is not None
        ]
        if self.probability is not None:
            lines.append(f"Probability of Set2 improving Set1: {self.probability:.2f}")
        return "\n".join(lines)


def bootstrap(
    references: Mapping[str, Sequence[str]],
    hypotheses: Mapping[str, Sequence[str]],
    others: Mapping[str, Sequence[str]] | None = None,
    mode: Mode = "strict",
    replications: int = REPLICATIONS,
    seed: int = 0,
) -> Bootstrap:
    """Estimate confidence intervals of word error rates.

    Each replication draws as many utterances as there are, some more than once; both systems are scored on the same
    ones. A replication without a single word said has no rate and is left out.

    Args:
        references: As in ``score``.
        hypotheses: As in ``score``.
        others: Words recognised by a second system.
        mode: Of references without a hypothesis, or without one of the two: as in ``score``.
        seed: Of the generator; the same seed gives the same figures.

    Raises:
        FormatError: As ``score``; also where the references hold no word.
        OptionError: ``replications`` is below 1, ``seed`` below 0, or ``mode`` is none of the three.

    Source: Bisani and Ney, 2004, "Bootstrap estimates for confidence intervals in ASR performance evaluation"; Kaldi,
        bin/compute-wer-bootci.cc.
    """
    check_range("replications", replications, least=1)
    check_range("seed", seed, least=0)
    systems = [hypotheses] if others is None else [hypotheses, others]
    both = hypotheses if others is None else {key: () for key in hypotheses if key in others}
    # Where all references count, each system must have a hypothesis for at least one.
    *_, keys = (scored_keys(references, each, mode) for each in (systems if mode == "all" else [both]))
    words = np.array([len(references[key]) for key in keys], np.int64)
    if not words.any():
        raise FormatError("the references hold no word: there is no word error rate")
    errors = [np.array([edits(references[key], each.get(key, ())) for key in keys], np.int64) for each in systems]
    drawn_words, *drawn = resample([words, *errors], replications, seed)
    drawn = [each[drawn_words > 0] for each in drawn]
    drawn_words = drawn_words[drawn_words > 0]
    if not len(drawn_words):
        raise FormatError("no replication drew a single word said; ask for more of them")
    rates = [100.0 * each / drawn_words for each in drawn]
    if others is None:
        return Bootstrap(_interval(rates[0]))
    fewer = 100.0 * float((drawn[1] < drawn[0]).mean())
    return Bootstrap(_interval(rates[0]), _interval(rates[1]), _interval(rates[1] - rates[0]), fewer)


def resample(counts: Sequence[Counts], replications: int, seed: int) -> list[Counts]:
    """Draw utterances with replacement, as many as there are, and add up their counts, int64 [utterances] each.

    Returns:
        Sums, int64 [replications] for each of ``counts``; a replication is made of the same utterances in all.
    """
    size = len(counts[0])
    generator = np.random.default_rng(seed)
    sums = [np.zeros(replications, np.int64) for _ in counts]
    step = max(1, _DRAWN_AT_ONCE // size)
    for begin in range(0, replications, step):
        end = min(replications, begin + step)
        chosen = generator.integers(0, size, (end - begin, size), np.int32)  # [replications at once, utterances]
        for total, each in zip(sums, counts, strict=True):
            total[begin:end] = each[chosen].sum(axis=1)
    return sums


def _interval(rates: npt.NDArray[np.float64]) -> Interval:
    # About their mean, not as the mean of squares less the square of the mean, which may come out below 0.
    return Interval(float(rates.mean()), _STANDARD_ERRORS * float(rates.std()))
