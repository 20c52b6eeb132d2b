"""Normalisation of phrases to the spelling of a symbol table."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Literal, get_args

from ninja.errors import OptionError
from ninja.lattice.characters import APOSTROPHES
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.lattice.text import Normalizer

Case = Literal["keep", "lower", "upper", "words"]

_PUNCTUATION = {"Pd", "Ps", "Pe", "Pi", "Pf", "Po"}  # Unicode categories
_SPOKEN = "'&%@#*/\\"  # punctuation that may be a word or part of a word
_HYPHENS = re.compile(r"[-‐‑‒–—/_]+")
_LETTERS_OR_DIGITS = re.compile(r"(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])")
_ONE_CASE = 0.9  # if at least this fraction of a table is in one case, unknown words are converted to this case


@dataclass(frozen=True, slots=True)
class Normalisation:
    """Rules for normalising phrases; whitespace is always collapsed to single spaces.

    A word in the symbol table is changed only if `case` is "lower" or "upper".
    """

    case: Case = "words"  # "words": the case found in the symbol table; for unknown words, the table's usual case
    punctuation: bool = True  # strip punctuation at both ends of words: "(chen," -> "chen"
    unicode: bool = True  # compose characters (NFC)
    apostrophes: bool = True  # ’ and similar -> '
    parts: bool = True  # "jean-luc" -> "jean luc", "j.r." -> "j. r.", "route66" -> "route 66", if the parts are known

    def __post_init__(self) -> None:
        if self.case not in get_args(Case):
            raise OptionError(f"case is {self.case!r}, but must be one of {', '.join(get_args(Case))}")


AS_TABLE = Normalisation()


class Normaliser:
    """Callable that normalises phrases to the spelling of a symbol table; normalisation is idempotent.

    Without a table, words are not split, and they keep their case unless `rules.case` is "lower" or "upper".
    """

    def __init__(self, words: SymbolTable | None = None, rules: Normalisation = AS_TABLE) -> None:
        self.words = words
        self.rules = rules
        self._cache: dict[str, str] = {}
        self._table_case: Case | None = None

    def form(self, text: str) -> str:
        """Return the text by which a normalised phrase is compared with other phrases: the phrase itself."""
        return text

    def __call__(self, text: str) -> str:
        """Return the normalised words of a phrase, separated by single spaces; "" if nothing remains."""
        words = text.split()
        self._cache.update((word, self._word(word)) for word in words if word not in self._cache)
        return " ".join(filter(None, map(self._cache.__getitem__, words)))

    def _word(self, word: str) -> str:
        rules = self.rules
        start = word
        word = _in_case(word, rules.case)
        if self._has(word) or (self.words is None and word.isascii() and word.isalnum()):
            return word
        if rules.unicode:
            word = unicodedata.normalize("NFC", word)
        if rules.apostrophes:
            word = word.translate(APOSTROPHES)
        written_word = self._known(word)
        if written_word is not None:
            return written_word
        bare = _without(word, keep="") if rules.punctuation else word
        inner = _without(word, keep="'") if rules.punctuation else word
        forms = (word, inner, inner.removeprefix("'"), inner.removesuffix("'"), bare)  # the least changed first
        written_word = next(filter(None, map(self._known, dict.fromkeys(forms))), None)
        if written_word is None and rules.parts:
            written_word = self._in_parts(inner)
        if written_word is not None:
            return written_word
        if bare != inner and inner[:1] == inner[-1:] == "'":  # quotes; a single apostrophe may belong to the word
            inner = bare
        changed = _in_case(inner, self._case_of_unknown(inner))
        if rules.unicode:
            changed = unicodedata.normalize("NFC", changed)
        # Repeat until nothing changes, because in some scripts a change of case affects other characters.
        return changed if changed in ("", start) else self._word(changed)

    def _in_parts(self, word: str) -> str | None:
        """Split a word into words of the symbol table, separated by spaces; return None if that is impossible.

        The word is split at hyphens, at periods, or between letters and digits, into as few words as possible.
        """
        if self.words is None or word.isalpha():
            return None
        at_hyphens = [part for part in _HYPHENS.split(word) if part]
        at_periods = [piece for part in at_hyphens for piece in part.split(".") if piece]
        initials = [f"{piece}." if len(piece) == 1 and self._known(f"{piece}.") else piece for piece in at_periods]
        at_digits = [piece for part in at_periods for piece in _LETTERS_OR_DIGITS.split(part)]
        for parts in (at_hyphens, initials, at_periods, at_digits):
            written_parts = [self._known(part) for part in parts]
            if written_parts and all(written_parts):
                return " ".join(part for part in written_parts if part)
        return None

    def _known(self, word: str) -> str | None:
        """Return the spelling of a word in the symbol table, or None if the table does not contain the word."""
        if self.words is None or not word:
            return None
        cases = (word, word.lower(), word.upper(), word.capitalize()) if self.rules.case == "words" else (word,)
        spellings = cases if word.isascii() and "'" not in word else chain(cases, self._variants(cases))
        return next(filter(self._has, spellings), None)

    def _has(self, word: str) -> bool:
        return self.words is not None and self.words.id(word) not in (None, EPSILON)

    def _variants(self, words: Iterable[str]) -> Iterator[str]:
        """Yield spellings of words that differ only in Unicode normalisation or in the apostrophe character."""
        for word in words:
            if self.rules.unicode:
                yield unicodedata.normalize("NFC", word)
                yield unicodedata.normalize("NFD", word)
            if self.rules.apostrophes:
                yield word.replace("'", "\u2019")

    def _case_of_unknown(self, word: str) -> Case:
        if self.rules.case != "words" or self.words is None or word.lower() == word.upper():
            return self.rules.case
        if self._table_case is None:
            words = [word for word, _ in self.words if word[:1].isalpha()]  # not <unk>
            lower, upper = sum(map(str.islower, words)), sum(map(str.isupper, words))
            share = lower / (lower + upper) if lower + upper else 0.5
            self._table_case = "lower" if share >= _ONE_CASE else "upper" if share <= 1 - _ONE_CASE else "keep"
        return self._table_case


class AsListed(Normaliser):
    """Normaliser that leaves phrases as they are written, and compares them by their lexical forms."""

    def __init__(self, normalizer: Normalizer) -> None:
        super().__init__()
        self._normalizer = normalizer

    def form(self, text: str) -> str:
        """Return the lexical words of a phrase."""
        return self._normalizer.text(text)

    def __call__(self, text: str) -> str:
        """Return the words of a phrase, separated by single spaces; "" if it has no lexical words."""
        form = self._normalizer.text(text)
        return text if form == text else " ".join(text.split()) if form else ""


def _in_case(word: str, case: Case) -> str:
    return word.lower() if case == "lower" else word.upper() if case == "upper" else word


def _without(word: str, keep: str) -> str:
    """Strip punctuation from both ends of a word, except signs such as "&"; strip apostrophes if `keep` is empty."""
    spoken = _SPOKEN if keep else _SPOKEN.replace("'", "")
    punctuation = (char for char in word if char not in spoken and unicodedata.category(char) in _PUNCTUATION)
    return word.strip("".join(punctuation))
