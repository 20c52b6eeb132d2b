"""Reading of sources: each file in batches, in its own format, with faults in place of lattices that fail."""

from __future__ import annotations

import os
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from queue import SimpleQueue

from ninja.errors import FormatError, InputError, NinjaError, OptionError
from ninja.files.output import Guard
from ninja.files.place import Place
from ninja.files.stream import BOM, Stream, without_mark
from ninja.files.threads import num_cores, starting_threads
from ninja.formats.content import Content, Entry
from ninja.formats.format import HEAD, Reader, by_name, of_folder, reader
from ninja.formats.kaldi import archive as kaldi
from ninja.formats.kaldi.archive import CHUNK, KALDI, MAGIC
from ninja.formats.textual import check_encoding
from ninja.io import detection
from ninja.io.scp_reader import ARC_BYTES, ScpReader
from ninja.io.sources import KALDI_HEAD, KALDI_READ, SourceFile, Sources, is_kaldi, kind_of, recognised
from ninja.io.symbol_tables import Words
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch
from ninja.lattice.symbols import SymbolTable

BATCH = 64  # lattices of a batch
CREDITS = 32  # how far to read ahead, in units of
CREDIT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of reading files."""

    words: Words
    format: str | None = None  # with its options  [default: detected by content]
    encoding: str = "utf-8"
    read_ahead: bool = True
    late: bool = False  # errors of a lattice may be raised when it is used
    formats: Counter[str] = field(default_factory=Counter)  # number of tables of each format that was read
    on_note: Callable[[str], None] = warnings.warn  # called with the files of a folder that are skipped
    guard: Guard | None = None  # notes files that script files name


class Reading:
    """One pass over the lattices of sources.

    An error that ends the reading of a file is the last fault of that file, and the next file is begun.

    Args:
        on_error: Called with the error of each lattice that fails; without it, the first error is raised.
    """

    def __init__(
        self, sources: Sources, options: ReadOptions, *, on_error: Callable[[NinjaError], None] | None = None
    ) -> None:
        if options.encoding != "utf-8":
            check_encoding(options.encoding)
        self.options = options
        self.file: str | None = None  # file of the last lattice, or the script file that lists it
        self._on_error = on_error
        self._reader: Reader | None = None  # of a format that was chosen, unless it is Kaldi's
        if options.format is not None:
            chosen = reader(options.format, options.encoding)
            self._reader = None if chosen.format.read == KALDI_READ else chosen
        self._size: int | None = 0  # bytes of all files; None if unknown, as of a pipe
        self._previous = 0  # bytes of the files that have been read
        self._position = 0.0  # bytes of all files up to the end of the last lattice
        self._first: list[Batch] = []  # batches read by `begin` that are still to be yielded
        self._num_overlaps = 0  # words that began before the end of the word before them
        self._batches = self._read_all(sources.files)

    @property
    def share(self) -> float | None:
        """Share of all bytes read so far, up to the end of the last lattice, 0 to 1; None if unknown."""
        return min(1.0, self._position / self._size) if self._size and self._position else None

    def begin(self) -> SymbolTable | None:
        """Read the first lattices, and return the symbol table of their words; None if they have only ids."""
        for batch in self._batches:
            self._first.append(batch)
            if len(batch):
                break
        self._batches = _chained(self._first, self._batches)
        return self.options.words.known

    def single_scores(self) -> str | None:
        """Describe lattices whose paths have one score, by those that `begin` has read; None if they have several.

        N-best lists count as such also where their files have several scores.
        """
        if any(name != KALDI and by_name(name, "read").holds == "nbest" for name in self.options.formats):
            return "n-best lists"
        for lattice in self._first[-1] if self._first else ():
            if lattice.graph.any() or lattice.final_graph[lattice.is_final].any():
                return None
            if lattice.acoustic.any() or lattice.final_acoustic[lattice.is_final].any():
                return "lattices without graph costs"
        return None

    def lattices(self) -> Iterator[tuple[str, Lattice]]:
        """Yield the key and the lattice of each entry."""
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
        """Yield the lattices in non-empty batches without faults, which are reported before their batch."""
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
        """End reading."""
        self._batches.close()  # type: ignore[attr-defined]

    def _read_all(self, files: Sequence[SourceFile]) -> Iterator[Batch]:
        """Yield the batches of all files; note the times that were changed."""
        yield from self._read_files(files)
        if self._num_overlaps:
            subject = "1 word begins" if self._num_overlaps == 1 else f"{self._num_overlaps} words begin"
            self.options.on_note(f"{subject} before the end of the word before; the time between is that word's")

    def _read_files(self, files: Sequence[SourceFile]) -> Iterator[Batch]:
        """Yield the batches of files; their positions count from the beginning of the first file."""
        sizes = [file.size for file in files]
        self._size = None if self._size is None or None in sizes else self._size + sum(filter(None, sizes))
        for file, size in zip(files, sizes, strict=True):
            end = self._previous + (size or 0)
            yield from self._read_folder(file) if file.kind == "folder" else self._read_file(file)
            self._previous = max(self._previous, end)  # also of files without lattices

    def _read_file(self, file: SourceFile) -> Iterator[Batch]:
        end = self._previous + (file.size or 0)
        self.file = file.name
        try:
            if file.kind == "list":
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
        self._previous = max(self._previous, end)

    def _read_folder(self, parent: SourceFile) -> Iterator[Batch]:
        """Read the files of a folder that hold lattices; if there are none, those that hold results."""
        path = parent.path
        chosen = of_folder(path, self.options.encoding) if self.options.format is None else self._reader
        if chosen is not None and chosen.format.of_folder is not None:
            self.options.formats[chosen.format.name] += 1
            self.file = path
            with open(os.devnull, "rb", buffering=0) as empty:
                yield from self._ahead(self._read_content(Content(Stream(empty, path), path), chosen))
            if message := parent.describe_lattices():
                self.options.on_note(f"{path}: {message}")
            return
        by_content: dict[detection.Holds, list[SourceFile]] = {}
        for file in parent.files:
            holds = file.holds if self.options.format is None else detection.holds_by_name(file.path)
            by_content.setdefault(holds, []).append(file)
            if holds in ("lattices", "damage"):
                yield from self._read_file(file)
        results = by_content.get("results", [])
        skipped = results if "lattices" in by_content else []
        for file in results:
            if skipped:
                file.close()
            else:
                yield from self._read_file(file)
        others = [*detection.below(path), *(file.path for file in by_content.get("nothing", []))]
        if not by_content.keys() - {"nothing", "companion"}:
            companions = [file.path for file in by_content.get("companion", [])]
            message = detection.left_out(path, [*others, *companions], [])
            raise FormatError(f"this directory contains no lattices{message and '; '}{message}", path)
        if message := detection.left_out(path, others, [file.path for file in skipped]):
            self.options.on_note(f"{path}: {message}")

    def _read_list(self, parent: SourceFile, files: list[SourceFile], errors: list[NinjaError]) -> Iterator[Batch]:
        if self._size is not None:  # the size of its files counts, not its own
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
            vocabulary = options.words.vocabulary
            batches = kaldi.script(stream, vocabulary, others, permissive=permissive, guard=options.guard)
            yield from self._moved(self._ahead(options.words.check_ids(batches, stream.name)))
            options.formats[KALDI] += not options.formats
            return
        format = self._reader_of(stream)
        options.formats[KALDI if format is None else format.format.name] += 1
        if format is None:
            yield from self._moved(self._read_kaldi(stream, file.place))
            return
        batches = self._read_content(Content(stream, file.path, late=options.late), format)
        assert format.format.read is not None
        yield from self._moved(batches if options.late and format.format.read.lazy else self._ahead(batches))

    def _moved(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Make the positions of a file's batches count from the beginning of the first file."""
        for batch in batches:
            batch.position += self._previous if batch.position else 0
            yield batch

    def _read_kaldi(self, stream: Stream, place: Place) -> Iterator[Batch]:
        vocabulary = self.options.words.vocabulary()
        if stream.head(len(BOM)) == BOM:
            stream.readinto(memoryview(bytearray(len(BOM))))
            without_mark(BOM, stream.name)
            batches = self._ahead(kaldi.archive(stream, vocabulary))
        elif stream.head(len(MAGIC)) == MAGIC:
            batches = iter([kaldi.bare(stream, Content(stream, place.path).key, vocabulary)])
        elif not stream.is_local:
            batches = self._ahead(kaldi.archive(stream, vocabulary))
        elif self.options.read_ahead and num_cores() > 1:  # with one core the system's own reading ahead is enough
            batches = kaldi.plain_file(stream, vocabulary)
        else:
            batches = kaldi.archive(stream, vocabulary)
        yield from self.options.words.check_ids(batches, stream.name)

    def _read_content(self, content: Content, format: Reader) -> Iterator[Batch]:
        """Read a file of another format than Kaldi's."""
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
        except NinjaError:  # it ends the reading of this file; the lattices before are sound
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
        """Return the format of a file of which nothing is consumed yet; None for Kaldi archives and unknown formats."""
        if self.options.format is not None:
            return self._reader
        if is_kaldi(stream.head(KALDI_HEAD, is_kaldi)):
            return None
        return recognised(stream.head(HEAD), stream.name, self.options.encoding)

    def _script_entries(self, stream: Stream, place: Place) -> Iterator[Entry] | None:
        """Return the entries of a file that a script file names; None if it is a Kaldi archive."""
        format = self._reader_of(stream)
        self.options.formats.setdefault(KALDI if format is None else format.format.name, 1)
        return None if format is None else self._entries(Content(stream, place.path), format)

    def _ahead(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        return read_ahead(batches) if self.options.read_ahead else batches


def _chained(first: list[Batch], rest: Iterator[Batch]) -> Iterator[Batch]:
    try:
        while first:
            yield first.pop(0)  # no other reference keeps it in memory
        yield from rest
    finally:
        rest.close()  # type: ignore[attr-defined]


def read_ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yield batches that a thread reads ahead, at most ``CREDITS * CREDIT_BYTES`` bytes of file (or one batch).

    The thread ends with the batches, with the first exception (which is raised here), or soon after the generator is
    closed.

    Raises:
        InputError: This process was forked meanwhile: the thread stayed behind.
    """
    process = os.getpid()
    ready: SimpleQueue[Batch | BaseException | None] = SimpleQueue()
    credits: SimpleQueue[bool] = SimpleQueue()  # one for each unit that may be read; False: stop
    for _ in range(CREDITS):
        credits.put(True)

    def run() -> None:
        end: BaseException | None = None
        try:
            for batch in batches:
                for _ in range(_cost(batch)):
                    if not credits.get():
                        return
                ready.put(batch)
        except BaseException as error:  # any error is raised in the caller's thread
            end = error
        finally:
            batches.close()  # type: ignore[attr-defined]
            ready.put(end)

    thread = threading.Thread(target=run, name="ninja-read-ahead", daemon=True)
    with starting_threads():
        thread.start()
    try:
        while isinstance(batch := ready.get(), Batch):
            yield batch
            if os.getpid() != process:
                raise InputError("these files were opened before this process was forked; open them again")
            for _ in range(_cost(batch)):
                credits.put(True)
        if batch is not None:
            raise batch
    finally:
        for _ in range(CREDITS):
            credits.put(False)


def _cost(batch: Batch) -> int:
    return min(CREDITS, 1 + batch.size // CREDIT_BYTES)
