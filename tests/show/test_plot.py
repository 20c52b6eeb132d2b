"""Pictures of trade-off curves: files are reproducible, and errors are clear."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from ninja.context.options import ContextOptions
from ninja.errors import DependencyError, OptionError
from ninja.evaluate.paired import paired_difference
from ninja.tune.boosts import ContextSettings, Figures, Point, TunedContext
from ninja.tune.plot import plot_trade_off


def tuned_context(boost=4.0):
    curve = tuple(Point(value, Figures(30.0 - value, 10.0 + value, 50.0, 0)) for value in (0.0, 4.0, 8.0))
    settings = ContextSettings(ContextOptions(keyword_boost=boost), 0.1, 0.0)
    figures = curve[1].figures
    counts = np.array([0, 1])
    return TunedContext(
        settings, figures, figures, figures, curve, 15.0, paired_difference(counts, counts, counts), (), ()
    )


@pytest.mark.parametrize(("kind", "head"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_equal_curves_are_written_as_equal_bytes(tmp_path, kind, head) -> None:
    pytest.importorskip("matplotlib")
    pictures = []
    for name in ("one", "two"):
        plot_trade_off(tmp_path / f"{name}.{kind}", tuned_context())
        pictures.append((tmp_path / f"{name}.{kind}").read_bytes())
    assert pictures[0] == pictures[1]
    assert pictures[0].startswith(head)
    plot_trade_off(tmp_path / f"other.{kind}", tuned_context(8.0))
    assert (tmp_path / f"other.{kind}").read_bytes() != pictures[0]


def test_unsupported_image_formats_are_refused(tmp_path) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(OptionError, match=r"x\.pdf: pictures can be written only as \.svg or \.png"):
        plot_trade_off(tmp_path / "x.pdf", tuned_context())
    assert not list(tmp_path.iterdir())


def test_a_missing_matplotlib_is_reported_with_its_install_command(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        DependencyError, match="a picture needs matplotlib, which is not installed; pip install matplotlib"
    ):
        plot_trade_off(tmp_path / "x.svg", tuned_context())
