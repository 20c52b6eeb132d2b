"""The label table, the result, and the faults of damaged lattices, for all alignments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja import _align
from ninja.errors import LatticeError
from ninja.lattice import Lattice
from ninja.lattice.arrays import frozen
from ninja.lattice.transition_model import TransitionModel

# Bounds on the result of one lattice; `max_expand` is the bound of the user.
MAX_STATES = 30_000_000
MAX_LABELS = 400_000_000

SINGLE_KIND = 5  # kind of all phones if units are phones

# Messages by the numbers of AlignFault (ext/align/align_graph.hpp).
FAULTS = (
    "",
    "a phone changes before the transition that ends it; the lattice is damaged, or of another model or --reorder",
    "a phone is not allowed inside a word; is it the right word-boundary file?",
    "an invalid word at the end; the decoder did not reach the end",
    "words without labels at the end; they are omitted",
    "an incomplete silence at the end; the decoder did not reach the end",
    "an incomplete word at the end; the decoder did not reach the end",
    "an incomplete phone at the end; the decoder did not reach the end",
    "more states than max_expand allows",
    "phones or words at the end match no entry of the lexicon; is it incomplete, or did the decoder stop early?",
    "no sequence of entries of the lexicon matches; does it lack words or silences?",
)
TOO_MANY_STATES = 8  # index into FAULTS


@dataclass(frozen=True, slots=True)
class Aligned:
    """Result of an alignment."""

    lattice: Lattice | None  # one arc per unit; if there is a fault, the part that could be aligned, or None
    fault: str | None = None  # description of the damage

    def whole(self, key: str) -> Lattice:
        """Return the lattice; raise a LatticeError if there was a fault."""
        if self.fault is not None or self.lattice is None:
            raise LatticeError(f"cannot be aligned: {self.fault}", key=key)
        return self.lattice


def label_table(model: TransitionModel, kind: npt.NDArray[np.uint32] | int) -> npt.NDArray[np.uint32]:
    """Pack the properties of each transition id for the kernel, uint32 [num_transition_ids + 1]."""
    is_final, is_self_loop = model.is_final.astype(np.uint32), model.is_self_loop.astype(np.uint32)
    table = (model.phone << 5 | np.asarray(kind) << 2 | is_final << 1 | is_self_loop).astype(np.uint32)
    table[0] = bool(((table[1:] >> 2) & 7).all())  # not a label: 1 if all others have a kind
    return frozen(table)


def check_labels(lattice: Lattice, model: TransitionModel, table: npt.NDArray[np.uint32], kinds: str) -> None:
    """Raise a LatticeError if a lattice has no labels, or labels that are not in the table."""
    if not lattice.has_labels:
        raise LatticeError("it has no alignments (transition ids), which are needed to align it", key=lattice.key)
    for labels in (lattice.ali, lattice.final_ali):
        place = _align.find_unknown_label(labels, table)
        if place >= 0:
            model.check(lattice)
            label = labels[place]
            message = f"phone {model.phone[label]} (transition id {label}) has no entry in {kinds}"
            raise LatticeError(message, key=lattice.key)


def too_large(lattice: Lattice) -> LatticeError:
    """Return the error for a lattice whose alignment is too large."""
    return LatticeError(
        f"more than {MAX_STATES} states or {MAX_LABELS} labels; is it the right model and phone table? "
        "Otherwise determinize the lattice first (ninja determinize-pruned), or prune it",
        key=lattice.key,
    )


def unused_words(*used: npt.NDArray[np.int32] | int, num: int = 2) -> tuple[int, ...]:
    """Return word ids that are not among those used."""
    ids = np.unique(np.concatenate([np.atleast_1d(words) for words in used]))
    return tuple(np.setdiff1d(np.arange(1, ids.size + num + 1), ids)[:num].tolist())


def with_zero(lattice: Lattice, zero: tuple[int, ...], fault: str | None) -> Aligned:
    """Make the result of an alignment, with word 0 in place of the words of ``zero``."""
    if not lattice.is_final.any():
        return Aligned(None, fault or "no path can be aligned")
    if zero:
        lattice = lattice.replace(word=frozen(np.where(np.isin(lattice.word, zero), np.int32(0), lattice.word)))
    return Aligned(lattice, fault)
