"""Tuning on written text gives the weights of its lexical words."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

import ninja
from ninja.evaluate import read_text
from ninja.lattice.symbols import SymbolTable
from ninja.lm.mixture import Mixture
from ninja.rescoring.algorithms import RescoreOptions
from ninja.tune.first_pass import tune_first_pass
from ninja.tune.weights import tune_weights

EXAMPLES = Path(__file__).parents[2] / "examples"


def written_form(word: str) -> str:
    return word if word.startswith(("<", "#", "!")) else word.capitalize() + ",.?"[len(word) % 3]


@pytest.fixture(scope="module")
def development():
    words = SymbolTable.read(EXAMPLES / "words.txt")
    table = SymbolTable((written_form(word) if word.isalpha() else word, number) for word, number in words)
    pairs = list(islice(ninja.read(str(EXAMPLES / "lat.ark.gz"), words=str(EXAMPLES / "words.txt")), 12))
    references = read_text(EXAMPLES / "text")
    return {
        "lexical": (pairs, references),
        "written": (
            [(key, lattice.replace(words=table)) for key, lattice in pairs],
            {key: [written_form(word) for word in reference] for key, reference in references.items()},
        ),
    }


def test_first_pass_scales_of_written_and_lexical_text_agree(development):
    tuned = [tune_first_pass(*development[form]) for form in ("lexical", "written")]
    assert tuned[0] == tuned[1]


@pytest.mark.parametrize("is_mixed", [False, True])
def test_model_weights_of_written_and_lexical_text_agree(development, is_mixed):
    lm = ninja.lm.load("english-ngram")
    options = RescoreOptions(lm_weight=0.3, max_unknown=1.0, unk_penalty=5.0)
    tuned = []
    for form, normalizer in (("lexical", "basic"), ("written", "auto")):
        lattices, references = development[form]
        models = Mixture([(lm, 0.5), (ninja.lm.load("english-ngram"), 0.5)]) if is_mixed else lm
        options_with_normalizer = RescoreOptions(**{**vars(options), "normalizer": normalizer})
        tuned.append(tune_weights(lattices, references, models, options_with_normalizer, num_best=20))
    assert tuned[0].weights == tuned[1].weights
    assert tuned[0].wer_rescored == tuned[1].wer_rescored
    assert tuned[0].wer_first_pass == tuned[1].wer_first_pass
