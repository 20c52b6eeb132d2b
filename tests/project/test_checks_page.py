"""docs/checks.md has a line for each command, and the tests that it names exist."""

import re
from pathlib import Path

from ninja.cli.commands import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
ROWS = re.findall(r"^\| `([^`]+)` \| (.+) \| (.+) \| (.+) \|$", (ROOT / "docs/checks.md").read_text(), re.MULTILINE)


def test_every_command_has_a_line():
    assert [command for command, *_ in ROWS] == list(COMMANDS)


def test_listed_tests_exist():
    stems = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    for command, *_, tests in ROWS:
        files = re.findall(r"`(\w+)`", tests)
        assert files, command
        assert stems >= set(files), command
