"""``ninja ctc-decode``, from matrices of CTC models to lattices."""

import gzip
import io
import json
import re
import shlex
import string
import sys

import numpy as np
import pytest
from reference_graph import SHARED

from ninja import SymbolTable, read
from ninja.cli.main import group
from ninja.decoding import ctc_lattice, log_probabilities
from ninja.decoding.units import ctc_units
from ninja.graph import best_path, nbest, state_times

LIBRI = SHARED / "data/formats/ctc_pyctcdecode/libri_logits.json"
TRANSCRIPT = "i have a good deal of will you remember and what i have {} my mind upon no doubt i shall some day achieve"
ENGLISH = " " + string.ascii_lowercase + "'"
LETTERS = " ab"  # followed by the blank
OPTIONS = ("--letters", LETTERS, "--blank", "3", "--scale", "logit")


def logits(*columns, scale=20.0, width=4):
    """Return logits with one probable column at each frame."""
    return (scale * np.eye(width)[list(columns)]).astype(np.float32)


AB, BA, A = logits(3, 1, 1, 2, 3, 0, 2), logits(2, 1, 0, 1), logits(1)


def best(lattices, words):
    table = SymbolTable.read(words)
    return {key: " ".join(table.spell(best_path(lattice).words)) for key, lattice in read(str(lattices))}


# The file is not part of the project; in CI, tests/conftest.py turns this skip into a failure.
@pytest.mark.skipif(not LIBRI.is_file(), reason="the logits of pyctcdecode are missing")
def test_ctc_decode_agrees_with_published_transcripts_of_pyctcdecode(ninja, folder):
    np.save("libri.npy", np.array(json.loads(LIBRI.read_text())))
    options = ["--scale", "logit", "--letters", ENGLISH, "--blank", 28]
    beams = ["--beam", 50, "--score-beam", 10, "--min-logprob", -5]
    code, _, errors = ninja("ctc-decode", "libri.npy", *options, *beams, "--words-out", "words.txt", "-o", "lat.ark")
    assert (code, errors.count("1 lattice,")) == (0, 1)
    _, output, _ = ninja("best", "lat.ark", "--words", "words.txt")
    assert output == f"libri {TRANSCRIPT.format('set')}\n"
    first, second = nbest(next(read("lat.ark"))[1], 2)
    assert (round(first.acoustic_cost, 3), round(second.acoustic_cost, 3)) == (0.182, 4.182)
    assert SymbolTable.read("words.txt").spell(second.words) == TRANSCRIPT.format("sent").split()


# The file is not part of the project; in CI, tests/conftest.py turns this skip into a failure.
@pytest.mark.skipif(not LIBRI.is_file(), reason="the logits of pyctcdecode are missing")
def test_the_example_of_ctc_decode_runs_with_a_rescoring(ninja, folder):
    np.savez("logits.npz", libri=np.array(json.loads(LIBRI.read_text())))
    text = group.get_command(None, "ctc-decode").help.partition("Example:")[2].replace("\\\n", " ")
    commands = [shlex.split(line)[1:] for line in text.strip().splitlines()]
    assert [command[0] for command in commands] == ["ctc-decode", "rescore"]
    for command in commands:
        assert ninja(*command)[0] == 0
    assert best("rescored.ark", "words.txt") == {"libri": TRANSCRIPT.format("set")}
    (_, before), (_, after) = next(read("lat.ark")), next(read("rescored.ark"))
    assert state_times(before).max() == state_times(after).max() == 371


def test_ctc_decode_agrees_with_ctc_lattice(ninja, folder):
    np.save("utt.npy", AB)
    assert ninja("ctc-decode", "utt.npy", *OPTIONS, "--words-out", "words.txt", "-o", "lat.ark")[0] == 0
    ((key, lattice),) = read("lat.ark", words="words.txt")
    units = ctc_units([*LETTERS, ""], 3, boundary=" ")
    expected = ctc_lattice(log_probabilities(AB, "logit"), units, "utt")
    assert key == "utt"
    for name in ("dst", "word", "acoustic", "graph", "ali"):
        assert np.array_equal(getattr(lattice, name), getattr(expected, name)), name
    assert lattice.words == expected.words


def write_matrices(kind, matrices):
    """Write matrices to a file or folder of some kind; return its name on the command line."""
    kaldiio = pytest.importorskip("kaldiio")
    torch = pytest.importorskip("torch")
    if kind in ("folder", "list of files", "list by content", "list"):
        for key, matrix in matrices.items():
            np.save(f"{key}.npy", matrix)
        if kind == "folder":
            with open("README", "w") as file:
                file.write("matrices\n")
            return "."
        names = {key: f"{key}.npy" for key in matrices}
        rows = [name if kind == "list of files" else f"{key} {name}" for key, name in names.items()]
        name = "all.scp" if kind == "list" else "all"
        with open(name, "w") as file:
            file.write("\n".join(rows) + "\n")
        return name
    if kind == "npz":
        np.savez("all.npz", **matrices)
        return "all.npz"
    if kind == "torch":
        torch.save({key: torch.tensor(matrix) for key, matrix in matrices.items()}, "all.pt")
        return "all.pt"
    kaldiio.save_ark("all.ark", matrices, scp="all.scp", text=kind == "text")
    if kind == "gz":
        with open("all.ark", "rb") as plain, gzip.open("packed", "wb") as packed:
            packed.write(plain.read())
    return {"gz": "packed", "scp": "scp:all.scp", "ark": "ark:all.ark"}.get(kind, "all.ark")


SOURCES = ["folder", "list of files", "list by content", "list", "npz", "torch", "binary", "text", "gz", "scp", "ark"]


@pytest.mark.parametrize("kind", SOURCES)
def test_ctc_decode_reads_matrices_from_all_kinds_of_sources(ninja, folder, kind):
    source = write_matrices(kind, {"first": AB, "second": BA})
    code, _, errors = ninja("ctc-decode", source, *OPTIONS, "--words-out", "words", "-o", "lat.ark")
    assert (code, errors.count("2 lattices")) == (0, 1), errors
    assert best("lat.ark", "words") == {"first": "ab b", "second": "ba a"}


def test_ctc_decode_reads_an_archive_from_standard_input(ninja, folder, monkeypatch):
    write_matrices("binary", {"first": AB, "second": BA})
    with open("all.ark", "rb") as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read())))
    assert ninja("ctc-decode", "-", *OPTIONS, "--words-out", "words", "-o", "lat.ark")[0] == 0
    assert best("lat.ark", "words") == {"first": "ab b", "second": "ba a"}


@pytest.mark.parametrize("content", ["matrix", "script file", "list"])
def test_ctc_decode_reads_a_single_matrix_or_a_list_from_standard_input(ninja, folder, monkeypatch, content):
    np.save("a.npy", AB)
    data = {"matrix": (folder / "a.npy").read_bytes(), "script file": b"utt a.npy\n", "list": b"a.npy\n"}[content]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert ninja("ctc-decode", "-", *OPTIONS, "--words-out", "words", "-o", "lat.ark")[0] == 0
    assert best("lat.ark", "words") == {{"matrix": "stdin", "script file": "utt", "list": "a"}[content]: "ab b"}


def test_word_ids_are_the_same_with_several_processes(ninja, folder):
    np.savez("all.npz", **{f"utt{number}": matrix for number, matrix in enumerate([A, AB, BA, AB, A])})
    for jobs in (1, 2):
        code, _, _ = ninja(
            *("ctc-decode", "all.npz", *OPTIONS, "--words-out", f"words{jobs}", "-o", f"{jobs}.ark", "--jobs", jobs)
        )
        assert code == 0
    assert list(best("1.ark", "words1").values()) == ["a", "ab b", "ba a", "ab b", "a"]
    assert (folder / "1.ark").read_bytes() == (folder / "2.ark").read_bytes()
    rows = (folder / "words1").read_text()
    assert rows == (folder / "words2").read_text()
    assert rows.startswith("<eps> 0\na 1\n")


def test_archives_decoded_with_the_same_word_list_share_word_ids(ninja, folder):
    np.save("one.npy", AB)
    np.save("two.npy", BA)
    (folder / "list").write_text("ba\nb\na\nab\n")
    (folder / "lexicon").write_text("BA b a\nB b\nA a\nAB a b\n")
    for number, name in enumerate(("one", "two")):
        options = ("--word-list", "list", "--words-out", f"words{number}", "-o", f"{name}.ark")
        assert ninja("ctc-decode", f"{name}.npy", *OPTIONS, *options)[0] == 0
    assert (folder / "words0").read_text() == "<eps> 0\nba 1\nb 2\na 3\nab 4\n" == (folder / "words1").read_text()
    assert {**best("one.ark", "words0"), **best("two.ark", "words0")} == {"one": "ab b", "two": "ba a"}
    options = ("--lexicon", "lexicon", "--words-out", "words", "-o", "lat.ark")
    assert ninja("ctc-decode", "one.npy", *OPTIONS, *options)[0] == 0
    assert best("lat.ark", "words") == {"one": "AB B"}


def test_word_ids_come_from_the_symbol_table(ninja, folder):
    np.save("utt.npy", AB)
    (folder / "words").write_text("<eps> 0\n<unk> 1\nb 7\nab 9\n")
    code, _, errors = ninja("ctc-decode", "utt.npy", *OPTIONS, "--words", "words", "-o", "lat.ark")
    assert code == 1
    assert re.search(r"key 'utt': word '\w+' is not in the symbol table; specify a lexicon", errors)
    assert not (folder / "lat.ark").exists()
    assert ninja("ctc-decode", "utt.npy", *OPTIONS, "--words", "words", "--unk", "<unk>", "-o", "lat.ark")[0] == 0
    assert best("lat.ark", "words") == {"utt": "ab b"}
    assert ninja("ctc-decode", "utt.npy", *OPTIONS, "--nbest", 1, "--words", "words", "-o", "one.ark")[0] == 0
    ((_, lattice),) = read("one.ark")
    assert len(nbest(lattice, 5)) == 1
    assert set(lattice.word) == {0, 7, 9}


def test_frame_times_are_written_to_a_ctm(ninja, folder):
    np.save("utt.npy", AB)
    assert ninja("ctc-decode", "utt.npy", *OPTIONS, "--words-out", "words", "-o", "lat.ark")[0] == 0
    _, output, _ = ninja("to-ctm-conf", "lat.ark", "--words", "words", "--frame-shift", "0.04")
    assert output == "utt 1 0.04 0.12 ab 1.00\nutt 1 0.24 0.04 b 1.00\n"


UNITS = {
    "tokens.txt": ("<blk> 0\n▁a 1\nb 2\n▁ 3\n", ["--tokens", "tokens.txt"], (0, 1, 2, 1), "ab a"),
    "vocab.json": (
        '{"<pad>": 0, "|": 1, "a": 2, "b": 3}',
        ["--tokens", "vocab.json", "--blank", "<pad>"],
        (2, 3, 1, 2),
        "ab a",
    ),
    "list": ("|\na\nb\n", ["--tokens", "list", "--blank", "3"], (1, 2, 0, 1), "ab a"),
    "pieces": ("a\n##b\nc\n-\n", ["--tokens", "pieces", "--blank", "-1"], (0, 1, 3, 2), "ab c"),
    "words": ("yes\nno\n<s>\n<blank>\n", ["--tokens", "words", "--scheme", "words"], (0, 3, 0, 1), "yes yes no"),
    "spaced": ("_\na\nb\n-\n", ["--tokens", "spaced", "--space", "_", "--blank", "-"], (1, 0, 2, 3), "a b"),
}


@pytest.mark.parametrize("name", UNITS)
def test_units_can_be_letters_pieces_or_words(ninja, folder, name):
    content, options, columns, text = UNITS[name]
    (folder / name).write_text(content)
    np.save("utt.npy", logits(*columns))
    code, _, errors = ninja("ctc-decode", "utt.npy", "--scale", "logit", *options, "--words-out", "w", "-o", "lat.ark")
    assert code == 0, errors
    assert best("lat.ark", "w") == {"utt": text}


@pytest.mark.parametrize("blank", ["15", "<unk>"])
def test_units_can_be_the_pieces_of_a_sentencepiece_model(ninja, folder, blank):
    sentencepiece = pytest.importorskip("sentencepiece")
    (folder / "text").write_text("the cat sat on the mat\n" * 20)
    sentencepiece.SentencePieceTrainer.train(input="text", model_prefix="bpe", vocab_size=15, minloglevel=2)
    column = 0 if blank == "<unk>" else 15  # a piece of the model, or an additional unit as in NeMo's models
    pieces = sentencepiece.SentencePieceProcessor("bpe.model").encode("the cat sat")
    frames = [unit for piece in pieces for unit in (piece, column)]
    np.save("utt.npy", logits(*frames, width=15 if blank == "<unk>" else 16, scale=30.0))
    options = ["--sentencepiece", "bpe.model", "--blank", blank, "--scale", "logit"]
    assert ninja("ctc-decode", "utt.npy", *options, "--words-out", "words", "-o", "lat.ark")[0] == 0
    assert best("lat.ark", "words") == {"utt": "the cat sat"}


def test_a_bad_matrix_does_not_affect_the_others(ninja, folder):
    nan = AB.copy()
    nan[2, 1] = np.nan
    np.savez(
        "all.npz", **{"nan": nan, "empty": AB[:0], "narrow": AB[:, :3], "vector": AB[0], "two words": A, "good": A}
    )
    (folder / "cut.npy").write_bytes(b"\x93NUMPY\1\0v\0{'descr': '<f4', 'fortran_order': False, 'shape': (7, 4), }")
    np.save("last.npy", BA)
    sources = ["all.npz", "cut.npy", "nowhere.npy", "last.npy"]
    for jobs in (1, 2):
        outputs = ("--words-out", "words", "-o", "lat.ark")
        code, _, errors = ninja("ctc-decode", *sources, *OPTIONS, *outputs, "--jobs", jobs)
        assert code == 1
        assert best("lat.ark", "words") == {"good": "a", "last": "ba a"}
        for message in (
            "all.npz, key 'nan': the value of unit 1 in frame 2 is nan",
            "all.npz, key 'empty': the matrix has no frames",
            "all.npz, key 'narrow': the matrix has 3 columns, but there are 4 units",
            "all.npz, key 'vector': the matrix must have shape [frames, units], not [4]",
            "all.npz, key 'two words': the key is empty or contains whitespace",
            "cut.npy, key 'cut': the .npy file is damaged",
            "nowhere.npy: cannot be read: No such file",
            "7 failed: ",
        ):
            assert f"{message}" in errors, errors
    code, _, errors = ninja(
        *("ctc-decode", *sources, *OPTIONS, "--words-out", "w", "-o", "x.ark", "--on-error", "raise")
    )
    assert (code, errors.count("\n")) == (1, 1)
    assert not (folder / "x.ark").exists()
    assert not (folder / "w").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "source: found no matrices; no output is written"),
        (b"no matrix at all", "key 'no': expected numbers in brackets"),
        (b"utt [ 0 -50 -50 nan ]\n", "source, key 'utt': the value of unit 3 in frame 0 is nan"),
        (b"utt [ 1 1 1 1 ]\n", "source, key 'utt': the probabilities of frame 0 sum to .*; if the values are logits"),
    ],
)
def test_nothing_is_written_if_all_matrices_are_bad(ninja, folder, content, message):
    (folder / "source").write_bytes(content)
    code, _, errors = ninja("ctc-decode", "source", "--letters", LETTERS, "--blank", 3, "--words-out", "w", "-o", "l")
    assert code == 1
    assert re.search(message, errors)
    assert [path.name for path in folder.iterdir()] == ["source"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "the unit names are missing; specify one of --tokens, --letters, --sentencepiece"),
        (("--letters", "ab", "--tokens", "t"), "--tokens and --letters cannot be used together; specify one of them"),
        (("--letters", "ab "), "cannot tell which unit is the blank; specify its name or column with --blank"),
        (
            ("--letters", "ab ", "--blank", "x"),
            "the blank is 'x', but no unit has this name; the first units are ['a',",
        ),
        (
            ("--letters", "ab ", "--blank", "4"),
            "the blank is column 4, but there are 3 units; specify a column from -3 to 3",
        ),
        (("--letters", "aba", "--blank", "0"), "--letters contains 'a' twice"),
        (("--letters", "", "--blank", "0"), "--letters is empty"),
        (("--letters", "ab-", "--blank", "-"), "the unit between words is unknown; specify it with --space"),
        (("--letters", "ab |", "--blank", "4"), "' ' and '|' can both separate words; choose one with --space"),
        (("--letters", "ab |", "--blank", "4", "--space", "|"), "unit 2, ' ', cannot be part of a word"),
        (("--letters", "ab ", "--blank", "3", "--space", "_"), "the boundary is '_', but no unit has this name"),
        (
            ("--letters", "ab ", "--blank", "3", "--never", "_"),
            "a unit that is never part of words is '_', but no unit has this name",
        ),
        ((*OPTIONS, "--lexicon", "l", "--word-list", "l"), "--lexicon cannot be used with --word-list"),
        ((*OPTIONS, "--words-out", "w", "--unk", "a"), "--unk requires --words"),
        ((*OPTIONS, "--words", "t", "--unk", "c"), "--unk is 'c', which is not in t"),
        ((*OPTIONS, "--words-out", "w", "--score-beam", "0"), "--score-beam is 0.0, but must be above 0"),
        ((*OPTIONS, "--words-out", "utt.npy"), "utt.npy is an input and would be overwritten"),
        ((*OPTIONS, "--words-out", "lat.ark"), "lat.ark: two outputs would be written to this file"),
        ((*OPTIONS[:4], "--scale", "db"), "'db' is not one of"),
        ((*OPTIONS, "--nbest", "0"), "0 is not in the range"),
    ],
)
def test_invalid_options_of_ctc_decode_are_refused(ninja, folder, options, message):
    np.save("utt.npy", AB)
    (folder / "t").write_text("<eps> 0\na 1\n")
    code, _, errors = ninja("ctc-decode", "utt.npy", *options, "-o", "lat.ark")
    assert (code, message in errors) == (2, True), errors
    assert sorted(path.name for path in folder.iterdir()) == ["t", "utt.npy"]


def test_words_that_units_cannot_spell_are_reported(ninja, folder):
    np.save("utt.npy", AB)
    (folder / "list").write_text("ab\nac\n")
    for option, content, message in [
        ("--word-list", "ab\nac\n", "words:2: 'ac' is spelled with 'c', which is not a unit of the model"),
        ("--word-list", "ab\na b\n", "words:2: expected one word, found 'a b'"),
        ("--lexicon", "ab a b\nb\n", "words:2: 'b' has an empty spelling"),
    ]:
        (folder / "words").write_text(content)
        code, _, errors = ninja("ctc-decode", "utt.npy", *OPTIONS, option, "words", "--words-out", "w", "-o", "lat.ark")
        assert (code, message in errors) == (1, True), errors


def test_a_matrix_without_words_of_the_lexicon_fails_alone(ninja, folder):
    np.savez("all.npz", long=BA, short=A)
    (folder / "list").write_text("abababab\n")
    options = ("--word-list", "list", "--words-out", "w", "-o", "lat.ark", "--beam", 1)
    code, _, errors = ninja("ctc-decode", "all.npz", *OPTIONS, *options)
    assert code == 1
    assert "key 'short': no hypothesis within the beam consists of words in the lexicon; use a larger beam" in errors


def test_ctc_decode_writes_the_symbol_table_next_to_the_archive(ninja, folder):
    np.save("utt.npy", AB)
    code, _, errors = ninja("ctc-decode", "utt.npy", *OPTIONS, "-o", "lat.ark.gz")
    assert (code, errors.count("wrote the symbol table to lat.ark.gz.words.txt")) == (0, 1)
    assert ninja("best", "lat.ark.gz", "--words", "lat.ark.gz.words.txt")[1] == "utt ab b\n"
    code, output, errors = ninja("ctc-decode", "utt.npy", *OPTIONS)
    assert (code, output) == (2, "")
    assert "standard output would contain word ids without a symbol table" in errors


@pytest.mark.parametrize("name", ["lat.arrow", "lat.jsonl", "slf"])
def test_formats_with_words_need_no_symbol_table(ninja, folder, name):
    pytest.importorskip("pyarrow")
    np.savez("all.npz", first=A, second=AB, third=BA)
    to = ("--to", "slf") if name == "slf" else ()
    code, _, errors = ninja("ctc-decode", "all.npz", *OPTIONS, *to, "-o", name)
    assert code == 0, errors
    assert [path for path in folder.iterdir() if "words" in path.name] == []
    _, output, _ = ninja("best", name)
    assert [row.partition(" ")[2] for row in output.splitlines()] == ["a", "ab b", "ba a"]


def test_a_word_named_epsilon_is_refused(ninja, folder):
    (folder / "tokens").write_text("<eps>\nno\n<blk>\n")
    np.save("utt.npy", logits(1, 2, 0, width=3))
    options = ("--tokens", "tokens", "--scheme", "words", "--scale", "logit")
    code, _, errors = ninja("ctc-decode", "utt.npy", *options, "--never", "<blk>", "-o", "lat.ark")
    assert (code, "key 'utt': word '<eps>' has the id 0, which is reserved for epsilon" in errors) == (1, True), errors
    assert ninja("ctc-decode", "utt.npy", *options, "--words-out", "words", "-o", "lat.ark")[0] == 0
    assert (folder / "words").read_text() == "<eps> 0\nno 1\n"
