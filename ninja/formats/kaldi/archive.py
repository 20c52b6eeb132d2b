"""Readers and a writer for binary and text Kaldi lattice archives, and a search for symbol tables near archives."""

from __future__ import annotations

import glob
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from queue import SimpleQueue
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ninja._tables import FileBatches, TableReader, TableWriter
from ninja.errors import FormatError, OptionError, TableError, starting_threads
from ninja.files.gzip import Bytes, GzipWriter
from ninja.files.names import LARGEST_OFFSET
from ninja.files.output import PartFile, StandardOutput, Target
from ninja.files.stream import BOM, SPECIFIER, Guard, Stream, is_file, without_mark
from ninja.files.stream import STDIN as STDOUT
from ninja.formats.content import Content, Entry
from ninja.formats.format import Field, Format, Read, Write
from ninja.lattice import Kind, Lattice
from ninja.lattice.batch import Batch, num_cores, read_ahead
from ninja.lattice.symbols import SymbolTable, not_in_table

KALDI = "kaldi"  # name of the format in requests to the server
MAGIC = b"\xd6\xfd\xb2\x7e"
# Matches the first bytes of a binary archive.
KALDI_IMAGE = re.compile(rb"(?:\s*\S{1,4096}[ \t])?" + MAGIC + rb".{4,60}?lattice", re.DOTALL)
CHUNK = 1 << 19  # number of bytes read at a time; the bytes and their lattices fit in the processor cache
FLUSH = 1 << 19  # number of bytes that are buffered before they are written
LARGEST_QUEUE = 3  # maximum number of buffers that wait while another buffer is being written
AHEAD = 1 << 21  # number of bytes of a plain file that are read ahead; more would not fit in the cache
TABLE_NAMES = ("words.txt", "words.txt.gz")
BESIDE = ".words.txt"
_GRAPHS = os.path.join(os.pardir, "graph*", TABLE_NAMES[0])  # pattern relative to a Kaldi decode folder
LARGEST_ENTRY = 1 << 31  # maximum size of an entry in bytes; a larger entry is considered damaged


class Vocabulary(NamedTuple):
    """A symbol table, and a mask of valid word ids for the parser."""

    words: SymbolTable | None = None
    known: npt.NDArray[np.bool_] | None = None  # [largest id + 1], True for ids that are in the table

    @classmethod
    def of(cls, words: SymbolTable | None) -> Vocabulary:
        """Create a vocabulary from a symbol table; its mask always includes epsilon (0)."""
        if words is None:
            return cls()
        ids = np.fromiter((number for _, number in words), np.int64, len(words))
        known = np.zeros(max(words.end_of_ids(), 1), np.bool_)
        known[ids] = True
        known[0] = True
        return cls(words, known)

    def reader(self, name: str) -> TableReader:
        """Create a parser for an archive; `name` is its file name for messages."""
        return TableReader(name, self.known, self.words)

    def attach(self, lattice: Lattice) -> Lattice:
        """Attach the symbol table to a lattice that has none.

        Raises:
            TableError: A word id in the lattice is not in the symbol table.
        """
        if self.words is None or self.known is None or lattice.words is not None:
            return lattice
        for word in np.unique(lattice.word):
            if word >= len(self.known) or not self.known[word]:
                raise TableError(not_in_table(int(word)), key=lattice.key)
        return lattice.with_words(self.words)


def table_beside(archive: str) -> str:
    """Return the path of the symbol table for an archive: ``lat.ark.words.txt`` for ``lat.ark``."""
    return f"{archive}{BESIDE}"


def find_table(source: Sequence[str]) -> str:
    """Return the path of the symbol table that belongs to one or more lattice files.

    For ``lat.ark``, candidates are ``lat.ark.words.txt``, ``words.txt`` and ``words.txt.gz`` in the same folder, then
    ``../graph*/words.txt``, relative to this folder (the decoding graphs in Kaldi's layout).

    Args:
        source: Names of one or more sources; ``-`` has no symbol table.

    Raises:
        OptionError: No symbol table was found for a source, or the sources have different symbol tables.
    """
    candidates = {name: _tables_of(name) for name in source}
    tables = list(dict.fromkeys(table for paths in candidates.values() for table in paths))
    without = next((name for name, paths in candidates.items() if not paths), None)
    if without is not None:
        message = f"found no {' or '.join(TABLE_NAMES)} next to it"
        if tables:
            second = next(name for name, paths in candidates.items() if paths)
            message = f"{message}, but one next to {second}"
        raise OptionError(f"{message}; set the symbol table with --words", without)
    for second in tables[1:]:
        import filecmp  # rarely used: only for several tables

        if not filecmp.cmp(tables[0], second, shallow=False):
            raise OptionError(f"the symbol tables {tables[0]} and {second} differ; choose one with --words")
    return tables[0]


def _tables_of(source: str) -> list[str]:
    """Return the symbol table in the folder of a source, or else all files that match ``../graph*/words.txt``."""
    if source == STDOUT:
        return []
    path = source if os.path.exists(source) or not SPECIFIER.fullmatch(source) else source.partition(":")[2]
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    names = [table_beside(path), *(os.path.join(folder, name) for name in TABLE_NAMES)]
    nearest = next(filter(is_file, names), None)
    return sorted(glob.glob(os.path.join(glob.escape(folder), _GRAPHS))) if nearest is None else [nearest]


def batches(stream: Stream, path: str, vocabulary: Vocabulary, *, ahead: bool) -> Iterator[Batch]:
    """Yield batches of the lattices in an archive, or the lattice in a file with a single lattice and no key.

    Args:
        stream: The file, positioned at its start.
        path: Path of the file; the key of a single lattice is derived from it.
        vocabulary: Vocabulary of the lattices.
        ahead: Whether a thread reads ahead of the caller.
    """
    if stream.head(len(MAGIC)) == MAGIC:
        return iter([bare(stream, Content(stream, path).key, vocabulary)])
    has_mark = stream.head(len(BOM)) == BOM
    if has_mark:
        stream.readinto(memoryview(bytearray(len(BOM))))
        without_mark(BOM, stream.name)
    if has_mark or not stream.is_local:
        lattices = archive(stream, vocabulary)
        return read_ahead(lattices) if ahead else lattices
    if ahead and num_cores() > 1:  # with one core, the operating system already reads ahead
        return plain_file(stream, vocabulary)
    return archive(stream, vocabulary)


def plain_file(stream: Stream, vocabulary: Vocabulary) -> Iterator[Batch]:
    """Yield batches of the lattices in an uncompressed archive; a thread reads ahead without holding the GIL."""
    with starting_threads():
        reader = FileBatches(
            stream.name,
            stream.descriptor(),
            vocabulary.known,
            begin=stream.begin,
            end=LARGEST_OFFSET if stream.end is None else stream.end,
            chunk=CHUNK,
            ahead=AHEAD,
            largest=LARGEST_ENTRY,
        )
    position = 0
    with closing(reader):
        while entries := reader.next():
            position += reader.size
            items, faults = entries
            yield Batch(items, words=vocabulary.words, faults=faults, size=reader.size, position=position)


def archive(stream: Stream, vocabulary: Vocabulary) -> Iterator[Batch]:
    """Yield batches of the lattices in an archive that is read from a stream of any type."""
    reader = vocabulary.reader(stream.name)
    reader.skip(stream.begin)
    count = 1
    while count and not reader.broken:
        count = fill(reader, stream, CHUNK)
        before = reader.position
        items, faults = reader.parse(stream.bytes_left if count else 0)
        batch = Batch(items, words=vocabulary.words, faults=faults, size=reader.position - before)
        if len(batch) or faults:
            batch.position = stream.position
            yield batch


def fill(reader: TableReader, stream: Stream, chunk: int) -> int:
    """Read bytes from a stream into the buffer of a reader; return the number of bytes read.

    At most ``max(chunk, number of unparsed bytes in the buffer)`` bytes are read.

    Raises:
        FormatError: The buffer contains more than ``LARGEST_ENTRY`` unparsed bytes, so a lattice is too large.
    """
    pending = reader.pending
    if pending > LARGEST_ENTRY:
        raise FormatError(
            f"a lattice is larger than {LARGEST_ENTRY >> 30} GB; the rest of this archive is not read",
            stream.name,
            byte=reader.position,
        )
    count = stream.readinto(reader.space(max(chunk, pending)))
    reader.advance(count)
    return count


def bare(stream: Stream, key: str, vocabulary: Vocabulary) -> Batch:
    """Read a file that contains a single lattice without a key."""
    reader = vocabulary.reader(stream.name)
    while fill(reader, stream, CHUNK):
        pass
    size = reader.pending
    lattice = reader.parse_one(key, 0)
    assert lattice is not None  # the reader has the whole file, so it never needs more bytes
    return Batch.of_entries([(key, lattice)], size=size, position=stream.position)


class EncodedBatch(NamedTuple):
    """A batch of lattices, encoded as entries of an archive."""

    keys: list[str]
    entries: TableWriter
    begins: list[int]  # offset of each lattice in bytes; empty without a script file


class WriteQueue:
    """A queue of buffers that a thread writes to an output, in the order of the calls to `put`.

    After an error, nothing more is written; the next call to `put` or `wait` raises the error. The first call to `put`
    starts the thread, and `wait` or `stop` ends it; a later call to `put` starts it again.

    Args:
        file: The output. Other code may use it only between `wait` or `stop` and the next call to `put`.
        spare: List of buffers to reuse. After the bytes of a buffer are written (or discarded, after an error), the
            buffer is cleared and added to this list.
    """

    def __init__(self, file: Bytes, spare: list[TableWriter]) -> None:
        self._file = file
        self._spare = spare
        # A signal handler may raise an exception in any call. It could leave the lock of a `Queue` acquired forever.
        self._buffers: SimpleQueue[TableWriter | None] = SimpleQueue()
        self._free: SimpleQueue[None] = SimpleQueue()  # contains an item for each buffer that may still be added
        for _ in range(LARGEST_QUEUE):
            self._free.put(None)
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def put(self, buffer: TableWriter) -> None:
        """Add a buffer to be written; block while `LARGEST_QUEUE` other buffers are waiting."""
        if self._error is not None:
            raise self._error
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="ninja-write", daemon=True)
            with starting_threads():
                thread.start()
            self._thread = thread
        self._free.get()
        self._buffers.put(buffer)

    def wait(self) -> None:
        """Wait until all bytes are written."""
        self.stop()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Wait until all bytes are written, without raising errors."""
        if self._thread is not None:
            self._buffers.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (buffer := self._buffers.get()) is not None:
            self._free.put(None)
            try:
                with buffer.view() as content:
                    if self._error is None:
                        self._file.write(content)
            except BaseException as error:  # `put` or `wait` raises the error in the caller's thread
                self._error = error
            buffer.clear()
            self._spare.append(buffer)


class ArchiveOutput:
    """The files of an archive that is being written: the archive and its script file, which lists the lattice offsets.

    Args:
        target: Names of the files, and whether to write text and whether to compress.
        guard: Guard that prevents the output from replacing an input.
    """

    def __init__(self, target: Target, guard: Guard | None = None) -> None:
        self.target = target
        self.file: PartFile | StandardOutput | None = None
        self.position = 0  # number of bytes written to the archive, before compression
        self.packed: GzipWriter | None = None
        self._guard = guard
        self._script: PartFile | None = None
        self._script_lines: list[bytes] = []
        self._entries = TableWriter(text=target.text)
        self._queue: WriteQueue | None = None  # thread that writes encoded batches
        self._spare: list[TableWriter] = []  # buffers to reuse for encoded batches

    def open(self, *, keep: bool = False) -> PartFile | StandardOutput:
        """Open the archive for writing; if `keep` is True, continue an incomplete archive (see `PartFile`)."""
        name = self.target.archive
        self.file = StandardOutput() if name == STDOUT else PartFile(name, keep=keep, guard=self._guard)
        return self.file

    def begin(self, entries: Iterable[tuple[str, int]] = (), position: int = 0) -> None:
        """Open the script file, and begin writing.

        Args:
            entries: ``(key, offset)`` for each entry that is already in the archive.
            position: Number of bytes that these entries occupy.
        """
        self.position = position
        if self.target.script is not None:
            self._script = PartFile(self.target.script, guard=self._guard)
            self._script_lines = [self._script_line(key, offset) for key, offset in entries]
        if self.target.packed:
            self.packed = GzipWriter(self._opened, follows=position > 0)

    def append(self, lattice: Lattice, key: str, *, compact: bool) -> None:
        """Append a lattice in compact or raw format; its bytes are buffered until the next call to any method."""
        if self._entries.pending >= FLUSH:
            self.flush()
        begin = self._entries.append(lattice, key.encode("utf-8", "surrogateescape"), compact)
        if self._script is not None:
            self._script_lines.append(self._script_line(key, self.position + begin))

    def encode(self, batch: Batch, kind: Kind | None) -> EncodedBatch:
        """Encode a batch for `write`. Any thread can call this method.

        Args:
            batch: The lattices.
            kind: Kind of the encoded lattices, "compact" or "raw".  [default: the kind of each lattice]

        Raises:
            LatticeError: A lattice cannot be written.
            UnicodeEncodeError: A word or a key cannot be written.
        """
        entries = self._spare.pop() if self._spare else TableWriter(text=self.target.text)
        begins = entries.append_all(batch.items, None if kind is None else kind == "compact")
        return EncodedBatch(batch.keys, entries, begins.tolist() if self.target.script is not None else [])

    def write(self, encoded: EncodedBatch) -> None:
        """Append an encoded batch."""
        self.flush()
        if self._script is not None:
            rows = zip(encoded.keys, encoded.begins, strict=True)
            self._script.write(b"".join(self._script_line(key, self.position + begin) for key, begin in rows))
        self.position += encoded.entries.pending
        if self._queue is not None:
            self._queue.put(encoded.entries)
            return
        with encoded.entries.view() as content:
            (self.packed or self._opened).write(content)
        encoded.entries.clear()
        self._spare.append(encoded.entries)

    def write_on_thread(self) -> None:
        """Write encoded batches on a thread from now on."""
        self._queue = WriteQueue(self.packed or self._opened, self._spare)

    def flush(self) -> None:
        """Wait until all encoded batches are written, and then write the entries that `append` has buffered."""
        if self._entries.pending:
            self.wait()
            content = self._entries.view()
            (self.packed or self._opened).write(content)
            self.position += len(content)
            content.release()
            self._entries.clear()
        if self._script is not None:
            self._script.write(b"".join(self._script_lines))
            self._script_lines = []

    def wait(self) -> None:
        """Wait until encoded batches are written."""
        if self._queue is not None:
            self._queue.wait()

    def end(self) -> None:
        """Write all remaining entries."""
        self.wait()
        self.flush()
        if self.packed is not None:
            self.packed.close()

    def finish(self) -> None:
        """Write all remaining entries, and rename the files to their final names."""
        self.end()
        for file in (self.file, self._script):
            if file is not None:
                file.finish()

    def abandon(self, *, keep: bool) -> None:
        """Remove the files or, with `keep`, keep the incomplete archive for a later run that resumes it."""
        if self._queue is not None:
            self._queue.stop()
        for file in (self.file, self._script):
            if file is not None:
                file.abandon(keep=keep and file is self.file)
        self.file = self._script = None

    @property
    def _opened(self) -> PartFile | StandardOutput:
        assert self.file is not None
        return self.file

    def _script_line(self, key: str, offset: int) -> bytes:
        return os.fsencode(f"{key} {self.target.archive}:{offset}\n")


def read_entries(content: Content, words: SymbolTable | None, options: None) -> Iterator[Entry]:
    """Yield the entries in a binary or text archive."""
    for batch in archive(content.stream, Vocabulary.of(words)):
        yield from batch.entries()


# An archive has no times, but times follow from the lengths of alignments.
KALDI_KEEPS: frozenset[Field] = frozenset(
    {"key", "paths", "graph", "acoustic", "apart", "unscaled", "alignments", "raw", "ids"}
)

FORMAT = Format(
    name="binary",
    about="Kaldi archive of compact or raw lattices in binary format",
    extensions=(".ark",),
    aliases=("kaldi",),
    mark=KALDI_IMAGE.match,
    read=Read(read_entries),
    keeps=KALDI_KEEPS,
    write=Write(key_is_field=True),
)
