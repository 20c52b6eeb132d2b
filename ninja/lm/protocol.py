"""`LanguageModel`, the protocol of language models, and the options for loading them."""

from __future__ import annotations

import functools
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, get_args, runtime_checkable

import numpy as np
import numpy.typing as npt

from ninja.errors import ModelError, OptionError
from ninja.lattice.symbols import SymbolTable
from ninja.lm.endpoint.options import EndpointOptions

FIRST_MARK = -3  # ids of phrase lists are at most -3; searches use -1 and -2
FIRST_PROMPT, END_OF_PROMPTS = 1 << 29, 1 << 30  # range of prompt ids; word ids are smaller
TextTransform = Literal["lower"]  # transformation of words before a subword model splits them
Backend = Literal["auto", "numpy", "torch"]  # library that computes LSTM networks and Kaldi's RNNLMs
OOVScore = Literal["skip", "spread"] | float  # score of unknown words in a model without <unk>, see `LoadOptions`

Method = TypeVar("Method", bound=Callable[..., Any])
# Methods that read or change slots.
_GUARDED = ("start", "advance", "logprob", "release", "score_trie", "states", "word_vectors", "score_oovs")
ON_CPU = ("auto", "cpu")  # devices on which NumPy can replace torch


class _Lock:
    """Lock of an object in one process; copies of the object and forked processes create separate locks."""

    __slots__ = ("lock", "owner", "process")

    def __init__(self, owner: int = 0) -> None:
        self.owner, self.process, self.lock = owner, os.getpid(), threading.RLock()

    def __reduce__(self) -> tuple[type[_Lock], tuple[()]]:
        return _Lock, ()


def lock_of(shared: object) -> AbstractContextManager[bool]:
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
        with lock_of(self):
            return method(self, *args, **options)

    return locked  # type: ignore[return-value]


@runtime_checkable
class LanguageModel(Protocol):
    """Base class of word-level language models, which store the states of histories.

    A history is the beginning of a sentence: ``<s>`` and the words after it. The model stores the state of each history
    in a *slot*, which callers refer to by an opaque integer ≥ 0. Every call processes a batch; the other histories in
    the batch change the result for a history by at most 1e-4.

        slot ──advance(word)──► new slot        the old slot stays valid until it is released
          └────logprob(word)──► ln P(word | history)

    Several threads can use one model, each with its own slots; a call waits while another thread calls the model.
    """

    vocabulary: SymbolTable  # the model's words and ids; all word ids below refer to it
    bos: int | None  # id of <s>, if the model has it
    eos: int  # id of </s>
    unk: int | None  # id of <unk>, the word that represents unknown words, if the model has one
    unk_words: int | None = None  # number of distinct training words that `unk` replaced, if known
    oov_score: OOVScore | None = None  # score of `unk`, if `score_oovs` added it

    # Optional features.
    scores_tries: bool = False  # `score_trie` scores a whole trie in one pass
    whole_sentences: bool = False  # the model can score only whole sentences, with `score_trie`
    classes: tuple[str, ...] = ()  # words of the model that class definitions expand
    # The model scores any word that its pieces can spell; looking up a word adds the word to `vocabulary`.
    open_vocabulary: bool = False
    takes_oov_score: bool = False  # `score_oovs` can add <unk>
    state_size: int | None = None  # size of the hidden state that `states` returns; None if it is not supported
    takes_phrases: bool = False  # a `PhraseMark` as the first word of a history selects a phrase list
    takes_prompts: bool = False  # `prompt` returns ids of texts; such an id may be the first word of a history
    replicas: Sequence[LanguageModel] = ()  # copies of the model on several devices, including this one
    fixed_ids: bool = True  # the id of a word in `vocabulary` does not depend on the other words that are looked up
    stateless: bool = False  # slots are plain values, so that concurrent calls need no lock

    def __init_subclass__(cls, *, locks: bool = True, **options: Any) -> None:
        """Make the methods of a subclass `exclusive`, unless `locks` is False because an inner model has a lock."""
        super().__init_subclass__(**options)
        for name in _GUARDED if locks and not cls.stateless else ():
            if name in cls.__dict__:
                setattr(cls, name, exclusive(cls.__dict__[name]))

    @property
    def end_of_ids(self) -> int:
        """Exclusive upper bound of the word ids that can be scored."""
        return len(self.vocabulary)

    @property
    def num_parameters(self) -> int | None:
        """Number of trained parameters, if known."""
        return None

    @property
    def normalized(self) -> bool | None:
        """Whether scores are normalised exactly; None if unknown."""
        return None

    @property
    def empty(self) -> int | None:
        """Id of words with an empty lexical form (no cost, no effect on the history); None if unused."""
        return None

    @property
    def reads_written(self) -> bool:
        """Whether the model was trained on text with capitals and punctuation, and therefore scores written words."""
        return False

    def twin(self) -> LanguageModel | None:
        """Return a copy for another thread; the copy shares the weights but has its own slots.

        Returns None if the model does not support this; threads that use the model then wait for each other.
        """
        return None

    def for_threads(self, count: int) -> list[LanguageModel]:
        """Return one model for each thread: the replicas if there are any, else `count` twins.

        If there are no replicas, and `count` is 1 or the model does not support twins, the list is empty; callers then
        use the model itself.
        """
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
            slots: Slots of the histories, int64 [n]; duplicates are allowed.
            words: The word that extends each history, int32 [n].

        Returns:
            New slots, int64 [n].
        """

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Score one word after each history.

        Args:
            slots: Slots of the histories, int64 [n]; duplicates cost little.
            words: The word to score after each history, int32 [n]; `eos` scores the end of the sentence.

        Returns:
            Natural-log probabilities, float32 [n].
        """

    def release(self, slots: np.ndarray) -> None:
        """Free slots, int64 [n]; a slot must not be freed twice, and later calls can reuse its number."""

    def score_trie(self, parent: npt.NDArray[np.int32], word: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """Score every node of a trie in one pass; see `ninja.lm.trie.score_trie` and `scores_tries`."""
        raise OptionError("this language model cannot score tries directly; use ninja.lm.trie.score_trie")

    def advice(self, words: Sequence[str]) -> str | None:
        """Return advice if words in lattices are spelled differently than in the model's training text, else None."""
        return None

    def states(self, slots: np.ndarray) -> npt.NDArray[np.float32]:
        """Return the hidden states from which the network predicts the next word, float32 [n, state_size]."""
        raise OptionError("this language model does not provide its hidden state; use a recurrent or attention network")

    def word_vectors(self, words: np.ndarray) -> npt.NDArray[np.float32]:
        """Return the output embeddings of words, float32 [n, state_size]; zeros if they are not available."""
        return np.zeros((len(words), self.state_size or 0), np.float32)

    def prompt(self, text: str) -> int:
        """Return the id of a prompt; a prompt can be the first word of histories and is not scored."""
        raise OptionError("this language model cannot read prompts; use a causal Hugging Face model")

    def score_oovs(self, score: OOVScore) -> None:
        """Add <unk> to a model without <unk>; see `LoadOptions.oov_score`."""
        raise OptionError("only n-gram models support oov_score; omit it for this language model")


def are_prompts(words: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
    """Return whether each word id is the id of a prompt, bool [n]."""
    return np.asarray((words >= FIRST_PROMPT) & (words < END_OF_PROMPTS))


class PhraseMark(Protocol):
    """Object whose `number`, as the first word of a history, selects the phrase list of an utterance.

    The object must exist as long as the histories that begin with its number.
    """

    @property
    def number(self) -> int:
        """Word id, at most `FIRST_MARK`, that represents the phrase list in models that read phrase lists."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options for loading a language model (see `ninja.lm.load`); a model ignores options that do not apply to it."""

    device: str = "auto"  # torch device
    normalize: bool | None = None  # normalise scores exactly; the default depends on the model
    max_batch: int | None = None  # maximum number of histories per call of the network  [default: no limit]
    words: SymbolTable | None = None  # for models that contain only word ids  [default: in the file or its directory]
    # Natural-log probability of unknown words in an n-gram model without <unk>, for every history; the next word has an
    # empty history, as in SRILM. "skip" is 0; "spread" is ln 1/V for a model with V words, shared by all unknown words.
    # By default, unknown words are refused.
    oov_score: OOVScore | None = None
    classes: str | os.PathLike[str] | None = None  # SRILM class definitions, for n-gram models with classes
    multi_char: str | None = None  # character at which words are split into separately scored parts
    text_transform: TextTransform | None = None  # applied to words before a subword model splits them
    backend: Backend = "auto"  # library that computes LSTM networks and Kaldi RNNLMs
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
        """Whether scores are normalised; True unless `normalize` is False."""
        return self.normalize is not False


DEFAULTS = LoadOptions()


def oov_logprob(score: OOVScore, num_words: int) -> float:
    """Return the natural-log probability of unknown words for an `oov_score` option.

    Args:
        score: Value of the option.
        num_words: Size of the model's vocabulary.

    Raises:
        OptionError: The option is invalid.
    """
    if score in ("skip", "spread"):
        return 0.0 if score == "skip" else -math.log(num_words)
    if isinstance(score, str) or not -math.inf < score <= 0:
        raise OptionError(f"oov_score is {score!r}, but must be skip, spread, or a natural-log probability <= 0")
    return float(score)


FIRST_CAPACITY = 256  # initial number of slots; doubled when all slots are in use


class SlotPool:
    """A stack of free slots; the most recently freed slot is reused first."""

    def __init__(self, grow: Callable[[int], None]) -> None:
        """Create a stack without slots; `grow` is called with the number of slots for which to allocate states."""
        self._grow = grow
        self._free: npt.NDArray[np.int64] = np.empty(0, np.int64)  # [capacity]; a stack of `_num_free` slots
        self._num_free = 0

    @property
    def num_used(self) -> int:
        """Number of slots in use."""
        return len(self._free) - self._num_free

    def take(self, count: int) -> npt.NDArray[np.int64]:
        """Reserve slots, and return them, int64 [count]."""
        if count > self._num_free:
            old = len(self._free)
            capacity = max(FIRST_CAPACITY, 2 * old)
            while capacity - self.num_used < count:
                capacity *= 2
            self._grow(capacity)  # before any change, because this call can run out of memory
            free = np.empty(capacity, np.int64)
            free[: self._num_free] = self._free[: self._num_free]
            self._free = free
            self.give_back(np.arange(capacity - 1, old - 1, -1))
        self._num_free -= count
        return self._free[self._num_free : self._num_free + count].copy()

    def give_back(self, slots: npt.NDArray[np.int64]) -> None:
        """Free slots; a slot must not be freed twice."""
        assert self._num_free + len(slots) <= len(self._free), "a slot was released twice"
        self._free[self._num_free : self._num_free + len(slots)] = slots
        self._num_free += len(slots)


Slots = npt.NDArray[np.int64]
Words = npt.NDArray[np.int32]
Answers = tuple[Slots, npt.NDArray[np.float32], float]
Scalar = TypeVar("Scalar", bound=np.generic)


class BatchedLM(LanguageModel, locks=False):
    """Wrapper that advances or scores at most `limit` histories per call of a language model; None means no limit.

    If a call runs out of memory, the call is repeated in smaller batches. For the rest of the run, the limit is half
    the batch size that failed.
    """

    def __init__(self, lm: LanguageModel) -> None:
        self.lm = lm
        self.limit: int | None = None
        self.notes: list[str] = []  # messages for the user, added in the thread that calls the model
        self.vocabulary, self.bos, self.eos = lm.vocabulary, lm.bos, lm.eos
        self.unk, self.unk_words = lm.unk, lm.unk_words
        self.scores_tries, self.whole_sentences = lm.scores_tries, lm.whole_sentences
        self.takes_phrases, self.takes_prompts = lm.takes_phrases, lm.takes_prompts
        self._too_many = 0  # batch size of the first call that ran out of memory since the last success

    @property
    def end_of_ids(self) -> int:
        """See `LanguageModel.end_of_ids`."""
        return self.lm.end_of_ids

    def start(self, count: int) -> Slots:
        """See `LanguageModel.start`."""
        return self.lm.start(count)

    def release(self, slots: Slots) -> None:
        """See `LanguageModel.release`."""
        self.lm.release(slots)

    def score_trie(self, parent: Words, word: Words) -> npt.NDArray[np.float32]:
        """See `LanguageModel.score_trie`."""
        return self.lm.score_trie(parent, word)

    def advance(self, slots: Slots, words: Words) -> Slots:
        """See `LanguageModel.advance`; if a batch fails, the slots created for the previous batches are released."""
        return self._in_pieces("advance", slots, words, np.empty(0, np.int64))

    def logprob(self, slots: Slots, words: Words) -> npt.NDArray[np.float32]:
        """See `LanguageModel.logprob`."""
        return self._in_pieces("logprob", slots, words, np.empty(0, np.float32))

    def wave(
        self, obsolete: Slots, advance_slot: Slots, advance_word: Words, score_slot: Slots, score_word: Words
    ) -> Answers:
        """Run one wave of the search: release slots, extend histories and score words.

        If scoring fails, the slots of the new histories are released.

        Args:
            obsolete: Slots to release.
            advance_slot: Slots of the histories to extend.
            advance_word: Word that extends each history.
            score_slot: Slot of the history before each word to score; -1 - i selects the i-th new history. Negative
                entries are replaced in place.
            score_word: The words to score.

        Returns:
            (slots of the new histories, natural-log probabilities of the scored words, elapsed seconds).

        Raises:
            ModelError: The model returned the wrong number of values, or a single history does not fit into memory.
        """
        start = time.perf_counter()
        if obsolete.size:
            self.release(obsolete)
        new_slots = self.advance(advance_slot, advance_word)
        is_new = score_slot < 0
        score_slot[is_new] = new_slots[-1 - score_slot[is_new]]
        try:
            logprob = self.logprob(score_slot, score_word)
        except BaseException:
            self.release(new_slots)
            raise
        return new_slots, logprob, time.perf_counter() - start

    def _in_pieces(self, method: str, slots: Slots, words: Words, empty: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """Call a method on batches of slots that are as large as the limit and the memory allow."""
        pieces: list[npt.NDArray[Scalar]] = []
        first = 0
        try:
            while first < slots.size:
                last = slots.size if self.limit is None else min(slots.size, first + self.limit)
                try:
                    answer: Any = getattr(self.lm, method)(slots[first:last], words[first:last])
                except (MemoryError, RuntimeError) as error:
                    if not out_of_memory(error):
                        raise
                    self._halve(last - first, error)
                    continue
                if np.shape(answer) != (last - first,):
                    message = f"the model's {method} returned an array of shape {np.shape(answer)}"
                    raise ModelError(f"{message}, but must return shape {(last - first,)}")
                if self._too_many:
                    self.notes.append(
                        f"out of memory with a language model batch of {self._too_many}; batches are limited to "
                        f"{self.limit} from now on"
                    )
                    self._too_many = 0
                pieces.append(np.ascontiguousarray(answer, empty.dtype))
                first = last
        except BaseException:
            if method == "advance":
                for piece in pieces:
                    self.release(piece)  # type: ignore[arg-type]
            raise
        return pieces[0] if len(pieces) == 1 else np.concatenate([empty, *pieces])

    def _halve(self, size: int, error: BaseException) -> None:
        if size == 1:
            raise ModelError(
                "out of memory for a single history of the language model; reduce batch_arcs or max_active, or use a "
                "smaller model"
            ) from error
        self.limit = size // 2
        self._too_many = self._too_many or size
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            torch.cuda.empty_cache()  # reduces fragmentation


def out_of_memory(error: BaseException) -> bool:
    """Return whether NumPy or torch raised an error because memory ran out."""
    torch = sys.modules.get("torch")
    return (
        isinstance(error, MemoryError)
        or (torch is not None and isinstance(error, torch.OutOfMemoryError))
        or "DefaultCPUAllocator: can't allocate memory" in str(error)  # torch raises a plain RuntimeError here
    )
