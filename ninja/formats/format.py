"""Registry of file formats and their options, used for detection, ``--from``, ``--to``, output names, and help."""

from __future__ import annotations

import dataclasses
import os
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from ninja.errors import FormatError, OptionError
from ninja.files.names import listing
from ninja.files.output import Target, is_specifier, target
from ninja.files.stream import BOM, is_remote
from ninja.files.stream import STDIN as STDOUT
from ninja.formats import unsupported
from ninja.formats.content import Content, Entry
from ninja.lattice.symbols import SymbolTable

# Modules of the formats, in the order of detection; they are imported on demand. Each defines FORMAT or FORMATS.
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
    "hypotheses.presets",
    "nbest.json_lists",
    "nbest.srilm",
    "nbest.columns",
    "nbest.tables",
    "nbest.webvtt",
    "nbest.srt",
    "nbest.whisper_tsv",
    "nbest.ctm",
    "nbest.transcripts",
    "fst_text",
    "nbest.nemo",
    "nbest.kaldi",
    "nbest.espnet",
)
KALDI = ("binary", "text")  # Kaldi archives, which may have script files and can be resumed
_NO_OUTPUTS = {  # extensions that cannot be written
    ".stm": "STM cannot be written; use JSON lines (.jsonl) for words with times",
    ".textgrid": "TextGrid cannot be written; use JSON lines (.jsonl) for words with times",
    ".trn": "trn cannot be written; use ninja best for lines of a key and words",
    ".feather": "Feather cannot be written; use Parquet (.parquet)",
    ".scp": "a script file requires an archive; use ark,scp:FILE.ark,FILE.scp",
}
HEAD = 1 << 16  # number of bytes of a file from which its format is detected

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
# Properties of lattices, lists and networks that a format may store -> their names in messages about losses.
FIELDS: dict[Field, str] = {
    "key": "key",
    "paths": "paths and their costs",
    "graph": "graph costs",
    "acoustic": "acoustic costs",
    "apart": "separate graph and acoustic costs",
    "unscaled": "unscaled acoustic costs",
    "word costs": "word costs",
    "alignments": "alignments",
    "times": "times",
    "frame shift": "frame shift",  # other than 0.01 s, the default of readers
    "raw": "raw kind",
    "ids": "word ids",
    "names": "word names",
    "fields": "other fields of the n-best list",
}
ALL_FIELDS = frozenset(FIELDS) - {"fields"}


class Read(NamedTuple):
    """The reader function of a file format, its options and its properties."""

    # (content, symbol table or None for a new one, options) -> entries of the file
    entries: Callable[..., Iterator[Entry]]
    options: type | None = None  # dataclass for ``--from NAME:OPTION=VALUE``
    ids: bool = False  # files may contain word ids; the symbol table is in the file or is set by the user
    single: bool = False  # whether a file contains only one lattice, so reading ahead is useless
    lazy: bool = False  # if ``content.late`` is set, a lattice is read when it is first used


class WriteSettings(NamedTuple):
    """Options, symbol table and encoding for one output."""

    options: Any  # instance of the options class of the format
    words: SymbolTable | None  # [default: the table of each lattice]
    encoding: str = "utf-8"
    originals: tuple[str, ...] = ()  # paths of all sources in order, for formats that rewrite them


class Encoder(Protocol):
    """Encoder that converts items, such as lattices or n-best lists, to the bytes of a single file."""

    def add(self, item: Any) -> bytes:
        """Encode an item; return the next bytes of the file."""
        ...

    def end(self) -> bytes:
        """Return the last bytes of the file."""
        ...


@runtime_checkable
class NotingEncoder(Encoder, Protocol):
    """Encoder that also returns messages for the user."""

    def notes(self) -> list[str]:
        """Return the messages, after the whole file has been encoded."""
        ...


class Write(NamedTuple):
    """The writer function of a file format, its options and its properties.

    Exactly one of the first three fields is set. For Kaldi archives, none is set, because they have a separate writer,
    which can resume an incomplete archive.
    """

    encode: Callable[[Any, WriteSettings], bytes] | None = None  # for formats whose files are concatenated entries
    encoder: Callable[[WriteSettings], Encoder] | None = None  # for formats with a header, footer or state
    encode_files: Callable[[Any, WriteSettings], dict[str, bytes]] | None = None  # file name -> bytes to append
    options: Callable[..., Any] | None = None  # dataclass for ``--to NAME:OPTION=VALUE``
    files: Literal["one", "each", "named"] = "one"  # one file, one file per lattice, or the files of ``encode_files``
    keeps: Callable[[frozenset[Field], Any], frozenset[Field]] | None = (
        None  # (format fields, options) -> stored fields
    )
    also_lost: Callable[[Any, WriteSettings], list[str]] | None = (
        None  # returns names of other properties that are lost
    )
    key_is_field: bool = False  # whether keys must not contain whitespace
    unique_keys: bool = False
    encoded_keys: bool = False  # True: keys are text in the encoding of the file; False: keys are arbitrary bytes
    rewrites_files: bool = False  # whether existing files are rewritten; see `ninja.formats.hypotheses.document`
    restores: bool = False  # whether lists that were read from this format keep all content except their words


class Format(NamedTuple):
    """A file format: names, detection, reader and writer."""

    name: str
    about: str  # one-line description for help texts and documentation
    holds: Literal["lattice", "nbest", "network"] = "lattice"
    extensions: tuple[str, ...] = ()  # the first is used for new files
    aliases: tuple[str, ...] = ()
    mark: Callable[[bytes], object] | None = None  # detects the format from the first bytes of a file
    in_folder: Callable[[bytes], object] | None = None  # stricter detection for files in a folder  [default: `mark`]
    of_folder: Callable[[str], bool] | None = None  # returns whether a folder as a whole is a source in this format
    results: bool = False  # whether files are recogniser results, which are skipped in folders that contain lattices
    keeps: frozenset[Field] = frozenset()  # fields that a file can store
    read: Read | None = None
    write: Write | None = None

    def stored_fields(self, options: Any) -> frozenset[Field]:
        """Return the lattice fields that a file written with these options can store."""
        assert self.write is not None
        return self.keeps if self.write.keeps is None else self.write.keeps(self.keeps, options)


class Reader(NamedTuple):
    """A file format together with reader options."""

    format: Format
    options: Any

    @classmethod
    def of(cls, format: Format, values: dict[str, str], encoding: str = "utf-8") -> Reader:
        """Create a reader from option values that are strings, as on the command line.

        Raises:
            OptionError: An option is unknown, or its value is invalid.
        """
        assert format.read is not None
        return cls(format, fill_options(format.read.options, values, format.name, encoding=encoding))

    def entries(self, content: Content, words: SymbolTable | None) -> Iterator[Entry]:
        """Yield ``(key, lattice or error)`` for each entry in a file.

        Args:
            content: The file.
            words: Symbol table that must contain the words.  [default: a new table of the words in the file]

        Raises:
            NinjaError: The rest of the file cannot be read.
        """
        assert self.format.read is not None
        if self.format.read.ids and words is not None and words.grows:
            words = None  # the caller adds the words of the file to the growing table later
        return self.format.read.entries(content, words, self.options)


def formats() -> Iterator[Format]:
    """Yield all formats in the order in which detection tries them."""
    for module in MODULES:
        yield from formats_of(module)


def formats_of(name: str) -> tuple[Format, ...]:
    """Return the formats that a module in ``MODULES`` defines."""
    module = import_module(f"ninja.formats.{name}")
    return getattr(module, "FORMATS", None) or (module.FORMAT,)


def by_name(name: str, purpose: Literal["read", "write"]) -> Format:
    """Return the format with the given name or alias.

    Raises:
        OptionError: The format does not exist, or cannot be read or written.
    """
    names = []
    for format in formats():
        if getattr(format, purpose) is not None:
            if name == format.name or name in format.aliases:
                return format
            names.append(format.name)
    direction = "input" if purpose == "read" else "output"
    raise OptionError(f"unknown {direction} format {name!r}; available formats: {', '.join(names)}")


def by_extension(path: str | os.PathLike[str]) -> list[Format]:
    """Return the formats with the longest extension that matches a file name, ignoring ``.gz``.

    Formats that can only rewrite existing files are excluded, because they share their extensions with other formats.
    """
    base = os.path.basename(os.fspath(path).rstrip(os.sep)).removesuffix(".gz").lower()
    if "." not in base:
        return []
    matches: list[tuple[int, Format]] = []
    for format in formats():
        if format.write is not None and format.write.rewrites_files:
            continue
        length = max((len(end) for end in format.extensions if base.endswith(end)), default=0)
        if length and not matches:  # no other format has this extension, so do not import the remaining ones
            return [format]
        matches.append((length, format))
    longest = max(length for length, _ in matches)
    return [format for length, format in matches if length == longest > 0]


def by_mark(head: bytes) -> Format | None:
    """Return the first format whose function `mark` recognises the first bytes of a file, or None.

    Args:
        head: The first ``HEAD`` decompressed bytes of the file, or all bytes of a shorter file.
    """
    head = head.removeprefix(BOM)
    return next((format for format in formats() if format.mark is not None and format.mark(head)), None)


def detect(head: bytes, name: str) -> Format | None:
    """Detect the format of a file from its first bytes, or else from its extension; return None if it is not known.

    Args:
        head: The first ``HEAD`` decompressed bytes of the file, or all bytes of a shorter file.
        name: File name.

    Raises:
        FormatError: The file is in a known but unsupported format, such as bzip2.
    """
    if (marked := by_mark(head)) is not None:
        return marked
    if (refusal := unsupported.refusal(head)) is not None:
        raise FormatError(refusal, name)
    readable = [format for format in by_extension(name) if format.read is not None]
    return readable[0] if len(readable) == 1 else None


def of_folder(path: str, encoding: str = "utf-8") -> Reader | None:
    """Return the reader for a folder that forms a single source, or None if its files are separate sources."""
    if is_remote(path) or not listing(path)[1]:  # such a format requires a local folder that has subfolders
        return None
    format = next((format for format in formats() if format.of_folder is not None and format.of_folder(path)), None)
    return None if format is None else Reader.of(format, {}, encoding)


def reader(text: str, encoding: str = "utf-8") -> Reader:
    """Return the reader for a format with options, such as ``slf`` or ``slf:frame_shift=0.016``.

    Raises:
        OptionError: The format or an option is unknown, or the value of an option is invalid.
    """
    name, values = split_options(text)
    return Reader.of(by_name(name, "read"), values, encoding)


class OutputFormat(NamedTuple):
    """The files and the format of an output, as determined by its name and the option ``--to``."""

    name: str
    to: str | None  # format with its options, as the user specified it
    target: Target
    format: Format
    options: Mapping[str, str]

    @property
    def is_kaldi(self) -> bool:
        """Whether the output is a Kaldi archive."""
        return self.format.name in KALDI

    @property
    def writes_words(self) -> bool:
        """Whether the output contains words as text rather than word ids."""
        assert self.format.write is not None
        options = fill_options(self.format.write.options, self.options, self.format.name)
        return "ids" not in self.format.stored_fields(options)


def format_of(name: str | os.PathLike[str], to: str | None = None) -> OutputFormat:
    """Determine the files and the format of an output.

    Args:
        name: Path, ``-`` or Kaldi wspecifier; see ``target``.
        to: ``FORMAT`` or ``FORMAT:OPTION=VALUE,…``.  [default: the format of the extension, or else a binary Kaldi
            archive]

    Raises:
        OptionError: The format does not exist, the extension belongs to several formats or to a read-only format, or
            `name` is a wspecifier for a format other than `to`.
    """
    if not isinstance(name, str | os.PathLike):
        raise OptionError(f"name is {name!r:.60}, but must be a path or a wspecifier")
    place = target(name)
    if to is None:
        return OutputFormat(os.fspath(name), None, place, _by_extension(name, place), {})
    form, values = split_options(to)
    format = by_name(form, "write")
    if is_specifier(name) and format.name != KALDI[place.text]:
        raise OptionError(f"{os.fspath(name)!r} is a wspecifier and cannot have the format {form!r}; use a file name")
    return OutputFormat(os.fspath(name), to, place, format, values)


def _by_extension(name: str | os.PathLike[str], place: Target) -> Format:
    path = os.fspath(name)
    if is_specifier(name) or path == STDOUT:
        return by_name(KALDI[place.text], "write")
    formats = by_extension(path)
    writable = [format for format in formats if format.write is not None]
    if len(writable) > 1:
        names = [format.name for format in writable]
        choices = " or ".join(f"to={name!r}" for name in names)
        flags = ", ".join(f"--to {name}" for name in names)
        raise OptionError(f"{path!r}: the extension belongs to {' and '.join(names)}; use {choices} ({flags})")
    if writable:
        return writable[0]
    if formats:
        raise OptionError(f"{path!r}: {formats[0].name} files cannot be written; select another format with --to")
    for ending, advice in _NO_OUTPUTS.items():
        if path.removesuffix(".gz").lower().endswith(ending):
            raise OptionError(f"{path!r}: {advice}, or select a format with --to")
    return by_name(KALDI[0], "write")


Options = TypeVar("Options")
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_NONE = "none"


def split_options(text: str) -> tuple[str, dict[str, str]]:
    """Split ``NAME:OPTION=VALUE,OPTION=VALUE`` into the name and a dictionary of values.

    Raises:
        OptionError: An item is not of the form ``OPTION=VALUE``, or an option is set twice.
    """
    name, _, options = text.partition(":")
    values: dict[str, str] = {}
    for item in options.split(",") if options else ():
        option, equals, value = item.partition("=")
        option = option.strip().replace("-", "_")
        if not equals or not option:
            raise OptionError(f"{text!r}: expected OPTION=VALUE after the colon, found {item!r}")
        if option in values:
            raise OptionError(f"{text!r} sets {option} twice")
        values[option] = value.strip()
    return name.strip(), values


def fill_options(
    options: Callable[..., Options] | None, values: Mapping[str, str], name: str, **defaults: Any
) -> Options | None:
    """Create an instance of an options dataclass from strings; return None if the format has no options.

    In the value of an option, the items of a list are separated by ``+``, and ``none`` means None. Options that are not
    in `values` are set from `defaults`; names in `defaults` that are not options of the format are ignored.

    Raises:
        OptionError: An option is unknown, or its value is invalid.
    """
    if options is None:
        if values:
            raise OptionError(f"{name} has no option {next(iter(values))!r}; remove the option")
        return None
    fields = {field.name for field in dataclasses.fields(typing.cast(Any, options))}
    kinds = typing.get_type_hints(options) if values else {}  # slow: it takes longer than reading a small lattice
    arguments = {field: value for field, value in defaults.items() if field in fields}
    for option, text in values.items():
        if option not in fields:
            names = ", ".join(sorted(fields)) or "none"
            raise OptionError(f"{name} has no option {option!r}; available options: {names}")
        try:
            arguments[option] = _value(text, kinds[option])
        except ValueError as error:
            raise OptionError(f"{name}: {option}={text} is not {_describe(kinds[option])}") from error
    return options(**arguments)


def _value(text: str, kind: Any) -> Any:
    """Convert the text of an option value to the type of the option."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        if text.lower() == _NONE and type(None) in parts:
            return None
        return _value(text, next(part for part in parts if part is not type(None)))
    if origin is typing.Literal:
        if text not in parts:
            raise ValueError(text)
        return text
    if origin in (tuple, frozenset):
        return origin(_value(item, parts[0]) for item in text.split("+") if item)
    if kind is bool:
        if text.lower() not in _TRUTH:
            raise ValueError(text)
        return _TRUTH[text.lower()]
    value = kind(text)
    if kind is int and abs(value) >= 1 << 31:
        raise ValueError(text)
    return value


def _describe(kind: Any) -> str:
    """Describe the values that an option accepts."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_NONE if part is type(None) else _describe(part) for part in parts)
    if origin is typing.Literal:
        return "one of " + ", ".join(parts)
    if origin in (tuple, frozenset):
        return "a list joined by +"
    return {int: "an integer", float: "a number", bool: "true or false"}.get(kind, "text")
