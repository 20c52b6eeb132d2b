"""The search of both tuners: a grid over named axes, then ever shorter lines about the best, one axis at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

EDGE = 0.02  # of the range of an axis: what lies nearer to its end than this lies at the end

Point = TypeVar("Point")  # a value on each axis


@dataclass(frozen=True, slots=True)
class Axis:
    """One number that is chosen."""

    name: str  # "": its ends mean nothing to a user
    low: float
    high: float
    step: float  # half the length of the first line; where `is_ratio`, the logarithm of that to 2
    is_ratio: bool = False
    digits: int | None = None  # significant ones of the values tried; None: all
    at_low: str = ""  # what it means if the best lies at an end; "": the search should go on from there
    at_high: str = ""

    def line(self, here: float, share: float, count: int) -> list[float]:
        """Return values about one, on a share of the first line."""
        step = self.step * share
        if self.is_ratio:
            values = np.geomspace(max(self.low, here * 2.0**-step), min(self.high, here * 2.0**step), count)
        else:
            values = np.linspace(max(self.low, here - step), min(self.high, here + step), count)
        return list(dict.fromkeys(map(self.short, values.tolist())))

    def inside(self, values: Iterable[float], given: float) -> list[float]:
        """Return values as they are tried, inside the range, and the given one as it is."""
        return sorted({*(float(np.clip(self.short(value), self.low, self.high)) for value in values), given})

    def short(self, value: float) -> float:
        """Return a value with the digits that are tried."""
        return value if self.digits is None else float(f"{value:.{self.digits}g}")

    def edge(self, value: float) -> str | None:
        """Describe a value at the end of the range; None if it is inside."""
        low, high = self.low, self.high
        near = EDGE * (high - low)
        if not self.name or low + near < value < high - near or low == high:
            return None
        is_low = value <= low + near
        meaning = self.at_low if is_low else self.at_high
        meaning = f": {meaning}" if meaning else f" ({low:.3g} … {high:.3g}); tune again from there"
        return f"{self.name} {value:.3g} lies at the {'lower' if is_low else 'upper'} end of what was tried{meaning}"


class Search(ABC, Generic[Point]):
    """A search for the point of the least rank; it gives the same in every run."""

    axes: Sequence[Axis]
    rounds: int  # in each of which the lines are half as long as before
    num_on_line: int  # values tried along one axis when refining

    @abstractmethod
    def grid(self) -> Sequence[Point]:
        """Return the points tried first."""

    @abstractmethod
    def ranks(self, points: Sequence[Point]) -> list[Any]:
        """Return numbers, or tuples of them, that are less the better each point is."""

    @abstractmethod
    def preference(self, point: Point) -> Any:
        """Return the tie-breaker of grid points with equal ranks; the least is taken, then the first."""

    @abstractmethod
    def value(self, point: Point, axis: int) -> float:
        """Return where a point lies on an axis."""

    @abstractmethod
    def moved(self, point: Point, axis: int, value: float) -> Point:
        """Return the point with another value on an axis."""

    def middle(self, values: Sequence[float], stretches: Sequence[Sequence[int]], here: float) -> int:
        """Return which of a line's best values to take: the middle of the longest stretch, of two the lower one."""
        longest = max(stretches, key=len)
        return longest[(len(longest) - 1) // 2]

    def best(self) -> Point:
        """Return the best point."""
        points = self.grid()
        ranks = self.ranks(points)
        rank = min(ranks)
        best = min((point for point, each in zip(points, ranks, strict=True) if each == rank), key=self.preference)
        for part in range(self.rounds):
            for axis in range(len(self.axes)):
                best, rank = self._refined(best, rank, axis, 0.5**part)
        return best

    def _refined(self, best: Point, rank: Any, axis: int, share: float) -> tuple[Point, Any]:
        """Try values of one axis about the best so far; a stretch of equals is safest in its middle."""
        here = self.value(best, axis)
        values = self.axes[axis].line(here, share, self.num_on_line)
        line = [self.moved(best, axis, value) for value in values]
        ranks = self.ranks(line)
        least = min(ranks)
        if least > rank:
            return best, rank
        equal = np.flatnonzero([each == least for each in ranks])
        stretches = np.split(equal, np.flatnonzero(np.diff(equal) > 1) + 1)
        return line[self.middle(values, [each.tolist() for each in stretches], here)], least

    def edges(self, best: Point) -> list[str]:
        """Describe the values at the ends of their ranges."""
        found = [axis.edge(self.value(best, number)) for number, axis in enumerate(self.axes)]
        return [each for each in found if each is not None]
