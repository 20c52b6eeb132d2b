"""Reader of lattices in files of other formats that Kaldi script files list."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

from ninja.errors import FormatError, NinjaError
from ninja.files.place import Place
from ninja.files.stream import Stream, gives_bytes_once, open_stream
from ninja.lattice import Lattice

KEPT = 1 << 26  # bytes of lattices that were passed over
ARC_BYTES = 20  # that an arc of a lattice takes in memory, about
LATTICE_BYTES = 1 << 10  # that a lattice takes besides

Entries = Iterator[tuple[str, Lattice | NinjaError]]
EntriesOf = Callable[[Stream, Place], Entries | None]


class ScpReader:
    """Reader of the last non-Kaldi file of a script file, kept for further lines that name it.

    Args:
        entries_of: Returns what the file behind a stream holds; None where it is Kaldi's.
    """

    def __init__(self, entries_of: EntriesOf) -> None:
        self._entries_of = entries_of
        self._last: _File | None = None

    def again(self, place: Place, key: str) -> Lattice | NinjaError | None:
        """Return the last file's lattice of a key; None for another file.

        Of a file with one lattice it is that one.

        Raises:
            NinjaError: What ended the reading of the file before the key was found.
        """
        return self._last.get(key) if self._last is not None and self._last.place == place else None

    def first(self, stream: Stream, place: Place, key: str) -> Lattice | NinjaError | None:
        """Take over a file just opened, and return its lattice of a key; None if it is Kaldi's.

        Raises:
            NinjaError: As for ``again``, or the file is of no format.
        """
        entries = self._entries_of(stream, place)
        if entries is None:
            return None
        self.close()
        self._last = _File(self._entries_of, stream, place, entries)
        return self._last.get(key)

    def close(self) -> None:
        """Close the file."""
        if self._last is not None:
            self._last.stream.close()
        self._last = None


class _File:
    """A file that is read on as far as a key is looked for.

    What is passed over is kept, but not more than ``KEPT`` bytes of it. A key of which the lattice is kept no longer
    has the file read again.
    """

    def __init__(self, entries_of: EntriesOf, stream: Stream, place: Place, entries: Entries) -> None:
        self.place = place
        self.stream = stream
        self._entries_of = entries_of
        self._entries = entries
        self._ended = False
        self._count = 0  # lattices that were read, until the end came for the first time
        self._keys: set[str] = set()  # of all that were
        self._kept: dict[str, Lattice | NinjaError] = {}  # the last of them
        self._size = 0  # bytes they take, about
        self._broken: NinjaError | None = None  # what ended the reading

    def get(self, key: str) -> Lattice | NinjaError:
        if key in self._kept:
            return self._kept[key]
        if key in self._keys:
            self._begin_again()
        elif self._ended:
            return self._missing(key)
        try:
            for found_key, found in self._entries:
                self._keep(found_key, found)
                if found_key == key:
                    return found
        except NinjaError as error:
            self._broken = error
        self._ended = True
        return self._missing(key)

    def _begin_again(self) -> None:
        self.stream.close()
        self.stream = open_stream(self.place)
        self._entries = self._entries_of(self.stream, self.place) or iter(())
        self._kept, self._size = {}, 0

    def _keep(self, key: str, found: Lattice | NinjaError) -> None:
        self._count += not self._ended
        self._keys.add(key)
        if key in self._kept:
            return  # the first one of a key counts
        self._kept[key] = found
        self._size += _size(found)
        while self._size > KEPT and len(self._kept) > 1 and not gives_bytes_once(self.place.path):
            self._size -= _size(self._kept.pop(next(iter(self._kept))))

    def _missing(self, key: str) -> Lattice | NinjaError:
        if self._broken is not None:
            raise copy.copy(self._broken)
        if not self._count:
            return FormatError("there is no lattice in this file", self.stream.name, key=key)
        if self._count > 1:
            return FormatError("the file holds several lattices, but none with this key", self.stream.name, key=key)
        (only,) = self._kept.values()
        return only.with_key(key) if isinstance(only, Lattice) else only


def _size(found: Lattice | NinjaError) -> int:
    return LATTICE_BYTES + (ARC_BYTES * found.num_arcs if isinstance(found, Lattice) else 0)
