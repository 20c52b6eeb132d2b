"""The ``ninja`` command: ours, unless the call is meant for the build tool of the same name.

PyPI's ``ninja`` (the build tool) owns the same command and the same import name. So that a machine can have both,
calls meant for the build tool are handed to it. A build makes such calls by the hundred, hence nothing but ``os`` and
``sys`` is imported until we know that a call is ours.
"""

import os
import sys

COMMANDS = (
    "1best",
    "add-penalty",
    "add-trans-probs",
    "align-phones",
    "align-text",
    "align-words",
    "align-words-lexicon",
    "arc-post",
    "best",
    "best-path",
    "boost-ali",
    "combine",
    "compose",
    "compute-wer",
    "compute-wer-bootci",
    "confidence",
    "context",
    "convert",
    "copy",
    "copy-backoff",
    "ctc-decode",
    "depth",
    "depth-per-frame",
    "determinize",
    "determinize-phone-pruned",
    "determinize-pruned",
    "difference",
    "doctor",
    "equivalent",
    "expand-ngram",
    "info",
    "interp",
    "limit-depth",
    "linear-to-nbest",
    "lm",
    "lmrescore",
    "mbr-decode",
    "merge",
    "minimize",
    "nbest",
    "nbest-to-ctm",
    "nbest-to-lattice",
    "nbest-to-linear",
    "nbest-to-prons",
    "oracle",
    "posteriors",
    "project",
    "prune",
    "push",
    "report",
    "rescore",
    "reverse",
    "rmali",
    "scale",
    "score",
    "show",
    "split",
    "string-to-lattice",
    "to-ctm-conf",
    "to-fst",
    "to-mpe-post",
    "to-nbest",
    "to-phone-lattice",
    "to-post",
    "to-smbr-post",
    "topsort",
    "train",
    "tune",
    "union",
    "version",
)
BUILD_OPTIONS = ("-C", "-f", "-j", "-k", "-l", "-n", "-v", "-d", "-t", "-w")
BUILD_TOOLS = ("ninja-build", "ninja", "samu")
OURSELVES = b"ninja._launch"  # stands in every start script that pip, pipx, uv or setuptools makes of our entry points


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
    named = [argument for argument in arguments if not argument.startswith("-")]
    return not (arguments[:1] == ["--help"] or (named[:1] and named[0] in COMMANDS))


def find_build_tool() -> str | None:
    """Return the path of the build tool: ``$NINJA_BUILD_TOOL``, else the first on PATH that is not ourselves."""
    chosen = os.environ.get("NINJA_BUILD_TOOL")
    for name in (chosen,) if chosen else BUILD_TOOLS:
        folders = [""] if os.path.dirname(name) else os.environ.get("PATH", os.defpath).split(os.pathsep)
        for folder in folders:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and os.access(path, os.X_OK) and not is_ourselves(path):
                return path
    return None


def is_ourselves(path: str) -> bool:
    """Tell whether a program is a start script of this package, here or in another environment."""
    try:
        with open(path, "rb") as stream:
            return OURSELVES in stream.read(4096)
    except OSError:
        return True  # what cannot be read cannot be told apart, and running ourselves again would never end


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
    if find_build_tool():
        _build(arguments)
    if sys.stdout is None or not sys.stdout.isatty():
        # CMake, Meson and torch probe for the build tool in this way, and must not take us for it.
        sys.exit("ninja: error: this is ninja-asr, not the build tool; its version: ninja-asr --version")
    _command()


def _command() -> None:
    from ninja.cli import main

    sys.exit(main())
