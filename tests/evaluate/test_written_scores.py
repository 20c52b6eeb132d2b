"""Errors of the written forms of words that are recognised correctly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninja.errors import FormatError
from ninja.evaluate import ErrorRate, WrittenRate, score, score_written

WORDS = st.sampled_from(
    ["Hello,", "hello", "HELLO!", ",", "—", "Twenty-three", "twenty", "three.", "don’t", "don't", "U.S.", "🙂"]
)
SENTENCES = st.lists(WORDS, max_size=8)


def compare(reference: str, hypothesis: str, normalizer: str = "basic") -> WrittenRate:
    rate = score_written({"u": reference.split()}, {"u": hypothesis.split()}, normalizer=normalizer)
    return WrittenRate(
        ErrorRate(), *(getattr(rate, name) for name in WrittenRate.__dataclass_fields__ if name != "words")
    )


def rate(units: int, **counts: int) -> WrittenRate:
    return WrittenRate(units=units, **counts)


def test_case_and_punctuation_are_counted_separately() -> None:
    reference, hypothesis = "Kathy Clendenin, is it you?", "kathy Clendenin is it, You."
    assert compare(reference, hypothesis) == rate(
        5, errors=4, case_errors=2, punctuated=3, substitutions=1, insertions=1, deletions=1
    )


def test_words_with_lexical_errors_are_not_compared() -> None:
    assert compare("Hello, World.", "hello, Word.") == rate(1, errors=1, case_errors=1, punctuated=1)
    assert compare("Hello there.", "there") == rate(1, errors=1, punctuated=1, deletions=1)


@pytest.mark.parametrize(
    ("reference", "hypothesis", "counts"),
    [
        ("twenty-three men", "twenty three men", {"errors": 1, "punctuated": 1, "deletions": 1}),
        ("twenty three men", "Twenty-three men", {"errors": 1, "case_errors": 1, "punctuated": 1, "insertions": 1}),
        ("well , now", "well, now", {"punctuated": 1}),
        ("( well now", "(well now", {"punctuated": 1}),
        ("well “now”", "well now", {"errors": 1, "punctuated": 1, "deletions": 1}),
        ("don’t go", "don't go", {}),
        ("3.5 dogs'", "3.5 dogs'", {"punctuated": 1}),
        ("well now", "well now 🙂", {"errors": 1, "punctuated": 1, "insertions": 1}),
        ("שלום, now", "שלום now", {"errors": 1, "punctuated": 1, "deletions": 1}),
        ("хорошо Café", "Хорошо café", {"errors": 2, "case_errors": 2}),
    ],
)
def test_written_rate_of_two_words(reference: str, hypothesis: str, counts: dict[str, int]) -> None:
    assert compare(reference, hypothesis) == rate(2, **counts)


def test_spelling_variants_of_a_lexical_form_are_counted() -> None:
    pytest.importorskip("whisper_normalizer", reason="the normalizer english needs whisper-normalizer")
    assert compare("Mr. Smith had 23", "mister Smith had twenty-three", "english") == rate(
        4, errors=2, spelling_errors=2, punctuated=2, insertions=1, deletions=1
    )


@given(st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=4))
def test_written_counts_are_consistent(pairs: list[tuple[list[str], list[str]]]) -> None:
    references, hypotheses = (
        {str(number): words for number, words in enumerate(side)} for side in zip(*pairs, strict=True)
    )
    if not any(word.strip(",—🙂") for words in references.values() for word in words) and any(references.values()):
        with pytest.raises(FormatError, match="removes every word in the references"):
            score_written(references, hypotheses)
        return
    result = score_written(references, hypotheses)
    assert result.words == score(references, hypotheses)
    lexical = score(references, hypotheses, normalizer="basic")
    assert result.units <= lexical.correct
    assert max(result.case_errors, result.punctuation_errors) <= result.errors <= result.units
    assert result.spelling_errors == 0  # basic changes case and punctuation only
    assert result.errors <= result.case_errors + result.punctuation_errors
    assert result.punctuation_errors <= result.punctuated
    if references == hypotheses:
        assert (result.errors, result.words.errors) == (0, 0)
    exchanged = score_written(hypotheses, references) if lexical.errors == 0 and lexical.words else None
    if exchanged is not None:
        assert (exchanged.insertions, exchanged.case_errors) == (result.deletions, result.case_errors)


def test_written_rates_are_printed_with_their_counts() -> None:
    result = score_written({"u": ["Hello,", "World.", "Now"]}, {"u": ["hello", "World.", "then"]})
    assert str(result).splitlines() == [
        "%WRITTEN-WER 66.67 [ 2 / 3, 0 ins, 0 del, 2 sub ]",
        "%FORM 50.00 [ 1 / 2 ]",
        "%CASE 50.00 [ 1 / 2 ]",
        "%PUNCTUATION 50.00 [ 1 / 2, 0 ins, 1 del, 0 sub ]",
    ]
    assert str(result + WrittenRate(spelling_errors=1, units=2)).endswith("\n%SPELLING 25.00 [ 1 / 4 ]")


def test_written_rates_without_correct_words_are_zero() -> None:
    result = score_written({"u": ["a"]}, {"u": []})
    assert (result.error_rate, result.case_error_rate, result.punctuation_error_rate) == (0, 0, 0)
