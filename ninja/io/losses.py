"""Which fields of a lattice or an n-best list a format cannot hold, by what it declares to keep."""

from __future__ import annotations

from ninja.formats.format import FIELDS, Field
from ninja.lattice import Lattice
from ninja.lattice.nbest import NBest

_COSTS = {"graph", "acoustic", "apart", "unscaled"}
ASSUMED_SHIFT = 0.01  # seconds, which every reader takes where a file does not say


def lost_of_lattice(lattice: Lattice, keeps: frozenset[Field]) -> list[str]:
    """Return the fields of a lattice that a format does not keep.

    Times that kept alignments say are kept, and a frame shift matters only where alignments or times are.

    Args:
        lattice: The lattice.
        keeps: What the format can hold.
    """
    lost = []
    labelled = lattice.has_labels
    aligned = labelled and "alignments" in keeps
    if labelled and not aligned:
        lost.append(FIELDS["alignments"])
    if lattice.time is not None and not aligned and "times" not in keeps:
        lost.append(FIELDS["times"])
    timed = aligned or ("times" in keeps and (labelled or lattice.time is not None))
    if timed and "frame shift" not in keeps and lattice.frame_shift not in (None, ASSUMED_SHIFT):
        lost.append(FIELDS["frame shift"])
    if lattice.kind == "raw" and "raw" not in keeps:
        lost.append(FIELDS["raw"])
    if keeps >= _COSTS:
        return lost
    final = lattice.is_final
    graph = bool(lattice.graph.any() or lattice.final_graph[final].any())
    acoustic = bool(lattice.acoustic.any() or lattice.final_acoustic[final].any())
    return lost + _lost_costs(keeps, graph=graph, acoustic=acoustic, apart=acoustic and "acoustic" in keeps)


def lost_of_list(nbest: NBest, keeps: frozenset[Field]) -> list[str]:
    """Return the fields of an n-best list that a format does not keep.

    Args:
        nbest: The list.
        keeps: What the format can hold.
    """
    lost = []
    hypotheses = nbest.hypotheses
    aligned = all(each.labels is not None and any(each.labels) for each in hypotheses) and "alignments" in keeps
    if "alignments" not in keeps and any(each.labels is not None and any(each.labels) for each in hypotheses):
        lost.append(FIELDS["alignments"])
    has_seconds = nbest.frame_shift is not None or "frame shift" not in keeps
    if any(each.begin for each in hypotheses) and not aligned and not ("times" in keeps and has_seconds):
        lost.append(FIELDS["times"])
    if "times" in keeps and "frame shift" not in keeps and nbest.frame_shift not in (None, ASSUMED_SHIFT):
        lost.append(FIELDS["frame shift"])
    if "word costs" not in keeps and any(any(each.graph[:-1]) or any(each.acoustic[:-1]) for each in hypotheses):
        lost.append(FIELDS["word costs"])
    if keeps >= _COSTS:
        return lost
    graph = any(each.graph_cost for each in hypotheses)
    acoustic = any(each.acoustic_cost for each in hypotheses)
    return lost + _lost_costs(keeps, graph=graph, acoustic=acoustic, apart=graph and "graph" in keeps)


def _lost_costs(keeps: frozenset[Field], *, graph: bool, acoustic: bool, apart: bool) -> list[str]:
    """Return which costs are lost; one cost of a lattice is read as graph cost, of a list as acoustic cost."""
    lost = [FIELDS["graph"]] if graph and "graph" not in keeps else []
    if acoustic and "acoustic" not in keeps:
        lost.append(FIELDS["acoustic"])
    elif acoustic and not graph and "unscaled" not in keeps:
        lost.append(FIELDS["unscaled"])
    if apart and "apart" not in keeps:
        lost.append(FIELDS["apart"])
    return lost
