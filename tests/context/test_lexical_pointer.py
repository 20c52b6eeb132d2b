"""A context model reads written phrases and words by their lexical forms."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

import tiny_pointer

import ninja
from ninja.context.entities.lists import Entities
from ninja.context.pointer_scores import pointer_scores
from ninja.context.settings import Context
from ninja.context.stage import Contextual
from ninja.errors import Log
from ninja.graph import best_path
from ninja.lattice import Scales
from ninja.lattice.text import BASIC
from ninja.rescoring import RescoreOptions, Rescorer

LEXICAL = [("w1 w2 w3", -1.0), ("w1 w4 w5", -1.1), ("w6 w2 w5 w3", -1.2)]
WRITTEN = [("W1, w2 “W3.”", -1.0), ("w1 , W4 w5!", -1.1), ("W6 w2, W5 w3", -1.2)]


def stage_of(phrases):
    entities = Entities.from_dict({"phrases": phrases}, normalizer=BASIC)
    return Contextual(Context(entities, context_model=tiny_pointer.POINTER, normalizer=BASIC))


def nbest_lattice(hypotheses):
    return ninja.from_nbest("utt", [(text.split(), score) for text, score in hypotheses])


def rescore(hypotheses, phrases):
    options = RescoreOptions(lm_weight=0.5, normalizer="basic", max_unknown=1.0)
    rescorer = Rescorer(tiny_pointer.BASE, options, context=stage_of(phrases))
    ((_, result),) = rescorer([("utt", nbest_lattice(hypotheses))])
    return result, best_path(result, options.scales)


@pytest.mark.parametrize("phrases", [["w2 w3"], ["W2 W5", "w4"], ["W2 w5!", "W4"]])
def test_costs_agree_with_lexical_words_and_phrases(phrases):
    lexical, path = rescore(LEXICAL, [" ".join(BASIC.words(phrase.split())) for phrase in phrases])
    written_lattice, written_path = rescore(WRITTEN, phrases)
    words = written_lattice.words.spell(written_path.words)
    assert BASIC.words(words) == lexical.words.spell(path.words)
    assert written_path.graph_cost == pytest.approx(path.graph_cost, abs=1e-5)


def test_phrase_is_spelled_as_in_the_list():
    result, path = rescore([("w1 w2, w5!", -1.0)], ["W2 W5"])
    assert result.words.spell(path.words) == ["w1", "W2", "W5!"]


def test_arc_gains_agree_with_lexical_words():
    gains = []
    for hypotheses, phrase in ((LEXICAL[:1], "w2 w3"), (WRITTEN[:1], "W2 w3!")):
        scores = pointer_scores(nbest_lattice(hypotheses), stage_of([phrase]), tiny_pointer.BASE, Scales(), Log())
        gains.append(scores.gain[~np.isnan(scores.gain)])
    assert np.allclose(gains[0], gains[1], atol=1e-5)
    assert np.abs(gains[0]).max() > 0.01
