"""Class-based n-gram models with SRILM class definitions (``ngram -classes``)."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError
from ninja.files.stream import text_of
from ninja.files.text import line_fields
from ninja.lattice.symbols import SymbolTable
from ninja.lm.ngram.model import NgramLM
from ninja.lm.protocol import LanguageModel, OOVScore, oov_logprob
from ninja.lm.word_map import BOS, EOS, UNK

Expansions = dict[str, dict[tuple[str, ...], float]]  # probabilities by class and expansion
Token = tuple[int, int]  # n-gram state, and id of the remaining words of an expansion (0 if there are none)
Tokens = tuple[tuple[Token, float], ...]  # parses of a history, with their posteriors in natural log


def read_classes(path: str | os.PathLike[str]) -> Expansions:
    """Read class definitions with lines ``CLASS [probability] word …``; the default probability is 1.

    Raises:
        FormatError: An expansion is empty or occurs twice, a probability is not in [0, 1], or there are no definitions.

    Source: SRILM, classes-format(5).
    """
    classes: Expansions = {}
    for number, line in enumerate(text_of(path).split("\n"), start=1):
        name, *words = line_fields(line) or [""]
        if not name:
            continue
        probability = 1.0
        if words and (leading := _number(words[0])) is not None:
            probability, words = leading, words[1:]
        if not words:
            raise FormatError(
                f"class {name} has an empty expansion; write CLASS [probability] word …", path, line=number
            )
        if not 0 <= probability <= 1:
            raise FormatError(f"the probability is {probability:g}, but must be in [0, 1]", path, line=number)
        expansions = classes.setdefault(name, {})
        if tuple(words) in expansions:
            raise FormatError(
                f"class {name} contains the expansion {' '.join(words)!r} twice; remove one", path, line=number
            )
        expansions[tuple(words)] = probability
    if not classes:
        raise FormatError("the file contains no class definitions; write CLASS [probability] word … on each line", path)
    return classes


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def with_classes(lm: NgramLM, path: str | os.PathLike[str]) -> LanguageModel:
    """Expand the classes of an n-gram model; return the model itself if it contains none of the file's classes."""
    classes = read_classes(path)
    return ClassLM(lm, classes) if any(name in lm.vocabulary for name in classes) else lm


class ClassLM(LanguageModel):
    """A class-based n-gram model as a `LanguageModel` over words.

    A word is parsed as itself, as a class that expands to it, or as part of an expansion of several words. Its
    probability is the sum over all parses of the history and the word, divided by the sum over all parses of the
    history. A slot is the distribution over parses; equal distributions share one slot, and slots are never freed.

    Source: SRILM, lm/src/ClassNgram.cc, ``prefixProb``.
    """

    takes_oov_score = True

    def __init__(self, lm: NgramLM, classes: Expansions) -> None:
        """Create a class-based model from an n-gram model; classes that are not in its vocabulary are ignored."""
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
        # Tree of the remaining words of expansions; expansions with a common suffix share nodes.
        self._rest: list[tuple[int, int]] = [(-1, 0)]  # first word, and id of the remaining words after it
        self._rest_ids: dict[tuple[int, int], int] = {}
        # Class, ln p and id of the remaining words of each expansion, by first word.
        self._entries: dict[int, list[tuple[int, float, int]]] = {}
        for name in self.classes:
            number = numbered[name]
            assert number is not None
            for expansion, probability in classes[name].items():
                if probability:
                    first, *others = self.vocabulary.ids(expansion)
                    entry = (number, math.log(probability), self._rest_id(others))
                    self._entries.setdefault(first, []).append(entry)
        # After a word without any parse, SRILM starts from an empty history.
        unreadable = np.array([lm.model.add_unknown(0.0)], np.int32)
        self._empty: Tokens = (((int(lm.model.advance(lm.start(1), unreadable)[0]), 0), 0.0),)
        self._tokens: list[Tokens] = []
        self._slot: dict[Tokens, int] = {}
        self._start = self._slot_of((((int(lm.start(1)[0]), 0), 0.0),))
        self._known: dict[tuple[int, int], tuple[float, int]] = {}  # ln p and next slot, by (slot, word)
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
        """See `LanguageModel.advance`; histories that are parsed into the same words and classes get the same slot."""
        return np.array([slot for _, slot in self._steps(slots, words)], np.int64)

    def logprob(self, slots: npt.NDArray[np.int64], words: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """See `LanguageModel.logprob`."""
        return np.array([logprob for logprob, _ in self._steps(slots, words)], np.float32)

    def release(self, slots: npt.NDArray[np.int64]) -> None:
        """Do nothing: slots are never freed."""

    def _steps(self, slots: npt.NDArray[np.int64], words: npt.NDArray[np.int32]) -> Iterable[tuple[float, int]]:
        pairs = list(zip(slots.tolist(), words.tolist(), strict=True))
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._known]
        # Query the n-gram model in one call for all pairs of a state and a word or class outside an expansion.
        queries: dict[tuple[int, int], None] = {}
        for slot, word in new:
            for (state, suffix), _ in self._tokens[slot]:
                if not suffix:
                    queries.update(dict.fromkeys((state, number) for number, _, _ in self._readings(word)))
        scores: dict[tuple[int, int], tuple[float, int]] = {}
        if queries:
            states, numbers = (np.array(column) for column in zip(*queries, strict=True))
            logprob, after = self._lm.step(states, numbers.astype(np.int32))
            scores = dict(zip(queries, zip(logprob.tolist(), after.tolist(), strict=True), strict=True))
        for slot, word in new:
            self._known[slot, word] = self._step(self._tokens[slot], word, scores)
        return [self._known[pair] for pair in pairs]

    def _readings(self, word: int) -> list[tuple[int, float, int]]:
        """Return each parse of a word as (word or class id in the n-gram model, ln p, id of the remaining words)."""
        if self.oov_score is not None and word == self.unk:
            return []
        plain = self._plain[word]
        itself = [] if plain < 0 else [(plain, 0.0, 0)]
        return itself + self._entries.get(word, [])

    def _step(self, tokens: Tokens, word: int, scores: dict[tuple[int, int], tuple[float, int]]) -> tuple[float, int]:
        if self.oov_score is not None and word == self.unk:
            return self._oov, self._slot_of(self._empty)
        longer: dict[Token, float] = {}

        def add(token: Token, share: float) -> None:
            if share > -math.inf:
                longer[token] = float(np.logaddexp(longer.get(token, -math.inf), share))

        for (state, suffix), share in tokens:
            if suffix:
                first, others = self._rest[suffix]
                if first == word:
                    add((state, others), share)
                continue
            for number, inside, others in self._readings(word):
                logprob, after = scores[state, number]
                add((after, others), share + logprob + inside)
        if not longer:
            return -math.inf, self._slot_of(self._empty)
        total = float(np.logaddexp.reduce(list(longer.values())))
        return total, self._slot_of(tuple(sorted((token, share - total) for token, share in longer.items())))

    def _rest_id(self, words: Sequence[int]) -> int:
        """Return the id that represents the remaining words of an expansion."""
        if not words:
            return 0
        pair = (words[0], self._rest_id(words[1:]))
        if pair not in self._rest_ids:
            self._rest_ids[pair] = len(self._rest)
            self._rest.append(pair)
        return self._rest_ids[pair]

    def _slot_of(self, tokens: Tokens) -> int:
        if tokens not in self._slot:
            self._slot[tokens] = len(self._tokens)
            self._tokens.append(tokens)
        return self._slot[tokens]
