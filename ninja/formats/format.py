"""Formats and their registry, used for detection, ``--from``, ``--to``, extensions and help."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, Protocol

from ninja.errors import FormatError, OptionError
from ninja.files.text import BOM
from ninja.formats import options, unsupported
from ninja.formats.content import Content, Entry
from ninja.lattice.symbols import SymbolTable

# Modules of the formats in the order of detection, loaded when they are reached; at the end of each stands its FORMAT.
MODULES = (
    "kaldi.archive",
    "kaldi.text_archive",
    "slf",
    "sphinx",
    "pfsg",
    "plf",
    "mesh",
    "fst_binary",
    "kaldi.fst_archive",
    "kaldi.named_text",
    "k2",
    "native",
    "nbest.json_lists",
    "nbest.srilm",
    "nbest.columns",
    "nbest.ctm",
    "fst_text",
    "nbest.nemo",
    "nbest.kaldi",
    "nbest.espnet",
)
HEAD = 1 << 16  # bytes of a file by which its format is known

Field = Literal[
    "key",
    "paths",
    "graph",
    "acoustic",
    "apart",
    "unscaled",
    "word costs",
    "alignments",
    "times",
    "frame shift",
    "raw",
    "ids",
    "names",
    "fields",
]
# What a format may keep of lattices, lists and networks, in the words that say what is lost.
FIELDS: dict[Field, str] = {
    "key": "key",
    "paths": "paths and their costs",
    "graph": "graph costs",
    "acoustic": "acoustic costs",
    "apart": "separate graph and acoustic costs",
    "unscaled": "unscaled acoustic costs",
    "word costs": "costs of single words",
    "alignments": "alignments",
    "times": "times",
    "frame shift": "frame shift",  # other than 0.01 s, which readers take for granted
    "raw": "raw kind",
    "ids": "word ids",
    "names": "word names",
    "fields": "other fields of a list",
}
ALL_FIELDS = frozenset(FIELDS) - {"fields"}


@dataclass(frozen=True, slots=True)
class Read:
    """The reader of a format."""

    # Content, table of words (None: the file's own), options -> the entries of the file.
    entries: Callable[..., Iterator[Entry]]
    options: type | None = None  # dataclass of what ``--from NAME:OPTION=VALUE`` sets
    ids: bool = False  # words may be ids, of a table in the file or one that the user must know
    lazy: bool = False  # lattices are read when they are used, where ``content.late`` allows it


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """Options, symbol table and encoding of one output."""

    options: Any  # of the format's class
    words: SymbolTable | None  # None: that of each lattice
    encoding: str = "utf-8"


class Encoder(Protocol):
    """Encoder of items into the bytes of one file."""

    def add(self, item: Any) -> bytes:
        """Take an item, and return the bytes that follow those before."""
        ...

    def end(self) -> bytes:
        """Return the last bytes of the file."""
        ...


@dataclass(frozen=True, slots=True)
class NoOptions:
    """Options of a format that has none."""


@dataclass(frozen=True, slots=True)
class Write:
    """The writer of a format: one of the first three fields; none for Kaldi's archives, which are resumed."""

    encode: Callable[[Any, WriteSettings], bytes] | None = None  # an item; files are such entries in a row
    encoder: Callable[[WriteSettings], Encoder] | None = None  # files that are more than their entries in a row
    encode_files: Callable[[Any, WriteSettings], dict[str, bytes]] | None = None  # what an item adds to named files
    options: Callable[..., Any] = NoOptions  # dataclass of what ``--to NAME:OPTION=VALUE`` sets
    files: Literal["one", "each", "named"] = "one"  # one of all lattices, one of each, or those of ``encode_files``
    keeps: Callable[[frozenset[Field], Any], frozenset[Field]] | None = None  # what is kept, as options change it
    also_lost: Callable[[Any, WriteSettings], list[str]] | None = None  # what of an item no field says
    key_is_field: bool = False  # a blank ends the key
    unique_keys: bool = False
    encoded_keys: bool = False  # keys are text in the file's encoding; elsewhere they may be any bytes


@dataclass(frozen=True, slots=True)
class Format:
    """A format: its names, mark, reader, writer and fields."""

    name: str
    about: str  # one line for help and docs
    holds: Literal["lattice", "nbest", "network"] = "lattice"
    extensions: tuple[str, ...] = ()  # the first one is given to new files
    aliases: tuple[str, ...] = ()
    mark: Callable[[bytes], object] | None = None  # whether a file begins as no other format's does
    in_folder: Callable[[bytes], object] | None = None  # stricter mark of files that lie among others; None: the mark
    of_folder: Callable[[str], bool] | None = None  # whether a folder is one source of this format
    results: bool = False  # beside lattices such files are what became of them
    keeps: frozenset[Field] = frozenset()  # what a file can hold
    read: Read | None = None
    write: Write | None = None

    def kept(self, options: Any) -> frozenset[Field]:
        """Return the fields that a file written with these options can hold."""
        assert self.write is not None
        return self.keeps if self.write.keeps is None else self.write.keeps(self.keeps, options)


@dataclass(frozen=True, slots=True)
class Reader:
    """A format with the options that its files are read with."""

    format: Format
    options: Any

    @classmethod
    def of(cls, format: Format, values: dict[str, str], encoding: str = "utf-8") -> Reader:
        """Fill in the options that a user wrote.

        Raises:
            OptionError: There is no such option, or its value is out of range.
        """
        assert format.read is not None
        return cls(format, options.fill(format.read.options, values, format.name, encoding=encoding))

    def entries(self, content: Content, words: SymbolTable | None) -> Iterator[Entry]:
        """Yield each key of a file with its lattice or its error.

        Args:
            words: Symbol table that words must be in; None: the file's own words make one, where it spells them.

        Raises:
            NinjaError: What ends the reading of this file.
        """
        assert self.format.read is not None
        if self.format.read.ids and words is not None and words.grows:
            words = None  # it knows no ids; names come into it afterwards
        return self.format.read.entries(content, words, self.options)


def formats() -> Iterator[Format]:
    """Yield the formats in the order of detection."""
    for module in MODULES:
        yield import_module(f"ninja.formats.{module}").FORMAT


def by_name(name: str, purpose: Literal["read", "write"]) -> Format:
    """Return the format of a name or alias.

    Raises:
        OptionError: There is none that can be read, or written.
    """
    known = []
    for each in formats():
        if getattr(each, purpose) is not None:
            if name == each.name or name in each.aliases:
                return each
            known.append(each.name)
    raise OptionError(f"there is no format {name!r} to {purpose}; there is: {', '.join(known)}")


def by_extension(path: str | os.PathLike[str]) -> list[Format]:
    """Return the formats with the longest extension that a file's name ends in, ``.gz`` aside; none: []."""
    base = os.path.basename(os.fspath(path).rstrip(os.sep)).removesuffix(".gz").lower()
    found: list[tuple[int, Format]] = []
    for each in formats():
        length = max((len(end) for end in each.extensions if base.endswith(end)), default=0)
        if length and not found:  # the first format shares its extension with no other: these need not be loaded
            return [each]
        found.append((length, each))
    longest = max(length for length, _ in found)
    return [each for length, each in found if length == longest > 0]


def by_mark(head: bytes) -> Format | None:
    """Return the first format whose mark a file begins with; None: there is none.

    Args:
        head: The file's first ``HEAD`` bytes, unpacked, or all.
    """
    head = head.removeprefix(BOM)
    return next((each for each in formats() if each.mark is not None and each.mark(head)), None)


def detect(head: bytes, name: str) -> Format | None:
    """Return the format of a file, by its mark or else by its extension; None: it is not known.

    Args:
        head: Its first ``HEAD`` bytes, unpacked, or all.

    Raises:
        FormatError: It is of a kind that no format reads, for one packed by another program than gzip.
    """
    if (marked := by_mark(head)) is not None:
        return marked
    if (refusal := unsupported.refusal(head)) is not None:
        raise FormatError(refusal, name)
    found = [each for each in by_extension(name) if each.read is not None]
    return found[0] if len(found) == 1 else None


def of_folder(path: str, encoding: str = "utf-8") -> Reader | None:
    """Return the format of a folder that is one source by itself; None: its files are the sources."""
    with os.scandir(path) as entries:
        if not any(entry.is_dir() for entry in entries):
            return None
    found = next((each for each in formats() if each.of_folder is not None and each.of_folder(path)), None)
    return None if found is None else Reader.of(found, {}, encoding)


def reader(text: str, encoding: str = "utf-8") -> Reader:
    """Return the format that a user named, with options: ``slf``, ``slf:frame_shift=0.016``.

    Raises:
        OptionError: There is no such format or option.
    """
    name, values = options.split(text)
    return Reader.of(by_name(name, "read"), values, encoding)
