"""Confidences of words: features, maps and their files, values without boosts."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from confident_sets import overconfident, slots

from ninja.consensus import mbr_decode
from ninja.consensus.confidence_model import ConfidenceModel, read_confidence_model
from ninja.consensus.word_confidences import WordConfidenceEstimator, with_confidences
from ninja.consensus.word_features import (
    DAMPER,
    OF_TIMES,
    OF_UTTERANCE,
    POSTERIORS,
    LexicalWords,
    Surprise,
    lexical_words,
    surprise_features,
    word_features,
)
from ninja.errors import FormatError, LatticeError
from ninja.graph import from_arcs
from ninja.lattice import Scales
from ninja.lattice.batch import Batch
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import BASIC, LexicalForms

GRAPH = np.array([[0.0, 1.0], [0.3, 0.0], [0.0, 4.0]])
ACOUSTIC = np.array([[0.0, 2.0], [0.0, 0.5], [1.0, 0.0]])
LOGISTIC = ConfidenceModel("logistic", Scales(), (), (), 0.5, {"posterior": 0.25, "letters": -1.0}, {"w0": 0.125}, None)
MONOTONE = ConfidenceModel("monotone", Scales(), (0.0, 0.5, 1.0), (0.125, 0.25, 0.75))


def features_of(lattice, ids, scales=Scales(), forms=None):
    return word_features(Batch.of([lattice]), [lexical_words(lattice, ids, forms)], scales, forms=forms)[0]


def test_posteriors_at_smaller_scales_agree_with_scaled_costs():
    features = features_of(slots("a", GRAPH, ACOUSTIC), [1, 3, 5], Scales(0.5, 0.8))
    for name, (acoustic, lm) in POSTERIORS.items():
        costs = 0.5 * acoustic * ACOUSTIC + 0.8 * lm * GRAPH
        share = (np.exp(-costs) / np.exp(-costs).sum(1, keepdims=True))[:, 0]
        expected = np.log(share + DAMPER) - np.log(1 - share + DAMPER)
        assert features.values[name] == pytest.approx(expected, abs=1e-4), name
    assert features.values["competitor_half"] == pytest.approx(
        np.log(1 / (1 + np.exp(0.25 * np.diff(ACOUSTIC)[:, 0] + 0.4 * np.diff(GRAPH)[:, 0])) + DAMPER), abs=1e-4
    )
    assert features.values["previous_half"][1:].tolist() == features.values["half"][:-1].tolist()
    assert features.values["next_half"][:-1].tolist() == features.values["half"][1:].tolist()
    for name in OF_UTTERANCE:
        mean = features.values[name.removeprefix("mean_")].mean()
        assert features.values[name] == pytest.approx(np.full(3, mean))
    assert np.exp(features.values["depth"]).tolist() == pytest.approx([2.0] * 3)
    assert np.exp(features.values["duration"]).tolist() == pytest.approx([3.0] * 3)


def test_words_missing_from_a_lattice_have_posterior_0():
    lattice = slots("a", GRAPH, ACOUSTIC)
    batch, words = Batch.of([lattice]), [LexicalWords(("w0", "new", "w4"), np.arange(3))]
    (features,) = word_features(batch, words)
    assert features.posterior[1] == 0.0
    assert (features.posterior[[0, 2]] > 0.1).all()
    (posteriors,) = word_features(batch, words, only_posteriors=True)
    assert posteriors.posterior.tolist() == features.posterior.tolist()
    assert posteriors.values == {}


def test_a_monotone_map_keeps_the_order_of_posteriors():
    lattices, _ = overconfident(20)
    batch = Batch.of(lattices.values())
    words = [result.words for result in mbr_decode(batch)]
    raw, calibrated = (
        np.concatenate([part.confidences for part in WordConfidenceEstimator(model)(batch, words)])
        for model in (None, MONOTONE)
    )
    assert (np.diff(calibrated[np.argsort(raw)]) >= 0.0).all()
    assert len(np.unique(calibrated)) == len(np.unique(raw)) > 50


def test_a_logistic_map_sums_the_weights_of_features_and_words():
    features = features_of(slots("a", GRAPH, ACOUSTIC), [1, 3, 5])
    logits = 0.5 + 0.25 * features.values["posterior"] - np.log(2.0) + np.array([0.125, 0.0, 0.0])
    assert LOGISTIC.confidences_of(features) == pytest.approx(1 / (1 + np.exp(-logits)))


def test_confidences_without_boosts_come_from_the_unboosted_lattice():
    plain = slots("a", GRAPH, ACOUSTIC)
    boosted = slots("a", GRAPH - np.array([[0.0, 0.0], [0.0, 5.0], [0.0, 0.0]]), ACOUSTIC)
    words = mbr_decode(boosted).words
    assert words.tolist() == [1, 4, 5]
    estimator = WordConfidenceEstimator(None, None, {"a": plain}.get)
    (result,) = estimator(Batch.of([boosted]), [words])
    (unboosted,) = WordConfidenceEstimator()(Batch.of([plain]), [words])
    assert result.without_boosts == pytest.approx(unboosted.confidences)
    assert result.confidences[1] > 0.99
    assert result.without_boosts[1] < 0.5
    with pytest.raises(
        LatticeError, match=re.escape("key 'b': the lattice without boosts is missing; provide a lattice with this key")
    ):
        estimator(Batch.of([boosted.with_key("b")]), [words])


def test_a_written_word_has_the_smallest_confidence_of_its_lexical_words():
    table = SymbolTable.from_words(["<eps>", "Twenty-three", ",", "twenty", "trees"])
    lattice = from_arcs("a", [0, 1, 0, 3], [1, 2, 3, 2], [1, 2, 3, 4], [0.0, 0.0, 1.0, 0.0], finals={2: 0.0})
    lattice = lattice.replace(words=table)
    forms = LexicalForms(BASIC)
    features = features_of(lattice, [1, 2], forms=forms)
    assert features.lexical.words == ("twenty", "three")
    assert features.lexical.written.tolist() == [0, 0]
    batch = Batch.of([lattice])
    (estimate,) = WordConfidenceEstimator()(batch, [[1, 2]], forms=forms)
    assert estimate.confidences[0] == pytest.approx(1 / (1 + np.exp(-1.0)), abs=1e-5)
    assert np.isnan(estimate.confidences[1])
    results = mbr_decode(batch, decode_mbr=False, hypothesis=[[1, 2]])
    ((result, without),) = with_confidences(results, batch, WordConfidenceEstimator(), forms=forms)
    assert without is None
    assert result.confidences[1] == results[0].confidences[1]


def test_models_are_unchanged_after_write_and_read(tmp_path):
    path = tmp_path / "model.toml"
    for model in (LOGISTIC, MONOTONE, ConfidenceModel("raw", Scales(0.1, 1.0, 0.5))):
        path.write_text(model.text(["a comment"]))
        assert read_confidence_model(path) == model


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version = 1", "version = 2", "version is 2, but must be 1"),
        ('map = "logistic"', 'map = "spline"', "map is 'spline', but must be raw, monotone or logistic"),
        ("bias = 0.5", "", "bias is missing"),
        ("bias = 0.5", "bias = nan", "bias is nan, but must be a finite number"),
        ('"letters"]', '"vowels"]', "features is ['posterior', 'vowels'], but contains 'vowels', which is not"),
        (
            "weights = [0.25, -1.0]",
            "weights = [0.25]",
            "must have as many values as features (2)",
        ),
        ('words = ["w0"]', "words = [3]", "words is [3], but must be a list of strings"),
        ("version", "version = [", "not TOML"),
    ],
)
def test_damaged_models_are_refused_with_the_field(tmp_path, old, new, message):
    path = tmp_path / "model.toml"
    text = LOGISTIC.text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(FormatError, match=re.escape(message)) as error:
        read_confidence_model(path)
    assert str(path) in str(error.value)


def test_a_monotone_model_must_increase(tmp_path):
    path = tmp_path / "model.toml"
    path.write_text(replace(MONOTONE, confidences=(0.5, 0.25, 0.75)).text())
    with pytest.raises(FormatError, match=r"confidences is .* but must be at least two increasing numbers"):
        read_confidence_model(path)


def test_a_model_with_durations_refuses_lattices_without_times():
    model = replace(LOGISTIC, weights={"duration": 1.0})
    untimed = from_arcs("a", [0], [1], [1], [0.0], finals={1: 0.0})
    with pytest.raises(LatticeError, match="key 'a': the lattice has no times"):
        WordConfidenceEstimator(model)(Batch.of([untimed]), [[1]])
    assert not set(OF_TIMES) & set(features_of(untimed, [1]).values)


def test_surprise_features_of_a_word_and_its_neighbours():
    values = surprise_features(Surprise(np.array([-1.0, -2.0, -0.5]), np.array([False, True])))
    assert {name: column.tolist() for name, column in values.items()} == {
        "surprise": [1.0, 2.0],
        "previous_surprise": [0.0, 1.0],
        "next_surprise": [2.0, 0.5],
        "unknown": [0.0, 1.0],
    }
    assert not any(len(column) for column in surprise_features(Surprise(np.array([-1.0]), np.zeros(0, bool))).values())


def test_an_utterance_without_words_has_no_confidences():
    silence = from_arcs("a", [0], [1], [0], [0.0], finals={1: 0.0}, labels=[(1, 1)])
    (result,) = WordConfidenceEstimator(replace(LOGISTIC, weights={"duration": 1.0}))(Batch.of([silence]), [[]])
    assert result.confidences.shape == (0,)
