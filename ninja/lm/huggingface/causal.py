"""Causal Hugging Face models as language models over words; a word's score is the sum of its pieces' scores."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ninja.errors import ModelError
from ninja.lm.huggingface.spelling import Spelling
from ninja.lm.lexical import Ids, UnitLM
from ninja.lm.protocol import FIRST_PROMPT, LanguageModel, are_prompts
from ninja.lm.trie import below

MAX_PROMPTS = 8  # number of unused prompts whose states are kept


class Pieces(LanguageModel, Protocol):
    """A causal model over pieces."""

    longest: int  # maximum number of pieces per input

    @property
    def num_slots(self) -> int:
        """Number of slots in use."""

    def at_start(self, slots: Ids) -> npt.NDArray[np.bool_]:
        """Return whether each history consists only of ``<s>``, bool [n]."""

    def read(self, pieces: npt.NDArray[np.integer]) -> int:
        """Read a text after ``<s>`` and return the slot of the resulting history."""

    def share(self, slot: int) -> Ids:
        """Return another reference to a slot, int64 [1]; the slot must be released once per reference."""

    def score_below(
        self, slot: int, parent: npt.NDArray[np.int32], word: npt.NDArray[np.int32]
    ) -> npt.NDArray[np.float32]:
        """Score the pieces of a trie that continues a history; see `LanguageModel.score_trie`."""


class CausalLM(UnitLM):
    """A causal subword network as a `LanguageModel` with an open vocabulary; see `UnitLM`.

    The space before a word is part of its first piece, so the end of a word has no separate cost. ``</s>`` is the piece
    that ends a text; it directly follows the last word.

    A prompt is read once; its state is shared by all histories that begin with it. A space separates the prompt from
    the first word.
    """

    open_vocabulary = True
    takes_prompts = True

    def __init__(self, pieces: Pieces, spelling: Spelling) -> None:
        """Create a model over words from a model over pieces and the pieces of each word."""
        super().__init__(pieces)
        self.vocabulary = spelling.vocabulary
        self.bos: int | None = 0
        self.eos = 1
        self.unk = spelling.unk
        self._pieces = pieces
        self._spelling = spelling
        self._prompt: dict[str, int] = {}  # id by text
        self._prompt_pieces: list[Ids] = []
        self._prompt_slot: OrderedDict[int, int] = OrderedDict()  # by id; the most recently used is last

    @property
    def num_slots(self) -> int:
        """Number of slots in use, including released slots that longer histories still need."""
        return self._pieces.num_slots

    @property
    def reads_written(self) -> bool:
        """See `LanguageModel.reads_written`."""
        return self._spelling.has_written_pieces

    def advice(self, words: Sequence[str]) -> str | None:
        """See `LanguageModel.advice`."""
        return self._spelling.advice(words)

    def prompt(self, text: str) -> int:
        """See `LanguageModel.prompt`; whitespace at the end of a prompt is removed.

        Raises:
            ModelError: The prompt is empty, or has too many pieces for the network.
        """
        text = text.rstrip()
        with self._spelling.numbering:
            if text not in self._prompt:
                pieces = self._spelling.text(text)
                if len(pieces) + 2 > self._pieces.longest:
                    raise ModelError(
                        f"the prompt has {len(pieces)} pieces, but the language model accepts at most "
                        f"{self._pieces.longest}, including <s> and the next piece; shorten the prompt"
                    )
                self._prompt[text] = FIRST_PROMPT + len(self._prompt)
                self._prompt_pieces.append(pieces)
            return self._prompt[text]

    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.advance`."""
        is_prompt = are_prompts(words)
        if not is_prompt.any():
            return super().advance(slots, words)
        assert self._at_start(slots[is_prompt]).all(), "a prompt is the first word of a history"
        new = np.full(len(slots), -1, np.int64)
        try:
            for index in np.flatnonzero(is_prompt).tolist():
                new[index] = self._pieces.share(self._slot_after(int(words[index])))[0]
            new[~is_prompt] = super().advance(slots[~is_prompt], words[~is_prompt])
        except BaseException:
            self._pieces.release(new[new >= 0])
            raise
        return new

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.logprob`."""
        return super().logprob(slots, np.where(are_prompts(words), self.eos, words))  # prompts are not scored

    def score_trie(self, parent: npt.NDArray[np.int32], word: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """See `LanguageModel.score_trie`; words that follow a prompt are scored from the cached state of the prompt."""
        prompts = np.flatnonzero(are_prompts(word))
        if not len(prompts):
            return super().score_trie(parent, word)
        score = np.zeros(len(parent), np.float32)
        for prompt, nodes, parent_below in below(parent, prompts):
            words = word[nodes]
            if prompt < 0:
                score[nodes] = super().score_trie(parent_below, words)
            else:
                slot = self._slot_after(int(word[prompt]))
                is_first = np.zeros(len(nodes), np.bool_)
                trie, sums = self._unit_trie(parent_below, words, is_first)
                score[nodes] = sums(self._pieces.score_below(slot, *trie))
        return score

    def _slot_after(self, prompt: int) -> int:
        """Return the slot of the history that consists of ``<s>`` and a prompt; read the prompt if it is not cached."""
        slot = self._prompt_slot.pop(prompt, None)
        if slot is None:
            while len(self._prompt_slot) >= MAX_PROMPTS:
                self._pieces.release(np.array([self._prompt_slot.popitem(last=False)[1]]))
            slot = self._pieces.read(self._prompt_pieces[prompt - FIRST_PROMPT])
        self._prompt_slot[prompt] = slot
        return slot

    def _at_start(self, slots: Ids) -> npt.NDArray[np.bool_]:
        return self._pieces.at_start(slots)

    def _places(
        self, words: npt.NDArray[np.integer], first: npt.NDArray[np.bool_]
    ) -> tuple[Ids, Ids, npt.NDArray[np.integer]]:
        return *self._spelling.places(words, first), self._spelling.piece

    def _score_units(self, parent: npt.NDArray[np.int32], unit: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        return self._pieces.score_trie(parent, unit)  # pieces have no vocabulary to check
