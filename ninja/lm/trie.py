"""Score many sentences at once, as a trie in which common prefixes are scored once."""

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

MAX_HISTORIES = 4096  # advanced in one call
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
    """Score every node of a trie: its word after the words of its ancestors.

    Models with `LanguageModel.scores_tries` score it in one pass. Others score it level by level: each distinct history
    is advanced once, and its slot is released after its last child is advanced. A level of more than `max_histories`
    histories is cut into pieces that are finished one after the other, descendants included, so that at most
    `max_histories` slots are in use for each level of the trie.

    Args:
        lm: The language model; it holds no more slots afterwards than before.
        parent: Parent of each node, int32 [n], -1 = child of ``<s>``; parents precede their children.
        word: The model's id of each node's word, int32 [n]; ``</s>`` only at leaves.
        max_histories: Most histories advanced in one call, ≥ 1.
        on_call: Called before each batch of model calls.

    Returns:
        ln P(word | ``<s>``, words of the nodes above), float32 [n].

    Raises:
        OptionError: A node precedes its parent, the arrays differ in length, or a word id is not one of the model's.
        ModelError: The model returns fewer scores than requested.
    """
    if parent.shape != word.shape or parent.ndim != 1:
        raise OptionError(f"parent has shape {parent.shape}, but word {word.shape}; one of each per node is needed")
    if (late := np.flatnonzero(parent >= np.arange(parent.size))).size:
        raise OptionError(f"node {late[0]} precedes its parent {parent[late[0]]}; sort the trie")
    scored = word[word > FIRST_MARK] if lm.takes_phrases else word
    if scored.size and (scored.min() < 0 or scored.max() >= lm.end_of_ids):
        raise OptionError(f"a word id is outside the model's 0 … {lm.end_of_ids - 1}")
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
    """Score a trie as `score_trie` does, but always level by level."""
    return _Descent(lm, parent, word, max(1, max_histories), on_call or (lambda: None)).scores()


def sentence_logprobs(lm: LanguageModel, sentences: Sequence[Sequence[int]]) -> np.ndarray:
    """Score whole sentences in batches.

    Args:
        lm: The language model; it holds no more slots afterwards than before.
        sentences: Model word ids of each sentence, without ``<s>`` and ``</s>``; may be empty.

    Returns:
        Natural-log probabilities, ``</s>`` included, float64 [sentences].

    Raises:
        OptionError: A word id is not one of the model's.
    """
    return np.array([words.sum(dtype=np.float64) for words in word_logprobs(lm, sentences)], np.float64)


def word_logprobs(lm: LanguageModel, sentences: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """Score each word of sentences, as `sentence_logprobs` does.

    Returns:
        Natural-log probabilities of each sentence's words and ``</s>``, float32 [words + 1] each.
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
    """Histories of a level whose slots are in use, and their children that are yet to be advanced."""

    slot: Int64s  # [histories]
    inner: Int64s  # children that have children
    above: Int64s  # index in `slot` of the parent of each
    entered: int = 0  # number of `inner` advanced
    released: int = 0  # number of `slot` released


class _Descent:
    """Depth-first traversal by pieces of levels; every slot in use is in exactly one entry of the stack."""

    def __init__(
        self, lm: LanguageModel, parent: Int32s, word: Int32s, max_histories: int, on_call: Callable[[], None]
    ) -> None:
        self.lm = lm
        self.word = word
        self.max_histories = max_histories
        self.on_call = on_call
        self.child = np.argsort(parent, kind="stable")  # children of a node are adjacent
        count = np.bincount(parent + 1, minlength=parent.size + 1)  # of the root, then of each node
        self.begin = np.concatenate([[0], np.cumsum(count)])
        self.score = np.empty(parent.size, np.float32)
        self.stack: list[_Histories] = []

    def scores(self) -> npt.NDArray[np.float32]:
        try:
            self._enter(np.array([-1]), self.lm.start(1))
            while self.stack:
                self._advance()
        finally:
            for histories in self.stack:
                self.lm.release(histories.slot[histories.released :])
        return self.score

    def _enter(self, nodes: Int64s, slot: Int64s) -> None:
        """Score all words after histories, and push these on the stack."""
        first, last = self.begin[nodes + 1], self.begin[nodes + 2]
        above = np.repeat(np.arange(nodes.size), last - first)
        place = np.arange(above.size) + (first - np.cumsum(last - first) + (last - first))[above]
        child = self.child[place]
        has_children = self.begin[child + 2] > self.begin[child + 1]
        self.stack.append(_Histories(slot, child[has_children], above[has_children]))
        self.on_call()
        for begin in range(0, child.size, MAX_SCORES):
            batch = slice(begin, begin + MAX_SCORES)
            histories = slot[above[batch]]
            score = self.lm.logprob(histories, self.word[child[batch]])
            _check("logprob", score, histories)
            self.score[child[batch]] = score

    def _advance(self) -> None:
        """Advance the next children of the histories on top of the stack."""
        top = self.stack[-1]
        batch = slice(top.entered, top.entered + self.max_histories)
        child, above = top.inner[batch], top.above[batch]
        top.entered += child.size
        if child.size:
            slot = self.lm.advance(top.slot[above], self.word[child])
            _check("advance", slot, child)
        # Children are in the order of their parents, so slots before the next child's parent are finished.
        needed = int(top.above[top.entered]) if top.entered < top.inner.size else top.slot.size
        if needed > top.released:
            self.lm.release(top.slot[top.released : needed])
            top.released = needed
        if top.entered == top.inner.size:
            self.stack.pop()
        if child.size:
            self._enter(child, slot)


def _check(method: str, result: npt.NDArray[Any], argument: npt.NDArray[Any]) -> None:
    if np.shape(result) != argument.shape:
        raise ModelError(f"the model's {method} returned shape {np.shape(result)} for a batch of {argument.size}")
