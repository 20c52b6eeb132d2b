"""A left-to-right subword network of Hugging Face behind the protocol: a word's score is the sum over its pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ninja.lm.huggingface.piece_network import PieceLM
from ninja.lm.huggingface.spelling import Spelling
from ninja.lm.protocol import LanguageModel


class CausalLM(LanguageModel):
    """A subword network behind the protocol of `LanguageModel`, over the words of some lattices; see there.

    A history's slot is that of its last piece. A word's log-probability is the sum of those of its pieces, the space
    before it being part of the first; nothing is paid for where a word ends, since the next one says so with its
    space. ``</s>`` is the piece that ends a text, right after the last word.
    """

    scores_tries = True

    def __init__(self, pieces: PieceLM, spelling: Spelling) -> None:
        """Put words above the pieces that a network reads."""
        self.vocabulary = spelling.vocabulary
        self.bos: int | None = 0
        self.eos = 1
        self.unk = spelling.unk
        self._pieces = pieces
        self._spelling = spelling

    @property
    def num_slots(self) -> int:
        """Number of slots in use, those of pieces that only longer histories need included."""
        return self._pieces.num_slots

    @property
    def num_parameters(self) -> int | None:
        """Number of trained numbers."""
        return self._pieces.num_parameters

    @property
    def normalized(self) -> bool:
        """True if scores are normalised exactly."""
        return self._pieces.normalized

    def start(self, count: int) -> np.ndarray:
        """See `LanguageModel.start`."""
        return self._pieces.start(count)

    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.advance`."""
        place, left = self._places(slots, words)
        made = np.empty(len(slots), np.int64)
        going = np.arange(len(slots))
        current = slots
        while len(going):
            longer = self._pieces.advance(current, self._spelling.piece[place[going]])
            if current is not slots:  # slots of half words, which live on below the longer ones
                self._pieces.release(current)
            place[going] += 1
            left[going] -= 1
            more = left[going] > 0
            made[going[~more]] = longer[~more]
            going, current = going[more], longer[more]
        return made

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.logprob`."""
        place, left = self._places(slots, words)
        score = np.zeros(len(slots))
        going = np.arange(len(slots))
        current = slots
        half = np.empty(0, np.int64)  # slots made here
        while len(going):
            piece = self._spelling.piece[place[going]]
            score[going] += self._pieces.logprob(current, piece)
            left[going] -= 1
            place[going] += 1
            more = left[going] > 0
            going = going[more]
            # Words of one history often begin alike: their common pieces are read once.
            pair, which = np.unique(np.stack((current[more], piece[more])), axis=1, return_inverse=True)
            longer = self._pieces.advance(pair[0], pair[1])
            self._pieces.release(half)
            half, current = longer, longer[which.reshape(-1)]
        return score.astype(np.float32)

    def release(self, slots: np.ndarray) -> None:
        """See `LanguageModel.release`."""
        self._pieces.release(slots)

    def score_trie(self, parent: npt.NDArray[np.int32], word: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """See `LanguageModel.score_trie`; the trie of pieces is scored."""
        entry = self._spelling.entry(word, parent < 0)
        begin, end = self._spelling.begin[entry].tolist(), self._spelling.begin[entry + 1].tolist()
        piece = self._spelling.piece.tolist()
        found: dict[tuple[int, int], int] = {}  # piece node by the one above and the piece
        last: list[int] = []  # piece node in which each word ends
        owner: list[int] = []
        part: list[int] = []
        for node, upper in enumerate(parent.tolist()):
            at = last[upper] if upper >= 0 else -1
            for place in range(begin[node], end[node]):
                at = found.setdefault((at, piece[place]), len(found))
                owner.append(node)
                part.append(at)
            last.append(at)
        trie = np.array(list(found), np.int32).reshape(-1, 2)
        score = self._pieces.score_trie(trie[:, 0], trie[:, 1])
        return np.bincount(owner, score[part].astype(np.float64), len(parent)).astype(np.float32)

    def _places(self, slots: np.ndarray, words: np.ndarray) -> tuple[Any, Any]:
        """Return where each word's pieces begin, and how many there are, int64 [n] each."""
        entry = self._spelling.entry(words, self._pieces.at_start(slots))
        begin = self._spelling.begin[entry]
        return begin, self._spelling.begin[entry + 1] - begin
