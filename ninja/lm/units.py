"""Language models over words that consist of units scored by another model: subword pieces or parts of multiwords."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from ninja.lattice.symbols import SymbolTable
from ninja.lm.protocol import LanguageModel
from ninja.lm.trie import score_trie

Ids = npt.NDArray[np.int64]
Trie = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]  # parent and word of each node


class UnitLM(LanguageModel, ABC):
    """A model of units as a `LanguageModel` over words.

    The slot of a history is the slot of its last unit. The log-probability of a word is the sum over its units.
    Subclasses define the units of words, and set the attributes of `LanguageModel`.
    """

    scores_tries = True

    def __init__(self, units: LanguageModel) -> None:
        """Use a model of units."""
        self._units = units
        self.state_size = units.state_size

    @abstractmethod
    def _at_start(self, slots: Ids) -> npt.NDArray[np.bool_]:
        """Return which histories consist of ``<s>`` only, if the units of the next word depend on this, bool [n]."""

    @abstractmethod
    def _places(
        self, words: npt.NDArray[np.integer], first: npt.NDArray[np.bool_]
    ) -> tuple[Ids, Ids, npt.NDArray[np.integer]]:
        """Look up the units of words.

        Args:
            words: Word ids, [n].
            first: Whether each word is the first of a sentence, [n].

        Returns:
            The offset of each word's first unit, the number of its units, [n], and the units that offsets refer to.
        """

    @property
    def num_parameters(self) -> int | None:
        """See `LanguageModel.num_parameters`."""
        return self._units.num_parameters

    @property
    def device(self) -> str | None:
        """See `LanguageModel.device`."""
        return self._units.device

    @property
    def normalized(self) -> bool | None:
        """True if the scores of units are normalised exactly; None if unknown."""
        return self._units.normalized

    def start(self, count: int) -> np.ndarray:
        """See `LanguageModel.start`."""
        return self._units.start(count)

    def states(self, slots: np.ndarray) -> npt.NDArray[np.float32]:
        """Return the states of the unit model; see `LanguageModel.states`."""
        return self._units.states(slots)

    def word_vectors(self, words: np.ndarray) -> npt.NDArray[np.float32]:
        """Return the mean of the vectors of each word's units; see `LanguageModel.word_vectors`."""
        place, count, units = self._places(words, np.zeros(len(words), np.bool_))
        begin = np.cumsum(count) - count
        unit = units[np.repeat(place - begin, count) + np.arange(count.sum())]
        total: npt.NDArray[np.float32] = np.add.reduceat(self._units.word_vectors(unit), begin)
        return (total / count[:, None]).astype(np.float32)

    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.advance`."""
        place, remaining, unit = self._places(words, self._at_start(slots))
        new = np.empty(len(slots), np.int64)
        active = np.arange(len(slots))
        current = slots
        while len(active):
            longer = self._units.advance(current, unit[place[active]].astype(np.int32))
            if current is not slots:  # slots within words, which the model keeps while longer histories need them
                self._units.release(current)
            place[active] += 1
            remaining[active] -= 1
            more = remaining[active] > 0
            new[active[~more]] = longer[~more]
            active, current = active[more], longer[more]
        return new

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.logprob`."""
        place, remaining, units = self._places(words, self._at_start(slots))
        score = np.zeros(len(slots))
        active = np.arange(len(slots))
        current = slots
        inside = np.empty(0, np.int64)  # slots within words
        while len(active):
            unit = units[place[active]].astype(np.int32)
            score[active] += self._units.logprob(current, unit)
            remaining[active] -= 1
            place[active] += 1
            more = remaining[active] > 0
            active = active[more]
            # Words after the same history often share their first units, which are read only once.
            pair, which = np.unique(np.stack((current[more], unit[more])), axis=1, return_inverse=True)
            longer = self._units.advance(pair[0], pair[1].astype(np.int32))
            self._units.release(inside)
            inside, current = longer, longer[which.reshape(-1)]
        return score.astype(np.float32)

    def release(self, slots: np.ndarray) -> None:
        """See `LanguageModel.release`."""
        self._units.release(slots)

    def score_trie(self, parent: npt.NDArray[np.int32], word: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """See `LanguageModel.score_trie`; builds and scores a trie of units."""
        trie, sums = self._unit_trie(parent, word, parent < 0)
        return sums(self._score_units(*trie))

    def _unit_trie(
        self, parent: npt.NDArray[np.int32], word: npt.NDArray[np.int32], is_first: npt.NDArray[np.bool_]
    ) -> tuple[Trie, Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]]]:
        """Build the trie of the units of a trie of words.

        Args:
            parent: Parent of each word, [n].
            word: Word ids, [n].
            is_first: Whether each word is the first of a sentence, [n].

        Returns:
            The parent and the id of each unit, and a function that sums the scores of units by word.
        """
        places, count, units = self._places(word, is_first)
        begin, end, unit = places.tolist(), (places + count).tolist(), units.tolist()
        nodes: dict[tuple[int, int], int] = {}  # node of the trie of units, by parent and unit
        last: list[int] = []  # node in which each word ends
        owner: list[int] = []
        part: list[int] = []
        for node, upper in enumerate(parent.tolist()):
            at = last[upper] if upper >= 0 else -1
            for place in range(begin[node], end[node]):
                at = nodes.setdefault((at, unit[place]), len(nodes))
                owner.append(node)
                part.append(at)
            last.append(at)
        trie = np.array(list(nodes), np.int32).reshape(-1, 2)

        def sums(score: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
            by_unit = score[part].astype(np.float64)
            return np.bincount(np.array(owner, np.int64), by_unit, len(parent)).astype(np.float32)

        return (np.ascontiguousarray(trie[:, 0]), np.ascontiguousarray(trie[:, 1])), sums

    def _score_units(self, parent: npt.NDArray[np.int32], unit: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        return score_trie(self._units, parent, unit)


class MultiwordLM(UnitLM):
    """A model of words as a `LanguageModel` of multiwords; see `UnitLM`.

    A word that contains the joining character is always split, even if the model knows the whole word. A multiword is
    known if the model knows every part.

    Source: SRILM, ngram(1), ``-multiwords`` and ``-multi-char``; lm/src/MultiwordVocab.cc.
    """

    def __init__(self, lm: LanguageModel, multi_char: str) -> None:
        """Wrap a model of words; `multi_char` joins the parts of multiwords."""
        super().__init__(lm)
        self.scores_tries = lm.scores_tries
        self.bos, self.eos, self.unk, self.unk_words = lm.bos, lm.eos, lm.unk, lm.unk_words
        self.classes = lm.classes
        self.oov_score, self.takes_oov_score = lm.oov_score, lm.takes_oov_score
        self._parts = _Multiwords(lm.vocabulary, multi_char)
        self.vocabulary = self._parts

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
    """Symbol table of a model's words, to which multiwords are added when they are first looked up."""

    __slots__ = ("_inner", "_multi_char", "_numbering", "_split")

    def __init__(self, inner: SymbolTable, multi_char: str) -> None:
        super().__init__(inner, inner.path)
        self._inner = inner
        self._multi_char = multi_char
        self._numbering = threading.Lock()  # two words must not get the same id
        self._split: dict[int, list[int]] = {}  # parts by multiword

    def parts(self, number: int) -> list[int]:
        """Return the ids of a word's parts."""
        return self._split.get(number) or [number]

    def id(self, word: str) -> int | None:
        """Return the id of a word; None if the model lacks one of its parts."""
        if self._multi_char not in word:
            return super().id(word)
        parts = self._inner.ids(part for part in word.split(self._multi_char) if part)
        if not parts or -1 in parts:
            return None
        with self._numbering:
            known = super().id(word)
            number = len(self) if known is None else known
            self._split[number] = parts  # before other threads can look up the id
            if known is None:
                self._add(word, number)
        return number

    def ids(self, words: Iterable[str]) -> list[int]:
        """Return the id of each word; -1 if the model lacks one of its parts."""
        ids = [self.id(word) for word in words]
        return [-1 if number is None else number for number in ids]

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self.id(word) is not None
