"""Confusion networks as JSON: an object with ``key`` and ``bins`` on each line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from ninja.errors import FormatError, LatticeError
from ninja.files import text as utf8
from ninja.lattice.network import ConfusionNetwork, Entry


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


def read_networks(path: str | os.PathLike[str]) -> Iterator[ConfusionNetwork]:
    """Yield the networks of a file as ``write_network`` writes them, one a line; gzip is unpacked.

    Raises:
        FormatError: A line is no such network; the message says where.
        InputError: The file cannot be read.
    """
    for number, line in enumerate(utf8.read(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            content = json.loads(line)
            key, bins = content["key"], [[_entry(entry) for entry in entries] for entries in content["bins"]]
            if not isinstance(key, str):
                raise TypeError("the key is no text")
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            reason = f"lacks {error}" if isinstance(error, KeyError) else error
            raise FormatError(f"no confusion network: {reason}", path, line=number) from error
        yield ConfusionNetwork.from_bins(key, bins)


def _shortest(value: float) -> float:
    """Return the decimal number of fewest digits that a single-precision number is read back from."""
    return float(str(np.float32(value)))


def _entry(entry: dict[str, Any]) -> Entry:
    word = entry["word"]
    if not (word is None or isinstance(word, str)):
        raise TypeError("a word is neither text nor null")
    posterior = _number(entry["posterior"])
    if not 0.0 <= posterior <= 1.001:
        raise ValueError(f"the posterior {posterior} is no probability")
    start, duration = (_number(entry[name]) if name in entry else None for name in ("start", "duration"))
    return word, posterior, start, duration


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return float(value)
