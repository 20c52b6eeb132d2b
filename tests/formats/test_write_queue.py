"""The write queue: all bytes in order, errors in the caller's thread, bounded waiting."""

import contextlib
import threading

import numpy as np
import pytest
from ended import forked_exit_code
from lattice_files import write_all

from ninja.errors import OutputError
from ninja.formats.kaldi.archive import LARGEST_QUEUE, WriteQueue
from ninja.graph import from_arcs


class Recorder:
    """An output that records bytes and writing threads, and fails at a given position."""

    def __init__(self, fails_at=None, gate=None):
        self.content, self.threads, self.fails_at, self.gate = b"", set(), fails_at, gate

    def write(self, content):
        if self.gate is not None:
            self.gate.wait(10)
        if len(self.content) == self.fails_at:
            raise OutputError("cannot be written: disk full", "out")
        self.content += bytes(content)
        self.threads.add(threading.current_thread().name)


class Buffer:
    """A buffer of one byte."""

    def __init__(self, number):
        self.content = bytearray([number])
        self.number = number

    def view(self):
        return memoryview(self.content)

    def clear(self):
        self.content.clear()  # raises an error while a view exists


def put(queue, numbers):
    for number in numbers:
        queue.put(Buffer(number))


def numbers_of(buffers):
    assert not any(buffer.content for buffer in buffers)
    return [buffer.number for buffer in buffers]


def test_all_bytes_are_written_in_order_by_a_restartable_thread():
    output, released = Recorder(), []
    queue = WriteQueue(output, released)
    queue.wait()
    for begin in (0, 50):
        put(queue, range(begin, begin + 50))
        queue.wait()
    assert (output.content, numbers_of(released)) == (bytes(range(100)), list(range(100)))
    assert output.threads == {"ninja-write"}


def test_errors_are_raised_in_the_callers_thread_and_stop_writing():
    output, released = Recorder(fails_at=3), []
    queue = WriteQueue(output, released)
    with pytest.raises(OutputError, match="disk full"):
        put(queue, range(100))
    with pytest.raises(OutputError, match="disk full"):
        queue.wait()
    queue.stop()
    assert output.content == bytes(range(3))
    assert numbers_of(released) == list(range(len(released)))  # buffers are released even if they are not written


def test_the_queue_is_bounded():
    gate, released = threading.Event(), []
    queue = WriteQueue(Recorder(gate=gate), released)
    caller = threading.Thread(target=put, args=(queue, range(20)))
    caller.start()
    caller.join(0.05)
    assert caller.is_alive()
    assert queue._buffers.qsize() <= LARGEST_QUEUE
    gate.set()
    caller.join(10)
    queue.wait()
    assert numbers_of(released) == list(range(20))


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Write 3000 lattices."""
    path = tmp_path_factory.mktemp("queue") / "in.ark"
    random = np.random.default_rng(0)
    lattices = (
        from_arcs(f"u{number}", [0, 0, 1], [1, 2, 2], [1, 2, 3], random.random(3), finals={2: 0.0})
        for number in range(3000)
    )
    write_all(path, lattices)
    return path


@pytest.mark.parametrize("name", ["out.ark", "out.ark.gz", "ark,scp:out.ark,out.scp"])
def test_outputs_do_not_depend_on_the_number_of_jobs(ninja, folder, archive, name):
    contents = []
    for jobs in ("1", "2"):
        assert ninja("copy", archive, "-o", name, "--jobs", jobs)[0] == 0
        contents.append([path.read_bytes() for path in sorted(folder.glob("out.*"))])
    assert contents[0] == contents[1]
    assert len(contents[0][0]) > 1000


def test_a_full_disk_fails_the_run_and_leaves_no_output(ninja, tmp_path, monkeypatch):
    write_all(tmp_path / "in.ark", [from_arcs("a", [0], [1], [1], [1.0], finals={1: 0.0})])

    def full(self, content):
        raise OutputError("cannot be written: No space left on device", self.name)

    monkeypatch.setattr("ninja.files.output.PartFile.write", full)
    code, _, stderr = ninja("copy", tmp_path / "in.ark", "-o", tmp_path / "out.ark", "--jobs", "2")
    assert (code, "No space left on device" in stderr, "Traceback" in stderr) == (1, True, False), stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in.ark"]


class Signalled(Exception):
    """Raised by a signal handler."""


def test_a_signal_during_a_call_does_not_block_the_queue():
    def interrupt_put():
        queue = WriteQueue(Recorder(), [])
        queue.put(Buffer(1))
        enter = threading.Condition.__enter__

        def enter_and_raise(condition):  # the signal arrives after the lock is acquired, but before the with block
            enter(condition)
            if threading.current_thread() is threading.main_thread():
                raise Signalled

        threading.Condition.__enter__ = enter_and_raise
        with contextlib.suppress(Signalled):
            queue.put(Buffer(2))
        threading.Condition.__enter__ = enter
        queue.stop()

    assert forked_exit_code(interrupt_put) == 0
