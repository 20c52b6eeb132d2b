"""Two writers of one output, of which one is refused, and interrupted or forked writers."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ended import forked_exit_code
from lattice_files import write_all

import ninja as package
from ninja.errors import OutputError
from ninja.files import output as output_files
from ninja.files.output import open_locked, opened_as_text
from ninja.graph import from_arcs

pytestmark = pytest.mark.usefixtures("folder")

ROOT = Path(__file__).resolve().parents[2]
RUNS = 150 if os.environ.get("NINJA_SLOW") else 18
MAX_RUNS = 300  # on a busy machine, the processes may not overlap in the first runs
NUM_LATTICES = 12  # per output

# Write lattices whose cost identifies the process, with random pauses before, between and after them.
WORKER = """
import random, sys, time
import ninja
from ninja.errors import NinjaError
from ninja.graph import from_arcs

cost, num_lattices, *options = sys.argv[1:]
generator = random.Random(int(cost))
print("ready", flush=True)
for line in sys.stdin:
    try:
        time.sleep(0.03 * generator.random())
        with ninja.write(line.strip(), resume="resume" in options) as output:
            for number in range(int(num_lattices)):
                time.sleep(0.005 * generator.random())
                if f"k{number}" not in output.keys_done:
                    output.write(from_arcs(f"k{number}", [0], [1], [1], [float(cost)], finals={1: 0.0}))
            time.sleep(0.02 * generator.random())
        print("done", flush=True)
    except NinjaError as error:
        print(type(error).__name__, error, flush=True)
"""


@contextlib.contextmanager
def workers(options):
    """Start two processes that write the outputs whose names they read."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(cost), str(NUM_LATTICES), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        for cost in (1, 2)
    ]
    try:
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def write_both(processes, name):
    """Make both processes write an output and return their messages."""
    for process in processes:
        process.stdin.write(f"{name}\n")
        process.stdin.flush()
    return [process.stdout.readline().strip() for process in processes]


def lattice(key, cost=1.0):
    return from_arcs(key, [0], [1], [1], [cost], finals={1: 0.0})


@pytest.mark.parametrize("options", [(), ("resume",)])
def test_concurrent_processes_with_one_output_are_refused_except_the_first(options):
    forms = ["out.{}.ark", "out.{}.ark.gz", "ark,scp:out.{0}.ark,out.{0}.scp"]
    refused_forms = set()
    with workers(options) as processes:
        for number in range(MAX_RUNS):
            if number >= RUNS and len(refused_forms) == len(forms):
                break
            form = forms[number % len(forms)]
            name = form.format(number)
            messages = write_both(processes, name)
            costs = {key: float(result.graph[0]) for key, result in package.read(name.rpartition(",")[2])}
            assert list(costs) == [f"k{number}" for number in range(NUM_LATTICES)], messages
            finished_costs = [cost for cost, message in zip((1.0, 2.0), messages, strict=True) if message == "done"]
            assert finished_costs, messages
            assert len(set(costs.values())) == 1
            assert set(costs.values()) <= set(finished_costs), messages
            for message in messages:
                if message != "done":
                    assert message.startswith("OutputError out."), messages
                    assert "is being written by another process" in message
                    refused_forms.add(form)
    assert refused_forms == {*forms}  # otherwise the processes never overlapped
    assert not [name for name in os.listdir() if name.startswith(".")]


def open_writer(name, **options):
    """Return a writer after entering its ``with`` block."""
    return package.write(name, **options).__enter__()


@pytest.mark.parametrize("options", [{}, {"resume": True}])
def test_a_second_writer_of_an_output_is_refused_on_entry(options):
    first = open_writer("out.ark", **options)
    first.write(lattice("a"))
    with pytest.raises(OutputError, match=r"^out\.ark: is being written by another process \(/.*/\.out\.ark\.part\); "):
        open_writer("out.ark", **options)
    first.__exit__(None, None, None)
    assert list(package.keys("out.ark")) == ["a"]
    with package.write("out.ark") as output:  # the first writer released the lock
        output.write(lattice("b"))
    assert list(package.keys("out.ark")) == ["b"]


def test_a_second_writer_of_a_text_file_is_refused():
    with opened_as_text("out.txt") as first:
        first.write("first\n")
        with pytest.raises(OutputError, match="is being written by another process"), opened_as_text("out.txt"):
            pass
    assert Path("out.txt").read_text() == "first\n"


def test_files_of_a_killed_writer_are_replaced():
    script = """
import os, ninja
output = ninja.write("out.ark").__enter__()
output._archive.file.write(b"half")
os.kill(os.getpid(), 9)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert subprocess.run([sys.executable, "-c", script], env=environment).returncode == -9
    assert Path(".out.ark.part").read_bytes() == b"half"
    write_all("out.ark", [lattice("a")])
    assert os.listdir() == ["out.ark"]


@pytest.fixture
def no_locks(monkeypatch):
    """Simulate a file system without locks."""

    def fail(descriptor, flags):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", fail)


def test_without_locks_a_replaced_partial_file_is_an_error(no_locks):
    first, second = open_writer("out.ark"), open_writer("out.ark")
    first.write(lattice("a"))
    second.write(lattice("b", 2.0))
    with pytest.raises(
        OutputError, match=r"^out\.ark: was not written, because another process replaced /.*/\.out\.ark\.part"
    ):
        first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert [(key, result.graph[0]) for key, result in package.read("out.ark")] == [("b", 2.0)]
    assert os.listdir() == ["out.ark"]


def test_without_locks_a_writer_does_not_remove_the_file_of_another(no_locks):
    first, second = open_writer("out.ark"), open_writer("out.ark")
    del first
    second.write(lattice("b"))
    second.__exit__(None, None, None)
    assert list(package.keys("out.ark")) == ["b"]


def test_a_removed_temporary_file_is_an_error(no_locks):
    output = open_writer("out.ark")
    os.remove(".out.ark.part")
    with pytest.raises(OutputError, match="another process replaced"):
        output.__exit__(None, None, None)
    assert os.listdir() == []


@pytest.fixture
def synced(monkeypatch) -> list[tuple[str, int]]:
    """Record the synced names in order, each with the number of files that have their final name by then."""
    calls, sync = [], os.fsync

    def sync_and_record(descriptor):
        name = os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"))
        calls.append((name, sum(path.is_file() and path.name[0] != "." for path in Path().rglob("*"))))
        sync(descriptor)

    monkeypatch.setattr("os.fsync", sync_and_record)
    return calls


def test_a_file_and_its_folder_are_synced_before_writing_ends(synced):
    write_all("out.ark", [lattice("a")])
    assert synced == [(".out.ark.part", 0), (".", 1)]


def test_a_folder_is_synced_after_all_its_files(synced):
    words = package.SymbolTable([("<eps>", 0), ("one", 1)])
    write_all("out/", [lattice(key).with_words(words) for key in "ab"], to="slf")
    assert synced == [("out/.a.slf.part", 0), ("out/.b.slf.part", 1), ("out", 2)]


def test_a_disk_error_in_fsync_leaves_no_output(monkeypatch):
    def broken(descriptor):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("os.fsync", broken)
    with pytest.raises(OutputError, match=r"out\.ark: cannot be written: Input/output error"):
        write_all("out.ark", [lattice("a")])
    assert os.listdir() == []


def test_a_second_writer_of_a_url_is_refused(tmp_path, monkeypatch):
    system = pytest.importorskip("fsspec").filesystem("memory")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with package.write("memory://out/two.ark") as first:
        first.write(lattice("a"))
        with pytest.raises(OutputError, match="is being written by another process"):
            open_writer("memory://out/two.ark")
    assert list(package.keys("memory://out/two.ark")) == ["a"]
    system.store.clear()


@pytest.mark.parametrize("options", [{"to": "slf"}, {"to": "espnet"}])
def test_two_writers_of_one_folder_with_equal_keys_raise_an_error(options):
    words = package.SymbolTable([("<eps>", 0), ("one", 1)])
    first, second = open_writer("out/", **options), open_writer("out/", **options)
    for output, key in ((first, "a"), (first, "b"), (second, "b"), (second, "c")):
        output.write(lattice(key).with_words(words))
    second.__exit__(None, None, None)
    with pytest.raises(OutputError, match=r"out/(b\.slf: another process also wrote|: already contains n-best lists)"):
        first.__exit__(None, None, None)


def test_two_writers_of_one_folder_may_write_different_keys():
    words = package.SymbolTable([("<eps>", 0), ("one", 1)])
    first, second = open_writer("out/", to="slf"), open_writer("out/", to="slf")
    first.write(lattice("a").with_words(words))
    second.write(lattice("b").with_words(words))
    for output in (first, second):
        output.__exit__(None, None, None)
    assert sorted(os.listdir("out")) == ["a.slf", "b.slf"]


@pytest.mark.parametrize("length", [250, 255])
def test_output_names_may_have_the_maximum_length_of_file_names(length, ninja, tmp_path):
    write_all("in.ark", [lattice("a")])
    for ending in (".ark", ".gz"):
        name = "n" * (length - len(ending)) + ending
        code, _, message = ninja("prune", "in.ark", "-o", name, "--resume")
        assert (code, list(package.keys(name))) == (0, ["a"]), message
    assert ninja("best", "in.ark", "-o", "n" * length)[0] == 0
    assert Path("n" * length).read_text() == "a 1\n"
    write_all("in.slf", [lattice("a").with_words(package.SymbolTable([("<eps>", 0), ("one", 1)]))])
    before = sorted(os.listdir())
    code, _, message = ninja("prune", "in.slf", "-o", "n" * (length - 3) + ".ab")
    assert (code, sorted(os.listdir())) == (2, before)
    assert "the file name of the symbol table is too long; use a shorter output name, or --words-out" in message


@pytest.mark.parametrize("name", ["out.ark", "out.txt.gz", "out.slf", "out.jsonl"])
def test_a_writer_interrupted_before_its_block_leaves_no_file(name):
    writer = open_writer(name)
    assert len(os.listdir()) == 1
    del writer
    assert not os.listdir()


def test_a_forked_process_does_not_remove_the_output():
    writer = [open_writer("out.ark")]
    assert forked_exit_code(writer.clear) == 0
    assert os.listdir() == [".out.ark.part"]


def test_a_resumed_output_is_kept_when_its_writer_is_deleted():
    writer = open_writer("out.ark", resume=True)
    del writer
    assert os.listdir() == [".out.ark.part"]


def test_an_interrupt_during_file_creation_leaves_no_file(monkeypatch):
    def interrupted(path, *, keep):
        os.close(open_locked(path, keep=keep))
        raise KeyboardInterrupt

    monkeypatch.setattr(output_files, "open_locked", interrupted)
    with pytest.raises(KeyboardInterrupt):
        open_writer("out.ark")
    assert not os.listdir()
