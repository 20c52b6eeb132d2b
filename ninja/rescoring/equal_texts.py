"""Equal texts of an n-best list as one hypothesis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from ninja.graph.connect import connect
from ninja.lattice import Lattice, Scales
from ninja.lattice.arrays import frozen
from ninja.lattice.list_lattice import ListLattice, as_list_of
from ninja.lattice.symbols import EPSILON
from ninja.rescoring.engine import Coming
from ninja.rescoring.options import RescoreReport


def merge_equal_texts(lattice: Lattice, scales: Scales) -> tuple[Lattice, int]:
    """Make hypotheses of an n-best list that have the same words one hypothesis, whose probabilities add up.

    The cost of a hypothesis is ``acoustic scale · acoustic + LM scale · graph``; that of the merged one is
    ``-log Σ exp(-cost)``. The best of the hypotheses remains, and its acoustic cost takes the difference, so that its
    two costs at these scales are the merged cost. At an acoustic scale of 0 the graph cost does.

    Args:
        lattice: One that is not of an n-best list is returned as it is.

    Returns:
        The lattice and the number of hypotheses that were merged into others.
    """
    if not isinstance(lattice, ListLattice) or np.unique(lattice.dst).size < lattice.num_arcs:
        return lattice, 0  # none of a list, or not its tree any more
    groups = _paths_by_words(lattice)
    num_merged = sum(len(states) - 1 for states, _, _ in groups)
    if num_merged <= 0:
        return lattice, 0
    final_graph = np.full(lattice.num_states, np.inf, np.float32)
    final_acoustic = final_graph.copy()
    for states, graph, acoustic in groups:
        costs = scales.acoustic * np.array(acoustic) + scales.lm * np.array(graph)
        best = int(costs.argmin())
        state = states[best]
        gain = -np.log(np.exp(costs[best] - costs).sum())
        final_graph[state], final_acoustic[state] = lattice.final_graph[state], lattice.final_acoustic[state]
        if len(states) > 1 and scales.acoustic > 0:
            final_acoustic[state] += gain / scales.acoustic
        elif len(states) > 1 and scales.lm > 0:
            final_graph[state] += gain / scales.lm
    merged = connect(lattice.replace(final_graph=frozen(final_graph), final_acoustic=frozen(final_acoustic)))
    listed = as_list_of(lattice, merged)
    assert isinstance(listed, ListLattice)
    return ListLattice.of(listed, len(groups), lattice.record), num_merged


def with_merged_texts(lattices: Iterable[Coming], scales: Scales, log: RescoreReport) -> Iterator[Coming]:
    """Yield the lattices; of n-best lists, those with equal texts added up."""
    for pair in lattices:
        if pair is not None:
            merged, num_merged = merge_equal_texts(pair[1], scales)
            if num_merged and not log.merged:
                log.note(f"{pair[0]}: {num_merged} hypotheses have the text of another one; their probabilities add up")
            log.merged += num_merged
            pair = pair[0], merged
        yield pair


def _paths_by_words(lattice: Lattice) -> list[tuple[list[int], list[float], list[float]]]:
    """Group the paths of a tree by their words: their final states, graph costs and acoustic costs."""
    arrays = (lattice.src, lattice.dst, lattice.word, lattice.graph, lattice.acoustic)
    arcs = zip(*(array.tolist() for array in arrays), strict=True)
    history = [0] * lattice.num_states  # number of the words that lead to each state
    graph_cost = [0.0] * lattice.num_states
    acoustic_cost = [0.0] * lattice.num_states
    longer: dict[tuple[int, int], int] = {}
    for src, dst, word, graph, acoustic in arcs:  # a state is entered before it is left
        known = history[src]
        history[dst] = known if word == EPSILON else longer.setdefault((known, word), len(longer) + 1)
        graph_cost[dst] = graph_cost[src] + graph
        acoustic_cost[dst] = acoustic_cost[src] + acoustic
    groups: dict[int, tuple[list[int], list[float], list[float]]] = {}
    for state in np.flatnonzero(lattice.is_final).tolist():
        states, graphs, acoustics = groups.setdefault(history[state], ([], [], []))
        states.append(state)
        graphs.append(graph_cost[state] + float(lattice.final_graph[state]))
        acoustics.append(acoustic_cost[state] + float(lattice.final_acoustic[state]))
    return list(groups.values())
