"""Kneser–Ney models: agreement with formulas and KenLM, normalisation, reading from ARPA; class tagging."""

import gzip
import math
import unicodedata
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reference_kneser_ney import BOS, EOS, UNK, SlowKneserNey
from reference_ngram import LN10, SlowNgram

from ninja.errors import FormatError, OptionError, OutputError, VocabularyError
from ninja.lm import load
from ninja.lm.ngram import counts as ngram_counts
from ninja.lm.ngram.classes import Tagger, is_class
from ninja.lm.ngram.kneser_ney import FALLBACK, NgramOptions, train_ngram
from ninja.lm.perplexity import measure
from ninja.lm.text import read_sentences

GOLDEN = Path(__file__).parents[1] / "data" / "kneser_ney"
WORDS = ["a", "b", "c", "@x"]


def as_slow_ngram(model):
    """Return the n-grams of a trained model as a dictionary, by following contexts."""
    entries, contexts = {}, [()]
    for ngrams in model.lengths:
        spelled_ngrams = [
            (*contexts[prefix], model.words[word]) for prefix, word in zip(ngrams.prefix, ngrams.word, strict=True)
        ]
        entries |= dict(
            zip(spelled_ngrams, zip(ngrams.logprob.tolist(), ngrams.backoff.tolist(), strict=True), strict=True)
        )
        contexts = spelled_ngrams
    return SlowNgram(model.order, entries)


def read_arpa_file(path):
    """Return the n-grams of an ARPA file."""
    lines = (line.split("\t") for line in gzip.decompress(path.read_bytes()).decode("utf-8").splitlines())
    entries = [fields for fields in lines if len(fields) > 1]
    return {tuple(f[1].split(" ")): (float(f[0]), float(f[2]) if len(f) > 2 else 0.0) for f in entries}


def slot_of(lm, history):
    """Return the slot of a history, which includes <s>."""
    slot = lm.start(1)
    for word in history[1:]:
        slot = lm.advance(slot, np.array([lm.vocabulary.id(word)], np.int32))
    return slot


sentences = st.lists(st.lists(st.sampled_from([*WORDS, UNK]), min_size=1, max_size=5), min_size=1, max_size=8)
ngram_options = st.builds(
    NgramOptions,
    order=st.just(4),
    cutoffs=st.sampled_from([(1,), (2,), (1, 2), (1, 1, 3)]),
    discounts=st.none() | st.sampled_from([(0.75,), (0.5, 1.25, 3.0), (1.0, 2.0, 2.0)]),
    unk_share=st.none() | st.sampled_from([0.001, 0.5]),
) | st.builds(NgramOptions, order=st.integers(1, 3))


@settings(max_examples=40)
@given(sentences, ngram_options, st.none() | st.sets(st.sampled_from([*WORDS, "d"]), min_size=1), st.integers(1, 40))
@example([["a"]], NgramOptions(order=4), None, 1)
@example([["a", "b", "a"], ["b"], ["a", "b"]] * 3, NgramOptions(), {"a", "d"}, 2)
def test_models_agree_with_the_formulas_and_sum_to_one_after_every_history(text, options, vocabulary, block):
    discounts = options.discounts if options.discounts is None else options.discounts * (3 // len(options.discounts))
    slow = SlowKneserNey(text, options.order, vocabulary, options.cutoffs, discounts, options.unk_share)
    if slow.occurs[(UNK,)] == sum(map(len, text)):
        with pytest.raises(VocabularyError):
            train_ngram(text, options, vocabulary=vocabulary)
        return
    with mock.patch.object(ngram_counts, "BLOCK", block):  # several blocks of counts are merged
        model = train_ngram(text, options, vocabulary=vocabulary)
    assert {word for word in model.words if word != BOS} == set(slow.words)
    backed_off, lm = as_slow_ngram(model), model.as_language_model()
    histories = {tuple(ngram) for ngram in slow.occurs if ngram[0] == BOS and ngram[-1] != EOS}
    histories |= {(BOS, *history, word) for history in [("a",), ("c", "b")] for word in slow.words if word != EOS}
    for history in sorted(histories):
        if set(history[1:]) - set(slow.words):
            continue
        expected = [slow.score(history, word) for word in slow.words]
        assert sum(expected) == pytest.approx(1, abs=1e-9)
        assert [math.exp(backed_off.score(history, word)) for word in slow.words] == pytest.approx(expected, rel=1e-9)
        ids = np.array([lm.vocabulary.id(word) for word in slow.words], np.int32)
        probabilities = np.exp(lm.logprob(np.repeat(slot_of(lm, history), len(ids)), ids).astype(np.float64))
        assert probabilities.tolist() == pytest.approx(expected, abs=1e-6)
        assert probabilities.sum() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("plain", NgramOptions()),
        ("cut", NgramOptions(cutoffs=(2,))),
        ("sri_unk", NgramOptions(order=2, unk_share=1.0)),
    ],
)
def test_models_agree_with_lmplz_of_kenlm(name, options):
    model = train_ngram(read_sentences(GOLDEN / "text"), options)
    assert model.notes == ()
    expected, ngrams = read_arpa_file(GOLDEN / f"{name}.arpa.gz"), as_slow_ngram(model).ngrams
    assert ngrams.keys() == expected.keys()
    for ngram, (logprob, backoff) in expected.items():
        if ngram != (BOS,):  # it is never predicted, and its probability is 0 or -99
            assert ngrams[ngram][0] == pytest.approx(logprob, abs=2e-6)
        assert ngrams[ngram][1] == pytest.approx(backoff, abs=2e-6)


@pytest.mark.parametrize("name", ["lm.arpa", "lm.arpa.gz"])
def test_a_written_model_is_read_back_with_the_same_scores(tmp_path, name):
    text = [*read_sentences(GOLDEN / "text"), ["ç", "가", "@name"]]
    model = train_ngram(text, NgramOptions(cutoffs=(1, 2)))
    model.write_arpa(tmp_path / name)
    lm, trained_lm = load(tmp_path / name), model.as_language_model()
    assert [word for word, _ in lm.vocabulary] == list(model.words)
    assert (
        (lm.order, lm.model.num_ngrams)
        == (trained_lm.order, trained_lm.model.num_ngrams)
        == (3, sum(map(len, model.lengths)))
    )
    oov_text = [["nowhere", *sentence] for sentence in text]
    assert measure(lm, oov_text) == measure(trained_lm, oov_text)
    slow = as_slow_ngram(model)
    for sentence in text[:9]:
        words = [BOS, *sentence, EOS]
        expected = sum(slow.score(tuple(words[:at]), words[at]) for at in range(1, len(words)))
        assert measure(lm, [sentence]).logprob == pytest.approx(expected, abs=1e-5)


def test_equal_texts_give_identical_arpa_files(tmp_path):
    text = list(read_sentences(GOLDEN / "text"))
    train_ngram(text).write_arpa(tmp_path / "a")
    train_ngram(reversed(text)).write_arpa(tmp_path / "b")  # neither the order nor the type of the input matters
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a").read_text().startswith("\\data\\\nngram 1=378\n")


def test_words_outside_the_vocabulary_become_unk_and_are_counted():
    text = [["a", "b", "a", "@x"], ["c", "a", UNK]]
    model = train_ngram(text, NgramOptions(min_count=2), classes=["@x", "@y"])
    assert model.words == (BOS, EOS, UNK, "@x", "@y", "a")
    assert (model.num_sentences, model.num_words, model.num_unknown, model.unk_words) == (2, 7, 3, 2)
    assert model.as_language_model().unk_words == 2
    model = train_ngram(text, vocabulary=["a", "never"])
    assert model.words == (BOS, EOS, UNK, "a", "never")
    assert model.unk_words == 3


def test_discounts_of_unusual_counts_are_extrapolated_with_a_note():
    model = train_ngram([["a", "b"], ["a", "c"], ["d", "b"]] * 4)
    assert model.discounts[2].source == "fallback"
    assert model.discounts[2].of_count == FALLBACK
    assert model.notes[-1] == (
        "the numbers of 3-grams that occur 1, 2, 3 and 4 times, 0, 0, 0, 6, do not allow discounts to be estimated; "
        "using 0.5, 1, 1.5 (the fallback)"
    )
    model = train_ngram([["a"], ["b"], ["c"], ["c"]], NgramOptions(order=2))
    assert (model.discounts[1].source, model.discounts[1].counts_of_counts) == ("continued", (4, 2, 0, 0))
    assert model.discounts[1].of_count == (0.5, 1.0, 1.5)
    assert model.notes[-1].endswith("using 0.5, 1, 1.5 (extrapolated from counts 1 and 2)")


def test_an_order_beyond_the_longest_sentence_is_lowered_with_a_note():
    model = train_ngram([["a", "b"]], NgramOptions(order=6))
    assert model.order == 4
    assert model.notes[0] == "no sentence is long enough for 6-grams; the order is reduced to 4"


def test_progress_reports_the_counts():
    lines = []
    with mock.patch.object(ngram_counts, "REPORT", 5):
        train_ngram([["a", "b"]] * 4, progress=lines.append)
    assert lines == [
        "2 sentences, 1 million words",
        "3 sentences, 2 million words",
        "4 sentences, 3 million words",
        "3 distinct 2-grams",
        "2 distinct 3-grams",
    ]


BAD_TEXTS = {
    "nothing": ([], FormatError, "t: the text contains no sentences"),
    "empty sentences": ([[], []], FormatError, "t: the text contains no sentences"),
    "a mark": ([["a"], ["b", "<s>"]], FormatError, "t: sentence 2 contains <s> or </s>; remove them"),
    "a string": (["a b"], OptionError, "t: sentence 1 is a string; pass a list of words, such as text.split()"),
    "a blank": (
        [["a b"]],
        FormatError,
        "t: the word 'a b' is empty, or contains ASCII whitespace or a lone surrogate",
    ),
    "no word": ([["a", ""]], FormatError, "t: the word '' is empty"),
    "lone surrogate": ([["\udce9"]], FormatError, "or a lone surrogate"),
}


@pytest.mark.parametrize("case", BAD_TEXTS)
def test_bad_text_is_refused(case):
    text, error, message = BAD_TEXTS[case]
    with pytest.raises(error) as raised:
        train_ngram(text, path="t")
    assert message in str(raised.value)


BAD_OPTIONS = {
    "order is 0, but must be in [1, 16]": {"order": 0},
    "order is 17, but must be in [1, 16]": {"order": 17},
    "min_count is 0, but must be at least 1": {"min_count": 0},
    "cutoffs are empty, but must be 1 or more and must not decrease": {"cutoffs": ()},
    "cutoffs are 0, but": {"cutoffs": (0,)},
    "cutoffs are 2, 1, but": {"cutoffs": (2, 1)},
    "there are 3 cutoffs; specify at most one per n-gram length from 2 to 3": {"cutoffs": (1, 1, 1)},
    "there are 2 cutoffs; specify only one": {"cutoffs": (1, 1), "order": 1},
    "there are 2 discounts; specify one, or three for counts 1, 2, and 3 or more": {"discounts": (0.5, 0.5)},
    "the discount for count 2 is 2.5, but must be in (0, 2]": {"discounts": (0.5, 2.5, 2.5)},
    "the discount for count 1 is nan, but": {"discounts": (math.nan,)},
    "unk_share is 0, but must be in (0, 1]": {"unk_share": 0.0},
}


@pytest.mark.parametrize("message", BAD_OPTIONS)
def test_options_out_of_range_are_refused(message):
    with pytest.raises(OptionError) as raised:
        NgramOptions(**BAD_OPTIONS[message])
    assert str(raised.value).startswith(message)


def test_contradictory_arguments_are_refused():
    with pytest.raises(OptionError, match="vocabulary and min_count both select the words of the model"):
        train_ngram([["a"]], NgramOptions(min_count=2), vocabulary=["a"])
    with pytest.raises(
        VocabularyError, match="no word of the text is in the vocabulary; specify a vocabulary in the text's language"
    ):
        train_ngram([["a"]], vocabulary=["b"])
    with pytest.raises(OptionError, match=r"^2 words \(b, c\) would have probability 0; set unk_share below 1"):
        train_ngram([["a", "a", "d"]], NgramOptions(unk_share=1.0), vocabulary=["a", "b", "c"])


def test_a_missing_output_folder_is_refused(tmp_path):
    with pytest.raises(OutputError, match="cannot be written"):
        train_ngram([["a"]]).write_arpa(tmp_path / "no" / "lm.arpa")


def test_perplexity_separates_unknown_words():
    lm = train_ngram([["a", "b"], ["b"]], NgramOptions(order=1)).as_language_model()
    measurement = measure(lm, [["a", "z", UNK], ["b"]])
    assert (measurement.num_sentences, measurement.num_words, measurement.num_unknown) == (2, 4, 2)
    unigrams = {
        word: number
        for word, (number, _) in as_slow_ngram(train_ngram([["a", "b"], ["b"]], NgramOptions(order=1))).ngrams.items()
    }
    expected = [unigrams[(word,)] * LN10 for word in ("a", UNK, UNK, EOS, "b", EOS)]
    assert measurement.perplexity == pytest.approx(math.exp(-sum(expected) / 6), rel=1e-6)
    known_logprobs = [expected[at] for at in (0, 3, 4, 5)]
    assert measurement.known_perplexity == pytest.approx(math.exp(-sum(known_logprobs) / 4), rel=1e-6)
    with pytest.raises(FormatError, match="t: the text contains no sentences"):
        measure(lm, [], "t")


def test_perplexity_of_unknown_words_requires_unk(tmp_path):
    (tmp_path / "lm.arpa").write_text("\\data\\\nngram 1=3\n\n\\1-grams:\n-99 <s>\n-1 </s>\n-1 a\n\n\\end\\\n")
    with pytest.raises(VocabularyError, match="t: the text contains unknown words, but the model has no <unk>"):
        measure(load(tmp_path / "lm.arpa"), [["b"]], "t")


def tag_slowly(sentence, phrases):
    """Replace phrases from left to right; at each position, the longest match wins."""
    tags, position = [], 0
    while position < len(sentence):
        for length in range(len(sentence) - position, 0, -1):
            name = next(
                (
                    class_name
                    for class_name, members in phrases.items()
                    if " ".join(sentence[position : position + length]) in members
                ),
                None,
            )
            if name is not None:
                break
        tags.append(name or sentence[position])
        position += length
    return tags


phrase = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(" ".join)


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from([*"abcd", "@x", "@z"]), max_size=10), st.lists(phrase, min_size=1, max_size=8, unique=True)
)
def test_tagging_takes_the_leftmost_and_longest_phrase(sentence, phrase_list):
    phrases = {"@x": phrase_list[::2], "$y": phrase_list[1::2]}
    tagger = Tagger(phrases)
    tags = tagger.tag(sentence)
    assert tags == tag_slowly(sentence, phrases)
    for name in ("@x", "$y", "@z"):
        assert tags.count(name) == tagger.num_tagged[name] + tagger.num_present[name]


def test_a_phrase_of_several_classes_is_assigned_to_them_in_turn():
    tagger = Tagger({"@place": ["paris", "new york"], "@name": ["paris"], "<title>": ["paris", "paris"]})
    text = [["call", "paris"], ["paris", "or", "new", "york"], ["paris", "now"], ["ring", "paris"]]
    assert list(map(tagger.tag, text)) == [
        ["call", "@place"],
        ["@name", "or", "@place"],
        ["<title>", "now"],
        ["ring", "@place"],
    ]
    assert tagger.notes() == [
        "@place: 2 phrases in the lists, 3 occurrences in the text",
        "@name: 1 phrase in the lists, 1 occurrence in the text",
        "<title>: 1 phrase in the lists, 1 occurrence in the text",
        "1 phrase belongs to several classes: 'paris' (@place, @name, <title>); 4 occurrences were assigned to "
        "these classes in turn",
    ]


def test_phrases_match_in_any_normalization_form_but_only_in_their_case():
    composed, decomposed = (unicodedata.normalize(form, "zoë müller") for form in ("NFC", "NFD"))
    for phrase in (composed, decomposed):
        tagger = Tagger({"@name": [phrase]})
        for text in (composed, decomposed):
            assert tagger.tag(["call", *text.split(), decomposed[:4]]) == ["call", "@name", decomposed[:4]]
        assert tagger.tag(composed.title().split()) == composed.title().split()


def test_notes_list_classes_without_occurrences_or_phrases():
    tagger = Tagger({"@name": ["tom chen"], "$song": ["x"], "@empty": []})
    assert tagger.tag(["@name", "and", "@stranger", "tom", "x"]) == ["@name", "and", "@stranger", "tom", "$song"]
    assert tagger.notes() == [
        "@name: 1 phrase in the lists, 0 occurrences in the text, 1 token already in the text",
        "$song: 1 phrase in the lists, 1 occurrence in the text",
        "@empty: 0 phrases in the lists, 0 occurrences in the text",
        "classes that do not occur in the text and are therefore poorly trained: @empty",
        "class tokens in the text that have no phrase list: @stranger",
    ]


@pytest.mark.parametrize(
    ("phrases", "message"),
    [
        ({"name": ["a"]}, "'name' is not a class name; write @name, $name or <name>"),
        ({"<s>": ["a"]}, "'<s>' is not a class"),
        ({"@name": []}, "the classes have no phrases; omit the classes"),
        ({}, "the classes have no phrases"),
        ({"@name": [" "]}, "the class @name contains an empty phrase; remove it"),
        (
            {"@name": ["tom @place"]},
            "the phrase 'tom @place' of @name contains @place; phrases must consist of plain words",
        ),
        ({"@name": ["tom <s>"]}, "the phrase 'tom <s>' of @name contains <s>"),
    ],
)
def test_bad_phrases_are_refused(phrases, message):
    with pytest.raises(OptionError) as raised:
        Tagger(phrases)
    assert str(raised.value).startswith(message)


def test_class_tokens_have_three_spellings():
    assert all(map(is_class, ["@name", "$name", "<name>", "@é"]))
    assert not any(
        map(is_class, ["", "@", "$", "<>", "name", "<s>", "</s>", "<unk>", "<UNK>", "<eps>", "<name", "a@b"])
    )
