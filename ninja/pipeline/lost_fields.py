"""Input lattice fields that a stage can lose: times and the additional fields of n-best lists."""

from __future__ import annotations

from ninja.errors import counted
from ninja.formats.format import Format
from ninja.lattice import Lattice
from ninja.lattice.lattice import ListLattice, as_list_of


class LostFields:
    """Counts of the fields that lattices lose in a run; n-best list fields are restored if the output stores them.

    Args:
        format: Format of the output.
    """

    def __init__(self, format: Format) -> None:
        assert format.write is not None
        self._format = format.name
        self._needs_origins = format.write.rewrites_files or format.write.restores
        self._sources: dict[str, ListLattice | None] = {}  # key → n-best list; None for a duplicate key
        self._timed: set[str] = set()  # keys of input lattices with times
        self._recorded: set[str] = set()  # keys of n-best lists with fields that lattices do not have
        self._num_untimed = 0  # number of lattices that lost their times
        self._num_unrecorded = 0  # number of n-best lists that lost these fields

    def note_source(self, lattice: Lattice) -> None:
        """Record which fields an input lattice has; keep n-best lists whose fields can be restored in the output."""
        key = lattice.key
        if lattice.time is not None:
            self._timed.add(key)
        if isinstance(lattice, ListLattice):
            if lattice.record and lattice.record.others:
                self._recorded.add(key)
            if self._needs_origins and self._has_origin(lattice):
                self._sources[key] = None if key in self._sources else lattice

    def restored(self, lattice: Lattice) -> Lattice:
        """Return a result lattice; n-best list fields that the stage dropped are restored if the output stores them."""
        source = self._sources.pop(lattice.key, None)
        return lattice if source is None else as_list_of(source, lattice)

    def note_result(self, lattice: Lattice) -> None:
        """Count the fields that a written lattice has lost."""
        self._num_untimed += lattice.time is None and not lattice.ali.size and lattice.key in self._timed
        self._num_unrecorded += lattice.key in self._recorded and not isinstance(lattice, ListLattice)

    def notes(self) -> list[str]:
        """Return messages about the fields that were lost."""
        notes = []
        if self._num_untimed:
            lattices = counted(self._num_untimed, "lattice")
            notes.append(f"times of {lattices} are not written, because states with different times were merged")
        if self._num_unrecorded and not self._needs_origins:
            lists = counted(self._num_unrecorded, "n-best list")
            notes.append(f"additional fields of {lists} are not written, because their paths changed")
        return notes

    def _has_origin(self, lattice: ListLattice) -> bool:
        """Return whether a lattice comes from a file in the format of the output."""
        origin = None if lattice.record is None else lattice.record.origin
        return origin is not None and origin.document is not None and origin.document.format == self._format
