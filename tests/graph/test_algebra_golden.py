"""Lattice algebra compared with the results of Kaldi, if these are available."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import lru_cache

import numpy as np
import pytest
from reference_graph import SHARED

from ninja.graph import (
    best_path,
    combine,
    difference,
    equivalent,
    expand_ngram,
    forward_backward,
    interp,
    minimize,
    nbest,
    posteriors,
    push,
    remove_epsilons,
    union,
)
from ninja.io import read
from ninja.lattice import Lattice

GOLDEN = SHARED / "golden" / "korean"
# In CI, tests/conftest.py stops the run if these files are missing.
pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"Kaldi's results are not in {SHARED}")


@lru_cache(maxsize=8)
def archive(name: str) -> dict[str, Lattice]:
    return dict(read(GOLDEN / f"{name}.ark.gz"))


def assert_like(lattice: Lattice, expected: Lattice, n: int = 50) -> None:
    """Check that word sequences and costs agree, and that the best paths have the same alignments."""
    assert equivalent(lattice, expected, 1e-3, costs="both"), lattice.key
    expected_paths = {tuple(path.words): path for path in nbest(expected, n)}
    shared = 0
    for path in nbest(lattice, n):
        expected_path = expected_paths.get(tuple(path.words))  # the last paths can be tied
        if expected_path is not None:
            shared += 1
            assert np.array_equal(path.alignment, expected_path.alignment), lattice.key
    assert shared >= min(n, len(expected_paths)) - 3


def test_union_agrees_with_lattice_union() -> None:
    num_states, expected_num_states = 0, 0
    for key, expected in archive("union").items():
        lattice = union([archive("prune4")[key], archive("penalty")[key]])
        assert_like(lattice, expected)
        num_states, expected_num_states = num_states + lattice.num_states, expected_num_states + expected.num_states
    assert num_states <= 1.001 * expected_num_states


def test_combination_agrees_with_lattice_combine() -> None:
    for key, expected in archive("combine").items():
        combined = combine([archive("lat")[key], archive("scale")[key]], [0.6, 0.4])
        assert forward_backward(combined).total == pytest.approx(forward_backward(expected).total, abs=1e-3)
        paths, expected_paths = nbest(remove_epsilons(combined), 50), nbest(remove_epsilons(expected), 50)
        assert [path.cost() for path in paths] == pytest.approx([path.cost() for path in expected_paths], abs=1e-3)
        top_posteriors = [np.sort(posteriors(lattice)[lattice.word > 0])[::-1][:50] for lattice in (combined, expected)]
        assert top_posteriors[0] == pytest.approx(top_posteriors[1], abs=1e-3)


def test_interpolation_agrees_with_lattice_interp() -> None:
    for key, expected in archive("interp").items():
        assert_like(interp(archive("lat")[key], archive("scale")[key], 0.3), expected)


def test_push_agrees_with_lattice_push() -> None:
    for key, expected in archive("push").items():
        pushed = push(archive("lat")[key])
        assert_like(pushed, expected)
        # The labels are on the same arcs; equal labels along each path would not be enough.
        assert pushed.ali.size == expected.ali.size
        assert np.array_equal(
            np.diff(pushed.ali_begin)[: pushed.arc_begin[1]], np.diff(expected.ali_begin)[: pushed.arc_begin[1]]
        )


def test_minimize_agrees_with_lattice_minimize() -> None:
    for key, expected in archive("minimize").items():
        assert_like(minimize(archive("lat")[key]), expected)


def test_expand_ngram_and_difference_on_real_lattices() -> None:
    for lattice in list(archive("lat").values())[:30]:
        expanded = expand_ngram(lattice, 3)
        assert expanded.num_states >= lattice.num_states
        assert equivalent(expanded, lattice, costs="both")
        first, second = nbest(lattice, 2)
        assert np.array_equal(best_path(difference(lattice, first.words)).words, second.words)


def test_push_minimize_and_union_of_wide_and_state_level_lattices_keep_the_best_path() -> None:
    for name in ("wide", "raw"):
        for _, lattice in list(read(SHARED / "data" / "korean" / f"{name}.ark.gz"))[:4]:
            pushed = push(lattice)
            assert best_path(pushed).alignment.tolist() == best_path(lattice).alignment.tolist()
            assert minimize(lattice).num_states <= lattice.num_states
            assert best_path(union([lattice, lattice], determinize=False)).cost() == best_path(lattice).cost()


def test_peak_memory_of_a_union_of_two_archives_is_bounded() -> None:
    source = str(SHARED / "data" / "korean" / "lat.ark.gz")
    program = (
        "import sys; from ninja.cli.main import main; code = main(sys.argv[1:]); "
        "print(code, next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    command = [sys.executable, "-c", program, "union", source, source, "-o", os.devnull]
    code, peak = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert code == "0"
    assert int(peak) / 1024 < 73.8
