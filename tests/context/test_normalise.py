"""Normalisation of phrases to the spelling of the symbol table, which is idempotent."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninja.context.entities.normalise import AS_TABLE, Normalisation, Normaliser
from ninja.errors import OptionError
from ninja.lattice.symbols import SymbolTable

PLAIN = ["<eps>", "tom", "chen", "jean", "luc", "route", "6", "call", "x"]
WORDS = SymbolTable.from_words([*PLAIN, "o'brien", "j.", "r.", "a.m.", "'em", "able-bodied"])


def normalise(text, words=None, rules=AS_TABLE):
    return Normaliser(words, rules)(text)


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("  tom \t chen\n", "tom chen"),
        ("Tom CHEN", "tom chen"),  # the case of the table
        ("(Tom), Chen!", "tom chen"),
        ("Kathi «Chen»", "kathi chen"),  # unknown words are in lower case because the table is
        ("O’Brien", "o'brien"),
        ("‘tom’ 'em", "tom 'em"),
        ("jean-luc", "jean luc"),
        ("Jean–Luc", "jean luc"),
        ("able-bodied", "able-bodied"),  # a word of the table
        ("jean-marc", "jean-marc"),  # not all parts are words
        ("J.R. chen", "j. r. chen"),
        ("J.R", "j. r."),
        ("x.x", "x x"),
        ("tom.x/j-6", "tom x j. 6"),  # the table contains "j." but not "j"
        ("tom.x/x-6", "tom x x 6"),
        ("a.m.", "a.m."),
        ("route6", "route 6"),
        ("jean-luc6", "jean luc 6"),
        ("tom & chen", "tom & chen"),  # "&" may be spoken, so it is kept
        ("tom - chen", "tom chen"),
        ("...", ""),
        ("", ""),
    ],
)
def test_phrases_take_the_spelling_of_the_symbol_table(text: str, spelled: str) -> None:
    assert normalise(text, WORDS) == spelled


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("Tom  Chen.", "Tom Chen"),
        ("jean-luc", "jean-luc"),
        ("parents' 'em", "parents' 'em"),
        ("'tom'", "tom"),
        ("Am’", "Am'"),
    ],
)
def test_words_keep_case_and_parts_without_a_table(text: str, spelled: str) -> None:
    assert normalise(text) == spelled


@pytest.mark.parametrize(
    ("rules", "text", "spelled"),
    [
        (Normalisation(case="keep"), "Tom CHEN tom", "Tom CHEN tom"),
        (Normalisation(case="lower"), "Tom KATHI", "tom kathi"),
        (Normalisation(case="upper"), "tom straße", "TOM STRASSE"),
        (Normalisation(punctuation=False), "(Tom, chen", "(tom, chen"),
        (Normalisation(apostrophes=False), "O’Brien", "o’brien"),
        (Normalisation(parts=False), "Jean-luc", "jean-luc"),
        (Normalisation(unicode=False), "u\u0308", "u\u0308"),
        (Normalisation(), "u\u0308", "ü"),
    ],
)
def test_normalisation_rules_can_be_set_separately(rules: Normalisation, text: str, spelled: str) -> None:
    assert normalise(text, WORDS, rules) == spelled


def test_unknown_words_take_the_case_of_the_table() -> None:
    upper = SymbolTable.from_words(["<eps>", *"ABCDEFGHIJKLMNOP", "<unk>"])
    assert normalise("Kathi a", upper) == "KATHI A"
    assert normalise("ŉx", upper) == "'NX"  # the upper case of this letter contains an apostrophe
    assert normalise("Kathi", SymbolTable.from_words(["<eps>", "Tom", "chen", "LUC"])) == "Kathi"
    assert normalise("Kathi", SymbolTable.from_words(["1", "2"])) == "Kathi"


def test_words_are_found_in_a_table_of_decomposed_characters() -> None:
    table = SymbolTable.from_words(["<eps>", unicodedata.normalize("NFD", "한국"), "don’t"])
    assert normalise("한국", table) == unicodedata.normalize("NFD", "한국")
    assert normalise("don't", table) == "don’t"


def test_epsilon_is_removed_from_phrases() -> None:
    assert normalise("tom - tom", SymbolTable.from_words(["-", "tom"])) == "tom tom"


def test_unknown_case_raises_option_error() -> None:
    with pytest.raises(OptionError, match="case is 'title', but must be one of keep, lower, upper, words"):
        Normalisation(case="title")  # type: ignore[arg-type]


RULES = st.builds(
    Normalisation,
    case=st.sampled_from(["keep", "lower", "upper", "words"]),
    punctuation=st.booleans(),
    unicode=st.booleans(),
    apostrophes=st.booleans(),
    parts=st.booleans(),
)
TRICKY = st.text("tTxX6.,-–'’‘\"& ßŉǰİΣσςüu\u0308\u0345 ", max_size=12) | st.text(max_size=12)


@given(
    text=TRICKY,
    extra=st.lists(TRICKY.filter(lambda word: word.split() == [word]), max_size=6),
    rules=RULES,
    with_table=st.booleans(),
)
def test_normalisation_is_idempotent(text: str, extra: list[str], rules: Normalisation, with_table: bool) -> None:
    parts = [form for word in text.split() for form in (word, word.lower(), word.upper()[:2])]
    words = ["<eps>", *dict.fromkeys(word for word in (*extra, *parts) if word.split() == [word] and word != "<eps>")]
    table = SymbolTable.from_words(words[: 1 + len(words) // 2]) if with_table else None
    spell = Normaliser(table, rules)
    spelled = spell(text)
    assert spell(spelled) == spelled == Normaliser(table, rules)(text)
    assert spelled.split() == spelled.split(" ") or not spelled
    if table is not None and rules.case in ("words", "keep"):
        table_words = [word for word in text.split() if word in table and word != "<eps>"]
        assert all(word in spelled.split() for word in table_words)  # words of the table are unchanged
