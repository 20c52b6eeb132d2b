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
# Another processor rounds otherwise, and now and then to another word: one of the 150 of most pages is 0.67 percent.
WORDS, PERCENT = 2, 1.4
CHOICE = "* best: "  # of the best of nearly equal cells, which may be another


def code(text: str) -> list[tuple[str, str, int]]:
    """Return the blocks of a page with code or printed results, and the line of each."""
    return [(each[1], each[2], each.start(2)) for each in BLOCK.finditer(text) if NOT_RUN not in each[2]]


def shape(line: str) -> str:
    return FIGURE.sub("0", line).strip()


def agree(shown: str, printed: str) -> bool:
    """Return whether a line of a page equals a printed one, except for rounding of other processors."""
    if shape(shown) != shape(printed):
        return False
    pairs = list(zip(FIGURE.findall(shown), FIGURE.findall(printed), strict=True))
    rate = re.match(r"%WER \S+ \[ (\d+) / (\d+)", shown)
    percent = max(PERCENT, 100 * 1.01 / int(rate[2])) if rate else PERCENT
    return shown.startswith(CHOICE) or all(
        abs(float(one.strip("*")) - float(other.strip("*")))
        <= (percent if "." in one else max(WORDS, 0.01 * float(one)))
        for one, other in pairs
    )


def lines_of(block: str, printed: str) -> list[str]:
    """Return the printed lines that a page shows, in order: for each line of the page the last one of the same form."""
    left = printed.splitlines()
    found: list[str] = []
    for line in reversed(block.splitlines()):
        while left and shape(left[-1]) != shape(line):
            left.pop()
        assert left, f"nothing like this was printed: {line}\n{printed}"
        found.insert(0, left.pop())
    return found


@pytest.mark.parametrize(
    "page", [page for page in PAGES if code(page.read_text())], ids=lambda page: f"{page.parent.name}-{page.stem}"
)
def test_the_code_of_a_page_runs_and_prints_what_the_page_shows(page, tmp_path, run_python):
    text = page.read_text()
    if "transformers" in text:
        pytest.importorskip("transformers")
    with_examples(tmp_path, ROOT / "examples")  # all of them, as a reader has them
    printed, shown = "", []
    for language, block, place in code(text):
        if language == "text":
            shown.append((place, block, lines_of(block, printed)))
        elif language == "python":
            printed = run_python(block, tmp_path)
        else:
            done = run(["bash", "-euo", "pipefail", "-c", block], tmp_path)
            printed = done.stdout + done.stderr
    if os.environ.get(WRITES):
        for place, block, lines in reversed(shown):
            text = text[:place] + "".join(f"{line}\n" for line in lines) + text[place + len(block) :]
        page.write_text(text)
        return
    for _, block, lines in shown:
        stale = [pair for pair in zip(block.splitlines(), lines, strict=True) if not agree(*pair)]
        assert not stale, f"{page.name} shows other figures than were printed; see {WRITES}: {stale}"


def test_figures_that_are_stale_are_told_from_those_of_another_processor():
    shown = "%WER 32.67 [ 49 / 150, 4 ins, 3 del, 42 sub ]"
    assert agree(shown, "%WER 33.33 [ 50 / 150, 4 ins, 2 del, 44 sub ]")
    assert not agree(shown, "%WER 28.00 [ 42 / 150, 4 ins, 3 del, 35 sub ]")
    assert not agree(shown, "%SER 32.67 [ 49 / 150, 4 ins, 3 del, 42 sub ]")
    assert agree("%WER 15.38 [ 2 / 13, 0 ins, 0 del, 2 sub ]", "%WER 7.69 [ 1 / 13, 0 ins, 0 del, 1 sub ]")
    assert not agree("   7     35.33     32.67*", "   7     35.33     28.67*")
    assert agree("   7     35.33     32.67*", "   7     36.00     32.67")
    assert lines_of("%WER 1.00\n%WER 2.00\n", "%WER 9.00\n%WER 3.00\n%WER 4.00\nx") == ["%WER 3.00", "%WER 4.00"]


def test_each_tutorial_ends_with_a_word_error_rate():
    tutorials = [page for page in PAGES if page.parent.name == "tutorials" and page.stem != "index"]
    names = {"kaldi", "srilm", "htk", "nemo", "huggingface", "pocketsphinx", "whisper", "cloud"}
    assert {page.stem for page in tutorials} == names
    for page in tutorials:
        assert any("ninja score" in block for _, block, _ in code(page.read_text())), page
