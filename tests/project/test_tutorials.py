"""Tutorials and how-to pages: their code runs in order, in one folder, and prints the results that they show.

`NINJA_WRITE_PAGES=1 pytest tests/project/test_tutorials.py`, or `make pages`, writes what was printed into the pages.
"""

import os
import re

import pytest
from page_examples import NOT_RUN, ROOT, python_runner, run, with_examples  # noqa: F401

PAGES = sorted([ROOT / "docs" / "index.md", *ROOT.glob("docs/tutorials/*.md"), *ROOT.glob("docs/howto/*.md")])
BLOCK = re.compile(r"^```(sh|python|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FIGURE = re.compile(r"-?\d+(?:\.\d+)?\*?")
WRITES = "NINJA_WRITE_PAGES"
# Rounding differs between processors and can change a word: one of the 150 words of most pages is 0.67 percent.
WORDS, PERCENT = 2, 1.4
CHOICE = "* best: "  # the best of nearly equal cells, which may differ


def code(text: str) -> list[tuple[str, str, int]]:
    """Return the blocks of a page with code or printed results, and the line of each."""
    return [(block[1], block[2], block.start(2)) for block in BLOCK.finditer(text) if NOT_RUN not in block[2]]


def shape(line: str) -> str:
    return FIGURE.sub("0", line).strip()


def agree(page_line: str, printed_line: str) -> bool:
    """Return whether a line of a page equals a printed one, except for rounding of other processors."""
    if shape(page_line) != shape(printed_line):
        return False
    pairs = list(zip(FIGURE.findall(page_line), FIGURE.findall(printed_line), strict=True))
    rate = re.match(r"%WER \S+ \[ (\d+) / (\d+)", page_line)
    percent = max(PERCENT, 100 * 1.01 / int(rate[2])) if rate else PERCENT
    return page_line.startswith(CHOICE) or all(
        abs(float(page_figure.strip("*")) - float(printed_figure.strip("*")))
        <= (percent if "." in page_figure else max(WORDS, 0.01 * float(page_figure)))
        for page_figure, printed_figure in pairs
    )


def match_lines(block: str, printed: str) -> list[str]:
    """Return the printed line for each line of a page, in order: the last one of the same form."""
    remaining = printed.splitlines()
    matches: list[str] = []
    for line in reversed(block.splitlines()):
        while remaining and shape(remaining[-1]) != shape(line):
            remaining.pop()
        assert remaining, f"no such line was printed: {line}\n{printed}"
        matches.insert(0, remaining.pop())
    return matches


@pytest.mark.parametrize(
    "page", [page for page in PAGES if code(page.read_text())], ids=lambda page: f"{page.parent.name}-{page.stem}"
)
def test_page_code_runs_and_prints_the_shown_results(page, tmp_path, run_python):
    text = page.read_text()
    if "transformers" in text:
        pytest.importorskip("transformers")
    with_examples(tmp_path, ROOT / "examples")  # all examples, as readers have them
    printed, results = "", []
    for language, block, place in code(text):
        if language == "text":
            results.append((place, block, match_lines(block, printed)))
        elif language == "python":
            printed = run_python(block, tmp_path)
        else:
            process = run(["bash", "-euo", "pipefail", "-c", block], tmp_path)
            printed = process.stdout + process.stderr
    if os.environ.get(WRITES):
        for place, block, lines in reversed(results):
            text = text[:place] + "".join(f"{line}\n" for line in lines) + text[place + len(block) :]
        page.write_text(text)
        return
    for _, block, lines in results:
        stale = [pair for pair in zip(block.splitlines(), lines, strict=True) if not agree(*pair)]
        assert not stale, f"{page.name} shows figures that differ from the printed ones; set {WRITES}: {stale}"


def test_stale_figures_differ_from_rounding_of_another_processor():
    page_line = "%WER 32.67 [ 49 / 150, 4 ins, 3 del, 42 sub ]"
    assert agree(page_line, "%WER 33.33 [ 50 / 150, 4 ins, 2 del, 44 sub ]")
    assert not agree(page_line, "%WER 28.00 [ 42 / 150, 4 ins, 3 del, 35 sub ]")
    assert not agree(page_line, "%SER 32.67 [ 49 / 150, 4 ins, 3 del, 42 sub ]")
    assert agree("%WER 15.38 [ 2 / 13, 0 ins, 0 del, 2 sub ]", "%WER 7.69 [ 1 / 13, 0 ins, 0 del, 1 sub ]")
    assert not agree("   7     35.33     32.67*", "   7     35.33     28.67*")
    assert agree("   7     35.33     32.67*", "   7     36.00     32.67")
    assert match_lines("%WER 1.00\n%WER 2.00\n", "%WER 9.00\n%WER 3.00\n%WER 4.00\nx") == ["%WER 3.00", "%WER 4.00"]


def test_each_tutorial_ends_with_a_word_error_rate():
    tutorials = [page for page in PAGES if page.parent.name == "tutorials" and page.stem != "index"]
    names = {"kaldi", "srilm", "htk", "nemo", "huggingface", "pocketsphinx", "whisper", "cloud"}
    assert {page.stem for page in tutorials} == names
    for page in tutorials:
        assert any("ninja score" in block for _, block, _ in code(page.read_text())), page
