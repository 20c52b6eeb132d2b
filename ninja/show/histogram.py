"""Histograms: bars with their counts, in a box of a fixed size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 520.0, 170.0  # of the area for bars, in the picture's own units
HEADROOM = 16.0  # for the count above the highest bar
MOST_CHANGE = 8  # larger changes share a bar
DEPTH_BINS = 12


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar; its count stands above it."""

    x: float
    y: float
    width: float
    height: float
    count: int
    kind: str  # its class in the style sheet
    title: str


@dataclass(frozen=True, slots=True)
class Histogram:
    """Bars and the labels below them."""

    title: str
    bars: tuple[Bar, ...]
    labels: tuple[tuple[float, str], ...]  # place and text
    width: float = WIDTH
    height: float = HEIGHT


def changes(change: Sequence[int]) -> Histogram:
    """Count utterances by how many more errors they have after than before."""
    counts = Counter(max(-MOST_CHANGE, min(MOST_CHANGE, each)) for each in change)
    low, high = min(counts, default=0), max(counts, default=0)
    values = range(min(low, -1), max(high, 1) + 1)

    def name(value: int) -> str:
        bound = "≤ " if value == -MOST_CHANGE else "≥ " if value == MOST_CHANGE else ""
        return f"{bound}{'+' if value > 0 else '−' if value < 0 else ''}{abs(value)}"

    kind = {value: "good" if value < 0 else "bad" if value > 0 else "same" for value in values}
    step = WIDTH / len(values)
    highest = max(counts.values(), default=1)
    bars = tuple(
        _bar(place * step + 3, step - 6, counts[value], highest, kind[value], f"{name(value)} errors")
        for place, value in enumerate(values)
        if counts[value]
    )
    labels = tuple(((place + 0.5) * step, name(value)) for place, value in enumerate(values))
    return Histogram("Utterances by change in word errors", bars, labels)


def depths(before: Sequence[float], after: Sequence[float]) -> Histogram | None:
    """Count utterances by the depth of their lattices, before and after side by side; None where none has a depth."""
    values = sorted([*before, *after])
    if not values:
        return None
    largest = max(values[min(len(values) - 1, int(0.98 * len(values)))], 1e-9)  # a few outliers share the last bin
    size = largest / DEPTH_BINS

    def count(depth: Sequence[float]) -> Counter[int]:
        return Counter(min(DEPTH_BINS - 1, int(each / size)) for each in depth)

    counts = {"before": count(before), "after": count(after)}
    highest = max(max(each.values(), default=1) for each in counts.values())
    step = WIDTH / DEPTH_BINS
    half = (step - 6) / 2
    bars = []
    for place in range(DEPTH_BINS):
        bound = "or more" if place == DEPTH_BINS - 1 else f"to {(place + 1) * size:.3g}"
        for offset, name in enumerate(counts):
            if number := counts[name][place]:
                title = f"{name}: depth {place * size:.3g} {bound}"
                bars.append(_bar(place * step + 3 + offset * half, half, number, highest, name, title))
    plus = ["+" if place == DEPTH_BINS - 1 else "" for place in range(DEPTH_BINS)]
    labels = tuple((place * step, f"{place * size:.3g}{each}") for place, each in enumerate(plus))
    return Histogram("Utterances by depth of lattice (arcs that cross a frame)", tuple(bars), labels)


def _bar(x: float, width: float, count: int, highest: int, kind: str, title: str) -> Bar:
    height = (HEIGHT - HEADROOM) * count / highest
    number = f"{count:,} utterance{'s' if count > 1 else ''}"
    return Bar(
        round(x, 1), round(HEIGHT - height, 1), round(width, 1), round(height, 1), count, kind, f"{title}: {number}"
    )
