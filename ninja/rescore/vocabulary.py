"""The bridge between the words of lattices and the words a language model knows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from ninja.errors import SymbolError, VocabularyError
from ninja.lattice import Lattice
from ninja.lm import LanguageModel
from ninja.symbols import EPSILON, SymbolTable

NO_WORD = -1
# Decoders that leave these on arcs mean no word: the language model starts and ends sentences by itself.
MARKS = ("<s>", "</s>", "<eps>")


@dataclass(frozen=True, slots=True)
class Coverage:
    """How well a language model knows the words of some lattices."""

    arcs: int  # arcs that carry a word
    unknown_arcs: int  # of these, arcs whose word the model lacks
    words: int  # distinct words on arcs
    unknown_words: int
    commonest: tuple[tuple[str, int], ...]  # the unknown words on most arcs, with their counts
    unk_penalty: float  # cost added to <unk> for each of them

    @property
    def share(self) -> float:
        """Share of arcs whose word the model lacks, in [0, 1]."""
        return self.unknown_arcs / self.arcs if self.arcs else 0.0

    @property
    def facts(self) -> str:
        """How many arcs carry words the model lacks, and which."""
        if not self.unknown_arcs:
            return f"the language model knows all {self.words} words of the lattices"
        named = ", ".join(word for word, _ in self.commonest)
        return (
            f"{self.share:.1%} of arcs carry words unknown to the language model ({self.unknown_words} of "
            f"{self.words} words; commonest: {named})"
        )

    def __str__(self) -> str:
        if not self.unknown_arcs:
            return self.facts
        return f"{self.facts}; scored as <unk> with penalty {self.unk_penalty:.2f}"


class WordMap:
    """Language-model ids and out-of-vocabulary penalties of every word of a symbol table.

    Args:
        words: The lattices' symbol table.
        lm: The language model.
        unk_penalty: Cost beyond <unk>'s for words the model lacks; None shares <unk>'s probability out evenly: the
            natural log of how many words it stood for in training, or if that is not known, of how many words of
            the table the model lacks.
    """

    def __init__(self, words: SymbolTable, lm: LanguageModel, unk_penalty: float | None = None) -> None:
        self.words = words
        size = max((number for _, number in words), default=-1) + 1
        self._listed = np.zeros(size, np.bool_)
        self._lm_word = np.full(size, NO_WORD, np.int32)
        self._known = np.ones(size, np.bool_)
        for word, number in words:
            self._listed[number] = True
            if number == EPSILON or word in MARKS:
                continue
            found = lm.vocabulary.id(word)
            self._known[number] = found is not None
            self._lm_word[number] = (NO_WORD if lm.unk is None else lm.unk) if found is None else found
        self.has_unk = lm.unk is not None
        sharing = lm.unk_words or int(np.count_nonzero(~self._known))
        self.unk_penalty = math.log(max(sharing, 1)) if unk_penalty is None else unk_penalty
        self._extra = np.where(self._known, np.float32(0), np.float32(self.unk_penalty))

    def of(self, lattice: Lattice) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """Return the model's word (-1: none) and the out-of-vocabulary penalty of each arc, [num_arcs] each.

        Raises:
            SymbolError: An arc's word id is not in the symbol table.
            VocabularyError: An arc's word is unknown to a model without <unk>.
        """
        word = lattice.word
        if word.size and (int(word.max()) >= self._listed.size or not self._listed[word].all()):
            bad = next(int(w) for w in word if w >= self._listed.size or not self._listed[w])
            raise SymbolError(
                f"word id {bad} is not in the symbol table {self.words.path or ''}; is it the right one?",
                key=lattice.key,
            )
        if not self.has_unk and not (known := self._known[word]).all():
            lacking = self.words.word(int(word[~known][0]))
            raise VocabularyError(f"the model has neither {lacking!r} nor <unk>", key=lattice.key)
        return self._lm_word[word], self._extra[word]

    def coverage(self, lattices: Iterable[Lattice], num_named: int = 8) -> Coverage:
        """Count how many arcs of some lattices carry words the model lacks."""
        count = np.zeros(self._listed.size, np.int64)
        for lattice in lattices:
            count += np.bincount(lattice.word[lattice.word < count.size], minlength=count.size)
        count[self._known & (self._lm_word == NO_WORD)] = 0  # epsilons and sentence marks
        lacking = np.where(self._known, 0, count)
        unknown = Counter({int(w): int(lacking[w]) for w in np.flatnonzero(lacking)})
        return Coverage(
            arcs=int(count.sum()),
            unknown_arcs=int(lacking.sum()),
            words=int(np.count_nonzero(count)),
            unknown_words=len(unknown),
            commonest=tuple((self.words.word(w), n) for w, n in unknown.most_common(num_named)),
            unk_penalty=self.unk_penalty,
        )


def coverage(lattices: Iterable[Lattice], lm: LanguageModel, unk_penalty: float | None = None) -> Coverage:
    """Count how many arcs of some lattices carry words a language model lacks.

    Args:
        lattices: Lattices that share one symbol table.
        lm: The language model.
        unk_penalty: As in ``RescoreOptions``.

    Raises:
        VocabularyError: A lattice carries no symbol table.
    """
    source = iter(lattices)
    first = next(source, None)
    if first is None:
        return Coverage(0, 0, 0, 0, (), unk_penalty or 0.0)
    if first.words is None:
        raise VocabularyError("the lattices carry no symbol table; give the words.txt they were made with")
    return WordMap(first.words, lm, unk_penalty).coverage(chain([first], source))
