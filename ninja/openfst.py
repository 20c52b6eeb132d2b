"""Lattices as ``pywrapfst`` machines, by binary image rather than arc by arc.

OpenFst has one weight an arc; a lattice has two costs and an alignment. With ``labels="arc"`` (or ``"word:arc"``) each
arc is labelled with its number, so that ``from_fst(fst, like=lattice)`` maps the result of OpenFst back to words, costs
and alignments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from ninja.errors import LatticeError
from ninja.formats.fst_binary import CostName, read_fst, weights, write_fst
from ninja.formats.fst_image import ArcType, parse_image, write_image
from ninja.formats.textual import check_choice
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
    """Return a lattice as an OpenFst machine.

    Args:
        lattice: Any lattice; its alignments are dropped.
        arc_type: Semiring: "standard" (tropical, float32), "log" (float32) or "log64" (float64).
        costs: Weight of an arc: "total" = ``acoustic_scale * acoustic + graph``, or "graph" or "acoustic" alone.
        labels: "word": both labels are the word, 0 = epsilon, and final costs are final weights.
            "arc": both labels are the arc's number + 1. Final costs become arcs, too, so that a path has them: state s,
            if final, gets an arc labelled ``num_arcs + s + 1`` to one new state, the only final one, of weight 0.
            "word:arc": as "arc", but the input label is the word (0 on the arcs of final costs).
        acoustic_scale: Factor of the acoustic cost in "total"; must be 1 with one cost alone.

    Raises:
        OptionError: An argument has another value.
        LatticeError: A cost overflows the weight type.
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
    """Convert an acyclic OpenFst machine to a lattice.

    States in topological order keep their numbers; otherwise those reachable from the start are sorted. Arcs of
    infinite weight, the semiring's zero, are left out: no path can take them.

    Args:
        fst: Machine of any of the three arc types; it is not changed.
        key: Utterance id; with ``like`` and an empty key, that lattice's.
        like: Without it, words are the output labels (as Kaldi reads a transducer; input labels are dropped), weights
            become graph costs, acoustic costs are 0 and alignments empty; an attached output symbol table becomes the
            lattice's, or an input one where every arc has the same label on both sides. With it, output labels are arcs
            of this lattice, as ``to_fst`` wrote them; both costs and the alignment are looked up there and the
            machine's own weights ignored. Arcs of final costs become final costs again where nothing else ends in their
            state, and epsilon arcs elsewhere. Output label 0 costs nothing.
        labels: With ``like``: "arc" takes the word from there too, "word:arc" from the input label.

    Raises:
        LatticeError: A cycle, no start, no final state, a weight of NaN or -infinity, a label that is no word or arc.
    """
    image = (fst if fst.fst_type() == "vector" else pywrapfst_module().convert(fst, "vector")).write_to_string()
    if like is None:
        return read_fst(image, key)
    return recover(parse_image(image, key or like.key).fst, like, labels, key)[0]


def arc_labelled(lattice: Lattice, cost: Float64, final_cost: Float64, *, words: bool) -> Fst:
    """Return the arc-labelled FST of a lattice with other costs (+inf: not final); input labels are words or arcs."""
    num_states, num_arcs = lattice.num_states, lattice.num_arcs
    arc = np.arange(num_arcs, dtype=np.int32)
    final_arc = np.arange(num_arcs, num_arcs + num_states, dtype=np.int32)
    final = np.flatnonzero(np.isfinite(final_cost))
    place = lattice.arc_begin[final + 1]  # behind the arcs of its state
    olabel = np.insert(arc, place, final_arc[final]) + np.int32(1)
    arc_begin = lattice.arc_begin.copy()
    arc_begin[final + 1] += 1
    arc_begin[1:] = np.cumsum(np.diff(lattice.arc_begin) + np.isfinite(final_cost))
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
    """Convert an arc-labelled machine to a lattice with the words, costs and alignments of ``like``; see ``from_fst``.

    Args:
        like: The lattice whose arcs the output labels number.
        labels: Whether words come from ``like``, too, or from the input labels.
        key: Utterance id; by default that of ``like``.

    Returns:
        The lattice; the label of each arc, int32 [num_arcs]; the label of each final state, int32 [num_states], else 0.

    Raises:
        LatticeError: A label names no arc and no final state of ``like``, or no state is final.
    """
    arc_begin, dst, ilabel, olabel, final_cost = fst.arc_begin, fst.dst, fst.ilabel, fst.olabel, fst.final_cost
    key = key or like.key
    num_arcs, num_states = like.num_arcs, final_cost.shape[0]
    named = np.concatenate([np.ones(num_arcs + 1, bool), like.is_final])
    if olabel.size and ((bad := olabel >= named.size).any() or (bad := ~named[olabel]).any()):
        label = int(olabel[np.flatnonzero(bad)[0]])
        raise LatticeError(
            f"output label {label} names no arc (1 to {num_arcs}) and no final state of the lattice", key=key
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
    # An ending arc turns into its state's final cost; states entered by such arcs only vanish.
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
    """Return the module pywrapfst, imported on first use."""
    with needed_for("an OpenFst machine"):
        import pywrapfst
    return pywrapfst


def _machine(image: bytes) -> pywrapfst.MutableFst:
    machine: pywrapfst.MutableFst = pywrapfst_module().VectorFst.read_from_string(image)
    return machine
