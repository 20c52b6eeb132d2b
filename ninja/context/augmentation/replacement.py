"""Phrases that replace lattice paths: their written words, and the division of path costs among these words."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ninja import _context
from ninja.context.augmentation.insertion import Chain
from ninja.context.augmentation.pronounced_list import Variant
from ninja.context.entities.written import WrittenWords, ends_sentence, in_place_of, kept_genitive
from ninja.graph.lexical import LexicalLattice
from ninja.lattice import Lattice
from ninja.lattice.symbols import EPSILON


class Replacement(NamedTuple):
    """A phrase that replaces a path in a lattice."""

    start: int  # first state of the path
    end: int  # last state of the path
    arcs: npt.NDArray[np.int64]  # arcs of the path
    words: tuple[int, ...]  # words of the phrase
    num_phones: npt.NDArray[np.integer]  # number of phones of each word
    genitive: str = ""  # the "'s" of the replaced words, which the last word of the phrase keeps


class WrittenReplacements:
    """Replacements of paths in a lattice of written words; paths and phrases are compared by their lexical forms.

    Args:
        written: Written words and their lexical forms.
        source: The lattice of written words.
        of_forms: The lattice of lexical forms that corresponds to `source`.
        acoustic_scale: Acoustic scale used to find the best path. Sentence beginnings are determined on this path.
    """

    def __init__(self, written: WrittenWords, source: Lattice, of_forms: LexicalLattice, acoustic_scale: float) -> None:
        self._written = written
        self._source = source
        self._of_forms = of_forms
        self._best_in, _ = _context.best_arcs(source, acoustic_scale)
        self._state = np.full(of_forms.lattice.num_states, -1)  # written state of each lexical state
        self._state[of_forms.state] = np.arange(source.num_states)

    def of(
        self,
        start: int,
        end: int,
        lexical_arcs: npt.NDArray[np.int64],
        variant: Variant,
        distance: float,
        *,
        is_cased: bool,
    ) -> Replacement:
        """Return the replacement of a path with a phrase.

        Args:
            start: First state of the path in the lexical lattice.
            end: Last state of the path.
            lexical_arcs: Arcs of the path.
            variant: The phrase that replaces the path.
            distance: Distance between the phrase and the words of the path.
            is_cased: Whether the phrase list distinguishes case; if not, an initial capital of the replaced words is
                kept at any position in the sentence.
        """
        table = self._written.table
        arcs = self._of_forms.written_arcs(lexical_arcs)
        state = int(self._state[start])
        numbers = self._source.word[arcs].tolist()
        replaced = table.words.spell([number for number in numbers if number != EPSILON and table.form(number)])
        genitive = kept_genitive(replaced, variant.recognised or variant.text, distance)
        words = in_place_of(
            variant.written,
            replaced[0],
            replaced[-1],
            begins_sentence=not is_cased or self._begins_sentence(state),
            genitive=genitive,
        )
        length = [len(form) for form in table.normalizer.forms(variant.written)]
        end_of_word = np.cumsum([0, *length])
        num_phones = np.diff(np.cumsum([0, *variant.num_phones])[end_of_word])
        ids = tuple(self._written.ids(words))
        return Replacement(state, int(self._state[end]), arcs, ids, num_phones, genitive)

    def _begins_sentence(self, state: int) -> bool:
        """Return whether a sentence begins at a state, according to the best path to that state."""
        table, src = self._written.table, self._source.src
        while (arc := int(self._best_in[state])) >= 0:
            word = int(self._source.word[arc])
            if word != EPSILON and ends_sentence(table.words.word(word)):
                return True
            if word != EPSILON and table.form(word):
                return False
            state = int(src[arc])
        return True


def chain(lattice: Lattice, phrase: Replacement, graph_change: float, acoustic_change: float) -> Chain:
    """Return the chain for a phrase, with the costs of the replaced path plus `graph_change` and `acoustic_change`."""
    share = phrase.num_phones / phrase.num_phones.sum()
    acoustic = float(lattice.acoustic[phrase.arcs].sum(dtype=np.float64)) + acoustic_change
    graph = float(lattice.graph[phrase.arcs].sum(dtype=np.float64)) + graph_change
    labels = np.concatenate([lattice.ali[lattice.ali_begin[arc] : lattice.ali_begin[arc + 1]] for arc in phrase.arcs])
    cuts = np.rint(np.cumsum(share)[:-1] * len(labels)).astype(np.int64)
    return Chain(phrase.start, phrase.end, phrase.words, graph * share, acoustic * share, tuple(np.split(labels, cuts)))
