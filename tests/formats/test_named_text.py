"""Kaldi's text with word names, or with keys of several words, is read like the same text with ids by Kaldi."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kaldi_tables import parse, write_tables
from strategies import lattices
from strategies_text import FILES, needs_files, read_unpacked

from ninja import read
from ninja.errors import FormatError, LatticeError, NinjaError, OptionError, SymbolError
from ninja.formats.kaldi.named_text import NamedTextOptions, read_named_text
from ninja.formats.nbest.kaldi import read_linear_lists
from ninja.formats.slf import SlfOptions, read_slf
from ninja.lattice import Lattice, check
from ninja.lattice.symbols import SymbolTable

# A compact and a raw lattice with a number as a word, an omitted weight and unsorted states.
COMPACT = b"utt-1\n0 1 the 0.5,-1.25,3_4\n0 1 <eps>\n1 2 12 1,2,\n2 0.25,0,7\n\n"
RAW = b"utt-2\n0 2 9 cat 0.5,1\n0 2 0 <eps>\n2 1 8 the 1,2\n1 0.25,0\n\n"
TABLE = SymbolTable([("<eps>", 0), ("the", 4), ("cat", 2), ("12", 9), ("a", 1), ("b", 5)])
ORDINARY = st.text("abcXYZ가é019-_'.(){}#", min_size=1, max_size=5).filter(lambda name: name != "<eps>")


def read_entries(content, table=None, **options):
    return list(read_named_text(content, "t", table, NamedTextOptions(**options)))


def with_names(text, names):
    """Replace ids with names, as ``int2sym.pl -f 3`` does, or ``-f 4`` if arcs have two labels."""
    rows, begins = [], True
    for row in text.decode().split("\n"):
        fields = row.split()
        if not begins and len(fields) >= 3:
            column = 3 if len(fields) == 5 or (len(fields) == 4 and "," not in fields[3]) else 2
            fields[column] = names[int(fields[column])]
        begins = not fields
        rows.append(" ".join(fields))
    return "\n".join(rows).encode()


def test_a_compact_and_a_raw_lattice_are_read():
    (first_key, first), (second_key, second) = read_entries(COMPACT + RAW)
    assert (first_key, second_key, first.key, second.key) == ("utt-1", "utt-2", "utt-1", "utt-2")
    assert (first.kind, second.kind) == ("compact", "raw")
    assert first.words is second.words
    assert dict(first.words) == {"<eps>": 0, "the": 1, "12": 2, "cat": 3}
    assert first.src.tolist() == [0, 0, 1]
    assert [first.words.word(word) for word in first.word.tolist()] == ["the", "<eps>", "12"]
    assert first.graph.tolist() == [0.5, 0.0, 1.0]
    assert first.acoustic.tolist() == [-1.25, 0.0, 2.0]
    assert first.ali.tolist() == [3, 4]
    assert first.final_ali.tolist() == [7]
    assert second.dst.tolist() == [1, 1, 2]  # states 1 and 2 are exchanged
    assert [second.words.word(word) for word in second.word.tolist()] == ["cat", "<eps>", "the"]
    assert second.ali.tolist() == [9, 8]


@given(lattices(max_word=4), st.lists(ORDINARY, min_size=4, max_size=4, unique=True))
def test_names_agree_with_ids_read_by_the_kaldi_reader(lattice, names):
    table = SymbolTable(zip(["<eps>", *names], range(5), strict=True))
    ids = write_tables(lattice, text=True)
    (kaldi,) = parse(ids)  # its costs are also rounded to six digits
    ((plain_key, plain),) = read_entries(ids, words="ids")
    ((named_key, with_table),) = read_entries(with_names(ids, ["<eps>", *names]), table, words="names")
    assert kaldi.key == plain_key == named_key == lattice.key
    assert plain.identical(kaldi)
    assert with_table.identical(kaldi)
    assert with_table.words is table
    ((_, with_own_table),) = read_entries(with_names(ids, ["<eps>", *names]), words="names")
    assert with_own_table.words.spell(with_own_table.word) == table.spell(lattice.word)
    np.testing.assert_array_equal(with_own_table.dst, lattice.dst)


@pytest.mark.parametrize(
    ("content", "are_names"),
    [
        (b"k\n0 1 a 1,2,\n1\n\n", True),
        (b"k\n0 1 5 1,2,\n1 2 <eps> 1,2,\n2\n\n", True),
        (b"k\n0 1 5 1,2,\n1 2 x 1,2,\n1 2 y 1,2,\n2\n\n", True),
        (b"k\n0 1 5 1,2,\n1 2 6 1,2,\n2\n\n", False),
        (b"k k\n0 1 5 1,2,\n1\n\n", False),
        (b"k\n0 1 5 1,2,\n1 2 x 1,2,\n2\n\n", False),
    ],
)
def test_words_are_detected_as_names_or_ids(content, are_names):
    ((_, lattice),) = read_entries(content)
    assert (isinstance(lattice, Lattice) and lattice.words is not None) is are_names
    assert (read_entries(content, words="names")[0][1].words is not None) is True


def test_a_name_among_ids_is_an_error():
    content = b"k\n0 1 5 1,2,\n1 2 6 1,2,\n2\n\nl\n0 1 7x 1,2,\n1\n\nm\n0 1 8\n1\n\n"
    (_, first), (_, bad), (_, last) = read_entries(content)
    assert (first.word.tolist(), last.word.tolist(), first.words) == ([5, 6], [8], None)
    assert str(bad) == (
        "t:7, key 'l': expected 'state next word graph,acoustic,labels' or 'state graph,acoustic,labels' "
        "with words that are integers, found '0 1 7x 1,2,'"
    )


def test_keys_of_several_words_are_kept_shortened_or_joined():
    content = b" utterance  123 \n0 1 a 1,2,\n1\n\n"
    assert [read_entries(content, keys=mode)[0][0] for mode in ("line", "first", "join")] == [
        "utterance  123",
        "utterance",
        "utterance_123",
    ]


def test_a_key_can_contain_any_bytes_and_occur_twice():
    (first_key, first), (second_key, second) = read_entries(b"\xff1\n0 1 a\n1\n\n\xff1\n0 1 b\n1\n\n")
    assert first_key == second_key == first.key == second.key == "\udcff1"
    assert first.words.spell(first.word) == ["a"]
    assert second.words.spell(second.word) == ["b"]


def test_a_word_missing_in_the_table_affects_only_its_lattice():
    content = COMPACT + b"bad\n0 1 the 1,2,\n1 2 dog 1,2,\n2\n\n" + RAW
    (_, first), (_, bad), (_, second) = read_entries(content, TABLE)
    assert (first.word.tolist(), second.word.tolist(), first.words) == ([4, 0, 9], [2, 0, 4], TABLE)
    assert isinstance(bad, SymbolError)
    assert str(bad) == "t:9, key 'bad': word 'dog' is not in the symbol table; check that it is the right table"


def test_the_wrong_table_is_refused():
    ((_, error),) = read_entries(b"k\n0 1 x 1,2,\n1\n\n", TABLE)
    assert str(error) == "t:2, key 'k': word 'x' is not in the symbol table; check that it is the right table"
    ((_, error),) = read_entries(b"k\n0 1 77 1,2,\n1\n\n", TABLE)
    assert str(error) == "t:1, key 'k': word id 77 is not in the symbol table; check that it is the right table"


def test_a_table_is_attached_to_lattices_of_ids():
    ((_, lattice),) = read_entries(b"a key\n0 1 9 1,2,\n1\n\n", TABLE)
    assert (lattice.word.tolist(), lattice.words) == ([9], TABLE)


def test_the_encoding_option_sets_the_encoding():
    content = "Jürg\n0 1 Straße 1,2,\n1\n\nk\n0 1 a\n1\n\n".encode("latin-1")
    (key, first), _ = read_entries(content, encoding="latin-1")
    assert (key, first.words.spell(first.word)) == ("Jürg", ["Straße"])
    (_, error), (_, valid) = read_entries(content)
    assert isinstance(valid, Lattice)
    assert str(error) == (
        "t:2, key 'J\\udcfcrg': not UTF-8 (invalid continuation byte); "
        "specify the encoding or convert the file with iconv"
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b"0 1 hello world 1,2,", "with words that are names, found '0 1 hello world 1,2,'"),
        (b"0 1 hello 1,2,x", "with words that are names, found '0 1 hello 1,2,x'"),
        (b"0 1 5 1.5", "with words that are names, found '0 1 5 1.5'"),  # the weight of an FST
        (b"0 1 5 hello 1.5", "with words that are names, found '0 1 5 hello 1.5'"),
        (b"0 one hello 1,2,", "found '0 one hello 1,2,'"),
        (b"0 1 2 hello 1,2 more", "found '0 1 2 hello 1,2 more'"),
        (b"zero 1 a 1,2,", "found 'zero 1 a 1,2,'"),
    ],
)
def test_an_invalid_line_is_quoted_in_the_error(row, message):
    content = COMPACT + b"bad\n0 1 a 1,2,\n" + row + b"\n1\n\n" + COMPACT
    (_, before), (key, error), (_, after) = read_entries(content)
    assert key == "bad"
    assert isinstance(error, FormatError)
    assert (error.line, error.path, error.key) == (9, "t", "bad")
    assert message in str(error)
    assert before.num_arcs == after.num_arcs == 3


def test_the_first_of_two_errors_is_reported():
    rows = [b"0 1 dog 1,2,", b"0 1 the 1,x,"]
    for first, second, line, kind in ((*rows, 2, SymbolError), (*reversed(rows), 2, FormatError)):
        ((_, error),) = read_entries(b"k\n" + first + b"\n" + second + b"\n1\n\n", TABLE, words="names")
        assert (type(error), error.line) == (kind, line)


def test_the_weight_of_an_fst_is_not_read_as_a_word():
    (_, error), _ = read_entries(b"k\n0 1 5 1.5\n1\n\n" + COMPACT)
    assert "t:2, key 'k': expected 'state next word" in str(error)


def test_epsilon_needs_no_entry_in_a_table():
    ((_, lattice),) = read_entries(b"k\n0 1 <eps> 1,2,\n1\n\n", SymbolTable([("the", 4)]))
    assert lattice.word.tolist() == [0]


@pytest.mark.parametrize("blank", [b"", b" \t", b"\r", b"\f", b"\v \r"])
@pytest.mark.parametrize("word", [b"a", b"5"])
def test_lines_of_whitespace_end_a_lattice(blank, word):
    entries = read_entries(b"k\n0 1 %b 1,2,\n1\n%b\n%b\nl\n0 1 %b 1,2,\n1\n%b\n" % (word, blank, blank, word, blank))
    assert [(key, lattice.num_arcs) for key, lattice in entries] == [("k", 1), ("l", 1)]


def test_an_empty_line_within_a_lattice_is_detected_by_the_next_line():
    content = b"k\n0 1 a 1,2,\n0 1 b\n1 0,0,\n\n1 2 c 1,2,\n2\n\n" + COMPACT
    (_, cut), (_, error), (_, valid) = read_entries(content)
    assert isinstance(cut, Lattice)
    assert "t:6" in str(error)
    assert "expected a key, found '1 2 c 1,2,'; if it continues a lattice, remove the empty line above" in str(error)
    assert isinstance(valid, Lattice)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"k\n0 1 a 1,2,\n1 0 b 1,2,\n1\n\n", "state 0 lies on a cycle"),
        (b"k\n0 1 a 1,2,\n\n", "no state is final"),
        (b"k\n\n", "the lattice is empty"),
        (b"k\n0 1 a nan,2,\n1\n\n", "nan"),
        (b"k\n0 99999999 a 1,2,\n1\n\n", "number the states from 0"),
    ],
)
def test_malformed_lattices_are_refused_with_their_key(content, message):
    (_, error), (_, valid) = read_entries(content + COMPACT)
    assert isinstance(error, NinjaError)
    assert error.key == "k"
    assert message in str(error)
    assert isinstance(valid, Lattice)


@pytest.mark.parametrize("content", [COMPACT, RAW, b"u v\n0 1 5 1,2,\n0 2 6 1,2,\n1 1,2,\n2 1,2,\n\n"])
def test_a_truncated_file_is_refused_or_equivalent(content):
    ((_, whole),) = read_entries(content, words="names")
    for cut in range(1, len(content) - 1):
        entries = read_entries(content[:cut], words="names")
        if len(entries) == 1 and isinstance(entries[0][1], Lattice):
            assert entries[0][1].identical(whole)
            assert cut == len(content) - 1  # only the empty line is missing
    ((_, lattice),) = read_entries(content[:-1], words="names")
    assert lattice.identical(whole)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"words": "both"}, "words is 'both', but must be auto, names or ids"),
        ({"keys": "all"}, "keys is 'all', but must be line, first or join"),
        ({"encoding": "none"}, "unknown encoding 'none'"),
    ],
)
def test_invalid_options_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        NamedTextOptions(**options)


@given(st.data())
def test_a_damaged_archive_gives_valid_lattices_or_ninja_errors(data):
    content = bytearray(COMPACT + RAW + COMPACT)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    mode = data.draw(st.sampled_from(["auto", "names", "ids"]))
    for key, entry in read_entries(bytes(content), words=mode):
        if isinstance(entry, Lattice):
            check(entry)
        else:
            assert isinstance(entry, NinjaError)
        assert entry.key == key


@needs_files
def test_the_theanolm_lattice_agrees_with_its_slf_file(tmp_path):
    content = read_unpacked("theanolm/lattice.lat")
    ((key, lattice),) = read_entries(content)
    slf = read_slf(read_unpacked("theanolm/lattice.slf"), "utterance 123", options=SlfOptions(fold="silent"))
    assert key == slf.key == lattice.key
    for name in ("arc_begin", "dst", "graph", "acoustic", "final_graph", "final_acoustic"):
        np.testing.assert_array_equal(getattr(lattice, name), getattr(slf, name), name)
    pairs = set(zip(lattice.word.tolist(), slf.word.tolist(), strict=True))
    assert (0, 0) in pairs
    assert len(pairs) == len({word for word, _ in pairs}) == len({slf_word for _, slf_word in pairs})
    (tmp_path / "lat.txt").write_bytes(content.replace(b"utterance 123", b"key ") + b"\n")  # the layout of Kaldi
    ((_, kaldi),) = read(f"ark,t:{tmp_path / 'lat.txt'}")
    assert lattice.with_key("key").identical(kaldi)


@needs_files
def test_a_truncated_theanolm_file_is_refused():
    content = read_unpacked("theanolm/lattice.lat")
    for cut in range(20, len(content), 7):
        ((_, error),) = read_entries(content[:cut])
        assert isinstance(error, NinjaError), cut


@needs_files
def test_real_lattices_have_the_words_and_costs_of_their_lines():
    content = gzip.decompress((FILES / "nbest_kaldi_librispeech" / "nbest.txt.gz").read_bytes())
    entries = read_entries(content)
    blocks = content.decode().removesuffix("\n\n").split("\n\n")
    assert len(entries) == len(blocks) == 1355
    for (key, lattice), block in zip(entries, blocks, strict=True):
        first, *rows = (row.split() for row in block.split("\n"))
        arcs = [row for row in rows if len(row) > 2]
        costs = [row[3].split(",")[:2] if len(row) > 3 else ("0", "0") for row in arcs]
        assert [key] == first
        assert [lattice.words.word(word) for word in lattice.word.tolist()] == [row[2] for row in arcs]
        np.testing.assert_array_equal(lattice.graph, np.array([graph for graph, _ in costs], np.float32))
        np.testing.assert_array_equal(lattice.acoustic, np.array([acoustic for _, acoustic in costs], np.float32))


@needs_files
def test_linear_lists_of_names_and_ids_are_equal():
    content = gzip.decompress((FILES / "nbest_kaldi_librispeech" / "nbest.txt.gz").read_bytes())
    lists_of_names = read_linear_lists(content, "t")
    entries = read_entries(content)
    words = entries[0][1].words
    lists_of_ids = read_linear_lists(write_tables(*(lattice for _, lattice in entries), text=True), "t")
    assert [entry.key for entry in lists_of_names] == [entry.key for entry in lists_of_ids]
    for named_list, numbered_list in zip(lists_of_names, lists_of_ids, strict=True):
        assert [hypothesis.words for hypothesis in named_list.hypotheses] == [
            tuple(words.spell(hypothesis.words)) for hypothesis in numbered_list.hypotheses
        ]


@pytest.mark.parametrize("option", ["words=names", "keys=first"])
def test_options_of_lattices_are_refused_for_linear_lists(tmp_path, option):
    (tmp_path / "lists").write_bytes(b"utt-1 \n0 1 5 1,2,\n1\n\n")
    with pytest.raises(OptionError, match=r"nbest-kaldi has no option .*; available options: encoding"):
        list(read(tmp_path / "lists", format=f"nbest-kaldi:{option}"))


def test_invalid_linear_lists_are_refused():
    with pytest.raises(LatticeError, match="must end with its number, as in utt-1"):
        read_linear_lists(b"key \n0 1 5 1,2,\n1\n\n", "t")
    with pytest.raises(FormatError):
        read_linear_lists(b"key-1 \xd6\xfd\xb2\x7e\0\0", "t")
