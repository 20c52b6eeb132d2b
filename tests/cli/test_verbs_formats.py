"""All commands on lattices in other formats: the same results as for a Kaldi archive."""

from __future__ import annotations

import gzip
import io
import json
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
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

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# Of each source: the format, the options of reading, and whether it has times.
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
    """Create a folder with three lattices in all formats, a symbol table, and their references in ``said``."""
    folder = tmp_path_factory.mktemp("bed")
    table = SymbolTable.read(EXAMPLES / "words.txt")
    chosen, used = [], {0}
    for key, lattice in package.read(EXAMPLES / "lat.ark.gz"):
        if len(chosen) == 3:
            break
        small = prune(lattice, 1.5, Scales(acoustic=0.1))
        # Whole numbers: all formats hold them, and all sums of them. Frames end with the last arc.
        no_labels = np.zeros(0, np.int32), np.zeros(small.num_states + 1, np.int64)
        for array in no_labels:
            array.flags.writeable = False
        costs = [np.round(cost).astype(np.float32) for cost in (small.graph, small.acoustic)]
        final = [np.where(small.is_final, 0.0, np.inf).astype(np.float32) for _ in range(2)]
        for array in (*costs, *final):
            array.flags.writeable = False
        small = replace(small, final_ali=no_labels[0], final_ali_begin=no_labels[1])
        small = replace(small, final_graph=final[0], final_acoustic=final[1]).with_costs(*costs)
        chosen.append(small.with_key(key.replace("-", "", 2)))
        used |= set(small.word.tolist())
    keys = {lattice.key for lattice in chosen}
    said = [line.replace("-", "", 2) for line in (EXAMPLES / "text").read_text().splitlines(keepends=True)]
    (folder / "said").write_text("".join(line for line in said if line.split()[0] in keys))
    names = dict(table)
    (folder / "table.txt").write_text("".join(f"{word} {i}\n" for word, i in names.items() if i in used))
    write_all(folder / "kaldi.ark", chosen)
    for name, (form, _, _) in SOURCES.items():
        if name == "k2" and find_spec("torch") is None:  # it writes k2's files; in CI that fails (conftest.py)
            continue
        given = [folder / "kaldi.ark", "--words", folder / "table.txt", "--to", form, "-o", folder / name]
        assert main(["convert", *map(str, given)]) == 0
    return folder


@pytest.fixture
def there(bed, monkeypatch, tmp_path):
    """Change to a folder without a symbol table next to it."""
    for each in bed.iterdir():
        (tmp_path / each.name).symlink_to(each)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def source(name):
    if name == "k2" and find_spec("torch") is None:  # it writes k2's files; in CI that fails (conftest.py)
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
def test_words_and_figures_are_those_of_the_kaldi_archive(ninja, there, name, verb):
    if ("--jobs" in verb and name != "slf") or ("confidence" in verb and name == "pfsg"):
        return  # processes take a while to start; PFSG's costs are rounded
    code, out, _ = ninja(verb[0], *source(name), *verb[1:])
    expected = ninja(verb[0], *KALDI, *verb[1:])
    assert (code, in_order(out)) == (0, in_order(expected[1]))


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "plf"])
@pytest.mark.parametrize("verb", ["score said S", "score said S --oracle", "oracle S --ref said"])
def test_scores_and_nearest_paths_are_those_of_the_kaldi_archive(ninja, there, name, verb):
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
def test_times_are_those_of_the_kaldi_archive(ninja, there, name, verb):
    code, out, _ = ninja(verb[0], *source(name), *verb[1:])
    assert (code, out) == (0, ninja(verb[0], *KALDI, *verb[1:])[1])


def test_the_frame_shift_of_the_file_is_taken_for_seconds(ninja, there):
    assert ninja("convert", *KALDI, "--to", "slf:frame_shift=0.02", "-o", "double")[0] == 0
    read = ["--from", "slf:frame_shift=0.02"]
    _, out, _ = ninja("to-ctm-conf", "double", *read)
    assert out == ninja("to-ctm-conf", *KALDI, "--frame-shift", "0.02")[1]
    ninja("1best", "double", *read, "-o", "best.arrow")
    ninja("1best", *KALDI, "-o", "best.ark")
    _, out, _ = ninja("nbest-to-ctm", "best.arrow")
    assert out == ninja("nbest-to-ctm", "best.ark", "--words", "table.txt", "--frame-shift", "0.02")[1]


@pytest.mark.parametrize("verb", ["to-ctm-conf", "mbr-decode --times - -o /dev/null", "limit-depth -o out.ark"])
def test_a_lattice_that_has_no_times_gets_none(ninja, there, verb):
    name, *options = verb.split()
    code, out, err = ninja(name, *source("pfsg"), *options)
    assert (code, out) == (1, "")
    assert "neither" in err
    assert "start" not in ninja("mbr-decode", *source("pfsg"), "--json", "-", "-o", "/dev/null")[1]
    assert "start" in ninja("mbr-decode", *source("slf"), "--json", "-", "-o", "/dev/null")[1]


OF_ALIGNMENTS = ["to-post", "project --project-output=false -o out.ark"]


@pytest.mark.parametrize("verb", OF_ALIGNMENTS)
def test_verbs_of_alignments_refuse_lattices_without_any(ninja, there, verb):
    name, *options = verb.split()
    code, out, err = ninja(name, *source("slf"), *options)
    assert (code, out) == (1, "")
    assert "the lattice has no alignments" in err
    assert ninja(name, *KALDI, *options)[0] == 0


# Verbs that make lattices, and whether the states, and so their times, stay.
MAKING = {
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
    "difference --ref said": True,
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
OF_TWO = ("combine", "compose", "copy-backoff", "interp", "union")
ARPA = "\\data\\\nngram 1=4\n\n\\1-grams:\n-1 <unk>\n-99 <s>\n-0.5 </s>\n-0.75 the\n\n\\end\\\n"


@pytest.mark.parametrize("verb", MAKING)
def test_lattices_made_of_a_foreign_source_are_those_made_of_the_archive(ninja, there, verb):
    name, *options = verb.split()
    (there / "lm.arpa").write_text(ARPA)
    other = ["slf"] if name in OF_TWO else []
    code, _, err = ninja(name, "slf", *other, *options, "-o", "out.arrow")
    assert code == 0, err
    made = [lattice for _, lattice in package.read("out.arrow")]
    lost = [lattice for lattice in made if lattice.time is None]
    assert (f"times of {len(lost)} lattices are not written" in err) == bool(lost)
    if MAKING[verb]:
        assert not lost
    for lattice in made:
        assert lattice.time is None or (lattice.time[lattice.dst] >= lattice.time[lattice.src]).all()
    other = [{"compose": "ark:kaldi.ark"}.get(name, "kaldi.ark")] if name in OF_TWO else []
    assert ninja(name, "kaldi.ark", *other, *options, "--words", "table.txt", "-o", "out.ark")[0] == 0
    code, _, err = ninja("equivalent", "out.arrow", "out.ark", "--words", "table.txt", "--num-paths", "0")
    assert code == 0, err


@pytest.mark.parametrize("to", ["slf", "native", "fst-text", "json", "pfsg"])
def test_best_paths_are_written_in_any_format(ninja, there, to):
    arguments = ["to-nbest", "slf", "--n", "2", "--to", to, "-o", "out", "--words-out", "own.txt"]
    assert ninja(*arguments)[0] == 0
    words = ["--words", "own.txt"] if to == "fst-text" else []
    _, out, _ = ninja("best", "out", *words)
    assert sorted(out.splitlines()) == sorted(ninja("nbest", *KALDI, "-n", "2")[1].splitlines())
    assert ninja("nbest-to-lattice", "out", *words, "-o", "united.arrow")[0] == 0
    _, out, _ = ninja("nbest", "united.arrow", "-n", "2")
    assert sorted(out.splitlines()) == sorted(ninja("nbest", *KALDI, "-n", "2")[1].splitlines())


def test_single_paths_are_written_in_any_format(ninja, there):
    assert ninja("1best", *KALDI, "-o", "one.ark")[0] == 0
    taken = ["-o", "tra", "--alignments", "ali", "--lm-cost", "lm", "--ac-cost", "ac"]
    assert ninja("nbest-to-linear", "one.ark", "--words", "table.txt", *taken)[0] == 0
    costs = ["--words", "table.txt", "--lm-cost", "lm", "--ac-cost", "ac"]
    assert ninja("linear-to-nbest", "ali", "--transcriptions", "tra", *costs, "--to", "slf", "-o", "one")[0] == 0
    assert ninja("best", "one")[1] == ninja("best", *KALDI)[1]
    assert ninja("string-to-lattice", "tra", "--words", "table.txt", "-o", "said.jsonl")[0] == 0
    assert ninja("best", "said.jsonl")[1] == ninja("best", *KALDI)[1]
    assert ninja("best-path", "slf", "-o", "/dev/null", "--write-lattices", "best.arrow")[0] == 0
    assert ninja("best", "best.arrow")[1] == ninja("best", *KALDI)[1]
    assert ninja("oracle", "slf", "--ref", "said", "-o", "near", "--write-lattices", "near.arrow")[0] == 0
    assert ninja("best", "near.arrow")[1] == (there / "near").read_text()


def test_parts_are_written_in_any_format(ninja, there):
    code, _, err = ninja("split", "native", "--nj", "2", "--to", "slf", "-o", "part.JOB", "--lossy", "refuse")
    assert (code, "slf cannot store: alignments" in err) == (1, True)
    assert ninja("split", "slf", "--nj", "2", "--to", "slf", "-o", "part.JOB")[0] == 0
    assert ninja("best", "part.1", "part.2")[1] == ninja("best", *KALDI)[1]


def test_info_says_what_the_sources_hold(ninja, there):
    figures = json.loads(ninja("info", "slf", "--json")[1])
    plain = json.loads(ninja("info", *KALDI, "--json")[1])
    assert (figures["formats"], plain["formats"]) == ({"slf": 3}, {"kaldi": 1})
    assert (figures["with times"], figures["with alignments"]) == (3, 0)
    assert (plain["with times"], plain["with alignments"]) == (0, 3)
    for name in ("lattices", "states", "arcs", "frames", "depth", "words"):
        assert figures[name] == plain[name], name
    assert figures["symbol table"] == f"{plain['words'] + 1} words"
    assert json.loads(ninja("info", "kaldi.ark", "--json")[1])["symbol table"] == "none"
    assert "formats                 3 slf" in ninja("info", "slf")[1]
    assert "--rnnlm requires --words" in ninja("info", "kaldi.ark", "--rnnlm", "none.pt")[2]


def test_pages_need_no_symbol_table_where_words_are_spelled(ninja, there):
    key = next(iter(package.keys("kaldi.ark")))
    assert ninja("show", "slf", "--key", key, "--ref", "said", "-o", "page.html")[0] == 0
    word = ninja("best", "slf")[1].split()[1]
    assert word in (there / "page.html").read_text()
    code, _, err = ninja("report", "slf", "native", "--ref", "said", "-o", "report.html")
    assert code == 0
    expected = ninja("report", "kaldi.ark", "kaldi.ark", "--words", "table.txt", "--ref", "said", "-o", "r.html")[2]
    assert err.splitlines()[0] == expected.splitlines()[0]


class _Input:
    def __init__(self, content):
        self.buffer = io.BytesIO(content)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("given", [["native"], KALDI])
def test_the_standard_input_is_known_by_its_content(ninja, there, monkeypatch, packed, given):
    content = (there / given[0]).read_bytes()
    for verb in (["best", "-"], ["score", "said", "-"], ["info", "-", "--json"]):
        monkeypatch.setattr(sys, "stdin", _Input(gzip.compress(content) if packed else content))
        out = ninja(*verb, *given[1:])[1]
        assert out == ninja(*[given[0] if each == "-" else each for each in verb], *given[1:])[1]


def test_transcripts_are_still_scored_as_transcripts(ninja, there):
    assert ninja("score", "said", "said")[1].startswith("%WER 0.00")
    code, _, err = ninja("score", "said", "said", "--oracle")
    assert (code, "--oracle requires lattices and --words" in err) == (2, True)
    code, _, err = ninja("score", "said", "kaldi.ark")
    assert (code, "set the symbol table with --words" in err) == (2, True)
    code, _, err = ninja("score", "said", "openfst", "--from", "openfst")
    assert (code, "set the symbol table with --words" in err) == (2, True)


def bare_archive(path):
    write_all(path, [from_arcs("u", [0], [1], [1], [1.0], finals={1: 0.0}, labels=[[3, 3]])])


VERBS_OF_TWO = ["union A B -o out.ark", "interp A B -o out.ark", "combine A B -o out.ark", "compose A ark:B -o out.ark"]
VERBS_OF_TWO += ["equivalent A B", "mbr-decode A --with B", "to-ctm-conf A --with B", "copy-backoff A B -o out.ark"]
VERBS_OF_TWO += ["report A B --ref said -o out.html --lattices 0", "best A B", "merge A B -o out.ark"]


@pytest.mark.parametrize("verb", VERBS_OF_TWO)
def test_ids_of_an_archive_are_never_taken_for_the_words_of_another_source(ninja, there, verb):
    bare_archive("bare.ark")
    for one, other in (("native", "bare.ark"), ("bare.ark", "native")):
        arguments = [one if each == "A" else each.replace("B", other) for each in verb.split()]
        code, out, err = ninja(*arguments)
        assert code == 2
        assert out == "" or verb == "best A B"  # which prints what it has read by then
        assert "bare.ark contains word ids, but another source contains words" in err or (
            verb.startswith("report") and "set the symbol table with --words" in err
        )


def test_the_vocabulary_of_files_that_spell_and_files_that_do_not_is_refused(there):
    bare_archive("bare.ark")
    assert vocabulary("bare.ark") is None
    assert len(vocabulary("slf")) == len(vocabulary(["slf", "native"]))
    with pytest.raises(OptionError, match=r"bare.ark contains word ids"):
        vocabulary(["slf", "bare.ark"])
    assert vocabulary(["slf", "said"]) is not None  # no lattices: reading says so


def test_an_fst_of_ids_is_not_composed_with_words_that_are_spelled(ninja, there):
    key = next(iter(package.keys("kaldi.ark")))
    assert ninja("convert", *KALDI, "--to", "openfst", "-o", "fsts")[0] == 0
    machine = f"fsts/{key}.fst"
    code, _, err = ninja("compose", "slf", machine, "-o", "out.arrow")
    assert (code, f"{machine} contains word ids" in err) == (2, True)
    ninja("compose", "slf", machine, "--words", "table.txt", "-o", "out.arrow")
    ninja("compose", *KALDI, machine, "-o", "out.ark")
    assert ninja("equivalent", "out.arrow", "out.ark", "--words", "table.txt", "--delta", "0.01")[0] == 0


def test_words_of_several_sources_have_one_table(ninja, there):
    table = SymbolTable.read("table.txt")
    names = [word for word, number in table if number]
    turned = SymbolTable([("<eps>", 0), *((word, place) for place, word in enumerate(reversed(names), start=1))])
    respelled = Words(turned).attach
    write_all("other.arrow", (respelled(lattice) for _, lattice in package.read("native")))
    assert ninja("equivalent", "slf", "other.arrow")[0] == 0
    assert ninja("best", "slf", "other.arrow")[1] == 2 * ninja("best", *KALDI)[1]
    expected = ninja("mbr-decode", *KALDI, "--with", "kaldi.ark")[1]
    assert ninja("mbr-decode", "other.arrow", "--with", "slf")[1] == expected


def test_ids_that_are_no_words_any_more_get_no_names(ninja, there):
    code, _, err = ninja("project", "native", "--project-output=false", "-o", "ids.ark")
    assert code == 0
    assert "wrote the symbol table to" not in err
    assert not (there / "ids.words.txt").exists()
    for jobs in ("1", "2"):
        assert ninja("project", "native", "--project-output=false", "--jobs", jobs, "-o", "ids.arrow")[0] == 0
        assert all(lattice.words is None for _, lattice in package.read("ids.arrow"))


def test_alignments_are_compared_where_both_sources_have_some(ninja, there):
    code, _, err = ninja("equivalent", "slf", "native")
    assert (code, "3 lattices have alignments in only one source, which are ignored" in err) == (0, True)
    with package.write("others.ark") as output:
        for _, lattice in package.read("kaldi.ark"):
            labels = lattice.ali + np.int32(1)
            labels.flags.writeable = False
            output.write(replace(lattice, ali=labels))
    assert ninja("equivalent", "kaldi.ark", "others.ark")[0] == 1


def test_a_path_with_times_is_a_path_with_times_in_every_format_that_holds_them(ninja, there):
    for name in ("slf", "native"):
        assert ninja("1best", "slf", "--to", name, "-o", f"one.{name}d")[0] == 0
        assert ninja("nbest-to-ctm", f"one.{name}d")[0] == 0
        first = next(lattice for _, lattice in package.read("slf"))
        found = next(lattice for _, lattice in package.read(f"one.{name}d"))
        wanted = path_lattice(first, best_path(first))
        assert connect(found).time.tolist() == wanted.time.tolist()
