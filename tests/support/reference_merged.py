"""Slow implementation of `MergedLattice`: states and arcs with equal completions are merged, state by state."""

from __future__ import annotations

from ninja.lattice import Lattice

Arc = tuple[int, float, float, int]  # word, graph cost, acoustic cost, destination


def slow_merge(lattice: Lattice) -> Lattice:
    """Return the lattice that a search visits, without labels; every distinct completion is one state."""
    completions: dict[tuple[float, float, frozenset[Arc]], int] = {}
    of_state: dict[int, int] = {}
    arcs: list[list[Arc]] = []
    for state in range(lattice.num_states - 1, -1, -1):
        leaving = {  # the first of equal arcs, in their order
            (int(lattice.word[arc]), float(lattice.graph[arc]), float(lattice.acoustic[arc]),
             of_state[int(lattice.dst[arc])]): None
            for arc in range(lattice.arc_begin[state], lattice.arc_begin[state + 1])
        }  # fmt: skip
        ends = (float(lattice.final_graph[state]), float(lattice.final_acoustic[state]))
        of_state[state] = completions.setdefault((*ends, frozenset(leaving)), len(completions))
        if of_state[state] == len(arcs):
            arcs.append(list(leaving))
    last = len(arcs) - 1  # states are numbered from the end
    columns = [arc for leaving in reversed(arcs) for arc in leaving]
    begin = [0]
    for leaving in reversed(arcs):
        begin.append(begin[-1] + len(leaving))
    ends_of = list(completions)[::-1]
    return Lattice.from_arrays(
        lattice.key, begin, [last - dst for *_, dst in columns], [word for word, *_ in columns],
        [graph for _, graph, _, _ in columns], [acoustic for _, _, acoustic, _ in columns],
        [graph for graph, _, _ in ends_of], [acoustic for _, acoustic, _ in ends_of], words=lattice.words,
    )  # fmt: skip
