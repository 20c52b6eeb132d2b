"""Forked and spawned processes, and interrupts at random times."""

from __future__ import annotations

import gzip
import multiprocessing
import random
from pathlib import Path

import pytest
from ended import forked_exit_code
from fake_lm import FakeLM, symbols
from lattice_files import write_all
from rescoring_cases import random_lattice

import ninja
from benchmarks.stress.interrupts import interrupt_calls, interrupt_commands
from ninja.errors import ClosedError, InputError

OPTIONS = ninja.RescoreOptions(max_unknown=1.0, acoustic_scale=0.5)
LATTICES = [random_lattice(seed).with_key(f"utt{seed}") for seed in range(8)]
TEXT = "".join(f"{word} {id}\n" for word, id in symbols())
NUM_LATTICES = 600  # enough for many batches of read-ahead


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    write_all(
        tmp_path / "lat.ark",
        (LATTICES[number % len(LATTICES)].with_key(f"utt{number}") for number in range(NUM_LATTICES)),
    )
    return tmp_path / "lat.ark"


def work(path: str) -> list[tuple[int, int, int]]:
    """Read, prune and rescore in a new process."""
    lattices = [(key, lattice.with_words(symbols())) for key, lattice in ninja.read(path)][:8]
    rescored = ninja.rescore(lattices, FakeLM(), OPTIONS)
    return [
        (lattice.num_arcs, ninja.graph.prune(lattice, 2.0).num_arcs, rescored_lattice.num_arcs)
        for (_, lattice), (_, rescored_lattice) in zip(lattices, rescored, strict=True)
    ]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_forked_and_spawned_processes_return_the_same_results(archive: Path, method: str) -> None:
    expected = work(str(archive))
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(work, [str(archive)] * 4) == [expected] * 4


@pytest.mark.parametrize("packed", [False, True])
def test_an_open_reading_cannot_be_used_in_a_forked_process(archive: Path, packed: bool) -> None:
    path = archive
    if packed:
        path = archive.with_suffix(".ark.gz")
        path.write_bytes(gzip.compress(archive.read_bytes(), 1))
    reading = ninja.read(path, batches=True)
    keys = [lattice.key for lattice in next(reading)]

    def continue_reading() -> None:
        with pytest.raises(InputError, match="opened before this process was forked; open"):
            list(reading)

    assert forked_exit_code(continue_reading) == 0
    assert forked_exit_code(reading.close) == 0
    assert keys + [lattice.key for batch in reading for lattice in batch] == [
        f"utt{number}" for number in range(NUM_LATTICES)
    ]


def test_a_rescorer_cannot_be_used_in_a_forked_process() -> None:
    with ninja.Rescorer(FakeLM(), OPTIONS) as rescorer:
        expected = rescorer.submit(LATTICES[0]).result().dst.tolist()

        def submit() -> None:
            with rescorer, pytest.raises(ClosedError, match="created before this process was forked; create a new one"):
                rescorer.submit(LATTICES[0])

        assert forked_exit_code(submit) == 0
        assert rescorer.submit(LATTICES[0]).result().dst.tolist() == expected


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_all(tmp_path / "lat.ark", LATTICES)
    (tmp_path / "words.txt").write_text(TEXT)
    return tmp_path


def test_signals_at_random_times_leave_complete_files_or_none(folder: Path) -> None:
    assert interrupt_commands(folder, 3, random.Random(3))


def test_library_calls_work_after_an_interrupt_at_a_random_time(folder: Path) -> None:
    with ninja.Rescorer(FakeLM(), OPTIONS) as rescorer:
        assert interrupt_calls(folder, rescorer, 12, random.Random(4))
