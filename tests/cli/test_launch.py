"""The launcher: how calls of this program and calls of the build tool are distinguished."""

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


def call(*arguments, main="main", cwd=".", path="", **environment):
    script = START.format(root=str(ROOT), main=main)
    variables = {"PATH": str(path), **{name: str(value) for name, value in environment.items()}}
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("first", ["-C", "-f", "-j", "-k", "-l", "-n", "-v", "-d", "-t", "-w", "-j8", "-Cbuild"])
def test_a_short_option_of_the_build_tool_goes_to_it_with_its_exit_code(tool, tmp_path, first):
    done = call(first, "x", cwd=tmp_path, path=tool.parent)
    assert (done.stdout, done.returncode) == (f"built: {first} x\n", 7)


@pytest.mark.parametrize("arguments", [[], ["all"], ["--quiet", "install"], ["some/file.o"]])
def test_a_call_without_our_command_in_a_build_folder_goes_to_the_build_tool(tool, tmp_path, arguments):
    (tmp_path / "build.ninja").touch()
    done = call(*arguments, cwd=tmp_path, path=tool.parent)
    assert done.stdout == f"built: {' '.join(arguments)}\n"


@pytest.mark.parametrize("arguments", [["version"], ["--debug", "version"], ["--help"], ["-h"]])
def test_our_commands_stay_ours_in_a_build_folder(tool, tmp_path, arguments):
    (tmp_path / "build.ninja").touch()
    done = call(*arguments, cwd=tmp_path, path=tool.parent)
    assert "built" not in done.stdout
    assert done.returncode == 0


def test_without_a_build_file_a_bare_call_shows_our_help(tool, tmp_path):
    done = call(cwd=tmp_path, path=tool.parent)
    assert "rescore" in done.stdout + done.stderr


def test_ninja_asr_never_calls_the_build_tool(tool, tmp_path):
    (tmp_path / "build.ninja").touch()
    done = call("-C", "x", main="main_asr", cwd=tmp_path, path=tool.parent)
    assert done.returncode == 2
    assert "built" not in done.stdout


def test_the_version_asked_for_is_the_build_tools_when_there_is_one(tool, tmp_path):
    assert call("--version", path=tool.parent).stdout == "built: --version\n"
    ours = call("--version", main="main_asr", path=tool.parent)
    assert ours.stdout.startswith("ninja-asr ")
    assert ours.returncode == 0


def test_a_program_that_asks_for_the_version_is_told_whose_it_is(tool, tmp_path):
    done = call("--version", path=tool.parent)
    said = f"this is the version of the build tool, {tool}; use ninja-asr --version for the lattice tool"
    assert done.stderr == f"ninja: {said}\n"


def test_on_a_terminal_the_version_is_ours(tool):
    script = START.format(root=str(ROOT), main="main")
    controller, terminal = pty.openpty()
    line = [sys.executable, "-c", script, "--version"]
    variables = {"PATH": str(tool.parent)}
    done = subprocess.run(line, env=variables, stdout=terminal, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(terminal)
    printed = os.read(controller, 4096).decode()
    os.close(controller)
    assert printed.startswith("ninja-asr ")
    assert "built" not in printed
    assert (done.returncode, done.stderr) == (0, f"ninja: the build tool of the same name is {tool}\n")


def test_without_a_build_tool_a_piped_version_call_does_not_pretend_to_be_one(tmp_path):
    done = call("--version", path=tmp_path)
    assert (done.stdout, done.returncode) == ("", 1)
    assert "not the build tool" in done.stderr


def test_without_a_build_tool_a_build_call_says_what_to_do(tmp_path):
    done = call("-C", "build", path=tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        "ninja: error: this call is meant for the build tool ninja, but it is not on PATH; install ninja-build, "
        "or call the lattice tool as ninja-asr\n"
    )


def test_our_own_start_scripts_are_never_taken_for_the_build_tool(tool, tmp_path):
    ours = tmp_path / "ours"
    ours.mkdir()
    script = ours / "ninja"
    script.write_text("#!/usr/bin/python3\nimport sys\nfrom ninja._launch import main\nsys.exit(main())\n")
    script.chmod(0o755)
    shutil.copy(script, ours / "ninja-build")
    done = call("-n", path=f"{ours}{os.pathsep}{tool.parent}")
    assert done.stdout == "built: -n\n"
    done = call("-n", path=tool.parent, NINJA_BUILD_TOOL=script)
    assert done.returncode == 1
    assert "$NINJA_BUILD_TOOL" in done.stderr


def test_the_chosen_build_tool_comes_before_the_path(tool, tmp_path):
    other = tmp_path / "samurai"
    other.write_text('#!/bin/sh\necho "samurai: $@"\n')
    other.chmod(0o755)
    assert call("-n", path=tool.parent, NINJA_BUILD_TOOL=other).stdout == "samurai: -n\n"
    assert call("-n", path=f"{tool.parent}{os.pathsep}{tmp_path}", NINJA_BUILD_TOOL="samurai").stdout == "samurai: -n\n"


def test_handing_over_imports_nothing_but_the_table_of_commands(tool, tmp_path):
    (tmp_path / "build.ninja").touch()
    script = textwrap.dedent(f"""
        import os, sys
        sys.path.insert(0, {str(ROOT)!r})
        before = set(sys.modules)
        import ninja._launch, ninja.build_tool
        ninja._launch.is_build_call(["all"], {str(tmp_path)!r}), ninja.build_tool.find_build_tool()
        print(sorted(set(sys.modules) - before))
    """)
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "['ninja', 'ninja._launch', 'ninja.build_tool', 'ninja.cli', 'ninja.cli.commands']\n"


# The machine decides whether it has the real tools; fake ones stand in for them in the tests above.
@pytest.mark.skipif(
    not shutil.which("ninja-build") and build_tool.find_build_tool() is None,
    reason="needs the real build tool; a fake one is tested above",
)
def test_a_real_build_runs_through_the_launcher(tmp_path):
    real = Path(build_tool.find_build_tool())
    (tmp_path / "build.ninja").write_text("rule say\n command = echo made > $out\nbuild out: say\n")
    done = call(cwd=tmp_path, path=f"{real.parent}{os.pathsep}/bin{os.pathsep}/usr/bin", NINJA_BUILD_TOOL=real)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out").read_text() == "made\n"
    targets = call("-C", str(tmp_path), "-t", "targets", path=real.parent, NINJA_BUILD_TOOL=real)
    assert "out: say" in targets.stdout


# The machine decides whether it has the real tools; fake ones stand in for them in the tests above.
@pytest.mark.skipif(
    not shutil.which("cmake") or build_tool.find_build_tool() is None, reason="needs cmake and the real build tool"
)
def test_cmake_configures_and_builds_through_the_launcher(tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.10)\nproject(p NONE)\nadd_custom_target(t ALL COMMAND ${CMAKE_COMMAND} -E "
        "touch made)\n"
    )
    start = tmp_path / "ninja"
    start.write_text(f"#!{sys.executable}\n# ninja._launch\n{START.format(root=str(ROOT), main='main')}\n")
    start.chmod(0o755)
    environment = {**os.environ, "NINJA_BUILD_TOOL": build_tool.find_build_tool()}
    folders = ["-S", str(tmp_path), "-B", str(tmp_path / "b")]
    configure = ["cmake", "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={start}", *folders]
    subprocess.run(configure, env=environment, check=True, capture_output=True, timeout=120)
    build = ["cmake", "--build", str(tmp_path / "b")]
    subprocess.run(build, env=environment, check=True, capture_output=True, timeout=120)
    assert (tmp_path / "b" / "made").exists()


def test_an_interrupt_while_modules_are_imported_prints_no_traceback():
    interrupted = """
        import sys

        class Interrupt:
            def find_spec(self, name, *_):
                if name == "ninja.cli.main":
                    raise KeyboardInterrupt

        sys.meta_path.insert(0, Interrupt())
    """
    script = textwrap.dedent(interrupted) + START.format(root=str(ROOT), main="main_asr")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "")


def test_importing_the_package_is_light():
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import ninja; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"torch", "pywrapfst", "numpy", "click", "rich"} & set(done.stdout.split())


def test_loading_a_model_imports_no_compiler():
    load = "import ninja; ninja.lm.load(backend='torch')"
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r}); {load}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "torch" in done.stdout.split()
    assert "torch._dynamo" not in done.stdout.split()


def test_importing_the_writers_is_light():
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


def test_importing_and_helping_are_quick():
    assert least_seconds([sys.executable, "-c", "import ninja"]) < 0.1
    assert least_seconds([sys.executable, "-m", "ninja", "--help"]) < 0.25


def test_the_build_tools_folder_is_found_where_others_look_for_it(tool, monkeypatch):
    import ninja

    monkeypatch.setenv("NINJA_BUILD_TOOL", str(tool))
    monkeypatch.delitem(vars(ninja), "BIN_DIR", raising=False)
    assert str(tool.parent) == ninja.BIN_DIR
    monkeypatch.delitem(vars(ninja), "BIN_DIR")


def test_the_doctor_loads_each_kernel_and_names_each_library_without_which_nothing_works():
    done = subprocess.run([sys.executable, "-m", "ninja", "doctor"], capture_output=True, text=True, timeout=120)
    found = {line.split()[1] for line in done.stdout.splitlines()}
    kernels = {f"ninja.{path.stem}" for path in (ROOT / "ext").glob("*/_*.pyx")}
    assert {name for name in found if name.startswith("ninja.")} == kernels
    assert {"numpy", "click", "isal", "lazy_loader"} <= found


def test_the_doctor_runs_where_numpy_is_missing(tmp_path):
    (tmp_path / "numpy.py").write_text("raise ModuleNotFoundError('No module named numpy')\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "ninja", "doctor"], capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.returncode == 1
    assert "BAD  ninja._core" in done.stdout
