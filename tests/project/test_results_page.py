"""Every table of docs/results.md is made by a part of `python -m benchmarks.results`."""

import re
from pathlib import Path

from click.testing import CliRunner

from benchmarks.command import SHARED, Group
from benchmarks.results import page

PAGE = Path(__file__).resolve().parents[2] / "docs/results.md"


def test_tables_and_pictures_are_between_the_marks_of_a_part() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in page.parts(SHARED):
        assert re.search(f"<!-- {name}: begin -->\n.*\n\\|.*\n<!-- {name}: end -->", text, re.DOTALL), name
    unmarked = re.sub(r"<!-- (\w+): begin -->.*?<!-- \1: end -->", "", text, flags=re.DOTALL)
    assert [line for line in unmarked.splitlines() if line.startswith(("|", "!["))] == []


def test_the_command_without_a_subcommand_makes_all_parts(monkeypatch, tmp_path) -> None:
    lines = []
    monkeypatch.setattr(page.subprocess, "call", lambda line, cwd: lines.append(line) or 0)
    group = Group("benchmarks.results", "evidence", "models", "splits", "page", default="page")
    output = str(tmp_path / "page.md")
    assert CliRunner().invoke(group, ["--output", output]).exit_code == 0
    assert [line[3:-2] for line in lines] == [[*command[1:]] for command in page.parts(SHARED).values()]
    assert {tuple(line[-2:]) for line in lines} == {("--output", output)}
    lines.clear()
    assert CliRunner().invoke(group, ["--only", "splits", "--output", output]).exit_code == 0
    assert [line[2:4] for line in lines] == [["benchmarks.results", "splits"]]


def test_a_part_that_fails_ends_the_command(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(page.subprocess, "call", lambda line, cwd: 3)
    result = CliRunner().invoke(page.main, ["--output", str(tmp_path / "page.md")])
    assert (result.exit_code, "evidence failed with exit code 3" in result.output) == (1, True)
