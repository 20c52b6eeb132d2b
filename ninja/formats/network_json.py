"""Writer for confusion networks as JSON lines; each line is an object with ``key`` and ``bins``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ninja.errors import LatticeError
from ninja.lattice.network import ConfusionNetwork


def write_network(network: ConfusionNetwork, others: Mapping[str, Any] | None = None) -> str:
    """Encode a confusion network, with additional fields for the utterance, as one line of JSON.

    Each bin is a list of entries ``{"word", "posterior", "start", "duration"}``, sorted by decreasing posterior. If
    an entry represents the absence of a word, its ``word`` is null. Times are in seconds, and are omitted if unknown.
    """
    bins = []
    for index in range(network.num_bins):
        entries: list[dict[str, Any]] = []
        for word, posterior, start, duration in network.bin(index):
            entry: dict[str, Any] = {"word": word, "posterior": _shortest(posterior)}
            if start is not None and duration is not None:
                entry |= {"start": _shortest(start), "duration": _shortest(duration)}
            entries.append(entry)
        bins.append(entries)
    try:
        return (
            json.dumps({"key": network.key, **(others or {}), "bins": bins}, ensure_ascii=False, allow_nan=False) + "\n"
        )
    except ValueError as error:
        raise LatticeError("a posterior or time is not finite", key=network.key) from error


def _shortest(value: float) -> float:
    """Return the shortest decimal number that is read back as the same single-precision number."""
    return float(str(np.float32(value)))
