"""Retrieve the phrases of a long list that sound like spans of a lattice, by the vectors of an encoder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ninja.context.retrieval.phrase_index import EXACT, PhraseIndex, Vectors
from ninja.context.retrieval.vector_cache import VectorCache
from ninja.context.sound.pronunciation import Phones
from ninja.graph.posteriors import forward_backward
from ninja.lattice import Lattice, Scales

LONG_LIST = 1000  # phrases from which on a list is not searched whole


@dataclass(frozen=True, slots=True)
class RetrievalOptions:
    """Bounds of retrieval."""

    from_phrases: int = LONG_LIST
    phrases: int = 200  # retrieved from a list
    beam: float = 6.0  # -ln of the least posterior of a span's path, nats
    max_words: int = 4  # of a span
    max_spans: int = 1000  # of a lattice, the likeliest


class Encoder(Protocol):
    """Encoder of phrases as vectors."""

    def vectors(self, texts: Sequence[str], phones: Sequence[Phones]) -> Vectors:
        """Return vectors of phrases, float32 [phrases, size], of length 1, or 0 if nothing is known of a phrase."""

    def unknown_letters(self, texts: Iterable[str]) -> Counter[str]:
        """Count the letters of texts that the encoder does not know."""


class Retriever:
    """Finds the phrases of a list that sound like some span of a lattice; vectors are cached."""

    def __init__(self, encoder: Encoder, options: RetrievalOptions | None = None) -> None:
        self.encoder = encoder
        self.options = options or RetrievalOptions()
        self._cache = VectorCache()

    def index(self, texts: Sequence[str], phones: Sequence[Phones]) -> PhraseIndex:
        """Index phrases; vectors of a list too long for exact comparison are not cached."""
        return PhraseIndex((self.encoder.vectors if len(texts) > EXACT else self.vectors)(texts, phones))

    def nearest(self, spans: Sequence[Phones], phrases: PhraseIndex) -> npt.NDArray[np.int64]:
        """Return the phrases most similar to any of the spans, sorted; at most `RetrievalOptions.phrases`."""
        return phrases.nearest(self.vectors([""] * len(spans), spans), self.options.phrases)

    def vectors(self, texts: Sequence[str], phones: Sequence[Phones]) -> Vectors:
        """Return the vectors of phrases, or of spans, whose texts are "", encoded once each."""
        if not texts:
            return np.zeros((0, 0), np.float32)

        def encode(places: list[int]) -> Vectors:
            return self.encoder.vectors([texts[place] for place in places], [phones[place] for place in places])

        return self._cache.get(list(zip(texts, phones, strict=True)), encode)


def likely_spans(
    lattice: Lattice,
    unit: npt.NDArray[np.int32],
    pronunciations: Sequence[Phones | None],
    acoustic_scale: float,
    options: RetrievalOptions,
) -> list[Phones]:
    """Return the distinct phone strings of a lattice's likely spans of a few words, the likeliest first.

    Args:
        unit: Unit of each arc, int32 [num_arcs].
        pronunciations: Phones of each unit; no span contains a unit of None.
    """
    both = forward_backward(lattice, Scales(acoustic=acoustic_scale))
    cost = lattice.graph.astype(np.float64) + acoustic_scale * lattice.acoustic.astype(np.float64)
    posterior = both.alpha[lattice.src] + cost + both.beta[lattice.dst] - both.total
    is_audible = np.array([phones is not None for phones in pronunciations], np.bool_)
    arcs = np.flatnonzero(is_audible[unit] & (posterior <= options.beam))
    if not len(arcs):
        return []
    begin = np.searchsorted(lattice.src[arcs], np.arange(lattice.num_states + 1))
    num_units = len(pronunciations)
    # Partial spans of one more word in each round: their last state, number of their units in `units`, and cost.
    end, number = lattice.dst[arcs].astype(np.int64), unit[arcs].astype(np.int64)
    reached = both.alpha[lattice.src[arcs]] + cost[arcs]
    units: list[tuple[int, ...]] = [(single,) for single in range(num_units)]
    best = np.full(num_units, np.inf)
    np.minimum.at(best, number, reached + both.beta[end] - both.total)
    costs: dict[tuple[int, ...], float] = {(single,): best[single] for single in np.unique(number).tolist()}
    for _ in range(options.max_words - 1):
        count = begin[end + 1] - begin[end]
        row = np.repeat(np.arange(len(end)), count)
        arc = arcs[np.repeat(begin[end] - np.cumsum(count) + count, count) + np.arange(int(count.sum()))]
        after = reached[row] + cost[arc]
        whole = after + both.beta[lattice.dst[arc]] - both.total
        within = whole <= options.beam
        row, arc, after, whole = row[within], arc[within], after[within], whole[within]
        if not len(arc):
            break
        key, longer = np.unique(number[row] * num_units + unit[arc], return_inverse=True)
        units = [(*units[pair // num_units], pair % num_units) for pair in key.tolist()]
        best = np.full(len(key), np.inf)
        np.minimum.at(best, longer, whole)
        costs.update(zip(units, best.tolist(), strict=True))
        # Of equal sequences to a state only the likeliest is extended.
        order = np.lexsort((after, longer, lattice.dst[arc]))
        dst, longer = lattice.dst[arc][order].astype(np.int64), longer[order]
        first = np.ones(len(order), np.bool_)
        first[1:] = (dst[1:] != dst[:-1]) | (longer[1:] != longer[:-1])
        end, number, reached = dst[first], longer[first], after[order][first]
    likeliest = sorted(costs, key=costs.__getitem__)[: options.max_spans]
    distinct = dict.fromkeys(sum((pronunciations[single] or () for single in span), ()) for span in likeliest)
    return [phones for phones in distinct if phones]
