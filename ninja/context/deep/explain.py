"""Scores of a pointer to phrases, for each arc of a lattice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.context.deep.context_lm import ContextLM
from ninja.context.deep.marks import Mark
from ninja.context.stage import Contextual
from ninja.errors import VocabularyError
from ninja.lattice import Lattice, Scales
from ninja.lm import LanguageModel
from ninja.log import Log
from ninja.rescoring.models import BoundModels
from ninja.rescoring.options import RescoreOptions

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Pointed:
    """Scores of arcs after the best path to each; NaN on arcs without a word, and where no path leads."""

    gain: Floats  # ln Q - ln P: what the list adds to the word's log-probability, [num_arcs]
    copied: Floats  # probability that the word is one of a phrase, [num_arcs]


def explained(lattice: Lattice, stage: Contextual, lm: LanguageModel, scales: Scales, log: Log) -> Pointed:
    """Score the arcs of a lattice with the context model and the phrases of a stage; see `pointed`.

    Raises:
        VocabularyError: The lattice has no symbol table, or words that the language model has no <unk> for.
        ModelError: The context model is for another language model.
    """
    if lattice.words is None:
        raise VocabularyError("the lattice carries no symbol table", key=lattice.key)
    lattice.words.complete()
    stage.bind(lattice.words, log)
    models = BoundModels(stage.over(lm), None, RescoreOptions())
    lm_word, _ = models.of(lattice)
    assert isinstance(models.lm, ContextLM)
    return pointed(lattice, models.lm, lm_word, stage.mark_of(lattice), scales)


def pointed(
    lattice: Lattice, lm: ContextLM, lm_word: npt.NDArray[np.int32], mark: Mark | None, scales: Scales
) -> Pointed:
    """Score the arcs of a lattice, each after the words of the best path to it.

    Args:
        lm_word: The model's word of each arc, int32 [num_arcs], -1 = none.
        mark: The utterance's phrases; None: no arc gains.
    """
    gain, copied = (np.full(lattice.num_arcs, np.nan, np.float32) for _ in range(2))
    cost = scales.acoustic * lattice.acoustic.astype(np.float64) + scales.lm * lattice.graph.astype(np.float64)
    reached = np.full(lattice.num_states, np.inf)
    reached[0] = 0.0
    before = np.full(lattice.num_states, -1)  # arc by which the best path comes
    src = lattice.src
    for arc, (one, other) in enumerate(zip(src.tolist(), lattice.dst.tolist(), strict=True)):
        if reached[one] + cost[arc] < reached[other]:
            reached[other], before[other] = reached[one] + cost[arc], arc
    slot = np.full(lattice.num_states, -1, np.int64)
    made = [lm.start(1)]
    if mark is not None:
        made.append(lm.advance(made[0], np.array([mark.number], np.int32)))
    slot[0] = made[-1][0]
    for state in range(lattice.num_states):
        arc = int(before[state])
        if arc >= 0 and lm_word[arc] < 0:
            slot[state] = slot[src[arc]]
        elif arc >= 0:
            made.append(lm.advance(slot[src[arc : arc + 1]], lm_word[arc : arc + 1]))
            slot[state] = made[-1][0]
    chosen = np.flatnonzero((lm_word >= 0) & (slot[src] >= 0))
    if len(chosen):
        of, word = slot[src[chosen]], lm_word[chosen]
        if mark is None:
            gain[chosen], copied[chosen] = 0.0, 0.0
        else:
            gain[chosen] = lm.logprob(of, word) - lm.below(of, word)
            copied[chosen] = lm.given(of, word)[1]
    lm.release(np.concatenate(made))
    return Pointed(gain, copied)
