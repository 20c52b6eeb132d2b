"""The examples of README.md and docs/ run without changes."""

import re
import sys
from pathlib import Path

import pytest
from page_examples import NOT_RUN, ROOT, python_runner, run  # noqa: F401

PAGES = ["README.md", "docs/python.md", "docs/context.md", "docs/look.md"]


def blocks(language):
    cases = []
    for page in PAGES:
        text = (ROOT / page).read_text()
        for number, block in enumerate(re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)):
            if NOT_RUN not in block:
                cases.append(pytest.param(block, id=f"{page}-{number}"))
    return cases


@pytest.mark.parametrize("block", blocks("sh"))
def test_shell_examples_run_and_lower_the_word_error_rate(block, tmp_path):
    process = run(["bash", "-euo", "pipefail", "-c", block], tmp_path)
    if "ninja score" in block:
        before, after = (float(rate) for rate in re.findall(r"%WER ([\d.]+)", process.stdout))
        assert after < before
    assert "ninja rescore" not in block or "vocabulary: " in process.stderr


@pytest.mark.parametrize("block", blocks("python"))
def test_python_examples_run(block, tmp_path, run_python):
    if '"gpt2"' in block:
        pytest.importorskip("transformers")
        import tiny_hf

        (tmp_path / "gpt2").symlink_to(tiny_hf.folder("gpt2"))
    run_python(block, tmp_path)


def test_demo_lowers_the_word_error_rate(tmp_path):
    process = run([sys.executable, "examples/demo.py"], tmp_path)
    before, after, best = (float(rate) for rate in re.findall(r"([\d.]+)%$", process.stdout, re.MULTILINE))
    assert best < after < before
    assert "LibriSpeech dev-clean" in process.stdout


def anchors(page):
    """Return the link targets in a page, as GitHub and the site name them."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_every_anchor_is_a_title_of_its_page():
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")]:
        for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text()):
            assert anchor in anchors(page.parent / target if target else page), f"{page.name}: {target}#{anchor}"


def test_relative_links_exist():
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            rendered = (page.parent / target).resolve() == ROOT / "docs" / "cli.md" and ROOT / "docs" in page.parents
            assert rendered or (page.parent / target).exists(), f"{page.name} links to {target}"


def test_paths_in_pages_exist():
    folders = "benchmarks|docs|examples|ext|ninja|tests"
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")]:
        for path in re.findall(rf"(?<![\w/.-])(?:{folders})/[\w./*-]*\w", page.read_text()):
            assert list(ROOT.glob(re.sub("NAME|MODULE|COMMAND", "*", path))), f"{page.name} names {path}"
        for name, part in re.findall(r"\bbenchmarks\.(\w+)(?: (\w+))?", page.read_text()):
            place = ROOT / "benchmarks" / name
            exists = place.with_suffix(".py").exists() or (
                place.is_dir() and (not part or Path(place, f"{part}.py").exists())
            )
            assert exists, f"{page.name} names benchmarks.{name} {part}"


def test_there_are_few_benchmark_commands():
    files = [path for path in (ROOT / "benchmarks").glob("*.py") if "__main__" in path.read_text()]
    assert len([*files, *(ROOT / "benchmarks").glob("*/__main__.py")]) <= 15


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
