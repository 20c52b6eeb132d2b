"""The stream of lattices: order, isolation of failures, workers and their deaths."""

import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from ninja.errors import LatticeError, OptionError
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable
from ninja.log import Log
from ninja.pipeline import OnBatches, OnLattices, stream

EXAMPLES = Path(__file__).parent.parent / "examples"

WORDS = SymbolTable.from_words(["<eps>", "a", "b"])


def lattices(number, *, words=None, seen=None):
    for index in range(number):
        if seen is not None:
            seen.append(index)
        key = f"utt{index}"
        yield key, Lattice.from_arrays(key, [0, 1, 1], [1], [1 + index % 2], [index], [0], [np.inf, 0], words=words)


def cost(lattice):
    if lattice.graph[0] == 3:
        raise LatticeError("it is the third")
    return float(lattice.graph[0])


def spelled(lattice):
    assert lattice.words is not None
    return lattice.with_costs(lattice.graph + 1)


def crowded(lattice):
    raise MemoryError


@dataclass(slots=True)
class CountingLog(Log):
    """A log with a number of its own."""

    seen: int = 0


def counted(lattices, log):
    log.note("model loaded")
    for key, lattice in lattices:
        log.seen += 1
        yield key, lattice.words is WORDS


JOBS = pytest.mark.parametrize("how", [{"jobs": 1}, {"jobs": 2}], ids=["one thread", "two threads"])


@JOBS
def test_results_come_in_input_order_and_a_failure_is_its_lattices_own(how):
    failures = []
    log = Log(on_error=failures.append)
    answers = list(stream(lattices(9), OnLattices(cost), log=log, **how))
    assert answers == [(f"utt{index}", float(index)) for index in range(9) if index != 3]
    assert [str(failure) for failure in failures] == ["key 'utt3': it is the third"]
    assert (log.lattices, log.failures) == (8, failures)


@JOBS
def test_without_a_listener_the_first_failure_is_raised_behind_the_results_before_it(how):
    answers = []
    with pytest.raises(LatticeError, match="key 'utt3': it is the third"):
        answers.extend(key for key, _ in stream(lattices(9), OnLattices(cost), **how))
    assert answers == ["utt0", "utt1", "utt2"]


def thread_of(lattice):
    time.sleep(0.01)
    return threading.get_ident()


def test_workers_are_several_threads():
    answers = dict(stream(lattices(100), OnLattices(thread_of), jobs=2))
    assert threading.get_ident() not in answers.values()
    assert 1 <= len(set(answers.values())) <= 2


@JOBS
def test_words_reach_the_stage_and_come_back_as_the_same_table(how):
    for index, (key, lattice) in enumerate(stream(lattices(3, words=WORDS), OnLattices(spelled), **how)):
        assert lattice.key == key
        assert lattice.words is WORDS
        assert lattice.graph[0] == index + 1
        assert not lattice.graph.flags.writeable
        assert not lattice.dst.flags.writeable


def test_a_lattice_too_large_for_the_memory_is_one_failure():
    failures = []
    assert list(stream(lattices(1), OnLattices(crowded), log=Log(on_error=failures.append))) == []
    assert "more memory than there is" in str(failures[0])


def test_input_is_read_no_further_than_threads_need():
    seen = []
    log = Log(on_error=[].append)
    results = stream(lattices(1000, seen=seen), OnLattices(cost), jobs=2, log=log)
    next(results)
    assert len(seen) < 150
    results.close()


def test_keys_already_done_are_left_out_and_counted():
    log = Log()
    answers = dict(stream(lattices(4), OnLattices(cost), done={"utt0", "utt3"}, log=log))
    assert answers == {"utt1": 1.0, "utt2": 2.0}
    assert (log.lattices, log.skipped) == (2, 2)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_stream_stage_writes_to_the_log_of_the_run(jobs):
    told = []
    log = CountingLog(on_note=told.append)
    results = list(stream(lattices(7), counted, jobs=jobs, log=log))
    assert (len(results), log.lattices, log.seen) == (7, 7, 7)
    assert log.notes == told == ["model loaded"]


@JOBS
def test_no_input_gives_no_results(how):
    assert list(stream(lattices(0), OnLattices(cost), **how)) == []


def test_zero_jobs_are_refused():
    with pytest.raises(OptionError, match="jobs is 0"):
        list(stream(lattices(1), OnLattices(cost), jobs=0))


def totals(batch):
    return [float(lattice.graph.sum()) for lattice in batch]


def refuses_the_third(batch):
    return [cost(lattice) for lattice in batch]


@JOBS
def test_a_function_of_batches_gives_a_result_for_each_lattice(how):
    assert dict(stream(lattices(40), OnBatches(totals), **how)) == {f"utt{index}": float(index) for index in range(40)}


@JOBS
def test_a_lattice_that_fails_a_function_of_batches_does_not_cost_the_others(how):
    log = Log(on_error=[].append)
    answers = dict(stream(lattices(9), OnBatches(refuses_the_third), log=log, **how))
    assert set(answers) == {f"utt{index}" for index in range(9) if index != 3}
    assert [failure.key for failure in log.failures] == ["utt3"]


def test_repeated_keys_are_noted_once_for_each_repetition():
    log = Log()
    list(stream([*lattices(3), *lattices(2)], OnLattices(cost), log=log))
    assert log.repeated == ["utt0", "utt1"]


def arcs(lattice):
    return lattice.num_arcs


def leaves(lattice):
    raise SystemExit(9)


@pytest.mark.parametrize("how", ["read to its end", "left early", "a thread failed"])
def test_no_thread_outlives_a_stream(how):
    before = set(threading.enumerate())
    results = stream(lattices(80), OnLattices(leaves if how == "a thread failed" else arcs), jobs=2)
    if how == "a thread failed":
        with pytest.raises(SystemExit):
            next(results)
    elif how == "left early":
        next(results)
        results.close()
    else:
        assert len(list(results)) == 80
    assert not [thread for thread in set(threading.enumerate()) - before if not thread.name.startswith("ninja-worker")]
