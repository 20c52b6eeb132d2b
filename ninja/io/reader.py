"""Reader that reads the lattices in sources in one pass and maps their words to the symbol table of the run."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Literal, overload

import numpy as np

from ninja.errors import FormatError, NinjaError, OptionError, SymbolError, counted
from ninja.files.stream import BOM, Guard, Place, Stream
from ninja.formats.content import Content, Entry, check_encoding
from ninja.formats.format import HEAD, Reader, by_mark, detect, of_folder, reader
from ninja.formats.kaldi import archive as kaldi
from ninja.formats.kaldi.archive import CHUNK, KALDI, Vocabulary
from ninja.formats.kaldi.script import script
from ninja.io import detection
from ninja.io.folders import describe_lattices, read_folder
from ninja.io.scp_reader import ARC_BYTES, ScpReader
from ninja.io.sources import KALDI_HEAD, KALDI_READ, Source, SourceFile, Sources, as_sources, is_kaldi, kind_of
from ninja.lattice import Array, Lattice
from ninja.lattice.batch import Batch, read_ahead
from ninja.lattice.lattice import frozen
from ninja.lattice.symbols import EPSILON, SymbolTable, not_in_table

BATCH = 64  # maximum number of lattices per batch


class Words:
    """Symbol tables of the lattices in a run.

    Args:
        table: Symbol table for files that contain words as text. If the table grows, these words are added to it;
            otherwise, it must contain them. None creates a growing table when the first such file is read.
        of_ids: Function that finds the symbol table for sources that contain ids; it is called when the first such
            source is read. None uses `table`, unless the table grows.
        others: Function that returns ``(word, id)`` pairs for all words in the sources. It is used if this object
            creates a growing table; see `SymbolTable.growing`.
        keep_tables: Let lattices keep the symbol table of their file, and allow some files to contain ids while others
            contain words.
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
        self._ids_in = ""  # name of the first file that contains ids
        self._is_spelled = table is not None and table.grows and len(table) > 1
        self._last: tuple[SymbolTable, Array] | None = None  # cached, because the lattices of a file share a table

    @property
    def table(self) -> SymbolTable:
        """Symbol table for files that contain words rather than word ids."""
        if self._table is None:
            self._table = SymbolTable.growing(others=self._others)
        return self._table

    @property
    def known(self) -> SymbolTable | None:
        """Symbol table of the lattices read so far; None if they have ids without a symbol table."""
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
        """Yield batches of Kaldi lattices; raise `OptionError` if they contain ids and another file contains words."""
        for batch in batches:
            if self._grows and not self._keep_tables and not self._ids_in and any(map(self._has_ids, batch)):
                self._ids_in = name
                self._refuse_mixture()
            yield batch

    def _has_ids(self, lattice: Lattice) -> bool:
        return (lattice.words is None or lattice.words is not self._table) and bool(lattice.word.any())

    def attach(self, lattice: Lattice, name: str = "") -> Lattice:
        """Return a lattice with its word ids converted to ids of the table for this run.

        Raises:
            SymbolError: A word in the lattice is not in the table.
            OptionError: One file contains ids, and another contains words.
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
            raise SymbolError(not_in_table(missing), key=lattice.key)
        return lattice.replace(word=word, words=self.table)

    def _refuse_mixture(self) -> None:
        if self._is_spelled and self._ids_in and not self._keep_tables:
            message = "contains word ids, but another source contains words; set the symbol table of the ids with"
            raise OptionError(f"{self._ids_in} {message} --words (words=)")

    def _ids_of(self, other: SymbolTable) -> Array:
        """Return this table's ids for the ids of another table, int32 [largest id + 2]; -1 if a word is missing."""
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


@dataclass(frozen=True, slots=True, eq=False)
class ReadOptions:
    """Options for reading lattice files."""

    words: Words
    format: str | None = None  # format with its options; None detects it from the content
    encoding: str = "utf-8"  # encoding of text in non-Kaldi formats
    read_ahead: bool = True  # whether a thread reads ahead of the caller
    late: bool = False  # whether the errors of a lattice may be raised only when the lattice is used
    formats: Counter[str] = field(default_factory=Counter)  # format → number of files read
    on_note: Callable[[str], None] = warnings.warn  # function of a message, for example about files that are skipped
    guard: Guard | None = None  # guard that registers the files listed in script files


class Reading:
    """One pass over the lattices in sources.

    After an error that prevents further reading of a file, reading continues with the next file.

    Args:
        sources: Sources to read.
        options: Options for reading.
        on_error: Callback for the error of each lattice that fails; with None, the first error is raised.
    """

    def __init__(
        self, sources: Sources, options: ReadOptions, *, on_error: Callable[[NinjaError], None] | None = None
    ) -> None:
        if options.encoding != "utf-8":
            check_encoding(options.encoding)
        self.options = options
        self.file: str | None = None  # file of the last lattice, or the script file that lists it
        self._on_error = on_error
        self._reader: Reader | None = None  # reader of the format in the options, or None for Kaldi archives
        if options.format is not None:
            chosen = reader(options.format, options.encoding)
            self._reader = None if chosen.format.read == KALDI_READ else chosen
        self._size: int | None = 0  # total size of all files in bytes; None if unknown, for example for a pipe
        self._previous = 0  # total size in bytes of the files that have been read completely
        self._position = 0.0  # number of bytes from the start of the first file to the end of the last lattice
        self.first_batches: list[Batch] = []  # batches that `begin` has read and that have not been yielded yet
        self._num_overlaps = 0  # number of words that begin before the end of the preceding word
        self._batches = self._read_all(sources.files)

    @property
    def share(self) -> float | None:
        """Position after the last lattice read, as a fraction of the size of all files, in [0, 1]; None if unknown."""
        return min(1.0, self._position / self._size) if self._size and self._position else None

    def begin(self) -> SymbolTable | None:
        """Read the first lattices; return their symbol table, or None if they have ids without a symbol table."""
        for batch in self._batches:
            self.first_batches.append(batch)
            if len(batch):
                break
        self._batches = _chained(self.first_batches, self._batches)
        return self.options.words.known

    def lattices(self) -> Iterator[tuple[str, Lattice]]:
        """Yield ``(key, lattice)`` for each entry."""
        try:
            for batch in self._batches:
                step = max(0.0, batch.position - self._position) / max(1, len(batch) + len(batch.faults))
                for key, lattice in batch.entries():
                    self._position += step
                    if not isinstance(lattice, NinjaError):
                        yield key, lattice
                    elif self._on_error is None or lattice.of_run:
                        raise lattice
                    else:
                        self._on_error(lattice)
        finally:
            self.close()

    def batches(self) -> Iterator[Batch]:
        """Yield the lattices in non-empty batches without ``faults``; errors are reported before the batch itself."""
        try:
            for batch in self._batches:
                self._position = max(self._position, batch.position)
                for num_before, error in batch.faults:
                    if self._on_error is not None and not error.of_run:
                        self._on_error(error)
                        continue
                    if num_before:
                        yield batch.first(num_before)
                    raise error
                if len(batch):
                    yield batch.without_faults()
        finally:
            self.close()

    def close(self) -> None:
        """Stop reading."""
        self._batches.close()  # type: ignore[attr-defined]

    def _read_all(self, files: Sequence[SourceFile]) -> Iterator[Batch]:
        """Yield the batches in all files; log a note if word times were changed."""
        yield from self._read_files(files)
        if self._num_overlaps:
            words = counted(self._num_overlaps, "word overlaps", "words overlap")
            self.options.on_note(f"{words} with the preceding word; start times were moved to the end of that word")

    def _read_files(self, files: Sequence[SourceFile]) -> Iterator[Batch]:
        """Yield the batches in files; the `position` of a batch is the byte offset from the start of the first file."""
        sizes = [file.size for file in files]
        self._size = None if self._size is None or None in sizes else self._size + sum(filter(None, sizes))
        for file in files:
            yield from self._read_file(file)

    def _read_file(self, file: SourceFile) -> Iterator[Batch]:
        """Yield the batches in a file or folder; an error that ends it is the last fault."""
        end = self._previous + (file.size or 0)
        self.file = file.name
        try:
            if file.kind == "folder":
                yield from self._read_folder(file)
            elif file.kind == "list":
                yield from self._read_list(file, *file.listed)
            else:
                with file.open() as stream, closing(self._read_stream(stream, file)) as batches:  # type: ignore[type-var]
                    yield from batches
        except NinjaError as error:
            if isinstance(error, OptionError):
                raise
            error.path = error.path or file.name
            if error.of_run:
                raise
            yield Batch.of_entries([(error.key or "", error)])
        self._previous = max(self._previous, end)  # also count a file without lattices

    def _read_folder(self, parent: SourceFile) -> Iterator[Batch]:
        """Read the lattice files in a folder, or its recogniser result files if it contains no lattices."""
        path = parent.path
        chosen = of_folder(path, self.options.encoding) if self.options.format is None else self._reader
        if chosen is not None and chosen.format.of_folder is not None:
            self.options.formats[chosen.format.name] += 1
            self.file = path
            with open(os.devnull, "rb", buffering=0) as empty:
                yield from self._ahead(self._read_content(Content(Stream(empty, path), path), chosen))
            if message := describe_lattices(parent):
                self.options.on_note(f"{path}: {message}")
            return
        yield from read_folder(parent, self._read_file, self.options.on_note, by_name=self.options.format is not None)

    def _read_list(self, parent: SourceFile, files: list[SourceFile], errors: list[NinjaError]) -> Iterator[Batch]:
        if self._size is not None:  # count the sizes of the listed files instead of the size of the list
            self._size -= parent.size or 0
        yield from self._read_files(files)
        yield from (Batch.of_entries([("", error)]) for error in errors)

    def _read_stream(self, stream: Stream, file: SourceFile) -> Iterator[Batch]:
        options = self.options
        kind = file.kind
        if file.is_pipe and file.table.kind == "any" and not is_kaldi(stream.head(KALDI_HEAD, is_kaldi)):
            kind = kind_of(file.table, stream)
        if kind == "list":
            yield from self._read_list(file, *file.list_files(stream))
            return
        if kind == "scp":
            others = ScpReader(self._script_entries)
            permissive = file.table.permissive
            batches = script(stream, options.words.vocabulary, others, permissive=permissive, guard=options.guard)
            yield from self._moved(self._ahead(options.words.check_ids(batches, stream.name)))
            options.formats[KALDI] += not options.formats
            return
        format = self._reader_of(stream)
        options.formats[KALDI if format is None else format.format.name] += 1
        if format is None:
            vocabulary = options.words.vocabulary()
            batches = kaldi.batches(stream, file.path, vocabulary, ahead=options.read_ahead)
            yield from self._moved(options.words.check_ids(batches, stream.name))
            return
        batches = self._read_content(Content(stream, file.path, late=options.late), format)
        read = format.format.read
        assert read is not None
        yield from self._moved(batches if read.single or (options.late and read.lazy) else self._ahead(batches))

    def _moved(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Yield the batches in a file after adding the total size of all preceding files to their `position`."""
        for batch in batches:
            batch.position += self._previous if batch.position else 0
            yield batch

    def _read_content(self, content: Content, format: Reader) -> Iterator[Batch]:
        """Read the content of a file that is not a Kaldi archive."""
        entries: list[Entry] = []
        size = position = 0
        try:
            for key, lattice in self._entries(content, format):
                entries.append((key, lattice))
                position = content.stream.position
                size += 0 if isinstance(lattice, NinjaError) else ARC_BYTES * lattice.num_arcs
                if size >= CHUNK or len(entries) == BATCH:
                    yield Batch.of_entries(entries, size=size, position=position)
                    entries, size = [], 0
        except NinjaError:  # the rest of the file cannot be read, so first yield the lattices before the error
            if entries:
                yield Batch.of_entries(entries, size=size, position=position)
            raise
        finally:
            self._num_overlaps += content.num_overlaps
        if entries:
            yield Batch.of_entries(entries, size=size, position=position)

    def _entries(self, content: Content, format: Reader) -> Iterator[Entry]:
        words = self.options.words
        for key, lattice in format.entries(content, words.table):
            if isinstance(lattice, Lattice):
                try:
                    lattice = words.attach(lattice, content.name)
                except OptionError:
                    raise
                except NinjaError as error:
                    error.path = error.path or content.name
                    lattice = error
            yield key, lattice

    def _reader_of(self, stream: Stream) -> Reader | None:
        """Return the reader for a file that was just opened; None for Kaldi archives and unknown formats."""
        if self.options.format is not None:
            return self._reader
        if is_kaldi(stream.head(KALDI_HEAD, is_kaldi)):
            return None
        return recognised(stream.head(HEAD), stream.name, self.options.encoding)

    def _script_entries(self, stream: Stream, place: Place) -> Iterator[Entry] | None:
        """Return the entries in a file listed in a script file; None for Kaldi archives and unknown formats."""
        format = self._reader_of(stream)
        self.options.formats.setdefault(KALDI if format is None else format.format.name, 1)
        return None if format is None else self._entries(Content(stream, place.path), format)

    def _ahead(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        return read_ahead(batches) if self.options.read_ahead else batches


def _chained(first: list[Batch], rest: Iterator[Batch]) -> Iterator[Batch]:
    try:
        while first:
            yield first.pop(0)  # keep no reference to the entry, because its memory could not be freed
        yield from rest
    finally:
        rest.close()  # type: ignore[attr-defined]


def recognised(head: bytes, name: str, encoding: str = "utf-8") -> Reader | None:
    """Detect the format of a file; return a reader for it, or None for Kaldi archives and unknown formats.

    Raises:
        FormatError: The file is empty, in an unsupported compression format, or in a known format without lattices.
    """
    if not head.removeprefix(BOM).strip() and detection.needs_content(name):
        raise FormatError("the file is empty; check that the program that writes it has finished", name)
    format = detect(head, name)
    if (format is None or format.name == "text") and by_mark(
        head
    ) is None:  # the content of a .txt file can be of any type
        reason = (detection.advice(head, name) if format is None else None) or detection.other_kind(head)
        if reason is not None:
            raise FormatError(reason, name)
    return None if format is None or format.read == KALDI_READ else Reader.of(format, {}, encoding)


def words_in(sources: Sources, format: str | None, encoding: str) -> SymbolTable | None:
    """Read sources and return a symbol table of their words, or None if they contain only word ids."""
    words = SymbolTable.growing()
    options = ReadOptions(Words(words), format, encoding, read_ahead=False, on_note=lambda _: None)
    spells = False
    for _, lattice in Reading(sources, options, on_error=lambda _: None).lattices():
        spells |= lattice.words is words
    return words if spells else None


@overload
def read(
    source: Source,
    *,
    batches: Literal[False] = False,
    words: SymbolTable | str | os.PathLike[str] | None = None,
    format: str | None = None,
    encoding: str = "utf-8",
    on_error: Callable[[NinjaError], None] | None = None,
    allow_pipes: bool = False,
    read_ahead: bool = True,
) -> Iterator[tuple[str, Lattice]]: ...
@overload
def read(
    source: Source,
    *,
    batches: Literal[True],
    words: SymbolTable | str | os.PathLike[str] | None = None,
    format: str | None = None,
    encoding: str = "utf-8",
    on_error: Callable[[NinjaError], None] | None = None,
    allow_pipes: bool = False,
    read_ahead: bool = True,
) -> Iterator[Batch]: ...
def read(
    source: Source,
    *,
    batches: bool = False,
    words: SymbolTable | str | os.PathLike[str] | None = None,
    format: str | None = None,
    encoding: str = "utf-8",
    on_error: Callable[[NinjaError], None] | None = None,
    allow_pipes: bool = False,
    read_ahead: bool = True,
) -> Iterator[tuple[str, Lattice]] | Iterator[Batch]:
    """Yield ``(key, lattice)`` for each entry of one or more files in any format, in order.

    Each file is opened once; its format and compression are detected from its content. As in Kaldi's tools, states that
    cannot be reached from the start are removed, and the others are sorted topologically if necessary. Costs in double
    precision (``lattice8``, ``compactlattice84``) are rounded to single precision.

    If a format stores words as text, word ids come from `words`. If `words` is None, the words in all files form one
    table, which grows while the files are read; lattices from a file that contains a symbol table, such as an Arrow
    file, keep that table.

    Args:
        source: A file, a folder, a file list (one file per line), ``-`` for stdin, a pattern (``lat.*.gz``,
            ``lat.JOB.gz``), a Kaldi rspecifier (``ark:…``, ``scp:…``, ``ark:gunzip -c lat.1.gz |``), or several of
            these. A lattice without a key uses the file name as its key.
        batches: Yield `Batch` objects, each with many lattices that functions process in one call.
        words: Symbol table to attach, or its path; a word that is not in the table is an error. If the table grows
            (``SymbolTable.growing()``), the words in all files, including files with symbol tables, are added to it,
            and no file may contain only ids.
        format: Format of all files, such as ``slf``, or with options ``slf:frame_shift=0.016,graph=n``; see
            docs/formats.md. None detects the format of each file; formats without a signature are detected from the
            extension.
        encoding: Encoding of text in non-Kaldi formats.
        on_error: Callback for the error of each invalid lattice, which is skipped; with None, the first error is
            raised. With None, lattices in Ninja's format are read only when they are used, and errors in them are
            raised at that time. Errors that apply to all lattices (``error.of_run``) are always raised. After damage in
            a binary archive, the rest of the archive cannot be read.
        allow_pipes: Run shell commands in `source`. By default, only ``gunzip -c``, ``zcat`` and ``cat`` are accepted,
            and they are emulated. Commands in script files are never run.
        read_ahead: Read ahead of the caller in a thread: up to 2 MB of an uncompressed file if there are several
            cores, and up to 32 MB of other sources.

    Raises:
        FormatError: A file is damaged or contains something other than lattices, or a folder contains no lattices.
        LatticeError: A lattice is empty, has a cycle, has no final state, or contains a cost or id that is out of
            range.
        SymbolError: A word is not in `words`.
        TableError: A word id is not in `words`, so the table belongs to different lattices.
        InputError: A file cannot be read, no file matches a pattern, or a command failed.
        OptionError: An option in an rspecifier, the format, or the encoding is unknown.

    Source: Kaldi util/kaldi-table.h ("Table" concept), lat/kaldi-lattice.cc; for other formats, docs/formats.md.
    """
    sources = as_sources(source, allow_pipes=allow_pipes)
    if words is None:
        known = Words(others=lambda: words_in(sources.reopened(), format, encoding) or (), keep_tables=True)
    else:
        known = Words(words if isinstance(words, SymbolTable) else SymbolTable.read(words))
    options = ReadOptions(known, format, encoding, read_ahead=read_ahead, late=on_error is None)
    reading = Reading(sources, options, on_error=on_error)
    return reading.batches() if batches else reading.lattices()
