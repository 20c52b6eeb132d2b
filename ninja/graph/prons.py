"""Pronunciations: the phones behind the words of a single path."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.graph.best_path import best_path
from ninja.lattice import Lattice
from ninja.lattice.transition_model import TransitionModel


@dataclass(frozen=True, slots=True)
class Pronunciation:
    """An arc of a path: its word, and its phones with their lengths."""

    word: int  # 0: none, a silence mostly
    begin: int  # frame
    phones: tuple[int, ...]
    lengths: tuple[int, ...]  # frames of each phone


def pronunciations(lattice: Lattice, model: TransitionModel) -> list[Pronunciation]:
    """Read the phones off the best path of a word-aligned lattice, arc by arc.

    Raises:
        LatticeError: No path leads from the start to a final state, or a label is no transition id of the model.

    Source: Kaldi, latbin/nbest-to-prons.cc; hmm/hmm-utils.cc, SplitToPhones.
    """
    model.check(lattice)
    found, time = [], 0
    for arc in best_path(lattice).arcs.tolist():
        labels = lattice.ali[lattice.ali_begin[arc] : lattice.ali_begin[arc + 1]]
        ends = _phone_ends(labels, model)
        phones = tuple(model.phone[labels[[0, *ends[:-1]]]].tolist()) if labels.size else ()
        lengths = tuple(np.diff([0, *ends]).tolist()) if labels.size else ()
        found.append(Pronunciation(int(lattice.word[arc]), time, phones, lengths))
        time += labels.size
    return found


def _phone_ends(labels: npt.NDArray[np.int32], model: TransitionModel) -> list[int]:
    """Return where each phone ends: behind its final transition, and the self-loops that may follow that."""
    reordered = _is_reordered(labels, model)
    ends = []
    at = 0
    while at < labels.size:
        last = at + 1 == labels.size
        if model.is_final[labels[at]]:
            while reordered and at + 1 < labels.size and model.is_self_loop[labels[at + 1]]:
                at += 1
            ends.append(at + 1)
        elif last or model.phone[labels[at]] != model.phone[labels[at + 1]]:
            ends.append(at + 1)  # a phone broken off, as in lattices that are not aligned
        at += 1
    return ends


def _is_reordered(labels: npt.NDArray[np.int32], model: TransitionModel) -> bool:
    """Tell whether self-loops follow the transition out of their state, as Kaldi's graphs mostly have it."""
    state, loop = model.transition_state[labels], model.is_self_loop[labels]
    for at in np.flatnonzero(np.diff(state)).tolist():
        if loop[at] or loop[at + 1]:
            return bool(loop[at])
    return bool(labels.size and not loop[0] and loop[-1])
