"""Mixtures of language models: the definition, unknown words of each model, and the release of states."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from fake_lm import FakeLM, symbols
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_rescore import close, path_costs, path_costs_under, word_logprob
from rescoring_cases import EXACT, mixture_logprob, models, penalized_logprob, random_lattice
from strategies import lattices

import ninja
from ninja.errors import ModelError, OptionError, VocabularyError
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable
from ninja.lm import LanguageModel, Mixture, sentence_logprobs
from ninja.lm.mixture import How
from ninja.lm.trie import score_trie
from ninja.rescoring import RescoreOptions, RescoreReport, rescore

TABLE = symbols()


def run(lattice: Lattice, lm: LanguageModel | Mixture, options: RescoreOptions = EXACT) -> Lattice:
    [(_, result)] = rescore([(lattice.key, lattice)], lm, options)
    return result


@pytest.mark.parametrize("combination", ["loglinear", "linear"])
@settings(max_examples=20, deadline=None)
@given(lattice=lattices(max_states=6, max_word=8))
def test_unlimited_search_with_a_mixture_equals_enumeration_of_all_paths(combination: How, lattice: Lattice) -> None:
    lattice = replace(lattice, words=TABLE)
    lms, weights = models(), (0.5, 0.3, 0.2)
    costs = path_costs(run(lattice, Mixture(tuple(zip(lms, weights, strict=True)), combination)))
    definition = mixture_logprob(
        [(penalized_logprob(lm), weight) for lm, weight in zip(lms, weights, strict=True)], combination
    )
    assert close(costs, path_costs_under(lattice, definition, EXACT, 1 - EXACT.lm_weight))
    assert not any(lm.history for lm in lms)


@settings(max_examples=20, deadline=None)
@given(lattice=lattices(max_states=6, max_word=8), weight=st.sampled_from([-1.0, -0.25, 2.0]))
def test_a_mixture_of_mixtures_equals_enumeration_of_all_paths(lattice: Lattice, weight: float) -> None:
    lattice = replace(lattice, words=TABLE)
    a, b, c = models()
    mixture = Mixture(((Mixture(((a, 0.6), (b, 0.4)), "linear"), 1.0), (c, weight)))
    inner_logprob = mixture_logprob([(penalized_logprob(a), 0.6), (penalized_logprob(b), 0.4)], "linear")
    definition = mixture_logprob([(inner_logprob, 1.0), (penalized_logprob(c), weight)], "loglinear")
    costs = path_costs(run(lattice, mixture))
    assert close(costs, path_costs_under(lattice, definition, EXACT, 1 - EXACT.lm_weight))


def test_a_mixture_of_one_model_equals_that_model() -> None:
    lattice = random_lattice(1)
    options = RescoreOptions(max_unknown=1.0, unk_penalty=1.0)
    for combination in ("loglinear", "linear"):
        assert run(lattice, Mixture(((FakeLM(), 1.0),), combination), options).identical(
            run(lattice, FakeLM(), options)
        )


def test_a_mixture_scores_sentences_as_a_language_model() -> None:
    a, b, _ = models()
    lm = Mixture(((a, 0.5), (b, 0.5))).over(TABLE)
    assert isinstance(lm, LanguageModel)
    a_logprob, b_logprob = word_logprob(a), word_logprob(b)
    expected = sum(
        0.5 * (part(("w3",)[:place], word))
        for part in (a_logprob, b_logprob)
        for place, word in enumerate(("w3", "</s>"))
    )
    number = lm.vocabulary.id("w3")
    assert number is not None
    assert sentence_logprobs(lm, [[number]]) == pytest.approx([expected])
    assert (lm.num_slots, a.history, b.history) == (0, {}, {})


def test_lattice_scores_do_not_depend_on_batch_or_order() -> None:
    options = RescoreOptions(max_unknown=1.0, acoustic_scale=0.5)
    pairs = [(lattice.key, lattice) for lattice in map(random_lattice, range(40))]

    def mixture() -> Mixture:
        return Mixture(tuple(zip(models(), (0.5, 0.3, 0.2), strict=True)), "linear")

    expected = {key: run(lattice, mixture(), options) for key, lattice in pairs}
    for order, batch_arcs in ((pairs, 2000), (pairs[::-1], 900), (pairs[:5], 1)):
        for key, lattice in rescore(order, mixture(), replace(options, batch_arcs=batch_arcs)):
            assert lattice.identical(expected[key])


def test_all_slots_of_all_models_are_released() -> None:
    lms = models()
    mixture = Mixture(tuple(zip(lms, (0.5, 0.3, 0.2), strict=True)))
    pairs = [(f"{i}", random_lattice(i)) for i in range(20)]
    list(rescore(pairs, mixture, RescoreOptions(max_unknown=1.0)))
    stopped = rescore(pairs, mixture, RescoreOptions(max_unknown=1.0))
    next(stopped)
    stopped.close()
    assert not any(lm.history for lm in lms)


class FailingLM(FakeLM):
    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        raise ValueError("a bug")


class ShortResultLM(FakeLM):
    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        return super().advance(slots[:-1], words[:-1])


@pytest.mark.parametrize(("kind", "error"), [(FailingLM, ValueError), (ShortResultLM, ModelError)])
def test_a_failing_model_releases_the_new_slots_of_the_others(kind: type[FakeLM], error: type[Exception]) -> None:
    good_lm, bad_lm = FakeLM(), kind(salt=1)
    with pytest.raises(
        error, match=r"a bug|language model 2: advance returned an array of shape \(0,\), but must return shape \(1,\)"
    ):
        run(random_lattice(1), Mixture(((good_lm, 0.5), (bad_lm, 0.5))))
    assert not good_lm.history


@pytest.mark.parametrize(
    ("weights", "combination", "message"),
    [
        ((0.5, 0.6), "linear", r"positive and sum to 1, but are \[0.5, 0.6\]"),
        ((1.5, -0.5), "linear", "positive"),
        ((1.0, math.nan), "loglinear", "finite"),
        ((), "loglinear", "at least one model"),
        ((0.5, 0.5), "geometric", "one of loglinear, linear"),
    ],
)
def test_invalid_mixture_weights_are_refused(weights: tuple[float, ...], combination: How, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Mixture(tuple((FakeLM(), weight) for weight in weights), combination)


def test_a_model_with_weight_zero_is_not_called() -> None:
    unused_lm = FailingLM(salt=1)
    run(random_lattice(1), Mixture(((FakeLM(), 1.0), (unused_lm, 0.0))), RescoreOptions(max_unknown=1.0))
    with pytest.raises(OptionError, match="all weights of the mixture are 0"):
        Mixture(((unused_lm, 0.0),)).over(TABLE)


def test_an_unknown_word_without_unk_fails_only_its_lattice() -> None:
    good_lattice = replace(random_lattice(5, num_states=5, fan=1), key="good")
    good_lattice = replace(good_lattice, word=np.minimum(good_lattice.word, 7))
    bad_lattice = replace(good_lattice, key="bad", word=np.full_like(good_lattice.word, 8))
    errors: list[ninja.NinjaError] = []
    mixture = Mixture(((FakeLM(), 0.5), (FakeLM(unk=False, salt=1), 0.5)), names=("first", "second"))
    results = dict(
        rescore(
            [("good", good_lattice), ("bad", bad_lattice)],
            mixture,
            replace(EXACT, batch_arcs=good_lattice.num_arcs),  # the coverage is checked with the words of "good"
            report=RescoreReport(on_error=errors.append),
        )
    )
    assert list(results) == ["good"]
    assert [str(error) for error in errors] == [
        "key 'bad': second contains neither 'unheard-of' nor <unk>; set map_words if the model uses another spelling"
    ]
    assert isinstance(errors[0], VocabularyError)


def test_coverage_is_reported_and_checked_per_model() -> None:
    report = RescoreReport()
    mixture = Mixture(((FakeLM(8), 0.5), (FakeLM(3, salt=1), 0.5)), names=("big", "small"))
    list(rescore([("a", random_lattice(7))], mixture, RescoreOptions(max_unknown=1.0), report=report))
    big_coverage, small_coverage = report.coverages
    assert (big_coverage.model, small_coverage.model) == ("big", "small")
    assert big_coverage.unknown_words < small_coverage.unknown_words
    assert str(big_coverage).startswith(
        f"{big_coverage.share:.1%} of arcs have words unknown to big (1 of 8 words; most frequent: unheard"
    )
    with pytest.raises(VocabularyError, match="unknown to small"):
        list(rescore([("a", random_lattice(7))], mixture, RescoreOptions()))


def test_nan_and_probability_zero_fail_only_their_lattice() -> None:
    class BrokenLM(FakeLM):
        def score(self, history: tuple[int, ...], word: int) -> float:
            if word == self.vocabulary.id("w7"):
                return math.nan
            return -math.inf if word == self.vocabulary.id("w6") else super().score(history, word)

    good_lattice = random_lattice(5, num_states=5, fan=1)
    good_lattice = replace(good_lattice, key="good", word=np.minimum(good_lattice.word, 5))
    pairs = [
        (key, replace(good_lattice, key=key, word=np.full_like(good_lattice.word, word)))
        for key, word in (("six", 6), ("7", 7))
    ]
    for new, old in ((FakeLM(), BrokenLM(salt=1)), (BrokenLM(), FakeLM(salt=1)), (BrokenLM(), BrokenLM(salt=1))):
        errors: list[ninja.NinjaError] = []
        results = dict(
            rescore(
                [*pairs, ("good", good_lattice)], new, EXACT, old_lm=old, report=RescoreReport(on_error=errors.append)
            )
        )
        assert list(results) == ["good"]
        assert [error.key for error in errors] == ["six", "7"]
        assert all(isinstance(error, ModelError) for error in errors)


def test_a_run_accepts_lattices_with_different_symbol_tables() -> None:
    first, second = random_lattice(5, num_states=6, fan=1), random_lattice(6, num_states=6, fan=1)
    second_table = SymbolTable([("<eps>", 0), *((f"w{9 - i}", i) for i in range(1, 8)), ("new", 8)])
    second = replace(second, words=second_table)
    lms, weights = models(), (0.5, 0.3, 0.2)
    nested = Mixture(((Mixture(((lms[0], 0.5), (lms[1], 0.5)), "linear"), 0.8), (lms[2], 0.2)))
    inner_logprob = mixture_logprob([(penalized_logprob(lms[0]), 0.5), (penalized_logprob(lms[1]), 0.5)], "linear")
    for mixture, definition in (
        (
            Mixture(tuple(zip(lms, weights, strict=True))),
            mixture_logprob(
                [(penalized_logprob(lm), weight) for lm, weight in zip(lms, weights, strict=True)], "loglinear"
            ),
        ),
        (nested, mixture_logprob([(inner_logprob, 0.8), (penalized_logprob(lms[2]), 0.2)], "loglinear")),
    ):
        pairs = [(lattice.key, lattice) for lattice in (first, second, first)]
        for (_, source), (_, result) in zip(pairs, rescore(pairs, mixture, EXACT), strict=True):
            assert close(path_costs(result), path_costs_under(source, definition, EXACT, 1 - EXACT.lm_weight))


@pytest.mark.parametrize("first", [[("<eps>", 0)], []])
def test_symbol_tables_may_have_gaps_and_lack_epsilon(first: list[tuple[str, int]]) -> None:
    lattice = random_lattice(5, num_states=6, fan=1)
    gaps = SymbolTable([*first, *((f"w{i}", 100 - 10 * i) for i in range(1, 8)), ("unheard-of", 7)])
    number = np.array([0, *gaps.ids([*(f"w{i}" for i in range(1, 8)), "unheard-of"])], np.int32)
    lattice = replace(lattice, words=gaps, word=number[np.maximum(lattice.word, 0 if first else 1)])
    a, b, _ = models()
    report = RescoreReport()
    [(_, result)] = rescore([("k", lattice)], Mixture(((a, 0.5), (b, 0.5))), EXACT, report=report)
    definition = mixture_logprob([(penalized_logprob(a), 0.5), (penalized_logprob(b), 0.5)], "loglinear")
    assert close(path_costs(result), path_costs_under(lattice, definition, EXACT, 1 - EXACT.lm_weight))
    words = {gaps.word(int(word)) for word in lattice.word if word}
    assert [coverage.words for coverage in report.coverages] == [len(words)] * 2


def test_a_model_that_scores_whole_tries_does_so_in_a_mixture() -> None:
    class TrieLM(FakeLM):
        scores_tries = True
        tries = 0

        def score_trie(self, parent: np.ndarray, word: np.ndarray) -> np.ndarray:
            self.tries += 1
            histories: list[tuple[int, ...]] = [()]
            for parent_node, word_id in zip(parent.tolist(), word.tolist(), strict=True):
                histories.append((*histories[parent_node + 1], word_id))
            return np.array([self.score(words[:-1], words[-1]) for words in histories[1:]], np.float32)

    plain_lm, trie_lm = FakeLM(5), TrieLM(salt=1)
    step = Mixture(((plain_lm, 0.5), (FakeLM(salt=1), 0.5)), "linear").over(TABLE)
    lm = Mixture(((plain_lm, 0.5), (trie_lm, 0.5)), "linear").over(TABLE)
    parent = np.array([-1, -1, 0, 0, 2, 1], np.int32)
    word = np.array([1, 2, 3, 8, lm.eos, lm.eos], np.int32)
    assert not step.scores_tries
    assert score_trie(lm, parent, word).tolist() == score_trie(step, parent, word).tolist()
    assert (trie_lm.tries, lm.num_slots, plain_lm.history, trie_lm.history) == (1, 0, {}, {})


def test_map_words_finds_words_by_case_and_spelling_of_unk() -> None:
    class VocabularyLM(FakeLM):
        def __init__(self, *words: str) -> None:
            super().__init__(0, unk=False, extra_words=words)

    table = SymbolTable.from_words(["<eps>", "Tom", "tom", "PARIS", "[UNK]", "Zoë"])
    lattice = Lattice.from_arrays(
        "k", [0, 5, 5], [1] * 5, [1, 2, 3, 4, 5], [0] * 5, [0] * 5, [np.inf, 0], words=table
    )  # fmt: skip
    lm = VocabularyLM("tom", "Paris", "PARIS", "zoë", "<UNK>")
    with pytest.raises(VocabularyError, match=r"most frequent: Tom.* the model has no <unk>: set map_words"):
        run(lattice, lm)
    report = RescoreReport()
    options = replace(EXACT, map_words=("case", "unk"), unk_penalty=0.0, lm_weight=1.0)
    [(_, result)] = rescore([("k", lattice)], lm, options, report=report)
    costs = {table.word(int(word)): float(cost) for word, cost in zip(result.word, result.graph, strict=True)}

    def cost(word: str) -> float:
        number = lm.vocabulary.id(word)
        assert number is not None
        return -lm.score((), number)

    expected = {"Tom": "tom", "tom": "tom", "PARIS": "PARIS", "Zoë": "zoë", "[UNK]": "<UNK>"}
    assert costs == {word: cost(lm_word) for word, lm_word in expected.items()}
    assert str(report.coverages[0]) == (
        "the language model contains all 5 words of the lattices; 2 words found by case; 1 word found by unk"
    )
    with pytest.raises(OptionError, match="map_words contains 'stem'"):
        replace(EXACT, map_words=("stem",))
