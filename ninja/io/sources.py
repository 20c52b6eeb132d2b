"""Sources of lattices, and the scale files next to them; each name is resolved once, and each file is opened once.

The scale file of ``rescored.ark.gz`` is ``rescored.ark.gz.scales.toml``. The scale file of a folder is
``lattices.scales.toml`` in the folder. The keys of a scale file are named like the command-line options:
``acoustic_scale``, ``word_penalty``, ``lm_scale`` (if it is not 1), and ``lm_weight`` for rescored lattices.
"""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from ninja.errors import FormatError, InputError, NinjaError, OptionError
from ninja.files.names import listing, matching, resolve, resolve_listed
from ninja.files.stream import (
    SPECIFIER,
    STDIN,
    Guard,
    Place,
    Stream,
    Table,
    by_suffix,
    decoded,
    is_file,
    is_read_once,
    is_remote,
    open_stream,
)
from ninja.files.text import read_toml
from ninja.formats.content import LIST_HEAD, is_list, names_script
from ninja.formats.format import HEAD
from ninja.formats.kaldi import archive as kaldi
from ninja.formats.kaldi.archive import KALDI_IMAGE, TABLE_NAMES, table_beside
from ninja.io import detection
from ninja.io.detection import SCALES_NAME, SCALES_SUFFIX, Holds, names_in
from ninja.lattice import Scales

# How Kaldi text archives begin. For other files, the registry of formats must be imported, which takes longer.
_KALDI_TEXT = re.compile(
    rb"\s*\S{1,4096}[ \t]*\n\s*\d+[ \t]+\d+[ \t]+\d+(?:[ \t]+\d+)?[ \t]+[^\s,]+,[^\s,]+(?:,[\d_]*)?\s"
)
KALDI_READ = kaldi.FORMAT.read
KALDI_HEAD = 4096 + 128  # maximum number of bytes of a key and a lattice header
MAX_OPEN = 256  # maximum number of inspected files of a folder that stay open until they are read
_READ_OPTIONS = {"ark", "scp", "b", "t", "o", "no", "p", "np", "s", "ns", "cs", "ncs", "bg"}

Kind = Literal["ark", "scp", "list", "folder"]


class SourceFile:
    """A file, pipe or folder in a source; the stream that is opened for inspection is also used for reading.

    Args:
        table: The file and its content type.
        guard: Guard that registers the file when it is read, to protect it from being replaced by an output.
        parent: The folder that contains the file, if the source is a folder.
    """

    def __init__(self, table: Table, guard: Guard | None = None, parent: SourceFile | None = None) -> None:
        self.table = table
        self.place = table.place
        self.path = table.place.path
        self.name = table.place.name
        self.num_open = 0  # number of open files in this folder
        self._guard = guard
        self._parent = parent
        self._stream: Stream | None = None

    def __del__(self) -> None:
        self.close()

    @cached_property
    def is_pipe(self) -> bool:
        """Whether the source can be read only once: the output of a command, a named pipe or stdin."""
        return self.place.command is not None or is_read_once(self.path)

    @cached_property
    def size(self) -> int | None:
        """Size of the file, or of all files in a folder, in bytes; None if unknown, for example for a pipe."""
        path = self.path
        if self.place.end is not None:
            return self.place.end - self.place.offset
        try:
            if is_remote(path):
                return None
            if self.table.kind == "folder":
                return sum(os.path.getsize(file.path) for file in self.files)
            status = os.stat(path)
        except (OSError, ValueError, InputError):
            return None
        return status.st_size if stat.S_ISREG(status.st_mode) and self.place.command is None else None

    def inspect(self) -> Stream:
        """Open the file and keep it open, to inspect its first bytes with ``head``."""
        if self._stream is None:
            self._stream = open_stream(self.place)
            if self._parent is not None:
                self._parent.num_open += 1
        return self._stream

    def open(self) -> Stream:
        """Open the file at its start; the caller must close it.

        Raises:
            OptionError: An output of the run would replace the file.
        """
        stream = self.inspect()
        self._release()
        try:
            if self._guard is not None:
                self._guard.read(self.name, stream.identity)
            if stream.seekable:
                stream.seek(self.place.offset)
        except BaseException:
            stream.close()
            raise
        return stream

    def close(self) -> None:
        """Close the file if it was inspected, but not read."""
        if self._stream is not None:
            self._stream.close()
            self._release()

    def close_surplus(self) -> None:
        """Close the file if too many files of its folder are open."""
        if self._parent is not None and self._parent.num_open > MAX_OPEN:
            self.close()

    def _release(self) -> None:
        self._stream = None
        if self._parent is not None:
            self._parent.num_open -= 1

    @cached_property
    def kind(self) -> Kind:
        """Type of the source: archive, script file, file list or folder.

        Pipes and files that cannot be read count as archives; the reader reports the error.
        """
        if self.table.kind != "any":
            return self.table.kind
        if self.is_pipe:
            return "ark"
        try:
            stream = self.inspect()
            return "ark" if is_kaldi(stream.head(KALDI_HEAD, is_kaldi)) else kind_of(self.table, stream)
        except NinjaError:
            return "ark"

    def content(self) -> bytes:
        """Return the content of a file list or script file without consuming it; empty if it cannot be read."""
        if self.is_pipe:
            return b""
        try:
            stream = self.inspect()
            if stream.seekable:
                stream.seek(self.place.offset)
                return stream.rest()
            content = stream.rest()
            stream.close()
            self._stream = Stream(io.BytesIO(content), self.name)
        except NinjaError:
            return b""
        return content

    @cached_property
    def listed(self) -> tuple[list[SourceFile], list[NinjaError]]:
        """Content of a file list, ``(files, errors)``, with one error for each file name that is not allowed."""
        with self.open() as stream:
            return self.list_files(stream)

    def list_files(self, stream: Stream) -> tuple[list[SourceFile], list[NinjaError]]:
        """Read a file list from its open stream; see `listed`."""
        tables, errors = names_in(stream.rest(), self.name)
        return [SourceFile(table, self._guard) for table in tables], errors

    @cached_property
    def script_files(self) -> list[SourceFile]:
        """Archives to which a script file refers, without duplicates; names that cannot be resolved are skipped."""
        tables: dict[str, Table] = {}
        for row in self.content().split(b"\n"):
            fields = row.split(None, 1)
            if len(fields) == 2 and not row.endswith(b"|"):
                try:
                    places = resolve_listed(os.fsdecode(fields[1].strip()), self.name)
                except NinjaError:  # the reader will report the error
                    continue
                for place in places:
                    tables.setdefault(place.path, Table(place._replace(offset=0)))
        return [SourceFile(table) for path, table in tables.items() if not os.path.isdir(path)]

    @property
    def members(self) -> list[SourceFile]:
        """Files in a file list or script file; empty if the list cannot be read (the reader reports the error)."""
        try:
            return self.listed[0] if self.kind == "list" else self.script_files if self.kind == "scp" else []
        except NinjaError:
            return []

    @cached_property
    def paths(self) -> tuple[list[str], list[str]]:
        """Paths in a folder, ``(files, subfolders)``; see `ninja.files.names.listing`."""
        return listing(self.path)

    @cached_property
    def files(self) -> list[SourceFile]:
        """All files in a folder, in natural order."""
        return [SourceFile(Table(Place(path)), self._guard, self) for path in self.paths[0]]

    @cached_property
    def holds(self) -> Holds:
        """Content type of a file in a folder, detected from its first bytes and its name."""
        is_companion = detection.is_companion(self.path)
        holds: Holds
        try:
            holds = detection.holds(self.inspect().head(HEAD), self.path)
        except (InputError, FormatError):
            holds = "damage"
        if holds in ("damage", "nothing") and is_companion:
            holds = "companion"
        if holds in ("nothing", "companion"):
            self.close()
        self.close_surplus()
        return holds

    @property
    def lattice_files(self) -> list[SourceFile]:
        """Lattice files and damaged files in a folder; if there are no lattice files, also recogniser result files."""
        skipped = {"nothing", "companion"}
        if any(file.holds == "lattices" for file in self.files):
            skipped.add("results")
        return [file for file in self.files if file.holds not in skipped]


class Sources:
    """Lattice sources that are specified by names; each name is resolved only once.

    Args:
        names: See ``ninja.read``.
        allow_pipes: See ``ninja.read``.
        guard: Guard that registers each file that is read, to protect the file from being replaced by an output.
    """

    def __init__(
        self, names: Source | SourceFile | Sequence[Name], *, allow_pipes: bool = False, guard: Guard | None = None
    ) -> None:
        is_single = isinstance(names, str | os.PathLike | Table | SourceFile)
        is_one = is_single or not isinstance(names, Iterable)
        self.names: tuple[Name, ...] = (names,) if is_one else tuple(names)  # type: ignore[assignment, arg-type]
        if other := [name for name in self.names if not isinstance(name, str | os.PathLike | Table | SourceFile)]:
            raise OptionError(f"source is {other[0]!r:.60}, but must be a path, or several paths")
        self._allow_pipes = allow_pipes
        self._guard = guard
        self._files: dict[Name, list[SourceFile]] = {}

    @property
    def files(self) -> list[SourceFile]:
        """Files to which the names resolve; see `tables`.

        Raises:
            NinjaError: A name cannot be resolved.
        """
        return [file for name in self.names for file in self.of(name)]

    @property
    def resolvable_files(self) -> list[SourceFile]:
        """Files to which the names resolve, or none if a name cannot be resolved; the reader reports the error."""
        try:
            return self.files
        except NinjaError:
            return []

    def select(self, names: Sequence[Name]) -> Sources:
        """Return `Sources` for other names; names that are already resolved share their files with this object."""
        selection = Sources(tuple(names), allow_pipes=self._allow_pipes, guard=self._guard)
        selection._files = self._files
        return selection

    def reopened(self) -> Sources:
        """Return new sources for the same files, so that a second pass can run at the same time.

        Raises:
            OptionError: A source can be read only once.
        """
        for file in self.files:
            if file.is_pipe:
                raise OptionError(
                    f"{file.name}: all words must be known before the first lattice, but a pipe can be read only once; "
                    "use --words, or --unk-penalty if the model has <unk>"
                )
        return Sources([file.table for file in self.files], guard=self._guard)

    def of(self, name: Name) -> list[SourceFile]:
        """Return the files to which a name resolves."""
        if isinstance(name, SourceFile):
            return [name]
        if name not in self._files:
            name_tables = [name] if isinstance(name, Table) else tables(name, allow_pipes=self._allow_pipes)
            self._files[name] = [SourceFile(table, self._guard) for table in name_tables]
        return self._files[name]

    def text(self, name: str) -> str:
        """Return the concatenated text of the files to which a name resolves."""
        texts = []
        for file in self.of(name):
            with file.open() as stream:
                texts.append(decoded(stream.rest(), file.name))
        return "".join(texts)


Name = str | os.PathLike[str] | Table | SourceFile
Source = str | os.PathLike[str] | Table | Sequence[str | os.PathLike[str] | Table]


def as_sources(source: Source | Sources, *, allow_pipes: bool = False) -> Sources:
    """Convert names to `Sources`; return `Sources` unchanged."""
    return source if isinstance(source, Sources) else Sources(source, allow_pipes=allow_pipes)


def is_kaldi(head: bytes) -> bool:
    """Return whether the first bytes of a file are the start of a Kaldi archive of lattices."""
    return KALDI_IMAGE.match(head) is not None or _KALDI_TEXT.match(head) is not None


def tables(source: Source, *, allow_pipes: bool = False) -> list[Table]:
    """Return the tables of a source without opening them.

    Args:
        source: A path, a folder, a file list, ``-``, a pattern (``lat.*.gz``, ``lat.JOB.gz``), a Kaldi rspecifier, or
            several of these. A path-like object is always treated as a path.
        allow_pipes: Allow commands other than ``gunzip -c``, ``zcat`` and ``cat``, and run them in a shell.

    Raises:
        FormatError: A command is not allowed.
        InputError: No file matches a pattern.
        OptionError: An rspecifier has an unknown option, or does not contain exactly one of ``ark`` and ``scp``.

    Source: Kaldi util/kaldi-table.cc (ClassifyRspecifier), util/kaldi-io.cc (ClassifyRxfilename).
    """
    if isinstance(source, Table):
        return [source]
    if isinstance(source, os.PathLike):
        return _of_path(os.fspath(source))
    if not isinstance(source, str):
        return [table for name in source for table in tables(name, allow_pipes=allow_pipes)]
    if source == STDIN:
        return [Table(Place(STDIN), "any")]
    match = SPECIFIER.fullmatch(source)
    if match is None or os.path.exists(source):
        return _of_path(source)
    options = [option for option in re.split("[, ]+", match[1]) if option]
    unknown = [option for option in options if option not in _READ_OPTIONS]
    kinds = [option for option in options if option in ("ark", "scp")]
    if unknown:
        raise OptionError(f"rspecifier {source!r} has the unknown option {unknown[0]!r}")
    if len(kinds) != 1:
        raise OptionError(f"rspecifier {source!r} must contain exactly one of 'ark' and 'scp'")
    kind: Literal["ark", "scp"] = "ark" if kinds[0] == "ark" else "scp"
    places = resolve(match[2].strip(), allow_pipes=allow_pipes)
    return [Table(place, kind, permissive="p" in options) for place in places]


def _of_path(path: str) -> list[Table]:
    if os.path.isdir(path):
        return [Table(Place(path), "folder")]
    if path.endswith("|"):
        return [Table(place) for place in resolve(path, advise=False)]
    if os.path.isfile(path):
        return [Table(Place(path), by_suffix(path) or "any")]
    places = matching(path)
    if is_remote(path) and [place.path for place in places] == [path]:
        return [Table(places[0], "folder" if path.endswith("/") else by_suffix(path) or "any")]
    return [Table(place, by_suffix(place.path) or "ark") for place in places]


def kind_of(table: Table, stream: Stream) -> Literal["ark", "scp", "list"]:
    """Detect from the first bytes of a file whether it is an archive, a script file, or a file list."""
    if table.kind != "any":
        return "scp" if table.kind == "scp" else "ark"
    head = stream.head(LIST_HEAD, lambda head: head.lstrip().count(b"\n") > 1 or b"\0" in head)
    if not stream.seekable:
        head = head[: head.rfind(b"\n") + 1] or head  # without the last line, which may be incomplete
    return "scp" if names_script(head) else "list" if is_list(head) else "ark"


def table_path(place: str) -> str:
    """Return the path of the symbol table next to an output; for a folder, it is ``words.txt`` in the folder."""
    return os.path.join(place, TABLE_NAMES[0]) if os.path.isdir(place) else table_beside(place)


KEYS = {"acoustic_scale": "acoustic", "lm_scale": "lm", "word_penalty": "word_penalty"}  # option → field of `Scales`


@dataclass(frozen=True, slots=True)
class ChosenScales:
    """Scales chosen for lattices, and the weight of the language model with which they were rescored."""

    scales: Scales = Scales()
    lm_weight: float | None = None  # weight of the new language model in the graph costs
    path: str | None = field(default=None, compare=False)  # scale file from which the scales were read

    def values(self) -> dict[str, float]:
        """Return the scales, keyed by option name; the LM scale is omitted if it is 1."""
        values = {"acoustic_scale": self.scales.acoustic, "word_penalty": self.scales.word_penalty}
        if self.scales.lm != 1.0:
            values["lm_scale"] = self.scales.lm
        return values if self.lm_weight is None else values | {"lm_weight": self.lm_weight}


def scales_path(place: str) -> str:
    """Return the path of the scale file for a lattice file or folder."""
    is_folder = place.endswith("/") if is_remote(place) else os.path.isdir(place)
    return os.path.join(place, SCALES_NAME) if is_folder else f"{place}{SCALES_SUFFIX}"


def read_scales(path: str) -> ChosenScales:
    """Read a scale file.

    Raises:
        FormatError: The file is not TOML, or a scale is not a number.
        InputError: The file cannot be read.
        OptionError: A scale is not finite.
    """
    values = {name: value for name, value in read_toml(path).items() if name in (*KEYS, "lm_weight")}
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise FormatError(f"{name} is {value!r}, but must be a number", path)
    scales = Scales(**{KEYS[name]: float(value) for name, value in values.items() if name in KEYS})
    return ChosenScales(scales, values.get("lm_weight"), path)


SCALES_ADVICE = "set the scales for all lattices with --acoustic-scale and --word-penalty"


def find_scales(source: Source | Sources, *, allow_pipes: bool = False) -> ChosenScales | None:
    """Return the scales in the scale file next to the lattices, or None if there is no such file.

    A file without a scale file uses the scale file of its folder. A file list or script file without a scale file uses
    the scale files of the listed files.

    Args:
        source: See ``ninja.read``.
        allow_pipes: See ``ninja.read``.

    Raises:
        OptionError: Files in the source have different scales, or only some files have a scale file.
        FormatError: A scale file is not TOML, or a scale is not a number.
    """
    pairs = [
        pair for file in as_sources(source, allow_pipes=allow_pipes).resolvable_files for pair in _scale_files(file)
    ]
    scales = {path: read_scales(path) for _, path in pairs if path is not None}
    if not scales:
        return None
    first = next(iter(scales.values()))
    for name, path in pairs:
        if path is None:
            raise OptionError(f"{name} has no scale file, but other lattices have one ({first.path}); {SCALES_ADVICE}")
        if scales[path] != first:
            raise OptionError(f"the scale files {first.path} and {path} differ; {SCALES_ADVICE}")
    return first


def _scale_files(file: SourceFile) -> Iterator[tuple[str, str | None]]:
    """Yield ``(path, path of its scale file or None)`` for a file or folder.

    For a file list or script file without a scale file, yield a pair for each listed file. For a folder without a scale
    file, yield a pair for each lattice file if any file in the folder has a scale file.
    """
    path = file.path
    if file.is_pipe:
        yield path, None
        return
    file_scales = scales_path(path)
    if is_file(file_scales):
        yield path, file_scales
    elif file.kind == "folder":
        scaled = {member.path for member in file.files if is_file(scales_path(member.path))}
        for member in file.lattice_files if scaled else []:
            yield member.path, scales_path(member.path) if member.path in scaled else None
        if not scaled:
            yield path, None
    elif members := file.members:
        for member in members:
            yield from _scale_files(member)
    else:
        shared = os.path.join(os.path.dirname(path), SCALES_NAME)
        yield path, shared if is_file(path) and is_file(shared) else None
