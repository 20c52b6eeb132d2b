"""Nearest vectors of a list of phrases: by all similarities in short lists, by an inverted file in long ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]

EXACT = 10_000  # longest list of which all phrases are compared
BATCH = 128  # spans compared at once: their similarities to thousands of phrases stay in the cache
PROBED = 0.1  # share of the inverted file's cells that is searched


class PhraseIndex:
    """Vectors of phrases, to find those most similar to any of some queries.

    Of more than `EXACT` phrases, faiss divides the vectors into cells, of which the nearest are searched: some near
    phrases may be missed. Without faiss (`pip install "ninja-asr[retrieval]"`) all are compared, which takes longer.
    """

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._cells = _inverted_file(vectors) if len(vectors) > EXACT else None

    def nearest(self, queries: Vectors, count: int) -> npt.NDArray[np.int64]:
        """Return the phrases whose vectors are most similar to any of the queries, sorted; at most `count`."""
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
            else:  # a phrase that is wanted is among the `count` nearest of the query that it is most similar to
                similarity, phrase = self._cells.search(batch, count)  # [queries, count]; -1: no further phrase
                np.maximum.at(best, phrase[phrase >= 0], similarity[phrase >= 0])
        chosen = np.argpartition(-best, count)[:count]
        return np.sort(chosen[best[chosen] > -np.inf])


def _inverted_file(vectors: Vectors) -> Any:
    """Return faiss's inverted file of n vectors with √n cells; None without faiss."""
    try:
        import faiss
    except ImportError:
        return None
    count = int(len(vectors) ** 0.5)
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(vectors.shape[1]), vectors.shape[1], count, faiss.METRIC_INNER_PRODUCT)
    index.cp.max_points_per_centroid = 64  # enough to divide them, in a fraction of the time
    index.cp.seed = 1
    index.train(vectors)
    index.add(vectors)
    index.nprobe = max(1, round(PROBED * count))
    return index
