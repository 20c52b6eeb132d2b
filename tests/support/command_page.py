"""The page of commands, as the documentation site renders it."""

import runpy
from functools import cache
from pathlib import Path


@cache
def command_page() -> str:
    return runpy.run_path(str(Path(__file__).parents[2] / "docs" / "render_cli.py"))["render"]()
