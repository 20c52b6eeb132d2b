"""Search over named axes: first a grid, then lines of decreasing length around the best point along each axis."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

EDGE = 0.02  # fraction of the range of an axis that counts as its end

Point = TypeVar("Point")  # a value on each axis


@dataclass(frozen=True, slots=True)
class Axis:
    """A parameter to search over, and its range."""

    name: str  # "" if values at the ends of the range are not reported
    low: float
    high: float
    step: float  # half the length of the first line; if `is_ratio`, its base-2 logarithm
    is_ratio: bool = False
    digits: int | None = None  # significant digits of the values; None for all
    at_low: str = ""  # explanation if the best value is at an end; "" advises to search beyond
    at_high: str = ""

    def line(self, current: float, share: float, count: int) -> list[float]:
        """Return values to try in an interval around the current value, without duplicates.

        Args:
            current: The current value.
            share: Length of the interval around the current value, as a fraction of its initial length.
            count: Number of values before duplicates are removed.
        """
        step = self.step * share
        if self.is_ratio:
            values = np.geomspace(max(self.low, current * 2.0**-step), min(self.high, current * 2.0**step), count)
        else:
            values = np.linspace(max(self.low, current - step), min(self.high, current + step), count)
        return list(dict.fromkeys(map(self.rounded, values.tolist())))

    def inside(self, values: Iterable[float], start: float) -> list[float]:
        """Round values and clip them to the range; return them and the initial value, sorted and without duplicates."""
        return sorted({*(float(np.clip(self.rounded(value), self.low, self.high)) for value in values), start})

    def rounded(self, value: float) -> float:
        """Round a value to the axis's number of significant digits."""
        return value if self.digits is None else float(f"{value:.{self.digits}g}")

    def edge(self, value: float) -> str | None:
        """Describe a value at an end of the range; return None for a value inside the range."""
        low, high = self.low, self.high
        near = EDGE * (high - low)
        if not self.name or low + near < value < high - near or low == high:
            return None
        is_low = value <= low + near
        meaning = self.at_low if is_low else self.at_high
        meaning = f": {meaning}" if meaning else f" ({low:.3g} … {high:.3g}); tune again from there"
        return f"{self.name} {value:.3g} is at the {'lower' if is_low else 'upper'} end of its range{meaning}"


class Search(ABC, Generic[Point]):
    """A deterministic search for the point with the lowest rank."""

    axes: Sequence[Axis]
    rounds: int  # number of rounds; lines are half as long in each round as in the previous round
    num_on_line: int  # number of values on a line

    @abstractmethod
    def grid(self) -> Sequence[Point]:
        """Return the points of the initial grid, the best of which is then improved along each axis."""

    @abstractmethod
    def ranks(self, points: Sequence[Point]) -> list[Any]:
        """Return the rank of each point, as a number or a tuple; lower is better."""

    @abstractmethod
    def preference(self, point: Point) -> Any:
        """Return the sort key among grid points of equal rank; the first point with the lowest key is chosen."""

    @abstractmethod
    def value(self, point: Point, axis: int) -> float:
        """Return the value of a point on an axis."""

    @abstractmethod
    def moved(self, point: Point, axis: int, value: float) -> Point:
        """Return a copy of a point with a new value on an axis."""

    def middle(self, values: Sequence[float], ranges: Sequence[Sequence[int]], current: float) -> int:
        """Return the index of the value to choose: the (lower) middle of the longest range of tied values."""
        longest = max(ranges, key=len)
        return longest[(len(longest) - 1) // 2]

    def best(self) -> Point:
        """Run the search and return the best point."""
        points = self.grid()
        ranks = self.ranks(points)
        rank = min(ranks)
        best = min((point for point, other in zip(points, ranks, strict=True) if other == rank), key=self.preference)
        for part in range(self.rounds):
            for axis in range(len(self.axes)):
                best, rank = self._refined(best, rank, axis, 0.5**part)
        return best

    def _refined(self, best: Point, rank: Any, axis: int, share: float) -> tuple[Point, Any]:
        """Try values on one axis around the best point; return the new best point and its rank."""
        current = self.value(best, axis)
        values = self.axes[axis].line(current, share, self.num_on_line)
        line = [self.moved(best, axis, value) for value in values]
        ranks = self.ranks(line)
        least = min(ranks)
        if least > rank:
            return best, rank
        equal = np.flatnonzero([rank == least for rank in ranks])
        ranges = np.split(equal, np.flatnonzero(np.diff(equal) > 1) + 1)
        return line[self.middle(values, [tie.tolist() for tie in ranges], current)], least

    def edges(self, best: Point) -> list[str]:
        """Describe the values at the ends of their ranges."""
        edges = [axis.edge(self.value(best, number)) for number, axis in enumerate(self.axes)]
        return [edge for edge in edges if edge is not None]
