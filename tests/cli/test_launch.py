"""The launcher distinguishes calls of this program from calls of the build tool of the same name."""

import os
import pty
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ninja import build_tool

ROOT = Path(__file__).resolve().parents[2]
START = "import sys; sys.path.insert(0, {root!r}); sys.argv[0] = 'ninja'; from ninja._launch import {main} as go; go()"


@pytest.fixture
def tool(tmp_path):
    """Write a build tool that prints its arguments."""
    folder = tmp_path / "bin"
    folder.mkdir()
    path = folder / "ninja"
    path.write_text('#!/bin/sh\necho "built: $@"\nexit 7\n')
    path.chmod(0o755)
    return path


def run_launcher(*arguments, main="main", cwd=".", path="", **environment):
    script = START.format(root=str(ROOT), main=main)
    variables = {"PATH": str(path), **{name: str(value) for name, value in environment.items()}}
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("first", ["-C", "-f", "-j", "-k", "-l", "-n", "-v", "-d", "-t", "-w", "-j8", "-Cbuild"])
def test_short_options_of_the_build_tool_are_passed_to_it(tool, tmp_path, first):
    process = run_launcher(first, "x", cwd=tmp_path, path=tool.parent)
    assert (process.stdout, process.returncode) == (f"built: {first} x\n", 7)


@pytest.mark.parametrize("arguments", [[], ["all"], ["--quiet", "install"], ["some/file.o"]])
def test_calls_without_a_command_in_a_build_folder_run_the_build_tool(tool, tmp_path, arguments):
    (tmp_path / "build.ninja").touch()
    process = run_launcher(*arguments, cwd=tmp_path, path=tool.parent)
    assert process.stdout == f"built: {' '.join(arguments)}\n"


@pytest.mark.parametrize("arguments", [["version"], ["--debug", "version"], ["--help"], ["-h"]])
def test_commands_run_in_a_build_folder(tool, tmp_path, arguments):
    (tmp_path / "build.ninja").touch()
    process = run_launcher(*arguments, cwd=tmp_path, path=tool.parent)
    assert "built" not in process.stdout
    assert process.returncode == 0


def test_a_call_without_arguments_or_build_file_prints_help(tool, tmp_path):
    process = run_launcher(cwd=tmp_path, path=tool.parent)
    assert "rescore" in process.stdout + process.stderr


def test_ninja_asr_never_calls_the_build_tool(tool, tmp_path):
    (tmp_path / "build.ninja").touch()
    process = run_launcher("-C", "x", main="main_asr", cwd=tmp_path, path=tool.parent)
    assert process.returncode == 2
    assert "built" not in process.stdout


def test_version_is_that_of_an_installed_build_tool(tool, tmp_path):
    assert run_launcher("--version", path=tool.parent).stdout == "built: --version\n"
    process = run_launcher("--version", main="main_asr", path=tool.parent)
    assert process.stdout.startswith("ninja-asr ")
    assert process.returncode == 0


def test_version_names_the_build_tool_on_stderr(tool, tmp_path):
    process = run_launcher("--version", path=tool.parent)
    message = f"this is the version of the build tool, {tool}; use ninja-asr --version for the lattice tool"
    assert process.stderr == f"ninja: {message}\n"


def test_version_on_a_terminal_is_that_of_this_package(tool):
    script = START.format(root=str(ROOT), main="main")
    controller, terminal = pty.openpty()
    command = [sys.executable, "-c", script, "--version"]
    environment = {"PATH": str(tool.parent)}
    process = subprocess.run(command, env=environment, stdout=terminal, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(terminal)
    printed = os.read(controller, 4096).decode()
    os.close(controller)
    assert printed.startswith("ninja-asr ")
    assert "built" not in printed
    assert (process.returncode, process.stderr) == (0, f"ninja: the build tool of the same name is {tool}\n")


def test_version_fails_in_a_pipe_without_a_build_tool(tmp_path):
    process = run_launcher("--version", path=tmp_path)
    assert (process.stdout, process.returncode) == ("", 1)
    assert "not the build tool" in process.stderr


def test_a_build_call_without_a_build_tool_suggests_installing_it(tmp_path):
    process = run_launcher("-C", "build", path=tmp_path)
    assert process.returncode == 1
    assert process.stderr == (
        "ninja: error: this call is meant for the build tool ninja, but it is not on PATH; install ninja-build, "
        "or call the lattice tool as ninja-asr\n"
    )


def test_start_scripts_of_this_package_are_not_used_as_the_build_tool(tool, tmp_path):
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    script = scripts / "ninja"
    script.write_text("#!/usr/bin/python3\nimport sys\nfrom ninja._launch import main\nsys.exit(main())\n")
    script.chmod(0o755)
    shutil.copy(script, scripts / "ninja-build")
    process = run_launcher("-n", path=f"{scripts}{os.pathsep}{tool.parent}")
    assert process.stdout == "built: -n\n"
    process = run_launcher("-n", path=tool.parent, NINJA_BUILD_TOOL=script)
    assert process.returncode == 1
    assert "$NINJA_BUILD_TOOL" in process.stderr


def test_ninja_build_tool_overrides_the_path(tool, tmp_path):
    samurai = tmp_path / "samurai"
    samurai.write_text('#!/bin/sh\necho "samurai: $@"\n')
    samurai.chmod(0o755)
    assert run_launcher("-n", path=tool.parent, NINJA_BUILD_TOOL=samurai).stdout == "samurai: -n\n"
    assert (
        run_launcher("-n", path=f"{tool.parent}{os.pathsep}{tmp_path}", NINJA_BUILD_TOOL="samurai").stdout
        == "samurai: -n\n"
    )


def test_the_launcher_imports_only_the_table_of_commands(tool, tmp_path):
    (tmp_path / "build.ninja").touch()
    script = textwrap.dedent(f"""
        import os, sys
        sys.path.insert(0, {str(ROOT)!r})
        before = set(sys.modules)
        import ninja._launch, ninja.build_tool
        ninja._launch.is_build_call(["all"], {str(tmp_path)!r}), ninja.build_tool.find_build_tool()
        print(sorted(set(sys.modules) - before))
    """)
    process = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, check=True)
    assert process.stdout == "['ninja', 'ninja._launch', 'ninja.build_tool', 'ninja.cli', 'ninja.cli.commands']\n"


# Skipped on machines without the real tools; the tests above use fake ones.
@pytest.mark.skipif(
    not shutil.which("ninja-build") and build_tool.find_build_tool() is None,
    reason="needs the real build tool; a fake one is tested above",
)
def test_a_real_build_runs_through_the_launcher(tmp_path):
    real_tool = Path(build_tool.find_build_tool())
    (tmp_path / "build.ninja").write_text("rule say\n command = echo built > $out\nbuild out: say\n")
    process = run_launcher(
        cwd=tmp_path, path=f"{real_tool.parent}{os.pathsep}/bin{os.pathsep}/usr/bin", NINJA_BUILD_TOOL=real_tool
    )
    assert process.returncode == 0, process.stderr
    assert (tmp_path / "out").read_text() == "built\n"
    targets = run_launcher("-C", str(tmp_path), "-t", "targets", path=real_tool.parent, NINJA_BUILD_TOOL=real_tool)
    assert "out: say" in targets.stdout


# Skipped on machines without the real tools; the tests above use fake ones.
@pytest.mark.skipif(
    not shutil.which("cmake") or build_tool.find_build_tool() is None, reason="needs cmake and the real build tool"
)
def test_cmake_configures_and_builds_through_the_launcher(tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.10)\nproject(p NONE)\nadd_custom_target(t ALL COMMAND ${CMAKE_COMMAND} -E "
        "touch built)\n"
    )
    script = tmp_path / "ninja"
    script.write_text(f"#!{sys.executable}\n# ninja._launch\n{START.format(root=str(ROOT), main='main')}\n")
    script.chmod(0o755)
    environment = {**os.environ, "NINJA_BUILD_TOOL": build_tool.find_build_tool()}
    folders = ["-S", str(tmp_path), "-B", str(tmp_path / "b")]
    configure = ["cmake", "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={script}", *folders]
    subprocess.run(configure, env=environment, check=True, capture_output=True, timeout=120)
    build = ["cmake", "--build", str(tmp_path / "b")]
    subprocess.run(build, env=environment, check=True, capture_output=True, timeout=120)
    assert (tmp_path / "b" / "built").exists()


def test_an_interrupt_during_imports_prints_no_traceback():
    interruption = """
        import sys

        class Interrupt:
            def find_spec(self, name, *_):
                if name == "ninja.cli.main":
                    raise KeyboardInterrupt

        sys.meta_path.insert(0, Interrupt())
    """
    script = textwrap.dedent(interruption) + START.format(root=str(ROOT), main="main_asr")
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (process.returncode, process.stderr) == (130, "")


def test_importing_the_package_imports_no_heavy_dependency():
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import ninja; print(*sys.modules)"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"torch", "pywrapfst", "numpy", "click", "rich"} & set(process.stdout.split())


def test_loading_a_model_does_not_import_the_torch_compiler():
    load = "import ninja; ninja.lm.load(backend='torch')"
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r}); {load}; print(*sys.modules)"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "torch" in process.stdout.split()
    assert "torch._dynamo" not in process.stdout.split()


def test_importing_the_writers_imports_no_heavy_dependency():
    code = (
        "import sys, ninja.io.layouts, ninja.io.writer\n"
        "print([name for name in ('torch', 'pyarrow', 'pywrapfst', 'click') if name in sys.modules])"
    )
    root = Path(build_tool.__file__).parent.parent
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert run.stdout == "[]\n"


def least_seconds(arguments, runs=5):
    """Return the smallest processor time of several runs, so that other load does not affect the test."""
    seconds = []
    for _ in range(runs):
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, cwd=ROOT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        seconds.append(usage.ru_utime + usage.ru_stime)
    return min(seconds)


def test_import_and_help_take_little_processor_time():
    assert least_seconds([sys.executable, "-c", "import ninja"]) < 0.1
    assert least_seconds([sys.executable, "-m", "ninja", "--help"]) < 0.25


def test_bin_dir_is_the_folder_of_the_build_tool(tool, monkeypatch):
    import ninja

    monkeypatch.setenv("NINJA_BUILD_TOOL", str(tool))
    monkeypatch.delitem(vars(ninja), "BIN_DIR", raising=False)
    assert str(tool.parent) == ninja.BIN_DIR
    monkeypatch.delitem(vars(ninja), "BIN_DIR")


def test_doctor_lists_each_kernel_and_each_required_library(ninja):
    names = {line.split()[1] for line in ninja("doctor")[1].splitlines()}
    kernels = {f"ninja.{path.stem}" for path in (ROOT / "ext").glob("*/_*.pyx")}
    assert {name for name in names if name.startswith("ninja.")} == kernels
    assert {"numpy", "click", "isal", "lazy_loader"} <= names


def test_doctor_reports_kernels_that_fail_without_numpy(tmp_path):
    (tmp_path / "numpy.py").write_text("raise ModuleNotFoundError('No module named numpy')\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    process = subprocess.run(
        [sys.executable, "-m", "ninja", "doctor"], capture_output=True, text=True, env=environment, timeout=120
    )
    assert process.returncode == 1
    assert "BAD  ninja._core" in process.stdout
