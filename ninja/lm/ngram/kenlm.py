"""KenLM binary n-gram models, run by the kenlm library (``pip install kenlm``).

The library looks up words one by one by their spelling, about a hundred thousand per second; an ARPA file of the same
model is faster.
"""

from __future__ import annotations

import math
import mmap
import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from ninja.errors import ModelError, OptionError
from ninja.lattice.symbols import SymbolTable
from ninja.libraries import needed_for
from ninja.lm.protocol import LanguageModel, OOVScore, oov_logprob
from ninja.lm.word_map import UNK

LN10 = math.log(10.0)
COUNTS = 108  # offset of the n-gram counts in the header, uint64 per order
UNKNOWN = b"<unk>\0"
MISSING_UNKNOWN = -100.0  # log10 probability that KenLM assigns to <unk> if the model has none


class KenLM(LanguageModel):
    """A KenLM binary as a `LanguageModel`; slots are kenlm states.

    Args:
        path: Path of the file.
        words: Words to score; words that are unknown to the model are ignored.  [default: the words that
            ``build_binary`` appends to the file]

    Raises:
        ModelError: The file is damaged, the model has no ``</s>``, or `words` is None and the file contains no words.
    """

    takes_oov_score = True

    def __init__(self, path: str, words: SymbolTable | None = None) -> None:
        with needed_for("a KenLM binary", path):
            import kenlm
        spellings = _stored_words(path) if words is None else [word for word, _ in words]
        config = kenlm.Config()
        config.show_progress = False
        try:
            self._model: Any = kenlm.Model(path, config)
        except OSError as error:
            raise ModelError(f"KenLM cannot load this model: {str(error).splitlines()[-1][:200]}", path) from error
        self._new_state = kenlm.State
        state = kenlm.State()
        self._model.NullContextWrite(state)
        has_unk = self._model.BaseScore(state, "<unk>", kenlm.State()) > MISSING_UNKNOWN
        known = {word: None for word in spellings if word in self._model and word != "<unk>"}
        for mark in ("<s>", "</s>"):  # a symbol table need not contain these words, because arcs do not
            if mark in self._model:
                known[mark] = None
        self._spelling = [*known, "<unk>"] if has_unk else list(known)
        self.vocabulary = SymbolTable.from_words(self._spelling)
        self.bos = self.vocabulary.id("<s>")
        self.unk = self.vocabulary.id("<unk>")
        eos = self.vocabulary.id("</s>")
        if eos is None:
            raise ModelError("the model has no </s>, so it cannot score the end of a sentence; train it again", path)
        self.eos = eos
        self._unknown = np.float32(np.nan)  # natural-log probability of unknown words, if the model has no <unk>
        self._state: list[Any] = []  # by slot
        self._free: list[int] = []

    @property
    def order(self) -> int:
        """Length of the longest n-gram."""
        return int(self._model.order)

    def score_oovs(self, score: OOVScore) -> None:
        """See `LanguageModel.score_oovs`."""
        assert self.unk is None
        self._unknown = np.float32(oov_logprob(score, len(self._spelling)))
        self.unk = len(self._spelling)
        self._spelling.append(UNK)  # KenLM does not know this word, so it resets the history
        self.vocabulary = SymbolTable.from_words(self._spelling)
        self.unk_words = None if score == "spread" else 1
        self.oov_score = score

    def start(self, count: int) -> npt.NDArray[np.int64]:
        """See `LanguageModel.start`."""
        slots = [self._new_slot() for _ in range(count)]
        for slot in slots:
            self._model.BeginSentenceWrite(self._state[slot])
        return np.array(slots, np.int64)

    def advance(self, slots: npt.NDArray[np.int64], words: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """See `LanguageModel.advance`."""
        queries = self._queries(slots, words)
        longer = [self._new_slot() for _ in queries]
        for slot, (state, word) in zip(longer, queries, strict=True):
            self._model.BaseScore(state, word, self._state[slot])
        return np.array(longer, np.int64)

    def logprob(self, slots: npt.NDArray[np.int64], words: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """See `LanguageModel.logprob`."""
        score, unused = self._model.BaseScore, self._new_state()
        queries = self._queries(slots, words)
        logprob = np.array([score(state, word, unused) * LN10 for state, word in queries], np.float32)
        return logprob if self.oov_score is None else np.where(words == self.unk, self._unknown, logprob)

    def release(self, slots: npt.NDArray[np.int64]) -> None:
        """See `LanguageModel.release`."""
        self._free += slots.tolist()

    def _new_slot(self) -> int:
        if self._free:
            return self._free.pop()
        self._state.append(self._new_state())
        return len(self._state) - 1

    def _queries(self, slots: npt.NDArray[np.int64], words: npt.NDArray[np.int32]) -> list[tuple[Any, str]]:
        if (wrong := words[(words < 0) | (words >= len(self._spelling))]).size:
            raise OptionError(f"the word id {wrong[0]} is not in the model's range [0, {len(self._spelling) - 1}]")
        pairs = zip(slots.tolist(), words.tolist(), strict=True)
        return [(self._state[slot], self._spelling[word]) for slot, word in pairs]


def _stored_words(path: str) -> list[str]:
    """Return the words stored at the end of a KenLM binary; the first word is ``<unk>``.

    Source: KenLM, lm/binary_format.cc and lm/vocab.cc.
    """
    with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if len(content) < COUNTS + 8:
            raise ModelError("the file is truncated in KenLM's header; copy it again", path)
        (count,) = struct.unpack_from("<Q", content, COUNTS)
        begin = content.rfind(UNKNOWN)
        while begin >= 0:
            words = bytes(content[begin:]).split(b"\0")
            if words.pop() == b"" and count <= len(words) <= count + 1:  # a missing <unk> is not counted
                try:
                    return [word.decode("utf-8") for word in words]
                except UnicodeDecodeError as error:
                    raise ModelError(
                        f"the word {error.object!r} is not UTF-8; build the model from text in UTF-8", path
                    ) from error
            begin = content.rfind(UNKNOWN, 0, begin) if len(words) < count else -1
    raise ModelError(
        "the file does not contain the model's words; build it again without -v, or pass the words with "
        "load(path, words=SymbolTable.read(...))",
        path,
    )
