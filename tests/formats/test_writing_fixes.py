"""An invalid entry affects no other, costs are unambiguous, and losses are reported."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from whole_files import read_entries, read_objects, valid_entries

import ninja
from ninja.errors import FormatError, LatticeError, NinjaError, OptionError, SymbolError
from ninja.files.stream import Stream
from ninja.formats.content import Content
from ninja.formats.format import format_of
from ninja.formats.format import reader as named
from ninja.formats.fst_binary import read_fst, write_fst
from ninja.formats.fst_text import FstTextOptions, FstTextWriteOptions, read_fst_text, write_fst_text
from ninja.formats.nbest.columns import read_columns
from ninja.formats.nbest.ctm import CtmOptions, read_ctm
from ninja.formats.pfsg import read_pfsg, read_pfsgs, write_pfsg
from ninja.formats.plf import PlfWriteOptions, write_plf
from ninja.formats.textual import OneCost
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

WORDS = SymbolTable.from_words(["<eps>", "a", "b"])
SMALL = Lattice.from_arrays("u", [0, 1, 2, 2], [1, 2], [1, 2], [1, 2], [4, 8], [np.inf, np.inf, 0]).with_words(WORDS)

PFSG = """name {} nodes 4 NULL a b NULL
initial 0
final 3
transitions 3
0 1 -10000
1 2 {}
{} 3 0

"""
ROW = json.dumps({"key": "{}", "nbest": [{"text": "a b", "score": -1}]}).replace('"{}"', '"%s"')


def entries(form, content):
    """Return the entries of a file ``u`` in a format."""
    return list(named(form).entries(Content(Stream(io.BytesIO(content), "u"), "u"), None))


def keys(results):
    """Return the keys of lattices, and the messages of errors."""
    return [str(entry) if isinstance(entry, NinjaError) else entry.key for entry in results]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("{", "f:2: not JSON"),
        ('{"key": "v", "nbest": {}}', "f:2, key 'v': expected a list of hypotheses"),
        ('{"key": "v", "nbest": [{"text": "a", "score": "x"}]}', "f:2, key 'v': expected a number"),
        ('{"key": "v", "nbest": [{"text": "a", "score": NaN}]}', "f:2: not JSON: NaN is not a number"),
        ('{"key": "v", "key": "w", "nbest": []}', "f:2: not JSON: an object contains the same field twice"),
        ("[1]", "f:2, key '2': expected an object, found a list of 1 item"),
        (ROW % "u", "f:2, key 'u': the utterance occurs twice"),
        ("\udcff", "f:2: not UTF-8"),
    ],
)
def test_an_invalid_line_of_json_affects_no_other(bad, message):
    content = f"{ROW % 'u'}\n{bad}\n{ROW % 'x'}\n".encode("utf-8", "surrogateescape")
    first, error, last = read_entries(content, "f")
    assert (first.key, last.key) == ("u", "x")
    assert str(error).startswith(message)
    with pytest.raises(FormatError, match=message.replace("[", r"\[")):
        read_objects(content, "f")


def test_an_invalid_entry_of_a_json_document_affects_no_other():
    good = [{"text": "a", "score": -1}]
    from_list = read_entries(json.dumps([{"key": "u", "nbest": good}, 7, {"key": "w", "nbest": good}]).encode(), "f")
    assert keys(from_list) == ["u", "f, key '2': expected an object, found 7", "w"]
    row = json.dumps(good)
    by_key = read_entries(f'{{"u": {row}, "v": [7], "u": {row}, "w": {row}}}'.encode(), "f")
    assert keys(by_key) == [
        "u",
        "f, key 'v': expected a hypothesis, found 7",
        "f, key 'u': the utterance occurs twice",
        "w",
    ]
    duplicate = read_entries(
        f'[{{"key": "u", "nbest": {row}}}, {{"key": "v", "nbest": [{{"a": 1, "a": 2}}]}}]'.encode(), "f"
    )
    assert keys(duplicate) == ["u", "f: not JSON: an object contains the same field twice (object 2)"]


@pytest.mark.parametrize(
    "content", ['{\n  "u": [\n    {"text": "a"}\n    {"text": "b"}\n  ]\n}', "[{}\n{}", "[\n{}\n,", "{\n{\n", "7 7"]
)
def test_a_syntax_error_invalidates_a_whole_document(content):
    with pytest.raises(FormatError, match="not JSON"):
        read_entries(content.encode(), "f")


COLUMNS = "u-0 1 2 | a b\nu-1 1 2 | a\n{}w-0 1 2 | b\n"


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("v-0 1 x | a\n", "f:3, key 'v': expected a score, found 'x'"),
        ("v-0 1 2 | a\nv-1 1 | a\nv-2 1 2 | b\n", "f:4, key 'v': the line has 1 score, but the first line has 2"),
        ("v-0 1 nan | a\nv-1 1 2 | a\n", "f:3, key 'v': expected a score"),
        ("v-0 1 2 | a\nnonsense\nv-1 1 2 | a\n", "f:4, key 'v': expected a key such as utt-1, scores, a bar and words"),
        ("nonsense\n", "f:3: expected a key such as utt-1"),
        ("v-0 1 2 | \udcff\n", "f:3: not UTF-8"),
    ],
)
def test_an_invalid_line_of_columns_invalidates_only_its_utterance(bad, message):
    content = COLUMNS.format(bad).encode("utf-8", "surrogateescape")
    first, error, last = read_columns(content, "f")
    assert (first.key, len(first.hypotheses), last.key, len(last.hypotheses)) == ("u", 2, "w", 1)
    assert str(error).startswith(message)
    with pytest.raises(FormatError):
        valid_entries(read_columns(content, "f"))


def test_the_later_part_of_a_split_utterance_is_an_error():
    content = COLUMNS.format("v-0 1 2 | b\nu-2 1 2 | b\nu-3 1 2 | a\n").encode()
    assert keys(read_columns(content, "f")) == [
        "u",
        "v",
        "f:4, key 'u': the lines of the utterance are not consecutive; sort the file",
        "w",
    ]


CTM = "u 1 0.0 0.5 a\nu 1 0.5 0.5 b\n{}w 1 0.0 0.5 b 0.9\n"


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("v 1 0.0 x a\n", "f:3, key 'v': expected the duration of a word, found 'x'"),
        ("v 1 0.0\nv 1 0.5 0.5 b\n", "f:3, key 'v': expected file, channel"),
        ("v 1 0.0 0.5 a\nv 1 0.5 nan b\n", "f:4, key 'v': expected the duration of a word"),
        ("v 1 0.5 0.5 a\nv 1 0.0 0.5 b\n", "f:4, key 'v': a word begins at 0.0 s, before the word on the line above"),
        ("v 1 0.5 0.5 a\nv 2 0.6 0.5 b\n", "f:4, key 'v': the file has the channels '1' and '2'"),
        ("v 1 0.5 0.5 a\nnonsense\nv 1 0.6 0.5 b\n", "f:4, key 'v': expected file, channel"),
        ("v 1 * * <ALT_BEGIN>\nv 1 0.6 0.5 b\n", "f:3, key 'v': there are alternatives"),
    ],
)
def test_an_invalid_line_of_a_ctm_invalidates_only_its_utterance(bad, message):
    content = CTM.format(bad).encode()
    first, error, last = read_ctm(content, "f")
    assert (first.key, first.hypotheses[0].words) == ("u", ("a", "b"))
    assert (last.key, last.hypotheses[0].words) == ("w", ("b",))
    assert str(error).startswith(message)
    with pytest.raises(FormatError):
        valid_entries(read_ctm(content, "f"))


def test_keys_of_invalid_lines_contain_the_channel():
    content = b"u A 0.0 0.5 a\nu B 0.0 x b\nu B 0.5 0.5 c\nu C 0.0 0.5 d\n"
    results = read_ctm(content, "f", CtmOptions(keys="file-channel"))
    assert [entry.key for entry in results] == ["u-A", "u-B", "u-C"]


@settings(max_examples=40)
@given(st.binary(max_size=12), st.integers(0, 100), st.integers(0, 6))
@pytest.mark.parametrize("form", ["columns", "ctm", "json"])
def test_damage_does_not_affect_other_utterances(form, junk, at, length):
    junk = junk.replace(b"\n", b"").replace(b"\r", b"")
    read = {
        "columns": read_columns,
        "json": read_entries,
        "ctm": read_ctm,
    }[form]
    row = {
        "columns": "{0}-0 1 2 | a\n{0}-1 2 3 | b\n",
        "ctm": "{0} 1 0.0 0.5 a\n{0} 1 0.5 0.5 b\n",
        "json": (ROW % "KEY").replace("{", "{{").replace("}", "}}").replace("KEY", "{0}") + "\n",
    }[form]
    good = {entry.key: entry.hypotheses for entry in read("".join(row.format(key) for key in "uvw").encode())}
    middle = row.format("v").encode()
    at = at % len(middle)
    end = min(at + length, middle.find(b"\n", at))
    damaged = middle[:at] + junk + middle[max(at, end) :]
    results = list(read(row.format("u").encode() + damaged + row.format("w").encode()))
    hypotheses_of = {entry.key: entry.hypotheses for entry in results if not isinstance(entry, NinjaError)}
    failed = {entry.key for entry in results if isinstance(entry, NinjaError)}
    for key in "uw":  # unless the random bytes contain one of the keys
        assert hypotheses_of.get(key) == good[key] or key in failed or key.encode() in junk or key.encode() in damaged
    assert damaged != middle or hypotheses_of == good


def test_an_invalid_lattice_of_a_pfsg_affects_no_other():
    cycle = PFSG.format("v", "-1", "2").replace("transitions 3", "transitions 4").replace("2 3 0", "2 3 0\n2 1 0")
    content = (PFSG.format("u", "-1", "2") + cycle + PFSG.format("w", "-2", "2")).encode()
    first, error, last = read_pfsgs(content, "f")
    assert isinstance(error, LatticeError)
    assert (error.key, error.message[:16]) == ("v", "there is a cycle")
    assert 9 <= error.line <= 17
    assert first.key == "u"
    assert last.identical(read_pfsg(PFSG.format("w", "-2", "2").encode(), "w"))
    table = SymbolTable.from_words(["<eps>", "a", "b"])
    damaged = content.replace(cycle.encode(), PFSG.format("v", "-1", "2").replace(" a ", " c ").encode())
    first, error, last = read_pfsgs(damaged, "f", table)
    assert (first.key, error.key, last.key) == ("u", "v", "w")
    assert isinstance(error, SymbolError)
    lattices = read_pfsgs((PFSG.format("u", "-1", "2") + cycle + cycle + "name x nodes 0\n").encode(), "f")
    assert [next(lattices).key, next(lattices).key, next(lattices).key] == ["u", "v", "v"]
    with pytest.raises(FormatError, match="f:27: the lattice is empty: it has no nodes"):
        next(lattices)


@pytest.mark.parametrize(
    ("form", "content"),
    [
        ("json", f"{ROW % 'u'}\n{{\n{ROW % 'w'}\n"),
        ("columns", COLUMNS.format("v-0 1 x | a\n")),
        ("ctm", CTM.format("v 1 0.0 x a\n")),
        ("pfsg", PFSG.format("u", "-1", "2") + PFSG.format("v", "-1", "1") + PFSG.format("w", "-1", "2")),
    ],
)
def test_reading_continues_after_an_invalid_entry(form, content):
    if form == "pfsg":
        content = content.replace("name v nodes 4 NULL a", "name v nodes 4 NULL \udcff")
    results = entries(form, content.encode("utf-8", "surrogateescape"))
    assert [key for key, result in results if isinstance(result, Lattice)] == ["u", "w"]
    assert sum(isinstance(result, NinjaError) for _, result in results) == 1


WRITERS = {
    "openfst": lambda **costs: read_fst(write_fst(SMALL, **costs), "u"),
    "fst-text": lambda **costs: read_fst_text(
        write_fst_text(SMALL, options=FstTextWriteOptions(acceptor=False, **costs)), "u"
    ),
    "pfsg": lambda **costs: read_pfsg(write_pfsg(SMALL, options=OneCost(**costs)), "u"),
}


@pytest.mark.parametrize("form", WRITERS)
def test_a_single_cost_is_written_unscaled(form):
    write = WRITERS[form]
    assert write(costs="acoustic").graph.tolist() == pytest.approx([4, 8], abs=1e-3)
    assert write(costs="graph").graph.tolist() == pytest.approx([1, 2], abs=1e-3)
    assert write(costs="total", acoustic_scale=0.5).graph.tolist() == pytest.approx([3, 6], abs=1e-3)
    for costs in ("graph", "acoustic"):
        with pytest.raises(OptionError, match=rf"acoustic_scale=0\.5 has no effect with costs={costs}"):
            write(costs=costs, acoustic_scale=0.5)


@pytest.mark.parametrize(
    "to",
    [
        *(
            f"{form}:costs={costs}"
            for form in ("openfst", "fst-text", "fst-ark", "pfsg")
            for costs in ("acoustic", "graph")
        ),
        "fst-ark:text=true,costs=acoustic",
        "plf:scores=acoustic",
        "plf:scores=both",
    ],
)
def test_a_scale_for_a_single_cost_is_refused_before_writing(to, tmp_path):
    with pytest.raises(OptionError, match=r"acoustic_scale=0\.1 has no effect with .*; remove it"):
        ninja.write(tmp_path / "x", to=f"{to},acoustic_scale=0.1")
    with ninja.write(tmp_path / "x", to=to) as output:
        output.write(SMALL)
    assert "unscaled acoustic costs" not in output.lost
    with pytest.raises(OptionError, match="which writes unscaled costs"):
        write_plf(SMALL, options=PlfWriteOptions(scores="acoustic", acoustic_scale=2.0))


def test_names_before_integers_are_refused_without_an_option():
    content = b"0 1 hello 3\n1 2 world 4\n2\n"
    with pytest.raises(
        FormatError, match=r"f:1, key 'u': 'hello' and '3' may be a word and its weight.*acceptor=true"
    ) as error:
        read_fst_text(content, "u", "f")
    assert error.value.line == 1
    with pytest.raises(FormatError, match="f:2, key 'u': 'world'"):
        read_fst_text(b"0 1 7 3\n1 2 world 4\n2\n", "u", "f")
    acceptor = read_fst_text(content, "u", options=FstTextOptions(acceptor=True))
    assert acceptor.words is not None
    assert (acceptor.words.spell(acceptor.word), acceptor.graph.tolist()) == (["hello", "world"], [3, 4])
    assert read_fst_text(content, "u", options=FstTextOptions(acceptor=False)).word.tolist() == [3, 4]
    assert read_fst_text(content, "u", options=FstTextOptions(labels="ids")).word.tolist() == [3, 4]
    assert read_fst_text(b"0 1 5 7\n1 2 6 8\n2\n", "u").word.tolist() == [7, 8]
    results = dict(entries("fst-text:acceptor=true", content))
    assert [result.graph.tolist() for result in results.values()] == [[3, 4]]


@pytest.mark.parametrize("to", ["plf", "k2:extras=false"])
def test_the_key_is_reported_as_lost_in_formats_without_keys(to, tmp_path):
    with ninja.write(tmp_path / "x", to=to) as output:
        output.write(SMALL.with_key("1"))
    assert output.lost["key"] == 1
    with pytest.raises(LatticeError, match="key"), ninja.write(tmp_path / "y", to=to, lossy="refuse") as output:
        output.write(SMALL.with_key("1"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("d/x.COLUMNS.gz", "columns files cannot be written"),
        ("x.scp", "use ark,scp:FILE.ark,FILE.scp"),
        ("x.columns", "columns files cannot be written"),
        ("x.stm", "STM cannot be written"),
        ("x.TextGrid", "TextGrid cannot be written"),
        ("x.trn", "trn cannot be written"),
    ],
)
def test_names_of_formats_that_cannot_be_written_are_refused(name, message):
    with pytest.raises(OptionError, match=message):
        format_of(name)
    assert format_of(name, "slf").format.name == "slf"


def test_other_names_keep_their_formats():
    assert [format_of(name).format.name for name in ("x", "x.lattice", "x.tsv", "ark,scp:a.ark,a.scp")] == [
        "binary",
        "binary",
        "nemo",
        "binary",
    ]


@pytest.mark.parametrize("to", ["slf", "sphinx", "pfsg", "plf"])
def test_a_lattice_without_a_path_is_refused_by_text_formats(to, tmp_path):
    dead_end = Lattice.from_arrays("u", [0, 1, 1, 2, 2], [1, 3], [1, 2], [1, 2], [4, 8], [np.inf] * 3 + [0])
    with ninja.write(str(tmp_path / "x.lat"), to=to, words=WORDS) as output:
        with pytest.raises(LatticeError, match=r"^key 'u': no path leads from the start to a final state"):
            output.write(dead_end)
        output.write(SMALL)
