"""The English models of Ninja: they agree with their model cards and prefer correct English to similar text."""

import math

import numpy as np
import pytest

from ninja.errors import ModelError
from ninja.lm import load, sentence_logprobs
from ninja.models import ENGLISH, ENGLISH_NGRAM


@pytest.fixture(scope="module")
def lm():
    return load()


def logprob(lm, *sentences):
    ids = [
        [number if (number := lm.vocabulary.id(word)) is not None else lm.unk for word in s.split()] for s in sentences
    ]
    return sentence_logprobs(lm, ids)


def test_the_checkpoint_has_at_most_25_megabytes():
    assert ENGLISH.stat().st_size <= 25_000_000


@pytest.mark.parametrize(
    ("reference", "hypothesis"),
    [
        ("she went to the window and looked out", "she went too the window and look doubt"),
        ("he had been ill for a long time", "he had bean ill four along time"),
        ("i do not know what you mean", "eye do not no what you mean"),
        ("the children were playing in the garden", "the children where playing in the guard in"),
    ],
)
def test_correct_sentences_score_above_homophone_errors(lm, reference, hypothesis):
    reference_score, hypothesis_score = logprob(lm, reference, hypothesis)
    assert reference_score > hypothesis_score + 5


def test_the_perplexity_of_new_sentences_is_below_100(lm):
    # These sentences were written for this test, so that they are in no training text.
    sentences = [
        "the old man opened the door slowly and asked us to come in",
        "there was nothing in the letter that could explain her silence",
        "when the rain had stopped they walked down to the river together",
        "you must not think that i have forgotten what you did for my brother",
        "on the following morning the captain sent for his officers",
    ]
    tokens = sum(len(sentence.split()) + 1 for sentence in sentences)
    assert math.exp(-logprob(lm, *sentences).sum() / tokens) < 100


def test_probabilities_sum_to_one_and_bos_is_improbable():
    lm = load(normalize=True)
    slot = lm.advance(lm.start(1), np.array([lm.vocabulary.id("the")], np.int32))
    all_words = np.arange(len(lm.vocabulary), dtype=np.int32)
    probability = np.exp(lm.logprob(np.repeat(slot, len(all_words)), all_words).astype(np.float64))
    assert probability.sum() == pytest.approx(1, abs=1e-4)
    assert probability[lm.bos] < 1e-4


def test_the_estimated_normaliser_is_close_to_the_exact_one(lm):
    exact_lm = load(normalize=True)
    sentence = ["the", "old", "man", "opened", "the", "door", "slowly", "and", "asked", "us", "to", "come", "in"]
    slots = lm.start(1), exact_lm.start(1)
    differences = []
    for word in lm.vocabulary.ids(sentence):
        word = np.array([word], np.int32)
        differences.append(lm.logprob(slots[0], word)[0] - exact_lm.logprob(slots[1], word)[0])
        slots = lm.advance(slots[0], word), exact_lm.advance(slots[1], word)
    assert (lm.normalized, exact_lm.normalized) == (False, True)
    assert np.sqrt(np.mean(np.square(differences))) < 0.3
    assert np.ptp(differences) > 0  # an estimate is not exact


def test_the_model_card_states_the_perplexity_of_the_checkpoint():
    pytest.importorskip("torch")
    from ninja.lm import checkpoint

    card = checkpoint.read(ENGLISH).card
    assert f"**{card['perplexity']:.2f}**" in ENGLISH.with_suffix(".md").read_text(encoding="utf-8")
    assert card["perplexity"] < 150


def test_english_ngram_loads_by_name_and_matches_its_card(tmp_path, monkeypatch, lm):
    ngram = load("english-ngram")
    assert {word for word, _ in ngram.vocabulary} == {word for word, _ in lm.vocabulary}
    assert ENGLISH_NGRAM.stat().st_size <= 25_000_000
    assert f"{ENGLISH_NGRAM.stat().st_size:,} bytes" in ENGLISH_NGRAM.with_name("english_ngram.md").read_text("utf-8")
    reference_score, hypothesis_score = logprob(
        ngram, "he had been ill for a long time", "he had bean ill four along time"
    )
    assert reference_score > hypothesis_score + 5
    monkeypatch.chdir(tmp_path)
    (tmp_path / "english-ngram").write_text("this is a file of the user's")
    with pytest.raises(ModelError, match="a text file"):
        load("english-ngram")


def test_the_english_model_is_converted_by_its_name(tmp_path, lm):
    pytest.importorskip("torch")
    from ninja.lm.convert import convert

    convert("english", tmp_path / "lm.pt")
    assert load(tmp_path / "lm.pt").num_parameters == lm.num_parameters
