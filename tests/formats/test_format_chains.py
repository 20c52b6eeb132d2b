"""Lattices converted through random chains of formats keep what all formats of the chain store."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lattice_files import write_all
from reference_openfst import ways
from strategies import lattices

import ninja
from ninja.formats.format import FIELDS, Format, by_name, fill_options
from ninja.lattice import Lattice, SymbolTable

for library in ("torch", "pyarrow"):
    pytest.importorskip(library)

WORDS = SymbolTable.from_words(["<eps>", "a", "b", "c", "d", "e"])
FORMATS = ("binary", "text", "slf", "sphinx", "pfsg", "plf", "openfst", "fst-ark", "k2", "native", "fst-text")
ROUNDED = {"pfsg", "sphinx", "slf", "plf"}  # they store six digits, or integer logarithms of another base
TOLERANCE = 1e-2  # of costs, for each conversion after such a format
StoredPath = tuple[tuple[int, ...], float, float, tuple[int, ...]]  # words, graph and acoustic cost, alignment


@st.composite
def timed_lattices(draw: st.DrawFn) -> Lattice:
    """Draw a lattice with words whose states have times: an arc has as many labels as frames."""
    lattice: Lattice = draw(lattices(max_states=7, max_labels=0, kind="compact"))
    times = np.sort(draw(st.lists(st.integers(0, 8), min_size=lattice.num_states, max_size=lattice.num_states)))
    lengths = times[lattice.dst] - times[lattice.src]
    labels = draw(st.lists(st.integers(1, 30), min_size=lattice.num_arcs, max_size=lattice.num_arcs))
    lattice = with_costs(lattice, lambda cost: np.round(cost * 8) / 8)  # text formats store six digits
    ali_begin = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return replace(lattice, ali_begin=ali_begin, ali=np.repeat(np.array(labels, np.int32), lengths), words=WORDS)


def with_costs(lattice: Lattice, change: Callable[[np.ndarray], np.ndarray]) -> Lattice:
    """Return a lattice with all costs changed by a function."""
    names = ("graph", "acoustic", "final_graph", "final_acoustic")
    return replace(lattice, **{name: change(getattr(lattice, name)).astype(np.float32) for name in names})


def convert(originals: list[Lattice], form: Format, folder: Path) -> list[Lattice]:
    """Write lattices in a format and read them again, in their order, with the ids of `WORDS`."""
    assert form.write is not None
    extension = form.extensions[-1] if form.name == "fst-text" else next(iter(form.extensions), ".ark")
    target = folder / (f"{form.name}.folder" if form.write.files == "each" else f"{form.name}{extension}")
    write_all(target, (lattice.with_key(f"utt{number}") for number, lattice in enumerate(originals)), to=form.name)
    converted = []
    for _, lattice in ninja.read(target, words=WORDS, format=form.name, read_ahead=False):
        if lattice.words is not None and lattice.words is not WORDS:
            ids = WORDS.ids(lattice.words.spell(lattice.word.tolist()))
            lattice = replace(lattice, word=np.array(ids, np.int32))
        converted.append(replace(lattice, words=WORDS))
    return converted


def stored_paths(lattice: Lattice, fields: frozenset[str]) -> list[StoredPath]:
    """Return the paths of a lattice with the given fields only."""
    paths = []
    for words, graph, acoustic, labels in ways(lattice):
        if "apart" not in fields:
            graph, acoustic = (graph + acoustic if {"graph", "acoustic"} <= fields else 0.0), 0.0
        costs = graph if "graph" in fields else 0.0, acoustic if "acoustic" in fields else 0.0
        paths.append((words, *costs, labels if "alignments" in fields else ()))
    return paths


def agree(paths: list[StoredPath], expected: list[StoredPath], tolerance: float) -> bool:
    """Return whether two lattices have the same paths in any order, with costs within a tolerance."""
    remaining = list(expected)
    for words, graph, acoustic, labels in paths:
        for path in remaining:
            is_close = abs(path[1] - graph) <= tolerance and abs(path[2] - acoustic) <= tolerance
            if is_close and (path[0], path[3]) == (words, labels):
                remaining.remove(path)
                break
        else:
            return False
    return not remaining


@given(st.lists(timed_lattices(), min_size=1, max_size=3), st.permutations(FORMATS).map(lambda names: names[:5]))
def test_paths_survive_chains_of_formats(originals: list[Lattice], chain: list[str]) -> None:
    if "plf" in chain:  # its scores are logarithms of probabilities
        originals = [with_costs(lattice, np.abs) for lattice in originals]
    converted, fields, tolerance = originals, frozenset(FIELDS), 0.0
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(chain, start=1):
            form = by_name(name, "write")
            assert form.write is not None
            fields &= form.stored_fields(fill_options(form.write.options, {}, form.name))
            tolerance = number * TOLERANCE if tolerance or name in ROUNDED else 0.0
            converted = convert(converted, form, Path(folder))
            for lattice, original in zip(converted, originals, strict=True):
                assert agree(stored_paths(lattice, fields), stored_paths(original, fields), tolerance)
