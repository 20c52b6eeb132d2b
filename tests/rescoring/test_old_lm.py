"""Removing the old language model: per word, with or without a new one, and on the lattices of the test data."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from english_models import first_pass_trigram
from fake_lm import FakeLM, symbols
from hypothesis import given, settings
from reference_graph import SHARED
from reference_rescore import close, path_costs, path_costs_under
from rescoring_cases import EXACT, mixture_logprob, models, penalized_logprob, random_lattice
from strategies import lattices

import ninja
from ninja.errors import OptionError
from ninja.lattice import Lattice, Scales
from ninja.lm import Mixture
from ninja.rescoring import RescoreOptions, RescoreReport, rescore

TABLE = symbols()


@pytest.mark.parametrize("new", ["model", "mixture", "none"])
@settings(max_examples=20, deadline=None)
@given(lattice=lattices(max_states=6, max_word=8))
def test_new_minus_old_lm_scores_are_added_to_first_pass_costs(new: str, lattice: Lattice) -> None:
    lattice = replace(lattice, words=TABLE)
    first, old, second = models()
    mixture = Mixture(((first, 0.5), (second, 0.5)), "linear")
    mixed = mixture_logprob([(penalized_logprob(first), 0.5), (penalized_logprob(second), 0.5)], "linear")
    lm, parts = {
        "model": (first, [(penalized_logprob(first), 1.0)]),
        "mixture": (mixture, [(mixed, 1.0)]),
        "none": (None, []),
    }[new]
    [(_, result)] = rescore([("k", lattice)], lm, EXACT, old_lm=old)
    difference = mixture_logprob([*parts, (penalized_logprob(old), -1.0)], "loglinear")
    assert close(path_costs(result), path_costs_under(lattice, difference, EXACT, graph_share=1.0))
    assert not any(model.history for model in (first, old, second))


def test_adding_and_subtracting_a_model_restores_the_costs() -> None:
    lattice = random_lattice(3, num_states=9, fan=1)
    options = replace(EXACT, lm_weight=1.0)
    zero = lattice.with_costs(np.zeros_like(lattice.graph))
    [(_, scored)] = rescore([("k", zero)], FakeLM(), options)
    [(_, result)] = rescore([("k", scored)], None, options, old_lm=FakeLM())
    assert max(abs(cost.graph) for cost in path_costs(result)) < 1e-3


def test_coverage_is_reported_for_both_models() -> None:
    report = RescoreReport()
    options = RescoreOptions(max_unknown=1.0)
    list(rescore([("k", random_lattice(1))], FakeLM(8), options, old_lm=FakeLM(3), report=report))
    new, old = report.coverages
    assert (new.model, old.model) == ("the language model", "the old language model")
    assert "unknown to the old language model (5 of 8 words" in str(old)
    assert str(old).endswith("scored as <unk> with penalty 1.61")  # ln 5


def test_rescoring_without_a_model_is_refused() -> None:
    with pytest.raises(OptionError, match="there is no language model to rescore with"):
        rescore([], None)


# In CI, conftest.py raises an error without these data.
@pytest.mark.skipif(not (SHARED / "data" / "english").is_dir(), reason="the English test bed is not here")
def test_subtracting_the_first_pass_model_leaves_no_graph_cost_in_english_lattices() -> None:
    english = SHARED / "data" / "english"
    old = first_pass_trigram()
    options = RescoreOptions(lm_weight=1.0, beam=math.inf, max_hyps=0, max_active=0, merge_order=2)
    source = ninja.read(english / "test" / "libri" / "lat.ark.gz", words=english / "words.txt.gz")
    worst = 0.0
    count = 0
    for _, lattice in rescore(source, None, options, old_lm=old):
        for sign in (1.0, -1.0):  # the paths with the least and the largest graph cost
            turned = replace(
                lattice.with_costs(np.float32(sign) * lattice.graph),
                final_graph=np.where(lattice.is_final, np.float32(sign) * lattice.final_graph, np.inf),
            )
            worst = max(worst, abs(ninja.graph.best_path(turned, Scales(acoustic=0.0)).graph_cost))
        count += 1
    assert count == 239
    assert worst < 1e-2
