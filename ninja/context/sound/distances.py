"""Confusion-weighted edit distances of many strings of phones at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ninja.context.sound.confusion import Confusion

Phones = npt.NDArray[np.int64]
Costs = npt.NDArray[np.float32]
NO_PHONE = -1  # padding of shorter strings


def distances(reference: Phones, hypothesis: Phones, confusion: Confusion) -> Costs:
    """Return the weighted edit distance of strings of phones.

    Args:
        reference: Numbers of phones in the confusion costs, padded with `NO_PHONE`; int64 [..., phones].
        hypothesis: The same of the other strings; the axes before the last are broadcast.

    Returns:
        Distances as `Confusion.distance` gives them, float32 [...].
    """
    # NO_PHONE is the last row and column, whose insertion and deletion cost 0.
    far = float(confusion.substitution.max() + confusion.insertion.max() + confusion.deletion.max())
    substitution = np.pad(confusion.substitution, (0, 1), constant_values=far)
    insertion, deletion = np.append(confusion.insertion, np.float32(0)), np.append(confusion.deletion, np.float32(0))
    shape = np.broadcast_shapes(reference.shape[:-1], hypothesis.shape[:-1])
    row = np.zeros((hypothesis.shape[-1] + 1, *shape), np.float32)
    for place in range(hypothesis.shape[-1]):
        row[place + 1] = row[place] + insertion[hypothesis[..., place]]
    for index in range(reference.shape[-1]):
        phone = reference[..., index]
        lost = deletion[phone]
        before, row[0] = row[0].copy(), row[0] + lost
        for place in range(hypothesis.shape[-1]):
            other = hypothesis[..., place]
            best = np.minimum(before + substitution[phone, other], row[place + 1] + lost)
            before = row[place + 1].copy()
            np.minimum(best, row[place] + insertion[other], out=row[place + 1])
    distance: npt.NDArray[np.float32] = row[-1]
    return distance
