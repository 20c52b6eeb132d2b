"""Exact composition of lattices with n-gram models, to add or subtract the models' costs."""

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

    The graph cost of an arc becomes ``graph + scale * -ln p(word | history)``; the cost of ``</s>`` is added to final
    costs. States are split by model state; the set of paths does not change. ``scale = -1`` with the first-pass model
    subtracts that model's cost exactly.

    Args:
        lattice: Any lattice; epsilons do not change the history.
        lm: The n-gram model.
        scale: Factor by which the model's costs are multiplied; must be finite.
        word_map: Map from the lattice's symbol table to the model's words. The map can be reused for other lattices;
            its penalty for unknown words is added to the cost.  [default: create a map]
        max_arcs: Maximum number of arcs in the result.
        return_arc_map: Also return the input arc of each output arc, int64 [num_arcs].

    Raises:
        LatticeError: The result exceeds `max_arcs`.
        ModelError: The model assigns probability zero to a word, as a grammar can.
        OptionError: ``scale`` is not finite, or ``lm`` is not an n-gram model.
        SymbolError: A word id is not in the symbol table.
        VocabularyError: A word is unknown to a model without <unk>, or the lattice has no symbol table.

    Source: Mohri, Pereira and Riley 2002, "Weighted finite-state transducers in speech recognition" (composition).
    """
    if not isinstance(lm, NgramLM):
        raise OptionError(f"{lm!r:.60} is not an n-gram model; only these can be composed")
    if not np.isfinite(scale):
        raise OptionError(f"scale is {scale}, but must be finite")
    if word_map is None:
        if lattice.words is None:
            raise VocabularyError(
                "the lattice has no symbol table; attach its words.txt with Lattice.with_words", key=lattice.key
            )
        word_map = WordMap(lattice.words, lm)
    word, extra = word_map.of(lattice)
    composed, arc_map = _lm.compose_ngram(lattice, lm.model, word, extra, lm.eos, scale, max_arcs)
    return (composed, arc_map) if return_arc_map else composed
