"""Count the n-grams of a text."""

from __future__ import annotations

import itertools
import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError, OptionError, VocabularyError
from ninja.lm.word_map import BOS, EOS, SPECIAL

BLOCK = 1 << 22  # number of text positions, or of n-grams, that are sorted in one block
MOST = 2**31 - 1  # maximum number of text positions, and of n-grams of one length: indices are int32
REPORT = 1_000_000  # number of words between progress reports
_UNWRITABLE = re.compile("[ \t\n\v\f\r\ud800-\udfff]")  # separators of ARPA files; UTF-8 cannot encode surrogates
_BOS, _EOS, _UNK = range(len(SPECIAL))

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Text:
    """A text as word ids, in which ``<s>`` and ``</s>`` enclose each sentence."""

    words: tuple[str, ...]  # by id: `SPECIAL`, then the other words in alphabetical order
    token: npt.NDArray[np.int32]
    num_sentences: int
    num_words: int  # without <s> and </s>
    num_unknown: int  # number of words replaced with <unk>
    unk_words: int  # number of distinct words replaced with <unk>, not counting <unk> in the text


@dataclass(frozen=True, slots=True)
class Ngrams:
    """All n-grams of one length, sorted by context and word."""

    prefix: npt.NDArray[np.int32]  # index of the n-gram without its last word; 0 for unigrams
    word: npt.NDArray[np.int32]  # the last word
    suffix: npt.NDArray[np.int32]  # index of the n-gram without its first word; 0 for unigrams
    count: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.word)


def encode(
    sentences: Iterable[Sequence[str]],
    *,
    vocabulary: Iterable[str] | None = None,
    min_count: int = 1,
    keep: Iterable[str] = (),
    path: str | None = None,
    report: Report | None = None,
) -> Text:
    """Encode a text as word ids; empty sentences are skipped.

    Words outside `vocabulary`, or with a count below `min_count`, are replaced with ``<unk>``; words in `keep` are
    never replaced.

    Raises:
        FormatError: The text is empty, a sentence contains ``<s>`` or ``</s>``, or a word is empty or contains
            whitespace or a lone surrogate.
        OptionError: A sentence is a string instead of a sequence of words, or the text is too long.
        VocabularyError: All words were replaced with ``<unk>``.
    """
    number = defaultdict(itertools.count(len(SPECIAL)).__next__, zip(SPECIAL, itertools.count()))
    token = array("i")
    marks = {BOS, EOS}
    num_sentences, next_report = 0, REPORT
    for position, sentence in enumerate(sentences, start=1):
        if isinstance(sentence, str):
            raise OptionError(f"sentence {position} is a string; pass a list of words, such as text.split()", path)
        if not sentence:
            continue
        if not marks.isdisjoint(sentence):
            raise FormatError(
                f"sentence {position} contains {BOS} or {EOS}; remove them, because they are added automatically", path
            )
        token.append(_BOS)
        token.extend(map(number.__getitem__, sentence))
        token.append(_EOS)
        num_sentences += 1
        if report is not None and len(token) >= next_report:
            report(f"{num_sentences} sentences, {len(token) // REPORT} million words")
            next_report += REPORT
        if len(token) > MOST:
            raise OptionError(f"the text has more than {MOST} words; use a smaller text", path)
    if not num_sentences:
        raise FormatError("the text contains no sentences", path)

    tokens = np.frombuffer(token, np.int32)
    count = np.bincount(tokens, minlength=len(number))
    frequent = {word for word, word_id in number.items() if count[word_id] >= min_count}
    selected = frequent if vocabulary is None else set(vocabulary)
    words = (*SPECIAL, *sorted((selected | set(keep)) - set(SPECIAL)))
    for word in words:
        if not word or _UNWRITABLE.search(word):
            message = f"the word {word!r} is empty, or contains ASCII whitespace or a lone surrogate"
            raise FormatError(f"{message}; remove it from the text", path)
    new = {word: word_id for word_id, word in enumerate(words)}
    number_of = np.array([new.get(word, _UNK) for word in number], np.int32)  # in the order of the ids
    tokens = number_of[tokens]
    unknown = number_of == _UNK
    unknown[_UNK] = False
    num_unknown = int(count[unknown].sum() + count[_UNK])
    num_words = len(tokens) - 2 * num_sentences
    if num_unknown == num_words:
        raise VocabularyError(
            "no word of the text is in the vocabulary; specify a vocabulary in the text's language and spelling, "
            "or a smaller min_count",
            path,
        )
    return Text(words, tokens, num_sentences, num_words, num_unknown, int(unknown.sum()))


def count_ngrams(text: Text, order: int, report: Report | None = None) -> list[Ngrams]:
    """Count the n-grams of a text; ``<s>`` occurs only as the first word, and ``</s>`` only as the last.

    The function uses 8 bytes of memory per word of the text, and about 60 bytes per distinct n-gram.

    Args:
        text: The encoded text.
        order: Maximum n-gram length, ≥ 1.
        report: Called with progress messages.

    Returns:
        The n-grams of each length, starting with the unigrams, which cover the whole vocabulary. Lengths that no
        sentence reaches are omitted.
    """
    num_words = len(text.words)
    zeros = np.zeros(num_words, np.int32)
    counted = [Ngrams(zeros, np.arange(num_words, dtype=np.int32), zeros, np.bincount(text.token, minlength=num_words))]
    before = text.token  # index of the n-gram that ends at each position; -1 if it would start before its sentence
    key_of_shorter = counted[0].word.astype(np.int64)
    for length in range(2, order + 1):
        key, count = _count_keys(keys for _, _, keys in _keys(before, text.token, num_words))
        if not len(key):
            break
        if len(key) > MOST:
            raise OptionError(
                f"the text has {len(key)} {length}-grams, more than {MOST}; use a smaller text or a lower order"
            )
        prefix, word = (part.astype(np.int32) for part in np.divmod(key, num_words))
        # The suffix of (prefix, word) is (suffix of the prefix, word).
        suffix_key = counted[-1].suffix[prefix].astype(np.int64) * num_words + word
        suffix = np.searchsorted(key_of_shorter, suffix_key).astype(np.int32)
        counted.append(Ngrams(prefix, word, suffix, count))
        if report is not None:
            report(f"{len(key)} distinct {length}-grams")
        if length < order:
            before = _ngram_ids(key, before, text.token, num_words)
            key_of_shorter = key
    return counted


def _keys(
    before: npt.NDArray[np.int32], token: npt.NDArray[np.int32], num_words: int
) -> Iterator[tuple[int, npt.NDArray[np.bool_], npt.NDArray[np.int64]]]:
    """Divide a text into blocks and find the n-grams of one length that end in each block.

    Args:
        before: For each position, the index of the n-gram one word shorter that ends there; -1 if there is none.
        token: Word ids of the text.
        num_words: Size of the vocabulary.

    Yields:
        (first position of the block, mask of the block's positions at which an n-gram ends, keys of these n-grams). The
        key is ``context * num_words + word``, int64.
    """
    for first in range(1, len(token), BLOCK):
        word = token[first : first + BLOCK]
        context = before[first - 1 : first - 1 + len(word)]
        inside = (context >= 0) & (word != _BOS)
        yield first, inside, context[inside].astype(np.int64) * num_words + word[inside]


def _ngram_ids(
    key: npt.NDArray[np.int64], before: npt.NDArray[np.int32], token: npt.NDArray[np.int32], num_words: int
) -> npt.NDArray[np.int32]:
    """Return the index of the n-gram that ends at each position; -1 if there is none."""
    ending = np.full(len(token), -1, np.int32)
    for first, inside, keys in _keys(before, token, num_words):
        distinct, which = np.unique(keys, return_inverse=True)  # in ascending order, for sequential memory access
        ending[first : first + len(inside)][inside] = np.searchsorted(key, distinct).astype(np.int32)[which]
    return ending


Counts = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]  # sorted distinct keys, and their counts


def _count_keys(blocks: Iterable[npt.NDArray[np.int64]]) -> Counts:
    """Count keys block by block; each key is merged O(log(blocks)) times."""
    runs: list[Counts] = []
    for block in blocks:
        run = np.unique(block, return_counts=True)
        while runs and len(runs[-1][0]) < 2 * len(run[0]):
            run = _merge(runs.pop(), run)
        runs.append(run)
    while len(runs) > 1:
        runs.append(_merge(runs.pop(), runs.pop()))
    return runs[0] if runs else (np.empty(0, np.int64), np.empty(0, np.int64))


def _merge(one: Counts, other: Counts) -> Counts:
    key = np.concatenate([one[0], other[0]])
    order = np.argsort(key, kind="stable")  # merges the two sorted runs in linear time
    key = key[order]
    begin = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])) if len(key) else np.empty(0, np.int64)
    if not len(begin):
        return one
    return key[begin], np.add.reduceat(np.concatenate([one[1], other[1]])[order], begin)
