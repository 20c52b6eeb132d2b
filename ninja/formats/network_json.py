"""Confusion networks as JSON: an object with ``key`` and ``bins`` on each line."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from ninja.errors import LatticeError
from ninja.lattice.network import ConfusionNetwork


def write_network(network: ConfusionNetwork) -> str:
    """Return a network as one line of JSON.

    An object with ``key`` and ``bins``; a bin is a list of entries ``{"word", "posterior", "start", "duration"}``, the
    most probable first; ``word`` is null for no word, times (seconds) are left out where they are not known.
    """
    bins = []
    for place in range(network.num_bins):
        entries: list[dict[str, Any]] = []
        for word, posterior, start, duration in network.bin(place):
            entry: dict[str, Any] = {"word": word, "posterior": _shortest(posterior)}
            if start is not None and duration is not None:
                entry |= {"start": _shortest(start), "duration": _shortest(duration)}
            entries.append(entry)
        bins.append(entries)
    try:
        return json.dumps({"key": network.key, "bins": bins}, ensure_ascii=False, allow_nan=False) + "\n"
    except ValueError as error:
        raise LatticeError("a posterior or time is not finite", key=network.key) from error


def _shortest(value: float) -> float:
    """Return the decimal number of fewest digits that a single-precision number is read back from."""
    return float(str(np.float32(value)))
