"""Alternatives of cloud services and beams: they are read in file order, and can be reordered and read again."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_files import correct, replacement, save

import ninja
from ninja.graph import best_path, lattice_nbest

# Confidences of an Azure result; the first alternative does not have the greatest confidence.
HELLO = [("Hello.", 0.95030487), ("hullo", 0.25987574), ("hello i", 0.9503083), ("hello uh", 0.9377716)]


def azure(alternatives):
    """Return a detailed result of Azure."""
    entries = [
        {"Confidence": confidence, "Lexical": text.lower().strip("."), "Display": text}
        for text, confidence in alternatives
    ]
    return {"RecognitionStatus": "Success", "DisplayText": alternatives[0][0], "NBest": entries}


def beams(alternatives):
    """Return an entry of a NeMo manifest with beams."""
    return {
        "audio_filepath": "/a/u.wav",
        "pred_text": alternatives[0][0],
        "beams": [list(alternative) for alternative in alternatives],
    }


def in_order(path, form):
    """Return the sentences of the only utterance of a file, best first."""
    [(_, lattice)] = ninja.read(path, format=form)
    return [" ".join(hypothesis.words) for hypothesis in lattice_nbest(lattice, lattice.num_hypotheses).hypotheses]


def reorder(source, target, form, order):
    """Write a file with its hypotheses in another order, given by their indices, best first."""
    with ninja.write(target, to=form) as output:
        for _, lattice in ninja.read(source, format=form):
            nbest = lattice_nbest(lattice, lattice.num_hypotheses)
            ordered = [nbest.hypotheses[place] for place in order]
            costs = [(0.0,) * len(hypothesis.words) + (1.5 * rank,) for rank, hypothesis in enumerate(ordered)]
            hypotheses = (replace(hypothesis, acoustic=cost) for hypothesis, cost in zip(ordered, costs, strict=True))
            output.write(replace(nbest, hypotheses=tuple(hypotheses)))


def test_the_best_alternative_of_a_service_is_the_first(tmp_path):
    path, _ = save(tmp_path, azure(HELLO))
    assert in_order(path, "azure") == [text for text, _ in HELLO]
    [(_, lattice)] = ninja.read(path)
    costs = [hypothesis.acoustic_cost for hypothesis in lattice_nbest(lattice, 4).hypotheses]
    assert costs[:2] == pytest.approx([0.05097, 1.34755], abs=1e-5)
    assert costs == sorted(set(costs))


def test_a_word_is_corrected_in_all_alternatives(tmp_path):
    path, target = save(tmp_path, azure(HELLO), indent=1)
    correct(path, target, "azure", lambda _, words: [word.replace("ello", "allo") for word in words])
    assert target.read_text() == path.read_text().replace("ello", "allo")


@given(st.permutations(range(4)))
def test_alternatives_are_read_in_the_order_written(tmp_path_factory, order):
    folder = tmp_path_factory.mktemp("alternatives")
    for form, document in (("azure", azure(HELLO)), ("nemo-manifest", beams([(text, -c) for text, c in HELLO]))):
        path, target = save(folder, document)
        before = in_order(path, form)
        reorder(path, target, form, order)
        assert in_order(target, form) == [before[place] for place in order]


def test_confidences_stay_with_their_alternatives(tmp_path):
    path, target = save(tmp_path, azure(HELLO))
    reorder(path, target, "azure", [2, 0, 1, 3])
    after = json.loads(target.read_text())
    before = azure(HELLO)["NBest"]
    assert after["NBest"] == [before[place] for place in (2, 0, 1, 3)]
    assert after["DisplayText"] == "hello i"


def test_scores_that_contradict_a_new_order_are_replaced(tmp_path):
    alternatives = [("good mourning", -3.25), ("good morning", -3.5), ("could morning", -7)]
    path, target = save(tmp_path, beams(alternatives))
    reorder(path, target, "nemo-manifest", [1, 0, 2])
    after = json.loads(target.read_text())
    assert after["beams"] == [["good morning", 0.0], ["good mourning", -1.5], ["could morning", -3.0]]
    assert after["pred_text"] == "good morning"
    reorder(path, target, "nemo-manifest", [0, 1, 2])
    assert target.read_bytes() == path.read_bytes()
    reorder(path, target, "nemo-manifest", [0])  # the other hypotheses were pruned
    assert json.loads(target.read_text())["beams"] == [["good mourning", -3.25]]


def test_the_first_of_beams_with_equal_scores_is_the_best(tmp_path):
    sentences = ["good morning sir", "good", "well", "good morning", ""]
    path, _ = save(tmp_path, beams([(text, -3.0) for text in sentences]))
    assert in_order(path, "nemo-manifest") == sentences
    [(_, lattice)] = ninja.read(path)
    assert lattice.words.spell(best_path(lattice).words) == ["good", "morning", "sir"]


def test_an_empty_best_beam_is_replaced_in_every_text(tmp_path):
    path, target = save(tmp_path, beams([("", -3.0), ("good morning", -3.5)]))
    reorder(path, target, "nemo-manifest", [1, 0])
    after = json.loads(target.read_text())
    assert (after["pred_text"], after["beams"][0][0]) == ("good morning", "good morning")


def test_beams_not_sorted_by_score_keep_their_places(tmp_path):
    path, target = save(tmp_path, beams([("good morning sir", -4.0), ("good morning", -3.5)]))
    assert in_order(path, "nemo-manifest") == ["good morning", "good morning sir"]
    correct(path, target, "nemo-manifest", replacement("morning", "evening"))
    assert target.read_text() == path.read_text().replace("morning", "evening")


def batch(phrases):
    """Return an Azure batch result with phrases of two channels, each with its channel, display and lexical form."""
    entries = [
        {
            "channel": channel,
            "offsetInTicks": 1e7 * place,
            "durationInTicks": 9e6,
            "nBest": [{"confidence": 0.9, "lexical": lexical, "display": display}],
        }
        for place, (channel, display, lexical) in enumerate(phrases)
    ]
    combined = [
        {
            "channel": channel,
            "lexical": " ".join(lexical for number, _, lexical in phrases if number == channel),
            "display": " ".join(display for number, display, _ in phrases if number == channel),
        }
        for channel in sorted({channel for channel, _, _ in phrases})
    ]
    return {"combinedRecognizedPhrases": combined, "recognizedPhrases": entries}


def test_combined_texts_of_channels_are_corrected_in_each_form(tmp_path):
    phrases = [
        (0, "License 0030.", "license zero zero three zero"),
        (1, "Go on.", "go on"),
        (0, "669.", "six six nine"),
        (1, "Stop.", "stop"),
    ]
    path, target = save(tmp_path, batch(phrases))
    corrections = {"License": "Permit", "Stop.": "Halt now."}
    notes = correct(
        path, target, "azure", lambda _, words: " ".join(corrections.get(word, word) for word in words).split()
    )
    assert notes == []
    expected = [
        (0, "Permit 0030.", "permit zero zero three zero"),
        *phrases[1:3],
        (1, "Halt now.", "halt now"),
    ]
    assert json.loads(target.read_text()) == batch(expected)
