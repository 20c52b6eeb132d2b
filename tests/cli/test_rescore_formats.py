"""``ninja rescore`` between all formats, with folders, patterns, lists, script files and standard input."""

import gzip
import io
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from lattice_files import write_all

import ninja as package
from ninja import graph
from ninja.cli.main import main
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

WORDS = SymbolTable.from_words(["<eps>", "one", "two", "three", "café"])
ARPA = """\\data\\
ngram 1=7
ngram 2=3

\\1-grams:
-1.0	<unk>
-99	<s>	-0.3
-1.2	</s>
-0.7	one	-0.2
-0.9	two	-0.1
-1.1	three
-1.3	café	-0.2

\\2-grams:
-0.2	<s> two
-0.3	two one
-0.4	one café

\\end\\
"""
PATHS = 8  # of each lattice
ACOUSTIC_SCALE = 0.1  # of rescoring, by which costs are joined in formats of one
# Where the formats that lattices are read from come from: --to that writes them, the file, --from where it is needed.
READ = {
    "kaldi": ("binary", "lat.ark", None),
    "kaldi, text": ("text", "lat.txt", None),
    "slf": ("slf", "slf", None),
    "slf, base 10": ("slf:base=10", "slf10", None),
    "sphinx": ("sphinx", "sphinx", None),
    "pfsg": ("pfsg", "lat.pfsg", None),
    "plf": ("plf:scores=both", "lat.plf", "plf:graph=0,acoustic=1"),
    "mesh": ("mesh", "mesh", None),
    "openfst": ("openfst", "openfst", None),
    "fst-text": ("fst-text", "fst-text", None),
    "fst-text, words": ("fst-text:labels=words", "fst-words", None),
    "fst-ark": ("fst-ark", "lat.fsts", None),
    "fst-ark, text": ("fst-ark:text=yes", "lat.fsts.txt", None),
    "named-text": (None, "named.txt", None),
    "k2": ("k2", "lat.pt", None),
    "native": ("native", "lat.arrow", None),
    "json": (f"json:n={PATHS}", "lat.jsonl", None),
    "srilm": (f"srilm:n={PATHS}", "srilm", None),
    "srilm, 2.0": (f"srilm:n={PATHS},variant=NBestList2.0", "srilm2", None),
    "nemo": (f"nemo:n={PATHS},score_as=graph", "lat.tsv", f"nemo:beam={PATHS},score_as=graph"),
    "espnet": (f"espnet:n={PATHS}", "espnet", "espnet:score_as=graph"),
    "nbest-kaldi": (f"nbest-kaldi:n={PATHS}", "linear.ark", "nbest-kaldi"),
    "ctm": (None, "lat.ctm", None),
}
WRITTEN = ["binary", "text", "slf", "sphinx", "pfsg", "plf", "mesh", "openfst", "fst-text", "fst-ark", "k2", "native"]
WRITTEN += ["json", "srilm", "srilm:variant=NBestList1.0", f"nemo:n={PATHS}", "espnet", "nbest-kaldi"]
SPELLED = ["slf", "sphinx", "pfsg", "plf", "mesh", "fst-text, words", "named-text", "native", "json", "srilm", "nemo"]
SPELLED += ["espnet", "ctm"]
ONE_COST = ("pfsg", "plf", "openfst", "fst-text", "fst-ark", "srilm:variant", "nemo", "espnet")
UNKEYED = ("plf", "nemo")  # of which lattices are numbered


def lattice(key, third):
    """Create a lattice of three words, each with an alternative."""
    return Lattice.from_arrays(
        key,
        [0, 2, 4, 6, 6],
        [1, 1, 2, 2, 3, 3],
        [1, 2, 1, third, 4, 2],
        [1.5, 1.25, 0.5, 0.25, 0.75, 2.0],
        [3.0, 3.5, 4.0, 4.25, 5.0, 5.5],
        [np.inf, np.inf, np.inf, 0.5],
        ali_begin=[0, 2, 4, 7, 10, 12, 14],
        ali=[1, 2, 1, 2, 3, 4, 5, 3, 4, 5, 1, 1, 1, 2],
        words=WORDS,
    )


LATTICES = [lattice("a", 3), lattice("b", 2)]


def without(lattice, cost):
    """Return a lattice without its graph or its acoustic costs."""
    ends = np.where(lattice.is_final, np.float32(0), np.float32(np.inf))
    return replace(lattice, **{cost: 0 * getattr(lattice, cost), f"final_{cost}": ends})


def named(path):
    """Return a text archive with words instead of ids."""
    rows = [row.split() for row in path.read_text().splitlines()]
    return "".join(
        " ".join([*row[:2], WORDS.word(int(row[2])), *row[3:]] if len(row) == 4 else row) + "\n" for row in rows
    )


def written(folder, lattices):
    """Write lattices in every format; return the folder."""
    folder.mkdir()
    (folder / "words.txt").write_text("".join(f"{word} {number}\n" for word, number in WORDS))
    write_all(folder / "lat.ark", lattices)
    words = ["--words", str(folder / "words.txt")]
    for to, name, _ in READ.values():
        if to is not None and name != "lat.ark":
            assert main(["convert", str(folder / "lat.ark"), "--to", to, "-o", str(folder / name), *words]) == 0
    (folder / "named.txt").write_text(named(folder / "lat.txt"))
    (folder / "lat.ctm").write_text(
        "".join(f"{key} 1 {at}.5 0.5 {word}\n" for key in "ab" for at, word in enumerate(("two", "one", "café")))
    )
    return folder


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    """Create a folder with a model, and with a folder of all formats for each kind of costs."""
    folder = tmp_path_factory.mktemp("formats")
    (folder / "lm.arpa").write_text(ARPA)
    written(folder / "both", LATTICES)
    written(folder / "graph", [without(each, "acoustic") for each in LATTICES])
    written(folder / "acoustic", [without(each, "graph") for each in LATTICES])
    return folder


@pytest.fixture
def rescore(ninja, bed):
    """Rescore with the model; return the exit code and the lines of stderr."""

    def run(*arguments):
        code, output, errors = ninja("rescore", "--rnnlm", bed / "lm.arpa", *arguments)
        assert output == ""
        return code, errors.splitlines()

    return run


def arguments(folder, form):
    _, name, chosen = READ[form]
    return [folder / name, "--words", folder / "words.txt", *(["--from", chosen] if chosen else [])]


def read(path, **options):
    """Return lattices without their keys."""
    return [each for _, each in sorted(package.read(str(path), **options), key=lambda item: item[0])]


def spelled(lattice):
    return lattice.words.spell(graph.best_path(lattice).words)


@pytest.mark.parametrize("form", [form for form in READ if form not in ("mesh", "ctm")])
def test_words_and_costs_are_the_same_whichever_format_lattices_come_in(rescore, bed, tmp_path, form):
    folder = bed / ("acoustic" if form == "sphinx" else "graph")
    assert rescore(folder / "lat.ark", "-o", tmp_path / "expected.ark")[0] == 0
    code, errors = rescore(*arguments(folder, form), "-o", tmp_path / "found.ark")
    assert code == 0
    assert errors[-1].startswith("ninja: 2 lattices, ")
    assert not any("failed" in line for line in errors)
    expected = read(tmp_path / "expected.ark", words=folder / "words.txt")
    found = read(tmp_path / "found.ark", words=folder / "words.txt")
    for one, other in zip(expected, found, strict=True):
        assert one.key == other.key or form in UNKEYED
        apart = {} if "2.0" in form else {"costs": "both"}  # it has few digits, and one cost for an end
        assert graph.equivalent(one, other, 1e-3 if apart else 0.5, **apart)
        assert spelled(one) == spelled(other) == ["two", "one", "café"]


@pytest.mark.parametrize("form", [form for form in READ if form.split(",")[0] not in ("mesh", "ctm", "sphinx")])
def test_formats_of_both_costs_keep_them_apart_when_they_are_rescored(rescore, bed, tmp_path, form):
    folder = bed / "both"
    assert rescore(folder / "lat.ark", "-o", tmp_path / "expected.ark")[0] == 0
    assert rescore(*arguments(folder, form), "-o", tmp_path / "found.ark")[0] == 0
    both = form.split(",")[0] in ("kaldi", "slf", "plf", "named-text", "k2", "native", "json", "nbest-kaldi")
    for one, other in zip(read(tmp_path / "expected.ark"), read(tmp_path / "found.ark"), strict=True):
        assert graph.equivalent(one, other, 1e-3, costs="both") == (both or form == "srilm")


@pytest.mark.parametrize("to", WRITTEN)
def test_rescored_files_hold_the_rescored_lattices(rescore, bed, tmp_path, to):
    folder = bed / "both"
    assert rescore(folder / "lat.ark", "-o", tmp_path / "expected.ark")[0] == 0
    target = tmp_path / "found"
    code, errors = rescore(folder / "lat.ark", "--to", to, "-o", target)
    assert code == 0
    assert errors[-1].startswith("ninja: 2 lattices, ")
    form = to.partition(":")[0]
    options = {"nemo": f"nemo:beam={PATHS}", "nbest-kaldi": "nbest-kaldi"}
    expected = read(tmp_path / "expected.ark", words=folder / "words.txt")
    found = read(target, words=folder / "words.txt", format=options.get(form))
    for one, other in zip(expected, found, strict=True):
        assert one.key == other.key or form in UNKEYED
        if form == "mesh":
            assert {*other.word.tolist()} - {0} == {*one.word.tolist()} - {0}
        elif form == "sphinx":
            assert graph.equivalent(without(one, "graph"), other, 1e-2)
        else:
            total = to.startswith(ONE_COST)
            if total:
                one = graph.scale(one, acoustic_scale=ACOUSTIC_SCALE)
            assert graph.equivalent(one, other, 0.06 if "1.0" in to else 1e-2, costs="total" if total else "both")
            assert spelled(one) == spelled(other)


@pytest.mark.parametrize("form", READ)
def test_every_format_is_rescored_into_every_format(rescore, bed, tmp_path, form):
    folder = bed / "graph"
    beam = 1 if form in ("ctm", "mesh", "sphinx") else PATHS
    for to in WRITTEN:
        target = tmp_path / to.partition("=")[0]
        code, errors = rescore(*arguments(folder, form), "--to", f"nemo:n={beam}" if "nemo" in to else to, "-o", target)
        assert code == 0, errors
        options = {"nemo": f"nemo:beam={beam}", "nbest-kaldi": "nbest-kaldi"}
        found = read(target, words=folder / "words.txt", format=options.get(to.partition(":")[0]))
        assert len(found) == 2
        for each in found:
            words = {WORDS.word(word) for word in each.word.tolist()}
            assert words <= {*dict(WORDS)}
            if to not in ("sphinx", "mesh") and form != "mesh":
                assert spelled(each) == ["two", "one", "café"]


@pytest.mark.parametrize("form", SPELLED)
def test_spelled_words_need_no_table_and_get_one_beside_the_archive(rescore, bed, tmp_path, form):
    folder = bed / "graph"
    (source, *_) = arguments(folder, form)
    chosen = READ[form][2]
    given = ["--from", chosen] if chosen else []
    code, errors = rescore(source, *given, "-o", tmp_path / "lat.ark.gz")
    assert code == 0
    assert f"ninja: wrote the symbol table to {tmp_path / 'lat.ark.gz.words.txt'}" in errors
    code, errors = rescore(tmp_path / "lat.ark.gz", "-o", tmp_path / "slf", "--to", "slf")
    assert code == 0
    assert f"ninja: using the symbol table {tmp_path / 'lat.ark.gz.words.txt'}" in errors[:2]
    for each in read(tmp_path / "slf"):
        assert form == "mesh" or spelled(each) == ["two", "one", "café"]
    names = ["lattices.scales.toml", *(f"{key}.slf" for key in package.keys(str(tmp_path / "slf")))]
    assert sorted(os.listdir(tmp_path / "slf")) == sorted(names)
    code, errors = rescore(source, *given, "-o", tmp_path / "x.ark", "--words-out", tmp_path / "named.txt")
    assert code == 0
    assert not any("wrote the symbol table" in line for line in errors)
    assert not (tmp_path / "x.ark.words.txt").exists()
    assert SymbolTable.read(str(tmp_path / "named.txt")).id("café") is not None


def test_the_symbol_table_is_never_written_over_lattices(rescore, ninja, home):
    before = (home / "in" / "a.slf").read_bytes()
    read = "./in/../in/a.slf: in/a.slf is an input and would be overwritten; use another name for the output"
    for table, message in (("out.ark", "two outputs would be written to this file"), ("./in/../in/a.slf", read)):
        code, errors = rescore("in/a.slf", "-o", "out.ark", "--words-out", table)
        assert (code, len(errors)) == (2, 1)
        assert message in errors[0]
        assert not os.path.exists("out.ark")
    assert (home / "in" / "a.slf").read_bytes() == before
    assert ninja("convert", "in", "-o", "out.ark")[0] == 0
    os.remove("out.ark.words.txt")
    code, _, errors = ninja("convert", "out.ark", "-o", "new.ark", "--words-out", "new.txt")
    assert code == 0
    assert "ninja: new.txt was not written, because the lattices have no symbol table" in errors.splitlines()


@pytest.fixture
def home(bed, tmp_path, monkeypatch):
    """Change to a separate folder with the lattices in HTK's and Kaldi's formats."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.slf", "b.slf"):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_bytes((bed / "graph" / "slf" / name).read_bytes())
    return tmp_path


SOURCES = {
    "a folder": ["in"],
    "a pattern": ["in/*.slf"],
    "two files": ["in/a.slf", "in/b.slf"],
    "packed files": ["packed"],
    "a list": ["files.txt"],
    "a script file": ["lat.scp"],
    "a script file by its name": ["scp:other"],
    "an archive by its name": ["ark:in/a.slf", "ark:in/b.slf"],
    "a command": ["ark:cat in/a.slf |", "ark:gunzip -c packed/b.slf.gz |"],
    "a list of packed files": ["packed.lst"],
}


@pytest.fixture
def sources(home):
    (home / "packed").mkdir()
    for name in "ab":
        content = (home / "in" / f"{name}.slf").read_bytes()
        (home / "packed" / f"{name}.slf.gz").write_bytes(gzip.compress(content))
    (home / "files.txt").write_text("in/a.slf\nin/b.slf\n")
    (home / "packed.lst").write_text("packed/a.slf.gz\npacked/b.slf.gz\n")
    (home / "lat.scp").write_text("a in/a.slf\nb packed/b.slf.gz\n")
    (home / "other").write_text("a in/a.slf\nb in/b.slf\n")
    return home


@pytest.mark.parametrize("more", [[], ["--words", "words.txt"], ["--jobs", "2"]], ids=["alone", "words", "jobs"])
def test_all_ways_to_name_the_same_lattices_give_the_same_bytes(rescore, bed, sources, more):
    (sources / "words.txt").write_bytes((bed / "graph" / "words.txt").read_bytes())
    found = set()
    for number, names in enumerate(SOURCES.values()):
        if "--jobs" in more and number not in (0, 4, 5):
            continue  # starting workers takes its time
        if not more and number == 8:
            continue  # the output of a command is not looked at for a table
        code, errors = rescore(*names, *more, "-o", f"out{number}.ark")
        assert code == 0, errors
        found.add((sources / f"out{number}.ark").read_bytes())
        words = sources / f"out{number}.ark.words.txt"
        assert words.exists() == ("words.txt" not in more)
        if words.exists():
            found.add(words.read_bytes())
    assert len(found) == (1 if "words.txt" in more else 2)
    if "words.txt" not in more:
        assert "<eps> 0\none 1\ntwo 2\nthree 3\ncafé 4\n".encode() in found


def program(*arguments, given):
    done = subprocess.run(
        [sys.executable, "-m", "ninja", *map(str, arguments)], input=given, capture_output=True, timeout=120
    )
    return done.returncode, done.stdout, done.stderr.decode()


def test_standard_input_and_output_carry_other_formats_plain_and_packed(rescore, bed, home):
    model = bed / "lm.arpa"
    content = (bed / "graph" / "lat.pfsg").read_bytes()
    code, printed, errors = program("rescore", "-", "--rnnlm", model, "--to", "json", given=gzip.compress(content))
    assert code == 0, errors
    code, archive, errors = program("rescore", "-", "--rnnlm", model, "--words-out", "w.txt", given=content)
    assert code == 0, errors
    for name, each in (("x.jsonl", printed), ("x.ark", archive)):
        (home / name).write_bytes(each)
    table = SymbolTable.read(str(home / "w.txt"))
    assert [spelled(each) for each in read(home / "x.ark", words=table)] == [["two", "one", "café"]] * 2
    assert [spelled(each) for each in read(home / "x.jsonl")] == [["two", "one", "café"]] * 2
    code, printed, errors = program("rescore", "-", "--rnnlm", model, given=content)
    assert (code, printed) == (2, b"")
    assert "standard output would contain word ids without a symbol table; use --words, --words-out FILE" in errors


@pytest.mark.parametrize("form", [form for form in READ if form != "espnet"])  # which is folders in a folder
def test_standard_input_is_known_by_its_content(rescore, bed, home, monkeypatch, form):
    folder = bed / "graph"
    path, *options = arguments(folder, form)
    if form in SPELLED:
        options = options[2:]  # without --words
    if path.is_dir():
        path = min(each for each in path.iterdir() if each.name != "words.txt")
    content = path.read_bytes()
    found = []
    for given in (content, gzip.compress(content)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        code, errors = rescore("-", *options, "-o", "out.ark")
        assert code == 0, errors
        found.append((home / "out.ark").read_bytes())
        if form in SPELLED:
            assert SymbolTable.read("out.ark.words.txt").id("café") is not None
    assert found[0] == found[1]


def test_a_folder_may_hold_many_formats(rescore, bed, home):
    for name in ("lat.pfsg", "lat.arrow", "lat.ark", "lat.pt", "words.txt"):
        (home / "in" / name).write_bytes((bed / "graph" / name).read_bytes())
    (home / "in" / "notes.txt").write_text("These are lattices.\n")
    code, errors = rescore("in", "-o", "out.ark", "--words", "in/words.txt")
    assert code == 0
    assert errors[-1].startswith("ninja: 10 lattices, ")
    table = SymbolTable.read("in/words.txt")
    found = [each for _, each in package.read("out.ark", words=table)]
    assert [each.key for each in found] == ["a", "b", "a", "b", "a", "b", "a", "b", "a", "b"]
    assert all(spelled(each) == ["two", "one", "café"] for each in found)
    code, errors = rescore("in", "-o", "out", "--to", "slf", "--words", "in/words.txt")
    assert code == 1
    message = "the file for this key was already written; keys must be unique"
    assert sum(message in error and "more like" not in error for error in errors) == 3
    assert sum(message in error and "failed: 5 more like" in error for error in errors) == 1
    assert sorted(os.listdir("out")) == ["a.slf", "b.slf", "lattices.scales.toml"]
    code, errors = rescore("in", "-o", "none.ark")  # the ids of one file, and the words of another
    assert (code, len(errors)) == (2, 1)
    assert (
        "contains word ids, but another source contains words; set the symbol table of the ids with --words"
        in errors[0]
    )
    assert not os.path.exists("none.ark")


@pytest.mark.parametrize("form", ["pfsg", "plf", "native", "json", "nemo", "espnet", "named-text"])
def test_a_lattice_with_an_unknown_word_does_not_cost_the_others(rescore, bed, home, form):
    (home / "few.txt").write_text("<eps> 0\none 1\ntwo 2\ncafé 4\n")
    (source, *_) = arguments(bed / "graph", form)
    chosen = READ[form][2]
    options = ["--words", "few.txt", *(["--from", chosen] if chosen else [])]
    code, errors = rescore(source, *options, "-o", "out.ark")
    assert code == 1
    (failed,) = [line for line in errors if line.startswith("ninja: failed: ")]
    assert "word 'three' is not in the symbol table; is it the right table?" in failed
    assert str(source) in failed
    assert errors[-1].startswith("ninja: 1 failed: ")
    assert [spelled(each) for each in read("out.ark", words="few.txt")] == [["two", "one", "café"]]
    code, errors = rescore(source, *options, "-o", "none.ark", "--on-error", "raise")
    assert (code, errors[-1]) == (1, failed.replace("failed", "error"))
    assert not os.path.exists("none.ark")


def test_a_damaged_file_among_good_ones_is_named_and_the_rest_is_written(rescore, home):
    damaged = (home / "in" / "a.slf").read_text().replace("S=0", "S=77", 1)
    (home / "in" / "a.slf").write_text(damaged)
    line = next(number for number, row in enumerate(damaged.split("\n"), start=1) if "S=77" in row)
    message = f"in/a.slf:{line}, key 'a': S=77 is out of range: 0 to 4"
    for target in ("out.ark", "out.pt", "out.arrow", "out.jsonl"):
        code, errors = rescore("in", "-o", target)
        assert code == 1
        assert errors[0] == f"ninja: failed: {message}"
        assert errors[-1] == "ninja: 1 failed: a"
        assert [*package.keys(target)] == ["b"]
    before = sorted(os.listdir())
    for target in ("none.ark", "none.pt", "none.jsonl", "none.arrow"):
        code, errors = rescore("in", "-o", target, "--on-error", "raise")
        assert (code, errors) == (1, [f"ninja: error: {message}"])
    assert sorted(os.listdir()) == before
    code, errors = rescore("in/a.slf", "-o", "none.ark")  # not: it has no words
    assert (code, errors) == (1, [f"ninja: error: {message}"])


def test_a_file_of_an_ambiguous_beginning_is_of_the_first_format_until_another_is_named(rescore, home):
    (home / "two.txt").write_text("0 1 1 one\n")
    code, errors = rescore("two.txt", "in", "-o", "out.ark")
    assert code == 1
    assert any("two.txt:1, key 'two': state 1 has no line" in line for line in errors), errors  # as fst-text
    assert [*package.keys("out.ark")] == ["a", "b"]  # of the folder
    code, errors = rescore("two.txt", "-o", "two.ark", "--from", "srilm")
    assert code == 0, errors
    assert [spelled(each) for each in read("two.ark", words="two.ark.words.txt")] == [["one"]]
    code, errors = rescore("two.txt", "-o", "x.ark", "--from", "fst-text:labels=words")
    assert code == 1
    assert any("two.txt" in line and "key 'two': state 1 has no line" in line for line in errors), errors
    code, errors = rescore("in/a.slf", "-o", "x.ark", "--from", "plf")
    assert code == 1
    assert not os.path.exists("x.ark")
    code, errors = rescore("in/a.slf", "-o", "x.ark", "--from", "plt")
    assert code == 2
    assert errors[0].startswith(
        "ninja: error: unknown input format 'plt'; available formats: binary, text, slf, sphinx,"
    )


def test_text_in_another_encoding_is_refused_until_it_is_named(rescore, home):
    for name in "ab":
        path = home / "in" / f"{name}.slf"
        path.write_bytes(path.read_text("utf-8").encode("latin-1"))
    code, errors = rescore("in", "-o", "out.ark")
    assert code == 1
    assert errors[0].startswith("ninja: error: in/a.slf:")
    assert "not UTF-8" in errors[0]
    for options in (["-o", "out.ark"], ["-o", "out", "--to", "slf"]):
        code, errors = rescore("in", "--encoding", "latin-1", *options)
        assert code == 0
    assert [spelled(each) for each in read("out.ark", words="out.ark.words.txt")] == [["two", "one", "café"]] * 2
    assert "café" in (home / "out" / "a.slf").read_text("utf-8")  # outputs are UTF-8
    code, errors = rescore("in", "--encoding", "klingon", "-o", "x.ark")
    assert (code, errors) == (2, ["ninja: error: unknown encoding 'klingon'"])


def test_lossy_refuse_fails_what_would_lose_something_in_writing(rescore, bed, home):
    code, errors = rescore("in", "-o", "out", "--to", "openfst", "--lossy", "refuse")
    assert code == 1
    assert errors[0].startswith("ninja: failed: key 'a': openfst cannot store: times; use lossy=")
    assert errors[-1] == "ninja: error: all 2 lattices failed; no output is written"
    assert not os.path.exists("out")
    code, errors = rescore("in", "-o", "out.arrow", "--lossy", "refuse")
    assert code == 0
    code, errors = rescore("in", "-o", "out", "--to", "openfst")
    assert code == 0
    assert "ninja: warning: openfst files cannot store all fields; 2 lattices lose: times" in errors


def test_a_script_file_lists_files_of_other_formats_by_key(rescore, bed, home):
    (home / "lat.jsonl").write_bytes((bed / "graph" / "lat.jsonl").read_bytes())
    rows = ["first in/a.slf", "b lat.jsonl", "a lat.jsonl", "none lat.jsonl", "last in/b.slf"]
    (home / "lat.scp").write_text("".join(f"{row}\n" for row in rows))
    code, errors = rescore("lat.scp", "-o", "out.ark")
    assert code == 1
    message = "ninja: failed: lat.jsonl, key 'none': the file contains several lattices, but none with this key"
    assert message in errors
    assert [*package.keys("out.ark")] == ["first", "b", "a", "last"]
    assert all(spelled(each) == ["two", "one", "café"] for each in read("out.ark", words="out.ark.words.txt"))
