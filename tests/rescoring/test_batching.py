"""A language model that runs out of memory is called with smaller batches, which does not change results."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fake_lm import FakeLM
from rescoring_cases import random_lattice
from tiny_lstm import MODULE, VOCABULARY

from ninja.errors import ModelError
from ninja.lm import Mixture
from ninja.lm.protocol import BatchedLM, out_of_memory
from ninja.lm.recurrent.lstm import LstmLM
from ninja.rescoring import RescoreOptions, RescoreReport, rescore

OPTIONS = RescoreOptions(max_unknown=1.0)
MANY = [(f"seed-{seed}", random_lattice(seed)) for seed in range(12)]


class Small(FakeLM):
    """A model with memory for a limited number of queries, which fails in the middle of larger batches."""

    def __init__(self, room: int, error: type[Exception] = MemoryError, salt: int = 0) -> None:
        super().__init__(salt=salt)
        self.room = room
        self.error = error
        self.largest = 0

    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        self._reserve(len(slots))
        return super().advance(slots, words)

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        self._reserve(len(slots))
        return super().logprob(slots, words)

    def _reserve(self, count: int) -> None:
        if count > self.room:
            raise self.error("no room")
        self.largest = max(self.largest, count)


@pytest.mark.parametrize("room", [1, 7, 50])
def test_batches_are_halved_for_the_rest_of_the_run_without_changing_results(room: int) -> None:
    expected = dict(rescore(MANY, FakeLM(), OPTIONS))
    lm, notes = Small(room), list[str]()
    report = RescoreReport(on_note=notes.append)
    results = dict(rescore(MANY, lm, OPTIONS, report=report))
    assert list(results) == list(expected)
    assert all(lattice.identical(expected[key]) for key, lattice in results.items())
    assert not lm.history
    assert room / 2 <= lm.largest <= room
    assert notes == [*report.notes, f"vocabulary: {report.coverages[0]}"]
    limits = [int(note.split("limited to ")[1].split()[0]) for note in report.notes]
    assert limits == sorted(set(limits), reverse=True)  # one note per limit
    assert notes[-2].startswith("out of memory with ")
    assert 1 <= limits[-1] <= room


@pytest.mark.parametrize("part", [0, 1])
def test_out_of_memory_in_a_mixture_leaks_no_slots_of_other_models(part: int) -> None:
    lms = [FakeLM(), FakeLM(salt=1)]
    expected = dict(rescore(MANY, Mixture(tuple((lm, 0.5) for lm in lms)), OPTIONS))
    lms[part] = Small(9, salt=part)
    results = dict(rescore(MANY, Mixture(tuple((lm, 0.5) for lm in lms)), OPTIONS))
    assert all(lattice.identical(expected[key]) for key, lattice in results.items())
    assert not any(lm.history for lm in lms)


@pytest.mark.parametrize("method", ["advance", "logprob"])
def test_out_of_memory_for_a_single_history_ends_the_run_and_releases_all_slots(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lm = Small(0)
    method_that_works = "logprob" if method == "advance" else "advance"
    monkeypatch.setattr(Small, method_that_works, getattr(FakeLM, method_that_works))
    with pytest.raises(ModelError, match="out of memory for a single history") as caught:
        list(rescore(MANY, lm, OPTIONS))
    assert isinstance(caught.value.__cause__, MemoryError)
    assert not lm.history


@pytest.mark.parametrize("calls", [1, 2, 3, 4])
def test_histories_created_before_out_of_memory_are_released(calls: int) -> None:
    class Shrinking(Small):
        def _reserve(self, count: int) -> None:
            self.room = self.room if self.num_calls else 0
            super()._reserve(count)
            self.num_calls -= 1

        num_calls = calls

    lm = Shrinking(2)
    slots = lm.start(5)
    batched = BatchedLM(lm)
    batched.limit = 2
    with pytest.raises(
        ModelError, match="out of memory for a single history"
    ):  # in the third piece of advance, or in logprob
        batched.wave(np.empty(0, np.int64), slots, np.full(5, 3, np.int32), slots, np.full(5, 4, np.int32))
    assert set(lm.history) == set(slots.tolist())


def test_errors_other_than_out_of_memory_are_not_retried() -> None:
    lm = Small(5, RuntimeError)
    with pytest.raises(RuntimeError, match="no room"):
        list(rescore(MANY, lm, OPTIONS))
    assert not lm.history
    assert lm.largest <= 5


def test_out_of_memory_errors_of_torch_are_recognised_without_importing_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    class OutOfMemoryError(RuntimeError):
        pass

    emptied = []
    cuda = SimpleNamespace(is_initialized=lambda: True, empty_cache=lambda: emptied.append(True))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(OutOfMemoryError=OutOfMemoryError, cuda=cuda))
    lm = Small(2, OutOfMemoryError)
    slots = lm.start(5)
    batched = BatchedLM(lm)
    slots_after, logprob, _ = batched.wave(
        np.empty(0, np.int64), slots, np.full(5, 3, np.int32), slots, np.full(5, 4, np.int32)
    )
    assert (len(set(slots_after.tolist())), logprob.shape, batched.limit) == (5, (5,), 2)
    assert emptied == [True]
    assert batched.notes == ["out of memory with a language model batch of 5; batches are limited to 2 from now on"]
    assert out_of_memory(RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried …"))
    monkeypatch.delitem(sys.modules, "torch")
    assert not out_of_memory(OutOfMemoryError())
    assert out_of_memory(MemoryError())


def test_a_network_that_runs_out_of_memory_leaks_no_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    lm = LstmLM(MODULE, VOCABULARY)
    slots = lm.start(3)
    step = LstmLM._step

    def crowded(self: LstmLM, row: torch.Tensor, words: np.ndarray) -> torch.Tensor:
        if len(words) > 1:
            raise torch.OutOfMemoryError("no room")
        return step(self, row, words)

    expected = lm.advance(slots, np.full(3, 4, np.int32))
    monkeypatch.setattr(LstmLM, "_step", crowded)
    batched = BatchedLM(lm)
    slots_after, _, _ = batched.wave(
        expected, slots, np.full(3, 4, np.int32), np.empty(0, np.int64), np.empty(0, np.int32)
    )
    assert (lm.num_slots, len(slots_after), batched.limit) == (6, 3, 1)
