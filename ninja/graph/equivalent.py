"""Comparison of two lattices by their word sequences and costs."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ninja import _graph
from ninja.errors import OptionError, check_range
from ninja.formats.fst_image import parse_image, write_image
from ninja.graph.determinize import determinize
from ninja.lattice import Lattice
from ninja.lattice.fst import Fst
from ninja.lattice.word_ids import check_one_table
from ninja.openfst import arc_labelled, pywrapfst_module


def equivalent(
    a: Lattice,
    b: Lattice,
    delta: float = 1e-3,
    acoustic_scale: float = 1.0,
    costs: Literal["total", "both"] = "total",
    max_arcs: int = 1_000_000,
) -> bool:
    """Return whether two lattices have the same word sequences with the same best-path costs.

    Both lattices are determinized. OpenFst compares the unweighted word acceptors, and matches the arcs of equal word
    sequences; the largest cost difference over all paths is then computed in float64. (OpenFst's Equivalent rounds
    weights to multiples of delta, and can therefore report equal lattices as different.)

    Args:
        a: The first lattice.
        b: The second lattice; alignments, keys and the numbers of states and arcs are not compared.
        delta: Largest allowed difference in the cost of a path.
        acoustic_scale: Factor applied to acoustic costs in the total.
        costs: "total" compares total costs; "both" compares graph and unscaled acoustic costs separately.
        max_arcs: Maximum number of arcs in each determinized lattice.

    Raises:
        LatticeError: A lattice cannot be determinized; see ``determinize``.
        SymbolError: The lattices have different symbol tables.
        OptionError: ``delta`` is negative, or ``costs`` is neither "total" nor "both".
    """
    check_range("delta", delta, least=0)
    if costs not in ("total", "both"):
        raise OptionError(f"costs is {costs!r}, but must be one of total, both")
    check_one_table((a, b))
    pywrapfst = pywrapfst_module()
    first, second = determinize(a, acoustic_scale, max_arcs), determinize(b, acoustic_scale, max_arcs)

    def machine(lattice: Lattice, *, arcs: bool) -> Any:
        cost = np.zeros(lattice.num_arcs)
        ends = np.where(lattice.is_final, 0.0, np.inf)
        if arcs:
            fst = arc_labelled(lattice, cost, ends, words=True)
        else:
            fst = Fst(lattice.arc_begin, lattice.dst, lattice.word, lattice.word, cost, ends)
        return pywrapfst.VectorFst.read_from_string(write_image(fst))

    if not pywrapfst.equivalent(machine(first, arcs=False), machine(second, arcs=False)):
        return False
    transducer = machine(first, arcs=True).invert().arcsort("olabel")
    pairs = pywrapfst.compose(transducer, machine(second, arcs=True).arcsort("ilabel"))
    joint = parse_image(pairs.write_to_string(), a.key).fst

    def by_label(lattice: Lattice, of_graph: float, of_acoustic: float) -> Any:
        graph = np.concatenate([[0.0], lattice.graph, np.where(lattice.is_final, lattice.final_graph, 0.0)])
        acoustic = np.concatenate([[0.0], lattice.acoustic, np.where(lattice.is_final, lattice.final_acoustic, 0.0)])
        return of_graph * graph + of_acoustic * acoustic

    ends = np.where(np.isfinite(joint.final_cost), 0.0, np.inf)
    for factors in [(1.0, acoustic_scale)] if costs == "total" else [(1.0, 0.0), (0.0, 1.0)]:
        difference = by_label(first, *factors)[joint.ilabel] - by_label(second, *factors)[joint.olabel]
        least, most = _graph.path_extremes(joint.arc_begin, joint.dst, difference, ends)
        if max(-least, most) > delta:
            return False
    return True
