"""Correct, missed and inserted entities of transcripts."""

from __future__ import annotations

import gzip
import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_align import occurrences, spots
from reference_graph import SHARED

from ninja.context.entities.lists import Entities
from ninja.errors import FormatError, InputError, OptionError
from ninja.evaluate import Entity, EntityRate, EntityReport, ErrorRate, read_text, read_truth, score, score_entities
from ninja.lattice.symbols import SymbolTable

Ninja = Callable[..., tuple[int, str, str]]
ENGLISH = SHARED / "data" / "english" / "test"
WORDS = st.lists(st.sampled_from("abc"), max_size=8)
PHRASES = st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(" ".join), unique=True, max_size=5)

LISTS = Entities.from_dict(
    {
        "@name": ["tom chen", "chen", "kathi clendenin", "tom chen lee"],
        "@place": ["new york", "york", {"text": "the", "weight": -1}],
    }
)


def score_one(reference: str, hypothesis: str, entities: Entities = LISTS, **options: object) -> EntityReport:
    return score_entities({"u": reference.split()}, {"u": hypothesis.split()}, entities.phrases("u"), **options)  # type: ignore[arg-type]


def test_entity_is_correct_if_its_words_are_adjacent() -> None:
    report = score_one("call tom chen in new york", "call tom chen in york")
    assert [(mention.entity, mention.begin, mention.is_correct) for mention in report.mentions] == [
        (("@name", "tom chen"), 1, True),
        (("@place", "new york"), 4, False),
    ]
    rate = report.entities
    assert (rate.mentions, rate.correct, rate.inserted) == (
        2,
        1,
        0,
    )  # "york" is in the reference, so it is not an insertion
    assert (rate.recall, rate.precision, rate.f_score) == (50.0, 100.0, pytest.approx(200 / 3))
    assert rate.words == ErrorRate(4, deletions=1, sentences=2, sentence_errors=1)
    assert report.classes["@name"] == EntityRate(1, 1, 0, ErrorRate(2, sentences=1))
    assert report.overall == score(
        {"u": ["call", "tom", "chen", "in", "new", "york"]}, {"u": ["call", "tom", "chen", "in", "york"]}
    )


def test_longest_of_overlapping_entities_is_the_mention() -> None:
    assert [mention.entity.text for mention in score_one("tom chen lee and chen", "").mentions] == [
        "tom chen lee",
        "chen",
    ]


def test_entity_is_correct_inside_a_longer_inserted_entity() -> None:
    report = score_one("call tom chen now", "call tom chen lee now")
    assert report.mentions[0].is_correct
    assert [(insertion.entity.text, insertion.begin, insertion.instead_of) for insertion in report.insertions] == [
        ("tom chen lee", 1, "tom chen")
    ]
    assert report.entities.precision == 50.0


def test_missed_entity_is_reported_with_the_recognised_words() -> None:
    report = score_one("please call kathi clendenin now", "please call cathy clean den in now")
    (mention,) = report.mentions
    assert (mention.is_correct, mention.instead) == (False, "cathy clean den in")
    assert report.mentions[0].words.words == 2
    (mention,) = score_one("call kathi clendenin", "call").mentions
    assert (mention.instead, mention.words.deletions) == ("", 2)


def test_insertions_count_as_entity_errors_only_between_its_words() -> None:
    (inner,) = score_one("call kathi clendenin now", "call kathi the clendenin now").mentions
    assert (inner.words.insertions, inner.is_correct) == (1, False)
    outer = score_one("call kathi clendenin now", "call um kathi clendenin um now")
    assert (outer.entities.words.errors, outer.overall.insertions, outer.mentions[0].is_correct) == (0, 2, True)


def test_entities_outside_the_reference_are_insertions() -> None:
    report = score_one("call tom and go", "call tom chen and go to new york")
    assert [(insertion.entity, insertion.begin, insertion.instead_of) for insertion in report.insertions] == [
        (("@name", "tom chen"), 1, "tom"),
        (("@place", "new york"), 6, ""),
    ]
    assert (math.isnan(report.entities.recall), report.entities.precision) == (True, 0.0)
    # According to the truth, "york" is not an entity here, so it is neither a mention nor an insertion.
    unlisted = score_one("the duke of york", "the duke of york", truth={"u": []})
    assert (unlisted.entities, unlisted.classes) == (EntityRate(), {})


def test_repeated_entity_must_be_recognised_each_time() -> None:
    report = score_one("chen and chen", "chan and chen")
    assert [(mention.begin, mention.is_correct) for mention in report.mentions] == [(0, False), (2, True)]
    repeated = Entities.from_dict({"@title": ["bye bye"]})
    assert score_one("bye bye and bye bye", "bye bye bye", repeated).entities.correct == 1
    report = score_one("call chen", "call chen chen chen")
    assert (report.entities.correct, report.entities.inserted) == (1, 2)
    assert {insertion.instead_of for insertion in report.insertions} == {""}


def test_true_entities_may_be_outside_the_lists() -> None:
    truth = {"u": [Entity("@artist", "abba"), Entity("@artist", "tom chen")]}
    report = score_one("play abba for tom chen", "play abba for tom chen", truth=truth)
    assert {name: rate.correct for name, rate in report.classes.items()} == {"@artist": 2}
    assert report.entities.precision == 100.0


def test_report_without_lists_and_truth_is_empty() -> None:
    report = score_one("call tom chen", "call", Entities.from_dict({}))
    assert (report.mentions, report.insertions, report.overall.errors) == ((), (), 2)
    assert "nan" not in str(report)


def test_out_of_vocabulary_entities_are_counted_separately() -> None:
    table = SymbolTable.from_words(["<eps>", "call", "tom", "chen", "kathi"])
    report = score_one("call tom chen kathi clendenin", "call tom chen kathi clendenin york", words=table)
    assert (report.vocabulary(True).mentions, report.vocabulary(False).mentions) == (1, 1)
    assert (report.vocabulary(True).inserted, report.vocabulary(False).inserted) == (0, 1)
    assert report.vocabulary(True) + report.vocabulary(False) == report.entities
    assert score_one("chen", "chen").vocabulary(True) == EntityRate()


def test_report_compares_entities_before_and_after_context() -> None:
    references = {"a": ["call", "chen"], "b": ["go", "to", "york"], "c": ["tom", "chen"], "d": ["york"], "e": ["go"]}
    before = {"a": ["call", "can"], "b": ["go", "to", "york"], "c": ["tom", "chen"], "d": ["fork"], "e": ["chen"]}
    after = {
        "a": ["call", "chen"],
        "b": ["go", "to", "fork"],
        "c": ["tom", "chen"],
        "d": ["pork"],
        "e": ["chen", "york"],
    }
    report = score_entities(references, after, LISTS.phrases(references), before=before).as_dict()
    outcomes = {name: [entity["utt"] for entity in report[name]] for name in ("recovered", "kept", "lost", "missed")}  # type: ignore[attr-defined]
    assert outcomes == {"recovered": ["a"], "kept": ["c"], "lost": ["b"], "missed": ["d"]}
    assert report["missed"] == [
        {"utt": "d", "class": "@place", "text": "york", "begin": 0, "instead": "pork", "word_errors": 1}
    ]
    assert [(entity["text"], entity["found_before"]) for entity in report["inserted"]] == [  # type: ignore[attr-defined]
        ("chen", True),
        ("york", False),
    ]
    without_before = score_entities(references, after, LISTS.phrases(references)).as_dict()
    assert [len(without_before[name]) for name in ("recovered", "kept", "lost", "missed")] == [2, 0, 0, 2]  # type: ignore[arg-type]
    (insertion,) = score_one("chen", "chen chen", before={"u": ["chen"]}).insertions
    assert insertion.found_before is False
    partial = score_entities(
        references, after, LISTS.phrases(references), before={"a": ["call", "can"]}, mode="present"
    )
    assert [mention.found_before for mention in partial.mentions] == [False, None, None, None]
    with pytest.raises(FormatError, match="no hypothesis for 4 of 5 references"):
        score_entities(references, after, LISTS.phrases(references), before={"a": ["call", "can"]})


@given(PHRASES, st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=4))
def test_entity_counts_agree_with_slow_implementation(
    phrases: list[str], utterances: list[tuple[list[str], list[str], list[str]]]
) -> None:
    class_of = {text: "@even" if len(text) % 3 else "@odd" for text in phrases}
    lists = Entities.from_dict(
        {name: [text for text in phrases if class_of[text] == name] for name in ("@even", "@odd")}
    )
    references, hypotheses, before = ({f"u{i}": texts[side] for i, texts in enumerate(utterances)} for side in range(3))
    report = score_entities(references, hypotheses, lists.phrases(references), before=before)
    for key, reference in references.items():
        part = report.of([key])
        expected = spots(reference, class_of)
        assert [(mention.begin, *mention.entity) for mention in part.mentions] == expected
        counts = Counter(text for _, _, text in expected)
        for text, count in counts.items():
            matching = [mention for mention in part.mentions if mention.entity.text == text]
            assert sum(mention.is_correct for mention in matching) == min(count, occurrences(hypotheses[key], text))
            assert sum(bool(mention.found_before) for mention in matching) == min(count, occurrences(before[key], text))
        hypothesis_counts = Counter(text for _, _, text in spots(hypotheses[key], class_of))
        surplus = Counter({text: count - occurrences(reference, text) for text, count in hypothesis_counts.items()})
        assert Counter(insertion.entity.text for insertion in part.insertions) == +surplus
        assert part.entities.words.words == sum(len(text.split()) for _, _, text in expected)
        assert part.entities.words.errors <= part.overall.errors
    assert report.overall == score(references, hypotheses)
    reports = [
        score_entities({k: references[k]}, {k: hypotheses[k]}, lists.phrases([k]), before={k: before[k]})
        for k in references
    ]
    assert sum(reports, EntityReport()) == report
    assert sum(report.classes.values(), EntityRate()) == report.entities
    assert report.contextual().entities.mentions == report.entities.mentions
    assert report.contextual().overall + report.general().overall == report.overall
    json.dumps(report.as_dict(), allow_nan=False)


@given(PHRASES, st.lists(WORDS, min_size=1, max_size=3))
def test_perfect_hypothesis_has_no_entity_errors(phrases: list[str], drawn_references: list[list[str]]) -> None:
    references = {f"u{i}": words for i, words in enumerate(drawn_references)}
    report = score_entities(references, references, Entities.from_dict({"@all": phrases}).phrases(references))
    assert all(mention.is_correct and mention.instead == mention.entity.text for mention in report.mentions)
    assert (report.entities.inserted, report.entities.words.errors) == (0, 0)


def test_phrase_of_two_classes_belongs_to_the_first() -> None:
    shared = Entities.from_dict({"@place": ["paris"], "@name": ["paris"]})
    assert [mention.entity.class_name for mention in score_one("paris", "paris", shared).mentions] == ["@place"]


def test_phrase_of_two_lists_belongs_to_the_first() -> None:
    lists = Entities.from_dict({"@name": ["paris"], "utterances": {"u": {"@place": ["paris", "paris texas"]}}})
    assert [mention.entity.class_name for mention in score_one("paris or paris texas", "", lists).mentions] == [
        "@name",
        "@place",
    ]


def test_phrases_of_negative_weight_are_not_entities() -> None:
    report = score_one("good day", "the day")
    assert (report.mentions, report.insertions) == ((), ())


def test_report_can_be_restricted_to_one_test_set() -> None:
    references = {"calls-1": ["call", "chen"], "general-1": ["good", "day"]}
    report = score_entities(
        references, {"calls-1": ["call", "can"], "general-1": ["good", "chen"]}, LISTS.phrases(references)
    )
    assert report.of(["calls-1"]).overall.wer == 50.0
    assert report.of(["general-1", "unheard of"]).entities == EntityRate(inserted=1)
    with pytest.raises(OptionError, match="utterance 'calls-1' is in both reports; add reports of different test"):
        report + report.of(["calls-1"])
    with pytest.raises(TypeError):
        report + 1  # type: ignore[operator]
    with pytest.raises(TypeError):
        report.entities + 1  # type: ignore[operator]


def test_truth_that_contradicts_the_references_raises_format_error() -> None:
    with pytest.raises(FormatError, match="key 'u': the true entity 'abba' is not in the reference 'play it'"):
        score_one("play it", "play it", truth={"u": [Entity("@artist", "abba")]})
    with pytest.raises(
        FormatError, match="no utterance with true entities has a reference; check that the utterance ids"
    ):
        score_one("play it", "play it", truth={"v": []})
    with pytest.raises(FormatError, match="no reference has a hypothesis"):
        score_entities({"u": []}, {"v": []}, {})
    with pytest.raises(OptionError, match="mode is 'some'"):
        score_one("a", "a", mode="some")


def test_truth_is_read_from_records(tmp_path: Path) -> None:
    path = tmp_path / "truth.jsonl.gz"
    rows = [
        {"utt": "u1", "class": None, "true": [], "pool": 3},
        {
            "utt": "u2",
            "true": [{"class": "@name", "text": "tom  chen"}, {"text": "abba"}, {"class": None, "text": "x"}],
        },
    ]
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    assert read_truth(path) == {"u1": [], "u2": [("@name", "tom chen"), ("", "abba"), ("", "x")]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "truth: the file is empty"),
        (b'{"utt": "u1", "true": []}\n\n', "truth:2: '' is not JSON: Expecting value"),
        (b'{"utt": "u1"}\n', r'truth:1: expected {"utt": "…", "true": \[.*\]}, found \'{"utt": "u1"}\''),
        (b'{"utt": 1, "true": []}\n', "truth:1: expected"),
        (b'{"utt": "u1", "true": ["tom"]}\n', "truth:1: expected"),
        (b'{"utt": "u1", "true": [{"text": 3}]}\n', "truth:1: expected"),
        (b'{"utt": "u1", "true": [{"text": "a", "class": 3}]}\n', "truth:1: expected"),
        (b'{"utt": "u1", "true": [{"text": " "}]}\n', "truth:1: expected"),
        (b'{"utt": "u1", "true": {"text": "a"}}\n', "truth:1: expected"),
        (b"[]\n", "truth:1: expected"),
        (b"[" * 100_000, "truth:1: .* is not JSON: maximum recursion"),
        (b'{"utt": "u1", "true": []}\n{"utt": "u1", "true": []}\n', "truth:2: utterance 'u1' occurs twice"),
        (b"\xff\n", r"truth:1: not UTF-8 \(invalid start byte\)"),
    ],
)
def test_damaged_truth_raises_format_error_with_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "truth"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=message):
        read_truth(path)
    with pytest.raises(InputError, match="nothing: cannot be read"):
        read_truth(tmp_path / "nothing")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "text").write_text("u1 call tom chen\nu2 go to new york\nu3 good day\n")
    (tmp_path / "after").write_text("u1 call tom chen\nu2 go to your\nu3 good york\n")
    (tmp_path / "before").write_text("u1 call tom shin\nu2 go to your\nu3 good day\n")
    (tmp_path / "entities.json").write_text('{"@name": ["tom chen"], "@place": ["new york", "york"]}')
    (tmp_path / "truth").write_text('{"utt": "u1", "true": [{"class": "@name", "text": "tom chen"}]}\n')
    (tmp_path / "words").write_text("<eps> 0\ntom 1\nchen 2\nyork 3\n")
    return tmp_path


def test_score_prints_entities_by_class(ninja: Ninja, files: Path) -> None:
    call = ("score", files / "text", files / "after", "--entities", files / "entities.json")
    code, output, errors = ninja(*call, "--vocabulary", files / "words")
    assert (code, errors) == (0, "")
    assert output.splitlines() == [
        "%WER 33.33 [ 3 / 9, 0 ins, 1 del, 2 sub ]",
        "%SER 66.67 [ 2 / 3 ]",
        "Scored 3 sentences, 0 not present in hyp.",
        "%CONTEXTUAL-WER 28.57 [ 2 / 7, 0 ins, 1 del, 1 sub ]",
        "%GENERAL-WER 50.00 [ 1 / 2, 0 ins, 0 del, 1 sub ]",
        "%RECALL 50.00 [ 1 / 2 ]",
        "%PRECISION 50.00 [ 1 / 2 ]",
        "%F 50.00",
        "%ENTITY-WER 50.00 [ 2 / 4, 0 ins, 1 del, 1 sub ]",
        "                   said  found  inserted  recall  precision       F  entity WER",
        "@name                 1      1         0  100.00     100.00  100.00        0.00",
        "@place                1      0         1    0.00       0.00    0.00      100.00",
        "in vocabulary         1      1         1  100.00      50.00   66.67        0.00",
        "out of vocabulary     1      0         0    0.00          -    0.00      100.00",
    ]
    assert ninja(*call)[1].splitlines() == output.splitlines()[:9] + [
        line.replace(" " * 11, "", 1) for line in output.splitlines()[9:12]
    ]


def test_score_reports_the_outcome_of_each_entity(ninja: Ninja, files: Path) -> None:
    call = ("score", files / "text", files / "after", "--entities", files / "entities.json", "--truth", files / "truth")
    code, output, _ = ninja(*call, "--before", files / "before", "--report", files / "report.json")
    assert code == 0
    assert "%RECALL 100.00 [ 1 / 1 ]" in output
    report = json.loads((files / "report.json").read_text())
    assert [entity["text"] for entity in report["recovered"]] == ["tom chen"]
    assert report["inserted"] == [
        {"utt": "u3", "class": "@place", "text": "york", "begin": 1, "instead_of": "day", "found_before": False}
    ]
    assert (report["entities"]["recall"], report["out_of_vocabulary"]["recall"]) == (100.0, None)
    assert report["words"]["wer"] == pytest.approx(100 / 3)


def test_score_applies_entities_of_groups(ninja: Ninja, files: Path) -> None:
    (files / "grouped").write_text('{"groups": {"mine": {"@name": ["tom chen"]}}}')
    (files / "utt2group").write_text("u1 mine\n")
    call = ("score", files / "text", files / "after", "--entities", files / "grouped")
    assert "%RECALL 100.00 [ 1 / 1 ]" in ninja(*call, "--utt2group", files / "utt2group")[1]
    code, output, errors = ninja(*call)
    assert (code, "%RECALL - [ 0 / 0 ]" in output) == (0, True)
    assert "mine" in errors  # the group has no utterance


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(
            ([option], f"{option} requires --entities")
            for option in ("--utt2group", "--truth", "--before", "--vocabulary", "--report")
        ),
        (["--words", "words", "--oracle", "--entities"], "--oracle cannot be used with --entities"),
    ],
)
def test_conflicting_entity_options_are_refused(ninja: Ninja, options: list[str], message: str) -> None:
    code, _, errors = ninja("score", "ref", "hyp", *options, "file")
    assert (code, message in errors) == (2, True), errors


# The data are not part of the project; in CI, tests/conftest.py turns this skip into a failure.
@pytest.mark.skipif(not ENGLISH.is_dir(), reason=f"{ENGLISH} does not exist")
def test_entity_counts_of_the_first_pass_agree_with_string_search() -> None:
    calls = ENGLISH / "calls"
    truth = read_truth(calls / "entities.jsonl.gz")
    references, hypotheses = read_text(calls / "text"), read_text(calls / "first_pass_1best")
    table = SymbolTable.read(ENGLISH.parent / "words.txt.gz")
    report = score_entities(references, hypotheses, {}, truth=truth, words=table)
    with gzip.open(calls / "entities.jsonl.gz", "rt") as stream:
        records = [json.loads(row) for row in stream]
    for in_vocabulary in (True, False):
        expected = [record for record in records if record["in_dict"] is in_vocabulary]
        correct = [
            record for record in expected if f" {record['entity']} " in f" {' '.join(hypotheses[record['utt']])} "
        ]
        assert (report.vocabulary(in_vocabulary).mentions, report.vocabulary(in_vocabulary).correct) == (
            len(expected),
            len(correct),
        )
    assert report.vocabulary(True).mentions == 163
