"""Tuning of confidence models."""

from __future__ import annotations

import numpy as np
import pytest
from confident_sets import overconfident
from hypothesis import given
from hypothesis import strategies as st

from ninja.consensus.word_confidences import WordConfidenceEstimator
from ninja.consensus.word_features import OF_UTTERANCE, Surprise, sigmoid
from ninja.errors import FormatError, LatticeError, Log
from ninja.evaluate.confidence import ConfidentWords, label_words, score_confidences
from ninja.graph import from_arcs
from ninja.lattice import Scales
from ninja.lattice.batch import Batch
from ninja.tune.confidence import tune_confidence
from ninja.tune.logistic import fit_isotonic, fit_logistic


def score_on(model, lattices, references, **estimator):
    """Score the confidences of the most probable words."""
    batch = Batch.of(lattices.values())
    words = [[1, 3, 5, 7, 9, 11]] * len(batch)
    estimates = WordConfidenceEstimator(model, **estimator)(batch, words)
    hypotheses = {
        key: ConfidentWords([f"w{number - 1}" for number in sequence], estimate.confidences.tolist())
        for key, sequence, estimate in zip(lattices, words, estimates, strict=True)
    }
    return score_confidences(*label_words(references, hypotheses))


@pytest.mark.parametrize("method", ["logistic", "monotone"])
def test_overconfident_posteriors_become_calibrated(method):
    lattices, references = overconfident(150)
    tuned = tune_confidence(lattices.items(), references, method=method)
    assert tuned.model.map == method
    assert tuned.num_lattices == 150
    assert "cross-validated by utterance" in tuned.evidence[1]
    test_set = overconfident(150, seed=1)
    before, after = score_on(None, *test_set), score_on(tuned.model, *test_set)
    assert after.nce > before.nce + 0.1
    assert after.ece < before.ece / 2
    assert after.nce == pytest.approx(tuned.after.nce, abs=0.1)


def test_a_small_set_keeps_posteriors_and_gives_the_reason():
    lattices, references = overconfident(20)
    tuned = tune_confidence(lattices.items(), references)
    assert tuned.model.map == "raw"
    assert "120 words" in tuned.reason
    assert "are too few to fit a map" in tuned.reason
    assert tuned.after == tuned.before


def test_perfect_posteriors_are_kept():
    lattices, references = overconfident(100)
    references = {key: [f"w{2 * slot}" for slot in range(6)] for key in references}
    assert tune_confidence(lattices.items(), references).model.map == "raw"


def test_informative_surprise_is_used():
    lattices, references = overconfident(150)
    words = iter([*references.values()] * 2)

    def surprise(sentences):
        return [
            Surprise(np.array([-1.0 if word != "other" else -6.0 for word in next(words)] + [0.0]), np.zeros(6, bool))
            for _ in sentences
        ]

    result = tune_confidence(lattices.items(), references, surprise=surprise, lm="mine")
    assert result.model.needs_lm
    assert result.model.lm == "mine"
    assert result.model.weights["surprise"] < -0.5
    assert result.after.auc > 0.98


def test_posteriors_without_boosts_are_features():
    lattices, references = overconfident(60)
    tuned = tune_confidence(lattices.items(), references, unboosted=lattices.get)
    assert tuned.model.needs_unboosted
    with pytest.raises(LatticeError, match="uses posteriors without boosts"):
        score_on(tuned.model, lattices, references)
    assert score_on(tuned.model, lattices, references, unboosted=lattices.get).nce > 0


def test_tune_confidence_continues_after_a_lattice_without_a_path():
    lattices, references = overconfident(60)
    dead = from_arcs("dead", [0, 0], [1, 2], [1, 2], [0.0, 0.0], finals={1: 0.0})
    dead = dead.replace(final_graph=np.full(dead.num_states, np.inf, np.float32), words=lattices["utt000"].words)
    failures = []
    log = Log(on_error=failures.append)
    tuned = tune_confidence([("dead", dead), *lattices.items()], {"dead": ["a"], **references}, log=log)
    assert tuned.num_lattices == 60
    assert [error.key for error in failures] == ["dead"]
    with pytest.raises(LatticeError, match="no path"):
        tune_confidence([("dead", dead)], {"dead": ["a"]})


def test_a_set_without_references_is_refused():
    lattices, _ = overconfident(2)
    with pytest.raises(FormatError, match="no lattice has a reference"):
        tune_confidence(lattices.items(), {"other": ["a"]})


def mixed_speakers():
    """Return lattices and references of one speaker with 240 utterances, mostly wrong, and 12 speakers with 10 each."""
    lattices, references = overconfident(360)
    speakers = {key: "large" if place < 240 else f"small{place % 12}" for place, key in enumerate(lattices)}
    for place, (key, words) in enumerate(references.items()):
        if speakers[key] == "large":
            references[key] = [word if place % 2 else "other" for word in words]
    return lattices, references, speakers


def test_a_dominant_speaker_does_not_determine_the_map():
    lattices, references, speakers = mixed_speakers()
    tuned, without_speakers = (
        tune_confidence(lattices.items(), references, speakers=names).model for names in (speakers, None)
    )
    test_set = overconfident(150, seed=1)
    assert score_on(tuned, *test_set).ece < 0.8 * score_on(without_speakers, *test_set).ece


def test_words_of_a_difficult_utterance_have_smaller_confidences():
    lattices, references = overconfident(300)
    batch = Batch.of(lattices.values())
    features = WordConfidenceEstimator().features(batch, [[1, 3, 5, 7, 9, 11]] * len(batch), Scales())[0]
    generator = np.random.default_rng(2)
    for utterance in features:  # all words of an utterance are correct, or all are wrong
        is_correct = generator.random() < sigmoid(4.0 * (utterance.values["half"].mean() - 1.5))
        references[utterance.key] = [f"w{2 * slot}" if is_correct else "other" for slot in range(6)]
    tuned = tune_confidence(lattices.items(), references)
    assert tuned.model.weights["mean_half"] > 4 * abs(tuned.model.weights["half"])
    assert tuned.after.auc > 0.8


def test_utterance_features_have_a_separate_penalty(monkeypatch):
    monkeypatch.setattr("ninja.tune.confidence.UTTERANCE_PENALTY", 1e9)
    lattices, references = overconfident(150)
    weights = tune_confidence(lattices.items(), references).model.weights
    assert max(abs(weights[name]) for name in OF_UTTERANCE) < 1e-5
    assert abs(weights["half"]) > 1e-2


@pytest.mark.parametrize("weighted", [False, True])
def test_the_logistic_regression_minimises_its_penalised_loss(weighted):
    generator = np.random.default_rng(0)
    table = generator.normal(size=(300, 3)) * [1.0, 5.0, 0.1] + [0.0, 2.0, -1.0]
    words = [f"w{number}" for number in generator.integers(0, 40, 300)]
    is_correct = generator.random(300) < sigmoid(table @ [1.0, -0.2, 4.0])
    row_weight = generator.random(300) + 0.1 if weighted else None
    penalty = np.array([2.0, 1.0, 4.0]) if weighted else 2.0
    model = fit_logistic(table, words, is_correct, penalty, 3.0, row_weight)
    error = (sigmoid(model.logits(table, words)) - is_correct) * (1.0 if row_weight is None else row_weight)
    assert error.sum() == pytest.approx(0.0, abs=1e-2)
    standardised = (table - table.mean(0)) / table.std(0)
    assert standardised.T @ error + penalty * model.weights * table.std(0) == pytest.approx(0.0, abs=1e-2)
    assert len(model.words) > 30
    for word, weight in model.words.items():
        rows = [row for row, row_word in enumerate(words) if row_word == word]
        assert len(rows) >= 3
        assert error[rows].sum() + 3.0 * weight == pytest.approx(0.0, abs=1e-2)


def isotonic(values):
    """Return the isotonic regression of values by its max-min formula over means."""
    count = len(values)
    return [
        max(min(np.mean(values[first : last + 1]) for last in range(place, count)) for first in range(place + 1))
        for place in range(count)
    ]


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=1, max_size=25))
def test_isotonic_maps_increase_and_agree_with_their_definition_up_to_smoothing(pairs):
    values, labels = np.array([value / 20 for value, _ in pairs]), np.array([label for _, label in pairs])
    points, shares = fit_isotonic(values, labels, 1)
    assert (np.diff(points) > 0).all()
    assert (np.diff(shares) > 0).all()
    assert points[0] == 0.0
    assert points[-1] == 1.0
    assert 0.0 < shares[0] < shares[-1] < 1.0


def test_an_isotonic_map_of_many_words_is_the_isotonic_regression():
    generator = np.random.default_rng(1)
    levels = np.sort(generator.random(12))
    values = np.repeat(levels, 4000)
    labels = generator.random(len(values)) < np.repeat(levels[[0, 2, 1, 3, 5, 4, 6, 7, 9, 8, 10, 11]], 4000)
    expected = isotonic([labels[values == level].mean() for level in levels])
    points, shares = fit_isotonic(values, labels, 1)
    blocks = [level for level in dict.fromkeys(expected) if level > 0]
    inner = (points > 0.0) & (points < 1.0)
    assert shares[inner] == pytest.approx(blocks, abs=1e-3)
