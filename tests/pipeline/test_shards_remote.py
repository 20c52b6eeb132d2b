"""Shards of sources in an object store, with parts in the same store."""

import os
import socket
from pathlib import Path

import pytest
from example_lattices import WORDS
from lattice_files import write_all

import ninja as package
from ninja.errors import InputError
from ninja.pipeline.shard_folder import ShardFolder

fsspec = pytest.importorskip("fsspec")  # installed with torch


@pytest.fixture(autouse=True)
def scratch(example_folder, tmp_path, monkeypatch):
    """Change to a folder with an uncompressed archive of 40 lattices and a separate folder for attempts."""
    os.mkdir("scratch")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))


@pytest.fixture
def memory():
    """Return the file system of memory:// with the archive in/lat.ark and its script file in/lat.scp."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    system.pseudo_dirs[:] = [""]
    system.pipe_file("/in/lat.ark", Path("lat.ark").read_bytes())
    write_all("ark,scp:listed.ark,listed.scp", (lattice for _, lattice in package.read("lat.ark")))
    rows = Path("listed.scp").read_bytes().replace(b" listed.ark:", b" memory://in/lat.ark:")
    system.pipe_file("/in/lat.scp", rows)
    yield system
    system.store.clear()


def scratch_files():
    """Return the files and the folders of runs in the temporary folder."""
    return [str(path) for path in Path("scratch").rglob("*") if path.is_file() or path.suffix == ".shards"]


@pytest.mark.parametrize("source", ["lat.ark", "lat.scp"])
def test_joined_parts_in_a_store_equal_the_output_of_a_single_run(ninja, memory, source):
    assert ninja("prune", "lat.ark", "--beam", "4", "-o", "one.ark")[0] == 0
    command = ["prune", f"memory://in/{source}", "--beam", "4", "-o", "memory://out/out.ark", "--shard"]
    for number in (3, 1):
        code, _, errors = ninja(*command, f"{number}/3")
        assert code == 0, errors
        assert not scratch_files()
    code, _, errors = ninja("gather", "memory://out/out.ark")
    assert code == 1
    assert "shard 2 of 3 must still be run" in errors
    assert "is already complete" in ninja(*command, "1/3")[2]
    assert ninja(*command, "2/3")[0] == 0
    assert sorted(memory.ls("/out/out.ark.shards", detail=False))[-1] == "/out/out.ark.shards/plan.json"
    code, _, errors = ninja("gather", "memory://out/out.ark", "--remove-parts")
    assert code == 0, errors
    assert memory.cat_file("/out/out.ark") == Path("one.ark").read_bytes()
    assert memory.find("/out") == ["/out/out.ark"]
    assert not scratch_files()


@pytest.mark.parametrize("options", [[], ["--words", "memory://in/words.txt"]])
def test_a_changed_symbol_table_in_a_store_is_refused(ninja, memory, options):
    memory.pipe_file("/in/words.txt", WORDS.read_bytes())
    command = ["best", "memory://in/lat.ark", *options, "-o", "memory://out/text"]
    for number in (1, 2):
        code, _, errors = ninja(*command, "--shard", f"{number}/2")
        assert code == 0, errors
    assert ninja("gather", "memory://out/text")[0] == 0
    assert memory.cat_file("/out/text").decode() == ninja(*command[:-2])[1]
    memory.pipe_file("/in/words.txt", b"<eps> 0\n")
    assert "run with a different --words" in ninja(*command, "--shard", "1/2")[2]


def test_a_missing_folder_is_empty_but_an_unreadable_folder_is_an_error(memory, monkeypatch):
    assert ShardFolder("memory://out/no").names() == []

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(type(memory), "ls", refuse)
    with pytest.raises(InputError, match="cannot be read: PermissionError"):
        ShardFolder("memory://in").names()


def test_changed_options_and_sources_in_a_store_are_refused(ninja, memory):
    command = ["prune", "memory://in/lat.ark", "-o", "memory://out/out.ark", "--shard"]
    assert ninja(*command, "1/2")[0] == 0
    assert "run with a different --beam" in ninja(*command, "2/2", "--beam", "3")[2]
    memory.store.pop("/in/lat.ark")
    memory.pipe_file("/in/lat.ark", Path("lat.ark").read_bytes())
    code, _, errors = ninja(*command, "2/2")
    assert code == 2
    assert "other sources: memory://in/lat.ark has changed since then" in errors


def test_files_of_killed_attempts_on_this_machine_are_removed(ninja, memory):
    command = ["prune", "memory://in/lat.ark", "-o", "memory://out/out.ark", "--shard"]
    assert ninja(*command, "1/2")[0] == 0
    attempts = Path(ShardFolder("memory://out/out.ark.shards").attempts)
    attempt = attempts / f".00002-of-00002.{socket.gethostname()}-4194305-0123abcd"
    attempt.mkdir(parents=True)
    (attempt / "half").write_bytes(b"x")
    assert ninja(*command, "2/2")[0] == 0
    assert not scratch_files()
