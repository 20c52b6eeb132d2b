"""Conversion of lattices to FSTs with one cost per arc, and epsilon removal that does not enlarge the FST."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.errors import OptionError
from ninja.graph.kinds import remove_alignments, to_compact, to_raw
from ninja.graph.path import no_path
from ninja.lattice import Lattice
from ninja.lattice.arrays import offsets
from ninja.lattice.fst import Fst

Arc = tuple[int, int, int, float]  # input label, output label, destination, cost
REMOVED = -1  # destination of removed arcs


def to_fst(
    lattice: Lattice,
    acoustic_scale: float = 0.0,
    lm_scale: float = 0.0,
    *,
    rm_eps: bool = True,
    read_compact: bool = True,
    project_input: bool = False,
    project_output: bool = True,
    input_label: npt.NDArray[np.int32] | None = None,
) -> Fst:
    """Convert a lattice to an FST with the cost ``lm_scale * graph + acoustic_scale * acoustic`` on each arc.

    Args:
        lattice: Any lattice.
        acoustic_scale: Factor applied to acoustic costs; 0 ignores them.
        lm_scale: Factor applied to graph costs; 0 ignores them.
        rm_eps: Remove epsilons where this does not enlarge the FST; some epsilons may remain.
        read_compact: Convert to an acceptor of words; otherwise to a transducer from labels to words.
        project_input: Without ``read_compact``, use the labels as both input and output.
        project_output: Without ``read_compact`` and ``project_input``, use the words as both input and output.
        input_label: Without ``read_compact``, replacement for each input label, int32 [largest label + 1].

    Raises:
        OptionError: A scale is not finite.
        LatticeError: With ``rm_eps``, no path leads from the start to a final state.

    Source: Kaldi, latbin/lattice-to-fst.cc; fstext/remove-eps-local-inl.h.
    """
    if not math.isfinite(acoustic_scale + lm_scale):
        raise OptionError(f"acoustic_scale is {acoustic_scale} and lm_scale is {lm_scale}, but both must be finite")
    shape = remove_alignments(to_compact(lattice)) if read_compact else to_raw(lattice)
    output = shape.word
    inputs = output
    if not read_compact:
        inputs = np.zeros(shape.num_arcs, np.int32)
        inputs[np.diff(shape.ali_begin) > 0] = shape.ali if input_label is None else input_label[shape.ali]
        if project_input:
            output = inputs
        elif project_output:
            inputs = output
    cost = lm_scale * shape.graph.astype(np.float64) + acoustic_scale * shape.acoustic.astype(np.float64)
    ends = shape.is_final
    final = np.full(shape.num_states, np.inf)
    final[ends] = lm_scale * shape.final_graph[ends] + acoustic_scale * shape.final_acoustic[ends]
    fst = Fst(shape.arc_begin, shape.dst, inputs, output, cost, final)
    if rm_eps and not (inputs.all() and output.all()):
        fst = remove_local_epsilons(fst)
        if not fst.num_states:
            raise no_path(lattice.key)
    return fst


@dataclass(slots=True)
class _Rows:
    """A mutable FST, stored as one list of arcs per state."""

    arcs: list[list[Arc]]  # arcs of each state
    final: list[float]  # final cost of each state, +inf = not final


def remove_local_epsilons(fst: Fst) -> Fst:
    """Remove epsilons where this does not enlarge the FST, and then the states that are on no complete path."""
    columns = (fst.ilabel, fst.olabel, fst.dst, fst.cost)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    begin = fst.arc_begin.tolist()
    mutable = _Rows([rows[begin[state] : begin[state + 1]] for state in range(fst.num_states)], fst.final_cost.tolist())
    _remove_local_epsilons(mutable)
    mutable = _connect(mutable)
    rows = [arc for arcs in mutable.arcs for arc in arcs]
    ilabel, olabel, dst = (np.array([row[column] for row in rows], np.int32) for column in range(3))
    cost = np.array([row[3] for row in rows], np.float64)
    return Fst(
        offsets([len(arcs) for arcs in mutable.arcs]), dst, ilabel, olabel, cost, np.array(mutable.final, np.float64)
    )


def _remove_local_epsilons(fst: _Rows) -> None:
    """Remove epsilons in place: join pairs of consecutive arcs where this does not increase the number of arcs.

    Two arcs can be joined unless both have an input label or both have an output label.
    """
    num_in = [0] * len(fst.arcs)
    num_out = [len(arcs) + (end < math.inf) for arcs, end in zip(fst.arcs, fst.final, strict=True)]
    num_in[0] = 1
    for arcs in fst.arcs:
        for arc in arcs:
            num_in[arc[2]] += 1
    for state, arcs in enumerate(fst.arcs):
        index = 0
        while index < len(arcs):  # not `for`, because `arcs` grows in the loop
            target = arcs[index][2]
            if target != REMOVED:
                if num_in[target] == 1 and num_out[target] > 1:
                    _join_all(fst, state, index, num_in, num_out)
                elif num_out[target] == 1:
                    _join_one(fst, state, index, num_in, num_out)
            index += 1
    for arcs in fst.arcs:
        arcs[:] = [arc for arc in arcs if arc[2] != REMOVED]


def _join(a: Arc, b: Arc) -> Arc | None:
    """Join two consecutive arcs; return None if both have an input label or both have an output label."""
    if (a[0] and b[0]) or (a[1] and b[1]):
        return None
    return a[0] or b[0], a[1] or b[1], b[2], a[3] + b[3]


def _join_all(fst: _Rows, state: int, index: int, num_in: list[int], num_out: list[int]) -> None:
    """Join an arc to each following arc (or final cost) whose labels allow this.

    The caller must ensure that no other arc enters the destination of the arc.

    Args:
        fst: FST that is changed in place.
        state: Source state of the arc.
        index: Index of the arc among the arcs of its source state.
        num_in: Number of arcs that enter each state, updated in place.
        num_out: Number of arcs and final costs of each state, updated in place.
    """
    arc = fst.arcs[state][index]
    target = arc[2]
    removed = remaining = math.inf  # best costs of the removed and remaining ways to leave the target
    added: list[Arc] = []
    for position, following in enumerate(fst.arcs[target]):
        if following[2] == REMOVED:
            continue
        both = _join(arc, following)
        if both is None:
            remaining = min(remaining, following[3])
            continue
        removed = min(removed, following[3])
        num_out[target] -= 1
        num_in[following[2]] -= 1
        fst.arcs[target][position] = (*following[:2], REMOVED, following[3])
        added.append(both)
    if fst.final[target] < math.inf:
        if arc[0] or arc[1]:
            remaining = min(remaining, fst.final[target])
        else:
            removed = min(removed, fst.final[target])
            _set_final(fst, state, arc[3] + fst.final[target], num_out)
            num_out[target] -= 1
            fst.final[target] = math.inf
    if removed < math.inf:
        if remaining == math.inf:
            num_out[state] -= 1
            num_in[target] -= 1
            fst.arcs[state][index] = (*arc[:2], REMOVED, arc[3])
        else:  # shift costs to the arc, to preserve the best cost of leaving the target
            more = remaining - min(removed, remaining)
            fst.arcs[state][index] = (*arc[:3], arc[3] + more)
            fst.arcs[target][:] = [(*other[:3], other[3] - more) for other in fst.arcs[target]]
            fst.final[target] -= more
    for both in added:
        num_out[state] += 1
        num_in[both[2]] += 1
        fst.arcs[state].append(both)


def _join_one(fst: _Rows, state: int, index: int, num_in: list[int], num_out: list[int]) -> None:
    """Join an arc to the only arc (or final cost) that follows it, if their labels allow this.

    If other arcs enter the destination of the arc, the following arc (or final cost) is also kept for these arcs. See
    `_join_all` for the arguments.
    """
    arc = fst.arcs[state][index]
    target = arc[2]
    is_only = num_in[target] == 1
    if fst.final[target] < math.inf:
        if arc[0] or arc[1]:
            return
        _set_final(fst, state, arc[3] + fst.final[target], num_out)
        if is_only:
            num_out[target] -= 1
            fst.final[target] = math.inf
    else:
        position = next(position for position, other in enumerate(fst.arcs[target]) if other[2] != REMOVED)
        following = fst.arcs[target][position]
        both = _join(arc, following)
        if both is None:
            return
        if is_only:
            num_out[target] -= 1
            num_in[following[2]] -= 1
            fst.arcs[target][position] = (*following[:2], REMOVED, following[3])
        num_out[state] += 1
        num_in[both[2]] += 1
        fst.arcs[state].append(both)
    num_out[state] -= 1
    num_in[target] -= 1
    fst.arcs[state][index] = (*arc[:2], REMOVED, arc[3])


def _set_final(fst: _Rows, state: int, cost: float, num_out: list[int]) -> None:
    if fst.final[state] == math.inf:
        num_out[state] += 1
    fst.final[state] = min(fst.final[state], cost)


def _connect(fst: _Rows) -> _Rows:
    """Remove states that are on no path from the start to a final state; other states keep their order."""
    reached = [True] + [False] * (len(fst.arcs) - 1)
    for state, arcs in enumerate(fst.arcs):  # arcs lead to later states
        for arc in arcs:
            reached[arc[2]] |= reached[state]
    leads = [end < math.inf for end in fst.final]
    for state in range(len(fst.arcs) - 1, -1, -1):
        leads[state] |= any(leads[arc[2]] for arc in fst.arcs[state])
    useful = [state for state in range(len(fst.arcs)) if reached[state] and leads[state]]
    number = {state: index for index, state in enumerate(useful)}
    connected = [
        [(*arc[:2], number[arc[2]], arc[3]) for arc in fst.arcs[state] if arc[2] in number] for state in useful
    ]
    return _Rows(connected, [fst.final[state] for state in useful])
