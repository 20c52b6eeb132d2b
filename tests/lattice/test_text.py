"""Normalizers, lexical tables and lexical forms."""

from __future__ import annotations

import re
import sys
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ninja
from ninja._core import irregular_words
from ninja.errors import FormatError, OptionError, VocabularyError
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import (
    BASIC,
    LOOKS_WRITTEN,
    NONE,
    LexicalForms,
    LexicalTable,
    looks_written,
    make_normalizer,
)

# Words of letters from these ranges are their own basic forms.
PLAIN_LETTERS = (("a", "z"), ("à", "ö"), ("ø", "ÿ"), ("а", "ё"), ("ぁ", "ゖ"), ("ァ", "ヺ"), ("一", "鿿"), ("가", "힣"))
LETTER = "[" + "".join(f"{first}-{last}" for first, last in PLAIN_LETTERS) + "]"
PLAIN = f"{LETTER}+('{LETTER}+)*'?|'{LETTER}+('{LETTER}+)*"
BASIC_FORMS = {
    "Clendenin,": "clendenin",
    ",": "",
    "twenty-three": "twenty three",
    "He’s": "he's",
    "'em": "'em",
    "'em'": "em",
    "boys'": "boys'",
    "“don’t”": "don't",
    "A.M.": "a.m",
    "(AT&T)": "at&t",
    "straße": "strasse",
    "ﬁne": "fine",
    "cafe\u0301": "café",
    "co\u00adop": "coop",
    "and/or": "and or",
    "wait...what": "wait what",
    "—": "",
    "👍🏽": "",
    "שלום,": "שלום",
    "مرحبا؟": "مرحبا",
    "नमस्ते।": "नमस्ते",
    "می\u200cخواهم.": "می\u200cخواهم",
    "Ελλάς": "ελλάσ",
    "Москва-Paris": "москва paris",
    "\u0301": "",
    "<unk>": "<unk>",
    "[noise]": "[noise]",
    "!SIL": "!SIL",
    "#0": "#0",
}


@pytest.mark.parametrize("word", BASIC_FORMS)
def test_basic_forms(word):
    assert " ".join(BASIC(word)) == BASIC_FORMS[word]


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12))
def test_basic_forms_are_idempotent_and_contain_a_letter_or_digit(word):
    form = BASIC(word)
    assert all(BASIC(part) == (part,) for part in form)
    for part in form:
        assert part.split() == [part]
        assert any(unicodedata.category(char)[0] in "LN" for char in part) or part.startswith(("<", "[", "!", "#"))


@given(st.text("abcxyzäöéñ", min_size=1, max_size=8), st.sampled_from(["", ",", ".", "?", "!", "…", '"', "»", " -"]))
def test_case_and_punctuation_do_not_change_a_basic_form(word, end):
    lexical = unicodedata.normalize("NFKC", word)
    assert BASIC(word.title() + end) == BASIC(word.upper()) == BASIC(f"«{word}{end}") == (lexical,)


ENGLISH_FORMS = {
    "Mr.": "mister",
    "can’t": "can not",
    "Quilter's": "quilter is",
    "colour,": "color",
    "uh,": "",
    "twenty-three": "twenty three",
    "23": "twenty three",
    "$20": "twenty dollars",
    "3.5%": "three point five percent",
    "1st": "first",
    "1925.": "nineteen twenty five",
    "1960s": "nineteen sixties",
    "1,000": "one thousand",
    "A1": "a one",
    "…": "",
    "(applause)": "",
    "(open": "open",
    "<unk>": "<unk>",
    "zqzq": "zqzq",
}


def test_english_forms():
    english = make_normalizer("english")
    words = list(ENGLISH_FORMS)
    assert {word: " ".join(form) for word, form in zip(words, english.forms(words), strict=True)} == ENGLISH_FORMS
    for word in words:  # one word per call
        assert " ".join(make_normalizer("english")(word)) == ENGLISH_FORMS[word]


def test_normalizer_from_a_file(tmp_path):
    table = tmp_path / "forms.txt"
    table.write_text("# written and lexical\nDr. doctor\n,\nNYC new york city\n10\u00a0000 ten thousand\n")
    normalizer = make_normalizer(table)
    assert normalizer.words(["Dr.", "Who", ",", "NYC"]) == ["doctor", "Who", "new", "york", "city"]
    assert normalizer.words(["10\u00a0000"]) == ["ten", "thousand"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b\na c\n", ":2: 'a' already has a form on line 1; remove one of the lines"),
        ("a b\nb a\n", ":1: 'a' becomes 'b', which line 2 changes to 'a'; map each word to its final form"),
        ("x y b\nb\n", ":1: 'x' becomes 'b', which line 2 changes to ''; map each word to its final form"),
    ],
)
def test_duplicates_and_cycles_in_a_table_are_refused(tmp_path, text, message):
    table = tmp_path / "forms.txt"
    table.write_text(text)
    with pytest.raises(FormatError) as error:
        make_normalizer(table)
    assert str(error.value).endswith(message)


def test_an_unknown_normalizer_is_refused():
    with pytest.raises(OptionError, match=r"normalizer is 'whisper', but must be one of none, basic, english, or an"):
        make_normalizer("whisper")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Kathy Clendenin, please.", True),
        ("kathy clendenin please", False),
        ("Kathy Clendenin please", False),
        ("KATHY CLENDENIN", False),
        ("mr. j. smith a.m. st. p. q. r. s. t. u. v. w.", False),
        ("你好。 是的，", True),
        ("नमस्ते।", True),
        ("", False),
    ],
)
def test_words_with_punctuation_look_written(text, expected):
    assert looks_written(["<eps>", *text.split()]) is expected


def test_a_lexical_table_maps_ids_as_they_occur():
    words = SymbolTable.growing()
    first = words.intern(["Twenty-three,", "twenty", ","])
    table = LexicalTable(words, BASIC)
    assert [table.lexical.spell(table.form(number)) for number in first] == [["twenty", "three"], ["twenty"], []]
    later = words.intern(["THREE"])
    assert table.form(later[0]) == table.ids(["three."])
    assert table.form(0) == []


def test_columns_of_a_lattice():
    lattice = ninja.from_nbest("utt", [(["Hello,", "Tom-Chen", "!"], -1.0)])
    table = LexicalTable(lattice.words, BASIC)
    length, first = table.columns(lattice)
    spelled = [table.lexical.word(number) if number else "" for number in first.tolist()]
    assert (length.tolist(), spelled) == ([1, 2, 0], ["hello", "tom", ""])
    assert length.dtype == first.dtype == np.int32


def test_auto_selects_basic_once_words_look_written():
    notes: list[str] = []
    forms = LexicalForms(note=notes.append)
    plain = ninja.from_nbest("a", [(["hello", "tom"], -1.0)])
    punctuated = ninja.from_nbest("b", [(["Hello,", "Tom."], -1.0)])
    assert forms.table(plain) is None
    table = forms.table(punctuated)
    assert table is forms.table(punctuated)
    assert table is not None
    assert table.normalizer is BASIC
    assert forms.table(plain) is not None  # the choice stays the same for the rest of the run
    assert notes == [LOOKS_WRITTEN]
    assert LexicalForms("none").table(punctuated) is None
    assert NONE.is_identity


def test_a_normalizer_requires_a_symbol_table():
    lattice = ninja.from_nbest("a", [(["hello"], -1.0)]).replace(words=None)
    assert LexicalForms().table(lattice) is None
    with pytest.raises(VocabularyError, match="normalizer basic requires the symbol table"):
        LexicalForms("basic").table(lattice)


@given(st.lists(st.text("abz'A,.-é÷가\u0301\U0001f600\n ", max_size=5)))
def test_words_of_plain_letters_and_apostrophes_are_their_own_forms(words):
    irregular = irregular_words(words)
    assert irregular == [(index, word) for index, word in enumerate(words) if not re.fullmatch(PLAIN, word)]
    assert all(BASIC(word) == (word,) for index, word in enumerate(words) if (index, word) not in irregular)


def test_letters_of_plain_words_are_their_own_forms():
    letters = list(map(chr, range(sys.maxunicode + 1)))
    plain = set(letters) - {letter for _, letter in irregular_words(letters)}
    assert plain == {letter for first, last in PLAIN_LETTERS for letter in map(chr, range(ord(first), ord(last) + 1))}
    for letter in plain:
        assert unicodedata.normalize("NFKC", letter.casefold()) == letter
        assert letter.isalpha()


def test_missing_lexical_words_are_those_of_no_word_in_the_table():
    words = SymbolTable.growing([("<eps>", 0), ("Twenty-three,", 1), ("tom", 2)])
    table = LexicalTable(words, BASIC)
    ids = table.ids(["twenty", "THREE", "tom.", "twenty-three", "lacking"])
    assert table.lexical.words_of(table.missing(ids)) == ["lacking"]
    assert table.missing(ids[:2]) == []
    words.intern(["Lacking!"])
    assert table.missing(ids) == []


@given(
    st.lists(st.text("abA'.-$\x01é÷\ufb01\u00ad", min_size=1, max_size=5), unique=True),
    st.lists(st.text("abfi'.-$é", min_size=1, max_size=4), max_size=20),
)
def test_parts_among_returns_the_words_that_occur_in_lexical_forms_of_a_table(names, words):
    forms = {form for name in names if (form := BASIC(name)) != (name,)}
    expected = {part for form in forms for part in form}.intersection(words)
    assert BASIC.parts_among(words, SymbolTable.from_words(names)) == expected


def test_irregular_words_include_words_added_to_a_growing_table():
    table = SymbolTable.growing()
    assert table.irregular() == ["<eps>"]
    table.intern(["tom", "Tom"])
    assert table.irregular() == ["<eps>", "Tom"]
