"""Rescoring on several threads: the same results as on one, in order, also after errors."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from fake_lm import FakeLM
from rescoring_cases import TABLE, random_lattice

from ninja.errors import LatticeError, NinjaError
from ninja.lm import Mixture
from ninja.rescoring import CarryOver, Rescorer, RescoreReport

pytest.importorskip("torch")

import torch
from threaded_rescoring import LATTICES, OPTIONS, identical, make_lm, run


@pytest.mark.parametrize("algorithm", ["arcbeam", "pruned", "nbest", "trie"])
@pytest.mark.parametrize("batch_arcs", [1, 200, 100_000])
def test_results_do_not_depend_on_the_number_of_threads(algorithm, batch_arcs):
    options = replace(OPTIONS, algorithm=algorithm, batch_arcs=batch_arcs, num_best=5)
    expected = run(make_lm(), options)
    assert len(expected) == len(LATTICES)
    for threads in (2, 7):
        lm, log = make_lm(), RescoreReport()
        assert identical(run(lm, options, threads, log=log), expected)
        assert (log.arcs, lm.num_slots) == (sum(lattice.num_arcs for _, lattice in LATTICES), 0)


def test_mixtures_and_old_models_have_twins():
    models = Mixture([(make_lm(1), 0.5), (make_lm(2), 0.5)], "linear")
    assert identical(run(models, threads=3, old_lm=make_lm(3)), run(models, old_lm=make_lm(3)))


def test_a_model_without_a_twin_is_used_by_one_thread_only():
    class Watched(FakeLM):
        def logprob(self, slots, words):
            callers.add(threading.current_thread().name)
            return super().logprob(slots, words)

    callers = set()
    assert identical(run(Watched(), threads=4), run(FakeLM()))
    assert len(callers) == 1


def test_carried_words_reach_the_next_utterance_on_any_thread():
    assert identical(run(make_lm(), threads=3, carry_over=CarryOver()), run(make_lm(), carry_over=CarryOver()))


def test_a_failed_lattice_does_not_affect_others():
    bad = random_lattice(99).replace(final_graph=np.full(30, np.inf, np.float32), key="bad")
    lattices = [*LATTICES[:7], ("bad", bad), *LATTICES[7:]]
    failures = []
    log = RescoreReport(on_error=failures.append)
    assert identical(run(make_lm(), threads=3, lattices=lattices, log=log), run(make_lm()))
    assert [error.key for error in failures] == ["bad"]
    with pytest.raises(LatticeError, match="no final state"):
        run(make_lm(), threads=3, lattices=lattices)


@pytest.mark.parametrize("error", [NinjaError("cut short"), ZeroDivisionError()])
def test_an_error_of_the_source_or_the_model_ends_the_run(error):
    def source():
        yield from LATTICES[:12]
        raise error

    with pytest.raises(type(error)):
        run(make_lm(), threads=2, lattices=source())
    lm = make_lm()
    lm._step = lambda row, words: 1 / 0  # also for the twins
    with pytest.raises(ZeroDivisionError):
        run(lm, threads=2)


def test_closing_the_results_early_ends_the_threads():
    before = torch.get_num_threads()
    results = Rescorer(make_lm(), OPTIONS).on_threads(iter(LATTICES), RescoreReport(), 3)
    assert next(results)[0] == LATTICES[0][0]
    results.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("rescoring")]
    assert torch.get_num_threads() == before


def test_a_slow_consumer_bounds_the_lattices_in_flight():
    numbers = []

    def source():
        for number in range(60):
            numbers.append(number)
            yield LATTICES[number % len(LATTICES)]

    limit = 4 * OPTIONS.batch_arcs // min(lattice.num_arcs for _, lattice in LATTICES) + 3
    results = Rescorer(make_lm(), OPTIONS).on_threads(source(), RescoreReport(), 3)
    for num_results, _ in enumerate(results, start=1):
        assert len(numbers) <= num_results + limit


def test_twins_share_only_their_weights():
    lm = make_lm()
    twin = lm.twin()
    assert twin._embedding.data_ptr() == lm._embedding.data_ptr()
    assert twin._layers is lm._layers
    slot = twin.advance(twin.start(1), np.array([4], np.int32))
    assert (lm.num_slots, twin.num_slots) == (0, 2)
    own_slot = lm.advance(lm.start(1), np.array([4], np.int32))
    every = np.arange(11, dtype=np.int32)
    assert (twin.logprob(np.repeat(slot, 11), every) == lm.logprob(np.repeat(own_slot, 11), every)).all()
    assert TABLE is LATTICES[0][1].words


@pytest.mark.parametrize("threads", [1, 3])
def test_failures_are_reported_between_the_results_in_input_order(threads):
    bad = random_lattice(99).replace(final_graph=np.full(30, np.inf, np.float32))
    lattices = [pair for number, pair in enumerate(LATTICES) for pair in (pair, (f"bad{number}", bad))]
    lattices = [("first", bad), *lattices]
    events = []
    log = RescoreReport(on_error=lambda error: events.append(error.key))
    rescorer = Rescorer(make_lm(), OPTIONS)
    for key, _ in rescorer.on_threads([(key, lattice.with_key(key)) for key, lattice in lattices], log, threads):
        events.append(key)
    assert events == [key for key, _ in lattices]
