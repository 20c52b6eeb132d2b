"""Bootstrap confidence intervals for word error rates, and paired tests for differences between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError, check_range, counted, named
from ninja.evaluate.error_rate import edits
from ninja.evaluate.normal_form import composed_texts
from ninja.evaluate.scoring import Mode, scored_keys

REPLICATIONS = 10_000
EXACT_UNITS = 13  # maximum number of differences for which the paired test enumerates all assignments of signs
_STANDARD_ERRORS = 1.96  # half width of a 95% interval of a normal distribution, in standard deviations
_MAX_DRAWN = 1 << 20  # maximum number of utterances drawn at a time, to limit memory

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate of an error rate, or of a difference between rates, and its 95% confidence interval, in percent."""

    mean: float  # the estimate; for a bootstrap, the mean over all replications
    half_width: float

    @property
    def low(self) -> float:
        """Lower end of the interval in percent."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """Upper end of the interval in percent."""
        return self.mean + self.half_width

    def __contains__(self, percent: float) -> bool:
        return abs(percent - self.mean) <= self.half_width + 1e-9 * max(1.0, abs(percent))


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Word error rates of one or two systems, with confidence intervals."""

    first: Interval
    second: Interval | None = None
    difference: Interval | None = None  # second minus first; negative if the second system is better
    probability: float | None = None  # percentage of replications in which the second system has fewer errors
    p_value: float | None = None  # probability of a difference at least as large if the systems were equally good

    def __str__(self) -> str:
        """Format the results in the format of Kaldi's compute-wer-bootci."""
        lines = [
            f"Set{number}: %WER {rate.mean:.2f} 95% Conf Interval [ {rate.low:.2f}, {rate.high:.2f} ]"
            for number, rate in enumerate((self.first, self.second), start=1)
            if rate is not None
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
    *,
    speakers: Mapping[str, str] | None = None,
) -> Bootstrap:
    """Estimate confidence intervals for word error rates.

    Each replication draws, with replacement, the same number of utterances as in the test set. Both systems are scored
    on the same utterances. Replications without reference words are ignored.

    The p-value of the difference between two systems is computed by an approximate randomization test. Its null
    hypothesis is that exchanging the outputs of the two systems for any utterance does not affect the distribution of
    errors.

    Args:
        references: Reference words by utterance id.
        hypotheses: Words recognised by the system, by utterance id.
        others: Words recognised by a second system, by utterance id.
        mode: Treatment of references without a hypothesis; see ``score``.
        replications: Number of replications, at least 1.
        seed: Seed of the random generator, 0 or more; the same seed gives the same results.
        speakers: Speakers by utterance id. If they are specified, whole speakers instead of utterances are drawn and
            exchanged, because the errors of a speaker are not independent.

    Raises:
        FormatError: The references contain no words, or an utterance has no speaker; see also ``score``.
        OptionError: ``replications`` is below 1, ``seed`` is below 0, or ``mode`` is unknown.

    Source: Bisani and Ney, 2004, "Bootstrap estimates for confidence intervals in ASR performance evaluation"; Kaldi,
        bin/compute-wer-bootci.cc; Noreen, 1989, "Computer-intensive methods for testing hypotheses".
    """
    check_range("replications", replications, least=1)
    check_range("seed", seed, least=0)
    systems = [hypotheses] if others is None else [hypotheses, others]
    both = hypotheses if others is None else {key: () for key in hypotheses if key in others}
    # In mode "all", each system must have at least one hypothesis.
    *_, keys = (scored_keys(references, texts, mode) for texts in (systems if mode == "all" else [both]))
    words = np.array([len(references[key]) for key in keys], np.int64)
    if not words.any():
        raise FormatError(
            "the references contain no words, so the word error rate is undefined; specify other references"
        )
    reference, *outputs = map(composed_texts, [references, *systems])
    errors = [np.array([edits(reference[key], texts.get(key, ())) for key in keys], np.int64) for texts in outputs]
    if speakers is not None:
        words, *errors = sum_by_speaker([words, *errors], keys, speakers)
    resampled_words, *resampled = resample([words, *errors], replications, seed)
    resampled = [errors_of_system[resampled_words > 0] for errors_of_system in resampled]
    resampled_words = resampled_words[resampled_words > 0]
    if not len(resampled_words):
        raise FormatError("no replication contains a reference word; use more replications")
    rates = [100.0 * errors_of_system / resampled_words for errors_of_system in resampled]
    if others is None:
        return Bootstrap(_interval(rates[0]))
    fewer = 100.0 * float((resampled[1] < resampled[0]).mean())
    p_value = paired_test(errors[1] - errors[0], replications, seed)
    return Bootstrap(_interval(rates[0]), _interval(rates[1]), _interval(rates[1] - rates[0]), fewer, p_value)


def sum_by_speaker(counts: Sequence[Counts], keys: Sequence[str], speakers: Mapping[str, str]) -> list[Counts]:
    """Sum the counts over all utterances of each speaker.

    Args:
        counts: Arrays with one count per utterance, int64 [num_utterances].
        keys: Utterance ids.
        speakers: Speakers by utterance id.

    Returns:
        Arrays with one count per speaker, int64 [num_speakers], ordered by the first utterance of each speaker.

    Raises:
        FormatError: An utterance has no speaker.
    """
    if missing := [key for key in keys if key not in speakers]:
        utterances = counted(len(missing), "utterance has", "utterances have")
        raise FormatError(f"{utterances} no speaker; add to utt2spk: {named(missing)}")
    index: dict[str, int] = {}
    rows = np.array([index.setdefault(speakers[key], len(index)) for key in keys], np.int64)
    sums = [np.zeros(len(index), np.int64) for _ in counts]
    for total, count in zip(sums, counts, strict=True):
        np.add.at(total, rows, count)
    return sums


def paired_test(differences: Counts, replications: int = REPLICATIONS, seed: int = 0) -> float:
    """Compute the two-sided p-value for the null hypothesis that two systems are equally good.

    Each difference is assigned a random sign. The p-value is the fraction of assignments for which the sum of the
    signed differences is at least as far from zero as the sum of the observed differences. If at most ``EXACT_UNITS``
    differences are not zero, all assignments are enumerated instead.

    Args:
        differences: Errors of the second system minus errors of the first, int64 [num_utterances] or [num_speakers].
        replications: Number of random assignments.
        seed: Seed of the random generator.

    Returns:
        The p-value, above 0 and at most 1.
    """
    differences = differences[differences != 0]
    observed = abs(int(differences.sum()))
    size = len(differences)
    if size <= EXACT_UNITS:
        signs = 2 * (np.arange(1 << size)[:, None] >> np.arange(size) & 1) - 1  # [assignments, size]
        return float((np.abs(signs @ differences) >= observed).mean())
    generator = np.random.default_rng(seed)
    extreme = 0
    step = max(1, _MAX_DRAWN // size)
    for begin in range(0, replications, step):
        signs = 2 * generator.integers(0, 2, (min(step, replications - begin), size), np.int8) - 1
        extreme += int((np.abs(signs @ differences) >= observed).sum())
    return (extreme + 1) / (replications + 1)  # also count the observed assignment


def resample(counts: Sequence[Counts], replications: int, seed: int) -> list[Counts]:
    """Resample a test set with replacement, and sum the counts of each replication.

    Args:
        counts: One or more arrays of counts per utterance or speaker, int64 [size] each.
        replications: Number of replications.
        seed: Seed of the random generator.

    Returns:
        One array of sums per input array, int64 [replications]; all arrays use the same draws.
    """
    size = len(counts[0])
    generator = np.random.default_rng(seed)
    sums = [np.zeros(replications, np.int64) for _ in counts]
    step = max(1, _MAX_DRAWN // size)
    for begin in range(0, replications, step):
        end = min(replications, begin + step)
        chosen = generator.integers(0, size, (end - begin, size), np.int32)  # [end - begin, size]
        for total, count in zip(sums, counts, strict=True):
            total[begin:end] = count[chosen].sum(axis=1)
    return sums


def _interval(rates: npt.NDArray[np.float64]) -> Interval:
    # The mean of squares minus the square of the mean is not used, because rounding could make it negative.
    return Interval(float(rates.mean()), _STANDARD_ERRORS * float(rates.std()))
