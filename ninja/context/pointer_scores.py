"""Scores of a context model for the arcs of a lattice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.context.deep.context_lm import ContextLM
from ninja.context.deep.phrase_list_ids import PhraseSet
from ninja.context.stage import Contextual
from ninja.errors import Log, VocabularyError
from ninja.lattice import Lattice, Scales
from ninja.lm import LanguageModel
from ninja.lm.lexical import with_lexical_forms
from ninja.rescoring.algorithms import RescoreOptions
from ninja.rescoring.models import BoundModels

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class PointerScores:
    """Scores of arcs given the words on the best path to each arc; NaN for unreachable arcs and arcs without words."""

    gain: Floats  # ln Q - ln P, the change of the word's log-probability due to the phrases, [num_arcs]
    copied: Floats  # probability that the word belongs to a phrase, [num_arcs]


def pointer_scores(lattice: Lattice, stage: Contextual, lm: LanguageModel, scales: Scales, log: Log) -> PointerScores:
    """Score the arcs of a lattice with a stage's context model and phrases.

    Args:
        lattice: A lattice with a symbol table.
        stage: A stage with a context model.
        lm: The language model that the context model was trained for.
        scales: Scales of the costs that determine the best path to each arc.
        log: Log that receives the notes.

    Raises:
        VocabularyError: The lattice has no symbol table, or a word is unknown to a language model without <unk>.
        ModelError: The context model was trained for another language model.
    """
    if lattice.words is None:
        raise VocabularyError(
            "the lattice has no symbol table; specify the words.txt with which it was created", key=lattice.key
        )
    lattice.words.complete()
    stage.bind(lattice.words, log)
    assert stage.forms is not None
    read_lm = lm if stage.forms.are_identical else with_lexical_forms(lm, stage.forms)
    models = BoundModels(stage.over(read_lm), None, RescoreOptions())
    lm_word, _ = models.of(lattice)
    assert isinstance(models.lm, ContextLM)
    return score_arcs(lattice, models.lm, lm_word, stage.phrases_of(lattice), scales)


def score_arcs(
    lattice: Lattice, lm: ContextLM, lm_word: npt.NDArray[np.int32], phrases: PhraseSet | None, scales: Scales
) -> PointerScores:
    """Score the arcs of a lattice, using the words of the best path to each arc as history.

    Args:
        lattice: The lattice.
        lm: The combined model.
        lm_word: The model's word id of each arc, or -1 for arcs without a word, int32 [num_arcs].
        phrases: Phrases of the utterance; if this is None, all gains are 0.
        scales: Scales of the costs that determine the best paths.
    """
    gain, copied = (np.full(lattice.num_arcs, np.nan, np.float32) for _ in range(2))
    src, best_in = lattice.src, _best_arcs(lattice, scales)
    origin = np.arange(lattice.num_states)  # first state of the best path that has the same history
    length = np.zeros(lattice.num_states, np.int64)  # number of words in the history
    states_of: dict[int, list[int]] = {}  # by the length of the history, in increasing order
    for state, arc in enumerate(best_in):
        if arc >= 0 and lm_word[arc] < 0:
            origin[state] = origin[src[arc]]
        elif arc >= 0:
            length[state] = length[origin[src[arc]]] + 1
            states_of.setdefault(int(length[state]), []).append(state)
    slot = np.full(lattice.num_states, -1, np.int64)
    slots = [lm.start(1)]
    if phrases is not None:
        slots.append(lm.advance(slots[0], np.array([phrases.number], np.int32)))
    slot[0] = slots[-1][0]
    for states in states_of.values():
        arcs = np.array([best_in[state] for state in states])
        slots.append(lm.advance(slot[origin[src[arcs]]], lm_word[arcs]))
        slot[states] = slots[-1]
    slot = slot[origin]
    scored = np.flatnonzero((lm_word >= 0) & (slot[src] >= 0))
    if phrases is None:
        gain[scored], copied[scored] = 0.0, 0.0
    elif len(scored):
        before, word = slot[src[scored]], lm_word[scored]
        gain[scored] = lm.logprob(before, word) - lm.below(before, word)
        copied[scored] = lm.with_copy_probability(before, word)[1]
    lm.release(np.concatenate(slots))
    return PointerScores(gain, copied)


def _best_arcs(lattice: Lattice, scales: Scales) -> list[int]:
    """Return the last arc of the best path to each state, -1 for the start and for unreachable states."""
    cost = scales.acoustic * lattice.acoustic.astype(np.float64) + scales.lm * lattice.graph.astype(np.float64)
    reached = [0.0, *[np.inf] * (lattice.num_states - 1)]
    best_in = [-1] * lattice.num_states
    for arc, (start, end, arc_cost) in enumerate(
        zip(lattice.src.tolist(), lattice.dst.tolist(), cost.tolist(), strict=True)
    ):
        if reached[start] + arc_cost < reached[end]:
            reached[end], best_in[end] = reached[start] + arc_cost, arc
    return best_in
