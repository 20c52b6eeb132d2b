"""The expansion engine, compared with its definition, and its invariants."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from fake_lm import FakeLM, symbols
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_rescore import close, path_costs, rescored_path_costs, total
from rescoring_cases import (
    EXACT,
    TABLE,
    assert_agrees_with_enumeration,
    assert_keeps_paths_within_the_beam,
    random_lattice,
    run,
    with_symbols,
)
from strategies import lattices

import ninja
from ninja.errors import LatticeError, ModelError, OptionError, SymbolError, VocabularyError
from ninja.lattice import Lattice
from ninja.rescoring import RescoreOptions, RescoreReport, rescore
from ninja.rescoring.options import LookAhead, Output

ALGORITHMS = ("arcbeam", "pushforward")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(lattice=lattices(max_states=6, max_word=8))
def test_unlimited_search_equals_enumeration_of_all_paths(algorithm: str, lattice: Lattice) -> None:
    assert_agrees_with_enumeration(lattice, replace(EXACT, algorithm=algorithm))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@settings(max_examples=20, deadline=None)
@given(
    lattice=lattices(max_states=6, max_word=8),
    beam=st.sampled_from([0.0, 2.0, 6.0]),
    k=st.integers(1, 3),
    look_ahead=st.sampled_from(["calibrated", "first-pass", "none"]),
)
def test_every_path_of_a_pruned_search_has_its_exact_cost(
    algorithm: str, lattice: Lattice, beam: float, k: int, look_ahead: LookAhead
) -> None:
    options = replace(EXACT, algorithm=algorithm, beam=beam, max_hyps=k, merge_order=0, look_ahead=look_ahead)
    lattice = with_symbols(lattice)
    exact = rescored_path_costs(lattice, FakeLM(), options)
    result = path_costs(run(lattice, options))
    assert result
    for cost in result:
        assert any(close([cost], [expected]) for expected in exact)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(lattice=lattices(max_states=6, max_word=8), beam=st.sampled_from([0.0, 1.0, 4.0]))
def test_an_exact_look_ahead_keeps_every_path_within_the_beam(algorithm: str, lattice: Lattice, beam: float) -> None:
    options = replace(EXACT, algorithm=algorithm, beam=beam, lm_weight=0.0)
    assert_keeps_paths_within_the_beam(with_symbols(lattice), options, prunes=False)


@pytest.mark.parametrize("seed", range(5))
def test_without_look_ahead_every_path_within_the_beam_is_kept(seed: int) -> None:
    lattice = random_lattice(seed, num_states=10, fan=1)  # no negative costs, so that the cost of a prefix only grows
    options = replace(EXACT, look_ahead="none", beam=6.0, prune_beam=math.inf, lm_weight=0.0)
    assert_keeps_paths_within_the_beam(lattice, options, prunes=True)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@settings(max_examples=20, deadline=None)
@given(lattice=lattices(max_states=6, max_word=8), merge_order=st.integers(0, 2))
def test_the_first_pass_best_path_survives_the_narrowest_search(
    algorithm: str, lattice: Lattice, merge_order: int
) -> None:
    options = replace(EXACT, algorithm=algorithm, beam=0.0, max_hyps=1, max_active=1, merge_order=merge_order)
    lattice = with_symbols(lattice)
    all_costs = path_costs(lattice)
    best = min(total(cost, options) for cost in all_costs)
    nearest = {cost.words for cost in all_costs if total(cost, options) <= best + 1e-9}
    result = path_costs(run(lattice, options))
    assert nearest & {cost.words for cost in result}
    if merge_order == 0:
        exact = rescored_path_costs(lattice, FakeLM(), options)
        assert any(close([cost], [expected]) for cost in result for expected in exact if cost.words in nearest)


def test_pruning_a_dead_end_keeps_other_paths() -> None:
    # Of the two paths from the start, the first leads to an arc beyond the beam.
    lattice = Lattice.from_arrays(
        "k", [0, 2, 3, 4, 4], [1, 2, 3, 3], [1, 2, 3, 4], [0, 0, 50, 0], [0, 0, 0, 0],
        [np.inf, np.inf, np.inf, 0], words=TABLE,
    )  # fmt: skip
    options = replace(EXACT, lm_weight=0.0, beam=5.0, prune_beam=math.inf, look_ahead="none")
    assert [cost.words for cost in path_costs(run(lattice, options))] == [(2, 4)]


def test_equal_paths_survive_a_beam_of_zero() -> None:
    unheard = 8
    parallel = Lattice.from_arrays(
        "k", [0, 2, 2], [1, 1], [unheard, unheard], [1, 2], [2, 0], [np.inf, 0], words=TABLE
    )  # fmt: skip
    result = run(parallel, replace(EXACT, beam=0.0, acoustic_scale=1.0, lm_weight=0.5, max_hyps=4))
    assert result.num_arcs == 1  # the cost of the second arc is lower by half a nat with LM weight 1/2
    even = parallel.with_costs(np.array([1, 2], np.float32), np.array([0.5, 0], np.float32))
    assert run(even, replace(EXACT, beam=0.0, acoustic_scale=1.0, lm_weight=0.5, max_hyps=4)).num_arcs == 2


def test_the_best_hypothesis_survives_a_limit_of_one() -> None:
    lm = FakeLM()
    scores = {word: lm.score((), word + 2) + lm.score((word + 2,), lm.eos) for word in range(1, 8)}
    best, middle, worst = (sorted(scores, key=scores.__getitem__)[i] for i in (-1, 3, 0))
    # The path with the best first-pass cost, in the middle, always survives, so that one of the others does.
    fan = Lattice.from_arrays(
        "k", [0, 3, 3], [1, 1, 1], [worst, middle, best], [1, 0, 1], [0, 0, 0], [np.inf, 0], words=TABLE
    )  # fmt: skip
    options = replace(EXACT, algorithm="pushforward", max_hyps=1, lm_weight=1.0, word_penalty=0.0, look_ahead="none")
    assert sorted(cost.words for cost in path_costs(run(fan, options))) == sorted([(best,), (middle,)])


@settings(max_examples=20, deadline=None)
@given(lattice=lattices(max_states=6, max_word=8))
def test_input_topology_holds_each_arcs_best_cost(lattice: Lattice) -> None:
    options = replace(EXACT, output="input")
    lattice = with_symbols(lattice)
    result = run(lattice, options)
    assert result.num_arcs == lattice.num_arcs
    assert np.array_equal(result.dst, lattice.dst)
    best = min(total(cost, options) for cost in rescored_path_costs(lattice, FakeLM(), options))
    assert min(total(cost, options) for cost in path_costs(result)) <= best + 1e-4


def test_limits_bound_the_expanded_arcs_and_keep_a_path() -> None:
    lattice = random_lattice(1, num_states=60, fan=8)
    wide, narrow = RescoreReport(), RescoreReport()
    options = RescoreOptions(max_unknown=1.0, acoustic_scale=0.5)
    list(rescore([("a", lattice)], FakeLM(), options, report=wide))
    limited = replace(options, max_hyps=1, max_active=3, beam=4.0)
    [(_, result)] = rescore([("a", lattice)], FakeLM(), limited, report=narrow)
    assert narrow.expanded_arcs < wide.expanded_arcs / 4
    assert result.is_final.any()


def test_equal_histories_are_advanced_once() -> None:
    # Two arcs of "w1" at different times, then "w2", have the histories (), (1) and (1 2).
    lattice = Lattice.from_arrays(
        "k", [0, 2, 3, 4, 4], [1, 2, 3, 3], [1, 1, 2, 2], [1, 1, 1, 1], [0, 0, 0, 0],
        [np.inf, np.inf, np.inf, 0], words=TABLE,
    )  # fmt: skip
    lm = FakeLM()
    run(lattice, EXACT, lm)
    assert lm.num_advanced == 2


def test_every_slot_is_released() -> None:
    lm = FakeLM()
    list(rescore([(f"{i}", random_lattice(i)) for i in range(20)], lm, RescoreOptions(max_unknown=1.0)))
    assert not lm.history
    stopped = rescore([(f"{i}", random_lattice(i)) for i in range(20)], lm, RescoreOptions(max_unknown=1.0))
    next(stopped)
    stopped.close()
    assert not lm.history


def test_more_hypotheses_never_cost_more_with_full_histories() -> None:
    lattice = random_lattice(3, num_states=12, fan=2)
    best = []
    for k in (1, 2, 8, 0):
        options = replace(EXACT, max_hyps=k, merge_order=0, output="best")
        [cost] = path_costs(run(lattice, options))
        best.append(total(cost, options))
    assert best[-1] == min(best)
    assert best == sorted(best, reverse=True)


@pytest.mark.parametrize("method", ["advance", "logprob"])
def test_a_model_that_returns_too_few_scores_is_refused(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = getattr(FakeLM, method)
    monkeypatch.setattr(FakeLM, method, lambda self, *batch: answer(self, *batch)[:-1])
    with pytest.raises(
        ModelError, match=rf"the model's {method} returned an array of shape \(0,\), but must return shape \(1,\)"
    ):
        run(random_lattice(7), EXACT)


def test_a_word_id_outside_the_table_is_refused() -> None:
    lattice = replace(random_lattice(6), words=symbols(3))
    with pytest.raises(SymbolError, match="word id"):
        run(lattice, EXACT)


def test_a_model_with_too_many_unknown_words_is_refused() -> None:
    with pytest.raises(VocabularyError, match=r"w8|w7|w6"):
        run(random_lattice(7), RescoreOptions(), FakeLM(num_words=3))


def test_a_model_without_unk_refuses_unknown_words() -> None:
    with pytest.raises(VocabularyError, match="unheard-of"):
        run(random_lattice(7), EXACT, FakeLM(unk=False))


@pytest.mark.parametrize("lm", ["english", 3, ninja.lm.load])
def test_a_value_that_is_not_a_model_is_refused(lm: object) -> None:
    message = "is not a language model; load a file with ninja.lm.load"
    for arguments in ({"lm": lm}, {"lm": FakeLM(), "old_lm": lm}):
        with pytest.raises(OptionError, match=message):
            list(rescore([], **arguments))  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=message):
        list(ninja.rescoring.iterate([], [(FakeLM(), EXACT), (lm, EXACT)]))  # type: ignore[list-item]
    with pytest.raises(OptionError, match="is not an n-gram model; only these can be composed"):
        ninja.lm.compose_ngram(random_lattice(1), lm)  # type: ignore[call-overload]


def test_an_expansion_beyond_the_arc_limit_fails_only_its_lattice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ninja.rescoring.engine.MAX_ARCS", 3000)
    good = random_lattice(5, num_states=5, fan=1)
    lm, errors = FakeLM(), list[ninja.NinjaError]()
    pairs = [("a", good), ("b", random_lattice(1, num_states=60)), ("c", good)]
    assert len(list(rescore(pairs, lm, EXACT, report=RescoreReport(on_error=errors.append)))) == 2
    assert [type(error) for error in errors] == [LatticeError]
    assert "key 'b': the expanded lattice exceeds 3000 arcs; set max_hyps" in str(errors[0])
    assert not lm.history


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lm_weight", 1.5),
        ("beam", math.nan),
        ("max_hyps", -1),
        ("max_active", 2**31),
        ("word_penalty", math.inf),
        ("algorithm", "magic"),
        ("num_best", 0),
        ("min_posterior", 1.5),
        ("min_posterior", math.nan),
        ("max_trie_nodes", -1),
        ("max_ngram_order", 1),
        ("max_arcs", 0),
        ("growth_ratio", 1.0),
        ("beam", -1.0),
    ],
)
def test_options_out_of_range_are_refused(name: str, value: object) -> None:
    with pytest.raises(OptionError, match=name):
        replace(EXACT, **{name: value})


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_costs_at_the_end_of_hypotheses_prune_none_of_them(algorithm: str) -> None:
    """Hypothesis lists have their graph cost at the end, and the look-ahead must not spread it over words."""
    states = 25  # three chains from state 0 with equal costs of words
    src = [0 if place == 0 else 8 * chain + place for chain in range(3) for place in range(8)]
    dst = [8 * chain + place + 1 for chain in range(3) for place in range(8)]
    order = np.argsort(src, kind="stable")
    final = np.full(states, np.inf)
    final[[8, 16, 24]] = 50.0, 51.0, 52.0
    lattice = Lattice.from_arrays(
        "list", np.searchsorted(np.array(src)[order], np.arange(states + 1)), np.array(dst)[order],
        np.tile([1, 2, 3, 4, 1, 2, 3, 4], 3)[order], np.zeros(24), np.zeros(24), final, words=TABLE,
    )  # fmt: skip
    options = replace(EXACT, algorithm=algorithm, lm_weight=0.9, beam=2.0)
    assert len(path_costs(run(lattice, options))) == 3


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_path_whose_large_costs_cancel_survives(algorithm: str) -> None:
    # Summed from the start, the path costs 1000; summed from the end, it costs 0, because 1e20 - 1000 is 1e20.
    acoustic = [1e20, -1e20, 1000]
    lattice = Lattice.from_arrays(
        "k", [0, 1, 2, 3, 3], [1, 2, 3], [1, 2, 3], [0, 0, 0], acoustic, [np.inf, np.inf, np.inf, 0], words=TABLE
    )  # fmt: skip
    options = RescoreOptions(algorithm=algorithm, acoustic_scale=1.0)
    assert run(lattice, options).word.tolist() == [1, 2, 3]


@pytest.mark.parametrize("output", ["lattice", "input", "best"])
@pytest.mark.parametrize("algorithm", [*ALGORITHMS, "pruned"])
def test_new_costs_beyond_float32_are_refused(algorithm: str, output: Output) -> None:
    class CostlyLM(FakeLM):
        def score(self, history: tuple[int, ...], word: int) -> float:
            return -3e38

    lattice = Lattice.from_arrays("k", [0, 1, 1], [1], [8], [0], [0], [np.inf, 0], words=TABLE)  # an unknown word
    options = RescoreOptions(algorithm=algorithm, lm_weight=1.0, unk_penalty=3e38, max_unknown=1.0, output=output)
    with pytest.raises(LatticeError, match="the costs of paths exceed the range of float32"):
        run(lattice, options, CostlyLM())


@pytest.mark.parametrize("output", ["lattice", "input", "best"])
@pytest.mark.parametrize(("acoustic", "unk_penalty"), [(-3e38, 0.0), (3e38, 0.0), (0.0, 3e38)])
def test_pruned_refuses_paths_whose_cost_exceeds_float32(acoustic: float, unk_penalty: float, output: Output) -> None:
    lattice = Lattice.from_arrays(
        "k", [0, 1, 2, 2], [1, 2], [8, 8], [0, 0], [acoustic] * 2, [np.inf, np.inf, 0], words=TABLE
    )  # fmt: skip
    options = RescoreOptions(
        algorithm="pruned", acoustic_scale=1.0, lm_weight=1.0, unk_penalty=unk_penalty, max_unknown=1.0, output=output
    )  # fmt: skip
    with pytest.raises(LatticeError, match="the costs of paths exceed the range of float32"):
        run(lattice, options)
