"""Tutorials and how-to pages: their code runs in order, in one folder, and prints what they show."""

import re
from pathlib import Path

import pytest
from test_readme import NOT_RUN, ROOT, run, run_python  # noqa: F401

PAGES = sorted([ROOT / "docs" / "index.md", *ROOT.glob("docs/tutorials/*.md"), *ROOT.glob("docs/howto/*.md")])
BLOCK = re.compile(r"^```(sh|python|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def code(page: Path) -> list[tuple[str, str]]:
    return [(language, block) for language, block in BLOCK.findall(page.read_text()) if NOT_RUN not in block]


def shape(text: str) -> set[str]:
    """The lines, whatever their figures: another machine may round to another word."""
    return {re.sub(r"[\d.]+\*?", "0", line).strip() for line in text.splitlines()}


@pytest.mark.parametrize(
    "page", [page for page in PAGES if code(page)], ids=lambda page: f"{page.parent.name}-{page.stem}"
)
def test_the_code_of_a_page_runs_and_prints_what_the_page_shows(page, tmp_path, run_python):  # noqa: F811
    if "transformers" in page.read_text():
        pytest.importorskip("transformers")
    printed = ""
    for language, block in code(page):
        if language == "text":
            assert shape(block) <= shape(printed)
        elif language == "python":
            printed = run_python(block, tmp_path)
        else:
            done = run(["bash", "-euo", "pipefail", "-c", block], tmp_path)
            printed = done.stdout + done.stderr


def test_each_tutorial_ends_with_a_word_error_rate():
    tutorials = [page for page in PAGES if page.parent.name == "tutorials" and page.stem != "index"]
    assert {page.stem for page in tutorials} == {"kaldi", "srilm", "htk", "nemo", "huggingface"}
    for page in tutorials:
        assert any("ninja score" in block for _, block in code(page)), page
