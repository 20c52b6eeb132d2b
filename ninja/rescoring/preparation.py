"""Preparation of lattices before a rescoring: equal texts of n-best lists are merged, ambiguous lattices detected."""

from __future__ import annotations

import numpy as np

from ninja.graph.connect import connect
from ninja.lattice import Lattice, Scales
from ninja.lattice.arrays import frozen
from ninja.lattice.list_lattice import ListLattice, as_list_of
from ninja.lattice.symbols import EPSILON

MIN_ARCS = 500  # of ambiguous lattices; smaller ones take little time
MAX_SHARE = 0.5  # of ambiguous arcs; determinized lattices have none
ADVICE = (
    "some lattices are not determinized: half of their arcs have no word, or repeat a word of their state, so that a "
    "rescoring takes many times as long; first ninja prune, then ninja determinize-pruned"
)


def is_ambiguous(lattice: Lattice) -> bool:
    """Tell whether most arcs have no word, or most repeat a word of another arc that leaves their state."""
    if lattice.num_arcs < MIN_ARCS:
        return False
    num_epsilons = int(np.count_nonzero(lattice.word == EPSILON))
    if num_epsilons > MAX_SHARE * lattice.num_arcs:
        return True
    state = np.repeat(np.arange(lattice.num_states), np.diff(lattice.arc_begin))
    pair = (state << 32) | lattice.word
    num_pairs = np.unique(pair[lattice.word != EPSILON]).size
    return lattice.num_arcs - num_epsilons - num_pairs > MAX_SHARE * lattice.num_arcs


def merge_equal_texts(lattice: Lattice, scales: Scales) -> tuple[Lattice, int]:
    """Merge the hypotheses of an n-best list that have the same words; their probabilities add up.

    The cost of a hypothesis is ``acoustic scale · acoustic + LM scale · graph``; that of the merged one is
    ``-log Σ exp(-cost)``. The best of the hypotheses remains, and the difference is added to its acoustic cost, or to
    its graph cost at an acoustic scale of 0.

    Args:
        lattice: Any lattice; one that is not of an n-best list is returned unchanged.

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
