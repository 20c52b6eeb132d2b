"""Vocabularies of language models: special words, and the word lists of models that hold only ids."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ninja.errors import FormatError, ModelError, SymbolError
from ninja.lattice.symbols import SymbolTable

BOS = "<s>"
EOS = "</s>"
UNK = "<unk>"
SPECIAL = (BOS, EOS, UNK)  # ids 0, 1, 2 of every vocabulary made here
BESIDE = "words.txt"  # or packed, with .gz behind it


@dataclass(frozen=True, slots=True)
class Words:
    """A model's words and which of them begin and end sentences and stand for unknown ones."""

    vocabulary: SymbolTable  # ids from 0 without gaps
    bos: int
    eos: int
    unk: int | None
    unk_words: int | None = None  # distinct words of the training text that `unk` stood for, where known

    @classmethod
    def of(
        cls,
        vocabulary: SymbolTable,
        path: str | os.PathLike[str] | None = None,
        *,
        bos: str = BOS,
        eos: str = EOS,
        unk: str = UNK,
        unk_words: int | None = None,
    ) -> Words:
        """Look up the special words of a vocabulary; `bos` may do what `eos` does, and there need be no `unk`."""
        size = len(vocabulary)
        largest = max((number for _, number in vocabulary), default=-1)
        if largest != size - 1:
            raise ModelError(
                f"{size} words, but ids up to {largest}; give each id from 0 a word", vocabulary.path or path
            )
        first, last = vocabulary.id(bos), vocabulary.id(eos)
        if first is None or last is None:
            lacking = bos if first is None else eos
            raise ModelError(f"the vocabulary lacks {lacking}; name the words that begin and end sentences", path)
        return cls(vocabulary, first, last, vocabulary.id(unk), unk_words)

    def fit(self, num_words: int, path: str | None = None) -> Words:
        """Return the words, if a network scores as many."""
        if len(self.vocabulary) != num_words:
            found = f"{len(self.vocabulary)} words in the vocabulary, but the network scores {num_words}"
            raise ModelError(f"{found}; give the words it has", path)
        return self


def find(path: str, given: SymbolTable | None, inside: str | None) -> SymbolTable:
    """Find the vocabulary of a model: the user's own, else the text in the model, else ``words.txt`` beside it.

    The text has a word a line, by id, or a word and its id.
    """
    if given is not None:
        return given
    if inside is not None:
        return _parse(inside, path)
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    beside = os.path.join(folder, BESIDE)
    for name in (beside, f"{beside}.gz"):
        if os.path.isfile(name):
            return SymbolTable.read(name)
    message = (
        f"no vocabulary: neither in the model nor as {beside}; put the one it was made with there, or give it with"
    )
    raise ModelError(f"{message} load(path, words=SymbolTable.read(...))", path)


def _parse(text: str, path: str) -> SymbolTable:
    lines = [line.split() for line in text.strip("\r\n").split("\n")]
    fields = len(lines[0])
    odd = next((number for number, line in enumerate(lines, 1) if len(line) != fields), None)
    if fields not in (1, 2) or odd:
        place = f"line {odd or 1}"
        raise ModelError(f"the vocabulary inside is not a word, or a word and its id, a line ({place})", path)
    try:
        if fields == 1:
            return SymbolTable(((line[0], number) for number, line in enumerate(lines)), path)
        return SymbolTable(((word, int(number)) for word, number in lines), path)
    except (FormatError, SymbolError) as error:
        raise ModelError(f"the vocabulary inside is damaged: {error.message}", path) from error
    except ValueError as error:
        raise ModelError(f"the vocabulary inside has an id that is no integer ({error})", path) from error
