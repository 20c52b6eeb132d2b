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
PATHS = 8  # the number of paths of each lattice
ACOUSTIC_SCALE = 0.1  # the default of rescore, which combines costs for formats with a single cost
# For each format that is read: the value of --to that writes it, the file name, and --from if it is required.
INPUTS = {
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
OUTPUTS = ["binary", "text", "slf", "sphinx", "pfsg", "plf", "mesh", "openfst", "fst-text", "fst-ark", "k2", "native"]
OUTPUTS += ["json", "srilm", "srilm:variant=NBestList1.0", f"nemo:n={PATHS}", "espnet", "nbest-kaldi"]
WORD_FORMATS = ["slf", "sphinx", "pfsg", "plf", "mesh", "fst-text, words", "named-text", "native", "json", "srilm"]
WORD_FORMATS += ["nemo", "espnet", "ctm"]
ONE_COST = ("pfsg", "plf", "openfst", "fst-text", "fst-ark", "srilm:variant", "nemo", "espnet")
UNKEYED = ("plf", "nemo")  # formats without keys, whose lattices are numbered


def lattice(key, third):
    """Return a lattice of three words, each with an alternative."""
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
    """Return a lattice whose graph or acoustic costs are 0."""
    ends = np.where(lattice.is_final, np.float32(0), np.float32(np.inf))
    return replace(lattice, **{cost: 0 * getattr(lattice, cost), f"final_{cost}": ends})


def with_words(path):
    """Return the content of a text archive with words instead of ids."""
    rows = [row.split() for row in path.read_text().splitlines()]
    return "".join(
        " ".join([*row[:2], WORDS.word(int(row[2])), *row[3:]] if len(row) == 4 else row) + "\n" for row in rows
    )


def write_formats(folder, lattices):
    """Write lattices in every format; return the folder."""
    folder.mkdir()
    (folder / "words.txt").write_text("".join(f"{word} {number}\n" for word, number in WORDS))
    write_all(folder / "lat.ark", lattices)
    words = ["--words", str(folder / "words.txt")]
    for to, name, _ in INPUTS.values():
        if to is not None and name != "lat.ark":
            assert main(["convert", str(folder / "lat.ark"), "--to", to, "-o", str(folder / name), *words]) == 0
    (folder / "named.txt").write_text(with_words(folder / "lat.txt"))
    (folder / "lat.ctm").write_text(
        "".join(f"{key} 1 {at}.5 0.5 {word}\n" for key in "ab" for at, word in enumerate(("two", "one", "café")))
    )
    return folder


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    """Create a folder with a model, and a folder with all formats for each kind of costs."""
    folder = tmp_path_factory.mktemp("formats")
    (folder / "lm.arpa").write_text(ARPA)
    write_formats(folder / "both", LATTICES)
    write_formats(folder / "graph", [without(item, "acoustic") for item in LATTICES])
    write_formats(folder / "acoustic", [without(item, "graph") for item in LATTICES])
    return folder


@pytest.fixture
def rescore(ninja, bed):
    """Return a function that rescores with the model and returns the exit code and the lines of stderr."""

    def run(*arguments):
        code, output, errors = ninja("rescore", "--rnnlm", bed / "lm.arpa", *arguments)
        assert output == ""
        return code, errors.splitlines()

    return run


def source_of(folder, form):
    _, name, source_format = INPUTS[form]
    return [folder / name, "--words", folder / "words.txt", *(["--from", source_format] if source_format else [])]


def read(path, **options):
    """Return lattices without their keys, in the order of the keys."""
    return [value for _, value in sorted(package.read(str(path), **options), key=lambda item: item[0])]


def best_words(lattice):
    return lattice.words.spell(graph.best_path(lattice).words)


@pytest.mark.parametrize("form", [form for form in INPUTS if form not in ("mesh", "ctm")])
def test_rescoring_gives_the_same_words_and_costs_for_all_input_formats(rescore, bed, tmp_path, form):
    folder = bed / ("acoustic" if form == "sphinx" else "graph")
    assert rescore(folder / "lat.ark", "-o", tmp_path / "expected.ark")[0] == 0
    code, errors = rescore(*source_of(folder, form), "-o", tmp_path / "found.ark")
    assert code == 0
    assert errors[-1].startswith("ninja: 2 lattices, ")
    assert not any("failed" in line for line in errors)
    expected = read(tmp_path / "expected.ark", words=folder / "words.txt")
    results = read(tmp_path / "found.ark", words=folder / "words.txt")
    for reference, result in zip(expected, results, strict=True):
        assert reference.key == result.key or form in UNKEYED
        options = {} if "2.0" in form else {"costs": "both"}  # 2.0 has few digits, and one cost per final state
        assert graph.equivalent(reference, result, 1e-3 if options else 0.5, **options)
        assert best_words(reference) == best_words(result) == ["two", "one", "café"]


@pytest.mark.parametrize("form", [form for form in INPUTS if form.split(",")[0] not in ("mesh", "ctm", "sphinx")])
def test_formats_with_both_costs_keep_them_separate_in_rescoring(rescore, bed, tmp_path, form):
    folder = bed / "both"
    assert rescore(folder / "lat.ark", "-o", tmp_path / "expected.ark")[0] == 0
    assert rescore(*source_of(folder, form), "-o", tmp_path / "found.ark")[0] == 0
    has_both = form.split(",")[0] in ("kaldi", "slf", "plf", "named-text", "k2", "native", "json", "nbest-kaldi")
    for reference, result in zip(read(tmp_path / "expected.ark"), read(tmp_path / "found.ark"), strict=True):
        assert graph.equivalent(reference, result, 1e-3, costs="both") == (has_both or form == "srilm")


@pytest.mark.parametrize("to", OUTPUTS)
def test_rescore_writes_the_rescored_lattices_in_every_format(rescore, bed, tmp_path, to):
    folder = bed / "both"
    assert rescore(folder / "lat.ark", "-o", tmp_path / "expected.ark")[0] == 0
    target = tmp_path / "found"
    code, errors = rescore(folder / "lat.ark", "--to", to, "-o", target)
    assert code == 0
    assert errors[-1].startswith("ninja: 2 lattices, ")
    form = to.partition(":")[0]
    options = {"nemo": f"nemo:beam={PATHS}", "nbest-kaldi": "nbest-kaldi"}
    expected = read(tmp_path / "expected.ark", words=folder / "words.txt")
    results = read(target, words=folder / "words.txt", format=options.get(form))
    for reference, result in zip(expected, results, strict=True):
        assert reference.key == result.key or form in UNKEYED
        if form == "mesh":
            assert {*result.word.tolist()} - {0} == {*reference.word.tolist()} - {0}
        elif form == "sphinx":
            assert graph.equivalent(without(reference, "graph"), result, 1e-2)
        else:
            costs = "total" if to.startswith(ONE_COST) else "both"
            if costs == "total":
                reference = graph.scale(reference, acoustic_scale=ACOUSTIC_SCALE)
            assert graph.equivalent(reference, result, 0.06 if "1.0" in to else 1e-2, costs=costs)
            assert best_words(reference) == best_words(result)


@pytest.mark.parametrize("form", INPUTS)
def test_every_format_is_rescored_into_every_format(rescore, bed, tmp_path, form):
    folder = bed / "graph"
    beam = 1 if form in ("ctm", "mesh", "sphinx") else PATHS
    for to in OUTPUTS:
        target = tmp_path / to.partition("=")[0]
        code, errors = rescore(*source_of(folder, form), "--to", f"nemo:n={beam}" if "nemo" in to else to, "-o", target)
        assert code == 0, errors
        options = {"nemo": f"nemo:beam={beam}", "nbest-kaldi": "nbest-kaldi"}
        results = read(target, words=folder / "words.txt", format=options.get(to.partition(":")[0]))
        assert len(results) == 2
        for result in results:
            words = {WORDS.word(word) for word in result.word.tolist()}
            assert words <= {*dict(WORDS)}
            if to not in ("sphinx", "mesh") and form != "mesh":
                assert best_words(result) == ["two", "one", "café"]


@pytest.mark.parametrize("form", WORD_FORMATS)
def test_formats_with_words_need_no_table_and_write_one_for_an_archive(rescore, bed, tmp_path, form):
    folder = bed / "graph"
    (source, *_) = source_of(folder, form)
    source_format = INPUTS[form][2]
    options = ["--from", source_format] if source_format else []
    code, errors = rescore(source, *options, "-o", tmp_path / "lat.ark.gz")
    assert code == 0
    assert f"ninja: wrote the symbol table to {tmp_path / 'lat.ark.gz.words.txt'}" in errors
    code, errors = rescore(tmp_path / "lat.ark.gz", "-o", tmp_path / "slf", "--to", "slf")
    assert code == 0
    assert f"ninja: using the symbol table {tmp_path / 'lat.ark.gz.words.txt'}" in errors[:2]
    for result in read(tmp_path / "slf"):
        assert form == "mesh" or best_words(result) == ["two", "one", "café"]
    names = ["lattices.scales.toml", *(f"{key}.slf" for key in package.keys(str(tmp_path / "slf")))]
    assert sorted(os.listdir(tmp_path / "slf")) == sorted(names)
    code, errors = rescore(source, *options, "-o", tmp_path / "x.ark", "--words-out", tmp_path / "named.txt")
    assert code == 0
    assert not any("wrote the symbol table" in line for line in errors)
    assert not (tmp_path / "x.ark.words.txt").exists()
    assert SymbolTable.read(str(tmp_path / "named.txt")).id("café") is not None


def test_the_symbol_table_does_not_overwrite_lattices(rescore, ninja, cwd):
    before = (cwd / "in" / "a.slf").read_bytes()
    refusal = "./in/../in/a.slf: in/a.slf is an input and would be overwritten; use another name for the output"
    for table, message in (("out.ark", "two outputs would be written to this file"), ("./in/../in/a.slf", refusal)):
        code, errors = rescore("in/a.slf", "-o", "out.ark", "--words-out", table)
        assert (code, len(errors)) == (2, 1)
        assert message in errors[0]
        assert not os.path.exists("out.ark")
    assert (cwd / "in" / "a.slf").read_bytes() == before
    assert ninja("convert", "in", "-o", "out.ark")[0] == 0
    os.remove("out.ark.words.txt")
    code, _, errors = ninja("convert", "out.ark", "-o", "new.ark", "--words-out", "new.txt")
    assert code == 0
    assert "ninja: new.txt was not written, because the lattices have no symbol table" in errors.splitlines()


@pytest.fixture
def cwd(bed, tmp_path, monkeypatch):
    """Change to a separate folder with the lattices as HTK files."""
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
def sources(cwd):
    (cwd / "packed").mkdir()
    for name in "ab":
        content = (cwd / "in" / f"{name}.slf").read_bytes()
        (cwd / "packed" / f"{name}.slf.gz").write_bytes(gzip.compress(content))
    (cwd / "files.txt").write_text("in/a.slf\nin/b.slf\n")
    (cwd / "packed.lst").write_text("packed/a.slf.gz\npacked/b.slf.gz\n")
    (cwd / "lat.scp").write_text("a in/a.slf\nb packed/b.slf.gz\n")
    (cwd / "other").write_text("a in/a.slf\nb in/b.slf\n")
    return cwd


@pytest.mark.parametrize("options", [[], ["--words", "words.txt"], ["--jobs", "2"]], ids=["none", "words", "jobs"])
def test_all_kinds_of_sources_give_the_same_output(rescore, bed, sources, options):
    (sources / "words.txt").write_bytes((bed / "graph" / "words.txt").read_bytes())
    outputs = set()
    for number, names in enumerate(SOURCES.values()):
        if "--jobs" in options and number not in (0, 4, 5):
            continue  # starting workers is slow
        if not options and number == 8:
            continue  # the output of a command has no symbol table next to it
        code, errors = rescore(*names, *options, "-o", f"out{number}.ark")
        assert code == 0, errors
        outputs.add((sources / f"out{number}.ark").read_bytes())
        words = sources / f"out{number}.ark.words.txt"
        assert words.exists() == ("words.txt" not in options)
        if words.exists():
            outputs.add(words.read_bytes())
    assert len(outputs) == (1 if "words.txt" in options else 2)
    if "words.txt" not in options:
        assert "<eps> 0\none 1\ntwo 2\nthree 3\ncafé 4\n".encode() in outputs


def run_ninja(*arguments, content):
    process = subprocess.run(
        [sys.executable, "-m", "ninja", *map(str, arguments)], input=content, capture_output=True, timeout=120
    )
    return process.returncode, process.stdout, process.stderr.decode()


def test_rescore_reads_other_formats_from_standard_input(rescore, bed, cwd):
    model = bed / "lm.arpa"
    content = (bed / "graph" / "lat.pfsg").read_bytes()
    code, printed, errors = run_ninja("rescore", "-", "--rnnlm", model, "--to", "json", content=gzip.compress(content))
    assert code == 0, errors
    code, archive, errors = run_ninja("rescore", "-", "--rnnlm", model, "--words-out", "w.txt", content=content)
    assert code == 0, errors
    (cwd / "x.jsonl").write_bytes(printed)
    (cwd / "x.ark").write_bytes(archive)
    table = SymbolTable.read(str(cwd / "w.txt"))
    assert [best_words(result) for result in read(cwd / "x.ark", words=table)] == [["two", "one", "café"]] * 2
    assert [best_words(result) for result in read(cwd / "x.jsonl")] == [["two", "one", "café"]] * 2
    code, printed, errors = run_ninja("rescore", "-", "--rnnlm", model, content=content)
    assert (code, printed) == (2, b"")
    assert "standard output would contain word ids without a symbol table; use --words, --words-out FILE" in errors


@pytest.mark.parametrize("form", [form for form in INPUTS if form != "espnet"])  # it writes a folder of folders
def test_the_format_of_standard_input_is_detected(rescore, bed, cwd, monkeypatch, form):
    folder = bed / "graph"
    path, *options = source_of(folder, form)
    if form in WORD_FORMATS:
        options = options[2:]  # without --words
    if path.is_dir():
        path = min(file for file in path.iterdir() if file.name != "words.txt")
    content = path.read_bytes()
    outputs = []
    for data in (content, gzip.compress(content)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        code, errors = rescore("-", *options, "-o", "out.ark")
        assert code == 0, errors
        outputs.append((cwd / "out.ark").read_bytes())
        if form in WORD_FORMATS:
            assert SymbolTable.read("out.ark.words.txt").id("café") is not None
    assert outputs[0] == outputs[1]


def test_a_folder_can_contain_files_of_several_formats(rescore, bed, cwd):
    for name in ("lat.pfsg", "lat.arrow", "lat.ark", "lat.pt", "words.txt"):
        (cwd / "in" / name).write_bytes((bed / "graph" / name).read_bytes())
    (cwd / "in" / "notes.txt").write_text("These are lattices.\n")
    code, errors = rescore("in", "-o", "out.ark", "--words", "in/words.txt")
    assert code == 0
    assert errors[-1].startswith("ninja: 10 lattices, ")
    table = SymbolTable.read("in/words.txt")
    results = [result for _, result in package.read("out.ark", words=table)]
    assert [result.key for result in results] == ["a", "b", "a", "b", "a", "b", "a", "b", "a", "b"]
    assert all(best_words(result) == ["two", "one", "café"] for result in results)
    code, errors = rescore("in", "-o", "out", "--to", "slf", "--words", "in/words.txt")
    assert code == 1
    message = "the file for this key was already written; keys must be unique"
    assert sum(message in error and "more like" not in error for error in errors) == 3
    assert sum(message in error and "failed: 5 more like" in error for error in errors) == 1
    assert sorted(os.listdir("out")) == ["a.slf", "b.slf", "lattices.scales.toml"]
    code, errors = rescore("in", "-o", "none.ark")  # one file contains ids and another contains words
    assert (code, len(errors)) == (2, 1)
    assert (
        "contains word ids, but another source contains words; set the symbol table of the ids with --words"
        in errors[0]
    )
    assert not os.path.exists("none.ark")


@pytest.mark.parametrize("form", ["pfsg", "plf", "native", "json", "nemo", "espnet", "named-text"])
def test_an_unknown_word_fails_only_its_lattice(rescore, bed, cwd, form):
    (cwd / "few.txt").write_text("<eps> 0\none 1\ntwo 2\ncafé 4\n")
    (source, *_) = source_of(bed / "graph", form)
    source_format = INPUTS[form][2]
    options = ["--words", "few.txt", *(["--from", source_format] if source_format else [])]
    code, errors = rescore(source, *options, "-o", "out.ark")
    assert code == 1
    (failure,) = [line for line in errors if line.startswith("ninja: failed: ")]
    assert "word 'three' is not in the symbol table; check that it is the right table" in failure
    assert str(source) in failure
    assert errors[-1].startswith("ninja: 1 failed: ")
    assert [best_words(result) for result in read("out.ark", words="few.txt")] == [["two", "one", "café"]]
    code, errors = rescore(source, *options, "-o", "none.ark", "--on-error", "raise")
    assert (code, errors[-1]) == (1, failure.replace("failed", "error"))
    assert not os.path.exists("none.ark")


def test_a_damaged_file_is_reported_and_the_others_are_written(rescore, cwd):
    damaged = (cwd / "in" / "a.slf").read_text().replace("S=0", "S=77", 1)
    (cwd / "in" / "a.slf").write_text(damaged)
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
    code, errors = rescore("in/a.slf", "-o", "none.ark")  # the message is not about a missing symbol table
    assert (code, errors) == (1, [f"ninja: error: {message}"])


def test_an_ambiguous_file_has_the_first_matching_format_without_from(rescore, cwd):
    (cwd / "two.txt").write_text("0 1 1 one\n")
    code, errors = rescore("two.txt", "in", "-o", "out.ark")
    assert code == 1
    assert any("two.txt:1, key 'two': state 1 has no line" in line for line in errors), errors  # detected as fst-text
    assert [*package.keys("out.ark")] == ["a", "b"]  # the lattices of the folder
    code, errors = rescore("two.txt", "-o", "two.ark", "--from", "srilm")
    assert code == 0, errors
    assert [best_words(result) for result in read("two.ark", words="two.ark.words.txt")] == [["one"]]
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


def test_text_in_another_encoding_requires_its_name(rescore, cwd):
    for name in "ab":
        path = cwd / "in" / f"{name}.slf"
        path.write_bytes(path.read_text("utf-8").encode("latin-1"))
    code, errors = rescore("in", "-o", "out.ark")
    assert code == 1
    assert errors[0].startswith("ninja: error: in/a.slf:")
    assert "not UTF-8" in errors[0]
    for options in (["-o", "out.ark"], ["-o", "out", "--to", "slf"]):
        code, errors = rescore("in", "--encoding", "latin-1", *options)
        assert code == 0
    assert [best_words(result) for result in read("out.ark", words="out.ark.words.txt")] == [["two", "one", "café"]] * 2
    assert "café" in (cwd / "out" / "a.slf").read_text("utf-8")  # outputs are UTF-8
    code, errors = rescore("in", "--encoding", "klingon", "-o", "x.ark")
    assert (code, errors) == (2, ["ninja: error: unknown encoding 'klingon'"])


def test_lossy_refuse_fails_lattices_with_fields_that_are_not_stored(rescore, bed, cwd):
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


def test_a_script_file_lists_files_of_other_formats_by_key(rescore, bed, cwd):
    (cwd / "lat.jsonl").write_bytes((bed / "graph" / "lat.jsonl").read_bytes())
    rows = ["first in/a.slf", "b lat.jsonl", "a lat.jsonl", "none lat.jsonl", "last in/b.slf"]
    (cwd / "lat.scp").write_text("".join(f"{row}\n" for row in rows))
    code, errors = rescore("lat.scp", "-o", "out.ark")
    assert code == 1
    message = "ninja: failed: lat.jsonl, key 'none': the file contains several lattices, but none with this key"
    assert message in errors
    assert [*package.keys("out.ark")] == ["first", "b", "a", "last"]
    assert all(best_words(result) == ["two", "one", "café"] for result in read("out.ark", words="out.ark.words.txt"))
