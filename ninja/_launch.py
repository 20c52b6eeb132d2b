"""Entry points for the ``ninja`` command, which forward calls that are meant for the build tool of the same name.

The build tool, PyPI's ``ninja``, has the same command name and import name. A build makes hundreds of calls, so only
``os``, ``sys`` and two small modules are imported before it is known that a call is meant for this program.
"""

import os
import sys

from ninja.build_tool import find_build_tool

BUILD_OPTIONS = ("-C", "-f", "-j", "-k", "-l", "-n", "-v", "-d", "-t", "-w")


def main() -> None:
    """Entry point of ``ninja``: run the build tool or the command line of this package."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["--version"]:
        _version(arguments)
    elif is_build_call(arguments):
        _build(arguments)
    else:
        _command()


def main_asr() -> None:
    """Entry point of ``ninja-asr``: run the command line of this package."""
    _command()


def is_build_call(arguments: list[str], folder: str = ".") -> bool:
    """Return whether a call is meant for the build tool.

    This is the case if the first argument is a short option of the build tool. If the folder contains ``build.ninja``,
    it is also the case for all other calls, except those that begin with ``-h`` or ``--help`` and those whose
    first non-option argument is a command of this program.
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
        path = os.environ.get("NINJA_BUILD_TOOL")
        problem = "it is not on PATH; install ninja-build"
        if path:
            problem = f"$NINJA_BUILD_TOOL is {path!r}, which is not that tool; correct or unset the variable"
        sys.exit(
            f"ninja: error: this call is meant for the build tool ninja, but {problem}, or call the lattice tool as "
            "ninja-asr"
        )
    sys.stdout.flush()
    os.execv(tool, [tool, *arguments])


def _version(arguments: list[str]) -> None:
    """Print the version of this program if stdout is a terminal; otherwise, forward the call to the build tool."""
    tool = find_build_tool()
    if sys.stdout is not None and sys.stdout.isatty():
        if tool:
            sys.stderr.write(f"ninja: the build tool of the same name is {tool}\n")
        _command()
    # CMake, Meson and torch look for the build tool in this way.
    if tool is None:
        sys.exit("ninja: error: this is ninja-asr, not the build tool; use ninja-asr --version to print its version")
    if sys.stderr is not None:
        message = f"this is the version of the build tool, {tool}; use ninja-asr --version for the lattice tool"
        sys.stderr.write(f"ninja: {message}\n")
        sys.stderr.flush()
    _build(arguments)


def _command() -> None:
    import gc

    # Modules and functions live as long as the process. With the default threshold of 700 objects, the garbage
    # collector searches them dozens of times while they load, and again at exit, which takes a sixth of the time of a
    # short command.
    gc.set_threshold(20_000, 10, 10)
    try:
        from ninja.cli.main import main

        sys.exit(main())
    except KeyboardInterrupt:  # raised while modules are imported, or after `main`
        sys.exit(130)
    finally:
        gc.freeze()
