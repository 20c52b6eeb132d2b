"""Errors in case, punctuation and spelling of correctly recognised words."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain

from ninja.evaluate.error_rate import Counts, ErrorRate, align, edits, fraction, percent
from ninja.evaluate.lexical import NormalizerName, lexical_references
from ninja.evaluate.normal_form import composed_texts
from ninja.evaluate.scoring import Mode, score, scored_keys
from ninja.lattice.characters import APOSTROPHES
from ninja.lattice.text import BASIC, Normalizer, make_normalizer

_DIVIDERS = frozenset("-‐‑‒–—―−⁻/⁄_﹣－…")  # characters that are punctuation even between two letters


@dataclass(frozen=True, slots=True)
class WrittenRate(Counts):
    """Counts of errors in written words, which can be added, as in ``sum(rates, WrittenRate())``.

    A unit is a reference word whose lexical words are all correct, or several such words if the hypothesis writes them
    as one word, for example *twenty-three* for *twenty three*.
    """

    words: ErrorRate = field(default_factory=ErrorRate)  # errors of the written words, including case and punctuation
    units: int = 0  # lexically correct units
    errors: int = 0  # units that are written differently
    case_errors: int = 0  # units whose letters differ only in case
    spelling_errors: int = 0  # units whose letters differ in other ways, as in "Mr." and "mister"
    punctuated: int = 0  # units with punctuation in the reference or in the hypothesis
    substitutions: int = 0  # units with different punctuation
    insertions: int = 0  # units with punctuation only in the hypothesis
    deletions: int = 0  # units with punctuation only in the reference

    @property
    def punctuation_errors(self) -> int:
        """Number of units (see ``WrittenRate``) with wrong punctuation in the hypothesis."""
        return self.substitutions + self.insertions + self.deletions

    @property
    def error_rate(self) -> float:
        """Percentage of the units (see ``WrittenRate``) that the hypothesis writes differently from the reference."""
        return percent(self.errors, self.units)

    @property
    def case_error_rate(self) -> float:
        """Percentage of the units (see ``WrittenRate``) whose letters differ from the reference only in case."""
        return percent(self.case_errors, self.units)

    @property
    def punctuation_error_rate(self) -> float:
        """Percentage of the units with punctuation in the reference or hypothesis whose punctuation is wrong.

        For the definition of a unit, see ``WrittenRate``.
        """
        return percent(self.punctuation_errors, self.punctuated)

    def __str__(self) -> str:
        """Format the rate as four lines in the style of Kaldi's compute-wer, or five if there are spelling errors."""
        words = self.words
        counts = fraction(words.errors, words.words, words.insertions, words.deletions, words.substitutions)
        marks = fraction(self.punctuation_errors, self.punctuated, self.insertions, self.deletions, self.substitutions)
        lines = [
            f"%WRITTEN-WER {words.wer:.2f} {counts}",
            f"%FORM {self.error_rate:.2f} [ {self.errors} / {self.units} ]",
            f"%CASE {self.case_error_rate:.2f} [ {self.case_errors} / {self.units} ]",
            f"%PUNCTUATION {self.punctuation_error_rate:.2f} {marks}",
        ]
        if self.spelling_errors:
            rate = percent(self.spelling_errors, self.units)
            lines.append(f"%SPELLING {rate:.2f} [ {self.spelling_errors} / {self.units} ]")
        return "\n".join(lines)


def score_written(
    references: Mapping[str, Sequence[str]],
    hypotheses: Mapping[str, Sequence[str]],
    mode: Mode = "strict",
    *,
    normalizer: NormalizerName = BASIC,
) -> WrittenRate:
    """Count case, punctuation and spelling errors in words that are lexically correct.

    Words are aligned by their lexical forms, and are compared in units of one or several words (see ``WrittenRate``).
    The punctuation of a unit is at its ends and between its words; punctuation that is a separate word belongs to the
    preceding word. The punctuation error rate is (I + D + S) / (I + D + S + C) as in NeMo, but counts units instead of
    punctuation marks: several adjacent marks, such as a full stop and a quotation mark, count once.

    Args:
        references: Written reference words by utterance id.
        hypotheses: Written recognised words by utterance id.
        mode: Treatment of references without a hypothesis; see ``score``.
        normalizer: Normalizer that determines the lexical forms; see ``score``.

    Raises:
        NinjaError: See ``score``.

    Source: Meister et al. 2023, "LibriSpeech-PC", arXiv:2310.02943; NeMo, collections/common/metrics/punct_er.py.
    """
    normalizer = make_normalizer(normalizer)
    keys = scored_keys(references, hypotheses, mode)
    lexical_references(references, normalizer)  # raises an error if there is nothing to score
    total = WrittenRate(score(references, hypotheses, mode))
    references, hypotheses = composed_texts(references), composed_texts(hypotheses)
    for key in keys:
        for reference, hypothesis in _correct_units(references[key], hypotheses.get(key, ()), normalizer):
            total += _compare(reference, hypothesis)
    return total


def differing_forms(
    references: Mapping[str, Sequence[str]], hypotheses: Mapping[str, Sequence[str]], rate: ErrorRate, mode: Mode
) -> ErrorRate | None:
    """Score again after ``basic`` normalisation and return the result if fewer than half of the errors remain.

    Args:
        references: Reference words by utterance id.
        hypotheses: Recognised words by utterance id.
        rate: Errors before normalisation.
        mode: Treatment of references without a hypothesis; see ``score``.

    Returns:
        The errors after normalisation, or None if at least half of the errors remain.
    """
    words = set(chain.from_iterable(chain(references.values(), hypotheses.values())))
    changed = {word for word in words if BASIC(word) != (word,)}
    if not changed or not rate.errors:
        return None
    pairs = [(references[key], hypotheses.get(key, ())) for key in scored_keys(references, hypotheses, mode)]
    in_question = sum(edits(*pair) for pair in pairs if not changed.isdisjoint(chain(*pair)))
    if 2 * in_question <= rate.errors or not any(map(BASIC.words, references.values())):
        return None
    lexical = score(references, hypotheses, mode, normalizer=BASIC)
    return lexical if 2 * lexical.errors < rate.errors else None


def written_units(words: Sequence[str], normalizer: Normalizer) -> tuple[list[str], list[str], list[int]]:
    """Return ``(lexical words, written words, index of the written word for each lexical word)``.

    Written words without a lexical form are joined to the preceding word or, at the beginning, to the first word that
    has a lexical form.
    """
    lexical: list[str] = []
    written: list[str] = []
    owner: list[int] = []
    start = ""
    for word, form in zip(words, normalizer.forms(words), strict=True):
        if form:
            owner += [len(written)] * len(form)
            lexical += form
            written.append(start + word)
            start = ""
        elif written:
            written[-1] += word
        else:
            start += word
    return lexical, written, owner


def _correct_units(
    reference: Sequence[str], hypothesis: Sequence[str], normalizer: Normalizer
) -> Iterator[tuple[str, str]]:
    """Yield ``(text in the reference, text in the hypothesis)`` for each lexically correct unit.

    A unit is the shortest sequence of aligned lexical words that ends at the end of a written word in both texts.
    It is lexically correct if each word is aligned with an equal word.
    """
    sides = [written_units(words, normalizer) for words in (reference, hypothesis)]
    num_words, begin = [0, 0], [0, 0]  # number of lexical words so far; index of the first written word of the unit
    is_correct = True
    for pair in align(sides[0][0], sides[1][0]).pairs:
        is_correct = is_correct and pair[0] == pair[1]
        for side in range(2):
            num_words[side] += pair[side] is not None
        ends = [_end(sides[side][2], num_words[side]) for side in range(2)]
        if ends[0] is not None and ends[1] is not None:
            if is_correct:
                yield " ".join(sides[0][1][begin[0] : ends[0]]), " ".join(sides[1][1][begin[1] : ends[1]])
            begin, is_correct = [ends[0], ends[1]], True


def _end(owner: Sequence[int], num_words: int) -> int | None:
    """Return the number of written words that the first `num_words` lexical words form.

    Args:
        owner: Index of the written word for each lexical word.
        num_words: Number of lexical words.

    Returns:
        The number of written words, or None if the last of these words is incomplete.
    """
    if num_words == 0:
        return 0
    is_inside = num_words < len(owner) and owner[num_words] == owner[num_words - 1]
    return None if is_inside else owner[num_words - 1] + 1


def _compare(reference: str, hypothesis: str) -> WrittenRate:
    if reference == hypothesis:
        return WrittenRate(units=1, punctuated=int(bool(_parts(reference)[1])))
    (letters, marks, shape), (other_letters, other_marks, other_shape) = _parts(reference), _parts(hypothesis)
    is_other_case = letters != other_letters and letters.casefold() == other_letters.casefold()
    is_other_spelling = letters != other_letters and not is_other_case
    is_wrong = bool(marks or other_marks) and shape != other_shape
    return WrittenRate(
        units=1,
        errors=int(is_other_case or is_other_spelling or is_wrong),
        case_errors=int(is_other_case),
        spelling_errors=int(is_other_spelling),
        punctuated=int(bool(marks or other_marks)),
        substitutions=int(is_wrong and bool(marks) and bool(other_marks)),
        insertions=int(is_wrong and not marks),
        deletions=int(is_wrong and not other_marks),
    )


@lru_cache(maxsize=1 << 16)
def _parts(text: str) -> tuple[str, str, str]:
    """Return ``(letters and digits, punctuation, pattern)`` for a text.

    The pattern shows the position of the punctuation: it is the text without spaces, with ``w`` for the words between
    two punctuation marks, for example ``w,w.`` for *oh no, it rains.*
    """
    text = unicodedata.normalize("NFKC", text.translate(APOSTROPHES))
    kinds = [unicodedata.category(char) for char in text]
    letters, marks, shape = "", "", ""
    is_after_letter = False

    def is_inner(index: int) -> bool:
        """Return whether the character at `index`, which follows a letter or digit, is part of the word."""
        if kinds[index][0] != "P":
            return kinds[index][0] == "M"
        return text[index] not in _DIVIDERS and index + 1 < len(kinds) and kinds[index + 1][0] in "LN"

    for index, (char, kind) in enumerate(zip(text, kinds, strict=True)):
        if kind[0] in "LN" or (is_after_letter and is_inner(index)):
            letters += char
            shape += "" if shape.endswith("w") else "w"
            is_after_letter = True
        else:
            is_after_letter = False
            if kind[0] in "PS":
                marks += char
                shape += char
    return letters, marks, shape
