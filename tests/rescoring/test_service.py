"""Rescorer.submit: one batch for all callers, and a separate result, error or queue position for each."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor

import numpy as np
import pytest
from fake_lm import FakeLM, symbols
from rescoring_cases import random_lattice, running_threads

import ninja
from ninja.context import Context, ContextOptions, Contextual, Entities
from ninja.errors import BusyError, ClosedError, LatticeError, ModelError, OptionError, TableError, VocabularyError
from ninja.lattice import Lattice
from ninja.rescoring import CarryOver, ModelFiles, RescoreOptions, Rescorer, rescore, service

MANY = [random_lattice(seed) for seed in range(30)]
ALGORITHMS = ["arcbeam", "pushforward", "pruned", "nbest", "cover", "trie"]
OPTIONS = RescoreOptions(max_unknown=1.0, acoustic_scale=0.5)


def expected(lattices: list[Lattice] = MANY, options: RescoreOptions = OPTIONS) -> list[Lattice]:
    return [result for _, result in rescore([(lattice.key, lattice) for lattice in lattices], FakeLM(), options)]


def assert_identical(results: list[Lattice], lattices: list[Lattice]) -> None:
    assert all(result.identical(lattice) for result, lattice in zip(results, lattices, strict=True))


NAMES = "ninja-rescorer", "language-model"


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    before = threading.enumerate()  # threads of runs that other tests abandoned may still end
    yield
    assert running_threads(*NAMES, besides=before) == []


class Gated(FakeLM):
    """A model that blocks until the test opens its gate."""

    def __init__(self) -> None:
        super().__init__()
        self.is_called, self.gate = threading.Event(), threading.Event()

    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        self.is_called.set()
        assert self.gate.wait(60)
        return super().advance(slots, words)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_results_for_many_threads_equal_those_of_rescore(algorithm: str) -> None:
    options = RescoreOptions(max_unknown=1.0, acoustic_scale=0.5, algorithm=algorithm)  # type: ignore[arg-type]
    lm = FakeLM()
    with Rescorer(lm, options) as rescorer, ThreadPoolExecutor(16) as callers:
        results = list(callers.map(lambda lattice: rescorer.submit(lattice).result(), MANY))
    assert_identical(results, expected(options=options))
    assert rescorer.report.lattices == len(MANY)
    assert not lm.history


def test_results_for_coroutines_equal_those_of_rescore() -> None:
    async def main() -> list[Lattice]:
        with Rescorer(FakeLM(), OPTIONS, max_waiting=3) as rescorer:
            return await asyncio.gather(*(rescorer.rescore(lattice) for lattice in MANY))

    results = asyncio.run(main())
    assert_identical(results, expected())


def test_a_lattice_can_be_submitted_several_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(service.Service, "_rescore_alone")  # no lattice fails here
    with Rescorer(FakeLM(), OPTIONS) as rescorer:
        futures = [rescorer.submit(MANY[0]) for _ in range(5)]
        results = [future.result(60) for future in futures]
    assert all(result.identical(expected(MANY[:1])[0]) for result in results)


def broken_lattices() -> dict[str, tuple[Lattice, type[Exception]]]:
    good = MANY[0]
    graph = good.graph.copy()
    graph[3] = np.nan
    back = good.dst.copy()
    back[5] = 0
    dead = np.full_like(good.final_graph, np.inf)
    dead[0] = 0.0
    cut = Lattice.from_arrays("cut", [0, 1, 1, 1], [1], [1], [0], [0], [np.inf, np.inf, 0], words=symbols())
    return {
        "nan": (good.replace(graph=graph), LatticeError),
        "cycle": (good.replace(dst=back), LatticeError),
        "no path": (cut, LatticeError),
        "no table": (good.with_words(None), VocabularyError),
        "other table": (good.with_words(symbols(3)), TableError),
        "short": (good.replace(graph=good.graph[:-1]), LatticeError),
        "costs of another kind": (good.replace(acoustic=good.acoustic.astype(np.float64)), TypeError),
    }


@pytest.mark.parametrize("kind", broken_lattices())
def test_a_bad_lattice_fails_alone(kind: str) -> None:
    bad, error = broken_lattices()[kind]
    with Rescorer(FakeLM(), OPTIONS) as rescorer:
        futures = [rescorer.submit(lattice) for lattice in (*MANY[:5], bad, *MANY[5:])]
        failed = futures.pop(5)
        with pytest.raises(error):
            failed.result()
        results = [future.result() for future in futures]
    assert_identical(results, expected())


def test_a_failure_names_its_lattice() -> None:
    with Rescorer(FakeLM(unk=False), OPTIONS) as rescorer:
        alike = [lattice.with_key("the same") for lattice in MANY[:2]]
        for future in [rescorer.submit(lattice) for lattice in alike]:
            with pytest.raises(VocabularyError, match="'the same'"):
                future.result()


class Failing(FakeLM):
    """A model that raises an error at one word."""

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        if (words == self.vocabulary.id("w7")).any():
            raise RuntimeError("the card is gone")
        return super().logprob(slots, words)


def test_an_error_in_the_model_fails_only_the_lattice_that_causes_it() -> None:
    mild = [lattice.replace(word=np.minimum(lattice.word, 6)) for lattice in MANY]
    wild = mild[0].replace(word=np.full_like(mild[0].word, 7))
    lm = Failing()
    with Rescorer(lm, OPTIONS) as rescorer:
        futures = [rescorer.submit(lattice) for lattice in (*mild[:5], wild, *mild[5:])]
        with pytest.raises(RuntimeError, match="the card is gone"):
            futures.pop(5).result()
        results = [future.result() for future in futures]
    assert_identical(results, expected(mild))
    assert not lm.history


def test_a_model_that_cannot_be_loaded_fails_every_lattice() -> None:
    with Rescorer(ModelFiles(("not/there.pt",)), OPTIONS) as rescorer:
        for future in [rescorer.submit(lattice) for lattice in MANY[:3]]:
            with pytest.raises(ModelError, match=r"not/there\.pt"):
                future.result()


def test_every_future_fails_if_the_model_lacks_too_many_words() -> None:
    lm = FakeLM(num_words=1)
    with Rescorer(lm, RescoreOptions()) as rescorer:
        for future in [rescorer.submit(random_lattice(seed, 300, 4)) for seed in range(3)]:
            with pytest.raises(VocabularyError, match="more than max_unknown = 50%"):
                future.result()


def test_submit_waits_for_a_slot_until_the_timeout() -> None:
    lm = Gated()
    with Rescorer(lm, OPTIONS, max_waiting=2) as rescorer:
        futures = [rescorer.submit(lattice) for lattice in MANY[:2]]
        for timeout in (0, 0.01):
            with pytest.raises(BusyError, match="2 lattices are in flight, and none finished within"):
                rescorer.submit(MANY[2], timeout=timeout)
        with ThreadPoolExecutor(1) as caller:
            third = caller.submit(rescorer.submit, MANY[2])
            with pytest.raises(TimeoutError if sys.version_info >= (3, 11) else Exception):
                third.result(0.05)
            lm.gate.set()
            assert third.result().result().identical(expected(MANY[2:3])[0])
        assert all(future.result() for future in futures)


def test_cancelling_drops_the_lattice_and_frees_its_slot() -> None:
    lm = Gated()
    with Rescorer(lm, OPTIONS, max_waiting=3) as rescorer:
        first = rescorer.submit(MANY[0])
        assert lm.is_called.wait(60)
        before = lm.num_advanced
        forgotten: list[int] = []
        lattice = random_lattice(1)
        weakref.finalize(lattice.graph, forgotten.append, 1)
        waiting = [rescorer.submit(queued) for queued in (lattice, MANY[2])]  # not taken while the engine waits
        del lattice
        assert waiting[0].cancel()
        assert forgotten
        assert rescorer.submit(MANY[3], timeout=0) is not None
        lm.gate.set()
        first.result()
        with pytest.raises(CancelledError):
            waiting[0].result()
        assert waiting[1].result().identical(expected(MANY[2:3])[0])
    assert rescorer.report.lattices == 3
    assert before == 0


def test_cancelling_a_coroutine_frees_its_slot() -> None:
    lm = Gated()

    async def main() -> Lattice:
        with Rescorer(lm, OPTIONS, max_waiting=1) as rescorer:
            first = asyncio.create_task(rescorer.rescore(MANY[0]))
            await asyncio.sleep(0.01)
            second, third = (asyncio.create_task(rescorer.rescore(lattice)) for lattice in MANY[1:3])
            await asyncio.sleep(0.01)
            second.cancel()
            await asyncio.sleep(0.01)
            lm.gate.set()
            await first
            with pytest.raises(asyncio.CancelledError):
                await second
            return await third

    assert asyncio.run(main()).identical(expected(MANY[2:3])[0])


def test_a_slot_assigned_to_a_cancelled_coroutine_is_passed_on() -> None:
    async def main() -> Lattice:
        with Rescorer(FakeLM(), OPTIONS, max_waiting=1) as rescorer:
            first = rescorer.submit(MANY[0])
            second, third = (asyncio.create_task(rescorer.rescore(lattice)) for lattice in MANY[1:3])
            await asyncio.sleep(0)
            first.result(60)  # frees the slot for the second coroutine, which has not run since
            second.cancel()
            return await asyncio.wait_for(third, 60)

    assert asyncio.run(main()).identical(expected(MANY[2:3])[0])


def test_close_finishes_the_lattices_in_flight() -> None:
    rescorer = Rescorer(FakeLM(), OPTIONS)
    futures = [rescorer.submit(lattice) for lattice in MANY]
    rescorer.close()
    assert all(future.done() for future in futures)
    assert all(f.result().identical(result) for f, result in zip(futures, expected(), strict=True))
    rescorer.close()
    with pytest.raises(ClosedError, match="create a new one"):
        rescorer.submit(MANY[0])
    with pytest.raises(ClosedError):
        asyncio.run(rescorer.rescore(MANY[0]))


@pytest.mark.parametrize("timeout", [0, 0.05])
def test_close_with_a_timeout_fails_the_lattices_in_flight(timeout: float) -> None:
    lm = Gated()
    rescorer = Rescorer(lm, OPTIONS, max_waiting=8)
    futures: list[Future[Lattice]] = []
    refused: list[Exception] = []

    def call(lattices: list[Lattice]) -> None:
        for lattice in lattices:
            try:
                futures.append(rescorer.submit(lattice))
            except ClosedError as error:
                refused.append(error)

    callers = [threading.Thread(target=call, args=(MANY[first::4],)) for first in range(4)]
    for caller in callers:
        caller.start()
    assert lm.is_called.wait(60)
    rescorer.close(timeout)
    for caller in callers:  # callers that waited for a slot get the error, too
        caller.join(60)
        assert not caller.is_alive()
    assert len(futures) + len(refused) == len(MANY)
    for future in futures:
        with pytest.raises(ClosedError, match="key 'seed-"):
            future.result(60)
    lm.gate.set()
    while running_threads(*NAMES):
        time.sleep(0.001)
    assert not lm.history
    assert rescorer.report.lattices == 0  # rescoring stops if nobody waits for the result


def test_every_future_ends_when_the_rescorer_is_closed_at_any_time() -> None:
    for patience in np.linspace(0, 0.03, 12):
        rescorer = Rescorer(FakeLM(), OPTIONS, max_latency=0.0)
        with ThreadPoolExecutor(8) as callers:

            def call(lattice: Lattice, rescorer: Rescorer = rescorer) -> str:
                try:
                    return rescorer.submit(lattice).result(60).key
                except ClosedError:
                    return "closed"

            futures = [callers.submit(call, lattice) for lattice in MANY]
            time.sleep(patience)
            rescorer.close(0)
            keys = [future.result(60) for future in futures]
        assert all(key in ("closed", lattice.key) for key, lattice in zip(keys, MANY, strict=True))
        while running_threads(*NAMES):
            time.sleep(0.001)


def test_an_exception_in_the_with_block_closes_without_waiting() -> None:
    lm = Gated()
    rescorer = Rescorer(lm, OPTIONS)
    future = rescorer.submit(MANY[0])
    rescorer.__exit__(KeyError)
    with pytest.raises(ClosedError):
        future.result(0)
    lm.gate.set()
    while running_threads(*NAMES):
        time.sleep(0.001)


def test_a_slow_consumer_bounds_the_lattices_in_memory() -> None:
    alive: set[int] = set()
    results: set[int] = set()
    most_lattices = most_results = 0

    def use(future: Future[Lattice]) -> None:
        nonlocal most_lattices, most_results
        most_lattices, most_results = max(most_lattices, len(alive)), max(most_results, len(results))
        graph = future.result().graph
        results.add(id(graph))
        weakref.finalize(graph, results.remove, id(graph))
        time.sleep(0.001)
        assert future.result().num_arcs

    with Rescorer(FakeLM(), OPTIONS, max_waiting=4) as rescorer:
        slow = rescorer.submit(random_lattice(0, 1000, 4))  # all others overtake it
        for seed in range(100):
            lattice = random_lattice(seed, 8, 2)
            alive.add(seed)
            weakref.finalize(lattice.graph, alive.remove, seed)
            rescorer.submit(lattice).add_done_callback(use)
            del lattice
        overtaken = not slow.done()
    assert overtaken
    assert rescorer.report.lattices == 101
    assert most_lattices <= 12  # in flight, being submitted, and still referenced by the engine
    assert most_results <= 2


def test_a_callback_can_submit_while_all_slots_are_in_use() -> None:
    futures: list[Future[Lattice]] = []
    with Rescorer(FakeLM(), OPTIONS, max_waiting=1) as rescorer:
        submitted = threading.Event()

        def again(future: Future[Lattice]) -> None:
            futures.append(rescorer.submit(MANY[1]))
            futures.append(rescorer.submit(MANY[2]))
            submitted.set()

        rescorer.submit(MANY[0]).add_done_callback(again)
        assert submitted.wait(60)
        assert [future.result(60).key for future in futures] == ["seed-1", "seed-2"]


def test_lattices_submitted_within_the_latency_form_one_batch() -> None:
    options = RescoreOptions(max_unknown=1.0, algorithm="nbest")
    calls = []
    for max_latency in (0.0, 30.0):
        lm = FakeLM()
        rescorer = Rescorer(lm, options, max_latency=max_latency, max_waiting=3)  # the third lattice fills the queue
        futures = []
        for lattice in MANY[:3]:
            futures.append(rescorer.submit(lattice))
            if not max_latency:
                futures[-1].result(60)  # on a busy machine, too, the next lattice follows this batch
        assert all(future.result(25) for future in futures)
        calls.append(rescorer.report.calls)
        rescorer.close()
    assert calls[1] < calls[0]


def test_words_are_carried_over_between_submitted_utterances() -> None:
    carry_over = CarryOver()
    pairs = [(lattice.key, lattice) for lattice in MANY[:6]]
    offline = [lattice for _, lattice in rescore(pairs, FakeLM(), OPTIONS, carry_over=CarryOver())]
    with Rescorer(FakeLM(), OPTIONS, carry_over=carry_over) as rescorer:
        futures = [rescorer.submit(lattice) for lattice in MANY[:3]]
        results = [future.result() for future in futures]
        results += [rescorer.submit(lattice).result() for lattice in MANY[3:6]]
    assert_identical(results, offline)
    assert not results[5].identical(expected(MANY[5:6])[0])


def test_entities_apply_to_their_lattice() -> None:
    options = ContextOptions(keyword_boost=3.0)
    lists: list[dict[str, list[str]] | None] = [{"@name": ["w1 w2"]}, None, {"@name": ["w3", "w4 w5"]}] * 3
    plain = Contextual(Context(Entities.from_dict({"@place": ["w6"]}), options=options), lm_weight=0.5)
    offline = []
    for lattice, phrases in zip(MANY, lists, strict=False):
        every = {"@place": ["w6"], **(phrases or {})}
        stage = Contextual(Context(Entities.from_dict(every), options=options), lm_weight=0.5)
        offline += [result for _, result in Rescorer(FakeLM(), OPTIONS, context=stage)([(lattice.key, lattice)])]
    with Rescorer(FakeLM(), OPTIONS, context=plain) as rescorer:
        ready = Entities.from_dict({"@name": ["w1 w2"]}, words=MANY[0].words)
        futures = [rescorer.submit(lattice, phrases) for lattice, phrases in zip(MANY, lists, strict=False)]
        wrong = rescorer.submit(MANY[0], {"@name": [""]})
        again = rescorer.submit(MANY[0], ready)
        results = [future.result() for future in futures]
        assert again.result().identical(results[0])
        with pytest.raises(ninja.FormatError):
            wrong.result()
    costs, offline_costs = (
        [ninja.graph.best_path(result, OPTIONS.scales).cost() for result in rescored] for rescored in (results, offline)
    )
    assert costs == pytest.approx(offline_costs, abs=1e-4)
    assert [result.key for result in results] == [result.key for result in offline]


def test_an_idle_thread_ends_and_does_not_keep_its_rescorer_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "IDLE_SECONDS", 0.01)
    rescorer = Rescorer(FakeLM(), OPTIONS)
    for _ in range(2):
        assert rescorer.submit(MANY[0]).result().identical(expected(MANY[:1])[0])
        while running_threads(*NAMES):
            time.sleep(0.001)
    forgotten = weakref.ref(rescorer)
    del rescorer
    gc.collect()
    assert forgotten() is None


def test_a_program_that_does_not_close_the_rescorer_ends() -> None:
    program = """
import sys; sys.path[:0] = ["tests/support", "tests/rescoring"]
from fake_lm import FakeLM
from rescoring_cases import random_lattice
import ninja
rescorer = ninja.Rescorer(FakeLM(), ninja.RescoreOptions(max_unknown=1.0))
futures = [rescorer.submit(random_lattice(seed)) for seed in range(20)]
print(futures[0].result().key)
"""
    root = ninja.__path__[0].rpartition("/")[0]
    process = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, timeout=60)
    assert (process.returncode, process.stdout) == (0, "seed-0\n"), process.stderr


def test_no_thread_of_a_service_runs_when_python_exits() -> None:
    """Python ends threads that still run when it exits; if such a thread is inside torch, the process aborts."""
    program = """
import sys; sys.path[:0] = ["tests/support", "tests/rescoring"]
import atexit, threading, time
atexit.register(lambda: print([thread.name for thread in threading.enumerate()]))
from fake_lm import FakeLM
from rescoring_cases import random_lattice
import ninja
rescorer = ninja.Rescorer(FakeLM(), ninja.RescoreOptions(max_unknown=1.0))
done = threading.Event()
future = rescorer.submit(random_lattice(0))
future.add_done_callback(lambda _: (done.set(), time.sleep(0.5)))  # in the thread of the service
done.wait()
"""
    root = ninja.__path__[0].rpartition("/")[0]
    process = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, timeout=60)
    assert (process.returncode, process.stdout) == (0, "['MainThread']\n"), process.stderr


def test_submit_refuses_invalid_arguments() -> None:
    with pytest.raises(OptionError, match="max_waiting is 0"):
        Rescorer(FakeLM(), max_waiting=0)
    with pytest.raises(OptionError, match="max_latency is -1"):
        Rescorer(FakeLM(), max_latency=-1)
    with Rescorer(FakeLM(), OPTIONS) as rescorer:
        with pytest.raises(OptionError, match="entities require a context"):
            rescorer.submit(MANY[0], {"@name": ["a"]})
        with pytest.raises(OptionError, match="pass only the lattice"):
            rescorer.submit((MANY[0].key, MANY[0]))  # type: ignore[arg-type]
        with pytest.raises(OptionError, match="expected a lattice, but got a str"):
            rescorer.submit("lat.ark")  # type: ignore[arg-type]
    passes = Rescorer.of_passes([(FakeLM(), OPTIONS), (FakeLM(salt=1), OPTIONS)])
    with pytest.raises(OptionError, match="to a Rescorer with several passes"):
        passes.submit(MANY[0])


def test_nan_scores_fail_only_their_lattice() -> None:
    class Broken(FakeLM):
        def score(self, history: tuple[int, ...], word: int) -> float:
            return np.nan if word == self.vocabulary.id("w7") else super().score(history, word)

    mild = [lattice.replace(word=np.minimum(lattice.word, 6)) for lattice in MANY[:3]]
    with Rescorer(Broken(), OPTIONS) as rescorer:
        futures = [rescorer.submit(lattice) for lattice in (mild[0], MANY[0].with_key("bad"), *mild[1:])]
        with pytest.raises(ModelError, match=r"'bad'.*NaN"):
            futures.pop(1).result()
        assert all(future.result() for future in futures)
