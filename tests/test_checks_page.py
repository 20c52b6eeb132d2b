"""docs/checks.md has a line for each command, and the tests that it names are there."""

import re
from pathlib import Path

from ninja.cli.commands import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
ROWS = re.findall(r"^\| `([^`]+)` \| (.+) \| (.+) \| (.+) \|$", (ROOT / "docs/checks.md").read_text(), re.MULTILINE)


def test_every_command_has_its_line():
    assert [command for command, *_ in ROWS] == list(COMMANDS)


def test_the_tests_of_each_line_are_there():
    for command, *_, tests in ROWS:
        files = re.findall(r"`(\w+)`", tests)
        assert files, command
        assert all((ROOT / "tests" / f"{file}.py").is_file() for file in files), command
