"""Word alignment of lattices, using word-position-dependent phones."""

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

EXTRA_STATES = 1000  # number of states allowed in addition to max_expand, which is too strict for small lattices


@dataclass(frozen=True, slots=True)
class WordAlignment:
    """Options for word alignment."""

    silence_label: int = 0  # word id for silence arcs, 0 for none
    partial_word_label: int = 0  # word id for an incomplete word at the end of a damaged lattice
    reorder: bool = True  # whether self-loops follow the transition out of their state, as in most Kaldi graphs
    max_expand: float = 0.0  # maximum number of states: 1000 + max_expand × (input states); no limit if 0

    def __post_init__(self) -> None:
        for name, label in (("silence_label", self.silence_label), ("partial_word_label", self.partial_word_label)):
            if not 0 <= label < 2**31:
                raise OptionError(f"{name} is {label}, but must be a word id, 0 or more")
        if not 0.0 <= self.max_expand < 1e9:
            raise OptionError(f"max_expand is {self.max_expand}, but must be 0 or more and below 1e9")


class WordAligner:
    """Callable that aligns lattices to words, using their transition model and the word-boundary types of phones."""

    def __init__(self, model: TransitionModel, boundary: WordBoundary, options: WordAlignment | None = None) -> None:
        self.model = model
        self.boundary = boundary
        self.options = WordAlignment() if options is None else options
        self._table = label_table(model, boundary.kinds(model.phone))

    def __call__(self, lattice: Lattice) -> Aligned:
        """Align a lattice so that each arc is one word or silence, labelled with exactly its transition ids.

        Each word sequence keeps its labels and both costs. As in Kaldi, the valid part of a damaged lattice is aligned;
        the ``fault`` of the result then describes the damage.

        Raises:
            LatticeError: A label is not a transition id of the model, its phone has no word-boundary type, there are no
                labels, or the result is too large.
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
        # Assign unused word ids to units without a word, which would otherwise be removed as epsilons.
        silence, partial = unused_words(lattice.word, options.silence_label, options.partial_word_label)
        labels = options.silence_label or silence, options.partial_word_label or partial
        expansion = max_states if options.max_expand > 0.0 else 0
        result = _align.align_generally(
            lattice, self._table, False, False, options.reorder, *labels, expansion, MAX_STATES, MAX_LABELS
        )
        if result is None:
            raise too_large(lattice)
        zero = (silence,) * (not options.silence_label) + (partial,) * (not options.partial_word_label)
        return with_zero(result[0], zero, FAULTS[result[1]] or None)

    def all(self, batch: Batch) -> Batch | None:
        """Align all lattices in a batch; return None if the lattices must be aligned one by one.

        This is the case if a lattice is damaged or requires a slower algorithm, if ``max_expand`` is set, or if there
        is not enough memory.
        """
        if self.options.max_expand > 0.0:  # the limit differs between lattices
            return None
        limits = MAX_STATES, MAX_LABELS
        try:
            aligned = _align.align(batch, self._table, False, self.options.reorder, self.options.silence_label, *limits)
        except MemoryError:
            return None
        return aligned or None


def align_words(
    lattice: Lattice, model: TransitionModel, boundary: WordBoundary, options: WordAlignment | None = None
) -> Lattice:
    """Align a lattice so that each arc is one word or silence, labelled with exactly its transition ids.

    To align several lattices, create a ``WordAligner``, which also returns the valid parts of damaged lattices.

    Returns:
        A lattice with the same word sequences, costs and labels; final states have no labels.

    Raises:
        LatticeError: The lattice is damaged or belongs to another model; see also ``WordAligner``.

    Source: Kaldi, lat/word-align-lattice.cc, WordAlignLattice.
    """
    return WordAligner(model, boundary, options)(lattice).whole(lattice.key)
