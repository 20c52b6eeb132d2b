"""Features of FSTs that lattices lack: arcs of weight zero, and separate input and output symbol tables."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lattice_files import write_all
from strategies import lattices
from strategies_text import needs_openfst

import ninja
from ninja.errors import FormatError, LatticeError, OptionError, SymbolError
from ninja.formats.fst_binary import OpenfstOptions, read_fst, write_fst
from ninja.formats.fst_text import read_fst_text
from ninja.formats.kaldi.fst_archive import read_fst_archive
from ninja.lattice import Lattice, check
from ninja.lattice.symbols import SymbolTable
from ninja.openfst import from_fst

fst = pytest.importorskip("pywrapfst")

ARC_TYPES = ("standard", "log", "log64")
WORDS = SymbolTable([("<eps>", 0), ("옷", 7), ("a b", 8), ("far", 1_000_000)])


def compile_fst(text: str, arc_type: str = "standard", *, acceptor: bool = False) -> Any:
    compiler = fst.Compiler(acceptor=acceptor, arc_type=arc_type)
    compiler.write(text)
    return compiler.compile()


def symbols(*words: str) -> Any:
    table = fst.SymbolTable()
    for number, word in enumerate(words):
        table.add_symbol(word, number)
    return table


def have_equal_arrays(first: Lattice, second: Lattice) -> bool:
    names = ("arc_begin", "dst", "word", "graph", "final_graph")
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in names)


@settings(max_examples=20, deadline=None)
@given(lattices(connected=False), st.sampled_from(ARC_TYPES), st.randoms(use_true_random=False))
def test_arcs_of_weight_zero_are_ignored(lattice: Lattice, arc_type: Any, random: Any) -> None:
    """Insert arcs of weight zero at any position, to any state, including earlier ones."""
    plain, with_zeros = fst.VectorFst(arc_type), fst.VectorFst(arc_type)
    for machine in (plain, with_zeros):
        machine.add_states(lattice.num_states)
        machine.set_start(0)
    zero = fst.Weight.zero(plain.weight_type())
    for state in range(lattice.num_states):
        for arc in range(lattice.arc_begin[state], lattice.arc_begin[state + 1]):
            if random.randrange(3) == 0:
                with_zeros.add_arc(state, fst.Arc(3, 4, zero, random.randrange(lattice.num_states)))
            word, weight = int(lattice.word[arc]), fst.Weight(plain.weight_type(), str(float(lattice.graph[arc])))
            for machine in (plain, with_zeros):
                machine.add_arc(state, fst.Arc(word, word, weight, int(lattice.dst[arc])))
        with_zeros.add_arc(state, fst.Arc(-1, 4, zero, random.randrange(lattice.num_states)))
        if lattice.is_final[state]:
            for machine in (plain, with_zeros):
                machine.set_final(state, str(float(lattice.final_graph[state])))
    restored = from_fst(with_zeros)
    check(restored)
    assert have_equal_arrays(restored, from_fst(plain))


# One of the arcs of weight zero would close a cycle.
TEXT = "0 1 5 5 0.5\n0 1 6 6 Infinity\n1 0 7 7 Infinity\n1 2 8 8 1\n1 inf\n2\n"


@pytest.mark.parametrize("kind", ["binary", "text", "archive", "archive in text"])
def test_all_fst_readers_drop_arcs_of_weight_zero(kind: str) -> None:
    image = compile_fst(TEXT).write_to_string()
    if kind == "binary":
        lattice = read_fst(image, "utt")
    elif kind == "text":
        lattice = read_fst_text(TEXT.encode(), "utt")
    else:
        content = b"utt " + image if kind == "archive" else b"utt \n" + TEXT.encode() + b"\n"
        ((_, entry),) = read_fst_archive((content,))
        assert isinstance(entry, Lattice)
        lattice = entry
    assert lattice.word.tolist() == [5, 8]
    assert lattice.is_final.tolist() == [False, False, True]


def test_an_fst_with_only_zero_weight_arcs_has_no_arcs() -> None:
    lattice = read_fst_text(b"0 1 5 5 Infinity\n0 2\n1\n", "utt")
    assert (lattice.num_arcs, lattice.is_final[0]) == (0, True)
    with pytest.raises(LatticeError, match="no state is final"):
        read_fst_text(b"0 1 5 5 0.5\n1 Infinity\n", "utt")


def test_a_final_weight_beyond_float32_is_refused() -> None:
    with pytest.raises(
        LatticeError, match=r"key 'utt': state 1 has the final weight 1e\+40, which exceeds the range of float32"
    ):
        read_fst(compile_fst("0 1 5 5\n1 1e40\n0 2\n", "log64").write_to_string(), "utt")


TRANSDUCER = "0 1 1 2 0.5\n1 2 2 1 0.25\n2\n"
ACCEPTOR = "0 1 1 1 0.5\n1 2 2 2 0.25\n1 2 1 2 Infinity\n2\n"  # the arc of weight zero is ignored


def fst_with_symbols(text: str, *, input_symbols: Any = None, output_symbols: Any = None) -> bytes:
    machine = compile_fst(text)
    if input_symbols is not None:
        machine.set_input_symbols(input_symbols)
    if output_symbols is not None:
        machine.set_output_symbols(output_symbols)
    content: bytes = machine.write_to_string()
    return content


IN, OUT = symbols("<eps>", "p_AA", "p_B"), symbols("<eps>", "odd", "even")


@pytest.mark.parametrize(
    ("content", "words", "spelled"),
    [
        (fst_with_symbols(TRANSDUCER, input_symbols=IN), "output", [2, 1]),
        (fst_with_symbols(TRANSDUCER, input_symbols=IN, output_symbols=OUT), "output", ["even", "odd"]),
        (fst_with_symbols(TRANSDUCER, output_symbols=OUT), "output", ["even", "odd"]),
        (fst_with_symbols(ACCEPTOR, input_symbols=IN), "output", ["p_AA", "p_B"]),
        (fst_with_symbols(ACCEPTOR, input_symbols=IN, output_symbols=OUT), "output", ["odd", "even"]),
        (fst_with_symbols(TRANSDUCER, input_symbols=IN), "input", ["p_AA", "p_B"]),
        (fst_with_symbols(TRANSDUCER, input_symbols=IN, output_symbols=OUT), "input", ["p_AA", "p_B"]),
        (fst_with_symbols(TRANSDUCER, output_symbols=OUT), "input", [1, 2]),
        (fst_with_symbols(ACCEPTOR, output_symbols=OUT), "input", ["odd", "even"]),
        (fst_with_symbols(ACCEPTOR), "output", [1, 2]),
    ],
)
def test_words_are_spelled_by_the_symbol_table_of_their_side(content: bytes, words: Any, spelled: list[Any]) -> None:
    lattice = read_fst(content, "utt", None, OpenfstOptions(words))
    ids = lattice.word.tolist()
    assert (ids if lattice.words is None else lattice.words.spell(ids)) == spelled


def test_reading_option_words_selects_input_or_output_labels(tmp_path: Path) -> None:
    path = tmp_path / "a.fst"
    path.write_bytes(fst_with_symbols(TRANSDUCER, input_symbols=IN))
    ((_, lattice),) = ninja.read(str(path), format="openfst:words=input")
    assert lattice.words is not None
    assert lattice.words.spell(lattice.word) == ["p_AA", "p_B"]
    with pytest.raises(OptionError, match="openfst: words=both is not one of output, input"):
        list(ninja.read(str(path), format="openfst:words=both"))
    with pytest.raises(OptionError, match="words is 'both', but must be output or input"):
        OpenfstOptions("both")  # type: ignore[arg-type]


def lattice_with_symbols() -> Lattice:
    costs = [[1.5, 2.0, 0.25], [-10.0, 4.0, 8.0], [np.inf, 0.5, 0.0], [np.inf, 1.0, 3.0]]
    return Lattice.from_arrays("utt", [0, 2, 3, 3], [1, 2, 2], [7, 8, 0], *costs).with_words(WORDS)


@pytest.mark.parametrize("arc_type", ARC_TYPES)
def test_openfst_reads_the_written_symbol_tables(arc_type: Any) -> None:
    content = write_fst(lattice_with_symbols(), arc_type, symbols=WORDS)
    machine = fst.Fst.read_from_string(content)
    assert machine.verify()
    pairs = [(name, number) for number, name in machine.output_symbols()]
    assert pairs == list(WORDS)
    assert [(name, number) for number, name in machine.input_symbols()] == pairs
    assert machine.output_symbols().available_key() == 1_000_001
    reread = read_fst(machine.write_to_string(), "utt")
    assert have_equal_arrays(reread, read_fst(content, "utt"))
    assert reread.words == read_fst(content, "utt").words == WORDS
    assert have_equal_arrays(reread, read_fst(write_fst(lattice_with_symbols(), arc_type), "utt"))


@needs_openfst
def test_fstprint_prints_and_saves_the_symbols(tmp_path: Path) -> None:
    table = SymbolTable([("<eps>", 0), ("hello", 7), ("옷", 8)])
    (tmp_path / "a.fst").write_bytes(write_fst(lattice_with_symbols(), symbols=table))
    command = ["fstprint", "--save_isymbols=in", "--save_osymbols=out", "a.fst"]
    printed = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert printed.splitlines()[0].split() == ["0", "1", "hello", "hello", "-8.5"]
    assert SymbolTable.read(tmp_path / "in") == SymbolTable.read(tmp_path / "out") == table


def test_symbols_true_stores_the_symbol_table_in_the_fst(tmp_path: Path) -> None:
    path, archive = tmp_path / "utt.fst", tmp_path / "a.fsts"
    write_all(str(path), [lattice_with_symbols()], to="openfst:symbols=true")
    ((_, lattice),) = ninja.read(str(path))
    assert lattice.words == WORDS
    with (
        ninja.write(str(tmp_path / "other.fst"), to="openfst:symbols=true") as output,
        pytest.raises(SymbolError, match=r"key 'utt': symbols=true requires a symbol table; set it"),
    ):
        output.write(read_fst(write_fst(lattice_with_symbols()), "utt"))
    with pytest.raises(SymbolError, match="word id 8 is not in the symbol table"):
        write_fst(lattice_with_symbols(), symbols=SymbolTable([("<eps>", 0), ("옷", 7)]))
    with pytest.raises(OptionError, match="fst-ark has no option 'symbols'"):
        ninja.write(str(archive), to="fst-ark:symbols=true")


def test_a_truncated_symbol_table_is_refused() -> None:
    content = write_fst(lattice_with_symbols(), symbols=WORDS)
    for length in range(40, len(content), 3):
        with pytest.raises(FormatError, match=r"key 'utt'"):
            read_fst(content[:length], "utt")
