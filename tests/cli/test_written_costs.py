"""Commands combine costs with their scales for formats with one cost; unknown words affect single lattices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import pytest
from lattice_files import write_all

import ninja as package
from ninja.graph import best_path, equivalent, from_arcs, scale
from ninja.io.word_tables import is_one_field
from ninja.lattice.symbols import SymbolTable

WORDS = SymbolTable([("<eps>", 0), ("good", 1), ("bad", 2)], "words.txt")
# The best word is "good" with an acoustic scale of 0.1, and "bad" with 1.
LATTICE = from_arcs(
    "u", [0, 0], [1, 1], [1, 2], [1.0, 3.0], [10.0, 4.0], finals={1: 0.5}, labels=[[3, 3], [3, 3]]
).with_words(WORDS)
ARPA = "\\data\\\nngram 1=5\n\n\\1-grams:\n-1 <unk>\n-99 <s>\n-0.5 </s>\n-0.5 good\n-0.5 bad\n\n\\end\\\n"
SLF = b"VERSION=1.0\nN=3 L=2\nI=0\nI=1\nI=2\nJ=0 S=0 E=1 W=%b a=-1 l=-2\nJ=1 S=1 E=2 W=world a=-1 l=-2\n"

VERBS = {
    "prune": "prune --beam inf",
    "determinize-pruned": "determinize-pruned --beam 100",
    "union": "union other.ark --determinize=false",
    "limit-depth": "limit-depth --max-arcs-per-frame 9",
    "rescore": "rescore --rnnlm lm.arpa --lm-weight 0 --beam inf --prune-beam inf",
    "context": "context --entities none.jsonl",
}
ONE_COST = ("openfst", "fst-text:labels=words", "fst-ark", "pfsg", "plf")
LISTS = ("json", "srilm", "srilm:variant=NBestList1.0", "nemo", "espnet", "nbest-kaldi")
SINGLE_SCORE = ("srilm:variant=NBestList1.0", "nemo", "espnet")


@pytest.fixture
def cwd(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_all("lat.ark", [LATTICE])
    write_all("other.ark", [LATTICE.with_key("another")])
    (tmp_path / "words.txt").write_text("".join(f"{word} {number}\n" for word, number in WORDS))
    (tmp_path / "lm.arpa").write_text(ARPA)
    (tmp_path / "none.jsonl").write_text('{"utt": "another", "entities": [{"text": "good", "class": ""}]}\n')
    return tmp_path


def run(ninja, verb, *arguments):
    """Run a command on the archive; return stderr."""
    name, *options = verb.split()
    code, _, errors = ninja(name, "lat.ark", *options, *arguments, "--words", "words.txt")
    assert code == 0, errors
    return errors


def read(path, to):
    """Return the lattice that was written."""
    form = {"nemo": "nemo:beam=2"}.get(to)
    ((_, lattice),) = package.read(str(path), words="words.txt", format=form)
    return lattice


def best_words(lattice):
    return lattice.words.spell(best_path(lattice).words)


def with_option(to, option):
    return f"{to}{',' if ':' in to else ':'}{option}"


@pytest.mark.parametrize("to", [*ONE_COST, *SINGLE_SCORE])
@pytest.mark.parametrize("verb", VERBS)
def test_costs_are_combined_with_the_format_scale_or_else_the_command_scale(ninja, cwd, verb, to):
    run(ninja, VERBS[verb], "--acoustic-scale", "0.1", "-o", "expected.ark")
    expected = read("expected.ark", None)
    for option, factor in ((None, 0.1), ("acoustic_scale=0.5", 0.5), ("lm_scale=1", 1.0)):
        if option == "lm_scale=1" and to in ONE_COST:
            continue
        target = cwd / f"out{factor}"
        output = ("--to", with_option(to, option) if option else to, "-o", target)
        errors = run(ninja, VERBS[verb], "--acoustic-scale", "0.1", *output)
        scaled = scale(expected, acoustic_scale=factor)
        result = read(target, to.partition(":")[0])
        assert equivalent(scaled, result, 0.06, costs="total")
        assert best_words(result) == best_words(scaled)
        use = "costs are combined as" if to in ONE_COST else "hypotheses are sorted by"
        form = to.partition(":")[0]
        note = f"ninja: {use} graph + 0.1 acoustic; use --to {form}:acoustic_scale=… to change the scale\n"
        assert (note in errors) == (option is None)
        assert (" + 0.1 acoustic" in errors) == (option is None)


@pytest.mark.parametrize("to", LISTS)
def test_lists_contain_the_best_hypotheses_of_the_command_scales(ninja, cwd, to):
    for scales, word in ((("0.1",), "good"), (("1",), "bad"), (("1", "--lm-scale", "4"), "good")):
        run(ninja, "prune --beam inf", "--acoustic-scale", *scales, "--to", with_option(to, "n=1"), "-o", f"out{word}")
        form = {"nemo": "nemo:beam=1"}.get(to)
        ((_, result),) = package.read(f"out{word}", words="words.txt", format=form)
        assert best_words(result) == [word]
        if to == "espnet":
            break


def test_json_lists_are_sorted_and_keep_both_costs(ninja, cwd):
    for options, texts in (
        ((), ["good", "bad"]),
        (("--to", "json:acoustic_scale=1"), ["bad", "good"]),
        (("--to", "json:n=1"), ["good"]),
    ):
        errors = run(ninja, VERBS["rescore"], *options, "-o", "out.jsonl")  # its default scale is 0.1
        assert ("sorted by graph + 0.1 acoustic" in errors) == ("acoustic_scale" not in str(options))
        hypotheses = json.loads((cwd / "out.jsonl").read_text())["nbest"]
        assert [hypothesis["text"] for hypothesis in hypotheses] == texts
        assert {hypothesis["text"]: hypothesis["am_score"] for hypothesis in hypotheses}["good"] == -10.0


def test_mesh_posteriors_use_the_scales_of_the_command(ninja, cwd):
    meshes = {}
    for name, options in {
        "verb": ("--acoustic-scale", "0.1", "--lm-scale", "0.5"),
        "inverse": ("--inv-acoustic-scale", "10", "--lm-scale", "0.5"),
        "format": ("--acoustic-scale", "7", "--to", "mesh:acoustic_scale=0.1,lm_scale=0.5"),
        "other": ("--acoustic-scale", "1"),
    }.items():
        to = () if "--to" in options else ("--to", "mesh")
        errors = run(ninja, "prune --beam inf", *options, *to, "-o", f"{name}.mesh")
        assert ("costs are combined as 0.5 graph + 0.1 acoustic" in errors) == (name in ("verb", "inverse"))
        meshes[name] = (cwd / f"{name}.mesh").read_text()
    assert meshes["verb"] == meshes["inverse"] == meshes["format"] != meshes["other"]


def test_formats_without_a_graph_scale_use_the_ratio_of_both_scales(ninja, cwd):
    options = ("--acoustic-scale", "0.1", "--lm-scale", "0.5")
    errors = run(ninja, "prune --beam inf", *options, "-o", "out.fst")
    assert "costs are combined as graph + 0.2 acoustic" in errors
    assert equivalent(scale(LATTICE, acoustic_scale=0.2), read("out.fst", None), costs="total")
    errors = run(ninja, "prune --beam inf", "--acoustic-scale", "0.1", "--lm-scale", "0", "--to", "pfsg", "-o", "x")
    assert "costs are combined as graph + 0.1 acoustic" in errors


def test_lists_are_sorted_with_the_word_penalty(ninja, cwd):
    errors = run(ninja, "prune --beam inf", "--word-penalty", "-2", "--acoustic-scale", "0.1", "-o", "out.jsonl")
    assert "sorted by graph + 0.1 acoustic + -2 per word; use" in errors


@pytest.mark.parametrize(
    ("verb", "factor"),
    [
        ("convert", 1.0),
        ("scale --acoustic-scale 0.1", 0.1),
        ("copy", 1.0),
        ("lmrescore --lm lm.arpa --lm-scale 0", 1.0),
    ],
)
def test_commands_without_output_scales_add_unscaled_costs(ninja, cwd, verb, factor):
    errors = run(ninja, verb, "-o", "out.fst")
    assert "costs are combined" not in errors
    assert "separate graph and acoustic costs" in errors
    assert equivalent(scale(LATTICE, acoustic_scale=factor), read("out.fst", None), 1e-3, costs="total")


def test_combine_writes_scaled_costs(ninja, cwd):
    run(ninja, "combine other.ark", "--acoustic-scale", "0.1", "-o", "out.ark")
    errors = run(ninja, "combine other.ark", "--acoustic-scale", "0.1", "-o", "out.fst")
    assert "costs are combined" not in errors
    assert equivalent(read("out.ark", None), read("out.fst", None), 1e-3, costs="total")


@pytest.mark.parametrize("to", ["openfst:costs=graph", "openfst:costs=acoustic", "plf:scores=both", "slf", "native"])
def test_separate_costs_are_not_scaled(ninja, cwd, to):
    errors = run(ninja, "prune --beam inf", "--acoustic-scale", "0.1", "--to", to, "-o", "out")
    assert "costs are combined" not in errors
    costs = to.partition("=")[2]
    form = "plf:graph=0,acoustic=1" if to == "plf:scores=both" else None
    ((_, result),) = package.read("out", words="words.txt", format=form)
    if costs in ("graph", "acoustic"):
        assert result.graph.tolist() == getattr(LATTICE, costs).tolist()
    else:
        assert equivalent(LATTICE, result, 1e-3, costs="both")


def test_a_scale_and_its_inverse_are_refused(ninja, cwd):
    code, _, errors = ninja("prune", "lat.ark", "--acoustic-scale", "2", "--inv-acoustic-scale", "2", "-o", "x.fst")
    assert (code, "cannot be used with --inv-acoustic-scale" in errors) == (2, True)


def test_single_score_lists_without_graph_costs_report_lost_acoustic_costs(ninja, cwd):
    write_all("plain.ark", [scale(LATTICE, graph_scale=0.0)])
    arguments = ["prune", "plain.ark", "--words", "words.txt", "--to", "nemo", "-o", "x.tsv"]
    assert "unscaled" in ninja(*arguments, "--acoustic-scale", "0.1")[2]
    assert "unscaled" not in ninja(*arguments)[2]
    assert (
        "lattice loses: acoustic costs, alignments" in ninja(*arguments, "--acoustic-scale", "0", "--lm-scale", "0")[2]
    )


@pytest.fixture
def slf_files(cwd):
    (cwd / "slf").mkdir()
    (cwd / "slf" / "a.slf").write_bytes(SLF % b'"world wide"')
    (cwd / "slf" / "b.slf").write_bytes(SLF % b"hello")
    return cwd


REASON = "the word 'world wide' contains whitespace, so a symbol table cannot store it; "


def test_a_word_with_whitespace_fails_its_lattice_if_a_table_is_written(ninja, slf_files):
    table = "<eps> 0\nworld 2\nhello 3\n"
    for options in (["-o", "x.ark"], ["--to", "openfst", "-o", "fsts"], ["--to", "openfst", "-o", "fsts"]):
        code, _, errors = ninja("convert", "slf", *options)
        assert code == 1
        assert f"failed: key 'a': {REASON}use a format that stores words as text\n" in errors
        assert "1 lattice" in errors
    assert [key for key, _ in package.read("x.ark")] == ["b"]
    assert (slf_files / "x.ark.words.txt").read_text() == (slf_files / "fsts" / "words.txt").read_text() == table
    code, _, errors = ninja("convert", "slf", "--to", "slf", "-o", "again", "--words-out", "names")
    assert (code, f"key 'a': {REASON}omit --words-out\n" in errors) == (1, True)
    assert (slf_files / "names").read_text() == table
    code, _, errors = ninja("convert", "slf", "-o", "y.ark", "--on-error", "raise")
    assert (code, (slf_files / "y.ark").exists()) == (1, False)
    (slf_files / "b.plf").write_text("((('a b',1.0,1),),)\n((('x',1.0,1),),)\n")
    code, _, errors = ninja("convert", "b.plf", "-o", "b.ark", "--jobs", "2")
    assert (code, "failed: key 'b-1': the word 'a b' contains whitespace" in errors) == (1, True)
    assert [key for key, _ in package.read("b.ark")] == ["b-2"]


def test_an_empty_word_fails_its_lattice_if_a_table_is_written(ninja, cwd):
    (cwd / "slf").mkdir()
    (cwd / "slf" / "a.slf").write_bytes(SLF % b'""')
    (cwd / "slf" / "b.slf").write_bytes(SLF % b"hello")
    code, _, errors = ninja("convert", "slf", "-o", "x.ark")
    assert (code, "failed: key 'a': the word '' is empty, so a symbol table cannot store it" in errors) == (1, True)
    assert [key for key, _ in package.read("x.ark")] == ["b"]


def test_a_word_with_whitespace_is_written_without_a_table(ninja, slf_files):
    assert ninja("convert", "slf", "-o", "x.arrow")[0] == 0
    assert ninja("convert", "slf", "--to", "slf", "-o", "again")[0] == 0
    assert ninja("convert", "slf", "-o", os.devnull)[0] == 0
    for source in ("x.arrow", "again", "slf"):
        assert ninja("best", source)[1] == "a world wide world\nb hello world\n"


@pytest.mark.parametrize(
    ("word", "fits"), [("a", True), ("", False), ("a b", False), ("a\tb", False), ("\n", False), ("a\u00a0b", True)]
)
def test_only_ascii_whitespace_separates_fields_of_a_symbol_table(cwd, word, fits):
    assert is_one_field(word) == fits
    (cwd / "table").write_text(f"<eps> 0\n{word} 1\n")
    if fits:
        assert SymbolTable.read("table").word(1) == word


def test_standard_output_has_no_symbol_table_file_without_words_out(ninja, cwd):
    (cwd / "lat.ark.words.txt").write_text((cwd / "words.txt").read_text())
    before = {*os.listdir()}
    code, output, errors = ninja("convert", "lat.ark", "--words", "lat.ark.words.txt", "--to", "text")
    assert (code, output.splitlines()[0].strip()) == (0, "u")
    assert {*os.listdir()} == before
    assert "wrote the symbol table" not in errors
    words_out = ["--words-out", "names"]
    assert ninja("convert", "lat.ark", "--words", "lat.ark.words.txt", "--to", "text", *words_out)[0] == 0
    assert {*os.listdir()} - before == {"names"}


def test_no_symbol_table_is_written_next_to_a_pipe(ninja, cwd):
    os.mkfifo("pipe")
    (cwd / "u.slf").write_bytes(SLF % b"hello")
    contents = []

    def read_pipe():
        with open("pipe", "rb") as pipe:
            contents.append(pipe.read())

    for options, code in ((["--words-out", "names"], 0), ([], 2)):
        reader = threading.Thread(target=read_pipe, daemon=True)
        reader.start()
        exit_code, _, errors = ninja("convert", "u.slf", "-o", "pipe", *options)
        reader.join(10)
        assert not reader.is_alive()
        assert exit_code == code, errors
        assert not (cwd / "pipe.words.txt").exists()
    assert b"compactlattice" in contents[0]
    assert "pipe would contain word ids without a symbol table; use --words" in errors


@pytest.mark.parametrize("to", ["slf", "pfsg", "json", "mesh", "fst-text:labels=words"])
def test_formats_with_words_use_the_table_next_to_the_archive(ninja, cwd, to):
    (cwd / "words.txt").rename("lat.ark.words.txt")
    code, _, errors = ninja("convert", "lat.ark", "--to", to, "-o", "out")
    assert (code, "ninja: using the symbol table lat.ark.words.txt\n" in errors) == (0, True)
    ((_, lattice),) = package.read("out")
    assert {word for word, _ in lattice.words} >= {"good", "bad"}
    (cwd / "lat.ark.words.txt").rename("elsewhere")
    code, _, errors = ninja("convert", "lat.ark", "--to", to, "-o", "none")
    assert code == 2
    assert (
        "ninja: error: lat.ark: found no words.txt or words.txt.gz next to it; set the symbol table with --words"
        in errors
    )
    assert not os.path.isfile("none")


@pytest.mark.parametrize("to", ["native", "openfst", "text", "fst-ark"])
def test_formats_of_ids_need_no_symbol_table(ninja, cwd, to):
    code, _, errors = ninja("convert", "lat.ark", "--to", to, "-o", "out")
    assert (code, "using the symbol table" in errors) == (0, False)


def test_split_uses_and_standard_input_requires_a_symbol_table(ninja, cwd, monkeypatch):
    code, _, errors = ninja("split", "lat.ark", "--nj", "1", "--to", "slf", "-o", "part.JOB")
    assert (code, "using the symbol table words.txt" in errors) == (0, True)
    assert ninja("best", "part.1")[1] == "u bad\n"
    (cwd / "words.txt").unlink()
    with open("lat.ark") as file:
        monkeypatch.setattr("sys.stdin", file)
        code, _, errors = ninja("convert", "-", "--to", "slf", "-o", "out")
    assert (code, "standard input: found no words.txt or words.txt.gz next to it" in errors) == (2, True)


def test_projected_labels_are_refused_by_formats_with_words(ninja, cwd):
    code, _, errors = ninja("project", "lat.ark", "--project-output=false", "--to", "slf", "-o", "out")
    assert (code, "the lattice contains only word ids" in errors) == (1, True)


def test_lattices_of_epsilons_need_no_symbol_table(ninja, cwd):
    (cwd / "words.txt").unlink()
    write_all("silent.ark", [from_arcs("u", [0], [1], [0], [1.0], finals={1: 0.0})])
    assert ninja("convert", "silent.ark", "--to", "slf", "-o", "out")[0] == 0


def test_dev_stdout_is_a_valid_output(cwd):
    command = [sys.executable, "-m", "ninja", "convert", "lat.ark", "-o"]
    expected = subprocess.run([*command, "-"], capture_output=True, check=True).stdout
    assert expected == subprocess.run([*command, "/dev/stdout"], capture_output=True, check=True).stdout != b""


def test_rescored_lists_are_sorted_with_the_scale_of_lists(ninja, tmp_path):
    hypotheses = [{"text": "the cat sat", "score": -9.0}, {"text": "cat the sat the cat", "score": -1.0}]
    (tmp_path / "list.jsonl").write_text(json.dumps({"key": "a", "nbest": hypotheses}) + "\n")
    output = tmp_path / "rescored.jsonl"
    options = ("--rnnlm", "english-ngram", "--lm-weight", "0.2", "-o", output)
    code, _, notes = ninja("rescore", tmp_path / "list.jsonl", *options)
    assert code == 0
    assert "sorted by graph + 1 acoustic" in notes
    text = json.loads(output.read_text())["nbest"][0]["text"]
    assert ninja("best", output)[1] == f"a {text}\n"
