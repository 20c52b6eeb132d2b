"""The recipes of CONTRIBUTING.md: their files and code, and a copy of the package for following them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def _section(title):
    _, _, text = (ROOT / "CONTRIBUTING.md").read_text().partition(f"### {title}\n")
    assert text, f"CONTRIBUTING.md has no recipe {title!r}"
    return re.split(r"^#{2,3} ", text, maxsplit=1, flags=re.MULTILINE)[0]


def recipe_files(title, name):
    """Return the files that a recipe lists for an object with the given name."""
    return re.findall(r"^\| `([^`]+)` \|", _section(title).replace("NAME", name), re.MULTILINE)


def recipe_code(title):
    """Return the fenced Python blocks of a recipe."""
    return re.findall(r"^```python\n(.*?)^```", _section(title), re.MULTILINE | re.DOTALL)


class PackageCopy:
    """A copy of the package that consists of links to its files; files can be added and edited."""

    def __init__(self, folder):
        self.folder = folder
        self.touched = set()
        shutil.copytree(ROOT / "ninja", folder / "ninja", copy_function=os.symlink)
        (folder / "ninja" / "models").symlink_to(ROOT / "models")

    def copy(self, path):
        """Copy a file or a folder of the checkout."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / path).is_dir() else shutil.copy)(ROOT / path, target)

    def add(self, file, content):
        (self.folder / file).write_text(content)
        self.touched.add(file)

    def replace(self, file, old, new):
        path = self.folder / file
        content = path.read_text()
        assert old in content, f"{file} has no {old!r}"
        path.unlink()
        self.add(file, content.replace(old, new, 1))

    def python(self, *arguments):
        """Run Python with this copy as the package; return its output."""
        shared = os.environ.get("NINJA_SHARED", str(ROOT.parent / "shared"))
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "NINJA_SHARED": shared}
        command = [sys.executable, *map(str, arguments)]
        process = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=self.folder)
        assert process.returncode == 0, process.stdout + process.stderr
        return process.stdout
