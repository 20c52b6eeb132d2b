"""All commands on lattices in other formats: the same results as for a Kaldi archive."""

from __future__ import annotations

import gzip
import io
import json
import sys
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from example_lattices import EXAMPLES
from lattice_files import write_all

import ninja as package
from ninja.cli.main import main
from ninja.errors import OptionError
from ninja.graph import connect, from_arcs, path_lattice, prune
from ninja.graph.best_path import best_path
from ninja.io import vocabulary
from ninja.io.reader import Words
from ninja.lattice import Scales
from ninja.lattice.symbols import SymbolTable

# For each source: the format, the options for reading it, and whether it has times.
SOURCES = {
    "slf": ("slf", (), True),
    "native": ("native", (), True),
    "plf": ("plf", ("--from", "plf:scores=score"), False),
    "pfsg": ("pfsg", (), False),
    "openfst": ("openfst", ("--words", "table.txt"), False),
    "fst-text": ("fst-text", ("--words", "table.txt"), False),
    "fst-ark": ("fst-ark", ("--words", "table.txt"), False),
    "k2": ("k2", ("--words", "table.txt"), True),
}
TIMED = [name for name, (_, _, has_times) in SOURCES.items() if has_times]


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    """Create a folder with three lattices in all formats, a symbol table, and their references in ``ref``."""
    folder = tmp_path_factory.mktemp("bed")
    table = SymbolTable.read(EXAMPLES / "words.txt")
    lattices, word_ids = [], {0}
    for key, lattice in package.read(EXAMPLES / "lat.ark.gz"):
        if len(lattices) == 3:
            break
        small = prune(lattice, 1.5, Scales(acoustic=0.1))
        # Integers, because all formats store them and their sums exactly. The last arc ends with the last frame.
        no_labels = np.zeros(0, np.int32), np.zeros(small.num_states + 1, np.int64)
        for array in no_labels:
            array.flags.writeable = False
        costs = [np.round(cost).astype(np.float32) for cost in (small.graph, small.acoustic)]
        final = [np.where(small.is_final, 0.0, np.inf).astype(np.float32) for _ in range(2)]
        for array in (*costs, *final):
            array.flags.writeable = False
        small = replace(small, final_ali=no_labels[0], final_ali_begin=no_labels[1])
        small = replace(small, final_graph=final[0], final_acoustic=final[1]).with_costs(*costs)
        lattices.append(small.with_key(key.replace("-", "", 2)))
        word_ids |= set(small.word.tolist())
    keys = {lattice.key for lattice in lattices}
    references = [line.replace("-", "", 2) for line in (EXAMPLES / "text").read_text().splitlines(keepends=True)]
    (folder / "ref").write_text("".join(line for line in references if line.split()[0] in keys))
    names = dict(table)
    (folder / "table.txt").write_text("".join(f"{word} {i}\n" for word, i in names.items() if i in word_ids))
    write_all(folder / "kaldi.ark", lattices)
    for name, (form, _, _) in SOURCES.items():
        # torch writes the files of k2; in CI, tests/conftest.py requires it.
        if name == "k2" and find_spec("torch") is None:
            continue
        arguments = [folder / "kaldi.ark", "--words", folder / "table.txt", "--to", form, "-o", folder / name]
        assert main(["convert", *map(str, arguments)]) == 0
    return folder


@pytest.fixture
def cwd(bed, monkeypatch, tmp_path):
    """Change to a folder with links to the files of ``bed``."""
    for path in bed.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def source(name):
    if name == "k2" and find_spec("torch") is None:
        # A core dependency, but absent from some checkouts; in CI, tests/conftest.py requires it.
        pytest.skip("torch is not installed")
    return [name, *SOURCES[name][1]]


KALDI = ["kaldi.ark", "--words", "table.txt"]


def in_order(text):
    """Return the lines of a table without keys, which PLF does not store."""
    return [line.split(maxsplit=1)[1:] for line in text.splitlines()]


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize(
    "verb",
    [
        ["best"],
        ["nbest", "-n", "3"],
        ["best-path"],
        ["mbr-decode"],
        ["confidence"],
        ["best", "--jobs", "2"],
    ],
    ids=" ".join,
)
def test_words_and_numbers_agree_with_the_kaldi_archive(ninja, cwd, name, verb):
    if ("--jobs" in verb and name != "slf") or ("confidence" in verb and name == "pfsg"):
        return  # processes take a while to start; PFSG's costs are rounded
    code, out, _ = ninja(verb[0], *source(name), *verb[1:])
    expected = ninja(verb[0], *KALDI, *verb[1:])
    assert (code, in_order(out)) == (0, in_order(expected[1]))


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "plf"])
@pytest.mark.parametrize("verb", ["score ref S", "score ref S --oracle", "oracle S --ref ref"])
def test_scores_and_oracles_agree_with_the_kaldi_archive(ninja, cwd, name, verb):
    first, last = verb.split(" S")
    code, out, err = ninja(*first.split(), *source(name), *last.split())
    expected = ninja(*first.split(), *KALDI, *last.split())
    assert (code, out) == expected[:2]
    if first == "oracle":
        assert err.splitlines()[0] == expected[2].splitlines()[0]


@pytest.mark.parametrize("name", TIMED)
@pytest.mark.parametrize(
    "verb",
    [
        ["to-ctm-conf", "--frame-shift", "0.01"],
        ["depth"],
        ["depth-per-frame"],
        ["arc-post"],
        ["mbr-decode", "--times", "-", "-o", "/dev/null"],
    ],
    ids=" ".join,
)
def test_times_agree_with_the_kaldi_archive(ninja, cwd, name, verb):
    code, out, _ = ninja(verb[0], *source(name), *verb[1:])
    assert (code, out) == (0, ninja(verb[0], *KALDI, *verb[1:])[1])


def test_times_in_seconds_use_the_frame_shift_of_the_file(ninja, cwd):
    assert ninja("convert", *KALDI, "--to", "slf:frame_shift=0.02", "-o", "double")[0] == 0
    options = ["--from", "slf:frame_shift=0.02"]
    _, out, _ = ninja("to-ctm-conf", "double", *options)
    assert out == ninja("to-ctm-conf", *KALDI, "--frame-shift", "0.02")[1]
    ninja("1best", "double", *options, "-o", "best.arrow")
    ninja("1best", *KALDI, "-o", "best.ark")
    _, out, _ = ninja("nbest-to-ctm", "best.arrow")
    assert out == ninja("nbest-to-ctm", "best.ark", "--words", "table.txt", "--frame-shift", "0.02")[1]


@pytest.mark.parametrize("verb", ["to-ctm-conf", "mbr-decode --times - -o /dev/null", "limit-depth -o out.ark"])
def test_lattices_without_times_are_refused_or_written_without_times(ninja, cwd, verb):
    name, *options = verb.split()
    code, out, err = ninja(name, *source("pfsg"), *options)
    assert (code, out) == (1, "")
    assert "neither" in err
    assert "start" not in ninja("mbr-decode", *source("pfsg"), "--json", "-", "-o", "/dev/null")[1]
    assert "start" in ninja("mbr-decode", *source("slf"), "--json", "-", "-o", "/dev/null")[1]


ALIGNMENT_COMMANDS = ["to-post", "project --project-output=false -o out.ark"]


@pytest.mark.parametrize("verb", ALIGNMENT_COMMANDS)
def test_alignment_commands_refuse_lattices_without_alignments(ninja, cwd, verb):
    name, *options = verb.split()
    code, out, err = ninja(name, *source("slf"), *options)
    assert (code, out) == (1, "")
    assert "the lattice has no alignments" in err
    assert ninja(name, *KALDI, *options)[0] == 0


# Commands that write lattices, and whether they keep the states and therefore their times.
LATTICE_COMMANDS = {
    "1best": True,
    "add-penalty --word-ins-penalty 2": True,
    "combine": True,
    "compose": True,
    "convert": True,
    "copy": True,
    "copy --write-compact=false": True,
    "copy-backoff": True,
    "determinize": False,
    "determinize-pruned --beam 3": False,
    "difference --ref ref": True,
    "expand-ngram --n 2": True,
    "interp": True,
    "limit-depth --max-arcs-per-frame 3": True,
    "lmrescore --lm lm.arpa --max-unknown 1": True,
    "merge": True,
    "minimize": False,
    "project": True,
    "prune --beam 2": True,
    "push": True,
    "reverse": True,
    "rmali": True,
    "scale --lm-scale 2": True,
    "topsort": True,
    "union --determinize=false": True,
    "union": False,
}
TWO_SOURCES = ("combine", "compose", "copy-backoff", "interp", "union")
ARPA = "\\data\\\nngram 1=4\n\n\\1-grams:\n-1 <unk>\n-99 <s>\n-0.5 </s>\n-0.75 the\n\n\\end\\\n"


@pytest.mark.parametrize("verb", LATTICE_COMMANDS)
def test_commands_write_the_same_lattices_for_slf_and_kaldi_archives(ninja, cwd, verb):
    name, *options = verb.split()
    (cwd / "lm.arpa").write_text(ARPA)
    second_source = ["slf"] if name in TWO_SOURCES else []
    code, _, err = ninja(name, "slf", *second_source, *options, "-o", "out.arrow")
    assert code == 0, err
    lattices = [lattice for _, lattice in package.read("out.arrow")]
    without_times = [lattice for lattice in lattices if lattice.time is None]
    assert (f"times of {len(without_times)} lattices are not written" in err) == bool(without_times)
    if LATTICE_COMMANDS[verb]:
        assert not without_times
    for lattice in lattices:
        assert lattice.time is None or (lattice.time[lattice.dst] >= lattice.time[lattice.src]).all()
    second_source = [{"compose": "ark:kaldi.ark"}.get(name, "kaldi.ark")] if name in TWO_SOURCES else []
    assert ninja(name, "kaldi.ark", *second_source, *options, "--words", "table.txt", "-o", "out.ark")[0] == 0
    code, _, err = ninja("equivalent", "out.arrow", "out.ark", "--words", "table.txt", "--num-paths", "0")
    assert code == 0, err


@pytest.mark.parametrize("to", ["slf", "native", "fst-text", "json", "pfsg"])
def test_best_paths_are_written_in_other_formats(ninja, cwd, to):
    arguments = ["to-nbest", "slf", "--n", "2", "--to", to, "-o", "out", "--words-out", "words-out.txt"]
    assert ninja(*arguments)[0] == 0
    words = ["--words", "words-out.txt"] if to == "fst-text" else []
    _, out, _ = ninja("best", "out", *words)
    assert sorted(out.splitlines()) == sorted(ninja("nbest", *KALDI, "-n", "2")[1].splitlines())
    assert ninja("nbest-to-lattice", "out", *words, "-o", "united.arrow")[0] == 0
    _, out, _ = ninja("nbest", "united.arrow", "-n", "2")
    assert sorted(out.splitlines()) == sorted(ninja("nbest", *KALDI, "-n", "2")[1].splitlines())


def test_single_paths_are_written_in_other_formats(ninja, cwd):
    assert ninja("1best", *KALDI, "-o", "one.ark")[0] == 0
    outputs = ["-o", "tra", "--alignments", "ali", "--lm-cost", "lm", "--ac-cost", "ac"]
    assert ninja("nbest-to-linear", "one.ark", "--words", "table.txt", *outputs)[0] == 0
    costs = ["--words", "table.txt", "--lm-cost", "lm", "--ac-cost", "ac"]
    assert ninja("linear-to-nbest", "ali", "--transcriptions", "tra", *costs, "--to", "slf", "-o", "one")[0] == 0
    assert ninja("best", "one")[1] == ninja("best", *KALDI)[1]
    assert ninja("string-to-lattice", "tra", "--words", "table.txt", "-o", "ref.jsonl")[0] == 0
    assert ninja("best", "ref.jsonl")[1] == ninja("best", *KALDI)[1]
    assert ninja("best-path", "slf", "-o", "/dev/null", "--write-lattices", "best.arrow")[0] == 0
    assert ninja("best", "best.arrow")[1] == ninja("best", *KALDI)[1]
    assert ninja("oracle", "slf", "--ref", "ref", "-o", "near", "--write-lattices", "near.arrow")[0] == 0
    assert ninja("best", "near.arrow")[1] == (cwd / "near").read_text()


def test_split_writes_other_formats(ninja, cwd):
    code, _, err = ninja("split", "native", "--nj", "2", "--to", "slf", "-o", "part.JOB", "--lossy", "refuse")
    assert (code, "slf cannot store: alignments" in err) == (1, True)
    assert ninja("split", "slf", "--nj", "2", "--to", "slf", "-o", "part.JOB")[0] == 0
    assert ninja("best", "part.1", "part.2")[1] == ninja("best", *KALDI)[1]


def test_info_counts_formats_times_and_alignments(ninja, cwd):
    counts = json.loads(ninja("info", "slf", "--json")[1])
    kaldi_counts = json.loads(ninja("info", *KALDI, "--json")[1])
    assert (counts["formats"], kaldi_counts["formats"]) == ({"slf": 3}, {"kaldi": 1})
    assert (counts["with times"], counts["with alignments"]) == (3, 0)
    assert (kaldi_counts["with times"], kaldi_counts["with alignments"]) == (0, 3)
    for name in ("lattices", "states", "arcs", "frames", "depth", "words"):
        assert counts[name] == kaldi_counts[name], name
    assert counts["symbol table"] == f"{kaldi_counts['words'] + 1} words"
    assert json.loads(ninja("info", "kaldi.ark", "--json")[1])["symbol table"] == "none"
    assert "formats                 3 slf" in ninja("info", "slf")[1]
    assert "--rnnlm requires --words" in ninja("info", "kaldi.ark", "--rnnlm", "none.pt")[2]


def test_show_and_report_need_no_symbol_table_for_formats_with_words(ninja, cwd):
    key = next(iter(package.keys("kaldi.ark")))
    assert ninja("show", "slf", "--key", key, "--ref", "ref", "-o", "page.html")[0] == 0
    word = ninja("best", "slf")[1].split()[1]
    assert word in (cwd / "page.html").read_text()
    code, _, err = ninja("report", "slf", "native", "--ref", "ref", "-o", "report.html")
    assert code == 0
    expected = ninja("report", "kaldi.ark", "kaldi.ark", "--words", "table.txt", "--ref", "ref", "-o", "r.html")[2]
    assert err.splitlines()[0] == expected.splitlines()[0]


class _Input:
    def __init__(self, content):
        self.buffer = io.BytesIO(content)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("arguments", [["native"], KALDI])
def test_the_format_of_standard_input_is_detected(ninja, cwd, monkeypatch, packed, arguments):
    content = (cwd / arguments[0]).read_bytes()
    for verb in (["best", "-"], ["score", "ref", "-"], ["info", "-", "--json"]):
        monkeypatch.setattr(sys, "stdin", _Input(gzip.compress(content) if packed else content))
        out = ninja(*verb, *arguments[1:])[1]
        assert out == ninja(*[arguments[0] if part == "-" else part for part in verb], *arguments[1:])[1]


def test_score_recognises_transcripts(ninja, cwd):
    assert ninja("score", "ref", "ref")[1].startswith("%WER 0.00")
    code, _, err = ninja("score", "ref", "ref", "--oracle")
    assert (code, "--oracle requires lattices and --words" in err) == (2, True)
    code, _, err = ninja("score", "ref", "kaldi.ark")
    assert (code, "set the symbol table with --words" in err) == (2, True)
    code, _, err = ninja("score", "ref", "openfst", "--from", "openfst")
    assert (code, "set the symbol table with --words" in err) == (2, True)


def bare_archive(path):
    write_all(path, [from_arcs("u", [0], [1], [1], [1.0], finals={1: 0.0}, labels=[[3, 3]])])


TWO_SOURCE_COMMANDS = ["union A B -o out.ark", "interp A B -o out.ark", "combine A B -o out.ark", "equivalent A B"]
TWO_SOURCE_COMMANDS += ["compose A ark:B -o out.ark", "mbr-decode A --with B", "to-ctm-conf A --with B"]
TWO_SOURCE_COMMANDS += ["copy-backoff A B -o out.ark"]
TWO_SOURCE_COMMANDS += ["report A B --ref ref -o out.html --lattices 0", "best A B", "merge A B -o out.ark"]


@pytest.mark.parametrize("verb", TWO_SOURCE_COMMANDS)
def test_an_archive_of_ids_is_refused_with_a_source_of_words(ninja, cwd, verb):
    bare_archive("bare.ark")
    for first, second in (("native", "bare.ark"), ("bare.ark", "native")):
        arguments = [first if part == "A" else part.replace("B", second) for part in verb.split()]
        code, out, err = ninja(*arguments)
        assert code == 2
        assert out == "" or verb == "best A B"  # it prints lattices before it reads the second source
        assert "bare.ark contains word ids, but another source contains words" in err or (
            verb.startswith("report") and "set the symbol table with --words" in err
        )


def test_vocabulary_refuses_a_mixture_of_words_and_ids(cwd):
    bare_archive("bare.ark")
    assert vocabulary("bare.ark") is None
    assert len(vocabulary("slf")) == len(vocabulary(["slf", "native"]))
    with pytest.raises(OptionError, match=r"bare.ark contains word ids"):
        vocabulary(["slf", "bare.ark"])
    assert vocabulary(["slf", "ref"]) is not None  # a file without lattices is reported when it is read


def test_compose_refuses_an_fst_of_ids_for_a_format_with_words(ninja, cwd):
    key = next(iter(package.keys("kaldi.ark")))
    assert ninja("convert", *KALDI, "--to", "openfst", "-o", "fsts")[0] == 0
    fst = f"fsts/{key}.fst"
    code, _, err = ninja("compose", "slf", fst, "-o", "out.arrow")
    assert (code, f"{fst} contains word ids" in err) == (2, True)
    ninja("compose", "slf", fst, "--words", "table.txt", "-o", "out.arrow")
    ninja("compose", *KALDI, fst, "-o", "out.ark")
    assert ninja("equivalent", "out.arrow", "out.ark", "--words", "table.txt", "--delta", "0.01")[0] == 0


def test_several_sources_share_one_symbol_table(ninja, cwd):
    table = SymbolTable.read("table.txt")
    names = [word for word, number in table if number]
    entries = ((word, number) for number, word in enumerate(reversed(names), start=1))
    attach = Words(SymbolTable([("<eps>", 0), *entries])).attach
    write_all("other.arrow", (attach(lattice) for _, lattice in package.read("native")))
    assert ninja("equivalent", "slf", "other.arrow")[0] == 0
    assert ninja("best", "slf", "other.arrow")[1] == 2 * ninja("best", *KALDI)[1]
    expected = ninja("mbr-decode", *KALDI, "--with", "kaldi.ark")[1]
    assert ninja("mbr-decode", "other.arrow", "--with", "slf")[1] == expected


def test_projected_labels_have_no_symbol_table(ninja, cwd):
    code, _, err = ninja("project", "native", "--project-output=false", "-o", "ids.ark")
    assert code == 0
    assert "wrote the symbol table to" not in err
    assert not (cwd / "ids.words.txt").exists()
    for jobs in ("1", "2"):
        assert ninja("project", "native", "--project-output=false", "--jobs", jobs, "-o", "ids.arrow")[0] == 0
        assert all(lattice.words is None for _, lattice in package.read("ids.arrow"))


def test_equivalent_compares_alignments_only_if_both_sources_have_them(ninja, cwd):
    code, _, err = ninja("equivalent", "slf", "native")
    assert (code, "3 lattices have alignments in only one source, which are ignored" in err) == (0, True)
    with package.write("changed.ark") as output:
        for _, lattice in package.read("kaldi.ark"):
            labels = lattice.ali + np.int32(1)
            labels.flags.writeable = False
            output.write(replace(lattice, ali=labels))
    assert ninja("equivalent", "kaldi.ark", "changed.ark")[0] == 1


def test_best_paths_keep_their_times_in_formats_with_times(ninja, cwd):
    for name in ("slf", "native"):
        assert ninja("1best", "slf", "--to", name, "-o", f"one.{name}d")[0] == 0
        assert ninja("nbest-to-ctm", f"one.{name}d")[0] == 0
        first = next(lattice for _, lattice in package.read("slf"))
        path = next(lattice for _, lattice in package.read(f"one.{name}d"))
        expected = path_lattice(first, best_path(first))
        assert connect(path).time.tolist() == expected.time.tolist()
