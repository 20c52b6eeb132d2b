"""Errors on systems that cannot start more threads."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from lattice_files import write_all

from ninja.errors import ThreadError
from ninja.graph import from_arcs
from ninja.lattice.batch import in_order, read_ahead

ROOT = Path(__file__).resolve().parents[2]
MESSAGE = "cannot start a thread, because a system limit has been reached; use fewer --jobs"


@pytest.fixture
def no_threads(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)


def test_in_order_without_threads_raises_a_thread_error(no_threads):
    with pytest.raises(ThreadError, match=MESSAGE):
        list(in_order(abs, [1, 2], 2))


def test_errors_of_tasks_are_not_thread_errors():
    def fail(task):
        raise RuntimeError("can't start new thread")  # an error of the task itself

    with pytest.raises(RuntimeError, match="can't start") as excinfo:
        list(in_order(fail, [1], 2))
    assert not isinstance(excinfo.value, ThreadError)


def test_read_ahead_without_threads_raises_a_thread_error(no_threads):
    with pytest.raises(ThreadError, match=MESSAGE):
        list(read_ahead(iter([])))


def test_commands_without_threads_print_one_line_of_advice(no_threads, ninja, tmp_path):
    sources = [tmp_path / "a.ark", tmp_path / "b.ark"]  # two batches, as a single one needs no threads
    for source in sources:
        write_all(source, [from_arcs(source.stem, [0], [1], [1], [1.0], finals={1: 0.0})])
    code, _, err = ninja("prune", *sources, "--jobs", "2", "-o", tmp_path / "out.ark")
    assert (code, MESSAGE in err, len(err.splitlines())) == (1, True, 1), err
    assert sorted(os.listdir(tmp_path)) == ["a.ark", "b.ark"]


# The test limits the memory of the process, which prevents new threads only where thread stacks count as memory.
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux counts the stacks of threads as memory")
def test_kernels_without_threads_raise_a_thread_error(tmp_path):
    write_all(tmp_path / "in.ark", [from_arcs("a", [0], [1], [1], [1.0], finals={1: 0.0})])
    script = f"""
import resource
import ninja, ninja.formats.kaldi.archive
from ninja.errors import ThreadError
ninja.formats.kaldi.archive.num_cores = lambda: 1
list(ninja.read({str(tmp_path / "in.ark")!r}, read_ahead=False))  # imports all modules
ninja.formats.kaldi.archive.num_cores = lambda: 2
size = 4096 * int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 22), size + (1 << 22)))
try:
    list(ninja.read({str(tmp_path / "in.ark")!r}))
except ThreadError as error:
    print(error)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MALLOC_ARENA_MAX": "1"}
    process = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60
    )
    assert MESSAGE in process.stdout, process.stderr
