"""docs/security.md: each guarantee has a test, which fails without its guard (NINJA_SLOW)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from security_guards import PROMISES, Promise

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "security.md"
ALL = [promise for promises in PROMISES.values() for promise in promises]


def test_page_lists_every_guarantee_and_its_test():
    rows = re.findall(r"^\| (.+?) \| `tests/(.+?)` \| `(.+?)` \|$", PAGE.read_text(), re.MULTILINE)
    assert rows == [(promise.guarantee, promise.test, promise.file) for promise in ALL]


@pytest.mark.parametrize("promise", ALL, ids=lambda promise: promise.guarantee)
def test_test_and_guard_exist(promise: Promise):
    file, _, function = promise.test.partition("::")
    assert re.search(rf"^def {function}\(", (ROOT / "tests" / file).read_text(), re.MULTILINE)
    assert promise.guard in (ROOT / promise.file).read_text()


# Takes minutes, as each guarantee runs a test in a copy of the tree. Every run compares the lists.
@pytest.mark.skipif(not os.environ.get("NINJA_SLOW"), reason="takes guards out for minutes: NINJA_SLOW=1")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("promise", ALL, ids=lambda promise: promise.guarantee)
def test_each_security_test_fails_when_its_guard_is_removed(promise: Promise, tmp_path):
    for name in ("ninja", "tests", "examples", "models", "docs", "benchmarks"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "data"))
    (tmp_path / "tests" / "data").symlink_to(ROOT / "tests" / "data")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    file = tmp_path / promise.file
    file.write_text(file.read_text().replace(promise.guard, promise.replacement))
    test = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", f"tests/{promise.test}"]
    test.append("--timeout=100")  # without some guards, the test does not end
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NINJA_SHARED": str(ROOT.parent / "shared")}
    process = subprocess.run(test, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert process.returncode == 1, process.stdout[-2000:]  # codes from 2: the test did not run
    assert "stopping after 1 failures" in process.stdout
