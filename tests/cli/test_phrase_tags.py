"""``ninja best --tags`` marks the phrases of an entity file in transcripts and in JSON."""

import json

import pytest
from lattice_files import write_all

from ninja.context.grammar.tags import tagged
from ninja.context.grammar.tracker import Match
from ninja.graph import from_arcs
from ninja.lattice.symbols import SymbolTable

TABLE = SymbolTable.from_words(["<eps>", "call", "tom", "chen", "rome"])
SENTENCES = {"one": "call tom chen", "two": "tom chen rome", "three": "call"}
ENTITIES = [
    {"utt": "one", "@name": ["tom chen", "tom", "never"]},
    {"utt": "two", "@name": ["tom"], "phrases": ["chen rome"]},
]
TAGGED = "one call [@name tom chen]\ntwo [@name tom] [@phrase chen rome]\nthree call\n"


@pytest.fixture
def files(tmp_path):
    sentences = {key: text.split() for key, text in SENTENCES.items()}
    write_all(
        tmp_path / "lat.ark",
        (
            from_arcs(
                key, range(len(words)), range(1, len(words) + 1), TABLE.ids(words), [0.5] * len(words),
                finals={len(words): 0.0}, words=TABLE,
            )
            for key, words in sentences.items()
        ),
    )  # fmt: skip
    (tmp_path / "words.txt").write_text("".join(f"{word} {number}\n" for word, number in TABLE))
    (tmp_path / "e.jsonl").write_text("".join(json.dumps(record) + "\n" for record in ENTITIES))
    return [tmp_path / "lat.ark", "--words", tmp_path / "words.txt", "--tags", tmp_path / "e.jsonl"]


def test_phrases_are_marked_with_their_classes(ninja, files):
    code, out, err = ninja("best", *files)
    assert (code, out) == (0, TAGGED), err
    assert "never" not in err


def test_json_has_the_phrases_with_class_and_span(ninja, files, tmp_path):
    code, out, err = ninja("best", *files, "--json", tmp_path / "x.json")
    assert (code, out) == (0, TAGGED), err
    first, second, third = (json.loads(line) for line in (tmp_path / "x.json").read_text().splitlines())
    assert first["text"] == "call tom chen"
    assert first["phrases"] == [{"class": "@name", "text": "tom chen", "begin": 1, "end": 3}]
    assert [(phrase["class"], phrase["begin"], phrase["end"]) for phrase in second["phrases"]] == [
        ("@name", 0, 1),
        ("", 1, 3),
    ]
    assert third["phrases"] == []


def test_phrases_are_marked_in_written_text(ninja, tmp_path):
    words = [f"word{number}," for number in range(1200)]  # more words than the initial symbols of a tracker
    texts = {"one": "Call Tom Chen, now!", "two": " ".join(["In", "Rome,", *words, "Tom", "chen?"])}
    rows = ({"key": key, "nbest": [{"text": text, "score": -1}]} for key, text in texts.items())
    (tmp_path / "lists.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "e.json").write_text(json.dumps({"@name": ["Tom Chen"], "@place": ["Rome"]}))
    code, out, err = ninja("best", tmp_path / "lists.jsonl", "--tags", tmp_path / "e.json")
    second_line = " ".join(["two In [@place Rome,]", *words, "[@name Tom chen?]"])
    assert (code, out) == (0, f"one Call [@name Tom Chen,] now!\n{second_line}\n"), err


def test_phrases_in_one_hyphenated_word_do_not_overlap(ninja, tmp_path):
    texts = ["Go, to Paris-London-Rome now.", "See Tom Paris-London here."]
    rows = ({"key": str(key), "nbest": [{"text": text, "score": -1}]} for key, text in enumerate(texts))
    (tmp_path / "lists.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "e.json").write_text(json.dumps({"@a": ["Paris", "Tom Paris"], "@b": ["London", "London here"]}))
    code, out, _ = ninja("best", tmp_path / "lists.jsonl", "--tags", tmp_path / "e.json")
    assert (code, out) == (0, "0 Go, to [@a Paris-London-Rome] now.\n1 See [@a Tom Paris-London] here.\n")


def test_costs_are_written_with_tagged_transcripts(ninja, files, tmp_path):
    code, out, _ = ninja("best", *files, "--cost", tmp_path / "costs")
    assert (code, out) == (0, TAGGED)
    assert (tmp_path / "costs").read_text().splitlines()[0] == "one 1.5 0"


def test_tagged_marks_a_single_word_and_a_final_phrase():
    matches = [Match(0, 1, "@name", "tom"), Match(1, 3, "", "the end")]
    assert tagged(["tom", "the", "end"], matches) == "[@name tom] [@phrase the end]"
    assert tagged([], []) == ""
