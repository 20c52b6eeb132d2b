"""Searches visit states and arcs with equal completions once, so that copies of paths do not change results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fake_lm import FakeLM
from hypothesis import assume, given
from hypothesis import strategies as st
from reference_merged import slow_merge
from reference_rescore import path_costs
from rescoring_cases import EXACT, TABLE, with_symbols
from strategies import lattices

from ninja.errors import LatticeError
from ninja.graph import best_path, linear, union
from ninja.lattice import Lattice, Scales, SymbolTable
from ninja.rescoring import RescoreOptions, RescoreReport, engine, rescore

NARROW = replace(EXACT, max_hyps=2, max_active=6, beam=4.0, merge_order=1)
WRITTEN = SymbolTable.from_words(
    ["<eps>", "w1", "W1,", "w2", "W2.", "w3", "“w3”"]
)  # ids 2n-1 and 2n have the same lexical form

algorithms = pytest.mark.parametrize("algorithm", ["arcbeam", "pushforward"])


def rescored(lattice: Lattice, options: RescoreOptions) -> tuple[Lattice, int]:
    """Rescore a lattice; also return the number of arcs that the search expanded."""
    report = RescoreReport()
    ((_, result),) = rescore([(lattice.key, lattice)], FakeLM(), options, report=report)
    return result, report.expanded_arcs


def with_few_costs(lattice: Lattice) -> Lattice:
    """Return a lattice with costs of 0 and 1, so that some completions are equal."""

    def rounded(cost: np.ndarray) -> np.ndarray:
        return np.where(np.isinf(cost), cost, (cost > 0).astype(np.float32))

    costs = {name: rounded(getattr(lattice, name)) for name in ("graph", "acoustic", "final_graph", "final_acoustic")}
    return replace(lattice, **costs)


def texts(lattice: Lattice) -> set[tuple[tuple[int, ...], float, float]]:
    """Return the distinct words and costs of all paths."""
    return {(words, acoustic, graph) for words, acoustic, graph, _ in path_costs(lattice)}


@algorithms
@given(lattice=lattices(max_states=8, max_word=2, max_labels=1))
def test_search_equals_search_of_the_lattice_with_merged_completions(algorithm: str, lattice: Lattice) -> None:
    lattice = with_symbols(with_few_costs(lattice))
    options = replace(NARROW, algorithm=algorithm)
    result, num_expanded = rescored(lattice, options)
    expected, num_expected = rescored(slow_merge(lattice), options)
    assert num_expanded == num_expected
    assert texts(result) == texts(expected)


@algorithms
@given(lattice=lattices(max_states=6, max_word=2, max_labels=2))
def test_an_unlimited_search_keeps_every_path_with_its_labels(algorithm: str, lattice: Lattice) -> None:
    lattice = with_symbols(with_few_costs(lattice))
    result, _ = rescored(lattice, replace(EXACT, algorithm=algorithm, lm_weight=0.0))
    assert path_costs(result) == path_costs(lattice)


@algorithms
@pytest.mark.parametrize("output", ["lattice", "input", "best"])
@given(lattice=lattices(max_states=7, max_word=3), forms=st.randoms(use_true_random=False))
def test_copies_of_paths_with_other_punctuation_do_not_change_scores(algorithm, output, lattice, forms):
    assume(not lattice.is_final[0])  # otherwise the union has additional epsilons

    def version(choose):
        words = [0 if word == 0 else 2 * word - choose() for word in lattice.word.tolist()]
        return replace(lattice, word=np.array(words, np.int32), words=WRITTEN)

    options = replace(NARROW, algorithm=algorithm, output=output, normalizer="basic")
    expected, num_expected = rescored(version(lambda: 1), options)
    versions = [version(lambda: forms.randint(0, 1)) for _ in range(3)]
    result, num_expanded = rescored(union(versions, determinize=False), options)
    assert num_expanded == num_expected
    lexical = replace(result, word=(result.word + result.word % 2).astype(np.int32))
    assert texts(lexical) == {(tuple(word + word % 2 for word in words), *costs) for words, *costs in texts(expected)}


@algorithms
def test_paths_that_differ_in_form_do_not_share_the_limit_of_active_hypotheses(algorithm):
    rng = np.random.default_rng(3)
    num = 60
    word = rng.integers(1, 4, num)
    lattice = Lattice.from_arrays(
        "k", [*range(0, num + 1, 3), num], np.repeat(np.arange(1, num // 3 + 1), 3), 2 * word,
        rng.uniform(0, 4, num), rng.uniform(0, 4, num), [*[np.inf] * (num // 3), 0.0], words=WRITTEN,
    )  # fmt: skip
    other_form = replace(lattice, word=(lattice.word - 1).astype(np.int32))
    options = replace(NARROW, algorithm=algorithm, max_active=3, normalizer="basic")
    expected_lattice, _ = rescored(lattice, options)
    both, _ = rescored(union([lattice, other_form], determinize=False), options)
    scales = Scales(options.acoustic_scale, word_penalty=options.word_penalty)
    path, expected = best_path(both, scales), best_path(expected_lattice, scales)
    assert (path.graph_cost, path.acoustic_cost) == (expected.graph_cost, expected.acoustic_cost)
    assert both.num_arcs == 2 * expected_lattice.num_arcs


def test_copies_of_arcs_count_towards_the_arc_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    copies = union([linear("k", [1, 2], symbols=TABLE)] * 8, determinize=False)
    assert rescored(copies, EXACT)[0].num_arcs == 16
    monkeypatch.setattr(engine, "MAX_ARCS", 15)
    report = RescoreReport(on_error=lambda error: errors.append(error))
    errors: list[Exception] = []
    assert list(rescore([("k", copies)], FakeLM(), replace(EXACT, algorithm="arcbeam"), report=report)) == []
    assert isinstance(errors[0], LatticeError)
    assert "the expanded lattice exceeds 15 arcs" in str(errors[0])
