"""`ninja doctor --deep`: golden cases that any error in a kernel changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ninja import _core, graph, self_test

ROOT = Path(__file__).resolve().parents[2]


def test_doctor_deep_passes_every_golden_case(ninja):
    assert dict(self_test.run()) == dict.fromkeys(self_test.CASES)
    code, stdout, _ = ninja("doctor", "--deep")
    assert code == 0, stdout
    assert [name for name in self_test.CASES if f"ok   {name}" in stdout] == list(self_test.CASES)


def test_wrong_posteriors_make_the_doctor_fail(ninja, monkeypatch):
    kernels = graph.posteriors.__globals__
    compute = kernels["_graph"].posteriors

    def posteriors(*arguments):
        of_arc, of_final = compute(*arguments)
        return of_arc * (1 + 1e-8), of_final

    monkeypatch.setitem(kernels, "_graph", FaultyKernels(kernels["_graph"], posteriors=posteriors))
    assert "the posterior of arc" in dict(self_test.run())["posteriors"]
    code, stdout, _ = ninja("doctor", "--deep")
    assert code == 1
    assert "BAD  posteriors     u" in stdout
    assert "do not use this build" in stdout


def test_kernel_exception_is_reported(monkeypatch):
    kernels = graph.posteriors.__globals__
    monkeypatch.setitem(kernels, "_graph", FaultyKernels(kernels["_graph"], posteriors=lambda *arguments: 1 / 0))
    assert dict(self_test.run())["posteriors"] == "ZeroDivisionError: division by zero"


class FaultyKernels:
    """A module of kernels in which one function is replaced."""

    def __init__(self, kernels: Any, **replacements: Any) -> None:
        self.__dict__.update({name: getattr(kernels, name) for name in dir(kernels)} | replacements)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_nan_and_infinity_are_not_close_to_numbers(number):
    with pytest.raises(self_test.Wrong):
        self_test.check_close("it", number, 1.0)


def test_unsafe_options_of_the_compiler_are_named(monkeypatch):
    assert _core.unsafe_option() == ""
    monkeypatch.setattr(self_test._core, "unsafe_option", lambda: "-ffinite-math-only")
    assert dict(self_test.run())["numbers"] == "the compiled modules were built with -ffinite-math-only"


NUMBERS = "BAD  numbers        the compiled modules were built with "
SIGN = "alpha[link.src] + link.loglike)"
FAULTS = {  # module, compiler options, header, correct code, faulty code, expected output of the doctor
    "fast": ("_core", "-ffast-math", "core/arithmetic.hpp", "", "", NUMBERS + "-ffast-math"),
    "finite": ("_core", "-ffinite-math-only", "core/arithmetic.hpp", "", "", NUMBERS + "-ffinite-math-only"),
    "sign": ("_consensus", "", "consensus/mbr_lattice.hpp", SIGN, SIGN.replace("+", "-"), "BAD  consensus"),
}


# Takes minutes, as modules are compiled. The tests above check in every run that such faults make the doctor fail.
@pytest.mark.skipif(not os.environ.get("NINJA_SLOW"), reason="compiles a module for a minute: NINJA_SLOW=1")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("fault", FAULTS)
def test_doctor_fails_on_a_faulty_build(fault, tmp_path):
    module, options, header, correct, faulty, expected = FAULTS[fault]
    for name in ("ninja", "ext", "models"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    file = tmp_path / "ext" / header
    assert correct in file.read_text()
    file.write_text(file.read_text().replace(correct, faulty, 1))
    for module_path in (tmp_path / "ninja").glob(f"{module}.*.so"):
        module_path.unlink()
    flags = {name: f"{os.environ.get(name, '')} {options}" for name in ("CFLAGS", "CXXFLAGS")}
    environment = {**os.environ, **flags, "NINJA_EXTENSIONS": module, "PYTHONPATH": str(tmp_path)}
    build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    subprocess.run(build, cwd=tmp_path, env=environment, check=True, capture_output=True)
    doctor = [sys.executable, "-m", "ninja", "doctor", "--deep"]
    process = subprocess.run(doctor, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (process.returncode, expected in process.stdout) == (1, True), process.stdout
