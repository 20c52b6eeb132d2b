"""docs/architecture.md names existing paths, names, commands and layers, and every package."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from command_page import command_page
from floors import FLOORS

from ninja.cli.commands import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
SPANS = sorted(set(re.findall(r"`([^`\n]+)`", PAGE)))
FOREIGN_NAMES = {"torch.export", "make docs"}  # names of other programs


@cache
def defined_names():
    """Collect the names that modules of the package define, including members of classes."""
    names = set()
    for path in (ROOT / "ninja").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.Assign):
                names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def exists(span):
    if span in FOREIGN_NAMES:
        return True
    if "/" in span or span.endswith(".py"):
        folders = ROOT, ROOT / "ninja"
        return any(list(folder.glob(span.rstrip("/"))) for folder in folders)
    if span.startswith("ninja "):
        return span.split()[1] in COMMANDS
    if span.startswith("--"):
        return f"  {span} " in command_page()
    name = span.removeprefix("FORMAT = ").partition("(")[0]
    parts = [part for part in name.split(".") if part not in ("ninja", "lm")]
    return span in {*FLOORS, "ninja", "ninja-asr"} or (bool(parts) and set(parts) <= defined_names())


@pytest.mark.parametrize("span", SPANS)
def test_every_name_exists(span):
    assert exists(span), f"docs/architecture.md names {span}, which does not exist"


def test_architecture_page_names_every_package():
    packages = {path.parent for path in (ROOT / "ninja").rglob("__init__.py")} - {ROOT / "ninja"}
    page_paths = {span for span in SPANS if span.endswith("/")}
    assert {f"{path.relative_to(ROOT / 'ninja')}/" for path in packages} <= page_paths
    assert {f"ext/{path.parent.name}/" for path in (ROOT / "ext").glob("*/_*.pyx")} <= page_paths
    modules = {path.name for path in (ROOT / "ninja").glob("*.py")} - {"__init__.py"}
    assert modules <= set(SPANS)


def test_architecture_page_lists_the_floors():
    assert re.findall(r"`(\w+)`", "".join(line for line in PAGE.splitlines() if line.startswith("> "))) == FLOORS
