"""Curves as pictures: the same bytes each time, clear refusals."""

from __future__ import annotations

import sys

import pytest

from ninja.errors import DependencyError, OptionError
from ninja.tune.plot import Curve, Panel, plot_curves

CURVES = [Curve("without a class model", [10, 100, 5000], [30.5, 30.7, 32.0]), Curve("with one", [10, 100], [28, 28.5])]


@pytest.mark.parametrize(("kind", "head"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_the_same_curves_are_the_same_picture(tmp_path, kind, head) -> None:
    pytest.importorskip("matplotlib")
    panels = [Panel("contextual WER (%)", CURVES, 35.0, "no context"), Panel("general WER (%)", CURVES[:1])]
    pictures = []
    for name in ("one", "two"):
        plot_curves(tmp_path / f"{name}.{kind}", panels, "phrases", title="Numbers", x_scale="log", marked=100)
        pictures.append((tmp_path / f"{name}.{kind}").read_bytes())
    assert pictures[0] == pictures[1]
    assert pictures[0].startswith(head)
    plot_curves(tmp_path / f"other.{kind}", panels, "phrases", title="Numbers", x_scale="linear", marked=100)
    assert (tmp_path / f"other.{kind}").read_bytes() != pictures[0]


@pytest.mark.parametrize(
    ("name", "panels", "message"),
    [
        ("x.pdf", [Panel("y", CURVES)], "x.pdf: pictures are written as .svg or .png"),
        ("x.svg", [], "there is a panel without curves, or no panel at all"),
        ("x.svg", [Panel("y", [])], "there is a panel without curves"),
        ("x.svg", [Panel("y", [Curve("c", [1, 2], [1])])], "the curve 'c' has 2 x and 1 y"),
        ("x.svg", [Panel("y", [Curve("c", [], [])])], "the curve 'c' has 0 x and 0 y"),
        ("x.svg", [Panel("y", [Curve("c", [0, 1], [1, 1])])], "the curve 'c' has a point at 0, which a log axis lacks"),
    ],
)
def test_what_cannot_be_drawn_is_named(tmp_path, name, panels, message) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(OptionError, match=message):
        plot_curves(tmp_path / name, panels, "x", x_scale="log")
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_the_library_to_install_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(DependencyError, match=r"pip install 'ninja-asr\[plot\]'"):
        plot_curves(tmp_path / "x.svg", [Panel("y", CURVES)], "x")
