"""Reader for lattices in non-Kaldi formats from the files that a Kaldi script file lists."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

from ninja.errors import FormatError, NinjaError
from ninja.files.stream import Place, Stream, is_read_once, open_stream
from ninja.lattice import Lattice

CACHE_BYTES = 1 << 26  # maximum size of the cached lattices of a file in bytes
ARC_BYTES = 20  # approximate number of bytes per arc in memory
LATTICE_BYTES = 1 << 10  # approximate number of bytes per lattice in memory, in addition to its arcs

Entries = Iterator[tuple[str, Lattice | NinjaError]]
EntriesOf = Callable[[Stream, Place], Entries | None]


class ScpReader:
    """Reader for non-Kaldi files that a script file lists.

    The last file stays open, because the next line may refer to the same file.

    Args:
        entries_of: Function that returns the entries in an open file, or None if the file is a Kaldi archive or in an
            unknown format.
    """

    def __init__(self, entries_of: EntriesOf) -> None:
        self._entries_of = entries_of
        self._last: _File | None = None

    def again(self, place: Place, key: str) -> Lattice | NinjaError | None:
        """Return the lattice with a key from the file that was opened last, or None if ``place`` is a different file.

        If the file contains a single lattice, it is returned for any key.

        Raises:
            NinjaError: The file cannot be read up to the entry with the key.
        """
        return self._last.get(key) if self._last is not None and self._last.place == place else None

    def first(self, stream: Stream, place: Place, key: str) -> Lattice | NinjaError | None:
        """Take ownership of an open file, and return the lattice with a key.

        Return None if the file is a Kaldi archive or in an unknown format; the caller keeps ownership of such a file.

        Raises:
            NinjaError: The file cannot be read up to the entry with the key, or is in a format without lattices.
        """
        entries = self._entries_of(stream, place)
        if entries is None:
            return None
        self.close()
        self._last = _File(self._entries_of, stream, place, entries)
        return self._last.get(key)

    def close(self) -> None:
        """Close the file that was opened last."""
        if self._last is not None:
            self._last.stream.close()
        self._last = None


class _File:
    """A file that is read only as far as necessary to look up keys.

    The most recent lattices are cached, up to ``CACHE_BYTES``. The file is read again to look up an earlier lattice.
    """

    def __init__(self, entries_of: EntriesOf, stream: Stream, place: Place, entries: Entries) -> None:
        self.place = place
        self.stream = stream
        self._entries_of = entries_of
        self._entries = entries
        self._has_ended = False
        self._count = 0  # number of lattices read in the first pass through the file
        self._keys: set[str] = set()  # keys of all lattices read
        self._cache: dict[str, Lattice | NinjaError] = {}  # the most recent lattices
        self._size = 0  # approximate size of the cache in bytes
        self._error: NinjaError | None = None  # error after which the file could not be read further

    def get(self, key: str) -> Lattice | NinjaError:
        if key in self._cache:
            return self._cache[key]
        if key in self._keys:  # the lattice is no longer in the cache, so read the file again
            self.stream.close()
            self.stream = open_stream(self.place)
            self._entries = self._entries_of(self.stream, self.place) or iter(())
            self._cache, self._size = {}, 0
        elif self._has_ended:
            return self._missing(key)
        try:
            for name, lattice in self._entries:
                self._add(name, lattice)
                if name == key:
                    return lattice
        except NinjaError as error:
            self._error = error
        self._has_ended = True
        return self._missing(key)

    def _add(self, key: str, lattice: Lattice | NinjaError) -> None:
        self._count += not self._has_ended
        self._keys.add(key)
        if key in self._cache:
            return  # keep the first of several lattices with the same key
        self._cache[key] = lattice
        self._size += _size(lattice)
        while self._size > CACHE_BYTES and len(self._cache) > 1 and not is_read_once(self.place.path):
            self._size -= _size(self._cache.pop(next(iter(self._cache))))

    def _missing(self, key: str) -> Lattice | NinjaError:
        if self._error is not None:
            raise copy.copy(self._error)
        if not self._count:
            return FormatError("the file contains no lattice", self.stream.name, key=key)
        if self._count > 1:
            return FormatError("the file contains several lattices, but none with this key", self.stream.name, key=key)
        (only,) = self._cache.values()
        return only.with_key(key) if isinstance(only, Lattice) else only


def _size(lattice: Lattice | NinjaError) -> int:
    return LATTICE_BYTES + (ARC_BYTES * lattice.num_arcs if isinstance(lattice, Lattice) else 0)
