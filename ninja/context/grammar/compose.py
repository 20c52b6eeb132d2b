"""Composition of lattices with the contextual grammar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, overload

import numpy as np
import numpy.typing as npt

from ninja.context.entities.lists import PhraseList
from ninja.context.grammar.tracker import Tracker
from ninja.lattice import Lattice


@overload
def add_context(
    lattice: Lattice, tracker: Tracker, lists: Sequence[PhraseList] = ..., *, return_arc_map: Literal[False] = False
) -> Lattice: ...
@overload
def add_context(
    lattice: Lattice, tracker: Tracker, lists: Sequence[PhraseList] = ..., *, return_arc_map: Literal[True]
) -> tuple[Lattice, npt.NDArray[np.int64]]: ...
def add_context(
    lattice: Lattice, tracker: Tracker, lists: Sequence[PhraseList] = (), *, return_arc_map: bool = False
) -> Lattice | tuple[Lattice, npt.NDArray[np.int64]]:
    """Give every path of a lattice the score of the contextual grammar.

    States split where the grammar tells histories apart; no path is lost or made. With the ``gain`` of each word by
    `Tracker.advance`, graph costs become

        graph − gain                          with an old language model, or with no class model
        (1 − class_weight) · graph − gain        with a class model alone

    Args:
        lattice: Any lattice; epsilons leave histories alone.
        tracker: The grammar; what it followed before is forgotten.
        lists: The phrases of the utterance.
        return_arc_map: Return also the old arc of each new arc, int64 [num_arcs].

    Returns:
        The expanded lattice; acoustic costs and alignments are as before. States that cannot be reached are left out.

    Raises:
        LatticeError: More than ``max_arcs`` arcs arise.
        ModelError: A model gives a word probability zero.
        SymbolError: A word id is not in the symbol table.
        VocabularyError: A word is unknown to a model without <unk>.

    Source: Chen, Jain, Wang, Seltzer and Fuegen 2018, arXiv:1812.02142 (token passing, class and keyword boosts; there
    in the beam search of an end-to-end model).
    """
    tracker.clear()
    composed, arc_map = tracker.compose(lattice, tracker.start(lists))
    return (composed, arc_map) if return_arc_map else composed
