"""The page of commands, which the documentation site renders."""

import runpy
from functools import cache
from pathlib import Path


@cache
def command_page() -> str:
    return runpy.run_path(str(Path(__file__).parents[2] / "docs" / "render_cli.py"))["render"]()
