"""Confusion-weighted edit distances between arrays of phone strings."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ninja.context.sound.confusion import Confusion

Phones = npt.NDArray[np.int64]
Costs = npt.NDArray[np.float32]
NO_PHONE = -1  # padding of shorter strings


def distances(reference: Phones, hypothesis: Phones, confusion: Confusion) -> Costs:
    """Return the weighted edit distances between phone strings; see `Confusion.distance`.

    Args:
        reference: Phone indices, padded with `NO_PHONE`, int64 [..., phones].
        hypothesis: Phone indices of the strings to compare with `reference`, in the same format. All axes except the
            last are broadcast.
        confusion: Confusion costs.

    Returns:
        Distances, float32 [...].
    """
    # NO_PHONE is the last row and column, with insertion and deletion costs of 0.
    far = float(confusion.substitution.max() + confusion.insertion.max() + confusion.deletion.max())
    substitution = np.pad(confusion.substitution, (0, 1), constant_values=far)
    insertion, deletion = np.append(confusion.insertion, np.float32(0)), np.append(confusion.deletion, np.float32(0))
    shape = np.broadcast_shapes(reference.shape[:-1], hypothesis.shape[:-1])
    row = np.zeros((hypothesis.shape[-1] + 1, *shape), np.float32)
    for column in range(hypothesis.shape[-1]):
        row[column + 1] = row[column] + insertion[hypothesis[..., column]]
    for index in range(reference.shape[-1]):
        phone = reference[..., index]
        deleted = deletion[phone]
        before, row[0] = row[0].copy(), row[0] + deleted
        for column in range(hypothesis.shape[-1]):
            other = hypothesis[..., column]
            best = np.minimum(before + substitution[phone, other], row[column + 1] + deleted)
            before = row[column + 1].copy()
            np.minimum(best, row[column] + insertion[other], out=row[column + 1])
    distance: npt.NDArray[np.float32] = row[-1]
    return distance
