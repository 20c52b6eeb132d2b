"""Retrieve the phrases in a long list that sound like spans of a lattice, by comparing vectors from an encoder."""

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

LONG_LIST = 1000  # minimum number of phrases in a list that is not searched exhaustively


@dataclass(frozen=True, slots=True)
class RetrievalOptions:
    """Limits for the retrieval of phrases that sound like spans of a lattice."""

    from_phrases: int = LONG_LIST  # minimum number of phrases in a list that is searched by vectors
    phrases: int = 200  # number of phrases retrieved from a list
    beam: float = 6.0  # -ln of the minimum posterior of a span, nats
    max_words: int = 4  # maximum number of words per span
    max_spans: int = 1000  # maximum number of spans per lattice; the most probable are used


class Encoder(Protocol):
    """Encoder that maps phrases to vectors."""

    def vectors(self, texts: Sequence[str], phones: Sequence[Phones]) -> Vectors:
        """Return unit vectors of phrases, float32 [phrases, size]; zeros for phrases without a known symbol."""

    def unknown_letters(self, texts: Iterable[str]) -> Counter[str]:
        """Count the occurrences of each letter that is unknown to the encoder."""


class Retriever:
    """Retriever that finds the phrases in a list that sound like spans of a lattice, using cached vectors."""

    def __init__(self, encoder: Encoder, options: RetrievalOptions | None = None) -> None:
        self.encoder = encoder
        self.options = options or RetrievalOptions()
        self._cache = VectorCache()

    def index(self, texts: Sequence[str], phones: Sequence[Phones]) -> PhraseIndex:
        """Return an index of phrases; the vectors of lists with more than `EXACT` phrases are not cached."""
        return PhraseIndex((self.encoder.vectors if len(texts) > EXACT else self.vectors)(texts, phones))

    def nearest(self, spans: Sequence[Phones], phrases: PhraseIndex) -> npt.NDArray[np.int64]:
        """Return the indices of the ``options.phrases`` phrases most similar to any span, in increasing order."""
        return phrases.nearest(self.vectors([""] * len(spans), spans), self.options.phrases)

    def vectors(self, texts: Sequence[str], phones: Sequence[Phones]) -> Vectors:
        """Return the vectors of phrases or spans, cached or newly computed.

        The text of a phrase is its spelling. For a span of a lattice, only the phones are used, so its text must be "".
        """
        if not texts:
            return np.zeros((0, 0), np.float32)

        def encode(missing: list[int]) -> Vectors:
            return self.encoder.vectors([texts[index] for index in missing], [phones[index] for index in missing])

        return self._cache.get(list(zip(texts, phones, strict=True)), encode)


def likely_spans(
    lattice: Lattice,
    unit: npt.NDArray[np.int32],
    pronunciations: Sequence[Phones | None],
    acoustic_scale: float,
    options: RetrievalOptions,
) -> list[Phones]:
    """Return the distinct phone strings of a lattice's most probable spans, in order of decreasing probability.

    Args:
        lattice: The lattice.
        unit: Unit of each arc, int32 [num_arcs].
        pronunciations: Phones of each unit; spans do not contain units whose phones are None.
        acoustic_scale: Factor applied to acoustic costs.
        options: Limits.
    """
    both = forward_backward(lattice, Scales(acoustic=acoustic_scale))
    cost = lattice.graph.astype(np.float64) + acoustic_scale * lattice.acoustic.astype(np.float64)
    posterior = both.alpha[lattice.src] + cost + both.beta[lattice.dst] - both.total
    silence = len(pronunciations)  # symbol of arcs whose unit has no phones; other symbols are units
    symbol = np.array([number if phones else silence for number, phones in enumerate(pronunciations)], np.int64)[unit]
    is_usable = np.array([phones is not None for phones in pronunciations], np.bool_)[unit]
    arcs = np.flatnonzero(is_usable & (posterior <= options.beam))
    begin = np.searchsorted(lattice.src[arcs], np.arange(lattice.num_states + 1))
    # Partial spans, which grow by one arc per round: last state, index of their units in `units`, and cost.
    end = np.unique(lattice.src[arcs[symbol[arcs] != silence]]).astype(np.int64)
    number, reached = np.zeros(len(end), np.int64), both.alpha[end]
    units: list[tuple[int, ...]] = [()]
    costs: dict[tuple[int, ...], float] = {}
    while len(end):
        count = begin[end + 1] - begin[end]
        row = np.repeat(np.arange(len(end)), count)
        arc = arcs[np.repeat(begin[end] - np.cumsum(count) + count, count) + np.arange(int(count.sum()))]
        after = reached[row] + cost[arc]
        whole = after + both.beta[lattice.dst[arc]] - both.total
        length = np.array(list(map(len, units)))[number[row]]
        # Silence continues a span, but does not count as a word.
        within = (whole <= options.beam) & (length < options.max_words) & ((length > 0) | (symbol[arc] != silence))
        row, arc, after, whole = row[within], arc[within], after[within], whole[within]
        key, longer = np.unique(number[row] * (silence + 1) + symbol[arc], return_inverse=True)
        index: dict[tuple[int, ...], int] = {}
        pairs = [(units[pair // (silence + 1)], pair % (silence + 1)) for pair in key.tolist()]
        grown = [span if last == silence else (*span, last) for span, last in pairs]
        longer = np.array([index.setdefault(span, len(index)) for span in grown], np.int64)[longer]
        units = list(index)
        best = np.full(len(units), np.inf)
        np.minimum.at(best, longer, whole)
        costs |= {span: min(low, costs.get(span, np.inf)) for span, low in zip(units, best.tolist(), strict=True)}
        # Of equal unit sequences that lead to the same state, only the most probable is extended.
        order = np.lexsort((after, longer, lattice.dst[arc]))
        dst, longer = lattice.dst[arc][order].astype(np.int64), longer[order]
        first = np.ones(len(order), np.bool_)
        first[1:] = (dst[1:] != dst[:-1]) | (longer[1:] != longer[:-1])
        end, number, reached = dst[first], longer[first], after[order][first]
    likeliest = sorted(costs, key=costs.__getitem__)[: options.max_spans]
    distinct = dict.fromkeys(sum((pronunciations[single] or () for single in span), ()) for span in likeliest)
    return [phones for phones in distinct if phones]
