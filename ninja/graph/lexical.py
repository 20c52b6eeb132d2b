"""Lattices of lexical words (see `ninja.lattice.text`), and the mapping from their arcs to written words."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from ninja import _core
from ninja.lattice import Lattice
from ninja.lattice.arrays import offsets
from ninja.lattice.batch import Batch
from ninja.lattice.form_numbers import SEVERAL
from ninja.lattice.lattice import as_list_of, check_lattice, frozen
from ninja.lattice.text import LexicalTable


@dataclass(frozen=True, slots=True, eq=False)
class LexicalLattice:
    """A lattice of lexical words, and its correspondence to the written lattice from which it was created.

    Each arc of the lexical lattice maps to an arc of the written lattice, and each state of the written lattice maps to
    a state of the lexical lattice.
    """

    lattice: Lattice
    source_arc: npt.NDArray[np.int64]  # [num_arcs], written arc from which each arc was created
    is_first: npt.NDArray[np.bool_]  # [num_arcs], False for the second and later words of a form
    state: npt.NDArray[np.int64]  # state of this lattice for each state of the written lattice

    def written_arcs(self, arcs: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        """Map the arcs of a path to the arcs of the written lattice; a chain of arcs for one word yields one arc."""
        written: npt.NDArray[np.int64] = self.source_arc[arcs[self.is_first[arcs]]]
        return written


def lexical_lattice(lattice: Lattice, table: LexicalTable) -> LexicalLattice:
    """Replace the words in a lattice with their lexical forms.

    A word without lexical words becomes an epsilon, and a word with several lexical words becomes a chain of arcs. The
    first arc of a chain has the costs; the labels and the duration of the word are divided evenly among all its arcs.

    Raises:
        SymbolError: A word id is not in the symbol table.
    """
    check_lattice(lattice)
    length, first = table.columns(lattice)
    arc = np.arange(lattice.num_arcs)
    if lattice.num_arcs == 0 or int(length.max()) <= 1:
        word = frozen(first)
        lexical = lattice.replace(word=word, words=table.lexical)
        return LexicalLattice(lexical, arc, np.ones(len(arc), np.bool_), np.arange(lattice.num_states))
    # The kernel looks up lexical forms by word id; here, each arc gets its own index as word id.
    has_several = length > 1
    forms = [table.form(number) for number in lattice.word[has_several].tolist()]
    code = first.copy()
    code[has_several] = SEVERAL - np.arange(len(forms))
    part = np.array(list(chain.from_iterable(forms)), np.int32)
    batch = Batch.of([lattice.replace(word=frozen(arc, np.int32), words=table.lexical)])
    _, _, items = _core.form_words(batch, Lattice, code, offsets(length[has_several]), part, True, True)
    lexical, written = batch.like(items)[0], _core.written_arcs(items, 0)
    assert written is not None  # a word has several lexical words
    source_arc = np.where(written < 0, -1 - written, written)
    extra = np.bincount(lattice.src, np.maximum(length, 1) - 1, lattice.num_states)  # new chain states for each state
    state = np.arange(lattice.num_states) + offsets(extra.astype(np.int64))[:-1]
    return LexicalLattice(as_list_of(lattice, lexical), source_arc, written >= 0, state)
