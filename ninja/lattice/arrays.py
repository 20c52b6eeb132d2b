"""Pools: arrays that concatenate runs of values, delimited by offsets."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ninja import _core
from ninja.lattice.lattice import Array, frozen


def offsets(length: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return the offsets of runs with these lengths, int64 [num_runs + 1], read-only."""
    length = np.asarray(length)
    begin = np.zeros(length.size + 1, np.int64)
    np.cumsum(length, out=begin[1:], dtype=np.int64)
    return frozen(begin)


def owners(begin: Array) -> npt.NDArray[np.int64]:
    """Return the index of the run to which each element of a pool belongs, int64 [pool size]."""
    return np.repeat(np.arange(begin.size - 1), np.diff(begin))


def runs(pool: Array, begin: npt.NDArray[np.int64]) -> list[Array]:
    """Return a view of each run in a pool."""
    return [pool[first:last] for first, last in pairwise(begin.tolist())]


def sums(values: Array, begin: Array) -> npt.NDArray[np.float64]:
    """Sum the values in each run of a pool, float64 [num_runs]."""
    return np.bincount(owners(begin), values, begin.size - 1).astype(np.float64)


def gather(pool: Array, begin: Array, length: Array) -> tuple[npt.NDArray[np.int64], Array]:
    """Copy runs of an int32 pool into a new pool; return ``(offsets, pool)``, with int64 [num_runs + 1] offsets."""
    return offsets(length), _core.copy_runs(pool, begin, length)


def gather_labels(pool: Array, begin: Array, indices: Array, with_labels: Array | bool = True) -> tuple[Any, Any]:
    """Copy the labels of some arcs or states into a new pool, in the order of `indices`.

    Args:
        begin: Offsets of each arc's or state's labels in the pool.
        indices: Indices of arcs or states.
        with_labels: Mask over `indices`; labels are omitted where the mask is False.

    Returns:
        ``(offsets, pool)``, with the offsets as int64 [len(indices) + 1].
    """
    return gather(pool, begin[indices], np.where(with_labels, begin[indices + 1] - begin[indices], 0))
