"""Mix language models with different vocabularies, word by word, log-linearly or linearly."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from ninja.errors import ModelError, OptionError
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.lm.protocol import FIRST_MARK, FIRST_PROMPT, LanguageModel, SlotPool, are_prompts
from ninja.lm.trie import below, score_by_levels, score_trie
from ninja.lm.word_map import BOS, EOS, NO_WORD, WordMap, WordMapping, complete

How = Literal["loglinear", "linear"]

SUM_TOLERANCE = 1e-6  # maximum difference of the sum of linear weights from 1


@dataclass(frozen=True, slots=True)
class Mixture:
    """Models to mix, and their weights; `over` creates a language model for the words of lattices.

        loglinear   Σ wᵢ ln pᵢ(word | history)     weights of any sign; a negative weight subtracts a model
        linear      ln Σ wᵢ pᵢ(word | history)     positive weights that sum to 1

    Mixtures can be nested: ``Mixture([(Mixture([(a, .7), (b, .3)], "linear"), 1), (old, -1)])``.
    """

    models: Sequence[tuple[LanguageModel | Mixture, float]]
    how: How = "loglinear"
    names: Sequence[str] = ()  # name of each model, for messages; an inner mixture contains the names of its models

    def __post_init__(self) -> None:
        """Validate the weights."""
        weights = [weight for _, weight in self.models]
        if self.how not in get_args(How):
            raise OptionError(f"how is {self.how!r}, but must be one of {', '.join(get_args(How))}")
        if not weights:
            raise OptionError("the mixture contains no models; specify at least one model")
        if self.names and len(self.names) != len(weights):
            raise OptionError(
                f"there are {len(self.names)} names for {len(weights)} models; specify one name per model"
            )
        if not all(map(math.isfinite, weights)):
            raise OptionError(f"the weights are {weights}, but must be finite")
        if self.how == "linear" and (min(weights) <= 0 or abs(sum(weights) - 1) > SUM_TOLERANCE):
            raise OptionError(f"linear weights must be positive and sum to 1, but are {weights}")

    def over(
        self, words: SymbolTable, unk_penalty: float | None = None, map_words: Collection[WordMapping] = ()
    ) -> MixtureLM:
        """Create a language model over the words of a symbol table; see `MixtureLM`."""
        return MixtureLM(self, words, unk_penalty, map_words)

    def name(self, index: int) -> str:
        """Return the name of a model for messages."""
        return self.names[index] if self.names else f"language model {index + 1}"

    def named_models(self) -> Iterator[tuple[str, LanguageModel]]:
        """Yield the name and the model of each part with a nonzero weight, including the parts of inner mixtures."""
        for index, (model, weight) in enumerate(self.models):
            if weight and isinstance(model, Mixture):
                yield from model.named_models()
            elif weight:
                yield self.name(index), model  # type: ignore[misc]


@dataclass(slots=True)
class _Part:
    """A model in a mixture."""

    lm: LanguageModel
    weight: float
    map: WordMap  # map from the mixture's words to the model's words
    word: npt.NDArray[np.int32]  # the model's id of each word of the mixture
    bias: npt.NDArray[np.float32]  # minus the penalty of each word, added to its natural-log probability
    prompt: list[int]  # the model's id of each prompt of the mixture; empty if the model reads no prompts


class MixtureLM(LanguageModel):
    """A mixture as a `LanguageModel` over the words of a symbol table.

    Each model has its own word ids, <unk> and penalty for unknown words. A slot of the mixture is a column of
    a table with one row per model, and contains one slot of each model.

    Words that are unknown to a model without <unk> must not be scored; the word maps that `parts` yields identify
    such words.
    """

    def __init__(
        self,
        mixture: Mixture,
        words: SymbolTable,
        unk_penalty: float | None = None,
        map_words: Collection[WordMapping] = (),
    ) -> None:
        """Create the language model; `unk_penalty` and `map_words` are passed to the `WordMap` of each model."""
        complete(words, unk_penalty, *(lm for lm, _ in mixture.models if not isinstance(lm, Mixture)))
        self.vocabulary = _renumber(words)
        self._begin, self.eos = self.vocabulary.ids([BOS, EOS])
        self.unk: int | None = None  # the mixture knows all words; each model maps words that it lacks to its own <unk>
        self._linear = mixture.how == "linear"
        self._parts = []
        for index, (model, weight) in enumerate(mixture.models):
            if weight == 0:
                continue
            lm = model.over(words, unk_penalty, map_words) if isinstance(model, Mixture) else model
            name = mixture.name(index)
            self._parts.append(
                self._part(lm, weight, WordMap(self.vocabulary, lm, unk_penalty, map_words=map_words, name=name))
            )
        self.scores_tries = any(part.lm.scores_tries for part in self._parts)
        self.takes_phrases = any(part.lm.takes_phrases for part in self._parts)
        self.takes_prompts = any(part.lm.takes_prompts for part in self._parts)
        self._prompt: dict[str, int] = {}  # id of each prompt, by its text
        self._network = next((row for row, part in enumerate(self._parts) if part.lm.state_size is not None), None)
        self.state_size = None if self._network is None else self._parts[self._network].lm.state_size
        if not self._parts:
            raise OptionError("all weights of the mixture are 0; specify at least one nonzero weight")
        # <s> can occur inside a text only if all models contain <s>.
        self.bos = self._begin if all(part.lm.bos is not None for part in self._parts) else None
        self._slot = np.empty((len(self._parts), 0), np.int64)  # [models, capacity]
        self._slots = SlotPool(self._grow)

    def twin(self) -> MixtureLM | None:
        """See `LanguageModel.twin`."""
        lms = [part.lm.twin() for part in self._parts]
        twins = [lm for lm in lms if lm is not None]
        return self._of(twins) if len(twins) == len(lms) else None

    def for_threads(self, count: int) -> list[LanguageModel]:
        """See `LanguageModel.for_threads`; if models are copied to several devices, there is one thread per device."""
        devices = max((len(part.lm.replicas) for part in self._parts), default=0)
        copies = [part.lm.for_threads(devices or count) for part in self._parts]
        if devices > 1 and not all(copies):
            raise OptionError("a model of the mixture cannot be copied to several devices; specify only one device")
        return [self._of(lms) for lms in zip(*copies, strict=False)]

    def _of(self, lms: Sequence[LanguageModel]) -> MixtureLM:
        """Return a copy of the mixture that has separate slots and uses the given copies of its models."""
        mixture = copy.copy(self)
        mixture._parts = [replace(part, lm=lm, prompt=[]) for part, lm in zip(self._parts, lms, strict=True)]
        mixture._prompt = {}
        mixture._slot = np.empty((len(lms), 0), np.int64)
        mixture._slots = SlotPool(mixture._grow)
        return mixture

    @property
    def num_slots(self) -> int:
        """Number of slots in use."""
        return self._slots.num_used

    def parts(self) -> Iterator[WordMap]:
        """Yield the map from the mixture's words to the words of each model, including models of inner mixtures."""
        for part in self._parts:
            if isinstance(part.lm, MixtureLM):
                yield from part.lm.parts()
            else:
                yield part.map

    def cover(self, words: SymbolTable) -> None:
        """Add the words of another symbol table; existing words and slots keep their ids."""
        new = [] if words is self.vocabulary else [word for word, _ in words if word not in self.vocabulary]
        if not new:
            return
        entries = [
            *self.vocabulary,
            *zip(new, range(len(self.vocabulary), len(self.vocabulary) + len(new)), strict=True),
        ]
        self.vocabulary = SymbolTable(entries, self.vocabulary.path)
        for index, part in enumerate(self._parts):
            if isinstance(part.lm, MixtureLM):
                part.lm.cover(words)
            old = part.map
            # Use the penalty that was computed for the first table: the penalty must be constant within a run.
            wider = WordMap(self.vocabulary, part.lm, old.unk_penalty, map_words=tuple(old.mapped), name=old.name)
            self._parts[index] = replace(self._part(part.lm, part.weight, wider), prompt=part.prompt)

    def prompt(self, text: str) -> int:
        """See `LanguageModel.prompt`; models that cannot read prompts ignore it."""
        if not self.takes_prompts:
            return super().prompt(text)
        if text not in self._prompt:
            takers = [part for part in self._parts if part.lm.takes_prompts]
            numbers = [part.lm.prompt(text) for part in takers]
            for part, number in zip(takers, numbers, strict=True):
                part.prompt.append(number)
            self._prompt[text] = FIRST_PROMPT + len(self._prompt)
        return self._prompt[text]

    def start(self, count: int) -> np.ndarray:
        """See `LanguageModel.start`."""
        return self._make_slots(lambda part, _: part.lm.start(count), count)

    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.advance`."""
        return self._make_slots(lambda part, old: _advance_part(part, old[slots], words), len(slots))

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.logprob`."""
        # The scores of phrase marks and prompts are not used, so any word id can replace their ids.
        words = np.where((words <= FIRST_MARK) | are_prompts(words), self.eos, words)
        return self._mixed(lambda part, row: part.lm.logprob(self._slot[row][slots], part.word[words]), words)

    def release(self, slots: np.ndarray) -> None:
        """See `LanguageModel.release`."""
        for part, row in zip(self._parts, self._slot, strict=True):
            part.lm.release(row[slots])
        self._slots.give_back(slots)

    def score_trie(self, parent: npt.NDArray[np.int32], word: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """See `LanguageModel.score_trie`."""
        if self.takes_phrases:
            return score_by_levels(self, parent, word)
        prompts = np.flatnonzero(are_prompts(word))
        words = np.where(are_prompts(word), self.eos, word) if len(prompts) else word
        return self._mixed(lambda part, _: _score_part(part, parent, word, words, prompts), words)

    def states(self, slots: np.ndarray) -> npt.NDArray[np.float32]:
        """Return the states of the first model that has states; see `LanguageModel.states`."""
        if self._network is None:
            return super().states(slots)
        return self._parts[self._network].lm.states(self._slot[self._network][slots])

    def word_vectors(self, words: np.ndarray) -> npt.NDArray[np.float32]:
        """Return word vectors of the model that `states` uses; zeros for words that are unknown to this model."""
        if self._network is None:
            return super().word_vectors(words)
        part = self._parts[self._network]
        word = part.word[words]
        unknown = (word == NO_WORD) | (part.lm.unk is not None) & (word == part.lm.unk)
        vectors = part.lm.word_vectors(np.where(unknown, part.lm.eos, word))
        return np.where(unknown[:, None], np.float32(0), vectors)

    def _mixed(self, score: Callable[[_Part, int], np.ndarray], words: np.ndarray) -> npt.NDArray[np.float32]:
        """Return the interpolated score of each word."""
        total: npt.NDArray[np.float64] | None = None
        with np.errstate(invalid="ignore"):  # callers report the NaN that results from ∞ - ∞
            for row, part in enumerate(self._parts):
                logprob = np.asarray(score(part, row), np.float64)
                self._check(part, "logprob", logprob, len(words))
                logprob = logprob + part.bias[words]
                if self._linear:
                    logprob += math.log(part.weight)
                    total = logprob if total is None else np.logaddexp(total, logprob)
                else:
                    logprob *= part.weight
                    total = logprob if total is None else total + logprob
        assert total is not None
        return total.astype(np.float32)

    def _make_slots(self, make: Callable[[_Part, np.ndarray], np.ndarray], count: int) -> np.ndarray:
        """Create slots in every model, or in no model if one fails; callers can then retry with fewer slots."""
        model_slots: list[np.ndarray] = []
        try:
            for part, row in zip(self._parts, self._slot, strict=True):
                slots = make(part, row)
                model_slots.append(slots)
                self._check(part, "advance", slots, count)
            new = self._slots.take(count)
        except BaseException:
            for part, slots in zip(self._parts, model_slots, strict=False):
                part.lm.release(slots)
            raise
        for row, slots in zip(self._slot, model_slots, strict=True):
            row[new] = slots
        return new

    def _part(self, lm: LanguageModel, weight: float, word_map: WordMap) -> _Part:
        word = word_map.lm_word.copy()
        if lm.empty is not None:
            word[word_map.is_empty] = lm.empty
        word[[self._begin, self.eos]] = NO_WORD if lm.bos is None else lm.bos, lm.eos
        return _Part(lm, weight, word_map, word, -word_map.extra, [])

    @staticmethod
    def _check(part: _Part, method: str, result: np.ndarray, count: int) -> None:
        if np.shape(result) != (count,):
            message = f"{part.map.name}: {method} returned an array of shape {np.shape(result)}"
            raise ModelError(f"{message}, but must return shape {(count,)}")

    def _grow(self, capacity: int) -> None:
        slot = np.empty((len(self._parts), capacity), np.int64)
        slot[:, : self._slot.shape[1]] = self._slot
        self._slot = slot


def _advance_part(part: _Part, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Advance a model in a mixture; the model restarts at ``<s>`` after phrase lists or prompts that it cannot read."""
    is_prompt = are_prompts(words)
    marked = (words <= FIRST_MARK) | is_prompt
    if not marked.any():
        return part.lm.advance(slots, part.word[words])
    if part.lm.takes_prompts and is_prompt.any():
        return part.lm.advance(slots, _words_with_prompts(part, words))
    if part.lm.takes_phrases:
        return part.lm.advance(slots, np.where(marked, words, part.word[words]))
    new = np.empty(len(slots), np.int64)
    new[marked] = part.lm.start(int(np.count_nonzero(marked)))
    try:
        new[~marked] = part.lm.advance(slots[~marked], part.word[words[~marked]])
    except BaseException:
        part.lm.release(new[marked])
        raise
    return new


def _words_with_prompts(part: _Part, words: np.ndarray) -> npt.NDArray[np.int32]:
    """Convert word and prompt ids of a mixture to the ids of one of its models."""
    is_prompt = are_prompts(words)
    new = part.word[np.where(is_prompt, 0, words)]
    new[is_prompt] = np.array(part.prompt)[words[is_prompt] - FIRST_PROMPT]
    return new


def _score_part(
    part: _Part, parent: npt.NDArray[np.int32], word: npt.NDArray[np.int32], words: np.ndarray, prompts: np.ndarray
) -> npt.NDArray[np.float32]:
    """Score a trie with a model in a mixture; a model that cannot read prompts skips them.

    Args:
        word: The mixture's word or prompt id at each node, [nodes].
        words: Copy of `word` in which every prompt id is replaced with an arbitrary word id, [nodes].
        prompts: Indices of the nodes that contain prompts.
    """
    if not len(prompts):
        return score_trie(part.lm, parent, part.word[words])
    if part.lm.takes_prompts:
        return score_trie(part.lm, parent, _words_with_prompts(part, word))
    score = np.zeros(len(parent), np.float32)
    for _, nodes, parent_below in below(parent, prompts):
        score[nodes] = score_trie(part.lm, parent_below, part.word[words[nodes]])
    return score


def _renumber(words: SymbolTable) -> SymbolTable:
    """Return a symbol table with contiguous ids, ``<s>`` and ``</s>``: the table itself if possible, else a new one."""
    if not words.grows and BOS in words and EOS in words and list(dict(words).values()) == list(range(len(words))):
        return words
    epsilon = next((word for word, number in words if number == EPSILON), "<eps>")
    ordered = list(dict.fromkeys((epsilon, *dict(words), BOS, EOS)))
    return SymbolTable(zip(ordered, range(len(ordered)), strict=True), words.path)
