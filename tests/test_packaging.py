"""What is packaged: every module, every kernel; and, slowly (NINJA_SLOW=1), from sources to an installed command."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = (ROOT / "pyproject.toml").read_text()

slow = pytest.mark.skipif(not os.environ.get("NINJA_SLOW"), reason="builds and installs for minutes; make dist-check")


def listed(name):
    """The strings of a list in pyproject.toml, which Python 3.10 cannot parse by itself."""
    return re.findall(r'"([^"]+)"', re.search(rf"^{name} = \[(.*?)\]", PROJECT, re.MULTILINE | re.DOTALL)[1])


def test_every_kernel_is_typed():
    kernels = {path.stem for path in (ROOT / "ext").glob("*/*.pyx")}
    assert {path.stem for path in (ROOT / "ninja").glob("_*.pyi")} == kernels


def test_every_dependency_is_pinned_for_development():
    pinned = set(re.findall(r"^([\w-]+)==", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    needed = {re.match(r"[\w-]+", each)[0] for name in ("dependencies", "test", "lint") for each in listed(name)}
    assert needed <= pinned


def test_files_that_the_build_tools_package_needs_are_left_to_it():
    for name in ("_version.py", "ninja_syntax.py"):
        assert not (ROOT / "ninja" / name).exists()


def run(*command, **options):
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True, timeout=1500, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment(folder):
    run(sys.executable, "-m", "venv", folder)
    return folder / "bin"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from the source archive."""
    folder = tmp_path_factory.mktemp("dist")
    tools = environment(folder / "tools")
    run(tools / "pip", "install", "--quiet", "build")
    run(tools / "python", "-m", "build", "--outdir", folder, ROOT)
    (path,) = folder.glob("*.whl")
    return path


@slow
@pytest.mark.timeout(3000)
def test_the_wheel_installs_and_works_in_an_empty_environment(wheel, tmp_path):
    bin_folder = environment(tmp_path / "env")
    run(bin_folder / "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel)
    clean = {"PATH": f"{bin_folder}:/usr/bin:/bin", "HOME": str(tmp_path)}
    report = run(bin_folder / "ninja", "doctor", cwd=tmp_path, env=clean)
    assert "BAD" not in report
    for name in ("ninja", "ninja-asr"):
        assert run(bin_folder / name, "version", cwd=tmp_path, env=clean).startswith("ninja-asr ")
    examples = ROOT / "examples"
    arguments = [examples / "lat.ark.gz", "--words", examples / "words.txt", "-o", tmp_path / "out.ark"]
    run(bin_folder / "ninja", "rescore", *arguments, cwd=tmp_path, env=clean)
    assert len(run(bin_folder / "ninja", "best", tmp_path / "out.ark", cwd=tmp_path, env=clean).splitlines()) == 40


@slow
@pytest.mark.timeout(3000)
def test_the_doctor_names_what_the_build_tools_package_overwrote(wheel, tmp_path):
    bin_folder = environment(tmp_path / "env")
    run(bin_folder / "pip", "install", "--quiet", "--no-deps", wheel)
    run(bin_folder / "pip", "install", "--quiet", "click", "ninja")
    doctor = [str(bin_folder / "ninja-asr"), "doctor"]
    done = subprocess.run(doctor, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    lines = [line for line in done.stdout.splitlines() if line.startswith("BAD  names")]
    for name in ("ninja/__init__.py", "ninja/__main__.py", "bin/ninja"):
        assert any(f"{name} is claimed by ninja and ninja-asr; it holds ninja's" in line for line in lines), name
    assert "pip uninstall ninja" in lines[-1]
    run(bin_folder / "pip", "install", "--quiet", "--no-deps", "--force-reinstall", wheel)
    done = subprocess.run(doctor, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "it holds ninja-asr's" in done.stdout
