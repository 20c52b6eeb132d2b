"""Archives written by Kaldi's tools are read and written again."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from kaldi_tables import parse, without_properties, write_tables

from ninja.io import read

SHARED = Path(os.environ.get("NINJA_SHARED", Path(__file__).parents[3] / "shared"))
GOLDEN = SHARED / "golden"
# In CI, conftest.py raises an error without these files.
pytestmark = pytest.mark.skipif(
    not GOLDEN.is_dir(), reason=f"the results of Kaldi, which are not part of the project, are not in {GOLDEN}"
)


def archives(pattern):
    return sorted(GOLDEN.glob(pattern)) if GOLDEN.is_dir() else []


def equal_up_to_state_numbers(first, second):
    """Return whether two lattices are equal up to state numbers, matching states along their arcs in order."""
    if first.num_states != second.num_states or first.num_arcs != second.num_arcs or first.kind != second.kind:
        return False
    match = {0: 0}
    first_arcs, second_arcs = [], []
    for state in range(first.num_states):  # states are sorted, so each is matched before its arcs are
        second_state = match[state]
        first_range = range(first.arc_begin[state], first.arc_begin[state + 1])
        second_range = range(second.arc_begin[second_state], second.arc_begin[second_state + 1])
        if len(first_range) != len(second_range):
            return False
        for arc, second_arc in zip(first_range, second_range, strict=True):
            if match.setdefault(int(first.dst[arc]), int(second.dst[second_arc])) != second.dst[second_arc]:
                return False
        first_arcs += first_range
        second_arcs += second_range
    states = [match[state] for state in range(first.num_states)]

    def pool(lattice, name, order):
        begin, labels = getattr(lattice, f"{name}_begin"), getattr(lattice, name)
        return [labels[begin[at] : begin[at + 1]].tolist() for at in order]

    return (
        all(
            np.array_equal(getattr(first, name)[first_arcs], getattr(second, name)[second_arcs])
            for name in ("word", "graph", "acoustic")
        )
        and all(
            np.array_equal(getattr(first, name), getattr(second, name)[states])
            for name in ("final_graph", "final_acoustic")
        )
        and pool(first, "ali", first_arcs) == pool(second, "ali", second_arcs)
        and pool(first, "final_ali", range(first.num_states)) == pool(second, "final_ali", states)
    )


@pytest.mark.parametrize("path", archives("english/*.ark.gz"), ids=lambda path: path.name)
def test_english_archives_are_unchanged_after_read_and_write(path):
    lattices = [lattice for _, lattice in read(path)]
    content = gzip.decompress(path.read_bytes())
    equal_bytes = without_properties(write_tables(*lattices)) == without_properties(content)
    assert equal_bytes or not all_sorted(content)
    assert equal_bytes or path.name != "lat.ark.gz"
    assert equal_bytes or all(
        result.identical(lattice) for result, lattice in zip(parse(write_tables(*lattices)), lattices, strict=True)
    )


def all_sorted(content):
    """Return whether Kaldi wrote the states in topological order, which Ninja then keeps."""
    import reference_formats as slow

    place = slow.Bytes(content)
    while place.at < len(content):
        place.at = content.index(b" ", place.at) + 1
        start, _, arcs, _ = slow.read_binary(place)
        if start != 0 or any(arc[0] <= state for state, state_arcs in enumerate(arcs) for arc in state_arcs):
            return False
    return True


def test_english_text_is_unchanged_after_conversion_to_binary_and_back():
    content = gzip.decompress((GOLDEN / "english/lat.txt.gz").read_bytes())
    assert write_tables(*parse(write_tables(*parse(content))), text=True) == content
    from_binary = [lattice for _, lattice in read(GOLDEN / "english/lat.ark.gz")]
    assert write_tables(*from_binary, text=True) == content
    pruned = gzip.decompress((GOLDEN / "english/prune1.txt.gz").read_bytes())
    assert write_tables(*parse(write_tables(*parse(pruned))), text=True) == pruned


@pytest.mark.parametrize("path", archives("korean/*.ark.gz"), ids=lambda path: path.name)
def test_korean_lattices_are_unchanged_except_for_state_numbers(path):
    content = gzip.decompress(path.read_bytes())
    lattices = [lattice for _, lattice in read(path)]
    sample = lattices[: 20 if lattices[0].kind == "compact" else 5]  # only a few lattices, because the twin is slow
    for lattice, twin in zip(sample, breadth_first(content), strict=False):
        assert equal_up_to_state_numbers(lattice, twin)
    again = parse(write_tables(*lattices))
    assert all(result.identical(original) for result, original in zip(again, lattices, strict=True))


def breadth_first(content):
    """Yield the lattices of an archive in breadth-first order, an order that the kernel does not produce."""
    import reference_formats as slow

    place = slow.Bytes(content)
    while place.at < len(content):
        key = content[place.at : content.index(b" ", place.at)].decode()
        place.at += len(key.encode()) + 1
        start, finals, arcs, compact = slow.read_binary(place)
        in_degree = [0] * len(finals)
        for state_arcs in arcs:
            for arc in state_arcs:
                in_degree[arc[0]] += 1
        assert in_degree[start] == 0
        order = [start]
        for state in order:
            for arc in arcs[state]:
                in_degree[arc[0]] -= 1
                if not in_degree[arc[0]]:
                    order.append(arc[0])
        number = {state: place for place, state in enumerate(order)}
        yield slow.assemble(
            key,
            0,
            [finals[state] for state in order],
            [[(number[arc[0]], *arc[1:]) for arc in arcs[state]] for state in order],
            compact,
        )


def test_korean_text_and_binary_contain_the_same_lattices():
    from_text = [lattice for _, lattice in read(GOLDEN / "korean/lat.txt.gz")]
    from_binary = [lattice for _, lattice in read(GOLDEN / "korean/lat.ark.gz")]
    for text_lattice, binary_lattice in zip(from_text, from_binary, strict=True):
        np.testing.assert_allclose(text_lattice.graph, binary_lattice.graph, rtol=1e-5)
        assert np.array_equal(text_lattice.ali, binary_lattice.ali)
        assert np.array_equal(text_lattice.dst, binary_lattice.dst)
    content = write_tables(*from_binary, text=True)
    assert write_tables(*parse(write_tables(*parse(content))), text=True) == content
    assert write_tables(*from_text, text=True) == content


def test_conversion_of_compact_to_raw_agrees_with_kaldi():
    compact = [lattice for _, lattice in read(GOLDEN / "korean/lat.ark.gz")]
    expected = [lattice for _, lattice in read(GOLDEN / "korean/raw.ark.gz")]
    results = parse(write_tables(*compact, kind="raw"))
    assert [entry.key for entry in results] == [entry.key for entry in expected]
    for result, kaldi_lattice in zip(results[::3], expected[::3], strict=True):
        assert equal_up_to_state_numbers(result, kaldi_lattice)


@pytest.mark.parametrize("name", ["lat", "raw", "wide"])
def test_large_archives_have_the_expected_sizes(name):
    path = SHARED / f"data/korean/{name}.ark.gz"
    counts = {"lat": (977, 118_465, 469_975), "raw": (40, None, None), "wide": (34, None, None)}[name]
    sizes = [(lattice.num_states, lattice.num_arcs) for _, lattice in read(path)]
    assert len(sizes) == counts[0]
    if counts[1]:
        assert (sum(states for states, _ in sizes), sum(arcs for _, arcs in sizes)) == counts[1:]
