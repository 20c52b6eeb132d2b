"""Choice of a grid point by word errors per group, compared with slow implementations."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninja.errors import FormatError
from ninja.evaluate.paired import paired_difference, ratio_error, student_quantile
from ninja.tune.choice import MAX_FOLDS, Outcomes, choose_point, cross_validated, explain
from ninja.tune.expected import SHARPNESS, Weights, WordErrors, rounded_shares, utterance_groups
from ninja.tune.features import Features

SEEDS = st.integers(0, 10_000)


def random_outcomes(seed: int, num_points: int = 8, num_groups: int = 12) -> tuple[Outcomes, np.ndarray]:
    rng = np.random.default_rng(seed)
    quality = rng.uniform(0, rng.choice([0.2, 2.0]), (num_points, 1))
    errors = rng.poisson(3 + quality, (num_points, num_groups)).astype(float)
    expected = errors + rng.uniform(0, 0.5, errors.shape)
    return Outcomes(expected, errors, rng.integers(20, 80, num_groups)), rng.integers(1, 4, num_points)


def test_a_fold_without_words_has_no_standard_error():
    errors = np.array([[1.0, 0.0], [0.0, 2.0]])
    outcomes = Outcomes(errors, errors, np.array([5, 0]))
    errors_by_group = cross_validated(outcomes, np.array([0, 1]))  # warnings are errors in tests
    assert errors_by_group.shape == (2,)
    assert np.isinf(ratio_error(errors, np.zeros(2))).all()


def simplest(outcomes: Outcomes, num_moved: np.ndarray, groups: list[int]) -> tuple[int, int]:
    """Return the best point, and the simplest point within a standard error, by explicit sums."""
    words = sum(int(outcomes.words[group]) for group in groups)
    totals = [sum(errors[group] for group in groups) for errors in outcomes.expected]
    best = min(range(len(totals)), key=lambda point: (totals[point], num_moved[point]))
    candidates = []
    for point, total in enumerate(totals):
        rate = (total - totals[best]) / words
        residuals = [
            outcomes.expected[point][group] - outcomes.expected[best][group] - rate * outcomes.words[group]
            for group in groups
        ]
        error = math.sqrt(len(groups) / (len(groups) - 1) * sum(value**2 for value in residuals)) / words
        if rate <= error:
            candidates.append(point)
    return best, min(candidates, key=lambda point: (num_moved[point], totals[point]))


@given(SEEDS)
def test_choice_agrees_with_a_slow_implementation_of_the_rules(seed: int) -> None:
    outcomes, num_moved = random_outcomes(seed)
    num_moved[0] = 0
    groups = list(range(len(outcomes.words)))
    best, candidate = simplest(outcomes, num_moved, groups)
    cross_validated_errors = np.zeros(len(groups))
    for fold in range(MAX_FOLDS):
        held_out = [group for group in groups if group % MAX_FOLDS == fold]
        _, point = simplest(outcomes, num_moved, [group for group in groups if group not in held_out])
        cross_validated_errors[held_out] = outcomes.errors[point][held_out]
    choice = choose_point(outcomes, num_moved, 0, min_words=0)
    assert cross_validated(outcomes, num_moved).tolist() == cross_validated_errors.tolist()
    assert choice.candidate == candidate
    difference = paired_difference(outcomes.errors[0], cross_validated_errors, outcomes.words)
    assert choice.difference == difference
    gain = paired_difference(outcomes.expected[0], outcomes.expected[best], outcomes.words)
    better = (
        gain.interval.high < 0
        and difference.interval.mean < -student_quantile(0.9, len(groups) - 1) * difference.standard_error
        and candidate != 0
    )
    assert choice.point == (candidate if better else 0)
    assert (choice.reason == "better") == better
    assert choice.reason != "best" or 0 in (best, candidate)


@given(SEEDS)
def test_too_few_words_keep_the_defaults(seed: int) -> None:
    outcomes, num_moved = random_outcomes(seed)
    words = int(outcomes.words.sum())
    choice = choose_point(outcomes, num_moved, 3, min_words=words + 1)
    assert (choice.point, choice.reason) == (3, "too few words")
    assert (choice.expected_difference.low, choice.expected_difference.high) == (0.0, 0.0)
    assert choose_point(outcomes, num_moved, 3, min_words=words).reason != "too few words"
    message = explain(choice, "others", words, "speaker", "weights of the first pass")
    assert message == f"the weights of the first pass are kept: {words} words are too few to choose other weights"


def test_a_point_that_is_better_everywhere_is_chosen_with_its_difference() -> None:
    words = np.full(20, 50)
    errors = np.stack([np.full(20, 5.0), np.full(20, 4.0), np.full(20, 4.0)])
    choice = choose_point(Outcomes(errors, errors, words), np.array([0, 2, 1]), 0, min_words=500)
    assert (choice.point, choice.reason) == (2, "better")
    assert choice.expected_difference.mean == pytest.approx(-2.0)
    assert choice.expected_difference.half_width == pytest.approx(0.0)


def test_a_single_group_is_explained_by_chance() -> None:
    errors = np.array([[5.0], [0.0]])
    choice = choose_point(Outcomes(errors, errors, np.array([1000])), np.array([0, 1]), 0, min_words=500)
    assert (choice.point, choice.reason) == (0, "chance")
    assert choice.difference.words_needed is None


@given(SEEDS, st.integers(1, 3), st.sampled_from(["loglinear", "linear"]), st.booleans())
def test_expected_errors_agree_with_posteriors_of_each_sentence(
    seed: int, num_models: int, mixing: str, with_old: bool
) -> None:
    rng = np.random.default_rng(seed)
    size, num_lattices = 30, 5
    begin = np.cumsum([0, *rng.integers(1, 4, size)])
    sentences = Features(
        keys=tuple("abcde"),
        lattice=np.sort(np.concatenate([np.arange(num_lattices), rng.integers(0, num_lattices, size - num_lattices)])),
        errors=rng.integers(0, 6, size),
        graph=rng.uniform(0, 5, size),
        acoustic=rng.uniform(0, 30, size),
        num_words=np.diff(begin),
        word=np.zeros(begin[-1], np.int32),
        token_begin=begin,
        logprob=rng.uniform(-2, 0, (num_models, begin[-1])).astype(np.float32),
        old_logprob=rng.uniform(-2, 0, begin[-1]).astype(np.float32) if with_old else None,
        reference_words=rng.integers(1, 9, num_lattices),
        first_pass_errors=np.zeros(num_lattices, np.int64),
        rescored_errors=np.zeros(num_lattices, np.int64),
    )
    shares = rounded_shares(rng.dirichlet(np.ones(num_models)))
    points = [
        Weights(weight, scale, penalty, shares)
        for weight, scale, penalty in rng.uniform([0, 0.05, -1], [1, 0.3, 2], (4, 3)).tolist()
    ]
    groups = np.array([0, 1, 0, 2, 1])
    outcomes = WordErrors(sentences, mixing).outcomes(points, groups)
    assert outcomes.words.tolist() == np.bincount(groups, sentences.reference_words).tolist()
    for place, point in enumerate(points):
        expected, errors = (np.zeros(3) for _ in range(2))
        for lattice in range(num_lattices):
            members = np.flatnonzero(sentences.lattice == lattice)
            costs = np.array([cost(sentences, number, point, mixing) for number in members])
            posterior = np.exp(-SHARPNESS * (costs - costs.min()))
            expected[groups[lattice]] += (posterior * sentences.errors[members]).sum() / posterior.sum()
            errors[groups[lattice]] += sentences.errors[members[costs.argmin()]]
        assert outcomes.expected[place] == pytest.approx(expected, abs=1e-4)
        assert outcomes.errors[place].tolist() == errors.tolist()


def cost(sentences: Features, number: int, weights: Weights, mixing: str) -> float:
    """Return the cost of a sentence by the definition of the score of an arc."""
    tokens = slice(sentences.token_begin[number], sentences.token_begin[number + 1])
    logprob = sentences.logprob[:, tokens].astype(np.float64)
    share = np.array(weights.mixture)
    new = (share @ logprob).sum() if mixing == "loglinear" else np.log(share @ np.exp(logprob)).sum()
    total = weights.acoustic_scale * sentences.acoustic[number] + weights.word_penalty * sentences.num_words[number]
    if sentences.old_logprob is None:
        return total + (1 - weights.lm_weight) * sentences.graph[number] - weights.lm_weight * new
    return total + sentences.graph[number] - weights.lm_weight * (new - sentences.old_logprob[tokens].sum())


@given(st.integers(1, 1000), st.integers(1, 9))
def test_groups_are_speakers_if_there_are_enough(num_keys: int, num_speakers: int) -> None:
    keys = [f"u{number}" for number in range(num_keys)]
    speakers = {key: str(number % num_speakers) for number, key in enumerate(keys)}
    groups, by_speaker = utterance_groups(keys, speakers)
    assert by_speaker == (min(num_keys, num_speakers) >= 5)
    if by_speaker:
        assert groups.tolist() == [int(speakers[key]) for key in keys]
    else:
        assert groups.tolist() == utterance_groups(keys, None)[0].tolist()
        sizes = Counter(groups.tolist()).values()
        assert len(sizes) == min(num_keys, 200)
        assert max(sizes) - min(sizes) <= 1
    with pytest.raises(FormatError, match="key 'u0': this utterance has no speaker"):
        utterance_groups(keys, {"other": "x"})


def test_many_speakers_share_groups() -> None:
    keys = [f"u{number}" for number in range(1000)]
    groups, by_speaker = utterance_groups(keys, {key: f"s{number // 2}" for number, key in enumerate(keys)})
    assert by_speaker
    assert groups.tolist() == [number // 2 % 200 for number in range(1000)]


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=9))
def test_rounded_shares_sum_to_one(shares: list[float]) -> None:
    rounded = rounded_shares([share / sum(shares) for share in shares])
    assert sum(rounded) == pytest.approx(1.0, abs=1e-12)
    assert all(share == round(share, 4) for share in rounded)
