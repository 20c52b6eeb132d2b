"""Two writers of one output, one of which is rejected, and writers that are interrupted or forked."""

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
RUNS = 50 if os.environ.get("NINJA_SLOW") else 6
MOST_RUNS = 100  # on a busy machine, the processes may not meet in the first runs
NUMBER = 12  # lattices of an output

# Writes lattices whose cost is its name's, with random pauses: before, between and behind them.
WORKER = """
import random, sys, time
import ninja
from ninja.errors import NinjaError
from ninja.graph import from_arcs

outputs, cost, seed, *options = sys.argv[1:]
draw = random.Random(int(seed))
print("ready", flush=True)
sys.stdin.readline()
for name in outputs.split("|"):
    try:
        time.sleep(0.03 * draw.random())
        with ninja.write(name, resume="resume" in options) as output:
            for number in range(int(options[0])):
                time.sleep(0.005 * draw.random())
                if f"k{number}" not in output.keys_done:
                    output.write(from_arcs(f"k{number}", [0], [1], [1], [float(cost)], finals={1: 0.0}))
            time.sleep(0.02 * draw.random())
        print("done", flush=True)
    except NinjaError as error:
        print(type(error).__name__, error, flush=True)
    sys.stdin.readline()
"""


@contextlib.contextmanager
def workers(names, options=(), environment=None):
    """Start two processes that write outputs with these names on request."""
    given = {**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})}
    line = [sys.executable, "-c", WORKER, "|".join(names)]
    running = [
        subprocess.Popen(
            [*line, str(cost), str(cost), str(NUMBER), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=given,
        )
        for cost in (1, 2)
    ]
    try:
        for each in running:
            assert each.stdout.readline() == "ready\n"
        yield running
    finally:
        for each in running:
            each.kill()
            each.communicate()


def together(running):
    """Let both processes write their next output; return their messages."""
    for each in running:
        each.stdin.write("go\n")
        each.stdin.flush()
    return [each.stdout.readline().strip() for each in running]


def lattice(key, cost=1.0):
    return from_arcs(key, [0], [1], [1], [cost], finals={1: 0.0})


@pytest.mark.parametrize("form", ["out.{}.ark", "out.{}.ark.gz", "ark,scp:out.{0}.ark,out.{0}.scp"])
@pytest.mark.parametrize("options", [(), ("resume",)])
def test_of_two_processes_with_one_output_one_says_that_the_other_writes_it(form, options):
    names = [form.format(number) for number in range(MOST_RUNS)]
    refused = 0
    with workers(names, options) as running:
        for number, name in enumerate(names):
            if number >= RUNS and refused:
                break
            said = together(running)
            costs = {key: float(found.graph[0]) for key, found in package.read(name.rpartition(",")[2])}
            assert list(costs) == [f"k{number}" for number in range(NUMBER)], said
            done = [cost for cost, each in zip((1.0, 2.0), said, strict=True) if each == "done"]
            assert done, said
            assert len(set(costs.values())) == 1
            assert set(costs.values()) <= set(done), said
            for each in said:
                if each != "done":
                    assert each.startswith("OutputError out."), said
                    assert "is being written by another process" in each
                    refused += 1
    assert refused  # else they never met
    assert not [each for each in os.listdir() if each.startswith(".")]


def entered(name, **how):
    """Return a writer within its ``with`` block."""
    return package.write(name, **how).__enter__()


@pytest.mark.parametrize("how", [{}, {"resume": True}])
def test_a_second_writer_of_an_output_is_refused_before_it_writes(how):
    first = entered("out.ark", **how)
    first.write(lattice("a"))
    with pytest.raises(OutputError, match=r"^out\.ark: is being written by another process \(/.*/\.out\.ark\.part\); "):
        entered("out.ark", **how)
    first.__exit__(None, None, None)
    assert list(package.keys("out.ark")) == ["a"]
    with package.write("out.ark") as output:  # the lock went with the first
        output.write(lattice("b"))
    assert list(package.keys("out.ark")) == ["b"]


def test_texts_have_one_writer_too():
    with opened_as_text("out.txt") as first:
        first.write("first\n")
        with pytest.raises(OutputError, match="is being written by another process"), opened_as_text("out.txt"):
            pass
    assert Path("out.txt").read_text() == "first\n"


def test_files_of_a_killed_writer_are_no_obstacle():
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

    def refused(descriptor, flags):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", refused)


def test_without_locks_the_writer_whose_file_was_replaced_says_so(no_locks):
    first, second = entered("out.ark"), entered("out.ark")
    first.write(lattice("a"))
    second.write(lattice("b", 2.0))
    with pytest.raises(
        OutputError, match=r"^out\.ark: was not written, because another process replaced /.*/\.out\.ark\.part"
    ):
        first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert [(key, found.graph[0]) for key, found in package.read("out.ark")] == [("b", 2.0)]
    assert os.listdir() == ["out.ark"]


def test_without_locks_no_writer_removes_the_file_of_another(no_locks):
    first, second = entered("out.ark"), entered("out.ark")
    del first
    second.write(lattice("b"))
    second.__exit__(None, None, None)
    assert list(package.keys("out.ark")) == ["b"]


def test_a_temporary_file_that_is_gone_is_an_error(no_locks):
    output = entered("out.ark")
    os.remove(".out.ark.part")
    with pytest.raises(OutputError, match="another process replaced"):
        output.__exit__(None, None, None)
    assert os.listdir() == []


@pytest.fixture
def synced(monkeypatch) -> list[tuple[str, int]]:
    """The names that are synced, in order, and the number of files that have their final name by then."""
    calls, sync = [], os.fsync

    def sync_and_record(descriptor):
        name = os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"))
        calls.append((name, sum(path.is_file() and path.name[0] != "." for path in Path().rglob("*"))))
        sync(descriptor)

    monkeypatch.setattr("os.fsync", sync_and_record)
    return calls


def test_a_file_and_its_folder_are_on_the_disk_before_it_is_done(synced):
    write_all("out.ark", [lattice("a")])
    assert synced == [(".out.ark.part", 0), (".", 1)]


def test_a_folder_is_on_the_disk_once_all_its_files_are(synced):
    words = package.SymbolTable([("<eps>", 0), ("one", 1)])
    write_all("out/", [lattice(key).with_words(words) for key in "ab"], to="slf")
    assert synced == [("out/.a.slf.part", 0), ("out/.b.slf.part", 1), ("out", 2)]


def test_a_disk_that_fails_as_it_is_synced_leaves_no_output(monkeypatch):
    def broken(descriptor):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("os.fsync", broken)
    with pytest.raises(OutputError, match=r"out\.ark: cannot be written: Input/output error"):
        write_all("out.ark", [lattice("a")])
    assert os.listdir() == []


def test_two_writers_of_one_url_are_one_too_many(tmp_path, monkeypatch):
    system = pytest.importorskip("fsspec").filesystem("memory")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with package.write("memory://out/two.ark") as first:
        first.write(lattice("a"))
        with pytest.raises(OutputError, match="is being written by another process"):
            entered("memory://out/two.ark")
    assert list(package.keys("memory://out/two.ark")) == ["a"]
    system.store.clear()


@pytest.mark.parametrize("how", [{"to": "slf"}, {"to": "espnet"}])
def test_of_two_writers_of_one_folder_one_says_that_the_other_wrote_there(how):
    words = package.SymbolTable([("<eps>", 0), ("one", 1)])
    first, second = entered("out/", **how), entered("out/", **how)
    for output, key in ((first, "a"), (first, "b"), (second, "b"), (second, "c")):
        output.write(lattice(key).with_words(words))
    second.__exit__(None, None, None)
    with pytest.raises(OutputError, match=r"out/(b\.slf: another process also wrote|: already contains n-best lists)"):
        first.__exit__(None, None, None)


def test_writers_of_one_folder_with_other_keys_are_welcome():
    words = package.SymbolTable([("<eps>", 0), ("one", 1)])
    first, second = entered("out/", to="slf"), entered("out/", to="slf")
    first.write(lattice("a").with_words(words))
    second.write(lattice("b").with_words(words))
    for output in (first, second):
        output.__exit__(None, None, None)
    assert sorted(os.listdir("out")) == ["a.slf", "b.slf"]


@pytest.mark.parametrize("length", [250, 255])
def test_the_name_of_an_output_may_be_as_long_as_that_of_a_file(length, ninja, tmp_path):
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
def test_a_writer_that_was_interrupted_before_its_block_leaves_nothing(name):
    writer = entered(name)
    assert len(os.listdir()) == 1
    del writer
    assert not os.listdir()


def test_a_process_that_is_forked_removes_nothing():
    writer = [entered("out.ark")]
    assert forked_exit_code(writer.clear) == 0
    assert os.listdir() == [".out.ark.part"]


def test_an_output_that_is_taken_up_again_stays():
    writer = entered("out.ark", resume=True)
    del writer
    assert os.listdir() == [".out.ark.part"]


def test_an_interrupt_as_the_file_is_made_leaves_nothing(monkeypatch):
    def interrupted(path, *, keep):
        os.close(open_locked(path, keep=keep))
        raise KeyboardInterrupt

    monkeypatch.setattr(output_files, "open_locked", interrupted)
    with pytest.raises(KeyboardInterrupt):
        entered("out.ark")
    assert not os.listdir()
