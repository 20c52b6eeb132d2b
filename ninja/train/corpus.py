"""Training texts as word ids, in memory or, for a large text, in a memory-mapped file that is written once.

The file is ``TEXT.KEY.ids`` in the directory of the text or, if that is not writable, in ``~/.cache/ninja-asr`` (or
``$XDG_CACHE_HOME/ninja-asr``); if neither is writable, the ids stay in memory. The key depends on the digest of the
text and on the options that select words, so an outdated file is never used.

    int32 [num_words]           ids of all sentences
    0 or 4 bytes                padding to a multiple of 8
    int64 [num_sentences + 1]   offsets of sentences
    JSON                        words, counts, digests of the text and of the preceding bytes
    int64, b"NINJAIDS"          length of the JSON; magic
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from ninja.errors import FormatError
from ninja.lm import text
from ninja.lm.text import Part, Sentences
from ninja.lm.word_map import UNK

MARK = b"NINJAIDS"
LARGE = 4 << 20  # minimum number of bytes in a text for its ids to be written to a file
PIECE = 1 << 20  # number of ids in memory while a file is written


@dataclass(frozen=True, slots=True)
class Corpus:
    """A training text as word ids."""

    words: list[str]  # the vocabulary, by id
    sentences: Sentences
    held_out: Part | None  # held-out part of the text; None if the whole text is used for training
    sha256: str  # SHA-256 of the text in hexadecimal


@dataclass(frozen=True, slots=True)
class Choice:
    """Options that determine the vocabulary for a text, and whether a part of the text is held out."""

    vocabulary: int
    min_count: int
    hold_out: bool
    words: tuple[str, ...] | None = None  # the vocabulary, if it is not derived from the text

    def key(self, sha256: str) -> str:
        """Return a key for the name of a file of word ids; it depends on these options and the SHA-256 of the text."""
        parts: list[object] = [sha256, self.vocabulary, self.min_count, self.hold_out]
        if self.words is not None:
            parts.append(self.words)
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    def vocabulary_of(self, path: str, part: Part | None) -> list[str]:
        """Return the vocabulary for a text, or for a part of the text, in the order of word ids."""
        return (
            text.make_vocabulary(path, self.vocabulary, self.min_count, part) if self.words is None else [*self.words]
        )


def open_corpus(path: str, choice: Choice, *, first: bool = True) -> Corpus:
    """Read a text; for a large text, memory-map the file with its ids, creating the file if it does not exist.

    Args:
        path: The text.
        choice: Options that determine the vocabulary.
        first: Whether to write the file if it is missing, and to verify it if it exists. One process per machine must
            do this before the other processes open the text.

    Raises:
        FormatError: The text is empty or not UTF-8, or a line is too long or contains ``<s>`` or ``</s>``.
    """
    sha256 = text.digest(path)
    if os.path.getsize(path) < LARGE:
        return _in_memory(path, choice, sha256)
    targets = _targets(path, f"{os.path.basename(path)}.{choice.key(sha256)}.ids")
    for target in targets:
        with contextlib.suppress(OSError, ValueError, KeyError):  # missing or truncated, or another text's file
            return _mapped(target, sha256, check=first)
    if first:
        for target in targets:
            try:
                with _atomic_file(target) as file:
                    _write(file, path, choice, sha256)
                return _mapped(target, sha256, check=False)
            except FormatError:
                raise
            except OSError:  # the directory is not writable, or the disk is full
                continue
    return _in_memory(path, choice, sha256)


def _targets(path: str, name: str) -> list[Path]:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return [Path(path).absolute().parent / name, Path(cache) / "ninja-asr" / name]


def _parts(path: str, choice: Choice) -> tuple[Part | None, Part | None]:
    """Return ``(held-out part, training part)`` of a text.

    If nothing is held out, both are None; None as the training part means the whole text.
    """
    held_out = text.held_out_part(path) if choice.hold_out else None
    return held_out, None if held_out is None else replace(held_out, held_out=False)


def _in_memory(path: str, choice: Choice, sha256: str) -> Corpus:
    held_out, training = _parts(path, choice)
    words = choice.vocabulary_of(path, training)
    return Corpus(words, text.encode(path, words, training), held_out, sha256)


@contextlib.contextmanager
def _atomic_file(target: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file and rename it to `target` when it is complete."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.parent.stat().st_mode & 0o222:  # root could write despite the permissions
        raise PermissionError(errno.EACCES, "the directory is read-only", str(target.parent))
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
        try:
            yield file
            file.flush()
            os.chmod(file.name, 0o644)
            os.replace(file.name, target)
        except BaseException:
            os.unlink(file.name)
            raise


def _write(file: IO[bytes], path: str, choice: Choice, sha256: str) -> None:
    """Write the word ids of a text to a file in chunks; the text need not fit into memory."""
    held_out, training = _parts(path, choice)
    words = choice.vocabulary_of(path, training)
    number = {word: identity for identity, word in enumerate(words)}
    unk = number[UNK]
    content = hashlib.sha256()
    lacking: set[str] = set()
    num_words = num_sentences = num_unknown = 0

    def put(array: np.ndarray) -> None:
        content.update(array.data)
        file.write(array.data)

    with tempfile.TemporaryFile(dir=os.path.dirname(file.name)) as begins:
        begins.write(np.zeros(1, np.int64).data)
        ids: list[int] = []
        ends: list[int] = []
        for sentence in text.part_of(path, training):
            lacking.update(word for word in sentence if word not in number)
            ids += [number.get(word, unk) for word in sentence]
            ends.append(num_words + len(ids))
            if len(ids) >= PIECE:
                num_unknown += ids.count(unk)
                num_words, num_sentences = num_words + len(ids), num_sentences + len(ends)
                put(np.array(ids, np.int32))
                begins.write(np.array(ends, np.int64).data)
                ids, ends = [], []
        num_unknown += ids.count(unk)
        num_words, num_sentences = num_words + len(ids), num_sentences + len(ends)
        put(np.array([*ids, *[0] * (num_words % 2)], np.int32))
        begins.write(np.array(ends, np.int64).data)
        begins.seek(0)
        while block := begins.read(8 * PIECE):
            put(np.frombuffer(block, np.int64))
    if not num_sentences:
        raise FormatError("the text contains no sentences", path)
    facts: dict[str, Any] = {
        "text_sha256": sha256,
        "sha256": content.hexdigest(),
        "num_words": num_words,
        "num_sentences": num_sentences,
        "num_unknown": num_unknown,
        "unk_words": len(lacking),
        "held_out_every": held_out.every if held_out else None,
        "words": words,
    }
    image = json.dumps(facts).encode()
    file.write(image + len(image).to_bytes(8, "little") + MARK)


def _mapped(target: Path, sha256: str, *, check: bool) -> Corpus:
    """Memory-map a file of word ids; raise a ValueError if it is incomplete or belongs to another text."""
    size = target.stat().st_size
    with open(target, "rb") as file:
        file.seek(size - 16)
        length = int.from_bytes(file.read(8), "little")
        if file.read(8) != MARK or not 0 < length <= size - 16:
            raise ValueError("not a file of word ids, or truncated")
        file.seek(size - 16 - length)
        facts = json.loads(file.read(length))
        begin = 8 * -(-facts["num_words"] // 2)
        end = begin + 8 * (facts["num_sentences"] + 1)
        if facts["text_sha256"] != sha256 or end != size - 16 - length:
            raise ValueError("belongs to another text, or truncated")
        if check:
            content = hashlib.sha256()
            file.seek(0)
            for first in range(0, end, 8 * PIECE):
                content.update(file.read(min(8 * PIECE, end - first)))
            if content.hexdigest() != facts["sha256"]:
                raise ValueError("damaged")
    word = np.memmap(target, np.int32, "r", 0, (facts["num_words"],))
    begins = np.memmap(target, np.int64, "r", begin, (facts["num_sentences"] + 1,))
    every = facts["held_out_every"]
    held_out = None if every is None else Part(every, held_out=True)
    return Corpus(facts["words"], Sentences(word, begins, facts["num_unknown"], facts["unk_words"]), held_out, sha256)
