"""`ninja doctor --deep`: golden cases that any fault of a kernel changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ninja import graph, self_test


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
    """Kernels, one of them with a fault."""

    def __init__(self, kernels: Any, **wrong: Any) -> None:
        self.__dict__.update({name: getattr(kernels, name) for name in dir(kernels)} | wrong)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_no_number_is_close_to_none(number):
    with pytest.raises(self_test.Wrong):
        self_test.close("it", number, 1.0)
