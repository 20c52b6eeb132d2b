"""Slow implementation of the search for spans: every span is enumerated, and its edit distance computed separately."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from ninja.context.sound.confusion import Confusion
from ninja.lattice import Lattice


def forward_costs(lattice: Lattice, acoustic_scale: float) -> list[float]:
    """Return the cost of the best path to each state."""
    cost = [float("inf")] * lattice.num_states
    cost[0] = 0.0
    for arc, src in enumerate(lattice.src.tolist()):
        dst = int(lattice.dst[arc])
        cost[dst] = min(cost[dst], cost[src] + arc_cost(lattice, arc, acoustic_scale))
    return cost


def backward_costs(lattice: Lattice, acoustic_scale: float) -> list[float]:
    """Return the cost of the best path from each state to a final state."""
    cost = (lattice.final_graph + acoustic_scale * lattice.final_acoustic.astype(float)).tolist()
    for arc, src in reversed(list(enumerate(lattice.src.tolist()))):
        cost[src] = min(cost[src], arc_cost(lattice, arc, acoustic_scale) + cost[int(lattice.dst[arc])])
    return cost


def arc_cost(lattice: Lattice, arc: int, acoustic_scale: float) -> float:
    return float(lattice.graph[arc]) + acoustic_scale * float(lattice.acoustic[arc])


def excesses(lattice: Lattice, acoustic_scale: float) -> list[float]:
    """Return the excess cost of the best path through each arc over the best path."""
    forward, backward = forward_costs(lattice, acoustic_scale), backward_costs(lattice, acoustic_scale)
    return [
        forward[src] + arc_cost(lattice, arc, acoustic_scale) + backward[int(lattice.dst[arc])] - backward[0]
        for arc, src in enumerate(lattice.src.tolist())
    ]


def path_excess(lattice: Lattice, path: Sequence[int], acoustic_scale: float) -> float:
    """Return the excess cost of the best path through some consecutive arcs over the best path."""
    forward, backward = forward_costs(lattice, acoustic_scale), backward_costs(lattice, acoustic_scale)
    cost = sum(arc_cost(lattice, arc, acoustic_scale) for arc in path)
    return forward[int(lattice.src[path[0]])] + cost + backward[int(lattice.dst[path[-1]])] - backward[0]


def spans(
    lattice: Lattice, sounds: dict[int, list[list[int]]], acoustic_scale: float, beam: float
) -> list[tuple[int, ...]]:
    """Return every span within the beam, as arc ids: it begins and ends with a sound, and each word has a
    pronunciation."""
    excess = excesses(lattice, acoustic_scale)
    usable = [excess[arc] <= beam and bool(sounds[int(lattice.word[arc])]) for arc in range(lattice.num_arcs)]
    sounded = [any(sounds[int(lattice.word[arc])]) for arc in range(lattice.num_arcs)]
    paths = []

    def walk(state: int, path: tuple[int, ...]) -> None:
        for arc in range(lattice.arc_begin[state], lattice.arc_begin[state + 1]):
            if usable[arc] and (path or sounded[arc]):
                if sounded[arc]:
                    paths.append((*path, arc))
                walk(int(lattice.dst[arc]), (*path, arc))

    for state in range(lattice.num_states):
        walk(state, ())
    return paths


def distance(
    lattice: Lattice,
    path: Sequence[int],
    string: Sequence[int],
    sounds: dict[int, list[list[int]]],
    confusion: Confusion,
) -> float:
    """Return the least edit distance between a string and the sounds of a path; a span ends with a sound."""
    choices = [sounds[int(lattice.word[arc])] for arc in path]
    reference = [confusion.phones[phone] for phone in string]
    least = float("inf")
    for pronunciations in product(*choices):
        if pronunciations[-1]:
            hypothesis = [confusion.phones[phone] for phones in pronunciations for phone in phones]
            least = min(least, confusion.distance(reference, hypothesis))
    return least
