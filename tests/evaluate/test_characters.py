"""Character errors: comparison of the kernel with a slow implementation, and of rates with jiwer and meeteval."""

from __future__ import annotations

import gzip
import json
import unicodedata
from itertools import chain

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reference_graph import SHARED
from reference_scoring import kaldi_counts

from ninja import _graph
from ninja.errors import FormatError, OptionError
from ninja.evaluate import CharacterRate, lexical_texts, read_text, score, score_characters

WHISPER = SHARED / "data" / "real" / "whisper" / "test"
SEQUENCES = st.lists(st.integers(0, 3), max_size=40)
WORDS = st.text("aábcß'😀\u0301ש", min_size=1, max_size=4)
SENTENCES = st.lists(WORDS, max_size=8)


def edit_counts(*pairs: tuple[list[int], list[int]]) -> list[tuple[int, ...]]:
    """Count the edits of pairs of sequences in one call."""
    columns = []
    for side in zip(*pairs, strict=True):
        columns += [np.array([*chain(*side)], np.int32), np.cumsum([0, *map(len, side)], dtype=np.int64)]
    return [tuple(row) for row in _graph.edit_counts(*columns).reshape(-1, 3).tolist()]


@settings(max_examples=40)
@example([(list(range(60)), []), ([], list(range(60))), ([], [])])
@given(st.lists(st.tuples(SEQUENCES, SEQUENCES), min_size=1, max_size=3))
def test_edit_counts_agree_with_compute_wer(pairs: list[tuple[list[int], list[int]]]) -> None:
    assert edit_counts(*pairs) == [kaldi_counts(*pair) for pair in pairs]


@pytest.mark.parametrize("num_edits", [0, 1, 15, 16, 17, 18, 40, 200])
def test_edits_beyond_the_first_band_are_counted(num_edits: int) -> None:
    reference = [position % 7 for position in range(300)]
    for removed, added in ((num_edits, 0), (0, num_edits), (num_edits // 2, num_edits - num_edits // 2)):
        hypothesis = reference[removed:] + [9] * added
        assert edit_counts((reference, hypothesis)) == [kaldi_counts(reference, hypothesis)]


@pytest.mark.filterwarnings("ignore:.*composed form")
@given(st.lists(st.tuples(SENTENCES.filter(bool), SENTENCES), min_size=1, max_size=4))
def test_word_and_character_rates_agree_with_jiwer(pairs: list[tuple[list[str], list[str]]]) -> None:
    jiwer = pytest.importorskip("jiwer", reason="jiwer is not installed")
    texts = [{str(number): words for number, words in enumerate(side)} for side in zip(*pairs, strict=True)]
    sides = [[" ".join(words) for words in side.values()] for side in map(composed, texts)]
    rate, expected = score(*texts), jiwer.process_words(*sides)
    assert (rate.errors, rate.words) == (
        errors_of(expected),
        expected.hits + expected.substitutions + expected.deletions,
    )
    characters, expected = score_characters(*texts), jiwer.process_characters(*sides)
    assert (characters.errors, characters.characters) == (errors_of(expected), sum(map(len, sides[0])))
    assert characters.cer == pytest.approx(100 * expected.cer)


def composed(texts: dict[str, list[str]]) -> dict[str, list[str]]:
    return {key: [unicodedata.normalize("NFC", word) for word in words] for key, words in texts.items()}


def errors_of(output) -> int:  # type: ignore[no-untyped-def]
    return output.substitutions + output.insertions + output.deletions


# A user's checkout has no ../shared; in CI tests/conftest.py turns this skip into a failure.
@pytest.mark.skipif(not WHISPER.is_dir(), reason="the hypotheses of Whisper are not part of the project")
@pytest.mark.parametrize("normalizer", ["none", "basic", "english"])
def test_whisper_rates_agree_with_jiwer_and_meeteval(normalizer: str) -> None:
    jiwer = pytest.importorskip("jiwer", reason="jiwer is not installed")
    references, hypotheses = read_text(WHISPER / "text"), first_hypotheses()
    rate = score(references, hypotheses, normalizer=normalizer)
    characters = score_characters(references, hypotheses, normalizer=normalizer)
    lexical = [lexical_texts(texts, normalizer) for texts in (references, hypotheses)]
    sides = [[" ".join(side[key]) for key in references] for side in lexical]
    assert rate.wer == pytest.approx(100 * jiwer.wer(*sides), abs=1e-12)
    assert characters.cer == pytest.approx(100 * jiwer.cer(*sides), abs=1e-12)
    try:
        from meeteval.wer import siso_character_error_rate, siso_word_error_rate
    except ImportError:
        return
    counts = [siso_word_error_rate(*pair) for pair in zip(*sides, strict=True)]
    assert [rate.insertions, rate.deletions, rate.substitutions, rate.words] == totals(counts)
    counts = [siso_character_error_rate(*pair) for pair in zip(*sides, strict=True)]
    expected = [characters.insertions, characters.deletions, characters.substitutions, characters.characters]
    assert expected == totals(counts)


def totals(counts: list) -> list[int]:  # type: ignore[type-arg]
    names = ("insertions", "deletions", "substitutions", "length")
    return [sum(getattr(count, name) for count in counts) for name in names]


def first_hypotheses() -> dict[str, list[str]]:
    with gzip.open(WHISPER / "nbest_written.jsonl.gz", "rt", encoding="utf-8") as stream:
        return {(record := json.loads(line))["key"]: record["nbest"][0]["text"].split() for line in stream}


def test_character_rate_counts_letters_and_spaces() -> None:
    rate = score_characters({"u": ["ab", "c"], "v": ["d"]}, {"u": ["abc"], "v": ["e", "d"]})
    assert rate == CharacterRate(characters=5, substitutions=0, insertions=2, deletions=1)
    assert str(rate) == "%CER 60.00 [ 3 / 5, 2 ins, 1 del, 0 sub ]"


def test_letter_with_combining_mark_is_one_character() -> None:
    assert score_characters({"u": ["é"]}, {"u": ["e"]}).characters == 1
    with pytest.warns(match="not in Unicode's composed form"):
        assert score_characters({"u": ["e\u0301"]}, {"u": ["é"]}) == CharacterRate(1)


def test_empty_references_have_the_same_rates_as_words() -> None:
    assert score_characters({"u": []}, {"u": []}).cer == score({"u": []}, {"u": []}).wer == 0
    assert score_characters({"u": []}, {"u": ["a"]}).cer == float("inf")


def test_mode_treats_missing_hypotheses_as_score_does() -> None:
    references, hypotheses = {"u": ["ab"], "v": ["c"]}, {"u": ["ab"]}
    assert score_characters(references, hypotheses, "all") == CharacterRate(3, deletions=1)
    assert score_characters(references, hypotheses, "present") == CharacterRate(2)
    with pytest.raises(FormatError, match="no hypothesis for 1 of 2 references"):
        score_characters(references, hypotheses)
    with pytest.raises(OptionError, match="normalizer is 'nothing'"):
        score_characters(references, hypotheses, "all", normalizer="nothing")
