"""Files of k2: writing, reading by Ninja and by k2, damaged and malicious files."""

from __future__ import annotations

import io
import os
import pickle
import random
import struct
import sys
import types
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_k2 import fsas, paths
from reference_openfst import ways
from strategies import lattices
from whole_files import read_k2, torch_bytes, write_k2, write_k2s

import ninja
from ninja.errors import FormatError, InputError, LatticeError, NinjaError, OptionError, SymbolError
from ninja.formats.k2 import K2Options, read_k2s
from ninja.lattice import Lattice, check
from ninja.lattice.symbols import SymbolTable

torch = pytest.importorskip("torch")


def load(content: bytes) -> Any:
    return torch.load(io.BytesIO(content), weights_only=True)


def tensor(rows: list[tuple[int, int, int, float]]) -> Any:
    arcs = torch.tensor([(*row[:3], 0) for row in rows], dtype=torch.int32).reshape(-1, 4)
    arcs[:, 3] = torch.tensor([row[3] for row in rows], dtype=torch.float32).view(torch.int32)
    return arcs


# 0 -5-> 1 -6-> 2 -(-1)-> 3 and 0 -7-> 2
SMALL = [(0, 1, 5, -1.5), (0, 2, 7, -4.0), (1, 2, 6, -2.0), (2, 3, -1, -0.5)]


@given(st.lists(lattices(connected=False), min_size=0, max_size=4), st.booleans())
def test_k2_files_are_identical_after_write_and_read(drawn_lattices: list[Lattice], timed: bool) -> None:
    if timed:
        drawn_lattices = [
            replace(lattice, time=np.arange(lattice.num_states, dtype=np.int32), frame_shift=0.01)
            for lattice in drawn_lattices
        ]
    results = list(read_k2s(write_k2s(drawn_lattices)))
    assert len(results) == len(drawn_lattices)
    for lattice, back in zip(drawn_lattices, results, strict=True):
        assert isinstance(back, Lattice)
        check(back)
        assert back.identical(lattice)
        assert back.frame_shift == lattice.frame_shift
        assert (back.time is None) == (lattice.time is None)
        if lattice.time is not None:
            assert np.array_equal(back.time, lattice.time)
    if drawn_lattices:
        assert read_k2(write_k2(drawn_lattices[0]), drawn_lattices[0].key).identical(drawn_lattices[0])


@given(st.lists(lattices(), min_size=1, max_size=3), st.booleans())
def test_k2_reads_written_files_with_the_same_paths(drawn_lattices: list[Lattice], extras: bool) -> None:
    machines = fsas(load(write_k2s(drawn_lattices, extras=extras)))
    assert len(machines) == len(drawn_lattices)
    for machine, lattice in zip(machines, drawn_lattices, strict=True):
        k2_paths = sorted(paths(machine, lambda arc: [arc[4]["aux_labels"]]))
        lattice_paths = sorted((way.words, -way.graph - way.acoustic, -way.graph) for way in ways(lattice))
        assert k2_paths == lattice_paths
    assert fsas(load(write_k2(drawn_lattices[0]))) == machines[:1]


@given(lattices())
def test_costs_are_exact_even_if_their_sum_is_rounded(lattice: Lattice) -> None:
    graph = lattice.graph + np.float32(1e-3) * np.arange(lattice.num_arcs, dtype=np.float32)
    lattice = lattice.with_costs(graph, lattice.acoustic * np.float32(1234.567))
    assert read_k2(write_k2(lattice), lattice.key).identical(lattice)


@st.composite
def dictionaries(draw: st.DrawFn) -> tuple[dict[str, Any], Any]:
    """Draw FSAs that k2 allows: unordered states, dead ends, several words per arc, parallel arcs into the end."""
    machines, ragged = draw(st.integers(1, 3)), draw(st.booleans())
    rows, words, begins, states = [], [], [0], [0]
    for _ in range(machines):
        size = draw(st.integers(2, 6))
        order = [0, *draw(st.permutations(range(1, size - 1)))]  # all states except the final state
        arcs = {(order[0], size - 1)} if size == 2 else set()
        for at in range(size - 1):
            for _ in range(draw(st.integers(1, 3))):
                later = [*order[at + 1 :], size - 1]
                arcs.add((order[at], draw(st.sampled_from(later))))
        parallel_arcs = [arc for arc in sorted(arcs) if draw(st.integers(0, 4)) == 0]
        for src, dst in sorted([*arcs, *parallel_arcs]):
            final = dst == size - 1
            label = -1 if final else draw(st.integers(0, 5))
            rows.append((src, dst, label, draw(st.integers(-64, 64)) / 8))
            aux = draw(st.lists(st.integers(1, 9), max_size=3 if ragged else 1))
            if not ragged:
                aux = [-1] if final else aux or [0]
            words.append([*aux, -1] if ragged and final and draw(st.booleans()) else aux)
        begins.append(len(rows))
        states.append(states[-1] + size)
    flat = tensor(rows).flatten()
    head = torch.tensor([machines, 0, *states, *begins], dtype=torch.int32)
    result: dict[str, Any] = {"arcs": torch.cat([head, flat])}
    if ragged:
        splits = np.cumsum([0, *map(len, words)])
        values = torch.tensor([word for aux in words for word in aux], dtype=torch.int32)
        result["aux_labels"] = (torch.tensor(splits, dtype=torch.int32), "row_ids1", values)
    else:
        result["aux_labels"] = torch.tensor([aux[0] for aux in words], dtype=torch.int32)
    if draw(st.booleans()):
        scores = [draw(st.integers(-64, 64)) / 8 for _ in rows]
        result["lm_scores"] = torch.tensor(scores, dtype=draw(st.sampled_from([torch.float32, torch.float64])))
    return result, words


class _Modules:
    """Provide classes with the names of k2's classes while a file is written."""

    def __enter__(self) -> Any:
        self.ragged, self.table = types.ModuleType("_k2.ragged"), types.ModuleType("k2.symbol_table")

        class RaggedTensor:
            def __init__(self, state: Any) -> None:
                self.state = state

            def __getstate__(self) -> Any:
                return self.state

            def __setstate__(self, state: Any) -> None:
                raise AssertionError("classes of k2 must not be instantiated")

        class SymbolTable:
            def __init__(self, words: dict[int, str]) -> None:
                self._id2sym, self._sym2id = words, {word: number for number, word in words.items()}
                self._next_available_id, self.eps = 99, "<eps>"

        RaggedTensor.__module__, RaggedTensor.__qualname__ = "_k2.ragged", "RaggedTensor"
        SymbolTable.__module__, SymbolTable.__qualname__ = "k2.symbol_table", "SymbolTable"
        self.ragged.RaggedTensor, self.table.SymbolTable = RaggedTensor, SymbolTable  # type: ignore[attr-defined]
        sys.modules.update(self.modules())
        return self

    def modules(self) -> dict[str, types.ModuleType]:
        parents = {"_k2": types.ModuleType("_k2"), "k2": types.ModuleType("k2")}
        return {**parents, "_k2.ragged": self.ragged, "k2.symbol_table": self.table}

    def __exit__(self, *_: object) -> None:
        for name in self.modules():
            del sys.modules[name]


def with_ragged(loaded: dict[str, Any]) -> bytes:
    with _Modules() as k2:
        return torch_bytes(
            {
                name: k2.ragged.RaggedTensor(value) if isinstance(value, tuple) else value
                for name, value in loaded.items()
            }
        )


@given(dictionaries())
def test_fsas_in_any_order_with_any_words_keep_their_paths(example: tuple[dict[str, Any], Any]) -> None:
    loaded, words = example
    plain = {name: value for name, value in loaded.items() if name != "aux_labels"}
    machines = fsas({**plain, "place": torch.arange(len(words))})
    results = list(read_k2s(with_ragged(loaded)))
    assert len(results) == len(machines)
    for machine, back in zip(machines, results, strict=True):
        expected = list(paths(machine, lambda arc: words[arc[4]["place"]]))
        assert isinstance(back, Lattice)
        check(back)
        has_lm = "lm_scores" in loaded
        lattice_paths = [(way.words, -way.graph - way.acoustic, -way.graph) for way in ways(back)]
        assert sorted(lattice_paths) == sorted((aux, score, lm if has_lm else 0.0) for aux, score, lm in expected)


def test_scores_turn_into_costs_and_final_arcs_into_final_costs() -> None:
    lattice = read_k2(torch_bytes({"arcs": tensor(SMALL), "lm_scores": torch.tensor([-1.0, -3.0, -0.5, -0.25])}), "utt")
    assert lattice.word.tolist() == [5, 7, 6]
    assert lattice.graph.tolist() == [1.0, 3.0, 0.5]
    assert lattice.acoustic.tolist() == [0.5, 1.0, 1.5]
    assert lattice.final_graph.tolist() == [np.inf, np.inf, 0.25]
    assert lattice.final_acoustic.tolist() == [np.inf, np.inf, 0.25]


def test_without_lm_scores_an_option_selects_the_cost() -> None:
    content = torch_bytes({"arcs": tensor(SMALL)})
    assert read_k2(content, "utt").acoustic.tolist() == [1.5, 4.0, 2.0]
    assert read_k2(content, "utt", None, K2Options("graph")).graph.tolist() == [1.5, 4.0, 2.0]


def test_inconsistent_am_scores_are_ignored() -> None:
    loaded = load(write_k2(read_k2(torch_bytes({"arcs": tensor(SMALL)}), "utt")))
    loaded["am_scores"] = loaded["am_scores"] + 1
    assert read_k2(torch_bytes(loaded), "utt").acoustic.tolist() == [1.5, 4.0, 2.0]


def test_words_are_read_from_the_symbol_table_of_k2() -> None:
    with _Modules() as k2:
        table = k2.table.SymbolTable({0: "<eps>", 5: "five", 6: "six", 7: "seven"})
        content = torch_bytes({"arcs": tensor(SMALL), "labels_sym": table})
    lattice = read_k2(content, "utt")
    assert lattice.words is not None
    assert lattice.words.spell([5, 6]) == ["five", "six"]


def test_keys_are_stored_computed_or_numbers() -> None:
    lattice = read_k2(torch_bytes({"arcs": tensor(SMALL)}), "utt")
    pair = [lattice, lattice.with_key("b")]
    assert [entry.key for entry in read_k2s(write_k2s(pair)) if isinstance(entry, Lattice)] == ["utt", "b"]
    plain = write_k2s(pair, extras=False)
    assert [entry.key for entry in read_k2s(plain) if isinstance(entry, Lattice)] == ["1", "2"]
    assert [entry.key for entry in read_k2s(plain, key_of="x{}".format) if isinstance(entry, Lattice)] == ["x1", "x2"]


def test_a_raw_lattice_has_its_alignment_in_the_labels() -> None:
    lattice = Lattice.from_arrays(
        "utt", [0, 2, 2], [1, 1], [3, 4], [1, 2], [3, 4], [np.inf, 0], ali_begin=[0, 1, 1], ali=[9], kind="raw"
    )
    assert load(write_k2(lattice))["arcs"][:, 2].tolist() == [9, 0, -1]


@settings(max_examples=12)
@given(lattices(max_states=6), st.randoms(use_true_random=False))
def test_lattices_changed_by_k2_have_no_outdated_alignments(lattice: Lattice, rng: random.Random) -> None:
    loaded = load(write_k2(lattice))
    count = len(loaded["arcs"])
    removed_arc = rng.randrange(count)
    remaining = [arc for arc in range(count) if arc != removed_arc]
    for name, value in loaded.items():
        if isinstance(value, torch.Tensor):
            loaded[name] = value[remaining]
    for result in read_k2s(torch_bytes(loaded)):
        if isinstance(result, Lattice):
            assert not len(result.ali)
    loaded = load(write_k2(lattice))  # changed scores do not invalidate alignments
    loaded["arcs"][:, 3] = 0
    (result,) = read_k2s(torch_bytes(loaded))
    assert isinstance(result, Lattice)
    assert np.array_equal(result.ali, lattice.ali)


DAMAGED: list[tuple[str, object, str]] = [
    ("lengths", torch.zeros(1, dtype=torch.int32).expand(10**9), "lengths is not a contiguous tensor"),
    (
        "lengths",
        torch.tensor([3, 0, 0], dtype=torch.int32),
        "the lengths of the alignments do not sum to the number of labels",
    ),
    (
        "lengths",
        torch.tensor([-1, 1, 0], dtype=torch.int32),
        "the lengths of the alignments do not sum to the number of labels",
    ),
    (
        "final_lengths",
        torch.zeros(9, dtype=torch.int32),
        "final_lengths is not an int32 tensor with one axis of size",
    ),
    ("arcs", torch.tensor([4], dtype=torch.int32), "its arcs differ from the arcs in the file"),
    ("lattices", "[]", "it describes 0 lattices, but the file contains 1 FSAs"),
    ("lattices", '[["utt", "odd", null, false]]', "the kind of a lattice is neither compact nor raw"),
    ("lattices", '[["utt", "raw", -1, false]]', "a frame shift is not a number from 1e-6 to 1e6"),
    ("lattices", '[[3, "raw", 1, false]]', "a key is not a string, or a flag is not a boolean"),
]


@pytest.mark.parametrize(("name", "value", "message"), DAMAGED)
def test_a_damaged_ninja_attribute_raises_format_error(name: str, value: object, message: str) -> None:
    loaded = load(write_k2(read_k2(torch_bytes({"arcs": tensor(SMALL)}), "utt")))
    loaded["ninja"][name] = value
    with pytest.raises(FormatError, match=f"x.pt: the attribute 'ninja' of the file is damaged: {message}"):
        read_k2(torch_bytes(loaded), "utt", "x.pt")


def test_a_file_is_mapped_by_its_path(tmp_path: Any) -> None:
    file = tmp_path / "lattices.pt"
    file.write_bytes(write_k2(read_k2(torch_bytes({"arcs": tensor(SMALL)}), "utt")))
    assert read_k2(file, "utt").word.tolist() == [5, 7, 6]
    with pytest.raises(InputError, match=r"none\.pt: cannot be read: No such file"):
        read_k2(tmp_path / "none.pt", "utt")


def test_a_flipped_bit_in_a_score_is_detected() -> None:
    content = bytearray(write_k2(read_k2(torch_bytes({"arcs": tensor(SMALL)}), "utt")))
    content[content.index(struct.pack("<f", -1.5))] ^= 1
    with pytest.raises(FormatError, match=r"x.pt: data/0 is damaged: its checksum differs"):
        read_k2(bytes(content), "utt", "x.pt")


class Harm:
    def __reduce__(self) -> Any:
        return os.system, ("touch /tmp/ninja-was-harmed",)


WRONG: list[tuple[object, type[NinjaError], str]] = [
    ([1], FormatError, "x.pt: the file is not a dictionary"),
    ({"a": 1}, FormatError, "its dictionary has no arcs"),
    ({"arcs": Harm()}, FormatError, r"an object of the type (posix|nt)\.system; only tensors"),
    ({"arcs": {1, 2}}, FormatError, r"an object of the type .*set; only tensors"),
    ({"arcs": 3}, FormatError, "arcs is not a plain tensor"),
    ({"arcs": torch.zeros(3, 4)}, FormatError, "arcs are float32, but must be int32"),
    ({"arcs": torch.zeros(3, 5, dtype=torch.int32)}, FormatError, r"arcs have shape \[3, 5\]"),
    ({"arcs": torch.zeros(1, 4, dtype=torch.int32).expand(100000, 4)}, FormatError, "declares 400000 elements"),
    ({"arcs": torch.tensor([9, 0, 0], dtype=torch.int32)}, FormatError, "declares 9 FSAs, but has only 3 numbers"),
    (
        {"arcs": torch.tensor([1, 0, 0, 3, 0, 1], dtype=torch.int32)},
        FormatError,
        "declares 1 arcs, which need 4 numbers each, but has 0",
    ),
    ({"arcs": torch.tensor([1, 0, 0, 3, 1, 0], dtype=torch.int32)}, FormatError, "offsets of arcs .* must start at 0"),
    ({"arcs": torch.tensor([1, 0, 0, 999999, 0, 0], dtype=torch.int32)}, FormatError, "many more states than arcs"),
    ({"arcs": torch.tensor([1, 0, 0, 0, 0, 0], dtype=torch.int32)}, LatticeError, "the FSA is empty"),
    ({"arcs": torch.tensor([1, 0, 0, 2, 0, 0], dtype=torch.int32)}, LatticeError, "no arc enters the final state"),
    ({"arcs": tensor([(1, 2, 3, 0.0), (0, 2, -1, 0.0)])}, FormatError, "arc 0 has the label 3 and enters state 2"),
    ({"arcs": tensor([(1, 2, -1, 0.0), (0, 2, -1, 0.0)])}, FormatError, "arc 1 leaves state 0 after state 1"),
    ({"arcs": tensor([(0, 1, -1, 0.0), (0, -3, 2, 0.0)])}, FormatError, "arc 1 enters state -3 of 2"),
    ({"arcs": tensor([(0, 1, -5, 0.0), (0, 2, -1, 0.0)])}, FormatError, "arc 0 has the label -5 and enters state 1"),
    ({"arcs": tensor([(0, 1, 4, 0.0), (1, 2, 0, 0.0), (1, 2, -1, 0.0)])}, FormatError, "has the label 0 and enters"),
    ({"arcs": tensor([(0, 1, 4, 0.0), (1, 0, 0, 0.0), (1, 2, -1, 0.0)])}, LatticeError, "state 0 lies on a cycle"),
    ({"arcs": tensor([(0, 1, 4, -np.inf), (1, 2, -1, 0.0)])}, LatticeError, "arc 0 has the score -inf"),
    ({"arcs": tensor(SMALL), "lm_scores": torch.tensor([0, np.nan, 0, 0])}, LatticeError, "arc 1 has .*LM score nan"),
    (
        {"arcs": tensor(SMALL), "lm_scores": torch.zeros(3)},
        FormatError,
        r"lm_scores has 3 entries, but there are 4 arcs",
    ),
    ({"arcs": tensor(SMALL), "lm_scores": torch.zeros(4, 2)}, FormatError, "lm_scores must have one score per arc"),
    ({"arcs": tensor(SMALL), "aux_labels": torch.zeros(4)}, FormatError, "aux_labels must have an integer"),
    (
        {"arcs": tensor(SMALL), "aux_labels": torch.tensor([2**40] * 4)},
        FormatError,
        "aux_labels exceed the range",
    ),
    ({"arcs": tensor(SMALL), "aux_labels": torch.tensor([1, -2, 0, -1])}, LatticeError, "arc 1 has the word label -2"),
]


@pytest.mark.parametrize(("value", "kind", "message"), WRONG)
def test_invalid_k2_files_raise_the_expected_error(value: object, kind: type[NinjaError], message: str) -> None:
    with pytest.raises(kind, match=message):
        read_k2(torch_bytes(value), "utt", "x.pt")
    assert not os.path.exists("/tmp/ninja-was-harmed")


def test_an_invalid_fsa_of_a_vector_does_not_affect_the_others() -> None:
    good, bad = tensor(SMALL), tensor([(0, 1, 4, float("nan")), (1, 2, -1, 0.0)])
    head = torch.tensor([3, 0, 0, 4, 7, 11, 0, 4, 6, 10], dtype=torch.int32)
    entries = list(
        read_k2s(torch_bytes({"arcs": torch.cat([head, good.flatten(), bad.flatten(), good.flatten()])}), "x.pt")
    )
    assert [type(entry) for entry in entries] == [Lattice, LatticeError, Lattice]
    assert str(entries[1]) == "x.pt, key '2': arc 0 has the score nan"


def test_a_word_missing_in_the_table_raises_symbol_error(tmp_path: Path) -> None:
    words = SymbolTable([("<eps>", 0), ("five", 5), ("six", 6)])
    (tmp_path / "x.pt").write_bytes(torch_bytes({"arcs": tensor(SMALL)}))
    with pytest.raises(SymbolError, match="word id 7 is not in the symbol table"):
        list(ninja.read(tmp_path / "x.pt", words=words))


def test_inconsistent_ragged_aux_labels_are_refused() -> None:
    splits = torch.tensor([0, 1, 1, 1], dtype=torch.int32)
    content = with_ragged({"arcs": tensor(SMALL), "aux_labels": (splits, "row_ids1", torch.tensor([4]))})
    with pytest.raises(FormatError, match="aux_labels has 3 entries, but there are 4 arcs"):
        read_k2(content, "utt")
    splits = torch.tensor([0, 2, 1, 1, 1], dtype=torch.int32)
    content = with_ragged({"arcs": tensor(SMALL), "aux_labels": (splits, "row_ids1", torch.tensor([4]))})
    with pytest.raises(FormatError, match="the offsets of aux_labels are inconsistent"):
        read_k2(content, "utt")


def test_invalid_options_are_refused() -> None:
    with pytest.raises(OptionError, match="costs is 'both'"):
        K2Options("both")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="words is 'ids'"):
        K2Options(words="ids")  # type: ignore[arg-type]
    with pytest.raises(FormatError, match="the file has no aux_labels"):
        read_k2(torch_bytes({"arcs": tensor(SMALL)}), "utt", None, K2Options(words="aux_labels"))


def test_lattices_without_paths_or_with_too_large_costs_are_refused() -> None:
    lattice = Lattice.from_arrays("utt", [0, 0], [], [], [], [], [0.0])
    with pytest.raises(LatticeError, match="no state is final"):
        write_k2(replace(lattice, final_graph=np.array([np.inf], np.float32)))
    huge = Lattice.from_arrays("utt", [0, 1, 1], [1], [1], [3e38], [3e38], [np.inf, 0.0])
    with pytest.raises(LatticeError, match="exceeds the range of float32"):
        write_k2(huge)


def test_packed_or_padded_zip_files_are_refused() -> None:
    content = write_k2(read_k2(torch_bytes({"arcs": tensor(SMALL)}), "utt"))
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            new.writestr(entry.filename, old.read(entry))
    with pytest.raises(FormatError, match="the zip file has a compressed entry"):
        read_k2(buffer.getvalue(), "utt")
    with pytest.raises(FormatError, match="the file was not saved by torch"):
        read_k2(pickle.dumps({"arcs": 1}), "utt")
