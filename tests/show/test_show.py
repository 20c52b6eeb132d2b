"""Pages and pictures of lattices: their elements, positions and figures; words are never interpreted as code."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from example_lattices import ARCHIVE, TEXT, WORDS
from hypothesis import given
from hypothesis import strategies as st
from lattice_files import write_all
from lattice_pages import HOSTILE, data_of, hostile
from reference_graph import paths, through_costs
from strategies import lattices
from strategies_graph import scales_of, timed_lattices

from ninja.errors import LatticeError, OptionError
from ninja.graph import best_path, from_arcs, oracle, posteriors, select_arcs, state_times
from ninja.io import read
from ninja.lattice import Lattice, Scales
from ninja.lattice.symbols import SymbolTable
from ninja.show import ShowOptions, detours, draw, lattice_page, picture
from ninja.show.layout import SMALLEST_STEP, lay_out
from ninja.show.page import script_json

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def words():
    return SymbolTable.read(WORDS)


@pytest.fixture(scope="module")
def examples(words):
    return dict(read(ARCHIVE, words=words))


# ---- Detours.


@given(lattices(connected=False), st.sampled_from([0.1, 1.0]), st.sampled_from([0.0, 0.5]))
def test_the_excess_of_an_arc_is_the_excess_cost_of_its_best_path(lattice, acoustic_scale, word_penalty):
    if not paths(lattice):
        return
    scales = {"acoustic_scale": acoustic_scale, "word_penalty": word_penalty}
    through = through_costs(lattice, **scales)
    ordering = detours(lattice, scales_of(scales))
    best = best_path(lattice, scales_of(scales)).cost(scales_of(scales))
    for arc in range(lattice.num_arcs):
        expected = through[arc] - best if arc in through else np.inf
        assert ordering.excess[arc] == pytest.approx(expected, abs=1e-4)


@given(lattices(connected=False))
def test_detours_partition_the_arcs_and_every_prefix_is_connected(lattice):
    if not paths(lattice):
        return
    best = best_path(lattice)
    ordering = detours(lattice, paths=[best.arcs])
    arcs = [arc for row in ordering.arcs for arc in row]
    assert sorted(arcs) == np.flatnonzero(np.isfinite(ordering.excess)).tolist()
    keep = np.zeros(lattice.num_arcs, np.bool_)
    for number, row in enumerate(ordering.arcs):
        assert all(lattice.dst[arc] == lattice.src[next_arc] for arc, next_arc in pairwise(row))
        if number == 0 and len(best.arcs):
            assert list(row) == best.arcs.tolist()
        keep[list(row)] = True
        assert select_arcs(lattice, keep).num_arcs == keep.sum()


@given(lattices())
def test_detours_are_in_the_order_in_which_a_growing_beam_includes_them(lattice):
    ordering = detours(lattice)
    entry_costs = [ordering.excess[list(row)].max() for row in ordering.arcs]
    assert np.all(np.diff(entry_costs) >= -1e-6)


@given(lattices(max_word=3), st.lists(st.integers(1, 3), max_size=4))
def test_specified_paths_precede_cheaper_detours(lattice, reference):
    best, oracle_path = best_path(lattice), oracle(lattice, reference)
    ordering = detours(lattice, paths=[best.arcs, oracle_path.arcs])
    marked_arcs = {*best.arcs.tolist(), *oracle_path.arcs.tolist()}
    is_marked = [set(row) <= marked_arcs for row in ordering.arcs]
    assert is_marked == sorted(is_marked, reverse=True)
    assert {arc for row, flag in zip(ordering.arcs, is_marked, strict=True) if flag for arc in row} == marked_arcs


def test_a_lattice_without_a_complete_path_is_refused():
    with pytest.raises(LatticeError, match="key 'dead': no path leads from the start to a final state"):
        detours(dead_end())


def test_a_path_of_another_lattice_is_refused():
    lattice = from_arcs("a", [0], [1], [5], [1.0], finals={1: 0.0})
    with pytest.raises(LatticeError, match="key 'a': arc 1 does not exist: the path belongs to another lattice"):
        detours(lattice, paths=[np.array([0, 1])])


def dead_end() -> Lattice:
    """Return a lattice whose final state is unreachable."""
    return Lattice.from_arrays("dead", [0, 1, 1, 1], [1], [1], [0.0], [0.0], [np.inf, np.inf, 0.0])


# ---- Layout.


@given(st.one_of(lattices(), timed_lattices()))
def test_arcs_point_right_and_do_not_overlap_in_a_lane(lattice):
    rows = detours(lattice, paths=[best_path(lattice).arcs]).arcs
    layout = lay_out(lattice, rows, ["word"] * lattice.num_arcs)
    src = lattice.src
    extents: dict[int, list[tuple[float, float]]] = {}
    for row in rows:
        assert all(layout.x[lattice.dst[arc]] - layout.x[src[arc]] >= SMALLEST_STEP for arc in row)
        (lane,) = {int(layout.arc_lane[arc]) for arc in row}
        extent = (layout.x[src[row[0]]] + 1, layout.x[lattice.dst[row[-1]]] - 1)
        assert all(extent[1] <= begin or end <= extent[0] for begin, end in extents.get(lane, []))
        extents.setdefault(lane, []).append(extent)
    if rows:
        assert set(layout.arc_lane[list(rows[0])].tolist()) <= {0}


@given(timed_lattices())
def test_states_are_placed_in_the_order_of_their_times(lattice):
    layout = lay_out(lattice, detours(lattice).arcs, [""] * lattice.num_arcs)
    if layout.unit == "frame":
        assert layout.time.tolist() == state_times(lattice).tolist()
        states = np.flatnonzero(~np.isnan(layout.x))
        assert (layout.x[states] >= layout.time[states] * layout.width - 1e-6).all()


def test_states_without_times_are_placed_by_their_number_of_arcs_from_the_start():
    lattice = Lattice.from_arrays("k", [0, 2, 3, 3], [1, 2, 2], [1, 2, 3], [0, 5, 0], [0, 0, 0], [np.inf, np.inf, 0.0])
    drawing = draw(lattice)
    assert drawing.layout.unit == "step"
    assert drawing.layout.time.tolist() == [0, 1, 2]
    assert data_of(lattice_page(drawing))["frameShift"] is None


def test_contradictory_times_are_ignored():
    lattice = Lattice.from_arrays(
        "k", [0, 2, 2], [1, 1], [1, 2], [0, 1], [0, 0], [np.inf, 0.0], ali_begin=[0, 1, 3], ali=[1, 1, 1]
    )
    with pytest.raises(LatticeError):
        state_times(lattice)
    assert draw(lattice).layout.unit == "step"


# ---- Selection of arcs and figures.


@given(lattices(max_states=6))
def test_figures_on_the_page_agree_with_the_lattice(lattice):
    drawing = draw(lattice, None, ShowOptions(Scales(0.5)))
    data = data_of(lattice_page(drawing))["arc"]
    expected = posteriors(lattice, Scales(0.5))
    for index, arc in enumerate(data["id"]):
        assert data["posterior"][index] == pytest.approx(expected[arc], rel=1e-5)
        assert data["graph"][index] == pytest.approx(lattice.graph[arc])
        assert data["acoustic"][index] == pytest.approx(lattice.acoustic[arc])
    best = {arc for arc, marks in zip(data["id"], data["marks"], strict=True) if marks & 1}
    assert best == set(best_path(lattice, Scales(0.5)).arcs.tolist())


def test_a_large_lattice_is_reduced_to_max_arcs_with_a_notice(examples):
    lattice = max(examples.values(), key=lambda lattice: lattice.num_arcs)
    assert lattice.num_arcs > 10_000
    options = ShowOptions(Scales(0.1), max_arcs=500)
    drawing = draw(lattice, None, options)
    arcs = set(drawing.arcs.tolist())
    assert 400 < len(arcs) <= 500
    assert set(drawing.best.arcs.tolist()) <= arcs
    hidden = np.setdiff1d(np.arange(lattice.num_arcs), drawing.arcs)
    hidden = hidden[np.isfinite(drawing.excess[hidden])]
    assert drawing.excess[hidden].min() >= drawing.excess[drawing.arcs].max() - 1e-6
    message = drawing.left_out()
    assert message.startswith(
        f"{len(hidden):,} of {lattice.num_arcs:,} arcs are not drawn, because at most 500 are drawn"
    )
    assert f"at least {drawing.excess[hidden].min():.3g} more" in message
    assert message in data_of(lattice_page(drawing))["leftOut"]


def test_marked_paths_are_drawn_even_above_max_arcs(examples, words):
    references = {line.split()[0]: line.split()[1:] for line in TEXT.read_text().splitlines()}
    lattice = max(examples.values(), key=lambda lattice: lattice.num_arcs)
    drawing = draw(lattice, references[lattice.key], ShowOptions(Scales(0.1), max_arcs=1))
    oracle_path = oracle(lattice, words.ids(references[lattice.key]))
    assert {*drawing.arcs.tolist()} == {*drawing.best.arcs.tolist(), *oracle_path.arcs.tolist()}
    data = data_of(lattice_page(drawing))
    num_errors = sum(reference != hypothesis for reference, hypothesis in data["pairs"]["oracle"])
    assert num_errors == oracle_path.edits


def test_arcs_on_no_complete_path_are_counted():
    lattice = Lattice.from_arrays("k", [0, 2, 2, 2], [1, 2], [1, 2], [0, 0], [0, 0], [np.inf, np.inf, 0.0])
    assert (
        draw(lattice).left_out()
        == "Arcs that are not drawn because they are on no path from the start to a final state: 1."
    )


def test_a_lattice_of_one_state_is_shown():
    lattice = Lattice.from_arrays("k", [0, 0], [], [], [], [], [0.5])
    data = data_of(lattice_page(draw(lattice)))
    assert data["arc"]["id"] == []
    assert data["state"]["finalGraph"] == [0.5]
    assert "<svg" in picture(lattice)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_arcs": 0}, "max_arcs is 0"),
        ({"frame_shift": 0.0}, "frame_shift is 0.0"),
        ({"frame_shift": np.inf}, "inf"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        ShowOptions(**options)


def test_a_reference_requires_a_symbol_table():
    lattice = Lattice.from_arrays("k", [0, 1, 1], [1], [1], [0], [0], [np.inf, 0.0])
    with pytest.raises(
        LatticeError, match=r"key 'k': the lattice has no symbol table, which is required to show a reference"
    ):
        draw(lattice, ["a"])


# ---- Words and keys are not interpreted as code.


def test_words_cannot_end_the_script_that_contains_them():
    page = lattice_page(draw(hostile(), HOSTILE))
    for word in HOSTILE:
        if "<" in word:
            assert word not in page
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in page  # the key, as the title
    assert data_of(page)["best"] == HOSTILE


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_embedded_data_are_unchanged_and_contain_no_markup_characters(data):
    text = script_json({"it": data})
    assert not set("<>&") & set(text)
    assert json.loads(text) == {"it": data}


def test_a_page_loads_nothing_and_runs_only_its_own_scripts():
    page = lattice_page(draw(hostile()))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1].replace("&#39;", "'")
    assert policy.startswith("default-src 'none'")
    assert re.fullmatch(r"(?:'sha256-[\w+/=]{44}' ?){4}", re.search(r"script-src ([^;]*)", policy)[1])
    markup = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"(?:src|href|url)\s*[=(]", markup)


def test_the_picture_for_notebooks_escapes_words():
    html = picture(hostile())
    assert "<script" not in html
    assert "<img" not in html
    assert "&lt;/script&gt;" in html


# ---- Notebooks.


def test_the_picture_for_notebooks_has_a_bounded_size(examples):
    lattice = max(examples.values(), key=lambda lattice: lattice.num_arcs)
    html = picture(lattice)
    assert html.count("<path") <= 60
    assert len(html) < 40_000
    assert f"of {lattice.num_arcs:,} arcs are drawn" in html


def test_notebooks_draw_lattices(monkeypatch):
    functions = {}

    def register(module, name, function):
        functions[module, name] = function

    formatter = SimpleNamespace(for_type_by_name=register)
    shell = SimpleNamespace(display_formatter=SimpleNamespace(formatters={"text/html": formatter}))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    runpy.run_path(str(ROOT / "ninja" / "__init__.py"))
    lattice = dead_end()
    assert functions[type(lattice).__module__, type(lattice).__qualname__](lattice) == picture(lattice)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))  # outside a notebook
    runpy.run_path(str(ROOT / "ninja" / "__init__.py"))


@given(lattices(connected=False))
def test_the_picture_never_fails(lattice):
    assert "<code>Lattice(&#x27;&lt;key&gt;&#x27;, " in picture(lattice.with_key("<key>"))


def test_lattices_that_cannot_be_drawn_are_summarised():
    html = picture(dead_end())
    assert "Lattice(&#x27;dead&#x27;, 3 states, 1 arc, compact)" in html
    assert "no path leads from the start to a final state" in html


def test_a_huge_lattice_is_summarised(monkeypatch):
    monkeypatch.setattr("ninja.show.notebook.LARGEST", 0)
    lattice = Lattice.from_arrays("k", [0, 1, 1], [1], [1], [0], [0], [np.inf, 0.0])
    assert "too large for a picture" in picture(lattice)


# ---- The command.


def test_the_command_writes_a_page_of_one_lattice(ninja, tmp_path, examples, words):
    key = list(examples)[1]
    page = tmp_path / "page.html"
    options = ["--words", WORDS, "--ref", TEXT, "--acoustic-scale", 0.1, "--frame-shift", 0.01, "-o", page]
    code, out, err = ninja("show", ARCHIVE, "--key", key, *options)
    assert (code, out, err) == (0, "", "")
    data = data_of(page.read_text())
    assert data["key"] == key
    assert data["best"] == words.spell(best_path(examples[key], Scales(0.1)).words)
    assert data["frameShift"] == 0.01


def test_omitted_arcs_are_reported_on_stderr(ninja, tmp_path, examples):
    key = list(examples)[3]
    code, _, err = ninja("show", ARCHIVE, "--key", key, "--max-arcs", 100, "-o", tmp_path / "page.html")
    assert code == 0
    assert f"ninja: {key}: " in err
    assert "arcs are not drawn, because at most 100 are drawn" in err


def test_the_only_lattice_of_a_file_is_shown_without_a_key(ninja, tmp_path, examples):
    lattice = next(iter(examples.values()))
    write_all(str(tmp_path / "one.ark"), [lattice])
    code, out, _ = ninja("show", tmp_path / "one.ark")
    assert code == 0
    data = data_of(out)
    assert data["key"] == lattice.key
    best = best_path(lattice).words
    assert data["best"] == [str(number) for number in best.tolist()]  # word ids, as --words is missing


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "contains several lattices; select one with --key (the keys are libri-"),
        (["--key", "nobody"], 1, "no lattice has the key 'nobody'; the keys are libri-"),
        (["--key", "libri-1089-134686-0003", "--frame-shift", "-1"], 2, "--frame-shift is -1.0"),
        (["--key", "libri-1089-134686-0003", "--max-arcs", "0"], 2, "--max-arcs"),
        (["--key", "libri-1089-134686-0003", "--acoustic-scale", "nan"], 2, "--acoustic-scale is nan"),
    ],
)
def test_invalid_calls_are_refused_with_advice(ninja, tmp_path, arguments, code, message):
    page = tmp_path / "page.html"
    exit_code, _, err = ninja("show", ARCHIVE, *arguments, "-o", page)
    assert exit_code == code
    assert message in err
    assert not page.exists()


def test_the_symbol_table_beside_the_lattices_is_used(ninja, tmp_path):
    archive, key = tmp_path / "lat.ark.gz", "libri-1089-134686-0003"
    shutil.copy(ARCHIVE, archive)
    page = tmp_path / "page.html"
    code, _, err = ninja("show", archive, "--key", key, "--ref", TEXT, "-o", page)
    assert (code, "set the symbol table with --words" in err, page.exists()) == (2, True, False)
    shutil.copy(WORDS, tmp_path)
    for reference in ([], ["--ref", TEXT]):
        code, _, err = ninja("show", archive, "--key", key, *reference, "-o", page)
        assert (code, f"using the symbol table {tmp_path / 'words.txt'}" in err) == (0, True)
        assert not data_of(page.read_text())["best"][0].isdigit()
    assert ninja("report", archive, archive, "--ref", TEXT, "-o", page)[0] == 0


def test_a_missing_reference_is_reported_with_its_key(ninja, tmp_path):
    (tmp_path / "text").write_text("somebody hello\n")
    key = "libri-1089-134686-0003"
    code, _, err = ninja("show", ARCHIVE, "--key", key, "--words", WORDS, "--ref", tmp_path / "text")
    assert code == 1
    assert f"key '{key}': there is no reference for this key" in err


def test_a_damaged_lattice_does_not_affect_another_lattice(ninja, tmp_path):
    archive = tmp_path / "lat.txt"
    archive.write_text("bad \n0 1 x 1,2,\n\ngood \n0 1 5 1,2,1_1\n1 0,0,\n\n")
    code, out, err = ninja("show", archive, "--key", "good")
    assert code == 0
    assert "failed: " in err
    assert data_of(out)["key"] == "good"
    code, out, err = ninja("show", archive, "--key", "bad")
    assert (code, out) == (1, "")
    assert "bad" in err
