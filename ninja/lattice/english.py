"""Lexical forms for written English: the normalisation rules of Whisper's evaluation, with numbers spelled out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ninja.lattice.characters import APOSTROPHES, LABEL
from ninja.libraries import needed_for

Form = tuple[str, ...]

_SEPARATOR = "zqzq"  # separates words that are normalised in one call; no rule changes it or joins it to a word
_SINGLE = re.compile(rf"[<>\[\]()]|{_SEPARATOR}")  # normalised separately: a bracket could enclose other words
_NUMBER = re.compile(r"([$¢€£]?)([0-9]+(?:\.[0-9]+)?)(%|st|nd|rd|th|s)?(.*)")
_DIGIT = re.compile("[0-9]")
_SIGNS = ".%$¢€£"  # kept by Whisper's rules, because they may belong to numbers
_UNITS = {"$": "dollars", "¢": "cents", "€": "euros", "£": "pounds"}
_FIRST_YEAR, _LAST_YEAR = 1100, 2099  # four-digit numbers in this range are spelled as years
_MAX_DIGITS = 15  # longer numbers are spelled digit by digit


def english_forms(words: Sequence[str]) -> list[Form]:
    """Return the lexical form of each written English word: the spoken words, with numbers spelled out.

    Raises:
        DependencyError: whisper-normalizer or num2words is not installed.

    Source: Radford et al. 2022, arXiv:2212.04356, appendix C.
    """
    together = [word for word in words if not _SINGLE.search(word)]
    rules = _rules()
    spelled = dict(zip(together, rules(f" {_SEPARATOR} ".join(together)).split(_SEPARATOR), strict=bool(together)))
    for word in words:
        if word not in spelled:
            spelled[word] = word if LABEL.fullmatch(word) else rules(word)
    return [(word,) if LABEL.fullmatch(word) else _with_numbers(spelled[word].split()) for word in words]


@cache
def _rules() -> Callable[[str], str]:
    """Return Whisper's normalizer without the rule that converts spelled-out numbers to digits."""
    with needed_for("the normalizer english"):
        from whisper_normalizer.english import EnglishTextNormalizer

    rules: Any = EnglishTextNormalizer()
    rules.standardize_numbers = lambda text: text
    return lambda text: str(rules(text.translate(APOSTROPHES)))


def _with_numbers(words: list[str]) -> Form:
    spelled = [part for word in words for part in (_spelled(word) if _DIGIT.search(word) else [word.strip(_SIGNS)])]
    return tuple(part for part in spelled if any(map(str.isalnum, part)))


def _spelled(word: str) -> list[str]:
    """Spell out the numbers in a word that contains digits; letters around the numbers are kept."""
    match = _NUMBER.fullmatch(word)
    if match is None:  # the word begins with letters
        head = re.match(r"[^0-9]+", word)
        assert head is not None
        return [head[0].strip(_SIGNS), *_spelled(word[head.end() :])]
    unit, number, suffix, remainder = match.groups()
    spelled = _cardinal(number, suffix or "")
    if unit:
        spelled.append(_UNITS[unit])
    if suffix == "%":
        spelled.append("percent")
    remainder = remainder.strip(_SIGNS)
    more = _spelled(remainder) if _DIGIT.search(remainder) else [remainder] if remainder else []
    return [*spelled, *more]


def _cardinal(number: str, suffix: str) -> list[str]:
    with needed_for("the normalizer english"):
        from num2words import num2words

    whole, _, fraction = number.partition(".")
    if len(whole) > _MAX_DIGITS:
        spelled = " ".join(num2words(int(digit)) for digit in whole)
    elif suffix in ("st", "nd", "rd", "th"):
        spelled = num2words(int(whole), to="ordinal")
    elif len(whole) == 4 and _FIRST_YEAR <= int(whole) <= _LAST_YEAR and suffix != "%":
        spelled = num2words(int(whole), to="year")
    else:
        spelled = num2words(int(whole))
    if fraction:
        spelled += " point " + " ".join(num2words(int(digit)) for digit in fraction)
    if suffix == "s":  # "1960s": "nineteen sixties"
        spelled = re.sub(r"y$", "ie", spelled) + "s"
    return re.sub(r"[-,]", " ", spelled).split()
