"""Test the compiled modules on this machine against plain Python code that enumerates all paths.

The reference implementations use no compiled modules, so their results differ from the results of a build that is
defective, was made for another processor, or has unsafe optimisations. The lattices are the same on all machines; some
contain states that are on no complete path, epsilon arcs, equal costs, and probabilities that underflow.
"""

from __future__ import annotations

import hashlib
import importlib
import math
import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ninja import _core, graph
from ninja.consensus import mbr_decode
from ninja.errors import LatticeError, NinjaError
from ninja.io.reader import read
from ninja.io.writing import write
from ninja.lattice import Lattice, Scales
from ninja.lattice.symbols import SymbolTable
from ninja.lm.load import load
from ninja.rescoring import RescoreOptions
from ninja.rescoring.run import rescore

LATTICES = 60
SCALES = Scales(acoustic=0.1)
TABLE = SymbolTable.from_words(["<eps>", "a", "b", "c"])
ARCHIVE = "f5c5234cfad509afcac6858d92ccb1da367fc6f4f2e00934cbfb5e86c3e5da9c"  # SHA-256 of the archive that Kaldi writes
ARPA = (
    "\\data\\\nngram 1=6\nngram 2=3\n\n\\1-grams:\n-99\t<s>\t-0.5\n-1\t</s>\n-0.75\t<unk>\n"
    "-0.5\ta\t-0.25\n-1.25\tb\t-0.125\n-0.625\tc\n\n\\2-grams:\n-0.25\t<s> a\n-0.375\ta b\n-0.875\tb </s>\n\n\\end\\\n"
)


class Wrong(Exception):
    """A result of a compiled module differs from the result of the reference implementation."""


@dataclass(frozen=True, slots=True)
class Walk:
    """A path that was enumerated in Python."""

    arcs: tuple[int, ...]
    words: tuple[int, ...]  # without epsilon
    cost: float  # total scaled cost


def random_lattices() -> list[Lattice]:
    """Return small pseudo-random lattices, which are the same on all machines."""
    state = 20_261_123

    def draw(count: int) -> int:
        nonlocal state
        state = (state * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) % 2**64
        return (state >> 33) % count

    lattices = []
    for number in range(LATTICES):
        states = 3 + draw(5)
        pairs = sorted((src, src + 1 + draw(states - 1 - src)) for src in range(states - 1) for _ in range(1 + draw(3)))
        begin = np.searchsorted([src for src, _ in pairs], np.arange(states + 1))
        step = 900.0 if number % 10 == 0 else 0.25  # some posteriors underflow
        final = [math.inf] * (states - 1) + [draw(4) / 4]
        if draw(2):
            final[1 + draw(states - 1)] = 0.5
        lm, acoustic = ([step * (draw(16) - 2) for _ in pairs] for _ in range(2))
        dst, word = [state for _, state in pairs], [draw(4) for _ in pairs]
        lattices.append(Lattice.from_arrays(f"u{number:02}", begin, dst, word, lm, acoustic, final, words=TABLE))
    return lattices


def walks(lattice: Lattice, scales: Scales = SCALES) -> list[Walk]:
    """Return all paths from the start of a lattice to a final state, enumerated in plain Python."""
    word, dst = lattice.word.tolist(), lattice.dst.tolist()
    arc_begin, lm, acoustic = (array.tolist() for array in (lattice.arc_begin, lattice.graph, lattice.acoustic))
    final = list(zip(lattice.final_graph.tolist(), lattice.final_acoustic.tolist(), strict=True))
    paths: list[Walk] = []
    stack: list[tuple[int, tuple[int, ...], float]] = [(0, (), 0.0)]
    while stack:
        at, arcs, cost = stack.pop()
        if final[at][0] < 1e30:
            total = cost + scales.lm * final[at][0] + scales.acoustic * final[at][1]
            paths.append(Walk(arcs, tuple(word[arc] for arc in arcs if word[arc]), total))
        for arc in range(arc_begin[at], arc_begin[at + 1]):
            more = scales.lm * lm[arc] + scales.acoustic * acoustic[arc]
            stack.append((dst[arc], (*arcs, arc), cost + more))
    return paths


def by_words(paths: list[Walk]) -> dict[tuple[int, ...], float]:
    """Return a map from each word sequence to the lowest cost of its paths."""
    least: dict[tuple[int, ...], float] = defaultdict(lambda: math.inf)
    for walk in paths:
        least[walk.words] = min(least[walk.words], walk.cost)
    return dict(least)


def check_close(name: str, result: float, expected: float, tolerance: float = 1e-9) -> None:
    """Raise `Wrong` unless ``abs(result - expected) <= tolerance * max(1, abs(expected))``; a NaN is also wrong."""
    if not abs(result - expected) <= tolerance * max(1.0, abs(expected)):
        raise Wrong(f"{name} is {result!r}, but must be {expected!r}")


def _costs() -> None:
    for stub in Path(__file__).parent.glob("_[a-z]*.pyi"):  # loading a module may change the floating-point mode
        importlib.import_module(f"ninja.{stub.stem}")
    for value in (math.nan, -math.inf, math.inf):
        try:
            Lattice.from_arrays("u", [0, 1, 1], [1], [1], [0.0], [value], [math.inf, 0.0])
        except LatticeError:
            continue
        raise Wrong(f"creating a lattice with an arc of cost {value} should be an error, but succeeded")
    if option := _core.unsafe_option():
        raise Wrong(f"the compiled modules were built with {option}")
    tiny = np.array([1, 1]).view(np.float64)  # subnormal numbers
    if (tiny + tiny).view(np.int64).tolist() != [2, 2]:
        raise Wrong("numbers below 2e-308 become 0 (-ffast-math)")


def _best_path() -> None:
    for lattice in random_lattices():
        paths = walks(lattice)
        cost = graph.best_path(lattice, SCALES).cost(SCALES)
        check_close(f"{lattice.key}: the cost of the best path", cost, min(walk.cost for walk in paths))
        least = by_words(paths)
        nbest = graph.nbest(lattice, 5, SCALES)
        for path, cost in zip(nbest, sorted(least.values()), strict=False):
            check_close(f"{lattice.key}: a cost in the n-best list", path.cost(SCALES), cost)
        if len(nbest) != min(5, len(least)):
            raise Wrong(f"{lattice.key}: the n-best list has {len(nbest)} hypotheses instead of {min(5, len(least))}")


def _posteriors() -> None:
    for lattice in random_lattices():
        paths = walks(lattice)
        best = min(walk.cost for walk in paths)
        mass = math.fsum(math.exp(best - walk.cost) for walk in paths)
        posteriors = graph.posteriors(lattice, SCALES).tolist()
        for arc in range(lattice.num_arcs):
            expected = math.fsum(math.exp(best - walk.cost) for walk in paths if arc in walk.arcs) / mass
            check_close(f"{lattice.key}: the posterior of arc {arc}", posteriors[arc], expected)
        total = graph.forward_backward(lattice, SCALES).total
        check_close(f"{lattice.key}: the cost of all paths", total, best - math.log(mass))


def _prune() -> None:
    for lattice in random_lattices():
        paths = walks(lattice)
        best = min(walk.cost for walk in paths)
        expected = sorted({arc for walk in paths if walk.cost <= best + 1.03 for arc in walk.arcs})
        pruned = graph.prune(lattice, 1.03, SCALES, return_arc_map=True)[1].tolist()
        if sorted(pruned) != expected:
            raise Wrong(f"{lattice.key}: pruning keeps the arcs {sorted(pruned)} instead of {expected}")


def _determinize() -> None:
    for lattice in random_lattices()[1:10]:
        expected, result = by_words(walks(lattice)), by_words(walks(graph.determinize(lattice, 0.1)))
        if expected.keys() != result.keys():
            raise Wrong(f"{lattice.key}: determinization changes the word sequences")
        for words, cost in expected.items():
            check_close(
                f"{lattice.key}: the cost of {words} after determinization", result[words], cost, 1e-5
            )  # single precision


def _edits(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    row = list(range(len(second) + 1))
    for i, a in enumerate(first, start=1):
        before, row[0] = row[0], i
        for j, b in enumerate(second, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]


def _oracle() -> None:
    for lattice in random_lattices():
        for reference in ((1, 2), (3,), (2, 2, 1, 3)):
            best = graph.oracle(lattice, reference)
            errors = best.substitutions + best.insertions + best.deletions
            check_close(
                f"{lattice.key}: the number of oracle errors",
                errors,
                min(_edits(w.words, reference) for w in walks(lattice)),
            )


def _consensus() -> None:
    for lattice in random_lattices():
        consensus = mbr_decode(lattice, SCALES)
        for at, begin in enumerate(consensus.bin_begin[:-1]):
            share = float(consensus.posterior[begin : consensus.bin_begin[at + 1]].astype(np.float64).sum())
            check_close(f"{lattice.key}: the sum of the posteriors in bin {at}", share, 1.0, 1e-5)
        weights = by_words_mass(lattice)
        risk = math.fsum(p * _edits(words, tuple(consensus.words.tolist())) for words, p in weights.items())
        if not risk <= consensus.bayes_risk + 1e-4:
            raise Wrong(
                f"{lattice.key}: the expected number of errors is {risk}, above the bound {consensus.bayes_risk}"
            )


def by_words_mass(lattice: Lattice) -> dict[tuple[int, ...], float]:
    """Return a map from each word sequence to its probability."""
    paths = walks(lattice)
    best = min(walk.cost for walk in paths)
    mass = math.fsum(math.exp(best - walk.cost) for walk in paths)
    share: dict[tuple[int, ...], float] = defaultdict(float)
    for walk in paths:
        share[walk.words] += math.exp(best - walk.cost) / mass
    return dict(share)


def _archive() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in ("x.ark", "x.txt"):
            path = Path(folder, name)
            with write(path) as output:
                for lattice in random_lattices():
                    output.write(lattice)
            for original, (_, lattice) in zip(random_lattices(), read(path), strict=True):
                if (
                    original.graph.tobytes() != lattice.graph.tobytes()
                    or original.dst.tobytes() != lattice.dst.tobytes()
                ):
                    raise Wrong(
                        f"{original.key}: the costs or arcs read from {name} differ from the written costs or arcs"
                    )
        for cost in ("nan", "-inf", "inf"):
            Path(folder, "y.txt").write_text(f"u\n0 1 1 {cost},0,\n1\n\n")
            try:
                list(read(Path(folder, "y.txt")))
            except NinjaError:
                continue
            raise Wrong(f"an archive with an arc of cost {cost} was read without an error")
        digest = hashlib.sha256(Path(folder, "x.ark").read_bytes()).hexdigest()
    if digest != ARCHIVE:
        raise Wrong(f"the archive's SHA-256 is {digest}, but must be {ARCHIVE}")


def _language_model() -> None:
    unlimited = replace(RescoreOptions(), max_hyps=1000, beam=1e6, max_active=0, prune_beam=None)
    options = replace(unlimited, lm_weight=0.5, acoustic_scale=0.1, output="best", max_unknown=1.0)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.arpa")
        Path(path).write_text(ARPA)
        lm = load(path)
    ids = [lm.vocabulary.id(word) for word in ("a", "b", "</s>")]
    slots, logprobs = lm.start(1), []
    for word in ids:
        logprobs.append(float(lm.logprob(slots, np.array([word], np.int32))[0]))
        slots = lm.advance(slots, np.array([word], np.int32))
    for value, log10 in zip(logprobs, (-0.25, -0.375, -0.875), strict=True):
        check_close("a score of the n-gram model", value, log10 * math.log(10), 1e-6)
    grams = {(0, 1): -0.25, (1, 2): -0.375, (2, 4): -0.875}
    single, back = {1: -0.5, 2: -1.25, 3: -0.625, 4: -1.0}, {0: -0.5, 1: -0.25, 2: -0.125, 3: 0.0}
    for lattice in random_lattices()[1:10]:
        expected = math.inf
        for walk in walks(lattice, Scales(lm=0.5, acoustic=0.1)):
            history, score = 0, 0.0
            for word in (*walk.words, 4):
                score += grams.get((history, word), back[history] + single[word])
                history = word
            expected = min(expected, walk.cost - 0.5 * math.log(10) * score)
        ((_, result),) = rescore([(lattice.key, lattice)], lm, options)
        cost = min(walk.cost for walk in walks(result, Scales(acoustic=0.1)))
        check_close(f"{lattice.key}: the cost of the rescored best path", cost, expected, 1e-5)


CASES: dict[str, Callable[[], None]] = {
    "numbers": _costs,
    "best paths": _best_path,
    "posteriors": _posteriors,
    "pruning": _prune,
    "determinization": _determinize,
    "oracle": _oracle,
    "consensus": _consensus,
    "archives": _archive,
    "rescoring": _language_model,
}


def run() -> Iterator[tuple[str, str | None]]:
    """Run all test cases; yield ``(name, error)`` for each case, where the error is None if the case passed."""
    for name, case in CASES.items():
        try:
            case()
        except Exception as error:  # a faulty build may raise anything
            yield name, str(error) if isinstance(error, Wrong) else f"{type(error).__name__}: {error}"
        else:
            yield name, None
