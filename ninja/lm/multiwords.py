"""Language models of multiwords such as ``new_york``; another model scores the parts of each multiword."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ninja.lattice.symbols import SymbolTable
from ninja.lm.lexical import Ids, UnitLM
from ninja.lm.protocol import LanguageModel, OOVScore


class MultiwordLM(UnitLM):
    """A model of words as a `LanguageModel` of multiwords; see `UnitLM`.

    A word that contains the joining character is always split, even if the vocabulary contains the whole word. A
    multiword is known if all its parts are known.

    Source: SRILM, ngram(1), ``-multiwords`` and ``-multi-char``; lm/src/MultiwordVocab.cc.
    """

    def __init__(self, lm: LanguageModel, multi_char: str) -> None:
        """Wrap a model of words; `multi_char` joins the parts of multiwords."""
        super().__init__(lm)
        self.scores_tries = lm.scores_tries
        self._multi_char = multi_char
        self._take_attributes(lm)

    def _take_attributes(self, lm: LanguageModel) -> None:
        self.bos, self.eos, self.unk, self.unk_words = lm.bos, lm.eos, lm.unk, lm.unk_words
        self.classes = lm.classes
        self.oov_score, self.takes_oov_score = lm.oov_score, lm.takes_oov_score
        self._parts = _Multiwords(lm.vocabulary, self._multi_char)
        self.vocabulary = self._parts

    def score_oovs(self, score: OOVScore) -> None:
        """See `LanguageModel.score_oovs`; the ids of multiwords that were looked up before become invalid."""
        self._units.score_oovs(score)
        self._take_attributes(self._units)

    def _at_start(self, slots: Ids) -> npt.NDArray[np.bool_]:
        return np.zeros(len(slots), np.bool_)

    def _places(
        self, words: npt.NDArray[np.integer], first: npt.NDArray[np.bool_]
    ) -> tuple[Ids, Ids, npt.NDArray[np.integer]]:
        parts = [self._parts.parts(word) for word in words.tolist()]
        count = np.array([len(part) for part in parts], np.int64)
        units = np.fromiter((unit for part in parts for unit in part), np.int64, int(count.sum()))
        return np.cumsum(count) - count, count, units


class _Multiwords(SymbolTable):
    """Symbol table of a model's words; a multiword is added when it is first looked up."""

    __slots__ = ("_inner", "_multi_char", "_numbering", "_split")

    def __init__(self, inner: SymbolTable, multi_char: str) -> None:
        super().__init__(inner, inner.path)
        self._inner = inner
        self._multi_char = multi_char
        self._numbering = threading.Lock()  # two words must not get the same id
        self._split: dict[int, list[int]] = {}  # ids of the parts of each multiword, by its id

    def parts(self, number: int) -> list[int]:
        """Return the ids of the parts of a multiword; for a single word, its own id."""
        return self._split.get(number) or [number]

    def id(self, word: str) -> int | None:
        """Return the id of a word; None if one of its parts is unknown to the model."""
        if self._multi_char not in word:
            return super().id(word)
        parts = self._inner.ids(part for part in word.split(self._multi_char) if part)
        if not parts or -1 in parts:
            return None
        with self._numbering:
            word_id = super().id(word)
            number = len(self) if word_id is None else word_id
            self._split[number] = parts  # must be stored before other threads can look up the id
            if word_id is None:
                self._add(word, number)
        return number

    def ids(self, words: Iterable[str]) -> list[int]:
        """Return the id of each word; -1 if one of its parts is unknown to the model."""
        ids = [self.id(word) for word in words]
        return [-1 if number is None else number for number in ids]

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self.id(word) is not None
