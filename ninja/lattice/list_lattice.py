"""``ListLattice``: the lattice of an n-best list, with other fields of its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ninja.lattice.lattice import SLOTS, Lattice


@dataclass(frozen=True, slots=True)
class ListRecord:
    """Fields of an utterance and its hypotheses, stored by a reader for a writer of such files.

    A hypothesis is identified by its words.
    """

    utterance: Mapping[str, Any]  # fields of the utterance, in the order of the file
    hypotheses: Mapping[str, Mapping[str, Any]]  # fields of each hypothesis, by its words joined by blanks
    others: frozenset[str] = frozenset()  # names of the fields that are only in the record
    layout: Any = None  # names of the fields, for the reader and the writer; None: those of the writer


def joined_records(first: ListRecord | None, second: ListRecord | None) -> ListRecord | None:
    """Return the record of two parts of a list; the first has precedence."""
    if first is None or second is None:
        return first or second
    utterance = {**second.utterance, **first.utterance}
    hypotheses = {**second.hypotheses, **first.hypotheses}
    return ListRecord(utterance, hypotheses, first.others | second.others, first.layout)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ListLattice(Lattice):
    """A lattice whose paths are hypotheses of an n-best list."""

    num_hypotheses: int = 0  # of the list; the lattice has no more word sequences
    record: ListRecord | None = None  # other fields of the file

    @classmethod
    def of(cls, lattice: Lattice, num_hypotheses: int, record: ListRecord | None = None) -> ListLattice:
        """Convert a lattice to that of a list."""
        values: list[Any] = [slot.__get__(lattice) for slot in SLOTS]
        return cls(*[*values, num_hypotheses, record])

    def replace(self, **changed: Any) -> ListLattice:
        """Return the same lattice with other fields; see ``Lattice.replace``."""
        return ListLattice.of(Lattice.replace(self, **changed), self.num_hypotheses, self.record)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the lattice, the number and the record."""
        return ListLattice.of, (Lattice.replace(self), self.num_hypotheses, self.record)


def as_list_of(source: Lattice, lattice: Lattice) -> Lattice:
    """Return `lattice`, made of paths of `source`, as the lattice of a list if `source` is one."""
    if isinstance(source, ListLattice) and not isinstance(lattice, ListLattice):
        return ListLattice.of(lattice, source.num_hypotheses, source.record)
    return lattice
