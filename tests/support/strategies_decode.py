"""Spelled words, phrases and models for the tests of context for decoders."""

import numpy as np
from hypothesis import strategies as st
from reference_context import class_models, phrase_weights
from reference_ngram import SlowNgram

from ninja.context.entities.lists import Phrase, PhraseList
from ninja.context.options import ContextOptions
from ninja.decoding.spelling import Spelling

WORD = {"a": "a", "b": "ab", "c": "abb"}  # spellings of the models' words, with common prefixes
PIECES = Spelling(["<s>", "▁", "▁a", "▁ab", "a", "b", "bb"], silent=["<s>"])
LETTERS = Spelling(["<b>", " ", *"abcdefghijklmnopqrstuvwxyz"], boundary=" ", silent=["<b>"])
ALL = ContextOptions(max_tokens=0)


def rename_words(words):
    return tuple(WORD.get(word, word) for word in words)


def spell_model(model):
    return SlowNgram(model.order, {rename_words(ngram): value for ngram, value in model.ngrams.items()})


spelled_models = class_models.filter(lambda model: ("<unk>",) in model.ngrams).map(spell_model)
spelled_weights = phrase_weights().map(
    lambda weights: {
        cls: {rename_words(phrase): weight for phrase, weight in phrases.items()} for cls, phrases in weights.items()
    }
)
boosts = st.integers(-2, 12).map(lambda step: step / 4)


def list_of(weights, name=""):
    return PhraseList(
        name,
        {cls: tuple(Phrase(" ".join(p), weight) for p, weight in phrases.items()) for cls, phrases in weights.items()},
    )


def names(*phrases, name=""):
    return PhraseList(name, {"@name": tuple(map(Phrase, phrases))})


def ids(text):
    """Return the units of a text in LETTERS."""
    return [1 if letter == " " else ord(letter) - ord("a") + 2 for letter in text]


def steps(tracker, start, units):
    """Return the tracker's score of each unit, and of the end."""
    state, gains = np.array([start]), []
    for unit in units:
        state, gain = tracker.advance(state, np.array([unit], np.int32))
        gains.append(float(gain[0]))
        if state[0] < 0:
            return gains
    return [*gains, float(tracker.final(state)[0])]
