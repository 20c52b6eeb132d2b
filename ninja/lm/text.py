"""Encode training text as ids, make vocabularies of the most frequent words, and batch sentences of similar length."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ninja.errors import FormatError, InputError, OptionError
from ninja.files.stream import Place, open_stream
from ninja.files.text import line_fields
from ninja.formats.content import Content, numbered_lines
from ninja.lm.word_map import BOS, EOS, SPECIAL, UNK

# Maximum number of words; limits the memory that training takes on a text without line breaks.
LONGEST_SENTENCE = 2_000
HELD_OUT_EVERY = 20  # without a held-out text, one in this many sentences is held out
MOST_HELD_OUT = 5_000  # maximum number of held-out sentences; more would only slow down evaluation


@dataclass(frozen=True, slots=True)
class Sentences:
    """Concatenated sentences of word ids, without ``<s>`` and ``</s>``."""

    word: np.ndarray  # int32 [num_words]
    begin: np.ndarray  # int64 [num_sentences + 1], sentence i is word[begin[i] : begin[i + 1]]
    num_unknown: int  # number of words replaced with <unk>
    unk_words: int = 0  # number of distinct words replaced with <unk>

    def __len__(self) -> int:
        return len(self.begin) - 1


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a text: either the held-out sentences (every n-th sentence), or all other sentences."""

    every: int
    held_out: bool

    def has(self, number: int) -> bool:
        """Return whether the part contains sentence `number`, counted from 1."""
        return (number % self.every == 0) == self.held_out


def held_out_part(path: str | os.PathLike[str]) -> Part:
    """Select the held-out sentences of a text: every 20th sentence, but at most about 5,000 sentences.

    Raises:
        FormatError: The text has fewer than two sentences.
    """
    count = sum(1 for _ in read_sentences(path))
    if count < 2:
        raise FormatError(
            "the text has fewer than two sentences, so none can be held out; specify a held-out text (dev)", path
        )
    return Part(min(max(HELD_OUT_EVERY, -(-count // MOST_HELD_OUT)), count), held_out=True)


def part_of(path: str | os.PathLike[str], part: Part | None) -> Iterator[list[str]]:
    """Yield the sentences in a part of a text, or all sentences if `part` is None."""
    for number, sentence in enumerate(read_sentences(path), start=1):
        if part is None or part.has(number):
            yield sentence


def read_sentences(path: str | os.PathLike[str]) -> Iterator[list[str]]:
    """Yield the words on each line of a text, optionally compressed with gzip; empty lines are skipped.

    Raises:
        FormatError: A line is not UTF-8, is too long, or contains ``<s>`` or ``</s>``.
    """
    name = os.fspath(path)
    with open_stream(Place(name)) as stream:
        for number, line, _ in numbered_lines(Content(stream, name).blocks()):
            try:
                words = line_fields(line.decode("utf-8"))
            except UnicodeDecodeError as error:
                raise FormatError(f"not UTF-8 ({error.reason}); convert it with iconv", name, line=number) from error
            if len(words) > LONGEST_SENTENCE:
                message = (
                    f"the line has {len(words)} words, more than {LONGEST_SENTENCE}; put one sentence on each line"
                )
                raise FormatError(message, name, line=number)
            if b"s>" in line and not {BOS, EOS}.isdisjoint(words):  # the first test is fast and usually decides
                raise FormatError(
                    f"the text contains {BOS} or {EOS}; remove them, because they are added automatically",
                    name,
                    line=number,
                )
            if words:
                yield words


def digest(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file in hexadecimal.

    Raises:
        InputError: The file cannot be read.
    """
    result = hashlib.sha256()
    try:
        with open(path, "rb") as stream:
            while block := stream.read(2**20):
                result.update(block)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", os.fspath(path)) from error
    return result.hexdigest()


def make_vocabulary(path: str | os.PathLike[str], size: int, min_count: int = 1, part: Part | None = None) -> list[str]:
    """Return the most frequent words of a text.

    Args:
        path: The text.
        size: Maximum number of words, including `SPECIAL`.
        min_count: Minimum number of occurrences of a word in the text.
        part: Part of the text in which words are counted.  [default: the whole text]

    Returns:
        `SPECIAL`, then words by decreasing count, in alphabetical order if counts are equal.

    Raises:
        FormatError: The text contains no sentences.
    """
    count: Counter[str] = Counter()
    for words in part_of(path, part):
        count.update(words)
    if not count:
        raise FormatError("the text contains no sentences", path)
    count.pop(UNK, None)
    ranked = sorted((-times, word) for word, times in count.items() if times >= min_count)
    return [*SPECIAL, *(word for _, word in ranked[: size - len(SPECIAL)])]


def encode(path: str | os.PathLike[str], words: list[str], part: Part | None = None) -> Sentences:
    """Read a text as word ids; words outside the vocabulary are replaced with ``<unk>``.

    Raises:
        FormatError: The text contains no sentences.
    """
    number = {word: identity for identity, word in enumerate(words)}
    unk = number[UNK]
    flat: list[np.ndarray] = []
    length: list[int] = []
    lacking: set[str] = set()
    for sentence in part_of(path, part):
        lacking.update(word for word in sentence if word not in number)
        flat.append(np.fromiter((number.get(word, unk) for word in sentence), np.int32, len(sentence)))
        length.append(len(sentence))
    if not flat:
        raise FormatError("the text contains no sentences", path)
    word = np.concatenate(flat)
    begin = np.concatenate(([0], np.cumsum(length))).astype(np.int64)
    return Sentences(word, begin, int((word == unk).sum()), len(lacking))


def batches(sentences: Sentences, max_tokens: int, seed: int | tuple[int, int] | None = None) -> list[np.ndarray]:
    """Group sentences of similar length into batches with little padding.

    Args:
        sentences: The sentences.
        max_tokens: Maximum number of tokens per batch, including padding and ``</s>``; a longer sentence forms its own
            batch.
        seed: Seed for shuffling batches and sentences of equal length.  [default: do not shuffle]

    Returns:
        The indices of the sentences in each batch.
    """
    if max_tokens < 1:
        raise OptionError(f"max_tokens is {max_tokens}, but must be at least 1")
    length = np.diff(sentences.begin) + 1  # including </s>, which is also predicted
    random = None if seed is None else np.random.default_rng(seed)
    order = np.arange(len(length)) if random is None else random.permutation(len(length))
    order = order[np.argsort(length[order], kind="stable")]
    groups = [order[run] for run in runs(length[order], max_tokens)]
    if random is not None:
        groups = [groups[index] for index in random.permutation(len(groups))]
    return groups


def runs(length: Sequence[int] | np.ndarray, max_tokens: int, max_items: int | None = None) -> Iterator[slice]:
    """Divide a sequence of items, sorted by length, into batches, and yield the slice of each batch.

    Args:
        length: Length of each item, at least 1, in ascending order.
        max_tokens: Maximum number of tokens per batch, including padding; a longer item forms its own batch.
        max_items: Maximum number of items per batch.  [default: no limit]
    """
    lengths = np.asarray(length)
    first = 0
    while first < len(lengths):
        some = lengths[first : first + (max_items or max_tokens)].astype(np.int64)
        num_items = int(np.searchsorted(some * np.arange(1, len(some) + 1), max_tokens, side="right"))
        last = first + max(1, num_items)
        yield slice(first, last)
        first = last


def pad(sentences: Sentences, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return padded inputs ``<s> w1 … wn`` and targets ``w1 … wn </s>`` of sentences, int64 [time, batch].

    Inputs are padded with ``<s>``, targets with −1.
    """
    begin = sentences.begin[members]
    length = sentences.begin[members + 1] - begin
    time = np.arange(int(length.max()) + 1)[:, None]
    inside = time < length  # [time, batch]
    target = np.full(inside.shape, -1, np.int64)
    target[inside] = sentences.word[(begin + time)[inside]]
    source = np.zeros_like(target)  # 0 is <s>; the outputs of padding are never used
    source[1:] = np.where(target[:-1] >= 0, target[:-1], 0)
    target[length, np.arange(len(members))] = SPECIAL.index(EOS)
    return source, target
