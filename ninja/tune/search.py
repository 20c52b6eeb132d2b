"""Search for settings: first on a grid, then along each axis on increasingly short lines around the best setting."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from ninja.tune.trials import Setting

EDGE = 0.02  # fraction of the range of an axis that counts as its end
NUM_ROUNDS = 2  # lines are half as long in each round as in the previous round
NUM_ON_LINE = 9  # number of values on a line


@dataclass(frozen=True, slots=True)
class Axis:
    """A parameter to search over, and its range."""

    name: str
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
        if low + near < value < high - near or low == high:
            return None
        is_low = value <= low + near
        meaning = self.at_low if is_low else self.at_high
        meaning = f": {meaning}" if meaning else f" ({low:.3g} … {high:.3g}); tune again from there"
        return f"{self.name} {value:.3g} is at the {'lower' if is_low else 'upper'} end of its range{meaning}"


class Search(ABC):
    """A deterministic search for the setting with the lowest rank.

    Args:
        axes: Parameters to search over.
        grid: Values of each parameter in the initial grid; other parameters keep their initial values.
        start: The initial setting.
    """

    def __init__(self, axes: Sequence[Axis], grid: Mapping[str, Iterable[float]], start: Setting) -> None:
        self.axes = axes
        self._start = start
        axis_of = {axis.name: axis for axis in axes}
        self._grid = [
            axis_of[name].inside(grid[name], value) if name in axis_of else [value]
            for name, value in start._asdict().items()
        ]

    @abstractmethod
    def ranks(self, settings: Sequence[Setting]) -> list[tuple[Any, ...]]:
        """Return the rank of each setting; lower is better."""

    def best(self) -> Setting:
        """Run the search and return the best setting."""
        grid = [Setting(*values) for values in product(*self._grid)]
        ranks = self.ranks(grid)
        rank = min(ranks)
        best = min((point for point, other in zip(grid, ranks, strict=True) if other == rank), key=self._preference)
        for part in range(NUM_ROUNDS):
            for axis in self.axes:
                best, rank = self._refined(best, rank, axis, 0.5**part)
        return best

    def edges(self, best: Setting) -> list[str]:
        """Describe each value that is at an end of its range."""
        edges = [axis.edge(getattr(best, axis.name)) for axis in self.axes]
        return [edge for edge in edges if edge is not None]

    def _preference(self, point: Setting) -> tuple[Any, ...]:
        """Return a sort key for grid points of equal rank; the first point is chosen.

        The key consists of the change in class boost, the keyword boost, and the change in the other values.
        """
        distance = math.hypot(
            (point.class_weight - self._start.class_weight) / 0.25,
            math.log2(point.acoustic_scale / self._start.acoustic_scale) / 0.5,
            point.word_penalty - self._start.word_penalty,
        )
        return abs(point.class_boost - self._start.class_boost), point.keyword_boost, distance, point

    def _refined(
        self, best: Setting, rank: tuple[Any, ...], axis: Axis, share: float
    ) -> tuple[Setting, tuple[Any, ...]]:
        """Try values on one axis around the best setting; return the new best setting and its rank.

        If values are tied, the middle value (the lower of two) in the longest range of tied values is chosen.
        """
        values = axis.line(getattr(best, axis.name), share, NUM_ON_LINE)
        line = [best._replace(**{axis.name: value}) for value in values]
        ranks = self.ranks(line)
        least = min(ranks)
        if least > rank:
            return best, rank
        equal = np.flatnonzero([rank == least for rank in ranks])
        longest = max(np.split(equal, np.flatnonzero(np.diff(equal) > 1) + 1), key=len)
        return line[longest[(len(longest) - 1) // 2]], least
