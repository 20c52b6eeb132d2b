"""Minimization by OpenFst: states with the same completions become one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ninja import _determinize
from ninja.errors import OptionError
from ninja.graph.connect import connect
from ninja.graph.scale import check_scales
from ninja.lattice import Lattice
from ninja.openfst import labelled_image, parse_image, pywrapfst_module, recover


def minimize(lattice: Lattice, acoustic_scale: float = 1.0, delta: float = 2.0**-14) -> Lattice:
    """Merge states whose completions agree in words, alignments and, up to a constant, both costs.

    Both costs and alignments are pushed towards the start; arcs equal after that get one label, and OpenFst minimizes
    the unweighted acceptor of labels. Costs then go back to where they were, except between merged states, so that
    float32 holds them as well as before; alignments stay pushed, by 1024 labels at most. Each path keeps its words,
    costs and alignment.

    Args:
        lattice: Any lattice. The result is minimal if it is deterministic over words, smaller or equal in any case.
        acoustic_scale: Factor of acoustic costs in the completions that costs are pushed by.
        delta: Arc costs that round to the same multiple of this count as equal, > 0; each arc of a path may move by as
            much. (Kaldi: 2^-10; on real lattices that saves 4 % more states, and moves paths by up to 0.003.)

    Returns:
        A connected lattice of no more states, of kind "compact" if an arc got several labels.

    Raises:
        LatticeError: No path leads from the start to a final state.
        OptionError: ``acoustic_scale`` is not finite, or ``delta`` not above 0.
        DependencyError: pywrapfst is not installed.

    Source: Mohri 2000, "Minimization algorithms for sequential transducers"; Kaldi, lat/minimize-lattice.h.
    """
    check_scales(acoustic_scale)
    if not 0.0 < delta < np.inf:
        raise OptionError(f"delta is {delta}, but must be above 0")
    pywrapfst = pywrapfst_module()
    plain = connect(lattice)
    like, final_like, rest_graph, rest_acoustic, ali_begin, ali, final_ali_begin, final_ali = _determinize.equal_arcs(
        plain, acoustic_scale, delta
    )
    unweighted = np.where(plain.is_final, 0.0, np.inf)
    image = labelled_image(
        plain, "standard", np.zeros(plain.num_arcs), unweighted, words=False, arc=like, final_arc=final_like
    )
    machine = pywrapfst.VectorFst.read_from_string(image).minimize(allow_nondet=True)
    pushed = replace(
        plain, ali_begin=ali_begin, ali=ali, final_ali_begin=final_ali_begin, final_ali=final_ali, time=None
    )
    found, label, final_label = recover(parse_image(machine.write_to_string(), lattice.key), pushed, "arc")

    # Each new state takes the completion cost of one of the states merged in it; arcs carry the differences.
    arc = label - 1
    leaves = plain.src
    ends = np.flatnonzero(final_label)
    end_state = final_label[ends] - plain.num_arcs - 1
    arc_cost, final_cost = {}, {}
    for name, rest in (("graph", rest_graph), ("acoustic", rest_acoustic)):
        of_state = np.full(found.num_states, rest[0])
        of_state[found.dst] = rest[plain.dst[arc]]
        beyond = rest[plain.dst[arc]] - rest[leaves[arc]]
        cost = getattr(plain, name)[arc] + beyond + of_state[found.src] - of_state[found.dst]
        arc_cost[name] = cost.astype(np.float32)
        ending = np.full(found.num_states, np.inf)
        ending[ends] = getattr(plain, f"final_{name}")[end_state] - rest[end_state] + of_state[ends]
        final_cost[f"final_{name}"] = ending.astype(np.float32)
    changed = {**arc_cost, **final_cost}
    for array in changed.values():
        array.flags.writeable = False
    return replace(found, **changed)
