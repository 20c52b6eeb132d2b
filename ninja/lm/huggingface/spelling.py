"""Words as the pieces of a subword model; a word is split when its score is first asked for."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ninja.errors import ModelError
from ninja.lattice.symbols import EPSILON_NAME, SymbolTable
from ninja.lm.protocol import TextTransform
from ninja.lm.word_map import BOS, EOS, UNK

CARRIER = "a"  # a word before the one of interest, whose pieces then are those of a word inside a sentence
PROBE = "\ue000\U000f0000"  # letters of private use: what has pieces for them has pieces for anything, such as bytes
MANY = 0.9  # of the words, in upper case: then the lattices are
DEARER = 1.25  # times as many pieces in upper case as in lower: then the model's text is not


class Spelling:
    """The pieces of words, in numbers of their own.

    Model words are ``<s>`` (0), ``</s>`` (1), ``<unk>`` (2), if the tokenizer has a piece for what it cannot spell, and
    then all that were looked up and that pieces can spell. A word's pieces inside a sentence are those that the
    tokenizer adds to a sentence for a space and the word: so with leading spaces (``Ġthe``, ``▁the``) or marked
    continuations (``the ##re``), as the model was trained. As the first word of a sentence it may have others.
    """

    def __init__(
        self,
        tokenizer: Any,
        bos: int,
        eos: int,
        num_pieces: int,
        transform: TextTransform | None = None,
        multi_char: str | None = None,
        path: str | None = None,
    ) -> None:
        """Take a tokenizer and the pieces that begin and end a text.

        Args:
            num_pieces: Pieces that the network reads.
            transform: Applied to words before they are split; ``"lower"`` for lattices in upper case.
            multi_char: Stands for a space in words of several.
            path: What messages call the model.
        """
        unk = tokenizer.unk_token_id
        self._unk_piece = None if unk in (bos, eos) else unk  # GPT-2 names its only special piece for all purposes
        self._tokenizer = tokenizer
        self._splitting = threading.Lock()  # words are looked up while others are scored
        self.numbering = threading.RLock()  # two words must not get one number
        self._num_pieces = num_pieces
        self._path = path
        self.transform = transform
        self._multi_char = multi_char
        self.unk: int | None = None if self._unk_piece is None else 2
        special = {BOS: bos, EOS: eos} | ({} if self._unk_piece is None else {UNK: self._unk_piece})
        # Whether a word must be split before it is known to be one of the model's.
        (probe,) = self._split([PROBE])
        self._refuses = self._unk_piece is not None and (self._unk_piece in probe or not probe)
        (self._carrier,) = self._split([CARRIER])
        self._begin = np.full((2, len(special)), -1, np.int64)  # [inside or first, words], -1: not split yet
        self._count = np.zeros((2, len(special)), np.int64)
        self.piece: npt.NDArray[np.int64] = np.empty(0, np.int64)  # of all words split so far
        self.vocabulary: SymbolTable = _Words(self, list(special), path)
        for first in (0, 1):
            self._keep(first, np.arange(len(special)), [[piece] for piece in special.values()])

    def places(
        self, word: npt.NDArray[np.integer], first: npt.NDArray[np.bool_]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return where each word's pieces begin in `piece`, and how many there are, given whether it is the first.

        Raises:
            ModelError: The tokenizer joins words, has no pieces for one, or pieces that the network does not read.
        """
        if (lacking := len(self.vocabulary) - self._begin.shape[1]) > 0:
            lacking = max(lacking, self._begin.shape[1])
            self._begin = np.pad(self._begin, ((0, 0), (0, lacking)), constant_values=-1)
            self._count = np.pad(self._count, ((0, 0), (0, lacking)))
        row = first.astype(np.int64)
        for each in (0, 1):
            asked = np.unique(word[row == each])
            missing = asked[self._begin[each, asked] < 0]
            if missing.size:
                spelled = [self.vocabulary.word(number) for number in missing.tolist()]
                self._keep(each, missing, self._first(spelled) if each else self._inside(spelled))
        return self._begin[row, word], self._count[row, word]

    def known(self, words: Sequence[str]) -> list[bool]:
        """Tell which words the pieces can spell."""
        if not self._refuses:
            return [True] * len(words)
        return [
            bool(own) and bool(inside) and self._unk_piece not in own and self._unk_piece not in inside
            for own, inside in zip(self._first(words), self._inside(words), strict=True)
        ]

    def advice(self, words: Sequence[str]) -> str | None:
        """Advise a transform where nearly all words are in upper case and take far more pieces than in lower case."""
        cased = [word for word in words if word.lower() != word.upper() and word not in (BOS, EOS, UNK)]
        upper = [word for word in cased if word == word.upper()]
        if self.transform is not None or not upper or len(upper) < MANY * len(cased):
            return None
        known = [word for word, both in zip(upper, self.known(upper), strict=True) if both]
        given, lower = (
            sum(map(len, self._split([f"{CARRIER} {word}" for word in spelled]))) - len(spelled) * len(self._carrier)
            for spelled in (known, [word.lower() for word in known])
        )
        if 2 * len(known) > len(upper) and given < DEARER * lower:
            return None
        return (
            "nearly all words are in upper case, which the model's pieces hardly know: it was likely trained on other "
            "text; give text_transform lower"
        )

    def _first(self, words: Sequence[str]) -> list[list[int]]:
        return self._split([self._transformed(word) for word in words])

    def _inside(self, words: Sequence[str]) -> list[list[int]]:
        length = len(self._carrier)
        behind = self._split([f"{CARRIER} {self._transformed(word)}" for word in words])
        joined = next((word for word, own in zip(words, behind, strict=True) if own[:length] != self._carrier), None)
        if joined is not None:
            message = f"its tokenizer makes one piece of {CARRIER!r} and {joined!r}: words have no scores"
            raise ModelError(message, self._path)
        return [own[length:] for own in behind]

    def _transformed(self, word: str) -> str:
        if self._multi_char is not None:
            word = " ".join(part for part in word.split(self._multi_char) if part) or word
        return word.lower() if self.transform == "lower" else word

    def _split(self, texts: list[str]) -> list[list[int]]:
        if not texts:
            return []
        with self._splitting:
            found: list[list[int]] = self._tokenizer(texts, add_special_tokens=False)["input_ids"]
        return found

    def _keep(self, first: int, words: npt.NDArray[np.integer], pieces: list[list[int]]) -> None:
        for word, own in zip(words.tolist(), pieces, strict=True):
            if not own:
                spelled = self.vocabulary.word(word)
                message = f"its tokenizer has no pieces for {spelled!r}; remove it from the lattices"
                raise ModelError(message, self._path)
            if max(own) >= self._num_pieces:
                message = f"its tokenizer has a piece {max(own)}, but its network only {self._num_pieces}"
                raise ModelError(message, self._path)
        count = np.array([len(own) for own in pieces], np.int64)
        self._begin[first, words] = len(self.piece) + np.cumsum(count) - count
        self._count[first, words] = count
        new = np.fromiter(itertools.chain.from_iterable(pieces), np.int64, int(count.sum()))
        self.piece = np.concatenate((self.piece, new))


class _Words(SymbolTable):
    """The words that pieces spell, numbered when they are first looked up."""

    __slots__ = ("_refused", "_spelling")

    def __init__(self, spelling: Spelling, special: list[str], path: str | None) -> None:
        super().__init__(((word, number) for number, word in enumerate(special)), path)
        self._spelling = spelling
        self._refused: set[str] = {EPSILON_NAME}

    def id(self, word: str) -> int | None:
        """Return the id of a word, None if no pieces spell it."""
        (number,) = self.ids([word])
        return None if number < 0 else number

    def ids(self, words: Iterable[str]) -> list[int]:
        """Return the id of each of some words, -1 for those that no pieces spell."""
        named = list(words)
        with self._spelling.numbering:
            new = [word for word in dict.fromkeys(named) if word not in self._id and word not in self._refused]
            for word, known in zip(new, self._spelling.known(new), strict=True):
                if known:
                    self._add(word, len(self._id))
                else:
                    self._refused.add(word)
            return super().ids(named)

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self.id(word) is not None
