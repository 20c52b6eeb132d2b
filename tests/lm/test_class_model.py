"""Class n-gram models with SRILM's definitions, and multiwords, compared with slow implementations."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lattice_files import write_all
from reference_graph import costs_of, paths
from reference_ngram import CLASSES, MODEL, SlowNgram, write_arpa

import ninja as package
from ninja.errors import FormatError, OptionError
from ninja.graph import from_arcs
from ninja.lattice.symbols import SymbolTable
from ninja.lm import load, sentence_logprobs
from ninja.lm.ngram.class_model import read_classes
from ninja.lm.perplexity import LN10

EXPANSIONS = {
    "CITY": {("york",): 0.5, ("new", "york"): 0.25, ("new", "york", "a"): 0.25},
    "DAY": {("a",): 1.0, ("new",): 0.5},
}
WORDS = ["a", "new", "york"]


def readings(words):
    """Yield the readings of words: units, log-probability of their expansions, and whether the last is complete."""
    if not words:
        yield (), 0.0, True
        return
    if words[0] == "a":
        for units, logprob, is_complete in readings(words[1:]):
            yield ("a", *units), logprob, is_complete
    for name, expansions in EXPANSIONS.items():
        for expansion, probability in expansions.items():
            if words[: len(expansion)] == expansion:
                for units, logprob, is_complete in readings(words[len(expansion) :]):
                    yield (name, *units), logprob + math.log(probability), is_complete
            elif expansion[: len(words)] == words:
                yield (name,), math.log(probability), False


def slow_score(words, oov):
    """Return ln P of a sentence and its end, over all readings; each unknown word starts a new history."""
    total, start, segment = 0.0, ("<s>",), ()
    for word in (*words, "</s>"):
        if word in WORDS:
            segment = (*segment, word)
            continue
        end = ("</s>",) if word == "</s>" else ()
        segment_logprob = -math.inf
        for units, expansion_logprob, is_complete in readings(segment):
            if is_complete or not end:
                sequence = (*units, *end)
                contexts = [(*start, *sequence[:place]) for place in range(len(sequence))]
                lm_logprob = sum(MODEL.score(context, unit) for context, unit in zip(contexts, sequence, strict=True))
                segment_logprob = float(np.logaddexp(segment_logprob, lm_logprob + expansion_logprob))
        total += segment_logprob + (0.0 if end else oov)
        start, segment = (), ()
    return total


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classes")
    (folder / "lm.arpa").write_bytes(write_arpa(MODEL))
    (folder / "classes").write_text(CLASSES)
    return folder


@settings(max_examples=40)
@given(st.lists(st.sampled_from([*WORDS, "zebra"]), max_size=6), st.sampled_from(["skip", -4.5]))
def test_a_class_model_sums_over_all_readings_of_a_sentence(files, words, score):
    lm = load(files / "lm.arpa", classes=files / "classes", oov_score=score)
    ids = [lm.unk if word == "zebra" else lm.vocabulary.id(word) for word in words]
    expected = slow_score(words, 0.0 if score == "skip" else score)
    assert sentence_logprobs(lm, [ids])[0] == pytest.approx(expected, abs=1e-4)


def test_the_vocabulary_contains_expansions_but_no_classes(files):
    lm = load(files / "lm.arpa", classes=files / "classes")
    assert sorted(word for word, _ in lm.vocabulary) == ["</s>", "<s>", "a", "new", "york"]
    assert lm.classes == ("CITY", "DAY")
    slots = lm.advance(lm.start(2), np.array(lm.vocabulary.ids(["new", "new"]), np.int32))
    assert slots[0] == slots[1]
    probabilities = [math.exp(lm.logprob(slots[:1], np.array([number], np.int32))[0]) for _, number in lm.vocabulary]
    assert sum(probabilities) < 1.5  # the model is not normalised, and the classes add no probability


def test_class_definitions_of_srilm_are_read(files, tmp_path):
    assert read_classes(files / "classes") == EXPANSIONS
    (tmp_path / "spaces").write_text("CITY 0.5 new\u00a0york\n")
    assert read_classes(tmp_path / "spaces") == {"CITY": {("new\u00a0york",): 0.5}}
    for text, message in {
        "CITY 0.5\n": ":1: class CITY has an empty expansion",
        "CITY york\nCITY 2 york\n": r":2: the probability is 2, but must be in \[0, 1\]",
        "CITY york\nCITY 0.5 york\n": ":2: class CITY contains the expansion 'york' twice",
        "\n": "no class definitions; write CLASS",
    }.items():
        (tmp_path / "bad").write_text(text)
        with pytest.raises(FormatError, match=message):
            read_classes(tmp_path / "bad")


def test_unused_class_definitions_are_refused(files, tmp_path):
    (tmp_path / "other").write_text("COLOUR red\n")
    with pytest.raises(OptionError, match="no language model contains any of these classes"):
        load(files / "lm.arpa", classes=tmp_path / "other")


PLAIN = SlowNgram(
    2,
    {
        ("<s>",): (-99.0, -0.5),
        ("</s>",): (-0.5, 0.0),
        ("new",): (-1.0, -0.25),
        ("york",): (-0.75, -0.125),
        ("new_york",): (-0.25, 0.0),
        ("new", "york"): (-0.125, 0.0),
    },
)


@given(st.lists(st.sampled_from(["new", "york", "new_york", "york_new_york", "_york"]), max_size=5))
def test_a_multiword_has_the_score_of_its_words(tmp_path_factory, words):
    path = tmp_path_factory.getbasetemp() / "plain.arpa"
    path.write_bytes(write_arpa(PLAIN))
    multiword_lm, plain_lm = load(path, multi_char="_"), load(path)
    parts = [part for word in words for part in word.split("_") if part]
    scores = sentence_logprobs(multiword_lm, [multiword_lm.vocabulary.ids(words)])
    assert scores == pytest.approx(sentence_logprobs(plain_lm, [plain_lm.vocabulary.ids(parts)]), abs=1e-4)
    assert multiword_lm.vocabulary.id("new_zebra") is None


def lattice_of(words):
    table = SymbolTable.from_words(["<eps>", *words])
    ids = table.ids(words)
    lattice = from_arcs("k", [0] * len(ids), [1] * len(ids), ids, [0.0] * len(ids), [1.0] * len(ids), finals={1: 0.0})
    return lattice.replace(words=table)


@pytest.mark.parametrize("classes", [True, False])
def test_the_command_rescores_with_classes_and_multiwords(ninja, files, tmp_path, classes):
    words, options = ["york", "a", "new"], ["--rnnlm", files / "lm.arpa", "--classes", files / "classes"]
    if not classes:
        (tmp_path / "plain.arpa").write_bytes(write_arpa(PLAIN))
        words, options = ["york", "new_york", "new"], ["--rnnlm", tmp_path / "plain.arpa", "--multi-char", "_"]
    lattice = lattice_of(words)
    write_all(tmp_path / "lat.ark", [lattice])
    (tmp_path / "words.txt").write_text("".join(f"{word} {number}\n" for word, number in lattice.words))
    out = tmp_path / "out.ark"
    code, _, stderr = ninja(
        "rescore", tmp_path / "lat.ark", *options, "--lm-weight", "1", "--output", "lattice", "-o", out, "--beam", "inf"
    )
    assert code == 0, stderr
    (_, result), *_ = package.read(out)
    costs = {words[int(result.word[path[0]]) - 1]: costs_of(result, path)[0] for path in paths(result)}
    expected = {word: -slow_score((word,), 0.0) for word in words}
    if not classes:
        lm = load(tmp_path / "plain.arpa")
        sentences = [lm.vocabulary.ids(word.split("_")) for word in words]
        expected = dict(zip(words, (-sentence_logprobs(lm, sentences)).tolist(), strict=True))
    assert costs == pytest.approx(expected, abs=1e-3)


def test_the_command_scores_a_text_with_classes(ninja, files, tmp_path):
    (tmp_path / "text").write_text("k a new york\n")
    command = ["lm", "score", files / "lm.arpa", tmp_path / "text", "--classes", files / "classes"]
    code, stdout, stderr = ninja(*command)
    assert code == 0, stderr
    logprob = sum(float(score) for score in stdout.split()[1:])
    assert logprob == pytest.approx(slow_score(("a", "new", "york"), 0.0), abs=1e-4)
    assert f"logprob= {logprob / LN10:.4g}" in stderr
