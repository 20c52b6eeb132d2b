"""Text for language models: sentences as word ids, a vocabulary by frequency, batches by length."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ninja.errors import FormatError, InputError, OptionError
from ninja.files.place import Place
from ninja.files.stream import open_stream
from ninja.formats.content import Content, numbered_lines
from ninja.lm.word_map import BOS, EOS, SPECIAL, UNK

# Words; limits the memory that a text without line breaks would take in training.
LONGEST_SENTENCE = 2_000
HELD_OUT_EVERY = 20  # one of so many sentences is held out if there is no held-out text
MOST_HELD_OUT = 5_000  # sentences; more only slow down evaluation


@dataclass(frozen=True, slots=True)
class Sentences:
    """Encoded sentences, one after the other, without ``<s>`` and ``</s>``."""

    word: np.ndarray  # int32 [num_words]
    begin: np.ndarray  # int64 [num_sentences + 1], sentence i is word[begin[i] : begin[i + 1]]
    num_unknown: int  # words that were mapped to <unk>
    unk_words: int = 0  # distinct words among them

    def __len__(self) -> int:
        return len(self.begin) - 1


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a text: every n-th sentence, which is held out, or all other sentences."""

    every: int
    held_out: bool

    def has(self, number: int) -> bool:
        """Tell whether a sentence, numbered from 1, belongs to the part."""
        return (number % self.every == 0) == self.held_out


def held_out_part(path: str | os.PathLike[str]) -> Part:
    """Choose the sentences of a text to hold out: every 20th, or fewer to keep them at about 5,000."""
    count = sum(1 for _ in read_sentences(path))
    if count < 2:
        raise FormatError("a text of one sentence has none to hold out; give a held-out text (dev)", path)
    return Part(min(max(HELD_OUT_EVERY, -(-count // MOST_HELD_OUT)), count), held_out=True)


def part_of(path: str | os.PathLike[str], part: Part | None) -> Iterator[list[str]]:
    """Read the sentences of a part of a text; None reads all."""
    for number, sentence in enumerate(read_sentences(path), start=1):
        if part is None or part.has(number):
            yield sentence


def read_sentences(path: str | os.PathLike[str]) -> Iterator[list[str]]:
    """Read a text of one sentence per line; ``.gz`` is decompressed, empty lines are skipped."""
    name = os.fspath(path)
    with open_stream(Place(name)) as stream:
        for number, line, _ in numbered_lines(Content(stream, name).blocks()):
            try:
                words = line.decode("utf-8").split()
            except UnicodeDecodeError as error:
                raise FormatError(f"not UTF-8 ({error.reason}); convert it with iconv", name, line=number) from error
            if len(words) > LONGEST_SENTENCE:
                message = f"{len(words)} words on a line, more than {LONGEST_SENTENCE}; put one sentence on each"
                raise FormatError(message, name, line=number)
            if not {BOS, EOS}.isdisjoint(words):
                raise FormatError(f"{BOS} or {EOS} in the text; remove them, they are implied", name, line=number)
            if words:
                yield words


def digest(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal.

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
    """Return the commonest words of a text, at most `size`, `SPECIAL` first, then by falling count and the alphabet."""
    count: Counter[str] = Counter()
    for words in part_of(path, part):
        count.update(words)
    if not count:
        raise FormatError("no sentence in this text", path)
    count.pop(UNK, None)
    ranked = sorted((-times, word) for word, times in count.items() if times >= min_count)
    return [*SPECIAL, *(word for _, word in ranked[: size - len(SPECIAL)])]


def encode(path: str | os.PathLike[str], words: list[str], part: Part | None = None) -> Sentences:
    """Read a text as word ids, words outside the vocabulary as ``<unk>``."""
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
        raise FormatError("no sentence in this text", path)
    word = np.concatenate(flat)
    begin = np.concatenate(([0], np.cumsum(length))).astype(np.int64)
    return Sentences(word, begin, int((word == unk).sum()), len(lacking))


def batches(sentences: Sentences, max_tokens: int, seed: int | tuple[int, int] | None = None) -> list[np.ndarray]:
    """Group sentences of similar length, so that batches have little padding.

    Args:
        max_tokens: Most tokens of a batch, padding and ``</s>`` included; a longer sentence is its own batch.
        seed: Seed that shuffles batches and sentences of equal length; None keeps the order.
    """
    if max_tokens < 1:
        raise OptionError(f"max_tokens is {max_tokens}, but must be at least 1")
    length = np.diff(sentences.begin) + 1  # a sentence of n words predicts n + 1: its </s> too
    random = None if seed is None else np.random.default_rng(seed)
    order = np.arange(len(length)) if random is None else random.permutation(len(length))
    order = order[np.argsort(length[order], kind="stable")]
    groups = [order[run] for run in runs(length[order].tolist(), max_tokens)]
    if random is not None:
        groups = [groups[place] for place in random.permutation(len(groups))]
    return groups


def runs(length: Sequence[int], max_tokens: int, max_length: int | None = None) -> Iterator[slice]:
    """Cut rising lengths into runs of at most `max_length` items and `max_tokens` with padding, or single items."""
    first = 0
    for last in range(1, len(length) + 1):
        if last == len(length) or length[last] * (last + 1 - first) > max_tokens or last - first == max_length:
            yield slice(first, last)
            first = last


def pad(sentences: Sentences, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pad sentences to inputs ``<s> w1 … wn`` and targets ``w1 … wn </s>``, int64 [time, batch], padded with −1."""
    begin = sentences.begin[members]
    length = sentences.begin[members + 1] - begin
    time = np.arange(int(length.max()) + 1)[:, None]
    inside = time < length  # [time, batch]
    target = np.full(inside.shape, -1, np.int64)
    target[inside] = sentences.word[(begin + time)[inside]]
    source = np.zeros_like(target)  # padding reads <s>; its output is never used
    source[1:] = np.where(target[:-1] >= 0, target[:-1], 0)
    target[length, np.arange(len(members))] = SPECIAL.index(EOS)
    return source, target
