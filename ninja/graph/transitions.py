"""Phones, pronunciations and transition costs in a lattice, based on its transition model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.graph.best_path import best_path
from ninja.graph.kinds import to_compact, to_raw
from ninja.graph.scale import check_costs
from ninja.lattice import Lattice
from ninja.lattice.arrays import offsets, sums
from ninja.lattice.lattice import check_finite, frozen
from ninja.lattice.times import check_labelled
from ninja.lattice.transition_model import TransitionModel


def to_phone_lattice(lattice: Lattice, model: TransitionModel, *, replace_words: bool = True) -> Lattice:
    """Replace words with phones, according to the transition ids.

    Each phone is put on the arc on which it begins; ``align_phones`` also splits the labels where phones end.

    Args:
        lattice: A lattice whose labels are transition ids.
        model: The transition model.
        replace_words: Replace words with phones. Otherwise keep the words, and replace the labels of each arc with one
            label per phone, so that labels no longer correspond to frames.

    Returns:
        A lattice with the same paths and costs, of kind "compact".

    Raises:
        LatticeError: A label is not a transition id of the model, or there are no labels.

    Source: Kaldi, lat/lattice-functions.cc, ConvertLatticeToPhones and ConvertCompactLatticeToPhones.
    """
    check_labelled(lattice)
    model.check(lattice)
    if replace_words:
        begins = (model.hmm_state == 0) & ~model.is_self_loop
        begins[0] = False
        phone = np.where(begins, model.phone, 0).astype(np.int32)
        raw = to_raw(lattice)
        word = np.zeros(raw.num_arcs, np.int32)
        labelled = np.flatnonzero(np.diff(raw.ali_begin))
        word[labelled] = phone[raw.ali[raw.ali_begin[labelled]]]
        return to_compact(raw.replace(word=frozen(word), words=None))
    ali_begin, ali = _phones(lattice.ali_begin, lattice.ali, model)
    final_ali_begin, final_ali = _phones(lattice.final_ali_begin, lattice.final_ali, model)
    pools = {"ali_begin": ali_begin, "ali": ali, "final_ali_begin": final_ali_begin, "final_ali": final_ali}
    return lattice.replace(kind="compact", **pools)


def add_transition_costs(
    lattice: Lattice, model: TransitionModel, transition_scale: float = 1.0, self_loop_scale: float = 1.0
) -> Lattice:
    """Add transition costs to the graph costs of a lattice that was generated without them.

    Args:
        lattice: A lattice whose labels are transition ids.
        model: The transition model.
        transition_scale: Factor applied to the costs of transitions between states.
        self_loop_scale: Factor applied to the costs of staying in a state and of leaving it.

    Raises:
        LatticeError: A label is not a transition id of the model, there are no labels, or a cost exceeds the range of
            float32.
        OptionError: A scale is not finite.

    Source: Kaldi, hmm/hmm-utils.cc, AddTransitionProbs and GetScaledTransitionLogProb.
    """
    check_finite("transition_scale", transition_scale)
    check_finite("self_loop_scale", self_loop_scale)
    check_labelled(lattice)
    model.check(lattice)
    log_prob = model.log_prob.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # check_costs raises
        if transition_scale == self_loop_scale:
            cost = -transition_scale * log_prob
        else:
            leaving = model.non_self_loop_log_prob().astype(np.float64)
            moving = self_loop_scale * leaving + transition_scale * (log_prob - leaving)
            cost = -np.where(model.is_self_loop, self_loop_scale * log_prob, moving)
        graph = (lattice.graph + sums(cost[lattice.ali], lattice.ali_begin)).astype(np.float32)
        final_graph = lattice.final_graph + sums(cost[lattice.final_ali], lattice.final_ali_begin)
        changed = lattice.replace(graph=frozen(graph), final_graph=frozen(final_graph.astype(np.float32)))
    return check_costs(changed, lattice)


def _phones(
    begin: npt.NDArray[np.int64], labels: npt.NDArray[np.int32], model: TransitionModel
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Replace the final transition of each phone with the phone, and drop all other transitions.

    Args:
        begin: Offsets of the labels of each arc or state.
        labels: Transition ids.
        model: The transition model.

    Returns:
        ``(offsets of the phones of each arc or state, phones)``.
    """
    ends = model.is_final[labels]
    return frozen(offsets(ends)[begin]), frozen(model.phone[labels[ends]])


@dataclass(frozen=True, slots=True)
class Pronunciation:
    """The word on an arc, with its phones and their durations."""

    word: int  # word id; 0 = no word, such as silence
    begin: int  # first frame
    phones: tuple[int, ...]
    lengths: tuple[int, ...]  # duration of each phone in frames


def pronunciations(lattice: Lattice, model: TransitionModel) -> list[Pronunciation]:
    """Return the word and the phones of each arc on the best path through a word-aligned lattice.

    Raises:
        LatticeError: No path leads from the start to a final state, or a label is not a transition id of the model.

    Source: Kaldi, latbin/nbest-to-prons.cc; hmm/hmm-utils.cc, SplitToPhones.
    """
    model.check(lattice)
    prons, time = [], 0
    for arc in best_path(lattice).arcs.tolist():
        labels = lattice.ali[lattice.ali_begin[arc] : lattice.ali_begin[arc + 1]]
        ends = _phone_ends(labels, model)
        phones = tuple(model.phone[labels[[0, *ends[:-1]]]].tolist()) if labels.size else ()
        lengths = tuple(np.diff([0, *ends]).tolist()) if labels.size else ()
        prons.append(Pronunciation(int(lattice.word[arc]), time, phones, lengths))
        time += labels.size
    return prons


def _phone_ends(labels: npt.NDArray[np.int32], model: TransitionModel) -> list[int]:
    """Return the end index of each phone, after its final transition and any self-loops that follow it."""
    is_reordered = _is_reordered(labels, model)
    ends = []
    index = 0
    while index < labels.size:
        is_last = index + 1 == labels.size
        if model.is_final[labels[index]]:
            while is_reordered and index + 1 < labels.size and model.is_self_loop[labels[index + 1]]:
                index += 1
            ends.append(index + 1)
        elif is_last or model.phone[labels[index]] != model.phone[labels[index + 1]]:
            ends.append(index + 1)  # an incomplete phone: the lattice is not aligned
        index += 1
    return ends


def _is_reordered(labels: npt.NDArray[np.int32], model: TransitionModel) -> bool:
    """Return whether self-loops follow the transition out of their state, as in most of Kaldi's graphs."""
    state, is_loop = model.transition_state[labels], model.is_self_loop[labels]
    for index in np.flatnonzero(np.diff(state)).tolist():
        if is_loop[index] or is_loop[index + 1]:
            return bool(is_loop[index])
    return bool(labels.size and not is_loop[0] and is_loop[-1])
