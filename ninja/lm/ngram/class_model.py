"""N-gram models over words and classes, with SRILM's class definitions (``ngram -classes``)."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError
from ninja.files import text as utf8
from ninja.lattice.symbols import SymbolTable
from ninja.lm.ngram.model import NgramLM
from ninja.lm.protocol import LanguageModel, OOVScore, oov_logprob
from ninja.lm.word_map import BOS, EOS, UNK

Expansions = dict[str, dict[tuple[str, ...], float]]  # of each class: words and their probability
Token = tuple[int, int]  # n-gram state, and what is left of an expansion (0: nothing)
Tokens = tuple[tuple[Token, float], ...]  # ways to read a history, with the natural log of their shares


def read_classes(path: str | os.PathLike[str]) -> Expansions:
    """Read class definitions: ``CLASS [probability] word …`` on each line, the probability 1 where it is left out.

    Raises:
        FormatError: An expansion has no words or is given twice, or a probability is outside 0 … 1.

    Source: SRILM, classes-format(5).
    """
    classes: Expansions = {}
    for number, line in enumerate(utf8.read(path).split("\n"), start=1):
        name, *words = line.split() or [""]
        if not name:
            continue
        probability = 1.0
        if words and (given := _number(words[0])) is not None:
            probability, words = given, words[1:]
        if not words:
            raise FormatError(f"class {name} expands to no words; give CLASS [probability] word …", path, line=number)
        if not 0 <= probability <= 1:
            raise FormatError(f"the probability {probability:g} is outside 0 … 1", path, line=number)
        expansions = classes.setdefault(name, {})
        if tuple(words) in expansions:
            raise FormatError(f"class {name} has the expansion {' '.join(words)!r} twice", path, line=number)
        expansions[tuple(words)] = probability
    if not classes:
        raise FormatError("no class definitions in this file", path)
    return classes


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def with_classes(lm: NgramLM, path: str | os.PathLike[str]) -> LanguageModel:
    """Return an n-gram model over words alone, or itself if it has none of the classes that a file defines."""
    classes = read_classes(path)
    return ClassLM(lm, classes) if any(name in lm.vocabulary for name in classes) else lm


class ClassLM(LanguageModel):
    """An n-gram model of which some words are classes, behind the protocol of `LanguageModel`; over words alone.

    A word is read as itself, as a class that expands to it, or within an expansion of several words. The probability of
    a word is the sum over all ways to read the history and it, divided by that of all ways to read the history. A slot
    is the shares of the ways; equal ones are equal integers, and nothing is ever released.

    Source: SRILM, lm/src/ClassNgram.cc, ``prefixProb``.
    """

    takes_oov_score = True

    def __init__(self, lm: NgramLM, classes: Expansions) -> None:
        """Take over an n-gram model; classes that it does not have are never entered."""
        self._lm = lm
        numbered = {name: lm.vocabulary.id(name) for name in classes}
        self.classes = tuple(name for name, number in numbered.items() if number is not None)
        words = [word for word, _ in lm.vocabulary if word not in classes]
        inner = itertools.chain.from_iterable(words for name in self.classes for words in classes[name])
        self.vocabulary = SymbolTable.from_words(list(dict.fromkeys([*words, *inner])))
        self.vocabulary.path = lm.vocabulary.path
        self.bos = self.vocabulary.id(BOS)
        self.eos: int = self.vocabulary.ids([EOS])[0]
        self.unk = None if lm.unk is None else self.vocabulary.id(lm.vocabulary.word(lm.unk))
        self._plain = lm.vocabulary.ids(word for word, _ in self.vocabulary)
        # What an expansion may go on with: a tree of word ids, equal rests shared.
        self._rest: list[tuple[int, int]] = [(-1, 0)]  # first word and what follows it
        self._rest_number: dict[tuple[int, int], int] = {}
        self._entries: dict[int, list[tuple[int, float, int]]] = {}  # by first word: class, log-probability, rest
        for name in self.classes:
            number = numbered[name]
            assert number is not None
            for expansion, probability in classes[name].items():
                if probability:
                    first, *others = self.vocabulary.ids(expansion)
                    entry = (number, math.log(probability), self._numbered(others))
                    self._entries.setdefault(first, []).append(entry)
        # Behind a word that nothing reads, SRILM begins a history without words.
        nothing = np.array([lm.model.add_unknown(0.0)], np.int32)
        self._empty: Tokens = (((int(lm.model.advance(lm.start(1), nothing)[0]), 0), 0.0),)
        self._tokens: list[Tokens] = []
        self._slot: dict[Tokens, int] = {}
        self._start = self._slot_of((((int(lm.start(1)[0]), 0), 0.0),))
        self._known: dict[tuple[int, int], tuple[float, int]] = {}  # by slot and word: ln p, and the next slot
        self._oov = math.nan

    def score_oovs(self, score: OOVScore) -> None:
        """See `LanguageModel.score_oovs`."""
        assert self.unk is None
        self._oov = oov_logprob(score, len(self.vocabulary))
        self.unk = len(self.vocabulary)
        self.vocabulary = SymbolTable([*self.vocabulary, (UNK, self.unk)], self.vocabulary.path)
        self.unk_words = None if score == "spread" else 1
        self.oov_score = score

    def start(self, count: int) -> npt.NDArray[np.int64]:
        """See `LanguageModel.start`."""
        return np.full(count, self._start, np.int64)

    def advance(self, slots: npt.NDArray[np.int64], words: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """See `LanguageModel.advance`; histories that are read alike get equal slots."""
        return np.array([slot for _, slot in self._steps(slots, words)], np.int64)

    def logprob(self, slots: npt.NDArray[np.int64], words: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """See `LanguageModel.logprob`."""
        return np.array([logprob for logprob, _ in self._steps(slots, words)], np.float32)

    def release(self, slots: npt.NDArray[np.int64]) -> None:
        """See `LanguageModel.release`; there is nothing to free."""

    def _steps(self, slots: npt.NDArray[np.int64], words: npt.NDArray[np.int32]) -> Iterable[tuple[float, int]]:
        pairs = list(zip(slots.tolist(), words.tolist(), strict=True))
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._known]
        # All questions to the n-gram model at once: (state, word or class) of every token outside expansions.
        asked: dict[tuple[int, int], None] = {}
        for slot, word in new:
            for (state, rest), _ in self._tokens[slot]:
                if not rest:
                    asked.update(dict.fromkeys((state, number) for number, _, _ in self._readings(word)))
        answer: dict[tuple[int, int], tuple[float, int]] = {}
        if asked:
            states, numbers = (np.array(each) for each in zip(*asked, strict=True))
            logprob, after = self._lm.step(states, numbers.astype(np.int32))
            answer = dict(zip(asked, zip(logprob.tolist(), after.tolist(), strict=True), strict=True))
        for slot, word in new:
            self._known[slot, word] = self._step(self._tokens[slot], word, answer)
        return [self._known[pair] for pair in pairs]

    def _readings(self, word: int) -> list[tuple[int, float, int]]:
        """Return the n-gram model's words that a word may be read as: number, log-probability of it, and rest."""
        if self.oov_score is not None and word == self.unk:
            return []
        plain = self._plain[word]
        itself = [] if plain < 0 else [(plain, 0.0, 0)]
        return itself + self._entries.get(word, [])

    def _step(self, tokens: Tokens, word: int, answer: dict[tuple[int, int], tuple[float, int]]) -> tuple[float, int]:
        if self.oov_score is not None and word == self.unk:
            return self._oov, self._slot_of(self._empty)
        found: dict[Token, float] = {}

        def add(token: Token, share: float) -> None:
            if share > -math.inf:
                found[token] = float(np.logaddexp(found.get(token, -math.inf), share))

        for (state, rest), share in tokens:
            if rest:
                first, others = self._rest[rest]
                if first == word:
                    add((state, others), share)
                continue
            for number, inside, others in self._readings(word):
                logprob, after = answer[state, number]
                add((after, others), share + logprob + inside)
        if not found:
            return -math.inf, self._slot_of(self._empty)
        total = float(np.logaddexp.reduce(list(found.values())))
        return total, self._slot_of(tuple(sorted((token, share - total) for token, share in found.items())))

    def _numbered(self, words: Sequence[int]) -> int:
        """Return the number of the rest of an expansion."""
        if not words:
            return 0
        pair = (words[0], self._numbered(words[1:]))
        if pair not in self._rest_number:
            self._rest_number[pair] = len(self._rest)
            self._rest.append(pair)
        return self._rest_number[pair]

    def _slot_of(self, tokens: Tokens) -> int:
        if tokens not in self._slot:
            self._slot[tokens] = len(self._tokens)
            self._tokens.append(tokens)
        return self._slot[tokens]
