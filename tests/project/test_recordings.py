"""Recordings that benchmarks create from several lattices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies_graph import timed_lattices

from benchmarks.toolbox.recording import join
from ninja.graph import best_path
from ninja.lattice import Lattice, check


@given(st.lists(timed_lattices(), min_size=1, max_size=4))
def test_recording_best_path_cost_is_the_sum_over_lattices(lattices: list[Lattice]) -> None:
    whole = join(lattices)
    check(whole)
    path, parts = best_path(whole), [best_path(lattice) for lattice in lattices]
    assert path.cost() == pytest.approx(sum(part.cost() for part in parts), rel=1e-5, abs=1e-4)
    assert path.alignment.size == sum(part.alignment.size for part in parts)
