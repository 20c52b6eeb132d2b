"""Convert lattices to ``pywrapfst`` FSTs and back by means of OpenFst's binary format.

An OpenFst arc has a single weight, but a lattice arc has two costs and an alignment. With ``labels="arc"`` (or
``"word:arc"``), each arc is labelled with its index, so that ``from_fst(fst, like=lattice)`` can restore words, costs
and alignments in the result of an OpenFst operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from ninja.errors import LatticeError
from ninja.formats.content import check_choice
from ninja.formats.fst_binary import CostName, read_fst, weights, write_fst
from ninja.formats.fst_image import ArcType, parse_image, write_image
from ninja.lattice import Lattice
from ninja.lattice.arrays import gather, offsets, owners
from ninja.lattice.fst import Fst
from ninja.libraries import needed_for

if TYPE_CHECKING:
    import pywrapfst

Labels = Literal["word", "arc", "word:arc"]
Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]


def to_fst(
    lattice: Lattice,
    arc_type: ArcType = "standard",
    costs: CostName = "total",
    labels: Labels = "word",
    acoustic_scale: float = 1.0,
) -> pywrapfst.MutableFst:
    """Convert a lattice to an OpenFst FST.

    Args:
        lattice: Any lattice; its alignments are dropped.
        arc_type: Semiring: "standard" (tropical, float32), "log" (float32) or "log64" (float64).
        costs: Weight of an arc: "total" for ``acoustic_scale * acoustic + graph``, or only "graph" or "acoustic".
        labels: Labels of the arcs.

            - "word": both labels are the word id, 0 for epsilon; final costs become final weights.
            - "arc": both labels are the index of the arc plus 1. A final state s gets an arc with its final cost and
              the label ``num_arcs + s + 1`` to a new state, which is the only final state and has weight 0.
            - "word:arc": like "arc", but the input label is the word id, or 0 for arcs that represent final costs.
        acoustic_scale: Factor applied to the acoustic cost in "total"; must be 1 otherwise.

    Raises:
        OptionError: An argument is invalid.
        LatticeError: A cost exceeds the range of the weight type.
    """
    check_choice("labels", labels, "word", "arc", "word:arc")
    if labels == "word":
        return _machine(write_fst(lattice, arc_type, costs, acoustic_scale))
    cost, final_cost = weights(lattice, arc_type, costs, acoustic_scale)
    return _machine(write_image(arc_labelled(lattice, cost, final_cost, words=labels == "word:arc"), arc_type))


def from_fst(
    fst: pywrapfst.Fst,
    key: str = "",
    like: Lattice | None = None,
    labels: Literal["arc", "word:arc"] = "arc",
) -> Lattice:
    """Convert an acyclic OpenFst FST to a lattice.

    If the states are not sorted topologically, the reachable states are sorted. Arcs with infinite weight, which no
    path can use, are dropped.

    Args:
        fst: FST of any of the three arc types; it is not changed.
        key: Utterance id; if it is empty, the key of ``like`` is used.
        like: Lattice from which ``to_fst`` created the FST with ``labels="arc"`` or ``"word:arc"``. The output labels
            refer to arcs of this lattice, from which costs and alignments are taken; the weights of the FST are
            ignored. An arc that represents a final cost becomes a final cost if no other arc enters its end state, and
            otherwise an epsilon arc. An arc with output label 0 has no cost. If None, output labels become words,
            weights become graph costs, acoustic costs are 0, and alignments are empty. The symbol table is the output
            symbol table or, if it is missing and both labels of each arc are equal, the input symbol table.
        labels: With ``like``: "arc" takes words from that lattice, "word:arc" from the input labels.

    Raises:
        LatticeError: The FST has a cycle, no start state or no final state, a weight is NaN or -infinity, or a label
            does not refer to a word or an arc.
    """
    image = (fst if fst.fst_type() == "vector" else pywrapfst_module().convert(fst, "vector")).write_to_string()
    if like is None:
        return read_fst(image, key)
    return recover(parse_image(image, key or like.key).fst, like, labels, key)[0]


def arc_labelled(lattice: Lattice, cost: Float64, final_cost: Float64, *, words: bool) -> Fst:
    """Return the arc-labelled FST of a lattice with the given costs as weights; see ``to_fst``.

    Args:
        lattice: The lattice.
        cost: Weight of each arc, float64 [num_arcs].
        final_cost: Final cost of each state, float64 [num_states]; +inf if the state is not final.
        words: Use word ids as input labels instead of arc labels.
    """
    num_states, num_arcs = lattice.num_states, lattice.num_arcs
    arc = np.arange(num_arcs, dtype=np.int32)
    final_arc = np.arange(num_arcs, num_arcs + num_states, dtype=np.int32)
    final = np.flatnonzero(np.isfinite(final_cost))
    place = lattice.arc_begin[final + 1]  # final arcs are inserted after the other arcs of their state
    olabel = np.insert(arc, place, final_arc[final]) + np.int32(1)
    arc_begin = offsets(np.diff(lattice.arc_begin) + np.isfinite(final_cost))
    ends = np.full(num_states + 1, np.inf)
    ends[num_states] = 0.0
    return Fst(
        np.append(arc_begin, arc_begin[-1]),
        np.insert(lattice.dst, place, np.int32(num_states)),
        np.insert(lattice.word, place, np.int32(0)) if words else olabel,
        olabel,
        np.insert(cost, place, final_cost[final]),
        ends,
    )


def recover(fst: Fst, like: Lattice, labels: Literal["arc", "word:arc"], key: str = "") -> tuple[Lattice, Int32, Int32]:
    """Convert an arc-labelled FST to a lattice with the words, costs and alignments of ``like``; see ``from_fst``.

    Args:
        fst: The FST.
        like: The lattice to whose arcs the output labels refer.
        labels: "arc" takes words from ``like``, "word:arc" from the input labels.
        key: Utterance id; if it is empty, the key of ``like`` is used.

    Returns:
        ``(lattice, arc labels, state labels)``: the labels are int32 [num_arcs] and int32 [num_states]; the label of a
        state that is not final is 0.

    Raises:
        LatticeError: A label does not refer to an arc or a final state of ``like``, or no state is final.
    """
    arc_begin, dst, ilabel, olabel, final_cost = fst.arc_begin, fst.dst, fst.ilabel, fst.olabel, fst.final_cost
    key = key or like.key
    num_arcs, num_states = like.num_arcs, final_cost.shape[0]
    named = np.concatenate([np.ones(num_arcs + 1, bool), like.is_final])
    if olabel.size and ((bad := olabel >= named.size).any() or (bad := ~named[olabel]).any()):
        label = int(olabel[np.flatnonzero(bad)[0]])
        raise LatticeError(
            f"output label {label} refers to neither an arc (1 to {num_arcs}) nor a final state of the lattice", key=key
        )
    zero = np.zeros(1, np.float32)
    begin = np.concatenate([[0], like.ali_begin[:-1], like.final_ali_begin[:-1] + like.ali.size])
    length = np.concatenate([[0], np.diff(like.ali_begin), np.diff(like.final_ali_begin)])
    pool = np.concatenate([like.ali, like.final_ali])
    graph_of = np.concatenate([zero, like.graph, like.final_graph])
    acoustic_of = np.concatenate([zero, like.acoustic, like.final_acoustic])

    is_final = np.isfinite(final_cost)
    src = owners(arc_begin)
    word_of = np.concatenate([[0], like.word, np.zeros(like.num_states, np.int32)])
    word = ilabel if labels == "word:arc" else word_of[olabel]
    ending = (word == 0) & (olabel > num_arcs) & is_final[dst] & (np.diff(arc_begin)[dst] == 0) & ~is_final[src]
    ending &= np.bincount(src[ending], minlength=num_states)[src] == 1
    # An ending arc becomes the final cost of its source state; states that only such arcs enter are removed.
    stays = np.ones(num_states, bool)
    stays[dst[ending]] = False
    stays[dst[~ending]] = True
    stays[0] = True
    place = np.cumsum(stays) - 1
    final_label = np.zeros(num_states, np.int32)
    final_label[src[ending]] = olabel[ending]
    ends = is_final.copy()
    ends[src[ending]] = True
    is_arc = ~ending
    label, final_label, ends = olabel[is_arc], final_label[stays], ends[stays]
    ali_begin, ali = gather(pool, begin[label], length[label])
    final_ali_begin, final_ali = gather(pool, begin[final_label], length[final_label])
    single = length[label].max(initial=0) <= 1 and final_ali.size == 0
    lattice = Lattice.from_arrays(
        key,
        offsets(np.bincount(src[is_arc], minlength=num_states)[stays]),
        place[dst[is_arc]],
        word[is_arc],
        graph_of[label],
        acoustic_of[label],
        np.where(ends, graph_of[final_label], np.float32(np.inf)),
        np.where(ends, acoustic_of[final_label], np.float32(np.inf)),
        ali_begin=ali_begin,
        ali=ali,
        final_ali_begin=final_ali_begin,
        final_ali=final_ali,
        kind=like.kind if single else "compact",
        frame_shift=like.frame_shift,
        words=like.words,
    )
    return lattice, label, final_label


def pywrapfst_module() -> Any:
    """Return the module pywrapfst, which is imported on first use."""
    with needed_for("an OpenFst FST"):
        import pywrapfst
    return pywrapfst


def _machine(image: bytes) -> pywrapfst.MutableFst:
    machine: pywrapfst.MutableFst = pywrapfst_module().VectorFst.read_from_string(image)
    return machine
