"""Tuning of weights: features of sentence costs, and the search."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from fake_lm import FakeLM
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_rescore import path_costs
from rescoring_cases import random_lattice
from strategies import lattices

import ninja as package
from ninja import _search
from ninja.errors import FormatError, Log, OptionError
from ninja.evaluate import edits
from ninja.graph import best_path, determinize, nbest
from ninja.lattice import Scales
from ninja.lm import Mixture
from ninja.rescoring import CarryOver, RescoreOptions, Rescorer, RescoreReport, rescore
from ninja.tune import weights as weights_module
from ninja.tune.choice import Outcomes
from ninja.tune.features import Features, features
from ninja.tune.first_pass import tune_first_pass
from ninja.tune.weights import (
    Weights,
    choose,
    choose_repeatedly,
    choose_weights,
    grid,
    tune_weights,
    word_error_rate,
)

OPTIONS = RescoreOptions(
    algorithm="trie", max_trie_nodes=0, beam=math.inf, max_unknown=1.0, unk_penalty=2.0, acoustic_scale=0.5,
    lm_weight=0.7, word_penalty=0.25,
)  # fmt: skip
# Deterministic, so that a word sequence identifies a path.
LATTICES = [(f"seed-{n}", determinize(random_lattice(n, num_states=7, fan=1), 0.5)) for n in range(6)]
ALL = 100_000  # more sentences than any of these lattices has


class OtherLM(FakeLM):
    """A second model of the same vocabulary."""

    def score(self, history: tuple[int, ...], word: int) -> float:
        return super().score((*history, 3), word)


def references() -> dict[str, list[str]]:
    """Return the sentences preferred by a language model, with an additional error."""
    options = replace(OPTIONS, lm_weight=0.9, acoustic_scale=0.3, word_penalty=1.0, output="best")
    sentences = {}
    for key, lattice in rescore(LATTICES, FakeLM(), options):
        sentences[key] = [*lattice.words.spell(lattice.word[lattice.word != 0]), *(["w1"] if key == "seed-3" else [])]
    return sentences


def extract_features(
    models: list[FakeLM], options: RescoreOptions, old_lm: FakeLM | None = None, **arguments: int
) -> Features:
    lm = models[0] if len(models) == 1 else Mixture([(lm, 1 / len(models)) for lm in models])
    return features(
        LATTICES, lambda source: rescore(source, lm, options, old_lm=old_lm), references(), models, options,
        old_lm=old_lm, **{"num_best": ALL, **arguments},
    )  # fmt: skip


def total(sentences: Features, weights: Weights) -> np.ndarray:
    """Return the cost of each sentence by the definition of the score of an arc."""
    new = np.array(weights.mixture) @ sentences.of_sentences(sentences.logprob)
    old = 0.0 if sentences.old_logprob is None else sentences.of_sentences(sentences.old_logprob)
    share = 1 - weights.lm_weight if sentences.old_logprob is None else 1.0
    cost = weights.acoustic_scale * sentences.acoustic + share * sentences.graph - weights.lm_weight * (new - old)
    return cost + weights.word_penalty * sentences.num_words


@given(lattice=lattices(max_states=6, max_word=3), missing=st.lists(st.integers(1, 3), max_size=4))
def test_sentence_costs_are_the_costs_of_the_best_paths(lattice: package.Lattice, missing: list[int]) -> None:
    best: dict[tuple[int, ...], float] = {}
    for cost in path_costs(lattice):
        best[cost.words] = min(best.get(cost.words, math.inf), 0.5 * cost.acoustic + cost.graph)
    sentences = [*best, tuple(missing)]
    begin = np.cumsum([0, *map(len, sentences)])
    words = np.array([word for sentence in sentences for word in sentence], np.int32)
    graph, acoustic = _search.sentence_costs(lattice, words, begin, 0.5, 0.25)
    expected = [best.get(sentence, math.inf) for sentence in sentences]
    assert (0.5 * acoustic + graph).tolist() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("with_old", [False, True])
@pytest.mark.parametrize("num_models", [1, 2])
def test_features_predict_the_costs_of_rescoring_with_other_weights(num_models: int, with_old: bool) -> None:
    models = [FakeLM(), OtherLM()][:num_models]
    old_lm = OtherLM() if with_old else None
    sentences = extract_features(models, OPTIONS, old_lm)
    for lm_weight, scale, penalty in ((0.7, 0.5, 0.25), (0.2, 1.0, -1.0), (1.0, 0.1, 2.0)):
        options = replace(OPTIONS, lm_weight=lm_weight, acoustic_scale=scale, word_penalty=penalty)
        lm = models[0] if num_models == 1 else Mixture([(lm, 0.5) for lm in models])
        cost = total(sentences, Weights(lm_weight, scale, penalty, (1 / num_models,) * num_models))
        for number, (_, lattice) in enumerate(rescore(LATTICES, lm, options, old_lm=old_lm)):
            paths = nbest(lattice, ALL, Scales(scale, word_penalty=penalty))
            costs = np.sort(cost[sentences.lattice == number])
            assert costs == pytest.approx([path.cost(Scales(scale, word_penalty=penalty)) for path in paths], abs=1e-3)


def test_a_linear_mixture_is_interpolated_per_word() -> None:
    models = [FakeLM(), OtherLM()]
    sentences = extract_features(models, OPTIONS)
    mixed = [(model, weight) for model, weight in zip(models, (0.25, 0.75), strict=True)]
    options = replace(OPTIONS, output="best")
    tuned = choose(sentences, Weights(0.7, 0.5, 0.25, (0.25, 0.75)), "linear")
    errors = 0
    reference_texts = references()
    for key, lattice in rescore(LATTICES, Mixture(mixed, "linear"), options):
        errors += edits(reference_texts[key], lattice.words.spell(lattice.word[lattice.word != 0]))
    assert tuned.wer_before == pytest.approx(100 * errors / sum(map(len, reference_texts.values())))


def test_feature_extraction_queries_a_single_model_only_once() -> None:
    lm = FakeLM()
    rescoring_lm = FakeLM()
    reference_texts = references()
    list(Rescorer(rescoring_lm, OPTIONS)(LATTICES))  # batches do not depend on the time that reading takes
    features(LATTICES, Rescorer(lm, OPTIONS), reference_texts, [lm], OPTIONS, num_best=ALL)
    assert (lm.num_advanced, lm.num_scored) == (rescoring_lm.num_advanced, rescoring_lm.num_scored)
    assert not lm.history


def test_features_do_not_depend_on_the_initial_lm_weight() -> None:
    lm = FakeLM()
    weighted, unweighted = extract_features([lm], OPTIONS), extract_features([lm], replace(OPTIONS, lm_weight=0.0))
    weights = Weights(0.6, 0.5, 0.25)
    assert np.sort(total(weighted, weights)) == pytest.approx(np.sort(total(unweighted, weights)), abs=1e-3)


def test_weights_are_tuned_with_carried_over_history() -> None:
    reference_texts, rates = references(), []
    for carry_over in (None, CarryOver(max_words=3)):
        tuned = tune_weights(LATTICES, reference_texts, FakeLM(), OPTIONS, carry_over=carry_over, num_best=50)
        results = rescore(LATTICES, FakeLM(), replace(OPTIONS, output="best"), carry_over=carry_over)
        rates.append(word_error_rate(results, reference_texts, OPTIONS.scales))
        assert tuned.wer_before == pytest.approx(rates[-1])
    assert rates[0] != rates[1]  # the history changes the words


def test_carry_over_refuses_a_mixture() -> None:
    lm = Mixture([(FakeLM(), 0.5), (OtherLM(), 0.5)])
    with pytest.raises(OptionError, match=r"carry_over .* requires a single model"):
        tune_weights(LATTICES, references(), lm, OPTIONS, carry_over=CarryOver())


def test_backward_models_read_the_words_in_reverse() -> None:
    models = [FakeLM(), OtherLM()]
    options = replace(OPTIONS, backward=True)
    sentences = extract_features(models, options)
    cost = total(sentences, Weights(0.7, 0.5, 0.25, (0.5, 0.5)))
    lm = Mixture([(lm, 0.5) for lm in models])
    for number, (_, lattice) in enumerate(rescore(LATTICES, lm, options)):
        best = best_path(lattice, Scales(0.5, word_penalty=0.25)).cost(Scales(0.5, word_penalty=0.25))
        assert cost[sentences.lattice == number].min() == pytest.approx(best, abs=1e-3)


def test_significantly_better_weights_are_chosen() -> None:
    sentences = sentences_better_above(0.45)
    tuned = choose(sentences, Weights(0.2, 0.1, 0.0))
    assert (tuned.wer_before, tuned.wer, tuned.wer_oracle, tuned.wer_first_pass) == (10.0, 0.0, 0.0, 10.0)
    assert tuned.weights.lm_weight > 0.45
    assert (tuned.weights.acoustic_scale, tuned.weights.word_penalty) == (0.1, 0.0)  # no error depends on them
    assert tuned.choice.reason == "better"
    assert tuned.difference.high < 0
    assert tuned == choose(sentences, Weights(0.2, 0.1, 0.0))


def test_initial_weights_within_a_standard_error_of_the_best_are_kept() -> None:
    tuned = choose(sentences_better_above(0.45), Weights(0.9, 0.1, 0.0))
    assert (tuned.weights, tuned.edges) == (Weights(0.9, 0.1, 0.0), ())
    assert tuned.difference.mean == 0.0


def test_few_words_keep_the_initial_weights() -> None:
    start = Weights(0.2, 0.1, 0.0)
    tuned = choose(sentences_better_above(0.45, num_lattices=49), start)
    assert (tuned.weights, tuned.wer, tuned.choice.reason) == (start, 10.0, "too few words")
    assert tuned.evidence == "the initial weights are kept: 490 words are too few to choose other weights"
    assert choose(sentences_better_above(0.45, num_lattices=50), start).weights != start
    assert choose(sentences_better_above(0.45, num_lattices=50), start, min_words=501).weights == start


def test_initial_weights_are_kept_if_chance_explains_the_gain() -> None:
    """Only one utterance in a hundred is better with other weights."""
    start = Weights(0.2, 0.1, 0.0)
    sentences = sentences_better_above(0.45)
    errors = np.where(sentences.lattice == 7, sentences.errors, 1)
    tuned = choose(replace(sentences, errors=errors), start)
    assert (tuned.weights, tuned.choice.reason) == (start, "chance")
    assert re.match(
        r"the initial weights are kept: 1000 words do not show that other values \(LM weight .*\) are better; "
        r"the difference is \S+ \[\S+, \S+\] percentage points \(95% interval, cross-validated by utterance\)",
        tuned.evidence,
    )


def test_a_model_that_does_not_help_is_not_used() -> None:
    start = Weights(0.9, 0.1, 1.0)
    sentences = sentences_better_above(0.45)
    sentences = replace(sentences, errors=sentences.errors.max() - sentences.errors)  # small weights are better
    tuned = choose(sentences, start)
    assert (tuned.weights, tuned.wer_before, tuned.wer) == (Weights(0.0, 0.1, 0.0), 10.0, 0.0)
    assert tuned.evidence == (
        "the weights of the first pass are kept: no other values have significantly fewer expected errors"
    )
    small_set = choose(sentences, start, min_words=1001)
    assert (small_set.weights, small_set.evidence[:31]) == (start, "the initial weights are kept: 1")


def test_lm_weight_0_has_the_costs_of_the_first_pass() -> None:
    points = grid(Weights(0.5, 0.1, 1.0, (0.5, 0.5)))
    unused = {(point.acoustic_scale, point.word_penalty) for point in points if point.lm_weight == 0}
    assert unused == {(0.1, 0.0)}
    assert len({point.word_penalty for point in grid(Weights(0.0, 0.1, 0.0, ()))}) > 1  # without a model


@settings(max_examples=10)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.3]), st.sampled_from([0.0, 0.7]))
def test_a_mixture_can_be_chosen_from_any_initial_weights(seed: int, lm_weight: float, word_penalty: float) -> None:
    start = Weights(lm_weight, 1.0, word_penalty, (0.5, 0.5))
    points = grid(start)
    errors = np.random.default_rng(seed).integers(0, 9, (len(points), 20)).astype(float)
    best, _, default, _ = choose_weights(points, Outcomes(errors, errors, np.full(20, 50)), start, min_words=1)
    assert {best, default} <= set(points)


def test_an_optimum_at_the_edge_of_the_grid_is_reported() -> None:
    tuned = choose(sentences_better_above(0.995), Weights(0.2, 0.1, 0.0))
    assert tuned.edges == ("lm_weight 1 is at the upper end of its range: the old scores do not help",)


def with_model(sentences: Features, first: float, second: float) -> Features:
    """Add a model with these scores for the correct and the wrong sentence of each lattice."""
    scores = np.tile([first, second], sentences.num_lattices).astype(np.float32)[None]
    return replace(sentences, logprob=np.concatenate([sentences.logprob, scores]))


def test_a_mixture_no_better_than_its_best_model_is_not_chosen() -> None:
    sentences = with_model(sentences_better_above(0.45), -9.0, 0.0)
    tuned = choose(sentences, Weights(0.5, 0.1, 0.0, (0.5, 0.5)))
    assert (tuned.wer, tuned.weights.mixture) == (0.0, (1.0, 0.0))
    assert tuned.edges[-1] == "model 2 of the mixture is not used: it does not lower WER by more than chance"
    near_copy = with_model(sentences_better_above(0.45), 0.0, -0.55)
    assert choose(near_copy, Weights(0.9, 0.1, 0.0, (0.5, 0.5))).weights.mixture == (1.0, 0.0)


def test_a_mixture_better_than_each_of_its_models_is_chosen() -> None:
    """Each model is right on half of the utterances, and weakly prefers the wrong sentence of the others."""
    sentences = with_model(sentences_better_above(0.45), 0.0, 0.0)
    is_even = sentences.lattice % 2 == 0
    correct_scores = np.where(sentences.errors == 0, 0.0, -9.0)
    wrong_scores = np.where(sentences.errors == 0, -1.0, 0.0)
    logprob = np.stack(
        [np.where(is_even, correct_scores, wrong_scores), np.where(is_even, wrong_scores, correct_scores)]
    ).astype(np.float32)
    tuned = choose(replace(sentences, logprob=logprob), Weights(0.5, 0.1, 0.0, (0.5, 0.5)))
    assert tuned.wer == 0.0
    assert min(tuned.weights.mixture) > 0


def test_the_acoustic_scale_of_lists_without_graph_costs_is_fixed() -> None:
    assert {point.acoustic_scale for point in grid(Weights(0.5, 1.0, 0.0), scales_vary=False)} == {1.0}
    assert len({point.acoustic_scale for point in grid(Weights(0.5, 1.0, 0.0))}) == 9


def test_differences_are_paired_by_speaker_if_there_are_five() -> None:
    sentences = sentences_better_above(0.45)
    for num_speakers, expected in ((4, 100), (5, 5)):
        speakers = {key: f"speaker-{number % num_speakers}" for number, key in enumerate(sentences.keys)}
        tuned = choose(sentences, Weights(0.2, 0.1, 0.0), speakers=speakers)
        assert tuned.choice.difference.num_groups == expected
        assert tuned.by_speaker == (expected == 5)
    with pytest.raises(FormatError, match="this utterance has no speaker; add it to utt2spk"):
        choose(sentences, Weights(0.2, 0.1, 0.0), speakers={})


def sentences_better_above(lm_weight: float, num_lattices: int = 100) -> Features:
    """Return two sentences per lattice; the correct one is best if the LM weight is larger than the given weight."""
    return Features(
        keys=tuple(f"utterance-{number}" for number in range(num_lattices)),
        lattice=np.repeat(np.arange(num_lattices), 2),
        errors=np.tile([0, 1], num_lattices),
        graph=np.tile([10 * lm_weight, 0.0], num_lattices),
        acoustic=np.zeros(2 * num_lattices),
        num_words=np.ones(2 * num_lattices, np.int64),
        word=np.tile(np.array([1, 2], np.int32), num_lattices),
        token_begin=np.arange(2 * num_lattices + 1),
        logprob=np.tile([0.0, -10 * (1 - lm_weight)], num_lattices).astype(np.float32)[None],
        old_logprob=None,
        reference_words=np.full(num_lattices, 10),
        first_pass_errors=np.ones(num_lattices, np.int64),
        rescored_errors=np.ones(num_lattices, np.int64),
    )


@settings(max_examples=12)
@given(st.integers(0, 10_000), st.integers(1, 2))
def test_united_sentences_contain_those_of_both_rescorings_once(seed: int, num_models: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [random_sentences(rng, num_models, keys) for keys in ("abcd", "bce")]
    union = parts[0].united(parts[1])
    assert union.keys == parts[0].keys
    expected = {}
    for part in reversed(parts):  # sentences of the first part take precedence
        expected |= {name: content for name, content in by_text(part).items() if name[0] in parts[0].keys}
    assert by_text(union) == expected
    assert union.lattice.tolist() == sorted(union.lattice.tolist())
    assert union.lattice.size == len(expected)


def random_sentences(rng: np.random.Generator, num_models: int, keys: str) -> Features:
    """Return random sentences of at most two words, distinct within each lattice."""
    texts = [
        (place, text)
        for place in range(len(keys))
        for text in {tuple(rng.integers(1, 3, rng.integers(0, 3)).tolist()) for _ in range(4)}
    ]
    size = len(texts)
    begin = np.cumsum([0, *(len(text) + 1 for _, text in texts)])
    return Features(
        keys=tuple(keys),
        lattice=np.array([place for place, _ in texts]),
        errors=rng.integers(0, 6, size),
        graph=rng.uniform(0, 20, size),
        acoustic=rng.uniform(0, 100, size),
        num_words=np.array([len(text) for _, text in texts]),
        word=np.array([word for _, text in texts for word in text], np.int32),
        token_begin=begin,
        logprob=rng.uniform(-9, 0, (num_models, begin[-1])).astype(np.float32),
        old_logprob=rng.uniform(-9, 0, begin[-1]).astype(np.float32),
        reference_words=rng.integers(1, 9, len(keys)),
        first_pass_errors=rng.integers(0, 9, len(keys)),
        rescored_errors=rng.integers(0, 9, len(keys)),
    )


def by_text(part: Features) -> dict:
    """Return errors, costs and scores of each sentence by its key and words."""
    word_end = np.cumsum(part.num_words)
    contents = {}
    for number in range(part.lattice.size):
        text = tuple(part.word[word_end[number] - part.num_words[number] : word_end[number]].tolist())
        tokens = slice(part.token_begin[number], part.token_begin[number + 1])
        values = (part.errors[number], part.graph[number], part.acoustic[number])
        scores = part.logprob[:, tokens].tolist(), part.old_logprob[tokens].tolist()
        contents[part.keys[part.lattice[number]], text] = values, scores
    return contents


def test_references_of_other_utterances_are_refused() -> None:
    with pytest.raises(FormatError, match="check that the utterance ids match"):
        tune_weights(LATTICES, {"other": ["w1"]}, FakeLM(), OPTIONS)
    with pytest.raises(OptionError, match="num_best is 0"):
        tune_weights(LATTICES, references(), FakeLM(), OPTIONS, num_best=0)


def test_a_lattice_that_fails_is_left_out() -> None:
    failures: list[package.NinjaError] = []
    without_words = replace(LATTICES[1][1], key="seed-1", words=None)
    pairs = [LATTICES[0], ("seed-1", without_words), *LATTICES[2:]]
    tuned = tune_weights(pairs, references(), FakeLM(), OPTIONS, report=RescoreReport(on_error=failures.append))
    assert tuned.num_lattices == 5
    assert [failure.key for failure in failures] == ["seed-1"]


def copies(num_copies: int) -> tuple[list[tuple[str, package.Lattice]], dict[str, list[str]]]:
    """Return a larger set, with several copies of each lattice and reference."""
    reference_texts = references()
    pairs = [
        (f"{key}-{copy}", replace(lattice, key=f"{key}-{copy}"))
        for copy in range(num_copies)
        for key, lattice in LATTICES
    ]
    return pairs, {key: reference_texts[key.rpartition("-")[0]] for key, _ in pairs}


def test_tuning_approaches_the_weights_that_generated_the_references() -> None:
    pairs, reference_texts = copies(25)
    tuned = tune_weights(
        pairs, reference_texts, FakeLM(), replace(OPTIONS, lm_weight=0.3, acoustic_scale=1.0, word_penalty=0.0)
    )
    assert tuned.choice.reason == "better"
    assert tuned.wer_rescored < tuned.wer_before < tuned.wer_first_pass
    assert tuned.difference.high < 0
    assert tuned.wer == pytest.approx(tuned.wer_rescored)  # nothing is pruned
    small_set = tune_weights(LATTICES, references(), FakeLM(), OPTIONS)
    assert (small_set.weights, small_set.choice.reason) == (small_set.start, "too few words")
    assert small_set.wer_rescored == small_set.wer_before


def test_repeated_tuning_adds_the_sentences_of_new_rescorings(monkeypatch) -> None:
    rescoring_options = []
    pairs, reference_texts = copies(25)
    monkeypatch.setattr(
        weights_module,
        "rescore",
        lambda source, lm, options, **arguments: (
            rescoring_options.append(options) or rescore(source, lm, options, **arguments)
        ),
    )
    tuned = tune_weights(pairs, reference_texts, FakeLM(), replace(OPTIONS, lm_weight=0.1), num_best=2)
    assert 2 <= len(rescoring_options) <= 5
    assert tuned.weights.lm_weight == rescoring_options[-1].lm_weight
    assert tuned.num_sentences > 2 * tuned.num_lattices
    rescored = rescore(pairs, FakeLM(), rescoring_options[-1])
    assert tuned.wer_rescored == word_error_rate(rescored, reference_texts, rescoring_options[-1].scales)


@pytest.mark.parametrize("lm_scale", [1.0, 2.0])
def test_first_pass_scales_are_tuned_on_all_sentences(lm_scale):
    """All sentences of the lattices are used, so that the error rates are those of the best paths."""
    pairs, _ = copies(25)
    best = Scales(0.4 * lm_scale, lm_scale, word_penalty=lm_scale)
    reference_texts = {key: lattice.words.spell(best_path(lattice, best).words) for key, lattice in pairs}
    start = Scales(0.8 * lm_scale, lm_scale, -2.0)
    tuned = tune_first_pass(pairs, reference_texts, start)

    def wer(scales):
        errors = sum(
            edits(reference_texts[key], lattice.words.spell(best_path(lattice, scales).words)) for key, lattice in pairs
        )
        return 100 * errors / sum(map(len, reference_texts.values()))

    assert tuned.tuned.choice.reason == "better"
    assert tuned.wer == tuned.tuned.wer == wer(tuned.scales) < wer(start) == tuned.wer_before
    assert tuned.scales.lm == lm_scale
    assert tune_first_pass(pairs, reference_texts, start) == tuned
    with pytest.raises(FormatError, match="no lattice that could be rescored has a reference"):
        tune_first_pass(pairs, {}, start)


class StubSentences:
    """Sentences of a rescoring with fixed word error rates."""

    def __init__(self, first_pass: float, rescored: float) -> None:
        self.first_pass_errors, self.rescored_errors = first_pass, rescored

    def wer(self, rate: float) -> float:
        return rate

    def united(self, _: StubSentences) -> StubSentences:
        return self


@dataclass(frozen=True)
class StubTuned:
    weights: Weights
    wer_first_pass: float = math.nan
    wer_before: float = math.nan
    wer_rescored: float = math.nan


def test_no_weights_are_rescored_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    start, better = Weights(0.5, 0.1, 0.0), Weights(0.5, 0.15, 0.0)
    rates = {start: (40.0, 30.0), better: (41.0, 29.0)}  # WER of the first pass with these scales, and after rescoring
    rescored_weights: list[Weights] = []
    choices = iter([better, start])

    def sentences_at(weights: Weights, log: Log) -> Any:
        rescored_weights.append(weights)
        return StubSentences(*rates[weights])

    monkeypatch.setattr(weights_module, "choose", lambda *_, **__: StubTuned(next(choices)))
    tuned = choose_repeatedly(sentences_at, start, speakers=None, min_words=0, log=Log())
    assert rescored_weights == [start, better]
    assert tuned.weights == start
    assert (tuned.wer_first_pass, tuned.wer_before, tuned.wer_rescored) == (40.0, 30.0, 30.0)
