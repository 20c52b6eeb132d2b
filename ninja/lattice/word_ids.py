"""Collect the distinct words in lattices, and compare symbol tables."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ninja.errors import SymbolError
from ninja.lattice.lattice import Lattice
from ninja.lattice.nbest import NBest
from ninja.lattice.network import ConfusionNetwork
from ninja.lattice.symbols import EPSILON, SymbolTable

DENSE = 16  # largest word id per arc for which an array indexed by id is cheaper than sorting


def used_words(lattice: Lattice) -> list[int]:
    """Return the distinct word ids in a lattice in increasing order, without epsilon."""
    largest = int(lattice.word.max(initial=0))
    if largest > DENSE * lattice.num_arcs:
        return [word for word in np.unique(lattice.word).tolist() if word != EPSILON]
    used = np.zeros(largest + 1, np.bool_)
    used[lattice.word] = True
    used[EPSILON] = False
    ids: list[int] = np.flatnonzero(used).tolist()
    return ids


def used_names(item: Lattice | NBest | ConfusionNetwork, words: SymbolTable | None) -> set[str]:
    """Return the distinct words in a lattice, n-best list or confusion network.

    Words that are given as ids are included only if a symbol table contains all of the ids.

    Args:
        words: Symbol table for the ids.  [default: the lattice's table; none for other items]
    """
    if isinstance(item, ConfusionNetwork):
        return {word for word in item.words if word is not None}
    if isinstance(item, NBest):
        used = {word for hypothesis in item.hypotheses for word in hypothesis.words}
        names = {word for word in used if isinstance(word, str)}
        ids = [word for word in used if not isinstance(word, str)]
    else:
        words = item.words if words is None else words
        names, ids = set(), used_words(item)
    try:
        return names if words is None else names.union(words.spell(ids))
    except SymbolError:  # raised again when the words are written
        return names


def agree(one: SymbolTable, other: SymbolTable, lattice: Lattice) -> bool:
    """Return whether two tables map the word ids in a lattice to the same words."""
    try:
        return all(one.word(word) == other.word(word) for word in used_words(lattice))
    except SymbolError:
        return False


def check_one_table(lattices: Iterable[Lattice]) -> None:
    """Check that the symbol tables of lattices map their word ids to the same words.

    A lattice without a table is assumed to use the same table as the other lattices.

    Raises:
        SymbolError: Two tables contain different words for an id.
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
                "the lattices have different symbol tables; read all of them with one table (words=…)",
                key=lattice.key,
            )
