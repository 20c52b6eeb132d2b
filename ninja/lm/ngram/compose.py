"""Exact composition of lattices with n-gram models: add one's cost, or take one's out, without any search."""

from __future__ import annotations

from typing import Literal, overload

import numpy as np
import numpy.typing as npt

from ninja import _lm
from ninja.errors import OptionError, VocabularyError
from ninja.lattice import Lattice
from ninja.lm.ngram.model import NgramLM
from ninja.lm.word_map import WordMap

MAX_ARCS = 10_000_000


@overload
def compose_ngram(
    lattice: Lattice,
    lm: NgramLM,
    scale: float = ...,
    *,
    word_map: WordMap | None = ...,
    max_arcs: int = ...,
    return_arc_map: Literal[False] = False,
) -> Lattice: ...
@overload
def compose_ngram(
    lattice: Lattice,
    lm: NgramLM,
    scale: float = ...,
    *,
    word_map: WordMap | None = ...,
    max_arcs: int = ...,
    return_arc_map: Literal[True],
) -> tuple[Lattice, npt.NDArray[np.int64]]: ...
def compose_ngram(
    lattice: Lattice,
    lm: NgramLM,
    scale: float = 1.0,
    *,
    word_map: WordMap | None = None,
    max_arcs: int = MAX_ARCS,
    return_arc_map: bool = False,
) -> Lattice | tuple[Lattice, npt.NDArray[np.int64]]:
    """Add the cost of an n-gram model to every path of a lattice.

    ``graph + scale * -ln p(word | history)`` on arcs, and the same for ``</s>`` on final states. States split where
    paths come with histories that the model tells apart; nothing is pruned, and no path is lost or made. With
    ``scale = -1`` and the model of the first pass, its share is taken out exactly.

    Args:
        lattice: Any lattice; epsilons leave the history alone.
        scale: Factor of its costs, finite.
        word_map: The model's words for the lattice's symbol table, made once for many lattices; None: made here. Its
            penalty for words the model lacks is part of the cost.
        max_arcs: Refuse if more arcs arise.
        return_arc_map: Return also the old arc of each new arc, int64 [num_arcs].

    Raises:
        LatticeError: The bound is passed.
        ModelError: The model gives a word probability zero, as a grammar may.
        OptionError: ``scale`` is not finite.
        SymbolError: A word id is not in the symbol table.
        VocabularyError: A word is unknown to a model without <unk>, or the lattice carries no symbol table.

    Source: Mohri, Pereira and Riley 2002, "Weighted finite-state transducers in speech recognition" (composition).
    """
    if not np.isfinite(scale):
        raise OptionError(f"scale is {scale}, but must be finite")
    if word_map is None:
        if lattice.words is None:
            raise VocabularyError("the lattice carries no symbol table", key=lattice.key)
        word_map = WordMap(lattice.words, lm)
    word, extra = word_map.of(lattice)
    composed, arc_map = _lm.compose_ngram(lattice, lm.model, word, extra, lm.eos, scale, max_arcs)
    return (composed, arc_map) if return_arc_map else composed
