"""Plots of error rates against boosts."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ninja.errors import OptionError
from ninja.files.output import opened
from ninja.libraries import needed_for
from ninja.tune.boosts import TunedContext

# Distinguishable with colour blindness: Okabe and Ito, "Color Universal Design", 2008.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#606060"
WIDTH, HEIGHT = 6.4, 2.2  # size of a panel in inches

STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 10.0,
    "grid.color": "#e4e4e4",
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "svg.fonttype": "path",  # independent of installed fonts
    "svg.hashsalt": "ninja",  # deterministic ids
}


def check_picture(path: str | os.PathLike[str]) -> str:
    """Return the format of an image file, ``svg`` or ``png``; raise an `OptionError` for any other format."""
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in ("svg", "png"):
        raise OptionError(f"{os.fspath(path)}: pictures can be written only as .svg or .png")
    with needed_for("a picture", path):
        import matplotlib  # noqa: F401
    return kind


@contextmanager
def drawn_panels(path: str | os.PathLike[str], y_labels: Sequence[str], x_label: str) -> Iterator[list[Any]]:
    """Yield matplotlib axes for a column of panels, then write the figure; identical panels give identical files."""
    kind = check_picture(path)
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **STYLE, "backend": "agg"}):
        picture = Figure(figsize=(WIDTH, HEIGHT * len(y_labels) + 0.6), layout="constrained")
        FigureCanvasAgg(picture)
        panels = picture.subplots(len(y_labels), 1, sharex=True, squeeze=False)[:, 0].tolist()
        yield panels
        for axes, y_label in zip(panels, y_labels, strict=True):
            axes.set_ylabel(y_label)
            if axes.get_legend_handles_labels()[1]:
                axes.legend(frameon=False)
        panels[-1].set_xlabel(x_label)
        content = io.BytesIO()
        # The file contains no date and no version, so that equal curves give equal files.
        metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
        picture.savefig(content, format=kind, dpi=150, metadata=metadata)
    with opened(os.fspath(path)) as file:
        file.write(content.getvalue())


def plot_trade_off(path: str | os.PathLike[str], tuned: TunedContext) -> None:
    """Plot WER against the keyword boost: for the contextual set in the upper panel, for the general set in the lower.

    Args:
        path: File to write, ``.svg`` or ``.png``.
    """
    boosts = [point.keyword_boost for point in tuned.curve]
    contextual = [point.figures.contextual_wer for point in tuned.curve]
    general = [point.figures.general_wer for point in tuned.curve]
    curves = (
        (contextual, None, tuned.without.contextual_wer, "without entities"),
        (general, "with entities", tuned.max_general_wer, "most allowed"),
    )
    names = ["contextual WER (%)", "general WER (%)"]
    with drawn_panels(path, names, "keyword boost (nats per word)") as panels:
        for axes, (rates, name, limit, limit_name) in zip(panels, curves, strict=True):
            axes.plot(boosts, rates, color=COLOURS[0], marker=MARKERS[0], label=name)
            axes.axhline(limit, color=GREY, linestyle="--", linewidth=1.2, label=limit_name)
            if tuned.settings is not None:
                axes.axvline(tuned.settings.options.keyword_boost, color=GREY, linestyle=":", linewidth=1.2)
