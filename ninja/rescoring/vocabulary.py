"""How well language models know the words of lattices."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from ninja.errors import VocabularyError
from ninja.lattice import Lattice
from ninja.lm import LanguageModel
from ninja.lm.word_map import MARKS, NO_WORD, Coverage, WordMap

__all__ = ["MARKS", "NO_WORD", "Coverage", "WordMap", "coverage", "refuse_unknown"]


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


def refuse_unknown(found: Coverage, max_unknown: float) -> None:
    """Refuse a model that knows too few words: then it, or the symbol table, is likely the wrong one.

    Raises:
        VocabularyError: The share of unknown words is above ``max_unknown``.
    """
    if found.share > max_unknown:
        raise VocabularyError(
            f"{found.facts}; more than max_unknown = {max_unknown:.0%}: is this the right model, and the right symbol "
            "table? Raise max_unknown to go on all the same"
        )
