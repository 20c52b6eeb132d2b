"""The page of a lattice in a real browser: selection, marked paths, search, slider, layout and figures."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium import browser, open_page
from example_lattices import ARCHIVE, TEXT, WORDS
from lattice_pages import HOSTILE, data_of, hostile

from ninja.evaluate import read_text
from ninja.graph import best_path, oracle, posteriors, state_times
from ninja.io import read
from ninja.lattice import Lattice, Scales
from ninja.lattice.symbols import SymbolTable
from ninja.show import ShowOptions, draw, lattice_page

__all__ = ["browser"]  # the fixture
KEY = "libri-1188-133604-0020"
SCALE = 0.1
DRAWN = "ninja.cy.edges().filter((edge) => edge.style('display') !== 'none').length"


@pytest.fixture(scope="module")
def lattice() -> Lattice:
    return dict(read(ARCHIVE, words=SymbolTable.read(WORDS)))[KEY]


@pytest.fixture(scope="module")
def page_file(lattice: Lattice, tmp_path_factory: pytest.TempPathFactory) -> Path:
    reference = read_text(TEXT)[KEY]
    path = tmp_path_factory.mktemp("show") / "lattice.html"
    path.write_text(lattice_page(draw(lattice, reference, ShowOptions(Scales(SCALE), frame_shift=0.01))))
    return path


def panel(page: Any) -> dict[str, str]:
    """Return the figures in the panel by their names."""
    script = "cells => Object.fromEntries(cells.map((cell) => [cell.dataset.name, cell.innerText]))"
    return page.locator(".panel td[data-name]").evaluate_all(script)


def click_arc(page: Any, arc: int) -> None:
    """Click on the midpoint of an arc, and wait until the arc is selected."""
    position = page.evaluate("arc => ninja.position(arc)", arc)
    page.mouse.click(position["x"], position["y"])
    page.wait_for_function("arc => ninja.selected() === arc", arg=arc, timeout=30_000)


def arcs_in_view(page: Any) -> list[int]:
    """Return some arcs whose midpoints are visible, both on the best path and on other paths."""
    return page.evaluate(
        """() => {
          const view = ninja.cy.container().getBoundingClientRect();
          const inside = (arc) => {
            const { x, y } = ninja.position(arc);
            return x > view.left + 20 && x < view.right - 20 && y > view.top + 20 && y < view.bottom - 20;
          };
          const others = ninja.cy.edges(":visible").not(".on-best").map((edge) => +edge.id().slice(1));
          return [...ninja.marked("best").filter(inside).slice(0, 2), ...others.filter(inside).slice(0, 40)];
        }"""
    )


def test_a_click_on_an_arc_shows_the_figures_of_the_library(browser, page_file, lattice):
    probability, time, src = posteriors(lattice, Scales(SCALE)), state_times(lattice), lattice.src
    with open_page(browser, page_file) as page:
        arcs = arcs_in_view(page)
        num_clicked = 0
        for arc in arcs:
            position = page.evaluate("arc => ninja.position(arc)", arc)
            page.mouse.click(position["x"], position["y"])
            if page.evaluate("ninja.selected()") != arc:  # a state or another arc covers this arc
                continue
            num_clicked += 1
            figures = panel(page)
            begin, end = int(time[src[arc]]), int(time[lattice.dst[arc]])
            assert page.locator(".panel h2").inner_text() == lattice.words.word(int(lattice.word[arc]))
            assert figures["begin"] == f"{begin * 0.01:.2f} s (frame {begin})"
            assert figures["end"] == f"{end * 0.01:.2f} s (frame {end})"
            assert float(figures["posterior"]) == pytest.approx(probability[arc], rel=1e-5)
            assert float(figures["graph"]) == pytest.approx(lattice.graph[arc], rel=1e-6)
            assert float(figures["acoustic"]) == pytest.approx(lattice.acoustic[arc], rel=1e-6)
            cost = float(lattice.graph[arc]) + SCALE * float(lattice.acoustic[arc])
            assert float(figures["cost"]) == pytest.approx(cost, rel=1e-5)
            assert figures["states"] == f"{src[arc]} → {lattice.dst[arc]}"
            if num_clicked == 12:
                break
        assert num_clicked == 12


def test_arcs_are_drawn_in_the_lanes_of_the_layout(browser, page_file):
    data = data_of(page_file.read_text())["arc"]
    lane = dict(zip(data["id"], data["lane"], strict=True))
    with open_page(browser, page_file) as page:
        page.wait_for_function("() => ninja.cy.edges().every((edge) => Number.isFinite(edge.midpoint().y))")
        positions = page.evaluate("ninja.cy.edges().map((edge) => [+edge.id().slice(1), edge.midpoint().y])")
        heights = {
            number: {round(y, 3) for arc, y in positions if lane[arc] == number} for number in set(lane.values())
        }
        heights = {number: values for number, values in heights.items() if values}
        assert all(len(values) == 1 for values in heights.values())
        lane_heights = [min(heights[number]) for number in sorted(heights)]
        assert lane_heights == sorted(set(lane_heights))


def test_the_best_and_oracle_paths_can_be_marked_and_unmarked(browser, page_file, lattice):
    best = best_path(lattice, Scales(SCALE)).arcs.tolist()
    oracle_path = oracle(lattice, lattice.words.ids(read_text(TEXT)[KEY]))
    assert best != oracle_path.arcs.tolist()
    with open_page(browser, page_file) as page:
        colours = {}
        for name, arcs in (("best", best), ("oracle", oracle_path.arcs.tolist())):
            box = page.locator(f'input[name="{name}"]')
            assert sorted(page.evaluate("name => ninja.marked(name)", name)) == sorted(arcs)
            box.click()
            assert page.evaluate("name => ninja.marked(name)", name) == []
            colours[name] = page.screenshot()
            box.click()
            assert sorted(page.evaluate("name => ninja.marked(name)", name)) == sorted(arcs)
        assert colours["best"] != colours["oracle"] != page.screenshot()  # the marks are visible
        alignment = page.locator(".spoken").inner_text()
        total = len(read_text(TEXT)[KEY])
        assert f"oracle path, {oracle_path.edits} of {total} wrong" in alignment
        page.locator('input[name="oracle"]').click()
        oracle_arc = next(arc for arc in oracle_path.arcs.tolist() if arc not in best)
        assert page.evaluate("arc => ninja.select(arc)", oracle_arc)["oracle"]
        assert panel(page)["paths"] == "oracle"


def test_the_slider_changes_the_number_of_arcs(browser, page_file, lattice):
    with open_page(browser, page_file) as page:
        num_shown = page.evaluate("ninja.shown()")
        assert num_shown <= 250 < lattice.num_arcs
        assert f"{lattice.num_arcs - num_shown:,} less likely arcs are hidden" in page.locator(".notice").inner_text()
        page.locator('input[name="shown"]').press("End")
        page.wait_for_function("total => ninja.shown() === total", arg=lattice.num_arcs)
        assert page.evaluate(DRAWN) == lattice.num_arcs
        assert page.locator(".notice").inner_text().startswith("All 616 arcs and 341 states are shown.")
        page.locator('input[name="shown"]').press("Home")
        marked_arcs = {*best_path(lattice, Scales(SCALE)).arcs.tolist(), *page.evaluate("ninja.marked('oracle')")}
        page.wait_for_function("count => ninja.shown() === count", arg=len(marked_arcs))
        assert page.evaluate(DRAWN) == len(marked_arcs)


def test_a_search_steps_through_all_arcs_of_a_word_in_order_of_time(browser, page_file, lattice):
    number = lattice.words.id("observe")
    arcs = np.flatnonzero(lattice.word == number)
    with open_page(browser, page_file) as page:
        box = page.locator('input[name="search"]')
        box.fill("observe")
        hits = page.evaluate("ninja.search('observe')")
        assert {lattice.words.word(int(lattice.word[arc])) for arc in hits} >= {"observe"}
        assert set(arcs.tolist()) <= set(hits)
        box.press("Enter")
        assert page.evaluate("ninja.selected()") == hits[0]
        box.press("Enter")
        assert page.evaluate("ninja.selected()") == hits[1]
        assert page.locator(".hits").inner_text() == f"2 of {len(hits)}"
        box.fill("nobody says this")
        assert page.locator(".hits").inner_text() == "none"


def test_a_search_begins_with_arcs_on_the_best_path(browser, page_file, lattice):
    best = best_path(lattice, Scales(SCALE)).arcs.tolist()
    word = lattice.words.word(int(lattice.word[best[-1]]))
    with open_page(browser, page_file) as page:
        hits = page.evaluate("word => ninja.search(word)", word)
        num_best = sum(arc in best for arc in hits)
        assert 0 < num_best < len(hits)  # otherwise the order of the hits would not matter
        assert set(hits[:num_best]) <= set(best)
        page.locator('input[name="search"]').fill(word)
        page.locator('input[name="search"]').press("Enter")
        assert page.evaluate("ninja.selected()") in best


def test_the_position_of_the_slider_is_the_number_of_shown_arcs(browser, lattice, tmp_path):
    path = tmp_path / "lattice.html"
    path.write_text(lattice_page(draw(lattice, None, ShowOptions(Scales(SCALE), max_arcs=400))))
    with open_page(browser, path) as page:
        slider = page.locator('input[name="shown"]')
        total = page.evaluate("ninja.total()")
        assert int(slider.get_attribute("max")) == total < lattice.num_arcs
        assert page.locator(".shown").inner_text() == f"{page.evaluate('ninja.shown()')} of {total}"
        assert int(slider.input_value()) == page.evaluate("ninja.shown()")
        for key, grows in (("ArrowRight", True), ("ArrowLeft", False)):
            before = page.evaluate("ninja.shown()")
            slider.press(key)
            page.wait_for_function("before => ninja.shown() !== before", arg=before)
            assert (page.evaluate("ninja.shown()") > before) is grows


def test_labels_of_short_arcs_do_not_overlap(browser, tmp_path):
    words = SymbolTable.from_words(["<eps>", *(f"word{number}" for number in range(30))])
    count = 30
    lattice = Lattice.from_arrays(
        "u",
        [*range(count + 1), count],
        range(1, count + 1),
        range(1, count + 1),
        [0.0] * count,
        [0.0] * count,
        [np.inf] * count + [0.0],
        time=[*range(count), 400],
        words=words,
    )
    path = tmp_path / "short.html"
    path.write_text(lattice_page(draw(lattice, None, ShowOptions())))
    with open_page(browser, path) as page:
        page.evaluate("() => void ninja.cy.zoom(1.2)")  # at this zoom, labels are placed at their arcs
        page.wait_for_function("() => ninja.cy.edges().every((edge) => edge.data('reach') < 1e4)")
        page.wait_for_timeout(300)  # until the labels are drawn
        labels = page.evaluate(
            """ninja.cy.edges().map((edge) => {
              const { rscratch, rstyle } = edge[0]._private;
              return [edge.midpoint().x, rscratch.labelWidth ?? rstyle.labelWidth];
            })"""
        )
        labels.sort()
        assert len(labels) == count
        assert all(
            x + width / 2 <= next_x - next_width / 2 + 2 for (x, width), (next_x, next_width) in pairwise(labels)
        )


def test_the_mouse_wheel_zooms_and_dragging_pans(browser, page_file):
    with open_page(browser, page_file) as page:
        before = page.evaluate("[ninja.cy.zoom(), ninja.cy.pan().x]")
        page.mouse.move(500, 650)
        page.mouse.wheel(0, -240)
        page.wait_for_function("zoom => ninja.cy.zoom() > zoom", arg=before[0])
        pan = page.evaluate("ninja.cy.pan().x")
        page.mouse.move(700, 250)
        page.mouse.down()
        page.mouse.move(600, 250, steps=4)
        page.mouse.up()
        page.wait_for_function("pan => Math.abs(ninja.cy.pan().x - pan + 100) < 2", arg=pan)


def test_the_dark_colour_scheme_has_a_dark_background(browser, page_file):
    with open_page(browser, page_file, "dark") as page:
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert max(int(component) for component in colour[4:-1].split(",")) < 64


def test_words_with_markup_are_shown_as_text(browser, tmp_path):
    path = tmp_path / "hostile.html"
    path.write_text(lattice_page(draw(hostile(), HOSTILE)))
    with open_page(browser, path) as page:
        assert page.evaluate("ninja.total()") == len(HOSTILE)
        for arc, word in enumerate(HOSTILE):
            assert page.evaluate("arc => ninja.select(arc).word", arc) == word
            assert page.locator(".panel h2").evaluate("element => element.textContent") == word
        assert page.locator("h1").inner_text() == HOSTILE[0]
        assert page.title() == f"{HOSTILE[0]}: lattice"
        assert page.locator("img").count() == 0


def test_an_injected_script_does_not_run(browser, tmp_path, page_file):
    path = tmp_path / "broken.html"
    attack = "<body><script>window.ran = true</script><img src='https://example.invalid/x.png'>"
    path.write_text(page_file.read_text().replace("<body>", attack, 1))
    context = browser.new_context()
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.evaluate("window.ran") is None
    assert page.evaluate("ninja.total()") > 0
    context.close()


@pytest.mark.parametrize("kind", ["one state", "no times"])
def test_lattices_without_arcs_or_times_are_shown(browser, tmp_path, kind):
    if kind == "one state":
        lattice = Lattice.from_arrays("k", [0, 0], [], [], [], [], [0.5])
    else:
        lattice = Lattice.from_arrays(
            "k", [0, 2, 3, 3], [1, 2, 2], [1, 0, 3], [0, 5, 0], [0] * 3, [np.inf, np.inf, 0.0]
        )
    path = tmp_path / "odd.html"
    path.write_text(lattice_page(draw(lattice)))
    with open_page(browser, path) as page:
        assert page.evaluate("ninja.cy.nodes().length") == lattice.num_states
        assert page.evaluate("ninja.cy.edges().length") == lattice.num_arcs
        assert "no consistent times" in page.locator(".notice").inner_text()
        if lattice.num_arcs:
            click_arc(page, 0)
            assert panel(page)["end"] == "step 1"


def test_arcs_without_duration_are_drawn(browser, tmp_path):
    labels = {"ali_begin": [0, 0, 0, 0, 4], "ali": [1, 1, 1, 1], "words": SymbolTable.from_words(["<eps>", "a", "b"])}
    lattice = Lattice.from_arrays(
        "k", [0, 3, 4, 4], [1, 1, 1, 2], [1, 2, 0, 1], [0, 1, 2, 0], [0] * 4, [np.inf, 0.5, 0.0], **labels
    )
    path = tmp_path / "short.html"
    path.write_text(lattice_page(draw(lattice)))
    with open_page(browser, path) as page:
        page.wait_for_function("() => ninja.cy.edges().every((edge) => Number.isFinite(edge.midpoint().x))")
        for arc in (0, 1, 2):
            click_arc(page, arc)
            assert panel(page)["end"] == panel(page)["begin"] == "frame 0"


def test_five_thousand_arcs_are_shown_and_can_be_selected(browser, tmp_path):
    lattices = (lattice for _, lattice in read(ARCHIVE, words=SymbolTable.read(WORDS)))
    path = tmp_path / "large.html"
    path.write_text(lattice_page(draw(next(lattice for lattice in lattices if lattice.num_arcs > 10_000), None)))
    assert path.stat().st_size < 1_500_000
    with open_page(browser, path) as page:
        page.evaluate("ninja.show(1e9)")
        assert 4900 < page.evaluate("ninja.shown()") <= 5000
        click_arc(page, page.evaluate("ninja.fit(), ninja.marked('best')[3]"))
        assert "of 17,806 arcs are not drawn" in page.locator(".notice").inner_text()


# ---- Layout of a long utterance, and colours.


def sausage(num_words: int) -> tuple[Lattice, list[str]]:
    """Return a lattice of long words and its reference; each word of the reference is the costlier of two arcs."""
    reference = [f"pronunciation{number}" for number in range(num_words)]
    table = SymbolTable.from_words(["<eps>", *reference, *(f"mispronounced{number}" for number in range(num_words))])
    rival = np.arange(num_words) + 1 + num_words
    word = np.stack([rival, rival - num_words], axis=1).ravel()
    dst = np.repeat(np.arange(num_words), 2) + 1
    begin = np.append(np.arange(num_words + 1) * 2, 2 * num_words)
    final = np.full(num_words + 1, np.inf)
    final[-1] = 0.0
    cost = np.tile([1.0, 2.0], num_words)
    time = np.arange(num_words + 1) * 20
    return Lattice.from_arrays("long", begin, dst, word, cost, cost * 0, final, time=time, words=table), reference


@pytest.fixture(scope="module")
def long_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / "long.html"
    path.write_text(lattice_page(draw(*sausage(37), ShowOptions(frame_shift=0.01))))
    return path


@pytest.mark.parametrize("width", [420, 1440])
def test_all_alignment_rows_are_visible_in_a_page_as_wide_as_the_window(browser, long_page, width):
    with open_page(browser, long_page, size=(width, 800)) as page:
        area = page.locator(".spoken")
        assert area.locator(".pairs").count() == 2
        assert area.evaluate("element => element.scrollHeight - element.clientHeight") == 0
        assert area.evaluate("element => getComputedStyle(element).overflowY") == "visible"
        last = area.locator(".pairs").last.locator(".pair").last
        last.scroll_into_view_if_needed()
        box = last.bounding_box()
        is_visible = "([x, y]) => document.elementFromPoint(x, y).closest('.pair') !== null"
        assert page.evaluate(is_visible, [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2])
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.locator(".stage").bounding_box()["height"] >= 300


def test_the_best_path_has_the_legend_colour_and_readable_words(browser, page_file, lattice):
    best = best_path(lattice, Scales(SCALE))
    with open_page(browser, page_file, size=(1000, 800)) as page:
        swatch = page.locator(".swatch.best").evaluate("element => getComputedStyle(element).backgroundColor")
        script = """arc => {
          const edge = ninja.cy.getElementById(`a${arc}`), zoom = ninja.cy.zoom();
          const { x1, x2, y1, y2 } = edge.boundingBox({ includeEdges: false, includeNodes: false });
          return { colour: edge.style("line-color"), width: edge.numericStyle("width") * zoom,
            fontSize: edge.numericStyle("font-size") * zoom, box: [x1, x2, y1, y2].map((side) => side * zoom) };
        }"""
        colour = page.evaluate(script, int(best.arcs[0]))["colour"]
        page.locator('input[name="best"]').click()
        assert page.evaluate(script, int(best.arcs[0]))["colour"].replace(" ", "") != swatch.replace(" ", "")
        page.locator('input[name="best"]').click()
        assert colour.replace(" ", "") == swatch.replace(" ", "")
        page.locator('[name="fit"]').click()
        page.wait_for_function("zoom => ninja.cy.zoom() < zoom", arg=0.85)
        page.wait_for_function(
            "arc => ninja.cy.getElementById(`a${arc}`).numericStyle('font-size') * ninja.cy.zoom() > 10.9",
            arg=int(best.arcs[0]),
        )
        labels = [page.evaluate(script, arc) for arc in best.arcs.tolist() if lattice.word[arc]]
        assert all(label["fontSize"] >= 10.9 and label["width"] >= 2.9 for label in labels)
        middles = [((x1 + x2) / 2, (y1 + y2) / 2, x2 - x1) for x1, x2, y1, y2 in (label["box"] for label in labels)]
        margin = 8  # pixels around the letters, as the sum of both sides
        for index, (x, y, width) in enumerate(middles):  # no two labels overlap
            for other_x, other_y, other_width in middles[:index]:
                assert abs(y - other_y) >= 11 or abs(x - other_x) >= (width + other_width) / 2 - margin


def test_a_button_shows_the_hidden_duration_and_scrolls_right(browser, long_page):
    with open_page(browser, long_page) as page:
        right_button, left_button = page.locator('[name="right"]'), page.locator('[name="left"]')
        assert right_button.is_visible()
        assert not left_button.is_visible()
        seconds = float(right_button.inner_text().split()[0])
        assert right_button.inner_text() == f"{seconds:.1f} s more ›"
        assert 0 < seconds < 37 * 0.2
        right_button.click()
        page.wait_for_function("() => !document.querySelector('.beyond.left').hidden")
        for _ in range(30):
            if not right_button.is_visible():
                break
            right_button.click()
            page.wait_for_timeout(30)
        assert not right_button.is_visible()
        page.locator('[name="fit"]').click()
        page.wait_for_function("() => document.querySelector('.beyond.left').hidden")
        assert not right_button.is_visible()
