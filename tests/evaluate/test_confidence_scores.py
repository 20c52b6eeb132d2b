"""Quality of confidences: cross entropy, calibration error, ranking, and the labels of words."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninja.errors import FormatError, OptionError
from ninja.evaluate.confidence import ConfidentWords, label_words, score_confidences

PAIRS = st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), min_size=1, max_size=30)


def test_constant_confidence_at_the_accuracy_has_zero_cross_entropy():
    scores = score_confidences([0.75] * 8, [True] * 6 + [False] * 2)
    assert scores.nce == pytest.approx(0.0)
    assert scores.ece == pytest.approx(0.0)
    assert scores.auc == 0.5
    assert str(scores) == "NCE 0.000, ECE 0.000, AUC 0.500 [ 6 correct of 8 words ]"


def test_confidence_scores_match_a_manual_computation():
    scores = score_confidences([0.95, 0.85, 0.4, 0.15], [True, True, True, False])
    entropy = -3 * math.log2(0.75) - math.log2(0.25)
    logs = math.log2(0.95) + math.log2(0.85) + math.log2(0.4) + math.log2(0.85)
    assert scores.nce == pytest.approx((entropy + logs) / entropy)
    assert scores.ece == pytest.approx((0.05 + 0.15 + 0.6 + 0.15) / 4)
    assert scores.auc == 1.0
    assert [part.num_words for part in scores.bins] == [0, 1, 0, 0, 1, 0, 0, 0, 1, 1]
    assert math.isnan(scores.bins[0].accuracy)
    assert scores.bins[9].confidence == pytest.approx(0.95)


def test_confidences_of_0_and_1_are_clipped_and_counted():
    scores = score_confidences([1.0, 0.0, 0.5, 1.0], [False, True, True, True])
    assert scores.num_clipped == 3
    assert math.isfinite(scores.nce)
    entropy = -3 * math.log2(0.75) - math.log2(0.25)
    assert scores.nce == pytest.approx((entropy + 2 * math.log2(1e-4) - 1.0 + math.log2(1 - 1e-4)) / entropy)


@given(PAIRS)
def test_confidence_scores_agree_with_their_definitions(pairs):
    confidence, correct = (list(column) for column in zip(*pairs, strict=True))
    scores = score_confidences(confidence, correct)
    right, wrong = ([value for value, label in pairs if label is kind] for kind in (True, False))
    wins = [1.0 if high > low else 0.5 if high == low else 0.0 for high in right for low in wrong]
    assert math.isnan(scores.auc) if not wins else scores.auc == pytest.approx(sum(wins) / len(wins))
    assert math.isnan(scores.nce) == (not wins)
    gaps = 0.0
    for number in range(10):
        inside = [pair for pair in pairs if min(int(pair[0] * 10), 9) == number]
        gaps += abs(sum(value - label for value, label in inside))
    assert scores.ece == pytest.approx(gaps / len(pairs))


@pytest.mark.parametrize(
    ("confidences", "message"),
    [([], "there are no words"), ([1.5], "a confidence is 1.5, but must be between 0 and 1"), ([math.nan], "is nan")],
)
def test_invalid_confidences_raise_option_error(confidences, message):
    with pytest.raises(OptionError, match=re.escape(message)):
        score_confidences(confidences, [True] * len(confidences))


def test_words_are_labelled_by_the_alignment_of_lexical_words():
    references = {"a": ["Twenty-three", "cats"], "b": ["dogs"]}
    hypotheses = {
        "a": ConfidentWords(["twenty", "three,", "the", "hats"], [0.9, 0.8, 0.3, None]),
        "b": ConfidentWords(["Dogs."], [0.7]),
    }
    confidences, labels = label_words(references, hypotheses, normalizer="basic")
    assert confidences.tolist() == [0.9, 0.8, 0.3, 0.7]
    assert labels.tolist() == [True, True, False, True]


def test_hypotheses_without_confidences_raise_format_error():
    with pytest.raises(FormatError, match="have no confidences; specify hypotheses with confidences"):
        label_words({"a": ["b"]}, {"a": ConfidentWords(["b"], [None])})
    assert np.array_equal(label_words({"a": ["b"]}, {"a": ConfidentWords(["b"], [0.5])})[0], [0.5])


def test_error_of_an_invalid_confidence_names_its_word(ninja, tmp_path):
    (tmp_path / "text").write_text("u1 a b\nu2 c\n")
    (tmp_path / "hyp.ctm").write_text("u1 1 0.0 0.2 a 0.5\nu1 1 0.2 0.2 b 98\nu2 1 0.0 0.2 c 0.5\n")
    code, out, err = ninja("score", tmp_path / "text", tmp_path / "hyp.ctm", "--confidences")
    assert (code, out) == (1, "")
    assert "key 'u1': the confidence of 'b' is 98, but must be between 0 and 1; convert" in err
