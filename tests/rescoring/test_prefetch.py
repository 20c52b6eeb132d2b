"""Results are returned immediately: a slow source, or one that waits for results, does not delay lattices."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import pytest
from fake_lm import FakeLM, symbols
from rescoring_cases import random_lattice, running_threads

import ninja
from ninja.errors import LatticeError, OptionError, VocabularyError
from ninja.lattice import Lattice
from ninja.rescoring import RescoreOptions, RescoreReport, iterate, rescore
from ninja.rescoring.prefetch import PATIENCE, Prefetch

MANY = [(f"seed-{seed}", random_lattice(seed)) for seed in range(12)]
ALGORITHMS = ["arcbeam", "pushforward", "pruned", "nbest", "cover", "trie"]


def options(**settings: object) -> RescoreOptions:
    return RescoreOptions(max_unknown=1.0, **settings)  # type: ignore[arg-type]


NAMES = "ninja-prefetch", "language-model"


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    before = threading.enumerate()  # threads of runs that other tests abandoned may still end
    yield
    assert running_threads(*NAMES, besides=before) == []


class Live:
    """A source that returns a lattice only after the result of the previous one."""

    def __init__(self) -> None:
        self.seen: Queue[str] = Queue()
        self.lattices = MANY

    def __iter__(self) -> Iterator[tuple[str, Lattice]]:
        for key, lattice in self.lattices:
            yield key, lattice
            assert self.seen.get(timeout=20) == key


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_source_can_wait_for_each_result(algorithm: str) -> None:
    search = options(algorithm=algorithm)
    expected = dict(rescore(MANY, FakeLM(), search))
    live = Live()
    results = {}
    for key, lattice in rescore(iter(live), FakeLM(), search):
        results[key] = lattice
        live.seen.put(key)
    assert list(results) == [key for key, _ in MANY]
    assert all(lattice.identical(expected[key]) for key, lattice in results.items())


def test_a_source_can_wait_for_each_result_of_several_passes() -> None:
    passes = [(FakeLM(), options()), (FakeLM(salt=1), options(algorithm="nbest")), (FakeLM(salt=2), options())]
    expected = dict(iterate(MANY, passes))
    live = Live()
    results = {}
    for key, lattice in iterate(iter(live), passes):
        results[key] = lattice
        live.seen.put(key)
    assert list(results) == list(expected)
    assert all(lattice.identical(expected[key]) for key, lattice in results.items())


@pytest.mark.parametrize("count", [1, 140])
def test_the_vocabulary_check_reads_more_than_the_first_lattices(count: int) -> None:
    live = Live()
    live.lattices = [(f"seed-{number}", random_lattice(number, 20, 1)) for number in range(count)]  # of 39 arcs
    results = rescore(iter(live), FakeLM(num_words=1), RescoreOptions())
    keys = []
    deliveries = (live.seen.put(key) or keys.append(key) for key, _ in results)
    with pytest.raises(VocabularyError, match="more than max_unknown = 50%"):
        list(deliveries)
    assert keys == [key for key, _ in live.lattices[:99]]


def test_a_failed_lattice_does_not_delay_others() -> None:
    dead = MANY[1][1].replace(final_graph=MANY[1][1].final_graph + float("inf"))
    failed = threading.Event()

    def source() -> Iterator[tuple[str, Lattice]]:
        yield "dead", dead
        assert failed.wait(20)
        yield MANY[0]

    report = RescoreReport(on_error=lambda error: failed.set())
    assert [key for key, _ in rescore(source(), FakeLM(), options(), report=report)] == ["seed-0"]
    assert report.lattices == 1


@pytest.mark.parametrize("count", [0, 1, 5])
def test_errors_of_the_source_follow_the_results_before_them(count: int) -> None:
    def source() -> Iterator[tuple[str, Lattice]]:
        yield from MANY[:count]
        time.sleep(10 * PATIENCE)
        raise LatticeError("broke")

    keys = []
    results = (keys.append(key) for key, _ in rescore(source(), FakeLM(), options()))
    with pytest.raises(LatticeError, match="broke"):
        list(results)
    assert keys == [key for key, _ in MANY[:count]]


def test_closing_the_results_closes_the_source_and_ends_the_threads() -> None:
    closed = threading.Event()

    def source() -> Iterator[tuple[str, Lattice]]:
        try:
            yield from MANY
        finally:
            closed.set()

    results = rescore(source(), FakeLM(), options(batch_arcs=1))
    next(results)
    assert running_threads(*NAMES)
    results.close()  # type: ignore[attr-defined]
    assert closed.is_set()
    assert running_threads(*NAMES) == []


def test_the_source_is_not_read_far_ahead() -> None:
    num_read = 0

    def source() -> Iterator[tuple[str, Lattice]]:
        nonlocal num_read
        for pair in MANY:
            num_read += 1
            yield pair

    results = rescore(source(), FakeLM(), options(batch_arcs=1))
    assert num_read == 0
    next(results)
    assert num_read <= 4
    results.close()  # type: ignore[attr-defined]


def test_prefetch_waits_for_a_late_lattice() -> None:
    gate = threading.Event()

    def lattices() -> Iterator[tuple[str, Lattice]]:
        yield MANY[0]
        gate.wait(90)
        yield MANY[1]

    source = Prefetch(lattices())
    first = source.poll()
    assert first is not None
    assert first.key == "seed-0"
    assert [source.poll(), source.poll()] == [None, None]
    assert source.is_dry
    gate.set()
    assert source.wait()
    assert [utterance.key for utterance in source] == ["seed-1"]
    assert source.has_ended
    assert [*source] == []
    source.close()


def test_closing_does_not_wait_for_a_slow_source() -> None:
    gate = threading.Event()

    def lattices() -> Iterator[tuple[str, Lattice]]:
        gate.wait()
        yield MANY[0]

    source = Prefetch(lattices())
    assert source.poll() is None
    source.close()  # the test would not end if close() waited for the source
    gate.set()
    while running_threads(*NAMES):
        time.sleep(0.001)


def test_pairs_in_place_of_a_lattice_are_refused(tmp_path: Path) -> None:
    message = "expected a lattice, but got a .key, lattice. pair; pass only the lattice"
    with ninja.write(tmp_path / "x.jsonl") as output:
        output.write(MANY[0][1])
        with pytest.raises(OptionError, match=message):
            output.write(MANY[0])  # type: ignore[arg-type]
    for call in (
        lambda: ninja.coverage(MANY, FakeLM()),  # type: ignore[arg-type]
        lambda: ninja.evaluate.oracle_score(MANY, {}, symbols()),  # type: ignore[arg-type]
    ):
        with pytest.raises(OptionError, match=message):
            call()


PAIR = r"lattices must be \(key, lattice\) pairs"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (MANY[0][1], rf"{PAIR}, not a single lattice; pass \[\(lattice.key, lattice\)\]"),
        ([MANY[0][1]], rf"{PAIR}, but an item is a Lattice; yield \(lattice.key, lattice\)"),
        ("lat.ark", rf"{PAIR}, not a str; read a file with ninja.read"),
        (7, rf"{PAIR}, not an int"),
        ([("a", 1)], rf"{PAIR}, but an item is a tuple; ninja.read yields such pairs"),
        (MANY[0], rf"{PAIR}, but an item is a str"),
    ],
)
def test_lattices_without_keys_are_refused(argument: object, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        list(rescore(argument, FakeLM(), options()))  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=message):
        list(ninja.pipeline.stream(argument, ninja.pipeline.OnLattices(ninja.graph.best_path)))  # type: ignore[arg-type]
