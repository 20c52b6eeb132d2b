"""Slow implementations: every path of a small lattice is enumerated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from reference_consensus import edit_distance
from reference_graph import costs_of, labels_of, paths, words_of

from ninja.graph.determinize import remove_epsilons
from ninja.lattice import Lattice
from ninja.openfst import from_fst, to_fst


class Way(NamedTuple):
    """A path: words, costs, and labels frame by frame."""

    words: tuple[int, ...]
    graph: float
    acoustic: float
    alignment: tuple[int, ...]

    def total(self, acoustic_scale: float = 1.0) -> float:
        return self.graph + acoustic_scale * self.acoustic


def ways(lattice: Lattice) -> Iterator[Way]:
    """Yield every path from the start to a final state."""
    for path in paths(lattice):
        yield Way(words_of(lattice, path), *costs_of(lattice, path), tuple(labels_of(lattice, path)))


def best_ways(lattice: Lattice, acoustic_scale: float = 1.0) -> dict[tuple[int, ...], Way]:
    """Return the best path of each word sequence."""
    best: dict[tuple[int, ...], Way] = {}
    for way in ways(lattice):
        rank = (way.total(acoustic_scale), way.graph - way.acoustic)
        incumbent = best.get(way.words)
        if incumbent is None or rank < (incumbent.total(acoustic_scale), incumbent.graph - incumbent.acoustic):
            best[way.words] = way
    return best


def with_random_costs(lattice: Lattice, seed: int) -> Lattice:
    """Return the lattice with random costs, so that equal path costs are unlikely; sums are exact in float32."""
    random = np.random.default_rng(seed)

    def random_costs(size: int, mask: np.ndarray | None = None) -> np.ndarray:
        cost = (random.normal(0.0, 10.0, size) * 1024).round().astype(np.float32) / np.float32(1024)
        return cost if mask is None else np.where(mask, cost, np.float32(np.inf))

    return replace(
        lattice,
        graph=random_costs(lattice.num_arcs),
        acoustic=random_costs(lattice.num_arcs),
        final_graph=random_costs(lattice.num_states, lattice.is_final),
        final_acoustic=random_costs(lattice.num_states, lattice.is_final),
    )


def determinized_by_openfst(lattice: Lattice, acoustic_scale: float) -> Lattice:
    """Determinize with OpenFst: the transducer from words to arc numbers, with the best output of each word
    sequence."""
    import pywrapfst

    plain = remove_epsilons(lattice, acoustic_scale)  # OpenFst would treat epsilons as words
    machine = to_fst(plain, labels="word:arc", acoustic_scale=acoustic_scale)
    unique = pywrapfst.determinize(machine, det_type="disambiguate")
    return remove_epsilons(from_fst(unique, like=plain, labels="word:arc"), acoustic_scale)


def least_edit_distance(lattice: Lattice, reference: list[int]) -> int:
    """Return the smallest edit distance between a reference and a path's words."""
    return min(edit_distance(reference, way.words) for way in ways(lattice))
