"""Insertion of phone symbols into state-level lattices, for phone-pruned determinization."""

from __future__ import annotations

import numpy as np

from ninja.errors import LatticeError
from ninja.lattice import Lattice
from ninja.lattice.arrays import gather, offsets
from ninja.lattice.lattice import frozen
from ninja.lattice.transition_model import TransitionModel

LARGEST_LABEL = 2**31 - 1


def with_phones(lattice: Lattice, model: TransitionModel) -> tuple[Lattice, int]:
    """Insert a symbol for each phone that begins on an arc in a state-level lattice.

    The symbol becomes the word of the arc or, if the arc already has a word, the word of a new arc after this arc. As
    in Kaldi, arcs that leave the start get no symbol.

    Returns:
        The lattice, and the word id of phone 0: larger ids are phones, smaller ids are words.

    Source: Kaldi, lat/determinize-lattice-pruned.cc, DeterminizeLatticeInsertPhones.
    """
    model.check(lattice)
    first_phone = int(lattice.word.max(initial=0)) + 1
    if first_phone + int(model.phone.max(initial=0)) > LARGEST_LABEL:
        message = f"the word id {first_phone - 1} is too large: no ids remain for phones; number the words from 1"
        raise LatticeError(message, key=lattice.key)
    label = np.zeros(lattice.num_arcs, np.int32)
    label[np.diff(lattice.ali_begin) > 0] = lattice.ali
    begins = (label > 0) & (model.hmm_state[label] == 0) & ~model.is_self_loop[label] & (lattice.src != 0)
    phone = np.where(begins, first_phone + model.phone[label], 0).astype(np.int32)
    split = np.flatnonzero(begins & (lattice.word != 0))  # arcs that are replaced by two arcs
    # The new state of such an arc is numbered immediately before the destination of the arc.
    order = np.argsort(np.concatenate([lattice.dst[split], np.arange(lattice.num_states)]), kind="stable")
    number = np.empty_like(order)
    number[order] = np.arange(order.size)
    inner, old = number[: split.size], number[split.size :]
    src, dst = np.concatenate([old[lattice.src], inner]), np.append(old[lattice.dst], old[lattice.dst[split]])
    dst[split] = inner
    none = np.zeros(split.size, np.int64)
    arcs = np.argsort(src, kind="stable")
    length = np.concatenate([np.diff(lattice.ali_begin), none])
    ali_begin, ali = gather(lattice.ali, np.concatenate([lattice.ali_begin[:-1], none])[arcs], length[arcs])
    final = np.full((2, order.size), np.inf)
    final[:, old] = lattice.final_graph, lattice.final_acoustic
    labelled = Lattice.from_arrays(
        lattice.key,
        offsets(np.bincount(src, minlength=order.size)),
        dst[arcs],
        np.concatenate([np.where(lattice.word == 0, phone, lattice.word), phone[split]])[arcs],
        np.concatenate([lattice.graph, none])[arcs],
        np.concatenate([lattice.acoustic, none])[arcs],
        *final,
        ali_begin=ali_begin,
        ali=ali,
        kind="raw",
        frame_shift=lattice.frame_shift,
        words=lattice.words,
    )
    return labelled, first_phone


def without_phones(lattice: Lattice, first_phone: int) -> Lattice:
    """Replace phone symbols with epsilons."""
    return lattice.replace(word=frozen(np.where(lattice.word >= first_phone, np.int32(0), lattice.word)))
