"""Deadlines of submitted lattices: the best answer so far, and whether the search was complete."""

from __future__ import annotations

import time

import numpy as np
import pytest
from fake_lm import FakeLM
from rescoring_cases import random_lattice

from ninja.errors import OptionError
from ninja.graph import best_path, oracle
from ninja.lattice import Lattice
from ninja.rescoring import RescoreOptions, Rescorer, rescore
from ninja.rescoring.utterances import Submission, Utterance

OPTIONS = RescoreOptions(acoustic_scale=0.5, max_unknown=1.0, unk_penalty=1.0)


class Clock(FakeLM):
    """A model in whose n-th call the deadline expires."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.calls_left = calls

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        self.calls_left -= 1
        return super().logprob(slots, words)


def stopped(
    lattice: Lattice, calls: int, options: RescoreOptions, monkeypatch: pytest.MonkeyPatch
) -> tuple[Submission, Clock]:
    """Rescore a lattice with a deadline that expires in a call of the model."""
    lm = Clock(calls)
    monkeypatch.setattr(Utterance, "is_expired", property(lambda self: self.deadline < np.inf and lm.calls_left <= 0))
    with Rescorer(lm, options) as rescorer:
        future = rescorer.submit(lattice, deadline=1.0)
        future.result()
    return future, lm


def words(lattice: Lattice) -> list[int]:
    return best_path(lattice, OPTIONS.scales).words.tolist()


def test_a_deadline_before_the_search_returns_the_lattice_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    lattice = random_lattice(0)
    future, lm = stopped(lattice, 0, OPTIONS, monkeypatch)
    assert not future.is_complete
    assert lm.num_scored == 0
    assert words(future.result()) == words(lattice)
    assert np.array_equal(np.sort(future.result().graph), np.sort(lattice.graph))


@pytest.mark.parametrize("algorithm", ["arcbeam", "pushforward", "pruned"])
def test_a_deadline_in_the_search_returns_a_path_of_the_lattice(
    algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = RescoreOptions(acoustic_scale=0.5, max_unknown=1.0, unk_penalty=1.0, algorithm=algorithm)
    complete = []
    for seed in range(3):
        lattice = random_lattice(seed)
        [(_, whole)] = rescore([(lattice.key, lattice)], FakeLM(), options)
        for calls in (1, 10, 25, 40, 10_000):
            future, lm = stopped(lattice, calls, options, monkeypatch)
            result = future.result()
            assert lm.history == {}  # all slots are released
            assert oracle(lattice, words(result)).edits == 0
            complete.append(future.is_complete)
            if future.is_complete:
                assert words(result) == words(whole)
    assert any(complete)
    assert not all(complete)


def test_a_partial_result_has_the_scores_of_the_searched_words(monkeypatch: pytest.MonkeyPatch) -> None:
    lattice = random_lattice(1, 60)
    [(_, whole)] = rescore([(lattice.key, lattice)], FakeLM(), OPTIONS)
    first, last = words(lattice), words(whole)
    assert first != last
    results = [words(stopped(lattice, calls, OPTIONS, monkeypatch)[0].result()) for calls in range(28, 80, 9)]
    partial = [result for result in results if result not in (first, last)]
    assert partial  # neither the first pass nor the complete search

    def common(a: list[int], b: list[int]) -> int:
        return next((place for place, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))

    assert max(common(result, last) for result in partial) > common(first, last)


@pytest.mark.parametrize("output", ["best", "input", "lattice"])
def test_each_output_type_has_a_result_when_the_deadline_expires(output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lattice = random_lattice(2)
    options = RescoreOptions(acoustic_scale=0.5, max_unknown=1.0, unk_penalty=1.0, output=output)  # type: ignore[arg-type]
    for calls in (0, 40):
        future, _ = stopped(lattice, calls, options, monkeypatch)
        assert oracle(lattice, words(future.result())).edits == 0


def test_the_lattice_of_a_deadline_does_not_change_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    lattices = [random_lattice(seed) for seed in range(6)]
    lm = Clock(20)
    monkeypatch.setattr(Utterance, "is_expired", property(lambda self: self.deadline < np.inf and lm.calls_left <= 0))
    with Rescorer(lm, OPTIONS, max_latency=1.0) as rescorer:
        futures = [
            rescorer.submit(lattice, deadline=1.0 if place % 2 else None) for place, lattice in enumerate(lattices)
        ]
        results = [future.result() for future in futures]
    expected = [result for _, result in rescore([(lattice.key, lattice) for lattice in lattices], FakeLM(), OPTIONS)]
    for place in range(0, 6, 2):
        assert futures[place].is_complete
        assert np.array_equal(results[place].graph, expected[place].graph)
    assert not any(future.is_complete for future in futures[1::2])


def test_a_deadline_is_measured_from_the_submission() -> None:
    with Rescorer(FakeLM(), OPTIONS, max_latency=0.2) as rescorer:
        start = time.monotonic()
        future = rescorer.submit(random_lattice(0), deadline=0.001)
        future.result()
        assert time.monotonic() - start >= 0.001
        assert not future.is_complete
        assert rescorer.submit(random_lattice(0), deadline=1000).result().num_arcs
        with pytest.raises(OptionError, match="deadline is 0, but must be above 0"):
            rescorer.submit(random_lattice(0), deadline=0)
