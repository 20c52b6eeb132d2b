"""Check word ids, collect the distinct words in lattices, and compare symbol tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ninja.errors import OptionError, SymbolError
from ninja.lattice.lattice import Lattice, check_lattice
from ninja.lattice.nbest import NBest
from ninja.lattice.network import ConfusionNetwork
from ninja.lattice.symbols import EPSILON, LARGEST_ID, SymbolTable

DENSE = 16  # largest word id per arc for which an array indexed by id is cheaper than sorting
SMALLEST = -LARGEST_ID - 1
WordIds = Sequence[int] | npt.NDArray[np.integer[Any]]


def ids_of(words: WordIds, name: str, least: int = SMALLEST) -> npt.NDArray[np.int32]:
    """Check a sequence of word ids and convert it to an array.

    Args:
        words: Word ids.
        name: Name of the sequence for messages.
        least: Smallest allowed id; negative ids represent words that are not in the symbol table.

    Raises:
        OptionError: The argument is not a sequence of integers, or an id is out of range.
    """
    ids = np.asarray(words)
    if ids.size == 0 and ids.ndim == 1:
        return np.zeros(0, np.int32)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise OptionError(f"{name} must be a sequence of word ids, but is {ids.dtype} of shape {ids.shape}")
    if (bad := (ids < least) | (ids > LARGEST_ID)).any():
        raise OptionError(f"the {name} contains {ids[bad][0]}, but word ids are {least} to {LARGEST_ID}")
    return np.ascontiguousarray(ids, np.int32)


def check_one_each(num_sequences: int, num_lattices: int, name: str) -> None:
    """Raise OptionError if the number of sequences of word ids differs from the number of lattices."""
    if num_sequences != num_lattices:
        raise OptionError(f"the number of {name} is {num_sequences}, but the number of lattices is {num_lattices}")


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

    Words that are represented by ids are included only if a symbol table contains all ids.

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
    except SymbolError:  # the error is raised again when the words are written
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
        check_lattice(lattice)
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
