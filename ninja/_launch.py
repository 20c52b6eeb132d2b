"""The ``ninja`` command: ours, unless the call is meant for the build tool of the same name.

PyPI's ``ninja`` (the build tool) owns the same command and the same import name. So that a machine can have both,
calls meant for the build tool are handed to it. A build makes such calls by the hundred, hence nothing but ``os``,
``sys`` and two small modules of our own is imported until we know that a call is ours.
"""

import os
import sys

from ninja.build_tool import find_build_tool

BUILD_OPTIONS = ("-C", "-f", "-j", "-k", "-l", "-n", "-v", "-d", "-t", "-w")


def main() -> None:
    """Run ``ninja``: hand a build tool's call to the build tool, and run the command line of this package else."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["--version"]:
        _version(arguments)
    elif is_build_call(arguments):
        _build(arguments)
    else:
        _command()


def main_asr() -> None:
    """Run ``ninja-asr``: the command line of this package, whatever the arguments."""
    _command()


def is_build_call(arguments: list[str], folder: str = ".") -> bool:
    """Tell whether arguments are meant for the build tool.

    They are when the first is one of its short options, or when no command of ours is named in a folder that holds
    a ``build.ninja``.
    """
    if arguments and arguments[0][:2] in BUILD_OPTIONS:
        return True
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        return False
    from ninja.cli.commands import COMMANDS

    named = [argument for argument in arguments if not argument.startswith("-")]
    return not (arguments[:1] in (["-h"], ["--help"]) or (named[:1] and named[0] in COMMANDS))


def _build(arguments: list[str]) -> None:
    tool = find_build_tool()
    if tool is None:
        chosen = os.environ.get("NINJA_BUILD_TOOL")
        trouble = f"$NINJA_BUILD_TOOL is {chosen!r}, which is not it" if chosen else "there is none on PATH"
        sys.exit(
            f"ninja: error: this call is meant for the build tool ninja, but {trouble}; install ninja-build, or call "
            "the lattice tool as ninja-asr"
        )
    sys.stdout.flush()
    os.execv(tool, [tool, *arguments])


def _version(arguments: list[str]) -> None:
    """Print our version, and where the build tool is; a program that asks, through a pipe, gets the build tool's."""
    tool = find_build_tool()
    if sys.stdout is not None and sys.stdout.isatty():
        if tool:
            sys.stderr.write(f"ninja: the build tool of the same name is {tool}\n")
        _command()
    # CMake, Meson and torch probe for the build tool in this way, and must not take us for it.
    if tool is None:
        sys.exit("ninja: error: this is ninja-asr, not the build tool; its version: ninja-asr --version")
    if sys.stderr is not None:
        message = f"this is the version of the build tool, {tool}; that of the lattice tool: ninja-asr --version"
        sys.stderr.write(f"ninja: {message}\n")
        sys.stderr.flush()
    _build(arguments)


def _command() -> None:
    from ninja.cli.main import main

    sys.exit(main())
