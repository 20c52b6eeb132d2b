"""Archives that Kaldi's own tools wrote are read and written again."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from kaldi_tables import parse, without_properties, write_tables

from ninja.io import read

SHARED = Path(os.environ.get("NINJA_SHARED", Path(__file__).parents[3] / "shared"))
GOLDEN = SHARED / "golden"
# In CI conftest refuses to run without them.
pytestmark = pytest.mark.skipif(
    not GOLDEN.is_dir(), reason=f"Kaldi's answers, not part of the project, are not in {GOLDEN}"
)


def archives(pattern):
    return sorted(GOLDEN.glob(pattern)) if GOLDEN.is_dir() else []


def same_up_to_numbers(one, other):
    """Return whether two lattices are equal if states are matched from the start, along arcs in order."""
    if one.num_states != other.num_states or one.num_arcs != other.num_arcs or one.kind != other.kind:
        return False
    match = {0: 0}
    arcs_of_one, arcs_of_other = [], []
    for state in range(one.num_states):  # sorted: a state's number is known before its arcs come
        twin = match[state]
        here = range(one.arc_begin[state], one.arc_begin[state + 1])
        there = range(other.arc_begin[twin], other.arc_begin[twin + 1])
        if len(here) != len(there):
            return False
        for arc, twin_arc in zip(here, there, strict=True):
            if match.setdefault(int(one.dst[arc]), int(other.dst[twin_arc])) != other.dst[twin_arc]:
                return False
        arcs_of_one += here
        arcs_of_other += there
    states = [match[state] for state in range(one.num_states)]

    def pool(lattice, name, order):
        begin, labels = getattr(lattice, f"{name}_begin"), getattr(lattice, name)
        return [labels[begin[at] : begin[at + 1]].tolist() for at in order]

    return (
        all(
            np.array_equal(getattr(one, name)[arcs_of_one], getattr(other, name)[arcs_of_other])
            for name in ("word", "graph", "acoustic")
        )
        and all(
            np.array_equal(getattr(one, name), getattr(other, name)[states])
            for name in ("final_graph", "final_acoustic")
        )
        and pool(one, "ali", arcs_of_one) == pool(other, "ali", arcs_of_other)
        and pool(one, "final_ali", range(one.num_states)) == pool(other, "final_ali", states)
    )


@pytest.mark.parametrize("path", archives("english/*.ark.gz"), ids=lambda path: path.name)
def test_english_archives_are_written_again_byte_by_byte(path):
    found = [lattice for _, lattice in read(path)]
    content = gzip.decompress(path.read_bytes())
    same = without_properties(write_tables(*found)) == without_properties(content)
    assert same or not all_sorted(content)
    assert same or path.name != "lat.ark.gz"
    assert same or all(one.identical(other) for one, other in zip(parse(write_tables(*found)), found, strict=True))


def all_sorted(content):
    """Return whether Kaldi wrote the states in topological order; ours then have the same order."""
    import reference_formats as slow

    place = slow.Bytes(content)
    while place.at < len(content):
        place.at = content.index(b" ", place.at) + 1
        start, _, arcs, _ = slow.read_binary(place)
        if start != 0 or any(arc[0] <= state for state, leaving in enumerate(arcs) for arc in leaving):
            return False
    return True


def test_english_text_goes_to_binary_and_back_byte_by_byte():
    content = gzip.decompress((GOLDEN / "english/lat.txt.gz").read_bytes())
    assert write_tables(*parse(write_tables(*parse(content))), text=True) == content
    from_binary = [lattice for _, lattice in read(GOLDEN / "english/lat.ark.gz")]
    assert write_tables(*from_binary, text=True) == content
    pruned = gzip.decompress((GOLDEN / "english/prune1.txt.gz").read_bytes())
    assert write_tables(*parse(write_tables(*parse(pruned))), text=True) == pruned


@pytest.mark.parametrize("path", archives("korean/*.ark.gz"), ids=lambda path: path.name)
def test_korean_archives_keep_their_lattices_up_to_state_numbers(path):
    content = gzip.decompress(path.read_bytes())
    found = [lattice for _, lattice in read(path)]
    few = found[: 20 if found[0].kind == "compact" else 5]  # the slow reader is slow
    for lattice, twin in zip(few, unsorted(content), strict=False):
        assert same_up_to_numbers(lattice, twin)
    again = parse(write_tables(*found))
    assert all(one.identical(other) for one, other in zip(again, found, strict=True))


def unsorted(content):
    """Yield the lattices of an archive in breadth-first order, an order that the kernel does not produce."""
    import reference_formats as slow

    place = slow.Bytes(content)
    while place.at < len(content):
        key = content[place.at : content.index(b" ", place.at)].decode()
        place.at += len(key.encode()) + 1
        start, finals, arcs, compact = slow.read_binary(place)
        entered = [0] * len(finals)
        for leaving in arcs:
            for arc in leaving:
                entered[arc[0]] += 1
        assert entered[start] == 0
        order = [start]
        for state in order:
            for arc in arcs[state]:
                entered[arc[0]] -= 1
                if not entered[arc[0]]:
                    order.append(arc[0])
        number = {state: place for place, state in enumerate(order)}
        yield slow.assemble(
            key,
            0,
            [finals[state] for state in order],
            [[(number[arc[0]], *arc[1:]) for arc in arcs[state]] for state in order],
            compact,
        )


def test_korean_text_and_binary_are_the_same_lattices():
    from_text = [lattice for _, lattice in read(GOLDEN / "korean/lat.txt.gz")]
    from_binary = [lattice for _, lattice in read(GOLDEN / "korean/lat.ark.gz")]
    for one, other in zip(from_text, from_binary, strict=True):
        np.testing.assert_allclose(one.graph, other.graph, rtol=1e-5)
        assert np.array_equal(one.ali, other.ali)
        assert np.array_equal(one.dst, other.dst)
    content = write_tables(*from_binary, text=True)
    assert write_tables(*parse(write_tables(*parse(content))), text=True) == content
    assert write_tables(*from_text, text=True) == content


def test_a_compact_lattice_becomes_the_raw_one_that_kaldi_makes_of_it():
    compact = [lattice for _, lattice in read(GOLDEN / "korean/lat.ark.gz")]
    expected = [lattice for _, lattice in read(GOLDEN / "korean/raw.ark.gz")]
    found = parse(write_tables(*compact, kind="raw"))
    assert [entry.key for entry in found] == [entry.key for entry in expected]
    for one, other in zip(found[::3], expected[::3], strict=True):
        assert same_up_to_numbers(one, other)


@pytest.mark.parametrize("name", ["lat", "raw", "wide"])
def test_the_large_archives_are_read_whole(name):
    path = SHARED / f"data/korean/{name}.ark.gz"
    counts = {"lat": (977, 118_465, 469_975), "raw": (40, None, None), "wide": (34, None, None)}[name]
    found = [(lattice.num_states, lattice.num_arcs) for _, lattice in read(path)]
    assert len(found) == counts[0]
    if counts[1]:
        assert (sum(states for states, _ in found), sum(arcs for _, arcs in found)) == counts[1:]
