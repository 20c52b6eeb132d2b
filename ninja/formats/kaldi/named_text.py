"""Reader for Kaldi text archives with words in place of ids (``int2sym.pl -f 3``), or with keys that contain spaces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from ninja.errors import FormatError, NinjaError, SymbolError
from ninja.formats.content import Content, Entry, Naming, check_choice, check_encoding
from ninja.formats.format import Format, Read
from ninja.formats.kaldi.archive import Vocabulary
from ninja.formats.kaldi.text_archive import COSTS
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch
from ninja.lattice.symbols import EPSILON, EPSILON_NAME, SymbolTable, not_in_table

_EPSILON = EPSILON_NAME.encode()
_NUMBER = re.compile(rb"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_SHOWN = 60  # number of characters of a line that are shown in messages
# A line with a key, any number of arcs and final states without costs, then an arc with <eps>, an arc with a name and
# lattice costs, or a final state with lattice costs; or a key of several words, then an arc or final state with
# lattice costs.
_ARC = rb"[ \t]*\d+[ \t]+\d+[ \t]+(?:\d+[ \t]+)?"
_MARK = re.compile(
    rb"\s*(?!\d+[ \t]+\d+[ \t]+\S)\S[^\n]*\n(?:[ \t]*\d+(?:[ \t]+\d+[ \t]+(?:\d+[ \t]+)?[^\s,]+)?[ \t\r]*\n)*(?:"
    + _ARC
    + rb"(?:<eps>\s|[^\s\d]\S*"
    + COSTS
    + rb")|[ \t]*\d+"
    + COSTS
    + rb")|\s*(?!\d+[ \t]+\d+[ \t]+\S)\S+[ \t]+\S[^\n]*\n(?:[ \t]*\d+|"
    + _ARC
    + rb"\S+)"
    + COSTS
)
_CACHED = 2  # maximum number of parts in memory; a file with more parts is read twice


@dataclass(frozen=True, slots=True)
class NamedTextOptions:
    """Options for reading a text archive with words in place of ids."""

    words: Literal["auto", "names", "ids"] = "auto"  # auto: names if a word is <eps> or most words are not integers
    keys: Literal["line", "first", "join"] = (
        "line"  # from a key line, use the whole line, its first word, or all with _
    )
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        check_encoding(self.encoding)
        check_choice("words", self.words, "auto", "names", "ids")
        check_choice("keys", self.keys, "line", "first", "join")


def read_named_text(
    content: bytes | Callable[[], Iterable[bytes]],
    path: str | None = None,
    words: SymbolTable | None = None,
    options: NamedTextOptions = NamedTextOptions(),
) -> Iterator[tuple[str, Lattice | NinjaError]]:
    """Yield the compact or raw lattices in an archive.

    The format is Kaldi's text format, except that words may be names instead of ids, keys may contain spaces (as in
    TheanoLM), and the empty line after the last lattice may be missing if every state that its arcs enter has a line.
    A large archive is read twice, because the whole archive is needed to decide whether its words are names. Without
    `words`, a new symbol table is created from the names.

    Yields:
        ``(key, lattice or error)`` pairs; an incomplete last lattice is an error.

    Source: Kaldi, lat/kaldi-lattice.cc (text mode), utils/int2sym.pl; TheanoLM, scoring/kaldilattice.py.
    """
    again = content if callable(content) else lambda: (content,)
    vocabulary = _Words(path, words, options)
    stretches = _stretches(again())
    archives: Iterable[_Archive] = [_Archive(*stretch, vocabulary) for stretch in islice(stretches, _CACHED)]
    more = False
    for rows, _, _ in stretches:
        vocabulary.find(rows)
        more = True
    if more:
        archives = (_Archive(*stretch, vocabulary) for stretch in _stretches(again()))
    named = vocabulary.named
    table = vocabulary.table() if named else words
    for archive in archives:
        yield from _lattices(archive, named, words, table)


def _stretches(blocks: Iterable[bytes]) -> Iterator[tuple[list[bytes], int, bool]]:
    """Yield ``(lines, number of the first line, is last)`` for each group of complete entries."""
    pending: list[bytes] = []  # lines of the last, incomplete entry
    first, tail = 1, b""
    for block in blocks:
        lines = block.split(b"\n")
        tail = lines.pop()
        end = len(lines)
        while end and lines[end - 1].strip():
            end -= 1
        if end:
            yield [*pending, *lines[:end], b""], first, False
            first += len(pending) + end
            pending = []
        pending.extend(lines[end:])
    yield [*pending, tail], first, True


def _lattices(
    archive: _Archive, named: bool, words: SymbolTable | None, table: SymbolTable | None
) -> Iterator[tuple[str, Lattice | NinjaError]]:
    vocabulary = Vocabulary() if named else Vocabulary.of(words)
    for place, result in parse(archive.text(named), vocabulary, archive.path or "a text archive"):
        # The parser sees numbers instead of keys, because keys may contain spaces and may occur twice.
        entry = int(place)
        key = archive.keys[entry]
        fault = archive.faults.get(entry)
        if isinstance(result, NinjaError):
            result = archive.with_context(result, key, named)
        if fault is not None and (named or not isinstance(fault, SymbolError)) and not _comes_before(result, fault):
            yield key, fault
        elif isinstance(result, Lattice):
            yield key, result.replace(key=key, words=table)
        else:
            yield key, result


def parse(text: bytes, vocabulary: Vocabulary, name: str) -> list[Entry]:
    """Parse the bytes of an archive with the Kaldi table parser."""
    reader = vocabulary.reader(name)
    space = reader.space(len(text))
    space[: len(text)] = text
    space.release()
    reader.advance(len(text))
    items, faults = reader.parse(0)
    return list(Batch(items, words=vocabulary.words, faults=faults).entries())


class _Words:
    """The words in an archive with their ids, and counts used to decide whether the words are names or ids."""

    def __init__(self, path: str | None, words: SymbolTable | None, options: NamedTextOptions) -> None:
        self.path = path
        self.options = options
        self._words = words
        self.number_of: dict[str, int] = {EPSILON_NAME: EPSILON}
        self.id: dict[bytes, bytes] = {}
        self.names = self.integers = 0  # number of distinct words that are names, or integers

    @property
    def named(self) -> bool:
        """Whether the words are names instead of ids; valid after `find` was called for all lines of the archive."""
        by_content = _EPSILON in self.id or self.names > self.integers
        return self.options.words == "names" or (self.options.words == "auto" and by_content)

    def find(self, rows: Iterable[bytes]) -> None:
        """Assign ids to the words in the lines of complete archive entries."""
        ends = True  # whether the next line is a key
        id_of = self.id
        for row in rows:
            fields = row.split()
            count = len(fields)
            if not count:
                ends = True
            elif ends:
                ends = False
            elif count >= 3 and fields[column := _column(fields, count)] not in id_of:
                with suppress(NinjaError):  # the error is reported when the lattices are read
                    self.new(fields, column, 0)

    def new(self, fields: Sequence[bytes], column: int, line: int) -> bytes:
        """Assign an id to a new word and return the id as text; the parser reports invalid words later."""
        name = fields[column]
        weight = column == 3 and len(fields) == 4 and not name.isdigit() and _NUMBER.fullmatch(name)
        if weight or len(fields) > 5:  # an FST with single weights, not a lattice
            return b"?"
        word = Naming("", self.path, None, self.options.encoding).decoded(name, line)
        self.integers += name.isdigit()
        self.names += not name.isdigit()
        if word == EPSILON_NAME:
            number: int | None = EPSILON
        elif self._words is None:
            number = self.number_of.setdefault(word, len(self.number_of))
        else:
            number = self._words.id(word)
        if number is None:
            raise SymbolError(not_in_table(word), self.path, line=line)
        self.id[name] = b"%d" % number
        return self.id[name]

    def table(self) -> SymbolTable:
        """Return a symbol table of the words."""
        return self._words or SymbolTable(self.number_of.items(), self.path)


class _Archive:
    """Lines of complete archive entries, and a copy in which keys are replaced by numbers and words by their ids."""

    def __init__(self, rows: list[bytes], first: int, last: bool, known: _Words) -> None:
        self.path = known.path
        self.keys: list[str] = []
        self.faults: dict[
            int, NinjaError
        ] = {}  # entry number -> first error in the entry, such as a word without an id
        self._rows = rows
        self._before = first - 1  # number of lines of the file before `rows`
        self._known = known
        self._options = known.options
        self._rewritten = list(rows)
        if last:
            self._complete()
        self._rewrite()

    def text(self, named: bool) -> bytes:
        """Return the text of the entries, with keys replaced by numbers and, if `named` is True, words by their ids."""
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

    def with_context(self, error: NinjaError, key: str, named: bool) -> NinjaError:
        """Return a parser error with the line number and the key in the file."""
        message = error.message
        if isinstance(error, FormatError) and error.line is not None and message.startswith("expected 'state"):
            row = self._rows[error.line - 1].strip()[:_SHOWN].decode(self._options.encoding, "replace")
            kind = "names" if named else "integers"
            message = (
                "expected 'state next word graph,acoustic,labels' or 'state graph,acoustic,labels' "
                f"with words that are {kind}, found {row!r}"
            )
        line = None if error.line is None else self._before + error.line
        return type(error)(message, self.path, key=key, line=line, byte=error.byte)

    def _rewrite(self) -> None:
        ends = True  # whether the next line is a key
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
        choice = self._options.keys
        text = row.strip() if choice == "line" else fields[0] if choice == "first" else b"_".join(fields)
        key = text.decode(self._options.encoding, "surrogateescape")
        self.keys.append(key)
        if len(fields) > 1 and fields[0].isdigit() and (b"," in fields[1] or (fields[1].isdigit() and len(fields) > 2)):
            shown = row.strip()[:_SHOWN].decode(self._options.encoding, "replace")
            message = f"expected a key, found {shown!r}; if it continues a lattice, remove the empty line above"
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
        """Add the empty line after the last lattice if it is missing and the lattice is complete."""
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
    """Return the index of the word in the fields of an arc."""
    # Arcs have three fields in a compact lattice and four in a raw lattice, and may also have a weight.
    return 2 if count == 3 or (count == 4 and b"," in fields[3]) else 3


def _comes_before(result: object, fault: NinjaError) -> bool:
    """Return whether a parser result is an error on an earlier line than `fault`."""
    if not isinstance(result, NinjaError) or result.line is None or fault.line is None:
        return False
    return result.line < fault.line


def _entries(content: Content, words: SymbolTable | None, options: NamedTextOptions) -> Iterator[Entry]:
    return read_named_text(content.readings(), content.name, words, options)


FORMAT = Format(
    name="named-text",
    about="Kaldi text archive with words in place of ids (int2sym.pl), or multi-word keys (TheanoLM)",
    mark=_MARK.match,
    read=Read(_entries, NamedTextOptions, ids=True),
)
