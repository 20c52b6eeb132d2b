"""Symbol tables, which map the word ids of lattices to words (Kaldi's ``words.txt``)."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice

from ninja._core import irregular_words
from ninja.errors import FormatError, SymbolError, counted
from ninja.files.stream import text_of

EPSILON = 0
EPSILON_NAME = "<eps>"  # spelling of epsilon in tables that are built from the words of a file
LARGEST_ID = 2**31 - 1  # ids are int32 in lattices
SPARSE_IDS = 1 << 24  # largest id for which an array indexed by id is allocated for a table without words
IDS_PER_WORD = 64  # increase of this limit for each word
BLOCK = 1 << 16  # number of characters that are split into fields in one call
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_ODD_BLANK = re.compile(r"[^\S \t\r\n]")  # belongs to a word, although str.split() splits at it
_ENTRY = re.compile(r"^[ \t]*\S+[ \t]+[0-9]{1,9}[ \t\r]*$", re.MULTILINE)
_interning = threading.Lock()  # needed because threads that read ahead can add words


def not_in_table(entry: str | int) -> str:
    """Return the message for a word or a word id that is not in a symbol table."""
    name = f"word id {entry}" if isinstance(entry, int) else f"word {entry!r}"
    return f"{name} is not in the symbol table; check that it is the right table"


class SymbolTable:
    """A two-way map between words and their non-negative integer ids.

    Ids need not be contiguous. All lattices in a run share one table. A growing table appends new words; existing
    entries never change.
    """

    __slots__ = ("_free", "_id", "_irregular", "_others", "_word", "grows", "path")

    def __init__(self, entries: Iterable[tuple[str, int]], path: str | None = None) -> None:
        """Create a table from ``(word, id)`` pairs.

        Raises:
            SymbolError: A word has two ids, an id has two words, an id is negative or exceeds int32, or an entry is not
                a pair.
        """
        self.path = path
        self.grows = False  # whether `intern` adds new words
        self._others: Callable[[], Iterable[tuple[str, int]]] | None = None  # see `complete`
        self._id: dict[str, int] = {}
        self._word: dict[int, str] = {}
        self._free = 0  # all ids from the number of words up to this id are in use
        self._irregular: tuple[int, list[str]] = 0, []  # size of the table, and its irregular words
        for entry in entries:
            try:
                word, number = entry
                is_negative = number < 0
            except (TypeError, ValueError) as error:
                advice = "for words without ids, use SymbolTable.from_words"
                raise SymbolError(f"{entry!r:.60} is not a pair of a word and its id; {advice}", path) from error
            if is_negative:
                raise SymbolError(f"word {word!r} has the negative id {number}", path)
            if number > LARGEST_ID:
                raise SymbolError(
                    f"word {word!r} has the id {number}, but the largest allowed id is {LARGEST_ID}", path
                )
            if self._id.setdefault(word, number) != number:
                raise SymbolError(f"word {word!r} has two ids, {self._id[word]} and {number}", path)
            if self._word.setdefault(number, word) != word:
                raise SymbolError(f"id {number} has two words, {self._word[number]!r} and {word!r}", path)

    @classmethod
    def from_words(cls, words: Sequence[str], path: str | None = None) -> SymbolTable:
        """Create a table that numbers words from 0 in order.

        Raises:
            SymbolError: A word occurs twice.
        """
        table = cls((), path)
        table._id, table._word = dict(zip(words, range(len(words)), strict=True)), dict(enumerate(words))
        return table if len(table._id) == len(words) else cls(zip(words, range(len(words)), strict=True), path)

    @classmethod
    def growing(
        cls,
        entries: Iterable[tuple[str, int]] = ((EPSILON_NAME, EPSILON),),
        others: Callable[[], Iterable[tuple[str, int]]] | None = None,
    ) -> SymbolTable:
        """Create a table to which readers add new words.

        Args:
            entries: Initial ``(word, id)`` pairs.
            others: Function that returns the entries for all words that readers will add; `complete` calls it.
        """
        table = cls(entries)
        table.grows, table._others = True, others
        return table

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> SymbolTable:
        """Read a ``words.txt``: a word and its id per line, separated by whitespace; gzip files are decompressed.

        Raises:
            FormatError: A line does not consist of a word and an integer, the file is not UTF-8, or its gzip stream is
                damaged.
            SymbolError: See the constructor.

        Source: OpenFst, SymbolTable::ReadText; Kaldi data preparation, "words.txt".
        """
        name = os.fspath(path)
        text = text_of(name)
        if (plain := _read_plain(text)) is not None:
            table = cls((), name)
            table._id, table._word = plain
            return table

        def entries() -> Iterator[tuple[str, int]]:
            # Split at ASCII spaces only: some vocabularies have words that contain Unicode spaces.
            for number, line in enumerate(text.split("\n"), start=1):
                fields = line.replace("\t", " ").rstrip("\r ").split(" ")
                fields = [field for field in fields if field]
                if not fields:
                    continue
                if len(fields) != 2 or not _INTEGER.fullmatch(fields[1]):
                    raise FormatError(
                        f"expected a word and an integer, as in words.txt, found {line[:60]!r}", name, line=number
                    )
                yield fields[0], int(fields[1])

        return cls(entries(), name)

    def id(self, word: str) -> int | None:
        """Return the id of a word, or None if the word is not in the table."""
        return self._id.get(word)

    def ids(self, words: Iterable[str]) -> list[int]:
        """Return the ids of words, with -1 for words that are not in the table."""
        get = self._id.get
        return [get(word, -1) for word in words]

    def intern(self, words: Iterable[str]) -> list[int]:
        """Return the ids of words; missing words are added if the table grows, and have the id -1 otherwise."""
        names = list(words)
        ids = self.ids(names)
        if self.grows and -1 in ids:
            with _interning:
                ids = [self._add(word) if number < 0 else number for word, number in zip(names, ids, strict=True)]
        return ids

    def growing_copy(self) -> SymbolTable:
        """Return a growing table with the same entries and path."""
        copy = SymbolTable((), self.path)
        copy._id, copy._word, copy._free = self._id.copy(), self._word.copy(), self._free
        copy.grows = True
        return copy

    def snapshot(self) -> SymbolTable:
        """Return a table with the current entries that does not grow: this table, or a copy if this table grows."""
        return SymbolTable(self) if self.grows else self

    def complete(self) -> None:
        """Add all words that would be added while lattices are read, if they can be determined in advance.

        To collect the words, all input files are read.
        """
        if self._others is not None:
            others, self._others = self._others, None
            self.merge(others())

    def since(self, count: int) -> tuple[list[str], list[int]]:
        """Return ``(words, ids)`` for all entries after the first `count`."""
        with _interning:
            return list(islice(self._id, count, None)), list(islice(self._id.values(), count, None))

    def merge(self, entries: Iterable[tuple[str, int]]) -> None:
        """Add the entries of another table to this growing table; a word gets a new id if its id is already in use."""
        assert self.grows
        new = list(entries)
        with _interning:
            for word, number in new:
                self._add(word, number)

    def _add(self, word: str, number: int = EPSILON) -> int:
        if word in self._id:
            return self._id[word]
        if number in self._word:
            number = max(len(self._word), self._free)
            while number in self._word:
                number += 1
            self._free = number
        self._word[number] = word  # set before the id, because another thread may then look up its word
        self._id[word] = number
        return number

    def word(self, number: int) -> str:
        """Return the word with the given id.

        Raises:
            SymbolError: The id is not in the table.
        """
        try:
            return self._word[number]
        except KeyError:
            raise SymbolError(not_in_table(number), self.path) from None

    def words_of(self, numbers: Iterable[int]) -> list[str]:
        """Return the words with the given ids.

        Raises:
            SymbolError: An id is not in the table.
        """
        names, numbers = self._word, list(numbers)
        try:
            return [names[number] for number in numbers]
        except KeyError:
            return [self.word(number) for number in numbers]

    def end_of_ids(self) -> int:
        """Return the largest id plus 1, which is the size of an array indexed by id.

        Raises:
            SymbolError: The largest id exceeds 2^24 plus 64 times the number of words; an array of this size could
                exhaust memory.
        """
        largest = max(list(self._word), default=-1)  # a copy, because another thread may add words
        if largest > SPARSE_IDS + IDS_PER_WORD * len(self._word):
            message = f"word {self._word[largest]!r} has the id {largest}, but there are only {len(self._word)} words"
            raise SymbolError(f"{message}; number the words without large gaps", self.path)
        return largest + 1

    def spell(self, numbers: Iterable[int]) -> list[str]:
        """Return the words with the given ids, except epsilons.

        Raises:
            SymbolError: An id is not in the table.
        """
        return self.words_of([int(number) for number in numbers if number != EPSILON])

    @property
    def names(self) -> Collection[str]:
        """Words in the order of the table."""
        return list(self._id) if self.grows else self._id.keys()

    def irregular(self) -> list[str]:
        """Return the words that contain anything other than apostrophes and plain letters, in the order of the table.

        Plain letters are lower-case letters, and letters of scripts without case.
        """
        size, words = self._irregular
        if size != len(self):
            names = self.names
            words = [word for _, word in irregular_words(names)]
            self._irregular = len(names), words
        return words

    def __contains__(self, word: object) -> bool:
        return word in self._id

    def __len__(self) -> int:
        return len(self._id)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Iterate over ``(word, id)`` pairs in the order of the table."""
        return iter(list(self._id.items()) if self.grows else self._id.items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SymbolTable) and self._id == other._id

    def __reduce__(self) -> tuple[object, ...]:
        return SymbolTable, (list(self), self.path)

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"SymbolTable({counted(len(self), 'word')}{f' of {self.path}' if self.path else ''})"


def _read_plain(text: str) -> tuple[dict[str, int], dict[int, str]] | None:
    """Parse the text of a ``words.txt`` in one pass.

    Return None if the text must be parsed line by line, because it has unusual whitespace, an invalid line or a
    duplicate.
    """
    if _ODD_BLANK.search(text) or text.count("\r") != text.count("\r\n"):
        return None
    if _ENTRY.sub("", text).strip():
        return None
    words: list[str] = []
    ids: list[int] = []
    begin = 0
    while begin < len(text):  # in blocks, because the strings of all ids would need as much memory as the words
        end = text.find("\n", begin + BLOCK) + 1 or len(text)
        fields = text[begin:end].split()
        words += fields[::2]
        ids += map(int, fields[1::2])
        begin = end
    by_word, by_id = dict(zip(words, ids, strict=True)), dict(zip(ids, words, strict=True))
    return (by_word, by_id) if len(by_word) == len(by_id) == len(ids) else None
