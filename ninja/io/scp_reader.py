"""Reader of lattices in files of other formats that Kaldi script files list."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

from ninja.errors import FormatError, NinjaError
from ninja.files.place import Place, is_read_once
from ninja.files.stream import Stream, open_stream
from ninja.lattice import Lattice

KEPT = 1 << 26  # bytes of the cached lattices
ARC_BYTES = 20  # approximate memory of an arc
LATTICE_BYTES = 1 << 10  # and of a lattice besides its arcs

Entries = Iterator[tuple[str, Lattice | NinjaError]]
EntriesOf = Callable[[Stream, Place], Entries | None]


class ScpReader:
    """Reader of the last non-Kaldi file of a script file, kept for further lines that name it.

    Args:
        entries_of: Returns the entries of the file of a stream; None for Kaldi archives.
    """

    def __init__(self, entries_of: EntriesOf) -> None:
        self._entries_of = entries_of
        self._last: _File | None = None

    def again(self, place: Place, key: str) -> Lattice | NinjaError | None:
        """Return the lattice of a key if the last file is this one, else None; a single lattice may have any key.

        Raises:
            NinjaError: The error that ended the reading of the file before the key.
        """
        return self._last.get(key) if self._last is not None and self._last.place == place else None

    def first(self, stream: Stream, place: Place, key: str) -> Lattice | NinjaError | None:
        """Take over an open file, and return its lattice of a key; None for a Kaldi archive.

        Raises:
            NinjaError: As for ``again``, or the file has no known format.
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
    """A file that is read only as far as requested keys need.

    Lattices passed over are kept, up to ``KEPT`` bytes. The file is read again for a key whose lattice is not kept.
    """

    def __init__(self, entries_of: EntriesOf, stream: Stream, place: Place, entries: Entries) -> None:
        self.place = place
        self.stream = stream
        self._entries_of = entries_of
        self._entries = entries
        self._has_ended = False
        self._count = 0  # lattices of the file, once it has ended
        self._keys: set[str] = set()  # of all lattices read
        self._kept: dict[str, Lattice | NinjaError] = {}  # the last lattices
        self._size = 0  # approximate bytes of these
        self._error: NinjaError | None = None  # that ended the reading

    def get(self, key: str) -> Lattice | NinjaError:
        if key in self._kept:
            return self._kept[key]
        if key in self._keys:
            self._begin_again()
        elif self._has_ended:
            return self._missing(key)
        try:
            for name, lattice in self._entries:
                self._keep(name, lattice)
                if name == key:
                    return lattice
        except NinjaError as error:
            self._error = error
        self._has_ended = True
        return self._missing(key)

    def _begin_again(self) -> None:
        self.stream.close()
        self.stream = open_stream(self.place)
        self._entries = self._entries_of(self.stream, self.place) or iter(())
        self._kept, self._size = {}, 0

    def _keep(self, key: str, lattice: Lattice | NinjaError) -> None:
        self._count += not self._has_ended
        self._keys.add(key)
        if key in self._kept:
            return  # the first lattice of a key counts
        self._kept[key] = lattice
        self._size += _size(lattice)
        while self._size > KEPT and len(self._kept) > 1 and not is_read_once(self.place.path):
            self._size -= _size(self._kept.pop(next(iter(self._kept))))

    def _missing(self, key: str) -> Lattice | NinjaError:
        if self._error is not None:
            raise copy.copy(self._error)
        if not self._count:
            return FormatError("there is no lattice in this file", self.stream.name, key=key)
        if self._count > 1:
            return FormatError("the file holds several lattices, but none with this key", self.stream.name, key=key)
        (only,) = self._kept.values()
        return only.with_key(key) if isinstance(only, Lattice) else only


def _size(lattice: Lattice | NinjaError) -> int:
    return LATTICE_BYTES + (ARC_BYTES * lattice.num_arcs if isinstance(lattice, Lattice) else 0)
