"""Find the build tool ``ninja`` and hand its calls on to it."""

import os

BUILD_TOOLS = ("ninja-build", "ninja", "samu")
OURSELVES = b"ninja._launch"  # stands in every start script that pip, pipx, uv or setuptools makes of our entry points


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
        return True  # an unreadable file might be ours, and running ourselves again would never end
