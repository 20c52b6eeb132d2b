"""Nearest vectors of a list of phrases: all similarities for short lists, an index of cells for long ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]

EXACT = 10_000  # phrases up to which all are compared
TOGETHER = 128  # spans compared at once: their similarities to thousands of phrases stay in the cache
CELLS_LOOKED_AT = 0.1  # share of an index's cells that is searched


class PhraseIndex:
    """Vectors of phrases, to find those most like any of some others.

    Of more than `EXACT` phrases, faiss parts the vectors into cells, of which the nearest are searched: a phrase that
    is near may be missed. Without faiss (`pip install "ninja-asr[retrieval]"`) all are compared, which takes longer.
    """

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._cells = _cells(vectors) if len(vectors) > EXACT else None

    def nearest(self, others: Vectors, count: int) -> npt.NDArray[np.int64]:
        """Return the phrases whose vectors are most like any of the others, in their order; so many, or fewer."""
        if not len(others):
            return np.zeros(0, np.int64)
        if len(self._vectors) <= count:
            return np.arange(len(self._vectors))
        best = np.full(len(self._vectors), -np.inf, np.float32)
        for begin in range(0, len(others), TOGETHER):
            part = others[begin : begin + TOGETHER]
            if self._cells is None:
                similar = part @ self._vectors.T  # [others, phrases]
                np.maximum(best, similar.max(axis=0), out=best)
            else:  # of the phrases wanted, none is behind more than `count` others for the one it is most like
                near, phrase = self._cells.search(part, count)  # [others, count]; -1: fewer were found
                np.maximum.at(best, phrase[phrase >= 0], near[phrase >= 0])
        chosen = np.argpartition(-best, count)[:count]
        return np.sort(chosen[best[chosen] > -np.inf])


def _cells(vectors: Vectors) -> Any:
    """Return faiss's index of vectors by cells, of which there are the root of their number; None without faiss."""
    try:
        import faiss
    except ImportError:
        return None
    count = int(len(vectors) ** 0.5)
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(vectors.shape[1]), vectors.shape[1], count, faiss.METRIC_INNER_PRODUCT)
    index.cp.max_points_per_centroid = 64  # enough to part them, in a fraction of the time
    index.cp.seed = 1
    index.train(vectors)
    index.add(vectors)
    index.nprobe = max(1, round(CELLS_LOOKED_AT * count))
    return index
