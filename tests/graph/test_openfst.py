"""Conversion to OpenFst and back, and FST files, compared with OpenFst."""

from __future__ import annotations

import struct
import sys
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_openfst import best_ways, ways, with_random_costs
from strategies import lattices

from ninja.errors import DependencyError, FormatError, LatticeError, OptionError
from ninja.formats.fst_binary import read_fst, write_fst
from ninja.lattice import Lattice, check
from ninja.openfst import from_fst, to_fst

fst = pytest.importorskip("pywrapfst")

ARC_TYPES = ("standard", "log", "log64")
FIRST_STATE = 66  # byte at which the first state of a "standard" vector FST begins


def small() -> Lattice:
    """Return a lattice of the arcs 0 -7-> 1 -0-> 2 and 0 -8-> 2, with final states 1 and 2."""
    return Lattice.from_arrays(
        "utt",
        [0, 2, 3, 3],
        [1, 2, 2],
        [7, 8, 0],
        [1.5, 2.0, 0.25],
        [-10.0, 4.0, 8.0],
        [np.inf, 0.5, 0.0],
        [np.inf, 1.0, 3.0],
        ali_begin=[0, 2, 3, 3],
        ali=[11, 12, 13],
        final_ali_begin=[0, 0, 1, 1],
        final_ali=[14],
    )


def arcs_of(machine: Any) -> list[tuple[int, int, int, float, int]]:
    return [
        (state, arc.ilabel, arc.olabel, float(arc.weight), arc.nextstate)
        for state in machine.states()
        for arc in machine.arcs(state)
    ]


@pytest.mark.parametrize("arc_type", ARC_TYPES)
def test_to_fst_gives_openfst_words_and_total_costs(arc_type: Any) -> None:
    machine = to_fst(small(), arc_type, acoustic_scale=0.5)
    assert machine.arc_type() == arc_type
    assert machine.verify()
    assert arcs_of(machine) == [(0, 7, 7, -3.5, 1), (0, 8, 8, 4.0, 2), (1, 0, 0, 4.25, 2)]
    assert [float(machine.final(state)) for state in machine.states()] == [np.inf, 1.0, 1.5]
    assert machine.start() == 0


def test_to_fst_exports_graph_or_acoustic_costs_alone() -> None:
    assert [arc[3] for arc in arcs_of(to_fst(small(), costs="graph"))] == [1.5, 2.0, 0.25]
    machine = to_fst(small(), costs="acoustic")
    assert [arc[3] for arc in arcs_of(machine)] == [-10.0, 4.0, 8.0]
    assert float(machine.final(1)) == 1.0


def test_arc_labels_number_arcs_and_final_states() -> None:
    arcs = arcs_of(to_fst(small(), labels="arc"))
    assert [(src, ilabel, olabel, dst) for src, ilabel, olabel, _, dst in arcs] == [
        (0, 1, 1, 1),
        (0, 2, 2, 2),
        (1, 3, 3, 2),
        (1, 5, 5, 3),  # final state 1: label num_arcs + 1 + 1
        (2, 6, 6, 3),
    ]
    assert [weight for *_, weight, _ in arcs] == [-8.5, 6.0, 8.25, 1.5, 3.0]
    pairs = [(ilabel, olabel) for _, ilabel, olabel, _, _ in arcs_of(to_fst(small(), labels="word:arc"))]
    assert pairs == [(7, 1), (8, 2), (0, 3), (0, 5), (0, 6)]


@given(lattices(connected=False), st.sampled_from(ARC_TYPES))
def test_word_acceptor_survives_a_round_trip_with_its_total_costs(lattice: Lattice, arc_type: Any) -> None:
    restored = from_fst(to_fst(lattice, arc_type, acoustic_scale=0.5), "back")
    assert restored.key == "back"
    for name in ("arc_begin", "dst", "word"):
        assert np.array_equal(getattr(restored, name), getattr(lattice, name))
    assert np.array_equal(restored.graph, lattice.graph + np.float32(0.5) * lattice.acoustic)
    assert np.array_equal(restored.final_graph, lattice.final_graph + np.float32(0.5) * lattice.final_acoustic)
    assert not restored.acoustic.any()
    assert np.array_equal(restored.is_final, lattice.is_final)


@given(lattices(connected=False), st.sampled_from(ARC_TYPES), st.sampled_from(["arc", "word:arc"]))
def test_arc_labelled_fst_survives_a_round_trip_unchanged(lattice: Lattice, arc_type: Any, labels: Any) -> None:
    machine = to_fst(lattice, arc_type, labels=labels)
    restored = from_fst(machine, like=lattice, labels=labels)
    assert restored.identical(lattice)


@given(lattices(), st.integers(0, 2**32 - 1), st.sampled_from(["arc", "word:arc"]))
def test_results_of_openfst_map_back_to_both_costs_and_alignments(lattice: Lattice, seed: int, labels: Any) -> None:
    lattice = with_random_costs(lattice, seed)
    best = min(ways(lattice), key=lambda way: way.total(0.1))
    machine = to_fst(lattice, labels=labels, acoustic_scale=0.1)
    for shortest in (fst.shortestpath(machine), fst.shortestpath(machine, nshortest=3)):
        restored = from_fst(shortest, "1best", lattice, labels)
        check(restored)
        way = min(ways(restored), key=lambda way: way.total(0.1))
        assert (way.words, way.alignment) == (best.words, best.alignment)
        assert way.graph == pytest.approx(best.graph, abs=1e-4)
        assert way.acoustic == pytest.approx(best.acoustic, abs=1e-4)


@given(lattices(), st.integers(0, 2**32 - 1))
def test_from_fst_sorts_states_topologically(lattice: Lattice, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(lattice.num_states)
    machine = fst.VectorFst()
    machine.add_states(lattice.num_states)
    machine.set_start(int(order[0]))
    for arc, src in enumerate(lattice.src):
        word = int(lattice.word[arc])
        machine.add_arc(
            int(order[src]), fst.Arc(word, word, str(float(lattice.graph[arc])), int(order[lattice.dst[arc]]))
        )
    for state in np.flatnonzero(lattice.is_final):
        machine.set_final(int(order[state]), str(float(lattice.final_graph[state])))
    restored = from_fst(machine)
    check(restored)
    graph_costs = {words: way.graph for words, way in best_ways(restored, 0.0).items()}
    assert graph_costs == pytest.approx({words: way.graph for words, way in best_ways(lattice, 0.0).items()})


def machine_of(text: str, arc_type: str = "standard", *, acceptor: bool = True) -> Any:
    compiler = fst.Compiler(acceptor=acceptor, arc_type=arc_type)
    compiler.write(text)
    return compiler.compile()


def test_words_are_the_output_labels_of_a_transducer() -> None:
    lattice = from_fst(machine_of("0 1 5 9 0.5\n1\n", acceptor=False))
    assert lattice.word.tolist() == [9]


def test_const_fsts_are_read() -> None:
    machine = fst.convert(to_fst(small()), "const")
    assert machine.fst_type() == "const"
    assert from_fst(machine).word.tolist() == [7, 8, 0]


def test_from_fst_keeps_the_attached_symbol_table() -> None:
    machine = to_fst(small())
    symbols = fst.SymbolTable()
    for word, number in (("<eps>", 0), ("옷", 7), ("b", 8)):
        symbols.add_symbol(word, number)
    machine.set_output_symbols(symbols)
    words = from_fst(machine).words
    assert words is not None
    assert words.spell([7, 0, 8]) == ["옷", "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 1 5 0.5\n1 0 5\n1\n", "state 0 lies on a cycle"),
        ("0 0 5 0.5\n0\n", "state 0 lies on a cycle"),
        ("", "the FST is empty: it has no start state"),
        ("0 1 5 0.5\n", "no state is final"),
    ],
)
@pytest.mark.parametrize("arc_type", ARC_TYPES)
def test_cyclic_and_empty_fsts_are_refused(text: str, message: str, arc_type: str) -> None:
    with pytest.raises(LatticeError, match=f"key 'utt': {message}"):
        from_fst(machine_of(text, arc_type), "utt")


def test_a_cost_beyond_float32_is_refused() -> None:
    with pytest.raises(LatticeError, match="key 'utt': arc 0 has the graph cost inf"):
        from_fst(machine_of("0 1 5 1e300\n1\n", "log64"), "utt")


def test_a_label_that_refers_to_no_arc_is_refused() -> None:
    lattice = small()
    for label in (7, 4):  # 7 is beyond all labels; 4 would be state 0, which is not final
        with pytest.raises(LatticeError, match=rf"key 'utt': output label {label} refers to neither an arc \(1 to 3\)"):
            from_fst(machine_of(f"0 1 {label} 0.5\n1\n"), like=lattice)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"arc_type": "tropical"}, "arc_type is 'tropical', but must be standard, log or log64"),
        ({"costs": "both"}, "costs is 'both'"),
        ({"labels": "arcs"}, "labels is 'arcs'"),
        ({"acoustic_scale": float("inf")}, "acoustic_scale is inf, but must be finite"),
    ],
)
def test_to_fst_refuses_invalid_options(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        to_fst(small(), **arguments)


@pytest.mark.parametrize(
    ("arc_type", "scale", "message"),
    [
        (
            "standard",
            1e38,
            "arc 0 costs 4e.38, which exceeds the range of float32; use a smaller .*scale or arc_type=log64",
        ),
        ("log", -1e307, "arc 0 costs -4e.307, which exceeds the range of float32"),
        ("log64", 1e308, "arc 0 costs inf, which exceeds the range of float64; use a smaller acoustic_scale$"),
    ],
)
def test_costs_beyond_the_weight_type_are_refused(arc_type: Any, scale: float, message: str) -> None:
    lattice = small().with_costs(np.zeros(3, np.float32), np.array([4, 0, 0], np.float32))
    with pytest.raises(LatticeError, match="key 'utt': " + message):
        write_fst(lattice, arc_type, acoustic_scale=scale)
    if arc_type != "log64":
        fst.Fst.read_from_string(write_fst(lattice, "log64", acoustic_scale=scale / 1e10))


def test_final_costs_beyond_the_weight_type_are_refused() -> None:
    lattice = small()
    large = np.where(lattice.is_final, np.float32(3e38), np.float32(np.inf)).astype(np.float32)
    lattice = replace(lattice, final_graph=large, final_acoustic=large)
    state = int(np.flatnonzero(lattice.is_final)[0])
    with pytest.raises(LatticeError, match=f"ending in state {state} costs 6e.38, which exceeds the range of float32"):
        write_fst(lattice)


def test_missing_pywrapfst_raises_a_dependency_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pywrapfst", None)
    with pytest.raises(DependencyError, match="needs pywrapfst, which is not installed; pip install pynini"):
        to_fst(small())


@given(lattices(), st.sampled_from(ARC_TYPES))
def test_write_fst_writes_the_bytes_of_openfst(lattice: Lattice, arc_type: Any) -> None:
    content = write_fst(lattice, arc_type)
    openfst_content = fst.Fst.read_from_string(content).write_to_string()
    # The header has magic number, types, version, flags, properties, start, number of states and number of arcs.
    header = 50 + len(arc_type) - (16 + 8)
    assert content[:header] == openfst_content[:header]
    assert content[header + 8 : header + 24] == openfst_content[header + 8 : header + 24]
    assert content[header + 32 :] == openfst_content[header + 32 :]
    restored = read_fst(openfst_content, lattice.key)
    assert np.array_equal(restored.word, lattice.word)
    assert write_fst(restored, arc_type) == content


def test_a_truncated_fst_is_refused() -> None:
    content = write_fst(small())
    for length in range(len(content)):
        with pytest.raises(FormatError, match=r"a\.fst, byte \d+, key 'utt'"):
            read_fst(content[:length], "utt", "a.fst")


def test_an_fst_with_a_changed_byte_is_read_or_refused() -> None:
    for arc_type in ARC_TYPES:
        content = write_fst(small(), arc_type)
        for position in range(len(content)):
            for value in (0x00, 0x01, 0x7F, 0x80, 0xFF):
                with suppress(FormatError, LatticeError):
                    check(read_fst(content[:position] + bytes([value]) + content[position + 1 :], "utt", "a.fst"))


def with_value(position: int, layout: str, value: float) -> bytes:
    content = bytearray(write_fst(small()))
    struct.pack_into("<" + layout, content, position, value)
    return bytes(content)


FIRST_ARC = FIRST_STATE + 12  # after the final weight and the number of arcs


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "byte 0, key 'utt': the image ends within the header"),
        (with_value(0, "i", 7), "not an OpenFst file: the magic number is wrong"),
        (with_value(4, "i", 10**9), "the header declares 1000000000 bytes, but"),
        (write_fst(small()).replace(b"vector", b"compac"), 'unsupported FST type "compac"; convert it with fstconvert'),
        (
            write_fst(small()).replace(b"standard", b"lattice4"),
            'unsupported arc type "lattice4"; standard, log and log64',
        ),
        (with_value(26, "i", 1), "version 1 of a vector FST; 2 is needed"),
        (with_value(30, "i", 8), "unknown header flags 8"),
        (with_value(42, "q", 3), "start state 3 of 3"),
        (with_value(50, "q", 2**40), "the header declares 1099511627776 states"),
        (with_value(50, "q", -2), "the header declares -2 states"),
        (with_value(FIRST_STATE + 4, "q", 2**60), "state 0 declares 1152921504606846976 arcs, but"),
        (with_value(FIRST_STATE + 4, "q", -1), "state 0 declares -1 arcs"),
        (with_value(FIRST_ARC + 12, "i", 3), "arc 0 of state 0 enters state 3 of 3"),
        (with_value(FIRST_ARC + 12, "i", -1), "arc 0 of state 0 enters state -1 of 3"),
        (write_fst(small()) + b"x", "1 byte follows the end of the FST"),
    ],
)
def test_damaged_fst_files_are_refused_with_the_byte_position(content: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message) as excinfo:
        read_fst(content, "utt", "a.fst")
    assert str(excinfo.value).startswith("a.fst, byte ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (with_value(FIRST_ARC + 8, "f", float("nan")), "arc 0 of state 0 has the weight -?nan"),
        (with_value(FIRST_ARC + 8, "f", float("-inf")), "arc 0 of state 0 has the weight -inf"),
        (with_value(FIRST_STATE, "f", float("nan")), "state 0 has the final weight -?nan"),
        (with_value(FIRST_STATE, "f", float("-inf")), "state 0 has the final weight -inf"),
        (with_value(FIRST_ARC, "i", -7), "arc 0 of state 0 has the negative input label -7"),
        (with_value(FIRST_ARC + 4, "i", -7), "arc 0 of state 0 has the negative output label -7"),
        (with_value(FIRST_ARC + 12, "i", 0), "state 0 lies on a cycle"),
        (with_value(42, "q", -1), "the FST is empty"),
    ],
)
def test_fst_files_that_are_not_lattices_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(LatticeError, match=f"a.fst, key 'utt': {message}"):
        read_fst(content, "utt", "a.fst")


def test_an_fst_without_a_state_count_is_read_to_the_end() -> None:
    assert read_fst(with_value(50, "q", -1), "utt").word.tolist() == [7, 8, 0]
