"""Map words to the pieces of a subword model; each word is split when it is first scored."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ninja.errors import ModelError
from ninja.lattice.symbols import EPSILON_NAME, SymbolTable
from ninja.lm.protocol import TextTransform
from ninja.lm.word_map import BOS, EOS, UNK

CARRIER = "a"  # a word that precedes another word when its pieces inside a sentence are needed
# Private-use characters: a tokenizer that has pieces for them (for example, bytes) can spell any word.
PROBE = "\ue000\U000f0000"
UPPER_SHARE = 0.9  # lattices count as upper-case if at least this fraction of their words is in upper case
# The model's training text counts as lower-case if upper-case words need at least this many times as many pieces.
PIECES_RATIO = 1.25


class Spelling:
    """A growing vocabulary of words, and the pieces of each word.

    The words are ``<s>`` (0), ``</s>`` (1), ``<unk>`` (2) if the tokenizer has an unknown piece, and then all words
    that were looked up and can be spelled. Inside a sentence, the pieces of a word are those that the tokenizer
    adds when a space and the word are appended to a text. As in training, these pieces mark the leading space
    (``Ġthe``, ``▁the``) or continuations (``the ##re``). At the beginning of a sentence, a word can have different
    pieces.
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
        """Wrap a tokenizer.

        Args:
            tokenizer: A tokenizer from the transformers library.
            bos: Id of the piece that begins a text.
            eos: Id of the end-of-text piece.
            num_pieces: Number of pieces in the network's vocabulary.
            transform: Transformation applied to words before they are split; ``"lower"`` for lattices in upper case.
            multi_char: Character that separates the parts of multiwords; it is replaced with a space.
            path: Path of the model, for messages.
        """
        unk = tokenizer.unk_token_id
        self._unk_piece = None if unk in (bos, eos) else unk  # GPT-2 uses one special piece for all purposes
        self._tokenizer = tokenizer
        self._splitting = threading.Lock()  # words are looked up in one thread and scored in another
        self.numbering = threading.RLock()  # two words must not get the same id
        self._num_pieces = num_pieces
        self._path = path
        self.transform = transform
        self._multi_char = multi_char
        self.unk: int | None = None if self._unk_piece is None else 2
        special = {BOS: bos, EOS: eos} | ({} if self._unk_piece is None else {UNK: self._unk_piece})
        # If the tokenizer can spell any word, a word can be looked up without splitting it.
        (probe,) = self._split([PROBE])
        self._refuses = self._unk_piece is not None and (self._unk_piece in probe or not probe)
        (self._carrier,) = self._split([CARRIER])
        self._begin = np.full((2, len(special)), -1, np.int64)  # [inside or first, words], -1 if not split yet
        self._count = np.zeros((2, len(special)), np.int64)
        self.piece: npt.NDArray[np.int64] = np.empty(0, np.int64)  # pieces of all words split so far
        self.vocabulary: SymbolTable = _Words(self, list(special), path)
        for first in (0, 1):
            self._add_pieces(first, np.arange(len(special)), [[piece] for piece in special.values()])

    def places(
        self, word: npt.NDArray[np.integer], first: npt.NDArray[np.bool_]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Look up the offsets at which the pieces of words are stored.

        Args:
            word: Word ids, [n].
            first: True for the first word of a sentence, [n].

        Returns:
            (offsets, lengths), int64 [n] each: the offset of each word's first piece in `piece`, and the word's number
            of pieces.

        Raises:
            ModelError: The tokenizer joins words, has no pieces for a word, or returns pieces that are not in the
                network's vocabulary.
        """
        if (lacking := len(self.vocabulary) - self._begin.shape[1]) > 0:
            lacking = max(lacking, self._begin.shape[1])
            self._begin = np.pad(self._begin, ((0, 0), (0, lacking)), constant_values=-1)
            self._count = np.pad(self._count, ((0, 0), (0, lacking)))
        row = first.astype(np.int64)
        for position in (0, 1):
            distinct = np.unique(word[row == position])
            missing = distinct[self._begin[position, distinct] < 0]
            if missing.size:
                spelled = [self.vocabulary.word(number) for number in missing.tolist()]
                self._add_pieces(position, missing, self._first(spelled) if position else self._inside(spelled))
        return self._begin[row, word], self._count[row, word]

    def text(self, text: str) -> npt.NDArray[np.int64]:
        """Return the pieces of a text, int64 [pieces].

        Raises:
            ModelError: The text is empty, or one of its pieces is not in the network's vocabulary.
        """
        (pieces,) = self._split([text])
        if not pieces or max(pieces) >= self._num_pieces:
            problem = f"needs piece {max(pieces)}, which is not in the network's vocabulary" if pieces else "is empty"
            raise ModelError(f"the prompt {text[:60]!r} {problem}; change the prompt", self._path)
        return np.array(pieces, np.int64)

    def known(self, words: Sequence[str]) -> list[bool]:
        """Return whether the tokenizer can spell each word."""
        if not self._refuses:  # the tokenizer may still drop words without letters, such as a zero-width space
            doubtful = [word for word in words if not any(map(str.isalnum, word))]
            without_pieces = {word for word, pieces in zip(doubtful, self._first(doubtful), strict=True) if not pieces}
            return [word not in without_pieces for word in words]
        return [
            bool(first) and bool(inside) and self._unk_piece not in first and self._unk_piece not in inside
            for first, inside in zip(self._first(words), self._inside(words), strict=True)
        ]

    def advice(self, words: Sequence[str]) -> str | None:
        """Return advice if nearly all words are in upper case and would need far fewer pieces in lower case."""
        cased = [word for word in words if word.lower() != word.upper() and word not in (BOS, EOS, UNK)]
        upper = [word for word in cased if word == word.upper()]
        if self.transform is not None or not upper or len(upper) < UPPER_SHARE * len(cased):
            return None
        spellable = [word for word, known in zip(upper, self.known(upper), strict=True) if known]
        unchanged, lower = (
            sum(map(len, self._split([f"{CARRIER} {word}" for word in spelled]))) - len(spelled) * len(self._carrier)
            for spelled in (spellable, [word.lower() for word in spellable])
        )
        if 2 * len(spellable) > len(upper) and unchanged < PIECES_RATIO * lower:
            return None
        return (
            "nearly all words are in upper case, for which the model needs many more pieces than in lower case; "
            "set text_transform to lower"
        )

    @cached_property
    def has_written_pieces(self) -> bool:
        """Whether the pieces come from cased or punctuated text.

        The result is True if a piece of several letters is not in lower case, or if there is a piece "," but no piece
        "A". Other single characters are ignored, because byte-level tokenizers contain all of them.
        """
        pieces = {piece.lstrip("Ġ▁#") for piece in self._tokenizer.get_vocab()}
        words = [piece for piece in pieces if len(piece) > 1 and piece.isalpha()]
        return any(not piece.islower() for piece in words) or ("," in pieces and "A" not in pieces)

    def _first(self, words: Sequence[str]) -> list[list[int]]:
        return self._split([self._transformed(word) for word in words])

    def _inside(self, words: Sequence[str]) -> list[list[int]]:
        length = len(self._carrier)
        pieces = self._split([f"{CARRIER} {self._transformed(word)}" for word in words])
        joined = next((word for word, ids in zip(words, pieces, strict=True) if ids[:length] != self._carrier), None)
        if joined is not None:
            message = f"the tokenizer merges {CARRIER!r} and {joined!r} into one piece, so words cannot be scored"
            raise ModelError(f"{message}; use a model in which no piece spans two words", self._path)
        return [ids[length:] for ids in pieces]

    def _transformed(self, word: str) -> str:
        if self._multi_char is not None:
            word = " ".join(part for part in word.split(self._multi_char) if part) or word
        return word.lower() if self.transform == "lower" else word

    def _split(self, texts: list[str]) -> list[list[int]]:
        if not texts:
            return []
        with self._splitting:
            pieces: list[list[int]] = self._tokenizer(texts, add_special_tokens=False)["input_ids"]
        return pieces

    def _add_pieces(self, first: int, words: npt.NDArray[np.integer], pieces: list[list[int]]) -> None:
        for word, ids in zip(words.tolist(), pieces, strict=True):
            if not ids:
                spelled = self.vocabulary.word(word)
                message = f"the tokenizer has no pieces for {spelled!r}; remove this word from the lattices"
                raise ModelError(message, self._path)
            if max(ids) >= self._num_pieces:
                message = f"the tokenizer returns piece {max(ids)}, but the network has only {self._num_pieces} pieces"
                raise ModelError(f"{message}; use the tokenizer of this network", self._path)
        count = np.array([len(ids) for ids in pieces], np.int64)
        self._begin[first, words] = len(self.piece) + np.cumsum(count) - count
        self._count[first, words] = count
        new = np.fromiter(itertools.chain.from_iterable(pieces), np.int64, int(count.sum()))
        self.piece = np.concatenate((self.piece, new))


class _Words(SymbolTable):
    """Symbol table of the words that pieces can spell; a word is added when it is first looked up."""

    __slots__ = ("_refused", "_spelling")

    def __init__(self, spelling: Spelling, special: list[str], path: str | None) -> None:
        super().__init__(((word, number) for number, word in enumerate(special)), path)
        self._spelling = spelling
        self._refused: set[str] = {EPSILON_NAME}

    def id(self, word: str) -> int | None:
        """Return the id of a word; None if the pieces cannot spell it."""
        (number,) = self.ids([word])
        return None if number < 0 else number

    def ids(self, words: Iterable[str]) -> list[int]:
        """Return the id of each word; -1 for words that the pieces cannot spell."""
        spellings = list(words)
        with self._spelling.numbering:
            new = [word for word in dict.fromkeys(spellings) if word not in self._id and word not in self._refused]
            for word, known in zip(new, self._spelling.known(new), strict=True):
                if known:
                    self._add(word, len(self._id))
                else:
                    self._refused.add(word)
            return super().ids(spellings)

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self.id(word) is not None
