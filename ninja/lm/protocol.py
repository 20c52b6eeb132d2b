"""The protocol of language models: states by slot, batches in, log-probabilities out."""

from __future__ import annotations

import functools
import math
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, get_args, runtime_checkable

import numpy as np
import numpy.typing as npt

from ninja.errors import OptionError
from ninja.lattice.symbols import SymbolTable

FIRST_MARK = -3  # ids from here down are marks of lists of phrases; -1 and -2 mean other things to searches
TextTransform = Literal["lower"]  # of words before a model of pieces splits them
OOVScore = Literal["skip", "spread"] | float  # of words that an n-gram model without <unk> lacks, see `LoadOptions`

Method = TypeVar("Method", bound=Callable[..., Any])
# Methods of a language model that read or change its slots.
_GUARDED = ("start", "advance", "logprob", "release", "score_trie", "states", "word_vectors", "score_oovs")


class _Lock:
    """A lock that copies and pickles of its object do not share."""

    def __init__(self) -> None:
        self.lock = threading.RLock()

    def __reduce__(self) -> tuple[type[_Lock], tuple[()]]:
        return _Lock, ()


def _lock_of(shared: object) -> AbstractContextManager[bool]:
    """Return the lock of an object that several threads use; the same thread may take it again."""
    name = f"_lock_{os.getpid()}_{id(shared)}"  # a copy, or the same object in a forked process, has another
    holder: _Lock = shared.__dict__.get(name) or shared.__dict__.setdefault(name, _Lock())
    return holder.lock


def exclusive(method: Method) -> Method:
    """Make a method wait until no other thread is in an exclusive method of the same object."""

    @functools.wraps(method)
    def locked(self: Any, *args: Any, **options: Any) -> Any:
        with _lock_of(self):
            return method(self, *args, **options)

    return locked  # type: ignore[return-value]


@runtime_checkable
class LanguageModel(Protocol):
    """A language model over words, which keeps the states of histories itself; models derive from this class.

    A history is a sentence's beginning: ``<s>`` and the words after it. The model holds what it knows of each in
    a *slot*; callers hold the slot's number, an opaque integer ≥ 0. Every call works on a batch, and what it
    returns for one history does not depend on the others beyond 1e-4.

        slot ──advance(word)──► new slot        the old one stays valid until released
          └────logprob(word)──► ln P(word | history)

    Several threads may use one model, each with slots of its own: a call waits while another thread is in one.
    """

    vocabulary: SymbolTable  # the model's own words and ids; all word ids below are these
    bos: int | None  # id of <s>, where the model has one
    eos: int  # id of </s>
    unk: int | None  # id of the word that stands for all unknown ones, where the model has one
    unk_words: int | None = None  # how many distinct words that was in training, where known
    oov_score: OOVScore | None = None  # what `unk` costs where the model itself has no <unk>

    # Abilities beyond the four methods.
    scores_tries: bool = False  # `score_trie` scores whole tries in one pass
    whole_sentences: bool = False  # only whole sentences have scores, and only `score_trie` gives them
    classes: tuple[str, ...] = ()  # words that stand for others, as class definitions say
    spells_words: bool = False  # any word that pieces spell has a score; `vocabulary` has those looked up so far
    takes_oov_score: bool = False  # without <unk>, `score_oovs` gives unknown words a score
    state_size: int | None = None  # numbers of a history's hidden state, where `states` gives them
    takes_phrases: bool = False  # a history belongs to a list of phrases, if a `PhraseMark` is its first word
    replicas: Sequence[LanguageModel] = ()  # the same model on each of several devices, itself among them
    stateless: bool = False  # slots are plain values, so that calls of several threads need not wait for each other

    def __init_subclass__(cls, **options: Any) -> None:
        """Let one thread at a time call the methods that a subclass defines."""
        super().__init_subclass__(**options)
        for name in () if cls.stateless else _GUARDED:
            if name in cls.__dict__:
                setattr(cls, name, exclusive(cls.__dict__[name]))

    @property
    def num_parameters(self) -> int | None:
        """Number of trained numbers, where known."""
        return None

    @property
    def normalized(self) -> bool | None:
        """True if scores are normalised exactly; None: unknown."""
        return None

    def twin(self) -> LanguageModel | None:
        """Return a model with the same weights, which are not copied, and slots of its own, for another thread.

        None: this kind of model has none, and threads that use it wait for each other.
        """
        return None

    def for_threads(self, count: int) -> list[LanguageModel]:
        """Return a model for each of some threads: its replicas, or twins; none where one thread does it all."""
        twins = (self.twin() for _ in range(count if count > 1 else 0))
        return list(self.replicas) or [twin for twin in twins if twin is not None]

    @property
    def device(self) -> str | None:
        """Where torch computes, such as ``"cuda:0"``; None for a model that needs no torch."""
        found = getattr(self, "_device", None)
        return None if found is None else str(found)

    def start(self, count: int) -> np.ndarray:
        """Make slots of the history that is ``<s>`` alone.

        Returns:
            Slots, int64 [count], distinct unless the model needs no states.
        """

    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Make slots of longer histories.

        Args:
            slots: Histories, int64 [n]; one may occur several times.
            words: The word that follows each, int32 [n].

        Returns:
            New slots, int64 [n].
        """

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Score words after histories.

        Args:
            slots: Histories, int64 [n]; one may occur several times, and is then cheapest.
            words: The word scored after each, int32 [n]; `eos` ends the sentence.

        Returns:
            Natural-log probabilities, float32 [n].
        """

    def release(self, slots: np.ndarray) -> None:
        """Give slots back, int64 [n], each once; later calls reuse them."""

    def score_trie(self, parent: npt.NDArray[np.int32], word: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """Score every node of a trie in one pass, as `ninja.lm.trie.score_trie` describes; see `scores_tries`."""
        raise OptionError("this language model scores no tries; use ninja.lm.trie.score_trie")

    def advice(self, words: Sequence[str]) -> str | None:
        """Tell what to change, in one line, where words of lattices are of a kind that the model hardly knows."""
        return None

    def states(self, slots: np.ndarray) -> npt.NDArray[np.float32]:
        """Return what the network predicts the next word from, float32 [n, state_size]; see `state_size`."""
        raise OptionError("this language model does not give its hidden state; recurrent and attention networks do")

    def word_vectors(self, words: np.ndarray) -> npt.NDArray[np.float32]:
        """Return what states are multiplied with to score words, float32 [n, state_size]; zeros where it is unknown."""
        return np.zeros((len(words), self.state_size or 0), np.float32)

    def score_oovs(self, score: OOVScore) -> None:
        """Make a word for all that the model lacks, which has no <unk>; see `LoadOptions.oov_score`."""
        raise OptionError("this language model takes no oov_score; n-gram models do")


class PhraseMark(Protocol):
    """The phrases of an utterance, as a word that stands before its histories; kept while these are in use."""

    @property
    def number(self) -> int:
        """The id that models which take phrases read, `FIRST_MARK` or below; each list has its own."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options of computing with a language model; a kind of model ignores those it does not have."""

    device: str = "auto"  # where torch computes, see `ninja.lm.load`
    normalize: bool | None = (
        None  # normalise scores exactly; None: as the model is meant to be used, see `ninja.lm.load`
    )
    max_batch: int | None = None  # most histories that a network sees at once; None: as many as a call brings
    words: SymbolTable | None = None  # of a file that numbers its words; None: found in it or beside it
    # Natural-log probability of a word that an n-gram model without <unk> lacks, the same after all histories; the
    # history begins anew behind it, as SRILM has it. "skip" is 0: the word costs nothing. "spread" is ln 1/V of the
    # model's V words, which the words that it lacks share as they share an <unk>. None: such words are refused.
    oov_score: OOVScore | None = None
    classes: str | os.PathLike[str] | None = None  # SRILM's definitions, for n-gram models that have such classes
    multi_char: str | None = None  # words are split at this character; None: no word is
    text_transform: TextTransform | None = None  # of words before a model of pieces splits them; None: as they are

    def __post_init__(self) -> None:
        if self.multi_char is not None and (len(self.multi_char) != 1 or self.multi_char.isspace()):
            raise OptionError(f"multi_char is {self.multi_char!r}; it must be one character, such as _")
        if self.text_transform not in (None, *get_args(TextTransform)):
            raise OptionError(f"text_transform is {self.text_transform!r}; it must be lower, or None")
        if self.oov_score is not None:
            oov_logprob(self.oov_score, 1)
        if self.max_batch is not None and self.max_batch < 1:
            raise OptionError(f"max_batch is {self.max_batch}; it must be at least 1, or None")

    @property
    def normalized(self) -> bool:
        """True unless normalisation was switched off."""
        return self.normalize is not False


DEFAULTS = LoadOptions()


def oov_logprob(score: OOVScore, num_words: int) -> float:
    """Return the natural-log probability that `score` gives unknown words, for a model of so many words."""
    if score in ("skip", "spread"):
        return 0.0 if score == "skip" else -math.log(num_words)
    if isinstance(score, str) or not -math.inf < score <= 0:
        raise OptionError(f"oov_score is {score!r}; it must be skip, spread, or a natural-log probability of at most 0")
    return float(score)


FIRST_CAPACITY = 256  # slots at first; doubled when they run out


class SlotPool:
    """A stack of free slots, the last one given back first reused."""

    def __init__(self, grow: Callable[[int], None]) -> None:
        """Begin without slots; `grow` makes room for so many in all."""
        self._grow = grow
        self._free: npt.NDArray[np.int64] = np.empty(0, np.int64)  # [capacity], a stack
        self._num_free = 0

    @property
    def num_used(self) -> int:
        """Number of slots in use."""
        return len(self._free) - self._num_free

    def take(self, count: int) -> npt.NDArray[np.int64]:
        """Reserve slots, int64 [count]."""
        if count > self._num_free:
            old = len(self._free)
            capacity = max(FIRST_CAPACITY, 2 * old)
            while capacity - self.num_used < count:
                capacity *= 2
            self._grow(capacity)  # first: memory may run out here
            free = np.empty(capacity, np.int64)
            free[: self._num_free] = self._free[: self._num_free]
            self._free = free
            self.give_back(np.arange(capacity - 1, old - 1, -1))
        self._num_free -= count
        return self._free[self._num_free : self._num_free + count].copy()

    def give_back(self, slots: npt.NDArray[np.int64]) -> None:
        """Make slots free again, each once."""
        assert self._num_free + len(slots) <= len(self._free), "a slot was released twice"
        self._free[self._num_free : self._num_free + len(slots)] = slots
        self._num_free += len(slots)
