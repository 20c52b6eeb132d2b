"""The algorithms that score sentences, compared with their definitions, and their invariants."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import reference_sentences as reference
from fake_lm import FakeLM
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_rescore import PathCost, close, path_cost, path_costs, paths, rescored_path_costs, total
from reference_sentences import spell_nodes
from rescoring_cases import TABLE, assert_agrees_with_enumeration, random_lattice, run, with_symbols
from strategies import lattices

import ninja
from ninja.errors import LatticeError, ModelError, VocabularyError
from ninja.graph import best_path, prune
from ninja.lattice import Lattice, Scales
from ninja.rescoring import CarryOver, RescoreOptions, RescoreReport, rescore
from ninja.rescoring.sentences import NO_NODE, Unfolded, unfold_best_paths, unfold_cover, unfold_prefixes

ALGORITHMS = ("nbest", "cover", "trie")
ALL = ("arcbeam", "pushforward", "pruned", *ALGORITHMS)
EVERYTHING = RescoreOptions(
    lm_weight=0.75, acoustic_scale=0.5, word_penalty=0.25, unk_penalty=2.0, max_unknown=1.0,
    num_best=100_000, min_posterior=0.0, max_trie_nodes=0, merge_order=0, beam=math.inf, prune_beam=math.inf,
)  # fmt: skip
SMALL = lattices(max_states=6, max_word=8)
TINY = lattices(max_states=5, max_word=6)


def unfolded(lattice: Lattice, options: RescoreOptions) -> tuple[Unfolded, reference.Costs]:
    costs = reference.Costs(lattice, FakeLM(), options)
    lm_word = [-1 if (word := costs.lm_word(arc)) is None else word for arc in range(lattice.num_arcs)]
    arguments = lattice, np.array(lm_word, np.int32), costs.lm.eos
    if options.algorithm == "nbest":
        return unfold_best_paths(*arguments, 100, options.scales), costs
    return (unfold_cover if options.algorithm == "cover" else unfold_prefixes)(*arguments, options), costs


@pytest.mark.parametrize("algorithm", ["cover", "trie"])
@given(lattice=SMALL)
def test_without_pruning_every_path_is_scored_as_a_sentence(algorithm: str, lattice: Lattice) -> None:
    assert_agrees_with_enumeration(lattice, replace(EVERYTHING, algorithm=algorithm))


@given(lattice=SMALL, num_best=st.sampled_from([1, 2, 5, 1000]))
def test_nbest_scores_the_best_path_of_each_of_the_n_best_word_sequences(lattice: Lattice, num_best: int) -> None:
    options = replace(EVERYTHING, algorithm="nbest", num_best=num_best)
    lattice = with_symbols(lattice)
    costs = reference.Costs(lattice, FakeLM(), options)
    expected = reference.nbest(costs)
    result = run(lattice, options)
    assert len({cost.words for cost in path_costs(result)}) == len(path_costs(result)) == len(expected)
    exact = rescored_path_costs(lattice, FakeLM(), options)
    for cost in path_costs(result):
        assert any(close([cost], [expected_cost]) for expected_cost in exact)
    old = Counter(round(total_of(lattice, cost, options), 3) for cost in path_costs(result))
    assert old == Counter(round(cost, 3) for cost, _ in expected)
    best = best_path(result, Scales(options.acoustic_scale, word_penalty=options.word_penalty))
    [only] = path_costs(run(lattice, replace(options, output="best")))
    assert best.cost(options.scales) == pytest.approx(total(only, options), abs=1e-4)
    assert total(only, options) == pytest.approx(min(total(cost, options) for cost in path_costs(result)), abs=1e-4)


def total_of(lattice: Lattice, cost: PathCost, options: RescoreOptions) -> float:
    """Return the first-pass cost of the best path with these words and labels."""
    costs = [path for path in path_costs(lattice) if (path.words, path.labels) == (cost.words, cost.labels)]
    return min(total(path, options) for path in costs)


@given(lattice=SMALL, min_posterior=st.sampled_from([0.0, 0.1, 0.3, 0.5, 1.0]))
def test_states_are_copied_by_the_posterior_of_entering_arcs(lattice: Lattice, min_posterior: float) -> None:
    options = replace(EVERYTHING, algorithm="cover", min_posterior=min_posterior)
    result, costs = unfolded(with_symbols(lattice), options)
    src = np.repeat(np.arange(result.state_map.size), np.diff(result.arc_begin))
    arcs = Counter(zip(result.state_map[src], result.arc_map, result.state_map[result.dst], strict=True))
    copied = reference.expand_by_posterior(costs, min_posterior)
    expected = Counter((copied.of[a], arc, copied.of[b]) for a, arc, b in copied.arcs)
    assert arcs == expected
    assert Counter(result.state_map.tolist()) == Counter(copied.of)


def test_arcs_that_share_a_copy_are_probable_together() -> None:
    # None of the three arcs to state 1 is probable, but the arc after them is, and has its own copy of state 2.
    fan = Lattice.from_arrays(
        "k", [0, 4, 5, 5], [1, 1, 1, 2, 2], [1, 2, 3, 4, 5], [0, 0, 0, 1, 0], [0] * 5, [np.inf, np.inf, 0], words=TABLE
    )
    result, _ = unfolded(fan, replace(EVERYTHING, algorithm="cover", min_posterior=0.5))
    assert sorted(result.state_map.tolist()) == [0, 1, 2, 2]


@given(lattice=SMALL, min_posterior=st.sampled_from([0.1, 0.5, 1.0]))
def test_an_arc_has_the_score_on_the_best_path_of_the_cover_through_it(lattice: Lattice, min_posterior: float) -> None:
    options = replace(EVERYTHING, algorithm="cover", min_posterior=min_posterior)
    lattice = apart(with_symbols(lattice))
    result, costs = unfolded(lattice, options)
    spelled = spell_nodes(result)
    src = np.repeat(np.arange(result.state_map.size), np.diff(result.arc_begin))
    copied = reference.CopiedLattice(
        result.state_map.tolist(),
        list(zip(src.tolist(), result.arc_map.tolist(), result.dst.tolist(), strict=True)),
    )
    arc_cost, end_cost = reference.cover(copied, costs)
    assert set(arc_cost) == set(range(result.dst.size))
    for number, node in enumerate(result.arc_node):
        history = spelled[node][:-1] if node != NO_NODE else ()
        assert costs.new(int(result.arc_map[number]), history) == pytest.approx(arc_cost[number], abs=1e-9)
    for copy, node in enumerate(result.final_node):
        assert (node != NO_NODE) == (copy in end_cost)
        if node != NO_NODE:
            end = int(result.state_map[copy])
            assert costs.new_end(end, spelled[node][:-1]) == pytest.approx(end_cost[copy], abs=1e-9)


def apart(lattice: Lattice) -> Lattice:
    """Give every path a distinct first-pass cost."""
    return lattice.with_costs(lattice.graph + np.float32(2**-10) * np.sqrt(np.arange(2, lattice.num_arcs + 2)))


def test_parallel_arcs_of_different_words_have_separate_scores() -> None:
    twins = Lattice.from_arrays(
        "k", [0, 2, 3, 3], [1, 1, 2], [1, 2, 3], [1, 2, 0], [0, 0, 0], [np.inf, np.inf, 0], words=TABLE
    )
    options = replace(EVERYTHING, algorithm="cover", lm_weight=1.0, min_posterior=1.0)
    result = run(twins, options)
    lm = FakeLM()
    assert result.graph.tolist() == [-lm.score((), 3), -lm.score((), 4), -lm.score((3,), 5)]


@given(lattice=SMALL, beam=st.sampled_from([0.0, 1.0, 4.0, math.inf]), nodes=st.sampled_from([0, 1, 2, 4, 8]))
def test_the_trie_contains_the_prefixes_of_best_prospect(lattice: Lattice, beam: float, nodes: int) -> None:
    options = replace(EVERYTHING, algorithm="trie", prune_beam=beam, max_trie_nodes=nodes)
    result, costs = unfolded(with_symbols(lattice), options)
    prefixes = spell_nodes(result)
    expected = reference.best_prefixes(costs, beam)
    prospect = {words: cost for cost, words in expected}
    assert len(set(prefixes)) == len(prefixes)
    costs_got = [prospect[words] for words in prefixes]
    assert costs_got == pytest.approx(sorted(costs_got), abs=1e-6)
    assert costs_got == pytest.approx([cost for cost, _ in expected[: len(prefixes)]], abs=1e-6)
    if nodes == 0:
        assert len(prefixes) == len(expected)
    else:
        first_end = next(place for place, words in enumerate(prefixes) if words[-1] == costs.lm.eos)
        assert len(prefixes) == min(len(expected), max(nodes, first_end + 1))


@given(lattice=TINY, merge_order=st.integers(1, 3), beam=st.sampled_from([4.0, math.inf]))
def test_prefixes_with_the_last_words_of_better_prefixes_are_merged(
    lattice: Lattice, merge_order: int, beam: float
) -> None:
    options = replace(EVERYTHING, algorithm="trie", merge_order=merge_order, prune_beam=beam)
    result, costs = unfolded(apart(with_symbols(lattice)), options)
    expected = reference.merged_prefixes(costs, reference.best_prefixes(costs, beam), beam, merge_order)
    assert Counter(spell_nodes(result)) == Counter(expected)


@given(
    lattice=TINY,
    beam=st.sampled_from([0.5, 4.0, math.inf]),
    nodes=st.sampled_from([0, 2, 4, 8]),
    merge_order=st.integers(0, 2),
)
def test_paths_beyond_the_trie_continue_after_the_longest_suffix_in_it(
    lattice: Lattice, beam: float, nodes: int, merge_order: int
) -> None:
    options = replace(EVERYTHING, algorithm="trie", prune_beam=beam, max_trie_nodes=nodes, merge_order=merge_order)
    lattice = apart(with_symbols(lattice))
    result, costs = unfolded(lattice, options)
    trie = spell_nodes(result)
    expected = []
    best = min(costs.first_pass_path(end, arcs) for end, arcs in paths(lattice))
    num_exact = 0
    for end, arcs in paths(lattice):
        graph = reference.trie_path(costs, trie, beam, end, arcs)
        if graph is not None:
            old = [float(lattice.graph[arc]) for arc in arcs]
            expected.append(path_cost(lattice, end, arcs, old, 0.0)._replace(graph=graph))
        within = costs.first_pass_path(end, arcs) <= best + beam - 1e-6
        if within and (*costs.lm_words(arcs), costs.lm.eos) in trie:
            assert graph == pytest.approx(costs.new_path(end, arcs), abs=1e-6)
            num_exact += 1
    assert num_exact
    assert close(path_costs(run(lattice, options)), sorted(expected))


def test_merging_prefixes_keeps_the_best_sentence_in_the_trie() -> None:
    # The best path is "a a"; "a" leads to the same state after an epsilon, but not as cheaply.
    lattice = Lattice.from_arrays(
        "k", [0, 2, 3, 5, 5], [1, 2, 3, 3, 3], [1, 0, 1, 1, 0], [0, 0, 0, 5, 4], [0] * 5,
        [np.inf] * 3 + [0], words=TABLE,
    )  # fmt: skip
    options = replace(EVERYTHING, algorithm="trie", merge_order=1, max_trie_nodes=1, word_penalty=0.0)
    sentences = {cost.words for cost in path_costs(run(lattice, options, FakeLM(num_words=7)))}
    assert (1, 1) in sentences


def test_a_path_beyond_the_trie_is_scored_after_the_longest_shared_suffix() -> None:
    # a c, b e and x e lead to one state, from which f costs little and d much; first-pass costs 0, 1/2, 1, and 2 for d.
    a, b, c, f, e, d, x = range(1, 8)
    lattice = Lattice.from_arrays(
        "k", [0, 3, 4, 5, 7, 7], [1, 2, 2, 3, 3, 4, 4], [a, b, x, c, e, f, d], [0, 0.5, 1, 0, 0, 0, 2], [0] * 7,
        [np.inf] * 4 + [0], words=TABLE,
    )  # fmt: skip
    lm = FakeLM(num_words=7)

    def sentence(*scored: tuple[int, ...]) -> float:
        """Return the cost of words, each with its history; lattice word i is the model's i + 2, and -1 is </s>."""
        return -sum(lm.score(tuple(h + 2 for h in history), word + 2) for *history, word in scored)

    options = replace(EVERYTHING, algorithm="trie", lm_weight=1.0, word_penalty=0.0)
    for nodes, words, expected in (
        (18, (x, e, d), sentence((x,), (x, e), (x, e, d), (x, e, d, -1))),
        (16, (x, e, d), sentence((x,), (x, e), (b, e, d), (b, e, d, -1))),  # not a c d: b e agrees in a word with x e
        (15, (b, e, d), sentence((b,), (b, e), (b, e, d), (a, c, d, -1))),  # not a c f: a c d agrees in a word
    ):
        graph_costs = {
            cost.words: cost.graph for cost in path_costs(run(lattice, replace(options, max_trie_nodes=nodes), lm))
        }
        assert graph_costs[words] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@settings(max_examples=12)
@given(lattice=SMALL)
def test_input_topology_has_the_cost_of_the_best_path_through_each_arc(algorithm: str, lattice: Lattice) -> None:
    options = replace(EVERYTHING, algorithm=algorithm, output="input")
    lattice = with_symbols(lattice)
    result = run(lattice, options)
    if algorithm != "nbest":  # only the best path of equal word sequences is scored
        assert np.array_equal(result.dst, lattice.dst)
    best = min(total(cost, options) for cost in path_costs(run(lattice, replace(options, output="lattice"))))
    assert min(total(cost, options) for cost in path_costs(result)) <= best + 1e-4


OPTIONS = RescoreOptions(max_unknown=1.0, acoustic_scale=0.5, num_best=20, max_trie_nodes=200)


@pytest.mark.parametrize("algorithm", ALL)
def test_a_lattice_scores_the_same_alone_in_a_batch_and_in_any_order(algorithm: str) -> None:
    options = replace(OPTIONS, algorithm=algorithm)
    pairs = [(lattice.key, lattice) for lattice in map(random_lattice, range(60))]
    expected = {key: run(lattice, options) for key, lattice in pairs}
    for order, batch_arcs in ((pairs, 2000), (pairs[::-1], 2000), (pairs[:5], 1)):
        batch = list(rescore(order, FakeLM(), replace(options, batch_arcs=batch_arcs)))
        assert [key for key, _ in batch] == [key for key, _ in order]
        for key, lattice in batch:
            assert lattice.identical(expected[key])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("output", ["lattice", "input", "best"])
def test_scores_do_not_change_when_words_are_shared_across_lattices(algorithm: str, output: str) -> None:
    options = replace(OPTIONS, algorithm=algorithm, output=output)
    lm, report = FakeLM(), RescoreReport()
    lattice = random_lattice(3)
    results = list(rescore([("a", lattice), ("b", lattice)], lm, options, report=report))
    single_report = RescoreReport()
    run_report = list(rescore([("a", lattice)], FakeLM(), options, report=single_report))
    assert results[0][1].identical(results[1][1].with_key("a"))
    assert results[0][1].identical(run_report[0][1])
    assert (report.histories, report.scores) == (single_report.histories, single_report.scores)
    assert report.lattices == 2
    assert (lm.num_advanced, lm.num_scored) == (report.histories, report.scores)
    assert not lm.history


def test_batches_are_limited_by_arcs_without_reading_ahead() -> None:
    read = []

    def source():
        for number in range(20):
            read.append(number)
            yield str(number), random_lattice(number)

    options = replace(OPTIONS, algorithm="nbest", batch_arcs=300)
    results = rescore(source(), FakeLM(), options)
    next(results)
    assert len(read) <= 4


def test_a_model_that_scores_tries_is_called_once_per_batch() -> None:
    class Whole(FakeLM):
        scores_tries = True
        asked = 0

        def score_trie(self, parent: np.ndarray, word: np.ndarray) -> np.ndarray:
            self.asked += 1
            histories: list[tuple[int, ...]] = []
            for above, number in zip(parent, word, strict=True):
                histories.append((*(histories[above] if above >= 0 else ()), int(number)))
            return np.array([self.score(history[:-1], history[-1]) for history in histories], np.float32)

    lm = Whole()
    lattice = random_lattice(4)
    options = replace(OPTIONS, algorithm="trie")
    [(_, first), _] = rescore([("a", lattice), ("b", lattice)], lm, options)
    assert (lm.asked, lm.next_slot) == (1, 0)
    assert first.with_key(lattice.key).identical(run(lattice, options))


@pytest.mark.parametrize("algorithm", ALL)
def test_nan_scores_fail_only_their_lattice(algorithm: str) -> None:
    class Broken(FakeLM):
        def score(self, history: tuple[int, ...], word: int) -> float:
            return math.nan if word == self.vocabulary.id("w7") else super().score(history, word)

    good = random_lattice(5, num_states=5, fan=1)
    good = replace(good, word=np.minimum(good.word, 6))
    bad = replace(good, key="bad", word=np.full_like(good.word, 7))
    errors: list[ninja.NinjaError] = []
    pairs = [("a", good), ("bad", bad), ("c", good)]
    options = replace(OPTIONS, algorithm=algorithm)
    assert len(list(rescore(pairs, Broken(), options, report=RescoreReport(on_error=errors.append)))) == 2
    assert isinstance(errors[0], ModelError)
    assert "'bad': the language model returned NaN" in str(errors[0])


@pytest.mark.parametrize("algorithm", ALL)
def test_a_lattice_without_a_path_or_a_symbol_table_fails_alone(algorithm: str) -> None:
    dead = Lattice.from_arrays("dead", [0, 1, 1, 1], [1], [1], [0], [0], [np.inf, np.inf, 0], words=TABLE)
    nameless = replace(random_lattice(6), key="nameless", words=None)
    errors: list[ninja.NinjaError] = []
    options = replace(OPTIONS, algorithm=algorithm)
    pairs = [("a", random_lattice(1)), ("dead", dead), ("nameless", nameless), ("c", random_lattice(2))]
    assert len(list(rescore(pairs, FakeLM(), options, report=RescoreReport(on_error=errors.append)))) == 2
    assert sorted(type(error).__name__ for error in errors) == ["LatticeError", "VocabularyError"]
    for pair, error in ((pairs[1], LatticeError), (pairs[2], VocabularyError)):
        with pytest.raises(error, match=pair[0]):
            list(rescore([pairs[0], pair], FakeLM(), options))


@pytest.mark.parametrize("algorithm", ["cover", "trie"])
def test_an_unfolding_beyond_the_arc_limit_is_refused(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ninja.rescoring.sentences.MAX_ARCS", 3000)
    options = replace(EVERYTHING, algorithm=algorithm)
    with pytest.raises(LatticeError, match=r"'seed-1': the unfolded lattice exceeds 3000 arcs; set max_trie_nodes"):
        run(random_lattice(1, num_states=60), options)


def test_out_of_memory_halves_the_batch() -> None:
    class Small(FakeLM):
        scores_tries = True

        def score_trie(self, parent: np.ndarray, word: np.ndarray) -> np.ndarray:
            if len(parent) > 600:
                raise MemoryError
            return -np.ones(len(parent), np.float32)

    pairs = [(lattice.key, lattice) for lattice in map(random_lattice, range(8))]
    notes: list[str] = []
    options = replace(OPTIONS, algorithm="trie")
    assert len(list(rescore(pairs, Small(), options, report=RescoreReport(on_note=notes.append)))) == 8
    assert "out of memory with a batch of 8 lattices; retrying with half as many" in notes
    failures: list[ninja.NinjaError] = []
    large = replace(options, max_trie_nodes=700, merge_order=0)
    assert (
        len(list(rescore(pairs, Small(), large, report=RescoreReport(on_error=failures.append)))) + len(failures) == 8
    )
    assert failures
    assert "out of memory while the language model scored the words" in str(failures[0])


def test_carried_over_words_are_the_history_of_the_next_lattice() -> None:
    lattice = Lattice.from_arrays("k", [0, 1, 2, 2], [1, 2], [1, 2], [1, 1], [0, 0], [np.inf, np.inf, 0], words=TABLE)
    options = replace(EVERYTHING, algorithm="nbest", lm_weight=1.0)
    lm = FakeLM()
    [(_, first), (_, second)] = rescore([("a", lattice), ("b", lattice)], lm, options, carry_over=CarryOver())
    assert first.graph.tolist() == [-lm.score((), 3), -lm.score((3,), 4)]
    before = (3, 4, lm.bos)
    assert second.graph.tolist() == [-lm.score(before, 3), -lm.score((*before, 3), 4)]
    assert not lm.history


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_model_that_reads_backwards_scores_the_reversed_words(algorithm: str) -> None:
    lattice = Lattice.from_arrays("k", [0, 1, 2, 2], [1, 2], [1, 2], [1, 1], [0, 0], [np.inf, np.inf, 0], words=TABLE)
    lm = FakeLM()
    result = run(lattice, replace(EVERYTHING, algorithm=algorithm, lm_weight=1.0, backward=True), lm)
    [cost] = path_costs(result)
    assert cost.words == (1, 2)
    assert cost.graph == pytest.approx(-(lm.score((), 4) + lm.score((4,), 3) + lm.score((4, 3), lm.eos)), abs=1e-5)


def test_the_trie_output_is_pruned_to_the_beam() -> None:
    lattice = random_lattice(8, num_states=12, fan=2)
    options = replace(EVERYTHING, algorithm="trie", max_trie_nodes=300)
    whole = run(lattice, options)
    cut = run(lattice, replace(options, beam=2.0))
    assert cut.num_arcs < whole.num_arcs
    expected = prune(whole, 2.0, Scales(options.acoustic_scale, word_penalty=options.word_penalty))
    assert cut.identical(expected)
