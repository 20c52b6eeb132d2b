"""Lay out states and arcs: time runs to the right, and each detour is in one lane."""

from __future__ import annotations

import math
import unicodedata
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ninja.errors import LatticeError
from ninja.lattice import Lattice
from ninja.lattice.times import state_times

LETTER = 7.0  # width of a letter in a 12-pixel font, in pixels
LABEL_MARGIN = 14.0  # pixels
SMALLEST_STEP = 18.0  # minimum width of an arc of any duration, so that states do not overlap, in pixels
FRAME_WIDTHS = (1.0, 12.0)  # minimum and maximum width of a frame, in pixels
STEP_WIDTH = 60.0  # minimum width of an arc without times, in pixels
FITTING = 90.0  # percentage of labels that fit their arcs; other labels are truncated

Unit = Literal["frame", "step"]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Places = tuple[Floats, Ints, Unit, float | None]


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Positions of states in pixels, and lanes of states and arcs; lane numbers increase downwards."""

    x: Floats  # [num_states], NaN if not drawn
    lane: Ints  # [num_states]
    arc_lane: Ints  # [num_arcs]
    time: Ints  # [num_states], frame, or number of arcs from the start
    unit: Unit  # unit of `time`
    width: float | None  # width of a frame in pixels; None if steps differ in width


def lay_out(lattice: Lattice, rows: Sequence[Sequence[int]], labels: Sequence[str]) -> Layout:
    """Lay out the arcs of detours.

    The x position of a state follows from its time or, without consistent times, from the largest number of arcs on a
    path to it. Each detour in turn is placed in the free lane nearest to its ends, so omitting later detours does not
    change the lanes of earlier detours. The first detour, usually the best path, has lane 0.

    Args:
        lattice: Any lattice.
        rows: Arc ids of each detour.
        labels: Text of each arc, [num_arcs].
    """
    arcs = np.sort(np.fromiter((arc for row in rows for arc in row), np.int64))
    need = np.zeros(lattice.num_arcs)
    need[arcs] = [label_width(labels[arc]) for arc in arcs.tolist()]
    x, time, unit, width = _places(lattice, arcs, need)
    lane, arc_lane = _lanes(lattice, rows, x, need)
    return Layout(x, lane, arc_lane, time, unit, width)


def label_width(label: str) -> float:
    """Return the approximate width of a label and its margin in pixels; 0 if the label is empty."""
    if not label:
        return 0.0
    return LABEL_MARGIN + LETTER * sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in label)


def _places(lattice: Lattice, arcs: npt.NDArray[np.int64], need: Floats) -> Places:
    """Return the x position and the time of each state, the unit of time, and the width of a frame."""
    src, dst = lattice.src[arcs], lattice.dst[arcs]
    try:
        time = state_times(lattice)
    except LatticeError:
        time = None
    if time is None or time.max(initial=0) <= 0:
        return _in_steps(lattice.num_states, src.tolist(), dst.tolist(), need[arcs].tolist())
    frames = time[dst] - time[src]
    fitting = need[arcs][frames > 0] / frames[frames > 0]
    fitting = fitting[fitting > 0]
    width = float(np.clip(np.percentile(fitting, FITTING) if len(fitting) else 1.0, *FRAME_WIDTHS))
    x = np.full(lattice.num_states, np.nan)
    x[src], x[dst] = time[src] * width, time[dst] * width
    place = x.tolist()
    for begin, end in zip(src.tolist(), dst.tolist(), strict=True):  # in topological order
        place[end] = max(place[end], place[begin] + SMALLEST_STEP)
    return np.array(place), time, "frame", width


def _in_steps(num_states: int, src: list[int], dst: list[int], need: list[float]) -> Places:
    step = [0] * num_states
    for begin, end in zip(src, dst, strict=True):
        step[end] = max(step[end], step[begin] + 1)
    widths = [STEP_WIDTH] * max(step, default=0)
    for begin, end, label in zip(src, dst, need, strict=True):
        if step[end] == step[begin] + 1:
            widths[step[begin]] = max(widths[step[begin]], label)
    column = np.concatenate([[0.0], np.cumsum(widths)])
    x = np.full(num_states, np.nan)
    drawn = np.unique([0, *src, *dst])
    x[drawn] = column[np.array(step)[drawn]]
    return x, np.array(step, np.int32), "step", None


def _lanes(lattice: Lattice, rows: Sequence[Sequence[int]], x: Floats, need: Floats) -> tuple[Ints, Ints]:
    """Place each detour in a lane of the drawing; return ``(lane of each state, lane of each arc)``."""
    src, dst, place = lattice.src.tolist(), lattice.dst.tolist(), x.tolist()
    lane: list[int | None] = [None] * lattice.num_states
    lane[0] = 0
    arc_lane = np.zeros(lattice.num_arcs, np.int32)
    used: dict[int, list[tuple[float, float]]] = {}
    side = 1
    for row in rows:
        left, right = src[row[0]], dst[row[-1]]
        begin, end = _extent(row, src, dst, place, need)
        ends = [end_lane for end_lane in (lane[left], lane[right]) if end_lane is not None]
        middle = sum(ends) / len(ends)
        if middle:
            side = 1 if middle > 0 else -1  # place detours away from the best path, which is in lane 0
        chosen = next(number for number in _nearest(middle, side) if _is_free(used.get(number, []), begin, end))
        side = -side
        insort(used.setdefault(chosen, []), (begin, end))
        for arc in row:
            arc_lane[arc] = chosen
            if lane[dst[arc]] is None:
                lane[dst[arc]] = chosen
    return np.array([number or 0 for number in lane], np.int32), arc_lane


def _extent(row: Sequence[int], src: list[int], dst: list[int], x: list[float], need: Floats) -> tuple[float, float]:
    """Return the x range ``(left, right)`` of a detour in pixels; the range of a single arc also covers its label."""
    begin, end = x[src[row[0]]], x[dst[row[-1]]]
    if len(row) == 1:
        middle, half = (begin + end) / 2, need[row[0]] / 2
        begin, end = min(begin, middle - half), max(end, middle + half)
    return begin + 1.0, end - 1.0  # leave a gap of 2 pixels, so adjacent detours that share a state fit into one lane


def _nearest(middle: float, side: int) -> Iterator[int]:
    """Yield lanes by increasing distance from `middle`, alternating between both sides."""
    centre = math.floor(middle + 0.5) if side > 0 else math.ceil(middle - 0.5)
    yield centre
    distance = 1
    while True:
        yield centre + side * distance
        yield centre - side * distance
        distance += 1


def _is_free(used: list[tuple[float, float]], begin: float, end: float) -> bool:
    index = bisect_left(used, (end, -math.inf))
    return index == 0 or used[index - 1][1] <= begin
