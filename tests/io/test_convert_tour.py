"""Convert the English test lattices between all formats with ``ninja convert`` and check the reported losses.

The converted lattices must equal those of the source, except for the fields that the target format cannot store; and
the command must report exactly these fields as lost.
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
# Skipped on machines without the files; in CI a skip is a failure (conftest.py).
pytestmark = pytest.mark.skipif(not ENGLISH.is_dir(), reason="the English lattices are not on this machine")

STRIDE = 20  # every 20th lattice is converted between all pairs of formats
# Formats without an entry are written to folders.
ENDINGS = {"kaldi": "lat.ark", "k2": "lat.pt", "json": "lat.jsonl", "native": "lat.arrow"}
SEPARATE_COSTS = "separate graph and acoustic costs"

# Losses of a Kaldi lattice that is converted from the format on the left; docs/formats.md contains this table.
LOSSES = """
| from, to | Kaldi | SLF | OpenFst | k2 | n-best | native |
|---|---|---|---|---|---|---|
| Kaldi | | alignments | alignments, separate graph and acoustic costs | | alignments, word costs | |
| SLF | times | | times, separate graph and acoustic costs | | word costs | |
| OpenFst | | | | | word costs | |
| k2 | | alignments | alignments, separate graph and acoustic costs | | alignments, word costs | |
| n-best | times | | times, separate graph and acoustic costs | | | |
| native | | alignments | alignments, separate graph and acoustic costs | | alignments, word costs | |
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
| `json:n=0` | alignments, word costs |
| `srilm:n=0` | alignments, word costs, times |
| `srilm:n=0,variant=NBestList1.0` | alignments, word costs, times, \
separate graph and acoustic costs |
| `srilm:n=0,variant=NBestList2.0` | alignments, separate graph and acoustic costs |
| `nemo:n=2` | alignments, word costs, key, times, \
separate graph and acoustic costs |
| `espnet:n=0` | alignments, word costs, times, separate graph and acoustic costs |
| `nbest-kaldi:n=0` | |
"""


def cells(table):
    """Return the rows of cells of a Markdown table, without its header."""
    rows = table.strip().splitlines()[2:]
    return [[cell.strip().strip("`") for cell in row.strip("|").split("|")] for row in rows]


DELTAS = {  # tolerance of path costs for formats that store fewer digits
    "sphinx": 1e-2,
    "pfsg": 1e-2,
    "srilm:n=0,variant=NBestList1.0": 0.06,
    "srilm:n=0,variant=NBestList2.0": 1.0,  # 0.05 per word
}


def field_names(cell):
    return set(cell.split(", ")) if cell else set()


SPECIFIERS = {"n-best": "json:n=0"}
FORMATS = [SPECIFIERS.get(row[0], row[0].lower()) for row in cells(LOSSES)]
PAIRS = [
    (from_format, to_format, field_names(cell))
    for from_format, row in zip(FORMATS, cells(LOSSES), strict=True)
    for to_format, cell in zip(FORMATS, row[1:], strict=True)
]


def read(source, words, **options):
    return {key: lattice for key, lattice in package.read(str(source), words=words, **options)}


def test_documentation_lists_the_losses_of_each_conversion():
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in page.splitlines() if row.startswith("| ")]
    assert [row for row in cells(LOSSES) if row not in rows] == []


@pytest.fixture(scope="module")
def archive_folder(tmp_path_factory):
    """Create a folder with a symbol table and archives.

    ``all`` contains all lattices of the test set, ``subset`` every 20th; ``pruned`` contains all of them with few
    enough paths to list, ``pruned_8`` and ``pruned_20`` every 8th and 20th of these, ``two_paths`` those with two
    paths. ``aligned`` contains lattices of another set with one arc per word.
    """
    folder = tmp_path_factory.mktemp("tour")
    test = ENGLISH / "test"
    lattices = [lattice for _, lattice in package.read(str(test / "libri" / "lat.ark.gz"))]
    aligned = [lattice for _, lattice in package.read(str(test / "calls" / "lat_aligned.ark.gz"))][::STRIDE]
    pruned = [graph.prune(lattice, 2.0, Scales(0.1)) for lattice in lattices]
    archives = {
        "all": lattices,
        "subset": lattices[::STRIDE],
        "pruned": pruned,
        "pruned_8": pruned[::8],
        "pruned_20": pruned[::STRIDE],
        "two_paths": [lattice for lattice in pruned if len(graph.nbest(lattice, 3)) == 2],
        "aligned": [graph.prune(lattice, 1.0, Scales(0.1)) for lattice in aligned],
    }
    for name, entries in archives.items():
        write_all(str(folder / f"{name}.ark"), entries)
    words = {int(word) for lattice in (*lattices, *aligned) for word in np.unique(lattice.word)}
    table = SymbolTable.read(str(ENGLISH / "words.txt.gz"))
    (folder / "words.txt").write_text("".join(f"{table.word(word)} {word}\n" for word in sorted(words)))
    return folder


@pytest.fixture
def convert(ninja, archive_folder):
    """Convert a file to a format in a folder; return the new path and the reported losses."""

    def run(source, to, folder, *options):
        target = folder / ENDINGS.get(to.partition(":")[0], f"to-{re.sub('[^a-z]', '-', to)}")
        code, output, errors = ninja("convert", source, "--to", to, "-o", target, *options)
        assert (code, output) == (0, ""), errors
        *notes, summary = errors.splitlines()
        assert re.fullmatch(r"ninja: \d+ lattices, [\d.]+ s", summary)
        matches = [re.fullmatch(r"ninja: warning: \S+ files cannot store all fields; (.*)", line) for line in notes]
        losses = [re.split(" loses?: ", part)[1] for match in matches if match for part in match[1].split("; ")]
        return target, {field for loss in losses for field in loss.split(", ")}

    return run


@pytest.fixture
def words(archive_folder):
    return SymbolTable.read(str(archive_folder / "words.txt"))


def stored_fields(lattice, form):
    """Return the lattice with the fields that a format can store; every tested format stores states and arcs."""
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
def sources(archive_folder, tmp_path_factory):
    """Convert Kaldi lattices to each format; return the paths by archive name and format."""
    sources = {}
    for name in ("subset", "pruned_20"):
        folder = tmp_path_factory.mktemp(name)
        for form in FORMATS:
            if name == "subset" and form == "json:n=0":
                continue  # these lattices have too many paths
            sources[name, form] = folder / ENDINGS.get(form.partition(":")[0], form)
            arguments = ["convert", archive_folder / f"{name}.ark", "--to", form, "-o", sources[name, form]]
            assert main([*map(str, arguments), "--words", str(archive_folder / "words.txt")]) == 0
    return sources


def source_file(sources, *pair):
    """Return the source of a conversion; for n-best lists, lattices with few enough paths to list."""
    return sources["pruned_20" if "json:n=0" in pair else "subset", pair[0]]


@pytest.mark.parametrize(("from_format", "to_format", "losses"), PAIRS, ids=["-".join(pair[:2]) for pair in PAIRS])
def test_conversion_preserves_the_fields_of_the_target_format(
    convert, sources, archive_folder, words, tmp_path, from_format, to_format, losses
):
    source = source_file(sources, from_format, to_format)
    target, reported = convert(source, to_format, tmp_path, "--words", archive_folder / "words.txt")
    before, after = read(source, words), read(target, words)
    assert {*before} == {*after}
    assert reported == losses
    for key, lattice in before.items():
        if to_format == "json:n=0":
            assert graph.equivalent(lattice, after[key], 1e-3, costs="both")
            assert lattice.time is None or timed_sentence(lattice) == timed_sentence(after[key])
        else:
            assert stored_fields(lattice, to_format).identical(after[key])
        if lattice.frame_shift is not None and after[key].time is not None:
            assert after[key].frame_shift == lattice.frame_shift
    if losses:
        options = ["--words", archive_folder / "words.txt", "--lossy", "refuse"]
        assert main([str(part) for part in ["convert", source, "-o", tmp_path / "x", "--to", to_format, *options]]) == 1


@pytest.mark.parametrize("from_format", ["slf", "json:n=0", "native"])
@pytest.mark.parametrize("to_format", FORMATS)
def test_words_spelled_in_a_file_are_converted_without_a_symbol_table(
    convert, sources, words, tmp_path, from_format, to_format
):
    source = source_file(sources, from_format, to_format)
    target, _ = convert(source, to_format, tmp_path)
    table_path = target.with_name(f"{target.name}.words.txt") if target.is_file() else target / "words.txt"
    table = SymbolTable.read(str(table_path)) if table_path.exists() else None
    assert (table is None) == (to_format in ("slf", "json:n=0", "native"))
    before, after = read(source, words), read(target, table or words)
    assert {*before} == {*after}
    for key, lattice in before.items():
        assert spelling(after[key]) == spelling(lattice)


def spelling(lattice):
    """Return the words of the best path and the sorted words of all paths."""
    return lattice.words.spell(graph.best_path(lattice).words), sorted(lattice.words.spell(np.unique(lattice.word)))


def timed_sentence(lattice):
    """Return the words of the best path with their begin and end frames."""
    (best,) = graph.lattice_nbest(replace(lattice, time=graph.state_times(lattice)), 1).hypotheses
    return best.words, best.begin, best.end


def max_cost_difference(before, after):
    """Return the largest difference of arc or final costs between lattices with equal states and arcs."""
    names = ("graph", "acoustic", "final_graph", "final_acoustic")
    pairs = [(getattr(before, name), getattr(after, name)) for name in names]
    return max(float(np.abs(a - b, where=np.isfinite(a), out=np.zeros_like(a)).max()) for a, b in pairs)


def test_round_trip_through_formats_with_both_costs_is_lossless(convert, archive_folder, words, tmp_path):
    path, before = archive_folder / "all.ark", read(archive_folder / "all.ark", words)
    times = {key: graph.state_times(lattice).tolist() for key, lattice in before.items()}
    for to in ("k2", "slf", "native", "kaldi"):
        path, _ = convert(path, to, tmp_path, "--words", archive_folder / "words.txt")
        if to in ("slf", "native"):
            assert times == {key: graph.state_times(lattice).tolist() for key, lattice in read(path, words).items()}
    after = read(path, words)
    assert {*before} == {*after}
    assert len(before) == 239
    for key, lattice in before.items():
        assert stored_fields(lattice, "slf").identical(replace(after[key], time=graph.state_times(lattice)))
        assert max_cost_difference(lattice, after[key]) == 0.0


def test_round_trip_through_slf_openfst_and_k2_is_equivalent(convert, archive_folder, ninja, tmp_path):
    path = archive_folder / "all.ark"
    for to in ("slf", "openfst", "k2", "native", "kaldi"):
        path, _ = convert(path, to, tmp_path, "--words", archive_folder / "words.txt")
    code, _, errors = ninja("equivalent", archive_folder / "all.ark", path, "--delta", 1e-3, "--num-paths", 0)
    assert (code, errors) == (0, "ninja: 239 lattices, 239 of them equivalent\n")


def test_round_trip_through_complete_nbest_lists_is_equivalent(convert, archive_folder, words, tmp_path):
    path = archive_folder / "pruned.ark"
    for to in ("slf", "openfst", "k2", "json:n=0", "native", "kaldi"):
        path, losses = convert(path, to, tmp_path, "--words", archive_folder / "words.txt")
        assert not any("paths" in field for field in losses)
    before, after = read(archive_folder / "pruned.ark", words), read(path, words)
    assert {*before} == {*after}
    assert len(before) == 239
    assert all(graph.equivalent(lattice, after[key], 1e-3) for key, lattice in before.items())


def test_complete_nbest_lists_preserve_both_costs_and_times(convert, archive_folder, words, tmp_path):
    path = archive_folder / "pruned_8.ark"
    for to in ("k2", "slf", "json:n=0", "native"):
        path, _ = convert(path, to, tmp_path, "--words", archive_folder / "words.txt")
    before, after = read(archive_folder / "pruned_8.ark", words), read(path, words)
    assert {*before} == {*after}
    for key, lattice in before.items():
        assert graph.equivalent(lattice, after[key], 1e-3, costs="both")
        assert timed_sentence(lattice) == timed_sentence(after[key])
    direct = read(
        convert(archive_folder / "pruned_8.ark", "json:n=0", tmp_path, "--words", archive_folder / "words.txt")[0],
        words,
    )
    assert all(timed_sentence(direct[key]) == timed_sentence(lattice) for key, lattice in before.items())


@pytest.mark.parametrize(("to", "losses"), [(to, field_names(cell)) for to, cell in cells(LOSSES_ELSEWHERE)])
def test_conversion_to_other_formats_loses_the_documented_fields(convert, archive_folder, words, tmp_path, to, losses):
    name = {"nemo:n=2": "two_paths", "srilm:n=0,variant=NBestList2.0": "aligned"}
    source = archive_folder / f"{name.get(to, 'pruned_8' if 'n=' in to else 'subset')}.ark"
    target, reported = convert(source, to, tmp_path, "--words", archive_folder / "words.txt")
    assert reported == losses
    form = {"nemo:n=2": "nemo:beam=2", "nbest-kaldi:n=0": "nbest-kaldi", "plf:scores=both": "plf:graph=0,acoustic=1"}
    after = read(target, words, format=form.get(to))
    before = read(source, words)
    keys_lost = "key" in losses
    assert len(before) == len(after)
    assert ({*before} == {*after}) == (not keys_lost)
    results = after.values() if keys_lost else [after[key] for key in before]
    for lattice, result in zip(before.values(), results, strict=True):
        compare(lattice, result, to, losses)


def compare(lattice, result, to, losses):
    """Check that a converted lattice equals the original except for the reported losses."""
    if to == "mesh":
        decoded = graph.best_path(result).words.tolist()
        assert decoded == package.consensus.mbr_decode(lattice).words.tolist()
        return
    if "graph costs" in losses:
        lattice = replace(lattice, graph=0 * lattice.graph, final_graph=lattice.final_acoustic * 0)
    if to == "text":
        assert lattice.word.tolist() == result.word.tolist()
        assert max_cost_difference(lattice, result) < 1e-3
        return
    costs = "total" if SEPARATE_COSTS in losses else "both"
    assert graph.equivalent(lattice, result, DELTAS.get(to, 1e-3), costs=costs)
