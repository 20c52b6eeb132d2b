"""Determinization, minimization and oracle compared with Kaldi, if ../shared is available."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from ninja.evaluate import oracle_score, read_text
from ninja.graph import nbest, prune
from ninja.graph.determinize import determinize, is_deterministic, remove_epsilons
from ninja.graph.equivalent import equivalent
from ninja.graph.minimize import minimize
from ninja.graph.oracle import oracle
from ninja.io import read
from ninja.lattice import Lattice, Scales
from ninja.lattice.symbols import SymbolTable

SHARED = Path(os.environ.get("NINJA_SHARED", Path(__file__).parents[3] / "shared"))
# In CI, tests/conftest.py stops the run if these files are missing.
pytestmark = pytest.mark.skipif(not (SHARED / "golden").is_dir(), reason=f"Kaldi's results are not in {SHARED}")

SETS = [("english", 0.1), ("korean", 1.0)]


def lattices_of(path: str) -> dict[str, Lattice]:
    return dict(read(SHARED / path))


@pytest.mark.parametrize(("name", "scale"), SETS)
def test_minimized_real_lattices_are_equivalent_and_pruned_ones_are_not(name: str, scale: float) -> None:
    for lattice in lattices_of(f"golden/{name}/lat.ark.gz").values():
        assert equivalent(lattice, minimize(lattice, scale), 1e-3, scale, costs="both")
        assert not equivalent(lattice, prune(lattice, 1.0, Scales(scale)), 1e-3, scale)


def test_minimize_agrees_with_kaldi() -> None:
    expected = lattices_of("golden/korean/minimize.ark.gz")
    num_states_before = num_states_after = expected_num_states = 0
    for key, lattice in lattices_of("golden/korean/lat.ark.gz").items():
        minimized = minimize(lattice)
        num_states_before, num_states_after, expected_num_states = (
            num_states_before + lattice.num_states,
            num_states_after + minimized.num_states,
            expected_num_states + expected[key].num_states,
        )
        assert equivalent(minimized, expected[key], 2e-3)
        alignments = {tuple(path.words): path.alignment for path in nbest(expected[key], 20)}
        for path in nbest(minimized, 10):
            assert np.array_equal(path.alignment, alignments[tuple(path.words)])
    assert num_states_after <= 1.01 * expected_num_states


@pytest.mark.parametrize(("name", "scale"), SETS)
def test_determinize_agrees_with_kaldi(name: str, scale: float) -> None:
    # Kaldi determinized state-level lattices with beam 6; these exist for Korean, and equivalent lattices for English.
    source = "korean/raw" if name == "korean" else "english/lat"
    expected = lattices_of(f"golden/{name}/determinize_pruned6.ark.gz")
    shared = 0
    for key, lattice in lattices_of(f"golden/{source}.ark.gz").items():
        if key not in expected:
            continue
        shared += 1
        determinized = determinize(prune(lattice, 4.0, Scales(scale)), scale)
        assert is_deterministic(determinized)
        expected_paths = {tuple(path.words): path for path in nbest(expected[key], 100, Scales(scale))}
        last = max(path.cost(Scales(scale)) for path in expected_paths.values())
        for path in nbest(determinized, 50, Scales(scale)):
            if path.cost(Scales(scale)) > last - 1e-3:
                break
            expected_path = expected_paths[tuple(path.words)]
            assert path.cost(Scales(scale)) == pytest.approx(expected_path.cost(Scales(scale)), abs=2e-3)
            assert path.graph_cost == pytest.approx(expected_path.graph_cost, abs=2e-3)
            if name == "korean":
                assert np.array_equal(path.alignment, expected_path.alignment)
    assert shared >= 10


def test_remove_epsilons_of_state_level_lattices_keeps_the_nbest() -> None:
    for lattice in list(lattices_of("golden/korean/raw.ark.gz").values())[:10]:
        pruned = prune(lattice, 2.0)
        assert (pruned.word == 0).any()
        plain = remove_epsilons(pruned)
        for before, after in zip(nbest(pruned, 10), nbest(plain, 10), strict=True):
            assert np.array_equal(before.words, after.words)
            assert np.array_equal(before.alignment, after.alignment)
            assert after.graph_cost == pytest.approx(before.graph_cost, abs=1e-2)
            assert after.acoustic_cost == pytest.approx(before.acoustic_cost, abs=1e-2)


@pytest.mark.parametrize(
    ("name", "text", "words", "unknown"),
    [
        ("english", "data/english/test/libri/text", "data/english/words.txt.gz", -1),
        ("korean", "data/korean/text", "data/korean/words.txt.gz", 1),
    ],
)
def test_oracle_edits_agree_with_kaldi(name: str, text: str, words: str, unknown: int) -> None:
    table = SymbolTable.read(SHARED / words)
    references = read_text(SHARED / text)
    lattices = lattices_of(f"golden/{name}/lat.ark.gz")
    with gzip.open(SHARED / f"golden/{name}/oracle.edits.gz", "rt") as stream:
        expected = {key: int(edits) for key, edits in map(str.split, stream)}
    assert expected.keys() == lattices.keys()
    for key, lattice in lattices.items():
        numbers = [unknown if (number := table.id(word)) is None else number for word in references[key]]
        assert oracle(lattice, numbers).edits == expected[key], key


def test_oracle_word_error_rate_of_the_test_set() -> None:
    references = read_text(SHARED / "data/english/test/libri/text")
    table = SymbolTable.read(SHARED / "data/english/words.txt.gz")
    lattices = lattices_of("data/english/test/libri/lat.ark.gz").values()
    rate = oracle_score(lattices, references, table)
    assert rate.sentences == 239
    assert round(rate.wer, 2) == 11.14


def test_determinization_of_state_level_lattices_agrees_with_kaldi() -> None:
    expected = lattices_of("golden/korean/raw_determinize_pruned8.ark.gz")
    for key, lattice in list(read(SHARED / "data/korean/raw.ark.gz"))[:20]:
        determinized = determinize(prune(lattice, 5.0))
        assert is_deterministic(determinized)
        expected_paths = {tuple(path.words): path for path in nbest(expected[key], 100)}
        paths = nbest(determinized, 50)
        for path in paths:
            if path.cost() > paths[0].cost() + 5.0:
                break  # arcs within the beam also form paths beyond it
            expected_path = expected_paths[tuple(path.words)]
            assert path.cost() == pytest.approx(expected_path.cost(), abs=5e-3)
            assert path.graph_cost == pytest.approx(expected_path.graph_cost, abs=5e-3)
            assert np.array_equal(path.alignment, expected_path.alignment)
