"""Phrases in place of paths of a lattice: the words written and the costs divided between them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ninja import _context
from ninja.context.augmentation.insertion import Chain
from ninja.context.augmentation.pronounced_list import Variant
from ninja.context.entities.written import WrittenWords, ends_sentence, in_place_of
from ninja.graph.lexical import LexicalLattice
from ninja.lattice import Lattice
from ninja.lattice.symbols import EPSILON


class Replacement(NamedTuple):
    """A phrase in place of a path."""

    start: int  # states
    end: int
    arcs: npt.NDArray[np.int64]  # the path
    words: tuple[int, ...]  # of the phrase
    num_phones: npt.NDArray[np.integer]  # of each


class WrittenReplacements:
    """Replacements of paths of a written lattice, of which spans were found by lexical forms.

    Args:
        source: The written lattice.
        of_forms: The lattice of its lexical forms.
        acoustic_scale: Of the best path, whose words before a phrase tell where a sentence begins.
    """

    def __init__(self, written: WrittenWords, source: Lattice, of_forms: LexicalLattice, acoustic_scale: float) -> None:
        self._written = written
        self._source = source
        self._of_forms = of_forms
        self._best_in, _ = _context.best_arcs(source, acoustic_scale)
        self._state = np.full(of_forms.lattice.num_states, -1)  # of the written lattice
        self._state[of_forms.state] = np.arange(source.num_states)

    def of(
        self, start: int, end: int, lexical_arcs: npt.NDArray[np.int64], variant: Variant, *, is_cased: bool
    ) -> Replacement:
        """Return the replacement of a path by a phrase.

        Args:
            start: First state of the path in the lexical lattice.
            end: Its last state.
            is_cased: The phrase's list distinguishes case; otherwise a capital of the words replaced is kept anywhere.
        """
        table = self._written.table
        arcs = self._of_forms.written_arcs(lexical_arcs)
        state = int(self._state[start])
        replaced = [number for number in self._source.word[arcs].tolist() if number != EPSILON and table.form(number)]
        words = in_place_of(
            variant.written,
            table.words.word(replaced[0]),
            table.words.word(replaced[-1]),
            begins_sentence=not is_cased or self._begins_sentence(state),
        )
        length = [len(form) for form in table.normalizer.forms(variant.written)]
        end_of_word = np.cumsum([0, *length])
        num_phones = np.diff(np.cumsum([0, *variant.num_phones])[end_of_word])
        return Replacement(state, int(self._state[end]), arcs, tuple(self._written.ids(words)), num_phones)

    def _begins_sentence(self, state: int) -> bool:
        """Tell whether a sentence begins in a state, by the best path to it."""
        table, src = self._written.table, self._source.src
        while (arc := int(self._best_in[state])) >= 0:
            word = int(self._source.word[arc])
            if word != EPSILON and ends_sentence(table.words.word(word)):
                return True
            if word != EPSILON and table.form(word):
                return False
            state = int(src[arc])
        return True


def chain(lattice: Lattice, place: Replacement, change: float, paid: float) -> Chain:
    """Make the chain of a phrase, with this much more graph and acoustic cost than the path it replaces."""
    share = place.num_phones / place.num_phones.sum()
    acoustic = float(lattice.acoustic[place.arcs].sum(dtype=np.float64)) + paid
    graph = float(lattice.graph[place.arcs].sum(dtype=np.float64)) + change
    labels = np.concatenate([lattice.ali[lattice.ali_begin[arc] : lattice.ali_begin[arc + 1]] for arc in place.arcs])
    cuts = np.rint(np.cumsum(share)[:-1] * len(labels)).astype(np.int64)
    return Chain(place.start, place.end, place.words, graph * share, acoustic * share, tuple(np.split(labels, cuts)))
