"""The stream of lattices: order, isolation of failures, workers and their deaths."""

import contextlib
import gzip
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from ninja.errors import LatticeError, OptionError, WorkerError
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable
from ninja.log import Log
from ninja.parallel.pipeline import Each, stream

EXAMPLES = Path(__file__).parent.parent / "examples"

WORDS = SymbolTable.from_words(["<eps>", "a", "b"])


def lattices(number, *, words=None, seen=None):
    for index in range(number):
        if seen is not None:
            seen.append(index)
        key = f"utt{index}"
        yield key, Lattice.from_arrays(key, [0, 1, 1], [1], [1 + index % 2], [index], [0], [np.inf, 0], words=words)


# Stages stand at the top of the module: workers find them by name.


def cost(lattice):
    if lattice.graph[0] == 3:
        raise LatticeError("it is the third")
    return float(lattice.graph[0])


def process_of(lattice):
    time.sleep(0.01)
    return os.getpid()


def spelled(lattice):
    assert lattice.words is not None
    return lattice.with_costs(lattice.graph + 1)


def dies(lattice):
    if lattice.graph[0] == 5:
        os._exit(9)
    return 0


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


WAYS = [{"jobs": 1}, {"jobs": 2}, {"jobs": 2, "processes": True, "batch_arcs": 2}]
each_way = pytest.mark.parametrize("how", WAYS, ids=["caller", "threads", "processes"])


@each_way
def test_results_come_in_input_order_and_a_failure_is_its_lattices_own(how):
    failures = []
    log = Log(on_error=failures.append)
    answers = list(stream(lattices(9), Each(cost), log=log, **how))
    assert answers == [(f"utt{index}", float(index)) for index in range(9) if index != 3]
    assert [str(failure) for failure in failures] == ["key 'utt3': it is the third"]
    assert (log.lattices, log.failures) == (8, failures)


@each_way
def test_without_a_listener_the_first_failure_is_raised_behind_the_results_before_it(how):
    answers = []
    with pytest.raises(LatticeError, match="key 'utt3': it is the third"):
        answers.extend(key for key, _ in stream(lattices(9), Each(cost), **how))
    assert answers == ["utt0", "utt1", "utt2"][: len(answers)]
    assert "processes" in how or len(answers) == 3


def thread_of(lattice):
    time.sleep(0.01)
    return threading.get_ident()


def test_workers_are_several_threads():
    answers = dict(stream(lattices(100), Each(thread_of), jobs=2))
    assert threading.get_ident() not in answers.values()
    assert 1 <= len(set(answers.values())) <= 2


def test_workers_are_several_processes_on_request():
    seen = set()
    with contextlib.closing(stream(lattices(20_000), Each(process_of), jobs=2, processes=True, batch_arcs=1)) as found:
        for _, process in found:
            seen.add(process)
            if len(seen) == 2:  # the second one may take its time to start
                break
    assert len(seen) == 2
    assert os.getpid() not in seen


def test_threads_cannot_share_a_stage_of_several_lattices():
    with pytest.raises(OptionError, match="cannot be shared by threads"):
        next(stream(lattices(1), counted, jobs=2, processes=False))


@each_way
def test_words_reach_the_stage_and_come_back_as_the_same_table(how):
    for index, (key, lattice) in enumerate(stream(lattices(3, words=WORDS), Each(spelled), **how)):
        assert lattice.key == key
        assert lattice.words is WORDS
        assert lattice.graph[0] == index + 1
        assert not lattice.graph.flags.writeable
        assert not lattice.dst.flags.writeable


def test_a_workers_death_is_told_and_does_not_hang():
    with pytest.raises(WorkerError, match="one of 2 worker processes died"):
        list(stream(lattices(20), Each(dies), jobs=2, processes=True, batch_arcs=1, log=Log(on_error=[].append)))


def test_a_lattice_too_large_for_the_memory_is_one_failure():
    failures = []
    assert list(stream(lattices(1), Each(crowded), log=Log(on_error=failures.append))) == []
    assert "more memory than there is" in str(failures[0])


@pytest.mark.parametrize("processes", [False, True])
def test_input_is_read_no_further_than_workers_need(processes):
    seen = []
    log = Log(on_error=[].append)
    results = stream(lattices(1000, seen=seen), Each(cost), jobs=2, processes=processes, batch_arcs=1, log=log)
    next(results)
    assert len(seen) < 150
    results.close()


def test_keys_already_done_are_left_out_and_counted():
    log = Log()
    answers = dict(stream(lattices(4), Each(cost), done={"utt0", "utt3"}, log=log))
    assert answers == {"utt1": 1.0, "utt2": 2.0}
    assert (log.lattices, log.skipped) == (2, 2)


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_logs_of_workers_are_merged(jobs):
    told = []
    log = CountingLog(on_note=told.append)
    results = list(stream(lattices(7), counted, jobs=jobs, batch_arcs=12, log=log))
    assert (len(results), log.lattices, log.seen) == (7, 7, 7)
    assert log.notes == told == ["model loaded"]


@each_way
def test_no_input_gives_no_results(how):
    assert list(stream(lattices(0), Each(cost), **how)) == []


@pytest.mark.parametrize("option", ["jobs", "batch_arcs"])
def test_options_out_of_range_are_refused(option):
    with pytest.raises(OptionError, match=f"{option} is 0"):
        list(stream(lattices(1), Each(cost), **{option: 0}))


def arcs(lattice):
    return lattice.num_arcs


def leaves(lattice):
    raise SystemExit(9)


# Workers, and the thread that manages them, are gone when a stream ends, however it ends.


@pytest.mark.parametrize("processes", [False, True])
@pytest.mark.parametrize("how", ["read to its end", "left early", "a worker died"])
def test_no_thread_outlives_a_stream(how, processes):
    # One that does is woken by Python at its end through a pipe that it may be closing: "Bad file descriptor".
    before = set(threading.enumerate())
    stage = Each(leaves if how == "a worker died" else arcs)
    found = stream(lattices(8), stage, jobs=2, processes=processes, batch_arcs=2)
    if how == "a worker died":
        with pytest.raises((WorkerError, SystemExit)):
            next(found)
    elif how == "left early":
        next(found)
        found.close()
    else:
        assert len(list(found)) == 8
    assert not set(threading.enumerate()) - before  # others may have ended meanwhile


def much(lattice):
    return bytes(1 << 24)  # more than a pipe holds


@pytest.mark.parametrize("attempt", range(4))
def test_workers_that_are_ended_within_an_answer_hold_nobody_up(attempt):
    before = set(threading.enumerate())
    found = stream(lattices(64), Each(much), jobs=2, processes=True, batch_arcs=1)
    next(found)
    found.close()
    assert not set(threading.enumerate()) - before


def children(parent):
    """Return the processes that a process started and that are not dead."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            state, its_parent = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[:2]
            if int(its_parent) == parent and state != "Z":
                found.add(int(name))
    return found


def is_alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="no /proc: not Linux")
def test_workers_end_when_their_parent_is_killed(tmp_path):
    pipe = tmp_path / "lat.ark"
    os.mkfifo(pipe)
    run = "list(ninja.parallel.stream(ninja.read(sys.argv[1]), Each(connect), jobs=2, processes=True))"
    code = f"import sys, ninja; from ninja.graph import connect; from ninja.parallel import Each; {run}"
    line = [sys.executable, "-c", code, str(pipe)]
    with subprocess.Popen(line, stderr=subprocess.PIPE) as parent, open(pipe, "wb", buffering=0) as source:
        content = gzip.decompress((EXAMPLES / "lat.ark.gz").read_bytes())
        feeder = threading.Thread(target=lambda: feed(source, content), daemon=True)
        feeder.start()
        workers = set()
        while len(workers) < 3:  # two, and one that Python has for itself
            time.sleep(0.1)
            workers = children(parent.pid)
            assert parent.poll() is None, parent.stderr.read()
        parent.kill()
        parent.wait()
        until = time.monotonic() + 20
        while any(map(is_alive, workers)):
            assert time.monotonic() < until, "workers outlive their parent"
            time.sleep(0.1)
        feeder.join()


def feed(pipe, content):
    """Write lattices to a pipe, until its reader is gone."""
    with contextlib.suppress(OSError):
        for _ in range(6):
            pipe.write(content)
