"""The page that compares lattices before and after rescoring: its figures, missing data, and use in a browser."""

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
NUM_LATTICES = 12  # number of example lattices in the report
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
def example_lattices() -> list[Lattice]:
    lattices = (lattice for _, lattice in read(ARCHIVE, words=SymbolTable.read(WORDS)))
    return [lattice for lattice in lattices if lattice.num_arcs < 3000][:NUM_LATTICES]


@pytest.fixture(scope="module")
def files(example_lattices: list[Lattice], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Write lattices before and after a change of costs that improves some lattices and degrades others.

    One lattice is missing from each file.
    """
    folder = tmp_path_factory.mktemp("report")
    before, after = folder / "before.ark", folder / "after.ark"
    write_all(str(before), example_lattices[1:])
    with write(str(after)) as output:
        for number, lattice in enumerate(example_lattices[:-1]):
            pruned = prune(lattice, 8.0, Scales(0.1))
            output.write(pruned.with_costs(pruned.graph * 0.3) if number % 3 else pruned)
    return before, after


@pytest.fixture(scope="module")
def page_file(files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    from ninja.cli.main import main

    path = tmp_path_factory.mktemp("page") / "report.html"
    options = ["--ref", TEXT, "--words", WORDS, *SCALES, "--frame-shift", "0.01", "--lattices", "3", "-o", path]
    assert main([str(argument) for argument in ("report", *files, *options)]) == 0
    return path


# ---- Figures.


def test_rates_of_the_report_agree_with_the_library(example_lattices, files, page_file):
    transcripts = read_text(TEXT)
    keys = [lattice.key for lattice in example_lattices[1:-1]]
    references = {key: transcripts[key] for key in keys}
    figures = figures_of(page_file.read_text())
    words = SymbolTable.read(WORDS)
    for side, path in enumerate(files):
        lattices = {key: lattice for key, lattice in read(path, words=words) if key in references}
        hypotheses = {
            key: words.spell(best_path(lattice, Scales(0.1)).words.tolist()) for key, lattice in lattices.items()
        }
        rate = score(references, hypotheses)
        assert figures["word error rate"][side] == f"{rate.wer:.2f}%"
        assert figures["sentence error rate"][side] == f"{rate.ser:.2f}%"
        assert figures["word errors"][side] == str(rate.errors)
        assert figures["substitutions"][side] == str(rate.substitutions)
        assert figures["insertions"][side] == str(rate.insertions)
        assert figures["deletions"][side] == str(rate.deletions)
        oracle_rate = oracle_score(lattices.values(), references, words)
        assert figures["oracle word error rate"][side] == f"{oracle_rate.wer:.2f}%"
        mean = sum(map(depth, lattices.values())) / len(lattices)
        assert figures["mean depth"][side] == f"{mean:.2f}"
        assert figures["arcs"][side] == f"{sum(lattice.num_arcs for lattice in lattices.values()):,}"


def test_alignments_of_the_report_agree_with_the_library(example_lattices, files, page_file):
    references, words = read_text(TEXT), SymbolTable.read(WORDS)
    sides = {name: dict(read(path, words=words)) for name, path in zip(("before", "after"), files, strict=True)}
    rows = data_of(page_file.read_text())["utterances"]
    keys = {lattice.key for lattice in example_lattices[1:-1]}
    assert [row["key"] for row in rows] == [key for key in references if key in keys]
    for row in rows:
        for name, lattices in sides.items():
            hypothesis = words.spell(best_path(lattices[row["key"]], Scales(0.1)).words.tolist())
            alignment = align(references[row["key"]], hypothesis)
            assert [tuple(pair) for pair in row[name]["pairs"]] == list(alignment.pairs)
            assert row[name]["errors"] == alignment.rate().errors


WORD = st.sampled_from(["a", "b", "c"])
TRANSCRIPT = st.lists(WORD, max_size=5)


@given(st.lists(st.tuples(TRANSCRIPT, TRANSCRIPT, TRANSCRIPT), min_size=1, max_size=8))
def test_changes_of_utterances_sum_to_the_change_of_the_error_count(utterances):
    keys = [str(number) for number in range(len(utterances))]
    references = dict(zip(keys, (reference for reference, _, _ in utterances), strict=True))
    sides = [
        {key: Outcome(tuple(words[side]), 1, None, ErrorRate()) for key, words in zip(keys, utterances, strict=True)}
        for side in (1, 2)
    ]
    comparison = compare(references, *sides)
    assert comparison.absences == ()
    before, after = comparison.rates
    assert before == score(references, {key: outcome.words for key, outcome in sides[0].items()})
    assert sum(utterance.change for utterance in comparison.utterances) == after.errors - before.errors
    improvements = [utterance.change for utterance in comparison.gained]
    assert improvements == sorted(improvements)
    assert all(change < 0 for change in improvements)
    degradations = [utterance.change for utterance in comparison.lost]
    assert degradations == sorted(degradations, reverse=True)
    histogram = changes([utterance.change for utterance in comparison.utterances])
    assert sum(bar.count for bar in histogram.bars) == len(utterances)
    assert sum(bar.count for bar in histogram.bars if bar.kind == "good") == len(comparison.gained)
    page = report_page(comparison)
    assert f"{len(comparison.gained)} utterances have fewer errors, {len(comparison.lost)} have more" in page


@given(st.lists(st.floats(0.1, 1e4), max_size=30), st.lists(st.floats(0.1, 1e4), max_size=30))
def test_the_histogram_of_depths_counts_every_lattice_once(before, after):
    histogram = depths(before, after)
    if histogram is None:
        assert not before
        assert not after
        return
    for side, values in (("before", before), ("after", after)):
        assert sum(bar.count for bar in histogram.bars if bar.kind == side) == len(values)
    assert all(bar.y >= 0 and bar.y + bar.height <= histogram.height + 0.2 for bar in histogram.bars)
    assert all(bar.x >= 0 and bar.x + bar.width <= histogram.width for bar in histogram.bars)


@example([0.6])  # in floating point, 0.6 / 0.1 is below 6, and 6 * 0.1 is above 0.6
@given(st.lists(st.floats(0.1, 1e4), min_size=1, max_size=30))
def test_bins_of_the_depth_histogram_begin_at_round_numbers(values):
    histogram = depths(values, values)
    marks = [float(text.rstrip("+")) for _, text in histogram.labels]
    size = marks[1] - marks[0] if len(marks) > 1 else marks[0]
    assert f"{size:e}"[0] in "125"
    assert len(marks) <= 13
    assert marks == pytest.approx([number * size for number in range(len(marks))])
    assert marks[-1] > max(values) or histogram.labels[-1][1].endswith("+")


@pytest.mark.parametrize("count", [9, 99, 999, 9999])
def test_labels_of_the_depth_histogram_do_not_overlap(count):
    before, after = ([float(number % period) for number in range(count)] for period in (120, 110))
    histogram = depths(before, after)
    labels = [(bar.x + bar.width / 2, DIGIT * len(str(bar.count)) / 2) for bar in histogram.bars]  # middle, half width
    assert all(x + half <= next_x - next_half + 0.2 for (x, half), (next_x, next_half) in pairwise(labels))
    assert len(histogram.bars) > 6


def test_an_outcome_requires_a_symbol_table():
    lattice = Lattice.from_arrays("k", [0, 1, 1], [1], [1], [0], [0], [float("inf"), 0.0])
    with pytest.raises(LatticeError, match="key 'k': the lattice has word ids but no symbol table"):
        Outcomes({})(lattice)


def test_a_lattice_without_frames_has_no_depth():
    words = SymbolTable.from_words(["<eps>", "a"])
    lattice = Lattice.from_arrays("k", [0, 1, 1], [1], [1], [0], [0], [float("inf"), 0.0], words=words)
    assert Outcomes({})(lattice) == Outcome(("a",), 1, None, None)


# ---- Missing utterances and failed lattices.


def test_missing_utterances_are_listed_and_counted(ninja, example_lattices, files, tmp_path):
    keys = [lattice.key for lattice in example_lattices]
    text = tmp_path / "text"
    text.write_text("".join(f"{key} hello\n" for key in [*keys[2:], "nobody"]))
    page = tmp_path / "report.html"
    exit_code, _, err = ninja("report", *files, "--ref", text, "--words", WORDS, "-o", page)
    assert exit_code == 0
    for description, count, expected in (
        ("references without a lattice, before rescoring", 1, "nobody"),
        ("references without a lattice, after rescoring", 2, f"{keys[-1]}, nobody"),
        ("lattices without a reference, before rescoring", 1, keys[1]),
        ("lattices without a reference, after rescoring", 2, f"{keys[0]}, {keys[1]}"),
    ):
        assert f"ninja: {description}: {count}\n" in err
        assert re.search(rf'data-name="{description}"><summary><b>{count}</b>', page.read_text())
        listed_keys = re.search(rf'data-name="{description}">.*?class="keys">([^<]*)', page.read_text(), re.DOTALL)[1]
        assert listed_keys == expected
    assert ninja("report", *files, "--ref", text, "--words", WORDS, "-o", page, "--strict")[0] == 1


def test_a_complete_report_has_no_section_for_missing_utterances(ninja, example_lattices, files, tmp_path):
    references = read_text(TEXT)
    text = tmp_path / "text"
    text.write_text("".join(f"{lattice.key} {' '.join(references[lattice.key])}\n" for lattice in example_lattices[1:]))
    page = tmp_path / "report.html"
    before = files[0]
    exit_code, _, err = ninja("report", before, before, "--ref", text, "--words", WORDS, "--strict", "-o", page)
    assert exit_code == 0
    assert 'id="missing"' not in page.read_text()
    assert len(err.splitlines()) == 1
    assert f"0 utterances have fewer errors, 0 have more, {NUM_LATTICES - 1} have the same number" in page.read_text()


def test_a_failed_lattice_does_not_affect_the_others(ninja, example_lattices, files, tmp_path):
    before = tmp_path / "before.txt"
    write_all(f"ark,t:{before}", example_lattices[1:3] + example_lattices[4:])
    with before.open("a") as stream:
        word = example_lattices[3].word.max()
        stream.write(f"{example_lattices[3].key} \n0 1 {word} 1,1,\n1 0 {word} 1,1,\n1 0,0,\n\n")
    page = tmp_path / "report.html"
    exit_code, _, err = ninja("report", before, files[1], "--ref", TEXT, "--words", WORDS, *SCALES, "-o", page)
    assert exit_code == 1
    assert "lies on a cycle" in err
    failures = re.search(r'data-name="failed lattices, before rescoring">.*?</div>', page.read_text())[0]
    assert example_lattices[3].key in failures


def test_inputs_without_a_common_utterance_are_refused(ninja, files, tmp_path):
    text = tmp_path / "text"
    text.write_text("nobody hello\n")
    exit_code, _, err = ninja("report", *files, "--ref", text, "--words", WORDS, "-o", tmp_path / "report.html")
    assert exit_code == 1
    assert "no utterance has a reference and lattices before and after rescoring" in err
    assert not (tmp_path / "report.html").exists()
    with pytest.raises(FormatError):
        compare({"k": []}, {}, {})


def test_standard_input_cannot_be_read_twice(ninja, files):
    exit_code, _, err = ninja("report", "-", files[1], "--ref", TEXT, "--words", WORDS)
    assert exit_code == 2
    assert "use a file instead of -, or --lattices 0" in err


def test_worker_processes_write_the_same_page(ninja, files, page_file, tmp_path):
    path = tmp_path / "report.html"
    options = ["--ref", TEXT, "--words", WORDS, *SCALES, "--frame-shift", 0.01, "--lattices", 3, "-o", path]
    assert ninja("report", *files, *options, "--jobs", 2)[0] == 0
    assert path.read_text() == page_file.read_text()


# ---- The page in a browser.


@pytest.mark.parametrize("width", [420, 1440])
def test_no_element_is_wider_than_the_window(browser, page_file, width):
    wide_elements = """windowWidth => [...document.querySelectorAll("body *")].filter((element) => {
      const { right, width } = element.getBoundingClientRect();
      const overflows = element.matches(".scroll, .card") && element.scrollWidth > element.clientWidth;
      return width && (right > windowWidth || overflows);
    }).map((element) => element.outerHTML.slice(0, 80))"""
    with open_page(browser, page_file, size=(width, 800)) as page:
        page.locator("#all button.key").first.click()
        assert page.evaluate(wide_elements, width) == []
        font_size = "element => parseFloat(getComputedStyle(element).fontSize) * element.getScreenCTM().a"
        assert page.locator("svg.histogram text").first.evaluate(font_size) > 9  # pixels
        page.locator("#lost .utterance a").first.click()
        page.wait_for_function("() => window.ninja")
        assert page.locator("dialog .place").evaluate("element => element.scrollWidth - element.clientWidth") == 0
        assert page.locator("dialog .spoken .pairs").last.is_visible()


def test_the_page_lists_changed_utterances_and_opens_their_lattices(browser, page_file):
    data = data_of(page_file.read_text())
    change_by_key = {row["key"]: row["after"]["errors"] - row["before"]["errors"] for row in data["utterances"]}
    with open_page(browser, page_file) as page:
        improved_keys = page.locator("#gained .utterance b").all_inner_texts()
        degraded_keys = page.locator("#lost .utterance b").all_inner_texts()
        assert improved_keys == sorted((key for key in improved_keys), key=lambda key: change_by_key[key])
        assert set(improved_keys) == {key for key, difference in change_by_key.items() if difference < 0}
        assert set(degraded_keys) == {key for key, difference in change_by_key.items() if difference > 0}
        assert degraded_keys
        assert improved_keys
        assert 0 in change_by_key.values()
        page.locator("#lost .utterance a").first.click()
        page.wait_for_function("() => window.ninja")
        assert page.locator("dialog .title h2").inner_text() == degraded_keys[0]
        assert page.evaluate("ninja.shown()") > 0
        arc = page.evaluate("ninja.marked('oracle')[0]")
        assert page.evaluate("arc => ninja.select(arc).oracle", arc)
        page.locator('dialog [name="after"]').click()
        selector = 'dialog [name="after"][aria-pressed="true"]'
        page.wait_for_function("selector => document.querySelector(selector) && window.ninja", arg=selector)
        after = data["lattices"][degraded_keys[0]][1]
        assert page.evaluate("ninja.total()") == len(after["arc"]["id"])
        page.locator('dialog [name="close"]').click()
        assert not page.locator("dialog").is_visible()
        page.wait_for_function("() => location.hash === '' && !window.ninja")


def test_the_table_sorts_filters_and_opens_alignments(browser, page_file):
    rows = data_of(page_file.read_text())["utterances"]
    with open_page(browser, page_file) as page:
        page.locator("#all th button", has_text="errors before").click()
        counts = [int(text) for text in page.locator("#all tbody td:nth-child(3)").all_inner_texts()]
        assert counts == sorted((row["before"]["errors"] for row in rows), reverse=True)
        page.locator("#all input").fill(rows[2]["key"])
        assert page.locator("#all tbody tr").count() == 1
        page.locator("#all button.key").click()
        detail = page.locator("#all tr.detail")
        reference = [word for word, _ in rows[2]["before"]["pairs"] if word is not None]
        assert " ".join(reference) in detail.inner_text()
        num_errors = sum(word != hypothesis for word, hypothesis in rows[2]["before"]["pairs"])
        num_errors += sum(word != hypothesis for word, hypothesis in rows[2]["after"]["pairs"])
        assert detail.locator(".pair:not(.right)").count() == num_errors
        page.locator("#all input").fill("no such word")
        assert page.locator("#all tbody tr").count() == 0


def test_words_with_markup_are_shown_as_text(browser, tmp_path):
    word = "</script><script>alert(1)</script>"
    key = '"><img/src=x/onerror=alert(1)>'
    outcomes = [{key: Outcome((hypothesis,), 1, 1.0, ErrorRate())} for hypothesis in ("b", word)]
    comparison = compare({key: [word]}, *outcomes)
    table = SymbolTable.from_words(["<eps>", word])
    lattice = Lattice.from_arrays(key, [0, 1, 1], [1], [1], [0], [0], [float("inf"), 0.0], words=table)
    drawing = draw(lattice, [word])
    path = tmp_path / "report.html"
    path.write_text(report_page(comparison, {key: (drawing, drawing)}, (word, key)))
    assert word not in path.read_text()
    with open_page(browser, path) as page:
        assert page.locator("h1").inner_text() == f"{word} → {key}"
        assert page.locator("#gained b").inner_text() == key
        assert page.locator("#gained .substitution .said").first.inner_text() == word
        page.locator("#gained a").first.click()
        page.wait_for_function("() => window.ninja")
        assert page.evaluate("ninja.select(0).word") == word
        assert page.locator("img").count() == 0
