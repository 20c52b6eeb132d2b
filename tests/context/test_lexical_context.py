"""Phrases match the words of a lattice by lexical form and are spelled as in their lists."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_context import SlowContext
from reference_graph import costs_of, labels_of, paths, words_of
from reference_ngram import SlowNgram, write_arpa
from reference_written import slow_respell
from strategies import lattices

import ninja
from ninja.context.augmentation.options import AugmentOptions
from ninja.context.entities.lists import Entities
from ninja.context.entities.written import affixes, ends_sentence, in_place_of
from ninja.context.options import ContextOptions
from ninja.context.settings import Augmentation, Context
from ninja.context.stage import Contextual
from ninja.graph import best_path
from ninja.lattice import Scales
from ninja.lattice.lattice import ListLattice, check
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import BASIC
from ninja.rescoring import RescoreReport

WORDS = SymbolTable.from_words(["<eps>", "Ann-Lee,", "ann", "lee.", ",", "Ann", "no!"])
PHRASES = ["Ann", "Ann Lee", "ann-lee", "Lee", "lee no", "Ann-Lee-No", "no", "Lee Ann."]


def stage_of(entities, normalizer="auto", **options):
    return Contextual(Context(Entities.from_dict(entities, normalizer=BASIC), normalizer=normalizer, **options))


def text_of(lattice):
    return " ".join(lattice.words.spell(best_path(lattice, Scales(0.1)).words))


def nbest_lattice(*hypotheses):
    scored = [(text.split(), -float(rank)) for rank, text in enumerate(hypotheses)]
    return ninja.from_nbest("utt", scored)


def test_phrase_matches_words_with_other_case_and_punctuation():
    lattice = nbest_lattice("Call Cathy Clendening, now.", "Call Kathy Clendenin, now.")
    stage = stage_of({"@name": ["Kathy Clendenin"]})
    ((_, result),) = stage([("utt", lattice)])
    assert text_of(result) == "Call Kathy Clendenin, now."
    assert [match.text for match in stage.matches("utt", text_of(result).split())] == ["Kathy Clendenin,"]
    stage = stage_of({"@name": ["Kathy Clendenin"]}, normalizer="none")
    ((_, result),) = stage([("utt", lattice)])
    assert text_of(result) == "Call Cathy Clendening, now."


def test_matches_are_spelled_as_in_the_list():
    lattice = nbest_lattice("call kathy-clendenin, now.", "(Apple music?) plays.")
    ((_, result),) = stage_of({"phrases": ["Kathy Clendenin", "apple Music", "iPhone"]})([("utt", lattice)])
    assert isinstance(result, ListLattice)
    texts = {" ".join(result.words.spell(words_of(result, path))) for path in paths(result)}
    assert texts == {"call Kathy Clendenin, now.", "(Apple Music?) plays."}


def test_lower_case_list_keeps_the_case_of_matches():
    ((_, result),) = stage_of({"phrases": ["kathy clendenin"]})([("utt", nbest_lattice("Call Kathy Clendenin, now."))])
    assert text_of(result) == "Call Kathy Clendenin, now."


def test_normalizer_and_unknown_words_are_reported():
    notes = []
    stage = stage_of({"phrases": ["Zoe"]})
    report = RescoreReport(on_note=notes.append)
    list(stage([("utt", nbest_lattice("Call Kathy Clendenin, now.", "Call me now."))], report))
    stage.note_late(report)
    assert notes[0].startswith("words end with punctuation")
    assert "no class: 1 of 1 phrase has words that are not in the symbol table: 'Zoe' ('Zoe')" in notes[1]


@pytest.mark.parametrize(
    ("phrase", "first", "last", "begins", "expected"),
    [
        ("Kathy Clendenin", "kathy", "clendenin,", False, "Kathy Clendenin,"),
        ("Kathy Clendenin", "“Kathy", "Clendenin”?!", False, "“Kathy Clendenin”?!"),
        ("folder", "Folder", "Folder.", True, "Folder."),
        ("folder", "Folder", "Folder.", False, "folder."),
        ("iPhone", "Iphone", "Iphone", True, "iPhone"),
        ("Dr. Dre", "dr", "dre", False, "Dr. Dre"),
        ("Martin Jr.", "martin", "jr.", False, "Martin Jr."),
        ("Martin Jr.", "martin", "jr.,", False, "Martin Jr.,"),
        ("Yahoo!", "yahoo", "yahoo", False, "Yahoo!"),
        ("Yahoo!", "yahoo", "yahoo,", False, "Yahoo!,"),
        ("Clendenin,", "clendenin", "clendenin.", False, "Clendenin."),
        ("Köln", "köln…", "köln…", False, "Köln…"),
        ("東京", "東京。", "東京。", True, "東京。"),
        ("'Tis", "“'Tis", "“'Tis", False, "“'Tis"),
        ("(Sandy) Alex G", "“(Sandy)", "G", False, "“(Sandy) Alex G"),
    ],
)
def test_phrase_takes_punctuation_and_sentence_capital_of_replaced_words(phrase, first, last, begins, expected):
    assert " ".join(in_place_of(phrase.split(), first, last, begins_sentence=begins)) == expected


def test_affixes_are_punctuation():
    assert affixes("“don't,”") == ("“", ",”")
    assert affixes("...") == ("", "...")
    assert affixes("$20") == ("", "")
    assert [ends_sentence(word) for word in ("no.”", "no,", "no", "?", "No")] == [True, False, False, True, False]


@settings(deadline=None)
@given(lattice=lattices(max_word=6, max_states=5), lists=st.lists(st.sampled_from(PHRASES), min_size=1, max_size=4))
def test_scores_are_lexical_and_texts_agree_with_slow_respelling(lattice, lists):
    lattice = lattice.with_words(WORDS)
    lists = list({tuple(BASIC.words(phrase.split())): phrase for phrase in lists}.values())
    weights = {"": {tuple(BASIC.words(phrase.split())): 1.0 for phrase in lists}}
    slow = SlowContext(weights, keyword_boost=1.5)
    options = ContextOptions(keyword_boost=1.5, max_tokens=0)
    ((_, result),) = stage_of({"phrases": lists}, "basic", options=options)([(lattice.key, lattice)])
    check(result)

    def entries(source, path, words, gain):
        graph, acoustic = costs_of(source, path)
        return " ".join(words), round(graph - gain, 3), round(acoustic, 3), tuple(labels_of(source, path))

    expected, actual = Counter(), Counter()
    for path in paths(lattice):
        words = WORDS.spell(words_of(lattice, path))
        gain = slow.score(BASIC.words(words))
        expected[entries(lattice, path, slow_respell(words, [lists], BASIC), gain)] += 1
    for path in paths(result):
        actual[entries(result, path, result.words.spell(words_of(result, path)), 0.0)] += 1
    assert actual == expected


@settings(deadline=None)
@given(lattice=lattices(max_word=6, max_states=5))
def test_words_without_matches_are_unchanged(lattice):
    lattice = lattice.with_words(WORDS)
    ((_, result),) = stage_of({"phrases": ["Zoe"]}, "basic")([(lattice.key, lattice)])
    assert Counter(words_of(result, path) for path in paths(result)) == Counter(
        words_of(lattice, path) for path in paths(lattice)
    )
    assert len(result.words) == len(WORDS)


def test_results_of_threads_share_one_symbol_table():
    words = SymbolTable.from_words(["<eps>", "call", "kathy,", "Now."])
    lattices = [
        ninja.from_nbest(f"utt{number}", [(["call", "kathy,", "Now."], -1.0)], words=words) for number in range(250)
    ]
    stage = stage_of({"phrases": ["Kathy"]})
    report = RescoreReport()
    results = [lattice for _, lattice in stage.on_threads(((lattice.key, lattice) for lattice in lattices), report, 3)]
    assert {text_of(lattice) for lattice in results} == {"call Kathy, Now."}
    assert {id(lattice.words) for lattice in results} == {id(stage.result_words)}
    assert "Kathy," not in words


def test_added_phrases_have_list_spelling_and_replaced_punctuation():
    """Previously, inserted words had no capitals, and the period of "folder." was lost."""
    lattice = nbest_lattice("Folder. Call Cathie Clendening, (now).", "call Cathie Clendening, no")
    entities = {"phrases": ["Kathy Clendenin", "Moulder", "NOW", "moulder's"]}
    options = ContextOptions(keyword_boost=30.0)
    stage = stage_of(entities, options=options, augmentation=Augmentation(letters_only=True))
    report = RescoreReport()
    ((_, result),) = stage([("utt", lattice)], report)
    assert {(phrase.phrase, " ".join(phrase.replaced)) for phrase in stage.added} >= {
        ("Kathy Clendenin,", "Cathie Clendening,"),
        ("Moulder.", "Folder."),
    }
    assert text_of(result) == "Moulder. Call Kathy Clendenin, (NOW)."
    assert "Moulder." in result.words


@pytest.mark.parametrize("settings", [{}, {"class_lm": "class.arpa"}], ids=["boosts", "class model"])
@pytest.mark.parametrize(
    ("phrase", "text", "expected"),
    [
        ("Kathy Clendenin", "Saw Cathie Clendening’s, now.", "Saw Kathy Clendenin’s, now."),
        ("Clendening", "Saw Clendenin's home.", "Saw Clendening's home."),
        ("clendening", "Saw Clendenin's home.", "Saw Clendening's home."),
        ("Clendenin's", "Saw Clendening's home.", "Saw Clendenin's home."),
    ],
)
def test_added_phrases_keep_the_genitive_and_their_boosts(tmp_path, phrase, text, expected, settings):
    if settings:
        ngrams = {("<s>",): (-99.0, 0.0), ("</s>",): (-1.0, 0.0), ("<unk>",): (-4.0, 0.0), ("@name",): (-1.0, 0.0)}
        (tmp_path / "class.arpa").write_bytes(write_arpa(SlowNgram(1, ngrams)))
        settings = {"class_lm": tmp_path / "class.arpa"}
    options = ContextOptions(keyword_boost=30.0, max_unknown=1.0)
    stage = stage_of({"@name": [phrase]}, options=options, augmentation=Augmentation(letters_only=True), **settings)
    ((_, result),) = stage([("utt", nbest_lattice(text))])
    assert text_of(result) == expected
    assert [match.end - match.begin for match in stage.matches("utt", expected.split())] == [len(phrase.split())]


def test_capitals_are_kept_only_at_sentence_beginnings():
    lattice = nbest_lattice("Folder plays. Folder stops Folder now, or not.")
    stage = stage_of({"phrases": ["moulder", "Xavier"]}, augmentation=Augmentation(letters_only=True))
    list(stage([("utt", lattice)]))
    assert Counter(phrase.phrase for phrase in stage.added) == {"Moulder": 2, "moulder": 1}
    stage = stage_of({"phrases": ["moulder"]}, augmentation=Augmentation(letters_only=True))
    list(stage([("utt", lattice)]))
    assert Counter(phrase.phrase for phrase in stage.added) == {"Moulder": 3}


def test_written_words_of_a_phrase_split_its_arcs():
    lattice = nbest_lattice("see Jean Luke Pickard, now.").replace(time=np.array([0, 10, 20, 30, 40, 50], np.int32))
    augmentation = Augmentation(AugmentOptions(max_distance=0.5), letters_only=True)
    stage = stage_of({"phrases": ["Jean-Luc Picard"]}, augmentation=augmentation)
    ((_, result),) = stage([("utt", lattice)])
    check(result)
    assert text_of(result) == "see Jean-Luc Picard, now."
    assert stage.added[0].frames == (10, 40)


def test_old_model_scores_lexical_words(tmp_path):
    """A model that contains "folder" also scores "Folder.", so an unknown phrase in its place has a higher cost."""
    ngrams = {("<s>",): (-99.0, 0.0), ("</s>",): (-1.0, 0.0), ("<unk>",): (-9.0, 0.0), ("folder",): (-1.0, 0.0)}
    path = tmp_path / "old.arpa"
    path.write_bytes(write_arpa(SlowNgram(1, ngrams)))
    entities = Entities.from_dict({"phrases": ["Moulder"]}, normalizer=BASIC)
    options = ContextOptions(unk_penalty=0.0, max_unknown=1.0)
    stage = Contextual(Context(entities, options=options, augmentation=Augmentation(letters_only=True)), path)
    ((_, result),) = stage([("utt", nbest_lattice("Folder."))])
    graph = {result.words.word(int(word)): cost for word, cost in zip(result.word, result.graph, strict=True)}
    assert graph["Moulder."] - graph["Folder."] == pytest.approx(8.0 * math.log(10) - options.keyword_boost, abs=1e-4)
