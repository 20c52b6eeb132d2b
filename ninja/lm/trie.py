"""Scoring many sentences at once: their common beginnings are scored once, as the nodes of a trie."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ninja._core import WordTrie
from ninja.errors import ModelError, OptionError
from ninja.lm.protocol import FIRST_MARK, LanguageModel

__all__ = ["WordTrie", "score_by_levels", "score_trie", "sentence_logprobs", "word_logprobs"]

MAX_HISTORIES = 4096  # whose states are made in one call
MAX_SCORES = 65_536  # computed in one call

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


def score_trie(
    lm: LanguageModel,
    parent: Int32s,
    word: Int32s,
    *,
    max_histories: int = MAX_HISTORIES,
    on_call: Callable[[], None] | None = None,
) -> npt.NDArray[np.float32]:
    """Score every node of a trie: the word it ends with, after the words that lead to it.

    A model that scores whole tries in one pass (`LanguageModel.scores_tries`) does so. Any other goes through the trie
    level by level: each distinct history is advanced once, and its slot given back when its last child has its own.
    A level of more than `max_histories` histories is cut, and what hangs on one piece is done before the next, so that
    at most `max_histories` slots are in use for each level of the trie.

    Args:
        lm: The language model; it holds no more slots afterwards than before.
        parent: Node before each node, int32 [n], -1 = directly after ``<s>``; parents come before their children.
        word: The model's id of each node's word, int32 [n]; ``</s>`` may stand at leaves.
        max_histories: Most histories made by one call, ≥ 1.
        on_call: Called for each round of questions to the model.

    Returns:
        ln P(word | ``<s>``, words of the nodes above), float32 [n].

    Raises:
        OptionError: A node comes before its parent, the arrays differ in length, or a word is none of the model's.
        ModelError: The model returns fewer scores than requested.
    """
    if parent.shape != word.shape or parent.ndim != 1:
        raise OptionError(f"parent has shape {parent.shape}, but word {word.shape}; one of each per node is needed")
    if (late := np.flatnonzero(parent >= np.arange(parent.size))).size:
        raise OptionError(f"node {late[0]} comes before its parent {parent[late[0]]}; sort the trie")
    asked = word[word > FIRST_MARK] if lm.takes_phrases else word
    if asked.size and (asked.min() < 0 or asked.max() >= len(lm.vocabulary)):
        raise OptionError(f"a word id is outside the model's 0 … {len(lm.vocabulary) - 1}")
    if not parent.size:
        return np.empty(0, np.float32)
    if not lm.scores_tries:
        return score_by_levels(lm, parent, word, max_histories, on_call)
    if on_call is not None:
        on_call()
    score = lm.score_trie(parent, word)
    _check("score_trie", score, parent)
    return score


def score_by_levels(
    lm: LanguageModel,
    parent: Int32s,
    word: Int32s,
    max_histories: int = MAX_HISTORIES,
    on_call: Callable[[], None] | None = None,
) -> npt.NDArray[np.float32]:
    """Score a trie as `score_trie` does, but word by word even with a model that could read it in one pass."""
    return _Descent(lm, parent, word, max(1, max_histories), on_call or (lambda: None)).scores()


def sentence_logprobs(lm: LanguageModel, sentences: Sequence[Sequence[int]]) -> np.ndarray:
    """Score whole sentences, all side by side.

    Args:
        lm: The language model; it holds no more slots afterwards than before.
        sentences: Model word ids of each, without ``<s>`` and ``</s>``; an empty sentence is allowed.

    Returns:
        Natural-log probabilities, ``</s>`` included, float64 [sentences].

    Raises:
        OptionError: A word id is not one of the model's.
    """
    return np.array([each.sum(dtype=np.float64) for each in word_logprobs(lm, sentences)], np.float64)


def word_logprobs(lm: LanguageModel, sentences: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """Score each word of some sentences, all side by side, as `sentence_logprobs` does.

    Returns:
        Natural-log probabilities of each sentence's words and last of ``</s>``, float32 [words + 1] each.
    """
    if lm.whole_sentences:
        raise ModelError("a model of whole sentences scores no words; use it with nbest, and not in a mixture")
    if not sentences:
        return []
    begin = np.cumsum([0, *(len(sentence) + 1 for sentence in sentences)])
    word = np.fromiter(itertools.chain.from_iterable((*sentence, lm.eos) for sentence in sentences), np.int32)
    trie = WordTrie()
    node = trie.add(word, begin)
    return np.split(score_trie(lm, trie.parent, trie.word)[node], begin[1:-1])


@dataclass(slots=True)
class _Histories:
    """Neighbours on a level whose states the model holds, and their children that are still to be entered."""

    slot: Int64s  # [histories]
    inner: Int64s  # children that have children themselves
    above: Int64s  # place of each of these's parent in `slot`
    entered: int = 0  # of `inner`
    released: int = 0  # of `slot`


class _Descent:
    """Depth first over pieces of levels; every slot in use is in exactly one entry of the stack."""

    def __init__(
        self, lm: LanguageModel, parent: Int32s, word: Int32s, max_histories: int, on_call: Callable[[], None]
    ) -> None:
        self.lm = lm
        self.word = word
        self.max_histories = max_histories
        self.on_call = on_call
        self.child = np.argsort(parent, kind="stable")  # children of a node stand together
        count = np.bincount(parent + 1, minlength=parent.size + 1)  # of the root, then of each node
        self.begin = np.concatenate([[0], np.cumsum(count)])
        self.score = np.empty(parent.size, np.float32)
        self.stack: list[_Histories] = []

    def scores(self) -> npt.NDArray[np.float32]:
        try:
            self._enter(np.array([-1]), self.lm.start(1))
            while self.stack:
                self._go_on()
        finally:
            for left in self.stack:
                self.lm.release(left.slot[left.released :])
        return self.score

    def _enter(self, nodes: Int64s, slot: Int64s) -> None:
        """Score all words after some histories."""
        first, last = self.begin[nodes + 1], self.begin[nodes + 2]
        above = np.repeat(np.arange(nodes.size), last - first)
        place = np.arange(above.size) + (first - np.cumsum(last - first) + (last - first))[above]
        child = self.child[place]
        has_children = self.begin[child + 2] > self.begin[child + 1]
        self.stack.append(_Histories(slot, child[has_children], above[has_children]))
        self.on_call()
        for begin in range(0, child.size, MAX_SCORES):
            some = slice(begin, begin + MAX_SCORES)
            asked = slot[above[some]]
            answer = self.lm.logprob(asked, self.word[child[some]])
            _check("logprob", answer, asked)
            self.score[child[some]] = answer

    def _go_on(self) -> None:
        """Enter the next children of the histories on top of the stack."""
        top = self.stack[-1]
        some = slice(top.entered, top.entered + self.max_histories)
        child, above = top.inner[some], top.above[some]
        top.entered += child.size
        if child.size:
            made = self.lm.advance(top.slot[above], self.word[child])
            _check("advance", made, child)
        # Children stand in their parents' order: what lies before the next child's parent is needed no more.
        needed = int(top.above[top.entered]) if top.entered < top.inner.size else top.slot.size
        if needed > top.released:
            self.lm.release(top.slot[top.released : needed])
            top.released = needed
        if top.entered == top.inner.size:
            self.stack.pop()
        if child.size:
            self._enter(child, made)


def _check(method: str, answer: npt.NDArray[Any], asked: npt.NDArray[Any]) -> None:
    if np.shape(answer) != asked.shape:
        raise ModelError(f"the model's {method} gave shape {np.shape(answer)} for a batch of {asked.size}")
