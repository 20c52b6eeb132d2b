"""Kaldi's text archives with names of words in place of ids (``int2sym.pl -f 3``), or with keys of several words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ninja.errors import FormatError, LatticeError, NinjaError, OptionError, SymbolError
from ninja.formats.kaldi import MAGIC, Vocabulary
from ninja.formats.nbest import NBest, joined, read_kaldi_names
from ninja.formats.textual import EPSILON_NAME, check_encoding
from ninja.lattice import Lattice
from ninja.symbols import EPSILON, SymbolTable

_EPSILON = EPSILON_NAME.encode()
_NUMBER = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class NamedTextOptions:
    """How such an archive is understood."""

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
    content: bytes,
    path: str | None = None,
    words: SymbolTable | None = None,
    options: NamedTextOptions = NamedTextOptions(),
) -> Iterator[tuple[str, Lattice | NinjaError]]:
    """Yield the lattices of an archive, compact or raw.

    It is Kaldi's text format, but words may be names, keys may have blanks in them (as TheanoLM's), and the empty line
    behind the last lattice may be missing where all states of that lattice are there.

    Args:
        content: The whole archive.
        path: File name for error messages.
        words: Symbol table that the words must be in; None: where they are names, one of the archive's own words is
            made, epsilon 0.
        options: How it is understood.

    Yields:
        Each key with its lattice, or with what is wrong with it. What an archive cut short ends in is its last entry.

    Source: Kaldi, lat/kaldi-lattice.cc (text mode), utils/int2sym.pl; TheanoLM, scoring/kaldilattice.py.
    """
    archive = _Archive(content.split(b"\n"), path, words, options)
    reader = (Vocabulary() if archive.named else Vocabulary.of(words)).reader(path or "a text archive")
    table = archive.table() if archive.named else words
    text = archive.text()
    space = reader.space(len(text))
    space[: len(text)] = text
    space.release()
    reader.advance(len(text))
    for place, found in reader.parse(0):
        # The archive goes to the parser with numbers as keys, so that a key may be anything, and occur twice.
        entry = int(place)
        key = archive.keys[entry]
        fault = archive.faults.get(entry)
        if fault is not None and not _comes_before(found, fault):
            yield key, fault
        elif isinstance(found, Lattice):
            yield key, replace(found, key=key, words=table)
        else:
            yield key, archive.explained(found, key)


def read_linear_lists(
    content: bytes, path: str | None = None, options: NamedTextOptions = NamedTextOptions()
) -> list[NBest]:
    """Read the n-best lists of an archive of linear lattices with keys ``utt-1``, ``utt-2``, …, binary or text.

    Args:
        content: The whole archive; its words are ids, or in text names.
        path: File name for error messages.
        options: How it is understood.

    Raises:
        FormatError: It is no such archive.
        LatticeError: A lattice is no single path, or its key has no number.

    Source: Kaldi, latbin/lattice-to-nbest.cc.
    """
    lattices: list[Lattice] = []
    reader = Vocabulary().reader(path or "an archive of n-best lists")
    space = reader.space(len(content))
    space[: len(content)] = content
    space.release()
    reader.advance(len(content))
    for key, found in reader.parse(0):
        if isinstance(found, LatticeError):
            raise found
        if isinstance(found, NinjaError):
            if MAGIC in content[:8192]:
                raise found
            return read_kaldi_names(content, path, encoding=options.encoding)
        lattices.append(found.with_key(key))
    return list(joined(lattices))


class _Archive:
    """The lines of an archive, with ids in place of names and numbers in place of keys."""

    def __init__(
        self, rows: list[bytes], path: str | None, words: SymbolTable | None, options: NamedTextOptions
    ) -> None:
        self.keys: list[str] = []
        self.faults: dict[int, NinjaError] = {}  # by entry: the first word that has no id
        self._rows = rows
        self._path = path
        self._words = words
        self._options = options
        self._number_of: dict[str, int] = {EPSILON_NAME: EPSILON}
        self._id: dict[bytes, bytes] = {}
        self._names = self._integers = 0  # words of either kind, each once if it has an id
        self._rewritten = list(rows)
        self._complete()
        self._rewrite()
        by_content = _EPSILON in self._id or self._names > self._integers
        self.named = options.words == "names" or (options.words == "auto" and by_content)
        if not self.named:
            self.faults = {entry: fault for entry, fault in self.faults.items() if not isinstance(fault, SymbolError)}

    def text(self) -> bytes:
        """Return what Kaldi would have written."""
        if self.named:
            return b"\n".join(self._rewritten)
        keys = iter(range(len(self.keys)))
        ends = True
        rows = self._rows
        for at, row in enumerate(rows):
            if row.isspace() or not row:
                ends, rows[at] = True, b""
            elif ends:
                ends, rows[at] = False, b"%d" % next(keys)
        return b"\n".join(rows)

    def table(self) -> SymbolTable:
        """Return the table of the words."""
        return self._words or SymbolTable(self._number_of.items(), self._path)

    def explained(self, error: NinjaError, key: str) -> NinjaError:
        """Return what the parser found wrong, of the line as it is in the file."""
        message = error.message
        if isinstance(error, FormatError) and error.line is not None and message.startswith("expected 'state"):
            found = self._rows[error.line - 1].strip()[:_SHOWN].decode(self._options.encoding, "replace")
            kind = "names" if self.named else "integers"
            message = (
                "expected 'state next word graph,acoustic,labels' or 'state graph,acoustic,labels' "
                f"with words that are {kind}, found {found!r}"
            )
        return type(error)(message, self._path, key=key, line=error.line, byte=error.byte)

    def _rewrite(self) -> None:
        ends = True  # whether an entry has ended
        rewritten, id_of = self._rewritten, self._id
        for at, row in enumerate(self._rows):
            fields = row.split()
            count = len(fields)
            if not count:
                ends, rewritten[at] = True, b""
            elif ends:
                ends = False
                rewritten[at] = b"%d" % len(self.keys)
                self._begin(row, fields, at + 1)
            elif count >= 3:
                # A compact lattice has three fields and a weight, a raw one four and a weight; weights may be missing.
                column = 2 if count == 3 or (count == 4 and b"," in fields[3]) else 3
                fields[column] = id_of.get(fields[column]) or self._new(fields, column, at + 1)
                rewritten[at] = b" ".join(fields)

    def _begin(self, row: bytes, fields: Sequence[bytes], line: int) -> None:
        how = self._options.keys
        whole = row.strip() if how == "line" else fields[0] if how == "first" else b"_".join(fields)
        key = whole.decode(self._options.encoding, "surrogateescape")
        self.keys.append(key)
        if len(fields) > 1 and fields[0].isdigit() and (b"," in fields[1] or (fields[1].isdigit() and len(fields) > 2)):
            found = row.strip()[:_SHOWN].decode(self._options.encoding, "replace")
            message = f"expected a key, found {found!r}; is there an empty line within the lattice before it?"
            self._fault(FormatError(message, self._path, line=line))

    def _new(self, fields: Sequence[bytes], column: int, line: int) -> bytes:
        """Return the id of a word that is not known yet, as text; what cannot be one is left to the parser."""
        name = fields[column]
        weight = column == 3 and len(fields) == 4 and not name.isdigit() and _NUMBER.fullmatch(name)
        if weight or len(fields) > 5:  # lattices have no weights of one number
            return b"?"
        try:
            word = name.decode(self._options.encoding)
        except UnicodeDecodeError as error:
            encoding = self._options.encoding.upper()
            message = f"not {encoding} ({error.reason}); give the encoding or convert the file with iconv"
            return self._fault(FormatError(message, self._path, line=line))
        self._integers += name.isdigit()
        self._names += not name.isdigit()
        if word == EPSILON_NAME:
            number: int | None = EPSILON
        elif self._words is None:
            number = self._number_of.setdefault(word, len(self._number_of))
        else:
            number = self._words.id(word)
        if number is None:
            message = f"word {word!r} is not in the symbol table; is it the right one?"
            return self._fault(SymbolError(message, self._path, line=line))
        self._id[name] = found = b"%d" % number
        return found

    def _fault(self, error: NinjaError) -> bytes:
        entry = len(self.keys) - 1
        error.key = self.keys[entry]
        self.faults.setdefault(entry, error)
        return b"0"

    def _complete(self) -> None:
        """Put the empty line behind the last lattice where it is missing, but every state that is entered is there."""
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


def _comes_before(found: object, fault: NinjaError) -> bool:
    """Tell whether the parser found something on an earlier line than a word without an id is."""
    return (
        isinstance(found, NinjaError) and found.line is not None and fault.line is not None and found.line < fault.line
    )
