"""Render docs/cli.md: every command with its help, as ``ninja COMMAND --help`` prints it."""

import click

from ninja.cli.commands import COMMANDS
from ninja.cli.main import group

INTRODUCTION = """# The command line

`make docs` writes this page; a test fails when it is stale.

Results go to stdout or to `-o FILE`, everything else to stderr. Files appear under their names only when they are
complete. SOURCE is an archive, several, a folder, `-`, or a Kaldi rspecifier. Exit codes: 0 done, 1 bad input or a
lattice that failed, 2 wrong usage, 130 interrupted, 143 ended by SIGTERM, 141 the reader of the output went away.
"""


def render() -> str:
    """Return the page."""
    given = group.context_settings | {"max_content_width": 100, "terminal_width": 100}
    top = click.Context(group, info_name="ninja", **given)
    pages = [INTRODUCTION]
    for name in COMMANDS:
        pages += _pages(group.get_command(top, name), name, top)
    return "\n".join(pages)


def _pages(command: click.Command, name: str, parent: click.Context) -> list[str]:
    """Return the help of a command, and of those it groups."""
    context = click.Context(command, info_name=name, parent=parent, max_content_width=100, terminal_width=100)
    pages = [f"## {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"]
    for each in getattr(command, "commands", {}):
        pages += _pages(command.commands[each], each, context)
    return pages


if __name__ == "__main__":
    print(render(), end="")
