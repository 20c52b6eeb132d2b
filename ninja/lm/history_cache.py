"""`HistoryCache`, a language model that remembers histories and scores across lattices."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ninja.errors import OptionError, check_range
from ninja.lm.mixture import Mixture
from ninja.lm.protocol import LanguageModel

REMAINDER = 0.75  # fraction of the capacity that remains when histories are dropped
Ints = npt.NDArray[np.int64]


class _History:
    """A history in the cache."""

    __slots__ = ("children", "num_references", "number", "parent", "scores", "slot", "used", "word")

    def __init__(self, number: int, slot: int, parent: _History | None, word: int) -> None:
        self.number = number  # the history's slot in the cache
        self.slot = slot  # the history's slot in the wrapped model
        self.parent = parent
        self.word = word
        self.children: dict[int, int] = {}  # number of each longer history, by the added word
        self.scores: dict[int, float] = {}  # natural-log probability of each scored word
        self.num_references = 0  # number of references held by callers
        self.used = 0  # number of the call in which the history was last used


class HistoryCache(LanguageModel):
    """A language model that computes each history and each score only once, even if many lattices need them.

    Released histories are kept until there are more than `capacity` histories; then the least recently used released
    histories are dropped.

    Args:
        lm: The model.
        capacity: Number of histories above which released histories are dropped, >= 1. Histories in use are never
            dropped.

    Raises:
        OptionError: The model scores only whole sentences, or its histories depend on phrase lists.
    """

    def __init__(self, lm: LanguageModel, capacity: int) -> None:
        check_range("capacity", capacity, least=1)
        if lm.takes_phrases:
            raise OptionError("a session cannot use a context model; boost the phrases instead")
        if lm.whole_sentences:
            raise OptionError(
                "a session cannot use a model that scores only whole sentences; use a model that scores words"
            )
        self.lm = lm
        self.capacity = capacity
        self.num_scores = 0  # number of scores computed by the wrapped model
        self._histories: dict[int, _History] = {}
        self._next = 0
        self._root: int | None = None
        self._call = 0
        self._take_attributes()

    def _take_attributes(self) -> None:
        lm = self.lm
        self.vocabulary, self.bos, self.eos = lm.vocabulary, lm.bos, lm.eos
        self.unk, self.unk_words, self.oov_score = lm.unk, lm.unk_words, lm.oov_score
        self.takes_oov_score, self.classes, self.open_vocabulary = lm.takes_oov_score, lm.classes, lm.open_vocabulary

    @property
    def end_of_ids(self) -> int:
        """See `LanguageModel.end_of_ids`."""
        return self.lm.end_of_ids

    @property
    def num_parameters(self) -> int | None:
        """See `LanguageModel.num_parameters`."""
        return self.lm.num_parameters

    @property
    def normalized(self) -> bool | None:
        """See `LanguageModel.normalized`."""
        return self.lm.normalized

    @property
    def empty(self) -> int | None:
        """See `LanguageModel.empty`."""
        return self.lm.empty

    @property
    def reads_written(self) -> bool:
        """See `LanguageModel.reads_written`."""
        return self.lm.reads_written

    @property
    def num_histories(self) -> int:
        """Number of histories in the cache."""
        return len(self._histories)

    def advice(self, words: Sequence[str]) -> str | None:
        """See `LanguageModel.advice`."""
        return self.lm.advice(words)

    def score_oovs(self, score: Any) -> None:
        """See `LanguageModel.score_oovs`."""
        self.lm.score_oovs(score)
        self._take_attributes()

    def start(self, count: int) -> Ints:
        """See `LanguageModel.start`."""
        if self._root is None:
            self._root = self._add(int(self.lm.start(1)[0]), None, -1)
        self._histories[self._root].num_references += count
        return np.full(count, self._root, np.int64)

    def advance(self, slots: np.ndarray, words: np.ndarray) -> Ints:
        """See `LanguageModel.advance`."""
        self._call += 1
        pairs = list(zip(slots.tolist(), words.tolist(), strict=True))
        new = dict.fromkeys(pair for pair in pairs if pair[1] not in self._histories[pair[0]].children)
        if new:
            sources = [self._histories[number] for number, _ in new]
            of_model = self.lm.advance(
                np.array([source.slot for source in sources], np.int64), np.array([word for _, word in new], np.int32)
            )
            for source, (_, word), slot in zip(sources, new, of_model.tolist(), strict=True):
                source.children[word] = self._add(slot, source, word)
        numbers = [self._histories[number].children[word] for number, word in pairs]
        for number in numbers:
            history = self._histories[number]
            history.num_references += 1
            history.used = self._call
        return np.array(numbers, np.int64)

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> npt.NDArray[np.float32]:
        """See `LanguageModel.logprob`."""
        self._call += 1
        pairs = [(self._histories[number], word) for number, word in zip(slots.tolist(), words.tolist(), strict=True)]
        new = dict.fromkeys(pair for pair in pairs if pair[1] not in pair[0].scores)
        if new:
            self.num_scores += len(new)
            scores = self.lm.logprob(
                np.array([history.slot for history, _ in new], np.int64), np.array([word for _, word in new], np.int32)
            )
            for (history, word), score in zip(new, scores.tolist(), strict=True):
                history.scores[word] = score
        for history, _ in pairs:
            history.used = self._call
        return np.array([history.scores[word] for history, word in pairs], np.float32)

    def release(self, slots: np.ndarray) -> None:
        """See `LanguageModel.release`."""
        for number in slots.tolist():
            self._histories[number].num_references -= 1
        if len(self._histories) > self.capacity:
            self._drop()

    def _add(self, slot: int, parent: _History | None, word: int) -> int:
        number, self._next = self._next, self._next + 1
        self._histories[number] = _History(number, slot, parent, word)
        return number

    def _drop(self) -> None:
        """Drop released histories, least recently used first; longer histories are dropped before their prefixes."""
        least = int(REMAINDER * self.capacity)
        unused = [
            (history.used, number)
            for number, history in self._histories.items()
            if not history.children and not history.num_references and number != self._root
        ]
        heapq.heapify(unused)
        slots = []
        while unused and len(self._histories) > least:
            _, number = heapq.heappop(unused)
            history = self._histories.pop(number)
            slots.append(history.slot)
            parent = history.parent
            assert parent is not None
            del parent.children[history.word]
            if not parent.children and not parent.num_references and parent.number != self._root:
                heapq.heappush(unused, (parent.used, parent.number))
        self.lm.release(np.array(slots, np.int64))


def cached(model: LanguageModel | Mixture | None, capacity: int) -> LanguageModel | Mixture | None:
    """Wrap a model, or each model of a mixture, in a `HistoryCache`; None is returned unchanged.

    If a model has a twin (see `LanguageModel.twin`), the twin is wrapped instead of the model.
    """
    if isinstance(model, Mixture):
        parts = tuple((cached(part, capacity), weight) for part, weight in model.models)
        return replace(model, models=parts)  # type: ignore[arg-type]
    return None if model is None else HistoryCache(model.twin() or model, capacity)
