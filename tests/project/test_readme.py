"""The worked examples of README.md and docs/ run as they stand."""

import atexit
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import ninja

ROOT = Path(__file__).resolve().parents[2]
NOT_RUN = "pip install"  # the block that installs

# A decode folder of Kaldi's and what stands beside it, made of the examples.
DECODED = {
    "exp/decode_test/lat.1.gz": "lat.ark.gz",
    "data/test/text": "text",
    "data/lang/words.txt": "words.txt",
}
PAGES = ["README.md", "docs/python.md", "docs/context.md", "docs/look.md"]


def blocks(language):
    found = []
    for page in PAGES:
        text = (ROOT / page).read_text()
        for number, block in enumerate(re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)):
            if NOT_RUN not in block:
                found.append(pytest.param(block, id=f"{page}-{number}"))
    return found


@functools.cache
def examples():
    """The examples without their seven largest lattices, which are two thirds of their arcs and time."""
    folder = Path(tempfile.mkdtemp()) / "examples"
    atexit.register(shutil.rmtree, folder.parent)
    shutil.copytree(ROOT / "examples", folder)
    small = {key: lattice for key, lattice in ninja.read(ROOT / "examples" / "lat.ark.gz") if lattice.num_arcs < 2000}
    with ninja.write(folder / "lat.ark.gz") as output:
        for lattice in small.values():
            output.write(lattice)
    lines = (ROOT / "examples" / "text").read_text().splitlines(keepends=True)
    (folder / "text").write_text("".join(line for line in lines if line.split()[0] in small))
    return folder


def with_examples(folder, source=None):
    """Return the folder with all that the pages name; a source other than the small examples holds for later calls."""
    if not (folder / "bin").exists():
        source = source or examples()
        (folder / "examples").symlink_to(source)
        for place, example in DECODED.items():
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / example, folder / place)  # which a page may write anew
        (folder / "bin").mkdir()
        program = folder / "bin" / "ninja"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ninja "$@"\n')
        program.chmod(0o755)
    return folder


def run(command, folder):
    with_examples(folder)
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    python_path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": python_path}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def run_python(monkeypatch, capfd):
    """Run code in a folder, in this process, where torch is imported already; return what it prints."""

    def run_here(code, folder):
        monkeypatch.chdir(with_examples(folder))
        exec(compile(code, "example", "exec"), {"__name__": "__main__"})
        return "".join(capfd.readouterr())

    return run_here


@pytest.mark.parametrize("block", blocks("sh"))
def test_shell_examples_run_and_those_that_score_lower_the_word_error_rate(block, tmp_path):
    done = run(["bash", "-euo", "pipefail", "-c", block], tmp_path)
    if "ninja score" in block:
        before, after = (float(rate) for rate in re.findall(r"%WER ([\d.]+)", done.stdout))
        assert after < before
    assert "ninja rescore" not in block or "vocabulary: " in done.stderr


@pytest.mark.parametrize("block", blocks("python"))
def test_python_examples_run(block, tmp_path, run_python):
    if '"gpt2"' in block:
        pytest.importorskip("transformers")
        import tiny_hf

        (tmp_path / "gpt2").symlink_to(tiny_hf.folder("gpt2"))
    run_python(block, tmp_path)


def test_the_demo_shows_the_word_error_rate_fall(tmp_path):
    done = run([sys.executable, "examples/demo.py"], tmp_path)
    before, after, best = (float(rate) for rate in re.findall(r"([\d.]+) %$", done.stdout, re.MULTILINE))
    assert best < after < before
    assert "synthetic" in done.stdout


def anchors(page):
    """The places in a page that links lead to, as GitHub and the site name them."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_every_anchor_is_a_title_of_its_page():
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")]:
        for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text()):
            assert anchor in anchors(page.parent / target if target else page), f"{page.name}: {target}#{anchor}"


def test_every_relative_link_leads_somewhere():
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            rendered = (page.parent / target).resolve() == ROOT / "docs" / "cli.md" and ROOT / "docs" in page.parents
            assert rendered or (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_path_named_exists():
    folders = "benchmarks|docs|examples|ext|ninja|tests"
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")]:
        for path in re.findall(rf"(?<![\w/.-])(?:{folders})/[\w./*-]*\w", page.read_text()):
            assert list(ROOT.glob(path)), f"{page.name} names {path}"
        for module in re.findall(r"\bbenchmarks\.\w+", page.read_text()):
            assert (ROOT / f"{module.replace('.', '/')}.py").exists(), f"{page.name} names {module}"


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
