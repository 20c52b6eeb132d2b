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


def test_this_build_passes(ninja):
    assert dict(self_test.run()) == dict.fromkeys(self_test.CASES)
    code, said, _ = ninja("doctor", "--deep")
    assert code == 0, said
    assert [name for name in self_test.CASES if f"ok   {name}" in said] == list(self_test.CASES)


def test_a_wrong_sum_is_named_and_the_doctor_fails(ninja, monkeypatch):
    kernels = graph.posteriors.__globals__
    right = kernels["_graph"].posteriors
    wrong = Wronged(kernels["_graph"], posteriors=lambda *given: right(*given) * (1 + 1e-8))
    monkeypatch.setitem(kernels, "_graph", wrong)
    assert "the posterior of arc" in dict(self_test.run())["posteriors"]
    code, said, _ = ninja("doctor", "--deep")
    assert code == 1
    assert "BAD  posteriors     u" in said
    assert "do not use this build" in said


def test_an_exception_of_a_kernel_is_a_fault(monkeypatch):
    kernels = graph.posteriors.__globals__
    monkeypatch.setitem(kernels, "_graph", Wronged(kernels["_graph"], posteriors=lambda *given: 1 / 0))
    assert dict(self_test.run())["posteriors"] == "ZeroDivisionError: division by zero"


class Wronged:
    """Kernels, one of which is wrong."""

    def __init__(self, kernels: Any, **wrong: Any) -> None:
        self.__dict__.update({name: getattr(kernels, name) for name in dir(kernels)} | wrong)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_no_number_is_close_to_none(number):
    with pytest.raises(self_test.Wrong):
        self_test.check_close("it", number, 1.0)


def test_unsafe_options_of_the_compiler_are_named(monkeypatch):
    assert _core.unsafe_option() == ""
    monkeypatch.setattr(self_test._core, "unsafe_option", lambda: "-ffinite-math-only")
    assert dict(self_test.run())["numbers"] == "the compiled modules were built with -ffinite-math-only"


NUMBERS = "BAD  numbers        the compiled modules were built with "
SIGN = "alpha[link.src] + link.loglike)"
FAULTS = {  # module, options of the compiler, header, what is in it and what is put there, what the doctor says
    "fast": ("_core", "-ffast-math", "core/arithmetic.hpp", "", "", NUMBERS + "-ffast-math"),
    "finite": ("_core", "-ffinite-math-only", "core/arithmetic.hpp", "", "", NUMBERS + "-ffinite-math-only"),
    "sign": ("_consensus", "", "consensus/mbr_lattice.hpp", SIGN, SIGN.replace("+", "-"), "BAD  consensus"),
}


# Takes minutes: three modules are compiled. The tests above show in every run that what they tell fails the doctor.
@pytest.mark.skipif(not os.environ.get("NINJA_SLOW"), reason="compiles a module for a minute: NINJA_SLOW=1")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_doctor_fails_on_such_a_build(fault, tmp_path):
    module, options, header, right, wrong, said = FAULTS[fault]
    for name in ("ninja", "ext", "models"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    file = tmp_path / "ext" / header
    assert right in file.read_text()
    file.write_text(file.read_text().replace(right, wrong, 1))
    for built in (tmp_path / "ninja").glob(f"{module}.*.so"):
        built.unlink()
    flags = {name: f"{os.environ.get(name, '')} {options}" for name in ("CFLAGS", "CXXFLAGS")}
    environment = {**os.environ, **flags, "NINJA_EXTENSIONS": module, "PYTHONPATH": str(tmp_path)}
    build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    subprocess.run(build, cwd=tmp_path, env=environment, check=True, capture_output=True)
    doctor = [sys.executable, "-m", "ninja", "doctor", "--deep"]
    done = subprocess.run(doctor, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, said in done.stdout) == (1, True), done.stdout
