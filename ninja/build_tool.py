"""Find the build tool that is also called ``ninja``."""

import os

BUILD_TOOLS = ("ninja-build", "ninja", "samu")
OURSELVES = b"ninja._launch"  # occurs in the scripts that pip, pipx, uv and setuptools create for this package


def find_build_tool() -> str | None:
    """Return the path of the build tool, or None if it is not installed.

    If ``$NINJA_BUILD_TOOL`` is set to a path, or to the name of a program on PATH, no other program is considered.
    Otherwise, PATH is searched for ninja-build, then for ninja, then for samu. Scripts that start this package are
    never returned.
    """
    chosen = os.environ.get("NINJA_BUILD_TOOL")
    for name in (chosen,) if chosen else BUILD_TOOLS:
        folders = [""] if os.path.dirname(name) else os.environ.get("PATH", os.defpath).split(os.pathsep)
        for folder in folders:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and os.access(path, os.X_OK) and not is_ourselves(path):
                return path
    return None


def is_ourselves(path: str) -> bool:
    """Return whether a file cannot be read, or is a script (in any Python environment) that starts this package."""
    try:
        with open(path, "rb") as stream:
            return OURSELVES in stream.read(4096)
    except OSError:
        return True  # do not run it: if it started this package, the call would be forwarded endlessly
