"""How well language models know the words of lattices."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from ninja.errors import VocabularyError
from ninja.lattice import Lattice
from ninja.lm import LanguageModel
from ninja.lm.word_map import MARKS, NO_WORD, Coverage, WordMap

__all__ = ["MARKS", "NO_WORD", "Coverage", "WordMap", "coverage"]


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
