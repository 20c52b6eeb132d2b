"""Label tables, results and error messages, shared by all alignments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja import _align
from ninja.errors import LatticeError
from ninja.lattice import Lattice
from ninja.lattice.lattice import frozen
from ninja.lattice.transition_model import TransitionModel

# Limits on the alignment of one lattice, in addition to the option `max_expand`.
MAX_STATES = 30_000_000
MAX_LABELS = 400_000_000

SINGLE_KIND = 5  # type of every phone if lattices are aligned to phones

# Indexed by the values of AlignFault (ext/align/align_graph.hpp).
FAULTS = (
    "",
    "a phone changes before its final transition; the lattice is damaged, or the model or --reorder does not match it",
    "a phone is not allowed inside a word; check that the word-boundary file belongs to the model",
    "the last word is invalid; the decoder probably stopped too early",
    "words without labels at the end were omitted",
    "the last silence is incomplete; the decoder probably stopped too early",
    "the last word is incomplete; the decoder probably stopped too early",
    "the last phone is incomplete; the decoder probably stopped too early",
    "the result has more states than max_expand allows; raise max_expand",
    "the last phones or words match no lexicon entry; the lexicon is incomplete, or the decoder stopped too early",
    "no sequence of lexicon entries matches; check that the lexicon contains all words and silences",
)
TOO_MANY_STATES = 8  # index into FAULTS


@dataclass(frozen=True, slots=True)
class Aligned:
    """An aligned lattice, and a description of the damage if the lattice could not be aligned completely."""

    lattice: Lattice | None  # one arc per unit; if there is a fault, the part that could be aligned, or None
    fault: str | None = None  # description of the damage, if any

    def whole(self, key: str) -> Lattice:
        """Return the lattice; raise LatticeError if there is a fault."""
        if self.fault is not None or self.lattice is None:
            raise LatticeError(f"the lattice cannot be aligned: {self.fault}", key=key)
        return self.lattice


def label_table(model: TransitionModel, kind: npt.NDArray[np.uint32] | int) -> npt.NDArray[np.uint32]:
    """Pack the properties of each transition id for the kernel, uint32 [num_transition_ids + 1].

    Args:
        model: The transition model.
        kind: Word-boundary type of the phone of each transition id, or one type for all phones.
    """
    is_final, is_self_loop = model.is_final.astype(np.uint32), model.is_self_loop.astype(np.uint32)
    table = (model.phone << 5 | np.asarray(kind) << 2 | is_final << 1 | is_self_loop).astype(np.uint32)
    table[0] = bool(((table[1:] >> 2) & 7).all())  # entry 0 is 1 if all labels have a phone type
    return frozen(table)


def check_labels(lattice: Lattice, model: TransitionModel, table: npt.NDArray[np.uint32], kinds: str) -> None:
    """Raise LatticeError if a lattice has no labels, or a phone is missing from the file of phone types (`kinds`)."""
    if not lattice.has_labels:
        raise LatticeError("the lattice has no alignments (transition ids), so it cannot be aligned", key=lattice.key)
    for labels in (lattice.ali, lattice.final_ali):
        index = _align.find_unknown_label(labels, table)
        if index >= 0:
            model.check(lattice)
            label = labels[index]
            message = f"phone {model.phone[label]} (transition id {label}) has no entry in {kinds}"
            raise LatticeError(message, key=lattice.key)


def too_large(lattice: Lattice) -> LatticeError:
    """Return the error for a lattice whose alignment would have too many states or labels."""
    return LatticeError(
        f"the result has more than {MAX_STATES} states or {MAX_LABELS} labels; check that the model and the phone "
        "table match the lattice; if they do, determinize (ninja determinize-pruned) or prune the lattice first",
        key=lattice.key,
    )


def unused_words(*used: npt.NDArray[np.int32] | int, num: int = 2) -> tuple[int, ...]:
    """Return the `num` smallest positive word ids that do not occur in `used`."""
    ids = np.unique(np.concatenate([np.atleast_1d(words) for words in used]))
    return tuple(np.setdiff1d(np.arange(1, ids.size + num + 1), ids)[:num].tolist())


def with_zero(lattice: Lattice, zero: tuple[int, ...], fault: str | None) -> Aligned:
    """Return the result of an alignment, after replacing the word ids in ``zero`` with 0."""
    if not lattice.is_final.any():
        return Aligned(None, fault or "no path can be aligned")
    if zero:
        lattice = lattice.replace(word=frozen(np.where(np.isin(lattice.word, zero), np.int32(0), lattice.word)))
    return Aligned(lattice, fault)
