"""Render the page of commands for the site: every command with its help, as ``ninja COMMAND --help`` prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ninja.cli.commands import COMMANDS
from ninja.cli.main import group

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

WIDTH = {"max_content_width": 100, "terminal_width": 100}
INTRODUCTION = """# The command line

Results go to stdout or to `-o FILE`, everything else to stderr. An output file appears under its name only when it is
complete. SOURCE is an archive, several archives, a folder, `-`, or a Kaldi rspecifier. Exit codes: 0 success, 1 bad
input or a failed lattice, 2 wrong usage, 130 interrupted, 141 stdout closed by its reader, 143 terminated by SIGTERM.
"""


def render() -> str:
    """Return the page."""
    top = click.Context(group, info_name="ninja", **group.context_settings | WIDTH)
    sections = [INTRODUCTION]
    for name in COMMANDS:
        sections += _sections(group.get_command(top, name), name, top)
    return "\n".join(sections)


def _sections(command: click.Command, name: str, parent: click.Context) -> list[str]:
    """Return the help of a command and of its subcommands."""
    context = click.Context(command, info_name=name, parent=parent, **WIDTH)
    sections = [f"## {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"]
    for subname, subcommand in getattr(command, "commands", {}).items():
        sections += _sections(subcommand, subname, context)
    return sections


def on_files(files: Files, config: Any) -> Files:
    """Add the page."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "cli.md", content=render()))
    return files
