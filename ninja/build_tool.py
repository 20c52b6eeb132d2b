"""Find the build tool ``ninja``."""

import os

BUILD_TOOLS = ("ninja-build", "ninja", "samu")
OURSELVES = b"ninja._launch"  # occurs in the start scripts that pip, pipx, uv and setuptools write


def find_build_tool() -> str | None:
    """Return the path of the build tool: ``$NINJA_BUILD_TOOL``, or the first on PATH that is not this program."""
    chosen = os.environ.get("NINJA_BUILD_TOOL")
    for name in (chosen,) if chosen else BUILD_TOOLS:
        folders = [""] if os.path.dirname(name) else os.environ.get("PATH", os.defpath).split(os.pathsep)
        for folder in folders:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and os.access(path, os.X_OK) and not is_ourselves(path):
                return path
    return None


def is_ourselves(path: str) -> bool:
    """Tell whether a program is a start script of this package, in any environment."""
    try:
        with open(path, "rb") as stream:
            return OURSELVES in stream.read(4096)
    except OSError:
        return True  # it might be ours, which would call itself forever
