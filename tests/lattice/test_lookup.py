"""Lattices of a second archive, looked up by key in any order."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lattice_files import write_all

from ninja.errors import NinjaError, OutputError
from ninja.graph import from_arcs
from ninja.io import lookup
from ninja.io.lookup import Lookup
from ninja.io.reader import ReadOptions, Words
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

KEYS = [f"k{number}" for number in range(8)]


def lattice_of(key: str, cost: float = 0.0) -> Lattice:
    return from_arcs(key, [0, 1], [1, 2], [1, 0], [cost, 0.5], finals={2: 0.25}, labels=[[5], [6]], kind="raw")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lookup") / "lat.ark"
    write_all(path, (lattice_of(key, float(number)) for number, key in enumerate(KEYS)))
    return path


@given(st.permutations([*KEYS, "absent", "not there"]))
def test_each_key_is_found_in_any_order(archive: Path, order: list[str]) -> None:
    with Lookup(archive) as lattices:
        for key in order:
            lattice = lattices.get(key)
            if key in KEYS:
                assert lattice is not None
                assert lattice.identical(lattice_of(key, float(KEYS.index(key))))
            else:
                assert lattice is None


def test_lookup_in_archive_order_reads_no_further(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    num_read = 0
    original = lookup.Reading.lattices

    def count_lattices(reading: lookup.Reading) -> Iterator[tuple[str, Lattice]]:
        nonlocal num_read
        for pair in original(reading):
            num_read += 1
            yield pair

    monkeypatch.setattr(lookup.Reading, "lattices", count_lattices)
    monkeypatch.setattr(lookup._SkippedLattices, "put", lambda *_: pytest.fail("nothing is passed over"))
    with Lookup(archive) as lattices:
        for number, key in enumerate(KEYS, start=1):
            assert lattices.get(key) is not None
            assert num_read == number


def test_skipped_lattices_are_spilled_to_disk(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "IN_MEMORY", 100)
    with Lookup(archive) as lattices:
        for key in reversed(KEYS):
            lattice = lattices.get(key)
            assert lattice is not None
            assert lattice.key == key
        assert lattices._skipped._file._rolled  # type: ignore[attr-defined]


def test_a_repeated_key_is_found_once_per_occurrence(tmp_path: Path) -> None:
    path = tmp_path / "twice.ark"
    write_all(path, (lattice_of(key, float(cost)) for cost, key in enumerate(["a", "b", "a"])))
    with Lookup(path) as lattices:
        assert [lattices.get("a").graph[0], lattices.get("b").graph[0], lattices.get("a").graph[0]] == [0, 1, 2]  # type: ignore[union-attr]
        assert lattices.get("a") is None
    with Lookup(path) as lattices:
        assert lattices.get("none") is None  # all lattices are skipped
        assert [lattices.get("a").graph[0], lattices.get("a").graph[0]] == [0, 2]  # type: ignore[union-attr]


def test_rest_returns_the_keys_not_looked_up(archive: Path) -> None:
    with Lookup(archive) as lattices:
        lattices.get("k2")
        lattices.get("k0")
        assert sorted(lattices.rest()) == ["k1", *KEYS[3:]]


def test_skipped_lattices_keep_their_symbol_table(archive: Path) -> None:
    words = SymbolTable([("<eps>", 0), ("one", 1)])
    with Lookup(archive, ReadOptions(Words(words))) as lattices:
        assert [lattices.get(key).words for key in ("k3", "k1")] == [words, words]  # type: ignore[union-attr]


def test_faults_of_the_archive_are_reported_or_raised(archive: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.ark"
    path.write_bytes(archive.read_bytes()[:-10])
    errors: list[NinjaError] = []
    with Lookup(path, on_error=errors.append) as lattices:
        assert lattices.get("k7") is None
        assert lattices.get("k6") is not None
    assert [error.key for error in errors] == ["k7"]
    with Lookup(path) as lattices, pytest.raises(NinjaError, match="the file ends within"):
        lattices.get("k7")


def test_a_full_disk_raises_an_output_error(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_disk_full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "write", raise_disk_full)
    with Lookup(archive) as lattices, pytest.raises(OutputError, match="No space left on device"):
        lattices.get("k3")
