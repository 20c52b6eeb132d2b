"""Nearest-neighbour search among phrase vectors: exhaustive in short lists, with an inverted file in long lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]

EXACT = 10_000  # maximum size of a list that is searched exhaustively
BATCH = 128  # number of spans in a batch, whose similarities to thousands of phrases must fit into the CPU cache
PROBED = 0.1  # fraction of the inverted file's cells that are searched


class PhraseIndex:
    """Index of phrase vectors.

    In lists of more than `EXACT` phrases, faiss divides the vectors into cells and searches only the nearest cells, so
    some similar phrases can be missed. Without faiss (`pip install "ninja-asr[retrieval]"`), all vectors are compared,
    which takes longer.
    """

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._cells = _inverted_file(vectors) if len(vectors) > EXACT else None

    def nearest(self, queries: Vectors, count: int) -> npt.NDArray[np.int64]:
        """Return the indices of the phrases most similar to any query, at most `count`, in increasing order."""
        if not len(queries):
            return np.zeros(0, np.int64)
        if len(self._vectors) <= count:
            return np.arange(len(self._vectors))
        best = np.full(len(self._vectors), -np.inf, np.float32)
        for begin in range(0, len(queries), BATCH):
            batch = queries[begin : begin + BATCH]
            if self._cells is None:
                similarity = batch @ self._vectors.T  # [queries, phrases]
                np.maximum(best, similarity.max(axis=0), out=best)
            else:  # every result is among the `count` nearest phrases of its most similar query
                similarity, phrase = self._cells.search(batch, count)  # [queries, count]; -1 if there are no more
                np.maximum.at(best, phrase[phrase >= 0], similarity[phrase >= 0])
        chosen = np.argpartition(-best, count)[:count]
        return np.sort(chosen[best[chosen] > -np.inf])


def _inverted_file(vectors: Vectors) -> Any:
    """Return a faiss inverted-file index of n vectors with √n cells, or None if faiss is not installed."""
    try:
        import faiss
    except ImportError:
        return None
    count = int(len(vectors) ** 0.5)
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(vectors.shape[1]), vectors.shape[1], count, faiss.METRIC_INNER_PRODUCT)
    index.cp.max_points_per_centroid = 64  # gives sufficiently good cells in a fraction of the training time
    index.cp.seed = 1
    index.train(vectors)
    index.add(vectors)
    index.nprobe = max(1, round(PROBED * count))
    return index
