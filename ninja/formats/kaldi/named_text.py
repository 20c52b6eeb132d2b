"""Kaldi's text archives with names of words in place of ids (``int2sym.pl -f 3``), or with keys of several words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from ninja.errors import FormatError, NinjaError, OptionError, SymbolError
from ninja.formats.content import Content, Entry
from ninja.formats.format import Format, Read
from ninja.formats.kaldi.archive import Vocabulary
from ninja.formats.textual import Naming, check_encoding
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch
from ninja.lattice.symbols import EPSILON, EPSILON_NAME, SymbolTable

_EPSILON = EPSILON_NAME.encode()
_NUMBER = re.compile(rb"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_SHOWN = 60
# A key on its line, arcs that say nothing, then one with <eps>, or with a name for its word and the costs of a lattice;
# or a key of several words, and an arc or final state with the costs of a lattice.
_ARC = rb"[ \t]*\d+[ \t]+\d+[ \t]+(?:\d+[ \t]+)?"
_COSTS = rb"[ \t]+(?=\S*\d)[-+\d.eE]*,[-+\d.eE]*(?:,[\d_]*)?(?:\s|\Z)"
_MARK = re.compile(
    rb"\s*(?!\d+[ \t]+\d+[ \t]+\S)\S[^\n]*\n(?:[ \t]*\d+(?:[ \t]+\d+[ \t]+\d+(?:[ \t]+\d+)?)?[ \t\r]*\n)*"
    + _ARC
    + rb"(?:<eps>\s|[^\s\d]\S*"
    + _COSTS
    + rb")"
    + rb"|\s*(?!\d+[ \t]+\d+[ \t]+\S)\S+[ \t]+\S[^\n]*\n(?:[ \t]*\d+|"
    + _ARC
    + rb"\S+)"
    + _COSTS
)
_KEPT = 2  # stretches that are kept, the last one of a file of one block among them


@dataclass(frozen=True, slots=True)
class NamedTextOptions:
    """Options of reading such an archive."""

    words: Literal["auto", "names", "ids"] = "auto"  # auto: names where <eps> is among them, or most are no integers
    keys: Literal["line", "first", "join"] = "line"  # of a key of several words: all, the first, or joined by "_"
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        check_encoding(self.encoding)
        if self.words not in ("auto", "names", "ids"):
            raise OptionError(f"words is {self.words!r}, but must be auto, names or ids")
        if self.keys not in ("line", "first", "join"):
            raise OptionError(f"keys is {self.keys!r}, but must be line, first or join")


def read_named_text(
    content: bytes | Callable[[], Iterable[bytes]],
    path: str | None = None,
    words: SymbolTable | None = None,
    options: NamedTextOptions = NamedTextOptions(),
) -> Iterator[tuple[str, Lattice | NinjaError]]:
    """Yield the lattices of an archive, compact or raw.

    It is Kaldi's text format, but words may be names, keys may have blanks in them (as TheanoLM's), and the empty line
    behind the last lattice may be missing where all states of that lattice are there. A large archive is read twice,
    since only its end tells whether its words are names, of which a table is made unless there are `words`.

    Yields:
        Each key with its lattice, or with what is wrong with it. What an archive cut short ends in is its last entry.

    Source: Kaldi, lat/kaldi-lattice.cc (text mode), utils/int2sym.pl; TheanoLM, scoring/kaldilattice.py.
    """
    again = content if callable(content) else lambda: (content,)
    known = _Words(path, words, options)
    stretches = _stretches(again())
    archives: Iterable[_Archive] = [_Archive(*each, known) for each in islice(stretches, _KEPT)]
    more = False
    for rows, _, _ in stretches:
        known.find(rows)
        more = True
    if more:
        archives = (_Archive(*each, known) for each in _stretches(again()))
    named = known.named
    table = known.table() if named else words
    for archive in archives:
        yield from _lattices(archive, named, words, table)


def _stretches(blocks: Iterable[bytes]) -> Iterator[tuple[list[bytes], int, bool]]:
    """Yield the lines of a file in stretches of whole entries, the number of the first, and whether it is the last."""
    left: list[bytes] = []  # lines of an entry that goes on
    first, tail = 1, b""
    for block in blocks:
        lines = block.split(b"\n")
        tail = lines.pop()
        end = len(lines)
        while end and lines[end - 1].strip():
            end -= 1
        if end:
            yield [*left, *lines[:end], b""], first, False
            first += len(left) + end
            left = []
        left.extend(lines[end:])
    yield [*left, tail], first, True


def _lattices(
    archive: _Archive, named: bool, words: SymbolTable | None, table: SymbolTable | None
) -> Iterator[tuple[str, Lattice | NinjaError]]:
    vocabulary = Vocabulary() if named else Vocabulary.of(words)
    for place, found in parse(archive.text(named), vocabulary, archive.path or "a text archive"):
        # The archive goes to the parser with numbers as keys, so that a key may be anything, and occur twice.
        entry = int(place)
        key = archive.keys[entry]
        fault = archive.faults.get(entry)
        if isinstance(found, NinjaError):
            found = archive.explained(found, key, named)
        if fault is not None and (named or not isinstance(fault, SymbolError)) and not _comes_before(found, fault):
            yield key, fault
        elif isinstance(found, Lattice):
            yield key, found.replace(key=key, words=table)
        else:
            yield key, found


def parse(text: bytes, vocabulary: Vocabulary, name: str) -> list[Entry]:
    """Parse the bytes of an archive by Kaldi's parser."""
    reader = vocabulary.reader(name)
    space = reader.space(len(text))
    space[: len(text)] = text
    space.release()
    reader.advance(len(text))
    items, faults = reader.parse(0)
    return list(Batch(items, words=vocabulary.words, faults=faults).entries())


class _Words:
    """The words of an archive as they are found: the ids of names, and evidence that they are names."""

    def __init__(self, path: str | None, words: SymbolTable | None, options: NamedTextOptions) -> None:
        self.path = path
        self.options = options
        self.given = words
        self.number_of: dict[str, int] = {EPSILON_NAME: EPSILON}
        self.id: dict[bytes, bytes] = {}
        self.names = self.integers = 0  # words of either kind, each once if it has an id

    @property
    def named(self) -> bool:
        """True if they are names; known when all have been found."""
        by_content = _EPSILON in self.id or self.names > self.integers
        return self.options.words == "names" or (self.options.words == "auto" and by_content)

    def find(self, rows: Iterable[bytes]) -> None:
        """Find the words of some lines, of whole entries."""
        ends = True  # whether an entry has ended
        id_of = self.id
        for row in rows:
            fields = row.split()
            count = len(fields)
            if not count:
                ends = True
            elif ends:
                ends = False
            elif count >= 3 and fields[column := _column(fields, count)] not in id_of:
                with suppress(NinjaError):  # which is told when the lattices are read
                    self.new(fields, column, 0)

    def new(self, fields: Sequence[bytes], column: int, line: int) -> bytes:
        """Return the id of a word that is not known yet, as text; an invalid word is left to the parser."""
        name = fields[column]
        weight = column == 3 and len(fields) == 4 and not name.isdigit() and _NUMBER.fullmatch(name)
        if weight or len(fields) > 5:  # lattices have no weights of one number
            return b"?"
        word = Naming("", self.path, None, self.options.encoding).decoded(name, line)
        self.integers += name.isdigit()
        self.names += not name.isdigit()
        if word == EPSILON_NAME:
            number: int | None = EPSILON
        elif self.given is None:
            number = self.number_of.setdefault(word, len(self.number_of))
        else:
            number = self.given.id(word)
        if number is None:
            message = f"word {word!r} is not in the symbol table; is it the right one?"
            raise SymbolError(message, self.path, line=line)
        self.id[name] = found = b"%d" % number
        return found

    def table(self) -> SymbolTable:
        """Return the table of the words."""
        return self.given or SymbolTable(self.number_of.items(), self.path)


class _Archive:
    """The lines of an archive, or of a stretch of it, with ids in place of names and numbers in place of keys."""

    def __init__(self, rows: list[bytes], first: int, last: bool, known: _Words) -> None:
        self.path = known.path
        self.keys: list[str] = []
        self.faults: dict[int, NinjaError] = {}  # by entry: the first word that has no id
        self._rows = rows
        self._before = first - 1  # lines of the file
        self._known = known
        self._options = known.options
        self._rewritten = list(rows)
        if last:
            self._complete()
        self._rewrite()

    def text(self, named: bool) -> bytes:
        """Return the archive with ids, as Kaldi writes it."""
        if named:
            return b"\n".join(self._rewritten)
        keys = iter(range(len(self.keys)))
        ends = True
        rows = list(self._rows)
        for at, row in enumerate(rows):
            if row.isspace() or not row:
                ends, rows[at] = True, b""
            elif ends:
                ends, rows[at] = False, b"%d" % next(keys)
        return b"\n".join(rows)

    def explained(self, error: NinjaError, key: str, named: bool) -> NinjaError:
        """Return the parser's error for the line as it is in the file."""
        message = error.message
        if isinstance(error, FormatError) and error.line is not None and message.startswith("expected 'state"):
            found = self._rows[error.line - 1].strip()[:_SHOWN].decode(self._options.encoding, "replace")
            kind = "names" if named else "integers"
            message = (
                "expected 'state next word graph,acoustic,labels' or 'state graph,acoustic,labels' "
                f"with words that are {kind}, found {found!r}"
            )
        line = None if error.line is None else self._before + error.line
        return type(error)(message, self.path, key=key, line=line, byte=error.byte)

    def _rewrite(self) -> None:
        ends = True  # whether an entry has ended
        rewritten, id_of = self._rewritten, self._known.id
        for at, row in enumerate(self._rows):
            fields = row.split()
            count = len(fields)
            if not count:
                ends, rewritten[at] = True, b""
            elif ends:
                ends = False
                rewritten[at] = b"%d" % len(self.keys)
                self._begin(row, fields, self._before + at + 1)
            elif count >= 3:
                column = _column(fields, count)
                fields[column] = id_of.get(fields[column]) or self._new(fields, column, self._before + at + 1)
                rewritten[at] = b" ".join(fields)

    def _begin(self, row: bytes, fields: Sequence[bytes], line: int) -> None:
        how = self._options.keys
        whole = row.strip() if how == "line" else fields[0] if how == "first" else b"_".join(fields)
        key = whole.decode(self._options.encoding, "surrogateescape")
        self.keys.append(key)
        if len(fields) > 1 and fields[0].isdigit() and (b"," in fields[1] or (fields[1].isdigit() and len(fields) > 2)):
            found = row.strip()[:_SHOWN].decode(self._options.encoding, "replace")
            message = f"expected a key, found {found!r}; is there an empty line within the lattice before it?"
            self._fault(FormatError(message, self.path, line=line))

    def _new(self, fields: Sequence[bytes], column: int, line: int) -> bytes:
        try:
            return self._known.new(fields, column, line)
        except NinjaError as error:
            return self._fault(error)

    def _fault(self, error: NinjaError) -> bytes:
        entry = len(self.keys) - 1
        error.key = self.keys[entry]
        self.faults.setdefault(entry, error)
        return b"0"

    def _complete(self) -> None:
        """Add the empty line behind the last lattice if only that is missing, and no state."""
        rows = self._rewritten
        if len(rows) < 2 or rows[-1] or not rows[-2].strip():
            return
        first = len(rows) - 2
        while first > 0 and rows[first - 1].strip():
            first -= 1
        described: set[bytes] = set()
        entered: set[bytes] = set()
        for row in rows[first + 1 : -1]:
            fields = row.split()
            described.add(fields[0])
            if len(fields) > 2:
                entered.add(fields[1])
        if described and entered <= described:
            rows.append(b"")
            self._rows.append(b"")


def _column(fields: Sequence[bytes], count: int) -> int:
    """Return which field of an arc is its word."""
    # A compact lattice has three fields and a weight, a raw one four and a weight; weights may be missing.
    return 2 if count == 3 or (count == 4 and b"," in fields[3]) else 3


def _comes_before(found: object, fault: NinjaError) -> bool:
    """Tell whether the parser found something on an earlier line than a word without an id is."""
    return (
        isinstance(found, NinjaError) and found.line is not None and fault.line is not None and found.line < fault.line
    )


def _entries(content: Content, words: SymbolTable | None, options: NamedTextOptions) -> Iterator[Entry]:
    return read_named_text(content.readings(), content.name, words, options)


FORMAT = Format(
    name="named-text",
    about="Kaldi text archive with words in place of ids (int2sym.pl), or keys of several words (TheanoLM)",
    mark=_MARK.match,
    read=Read(_entries, NamedTextOptions, ids=True),
)
