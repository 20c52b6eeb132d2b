"""Entities: the lists of each utterance, and reports of probable mistakes."""

from __future__ import annotations

import gzip
import json
import shutil
import time
from pathlib import Path

import pytest
from reference_graph import SHARED

from ninja.context.entities.lists import Entities, Phrase
from ninja.errors import FormatError
from ninja.evaluate import read_speakers
from ninja.lattice.symbols import SymbolTable

ENGLISH = SHARED / "data" / "english"

PLAIN = ["<eps>", "tom", "chen", "jean", "luc", "route", "6", "call", "x"]
WORDS = SymbolTable.from_words([*PLAIN, "o'brien", "j.", "r.", "a.m.", "'em", "able-bodied"])


def test_plain_form_applies_to_all_utterances() -> None:
    entities = Entities.from_dict(
        {"@name": ["tom chen", {"text": "kathi clendenin", "weight": 2, "pronunciations": ["K AE1 TH IY0"]}], "": ["x"]}
    )
    (phrase_list,) = entities.of("whoever")
    assert phrase_list is entities.of("somebody else")[0]
    assert phrase_list.name == "*"
    assert phrase_list.classes == {
        "@name": (Phrase("tom chen"), Phrase("kathi clendenin", 2.0, ("K AE TH IY",))),
        "": (Phrase("x"),),
    }
    assert (entities.classes, entities.num_phrases, entities.keys) == (("", "@name"), 3, ())
    assert repr(entities) == "Entities(3 phrases, 0 utterances)"


def test_shared_list_is_one_object() -> None:
    entities = Entities.from_dict(
        {
            "lists": {"contacts": {"@name": ["tom"]}, "places": {"@place": ["rome"]}},
            "all": {"lists": ["places"]},
            "groups": {"spk1": {"lists": ["contacts", "places"]}},
            "utterances": {"a": {"group": "spk1"}, "b": {"lists": ["contacts"], "@name": ["kathi"]}},
        }
    )
    places, contacts = entities.lists["places"], entities.lists["contacts"]
    assert entities.of("a") == (places, contacts)
    assert entities.of("b")[:2] == (places, contacts)
    assert entities.of("b")[2].name == ""
    assert entities.of("b")[2].num_phrases == 1
    assert entities.of("c") == (places,)
    assert entities.problems == ()


def test_utterances_without_entities_have_no_lists() -> None:
    entities = Entities.from_dict({"utterances": {"a": {"@name": []}, "b": {"@name": ["tom"]}}})
    assert entities.of("a") == entities.of("other") == ()
    assert entities.keys == ("a", "b")


def test_phrases_may_be_prefixes_and_occur_in_several_classes() -> None:
    entities = Entities.from_dict({"@name": ["tom", "tom chen", "tom chen tom"], "@artist": ["tom"]})
    assert entities.num_phrases == 4
    assert entities.problems == ()


def test_groups_are_read_from_a_kaldi_table(tmp_path: Path) -> None:
    (tmp_path / "utt2spk").write_text("u1 anna\nu2 bert\n\n")
    groups = read_speakers(tmp_path / "utt2spk")
    content = {"groups": {"anna": {"@name": ["tom"]}}, "utterances": {"u3": {"group": "anna"}}}
    entities = Entities.from_dict(content, groups=groups)
    assert [bool(entities.of(key)) for key in ("u1", "u2", "u3", "u4")] == [True, False, True, False]
    with pytest.raises(
        FormatError,
        match="utterance 'u3': the group is 'anna' here, but 'bert' in the group file; use the same group",
    ):
        Entities.from_dict(content, groups={"u3": "bert"})


# ---- problems that are reported but do not raise ----


def test_duplicate_phrases_are_merged_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "e"
    path.write_text("u\t@name\ttom\nu\t@name\tTom \nu\t@name\ttom\nv\t@name\tluc\nv\t@place\tluc\nv\t-\tx\nv\t\tx\n")
    entities = Entities.read(path, words=WORDS)
    assert entities.num_phrases == 4
    (problem,) = entities.problems
    assert problem == (
        f"{path}: 3 phrases occur twice in a list; the second occurrence is ignored: 'tom' of @name in utterance 'u' "
        "at line 1 and line 2; 'tom' of @name in utterance 'u' at line 1 and line 3; 'x' of no class in utterance 'v' "
        "at line 6 and line 7"
    )


def test_duplicate_phrase_with_another_pronunciation_is_merged() -> None:
    entities = Entities.from_dict(
        {
            "@name": [
                "tom",
                {"text": "tom", "pronunciations": ["T AA1 M"]},
                {"text": "tom", "pronunciations": ["T OW M"]},
            ]
        }
    )
    assert entities.of("u")[0].classes == {"@name": (Phrase("tom", 1.0, ("T AA M", "T OW M")),)}
    assert entities.problems == ()
    duplicate = {"text": "tom", "pronunciations": ["T AA M"]}
    (problem,) = Entities.from_dict({"@name": [duplicate, duplicate]}).problems
    assert problem.startswith("1 phrase occurs twice in a list")


def test_unused_lists_and_groups_are_reported() -> None:
    classes = {"@name": ["tom"]}
    entities = Entities.from_dict(
        {"lists": {"a": classes, "b": classes}, "groups": {"g": classes}, "utterances": {"u": {"lists": ["b"]}}}
    )
    assert entities.problems == ("1 list is never used: 'a'", "1 group has no utterance: 'g'")
    unused = Entities.from_dict({"lists": {str(number): classes for number in range(5)}})
    assert unused.problems[0] == "5 lists are never used: '0', '1', '2', …"


@pytest.mark.parametrize("content", ["", "# nothing\n", "{}", '{"@name": []}', '{"utt": "u"}'])
def test_a_file_without_phrases_is_reported(content: str, tmp_path: Path) -> None:
    (tmp_path / "e").write_text(content)
    assert Entities.read(tmp_path / "e").problems == (f"{tmp_path}/e: there are no phrases",)


def test_phrases_with_unknown_words_are_kept_and_reported_by_class() -> None:
    entities = Entities.from_dict(
        {
            "lists": {"l": {"@name": ["tom chen", "kathi chen"]}},
            "all": {"@name": ["kathi chen", "<eps> x"], "": ["call x"], "@place": ["a", "b", "c", "d"]},
            "utterances": {"u": {"lists": ["l"]}},
        }
    )
    name, place = entities.unknown(WORDS)
    assert (name.class_name, name.num_phrases) == ("@name", 3)
    assert name.phrases == (("kathi chen", ("kathi",)), ("<eps> x", ("<eps>",)))
    assert str(name) == (
        "@name: 2 of 3 phrases have words that are not in the symbol table: 'kathi chen' ('kathi'), '<eps> x' ('<eps>')"
    )
    assert str(place).endswith("'a' ('a'), 'b' ('b'), 'c' ('c'), …")
    assert entities.num_phrases == 9


# ---- large lists and real data ----


def test_many_phrases_load_quickly(tmp_path: Path) -> None:
    lines = (f"*\t@name\tword{number % 317} word{number}\n" for number in range(30_000))
    (tmp_path / "e").write_text("".join(lines))
    begin = time.process_time()
    entities = Entities.read(tmp_path / "e", words=WORDS)
    assert entities.num_phrases == 30_000
    assert time.process_time() - begin < 15  # about 0.3 s are typical; a quadratic algorithm would take a minute


# The data are not part of the project; in CI, tests/conftest.py turns this skip into a failure.
@pytest.mark.skipif(not ENGLISH.is_dir(), reason="the English test-bed is not next to this checkout")
def test_lists_of_the_english_test_bed_load_as_entities(tmp_path: Path) -> None:
    words = SymbolTable.read(ENGLISH / "words.txt.gz")
    with gzip.open(ENGLISH / "test" / "calls" / "entities.jsonl.gz", "rt") as stream:
        source = [json.loads(line) for line in stream]
    lines = [
        {"utt": record["utt"], "entities": record["list_100"], "lists": [record["pool_file"]]} for record in source
    ]
    pools = [{"list": name, "file": Path(name).name, "first": 1000} for name in {e["pool_file"] for e in source}]
    for pool in pools:
        shutil.copy(ENGLISH / pool["list"], tmp_path / pool["file"])
    (tmp_path / "e.jsonl").write_text("\n".join(json.dumps(line) for line in [*pools, *lines]))
    entities = Entities.read(tmp_path / "e.jsonl", words=words)
    assert entities.problems == ()
    assert entities.keys == tuple(record["utt"] for record in source)
    for record in source:
        pool, utterance_list = entities.of(record["utt"])
        assert pool is entities.lists[record["pool_file"]]
        assert pool.num_phrases == 1000
        texts = {(name, phrase.text) for name, phrases in utterance_list.classes.items() for phrase in phrases}
        expected = {(entry["class"], entry["text"]) for entry in record["list_100"]}
        assert texts == expected  # words in lower case are not changed
    outside = {text for report in entities.unknown(words) for text, _ in report.phrases}
    assert all(record["in_dict"] == (record["entity"] not in outside) for record in source)
