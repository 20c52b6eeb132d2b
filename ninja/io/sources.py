"""Sources of lattices: each name is resolved once, each file is opened once, and all words form one table."""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Literal

import numpy as np

from ninja.errors import FormatError, InputError, NinjaError, OptionError, SymbolError, counted, named
from ninja.files.names import files_of, matching, resolve, resolve_listed
from ninja.files.stream import (
    BOM,
    SPECIFIER,
    STDIN,
    Guard,
    Place,
    Stream,
    Table,
    by_suffix,
    decoded,
    is_read_once,
    is_remote,
    open_stream,
)
from ninja.formats.content import LIST_HEAD, is_list, names_script
from ninja.formats.format import HEAD, Reader, by_mark, detect
from ninja.formats.kaldi import archive as kaldi
from ninja.formats.kaldi.archive import KALDI_IMAGE, Vocabulary
from ninja.io import detection
from ninja.io.detection import Holds, advice, names_in, other_kind
from ninja.lattice import Array, Lattice
from ninja.lattice.batch import Batch
from ninja.lattice.lattice import frozen
from ninja.lattice.symbols import EPSILON, SymbolTable

# Signature of text archives of Kaldi; other files require the registry of formats, which takes longer to import.
_KALDI_TEXT = re.compile(
    rb"\s*\S{1,4096}[ \t]*\n\s*\d+[ \t]+\d+[ \t]+\d+(?:[ \t]+\d+)?[ \t]+[^\s,]+,[^\s,]+(?:,[\d_]*)?\s"
)
KALDI_READ = kaldi.FORMAT.read
KALDI_HEAD = 4096 + 128  # maximum number of bytes of a key and a lattice header
MAX_OPEN = 256  # files of a folder that stay open until they are read
_READ_OPTIONS = {"ark", "scp", "b", "t", "o", "no", "p", "np", "s", "ns", "cs", "ncs", "bg"}

Kind = Literal["ark", "scp", "list", "folder"]


class SourceFile:
    """A file, pipe or folder of a source; the stream that is opened for inspection is also used for reading.

    Args:
        table: The file and its kind.
        guard: Registers the file when it is read, so that no output replaces it.
        parent: The folder of the file, if the source is a folder.
    """

    def __init__(self, table: Table, guard: Guard | None = None, parent: SourceFile | None = None) -> None:
        self.table = table
        self.place = table.place
        self.path = table.place.path
        self.name = table.place.name
        self.num_open = 0  # open files of this folder
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
                return sum(map(os.path.getsize, files_of(path)))
            status = os.stat(path)
        except (OSError, ValueError):
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
        """Archive, script file, file list or folder.

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
        """Return the content of a file list or script file, which can be read again; empty if it cannot be read."""
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
        """Files that a file list names, and an error for each name that is not allowed."""
        with self.open() as stream:
            return self.list_files(stream)

    def list_files(self, stream: Stream) -> tuple[list[SourceFile], list[NinjaError]]:
        """Read a file list from its open stream; see `listed`."""
        tables, errors = names_in(stream.rest(), self.name)
        return [SourceFile(table, self._guard) for table in tables], errors

    @cached_property
    def script_files(self) -> list[SourceFile]:
        """Archives that a script file names, without duplicates and names that cannot be resolved."""
        tables: dict[str, Table] = {}
        for row in self.content().split(b"\n"):
            fields = row.split(None, 1)
            if len(fields) == 2 and not row.endswith(b"|"):
                try:
                    places = resolve_listed(os.fsdecode(fields[1].strip()), self.name)
                except NinjaError:  # reported by the reader
                    continue
                for place in places:
                    tables.setdefault(place.path, Table(place._replace(offset=0)))
        return [SourceFile(table) for path, table in tables.items() if not os.path.isdir(path)]

    @property
    def members(self) -> list[SourceFile]:
        """Files that a file list or script file names; none if it cannot be read, as the reader reports the error."""
        try:
            return self.listed[0] if self.kind == "list" else self.script_files if self.kind == "scp" else []
        except NinjaError:
            return []

    @cached_property
    def files(self) -> list[SourceFile]:
        """All files of a folder, in natural order."""
        return [SourceFile(Table(Place(path)), self._guard, self) for path in files_of(self.path)]

    @cached_property
    def holds(self) -> Holds:
        """Kind of a file in a folder, detected by its first bytes and its name."""
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
        """Lattice files of a folder, or if there are none, its recogniser result files."""
        skipped = {"nothing", "companion"}
        if any(file.holds == "lattices" for file in self.files):
            skipped.add("results")
        return [file for file in self.files if file.holds not in skipped]

    def describe_lattices(self) -> str:
        """Return a message about lattice files in a folder of n-best lists; empty if there are none."""
        names = [os.path.basename(file.path) for file in self.files if file.holds == "lattices"]
        if not names:
            return ""
        files = counted(len(names), "lattice file")
        return f"skipped {files} in a folder of n-best lists: {named(names, detection.NAMED)}"


class Sources:
    """Names of lattice sources, each resolved once.

    Args:
        names: See ``ninja.read``.
        allow_pipes: See ``ninja.read``.
        guard: Registers each file that is read, so that no output replaces it.
    """

    def __init__(
        self, names: Source | SourceFile | Sequence[Name], *, allow_pipes: bool = False, guard: Guard | None = None
    ) -> None:
        is_single = isinstance(names, str | os.PathLike | Table | SourceFile)
        self.names: tuple[Name, ...] = (names,) if is_single else tuple(names)  # type: ignore[assignment, arg-type]
        self._allow_pipes = allow_pipes
        self._guard = guard
        self._files: dict[Name, list[SourceFile]] = {}

    @property
    def files(self) -> list[SourceFile]:
        """The files of all names; see `tables`.

        Raises:
            NinjaError: A name cannot be resolved.
        """
        return [file for name in self.names for file in self.of(name)]

    @property
    def resolvable_files(self) -> list[SourceFile]:
        """The files of all names; none if any name cannot be resolved, as the reader reports the error."""
        try:
            return self.files
        except NinjaError:
            return []

    def select(self, names: Sequence[Name]) -> Sources:
        """Return sources with other names; equal names share their files."""
        selection = Sources(tuple(names), allow_pipes=self._allow_pipes, guard=self._guard)
        selection._files = self._files
        return selection

    def reopened(self) -> Sources:
        """Return new sources of the same files, so that two passes can run at the same time."""
        return Sources([file.table for file in self.files], guard=self._guard)

    def of(self, name: Name) -> list[SourceFile]:
        """Return the files of a name."""
        if isinstance(name, SourceFile):
            return [name]
        if name not in self._files:
            name_tables = [name] if isinstance(name, Table) else tables(name, allow_pipes=self._allow_pipes)
            self._files[name] = [SourceFile(table, self._guard) for table in name_tables]
        return self._files[name]

    def text(self, name: str) -> str:
        """Return the concatenated content of the files of a name as text."""
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


def recognised(head: bytes, name: str, encoding: str = "utf-8") -> Reader | None:
    """Return the reader for a file, detected by its first bytes; None for Kaldi archives and unknown formats.

    Raises:
        FormatError: The file is compressed in an unsupported way, empty, or of a known kind without lattices.
    """
    if not head.removeprefix(BOM).strip() and detection.needs_content(name):
        raise FormatError("the file is empty; is it still being written?", name)
    format = detect(head, name)
    if (format is None or format.name == "text") and by_mark(head) is None:  # .txt files may have any content
        reason = (advice(head, name) if format is None else None) or other_kind(head)
        if reason is not None:
            raise FormatError(reason, name)
    return None if format is None or format.read == KALDI_READ else Reader.of(format, {}, encoding)


def is_kaldi(head: bytes) -> bool:
    """Return whether a file begins like a Kaldi archive of lattices."""
    return KALDI_IMAGE.match(head) is not None or _KALDI_TEXT.match(head) is not None


def tables(source: Source, *, allow_pipes: bool = False) -> list[Table]:
    """Return the tables of a source without opening them.

    Args:
        source: A path, a folder, a file list, ``-``, a pattern (``lat.*.gz``, ``lat.JOB.gz``), a Kaldi rspecifier, or
            several of these. A path-like object is always taken as a path.
        allow_pipes: Allow commands other than ``gunzip -c``, ``zcat`` and ``cat``, and run them in a shell.

    Raises:
        FormatError: A command is not allowed.
        InputError: No file matches a pattern.
        OptionError: An rspecifier has an unknown option.

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
        raise OptionError(f"rspecifier {source!r} must contain 'ark' or 'scp' once")
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
    """Detect from the first bytes of a file whether it is a table, a script file, or a file list."""
    if table.kind != "any":
        return "scp" if table.kind == "scp" else "ark"
    head = stream.head(LIST_HEAD, lambda head: head.lstrip().count(b"\n") > 1 or b"\0" in head)
    if not stream.seekable:
        head = head[: head.rfind(b"\n") + 1] or head  # drop the last line, which may be incomplete
    return "scp" if names_script(head) else "list" if is_list(head) else "ark"


class Words:
    """The words of the lattices of a run.

    Args:
        table: Symbol table. If it grows, the words that files spell are added to it; otherwise it must contain them.
            None creates a growing table for the first file that spells words.
        of_ids: Function that finds the symbol table of sources that contain ids, called when the first of them is
            read. None uses `table`, unless it grows.
        others: Returns the entries of all words that the sources spell, for a growing table that is created here; see
            `SymbolTable.growing`.
        keep_tables: Let lattices keep the symbol table of their file if it contains one, and allow some files to
            contain ids while others contain words.
    """

    def __init__(
        self,
        table: SymbolTable | None = None,
        of_ids: Callable[[], SymbolTable | None] | None = None,
        *,
        others: Callable[[], Iterable[tuple[str, int]]] | None = None,
        keep_tables: bool = False,
    ) -> None:
        self._table = table
        self._grows = table is None or table.grows
        self._others = others
        self._keep_tables = keep_tables and self._grows
        self._of_ids = of_ids
        self._vocabulary: Vocabulary | None = None  # vocabulary of files that contain ids
        self._ids_in = ""  # the first file that contains ids
        self._is_spelled = table is not None and table.grows and len(table) > 1
        self._last: tuple[SymbolTable, Array] | None = None  # cached, as the lattices of a file share their table

    @property
    def table(self) -> SymbolTable:
        """Symbol table for words that files spell."""
        if self._table is None:
            self._table = SymbolTable.growing(others=self._others)
        return self._table

    @property
    def known(self) -> SymbolTable | None:
        """Symbol table of the lattices read so far, or None if they have only ids."""
        if self._is_spelled or not self._grows:
            return self.table
        return None if self._vocabulary is None else self._vocabulary.words

    def vocabulary(self) -> Vocabulary:
        """Return the vocabulary for files that contain word ids."""
        if self._vocabulary is None:
            table = None if self._grows else self._table
            if self._of_ids is not None and self._grows and not self._is_spelled:
                table = self._of_ids()
            self._vocabulary = Vocabulary.of(table)
        return self._vocabulary

    def check_ids(self, batches: Iterator[Batch], name: str) -> Iterator[Batch]:
        """Yield batches of Kaldi lattices; raise `OptionError` if they contain ids, but another file spells words."""
        for batch in batches:
            if self._grows and not self._keep_tables and not self._ids_in and any(map(self._has_ids, batch)):
                self._ids_in = name
                self._refuse_mixture()
            yield batch

    def _has_ids(self, lattice: Lattice) -> bool:
        return (lattice.words is None or lattice.words is not self._table) and bool(lattice.word.any())

    def attach(self, lattice: Lattice, name: str = "") -> Lattice:
        """Return a lattice with the word ids of the table.

        Raises:
            SymbolError: A word of the lattice is not in the table.
            OptionError: One file contains ids, but another spells words.
        """
        if lattice.words is None:
            if lattice.word.any():
                self._ids_in = self._ids_in or name
                self._refuse_mixture()
                return self.vocabulary().attach(lattice)
            return lattice if self._grows else lattice.with_words(self.table)
        if self._grows and not self._is_spelled:
            self._is_spelled = True
            self._refuse_mixture()
        if lattice.words is self.table or self._keep_tables:
            return lattice
        id_of = self._ids_of(lattice.words)
        word = frozen(id_of[np.minimum(lattice.word, len(id_of) - 1)])
        if (word < 0).any():
            missing = lattice.words.word(int(lattice.word[np.flatnonzero(word < 0)[0]]))
            raise SymbolError(f"word {missing!r} is not in the symbol table; is it the right table?", key=lattice.key)
        return lattice.replace(word=word, words=self.table)

    def _refuse_mixture(self) -> None:
        if self._is_spelled and self._ids_in and not self._keep_tables:
            message = "contains word ids, but another source spells words; set their symbol table with --words (words=)"
            raise OptionError(f"{self._ids_in} {message}")

    def _ids_of(self, other: SymbolTable) -> Array:
        """Return the id in this table for each id of another table, -1 for missing words; int32 [largest id + 2]."""
        if self._last is None or self._last[0] is not other:
            if self._grows:
                self.table.merge(other)
            entries = dict(other)
            ids = np.fromiter(entries.values(), np.int64, len(entries))
            id_of = np.full(max(other.end_of_ids(), 1) + 1, -1, np.int32)
            id_of[ids] = self.table.ids(entries)
            id_of[EPSILON] = EPSILON
            self._last = other, id_of
        return self._last[1]
