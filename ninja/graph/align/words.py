"""Alignment to words where phones tell their place in words: each arc is a word, or a silence, with its own labels."""

from __future__ import annotations

from dataclasses import dataclass

from ninja import _align
from ninja.errors import OptionError
from ninja.graph.align.result import (
    FAULTS,
    MAX_LABELS,
    MAX_STATES,
    Aligned,
    check_labels,
    label_table,
    too_large,
    unused_words,
    with_zero,
)
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch
from ninja.lattice.transition_model import TransitionModel
from ninja.lattice.word_phones import WordBoundary

EXTRA_STATES = 1000  # small lattices may grow by more than max_expand


@dataclass(frozen=True, slots=True)
class WordAlignment:
    """Options of an alignment to words."""

    silence_label: int = 0  # word id of silence arcs; 0: they carry no word
    partial_word_label: int = 0  # word id of parts of words at the end of broken lattices
    reorder: bool = True  # self-loops follow the transition that ends a phone, as in all but old decoding graphs
    max_expand: float = 0.0  # refuse beyond 1000 states and so many times the lattice's; 0: no such bound

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name, label in (("silence_label", self.silence_label), ("partial_word_label", self.partial_word_label)):
            if not 0 <= label < 2**31:
                raise OptionError(f"{name} is {label}, but must be a word id")
        if not 0.0 <= self.max_expand < 1e9:
            raise OptionError(f"max_expand is {self.max_expand}, but must be 0 or more")


class WordAligner:
    """Aligns lattices of one model to words."""

    def __init__(self, model: TransitionModel, boundary: WordBoundary, options: WordAlignment | None = None) -> None:
        self.model = model
        self.boundary = boundary
        self.options = WordAlignment() if options is None else options
        self._table = label_table(model, boundary.kinds(model.phone))

    def __call__(self, lattice: Lattice) -> Aligned:
        """Align a lattice; each arc of the result is a word with the labels of its phones, or a silence.

        Costs are added up along the way: each word sequence keeps both its costs and its labels. Damaged lattices are
        aligned as far as that goes, as Kaldi does, and their fault is reported.

        Raises:
            LatticeError: A label is no transition id of the model, or its phone has no kind; there are no labels; or
                the result is too large to be held.
        """
        options = self.options
        max_states = MAX_STATES
        if options.max_expand > 0.0:
            max_states = min(max_states, EXTRA_STATES + int(options.max_expand * lattice.num_states))
        aligned = _align.align(
            lattice, self._table, False, options.reorder, options.silence_label, max_states, MAX_LABELS
        )
        if isinstance(aligned, Lattice):
            return Aligned(aligned)
        check_labels(lattice, self.model, self._table, self.boundary.path)
        if aligned is False and max_states == MAX_STATES:
            raise too_large(lattice)
        # Labels of 0 would be taken for epsilons and removed together with what they carry.
        silence, partial = unused_words(lattice.word, options.silence_label, options.partial_word_label)
        labels = options.silence_label or silence, options.partial_word_label or partial
        expansion = max_states if options.max_expand > 0.0 else 0
        found = _align.align_generally(
            lattice, self._table, False, False, options.reorder, *labels, expansion, MAX_STATES, MAX_LABELS
        )
        if found is None:
            raise too_large(lattice)
        zero = (silence,) * (not options.silence_label) + (partial,) * (not options.partial_word_label)
        return with_zero(found[0], zero, FAULTS[found[1]] or None)

    def all(self, batch: Batch) -> Batch | None:
        """Align the lattices of a batch; None where one is damaged or needs more than the common case."""
        if self.options.max_expand > 0.0:  # another bound for each
            return None
        bounds = MAX_STATES, MAX_LABELS
        try:
            aligned = _align.align(batch, self._table, False, self.options.reorder, self.options.silence_label, *bounds)
        except MemoryError:
            return None
        return aligned or None


def align_words(
    lattice: Lattice, model: TransitionModel, boundary: WordBoundary, options: WordAlignment | None = None
) -> Lattice:
    """Give each arc one word, or silence, and exactly the labels of its phones.

    For many lattices of one model make a ``WordAligner``; it also hands out what can be aligned of damaged lattices.

    Returns:
        A lattice with the same word sequences, costs and labels, but no labels on final states.

    Raises:
        LatticeError: The lattice is damaged or of another model; see also ``WordAligner``.

    Source: Kaldi, lat/word-align-lattice.cc, WordAlignLattice.
    """
    return WordAligner(model, boundary, options)(lattice).whole(lattice.key)
