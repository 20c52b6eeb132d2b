"""Formats are detected by content: output of Ninja's writers, real files, and files that are not lattices."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kaldi_tables import write_tables
from reference_graph import SHARED
from strategies import lattices
from strategies_text import needs_files
from whole_files import write_k2, write_k2s, write_natives

from ninja import read
from ninja.consensus import confusion_network, mbr_decode
from ninja.errors import FormatError, NinjaError, OptionError
from ninja.formats import format as registry
from ninja.formats.format import HEAD, by_mark, detect, formats
from ninja.formats.format import reader as named
from ninja.formats.fst_binary import write_fst
from ninja.formats.fst_text import FstTextWriteOptions, write_fst_text
from ninja.formats.kaldi.fst_archive import FstArchiveWriteOptions, fst_entry
from ninja.formats.mesh import write_mesh
from ninja.formats.nbest.json_lists import write_objects
from ninja.formats.nbest.srilm import SrilmWriteOptions, write_srilm
from ninja.formats.pfsg import write_pfsg
from ninja.formats.plf import PlfWriteOptions, write_plf
from ninja.formats.slf import write_slf
from ninja.formats.sphinx import write_sphinx
from ninja.graph import connect, from_arcs, nbest
from ninja.io import detection
from ninja.lattice.nbest import NBest, sentence
from ninja.lattice.symbols import SymbolTable

# Words that look like other parts of a file, mixed with ordinary words.
ODD = """<s> 0 1 12 3.5 -2 1e5 1,2 1,2,3 1.5,2, name nodes N=3 VERSION=1 numaligns # ;; ( () (( inf nan NBestList1.0"""
NAMES = st.text("abcXYZ019-_.,'가é<>{}[]()=#;:\\\"+", min_size=1, max_size=6) | st.sampled_from(ODD.split())


def best(lattice, words, *, timed=False):
    hypotheses = []
    for path in nbest(connect(lattice), 3):
        spelled = [words.word(word) for word in path.words]
        ends = tuple(range(10, 10 * len(spelled) + 10, 10))
        hypothesis = sentence(spelled, path.graph_cost, path.acoustic_cost)
        hypotheses.append(replace(hypothesis, begin=tuple(end - 10 for end in ends), end=ends) if timed else hypothesis)
    return NBest(lattice.key, tuple(hypotheses), 0.01 if timed else None)


def ctm(lattice, words):
    spelled = [words.word(word) for word in nbest(connect(lattice), 1)[0].words]
    rows = [f"{lattice.key} 1 {at / 10:.2f} 0.10 {word} 0.5\n" for at, word in enumerate(spelled)]
    return "".join(rows).encode()


def int2sym(lattice, words, kind):
    """Return a text archive with the given names in place of ids."""
    key, *rows = write_tables(lattice, text=True, kind=kind).decode().split("\n")
    column = 2 if kind == "compact" else 3
    split_rows = [row.split() for row in rows]
    for row in split_rows:
        if len(row) > 2:
            row[column] = words.word(int(row[column]))
    return "\n".join([key.strip(), *map(" ".join, split_rows)]).encode()


WRITERS = {
    "slf": write_slf,
    "sphinx": write_sphinx,
    "pfsg": write_pfsg,
    "plf": write_plf,
    "plf, both scores": lambda lattice, words: write_plf(lattice, words, options=PlfWriteOptions(scores="both")),
    "mesh": lambda lattice, words: write_mesh(confusion_network(mbr_decode(lattice), words=words)).encode(),
    "openfst": lambda lattice, words: write_fst(lattice),
    "openfst, log64": lambda lattice, words: write_fst(lattice, "log64"),
    "fst-text": lambda lattice, words: write_fst_text(lattice),
    "fst-text, words": lambda lattice, words: write_fst_text(
        lattice, words, options=FstTextWriteOptions(labels="words")
    ),
    "fst-text, acceptor": lambda lattice, words: write_fst_text(lattice, options=FstTextWriteOptions(acceptor=True)),
    "fst-text, acceptor of words": lambda lattice, words: write_fst_text(
        lattice, words, options=FstTextWriteOptions(labels="words", acceptor=True)
    ),
    "fst-ark": lambda lattice, words: 2 * fst_entry(lattice),
    "fst-ark, text": lambda lattice, words: 2 * fst_entry(lattice, FstArchiveWriteOptions(text=True)),
    "k2": lambda lattice, words: write_k2(lattice),
    "k2, several": lambda lattice, words: write_k2s([lattice, lattice]),
    "native": lambda lattice, words: write_natives([lattice], words),
    "json": lambda lattice, words: write_objects(best(lattice, words)),
    "json, times": lambda lattice, words: write_objects(best(lattice, words, timed=True)),
    "srilm": lambda lattice, words: write_srilm(best(lattice, words)),
    "srilm, 1.0": lambda lattice, words: write_srilm(
        best(lattice, words), None, SrilmWriteOptions(variant="NBestList1.0")
    ),
    "srilm, 2.0": lambda lattice, words: write_srilm(
        best(lattice, words, timed=True), None, SrilmWriteOptions(variant="NBestList2.0")
    ),
    "ctm": ctm,
    "named-text, compact": lambda lattice, words: int2sym(lattice, words, "compact"),
    "named-text, raw": lambda lattice, words: int2sym(lattice, words, "raw"),
    "kaldi, compact": lambda lattice, words: write_tables(lattice, text=False, kind="compact"),
    "kaldi, raw": lambda lattice, words: write_tables(lattice, text=False, kind="raw"),
    "kaldi, compact text": lambda lattice, words: write_tables(lattice, text=True, kind="compact"),
    "kaldi, raw text": lambda lattice, words: write_tables(lattice, text=True, kind="raw"),
}
BINARY = ("openfst", "k2", "native", "fst-ark", "kaldi, compact", "kaldi, raw")


def name_of(content):
    """Return the name of the detected format; "kaldi" for archives of Kaldi."""
    detected_format = by_mark(content[:HEAD])
    return (
        {"binary": "kaldi", "text": "kaldi"}.get(detected_format.name, detected_format.name)
        if detected_format
        else "unknown"
    )


def content_kind(content):
    """Return what a file with this content is taken for in a folder: "lattices", "results" or "nothing"."""
    return detection.holds(content, "file")


def is_ambiguous(writer, content, lattice, words):
    """Return whether the content is ambiguous, so that another format can be detected."""
    if writer == "fst-ark, text":  # FSTs and lattices without weights look the same
        ends = (lattice.final_graph + lattice.final_acoustic)[lattice.is_final]
        return not ((lattice.graph + lattice.acoustic).any() or ends.any())
    if writer == "srilm":  # two scores without a sign or a decimal point could be states
        return not any(sign in content.split(b"\n")[0].rpartition(b" ")[0] for sign in b"-.") and content[:1].isdigit()
    if writer == "fst-text, words":  # words that are decimal numbers look like the times of a CTM
        return b"3.5" in content.split(b"\n")[0]
    if writer.startswith("named-text"):
        # The first arc with a word other than <eps> must have a name as its word, and costs.
        rows = [row.split() for row in content.split(b"\n")[1:]]
        word = 2 if "compact" in writer else 3
        first = next((row for row in rows if len(row) > word and row[word] != b"<eps>"), None)
        return first is None or first[word][:1].isdigit() or len(first) == word + 1 or b"," not in first[-1]
    return writer == "ctm" and not content


@given(
    lattices(max_word=4, max_states=6, max_labels=0),
    st.lists(NAMES.filter(lambda name: name != "<eps>"), min_size=4, max_size=4, unique=True),
    st.booleans(),
    st.sampled_from(["unchanged", "CRLF", "no final newline", "leading empty lines", "byte-order mark"]),
)
def test_written_files_are_detected_or_refused_with_both_names(lattice, names, without_costs, change):
    if without_costs:
        lattice = lattice.with_costs(np.zeros_like(lattice.graph), np.zeros_like(lattice.acoustic))
    words = SymbolTable(zip(["<eps>", *names], range(5), strict=True))
    for writer, write in WRITERS.items():
        content = write(lattice, words)
        if is_ambiguous(writer, content, lattice, words):
            continue
        if not writer.startswith(BINARY) or "text" in writer:
            content = {
                "unchanged": content,
                "CRLF": content.replace(b"\n", b"\r\n"),
                "no final newline": content.rstrip(b"\n"),
                "leading empty lines": b"\n \n" + content,
                "byte-order mark": b"\xef\xbb\xbf" + content,
            }[change]
        expected = writer.partition(",")[0]
        assert name_of(content) == expected, (writer, content)
        looks_like_number = expected == "fst-text" and not lattice.num_arcs  # a single state looks like any number
        assert content_kind(content[:HEAD]) != "nothing" or looks_like_number, (writer, content)


def chain_of(length):
    words = SymbolTable.from_words(["<eps>", *(f"w{number}" for number in range(1, 100))])
    arcs = [number + 1 for number in range(length)]
    costs = [number / 8 + 0.125 for number in range(length)]
    chain = from_arcs("utt", list(range(length)), arcs, arcs, costs, costs, finals={length: 0.5})
    return chain.with_words(words)


@pytest.mark.parametrize("writer", WRITERS)
def test_formats_are_detected_from_a_head_that_ends_within_a_line(writer, monkeypatch):
    chain = chain_of(40)
    content = WRITERS[writer](chain, chain.words)
    if content.count(b"\n") < 10:
        return  # a single line that is longer than the head
    for head in range(400, 440):
        monkeypatch.setattr(registry, "HEAD", head)
        assert name_of(content[:head]) == writer.partition(",")[0], head


LINES = ["fst-text", "fst-text, words", "fst-text, acceptor", "srilm", "ctm"]
COLUMNS = b"".join(b"utt-%d -3.5 -%d.5 | a word\n" % (rank, rank) for rank in range(1, 41))


@pytest.mark.parametrize("damage", [b"x", b"0 x", b"this is not a line of it, which has 10 words 1.5", b"|"])
@pytest.mark.parametrize("writer", [*LINES, "columns"])
def test_a_file_with_a_damaged_line_is_detected_and_refused(writer, damage, tmp_path):
    expected = writer.partition(",")[0]
    nbest_list = NBest("utt", tuple(sentence(["a", "b"], number + 0.5, 0.5) for number in range(40)))
    chain = chain_of(40)
    content = {
        "columns": lambda: COLUMNS,
        "srilm": lambda: write_srilm(nbest_list),
    }.get(writer, lambda: WRITERS[writer](chain, chain.words))()
    assert name_of(content) == expected
    rows = content.splitlines()
    rows[17] = damage
    content = b"\n".join(rows) + b"\n"
    assert name_of(content) == expected
    path = tmp_path / "lattice"
    path.write_bytes(content)
    errors = []
    list(read(path, on_error=errors.append))
    assert len(errors) == 1
    assert str(errors[0]).startswith(f"{path}:18"), errors[0]
    # In a folder, a file that could be another kind of table must be valid throughout.
    assert content_kind(content) == ("results" if writer in ("ctm", "columns") else "nothing")


@pytest.mark.parametrize("good", [b"0 1 5 5 0.5", b"utt 1 0.5 0.25 word", b"utt-1 -3.5 | a", b"-1 -2 1 a"])
def test_the_first_line_determines_the_format(good):
    rows = [good] * 40
    detected = name_of(b"\n".join(rows) + b"\n")
    assert detected != "unknown"
    assert name_of(b"\n".join([good] + [b"this is not a line of it"] * 39) + b"\n") == detected
    assert name_of(b"\n".join([b"this is not a line of it"] + [good] * 39) + b"\n") == "unknown"


@pytest.mark.parametrize("weight", ["nan", "NaN", "BadNumber"])
def test_a_weight_that_is_not_a_number_is_refused_with_its_line(weight, tmp_path):
    path = tmp_path / "lattice"
    path.write_text(f"0 1 5 5 {weight}\n1\n")
    with pytest.raises(NinjaError) as caught:
        list(read(path))
    assert str(caught.value).startswith(f"{path}:1"), caught.value


def test_the_first_matching_format_is_detected():
    assert name_of(b"1 1 0.5 0.25 3 0.5\n" * 4) == "ctm"  # this could also be an FST whose words are numbers
    assert detect(b"4\n", "x.txt").name == "text"  # without a mark, the extension determines the format
    assert detect(b"4\n", "x.ctm.gz").name == "ctm"
    assert detect(b"4\n", "x.lat") is None  # two formats have this extension
    assert detect(b"4\n", "x") is None


@pytest.mark.parametrize(
    "content",
    [
        b"1001 12 13\n1002 5 6\n1003 4 5 6 7 8 9\n",  # a transcript of word ids
        b"1 2 the\n2 3 cat\n10 a line of more words than any\n",
        b"12.5 3 2 of them\n13.5 4 2 of them\nand more\n",
        b"0 1 5 0.5\n0 1 6 0.5\nend\n",
    ],
)
def test_tables_that_resemble_lattices_are_ignored_in_a_folder(content):
    assert content_kind(content) == "nothing"


ATT = [
    b"0 1 5\n1\n",  # acceptors with ids, with weights, and with both
    b"0 1 5 0.5\n1 2 6\n2 1.5\n",
    b"0 1 5 5\n1 2 6 6 0.25\n2\n",  # transducers
    b"0\t1\t0\t0\tInfinity\n1\t-0.5\n",
    b"0 1 a\n1\n",
    b"0 1 a a,b 1e-5\n1 .5\n",
    b"0 1 1,2 1,2\n0 1 a a\n1\n",
    b"5 3 1 1\n3\n",
    b"0 1 a\n1 2 b\n2\n",
    b"0 1 1,2 1,2\n1\n",
    b"\n0 1 5\n\n1\n",
    b"0\n",
    b"0 0 5\n",
]


@pytest.mark.parametrize("content", ATT)
def test_fsts_in_text_have_two_to_five_columns(content):
    assert name_of(content) == "fst-text"
    # A single state looks like any number, such as the number of jobs in Kaldi's num_jobs.
    assert content_kind(content) == ("nothing" if content == b"0\n" else "lattices")


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"-1200 -30 2 hello world\n-1201 -31 1 hello\n", "srilm"),  # integer scores
        (b"-12.5 -3 1 [noise] hello\n", "srilm"),
        (b"## made by hand\n-12.5 -3 2 hello world\n", "srilm"),
        (b"\nNBestList1.0\n(-5) a\n", "srilm"),
        (b"(-5) a b\n(-6) a\n", "unknown"),  # without a header, this could be any text
        (b"a b\t-1.5\na\t-2\n", "unknown"),
        (b"the\t5\na\t6\n", "unknown"),  # a table of words or of counts
        (b";; made by hand\nutt A 0.1 0.2 word\n", "ctm"),
        (b"utt 1 0 0.25 word 0.9\n", "ctm"),
        (b"utt\t0\t90\t0.998\t50450\nutt\t90\t3\t0.5\t7\n", "unknown"),  # a table of arc posteriors
        (b"utt 1\n0 1 5 0.5,1,\n1\n", "named-text"),
        (b"utt \n0 1 hello 0.5,1,\n1\n\n", "named-text"),
        (b"utt\n0 1 5 <eps> 0.5,1\n1\n\n", "named-text"),
        (b"utt \n0 1 a\n1 2 b 1,2,\n2\n\n", "named-text"),  # an arc without costs: Kaldi omits the weight One
        (b"utt \n0 1 3 a\n1 2 4 b 1,2\n2\n\n", "named-text"),
        (b"utt \n0 1 a\n1 1,2,\n\n", "named-text"),
        (b"utt \n0 1 a\n0 2 b\n1 Infinity,Infinity,\n2 1,2,\n\n", "named-text"),
        (b"utt \n0 1 5\n0 2 6\n1 Infinity,Infinity,\n2 1,2,\n\n", "kaldi"),  # a dead end
        (b"utt\n0 1 5x 0.5,1,\n1 2 6 1,2,\n1 2 7 1,2,\n2\n\n", "unknown"),  # a damaged file
        (b"utt \n0 1 5 5 0.5\n1\n\n", "fst-ark"),
        (b"utt \n0 0.5\n\n", "fst-ark"),
        (b"utt \n0 1 5 5 0.5,1\n1\n\n", "kaldi"),
        (b"utt \n0 1 5 0.5,1,3_4\n1 1,2,\n\n", "kaldi"),
        (b"0 1 5 1,2,\n1\n\n", "unknown"),  # a lattice without its key
        (b"utt\n0 1 <eps>\n1 2 a\n2 0.5\n\n", "named-text"),
        (b"utt\n0 1 b\n1 2 a\n2 0.5\n\n", "unknown"),  # an FST with names
        (b"utt\n0 1 0 <eps>\n1 2 0 3.5\n2\n\n", "named-text"),
        (b"utt\n0 1 a 1,2,\n0 1 b 1 2 3 4\n1\n\n", "named-text"),  # another damaged file
        (b"utt 1\n0 1 5 1,2,\n0 1 x y z 1\n1\n\n", "named-text"),
        (b'[{"key": "u"}]', "json"),
        (b'{"key": "u"}', "json"),
        (b"()\n((('a', -1, 1),),)\n", "plf"),
    ],
)
def test_formats_without_a_header_are_detected_by_their_lines(content, name):
    assert name_of(content) == name


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n",
        b"\xef\xbb\xbf",
        b"<eps> 0\nthe 1\n",
        b"<eps>\t0\nthe\t1\n",
        b"utt1 the cat\nutt2 a hat\n",
        b"1001 the cat\n1002 a hat\n",
        b"utt1 12 13\nutt2 14\n",
        b"\\data\\\nngram 1=3\n",
        b"-1.5\tthe\t-0.3\n",
        b"4\n",
        b"0\n",
        b"0 0.5\n",
        b"0.01\n",
        b"hello\n",
        b"# A title\n\n1. one\n2. two\n",
        b"MIT License\n\nCopyright 2020\n",
        b"Copyright\n1 2 3\n",
        b'{"beam": 12}\n',
        b'{"entities": ["a"]}\n',
        b"utt1  [\n  1 2 3\n  4 5 6 ]\n",
        b"utt1 \0BFM \x04\x01\0\0\0",
        b"\0\0\0\0",
        b"Frames\n",
        b"a b \n0 1 5 5 0.5\n1\n\n",
        b"name x\n",
        b"AA 1 2 3 4\n",
    ],
)
def test_files_without_lattices_are_ignored_in_a_folder(content):
    assert content_kind(content) == "nothing"


def test_utf_16_raises_format_error_with_advice():
    for order in ("utf-16", "utf-16-be"):
        content = "VERSION=1.0\n".encode(order)
        content = content if order == "utf-16" else b"\xfe\xff" + content
        with pytest.raises(
            FormatError, match=r"lat\.slf: the file is UTF-16; convert it with iconv -f UTF-16 -t UTF-8"
        ):
            detect(content, "lat.slf")


def test_files_of_a_folder_are_read_in_their_detected_formats(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfname u\nnumaligns 1\nalign 0 the 0.5 a 0.5\n")
    (tmp_path / "b.txt").write_bytes(b"utt 1\n0 1 the 0.5,1,\n1\n")
    (tmp_path / "num_jobs").write_bytes(b"4\n")
    (tmp_path / "words.txt").write_bytes(b"<eps> 0\nthe 1\n")
    entries = list(read(tmp_path))
    assert [(key, lattice.words.spell(lattice.word)) for key, lattice in entries] == [
        ("u", ["the", "a"]),
        ("utt 1", ["the"]),
    ]


def test_reader_parses_format_names_and_options():
    assert named("kaldi").format is named("binary").format
    assert named("kaldi-text").format is named("text").format
    assert named("htk").format.name == "slf"
    assert named("att").format.name == "fst-text"
    assert named("slf:frame_shift=0.016").options.frame_shift == 0.016
    assert named("mesh", "latin-1").options.encoding == "latin-1"
    assert named("mesh:encoding=latin2", "latin-1").options.encoding == "latin2"
    assert named("k2").options is not None
    assert named("openfst:words=input").options.words == "input"
    assert named("native").options is None
    for file_format in formats():
        assert named(file_format.name).format is file_format


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("word", "unknown input format 'word'; available formats: binary, text, slf, sphinx"),
        ("", "unknown input format ''"),
        ("kaldi:a=1", "binary has no option 'a'; remove the option"),
        ("text:a=1", "text has no option 'a'; remove the option"),
        ("openfst:a=1", "openfst has no option 'a'; available options: words"),
        ("native:a=1", "native has no option 'a'; remove the option"),
        ("mesh:leats=1", "mesh has no option 'leats'; available options: encoding, frame_shift, least"),
        ("mesh:least=x", "mesh: least=x is not a number"),
        ("mesh:least", r"'mesh:least': expected OPTION=VALUE after the colon, found 'least'"),
        ("mesh:least=2", "least is 2.0, but must be 0 or more"),
    ],
)
def test_unknown_formats_and_options_are_refused(text, message):
    with pytest.raises(OptionError, match=message):
        named(text)


# The lattice files of each folder; its other files are not lattices.
REAL = {
    "data/formats": {
        "ami_slf/*.lat.gz": "slf",
        "ami_slf/*.nbest": "columns",
        "*pocketsphinx/*.slf.gz": "slf",
        "*pocketsphinx/*.lat.gz": "sphinx",
        "theanolm/*.slf": "slf",
        "theanolm/*.lat": "named-text",
        "plf_fisher_callhome/*.plf.gz": "plf",
        "nbest_kaldi_librispeech/nbest.txt.gz": "named-text",
        "nbest_dstc10/*.json.gz": "json",
    },
    "data/korean": {"*.ark.gz": "kaldi"},
    "data/english": {"*/*/*.ark.gz": "kaldi"},
    "golden": {
        "*/*.ark.gz": "kaldi",
        "*/lat.txt.gz": "kaldi",
        "*/prune1.txt.gz": "kaldi",
        "korean/fst.txt.gz": "fst-ark",
        "*/ctm_*.gz": "ctm",
    },
}


def head_of(path: Path) -> bytes:
    with open(path, "rb") as file:
        content = file.read(1 << 20)
    return zlib.decompressobj(31).decompress(content, HEAD) if content.startswith(b"\x1f\x8b") else content[:HEAD]


@needs_files
@pytest.mark.parametrize("folder", REAL)
def test_real_files_are_detected_and_others_ignored(folder):
    expected = {path: name for pattern, name in REAL[folder].items() for path in (SHARED / folder).glob(pattern)}
    assert set(expected.values()) == set(REAL[folder].values())
    for path in (SHARED / folder).rglob("*"):
        if path.is_file():
            head = head_of(path)
            assert name_of(head) == expected.get(path, name_of(head) if name_of(head) == "json" else "unknown"), path
            assert (content_kind(head) != "nothing") is (path in expected), path
