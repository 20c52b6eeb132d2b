"""Insertion of phone symbols into state-level lattices, for phone-pruned determinization."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ninja.errors import LatticeError
from ninja.lattice import Lattice
from ninja.lattice.arrays import gather, offsets, owners
from ninja.lattice.lattice import frozen
from ninja.lattice.transition_model import TransitionModel

Ints = npt.NDArray[np.int64]
LARGEST_LABEL = 2**31 - 1


def state_level(lattice: Lattice) -> Lattice:
    """Replace each arc with a chain of arcs that have one label each, as in a decoder's state-level lattices.

    The first arc of a chain has the word and the costs.

    Returns:
        A lattice of kind "raw" without labels on final states; the argument itself if it is already such a lattice.
    """
    length, final_length = np.diff(lattice.ali_begin), np.diff(lattice.final_ali_begin)
    final_length = np.where(lattice.is_final, final_length, 0)
    if length.max(initial=0) <= 1 and final_length.max(initial=0) == 0:
        return lattice if lattice.kind == "raw" else lattice.replace(kind="raw", time=None)
    # The new states of an arc precede its destination; those of a final state follow all other states.
    links = np.maximum(length - 1, 0)
    new_state, first_link = _renumber(lattice, links)
    end = int(new_state[-1]) + 1
    src, dst, arc, offset = _chains(new_state[lattice.src], first_link, links, new_state[lattice.dst])
    stops = np.flatnonzero(final_length)
    stop_links = final_length[stops] - 1
    tail = np.cumsum(final_length[stops]) - final_length[stops] + end  # the first state of each chain
    stop_src, stop_dst, _, stop_offset = _chains(new_state[stops], tail, stop_links, tail + stop_links)
    num_states = end + int(final_length.sum())

    src, dst = np.concatenate([src, stop_src]), np.concatenate([dst, stop_dst])
    leads = np.concatenate([offset == 0, np.zeros(stop_src.size, bool)])
    leads_stop = np.concatenate([np.zeros(arc.size, bool), stop_offset == 0])
    word = np.zeros(src.size, np.int32)
    word[leads] = lattice.word
    costs = {}
    for name in ("graph", "acoustic"):
        cost = np.zeros(src.size, np.float32)
        cost[leads] = getattr(lattice, name)
        cost[leads_stop] = getattr(lattice, f"final_{name}")[stops]
        final_cost = np.full(num_states, np.inf, np.float32)
        final_cost[new_state] = getattr(lattice, f"final_{name}")
        final_cost[new_state[stops]] = np.inf
        final_cost[tail + stop_links] = 0.0
        costs[name], costs[f"final_{name}"] = cost, final_cost
    # Each row is a label, or an arc without labels; the rows are in the order of the labels.
    labelled = np.concatenate([length[arc] > 0, np.ones(stop_src.size, bool)])
    label = np.zeros(src.size, np.int32)
    _, final_ali = gather(lattice.final_ali, lattice.final_ali_begin[stops], final_length[stops])
    label[labelled] = np.concatenate([lattice.ali, final_ali])
    return _from_rows(lattice, num_states, src, dst, word, label, labelled, costs)


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
    labelled = np.diff(lattice.ali_begin) > 0
    label = np.zeros(lattice.num_arcs, np.int32)
    label[labelled] = lattice.ali
    begins = (label > 0) & (model.hmm_state[label] == 0) & ~model.is_self_loop[label] & (lattice.src != 0)
    phone = np.where(begins, first_phone + model.phone[label], 0).astype(np.int32)
    splits = begins & (lattice.word != 0)
    new_state, first_link = _renumber(lattice, splits.astype(np.int64))
    split = np.flatnonzero(splits)
    none = np.zeros(split.size, np.float32)
    src = np.concatenate([new_state[lattice.src], first_link[split]])
    dst = np.concatenate([np.where(splits, first_link, new_state[lattice.dst]), new_state[lattice.dst[split]]])
    word = np.concatenate([np.where(lattice.word == 0, phone, lattice.word), phone[split]])
    num_states = int(new_state[-1]) + 1
    costs = {}
    for name in ("graph", "acoustic"):
        costs[name] = np.concatenate([getattr(lattice, name), none])
        final_cost = np.full(num_states, np.inf, np.float32)
        final_cost[new_state] = getattr(lattice, f"final_{name}")
        costs[f"final_{name}"] = final_cost
    label = np.concatenate([label, none.astype(np.int32)])
    labelled = np.concatenate([labelled, none.astype(np.bool_)])
    return _from_rows(lattice, num_states, src, dst, word, label, labelled, costs), first_phone


def without_phones(lattice: Lattice, first_phone: int) -> Lattice:
    """Replace phone symbols with epsilons."""
    return lattice.replace(word=frozen(np.where(lattice.word >= first_phone, np.int32(0), lattice.word)))


def _renumber(lattice: Lattice, links: Ints) -> tuple[Ints, Ints]:
    """Renumber states to insert new states on arcs, numbered immediately before the destination of their arc.

    Args:
        lattice: The lattice.
        links: Number of new states on each arc.

    Returns:
        The new number of each old state, and the number of the first new state on each arc.
    """
    num_new = np.bincount(lattice.dst, links, lattice.num_states).astype(np.int64)
    new_state = np.arange(lattice.num_states) + np.cumsum(num_new)
    order = np.argsort(lattice.dst, kind="stable")
    before = np.empty(lattice.num_arcs, np.int64)
    sorted_links = links[order]
    before[order] = np.cumsum(sorted_links) - sorted_links
    first_of_state = np.cumsum(num_new) - num_new
    return new_state, new_state[lattice.dst] - num_new[lattice.dst] + before - first_of_state[lattice.dst]


def _chains(src: Ints, first_link: Ints, links: Ints, dst: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Create chains of arcs through new states.

    Args:
        src: First state of each chain.
        first_link: First new state of each chain; the new states of a chain are numbered consecutively.
        links: Number of new states in each chain; a chain has one more arc than new states.
        dst: Last state of each chain.

    Returns:
        ``(source state, destination state, index of the chain, position in the chain)`` of each arc, as four arrays.
    """
    begin = offsets(links + 1)
    chain = owners(begin)
    offset = np.arange(chain.size) - begin[chain]
    state = first_link[chain] + offset
    leaves, enters = np.where(offset == 0, src[chain], state - 1), np.where(offset == links[chain], dst[chain], state)
    return leaves, enters, chain, offset


def _from_rows(
    lattice: Lattice,
    num_states: int,
    src: Ints,
    dst: Ints,
    word: npt.NDArray[np.int32],
    label: npt.NDArray[np.int32],
    labelled: npt.NDArray[np.bool_],
    costs: dict[str, npt.NDArray[np.float32]],
) -> Lattice:
    """Create a state-level lattice from arcs in any order."""
    order = np.argsort(src, kind="stable")
    labelled = labelled[order]
    return Lattice.from_arrays(
        lattice.key,
        offsets(np.bincount(src, minlength=num_states)),
        dst[order],
        word[order],
        costs["graph"][order],
        costs["acoustic"][order],
        costs["final_graph"],
        costs["final_acoustic"],
        ali_begin=offsets(labelled),
        ali=label[order][labelled],
        kind="raw",
        frame_shift=lattice.frame_shift,
        words=lattice.words,
    )
