"""Normalisation of phrases to the spelling of a symbol table."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Literal, get_args

from ninja.errors import OptionError
from ninja.lattice.symbols import EPSILON, SymbolTable

Case = Literal["keep", "lower", "upper", "words"]

_APOSTROPHES = str.maketrans(dict.fromkeys("\u2018\u2019\u201b\u02bc\uff07\u2032`\u00b4", "'"))
_PUNCTUATION = {"Pd", "Ps", "Pe", "Pi", "Pf", "Po"}  # Unicode categories
_SPOKEN = "'&%@#*/\\"  # punctuation that may be a word, or part of one
_HYPHENS = re.compile(r"[-‐‑‒–—/_]+")
_LETTERS_OR_DIGITS = re.compile(r"(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])")
_ONE_CASE = 0.9  # of a table's words with letters: from here on unknown words are taken to be in that case, too


@dataclass(frozen=True, slots=True)
class Normalisation:
    """Rules of normalisation; a word that the symbol table has as it stands is never changed.

    White space is always collapsed to single blanks.
    """

    case: Case = "words"  # "words": the variant that the symbol table has, for unknown words the case of the table
    punctuation: bool = True  # strip it outside words: "(chen," -> "chen"
    unicode: bool = True  # compose characters (NFC)
    apostrophes: bool = True  # ’ and its likes -> '
    parts: bool = True  # "jean-luc" -> "jean luc", "j.r." -> "j. r.", "route66" -> "route 66": if all parts are words

    def __post_init__(self) -> None:
        if self.case not in get_args(Case):
            raise OptionError(f"case is {self.case!r}, but must be one of {', '.join(get_args(Case))}")


AS_TABLE = Normalisation()


class Normaliser:
    """Normalises phrases to the spelling of a symbol table; doing it again changes nothing.

    Without a table words keep their case, unless `rules` give one, and their parts.
    """

    def __init__(self, words: SymbolTable | None = None, rules: Normalisation = AS_TABLE) -> None:
        self.words = words
        self.rules = rules
        self._seen: dict[str, str] = {}
        self._table_case: Case | None = None

    def __call__(self, text: str) -> str:
        """Return the words of a phrase parted by single blanks; empty if nothing is left."""
        words = text.split()
        self._seen.update((word, self._word(word)) for word in words if word not in self._seen)
        return " ".join(filter(None, map(self._seen.__getitem__, words)))

    def _word(self, word: str) -> str:
        rules = self.rules
        start = word
        word = _in_case(word, rules.case)
        if self._has(word) or (self.words is None and word.isascii() and word.isalnum()):
            return word
        if rules.unicode:
            word = unicodedata.normalize("NFC", word)
        if rules.apostrophes:
            word = word.translate(_APOSTROPHES)
        known = self._known(word)
        if known is not None:
            return known
        bare = _without(word, keep="") if rules.punctuation else word
        inner = _without(word, keep="'") if rules.punctuation else word
        forms = (word, inner, inner.removeprefix("'"), inner.removesuffix("'"), bare)  # the least changed first
        known = next((each for form in dict.fromkeys(forms) if (each := self._known(form))), None)
        if known is None and rules.parts:
            known = self._in_parts(inner)
        if known is not None:
            return known
        if bare != inner and inner[:1] == inner[-1:] == "'":  # quotes; one apostrophe alone may belong to the word
            inner = bare
        changed = _in_case(inner, self._case_of_unknown(inner))
        if rules.unicode:
            changed = unicodedata.normalize("NFC", changed)
        # Again, until nothing changes: in rare scripts another case brings other characters with it.
        return changed if changed in ("", start) else self._word(changed)

    def _in_parts(self, word: str) -> str | None:
        """Find parts of a word that are all words; the fewest cuts first."""
        if self.words is None or word.isalpha():
            return None
        at_hyphens = [part for part in _HYPHENS.split(word) if part]
        at_periods = [piece for part in at_hyphens for piece in part.split(".") if piece]
        initials = [f"{piece}." if len(piece) == 1 and self._known(f"{piece}.") else piece for piece in at_periods]
        at_digits = [piece for part in at_periods for piece in _LETTERS_OR_DIGITS.split(part)]
        for parts in (at_hyphens, initials, at_periods, at_digits):
            known = [self._known(part) for part in parts]
            if known and all(known):
                return " ".join(part for part in known if part)
        return None

    def _known(self, word: str) -> str | None:
        """Find the spelling of a word that the table has."""
        if self.words is None or not word:
            return None
        cases = (word, word.lower(), word.upper(), word.capitalize()) if self.rules.case == "words" else (word,)
        spellings = cases if word.isascii() and "'" not in word else chain(cases, self._variants(cases))
        return next(filter(self._has, spellings), None)

    def _has(self, word: str) -> bool:
        return self.words is not None and self.words.id(word) not in (None, EPSILON)

    def _variants(self, words: Iterable[str]) -> Iterator[str]:
        """Yield other ways to write the same characters: the table may have any."""
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
            spelled = [each for each, _ in self.words if each[:1].isalpha()]  # not <unk>
            lower, upper = sum(map(str.islower, spelled)), sum(map(str.isupper, spelled))
            share = lower / (lower + upper) if lower + upper else 0.5
            self._table_case = "lower" if share >= _ONE_CASE else "upper" if share <= 1 - _ONE_CASE else "keep"
        return self._table_case


def _in_case(word: str, case: Case) -> str:
    return word.lower() if case == "lower" else word.upper() if case == "upper" else word


def _without(word: str, keep: str) -> str:
    """Strip the punctuation at both ends of a word, except spoken signs, and apostrophes if kept."""
    spoken = _SPOKEN if keep else _SPOKEN.replace("'", "")
    marks = (each for each in word if each not in spoken and unicodedata.category(each) in _PUNCTUATION)
    return word.strip("".join(marks))
