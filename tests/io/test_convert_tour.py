"""The English test archive through every format by ``ninja convert``: what comes back, and what each leg says it loses.

A leg converts a file of one format into another. What is read from its end must be what was read from its begin, but
for what the format at its end has no place for; and what was lost on the way must be what the leg said.
"""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lattice_files import write_all
from reference_graph import SHARED

import ninja as package
from ninja import graph
from ninja.cli.main import main
from ninja.lattice import Scales
from ninja.lattice.symbols import SymbolTable

ENGLISH = SHARED / "data" / "english"
# Skips where the file did not come along, on a user's machine; in CI that fails (conftest.py).
pytestmark = pytest.mark.skipif(not ENGLISH.is_dir(), reason="the English lattices are not on this machine")

EVERY = 20  # which of the lattices take the legs between all pairs of formats
ENDINGS = {"kaldi": "lat.ark", "k2": "lat.pt", "json": "lat.jsonl", "native": "lat.arrow"}  # the others have folders
APART = "separate graph and acoustic costs"

# What each leg loses of a lattice that was Kaldi's and came by the format on the left; docs/formats.md has this table.
LOSSES = """
| from, to | Kaldi | SLF | OpenFst | k2 | n-best | native |
|---|---|---|---|---|---|---|
| Kaldi | | alignments | alignments, separate graph and acoustic costs | | alignments, costs of single words | |
| SLF | times | | times, separate graph and acoustic costs | | costs of single words | |
| OpenFst | | | | | costs of single words | |
| k2 | | alignments | alignments, separate graph and acoustic costs | | alignments, costs of single words | |
| n-best | times | | times, separate graph and acoustic costs | | | |
| native | | alignments | alignments, separate graph and acoustic costs | | alignments, costs of single words | |
"""
LOSSES_ELSEWHERE = """
| `--to` | what a Kaldi lattice loses |
|---|---|
| `text` | |
| `sphinx` | alignments, graph costs |
| `pfsg` | alignments, separate graph and acoustic costs |
| `plf` | alignments, key, separate graph and acoustic costs |
| `plf:scores=both` | alignments, key |
| `mesh` | paths and their costs |
| `fst-text` | alignments, separate graph and acoustic costs |
| `fst-ark` | alignments, separate graph and acoustic costs |
| `k2:extras=no` | alignments, key |
| `json:n=0` | alignments, costs of single words |
| `srilm:n=0` | alignments, costs of single words, times |
| `srilm:n=0,variant=NBestList1.0` | alignments, costs of single words, times, \
separate graph and acoustic costs |
| `srilm:n=0,variant=NBestList2.0` | alignments, separate graph and acoustic costs |
| `nemo:n=2` | alignments, costs of single words, key, times, \
separate graph and acoustic costs |
| `espnet:n=0` | alignments, costs of single words, times, separate graph and acoustic costs |
| `nbest-kaldi:n=0` | |
"""


def cells(table):
    """Return the cells of a Markdown table, row by row, without its header."""
    rows = table.strip().splitlines()[2:]
    return [[cell.strip().strip("`") for cell in row.strip("|").split("|")] for row in rows]


DELTAS = {  # how much a path's cost may change where digits are lost
    "sphinx": 1e-2,
    "pfsg": 1e-2,
    "srilm:n=0,variant=NBestList1.0": 0.06,
    "srilm:n=0,variant=NBestList2.0": 1.0,  # 0.05 a word
}


def listed(cell):
    return set(cell.split(", ")) if cell else set()


NAMES = {"n-best": "json:n=0"}
FORMATS = [NAMES.get(row[0], row[0].lower()) for row in cells(LOSSES)]
PAIRS = [
    (one, other, listed(cell))
    for one, row in zip(FORMATS, cells(LOSSES), strict=True)
    for other, cell in zip(FORMATS, row[1:], strict=True)
]


def read(source, words, **options):
    return {key: lattice for key, lattice in package.read(str(source), words=words, **options)}


def test_the_page_of_formats_says_what_each_leg_loses():
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in page.splitlines() if row.startswith("| ")]
    assert [row for row in cells(LOSSES) if row not in rows] == []


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    """A folder with words and archives.

    ``all`` has all lattices of the test set, ``some`` has some of them, ``small`` has them pruned so far that their
    paths can be listed; ``pairs`` are those of two paths, ``aligned`` are others whose arcs are whole words.
    """
    folder = tmp_path_factory.mktemp("tour")
    test = ENGLISH / "test"
    lattices = [lattice for _, lattice in package.read(str(test / "libri" / "lat.ark.gz"))]
    aligned = [lattice for _, lattice in package.read(str(test / "calls" / "lat_aligned.ark.gz"))][::EVERY]
    small = [graph.prune(lattice, 2.0, Scales(0.1)) for lattice in lattices]
    archives = {
        "all": lattices,
        "some": lattices[::EVERY],
        "small": small,
        "few": small[::8],
        "fewest": small[::EVERY],
        "pairs": [lattice for lattice in small if len(graph.nbest(lattice, 3)) == 2],
        "aligned": [graph.prune(lattice, 1.0, Scales(0.1)) for lattice in aligned],
    }
    for name, chosen in archives.items():
        write_all(str(folder / f"{name}.ark"), chosen)
    used = {int(word) for lattice in (*lattices, *aligned) for word in np.unique(lattice.word)}
    table = SymbolTable.read(str(ENGLISH / "words.txt.gz"))
    (folder / "words.txt").write_text("".join(f"{table.word(word)} {word}\n" for word in sorted(used)))
    return folder


@pytest.fixture
def leg(ninja, bed):
    """Convert a file to a format in a test's folder; return the new file, and the losses that were reported."""

    def run(source, to, folder, *options):
        target = folder / ENDINGS.get(to.partition(":")[0], f"to-{re.sub('[^a-z]', '-', to)}")
        code, output, errors = ninja("convert", source, "--to", to, "-o", target, *options)
        assert (code, output) == (0, ""), errors
        *rest, summary = errors.splitlines()
        assert re.fullmatch(r"ninja: \d+ lattices, [\d.]+ s", summary)
        told = [re.fullmatch(r"ninja: warning: \S+ files cannot store all fields; (.*)", line) for line in rest]
        groups = [re.split(" loses?: ", each)[1] for found in told if found for each in found[1].split("; ")]
        return target, {field for group in groups for field in group.split(", ")}

    return run


@pytest.fixture
def words(bed):
    return SymbolTable.read(str(bed / "words.txt"))


def kept(lattice, form):
    """Return the fields of a lattice that a format can represent: every format here keeps states and arcs."""
    labelled = len(lattice.ali) + len(lattice.final_ali) > 0
    bare = replace(
        lattice,
        ali_begin=np.zeros_like(lattice.ali_begin),
        ali=lattice.ali[:0],
        final_ali_begin=np.zeros_like(lattice.final_ali_begin),
        final_ali=lattice.final_ali[:0],
    )
    if form == "slf":
        timed = labelled or lattice.time is not None
        return replace(bare, time=graph.state_times(lattice) if timed else None)
    if form == "openfst":
        total = lattice.graph + lattice.acoustic
        ends = lattice.final_graph + lattice.final_acoustic
        zero = np.where(lattice.is_final, np.float32(0), np.float32(np.inf))
        return replace(bare, graph=total, acoustic=0 * total, final_graph=ends, final_acoustic=zero, time=None)
    return replace(lattice, time=None) if form == "kaldi" else lattice


@pytest.fixture(scope="module")
def begins(bed, tmp_path_factory):
    """Convert some Kaldi lattices to each format; return them by the name of their archive and the format."""
    found = {}
    for name in ("some", "fewest"):
        folder = tmp_path_factory.mktemp(name)
        for form in FORMATS:
            if name == "some" and form == "json:n=0":
                continue  # they have too many paths
            found[name, form] = folder / ENDINGS.get(form.partition(":")[0], form)
            arguments = ["convert", bed / f"{name}.ark", "--to", form, "-o", found[name, form]]
            assert main([*map(str, arguments), "--words", str(bed / "words.txt")]) == 0
    return found


def beginning(begins, *pair):
    """Return the initial lattices of a leg: those whose paths can all be listed, if it is about lists."""
    return begins["fewest" if "json:n=0" in pair else "some", pair[0]]


@pytest.mark.parametrize(("one", "other", "lost"), PAIRS, ids=[f"{one}-{other}" for one, other, _ in PAIRS])
def test_a_leg_keeps_what_the_format_at_its_end_has_a_place_for(leg, begins, bed, words, tmp_path, one, other, lost):
    begin = beginning(begins, one, other)
    end, said_lost = leg(begin, other, tmp_path, "--words", bed / "words.txt")
    before, after = read(begin, words), read(end, words)
    assert {*before} == {*after}
    assert said_lost == lost
    for key, lattice in before.items():
        if other == "json:n=0":
            assert graph.equivalent(lattice, after[key], 1e-3, costs="both")
            assert lattice.time is None or said(lattice) == said(after[key])
        else:
            assert kept(lattice, other).identical(after[key])
        if lattice.frame_shift is not None and after[key].time is not None:
            assert after[key].frame_shift == lattice.frame_shift
    if lost:
        options = ["--words", bed / "words.txt", "--lossy", "refuse"]
        assert main([str(each) for each in ["convert", begin, "-o", tmp_path / "x", "--to", other, *options]]) == 1


@pytest.mark.parametrize("one", ["slf", "json:n=0", "native"])
@pytest.mark.parametrize("other", FORMATS)
def test_words_that_a_file_spells_go_along_without_a_table(leg, begins, words, tmp_path, one, other):
    begin = beginning(begins, one, other)
    end, _ = leg(begin, other, tmp_path)
    found = end.with_name(f"{end.name}.words.txt") if end.is_file() else end / "words.txt"
    own = SymbolTable.read(str(found)) if found.exists() else None
    assert (own is None) == (other in ("slf", "json:n=0", "native"))
    before, after = read(begin, words), read(end, own or words)
    assert {*before} == {*after}
    for key, lattice in before.items():
        assert spelled(after[key]) == spelled(lattice)


def spelled(lattice):
    """Return the words of the best path, and those of all paths."""
    return lattice.words.spell(graph.best_path(lattice).words), sorted(lattice.words.spell(np.unique(lattice.word)))


def said(lattice):
    """Return the best sentence with the frames at which its words begin and end."""
    (best,) = graph.lattice_nbest(replace(lattice, time=graph.state_times(lattice)), 1).hypotheses
    return best.words, best.begin, best.end


def worst(before, after):
    """Return the largest difference of an arc's costs between lattices of the same states and arcs."""
    names = ("graph", "acoustic", "final_graph", "final_acoustic")
    pairs = [(getattr(before, name), getattr(after, name)) for name in names]
    return max(float(np.abs(one - other, where=np.isfinite(one), out=np.zeros_like(one)).max()) for one, other in pairs)


def test_the_whole_archive_comes_home_as_it_left_by_every_format_with_both_costs(leg, bed, words, tmp_path):
    place, before = bed / "all.ark", read(bed / "all.ark", words)
    times = {key: graph.state_times(lattice).tolist() for key, lattice in before.items()}
    for to in ("k2", "slf", "native", "kaldi"):
        place, _ = leg(place, to, tmp_path, "--words", bed / "words.txt")
        if to in ("slf", "native"):
            assert times == {key: graph.state_times(lattice).tolist() for key, lattice in read(place, words).items()}
    after = read(place, words)
    assert {*before} == {*after}
    assert len(before) == 239
    for key, lattice in before.items():
        assert kept(lattice, "slf").identical(replace(after[key], time=graph.state_times(lattice)))
        assert worst(lattice, after[key]) == 0.0


def test_the_whole_archive_comes_home_equivalent_by_slf_openfst_and_k2(leg, bed, ninja, tmp_path):
    place = bed / "all.ark"
    for to in ("slf", "openfst", "k2", "native", "kaldi"):
        place, _ = leg(place, to, tmp_path, "--words", bed / "words.txt")
    code, _, errors = ninja("equivalent", bed / "all.ark", place, "--delta", 1e-3, "--num-paths", 0)
    assert (code, errors) == (0, "ninja: 239 lattices, 239 of them equivalent\n")


def test_small_lattices_come_home_equivalent_by_lists_of_all_their_paths(leg, bed, words, tmp_path):
    place = bed / "small.ark"
    for to in ("slf", "openfst", "k2", "json:n=0", "native", "kaldi"):
        place, lost = leg(place, to, tmp_path, "--words", bed / "words.txt")
        assert not any("paths" in each for each in lost)
    before, after = read(bed / "small.ark", words), read(place, words)
    assert {*before} == {*after}
    assert len(before) == 239
    assert all(graph.equivalent(lattice, after[key], 1e-3) for key, lattice in before.items())


def test_lists_of_all_paths_keep_both_costs_and_times(leg, bed, words, tmp_path):
    place = bed / "few.ark"
    for to in ("k2", "slf", "json:n=0", "native"):
        place, _ = leg(place, to, tmp_path, "--words", bed / "words.txt")
    before, after = read(bed / "few.ark", words), read(place, words)
    assert {*before} == {*after}
    for key, lattice in before.items():
        assert graph.equivalent(lattice, after[key], 1e-3, costs="both")
        assert said(lattice) == said(after[key])
    direct = read(leg(bed / "few.ark", "json:n=0", tmp_path, "--words", bed / "words.txt")[0], words)
    assert all(said(direct[key]) == said(lattice) for key, lattice in before.items())


@pytest.mark.parametrize(("to", "lost"), [(to, listed(cell)) for to, cell in cells(LOSSES_ELSEWHERE)])
def test_a_leg_to_any_other_format_loses_what_the_page_says(leg, bed, words, tmp_path, to, lost):
    name = {"nemo:n=2": "pairs", "srilm:n=0,variant=NBestList2.0": "aligned"}
    source = bed / f"{name.get(to, 'few' if 'n=' in to else 'some')}.ark"
    end, lost_here = leg(source, to, tmp_path, "--words", bed / "words.txt")
    assert lost_here == lost
    form = {"nemo:n=2": "nemo:beam=2", "nbest-kaldi:n=0": "nbest-kaldi", "plf:scores=both": "plf:graph=0,acoustic=1"}
    after = read(end, words, format=form.get(to))
    before = read(source, words)
    numbered = "key" in lost
    assert len(before) == len(after)
    assert ({*before} == {*after}) == (not numbered)
    backs = after.values() if numbered else [after[key] for key in before]
    for lattice, back in zip(before.values(), backs, strict=True):
        compare(lattice, back, to, lost)


def compare(lattice, back, to, lost):
    """Compare a lattice with its converted form, except for reported losses."""
    if to == "mesh":
        decoded = graph.best_path(back).words.tolist()
        assert decoded == package.consensus.mbr_decode(lattice).words.tolist()
        return
    if "graph costs" in lost:
        lattice = replace(lattice, graph=0 * lattice.graph, final_graph=lattice.final_acoustic * 0)
    if to == "text":
        assert lattice.word.tolist() == back.word.tolist()
        assert worst(lattice, back) < 1e-3
        return
    costs = "total" if APART in lost else "both"
    assert graph.equivalent(lattice, back, DELTAS.get(to, 1e-3), costs=costs)
