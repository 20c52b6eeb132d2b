"""Batched LM calls that shrink the batch on out-of-memory."""

from __future__ import annotations

import sys
import time
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ninja.errors import ModelError
from ninja.lm import LanguageModel

Slots = npt.NDArray[np.int64]
Words = npt.NDArray[np.int32]
Answers = tuple[Slots, npt.NDArray[np.float32], float]
Scalar = TypeVar("Scalar", bound=np.generic)


class BatchedLM(LanguageModel):
    """A language model called with at most `limit` histories or words at once; None is no limit.

    When a call runs out of memory the limit becomes half its size, for the rest of the run, and the call is made
    again in pieces.
    """

    def __init__(self, lm: LanguageModel) -> None:
        self.lm = lm
        self.limit: int | None = None
        self.notes: list[str] = []  # for the user, from the thread in which the model is called
        self.vocabulary, self.bos, self.eos = lm.vocabulary, lm.bos, lm.eos
        self.unk, self.unk_words = lm.unk, lm.unk_words
        self.scores_tries, self.whole_sentences = lm.scores_tries, lm.whole_sentences
        self._too_many = 0  # size of the first call that ran out of memory since one that did not

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
        """See `LanguageModel.advance`; if it fails, the slots made on the way are given back."""
        return self._in_pieces("advance", slots, words, np.empty(0, np.int64))

    def logprob(self, slots: Slots, words: Words) -> npt.NDArray[np.float32]:
        """See `LanguageModel.logprob`."""
        return self._in_pieces("logprob", slots, words, np.empty(0, np.float32))

    def wave(
        self, released: Slots, advance_slot: Slots, advance_word: Words, score_slot: Slots, score_word: Words
    ) -> Answers:
        """Give slots back, make histories, score words; score slots below 0 count the histories made here.

        If this fails, the histories made on the way are given back.

        Returns:
            Slots of the new histories, natural-log probabilities, and the seconds it took.

        Raises:
            ModelError: The model returned another number of values, or the memory does not even hold one history.
        """
        start = time.perf_counter()
        if released.size:
            self.release(released)
        made = self.advance(advance_slot, advance_word)
        fresh = score_slot < 0
        score_slot[fresh] = made[-1 - score_slot[fresh]]
        try:
            logprob = self.logprob(score_slot, score_word)
        except BaseException:
            self.release(made)
            raise
        return made, logprob, time.perf_counter() - start

    def _in_pieces(self, method: str, slots: Slots, words: Words, empty: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """Call a method with as many slots at once as memory and limit allow."""
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
                    raise ModelError(
                        f"the model's {method} gave shape {np.shape(answer)} for a batch of {last - first}"
                    )
                if self._too_many:
                    self.notes.append(
                        f"out of memory at {self._too_many} questions to the language model; at most {self.limit} "
                        "from now on"
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
                "the memory does not hold one more history of the language model; use a smaller batch_arcs, "
                "max_active or model"
            ) from error
        self.limit = size // 2
        self._too_many = self._too_many or size
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            torch.cuda.empty_cache()  # what lies there in pieces too small may be of use as one


def out_of_memory(error: BaseException) -> bool:
    """Tell whether numpy, or torch if it is in use, ran out of memory."""
    torch = sys.modules.get("torch")
    return (
        isinstance(error, MemoryError)
        or (torch is not None and isinstance(error, torch.OutOfMemoryError))
        or "DefaultCPUAllocator: can't allocate memory" in str(error)  # torch has no type for this one
    )
