"""Train n-gram models with interpolated, modified Kneser–Ney smoothing (``ninja train ngram``).

The count of an n-gram that has the full length or begins with ``<s>`` is the number of its occurrences; the count of
any other n-gram is the number of *distinct* words before it. A discount ``D`` is subtracted from each count ``a``, and
the discounted mass of a context is distributed according to the model of the next lower order:

    p(w | h) = (a(h w) − D) / a(h ·) + γ(h) p(w | h without its first word),   γ(h) = Σ D / a(h ·)

Unigrams are interpolated with the uniform distribution. The back-off model stores p of the n-grams in the text, and γ
as back-off weights.

Source: Chen and Goodman 1998, "An empirical study of smoothing techniques for language modeling"; counts of counts and
cutoffs as in kenlm, lm/builder/adjust_counts.cc, initial_probabilities.cc and interpolate.cc. The models equal
the output of kenlm's lmplz.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ninja import _lm
from ninja.errors import OptionError, counted, described, documented
from ninja.files.gzip import GzipWriter
from ninja.files.output import StandardOutput, opened
from ninja.lm.ngram.counts import Ngrams, Report, count_ngrams, encode
from ninja.lm.ngram.model import NgramLM
from ninja.lm.word_map import BOS, SPECIAL

ROWS = 1 << 16  # number of n-grams per write
STDOUT = "-"
NEVER = -99.0  # log10 probability that represents probability zero in ARPA files
MAX_ORDER = 16
_BOS = SPECIAL.index(BOS)
_UNK = SPECIAL.index("<unk>")

Numbers = npt.NDArray[np.float64]
FALLBACK = (0.5, 1.0, 1.5)  # discounts for counts 1, 2, and 3 or more that replace estimates; from lmplz


@documented
@dataclass(frozen=True, slots=True)
class NgramOptions:
    """Options for training an n-gram model."""

    order: int = described(3, "N-gram order.")
    min_count: int = described(1, "Replace words that occur less often than this with <unk>.")
    cutoffs: tuple[int, ...] = (1,)  # minimum counts of 2-grams, 3-grams, …; the last also applies to longer n-grams
    discounts: tuple[float, ...] | None = None  # for counts 1, 2, and 3 or more, or one for all; None = estimate
    unk_share: float | None = described(
        None, "Probability of <unk> in the distribution with which unigrams are interpolated.  [default: uniform]"
    )

    def __post_init__(self) -> None:
        if not 1 <= self.order <= MAX_ORDER:
            raise OptionError(f"order is {self.order}, but must be in [1, {MAX_ORDER}]")
        if self.min_count < 1:
            raise OptionError(f"min_count is {self.min_count}, but must be at least 1")
        rising = tuple(sorted(self.cutoffs)) == self.cutoffs
        if not self.cutoffs or self.cutoffs[0] < 1 or not rising:
            raise OptionError(
                f"cutoffs are {', '.join(map(str, self.cutoffs)) or 'empty'}, "
                "but must be 1 or more and must not decrease"
            )
        if len(self.cutoffs) > max(1, self.order - 1):
            most = f"at most one per n-gram length from 2 to {self.order}" if self.order > 1 else "only one"
            raise OptionError(f"there are {len(self.cutoffs)} cutoffs; specify {most}")
        if self.discounts is not None:
            if len(self.discounts) not in (1, 3):
                raise OptionError(
                    f"there are {len(self.discounts)} discounts; specify one, or three for counts 1, 2, and 3 or more"
                )
            for count, discount in enumerate(self.discounts, start=1):
                if not 0 < discount <= count:
                    raise OptionError(f"the discount for count {count} is {discount:g}, but must be in (0, {count}]")
        if self.unk_share is not None and not 0 < self.unk_share <= 1:
            raise OptionError(f"unk_share is {self.unk_share:g}, but must be in (0, 1]")

    def cutoff(self, length: int) -> int:
        """Return the minimum count of n-grams with a given length."""
        return 1 if length == 1 else self.cutoffs[min(length - 2, len(self.cutoffs) - 1)]


@dataclass(frozen=True, slots=True)
class Discounts:
    """Discounts for the n-grams of one length."""

    of_count: tuple[float, float, float]  # for counts 1, 2, and 3 or more
    source: Literal["estimated", "continued", "fallback", "given"]  # see `_discounts`
    counts_of_counts: tuple[int, int, int, int]  # numbers of n-grams with counts 1, 2, 3 and 4


@dataclass(frozen=True, slots=True)
class BackoffNgrams:
    """The n-grams of one length in a back-off model, sorted by context."""

    prefix: npt.NDArray[np.int32]  # index of the n-gram without its last word; 0 for unigrams
    word: npt.NDArray[np.int32]  # the last word
    logprob: npt.NDArray[np.float64]  # log10 P(last word | earlier words)
    backoff: npt.NDArray[np.float64]  # log10 back-off weight of the n-gram as a context; 0 if it is not a context

    def __len__(self) -> int:
        return len(self.word)


@dataclass(frozen=True, slots=True, eq=False)
class TrainedNgram:
    """A trained n-gram model, and statistics of its training text."""

    words: tuple[str, ...]  # the vocabulary in the order of ids; <s>, </s> and <unk> are first
    lengths: tuple[BackoffNgrams, ...]  # n-grams of each length from 1
    num_counted: tuple[int, ...]  # number of n-grams of each length before cutoffs
    discounts: tuple[Discounts, ...]  # for each length
    num_sentences: int
    num_words: int  # in the text, without <s> and </s>
    num_unknown: int  # number of words replaced with <unk>
    unk_words: int  # number of distinct words replaced with <unk>
    notes: tuple[str, ...]  # deviations from the options, one line for each

    @property
    def order(self) -> int:
        """N-gram order."""
        return len(self.lengths)

    def write_arpa(self, path: str | os.PathLike[str]) -> None:
        """Write the model in ARPA format, compressed if the name ends in ``.gz``; ``-`` writes to standard output."""
        path = os.fspath(path)
        if path == STDOUT:
            output = StandardOutput()
            for block in self._blocks():
                output.write(block)
            output.finish()
            return
        with opened(path) as file:
            packed = GzipWriter(file) if path.endswith(".gz") else None
            for block in self._blocks():
                (packed or file).write(block)
            if packed is not None:
                packed.close()

    def as_language_model(self, name: str = "the trained model") -> NgramLM:
        """Return the model that `ninja.lm.load` would load from the ARPA file; `name` is the file name in messages."""
        reader = _lm.ArpaReader(name, sum(map(len, self.lengths)))
        for block in self._blocks():
            reader.feed(block)
        model = NgramLM(reader.finish()[0], self.words, name)
        model.unk_words = self.unk_words or None
        return model

    def _blocks(self) -> Iterator[bytes]:
        """Yield the ARPA file in blocks of whole lines."""
        heads = [f"ngram {length}={len(ngrams)}\n" for length, ngrams in enumerate(self.lengths, start=1)]
        yield ("\\data\\\n" + "".join(heads)).encode()
        spelled = np.array(self.words, object)
        for length, ngrams in enumerate(self.lengths, start=1):
            yield f"\n\\{length}-grams:\n".encode()
            for first in range(0, len(ngrams), ROWS):
                rows = slice(first, first + ROWS)
                columns: list[list[str]] = []
                number: npt.NDArray[Any] = np.arange(len(ngrams))[rows]
                for shorter in reversed(self.lengths[:length]):
                    columns.insert(0, spelled[shorter.word[number]].tolist())
                    number = shorter.prefix[number]
                # Eight significant digits are about as precise as float32.
                logprob = map("%.8g\t".__mod__, ngrams.logprob[rows].tolist())
                text = map(" ".join, zip(*columns, strict=True))
                weight = ngrams.backoff[rows]
                tail = map("\t%.8g\n".__mod__, weight.tolist()) if weight.any() else repeat("\n")
                yield "".join(part for row in zip(logprob, text, tail, strict=False) for part in row).encode()
        yield b"\n\\end\\\n"


def train_ngram(
    sentences: Iterable[Sequence[str]],
    options: NgramOptions | None = None,
    *,
    vocabulary: Iterable[str] | None = None,
    classes: Iterable[str] = (),
    path: str | os.PathLike[str] | None = None,
    progress: Report | None = None,
) -> TrainedNgram:
    """Train an n-gram model with interpolated, modified Kneser–Ney smoothing.

    Class tokens (``@name``) are treated as ordinary words. The function uses 8 bytes of memory per word of the text,
    and about 100 bytes per distinct n-gram.

    Args:
        sentences: Word sequences without ``<s>`` and ``</s>``; see `ninja.lm.text.read_sentences`.
        options: Training options.
        vocabulary: The model's words; other words are replaced with ``<unk>``.  [default: all words that occur at least
            ``min_count`` times]
        classes: Class tokens that are always part of the vocabulary.
        path: Path of the text, for messages.
        progress: Called with progress messages.

    Raises:
        FormatError: The text is empty, a sentence contains ``<s>`` or ``</s>``, or a word is empty or contains
            whitespace or a lone surrogate.
        OptionError: An option is out of range, `vocabulary` and `min_count` are both specified, a sentence is a string,
            the text is too long, or `unk_share` leaves probability 0 for a word that does not occur in the text.
        VocabularyError: All words were replaced with ``<unk>``.
    """
    options = options or NgramOptions()
    if vocabulary is not None and options.min_count > 1:
        raise OptionError("vocabulary and min_count both select the words of the model; specify only one of them")
    text = encode(
        sentences,
        vocabulary=vocabulary,
        min_count=options.min_count,
        keep=classes,
        path=None if path is None else os.fspath(path),
        report=progress,
    )
    counted = count_ngrams(text, options.order, progress)
    notes = []
    if len(counted) < options.order:
        notes.append(f"no sentence is long enough for {options.order}-grams; the order is reduced to {len(counted)}")
    discounts: list[Discounts] = []
    probability: list[Numbers] = []
    backoff: list[Numbers] = []
    retained: list[npt.NDArray[np.bool_]] = []
    begins = np.empty(0, bool)
    for length, ngrams in enumerate(counted, start=1):
        begins = ngrams.word == _BOS if length == 1 else begins[ngrams.prefix]
        count = _effective(ngrams, counted[length] if length < len(counted) else None, begins)
        if length == 1:
            count[_BOS] = 0  # <s> is never predicted
        discounts.append(_discounts(count, options))
        retained.append(ngrams.count >= options.cutoff(length) if length > 1 else np.ones(len(ngrams), bool))
        shorter = _uniform(len(text.words), options.unk_share) if length == 1 else probability[-1][ngrams.suffix]
        weight, interpolated = _interpolated(ngrams.prefix, count, retained[-1], discounts[-1], shorter)
        backoff.append(weight)
        probability.append(interpolated)
        notes += _notes(length, discounts[-1])
    _check(probability[0], text.words)
    return TrainedNgram(
        words=text.words,
        lengths=_without_cut(counted, probability, [*backoff[1:], np.ones(1)], retained),
        num_counted=tuple(map(len, counted)),
        discounts=tuple(discounts),
        num_sentences=text.num_sentences,
        num_words=text.num_words,
        num_unknown=text.num_unknown,
        unk_words=text.unk_words,
        notes=tuple(notes),
    )


def _effective(ngrams: Ngrams, longer: Ngrams | None, begins: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the Kneser–Ney counts of n-grams; `begins` is true for n-grams that begin with ``<s>``."""
    if longer is None:
        return ngrams.count.copy()
    return np.where(begins, ngrams.count, np.bincount(longer.suffix, minlength=len(ngrams)))


def _discounts(count: npt.NDArray[np.int64], options: NgramOptions) -> Discounts:
    """Return the specified discounts, or estimate them from counts of counts, as in kenlm's adjust_counts.cc."""
    n1, n2, n3, n4 = (int(times) for times in np.bincount(np.minimum(count, 5), minlength=6)[1:5])
    counts_of_counts = (n1, n2, n3, n4)
    if options.discounts is not None:
        fixed = options.discounts * (3 // len(options.discounts))
        return Discounts((fixed[0], fixed[1], fixed[2]), "given", counts_of_counts)
    if not n1 or not n2:
        return Discounts(FALLBACK, "fallback", counts_of_counts)
    # Texts generated from patterns have few singletons, so the estimates may be undefined or out of range. Then the
    # discount of count k is k Y, which equals the estimate if (k + 1) n[k + 1] / n[k] = 2 k n2 / n1.
    y = n1 / (n1 + 2 * n2)
    if n3:
        of_count = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
        if all(0 < discount <= times for times, discount in enumerate(of_count, start=1)):
            return Discounts(of_count, "estimated", counts_of_counts)
    return Discounts((y, 2 * y, 3 * y), "continued", counts_of_counts)


def _notes(length: int, discounts: Discounts) -> list[str]:
    """Return notes about discounts that could not be estimated."""
    if discounts.source in ("estimated", "given"):
        return []
    counts = ", ".join(map(str, discounts.counts_of_counts))
    values = ", ".join(f"{discount:.4g}" for discount in discounts.of_count)
    source = "extrapolated from counts 1 and 2" if discounts.source == "continued" else "the fallback"
    return [
        f"the numbers of {length}-grams that occur 1, 2, 3 and 4 times, {counts}, do not allow discounts to be "
        f"estimated; using {values} ({source})"
    ]


def _uniform(num_words: int, unk_share: float | None) -> Numbers:
    """Return the distribution with which unigrams are interpolated; it is uniform except for ``<unk>`` and ``<s>``."""
    share = 1 / (num_words - 1) if unk_share is None else unk_share
    uniform = np.full(num_words, (1 - share) / (num_words - 2) if num_words > 2 else 0.0)
    uniform[_UNK], uniform[_BOS] = share, 0.0
    return uniform


def _interpolated(
    prefix: npt.NDArray[np.int32],
    count: npt.NDArray[np.int64],
    retained: npt.NDArray[np.bool_],
    discounts: Discounts,
    shorter: Numbers,
) -> tuple[Numbers, Numbers]:
    """Interpolate the n-grams of one length with the shorter n-grams.

    Args:
        prefix: Index of the context of each n-gram, [n].
        count: Kneser–Ney count of each n-gram, [n].
        retained: Whether the count of each n-gram reaches the cutoff, [n].
        discounts: Discounts for this length.
        shorter: Probability of each n-gram without its first word, [n].

    Returns:
        (weights, probabilities): the back-off weight γ of each context, [max(prefix) + 1], and the probability of each
        n-gram, [n].
    """
    discount = np.array([0.0, *discounts.of_count])[np.minimum(count, 3)]
    total = np.bincount(prefix, count)
    discounted = np.bincount(prefix, np.where(retained, discount, count))
    weight = np.divide(discounted, total, out=np.ones(len(total)), where=total > 0)
    # The whole count of an n-gram below the cutoff is discounted, so that its probability is the back-off probability.
    direct = np.where(retained, (count - discount) / np.maximum(total, 1)[prefix], 0.0)
    return weight, direct + weight[prefix] * shorter


def _check(probability: Numbers, words: Sequence[str]) -> None:
    impossible = np.flatnonzero(probability <= 0)
    impossible = impossible[impossible != _BOS]
    if len(impossible):
        examples = ", ".join(words[word] for word in impossible[:3])
        raise OptionError(
            f"{counted(len(impossible), 'word')} ({examples}{', …' if len(impossible) > 3 else ''}) would have "
            "probability 0; "
            "set unk_share below 1"
        )


def _without_cut(
    counted: Sequence[Ngrams],
    probability: Sequence[Numbers],
    backoff: Sequence[Numbers],
    retained: Sequence[npt.NDArray[np.bool_]],
) -> tuple[BackoffNgrams, ...]:
    """Remove n-grams below the cutoffs; every context remains, because cutoffs do not decrease with the length."""
    lengths: list[BackoffNgrams] = []
    index = np.zeros(1, np.int32)  # new index of each n-gram that is one word shorter
    for ngrams, p, weight, mask in zip(counted, probability, backoff, retained, strict=True):
        gamma = np.ones(len(ngrams))
        gamma[: len(weight)] = weight
        with np.errstate(divide="ignore"):
            logprob = np.maximum(np.log10(p[mask]), NEVER)
        lengths.append(BackoffNgrams(index[ngrams.prefix[mask]], ngrams.word[mask], logprob, np.log10(gamma[mask])))
        index = np.cumsum(mask, dtype=np.int32) - 1
    return tuple(lengths)
