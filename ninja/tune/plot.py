"""Curves as pictures: what a boost, a beam or the number of phrases does to error rates."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ninja.errors import DependencyError, OptionError
from ninja.files.output import opened

if TYPE_CHECKING:
    from ninja.tune.boosts import TunedContext

# Told apart by people who see few colours, too: Okabe and Ito, "Color Universal Design", 2008.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#606060"
WIDTH, HEIGHT = 6.4, 2.2  # inches, of a panel

STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 10.0,
    "grid.color": "#e4e4e4",
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "svg.fonttype": "path",  # the same wherever it is looked at
    "svg.hashsalt": "ninja",  # ids that do not change from run to run
}


@dataclass(frozen=True, slots=True)
class Curve:
    """Points joined by a line."""

    name: str  # in the legend; "" to leave it out
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves over one axis, and a line that they should stay below."""

    y_label: str
    curves: Sequence[Curve]
    limit: float | None = None
    limit_name: str = ""  # in the legend


def check_picture(path: str | os.PathLike[str]) -> str:
    """Return the kind of a picture, ``svg`` or ``png``; refuse before long work what cannot be drawn."""
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in ("svg", "png"):
        raise OptionError(f"{os.fspath(path)}: pictures are written as .svg or .png")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise DependencyError("pictures need a library: pip install 'ninja-asr[plot]'", path) from error
    return kind


def plot_curves(
    path: str | os.PathLike[str],
    panels: Sequence[Panel],
    x_label: str,
    *,
    title: str = "",
    x_scale: Literal["linear", "log"] = "linear",
    marked: float | None = None,
) -> None:
    """Draw panels of curves above one another, over the same axis; the same curves give the same bytes.

    Args:
        path: File to write, ``.svg`` or ``.png``.
        panels: The panels, from above.
        x_label: What the axis is, with its unit.
        title: What stands above all.
        x_scale: "log" for values that double; points at 0 or below cannot be drawn then.
        marked: A place of the axis to mark in all panels.

    Raises:
        DependencyError: Matplotlib is not installed.
        OptionError: The file's name ends in neither, there are no curves, or a curve has no points, as many of x as of
            y, or a point that a logarithmic axis lacks.
        OutputError: The file cannot be written.
    """
    name = os.fspath(path)
    kind = check_picture(name)
    _check(panels, x_scale)
    import matplotlib

    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **STYLE, "backend": "agg"}):
        picture = _drawn(panels, x_label, title, x_scale, marked)
        content = io.BytesIO()
        # Neither date nor version: they would make the same curves other files.
        metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
        picture.savefig(content, format=kind, dpi=150, metadata=metadata)
    with opened(name) as file:
        file.write(content.getvalue())


def plot_trade_off(path: str | os.PathLike[str], tuned: TunedContext) -> None:
    """Draw what keyword boosts give and cost: WER where names are said above, WER where none are below.

    Arguments and errors are those of `plot_curves`.
    """
    boosts = [point.keyword_boost for point in tuned.curve]
    contextual = Curve("", boosts, [point.figures.contextual_wer for point in tuned.curve])
    general = Curve("with entities", boosts, [point.figures.general_wer for point in tuned.curve])
    panels = [
        Panel("contextual WER (%)", [contextual], tuned.without.contextual_wer, "without entities"),
        Panel("general WER (%)", [general], tuned.max_general_wer, "most allowed"),
    ]
    marked = None if tuned.settings is None else tuned.settings.options.keyword_boost
    plot_curves(path, panels, "keyword boost (nats per word)", marked=marked)


def _check(panels: Sequence[Panel], x_scale: str) -> None:
    if x_scale not in ("linear", "log"):
        raise OptionError(f"x_scale is {x_scale!r}, but must be linear or log")
    if not panels or not all(panel.curves for panel in panels):
        raise OptionError("there is a panel without curves, or no panel at all")
    for curve in (curve for panel in panels for curve in panel.curves):
        if not curve.x or len(curve.x) != len(curve.y):
            raise OptionError(
                f"the curve {curve.name!r} has {len(curve.x)} x and {len(curve.y)} y; give as many, and some"
            )
        if x_scale == "log" and min(curve.x) <= 0:
            raise OptionError(f"the curve {curve.name!r} has a point at {min(curve.x):g}, which a log axis lacks")


def _drawn(panels: Sequence[Panel], x_label: str, title: str, x_scale: str, marked: float | None) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    picture = Figure(figsize=(WIDTH, HEIGHT * len(panels) + 0.6), layout="constrained")
    FigureCanvasAgg(picture)
    for panel, axes in zip(panels, picture.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0], strict=True):
        for number, curve in enumerate(panel.curves):
            axes.plot(
                curve.x,
                curve.y,
                color=COLOURS[number % len(COLOURS)],
                marker=MARKERS[number % len(MARKERS)],
                label=curve.name or None,
            )
        if panel.limit is not None:
            axes.axhline(panel.limit, color=GREY, linestyle="--", linewidth=1.2, label=panel.limit_name or None)
        if marked is not None:
            axes.axvline(marked, color=GREY, linestyle=":", linewidth=1.2)
        axes.set_ylabel(panel.y_label)
        if x_scale == "log":
            axes.set_xscale("log")
            axes.set_xticks(sorted({x for curve in panel.curves for x in curve.x}), minor=False)
            axes.set_xticks([], minor=True)
            axes.xaxis.set_major_formatter("{x:g}")
        if axes.get_legend_handles_labels()[1]:
            axes.legend(frameon=False)
    axes.set_xlabel(x_label)
    if title:
        picture.suptitle(title)
    return picture
