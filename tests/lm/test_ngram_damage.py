"""Damaged n-gram files: every error is a ModelError with a position; declared sizes are not trusted."""

import gzip
import math
import resource
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_ngram import TRIGRAM, write_arpa, write_const_arpa, write_fst, write_grammar

from ninja.errors import ModelError, NinjaError
from ninja.lattice.symbols import SymbolTable
from ninja.lm import load
from ninja.lm.ngram import model as ngram_module
from ninja.lm.ngram.model import read_arpa, read_const_arpa, read_grammar

ID = {"<eps>": 0, "a": 1, "b": 2, "#0": 3, "<s>": 4, "</s>": 5}
TABLE = SymbolTable(ID.items())
CLOSED = TRIGRAM.closed()
ARPA = write_arpa(TRIGRAM)
CARPA = write_const_arpa(CLOSED, ID)
GRAMMAR = write_grammar(CLOSED, ID, symbols=ID)
READERS = {
    "arpa": (ARPA, read_arpa),
    "carpa": (CARPA, lambda path: read_const_arpa(path, TABLE)),
    "grammar": (GRAMMAR, lambda path: read_grammar(path, TABLE)),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "bad.lm"


def assert_refused(path, content, match, reader):
    path.write_bytes(content)
    with pytest.raises(ModelError, match=match) as caught:
        reader(str(path))
    assert str(caught.value).startswith(str(path))
    assert len(caught.value.message) < 300
    return caught.value


@pytest.mark.parametrize("kind", READERS)
def test_a_file_truncated_at_any_byte_is_refused(path, kind):
    content, reader = READERS[kind]
    spare = 1 if kind == "arpa" else 0  # the last line end may be missing
    for length in range(len(content) - spare):
        error = assert_refused(path, content[:length], ".", reader)
        assert (error.byte is not None) or error.line is not None or "cut short" in error.message
    path.write_bytes(content)
    reader(str(path))


@pytest.mark.parametrize("kind", READERS)
def test_a_truncated_or_damaged_gzip_file_is_refused(path, kind):
    content, reader = READERS[kind]
    packed = gzip.compress(content)
    for length in range(2, len(packed), 5):
        assert_refused(path, packed[:length], "gzip|cut short", reader)
    assert_refused(path, packed[:-8] + b"\0\0\0\0" + packed[-4:], "the gzip stream is damaged", reader)


@pytest.mark.parametrize("kind", READERS)
@given(data=st.data())
def test_random_byte_changes_cause_no_crash(tmp_path_factory, kind, data):
    content, reader = READERS[kind]
    broken = bytearray(content)
    for _ in range(data.draw(st.integers(1, 3))):
        broken[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("broken") / "lm"
    path.write_bytes(broken)
    try:
        lm = reader(str(path))
    except NinjaError:
        return
    words = np.arange(len(lm.vocabulary), dtype=np.int32)
    slots = lm.advance(lm.start(words.size), words)
    lm.logprob(lm.advance(slots, words), words[::-1])


def replace_once(old, new, content=ARPA):
    assert old in content
    return content.replace(old, new, 1)


@pytest.mark.parametrize(
    ("old", "new", "line", "match"),
    [
        (b"\\data\\", b"\\date\\", None, r"the file ends before \\end\\"),
        (b"ngram 1=4", b"ngram 1=5", 13, "the section of 1-grams has 4, but .* announces 5"),
        (b"ngram 1=4", b"ngram 1=3", 11, "more 1-grams than the 3"),
        (b"ngram 1=4\n", b"", 3, "expected the number of 1-grams, found the number of 2-grams"),
        (b"ngram 1=4\n", b"ngram 1=4\nngram 1=4\n", 4, "expected the number of 2-grams, found the number of 1-grams"),
        (b"ngram 1=4", b"ngram 1=many", 3, "expected 'ngram 1=COUNT' or .* found 'ngram 1=many'"),
        (b"ngram 1=4", b"ngram 1=-4", 3, "expected 'ngram 1=COUNT'"),
        (b"ngram 1=4", b"ngram 1=99999999999999999999", 3, "expected 'ngram 1=COUNT'"),
        (b"ngram 3=2\n", b"", 16, r"expected \\end\\, found '\\3-grams:'"),
        (b"\\2-grams:", b"\\3-grams:", 13, r"expected \\2-grams:, found '\\3-grams:'"),
        (b"\\2-grams:\n", b"", 13, "more 1-grams than the 4"),
        (b"\\1-grams:", b"1-grams:", 7, "expected 'ngram 1=COUNT'"),
        (b"\\3-grams:", b"\\end\\", 17, r"expected \\3-grams:, found '\\end\\'"),
        (b"-0.5\ta b", b"half\ta b", 15, "'half' is not a log10 probability"),
        (b"-0.5\ta b", b"nan\ta b", 15, "'nan' is not a log10 probability"),
        (b"-0.5\ta b", b"-inf\ta b", 15, "'-inf' is not a log10 probability"),
        (b"-0.5\ta b", b"-1e999\ta b", 15, "'-1e999' is not a log10 probability"),
        (b"-0.5\ta b", b"0.5\ta b", 15, "the log10 probability is above 0: '0.5'"),
        (b"-0.5\ta b", b"-0.5\ta c", 15, "the word 'c' is not among the 1-grams"),
        (b"-0.5\ta b\t0.0", b"-0.5\ta", 15, "1 words in the section of 2-grams"),
        (b"-0.5\ta b\t0.0", b"-0.5\ta b 0 0", 15, "unexpected text after the back-off weight: ' 0'"),
        (b"-0.5\ta b\t0.0", b"-0.5\ta b -x", 15, "'-x' is not a back-off weight"),
        (b"-0.5\ta b", b"-0.5\t<s> a", 15, "the n-gram occurs twice"),
        (b"-0.75\tb", b"-0.75\ta", 10, "the word 'a' occurs twice"),
        (b"-1.5\tb a </s>", b"-1.5\tb a </s> -1 -1", 19, "unexpected text"),
        (b"-0.5\t</s>", b"-0.5\t</S>", 19, "the word '</s>' is not among the 1-grams"),
        (b"-0.75\tb", b"-0.75\t\xff", 15, "the word 'b' is not among the 1-grams"),
    ],
)
def test_an_inconsistent_arpa_file_is_refused_with_its_line(path, old, new, line, match):
    error = assert_refused(path, replace_once(old, new), match, read_arpa)
    assert line is None or error.line == line


def test_words_that_are_not_utf_8_are_refused(path):
    assert_refused(path, ARPA.replace(b"b", b"\xe9"), r"the word b'\\xe9' is not UTF-8", read_arpa)


def test_a_model_that_cannot_end_a_sentence_is_refused(path):
    content = write_arpa(type(TRIGRAM)(1, {("<s>",): (-1.0, 0.0), ("a",): (-1.0, 0.0)}))
    assert_refused(path, content, "the model has no </s>", read_arpa)


def test_an_overlong_line_is_refused(path, monkeypatch):
    monkeypatch.setattr(ngram_module, "CHUNK", 1000)
    assert_refused(
        path, replace_once(b"-0.5\ta b", b"-0.5\ta " + b"b" * 2000), "a line has more than 1000 bytes", read_arpa
    )


@pytest.fixture
def little_memory():
    """Limit the growth of the process to a quarter of a gigabyte."""
    with open("/proc/self/statm") as statm:
        num_bytes = int(statm.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (num_bytes + (1 << 28), hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def replace_count(content, marker, old, new, code):
    """Replace the number after a marker."""
    at = content.index(marker) + len(marker)
    assert struct.unpack_from(code, content, at)[0] == old
    return content[:at] + struct.pack(code, new) + content[at + struct.calcsize(code) :]


def test_implausible_counts_allocate_no_memory(path, little_memory):
    for order in (1, 2, 3):
        content = replace_once(b"ngram %d=" % order, b"ngram %d=99999999999999" % order)
        assert_refused(path, content, "announces 99999999999999", read_arpa)
        assert_refused(path, gzip.compress(content), "announces 99999999999999", read_arpa)
    states, unigrams = len(CARPA.split(b"<LmStates> ")[1].split(b"</LmStates>")[0]) // 4 - 2, 6
    reader = READERS["carpa"][1]
    for count in (2**60, -1):
        content = replace_count(CARPA, b"<LmStates> \x08", states, count, "<q")
        assert_refused(path, content, f"LmStates declares {count} entries", reader)
    for count in (2**31 - 1, -1):
        content = replace_count(CARPA, b"<LmUnigram> \x04", unigrams, count, "<i")
        assert_refused(path, content, f"LmUnigram declares {count} entries", reader)
        content = replace_count(CARPA, b"<LmOverflow> \x04", 0, count, "<i")
        assert_refused(path, content, f"LmOverflow declares {count} entries", reader)


LEAF_STATE = struct.pack("<ffi", -1.0, 0.0, 0)  # a state of a const-arpa without children


def const_arpa(order=2, states=LEAF_STATE * 3, unigrams=(0, 1, 4, 7), overflow=()):
    return b"".join(
        [
            b"\0B<ConstArpaLm> <LmInfo> " + struct.pack("<bibibibi", 4, 1, 4, 2, 4, -1, 4, order) + b"</LmInfo> ",
            b"<LmStates> " + struct.pack("<bq", 8, len(states) // 4) + states + b"</LmStates> ",
            b"<LmUnigram> " + struct.pack(f"<bi{len(unigrams)}q", 4, len(unigrams), *unigrams) + b"</LmUnigram> ",
            b"<LmOverflow> " + struct.pack(f"<bi{len(overflow)}q", 4, len(overflow), *overflow) + b"</LmOverflow> ",
            b"</ConstArpaLm> ",
        ]
    )


def family(word, child, logprob=-1.0, weight=0.0):
    """Return three 1-grams, the last of which has a child."""
    return LEAF_STATE * 2 + struct.pack("<ffiii", logprob, weight, 1, word, child)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (const_arpa(order=0), "the order is 0"),
        (const_arpa(order=65), "the order is 65"),
        (const_arpa(unigrams=(0, 1, 4, 8)), "a state begins at 7, but LmStates has size 9"),
        (const_arpa(unigrams=(0, 1, 4, -5)), "a state begins at -6, but LmStates has size 9"),
        (const_arpa(unigrams=(0, 1, 4, -(2**63))), f"a state begins at -{2**63}, but LmStates has size 9"),
        (const_arpa(unigrams=(0, 1, 0, 4)), "the model has no </s>"),
        (const_arpa(states=family(3, 0)), None),
        (const_arpa(states=family(9, 0)), "ends in word 9, which has no 1-gram"),
        (const_arpa(states=family(0, 0)), "ends in word 0, which has no 1-gram"),
        (const_arpa(states=family(3, 3)), "a state declares 3 children"),
        (const_arpa(states=family(3, -1)), "an index exceeds LmOverflow"),
        (const_arpa(states=family(3, -1), overflow=(0,)), "a state begins at -1, but LmStates has size 11"),
        (const_arpa(states=family(3, -1), overflow=(1,)), "states overlap"),
        (const_arpa(states=family(3, 0, logprob=math.nan)), "a natural-log probability is invalid: -?nan"),
        (const_arpa(states=family(3, 0, logprob=0.5)), "a natural-log probability is invalid: 0.5"),
        (const_arpa(states=family(3, 0, weight=math.inf)), "a back-off weight is invalid: inf"),
        (const_arpa(order=1, states=family(3, 0)), "an n-gram is longer than the order 1"),
        (const_arpa(states=LEAF_STATE * 2 + struct.pack("<ffi", 0, 0, 1)), "a state declares 1 children"),
        (const_arpa(states=LEAF_STATE * 2 + struct.pack("<ffi", 0, 0, -1)), "a state declares -1 children"),
        (const_arpa(states=LEAF_STATE * 2 + struct.pack("<ffi4i", 0, 0, 2, 3, 0, 3, 0)), "the n-gram occurs twice"),
        (const_arpa() + b" ", "bytes follow the end"),
        (const_arpa().replace(b"<LmInfo> \x04", b"<LmInfo> \x08"), "expected an integer of 4 bytes"),
        (const_arpa().replace(b"<LmUnigram>", b"<LmBigrams>"), "expected the token <LmUnigram>"),
    ],
)
def test_an_inconsistent_const_arpa_is_refused(path, content, match):
    table = SymbolTable([("<s>", 1), ("</s>", 2), ("a", 3)])
    if match is None:
        path.write_bytes(content)
        assert read_const_arpa(str(path), table).model.num_ngrams == 4
    else:
        assert_refused(path, content, match, lambda name: read_const_arpa(name, table))


@pytest.mark.parametrize(
    ("states", "match"),
    [
        ([(0.0, [(1, 1, 0.5, 0), (1, 1, 0.5, 0)])], "state 0 has two arcs with the word id 1; determinize it"),
        ([(0.0, [(3, 0, 0.5, 1), (3, 0, 0.5, 1)]), (0.0, [])], "state 0 has two back-off arcs"),
        ([(0.0, [(3, 0, 0.5, 1)]), (0.0, [(0, 0, 0.5, 0)])], "the back-off arcs of state 0 form a cycle"),
        ([(0.0, [(3, 3, 0.5, 0)])], "the back-off arcs of state 0 form a cycle"),
        ([(0.0, [(1, 0, 0.5, 1)]), (0.0, [])], "has input word id 1 but no output"),
        ([(0.0, [(5, 5, 0.5, 1)]), (0.0, [])], "state 0 is final and has an arc with </s>"),
        ([(0.0, [(1, 1, math.nan, 0)])], "arc 0 of state 0 has the weight -?nan"),
        ([(0.0, [(1, -1, 0.5, 0)])], "negative output label -1"),
        ([(0.0, [(1, 1, 0.5, 1)])], "enters state 1 of 1"),
    ],
)
def test_an_fst_that_is_not_a_backoff_grammar_is_refused(path, states, match):
    assert_refused(path, write_fst(states), match, READERS["grammar"][1])


def test_a_grammar_without_start_or_with_trailing_bytes_is_refused(path):
    assert_refused(path, write_fst([(0.0, [])], start=-1), "no start state", READERS["grammar"][1])
    assert_refused(path, write_fst([(0.0, [])]) + b"x", "1 bytes follow the end of the FST", READERS["grammar"][1])


def test_a_symbol_table_that_is_not_utf_8_is_refused(path):
    assert_refused(path, GRAMMAR.replace(b"\x04\0\0\0</s>", b"\x04\0\0\0</\xff>"), "not UTF-8", load)
