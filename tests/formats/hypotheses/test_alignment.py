"""Alignment of old and new words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninja.formats.hypotheses import alignment
from ninja.formats.hypotheses.alignment import Change, Correspondence, applied, blocks, changed_words, lexical
from ninja.formats.nbest.text_rows import split

WORDS = st.lists(st.sampled_from("abcde"), max_size=12)


def longest_common(old, new):
    """Return the length of the longest common subsequence, computed recursively."""
    table = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for row, word in enumerate(old):
        for column, new_word in enumerate(new):
            best = max(table[row][column + 1], table[row + 1][column])
            table[row + 1][column + 1] = table[row][column] + 1 if word == new_word else best
    return table[-1][-1]


@given(WORDS, WORDS)
def test_changed_words_gives_the_new_words_with_minimal_changes(old, new):
    assert applied(old, changed_words(old, new)) == new
    word_blocks = list(blocks(old, new))
    assert sum(end - begin for begin, end, _, _, equal in word_blocks if equal) == longest_common(old, new)
    for begin, end, first, last, equal in word_blocks:
        assert (old[begin:end] == new[first:last]) == equal
    assert [(block.end, block.other_end) for block in word_blocks[:-1]] == [
        (block.begin, block.other_begin) for block in word_blocks[1:]
    ]


@given(WORDS, WORDS)
def test_changed_words_gives_the_new_words_beyond_the_edit_limit(old, new):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alignment, "MOST_EDITS", 2)
        assert applied(old, changed_words(old, new)) == new


def test_blocks_of_equal_length_are_replaced_word_by_word():
    assert changed_words(split("a b c d"), split("a x y d")) == [Change(1, 2, ("x",)), Change(2, 3, ("y",))]
    assert changed_words(split("a b c d"), split("a x d")) == [Change(1, 3, ("x",))]
    assert changed_words(split("a d"), split("a b d")) == [Change(1, 1, ("b",))]
    assert changed_words(split("a b"), split("a b")) == []


def test_correspondence_aligns_words_by_their_lexical_form():
    display, plain = split("Remind me to buy 5 pencils, please."), split("remind me to buy five pencils please")
    correspondence = Correspondence(display, plain)
    assert [correspondence.stretch(place, place + 1) for place in range(7)] == [
        (place, place + 1) for place in range(7)
    ]
    dollars = Correspondence(split("It is $25 now."), split("it is twenty five dollars now"))
    assert [dollars.stretch(place, place + 1) for place in range(4)] == [(0, 1), (1, 2), (2, 5), (5, 6)]
    assert dollars.stretch(4, 4) == (6, 6)
    uneven = Correspondence(split("a New York b"), split("a newyork b"))
    assert uneven.stretch(1, 2) is None  # this is part of a block of unequal lengths
    assert uneven.stretch(1, 3) == (1, 2)


def test_the_lexical_form_has_no_capitals_and_no_punctuation_at_its_ends():
    assert [lexical(word) for word in ["Clendenin,", "«Straße»", "don't", "—", "U.S."]] == [
        "clendenin", "strasse", "don't", "", "u.s",
    ]  # fmt: skip
