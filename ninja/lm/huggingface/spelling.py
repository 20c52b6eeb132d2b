"""Words as the pieces of a subword model: each word is split once, at the start of a sentence and inside one."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ninja.errors import ModelError
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.lm.word_map import BOS, EOS, UNK

CARRIER = "a"  # a word before the one of interest, whose pieces then are those of a word inside a sentence


@dataclass(frozen=True, slots=True)
class Spelling:
    """The pieces of every word of a vocabulary.

    Word `w` inside a sentence is ``piece[begin[w] : begin[w + 1]]``; as its first word it stands `num_words` entries
    later. Model words are ``<s>`` (0), ``</s>`` (1), then all that the pieces can spell, and last ``<unk>``, if the
    tokenizer has a piece for what it cannot spell.
    """

    vocabulary: SymbolTable
    piece: npt.NDArray[np.int64]
    begin: npt.NDArray[np.int64]  # [2 * words + 1]
    unk: int | None  # id of <unk> among the words

    @property
    def num_words(self) -> int:
        """Number of words, ``<s>``, ``</s>`` and ``<unk>`` included."""
        return len(self.begin) // 2

    def entry(self, word: npt.NDArray[np.integer], first: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Return each word's place in `begin`, given whether it is the first of its sentence."""
        return word.astype(np.int64) + np.where(first, self.num_words, 0)


def spell(words: SymbolTable, tokenizer: Any, bos: int, eos: int, path: str | None = None) -> Spelling:
    """Split all words of a symbol table, but for the one with id 0.

    A word's pieces inside a sentence are those that the tokenizer adds to a sentence for a space and the word: so
    with leading spaces (``Ġthe``, ``▁the``) or marked continuations (``the ##re``), as the model was trained.

    Raises:
        ModelError: The tokenizer joins words, or has neither pieces for a word nor one for unknown ones.
    """
    unk = tokenizer.unk_token_id
    if unk in (bos, eos):  # GPT-2 names its only special piece for all purposes
        unk = None
    candidates = [word for word, number in words if number != EPSILON and word not in (BOS, EOS)]
    if unk is not None:
        candidates = [word for word in candidates if word != UNK]
    first = _pieces(tokenizer, candidates)
    carried = _pieces(tokenizer, [f"{CARRIER} {word}" for word in candidates])
    (carrier,) = _pieces(tokenizer, [CARRIER])
    spelled: list[str] = []
    inside: list[list[int]] = []
    at_start: list[list[int]] = []
    for word, alone, behind in zip(candidates, first, carried, strict=True):
        if behind[: len(carrier)] != carrier:
            raise ModelError(f"its tokenizer makes one piece of {CARRIER!r} and {word!r}: words have no scores", path)
        own = behind[len(carrier) :]
        if not own or not alone or unk in own or unk in alone:
            if unk is None:
                raise ModelError(f"its tokenizer has no pieces for {word!r}; remove it from the symbol table", path)
            continue  # the lattices' word is unknown, and says so where they are compared with the vocabulary
        spelled.append(word)
        inside.append(own)
        at_start.append(alone)
    special = [] if unk is None else [[unk]]
    names = [BOS, EOS, *spelled, *([] if unk is None else [UNK])]
    rows = [[bos], [eos], *inside, *special, [bos], [eos], *at_start, *special]
    begin = np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int64)
    piece = np.fromiter(itertools.chain.from_iterable(rows), np.int64, int(begin[-1]))
    vocabulary = SymbolTable(((word, number) for number, word in enumerate(names)), path)
    return Spelling(vocabulary, piece, begin, None if unk is None and UNK not in names else vocabulary.id(UNK))


def _pieces(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    return tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []
