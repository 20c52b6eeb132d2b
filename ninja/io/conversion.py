"""Lattices made into what a format holds: n-best lists, confusion networks, or lattices as they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from ninja.errors import LatticeError, OptionError, SymbolError
from ninja.formats.format import FIELDS, Format, WriteSettings
from ninja.lattice import Lattice, Scales
from ninja.lattice.nbest import NBest, check
from ninja.lattice.network import ConfusionNetwork
from ninja.lattice.times import state_times

ALL_PATHS = 100_000  # of a lattice, where all are wanted; more are refused
ASSUMED_SHIFT = 0.01  # seconds
Item = Lattice | NBest | ConfusionNetwork
_INSTEAD = {
    "lattice": "lattices; make one of an n-best list with ninja.graph.nbest_lattice",
    "nbest": "lattices and n-best lists",
    "network": "lattices and confusion networks",
}


def converted(item: Item, format: Format, settings: WriteSettings, *, with_names: bool) -> tuple[Any, list[str]]:
    """Return an item as its format holds it, and what a lattice loses by becoming that.

    Args:
        item: A lattice, or what the format holds.
        format: The format that is written.
        settings: Its options; of lists the number of hypotheses and the scales, of networks the scales.
        with_names: Whether hypotheses are spelled and timed; where ids are written, alignments say the times.

    Raises:
        OptionError: The format holds neither lattices nor such items.
        LatticeError: The lattice has no path or too many, or the list is not consistent.
    """
    if isinstance(item, Lattice):
        if format.holds == "nbest":
            return _list(item if not with_names else _timed(item), settings, with_names=with_names)
        if format.holds == "network":
            return _network(item, settings)
        return item, []
    if isinstance(item, NBest) and format.holds == "nbest":
        check(item)
    elif not (isinstance(item, ConfusionNetwork) and format.holds == "network"):
        raise OptionError(f"{format.name} holds {_INSTEAD[format.holds]}")
    return item, []


def _list(lattice: Lattice, settings: WriteSettings, *, with_names: bool) -> tuple[NBest, list[str]]:
    from ninja.graph import lattice_nbest

    options = settings.options
    found = lattice_nbest(
        lattice if with_names else lattice.with_words(None),
        options.n or ALL_PATHS + 1,
        Scales(options.acoustic_scale, options.lm_scale, options.word_penalty),
    )
    count = len(found.hypotheses)
    if not options.n and count > ALL_PATHS:
        raise LatticeError(f"more than {ALL_PATHS} paths; say how many are wanted (n=…)", key=lattice.key)
    return found, [f"paths beyond the {options.n} best"] if options.n and count >= options.n else []


def _network(lattice: Lattice, settings: WriteSettings) -> tuple[Lattice | ConfusionNetwork, list[str]]:
    from ninja.consensus import lattice_mesh

    options = settings.options
    if settings.words is not None:
        lattice = lattice.with_words(settings.words)
    if lattice.words is None and lattice.word.any():
        raise SymbolError("the words of the lattice have no names; give their symbol table", key=lattice.key)
    found, whole = lattice_mesh(lattice, Scales(options.acoustic_scale, options.lm_scale))
    return found, [] if whole else [FIELDS["paths"]]


def _timed(lattice: Lattice) -> Lattice:
    """Return a lattice with the times that its alignments give, if it has no times and they give any."""
    if lattice.time is not None or not lattice.has_labels:
        return lattice
    try:
        time = np.maximum(state_times(lattice), 0)  # -1: no path leads there
    except LatticeError:  # they do not count frames
        return lattice
    return lattice.replace(time=time, frame_shift=lattice.frame_shift or ASSUMED_SHIFT)
