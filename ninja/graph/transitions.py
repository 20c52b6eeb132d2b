"""Phones and transition costs of a lattice, by the transition model."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ninja.errors import OptionError
from ninja.graph.kinds import to_compact, to_raw
from ninja.graph.scale import check_costs
from ninja.lattice import Lattice
from ninja.lattice.arrays import frozen, offsets, sums
from ninja.lattice.times import check_labelled
from ninja.lattice.transition_model import TransitionModel


def to_phone_lattice(lattice: Lattice, model: TransitionModel, *, replace_words: bool = True) -> Lattice:
    """Put the phones that a lattice's transition ids stand for in the place of words, or of the transition ids.

    A phone stands where it begins. ``align_phones`` also cuts the labels where phones end. Without ``replace_words``
    words stay, and each arc's labels become its phones, one label a phone, so that they count no frames any more.

    Returns:
        A lattice with the same paths and costs, of kind "compact".

    Raises:
        LatticeError: A label is no transition id of the model, or there are no labels.

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
    """Add the costs of its transitions to the graph costs of a lattice made without them.

    ``self_loop_scale`` is the factor of the costs of staying in a state and of leaving it, ``transition_scale`` that of
    all others.

    Raises:
        LatticeError: A label is no transition id of the model, there are none, or a cost is beyond what a float holds.
        OptionError: A scale is not finite.

    Source: Kaldi, hmm/hmm-utils.cc, AddTransitionProbs and GetScaledTransitionLogProb.
    """
    for name, scale in (("transition_scale", transition_scale), ("self_loop_scale", self_loop_scale)):
        if not np.isfinite(scale):
            raise OptionError(f"{name} is {scale}, but must be a number")
    check_labelled(lattice)
    model.check(lattice)
    log_prob = model.log_prob.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # told by its result
        if transition_scale == self_loop_scale:
            cost = -transition_scale * log_prob
        else:
            leaving = model.non_self_loop_log_prob().astype(np.float64)
            moving = self_loop_scale * leaving + transition_scale * (log_prob - leaving)
            cost = -np.where(model.is_self_loop, self_loop_scale * log_prob, moving)
        graph = (lattice.graph + sums(cost[lattice.ali], lattice.ali_begin)).astype(np.float32)
        final_graph = lattice.final_graph + sums(cost[lattice.final_ali], lattice.final_ali_begin)
        made = lattice.replace(graph=frozen(graph), final_graph=frozen(final_graph.astype(np.float32)))
    return check_costs(made, lattice)


def _phones(
    begin: npt.NDArray[np.int64], labels: npt.NDArray[np.int32], model: TransitionModel
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Keep the phone of each label that ends one."""
    ends = model.is_final[labels]
    return frozen(offsets(ends)[begin]), frozen(model.phone[labels[ends]])
