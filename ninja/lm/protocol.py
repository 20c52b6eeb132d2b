"""The protocol of language models: states by slot, batches in, log-probabilities out; their options and devices."""

from __future__ import annotations

import functools
import math
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, get_args, runtime_checkable

import numpy as np
import numpy.typing as npt

from ninja.errors import OptionError
from ninja.lattice.symbols import SymbolTable

FIRST_MARK = -3  # ids of lists of phrases are at most this; -1 and -2 are used by searches
TextTransform = Literal["lower"]  # applied to words before a model of pieces splits them
Backend = Literal["auto", "numpy", "torch"]  # library that computes LSTM networks and Kaldi's RNNLMs
OOVScore = Literal["skip", "spread"] | float  # score of unknown words in a model without <unk>, see `LoadOptions`

Method = TypeVar("Method", bound=Callable[..., Any])
# Methods of a language model that read or change its slots.
_GUARDED = ("start", "advance", "logprob", "release", "score_trie", "states", "word_vectors", "score_oovs")
ON_CPU = ("auto", "cpu")  # devices on which NumPy can replace torch
DRIVER = "/proc/driver/nvidia/version"  # exists if NVIDIA's driver is loaded


class _Lock:
    """A lock that copies and pickles of its object do not share."""

    def __init__(self) -> None:
        self.lock = threading.RLock()

    def __reduce__(self) -> tuple[type[_Lock], tuple[()]]:
        return _Lock, ()


def _lock_of(shared: object) -> AbstractContextManager[bool]:
    """Return the re-entrant lock of an object."""
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

    A history is the beginning of a sentence: ``<s>`` and the words after it. The model keeps the state of each history
    in a *slot*; callers have the slot's number, an opaque integer ≥ 0. Every call takes a batch, and the result for one
    history does not depend on the others beyond 1e-4.

        slot ──advance(word)──► new slot        the old one stays valid until released
          └────logprob(word)──► ln P(word | history)

    Several threads may use one model, each with slots of its own: a call waits while another thread is in one.
    """

    vocabulary: SymbolTable  # the model's own words and ids; all word ids below are these
    bos: int | None  # id of <s>, if the model has it
    eos: int  # id of </s>
    unk: int | None  # id of the word for unknown words, if the model has one
    unk_words: int | None = None  # number of distinct training words mapped to `unk`, if known
    oov_score: OOVScore | None = None  # score of `unk` if the model itself has no <unk>

    # Abilities beyond the four methods.
    scores_tries: bool = False  # `score_trie` scores whole tries in one pass
    whole_sentences: bool = False  # only whole sentences have scores, and only `score_trie` gives them
    classes: tuple[str, ...] = ()  # words that are classes, by the class definitions
    spells_words: bool = False  # scores any word that its pieces spell; `vocabulary` has the words looked up so far
    takes_oov_score: bool = False  # without <unk>, `score_oovs` gives unknown words a score
    state_size: int | None = None  # size of the hidden state that `states` returns, if it does
    takes_phrases: bool = False  # a `PhraseMark` as the first word of a history selects a list of phrases
    replicas: Sequence[LanguageModel] = ()  # the same model on each of several devices, itself among them
    stateless: bool = False  # slots are plain values, so calls of several threads need no lock

    def __init_subclass__(cls, **options: Any) -> None:
        """Let one thread at a time call the methods that a subclass defines."""
        super().__init_subclass__(**options)
        for name in () if cls.stateless else _GUARDED:
            if name in cls.__dict__:
                setattr(cls, name, exclusive(cls.__dict__[name]))

    @property
    def end_of_ids(self) -> int:
        """Largest word id that can be scored, plus 1."""
        return len(self.vocabulary)

    @property
    def num_parameters(self) -> int | None:
        """Number of trained parameters, if known."""
        return None

    @property
    def normalized(self) -> bool | None:
        """True if scores are normalised exactly; None if that is unknown."""
        return None

    @property
    def empty(self) -> int | None:
        """Id of words without lexical words, which change no history and cost nothing, if the model reads forms."""
        return None

    @property
    def reads_written(self) -> bool:
        """True if the model was trained on cased and punctuated text, so that it scores written words as they are."""
        return False

    def twin(self) -> LanguageModel | None:
        """Return a model for another thread, which shares the weights and has its own slots.

        Models without twins return None, and threads that use them wait for each other.
        """
        return None

    def for_threads(self, count: int) -> list[LanguageModel]:
        """Return a model for each thread: replicas or twins; an empty list if one thread does all the work."""
        twins = (self.twin() for _ in range(count if count > 1 else 0))
        return list(self.replicas) or [twin for twin in twins if twin is not None]

    @property
    def device(self) -> str | None:
        """Device of torch, such as ``"cuda:0"``; None for a model that does not use torch."""
        device = getattr(self, "_device", None)
        return None if device is None else str(device)

    def start(self, count: int) -> np.ndarray:
        """Make slots of the history ``<s>``.

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
            slots: Histories, int64 [n]; repeated ones cost little.
            words: The word scored after each, int32 [n]; `eos` ends the sentence.

        Returns:
            Natural-log probabilities, float32 [n].
        """

    def release(self, slots: np.ndarray) -> None:
        """Free slots, int64 [n], each once; later calls reuse them."""

    def score_trie(self, parent: npt.NDArray[np.int32], word: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """Score every node of a trie in one pass, as `ninja.lm.trie.score_trie` describes; see `scores_tries`."""
        raise OptionError("this language model scores no tries; use ninja.lm.trie.score_trie")

    def advice(self, words: Sequence[str]) -> str | None:
        """Return a line of advice if the words of lattices are of a kind that the model hardly knows."""
        return None

    def states(self, slots: np.ndarray) -> npt.NDArray[np.float32]:
        """Return the network's hidden state, from which it predicts the next word, float32 [n, state_size]."""
        raise OptionError("this language model does not give its hidden state; recurrent and attention networks do")

    def word_vectors(self, words: np.ndarray) -> npt.NDArray[np.float32]:
        """Return output embeddings, which states are multiplied with, float32 [n, state_size]; zeros if unknown."""
        return np.zeros((len(words), self.state_size or 0), np.float32)

    def score_oovs(self, score: OOVScore) -> None:
        """Add a word for unknown words to a model without <unk>; see `LoadOptions.oov_score`."""
        raise OptionError("this language model takes no oov_score; n-gram models do")


class PhraseMark(Protocol):
    """The phrases of an utterance, as the first word of its histories; kept while these are in use."""

    @property
    def number(self) -> int:
        """Word id of the list in models that take phrases, at most `FIRST_MARK`."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options of computing with a language model; a kind of model ignores those it does not have."""

    device: str = "auto"  # where torch computes, see `ninja.lm.load`
    normalize: bool | None = None  # normalise scores exactly; the default depends on the model, see `ninja.lm.load`
    max_batch: int | None = None  # largest number of histories in a call of the network; default: unlimited
    words: SymbolTable | None = None  # symbol table of a file that numbers its words; default: in it or beside it
    # Natural-log probability of unknown words in an n-gram model without <unk>, the same after all histories; the word
    # after it has an empty history, as in SRILM. "skip" is 0; "spread" is ln 1/V of the model's V words, shared by all
    # unknown words as an <unk> is. By default unknown words are refused.
    oov_score: OOVScore | None = None
    classes: str | os.PathLike[str] | None = None  # SRILM's class definitions, for n-gram models with classes
    multi_char: str | None = None  # character at which words are split
    text_transform: TextTransform | None = None  # applied to words before a model of pieces splits them
    backend: Backend = "auto"  # library that computes, see `ninja.lm.load`

    def __post_init__(self) -> None:
        if self.multi_char is not None and (len(self.multi_char) != 1 or self.multi_char.isspace()):
            raise OptionError(f"multi_char is {self.multi_char!r}; it must be one character, such as _")
        if self.text_transform not in (None, *get_args(TextTransform)):
            raise OptionError(f"text_transform is {self.text_transform!r}; it must be lower, or None")
        if self.backend not in get_args(Backend):
            raise OptionError(f"backend is {self.backend!r}; it must be auto, numpy or torch")
        if self.backend == "numpy" and self.device not in ON_CPU:
            raise OptionError(f"the backend numpy computes on the CPU, not on {self.device}; use the backend torch")
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
    """Return the natural-log probability of unknown words by an OOV score, for a model of `num_words` words."""
    if score in ("skip", "spread"):
        return 0.0 if score == "skip" else -math.log(num_words)
    if isinstance(score, str) or not -math.inf < score <= 0:
        raise OptionError(f"oov_score is {score!r}; it must be skip, spread, or a natural-log probability of at most 0")
    return float(score)


FIRST_CAPACITY = 256  # slots at first; doubled when they run out


class SlotPool:
    """A stack of free slots; the last one freed is reused first."""

    def __init__(self, grow: Callable[[int], None]) -> None:
        """Start without slots; `grow` allocates the states of a number of slots."""
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


def chosen_device(name: str) -> str:
    """Return the name of a device; ``"auto"`` becomes cuda if torch can use it, else cpu."""
    if name != "auto":
        return name
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def describe_devices(requested: str, used: Iterable[str | None]) -> str | None:
    """Describe the devices in use in one line.

    Args:
        requested: The device option.
        used: Devices of the models, as in `LanguageModel.device`.

    Returns:
        The names of the GPUs, or the reason why "auto" does not use an existing GPU; None without GPUs.
    """
    known = sorted({device for device in used if device is not None})
    gpus = [device for device in known if device != "cpu"]
    if not gpus and (not known or requested != "auto" or not os.path.exists(DRIVER)):
        return None
    import torch

    if not gpus:
        return f"computing on the CPU: torch cannot use the GPU, {_gpu_problem()}"
    names = (f"{device} ({torch.cuda.get_device_name(device)})" if "cuda" in device else device for device in gpus)
    unused = torch.cuda.device_count() - len(gpus) if requested == "auto" else 0
    return f"computing on {', '.join(names)}" + (f"; {unused} more could be named by --device" if unused > 0 else "")


def _gpu_problem() -> str:
    """Return why torch cannot use a GPU."""
    import torch

    if torch.version.cuda is None:
        return "as it is built for the CPU only"
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return str(error).splitlines()[0]
    return "as it finds none"
