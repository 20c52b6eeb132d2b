"""Context for decoders: the scores of a sentence's units have the same sum as those of its words."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_context import SlowContext
from reference_ngram import SlowNgram, language_model, write_fst
from strategies_decode import (
    ALL,
    LETTERS,
    PIECES,
    boosts,
    ids,
    list_of,
    names,
    spelled_models,
    spelled_weights,
    steps,
)

from ninja.context.entities.lists import Phrase, PhraseList
from ninja.context.grammar.tracker import Match
from ninja.context.options import ContextOptions
from ninja.decoding.partial_boosts import OpenVocabulary
from ninja.decoding.spelled_tracker import SpelledTracker
from ninja.decoding.spelling import Spelling
from ninja.errors import OptionError, VocabularyError
from ninja.lattice.symbols import SymbolTable
from ninja.lm.ngram.model import read_grammar

# Words spelled by units


def test_a_unit_with_a_boundary_begins_a_word():
    assert PIECES.words([0, 2, 5, 3, 6, 1, 4, 0, 4]) == ["ab", "abbb", "aa"]
    assert PIECES.words([5, 1, 1, 2]) == ["b", "a"]
    assert PIECES.words([]) == PIECES.words([1, 0]) == []
    assert LETTERS.words(ids(" call  tom ")) == ["call", "tom"]


@given(st.lists(st.sampled_from(["▁", "▁a", "▁ab", "a", "b", "bb", "ba"]), unique=True, min_size=1))
def test_can_spell_agrees_with_enumeration_of_unit_sequences(pieces):
    spelling = Spelling(pieces)
    words = set()
    for length in range(1, 5):
        for units in itertools.product(range(len(pieces)), repeat=length):
            words.update(spelling.words(units)[:1])
    for length in range(1, 4):
        for word in map("".join, itertools.product("ab", repeat=length)):
            assert spelling.can_spell(word) == (word in words)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"units": ["a"], "boundary": ""}, "boundary is empty"),
        ({"units": ["a", ""]}, "unit 1 is empty"),
        ({"units": ["a"], "silent": ["<pad>"]}, "silent contains '<pad>', which is not one of the 1 units"),
    ],
)
def test_invalid_units_of_a_spelling_are_refused(arguments, message):
    with pytest.raises(OptionError, match=message):
        Spelling(**arguments)


def test_a_unit_that_does_not_exist_has_no_text():
    with pytest.raises(OptionError, match="unit 7 is out of range; there are 7 units"):
        PIECES.words([0, 7])


def test_unspellable_returns_phrases_that_the_units_cannot_spell():
    tracker = SpelledTracker(LETTERS, room=20)
    lists = [names("tom", "tom émile", "o'neil"), names("o'neil", "ann")]
    assert tracker.unspellable(lists) == ("tom émile", "o'neil")


# The tracker of spelled words


@given(
    class_lm=st.none() | spelled_models,
    weights=spelled_weights,
    keyword=boosts,
    entering=boosts,
    sentences=st.lists(st.lists(st.integers(0, len(PIECES) - 1), max_size=9), min_size=1, max_size=8),
)
def test_scores_of_units_sum_to_those_of_their_words(class_lm, weights, keyword, entering, sentences):
    options = replace(ALL, keyword_boost=keyword, class_boost=entering)
    tracker = SpelledTracker(PIECES, language_model(class_lm), options, room=20)
    start = tracker.start([list_of(weights)])
    slow = SlowContext(weights, class_lm, None, keyword, entering)
    for units in sentences:
        assert sum(steps(tracker, start, units)) == pytest.approx(slow.score(PIECES.words(units)), abs=1e-4)


@given(class_lm=st.none() | spelled_models, weights=spelled_weights, data=st.data())
def test_advancing_a_batch_equals_advancing_each_history(class_lm, weights, data):
    tracker = SpelledTracker(PIECES, language_model(class_lm), ALL, room=20)
    starts = [tracker.start([list_of(weights)]), tracker.start([])]
    unit = st.integers(0, len(PIECES) - 1)
    histories = data.draw(st.lists(st.tuples(st.sampled_from([0, 1]), st.lists(unit, min_size=4, max_size=4))))
    states = np.array([starts[utterance] for utterance, _ in histories], np.int64)
    batch_gains = []
    for position in range(4):
        units_at = [units[position] for _, units in histories]
        states, gains = tracker.advance(states, np.array(units_at, np.int32))
        batch_gains.append(gains.tolist())
    batch_gains.append(tracker.final(states).tolist())
    for (utterance, units), gains in zip(histories, zip(*batch_gains, strict=True), strict=True):
        single_tracker = SpelledTracker(PIECES, language_model(class_lm), ALL, room=20)
        assert steps(single_tracker, single_tracker.start([[list_of(weights)], []][utterance]), units) == list(gains)


def test_letters_receive_partial_boosts_that_other_words_pay_back():
    tracker = SpelledTracker(LETTERS, None, ContextOptions(keyword_boost=6), room=20)
    start = tracker.start([names("tom")])
    assert steps(tracker, start, ids("tom")) == pytest.approx([2, 2, 2, 0])
    assert steps(tracker, start, ids("tom c")) == pytest.approx([2, 2, 2, 0, 0, 0])
    assert steps(tracker, start, ids("toy")) == pytest.approx([2, 2, -4, 0])
    assert steps(tracker, start, ids("to t")) == pytest.approx([2, 2, -4, 2, -2])
    assert steps(tracker, start, ids("toms")) == pytest.approx([2, 2, 2, -6, 0])


def test_partial_boosts_of_multi_word_phrases_are_withdrawn_on_a_mismatch():
    tracker = SpelledTracker(LETTERS, None, ContextOptions(keyword_boost=6), room=20)
    start = tracker.start([names("al chen", "to")])
    assert steps(tracker, start, ids("al chen")) == pytest.approx([3, 3, 0, 1.5, 1.5, 1.5, 1.5, 0])
    assert sum(steps(tracker, start, ids("al cher"))) == pytest.approx(0)
    assert sum(steps(tracker, start, ids("al"))) == pytest.approx(0)
    assert sum(steps(tracker, start, ids("al to"))) == pytest.approx(6)


def test_partial_boosts_exclude_the_cost_of_entering_a_phrase():
    model = SlowNgram(
        1,
        {
            ("<unk>",): (0.0, 0.0),
            ("@name",): (0.0, 0.0),
            ("</s>",): (0.0, 0.0),
            ("<s>",): (-99.0, 0.0),
        },
    )
    options = ContextOptions(keyword_boost=6, class_boost=-10)
    tracker = SpelledTracker(LETTERS, language_model(model), options)
    start = tracker.start([names("al chen", "to")])
    assert steps(tracker, start, ids("al chen")) == pytest.approx([0, 0, 0, 0.5, 0.5, 0.5, 0.5, 0])
    assert sum(steps(tracker, start, ids("to"))) == pytest.approx(0)
    elsewhere = tracker.start([PhraseList("", {"@place": (Phrase("to"),)})])
    assert steps(tracker, elsewhere, ids("to")) == pytest.approx([3, 3, 0]), "the model has no such class"


def test_a_phrase_of_negative_weight_has_no_partial_boosts():
    tracker = SpelledTracker(LETTERS, None, ContextOptions(keyword_boost=6), room=20)
    start = tracker.start([PhraseList("", {"": (Phrase("tom", -1.0),)})])
    assert steps(tracker, start, ids("tom")) == pytest.approx([0, 0, 0, -6])


def test_histories_with_the_same_future_are_one_state():
    tracker = SpelledTracker(LETTERS, room=20)
    start = tracker.start([names("tom")])

    def state(text):
        states = np.array([start])
        for unit in ids(text):
            states, _ = tracker.advance(states, np.array([unit], np.int32))
        return int(states[0])

    assert state("call to") == state("xyz  to") != state("call t")
    assert state("to ") == state("toy ") == state("") == start
    assert state("toy") == state("xyz"), "neither begins a word of a phrase"
    assert state("tom ") == start, "no phrase continues"


@given(weights=spelled_weights, units=st.lists(st.integers(0, len(PIECES) - 1), max_size=8), data=st.data())
def test_scores_do_not_depend_on_the_order_of_phrases_or_other_lists(weights, units, data):
    tracker = SpelledTracker(PIECES, None, ALL, room=30)
    expected = steps(tracker, tracker.start([list_of(weights)]), units)
    shuffled = {
        cls: dict(data.draw(st.permutations(list(phrases.items()))))
        for cls, phrases in data.draw(st.permutations(list(weights.items())))
    }
    shared_tracker = SpelledTracker(PIECES, None, ALL, room=30)
    shared_tracker.start([names("aba", "bb ab")])
    start = shared_tracker.start([list_of(shuffled)])
    assert steps(shared_tracker, start, units) == expected


def test_matches_are_found_by_words_in_spelled_sentences():
    tracker = SpelledTracker(LETTERS, room=20)
    start = tracker.start([names("tom chen", "zoë")])
    assert tracker.matches(start, ids("call  tom chen now")) == [Match(1, 3, "@name", "tom chen")]


def test_unknown_words_are_unk_in_the_class_model():
    model = SlowNgram(
        1, {("<unk>",): (-2.0, 0.0), ("ab",): (-0.5, 0.0), ("</s>",): (-0.25, 0.0), ("<s>",): (-99.0, 0.0)}
    )
    tracker = SpelledTracker(PIECES, language_model(model), replace(ALL, class_weight=1.0, keyword_boost=6))
    start = tracker.start([names("aa")])
    log = math.log(10)
    assert sum(steps(tracker, start, [2, 5])) == pytest.approx(-0.75 * log)
    assert sum(steps(tracker, start, [5, 5])) == pytest.approx(-2.25 * log)
    assert sum(steps(tracker, start, [2, 4])) == pytest.approx(-2.25 * log + 6), "the name is unknown to the model"


def test_a_class_model_without_unk_is_refused():
    model = SlowNgram(1, {("a",): (-0.5, 0.0), ("</s>",): (-0.25, 0.0), ("<s>",): (-99.0, 0.0)})
    with pytest.raises(VocabularyError, match="the class model has no <unk>"):
        SpelledTracker(PIECES, language_model(model))


def test_a_word_forbidden_by_the_class_model_scores_minus_infinity(tmp_path):
    words = SymbolTable.from_words(["<eps>", "<unk>", "ab", "ba"])
    path = tmp_path / "G.fst"
    path.write_bytes(write_fst([(0.25, [(2, 2, 0.5, 1), (1, 1, 0.5, 0)]), (0.25, [(3, 3, 0.5, 0)])]))
    tracker = SpelledTracker(PIECES, read_grammar(str(path), words), ContextOptions(class_weight=1.0))
    start = tracker.start([])
    assert steps(tracker, start, [3, 1]) == pytest.approx([0, -0.5, -0.25])
    assert steps(tracker, start, [3, 2, 5, 5]) == pytest.approx([0, -0.5, 0, 0, -math.inf]), "only ba follows ab"
    assert steps(tracker, start, [1, 5, 4, 1]) == pytest.approx([0, 0, 0, -math.inf]), "ba comes first"


@pytest.mark.parametrize("shape", ["states", "units", "unit", "state"])
def test_spelled_tracker_refuses_invalid_states_and_units(shape):
    tracker = SpelledTracker(PIECES, room=20)
    start = tracker.start()
    cases = {
        "states": ([start, start], [1], r"states have shape \(2,\) and units \(1,\)"),
        "units": ([[start]], [[1]], r"both must have shape \[n\]"),
        "unit": ([start], [7], "unit 7 is out of range; there are 7 units"),
        "state": ([start + 1], [1], f"{start + 1} is not a state of this tracker"),
    }
    states, units, message = cases[shape]
    with pytest.raises(OptionError, match=message):
        tracker.advance(np.array(states), np.array(units, np.int32))
    with pytest.raises(OptionError, match="-1 is not a state"):
        tracker.final(np.array([-1]))


# The open vocabulary


def test_more_words_than_free_ids_are_refused():
    tracker = SpelledTracker(LETTERS, room=2)
    with pytest.raises(OptionError, match="cannot add 3 words; only 2 ids are free"):
        tracker.start([names("tom chen", "al")])


def test_ids_are_freed_when_lists_are_released():
    tracker = SpelledTracker(LETTERS, None, ContextOptions(keyword_boost=6), room=8)
    shared = names("tom chen", name="contacts")
    for letter in "abcde":
        passing = names(f"{letter} {letter}y", name="passing")
        start = tracker.start([shared, passing])
        assert sum(steps(tracker, start, ids("tom chen"))) == pytest.approx(12)
        assert sum(steps(tracker, start, ids(f"{letter} {letter}y"))) == pytest.approx(12)
        del passing
        tracker.clear()


def test_open_vocabulary_adds_words_without_changing_ids():
    table = OpenVocabulary(["call"], room=2)
    assert (table.id("call"), table.room) == (2, 2)
    table.add(["tom", "call", "tom"])
    assert (table.ids(["<eps>", "call", "tom", "ann"]), table.room) == ([0, 2, 3, -1], 1)
    with pytest.raises(OptionError, match="room"):
        table.add(["ann", "ben"])
    assert table.ids(["ann", "ben"]) == [-1, -1]
    assert table.word(3) == "tom"
