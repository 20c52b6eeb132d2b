"""Layout of states and arcs: time runs to the right, and every detour has a lane of its own."""

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

LETTER = 7.0  # pixels of a letter at the size of the labels, 12 pixels
LABEL_MARGIN = 14.0  # pixels beside a label
SMALLEST_STEP = 18.0  # pixels between the ends of an arc, of any duration: the dots of states must not meet
FRAME_WIDTHS = (1.0, 12.0)  # pixels of a frame, at least and at most
STEP_WIDTH = 60.0  # pixels of an arc without a time, at least
FITTING = 90.0  # percent of labels that fit their arcs; the others are cut short

Unit = Literal["frame", "step"]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Places = tuple[Floats, Ints, Unit, float | None]


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Places in pixels; lanes are counted from the best path's, 0, downwards."""

    x: Floats  # [num_states]; nan: not drawn
    lane: Ints  # [num_states]
    arc_lane: Ints  # [num_arcs]
    time: Ints  # [num_states], frames; where there are none, arcs from the start
    unit: Unit  # of `time`
    width: float | None  # pixels of a frame; None: steps have widths of their own


def lay_out(lattice: Lattice, rows: Sequence[Sequence[int]], labels: Sequence[str]) -> Layout:
    """Place the arcs of some detours.

    States stand at their times. Where a lattice has none, or times that contradict each other, they stand at the
    largest number of arcs on a way to them. A detour takes the free lane nearest to its ends; those that come first
    choose first, so that leaving out later ones changes no lane. The first gets lane 0: the best path, if that has
    arcs. `labels` are the texts of all arcs.
    """
    arcs = np.sort(np.fromiter((arc for row in rows for arc in row), np.int64))
    need = np.zeros(lattice.num_arcs)
    need[arcs] = [label_width(labels[arc]) for arc in arcs.tolist()]
    x, time, unit, width = _places(lattice, arcs, need)
    lane, arc_lane = _lanes(lattice, rows, x, need)
    return Layout(x, lane, arc_lane, time, unit, width)


def label_width(label: str) -> float:
    """Return about how many pixels a label takes, its margin included; 0 for none."""
    if not label:
        return 0.0
    return LABEL_MARGIN + LETTER * sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in label)


def _places(lattice: Lattice, arcs: npt.NDArray[np.int64], need: Floats) -> Places:
    """Return x and time of each state, the unit of time, and the pixels of a frame."""
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
    """Return the lane of each state and of each arc."""
    src, dst, place = lattice.src.tolist(), lattice.dst.tolist(), x.tolist()
    lane: list[int | None] = [None] * lattice.num_states
    lane[0] = 0
    arc_lane = np.zeros(lattice.num_arcs, np.int32)
    taken: dict[int, list[tuple[float, float]]] = {}
    side = 1
    for row in rows:
        left, right = src[row[0]], dst[row[-1]]
        begin, end = _extent(row, src, dst, place, need)
        ends = [each for each in (lane[left], lane[right]) if each is not None]
        middle = sum(ends) / len(ends)
        if middle:
            side = 1 if middle > 0 else -1  # outwards from the best path
        chosen = next(each for each in _nearest(middle, side) if _is_free(taken.get(each, []), begin, end))
        side = -side
        insort(taken.setdefault(chosen, []), (begin, end))
        for arc in row:
            arc_lane[arc] = chosen
            if lane[dst[arc]] is None:
                lane[dst[arc]] = chosen
    return np.array([each or 0 for each in lane], np.int32), arc_lane


def _extent(row: Sequence[int], src: list[int], dst: list[int], x: list[float], need: Floats) -> tuple[float, float]:
    """Return the extent of a detour in its lane: its arcs, and a label wider than its arc."""
    begin, end = x[src[row[0]]], x[dst[row[-1]]]
    if len(row) == 1:
        middle, half = (begin + end) / 2, need[row[0]] / 2
        begin, end = min(begin, middle - half), max(end, middle + half)
    return begin + 1.0, end - 1.0  # neighbours may meet in a state


def _nearest(middle: float, side: int) -> Iterator[int]:
    """Yield lanes, the nearest to a place first, then by side."""
    centre = math.floor(middle + 0.5) if side > 0 else math.ceil(middle - 0.5)
    yield centre
    distance = 1
    while True:
        yield centre + side * distance
        yield centre - side * distance
        distance += 1


def _is_free(taken: list[tuple[float, float]], begin: float, end: float) -> bool:
    place = bisect_left(taken, (end, -math.inf))
    return place == 0 or taken[place - 1][1] <= begin
