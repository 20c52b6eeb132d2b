"""Lattices whose words are compared must have the ids of one symbol table."""

from __future__ import annotations

from collections.abc import Iterable

from ninja.errors import SymbolError
from ninja.io.writing.output import agree
from ninja.lattice import Lattice


def check_one_table(lattices: Iterable[Lattice]) -> None:
    """Refuse lattices in which an id is one word here and another there, as when each was read without a table.

    A lattice without a table is taken to have the same as the others.

    Raises:
        SymbolError: Two tables give an id different names.
    """
    first: Lattice | None = None
    for lattice in lattices:
        if lattice.words is None:
            continue
        if first is None or first.words is None:
            first = lattice
        elif lattice.words is not first.words and not (
            agree(first.words, lattice.words, lattice) and agree(first.words, lattice.words, first)
        ):
            raise SymbolError(
                "the lattices' words have ids of different symbol tables; read all with one table (words=…)",
                key=lattice.key,
            )
