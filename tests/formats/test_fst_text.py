"""OpenFst's text and const files, compared with OpenFst's tools and Python library."""

from __future__ import annotations

import random
import subprocess
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_fst_text import read_slowly
from reference_k2 import equals_with_total_costs
from reference_openfst import ways
from strategies import lattices
from strategies_text import needs_openfst

import ninja as package
from ninja.errors import FormatError, LatticeError, NinjaError, OptionError, SymbolError
from ninja.formats.format import HEAD
from ninja.formats.fst_binary import read_fst, write_fst
from ninja.formats.fst_text import FstTextOptions, FstTextWriteOptions, read_fst_text, write_fst_text
from ninja.graph import from_arcs
from ninja.lattice import Lattice, check
from ninja.lattice.symbols import SymbolTable

WORDS = SymbolTable([("<eps>", 0), ("one", 1), ("two", 2), ("three", 3), ("four", 4), ("five", 5)])
ARC_TYPES = ("standard", "log", "log64")


def tool(*arguments: object) -> str:
    return subprocess.run([str(argument) for argument in arguments], check=True, capture_output=True, text=True).stdout


@given(lattices(connected=False), st.booleans(), st.sampled_from(["ids", "words"]))
def test_fst_text_is_unchanged_after_write_and_read(lattice: Lattice, acceptor: bool, labels: Any) -> None:
    lattice = lattice.with_words(WORDS)
    content = write_fst_text(lattice, options=FstTextWriteOptions(labels=labels, acceptor=acceptor))
    if lattice.num_arcs:
        options = FstTextOptions(acceptor=acceptor, labels=labels)
        assert equals_with_total_costs(lattice, read_fst_text(content, lattice.key, words=WORDS, options=options))
    result = read_fst_text(content, lattice.key, words=WORDS if labels == "words" else None)
    if any(len(line.split()) in (3, 5) for line in content.splitlines()):  # otherwise a number is a label or a weight
        assert equals_with_total_costs(lattice, result)


def test_states_and_weights_are_read_as_in_openfst() -> None:
    lattice = read_fst_text(b"3 1 7 1 0.5\n3 2 8 2\n1\t2 9  3 1e1\r\n\n2 0.25\n1\n", "utt")
    assert lattice.num_states == 3
    assert {(way.words, way.graph) for way in ways(lattice)} == {((1,), 0.5), ((1, 3), 10.75), ((2,), 0.25)}


def test_columns_distinguish_an_acceptor_from_a_transducer() -> None:
    assert read_fst_text(b"0 1 4 0.5\n1\n", "utt").word.tolist() == [4]
    assert read_fst_text(b"0 1 4 5\n1\n", "utt").word.tolist() == [5]
    assert read_fst_text(b"0 1 4 5\n1\n", "utt", options=FstTextOptions(acceptor=True)).graph.tolist() == [5]
    assert read_fst_text(b"0 1 4\n1 2 4 5\n2\n", "utt").graph.tolist() == [0, 5]
    assert read_fst_text(b"0 1 one two\n1\n", "utt", words=WORDS).word.tolist() == [2]
    assert read_fst_text(b"0 1 one 2.5\n1\n", "utt", words=WORDS).graph.tolist() == [2.5]


@pytest.mark.parametrize("words", [("1.5", "-3"), ("7", "Infinity"), ("inf", "1e3")])
def test_words_like_weights_are_unchanged_after_write_and_read(words: tuple[str, str]) -> None:
    lattice = from_arcs("utt", [0, 1], [1, 2], [1, 2], [0.0, 0.0], finals={2: 0.0})
    content = write_fst_text(lattice, SymbolTable.from_words(["<eps>", *words]), FstTextWriteOptions(labels="words"))
    result = read_fst_text(content, "utt", options=FstTextOptions(labels="words"))
    assert (result.words.spell(result.word), result.graph.tolist()) == ([*words], [0, 0])


@pytest.mark.parametrize("cost", [0.0, 0.5, np.inf])
def test_a_first_state_without_arcs_is_unchanged_after_write_and_read(tmp_path: Path, cost: float) -> None:
    lattice = Lattice.from_arrays("x", [0, 0, 1, 1], [2], [5], [1.0], [0.0], [cost, np.inf, 0.25])
    (tmp_path / "x.att").write_bytes(write_fst_text(lattice))
    [(_, result)] = package.read(tmp_path / "x.att")
    assert (result.graph.tolist(), result.final_graph.tolist()) == ([1.0], lattice.final_graph.tolist())


def test_words_without_a_table_get_a_new_table() -> None:
    lattice = read_fst_text("0 1 yes yes 1\n1 2 <eps> <eps>\n2 3 né né\n3\n".encode(), "utt")
    assert lattice.words is not None
    assert lattice.words.spell(lattice.word) == ["yes", "né"]
    assert lattice.word[1] == 0


@needs_openfst
@settings(max_examples=15)
@given(lattice=lattices(), arc_type=st.sampled_from(ARC_TYPES))
def test_openfst_tools_print_and_verify_written_files(
    lattice: Lattice, arc_type: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("fst")
    binary, text, compiled, words = folder / "a.fst", folder / "a.txt", folder / "b.fst", folder / "words.txt"
    words.write_text("".join(f"{word} {number}\n" for word, number in WORDS))
    binary.write_bytes(write_fst(lattice, arc_type))
    text.write_bytes(write_fst_text(lattice.with_words(WORDS), options=FstTextWriteOptions(labels="words")))
    tool("fstcompile", "--keep_state_numbering", f"--arc_type={arc_type}", f"--isymbols={words}",
         f"--osymbols={words}", text, compiled)  # fmt: skip
    tool("fstequal", "--delta=0.0001", binary, compiled)
    information = tool("fstinfo", binary)
    assert f"# of states                                       {lattice.num_states}\n" in information
    assert f"# of arcs                                         {lattice.num_arcs}\n" in information
    fstprint_output = tool("fstprint", binary)
    back = read_fst_text(fstprint_output.encode(), lattice.key)
    assert sorted(way.words for way in ways(back)) == sorted(way.words for way in ways(lattice))
    assert sorted(way.graph for way in ways(back)) == pytest.approx(sorted(way.total() for way in ways(lattice)), 1e-4)


@needs_openfst
@settings(max_examples=12)
@given(
    lattice=lattices(connected=False),
    arc_type=st.sampled_from(ARC_TYPES),
    align=st.sampled_from(["--fst_align=false", "--fst_align=true"]),
)
def test_const_files_of_openfst_tools_are_read(
    lattice: Lattice, arc_type: Any, align: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("fst")
    (folder / "a.fst").write_bytes(write_fst(lattice, arc_type))
    tool("fstconvert", "--fst_type=const", align, folder / "a.fst", folder / "b.fst")
    assert equals_with_total_costs(lattice, read_fst((folder / "b.fst").read_bytes(), lattice.key))


def const(lattice: Lattice, arc_type: Any = "standard") -> bytes:
    fst = pytest.importorskip("pywrapfst")
    return fst.convert(fst.VectorFst.read_from_string(write_fst(lattice, arc_type)), "const").write_to_string()


@given(lattices(connected=False), st.sampled_from(ARC_TYPES))
def test_const_files_of_pywrapfst_are_read(lattice: Lattice, arc_type: Any) -> None:
    assert equals_with_total_costs(lattice, read_fst(const(lattice, arc_type), lattice.key))


def chain() -> Lattice:
    return Lattice.from_arrays("utt", [0, 1, 2, 2], [1, 2], [1, 2], [1, 2], [0, 0], [np.inf, np.inf, 0])


def test_damaged_const_files_are_refused_with_the_byte() -> None:
    content = const(chain())  # the header has 65 bytes, each state 20 and each arc 16
    cases = [
        (content[:-1], "2 arcs, but 31 bytes are left"),
        (content[:90], "the header declares 3 states, but 25 bytes are left"),
        (content[:69] + b"\7" + content[70:], "byte 65, key 'utt': state 0 declares the arcs 7 to 8 of 2"),
        (content[:73] + b"\7" + content[74:], "byte 65, key 'utt': state 0 declares the arcs 0 to 7 of 2"),
        (content[:57] + b"\3" + content[58:], "the header declares 3 arcs, but the states have 2"),
        (
            content[:125] + b"\7" * 12 + b"\7\0\0\0" + content[141:],
            "byte 125, key 'utt': arc 0 of state 0 enters state 7 of 3",
        ),
        (content + b"x", "1 byte follows the end of the FST; copy the file again"),
    ]
    for damaged, message in cases:
        with pytest.raises(FormatError, match=message):
            read_fst(damaged, "utt")


NUMBERS = ["0.5", ".5", "5.", "-1.25", "+3", "1e3", "2E-4", "1e12345", "1e400", "1e-400", "-1e999", "inf", "-Infinity"]
NUMBERS += ["Inf", "INF", "nan", "0x1", ".", "-", "e5", "1e", "1e+", "1_0", "123456789012345678901234.5", "\0", "0\0"]
NAMES = [
    *"0123",
    "7",
    "007",
    "12",
    "2147483647",
    "2147483648",
    "99999999999",
    "one",
    "two",
    "<eps>",
    "six",
    "né",
    "\xff",
]
FIELDS = st.sampled_from([*NUMBERS, *NAMES])
BLANKS = st.sampled_from([" ", "\t", "  ", " \t", "\r", "\v", "\f "])


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """Draw text lines, mostly with small states and valid labels and weights."""
    acceptor = draw(st.booleans())
    lines = []
    for _ in range(draw(st.integers(0, 6))):
        src, dst = draw(st.integers(0, 4)), draw(st.integers(1, 5))
        label = draw(st.sampled_from(["1", "2", "5", "one", "two", "<eps>"]))
        fields = [str(src), str(max(src + 1, dst) if draw(st.integers(0, 5)) else dst)]
        fields += [label] if acceptor else [label, label]
        fields += draw(st.sampled_from([[], ["0.5"], ["-2"], ["1e1"]]))
        kind = draw(st.integers(0, 9))
        if kind < 3:
            fields = [str(dst), *draw(st.sampled_from([[], ["1.5"], ["Infinity"]]))]
        elif kind == 3:
            fields[draw(st.integers(0, len(fields) - 1))] = draw(FIELDS)
        elif kind == 4:
            fields.append(draw(FIELDS))
        lines.append("".join(field + draw(BLANKS) for field in fields))
    lines += [*draw(st.sampled_from([[], [""], ["1 Infinity", "2", "3", "4 inf"]])), "5"]
    end = draw(st.sampled_from([b"\n", b"\n", b"\n", b"\n \t", b""]))
    return "\n".join(lines).encode("latin-1" if draw(st.booleans()) else "utf-8") + end


def outcome(read: Any) -> tuple[object, ...]:
    try:
        lattice = read()
    except NinjaError as error:
        return type(error), str(error)
    return *(getattr(lattice, field.name) for field in fields(lattice) if field.name != "words"), list(
        lattice.words or ()
    )


def assert_readers_agree(content: bytes, words: Any, options: FstTextOptions) -> None:
    """Check that the reader returns the same lattice, or the same error, as the slow reader."""
    fast = outcome(lambda: read_fst_text(content, "utt", "x.txt", words, options, line=3))
    slow = outcome(lambda: read_slowly(content, "utt", "x.txt", words, options, line=3))
    for fast_value, slow_value in zip(fast, slow, strict=True):
        assert np.array_equal(fast_value, slow_value) if type(slow_value) is np.ndarray else fast_value == slow_value


@settings(max_examples=40)
@given(
    texts(),
    st.sampled_from([None, WORDS]),
    st.sampled_from([None, True, False]),
    st.sampled_from(["auto", "ids", "words"]),
    st.sampled_from(["utf-8", "latin-1"]),
)
def test_the_fast_reader_agrees_with_the_slow_reader(
    content: bytes, words: Any, acceptor: Any, labels: Any, encoding: str
) -> None:
    assert_readers_agree(content, words, FstTextOptions(acceptor, labels, encoding))


@given(lattices(connected=False), st.booleans(), st.randoms(use_true_random=False), st.integers(0, 10**9))
def test_states_can_have_any_numbers_and_arcs_any_order(
    lattice: Lattice, acceptor: bool, rng: random.Random, first_name: int
) -> None:
    lines = write_fst_text(lattice, options=FstTextWriteOptions(acceptor=acceptor)).decode().splitlines()
    name = [
        str(number) for number in rng.sample(range(first_name, first_name + 3 * lattice.num_states), lattice.num_states)
    ]
    first, other_lines = lines[0], lines[1:]
    rng.shuffle(other_lines)
    renamed_lines = []
    for line in [first, *other_lines]:
        fields = line.split("\t")
        ends = 2 if len(fields) > 2 else 1
        renamed_lines.append("\t".join([*(name[int(state)] for state in fields[:ends]), *fields[ends:]]))
    content = "".join(line + "\n" for line in renamed_lines).encode()
    assert_readers_agree(content, None, FstTextOptions(acceptor=acceptor, labels="ids"))


WRONG: list[tuple[bytes, type[NinjaError], str]] = [
    (b"", LatticeError, "x.txt, key 'utt': the FST is empty"),
    (b"0 1 2 3 4 5\n", FormatError, "x.txt:1, key 'utt': the line has 6 fields, but no arc"),
    (
        b"0 1 2 3 0.5\n0 1 2\n",
        FormatError,
        "x.txt:2, key 'utt': the line has 3 fields, but no arc or final state of a transducer has",
    ),
    (b"0 1 2\n0 1 2 3 0.5\n", FormatError, "x.txt:1, key 'utt': the line has 3 fields"),
    (b"0 x 2 3 0.5\n", FormatError, "x.txt:1, key 'utt': 'x' is not a state"),
    (b"0 99999999999 2 3 0.5\n", FormatError, "'99999999999' is not a state"),
    (b"0 4000000000 2 3 0.5\n", FormatError, "'4000000000' is not a state"),
    (b"0 1 2 3 0,5\n", FormatError, "'0,5' is not a weight"),
    (b"0 1 2 3 1e400\n1\n", FormatError, "'1e400' is not a weight"),
    (b"0 1 2 3 1\n1 -1e400\n", FormatError, "'-1e400' is not a weight"),
    (b"0 1 2 3 1\n1 1e40\n", LatticeError, "state 1 has the final weight 1e.40, which exceeds the range of float32"),
    (b"0 1 2 3 1\n1 -Infinity\n", LatticeError, "state 1 has the final weight -inf"),
    (b"0 1 2 3 -Infinity\n1\n", LatticeError, "arc 0 of state 0 has the weight -inf"),
    (b"0 1 2 3 1e12345\n", FormatError, "'1e12345' is not a weight"),
    (b"0 1 2 3 1e\n", FormatError, "'1e' is not a weight"),
    (b"0 1 2 3 nan\n", FormatError, "'nan' is not a weight"),
    (b"0 1 2 3 1e40\n1\n", LatticeError, "arc 0 has the graph cost inf"),
    (b"0 1 2 5000000000 1\n1\n", FormatError, "'5000000000' is not a label"),
    (b"0 1 2 3 1\n1 0 2 3 1\n1\n", LatticeError, "lies on a cycle"),
    (b"0 1 2 3 1\n1 Infinity\n", LatticeError, "no state is final"),
    (
        b"0 1 2 3 1\n0 02 2 3 1\n1\n",
        FormatError,
        "x.txt:2, key 'utt': state 02 has no line; add 'STATE Infinity' for a dead end, or copy a truncated file",
    ),
    (b"0 1 2 3 1\n1 2", FormatError, "x.txt:2, key 'utt': the last line has no newline, so the file may be truncated"),
    (b"0 1 a \xff 1\n1\n", FormatError, r"x.txt:1, key 'utt': not UTF-8"),
]


@pytest.mark.parametrize(("content", "kind", "message"), WRONG)
def test_invalid_fst_text_raises_the_expected_error(content: bytes, kind: type[NinjaError], message: str) -> None:
    with pytest.raises(kind, match=message):
        read_fst_text(content, "utt", "x.txt")


def test_unknown_words_and_invalid_options_are_refused() -> None:
    with pytest.raises(SymbolError, match=r"x.txt:2, key 'utt': word 'six' is not in the symbol table"):
        read_fst_text(b"0 1 one one 1\n1 2 six six 1\n2\n", "utt", "x.txt", WORDS)
    with pytest.raises(SymbolError, match=r"x.txt:1, key 'utt': word id 6 is not in the symbol table"):
        read_fst_text(b"0 1 6 6 1\n1\n", "utt", "x.txt", WORDS)
    with pytest.raises(OptionError, match="labels is 'both'"):
        FstTextOptions(labels="both")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="labels is 'both'"):
        write_fst_text(chain(), options=FstTextWriteOptions(labels="both"))  # type: ignore[arg-type]
    with pytest.raises(SymbolError, match="the lattice contains only word ids"):
        write_fst_text(chain(), options=FstTextWriteOptions(labels="words"))
    with pytest.raises(SymbolError, match="cannot be written without quotes"):
        write_fst_text(
            chain(), SymbolTable.from_words(["<eps>", "a b", "c"]), options=FstTextWriteOptions(labels="words")
        )


@settings(max_examples=40)
@given(lattices(max_states=5), st.booleans(), st.randoms(use_true_random=False))
def test_damaged_files_raise_ninja_error_or_give_a_valid_lattice(
    lattice: Lattice, text: bool, rng: random.Random
) -> None:
    content = bytearray(write_fst_text(lattice) if text else const(lattice, rng.choice(ARC_TYPES)))
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(content) or 1)
        if rng.randrange(3):
            content[at : at + 1] = bytes([rng.choice([*b"0 9\n\t-.ei", 0, 127, 128, 255])])
        else:
            del content[at : at + rng.randrange(1, 9)]
    with suppress(NinjaError):
        check(read_fst_text(bytes(content), "utt") if text else read_fst(bytes(content), "utt"))


def test_a_large_state_number_allocates_no_memory() -> None:
    assert read_fst_text(b"2147483647 2147483646 1 1 1\n2147483646\n", "utt").num_states == 2


def test_a_first_line_longer_than_the_head_is_refused(tmp_path: Path) -> None:
    (tmp_path / "long").write_text("0 1 " + HEAD * "a")
    with pytest.raises(NinjaError):
        list(package.read(tmp_path))
