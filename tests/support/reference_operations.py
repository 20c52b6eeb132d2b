"""Slow implementations of the light lattice operations."""

from __future__ import annotations

import math

from reference_graph import costs_of, end_of, paths

from ninja.lattice import Lattice
from ninja.lattice.fst import Fst

Step = tuple[str, int]


def path_symbols(lattice: Lattice, path: tuple[int, ...]) -> tuple[Step, ...]:
    """Return the contents of a path in order: each arc's word, then its labels."""
    steps: list[Step] = []
    for arc in path:
        if lattice.word[arc]:
            steps.append(("word", int(lattice.word[arc])))
        labels = lattice.ali[lattice.ali_begin[arc] : lattice.ali_begin[arc + 1]]
        steps += [("label", int(label)) for label in labels]
    end = end_of(lattice, path)
    labels = lattice.final_ali[lattice.final_ali_begin[end] : lattice.final_ali_begin[end + 1]]
    return (*steps, *(("label", int(label)) for label in labels))


def symbols_and_costs(lattice: Lattice) -> list[tuple[tuple[Step, ...], tuple[float, float]]]:
    """Return the contents and cost of every path, sorted."""
    return sorted((path_symbols(lattice, path), costs_of(lattice, path)) for path in paths(lattice))


def boosted_costs(
    lattice: Lattice, alignment: list[int], phone: list[int], b: float, silences: set[int], silence_error: float
) -> list[tuple[tuple[Step, ...], float]]:
    """Return the contents of every path, and its graph cost minus b for each frame with a wrong phone."""
    costs = []
    for path in paths(lattice):
        symbols = path_symbols(lattice, path)
        labels = [number for kind, number in symbols if kind == "label"]
        error = 0.0
        for label, correct_label in zip(labels, alignment, strict=True):
            if phone[label] != phone[correct_label]:
                error += silence_error if phone[label] in silences else 1.0
        costs.append((symbols, costs_of(lattice, path)[0] - b * error))
    return sorted(costs)


def arcs_of(fst: Fst) -> list[list[tuple[int, int, int, float]]]:
    """Return the arcs of each state: input label, output label, end, cost."""
    columns = (fst.ilabel, fst.olabel, fst.dst, fst.cost)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    return [rows[begin:end] for begin, end in zip(fst.arc_begin[:-1], fst.arc_begin[1:], strict=True)]


def machine_costs(fst: Fst) -> dict[tuple[int, ...], float]:
    """Return the least cost of each word sequence of a machine."""
    arcs, final = arcs_of(fst), fst.final_cost.tolist()
    best: dict[tuple[int, ...], float] = {}

    def walk(state: int, words: tuple[int, ...], cost: float) -> None:
        if final[state] < math.inf:
            best[words] = min(best.get(words, math.inf), cost + final[state])
        for _, word, dst, weight in arcs[state]:
            walk(dst, (*words, word) if word else words, cost + weight)

    walk(0, (), 0.0)
    return best


def frame_shares(lattice: Lattice, acoustic_scale: float) -> tuple[dict[tuple[int, int], float], float]:
    """Return the probability of each label at each frame, and the log-likelihood, over all paths."""
    weights = []
    for path in paths(lattice):
        graph, acoustic = costs_of(lattice, path)
        labels = [number for kind, number in path_symbols(lattice, path) if kind == "label"]
        weights.append((math.exp(-(graph + acoustic_scale * acoustic)), labels))
    total = sum(weight for weight, _ in weights)
    shares: dict[tuple[int, int], float] = {}
    for weight, labels in weights:
        for frame, label in enumerate(labels):
            shares[frame, label] = shares.get((frame, label), 0.0) + weight / total
    return shares, math.log(total)


def accuracy_shares(
    lattice: Lattice, alignment: list[int], kind: list[int], silent: list[bool], one_class: bool
) -> tuple[dict[tuple[int, int], float], float]:
    """Return the excess accuracy of paths with a label at a frame, and the expected accuracy, over all paths."""
    weighted_paths = []
    for path in paths(lattice):
        labels = [number for symbol_kind, number in path_symbols(lattice, path) if symbol_kind == "label"]
        accuracy = 0
        for label, correct_label in zip(labels, alignment, strict=True):
            equal_kind = kind[label] == kind[correct_label]
            accuracy += (
                (equal_kind or (silent[label] and silent[correct_label]))
                if one_class
                else (equal_kind and not silent[label])
            )
        weighted_paths.append((math.exp(-sum(costs_of(lattice, path))), labels, accuracy))
    total = sum(weight for weight, _, _ in weighted_paths)
    expected = sum(weight / total * accuracy for weight, _, accuracy in weighted_paths)
    shares: dict[tuple[int, int], float] = {}
    for weight, labels, accuracy in weighted_paths:
        for frame, label in enumerate(labels):
            shares[frame, label] = shares.get((frame, label), 0.0) + weight / total * (accuracy - expected)
    return shares, expected
