"""Causal Hugging Face models as language models over words; the score of a word is the sum over its pieces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ninja.lm.huggingface.piece_network import PieceLM
from ninja.lm.huggingface.spelling import Spelling
from ninja.lm.units import Ids, UnitLM


class CausalLM(UnitLM):
    """A causal subword network as a `LanguageModel` with an open vocabulary; see `UnitLM`.

    The space before a word is part of its first piece, so the end of a word has no separate cost. ``</s>`` is the piece
    that ends a text, directly after the last word.
    """

    spells_words = True

    def __init__(self, pieces: PieceLM, spelling: Spelling) -> None:
        """Combine a network over pieces with the spelling of words."""
        super().__init__(pieces)
        self.vocabulary = spelling.vocabulary
        self.bos: int | None = 0
        self.eos = 1
        self.unk = spelling.unk
        self._pieces = pieces
        self._spelling = spelling

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

    def _at_start(self, slots: Ids) -> npt.NDArray[np.bool_]:
        return self._pieces.at_start(slots)

    def _places(
        self, words: npt.NDArray[np.integer], first: npt.NDArray[np.bool_]
    ) -> tuple[Ids, Ids, npt.NDArray[np.integer]]:
        return *self._spelling.places(words, first), self._spelling.piece

    def _score_units(self, parent: npt.NDArray[np.int32], unit: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        return self._pieces.score_trie(parent, unit)  # pieces have no vocabulary to check
