"""Phone alignment of lattices: each phone becomes an arc with its labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ninja import _align
from ninja.graph.align.result import (
    FAULTS,
    MAX_LABELS,
    MAX_STATES,
    SINGLE_KIND,
    Aligned,
    check_labels,
    label_table,
    too_large,
    unused_words,
    with_zero,
)
from ninja.graph.determinize import remove_epsilons
from ninja.lattice import Lattice
from ninja.lattice.transition_model import TransitionModel


@dataclass(frozen=True, slots=True)
class PhoneAlignment:
    """Options for phone alignment."""

    replace_output_symbols: bool = False  # replace words with the phones of the arcs
    remove_epsilon: bool = True  # join phones without a word to the next arc; otherwise each arc is one phone
    reorder: bool = True  # whether self-loops follow the transition out of their state, as in most Kaldi graphs


class PhoneAligner:
    """Callable that aligns lattices to phones, using their transition model."""

    def __init__(self, model: TransitionModel, options: PhoneAlignment | None = None) -> None:
        self.model = model
        self.options = PhoneAlignment() if options is None else options
        self._table = label_table(model, SINGLE_KIND)

    def __call__(self, lattice: Lattice) -> Aligned:
        """Align a lattice. For a damaged lattice, the result contains the fault and the part that can be aligned.

        A word is placed on the first phone that is not yet complete at the beginning of the word's arc. A phone counts
        as complete only after the following label has been read; as in Kaldi, a word can therefore be placed on the
        last phone of the preceding word.

        Raises:
            LatticeError: A label is not a transition id of the model, there are no labels, or the result is too large.
        """
        options = self.options
        replaces = options.replace_output_symbols
        aligned: Lattice | Literal[False] | None = None
        if not replaces:
            aligned = _align.align(lattice, self._table, True, options.reorder, 0, MAX_STATES, MAX_LABELS)
        if aligned is False:
            raise too_large(lattice)
        if aligned is not None:
            return Aligned(remove_epsilons(aligned) if options.remove_epsilon else aligned)
        check_labels(lattice, self.model, self._table, self.model.path)
        (silence,) = unused_words(lattice.word, num=1)
        general = _align.align_generally(
            lattice, self._table, True, replaces, options.reorder, silence, 0, 0, MAX_STATES, MAX_LABELS,
            epsilons=not options.remove_epsilon,
        )  # fmt: skip
        if general is None:
            raise too_large(lattice)
        fault = FAULTS[general[1]] or None
        if replaces:  # phones are not in the symbol table
            return with_zero(general[0].with_words(None), (), fault)
        result = with_zero(general[0], (silence,), fault)
        if options.remove_epsilon and result.lattice is not None:
            return Aligned(remove_epsilons(result.lattice), fault)
        return result


def align_phones(lattice: Lattice, model: TransitionModel, options: PhoneAlignment | None = None) -> Lattice:
    """Align a lattice so that each phone is an arc with exactly its labels, unless ``remove_epsilon`` joins arcs.

    Returns:
        A lattice with the same word sequences (or, with ``replace_output_symbols``, phone sequences), costs and labels.

    Raises:
        LatticeError: The lattice is damaged or belongs to another model; see also ``PhoneAligner``.

    Source: Kaldi, lat/phone-align-lattice.cc, PhoneAlignLattice.
    """
    return PhoneAligner(model, options)(lattice).whole(lattice.key)
