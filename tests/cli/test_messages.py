"""Messages: one per cause, with the kind of a file, the option to use, and suggestions for misspelled names."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import click
import numpy as np
import pytest
from fake_lm import FakeLM
from lattice_files import write_all

import ninja as package
from ninja.cli.main import with_option_names
from ninja.decoding import log_probabilities
from ninja.errors import LatticeError, Log, ModelError, NinjaError, OptionError, TableError
from ninja.formats.slf import header_scales
from ninja.lattice import Lattice, Scales
from ninja.lattice.symbols import SymbolTable
from ninja.lm.word_map import WordMap

WORDS = "<eps> 0\na 1\nb 2\nc 3\n"


def small(key: str, words: SymbolTable | None = None) -> Lattice:
    zero, end = np.zeros(2, np.float32), np.array([np.inf, np.inf, 0], np.float32)
    return Lattice.from_arrays(key, [0, 1, 2, 2], [1, 2], [1, 3], zero + 1, zero + 2, end, end, words=words)


@pytest.fixture
def bed(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("words.txt").write_text(WORDS)
    Path("wrong.txt").write_text("<eps> 0\na 1\n")
    write_all("lat.ark", (small(f"utt-{number}") for number in range(30)))
    return tmp_path


def messages_of(err: str) -> list[str]:
    return err.splitlines()


# A single message for each cause


def test_a_wrong_symbol_table_stops_the_run_with_a_single_message(bed: Path, ninja) -> None:
    for verb in ("best", "prune"):
        code, out, err = ninja(verb, "lat.ark", "--words", "wrong.txt", "-o", "out")
        assert (code, out, len(messages_of(err))) == (1, "", 1)
        assert "word id 3 is not in the symbol table; check that it is the right table" in err
        assert not Path("out").exists()


def test_a_wrong_symbol_table_is_raised_by_read(bed: Path) -> None:
    failures: list[NinjaError] = []
    with pytest.raises(TableError, match="word id 3 is not in the symbol table") as caught:
        list(package.read("lat.ark", words="wrong.txt", on_error=failures.append))
    assert caught.value.of_run
    assert not failures


def test_failures_of_a_missing_archive_are_counted(bed: Path, ninja) -> None:
    Path("lat.scp").write_text("".join(f"utt-{number} gone.ark:{number}\n" for number in range(30)))
    code, out, err = ninja("best", "scp:lat.scp", "--words", "words.txt")
    assert (code, out) == (1, "")
    first = "gone.ark, key 'utt-0': cannot be read: No such file or directory"
    assert messages_of(err)[:2] == [f"ninja: failed: {first}", f"ninja: failed: 29 more like {first}"]
    assert len(messages_of(err)) == 3


def test_three_similar_failures_are_printed_and_the_others_counted(bed: Path, ninja) -> None:
    entries = "".join(f"utt-{number} gone.{number}.ark\n" for number in range(30))
    Path("lat.scp").write_text(f"{entries}utt-3 lat.ark:6\n")
    code, out, err = ninja("best", "scp:lat.scp", "--words", "words.txt")
    assert (code, out) == (1, "utt-3 a c\n")
    assert sum(line.startswith("ninja: failed: gone.") for line in messages_of(err)) == 3
    assert sum(line.startswith("ninja: failed: 27 more like gone.0.ark, key 'utt-0'") for line in messages_of(err)) == 1


def test_counts_of_failures_contain_option_names(bed: Path, ninja) -> None:
    zero = np.zeros(4, np.float32)
    epsilons = Lattice.from_arrays("", [0, 1, 2, 3, 4, 4], [1, 2, 3, 4], [0, 0, 0, 1], zero, zero, [np.inf] * 4 + [0])
    write_all("loops.ark", (epsilons.replace(key=f"utt-{number}") for number in range(9)))
    code, _, err = ninja("determinize-pruned", "loops.ark", "--max-loop", "1", "-o", "o.ark")
    assert code == 1
    assert "6 more like key 'utt-0'" in err
    assert "raise --max-loop" in err
    assert "max_loop" not in err


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_lmrescore_refuses_a_model_of_another_kind_before_reading(bed: Path, ninja, jobs: str) -> None:
    options = ["--words", "words.txt", "--lm", "words.txt", "--jobs", jobs, "-o", "o.ark"]
    code, _, err = ninja("lmrescore", "lat.ark", *options)
    assert code == 1
    assert len(messages_of(err)) == 1
    assert not Path("o.ark").exists()


def test_a_log_raises_errors_that_apply_to_the_whole_run() -> None:
    failures: list[NinjaError] = []
    log = Log(on_error=failures.append)
    log.fail(LatticeError("cyclic"), "utt")
    assert [failure.key for failure in failures] == ["utt"]
    for error in (OptionError("beam is -1"), TableError("word id 3")):
        with pytest.raises(type(error)):
            log.fail(error, "utt")
    assert len(log.failures) == 1


def test_a_log_stores_repeated_notes_once() -> None:
    notes: list[str] = []
    log = Log(on_note=notes.append)
    for note in ("one", "two", "one"):
        log.note(note)
    assert notes == log.notes == ["one", "two"]


# Suggestions and names in messages


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["resocre", "lat.ark"], "no such command 'resocre'; did you mean rescore"),
        (["lattice-prune", "lat.ark"], "no such command 'lattice-prune'; did you mean prune?"),
        (["sclite"], "no such command 'sclite'; did you mean score?"),
        (["zzz"], "no such command 'zzz'; see ninja --help"),
        (["best", "lat.ark", "--acwt", "0.1"], "no such option '--acwt'; did you mean --acoustic-scale?"),
        (["best", "lat.ark", "--acoustic-scael", "0.1"], "did you mean --acoustic-scale"),
        (["nbest", "lat.ark", "--nbest", "5"], "no such option '--nbest'; did you mean --n?"),
        (["prune", "lat.ark", "--nj", "5"], "no such option '--nj'; did you mean --jobs?"),
        (["shard-script", "--slurm", "3", "prune", "lat.ark", "--beem", "5"], "'--beem'; did you mean --beam?"),
        (["prune", "lat.ark", "--zzz", "5"], "no such option '--zzz'; see --help"),
    ],
)
def test_unknown_commands_and_options_get_suggestions(bed, ninja, arguments, message) -> None:
    code, _, err = ninja(*arguments)
    assert code == 2
    assert message in err


def test_messages_contain_option_names_of_the_command_line(bed: Path, ninja) -> None:
    code, _, err = ninja("best", "lat.ark", "--words", "words.txt", "--acoustic-scale", "nan")
    assert (code, err) == (2, "ninja: error: --acoustic-scale is nan, but must be finite\n")
    code, _, err = ninja("prune", "lat.ark", "--beam", "-1")
    assert (code, err) == (2, "ninja: error: --beam is -1.0, but must be 0 or more\n")
    with pytest.raises(OptionError, match=r"^beam is -1, but must be 0 or more"):
        package.graph.prune(small("a"), -1)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"utt-1 \0B\xd6\xfd\xb2\x7e\6\0\0\0vector", "a Kaldi archive of lattices or other FSTs"),
        (b"utt-1 \xd6\xfd\xb2\x7e\6\0\0\0vector", "a Kaldi archive of lattices or other FSTs"),
        (gzip.compress(b"utt-1 \xd6\xfd\xb2\x7e\6\0\0\0vector"), "a Kaldi archive of lattices or other FSTs"),
        (b"utt-1 \0BFM \4\0\0\0\0", "a Kaldi archive of matrices"),
        (b"PK\x03\x04\x14\0\0\0model/data.pkl", "a PyTorch file"),
        (b"\\data\\\nngram 1=3\n", "a language model in ARPA format"),
        (b"\x80\x04\x95", "a Python pickle"),
        (b"\x89PNG\r\n\x1a\n", "a picture"),
        (b"\x93NUMPY\1\0", "a numpy array"),
    ],
)
def test_messages_name_the_kind_of_a_binary_file(bed: Path, ninja, content: bytes, kind: str) -> None:
    Path("other").write_bytes(content)
    for call in (["best", "lat.ark", "--words", "other"], ["score", "other", "lat.ark", "--words", "words.txt"]):
        code, _, err = ninja(*call)
        assert (code, len(messages_of(err))) == (1, 1)
        assert f"other: expected text, found {kind}; check the order of the arguments" in err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (WORDS.encode(), "this looks like a symbol table, not lattices; pass it with --words"),
        (
            b"u1 hello there\nu2 the cat\n",
            "this looks like transcripts, not lattices; check the order of the arguments",
        ),
        (b"\\data\\\nngram 1=3\n", "a language model in ARPA format, not lattices; use --rnnlm"),
        (b"\x89PNG\r\n\x1a\n", "this is a picture, not lattices"),
        (b"utt-1 \0BFM \4\0\0\0\0", "a Kaldi archive of matrices, not lattices; use `ninja ctc-decode`"),
    ],
)
def test_messages_name_the_kind_of_a_file_without_lattices(bed: Path, ninja, content: bytes, message: str) -> None:
    for name in ("other", "other.txt"):
        Path(name).write_bytes(content)
        code, _, err = ninja("best", name)
        assert code == 1
        assert message in err


def test_a_damaged_text_archive_is_not_reported_as_another_kind(bed: Path, ninja) -> None:
    Path("damaged.txt").write_text("u1\n0 1 1 1,2,3\n1\n\nu2\n0 1 x y\n\n")
    _, _, err = ninja("best", "damaged.txt")
    assert "this looks like" not in err


# Scales in the headers of HTK lattices

SLF = """VERSION=1.0
base=10
lmscale=14.00
wdpenalty=-1.5
N=3 L=3
I=0 t=0.00
I=1 t=0.50
I=2 t=1.00
J=0 S=0 E=1 W=a a=-1.0 l=-1.0
J=1 S=0 E=1 W=b a=-3.0 l=-0.5
J=2 S=1 E=2 W=c a=-1.0 l=-1.0
"""


def test_scales_of_headers_are_reported_once_and_used_on_request(tmp_path: Path, ninja) -> None:
    for name in ("u1.slf", "u2.slf"):
        (tmp_path / name).write_text(SLF)
    code, out, err = ninja("best", tmp_path)
    assert (code, out) == (0, "u1 a c\nu2 a c\n")
    scales = "acoustic_scale 1, lm_scale 14, word_penalty 3.45388"  # 1.5 ln 10
    message = f"ignoring the scales in the header ({scales}); set --lm-scale header to use them"
    assert err == f"ninja: {tmp_path}/u1.slf: {message}\n"
    code, out, err = ninja("best", tmp_path, "--lm-scale", "header")
    assert (code, out) == (0, "u1 b c\nu2 b c\n")
    assert err == f"ninja: scales from the header of {tmp_path}/u1.slf: {scales}\n"
    assert ninja("best", tmp_path, "--lm-scale", "14", "--word-penalty", "0") == (0, "u1 b c\nu2 b c\n", "")
    _, _, err = ninja("best", tmp_path, "--lm-scale", "header", "--word-penalty", "0")
    assert err.endswith("acoustic_scale 1, lm_scale 14\n")


def test_scales_of_headers_apply_to_file_lists_and_score_grids(bed: Path, ninja) -> None:
    Path("u1.slf").write_text(SLF)
    Path("u2.slf").write_text(SLF)
    Path("lattices.list").write_text("u1.slf\nu2.slf\n")
    code, out, err = ninja("best", "lattices.list", "--lm-scale", "header")
    assert (code, out) == (0, "u1 b c\nu2 b c\n"), err
    Path("ref").write_text("u1 b c\nu2 b c\n")
    code, out, err = ninja("score", "ref", "lattices.list", "--lm-scale", "header", "--word-penalty", "0,1")
    assert (code, out.count("0.00")) == (0, 5), err
    assert "scales from the header of u1.slf: acoustic_scale 1, lm_scale 14\n" in err


def test_headers_with_different_or_missing_scales_are_refused(bed: Path, ninja) -> None:
    Path("slf").mkdir()
    Path("slf/u1.slf").write_text(SLF)
    Path("slf/u2.slf").write_text(SLF.replace("14", "12"))
    code, _, err = ninja("best", "slf", "--lm-scale", "header")
    assert (code, len(messages_of(err))) == (2, 1)
    assert "the headers of slf/u1.slf and slf/u2.slf have different scales; specify numbers as scales" in err
    code, _, err = ninja("best", "lat.ark", "--words", "words.txt", "--lm-scale", "header")
    assert (code, len(messages_of(err))) == (2, 1)
    assert "--lm-scale header requires files of HTK lattices (SLF), but the sources contain none" in err


@pytest.mark.parametrize(
    ("header", "scales"),
    [
        ("VERSION=1.0\nlmscale=14 acscale=0.5\nwdpenalty=2\nN=1 L=0\n", Scales(0.5, 14, -2)),
        ("VERSION=1.0\nbase=0\nwdpenalty=2\nI=0\nlmscale=3\n", Scales(word_penalty=-2)),
        ("VERSION=1.0\n# lmscale=3\nN=1 L=0\nJ=0 l=3\n", Scales()),
        ("VERSION=1.0\nlmscale=x\nN=1 L=0\n", Scales()),
        ("VERSION=1.0\nlmscale=nan\nN=1 L=0\n", Scales()),
    ],
)
def test_header_scales_reads_the_scales_of_slf(header: str, scales: Scales) -> None:
    assert header_scales(header.encode()) == scales


# Words in another case, and scores that are not log-probabilities


def test_coverage_counts_words_that_the_model_has_in_another_case() -> None:
    words = SymbolTable([("<eps>", 0), ("A", 1), ("B", 2), ("zzz", 3)])
    lattice = small("u", words).replace(word=np.array([1, 3], np.int32))
    lm = FakeLM(extra_words=("a", "b"))
    coverage = WordMap(words, lm).coverage(lattice)
    assert coverage.in_case == 1
    assert "; map_words case would find 1 of them" in str(coverage)
    assert WordMap(words, lm, map_words=("case",)).coverage(lattice).in_case == 0


def test_ctc_scores_that_are_not_log_probabilities_suggest_a_scale() -> None:
    for matrix, kind in (([[2.0, 3.0, -1.0]], "logit"), ([[0.2, 0.3, 0.5]], "prob")):
        message = rf"--scale {kind}, or in Python ninja\.decoding\.log_probabilities\(matrix, '{kind}'\)"
        with pytest.raises(ModelError, match=message):
            log_probabilities(matrix)
        log_probabilities(matrix, kind)


def test_with_option_names_replaces_python_names_by_options() -> None:
    @click.command()
    @click.option("--lm-weight")
    @click.option("--allow-pipes")
    @click.option("--words-out")
    @click.option("--beam")
    def command() -> None:
        pass

    for message, expected in {
        "lm_weight is 2": "--lm-weight is 2",
        "beam is 2": "--beam is 2",
        "the beam is 2": "the beam is 2",
        "raise lm_weight to go on": "raise --lm-weight to go on",
        "use --allow-pipes (allow_pipes=) to run other commands": "use --allow-pipes to run other commands",
        "give --words-out FILE (words_out=), or --words (words=)": "give --words-out FILE, or --words",
        "a/lm_weight.txt: no such file": "a/lm_weight.txt: no such file",
        "lm_weight.txt: no such file": "lm_weight.txt: no such file",
        "'lm_weight' is not a word": "'lm_weight' is not a word",
    }.items():
        assert with_option_names(message, command) == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "prune lat.ark -o p1.gz --beam 8 --output-file p2.gz",
            "-o is given twice: p1.gz and p2.gz; to write one output per input, use -o folder/ or -o out/lat.JOB.gz",
        ),
        ("best lat.ark --words words.txt -o a -o b -o c", "-o is given 3 times: a and b and c; specify it once"),
        (
            "best lat.ark --inv-acoustic-scale 4 --lmwt=3",
            "--inv-acoustic-scale is given twice: 4 and 3; specify it once",
        ),
        ("prune lat.ark --jobs 1 --jobs 2", "--jobs is given twice: 1 and 2; specify it once"),
    ],
)
def test_an_option_with_a_single_value_must_not_be_repeated(ninja, bed, line, message):
    assert ninja(*line.split()) == (2, "", f"ninja: error: {message}\n")
    assert sorted(path.name for path in bed.iterdir()) == ["lat.ark", "words.txt", "wrong.txt"]


def test_multiple_options_flags_and_options_of_a_file_may_be_repeated(ninja, bed):
    Path("text").write_text("a x y\n")
    Path("scales.toml").write_text("acoustic_scale = 0.1\n")
    assert ninja("score", "text", "text", "--ignore", "x", "--ignore", "y")[0] == 0
    line = ["prune", "lat.ark", "-o", "out.gz", "--config", "scales.toml", "--acoustic-scale", "0.2"]
    assert ninja(*line, "--resume", "--resume")[0] == 0


def test_score_explains_the_order_of_its_arguments(ninja, bed):
    (bed / "decode").mkdir()
    Path("text").write_text("a x y\n")
    message = "decode is a folder, but REFERENCE must be a text file, followed by SOURCE"
    for options in ([], ["--words", "words.txt"]):
        assert ninja("score", "decode", "text", *options) == (2, "", f"ninja: error: {message}\n")


@pytest.mark.parametrize("line", ["best {}", "rescore {} --words words.txt -o x.gz", "prune scp:{} -o x.gz", "info {}"])
def test_a_missing_source_is_reported_once(ninja, bed, line):
    code, _, errors = ninja(*line.format("exp/decod").split())
    assert (code, errors) == (1, "ninja: error: exp/decod: cannot be read: No such file or directory\n")
    assert ninja("prune", "lat.ark", "exp/decod", "-o", "x.gz")[0] == 1  # the other source is read
    assert len(list(package.keys("x.gz"))) == 30


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nbest lat.ark --n 9223372036854775808", "--n is 9223372036854775808, but must be at most 92233720"),
        ("expand-ngram lat.ark --n 4294967297", "4294967297 is not in the range 1<=x<=2147483647"),
        ("prune lat.ark --jobs 9999999999", "9999999999 is not in the range 1<=x<=4096"),
        (
            "context lat.ark --words words.txt --entities names.txt --max-tokens 2147483648",
            "--max-tokens is 2147483648, but must be at most 2147483647",
        ),
    ],
)
def test_integers_that_are_too_large_are_refused(ninja, bed, line, message):
    Path("names.txt").write_text("a b\n")
    code, _, errors = ninja(*line.split())
    assert (code, message in errors) == (2, True), errors


@pytest.mark.parametrize(
    ("line", "parameter"),
    [
        ("rescore lat.ark --words words.txt --rnnlm - -o x.ark", "'--rnnlm'"),
        ("lmrescore lat.ark --words words.txt --lm - -o x.ark", "'--lm'"),
        ("context lat.ark --words words.txt --entities words.txt --class-lm - -o x.ark", "'--class-lm'"),
        ("best lat.ark --words words.txt --json x.json --confidence x --confidence-lm -", "'--confidence-lm'"),
        ("score words.txt words.txt --filter -", "'--filter'"),
        ("lm info -", "'MODEL'"),
        ("train - -o x.pt", "'TEXT'"),
    ],
)
def test_standard_input_is_refused_for_files_that_are_opened_by_name(ninja, bed, line, parameter):
    code, _, errors = ninja(*line.split())
    assert (code, f"Invalid value for {parameter}: standard input cannot be read here; specify a file" in errors) == (
        2,
        True,
    ), errors


def test_config_reads_standard_input(ninja, bed, monkeypatch):
    Path("scales.toml").write_text("acoustic_scale = 0.5\n")
    expected = ninja("best", "lat.ark", "--config", "scales.toml")
    assert expected != ninja("best", "lat.ark")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"acoustic_scale = 0.5\n")))
    assert ninja("best", "lat.ark", "--config", "-") == expected
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"acoustic_scale = 0.5\n")))
    code, _, errors = ninja("best", "-", "--config", "-")
    assert (code, "only one of the inputs can be standard input (-)" in errors) == (2, True)


@pytest.mark.parametrize(
    ("function", "arguments", "advice"),
    [
        ("prune.write", ["prune", "lat.ark", "-o", "x.ark"], "; use fewer --jobs or prune the lattices first"),
        ("train.train_ngram", ["train", "ngram", "text", "-o", "x.arpa"], ""),
    ],
)
def test_advice_on_memory_names_only_options_of_the_command(ninja, bed, monkeypatch, function, arguments, advice):
    (bed / "text").write_text("a b\n")

    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr(f"ninja.cli.{function}", fail)
    assert ninja(*arguments) == (1, "", f"ninja: error: out of memory{advice}\n")
