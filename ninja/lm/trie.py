"""Score sentences together as a trie: each prefix is scored only once, even if sentences share it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ninja._core import WordTrie
from ninja.errors import ModelError, OptionError
from ninja.lm.protocol import FIRST_MARK, LanguageModel, are_prompts

__all__ = ["WordTrie", "score_by_levels", "score_trie", "sentence_logprobs", "word_logprobs"]

MAX_HISTORIES = 4096  # maximum number of histories advanced per call
MAX_SCORES = 65_536  # maximum number of scores computed per call

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
    """Score the word at every node of a trie, given the words at the node's ancestors.

    Models with `LanguageModel.scores_tries` score the trie in one pass. Other models score it level by level: each
    distinct history is advanced once, and its slot is released after its last child has been advanced. A level with
    more than `max_histories` histories is divided into pieces. Each piece and all its descendants are completed before
    the next piece, so at most `max_histories` slots are in use per level.

    Args:
        lm: The language model; all slots that this function creates are released.
        parent: Parent of each node, which precedes the node; -1 for children of ``<s>``; int32 [n].
        word: The model's word id at each node, int32 [n]; ``</s>`` only at leaves.
        max_histories: Maximum number of histories advanced per call, ≥ 1.
        on_call: Called before each batch of model calls.

    Returns:
        ln P(word | ``<s>``, words of the ancestors), float32 [n].

    Raises:
        OptionError: A node precedes its parent, the arrays differ in length, or a word id is out of range.
        ModelError: The model returns the wrong number of scores.
    """
    if parent.shape != word.shape or parent.ndim != 1:
        raise OptionError(f"parent has shape {parent.shape} and word {word.shape}; both must have shape [n]")
    if (late := np.flatnonzero(parent >= np.arange(parent.size))).size:
        raise OptionError(f"node {late[0]} precedes its parent {parent[late[0]]}; sort the trie")
    scored = word[word > FIRST_MARK] if lm.takes_phrases else word
    scored = scored[~are_prompts(scored)] if lm.takes_prompts else scored
    if (wrong := scored[(scored < 0) | (scored >= lm.end_of_ids)]).size:
        raise OptionError(f"the word id {wrong[0]} is not in the model's range [0, {lm.end_of_ids - 1}]")
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
    *,
    root: Int64s | None = None,
) -> npt.NDArray[np.float32]:
    """Score a trie level by level, even if the model scores tries in one pass; see `score_trie`.

    Args:
        root: Slot of the history before the trie, int64 [1]; the slot is released.  [default: ``<s>``]
    """
    return _Descent(lm, parent, word, max(1, max_histories), on_call or (lambda: None)).scores(root)


def below(parent: Int32s, root: npt.NDArray[np.integer]) -> list[tuple[int, Int64s, Int32s]]:
    """Divide a trie into the subtries with the given roots, and the remaining nodes.

    Args:
        parent: Parent of each node; see `score_trie`.
        root: Roots of the subtries, which have no parent, int [roots].

    Returns:
        A tuple (root, nodes, parents) for each root, and a last one, with the root -1, for the remaining nodes. The
        nodes, int64 [nodes], exclude the root; the parents, int32 [nodes], are the nodes' parents in the subtrie.
    """
    top = np.arange(parent.size)
    for node, above in enumerate(parent.tolist()):
        if above >= 0:
            top[node] = top[above]
    is_root = np.isin(np.arange(parent.size), root)
    tries = []
    for number in (*root.tolist(), -1):
        nodes = np.flatnonzero((top == number) & ~is_root if number >= 0 else ~np.isin(top, root))
        index = np.full(parent.size + 1, -1, np.int32)  # the last entry, index -1, is the root of the trie
        index[nodes] = np.arange(nodes.size)
        tries.append((number, nodes, index[parent[nodes]]))
    return tries


def sentence_logprobs(lm: LanguageModel, sentences: Sequence[Sequence[int]]) -> np.ndarray:
    """Score whole sentences in batches.

    Args:
        lm: The language model; all slots that this function creates are released.
        sentences: Model word ids of each sentence, without ``<s>`` and ``</s>``; sentences can be empty.

    Returns:
        Natural-log probabilities, including ``</s>``, float64 [sentences].

    Raises:
        OptionError: A word id is out of range.
        ModelError: The model can score only whole sentences.
    """
    return np.array([words.sum(dtype=np.float64) for words in word_logprobs(lm, sentences)], np.float64)


def word_logprobs(lm: LanguageModel, sentences: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """Compute the log-probability of each word in sentences; for arguments and errors, see `sentence_logprobs`.

    Returns:
        For each sentence, the natural-log probabilities of its words and of ``</s>``, float32 [words + 1].
    """
    if lm.whole_sentences:
        raise ModelError(
            "the model can score only whole sentences, not words; use a causal model or ninja rescore --algorithm nbest"
        )
    if not sentences:
        return []
    begin = np.cumsum([0, *(len(sentence) + 1 for sentence in sentences)])
    word = np.fromiter(itertools.chain.from_iterable((*sentence, lm.eos) for sentence in sentences), np.int32)
    trie = WordTrie()
    node = trie.add(word, begin)
    return np.split(score_trie(lm, trie.parent, trie.word)[node], begin[1:-1])


@dataclass(slots=True)
class _Histories:
    """Histories of trie nodes on one level, and the children of these nodes to which the histories are advanced."""

    slot: Int64s  # [histories]
    inner: Int64s  # children that have children themselves
    above: Int64s  # index in `slot` of the parent of each inner child
    entered: int = 0  # number of inner children that were advanced
    released: int = 0  # number of slots that were released


class _Descent:
    """Depth-first traversal of a trie, with a stack of histories.

    Each stack entry contains at most `max_histories` histories of one level; every slot in use is in exactly one entry.
    """

    def __init__(
        self, lm: LanguageModel, parent: Int32s, word: Int32s, max_histories: int, on_call: Callable[[], None]
    ) -> None:
        self.lm = lm
        self.word = word
        self.max_histories = max_histories
        self.on_call = on_call
        self.child = np.argsort(parent, kind="stable")  # the children of a node are adjacent in this order
        count = np.bincount(parent + 1, minlength=parent.size + 1)  # number of children of the root, then of each node
        self.begin = np.concatenate([[0], np.cumsum(count)])
        self.score = np.empty(parent.size, np.float32)
        self.stack: list[_Histories] = []

    def scores(self, root: Int64s | None) -> npt.NDArray[np.float32]:
        try:
            self._enter(np.array([-1]), self.lm.start(1) if root is None else root)
            while self.stack:
                self._advance()
        finally:
            for histories in self.stack:
                self.lm.release(histories.slot[histories.released :])
        return self.score

    def _enter(self, nodes: Int64s, slot: Int64s) -> None:
        """Score the children of nodes, given the nodes' histories `slot`, and push these histories onto the stack."""
        first, last = self.begin[nodes + 1], self.begin[nodes + 2]
        above = np.repeat(np.arange(nodes.size), last - first)
        index = np.arange(above.size) + (first - np.cumsum(last - first) + (last - first))[above]
        child = self.child[index]
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
        """Advance the histories at the top of the stack to their next children, at most `max_histories` per call."""
        top = self.stack[-1]
        batch = slice(top.entered, top.entered + self.max_histories)
        child, above = top.inner[batch], top.above[batch]
        top.entered += child.size
        if child.size:
            slot = self.lm.advance(top.slot[above], self.word[child])
            _check("advance", slot, child)
        # Children are sorted by parent, so slots before the parent of the next child are no longer needed.
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
        message = f"the model's {method} returned an array of shape {np.shape(result)}"
        raise ModelError(f"{message}, but must return shape {argument.shape}")
