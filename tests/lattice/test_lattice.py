"""The lattice class: ``from_arrays``, rejected inputs, pickling, and ``replace``."""

from __future__ import annotations

import pickle
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from strategies import lattices

from ninja.errors import LatticeError
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

INF = float("inf")
VALID: dict[str, Any] = {
    "arc_begin": [0, 2, 2],
    "dst": [1, 1],
    "word": [3, 0],
    "graph": [1.0, 2.0],
    "acoustic": [4.0, 5.0],
    "final_graph": [INF, 0.5],
}


def test_omitted_arrays_are_empty_and_their_costs_are_0() -> None:
    lattice = Lattice.from_arrays("k", **VALID)
    assert lattice.final_acoustic.tolist() == [INF, 0.0]
    assert lattice.ali_begin.tolist() == lattice.final_ali_begin.tolist() == [0, 0, 0]
    assert lattice.ali.size == lattice.final_ali.size == 0
    assert lattice.is_final.tolist() == [False, True]
    assert lattice.src.tolist() == [0, 0]
    assert repr(lattice) == "Lattice('k', 2 states, 2 arcs, compact)"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arc_begin": [0], "final_graph": []}, "the lattice is empty: it has no states"),
        ({"word": [3]}, r"word has shape \(1,\), but must have shape \(2,\)"),
        ({"final_graph": [0.0]}, r"final_graph has shape \(1,\), but must have shape \(2,\)"),
        ({"arc_begin": [0, 3, 2]}, "arc_begin must start at 0, never decrease, and end at 2"),
        ({"arc_begin": [1, 2, 2]}, "arc_begin must start at 0, never decrease, and end at 2"),
        ({"ali": [7]}, "ali_begin must start at 0, never decrease, and end at 1"),
        ({"dst": [1, 2]}, "arc 1 enters state 2, but there are 2 states"),
        ({"dst": [1, -1]}, "arc 1 enters state -1, but there are 2 states"),
        ({"dst": [1, 0]}, "arc 1 leads from state 0 back to 0; sort the states"),
        ({"word": [3, -1]}, "arc 1 has the negative word id -1"),
        ({"word": [3, 2**32]}, "word contains values that cannot be converted to int32"),
        ({"word": np.array([3, 2**32 + 3])}, "word contains values that cannot be converted to int32"),
        ({"word": [3, 1.5]}, "word contains values that cannot be converted to int32"),
        ({"graph": [0.0, "x"]}, "graph contains values that cannot be converted to float32"),
        ({"time": [0.0, np.nan]}, "time contains values that cannot be converted to int32"),
        ({"graph": [np.nan, 0.0]}, "arc 0 has the graph cost nan"),
        ({"acoustic": [0.0, INF]}, "arc 1 has the acoustic cost inf"),
        ({"acoustic": [0.0, 1e300]}, "arc 1 has the acoustic cost inf"),
        ({"final_graph": [INF, -INF]}, "state 1 has the final_graph cost -inf"),
        ({"final_graph": [INF, INF]}, "no state is final"),
        ({"final_graph": ["x", 0.0]}, "final_graph contains values that cannot be converted to float32"),
        ({"ali_begin": [0, 1, 1], "ali": [[7]]}, "ali and final_ali must have one dimension"),
        ({"kind": "sparse"}, "kind is 'sparse', but must be compact or raw"),
        ({"time": [0]}, r"time has shape \(1,\), but must have shape \(2,\)"),
    ],
)
def test_invalid_arrays_are_refused_with_the_violated_invariant(change: dict[str, Any], message: str) -> None:
    with pytest.raises(LatticeError, match=f"^key 'k': {message}"):
        Lattice.from_arrays("k", **{**VALID, **change})


def test_arrays_are_read_only_copies() -> None:
    graph = np.array([1, 2], np.float32)
    lattice = Lattice.from_arrays("k", **{**VALID, "graph": graph})
    graph[0] = 9
    assert lattice.graph.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        lattice.graph[0] = 9
    changed = lattice.with_costs(graph)
    graph[0] = 8
    assert changed.graph.tolist() == [9, 2]
    assert changed.acoustic is lattice.acoustic


@given(lattice=lattices())
def test_an_unpickled_lattice_is_identical_and_read_only(lattice: Lattice) -> None:
    unpickled = pickle.loads(pickle.dumps(lattice))
    assert unpickled.identical(lattice)
    assert not unpickled.graph.flags.writeable
    assert not unpickled.identical(lattice.with_key(lattice.key + "x"))


def test_replace_changes_only_the_given_fields() -> None:
    lattice = Lattice.from_arrays("k", **VALID)
    renamed = lattice.replace(key="other", kind="raw")
    assert (renamed.key, renamed.kind) == ("other", "raw")
    assert lattice.key == "k"
    assert all(getattr(renamed, field.name) is getattr(lattice, field.name) for field in fields(Lattice)[1:12])
    with pytest.raises(TypeError, match="no field 'speaker'"):
        lattice.replace(speaker="a")


@given(lattices())
def test_replace_agrees_with_dataclasses_replace(lattice: Lattice) -> None:
    words = SymbolTable.from_words(["<eps>"])
    time = np.arange(lattice.num_states, dtype=np.int32)
    changes = {"key": "new", "time": time, "frame_shift": 0.03, "words": words}
    result, expected = lattice.replace(**changes), replace(lattice, **changes)
    assert all(getattr(result, field.name) is getattr(expected, field.name) for field in fields(Lattice))
