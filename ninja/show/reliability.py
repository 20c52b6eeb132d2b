"""Plot reliability diagrams for word confidences as SVG."""

from __future__ import annotations

import html
import os
from collections.abc import Iterator
from pathlib import Path

from ninja.errors import OptionError
from ninja.evaluate.confidence import ConfidenceScores, ReliabilityBin
from ninja.files.output import text_output

SIDE = 320  # width and height of the diagram, in pixels
LEFT, TOP, BOTTOM, RIGHT = 56, 34, 92, 16  # margins, in pixels
COUNTS = 40  # height of the histogram below the diagram, in pixels
TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#606060"  # distinguishable with colour blindness


def check_svg(path: str | os.PathLike[str]) -> None:
    """Raise OptionError if a file name does not end in ``.svg``."""
    if Path(path).suffix.lower() != ".svg":
        raise OptionError(f"{os.fspath(path)}: reliability diagrams are SVG files; use a name that ends in .svg")


def plot_reliability(path: str | os.PathLike[str], scores: ConfidenceScores) -> None:
    """Plot the fraction of correct words against the mean confidence, above a histogram of the confidences.

    Args:
        path: SVG file to write; the name must end in ``.svg``.
        scores: Confidences, grouped into bins.

    Raises:
        OptionError: The file name does not end in ``.svg``.
    """
    check_svg(path)
    with text_output(os.fspath(path)) as stream:
        stream.write("\n".join(_svg(scores)) + "\n")


def _svg(scores: ConfidenceScores) -> Iterator[str]:
    width, height = LEFT + SIDE + RIGHT, TOP + SIDE + BOTTOM
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12" role="img">'
    )
    yield f"<title>{html.escape(str(scores))}</title>"
    yield f'<rect width="{width}" height="{height}" fill="white"/>'
    yield _text(LEFT + SIDE / 2, 20, f"NCE {scores.nce:.3f}, ECE {scores.ece:.3f}, AUC {scores.auc:.3f}")
    for tick in TICKS:
        x, y = _x(tick), _y(tick)
        yield f'<path d="M{LEFT} {y:.1f}H{LEFT + SIDE}M{x:.1f} {TOP}V{TOP + SIDE}" stroke="#e4e4e4" fill="none"/>'
        yield _text(LEFT - 8, y + 4, f"{tick:g}", "end")
        yield _text(x, TOP + SIDE + COUNTS + 20, f"{tick:g}")
    yield f'<path d="M{_x(0):.1f} {_y(0):.1f}L{_x(1):.1f} {_y(1):.1f}" stroke="{GREY}" stroke-dasharray="4 4"/>'
    largest = max(part.num_words for part in scores.bins)
    step = 1.0 / len(scores.bins)
    for index, part in enumerate(scores.bins):
        size = COUNTS * part.num_words / max(largest, 1)
        yield (
            f'<rect x="{_x(index * step) + 1:.1f}" y="{TOP + SIDE + 4:.1f}" width="{SIDE * step - 2:.1f}" '
            f'height="{size:.1f}" fill="{GREY}" opacity="0.5"><title>{part.num_words} words</title></rect>'
        )
    filled = [part for part in scores.bins if part.num_words]
    line = "L".join(f"{_x(part.confidence):.1f} {_y(part.accuracy):.1f}" for part in filled)
    if filled:
        yield f'<path d="M{line}" stroke="{BLUE}" stroke-width="1.8" fill="none"/>'
    for part in filled:
        yield _point(part)
    yield _text(LEFT + SIDE / 2, height - 12, "mean confidence; below: number of words")
    middle = TOP + SIDE / 2
    yield (
        f'<text x="16" y="{middle:.1f}" text-anchor="middle" transform="rotate(-90 16 {middle:.1f})">'
        "share of correct words</text>"
    )
    yield "</svg>"


def _point(part: ReliabilityBin) -> str:
    """Return a marker with an error bar of two standard errors in each direction."""
    error = 2.0 * (part.accuracy * (1.0 - part.accuracy) / part.num_words) ** 0.5
    x, low, high = _x(part.confidence), _y(max(part.accuracy - error, 0.0)), _y(min(part.accuracy + error, 1.0))
    shown = f"{part.num_correct} correct of {part.num_words} words, mean confidence {part.confidence:.3f}"
    return (
        f'<path d="M{x:.1f} {low:.1f}V{high:.1f}" stroke="{BLUE}"/>'
        f'<circle cx="{x:.1f}" cy="{_y(part.accuracy):.1f}" r="4" fill="{ORANGE}"><title>{shown}</title></circle>'
    )


def _x(share: float) -> float:
    return LEFT + SIDE * share


def _y(share: float) -> float:
    return TOP + SIDE * (1.0 - share)


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text)}</text>'
