"""Drawings of lattices: select the arcs to show, and compute their costs and positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ninja.errors import LatticeError, check_range
from ninja.evaluate import align
from ninja.evaluate.normal_form import composed_words, reference_ids
from ninja.graph.best_path import best_path
from ninja.graph.oracle import Oracle, oracle
from ninja.graph.path import Path
from ninja.graph.posteriors import posteriors
from ninja.lattice import Lattice, Scales
from ninja.lattice.lattice import checked_shift
from ninja.show.detours import detours
from ninja.show.layout import Layout, lay_out

BEST, ORACLE = 1, 2  # bits that mark the arcs of the best path and the oracle path
READABLE = 250  # number of arcs that a page shows initially


@dataclass(frozen=True, slots=True)
class ShowOptions:
    """Scales of the costs, and limits on the size of the drawing."""

    scales: Scales = Scales()
    max_arcs: int = 5000  # maximum number of arcs; arcs of the best path and the oracle path are always drawn
    frame_shift: float | None = None  # seconds per frame; None uses the lattice's value, or frames as unit of time

    def __post_init__(self) -> None:
        check_range("max_arcs", self.max_arcs, least=1)
        if self.frame_shift is not None:
            checked_shift(self.frame_shift)


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """A lattice and the data for drawing it; arrays have a value for every arc or state, even if it is not drawn."""

    lattice: Lattice
    options: ShowOptions
    rows: tuple[tuple[int, ...], ...]  # arc ids of each detour to draw; see `Detours`
    layout: Layout
    labels: list[str]  # [num_arcs], "" for epsilon
    posterior: npt.NDArray[np.float64]  # [num_arcs]
    excess: npt.NDArray[np.float64]  # [num_arcs], cost of the best path through the arc minus the cost of the best path
    best: Path
    oracle: Oracle | None = None
    reference: tuple[str, ...] | None = None
    gain: npt.NDArray[np.float32] | None = None  # [num_arcs], log-probability that a context model adds to the word
    copied: npt.NDArray[np.float32] | None = None  # [num_arcs], probability that the word belongs to a phrase
    arcs: npt.NDArray[np.int64] = field(init=False)  # ids of the arcs to draw, in the order of detours

    def __post_init__(self) -> None:
        object.__setattr__(self, "arcs", np.fromiter((arc for row in self.rows for arc in row), np.int64))

    @property
    def frame_shift(self) -> float | None:
        """Seconds per frame; None if unknown."""
        return self.options.frame_shift or self.lattice.frame_shift

    def spell(self, numbers: npt.NDArray[np.int32]) -> list[str]:
        """Return the words with these ids; if there is no symbol table, return the ids as text."""
        words = self.lattice.words
        return [str(number) for number in numbers.tolist()] if words is None else words.spell(numbers.tolist())

    def left_out(self) -> str | None:
        """Return a message about the arcs that are not drawn, or None if all arcs are drawn."""
        drawn = np.zeros(self.lattice.num_arcs, np.bool_)
        drawn[self.arcs] = True
        dead = int(np.isinf(self.excess).sum())
        remaining = ~drawn & np.isfinite(self.excess)
        whole = " in addition to marked paths" if len(self.arcs) > self.options.max_arcs else ""
        messages = []
        if remaining.any():
            messages.append(
                f"{int(remaining.sum()):,} of {self.lattice.num_arcs:,} arcs are not drawn, because at most "
                f"{self.options.max_arcs:,} are drawn{whole}. The paths through these arcs cost at least "
                f"{self.excess[remaining].min():.3g} more than the best path, and their posteriors are at most "
                f"{self.posterior[remaining].max():.2g}."
            )
        if dead:
            messages.append(
                f"Arcs that are not drawn because they are on no path from the start to a final state: {dead:,}."
            )
        return " ".join(messages) or None

    def as_dict(self) -> dict[str, Any]:
        """Return the data for the page as JSON values; the fields of arcs and states are stored as columns."""
        lattice, layout, arcs = self.lattice, self.layout, self.arcs
        states = np.flatnonzero(~np.isnan(layout.x))
        number = np.zeros(lattice.num_states, np.int64)
        number[states] = np.arange(len(states))
        strings = {text: index for index, text in enumerate(dict.fromkeys(self.labels[arc] for arc in arcs.tolist()))}
        marks = np.zeros(lattice.num_arcs, np.int64)
        marks[self.best.arcs] |= BEST
        marks[[] if self.oracle is None else self.oracle.arcs] |= ORACLE
        final = lattice.is_final[states].tolist()
        return {
            "key": lattice.key,
            "counts": {"states": lattice.num_states, "arcs": lattice.num_arcs, "kind": lattice.kind},
            "unit": layout.unit,
            "frameShift": self.frame_shift if layout.unit == "frame" else None,
            "frameWidth": layout.width,
            "scales": list(astuple(self.options.scales)),
            "leftOut": self.left_out(),
            "shown": self._readable(),
            "best": self.spell(self.best.words),
            "bestCost": self.best.cost(self.options.scales),
            "oracle": None if self.oracle is None else self.spell(self.oracle.words),
            "pairs": self._pairs(),
            "words": list(strings),
            "state": {
                "id": states.tolist(),
                "time": layout.time[states].tolist(),
                "x": np.round(layout.x[states], 1).tolist(),
                "lane": layout.lane[states].tolist(),
                "finalGraph": _costs(lattice.final_graph[states], final),
                "finalAcoustic": _costs(lattice.final_acoustic[states], final),
            },
            "arc": {
                "id": arcs.tolist(),
                "src": number[lattice.src[arcs]].tolist(),
                "dst": number[lattice.dst[arcs]].tolist(),
                "word": [strings[self.labels[arc]] for arc in arcs.tolist()],
                "graph": _costs(lattice.graph[arcs]),
                "acoustic": _costs(lattice.acoustic[arcs]),
                "posterior": _short(self.posterior[arcs]),
                "excess": _short(self.excess[arcs]),
                "lane": layout.arc_lane[arcs].tolist(),
                "row": np.repeat(np.arange(len(self.rows)), [len(row) for row in self.rows]).tolist(),
                "marks": marks[arcs].tolist(),
                "gain": None if self.gain is None else _known(self.gain[arcs]),
                "copied": None if self.copied is None else _known(self.copied[arcs]),
            },
        }

    def _readable(self) -> int:
        """Return the number of detours that are shown when the page opens."""
        ends = np.cumsum([len(row) for row in self.rows])
        marked = {*self.best.arcs.tolist(), *([] if self.oracle is None else self.oracle.arcs.tolist())}
        needed = sum(row[0] in marked for row in self.rows)  # detours of marked paths come first
        return max(needed, int(np.searchsorted(ends, READABLE, side="right")))

    def _pairs(self) -> dict[str, list[tuple[str | None, str | None]]] | None:
        if self.reference is None or self.oracle is None:
            return None
        shown = {"best": self.best.words, "oracle": self.oracle.words}
        reference = composed_words(self.reference)
        return {name: list(align(reference, composed_words(self.spell(words))).pairs) for name, words in shown.items()}


def draw(lattice: Lattice, reference: Sequence[str] | None = None, options: ShowOptions = ShowOptions()) -> Drawing:
    """Select the arcs to draw from a lattice, and lay them out.

    The best path is drawn first, then the oracle path, then other paths by increasing cost.

    Args:
        lattice: The lattice to draw. Word ids are shown if it has no symbol table.
        reference: Reference words, for the oracle path.
        options: Scales, and limits on the size of the drawing.

    Raises:
        LatticeError: No path leads from the start to a final state, or there is a reference but no symbol table.
        SymbolError: A word id is not in the symbol table.
    """
    scales = options.scales
    best = best_path(lattice, scales)
    nearest = None
    if reference is not None:
        if lattice.words is None:
            raise LatticeError(
                "the lattice has no symbol table, which is required to show a reference; specify a symbol table",
                key=lattice.key,
            )
        nearest = oracle(lattice, reference_ids(lattice.words, reference))
    paths = [best.arcs] if nearest is None else [best.arcs, nearest.arcs]
    partition = detours(lattice, scales, paths)
    rows = _within(partition.arcs, options.max_arcs, {arc for path in paths for arc in path.tolist()})
    labels = _labels(lattice)
    return Drawing(
        lattice,
        options,
        rows,
        lay_out(lattice, rows, labels),
        labels,
        posteriors(lattice, scales),
        partition.excess,
        best,
        nearest,
        None if reference is None else tuple(reference),
    )


def _within(rows: tuple[tuple[int, ...], ...], max_arcs: int, always: set[int]) -> tuple[tuple[int, ...], ...]:
    """Return the first detours, up to `max_arcs` arcs in total, but at least the detours with the arcs in `always`."""
    arcs = 0
    for count, row in enumerate(rows):
        arcs += len(row)
        if arcs > max_arcs and row[0] not in always:
            return rows[:count]
    return rows


def _labels(lattice: Lattice) -> list[str]:
    used, words = np.unique(lattice.word).tolist(), lattice.words
    spelled = {number: str(number) if words is None else words.word(number) for number in used if number}
    return [spelled.get(number, "") for number in lattice.word.tolist()]


def _costs(values: npt.NDArray[np.float32], known: Sequence[bool] | None = None) -> list[float | None]:
    """Round costs to the precision of float32, and replace costs with None where `known` is False."""
    listed = [float(f"{value:.7g}") for value in values.tolist()]
    return (
        [*listed]
        if known is None
        else [cost if is_known else None for cost, is_known in zip(listed, known, strict=True)]
    )


def _known(values: npt.NDArray[np.float32]) -> list[float | None]:
    return [None if value != value else round(value, 4) for value in values.tolist()]


def _short(values: npt.NDArray[np.float64]) -> list[float]:
    return [float(f"{value:.6g}") for value in values.tolist()]
