"""Times of the words on a path."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ninja.errors import LatticeError, OptionError
from ninja.graph.best_path import best_path
from ninja.graph.path import Path
from ninja.lattice import Lattice, Scales
from ninja.lattice.lattice import check_lattice, checked_shift
from ninja.lattice.times import state_times


class WordTime(NamedTuple):
    """A word with its start and duration in seconds."""

    word: int
    begin: float
    duration: float


def word_times(
    lattice: Lattice, path: Path | None = None, frame_shift: float | None = None, acoustic_scale: float = 1.0
) -> list[WordTime]:
    """Return the words on a path, in order, with their times.

    The times are the times of arcs. They are correct for words only if the lattice is aligned to words.

    Args:
        lattice: A word-aligned lattice.
        path: A path through the lattice.  [default: the best path]
        frame_shift: Seconds per label: the frame shift of the features times the subsampling factor of the model, such
            as 0.03 for 10 ms frames and a factor of 3.  [default: the frame shift of the lattice, if its format stores
            it]
        acoustic_scale: Factor applied to acoustic costs in the search for the best path.

    Raises:
        LatticeError: The lattice has neither alignments nor times, or its times are inconsistent.
        OptionError: ``frame_shift`` is missing or out of range.
    """
    check_lattice(lattice)
    shift = lattice.frame_shift if frame_shift is None else frame_shift
    if shift is None:
        raise OptionError("the lattice has no frame shift; pass the seconds per label as frame_shift")
    checked_shift(shift)
    if lattice.time is None and not lattice.has_labels:
        raise LatticeError("the lattice has neither alignments nor times", key=lattice.key)
    arcs = (best_path(lattice, Scales(acoustic_scale)) if path is None else path).arcs
    time = state_times(lattice)
    end = time[lattice.dst[arcs]].astype(np.int64)
    begin = np.concatenate([time[:1].astype(np.int64), end[:-1]]) if arcs.size else end
    return [
        WordTime(word, first * shift, (last - first) * shift)
        for word, first, last in zip(lattice.word[arcs].tolist(), begin.tolist(), end.tolist(), strict=True)
        if word != 0
    ]
