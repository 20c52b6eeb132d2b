"""Random lattices through chains of formats, and kernels against OpenFst; disagreements are printed.

    python -m benchmarks.differential [--lattices 1000000] [--seconds 600] [--seed 1]

Formats: batches of lattices are written in one format, read, written in the next one, and so on, in random orders, so
that each ordered pair of formats is tested many times. Words, costs and alignments of every path must stay the same, as
far as all formats of the chain keep them. OpenFst, through pywrapfst: best and n best costs, determinization, pruning,
removal of epsilons, union, difference, equivalence, under costs that add up exactly. Lattices are small: at most seven
states.

The exit code is 1 after a disagreement. Fuzzing (``fuzz/run.py --drawn``) tests the native readers and writers.
"""

from __future__ import annotations

import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pywrapfst

import ninja
from benchmarks.command import command, option
from benchmarks.measure import scratch_folder
from ninja.errors import LatticeError
from ninja.formats.format import FIELDS, Format, by_name, fill_options
from ninja.graph import (
    best_path,
    connect,
    determinize,
    difference,
    equivalent,
    minimize,
    nbest,
    prune,
    push,
    remove_epsilons,
    union,
)
from ninja.lattice import Lattice, SymbolTable
from ninja.lattice.lattice import frozen
from ninja.openfst import from_fst, to_fst

WORDS = SymbolTable.from_words(["<eps>", "a", "b", "c", "d", "e"])
FORMATS = ("binary", "text", "slf", "sphinx", "pfsg", "plf", "openfst", "fst-ark", "k2", "native", "fst-text")
ROUNDED = frozenset(
    {"pfsg", "sphinx", "slf", "plf"}
)  # formats that store six digits, or integer logarithms of another base
BATCH = 100
TOTAL = frozenset({"graph", "acoustic"})  # the sum of both costs is kept
ENDS = ("final_graph", "final_acoustic")
Route = tuple[tuple[str, ...], float, float, tuple[int, ...]]  # words, costs, alignment of a path


def random_lattice(seed: int, least: int = -40) -> Lattice:
    """Return a random lattice: its states have times and are on paths, its costs are eighths."""
    chance = random.Random(seed)
    num_states = chance.randint(2, 7)
    time_of = sorted(chance.randint(0, 8) for _ in range(num_states))
    arcs = {(state, state + 1) for state in range(num_states - 1) if chance.random() < 0.9}
    for state in range(num_states - 1):
        for _ in range(chance.randint(0, 2)):
            arcs.add((state, chance.randint(state + 1, min(num_states - 1, state + 3))))
        if not any(src == state for src, _ in arcs):
            arcs.add((state, state + 1))
    for state in range(1, num_states):
        if not any(dst == state for _, dst in arcs):
            arcs.add((state - 1, state))
    rows = sorted(arcs) + [pair for pair in arcs if chance.random() < 0.3]
    rows.sort(key=lambda pair: pair[0])
    count = len(rows)
    labels = [[chance.randint(1, 30)] * (time_of[dst] - time_of[src]) for src, dst in rows]
    final = [chance.random() < 0.1 for _ in range(num_states - 1)] + [True]
    return Lattice.from_arrays(
        f"utt{seed}",
        np.searchsorted([src for src, _ in rows], np.arange(num_states + 1)),
        [dst for _, dst in rows],
        [chance.randint(0, 5) if chance.random() < 0.8 else 0 for _ in rows],
        [chance.randint(least, 40) / 8 for _ in range(count)],
        [chance.randint(least, 40) / 8 for _ in range(count)],
        [chance.randint(least, 40) / 8 if is_final else np.inf for is_final in final],
        [chance.randint(least, 40) / 8 if is_final else np.inf for is_final in final],
        ali_begin=np.cumsum([0, *map(len, labels)]),
        ali=np.array([label for arc_labels in labels for label in arc_labels], np.int32),
        words=WORDS,
    )


def routes(lattice: Lattice, keeps: frozenset[str]) -> list[Route]:
    """Return the paths of a lattice with the fields that are kept, sorted."""
    spell = str if lattice.words is None else lattice.words.word
    names = [spell(word) for word in lattice.word.tolist()]
    word, dst = lattice.word.tolist(), lattice.dst.tolist()
    graph, acoustic = lattice.graph.tolist(), lattice.acoustic.tolist()
    begin, ali = lattice.ali_begin.tolist(), lattice.ali.tolist()
    final_begin, final_ali = lattice.final_ali_begin.tolist(), lattice.final_ali.tolist()
    final_graph, final_acoustic = lattice.final_graph.tolist(), lattice.final_acoustic.tolist()
    arcs = lattice.arc_begin.tolist()
    paths: list[Route] = []

    def walk(
        state: int, spelled: tuple[str, ...], graph_cost: float, acoustic_cost: float, labels: tuple[int, ...]
    ) -> None:
        if final_graph[state] < np.inf and final_acoustic[state] < np.inf:
            costs = graph_cost + final_graph[state], acoustic_cost + final_acoustic[state]
            if "apart" in keeps:
                costs = costs[0] if "graph" in keeps else 0.0, costs[1] if "acoustic" in keeps else 0.0
            else:
                costs = sum(costs) if {"graph", "acoustic"} <= keeps else 0.0, 0.0
            whole = (*labels, *final_ali[final_begin[state] : final_begin[state + 1]])
            paths.append((spelled, *costs, whole if "alignments" in keeps else ()))
        for arc in range(arcs[state], arcs[state + 1]):
            walk(
                dst[arc],
                (*spelled, names[arc]) if word[arc] else spelled,
                graph_cost + graph[arc],
                acoustic_cost + acoustic[arc],
                (*labels, *ali[begin[arc] : begin[arc + 1]]),
            )

    walk(0, (), 0.0, 0.0, ())
    return sorted(paths)


def agree(routes_a: list[Route], routes_b: list[Route], tolerance: float) -> bool:
    """Return whether two lattices have the same paths; costs may differ by the tolerance."""
    if not tolerance:
        return routes_a == routes_b
    if len(routes_a) != len(routes_b):
        return False
    remaining = list(routes_b)
    for spelled, graph_a, acoustic_a, labels in routes_a:
        for index, (words, graph, acoustic, ali) in enumerate(remaining):
            is_close = abs(graph_a - graph) <= tolerance and abs(acoustic_a - acoustic) <= tolerance
            if is_close and (words, ali) == (spelled, labels):
                del remaining[index]
                break
        else:
            return False
    return True


def respelled(lattice: Lattice) -> Lattice:
    """Renumber the words of a lattice by our symbol table."""
    if lattice.words is None or lattice.words is WORDS:
        return lattice
    word = [WORDS.id(lattice.words.word(word)) for word in lattice.word.tolist()]
    return lattice.replace(word=frozen(np.array(word, np.int32)), words=WORDS)


def through(lattices: Sequence[Lattice], form: Format, folder: Path) -> list[Lattice]:
    """Write lattices in a format and read them again, in their order."""
    assert form.write is not None
    is_folder = form.write.files == "each"
    extension = form.extensions[-1] if form.name == "fst-text" else next(iter(form.extensions), ".ark")
    target = folder / ("out" if is_folder else f"out{extension}")
    with ninja.write(target, to=form.name) as output:
        for index, lattice in enumerate(lattices):
            output.write(lattice.with_key(f"utt{index:04}"))
    try:
        # Starting a thread takes longer than reading a small file.
        inputs = ninja.read(target, words=WORDS, format=form.name, read_ahead=False)
        return [respelled(lattice) for _, lattice in inputs]
    finally:
        if is_folder:
            shutil.rmtree(target)


def chained(lattices: Sequence[Lattice], chain: Sequence[str], folder: Path) -> tuple[int, str] | None:
    """Convert lattices through formats; return the index of the first changed lattice and the formats, or None."""
    now = list(lattices)
    keeps = frozenset(FIELDS)
    expected: dict[frozenset[str], list[list[Route]]] = {}  # paths of the lattices, by the fields that are kept
    rounded = False
    for index, name in enumerate(chain):
        form = by_name(name, "write")
        assert form.write is not None
        keeps &= form.stored_fields(fill_options(form.write.options, {}, form.name))
        rounded |= name in ROUNDED
        now = through(now, form, folder)
        if len(now) != len(lattices):
            return 0, f"{len(now)} of {len(lattices)} lattices after {' > '.join(chain[: index + 1])}"
        of_paths = keeps & {"graph", "acoustic", "apart", "alignments"}
        if of_paths not in expected:
            expected[of_paths] = [routes(lattice, of_paths) for lattice in lattices]
        tolerance = 1e-2 * (index + 1) if rounded else 0.0
        for number, (lattice, first) in enumerate(zip(now, expected[of_paths], strict=True)):
            if not agree(routes(lattice, of_paths), first, tolerance):
                return number, f"after {' > '.join(chain[: index + 1])}"
    return None


def machine(lattice: Lattice) -> Any:
    """Return a lattice as OpenFst's, without epsilons and deterministic, as OpenFst makes it."""
    return pywrapfst.determinize(to_fst(lattice).rmepsilon())


def are_equivalent(a: Any, b: Any) -> bool:
    """Return whether two deterministic machines are equivalent; machines without a path have no start state."""
    if a.start() < 0 or b.start() < 0:
        return bool(a.start() == b.start())
    return bool(pywrapfst.equivalent(a, b, delta=2**-6))


def best_cost(lattice: Lattice, second: Lattice) -> bool:
    """Compare the cost of the best path with OpenFst's."""
    distance = pywrapfst.shortestdistance(to_fst(lattice), reverse=True)[0]
    path = best_path(lattice)
    return float(distance) == path.graph_cost + path.acoustic_cost


def best_costs(lattice: Lattice, second: Lattice) -> bool:
    """Compare the costs of the best four word sequences with OpenFst's."""
    shortest = pywrapfst.shortestpath(machine(lattice), nshortest=4)
    costs = sorted(route[1] for route in routes(from_fst(shortest), TOTAL))
    return costs == [path.graph_cost + path.acoustic_cost for path in nbest(lattice, 4)]


def determinization(lattice: Lattice, second: Lattice) -> bool:
    """Compare the determinized lattice with OpenFst's."""
    return are_equivalent(to_fst(determinize(lattice)), machine(lattice))


def pruning(lattice: Lattice, second: Lattice) -> bool:
    """Compare pruning with OpenFst's: number of arcs and states, words and costs."""
    theirs = to_fst(lattice)
    theirs.prune(weight="3.5")
    ours = prune(lattice, 3.5)
    size = theirs.num_states(), sum(theirs.num_arcs(state) for state in theirs.states())
    return size == (ours.num_states, ours.num_arcs) and are_equivalent(
        machine(ours), pywrapfst.determinize(theirs.rmepsilon())
    )


def rewriting(lattice: Lattice, second: Lattice) -> bool:
    """Compare epsilon removal, pushing and minimization with OpenFst's."""
    expected = machine(lattice)
    return all(
        are_equivalent(machine(operation(lattice)), expected)
        for operation in (remove_epsilons, push, minimize, connect)
    )


def unions(lattice: Lattice, second: Lattice) -> bool:
    """Compare a union with OpenFst's."""
    return are_equivalent(
        machine(union([lattice, second])), pywrapfst.determinize(to_fst(lattice).union(to_fst(second)).rmepsilon())
    )


def without_best(lattice: Lattice, second: Lattice) -> bool:
    """Compare the difference with the best path's words with OpenFst's."""
    words = best_path(lattice).words
    path = ninja.graph.linear(lattice.key, words.tolist(), symbols=WORDS)
    theirs = pywrapfst.difference(machine(lattice), pywrapfst.determinize(to_fst(path).rmepsilon()))
    try:
        return are_equivalent(machine(difference(lattice, words)), pywrapfst.determinize(theirs.rmepsilon()))
    except LatticeError:
        return theirs.connect().start() < 0


def equivalence(lattice: Lattice, second: Lattice) -> bool:
    """Compare the equivalence of two lattices with OpenFst's."""
    return equivalent(lattice, second) == are_equivalent(machine(lattice), machine(second)) and equivalent(
        lattice, push(lattice)
    )


CHECKS: tuple[Callable[[Lattice, Lattice], bool], ...] = (
    best_cost,
    best_costs,
    determinization,
    pruning,
    rewriting,
    unions,
    without_best,
    equivalence,
)


def format_lattice(lattice: Lattice) -> str:
    """Return the arcs and final states of a lattice as text."""
    src = np.repeat(np.arange(lattice.num_states), np.diff(lattice.arc_begin)).tolist()
    columns = src, lattice.dst.tolist(), lattice.word.tolist(), lattice.graph.tolist(), lattice.acoustic.tolist()
    rows = [" ".join(map(str, row)) for row in zip(*columns, strict=True)]
    finals = [
        f"{state} {lattice.final_graph[state]} {lattice.final_acoustic[state]}" for state in range(lattice.num_states)
    ]
    return "\n".join([*rows, *(row for row in finals if "inf" not in row)])


@command
@option("--lattices", "most", default=1_000_000)
@option("--seconds", default=600.0)
@option("--seed", default=1)
def main(most: int, seconds: float, seed: int) -> None:
    chance = random.Random(seed)
    until = time.monotonic() + seconds
    counts: Counter[str] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    disagreements = 0
    number = seed << 32
    with scratch_folder() as scratch:
        while time.monotonic() < until and counts["lattices"] < most:
            chain = chance.sample(FORMATS, 5)
            least = 0 if "plf" in chain else -40  # its scores are logarithms of probabilities
            lattices = [random_lattice(number + index, least) for index in range(BATCH)]
            number += BATCH
            counts["lattices"] += BATCH
            pairs.update(pairwise(chain))
            difference_at = chained(lattices, chain, Path(scratch))
            counts["written and read"] += BATCH * len(chain)
            if difference_at is not None:
                disagreements += 1
                at, stage = difference_at
                print(f"{stage}:\n{format_lattice(lattices[at])}", flush=True)
            for lattice, second in pairwise(lattices):
                check = chance.choice(CHECKS)
                counts[check.__name__] += 1
                if not check(lattice, second):
                    disagreements += 1
                    print(f"{check.__name__}:\n{format_lattice(lattice)}\nand {format_lattice(second)}", flush=True)
            if disagreements >= 5:
                break
    print(dict(counts), f"{len(pairs)} of {len(FORMATS) * (len(FORMATS) - 1)} pairs of formats, each at least")
    print(f"{BATCH * min(pairs.values())} times; {disagreements} disagreements")
    sys.exit(bool(disagreements))


if __name__ == "__main__":
    main()
