"""Reversal of lattices, backward language models, and several models in turn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fake_lm import FakeLM, symbols
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_rescore import LogProb, PathCost, close, path_costs, path_costs_under, total, word_logprob
from rescoring_cases import EXACT, mixture_logprob, models, penalized_logprob, random_lattice
from strategies import lattices

from ninja.errors import OptionError
from ninja.graph import connect, reverse
from ninja.lattice import Lattice, check
from ninja.rescoring import RescoreOptions, RescoreReport, iterate, rescore
from ninja.rescoring.options import Output

TABLE = symbols()
BACKWARD = replace(EXACT, backward=True)


def reversed_costs(costs: list[PathCost]) -> list[PathCost]:
    return sorted(cost._replace(words=cost.words[::-1], labels=cost.labels[::-1]) for cost in costs)


def path_costs_backward(
    lattice: Lattice, logprob: LogProb, options: RescoreOptions, graph_share: float
) -> list[PathCost]:
    """Return the costs of all paths with a model of reversed sentences."""
    return reversed_costs(path_costs_under(reverse(lattice), logprob, options, graph_share))


@settings(max_examples=20, deadline=None)
@given(lattice=lattices(max_states=6, max_word=8))
def test_reverse_reverses_each_path_and_keeps_its_costs(lattice: Lattice) -> None:
    result = reverse(lattice)
    check(result)
    assert close(path_costs(result), reversed_costs(path_costs(lattice)))
    assert (result.key, result.kind, result.words) == (lattice.key, lattice.kind, lattice.words)


@settings(max_examples=20, deadline=None)
@given(lattice=lattices(max_states=6, max_word=8))
def test_reversing_twice_restores_the_lattice(lattice: Lattice) -> None:
    lattice = connect(lattice)
    result = reverse(reverse(lattice))
    assert close(path_costs(result), path_costs(lattice))
    if lattice.word.all():  # otherwise epsilons at its ends may have become final states
        assert (result.num_states, result.num_arcs) == (lattice.num_states, lattice.num_arcs)
        assert np.array_equal(result.is_final, lattice.is_final)


def test_reverse_replaces_several_final_states_by_arcs_from_the_start() -> None:
    lattice = Lattice.from_arrays(
        "k", [0, 2, 3, 3], [1, 2, 2], [1, 2, 3], [0.5, 1, 2], [4, 5, 6], [np.inf, 0.25, 0.75],
        ali_begin=[0, 2, 3, 5], ali=[1, 2, 3, 4, 5], final_ali_begin=[0, 0, 1, 2], final_ali=[7, 8], time=[0, 2, 4],
    )  # fmt: skip
    result = reverse(lattice)
    assert result.word[:2].tolist() == [0, 0]
    assert sorted(result.graph[:2].tolist()) == [0.25, 0.75]
    assert result.time is not None
    assert result.time.tolist() == [0, 0, 2, 4]
    again = reverse(result)
    assert again.time is not None
    assert again.time.tolist() == [0, 2, 4]
    assert close(path_costs(again), path_costs(lattice))
    assert again.final_graph.tolist() == [np.inf, 0.25, 0.75]
    assert again.final_ali.tolist() == [7, 8]


def test_reversed_raw_lattices_have_no_labels_in_final_states() -> None:
    lattice = Lattice.from_arrays(
        "k", [0, 1, 2, 2], [1, 2], [0, 1], [0, 0], [0, 0], [np.inf, np.inf, 0], ali_begin=[0, 1, 2], ali=[5, 6],
        kind="raw",
    )  # fmt: skip
    result = reverse(lattice)
    assert (result.kind, result.final_ali.size, result.num_arcs) == ("raw", 0, 2)
    assert reverse(replace(lattice, kind="compact")).final_ali.tolist() == [5]


@given(lattice=lattices(max_states=6, max_word=8), output=st.sampled_from(["lattice", "best", "input"]))
def test_an_unlimited_backward_search_equals_enumeration_of_all_paths(lattice: Lattice, output: Output) -> None:
    lattice = replace(lattice, words=TABLE)
    options = replace(BACKWARD, output=output)
    lm = FakeLM()
    expected = path_costs_backward(lattice, penalized_logprob(lm), options, 1 - options.lm_weight)
    [(_, result)] = rescore([("k", lattice)], lm, options)
    costs = path_costs(result)
    if output == "lattice":
        assert close(costs, expected)
    else:
        best = min(total(cost, options) for cost in expected)
        assert min(total(cost, options) for cost in costs) <= best + 1e-4
    assert not lm.history


def test_a_backward_model_with_an_old_model_and_input_topology() -> None:
    lattice = random_lattice(2, num_states=8, fan=1)
    new, old, _ = models()
    [(_, result)] = rescore([("k", lattice)], new, BACKWARD, old_lm=old)
    difference = mixture_logprob([(penalized_logprob(new), 1.0), (penalized_logprob(old), -1.0)], "loglinear")
    assert close(path_costs(result), path_costs_backward(lattice, difference, BACKWARD, 1.0))
    [(_, same_topology)] = rescore([("k", lattice)], new, replace(BACKWARD, output="input"))
    assert (same_topology.num_states, same_topology.num_arcs) == (lattice.num_states, lattice.num_arcs)
    assert sorted(same_topology.word.tolist()) == sorted(lattice.word.tolist())


@settings(max_examples=20, deadline=None)
@given(lattice=lattices(max_states=5, max_word=8))
def test_iterate_equals_repeated_interpolation_along_every_path(lattice: Lattice) -> None:
    lattice = replace(lattice, words=TABLE)
    a, b, c = models()
    weights = (0.75, 0.25, 0.5)
    passes = [
        (a, replace(EXACT, lm_weight=weights[0])),
        (b, replace(BACKWARD, lm_weight=weights[1])),
        (c, replace(EXACT, lm_weight=weights[2])),
    ]
    # Every pass scales all previous costs by 1 - w, so that the new costs add up along each path.
    expected = path_costs_under(lattice, word_logprob(a), replace(EXACT, lm_weight=0.0), 1.0)
    for lm, options in passes:
        new = {
            (cost.words, cost.labels, round(cost.acoustic, 3)): cost.graph
            for cost in (path_costs_backward if options.backward else path_costs_under)(
                lattice, penalized_logprob(lm), replace(options, lm_weight=1.0), 0.0
            )
        }
        expected = [
            cost._replace(
                graph=(1 - options.lm_weight) * cost.graph
                + options.lm_weight * new[cost.words, cost.labels, round(cost.acoustic, 3)]
            )
            for cost in expected
        ]
    report = RescoreReport()
    [(_, result)] = iterate([("k", lattice)], passes, report=report)
    assert close(path_costs(result), sorted(expected))
    assert (report.lattices, report.arcs, report.arcs_written) == (1, lattice.num_arcs, result.num_arcs)
    reports = [RescoreReport() for _ in passes]
    for (lm, options), pass_report in zip(passes, reports, strict=True):
        [(_, lattice)] = rescore([("k", lattice)], lm, options, report=pass_report)
    assert report.histories == sum(pass_report.histories for pass_report in reports)
    # Only the words that each model read are compared, because a pass can move words to other arcs.
    assert {coverage.words for coverage in report.coverages} == {
        coverage.words for pass_report in reports for coverage in pass_report.coverages
    }
    assert len({coverage.arcs for coverage in report.coverages}) <= 1


def test_iterate_subtracts_the_old_model_once() -> None:
    lattice = random_lattice(2)
    options = RescoreOptions(max_unknown=1.0)
    a, old, b = models()
    [(_, result)] = iterate([("k", lattice)], [(a, options)], old_lm=old)
    [(_, expected)] = rescore([("k", lattice)], a, options, old_lm=old)
    assert result.identical(expected)
    [(_, after_both)] = iterate([("k", lattice)], [(a, options), (b, options)], old_lm=old)
    [(_, expected)] = rescore([("k", expected)], b, options)
    assert after_both.identical(expected)
    with pytest.raises(OptionError, match="no language model to rescore with"):
        iterate([("k", lattice)], [])
