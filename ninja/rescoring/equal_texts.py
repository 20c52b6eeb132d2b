"""Merge the hypotheses of an n-best list that have equal text."""

from __future__ import annotations

import numpy as np

from ninja.graph.connect import connect
from ninja.lattice import Lattice, Scales
from ninja.lattice.lattice import ListLattice, as_list_of, frozen
from ninja.lattice.symbols import EPSILON
from ninja.lattice.text import LexicalTable


def merge_equal_texts(lattice: Lattice, scales: Scales, forms: LexicalTable | None = None) -> tuple[Lattice, int]:
    """Merge the hypotheses of an n-best list that have equal text, summing their probabilities.

    The cost of a hypothesis is ``acoustic scale · acoustic + LM scale · graph``; the merged cost is
    ``-log Σ exp(-cost)``. Only the best hypothesis is kept, and its acoustic cost is changed so that its cost equals
    the merged cost. If the acoustic scale is 0, its graph cost is changed instead.

    Args:
        lattice: Any lattice; only n-best lists are changed.
        scales: Scales of the costs.
        forms: Lexical forms to compare instead of the written words.  [default: compare the written words]

    Returns:
        ``(lattice, number of removed hypotheses)``.
    """
    if not isinstance(lattice, ListLattice) or np.unique(lattice.dst).size < lattice.num_arcs:
        return lattice, 0  # the lattice is not an n-best list, or is not a tree
    groups = _paths_by_words(lattice, forms)
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


def _paths_by_words(lattice: Lattice, forms: LexicalTable | None) -> list[tuple[list[int], list[float], list[float]]]:
    """Group the paths in a tree by words; return ``(final states, graph costs, acoustic costs)`` for each group."""
    arrays = (lattice.src, lattice.dst, lattice.word, lattice.graph, lattice.acoustic)
    arcs = zip(*(array.tolist() for array in arrays), strict=True)
    history = [0] * lattice.num_states  # id of the word sequence that leads to each state
    graph_cost = [0.0] * lattice.num_states
    acoustic_cost = [0.0] * lattice.num_states
    longer: dict[tuple[int, int], int] = {}
    for src, dst, word, graph, acoustic in arcs:  # in topological order
        text_id = history[src]
        for lexical in (word,) if forms is None else forms.form(word):
            text_id = text_id if lexical == EPSILON else longer.setdefault((text_id, lexical), len(longer) + 1)
        history[dst] = text_id
        graph_cost[dst] = graph_cost[src] + graph
        acoustic_cost[dst] = acoustic_cost[src] + acoustic
    groups: dict[int, tuple[list[int], list[float], list[float]]] = {}
    for state in np.flatnonzero(lattice.is_final).tolist():
        states, graphs, acoustics = groups.setdefault(history[state], ([], [], []))
        states.append(state)
        graphs.append(graph_cost[state] + float(lattice.final_graph[state]))
        acoustics.append(acoustic_cost[state] + float(lattice.final_acoustic[state]))
    return list(groups.values())
