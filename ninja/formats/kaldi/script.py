"""Reader for script files, whose lines consist of a key and either a file or an archive with an offset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Protocol

from ninja._tables import TableReader
from ninja.errors import FormatError, NinjaError, OptionError
from ninja.files.names import resolve_listed
from ninja.files.stream import Guard, Place, Stream, open_stream
from ninja.formats.content import Entry
from ninja.formats.kaldi.archive import CHUNK, Vocabulary, fill
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch

SCRIPT_CHUNK = 1 << 16  # number of bytes read at a time for a lattice at an offset in an archive


class NonKaldiReader(Protocol):
    """Reader for script file entries in non-Kaldi formats; its methods return None for Kaldi archives."""

    def again(self, place: Place, key: str) -> Lattice | NinjaError | None:
        """Return a lattice from the most recently read file."""

    def first(self, stream: Stream, place: Place, key: str) -> Lattice | NinjaError | None:
        """Return a lattice from a newly opened file; take ownership of its stream unless it is a Kaldi archive."""

    def close(self) -> None:
        """Close the last file."""


def script(
    script: Stream,
    vocabulary: Callable[[], Vocabulary],
    foreign: NonKaldiReader,
    *,
    permissive: bool = False,
    guard: Guard | None = None,
) -> Iterator[Batch]:
    """Yield the lattices listed in a script file.

    Args:
        script: The script file.
        vocabulary: Function that returns the symbol table; it is called when the first Kaldi archive is read.
        foreign: Reader for non-Kaldi formats, which is closed at the end.
        permissive: Whether to skip lattices that cannot be read.
        guard: Guard that registers each file that is read, to protect the file from being replaced by an output.
    """
    entries: list[Entry] = []
    position = size = 0  # byte offset in the script file; total size of the lattices in bytes
    with closing(_LastFile(script.name, vocabulary, foreign, guard)) as last_file:
        for number, line in rows(script):
            position += len(line) + 1
            fields = line.split(None, 1)
            if not fields:
                continue
            key, name = fields[0], fields[1].strip() if len(fields) > 1 else ""
            lattice: Lattice | NinjaError
            try:
                if not name:
                    raise FormatError(f"expected a key and a file, found {key!r}", script.name, line=number)
                lattice = last_file.lattice(key, name)
            except OptionError:
                raise
            except NinjaError as error:
                if permissive:
                    continue
                error.key = key
                if error.path is None:
                    error.path, error.line = script.name, number
                lattice = error
            else:
                if permissive and isinstance(lattice, NinjaError):
                    continue
            entries.append((key, lattice))
            size += last_file.last_size
            if size >= CHUNK or len(entries) == 64:
                yield Batch.of_entries(entries, size=size, position=position)
                entries, size = [], 0
    if entries:
        yield Batch.of_entries(entries, size=size, position=position)


def rows(script: Stream) -> Iterator[tuple[int, str]]:
    """Yield ``(line number, line)`` for each line in a script file."""
    buffer = memoryview(bytearray(SCRIPT_CHUNK))
    number = script.lines
    tail = b""
    while count := script.readinto(buffer):
        *lines, tail = (tail + bytes(buffer[:count])).split(b"\n")
        for line in lines:
            number += 1
            yield number, line.decode("utf-8", "surrogateescape")
    if tail.strip():
        yield number + 1, tail.decode("utf-8", "surrogateescape")


class _LastFile:
    """The file specified by the last line read from a script file; it stays open for the next line."""

    def __init__(
        self, listed_in: str, vocabulary: Callable[[], Vocabulary], foreign: NonKaldiReader, guard: Guard | None
    ) -> None:
        self._guard = guard
        self._listed_in = listed_in
        self._vocabulary = vocabulary
        self._foreign = foreign
        self._path: str | None = None
        self._stream: Stream | None = None
        self._reader: TableReader | None = None
        self.last_size = 0

    def lattice(self, key: str, name: str) -> Lattice | NinjaError:
        """Return the lattice that an rxfilename in a script file specifies, or an error if the lattice is invalid.

        Raises:
            FormatError: The rxfilename does not specify exactly one file, or is not allowed in a script file.
            InputError: The file cannot be read.
        """
        self.last_size = 0
        places = resolve_listed(name, self._listed_in)
        if len(places) != 1:
            raise FormatError(f"{name!r} specifies {len(places)} files, but must specify one lattice")
        place = places[0]
        if place.offset == 0 and (lattice := self._foreign.again(place, key)) is not None:
            return lattice
        if self._path != place.path or self._stream is None or not self._stream.seekable:
            self._close()
            self._path = None
            self._stream = open_stream(place)
            if self._guard is not None:
                self._guard.read(place.name, self._stream.identity)
            if place.offset == 0 and (lattice := self._foreign.first(self._stream, place, key)) is not None:
                self._stream = None  # the reader for non-Kaldi formats closes the stream
                return lattice
            self._reader = self._vocabulary().reader(place.path)
            self._path = place.path
            self._reader.skip(place.offset)
        assert self._reader is not None
        if not self._reader.skip(place.offset):
            self._stream.seek(place.offset)
        reader, stream, ended = self._reader, self._stream, False
        while (lattice := reader.parse_one(key, 0 if ended else stream.bytes_left)) is None:
            ended = fill(reader, stream, SCRIPT_CHUNK) == 0
        self.last_size = max(0, reader.position - place.offset)
        return lattice

    def close(self) -> None:
        """Close the last opened archive and the reader for non-Kaldi formats."""
        self._close()
        self._foreign.close()

    def _close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream = None
