"""HTML page that compares lattices before and after rescoring."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ninja.lattice import Scales
from ninja.show.comparison import Comparison, Outcome, Utterance
from ninja.show.drawing import Drawing
from ninja.show.page import SCRIPTS, STYLES, render

WIDTH, HEIGHT = 520.0, 170.0  # size of a histogram without labels, in SVG units
HEADROOM = 16.0  # space for the count above the highest bar
MAX_CHANGE = 8  # changes of at least this many word errors share a bar
DEPTH_BINS = 12  # maximum number of bars for depths
DIGIT = 9.0  # width of a digit above a bar on small screens
LISTED = 40  # maximum number of missing keys in a list


def report_page(
    comparison: Comparison,
    drawings: Mapping[str, tuple[Drawing | None, Drawing | None]] | None = None,
    names: tuple[str, str] = ("before", "after"),
    scales: Scales | None = None,
) -> str:
    """Return an HTML page that shows the error rates, the utterances and their alignments.

    Args:
        comparison: Outcomes before and after rescoring.
        drawings: Drawings of lattices before and after rescoring, by utterance id.
        names: Names of the two sets of lattices, before and after rescoring, such as their file names.
        scales: Scales with which the best paths were computed, for display.
    """
    drawn = drawings or {}
    before, after = comparison.rates
    utterances, gained, lost = comparison.utterances, len(comparison.gained), len(comparison.lost)
    return render(
        "report.html",
        (*STYLES, "report.css"),
        (*SCRIPTS, "report.js"),
        {
            "utterances": [_row(utterance) for utterance in utterances],
            "lattices": {key: [drawing and drawing.as_dict() for drawing in pair] for key, pair in drawn.items()},
        },
        title=f"{names[0]} → {names[1]}",
        names=names,
        scales=None if scales is None else str(scales),
        before=before,
        after=after,
        rows=_figures(comparison),
        absences=[(absence.description, len(absence.keys), absence.keys[:LISTED]) for absence in comparison.absences],
        histograms=list(
            filter(None, (changes([utterance.change for utterance in utterances]), depths(*_depths(comparison))))
        ),
        gained=gained,
        lost=lost,
        same=len(utterances) - gained - lost,
        drawn=len(drawn),
    )


def _row(utterance: Utterance) -> dict[str, Any]:
    def side(outcome: Outcome, pairs: Any, errors: int) -> dict[str, Any]:
        nearest = None if outcome.oracle is None else outcome.oracle.errors
        depth = None if outcome.depth is None else round(outcome.depth, 2)
        return {"pairs": pairs, "errors": errors, "oracle": nearest, "depth": depth, "arcs": outcome.arcs}

    return {
        "key": utterance.key,
        "words": len(utterance.reference),
        "before": side(utterance.before, utterance.alignment_before.pairs, utterance.errors_before),
        "after": side(utterance.after, utterance.alignment_after.pairs, utterance.errors_after),
    }


def _figures(comparison: Comparison) -> list[tuple[str, str, str, str, str]]:
    """Return ``(name, before, after, change, "good" or "bad" or "")`` for each row of the summary."""
    rates, oracles = comparison.rates, comparison.oracle_rates
    rows = [
        _percent("word error rate", *(rate.wer for rate in rates)),
        _percent("sentence error rate", *(rate.ser for rate in rates)),
        _count("word errors", *(rate.errors for rate in rates)),
        _count("substitutions", *(rate.substitutions for rate in rates)),
        _count("insertions", *(rate.insertions for rate in rates)),
        _count("deletions", *(rate.deletions for rate in rates)),
        _percent("oracle word error rate", *(rate.wer for rate in oracles)),
    ]
    depth = _depths(comparison)
    if all(depth):
        before, after = (sum(side) / len(side) for side in depth)
        rows.append(("mean depth", f"{before:.2f}", f"{after:.2f}", _signed(after - before, 2), ""))
    arcs = [(utterance.before.arcs, utterance.after.arcs) for utterance in comparison.utterances]
    before, after = map(sum, zip(*arcs, strict=True))
    rows.append(("arcs", f"{before:,}", f"{after:,}", _signed(after - before, 0), ""))
    return rows


def _depths(comparison: Comparison) -> tuple[list[float], list[float]]:
    """Return ``(depths before rescoring, depths after rescoring)`` of the lattices with known depths."""
    pairs = [(utterance.before.depth, utterance.after.depth) for utterance in comparison.utterances]
    before, after = ([depth for depth in side if depth is not None] for side in zip(*pairs, strict=True))
    return before, after


def _percent(name: str, before: float, after: float) -> tuple[str, str, str, str, str]:
    change = _signed(after - before, 2)
    if 0 < before < float("inf"):
        change += f" ({_signed(100 * (after - before) / before, 1)}%)"
    return name, f"{before:.2f}%", f"{after:.2f}%", change, _kind(before, after)


def _count(name: str, before: int, after: int) -> tuple[str, str, str, str, str]:
    return name, f"{before:,}", f"{after:,}", _signed(after - before, 0), _kind(before, after)


def _signed(value: float, digits: int) -> str:
    sign = "+" if value > 0 else "−" if value < 0 else "±"
    return f"{sign}{abs(value):,.{digits}f}"


def _kind(before: float, after: float) -> str:
    return "good" if after < before else "bad" if after > before else ""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a histogram, with the count above the bar."""

    x: float
    y: float
    width: float
    height: float
    count: int
    kind: str  # CSS class
    title: str


@dataclass(frozen=True, slots=True)
class Histogram:
    """A histogram, with labels below the bars."""

    title: str
    bars: tuple[Bar, ...]
    labels: tuple[tuple[float, str], ...]  # position and text
    width: float = WIDTH
    height: float = HEIGHT


def changes(change: Sequence[int]) -> Histogram:
    """Return a histogram of the utterances by change in word errors."""
    counts = Counter(max(-MAX_CHANGE, min(MAX_CHANGE, errors)) for errors in change)
    low, high = min(counts, default=0), max(counts, default=0)
    values = range(min(low, -1), max(high, 1) + 1)

    def name(value: int) -> str:
        bound = "≤ " if value == -MAX_CHANGE else "≥ " if value == MAX_CHANGE else ""
        return f"{bound}{'+' if value > 0 else '−' if value < 0 else ''}{abs(value)}"

    kind = {value: "good" if value < 0 else "bad" if value > 0 else "same" for value in values}
    step = WIDTH / len(values)
    highest = max(counts.values(), default=1)
    bars = tuple(
        _bar(index * step + 3, step - 6, counts[value], highest, kind[value], f"{name(value)} errors")
        for index, value in enumerate(values)
        if counts[value]
    )
    labels = tuple(((index + 0.5) * step, name(value)) for index, value in enumerate(values))
    return Histogram("Utterances by change in word errors", bars, labels)


def depths(before: Sequence[float], after: Sequence[float]) -> Histogram | None:
    """Return a histogram of lattice depths before and after rescoring; None if no depth is known."""
    values = sorted([*before, *after])
    if not values:
        return None
    digits = len(str(max(len(before), len(after))))
    most = min(DEPTH_BINS, int(WIDTH / (2 * DIGIT * digits + 6)))  # bars must be wide enough for their counts
    size = _round_size(values[int(0.98 * (len(values) - 1))] / most)  # outliers share the last bin

    def place_of(value: float) -> int:
        return int(round(value / size, 9))  # without rounding, 0.6 / 0.1 would be below 6

    bins = min(most, place_of(values[-1]) + 1)
    cut = place_of(values[-1]) >= bins  # the last bin includes larger depths

    def count(depth: Sequence[float]) -> Counter[int]:
        return Counter(min(bins - 1, place_of(value)) for value in depth)

    counts = {"before": count(before), "after": count(after)}
    highest = max(max(side.values(), default=1) for side in counts.values())
    step = WIDTH / bins
    half = (step - 6) / 2
    bars = []
    for place in range(bins):
        bound = "or more" if cut and place == bins - 1 else f"to {(place + 1) * size:.4g}"
        for offset, name in enumerate(counts):
            if number := counts[name][place]:
                title = f"{name}: depth {place * size:.4g} {bound}"
                bars.append(_bar(place * step + 3 + offset * half, half, number, highest, name, title))
    edges = range(bins if cut else bins + 1)
    labels = tuple((place * step, f"{place * size:.4g}{'+' if cut and place == bins - 1 else ''}") for place in edges)
    return Histogram("Utterances by depth of lattice (arcs that cross a frame)", tuple(bars), labels)


def _round_size(least: float) -> float:
    """Round up to 1, 2 or 5 times a power of ten; the result is at least 0.1."""
    power = 10.0 ** math.floor(math.log10(max(least, 0.1)))
    return next(size for factor in (1, 2, 5, 10) if (size := factor * power) >= least or factor == 10)


def _bar(x: float, width: float, count: int, highest: int, kind: str, title: str) -> Bar:
    height = (HEIGHT - HEADROOM) * count / highest
    title += f": {count:,} {'utterance' if count == 1 else 'utterances'}"
    return Bar(round(x, 1), round(HEIGHT - height, 1), round(width, 1), round(height, 1), count, kind, title)
