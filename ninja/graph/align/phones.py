"""Alignment to phones: each arc is one phone with its own labels."""

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
    """Options of an alignment to phones."""

    replace_output_symbols: bool = False  # arcs carry the phone instead of a word
    remove_epsilon: bool = True  # phones without a word join the next one; false: one phone an arc
    reorder: bool = True  # self-loops follow the transition that ends a phone, as in all but old decoding graphs


class PhoneAligner:
    """Aligns lattices of one model to phones."""

    def __init__(self, model: TransitionModel, options: PhoneAlignment | None = None) -> None:
        self.model = model
        self.options = PhoneAlignment() if options is None else options
        self._table = label_table(model, SINGLE_KIND)

    def __call__(self, lattice: Lattice) -> Aligned:
        """Align a lattice; of a damaged one the part that can be aligned, with its fault.

        Words stand on the arcs of the phones that are read with them, which need not be their own.

        Raises:
            LatticeError: A label is no transition id of the model, there are none, or the result is too large.
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
        found = _align.align_generally(
            lattice, self._table, True, replaces, options.reorder, silence, 0, 0, MAX_STATES, MAX_LABELS,
            epsilons=not options.remove_epsilon,
        )  # fmt: skip
        if found is None:
            raise too_large(lattice)
        fault = FAULTS[found[1]] or None
        if replaces:  # phones are no words of the lattice's table
            return with_zero(found[0].with_words(None), (), fault)
        result = with_zero(found[0], (silence,), fault)
        if options.remove_epsilon and result.lattice is not None:
            return Aligned(remove_epsilons(result.lattice), fault)
        return result


def align_phones(lattice: Lattice, model: TransitionModel, options: PhoneAlignment | None = None) -> Lattice:
    """Give each arc one phone and exactly its labels.

    Returns:
        A lattice with the same word sequences, or phone sequences if these replace the words, costs and labels.

    Raises:
        LatticeError: The lattice is damaged or of another model; see also ``PhoneAligner``.

    Source: Kaldi, lat/phone-align-lattice.cc, PhoneAlignLattice.
    """
    return PhoneAligner(model, options)(lattice).whole(lattice.key)
