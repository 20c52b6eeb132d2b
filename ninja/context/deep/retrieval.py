"""Retrieval: of thousands of phrases, those that sound like spans of a lattice, by the vectors of an encoder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ninja.context.deep.index import EXACT, PhraseIndex, Vectors
from ninja.context.deep.kept_vectors import KeptVectors
from ninja.context.deep.retrieval_options import RetrievalOptions
from ninja.context.sound.pronunciation import Phones
from ninja.graph.posteriors import forward_backward
from ninja.lattice import Lattice, Scales


class Encoder(Protocol):
    """Encoder of phrases as vectors."""

    def vectors(self, texts: Sequence[str], phones: Sequence[Phones]) -> Vectors:
        """Return vectors of phrases, of length 1 or, where nothing is known of one, 0; float32 [phrases, size]."""

    def unknown_letters(self, texts: Iterable[str]) -> Counter[str]:
        """Count the letters of texts that the encoder does not know."""


class Retriever:
    """Finds the phrases of a list that sound like some span of a lattice; vectors are kept."""

    def __init__(self, encoder: Encoder, options: RetrievalOptions | None = None) -> None:
        self.encoder = encoder
        self.options = options or RetrievalOptions()
        self._kept = KeptVectors()

    def spans(
        self,
        lattice: Lattice,
        unit: npt.NDArray[np.int32],
        sounds: Sequence[Phones | None],
        acoustic_scale: float,
    ) -> list[Phones]:
        """Return the phones of a lattice's likely spans, see `spans_of`."""
        return spans_of(lattice, unit, sounds, acoustic_scale, self.options)

    def index(self, texts: Sequence[str], phones: Sequence[Phones]) -> PhraseIndex:
        """Return an index of phrases; vectors of a list too long to be compared whole are not kept."""
        return PhraseIndex((self.encoder.vectors if len(texts) > EXACT else self.vectors)(texts, phones))

    def nearest(self, spans: Sequence[Phones], phrases: PhraseIndex) -> npt.NDArray[np.int64]:
        """Return the phrases most like any of the spans, in their order; at most `RetrievalOptions.phrases`."""
        return phrases.nearest(self.vectors([""] * len(spans), spans), self.options.phrases)

    def vectors(self, texts: Sequence[str], phones: Sequence[Phones]) -> Vectors:
        """Return the vectors of phrases, or of spans, whose texts are ""; each is encoded once."""
        if not texts:
            return np.zeros((0, 0), np.float32)

        def made(places: list[int]) -> Vectors:
            return self.encoder.vectors([texts[place] for place in places], [phones[place] for place in places])

        return self._kept.of(list(zip(texts, phones, strict=True)), made)


def spans_of(
    lattice: Lattice,
    unit: npt.NDArray[np.int32],
    sounds: Sequence[Phones | None],
    acoustic_scale: float,
    options: RetrievalOptions,
) -> list[Phones]:
    """Return the distinct sounds of a lattice's likely spans of a few words, the likeliest first.

    Args:
        unit: What each arc carries, int32 [num_arcs].
        sounds: Phones of each unit; None: no span runs across it.
    """
    both = forward_backward(lattice, Scales(acoustic=acoustic_scale))
    cost = lattice.graph.astype(np.float64) + acoustic_scale * lattice.acoustic.astype(np.float64)
    posterior = both.alpha[lattice.src] + cost + both.beta[lattice.dst] - both.total
    passes = np.array([each is not None for each in sounds], np.bool_)[unit] & (posterior <= options.beam)
    arcs = np.flatnonzero(passes)
    if not len(arcs):
        return []
    begin = np.searchsorted(lattice.src[arcs], np.arange(lattice.num_states + 1))
    num_units = len(sounds)
    end, sequence = lattice.dst[arcs].astype(np.int64), unit[arcs].astype(np.int64)
    reached = both.alpha[lattice.src[arcs]] + cost[arcs]
    members: list[tuple[int, ...]] = [(each,) for each in range(num_units)]
    best = np.full(num_units, np.inf)
    np.minimum.at(best, sequence, reached + both.beta[end] - both.total)
    found: dict[tuple[int, ...], float] = {(each,): best[each] for each in np.unique(sequence).tolist()}
    for _ in range(options.max_words - 1):
        count = begin[end + 1] - begin[end]
        which = np.repeat(np.arange(len(end)), count)
        arc = arcs[np.repeat(begin[end] - np.cumsum(count) + count, count) + np.arange(int(count.sum()))]
        after = reached[which] + cost[arc]
        whole = after + both.beta[lattice.dst[arc]] - both.total
        kept = whole <= options.beam
        which, arc, after, whole = which[kept], arc[kept], after[kept], whole[kept]
        if not len(arc):
            break
        key, number = np.unique(sequence[which] * num_units + unit[arc], return_inverse=True)
        members = [(*members[each // num_units], each % num_units) for each in key.tolist()]
        best = np.full(len(key), np.inf)
        np.minimum.at(best, number, whole)
        found.update(zip(members, best.tolist(), strict=True))
        # Of equal sequences to a state the likeliest goes on.
        order = np.lexsort((after, number, lattice.dst[arc]))
        dst, number = lattice.dst[arc][order].astype(np.int64), number[order]
        first = np.ones(len(order), np.bool_)
        first[1:] = (dst[1:] != dst[:-1]) | (number[1:] != number[:-1])
        end, sequence, reached = dst[first], number[first], after[order][first]
    chosen = sorted(found, key=found.__getitem__)[: options.max_spans]
    distinct = dict.fromkeys(sum((sounds[one] or () for one in each), ()) for each in chosen)
    return [phones for phones in distinct if phones]
