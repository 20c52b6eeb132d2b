"""`LanguageModel`, the protocol of language models, with the options for loading them and devices."""

from __future__ import annotations

import functools
import math
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeVar, get_args, runtime_checkable

import numpy as np
import numpy.typing as npt

from ninja.errors import OptionError, check_range, described, documented
from ninja.lattice.symbols import SymbolTable

FIRST_MARK = -3  # maximum id of phrase lists; searches use -1 and -2
FIRST_PROMPT, END_OF_PROMPTS = 1 << 29, 1 << 30  # range of the ids of prompts, above those of words
TextTransform = Literal["lower"]  # applied to words before a model of pieces splits them
Backend = Literal["auto", "numpy", "torch"]  # library that computes LSTM networks and Kaldi's RNNLMs
OOVScore = Literal["skip", "spread"] | float  # score of unknown words in a model without <unk>, see `LoadOptions`

Method = TypeVar("Method", bound=Callable[..., Any])
# Methods that read or change slots.
_GUARDED = ("start", "advance", "logprob", "release", "score_trie", "states", "word_vectors", "score_oovs")
ON_CPU = ("auto", "cpu")  # devices on which NumPy can replace torch
DRIVER = "/proc/driver/nvidia/version"  # exists if NVIDIA's driver is loaded


class _Lock:
    """The lock of an object in a process; copies of the object, and forked processes, make locks of their own."""

    __slots__ = ("lock", "owner", "process")

    def __init__(self, owner: int = 0) -> None:
        self.owner, self.process, self.lock = owner, os.getpid(), threading.RLock()

    def __reduce__(self) -> tuple[type[_Lock], tuple[()]]:
        return _Lock, ()


def _lock_of(shared: object) -> AbstractContextManager[bool]:
    """Return the re-entrant lock of an object."""
    attributes, owner = shared.__dict__, id(shared)
    holder: _Lock | None = attributes.get("_lock")
    if holder is None or holder.owner != owner or holder.process != os.getpid():
        holder = attributes.setdefault(f"_lock_{os.getpid()}_{owner}", _Lock(owner))  # the same for all threads
        attributes["_lock"] = holder
    return holder.lock


def exclusive(method: Method) -> Method:
    """Decorate a method so that only one thread at a time runs exclusive methods of an object."""

    @functools.wraps(method)
    def locked(self: Any, *args: Any, **options: Any) -> Any:
        with _lock_of(self):
            return method(self, *args, **options)

    return locked  # type: ignore[return-value]


@runtime_checkable
class LanguageModel(Protocol):
    """A language model over words that stores the states of histories; models derive from this class.

    A history is the beginning of a sentence, ``<s>`` and the words after it. The model stores the state of each history
    in a *slot*, which callers refer to by an opaque integer ≥ 0. Every call takes a batch; the result for one history
    depends on the other histories of the batch by at most 1e-4.

        slot ──advance(word)──► new slot        the old slot stays valid until it is released
          └────logprob(word)──► ln P(word | history)

    Several threads may use one model, each with its own slots; a call waits while another thread is in a call.
    """

    vocabulary: SymbolTable  # the model's words and ids; all word ids below refer to it
    bos: int | None  # id of <s>, if the model has it
    eos: int  # id of </s>
    unk: int | None  # id of the word for unknown words, if the model has one
    unk_words: int | None = None  # number of distinct training words that `unk` replaced, if known
    oov_score: OOVScore | None = None  # score of `unk`, if `score_oovs` added it

    # Optional features.
    scores_tries: bool = False  # `score_trie` scores a whole trie in one pass
    whole_sentences: bool = False  # the model can score only whole sentences, with `score_trie`
    classes: tuple[str, ...] = ()  # words of the model that class definitions expand
    spells_words: bool = False  # scores any word that its pieces can spell; `vocabulary` grows as words are looked up
    takes_oov_score: bool = False  # `score_oovs` can add a word for unknown words
    state_size: int | None = None  # size of the hidden state that `states` returns; None if it is not supported
    takes_phrases: bool = False  # a `PhraseMark` as the first word of a history selects a phrase list
    takes_prompts: bool = False  # `prompt` numbers texts that may be the first words of histories
    replicas: Sequence[LanguageModel] = ()  # copies of the model on several devices, including this one
    fixed_ids: bool = True  # the id of a word in `vocabulary` does not depend on the other words that are looked up
    stateless: bool = False  # slots are plain values, so that concurrent calls need no lock

    def __init_subclass__(cls, *, locks: bool = True, **options: Any) -> None:
        """Make the methods of a subclass `exclusive`; with `locks=False` they are not, as its model locks itself."""
        super().__init_subclass__(**options)
        for name in _GUARDED if locks and not cls.stateless else ():
            if name in cls.__dict__:
                setattr(cls, name, exclusive(cls.__dict__[name]))

    @property
    def end_of_ids(self) -> int:
        """Upper bound of the word ids that can be scored, exclusive."""
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
        """Id of words with an empty lexical form, which do not change the history and have no cost; None if unused."""
        return None

    @property
    def reads_written(self) -> bool:
        """True if the model was trained on cased and punctuated text, and so scores words as they are written."""
        return False

    def twin(self) -> LanguageModel | None:
        """Return a copy for another thread, which shares the weights but has its own slots.

        Returns None if the model does not support this; threads that use the model then wait for each other.
        """
        return None

    def for_threads(self, count: int) -> list[LanguageModel]:
        """Return one model per thread: the replicas, else up to `count` twins; an empty list for a single thread."""
        twins = (self.twin() for _ in range(count if count > 1 else 0))
        return list(self.replicas) or [twin for twin in twins if twin is not None]

    @property
    def device(self) -> str | None:
        """Torch device, such as ``"cuda:0"``; None if the model does not use torch."""
        device = getattr(self, "_device", None)
        return None if device is None else str(device)

    def start(self, count: int) -> np.ndarray:
        """Create slots for the history ``<s>``.

        Returns:
            Slots, int64 [count]; each must be released, even if some are equal.
        """

    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Create slots for histories that are extended by one word.

        Args:
            slots: Slots of the histories, int64 [n]; may contain duplicates.
            words: The word that extends each history, int32 [n].

        Returns:
            New slots, int64 [n].
        """

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Score words after histories.

        Args:
            slots: Slots of the histories, int64 [n]; duplicates cost little.
            words: The word to score after each history, int32 [n]; `eos` scores the end of the sentence.

        Returns:
            Natural-log probabilities, float32 [n].
        """

    def release(self, slots: np.ndarray) -> None:
        """Free slots, int64 [n], each of them once; later calls may reuse their numbers."""

    def score_trie(self, parent: npt.NDArray[np.int32], word: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """Score every node of a trie in one pass; see `ninja.lm.trie.score_trie` and `scores_tries`."""
        raise OptionError("this language model cannot score tries directly; use ninja.lm.trie.score_trie")

    def advice(self, words: Sequence[str]) -> str | None:
        """Return advice if the words of lattices are spelled differently from the model's training text, else None."""
        return None

    def states(self, slots: np.ndarray) -> npt.NDArray[np.float32]:
        """Return the hidden states from which the network predicts the next word, float32 [n, state_size]."""
        raise OptionError("this language model does not provide its hidden state; use a recurrent or attention network")

    def word_vectors(self, words: np.ndarray) -> npt.NDArray[np.float32]:
        """Return the output embeddings of words, float32 [n, state_size]; zeros if they are not available."""
        return np.zeros((len(words), self.state_size or 0), np.float32)

    def prompt(self, text: str) -> int:
        """Return the id of a prompt, which can be the first word of histories and is not scored."""
        raise OptionError("this language model reads no prompts; use a causal Hugging Face model")

    def score_oovs(self, score: OOVScore) -> None:
        """Add <unk> to a model without <unk>; see `LoadOptions.oov_score`."""
        raise OptionError("oov_score is supported by n-gram models only; omit it for this language model")


def are_prompts(words: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
    """Return which word ids are ids of prompts, bool [n]."""
    return np.asarray((words >= FIRST_PROMPT) & (words < END_OF_PROMPTS))


class PhraseMark(Protocol):
    """The phrase list of an utterance, used as the first word of its histories; must outlive these histories."""

    @property
    def number(self) -> int:
        """Word id of the phrase list in models that take phrases, at most `FIRST_MARK`."""


KEY_VARIABLE = "NINJA_ENDPOINT_KEY"  # environment variable with the key of the server


def is_endpoint(name: str) -> bool:
    """Return whether the name of a model is the URL of a completions endpoint."""
    return name.startswith(("http://", "https://"))


@documented
@dataclass(frozen=True)
class EndpointOptions:
    """Options of a language model behind a completions endpoint; see ``ninja.lm.endpoint.loading``.

    The key of a server that requires one is read from the environment variable ``NINJA_ENDPOINT_KEY``.
    """

    section: ClassVar[str] = "Models: completions endpoint"

    model: str | None = described(None, "Name of the model on the server.  [default: its only model]")
    bos: str | None = described(
        None, "Token that begins a text, such as <s>.  [default: the server's, else the token that ends a text]"
    )
    eos: str | None = described(
        None, "Token that ends a text, such as </s>; required if the server does not name it (vLLM)."
    )
    cache: str | None = described(None, "File that keeps the scores for later runs; delete it when the model changes.")
    max_requests: int = described(10_000, "Stop after this many requests in the run.")
    max_tokens: int = described(10_000_000, "Stop before the run sends more than this many tokens.")
    max_seconds: float = described(3600.0, "Stop when the run has waited this many seconds for the server.")
    timeout: float = described(60.0, "Seconds to wait for an answer before a request is repeated.")
    retries: int = described(4, "Number of times to repeat a request that failed, with growing pauses.")
    batch: int = described(32, "Number of texts per request (vLLM).")
    connections: int = described(4, "Number of requests in progress.")

    def __post_init__(self) -> None:
        """Validate the numbers."""
        for name in ("max_requests", "max_tokens", "batch", "connections"):
            check_range(f"endpoint_{name}", getattr(self, name), least=1)
        check_range("endpoint_retries", self.retries, least=0)
        for name in ("max_seconds", "timeout"):
            check_range(f"endpoint_{name}", getattr(self, name), above=0)


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options for loading a language model, see `ninja.lm.load`; a model ignores options that do not apply to it."""

    device: str = "auto"  # torch device
    normalize: bool | None = None  # normalise scores exactly; the default depends on the model
    max_batch: int | None = None  # maximum number of histories per call of the network  [default: no limit]
    words: SymbolTable | None = None  # for models without spellings  [default: in the file or its directory]
    # Natural-log probability of unknown words in an n-gram model without <unk>, for every history; the next word has an
    # empty history, as in SRILM. "skip" is 0; "spread" is ln 1/V for a model with V words, shared by all unknown words.
    # By default unknown words are refused.
    oov_score: OOVScore | None = None
    classes: str | os.PathLike[str] | None = None  # SRILM class definitions, for n-gram models with classes
    multi_char: str | None = None  # character at which words are split
    text_transform: TextTransform | None = None  # applied to words before a subword model splits them
    backend: Backend = "auto"  # library that computes the network
    endpoint: EndpointOptions | None = None  # options of a model behind a completions endpoint

    def __post_init__(self) -> None:
        if self.multi_char is not None and (len(self.multi_char) != 1 or self.multi_char.isspace()):
            raise OptionError(f"multi_char is {self.multi_char!r}, but must be one character, such as _")
        if self.text_transform not in (None, *get_args(TextTransform)):
            raise OptionError(f"text_transform is {self.text_transform!r}, but must be lower or None")
        if self.backend not in get_args(Backend):
            raise OptionError(f"backend is {self.backend!r}, but must be auto, numpy or torch")
        if self.backend == "numpy" and self.device not in ON_CPU:
            raise OptionError(f"the backend numpy computes on the CPU, not on {self.device}; use the backend torch")
        if self.oov_score is not None:
            oov_logprob(self.oov_score, 1)
        if self.max_batch is not None and self.max_batch < 1:
            raise OptionError(f"max_batch is {self.max_batch}, but must be at least 1 or None")

    @property
    def normalized(self) -> bool:
        """True unless normalisation is switched off."""
        return self.normalize is not False


DEFAULTS = LoadOptions()


def oov_logprob(score: OOVScore, num_words: int) -> float:
    """Return the natural-log probability of unknown words for an `oov_score` option.

    Args:
        score: The option.
        num_words: Number of words of the model.

    Raises:
        OptionError: The option is invalid.
    """
    if score in ("skip", "spread"):
        return 0.0 if score == "skip" else -math.log(num_words)
    if isinstance(score, str) or not -math.inf < score <= 0:
        raise OptionError(f"oov_score is {score!r}, but must be skip, spread, or a natural-log probability <= 0")
    return float(score)


FIRST_CAPACITY = 256  # initial number of slots; doubled when they run out


class SlotPool:
    """A stack of free slots; the most recently freed slot is reused first."""

    def __init__(self, grow: Callable[[int], None]) -> None:
        """Start without slots; `grow` is called with a number of slots to allocate states for."""
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
            self._grow(capacity)  # before any change, as memory may run out here
            free = np.empty(capacity, np.int64)
            free[: self._num_free] = self._free[: self._num_free]
            self._free = free
            self.give_back(np.arange(capacity - 1, old - 1, -1))
        self._num_free -= count
        return self._free[self._num_free : self._num_free + count].copy()

    def give_back(self, slots: npt.NDArray[np.int64]) -> None:
        """Free slots, each of them once."""
        assert self._num_free + len(slots) <= len(self._free), "a slot was released twice"
        self._free[self._num_free : self._num_free + len(slots)] = slots
        self._num_free += len(slots)


def chosen_device(name: str) -> str:
    """Return the name of a device; resolve ``"auto"`` to cuda if torch can use it, else to cpu."""
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
        return f"computing on the CPU: torch cannot use the GPU ({_gpu_problem()})"
    names = (f"{device} ({torch.cuda.get_device_name(device)})" if "cuda" in device else device for device in gpus)
    unused = torch.cuda.device_count() - len(gpus) if requested == "auto" else 0
    return f"computing on {', '.join(names)}" + (f"; {unused} more available with --device" if unused > 0 else "")


def _gpu_problem() -> str:
    """Return why torch cannot use a GPU."""
    import torch

    if torch.version.cuda is None:
        return "it is built for the CPU only"
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return str(error).splitlines()[0]
    return "it finds none"
