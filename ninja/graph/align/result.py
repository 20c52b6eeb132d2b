"""Parts common to all alignments: the table of labels, the result, and the faults of damaged lattices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja import _align
from ninja.errors import LatticeError
from ninja.lattice import Lattice
from ninja.lattice.arrays import frozen
from ninja.lattice.transition_model import TransitionModel

# Bounds on what one lattice may come to; `max_expand` is the user's.
MAX_STATES = 30_000_000
MAX_LABELS = 400_000_000

SINGLE_KIND = 5  # what every phone is taken for where phones are the units

# By the numbers of the kernel (ext/align/align_graph.hpp, AlignFault).
FAULTS = (
    "",
    "a phone changes before the transition that ends it; the lattice is damaged, or of another model or --reorder",
    "a phone inside a word is none of those that may stand there; is it the right word-boundary file?",
    "an invalid word at the end; the decoder did not reach its end",
    "words without labels at the end; they are left out",
    "a silence at the end is not complete; the decoder did not reach its end",
    "part of a word at the end; the decoder did not reach its end",
    "a phone at the end is not complete; the decoder did not reach its end",
    "more states than max_expand allows",
    "phones or words at the end that are no entry of the lexicon; does it lack one, or did decoding break off?",
    "no sequence of entries of the lexicon fits; does it lack words or silences?",
)
TOO_MANY_STATES = 8  # among them


@dataclass(frozen=True, slots=True)
class Aligned:
    """Result of an alignment."""

    lattice: Lattice | None  # one arc a unit; where there is a fault, what could be aligned, or None
    fault: str | None = None  # what is wrong with the lattice it was made of

    def whole(self, key: str) -> Lattice:
        """Return the lattice if nothing was wrong; raise a LatticeError otherwise."""
        if self.fault is not None or self.lattice is None:
            raise LatticeError(f"cannot be aligned: {self.fault}", key=key)
        return self.lattice


def label_table(model: TransitionModel, kind: npt.NDArray[np.uint32] | int) -> npt.NDArray[np.uint32]:
    """Pack what the kernel needs of each transition id into one number, uint32 [num_transition_ids + 1]."""
    is_final, is_self_loop = model.is_final.astype(np.uint32), model.is_self_loop.astype(np.uint32)
    table = (model.phone << 5 | np.asarray(kind) << 2 | is_final << 1 | is_self_loop).astype(np.uint32)
    table[0] = bool(((table[1:] >> 2) & 7).all())  # no label; whether all others have a kind
    return frozen(table)


def check_labels(lattice: Lattice, model: TransitionModel, table: npt.NDArray[np.uint32], kinds: str) -> None:
    """Refuse a lattice without labels, or with labels the table does not explain."""
    if not lattice.has_labels:
        raise LatticeError(
            "it has no alignments (transition ids); without them nothing can be aligned", key=lattice.key
        )
    for labels in (lattice.ali, lattice.final_ali):
        place = _align.find_unknown_label(labels, table)
        if place >= 0:
            model.check(lattice)
            label = labels[place]
            message = f"phone {model.phone[label]} (transition id {label}) has no entry in {kinds}"
            raise LatticeError(message, key=lattice.key)


def too_large(lattice: Lattice) -> LatticeError:
    """Make the error for a lattice whose alignment explodes."""
    return LatticeError(
        f"more than {MAX_STATES} states or {MAX_LABELS} labels arise; is it the right model and phone table? "
        "Otherwise determinize the lattice first (ninja determinize-pruned), or prune it",
        key=lattice.key,
    )


def unused_words(*used: npt.NDArray[np.int32] | int, num: int = 2) -> tuple[int, ...]:
    """Return word ids that are not among some."""
    taken = np.unique(np.concatenate([np.atleast_1d(each) for each in used]))
    return tuple(np.setdiff1d(np.arange(1, taken.size + num + 1), taken)[:num].tolist())


def with_zero(plain: Lattice, zero: tuple[int, ...], fault: str | None) -> Aligned:
    """Make a result of a kernel's alignment; placeholders of word 0 become 0."""
    if not plain.is_final.any():
        return Aligned(None, fault or "nothing of it can be aligned")
    if zero:
        plain = plain.replace(word=frozen(np.where(np.isin(plain.word, zero), np.int32(0), plain.word)))
    return Aligned(plain, fault)
