"""Word alignment of lattices with a lexicon, for models without word-position-dependent phones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ninja import _align
from ninja.errors import LatticeError, OptionError, SymbolError
from ninja.graph.align.phones import PhoneAligner, PhoneAlignment
from ninja.graph.align.result import (
    FAULTS,
    MAX_LABELS,
    MAX_STATES,
    TOO_MANY_STATES,
    Aligned,
    label_table,
    too_large,
    unused_words,
    with_zero,
)
from ninja.graph.align.words import EXTRA_STATES
from ninja.graph.connect import select_arcs
from ninja.lattice import Lattice
from ninja.lattice.transition_model import TransitionModel
from ninja.lattice.word_phones import AlignLexicon


@dataclass(frozen=True, slots=True)
class LexiconAlignment:
    """Options for word alignment with a lexicon."""

    partial_word_label: int = 0  # word id for an incomplete word at the end of a damaged lattice
    reorder: bool = True  # whether self-loops follow the transition out of their state, as in most Kaldi graphs
    max_expand: float = -1.0  # maximum number of states: 1000 + max_expand × (phone lattice states); no limit if ≤ 0

    def __post_init__(self) -> None:
        if not 0 <= self.partial_word_label < 2**31:
            raise OptionError(f"partial_word_label is {self.partial_word_label}, but must be a word id, 0 or more")
        if not self.max_expand < 1e9:
            raise OptionError(f"max_expand is {self.max_expand}, but must be below 1e9")


class LexiconAligner:
    """Callable that aligns lattices to words, using their transition model and a lexicon; silence gets word id 0."""

    def __init__(self, model: TransitionModel, lexicon: AlignLexicon, options: LexiconAlignment | None = None) -> None:
        self.model = model
        self.lexicon = lexicon
        self.options = LexiconAlignment() if options is None else options
        self._to_phones = PhoneAligner(model, PhoneAlignment(remove_epsilon=False, reorder=self.options.reorder))
        self._table = label_table(model, 0)
        self._compiled = _align.Lexicon(lexicon.entries, lexicon.begin)

    def __call__(self, lattice: Lattice) -> Aligned:
        """Align a lattice. For a damaged lattice, the result contains the fault and the part that can be aligned.

        Raises:
            LatticeError: A label is not a transition id of the model, there are no labels, or the result is too large.
        """
        phones = self._to_phones(lattice)
        if phones.lattice is None:
            return phones
        aligned, unknown = self._align(lattice, phones.lattice, phones.fault)
        if unknown < 0:
            return aligned
        # Align only the paths on which all words are in the lexicon.
        missing = np.setdiff1d(phones.lattice.word, np.append(self.lexicon.entries[self.lexicon.begin[:-1]], 0))
        fault = f"word {_describe(lattice, unknown)} is not in {self.lexicon.path or 'the lexicon'}"
        fault += f" (and {missing.size - 1} more)" if missing.size > 1 else ""
        try:
            phone_arcs = select_arcs(phones.lattice, ~np.isin(phones.lattice.word, missing))
        except LatticeError:  # all paths have an unknown word
            return Aligned(None, fault)
        aligned, _ = self._align(lattice, phone_arcs, phones.fault)
        return Aligned(aligned.lattice, fault if aligned.fault is None else f"{fault}; {aligned.fault}")

    def _align(self, lattice: Lattice, phones: Lattice, fault: str | None) -> tuple[Aligned, int]:
        """Align a lattice that is already aligned to phones.

        Args:
            lattice: The original lattice.
            phones: The lattice after alignment to phones.
            fault: Fault of the phone alignment, if any.

        Returns:
            ``(result, word)``, where ``word`` is the id of a word without a lexicon entry, or -1 if there is none.
        """
        options = self.options
        expansion = 0
        if options.max_expand > 0.0:
            expansion = EXTRA_STATES + int(options.max_expand * phones.num_states)
        no_word, unused = unused_words(lattice.word, options.partial_word_label, self.lexicon.replacements)
        partial = options.partial_word_label or unused
        result = _align.align_by_lexicon(
            phones, self._table, self._compiled, no_word, partial, expansion, MAX_STATES, MAX_LABELS
        )
        if result is None:
            raise too_large(lattice)
        aligned, number, unknown = result
        if unknown >= 0:  # the kernel stopped at an unknown word
            return Aligned(None), unknown
        fault = fault or FAULTS[number] or None
        if number == TOO_MANY_STATES:
            return Aligned(None, fault), -1
        return with_zero(aligned, (no_word, unused), fault), -1


def _describe(lattice: Lattice, word: int) -> str:
    try:
        return str(word) if lattice.words is None else f"{lattice.words.word(word)!r} ({word})"
    except SymbolError:
        return str(word)


def align_words_lexicon(
    lattice: Lattice, model: TransitionModel, lexicon: AlignLexicon, options: LexiconAlignment | None = None
) -> Lattice:
    """Align a lattice with a lexicon so that each arc is one word or silence, labelled with its transition ids.

    With word-position-dependent phones, ``align_words`` is faster and requires no lexicon. To align several lattices,
    create a ``LexiconAligner``.

    Returns:
        A lattice with the same word sequences, costs and labels, and a path for each segmentation of the phones.

    Raises:
        LatticeError: The lattice is damaged or belongs to another model, or the lexicon is incomplete.

    Source: Kaldi, lat/word-align-lattice-lexicon.cc, WordAlignLatticeLexicon.
    """
    return LexiconAligner(model, lexicon, options)(lattice).whole(lattice.key)
