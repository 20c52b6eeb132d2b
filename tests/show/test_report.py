"""The page that compares lattices before and after: its numbers, its messages about missing data, and its use."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from chromium import browser, open_page
from hypothesis import example, given
from hypothesis import strategies as st
from lattice_files import write_all

from ninja.errors import FormatError, LatticeError
from ninja.evaluate import ErrorRate, align, oracle_score, read_text, score
from ninja.graph import best_path, depth, prune
from ninja.io import read, write
from ninja.lattice import Lattice, Scales
from ninja.lattice.symbols import SymbolTable
from ninja.show import Outcome, Outcomes, compare, draw, report_page
from ninja.show.report_page import DIGIT, changes, depths

__all__ = ["browser"]  # the fixture
ROOT = Path(__file__).resolve().parents[2]
ARCHIVE, WORDS, TEXT = (ROOT / "examples" / name for name in ("lat.ark.gz", "words.txt", "text"))
DATA = re.compile(r'<script type="application/json" id="report">(.*?)</script>', re.DOTALL)
FEW = 12  # utterances, of the examples
SCALES = ["--acoustic-scale", "0.1"]


def data_of(page: str) -> dict[str, Any]:
    return json.loads(DATA.search(page)[1])


def figures_of(page: str) -> dict[str, tuple[str, str]]:
    rows = re.findall(
        r'<tr data-name="([^"]+)"><td>[^<]*</td><td class="number before">([^<]*)</td><td class="number after">([^<]*)',
        page,
    )
    return {name: (before, after) for name, before, after in rows}


@pytest.fixture(scope="module")
def few() -> list[Lattice]:
    found = (lattice for _, lattice in read(ARCHIVE, words=SymbolTable.read(WORDS)))
    return [lattice for lattice in found if lattice.num_arcs < 3000][:FEW]


@pytest.fixture(scope="module")
def files(few: list[Lattice], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Write lattices before and after a change that improves some and worsens others; one is missing from each."""
    folder = tmp_path_factory.mktemp("report")
    before, after = folder / "before.ark", folder / "after.ark"
    write_all(str(before), few[1:])
    with write(str(after)) as output:
        for number, lattice in enumerate(few[:-1]):
            pruned = prune(lattice, 8.0, Scales(0.1))
            output.write(pruned.with_costs(pruned.graph * 0.3) if number % 3 else pruned)
    return before, after


@pytest.fixture(scope="module")
def page_file(files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    from ninja.cli.main import main

    path = tmp_path_factory.mktemp("page") / "report.html"
    options = ["--ref", TEXT, "--words", WORDS, *SCALES, "--frame-shift", "0.01", "--lattices", "3", "-o", path]
    assert main([str(each) for each in ("report", *files, *options)]) == 0
    return path


# ---- Figures.


def test_rates_are_those_of_the_library(few, files, page_file):
    references = read_text(TEXT)
    both = [lattice.key for lattice in few[1:-1]]
    said = {key: references[key] for key in both}
    shown = figures_of(page_file.read_text())
    words = SymbolTable.read(WORDS)
    for side, path in enumerate(files):
        lattices = {key: lattice for key, lattice in read(path, words=words) if key in said}
        heard = {key: words.spell(best_path(lattice, Scales(0.1)).words.tolist()) for key, lattice in lattices.items()}
        rate = score(said, heard)
        assert shown["word error rate"][side] == f"{rate.wer:.2f}%"
        assert shown["sentence error rate"][side] == f"{rate.ser:.2f}%"
        assert shown["word errors"][side] == str(rate.errors)
        assert shown["substitutions"][side] == str(rate.substitutions)
        assert shown["insertions"][side] == str(rate.insertions)
        assert shown["deletions"][side] == str(rate.deletions)
        nearest = oracle_score(lattices.values(), said, words)
        assert shown["oracle word error rate"][side] == f"{nearest.wer:.2f}%"
        mean = sum(map(depth, lattices.values())) / len(lattices)
        assert shown["mean depth"][side] == f"{mean:.2f}"
        assert shown["arcs"][side] == f"{sum(lattice.num_arcs for lattice in lattices.values()):,}"


def test_alignments_are_those_of_the_library(few, files, page_file):
    references, words = read_text(TEXT), SymbolTable.read(WORDS)
    sides = {name: dict(read(path, words=words)) for name, path in zip(("before", "after"), files, strict=True)}
    rows = data_of(page_file.read_text())["utterances"]
    assert [row["key"] for row in rows] == [key for key in references if key in {each.key for each in few[1:-1]}]
    for row in rows:
        for name, lattices in sides.items():
            heard = words.spell(best_path(lattices[row["key"]], Scales(0.1)).words.tolist())
            alignment = align(references[row["key"]], heard)
            assert [tuple(pair) for pair in row[name]["pairs"]] == list(alignment.pairs)
            assert row[name]["errors"] == alignment.rate().errors


WORD = st.sampled_from(["a", "b", "c"])
SPOKEN = st.lists(WORD, max_size=5)


@given(st.lists(st.tuples(SPOKEN, SPOKEN, SPOKEN), min_size=1, max_size=8))
def test_gained_and_lost_and_the_rates_fit_together(spoken):
    keys = [str(number) for number in range(len(spoken))]
    references = dict(zip(keys, (said for said, _, _ in spoken), strict=True))
    sides = [
        {key: Outcome(tuple(words[side]), 1, None, ErrorRate()) for key, words in zip(keys, spoken, strict=True)}
        for side in (1, 2)
    ]
    found = compare(references, *sides)
    assert found.absences == ()
    before, after = found.rates
    assert before == score(references, {key: each.words for key, each in sides[0].items()})
    assert sum(each.change for each in found.utterances) == after.errors - before.errors
    assert [each.change for each in found.gained] == sorted(each.change for each in found.gained)
    assert all(each.change < 0 for each in found.gained)
    assert [each.change for each in found.lost] == sorted((each.change for each in found.lost), reverse=True)
    histogram = changes([each.change for each in found.utterances])
    assert sum(bar.count for bar in histogram.bars) == len(spoken)
    assert sum(bar.count for bar in histogram.bars if bar.kind == "good") == len(found.gained)
    page = report_page(found)
    assert f"{len(found.gained)} utterances have fewer errors, {len(found.lost)} have more" in page


@given(st.lists(st.floats(0.1, 1e4), max_size=30), st.lists(st.floats(0.1, 1e4), max_size=30))
def test_the_histogram_of_depths_counts_every_lattice_once(before, after):
    histogram = depths(before, after)
    if histogram is None:
        assert not before
        assert not after
        return
    for name, values in (("before", before), ("after", after)):
        assert sum(bar.count for bar in histogram.bars if bar.kind == name) == len(values)
    assert all(bar.y >= 0 and bar.y + bar.height <= histogram.height + 0.2 for bar in histogram.bars)
    assert all(bar.x >= 0 and bar.x + bar.width <= histogram.width for bar in histogram.bars)


@example([0.6])  # 0.6 / 0.1 is below 6, and 6 * 0.1 above 0.6
@given(st.lists(st.floats(0.1, 1e4), min_size=1, max_size=30))
def test_depths_are_counted_between_round_numbers(values):
    histogram = depths(values, values)
    marks = [float(text.rstrip("+")) for _, text in histogram.labels]
    size = marks[1] - marks[0] if len(marks) > 1 else marks[0]
    assert f"{size:e}"[0] in "125"
    assert len(marks) <= 13
    assert marks == pytest.approx([place * size for place in range(len(marks))])
    assert marks[-1] > max(values) or histogram.labels[-1][1].endswith("+")


@pytest.mark.parametrize("count", [9, 99, 999, 9999])
def test_counts_above_the_bars_of_depths_do_not_overlap(count):
    found = depths([float(place % 120) for place in range(count)], [float(place % 110) for place in range(count)])
    middles = [(bar.x + bar.width / 2, DIGIT * len(str(bar.count)) / 2) for bar in found.bars]
    assert all(one + half <= other - beside + 0.2 for (one, half), (other, beside) in pairwise(middles))
    assert len(found.bars) > 6


def test_an_outcome_needs_words():
    lattice = Lattice.from_arrays("k", [0, 1, 1], [1], [1], [0], [0], [float("inf"), 0.0])
    with pytest.raises(LatticeError, match="key 'k': the lattice has word ids but no symbol table"):
        Outcomes({})(lattice)


def test_a_lattice_without_frames_has_no_depth():
    words = SymbolTable.from_words(["<eps>", "a"])
    lattice = Lattice.from_arrays("k", [0, 1, 1], [1], [1], [0], [0], [float("inf"), 0.0], words=words)
    assert Outcomes({})(lattice) == Outcome(("a",), 1, None, None)


# ---- What is missing.


def test_missing_utterances_are_listed_and_counted(ninja, few, files, tmp_path):
    keys = [lattice.key for lattice in few]
    text = tmp_path / "text"
    text.write_text("".join(f"{key} hello\n" for key in [*keys[2:], "nobody"]))
    page = tmp_path / "report.html"
    code, _, err = ninja("report", *files, "--ref", text, "--words", WORDS, "-o", page)
    assert code == 0
    for description, count in (
        ("references without a lattice, before rescoring", 1),
        ("references without a lattice, after rescoring", 2),
        ("lattices without a reference, before rescoring", 1),
        ("lattices without a reference, after rescoring", 2),
    ):
        assert f"ninja: {description}: {count}\n" in err
        assert re.search(rf'data-name="{description}"><summary><b>{count}</b>', page.read_text())
    for what, expected in (
        ("references without a lattice, before rescoring", "nobody"),
        ("references without a lattice, after rescoring", f"{keys[-1]}, nobody"),
        ("lattices without a reference, before rescoring", keys[1]),
        ("lattices without a reference, after rescoring", f"{keys[0]}, {keys[1]}"),
    ):
        found = re.search(rf'data-name="{what}">.*?class="keys">([^<]*)', page.read_text(), re.DOTALL)[1]
        assert found == expected
    assert ninja("report", *files, "--ref", text, "--words", WORDS, "-o", page, "--strict")[0] == 1


def test_nothing_is_said_of_what_is_not_missing(ninja, few, files, tmp_path):
    references = read_text(TEXT)
    text = tmp_path / "text"
    text.write_text("".join(f"{each.key} {' '.join(references[each.key])}\n" for each in few[1:]))
    page = tmp_path / "report.html"
    before = files[0]
    code, _, err = ninja("report", before, before, "--ref", text, "--words", WORDS, "--strict", "-o", page)
    assert code == 0
    assert 'id="missing"' not in page.read_text()
    assert len(err.splitlines()) == 1
    assert f"0 utterances have fewer errors, 0 have more, {FEW - 1} have the same number" in page.read_text()


def test_a_lattice_that_cannot_be_used_costs_no_other(ninja, few, files, tmp_path):
    before = tmp_path / "before.txt"
    write_all(f"ark,t:{before}", few[1:3] + few[4:])
    with before.open("a") as stream:
        word = few[3].word.max()
        stream.write(f"{few[3].key} \n0 1 {word} 1,1,\n1 0 {word} 1,1,\n1 0,0,\n\n")
    page = tmp_path / "report.html"
    code, _, err = ninja("report", before, files[1], "--ref", TEXT, "--words", WORDS, *SCALES, "-o", page)
    assert code == 1
    assert "lies on a cycle" in err
    assert few[3].key in re.search(r'data-name="failed lattices, before rescoring">.*?</div>', page.read_text())[0]


def test_sets_that_share_no_utterance_are_refused(ninja, files, tmp_path):
    text = tmp_path / "text"
    text.write_text("nobody hello\n")
    code, _, err = ninja("report", *files, "--ref", text, "--words", WORDS, "-o", tmp_path / "report.html")
    assert code == 1
    assert "no utterance has a reference and lattices before and after rescoring" in err
    assert not (tmp_path / "report.html").exists()
    with pytest.raises(FormatError):
        compare({"k": []}, {}, {})


def test_the_standard_input_cannot_be_read_twice(ninja, files):
    code, _, err = ninja("report", "-", files[1], "--ref", TEXT, "--words", WORDS)
    assert code == 2
    assert "use a file instead of -, or --lattices 0" in err


def test_workers_give_the_same_page(ninja, files, page_file, tmp_path):
    path = tmp_path / "report.html"
    options = ["--ref", TEXT, "--words", WORDS, *SCALES, "--frame-shift", 0.01, "--lattices", 3, "-o", path]
    assert ninja("report", *files, *options, "--jobs", 2)[0] == 0
    assert path.read_text() == page_file.read_text()


# ---- In a browser.


@pytest.mark.parametrize("width", [420, 1440])
def test_nothing_is_wider_than_the_window(browser, page_file, width):
    wider = """width => [...document.querySelectorAll("body *")].filter((each) => {
      const { right, width: own } = each.getBoundingClientRect();
      return own && (right > width || (each.matches(".scroll, .card") && each.scrollWidth > each.clientWidth));
    }).map((each) => each.outerHTML.slice(0, 80))"""
    with open_page(browser, page_file, size=(width, 800)) as page:
        page.locator("#all button.key").first.click()
        assert page.evaluate(wider, width) == []
        letters = "each => parseFloat(getComputedStyle(each).fontSize) * each.getScreenCTM().a"
        assert page.locator("svg.histogram text").first.evaluate(letters) > 9  # pixels
        page.locator("#lost .utterance a").first.click()
        page.wait_for_function("() => window.ninja")
        assert page.locator("dialog .place").evaluate("each => each.scrollWidth - each.clientWidth") == 0
        assert page.locator("dialog .spoken .pairs").last.is_visible()


def test_the_page_shows_who_gained_and_lost_and_leads_to_their_lattices(browser, page_file):
    data = data_of(page_file.read_text())
    change = {row["key"]: row["after"]["errors"] - row["before"]["errors"] for row in data["utterances"]}
    with open_page(browser, page_file) as page:
        gained = page.locator("#gained .utterance b").all_inner_texts()
        lost = page.locator("#lost .utterance b").all_inner_texts()
        assert gained == sorted((key for key in gained), key=lambda key: change[key])
        assert set(gained) == {key for key, each in change.items() if each < 0}
        assert set(lost) == {key for key, each in change.items() if each > 0}
        assert lost
        assert gained
        assert 0 in change.values()
        page.locator("#lost .utterance a").first.click()
        page.wait_for_function("() => window.ninja")
        assert page.locator("dialog .title h2").inner_text() == lost[0]
        assert page.evaluate("ninja.shown()") > 0
        arc = page.evaluate("ninja.marked('oracle')[0]")
        assert page.evaluate("arc => ninja.select(arc).oracle", arc)
        page.locator('dialog [name="after"]').click()
        pressed = 'dialog [name="after"][aria-pressed="true"]'
        page.wait_for_function("pressed => document.querySelector(pressed) && window.ninja", arg=pressed)
        before = data["lattices"][lost[0]][1]
        assert page.evaluate("ninja.total()") == len(before["arc"]["id"])
        page.locator('dialog [name="close"]').click()
        assert not page.locator("dialog").is_visible()
        page.wait_for_function("() => location.hash === '' && !window.ninja")


def test_the_table_sorts_filters_and_opens_alignments(browser, page_file):
    rows = data_of(page_file.read_text())["utterances"]
    with open_page(browser, page_file) as page:
        page.locator("#all th button", has_text="errors before").click()
        shown = [int(text) for text in page.locator("#all tbody td:nth-child(3)").all_inner_texts()]
        assert shown == sorted((row["before"]["errors"] for row in rows), reverse=True)
        page.locator("#all input").fill(rows[2]["key"])
        assert page.locator("#all tbody tr").count() == 1
        page.locator("#all button.key").click()
        detail = page.locator("#all tr.detail")
        said = [word for word, _ in rows[2]["before"]["pairs"] if word is not None]
        assert " ".join(said) in detail.inner_text()
        wrong = sum(said != heard for said, heard in rows[2]["before"]["pairs"])
        wrong += sum(said != heard for said, heard in rows[2]["after"]["pairs"])
        assert detail.locator(".pair:not(.right)").count() == wrong
        page.locator("#all input").fill("no such word")
        assert page.locator("#all tbody tr").count() == 0


def test_words_that_look_like_scripts_stay_words(browser, tmp_path):
    word = "</script><script>alert(1)</script>"
    key = '"><img/src=x/onerror=alert(1)>'
    outcomes = [{key: Outcome((heard,), 1, 1.0, ErrorRate())} for heard in ("b", word)]
    found = compare({key: [word]}, *outcomes)
    table = SymbolTable.from_words(["<eps>", word])
    lattice = Lattice.from_arrays(key, [0, 1, 1], [1], [1], [0], [0], [float("inf"), 0.0], words=table)
    drawing = draw(lattice, [word])
    path = tmp_path / "report.html"
    path.write_text(report_page(found, {key: (drawing, drawing)}, (word, key)))
    assert word not in path.read_text()
    with open_page(browser, path) as page:
        assert page.locator("h1").inner_text() == f"{word} → {key}"
        assert page.locator("#gained b").inner_text() == key
        assert page.locator("#gained .substitution .said").first.inner_text() == word
        page.locator("#gained a").first.click()
        page.wait_for_function("() => window.ninja")
        assert page.evaluate("ninja.select(0).word") == word
        assert page.locator("img").count() == 0
