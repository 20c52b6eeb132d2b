"""Scores by lexical form: `ninja score --normalizer`, and the functions that it calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ninja.errors import FormatError, OptionError
from ninja.evaluate import (
    BiasingList,
    Entity,
    Phrases,
    choose_normalizer,
    lexical_texts,
    score,
    score_biased,
    score_entities,
)
from ninja.lattice.text import BASIC, LOOKS_WRITTEN, LexicalForms

pytestmark = pytest.mark.usefixtures("folder")

Run = Callable[..., tuple[int, str, str]]
WRITTEN = {"u": "Kathy Clendenin, is it you?", "v": "Hm — the Beatles. Twenty-three!"}
SPOKEN = {"u": "kathy clendenin is it you", "v": "hm the beatles twenty three"}


def write(name: str, texts: dict[str, str]) -> str:
    Path(name).write_text("".join(f"{key} {text}\n" for key, text in texts.items()), encoding="utf-8")
    return name


def split(texts: dict[str, str]) -> dict[str, list[str]]:
    return {key: text.split() for key, text in texts.items()}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write("written", WRITTEN)
    write("spoken", SPOKEN)


@pytest.mark.parametrize("sides", [("written", "spoken"), ("spoken", "written"), ("written", "written")])
def test_written_text_is_compared_by_lexical_form(ninja: Run, sides: tuple[str, str]) -> None:
    code, output, errors = ninja("score", *sides)
    assert (code, output.splitlines()[0]) == (0, "%WER 0.00 [ 0 / 10, 0 ins, 0 del, 0 sub ]")
    assert output.splitlines()[3] == "%CER 0.00 [ 0 / 52, 0 ins, 0 del, 0 sub ]"
    assert errors == f"ninja: {LOOKS_WRITTEN}\n"
    assert ninja("score", *sides, "--normalizer", "basic") == (0, output, "")


def test_lexical_text_is_compared_without_normalizer(ninja: Run) -> None:
    code, output, errors = ninja("score", "spoken", "spoken")
    assert (code, errors) == (0, "")
    assert ninja("score", "spoken", "spoken", "--normalizer", "none") == (0, output, "")


def test_texts_that_differ_mainly_in_form_cause_a_warning(ninja: Run) -> None:
    code, output, errors = ninja("score", "spoken", "written", "--normalizer", "none")
    assert (code, output.split()[1]) == (0, "80.00")
    assert errors == (
        "ninja: warning: 8 of 8 word errors are differences in case, punctuation or hyphens; with --normalizer basic, "
        "%WER is 0.00 instead of 80.00\n"
    )
    write("cased", {key: text.replace("k", "K").replace("b", "B") for key, text in SPOKEN.items()})
    assert (
        "warning: 2 of 2 word errors" in ninja("score", "cased", "spoken")[2]
    )  # capitals without punctuation do not look written


def test_no_warning_if_half_of_the_errors_remain(ninja: Run) -> None:
    write("cased", {"u": "Kathy c is it you", "v": "hm the Beatles three"})
    write("other", {"u": "kathy d is it us", "v": "hm the beatles four"})
    assert ninja("score", "cased", "other") == (0, ninja("score", "cased", "other", "--normalizer", "none")[1], "")


def test_grid_alignments_and_details_have_lexical_words(ninja: Run) -> None:
    rows = [{"key": key, "nbest": [{"text": text, "score": 0.0}]} for key, text in WRITTEN.items()]
    Path("lists.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write("wrong", {"u": "Kathy Smith is it you", "v": SPOKEN["v"]})
    options = ("--normalizer", "basic", "--alignments", "a", "--per-utt", "p", "--ops", "o", "--most-often", 2)
    code, output, _ = ninja("score", "wrong", "lists.jsonl", *options, "--lmwt", "1,2", "--wer-dir", "wer")
    assert code == 0
    assert output.count("10.00") == 3  # two cells and the best cell
    assert "1  smith → clendenin" in output
    assert "ref: kathy smith     is it you\n" in Path("a").read_text()
    assert "clendenin" in Path("p").read_text()
    assert "substitution" in Path("o").read_text()
    assert Path("wer/wer_1_0.0").read_text().startswith("%WER 10.00 [ 1 / 10")


def test_oracle_compares_lexical_forms(ninja: Run) -> None:
    rows = [{"key": "u", "nbest": [{"text": "Kathy is", "score": 0.0}, {"text": WRITTEN["u"], "score": -1.0}]}]
    Path("lists.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write("reference", {"u": SPOKEN["u"]})
    code, output, errors = ninja("score", "reference", "lists.jsonl", "--oracle")
    assert (code, output.split()[1], LOOKS_WRITTEN in errors) == (0, "0.00", True)
    options = ("--oracle", "--normalizer", "none")
    assert ninja("score", "reference", "lists.jsonl", *options)[1].split()[1] == "60.00"


def test_filters_are_applied_to_written_words_before_the_normalizer(ninja: Run) -> None:
    assert ninja("score", "spoken", "written", "--normalizer", "basic", "--ignore", "Hm")[1].split()[1] == "10.00"
    assert ninja("score", "written", "written", "--ignore", "Hm")[1].split()[:6][-1] == "9,"


def test_written_forms_are_printed_on_request(ninja: Run) -> None:
    code, output, errors = ninja("score", "written", "spoken", "--written")
    assert (code, errors) == (0, "")  # --written selects the normalizer basic
    assert output.splitlines()[4:] == [
        "%WRITTEN-WER 80.00 [ 8 / 10, 1 ins, 1 del, 6 sub ]",
        "%FORM 66.67 [ 6 / 9 ]",
        "%CASE 55.56 [ 5 / 9 ]",
        "%PUNCTUATION 100.00 [ 5 / 5, 0 ins, 5 del, 0 sub ]",
    ]
    assert (
        "--written requires a normalizer" in ninja("score", "written", "spoken", "--written", "--normalizer", "none")[2]
    )
    assert "--oracle cannot be used with --written" in ninja("score", "written", "spoken", "--written", "--oracle")[2]


def test_rare_words_are_compared_by_lexical_form() -> None:
    lists = {"u": BiasingList(frozenset({"Clendenin"})), "v": BiasingList(frozenset({"Twenty-three"}))}
    hypotheses = split({"u": "kathy Smith is it you", "v": "Hm the beetles. twenty-two"})
    rate = score_biased(split(WRITTEN), hypotheses, lists, normalizer="basic")
    assert (rate.biased.words, rate.biased.errors, rate.unbiased.words, rate.unbiased.errors) == (3, 2, 7, 1)
    spoken = {"u": BiasingList(frozenset({"clendenin"})), "v": BiasingList(frozenset({"twenty", "three"}))}
    assert rate == score_biased(split(SPOKEN), lexical_texts(hypotheses, BASIC), spoken)


@pytest.mark.parametrize(
    ("hypothesis", "correct", "in_form"),
    [
        ("Kathy Clendenin, is it", 1, 1),
        ("“Kathy Clendenin”?", 1, 1),
        ("kathy Clendenin is it", 1, 0),
        ("Is it KATHY CLENDENIN?", 1, 0),
        ("The Beatles came. The Beatles", 2, 2),  # the capital begins a sentence
        ("did The Beatles come", 1, 0),
        ("the beatles", 1, 0),
        ("Kathy Clendenin-Smith", 1, 0),
        ("Kathy is it", 0, 0),
    ],
)
def test_entities_match_by_lexical_form_and_written_forms_are_counted(
    hypothesis: str, correct: int, in_form: int
) -> None:
    phrases = Phrases([Entity("@name", "Kathy Clendenin"), Entity("@band", "the Beatles")])
    references = {"u": BASIC.words(hypothesis.split()) if correct else ["kathy", "clendenin"]}
    report = score_entities(references, {"u": hypothesis.split()}, {"u": [phrases]}, normalizer="basic")
    assert (report.entities.correct, report.entities.in_form) == (correct, in_form)
    assert {mention.entity.text for mention in report.mentions} <= {"Kathy Clendenin", "the Beatles"}
    assert (f"%ENTITY-FORM {'-' if not correct else format(100 * in_form / correct, '.2f')} [" in str(report)) is True


def test_insertions_report_entities_as_spelled_in_the_entity_list() -> None:
    phrases = Phrases([Entity("@name", "Kathy Clendenin")])
    report = score_entities({"u": ["is"]}, {"u": ["kathy", "clendenin"]}, {"u": [phrases]}, normalizer="basic")
    assert [insertion.entity.text for insertion in report.insertions] == ["Kathy Clendenin"]


def test_score_command_matches_entities_by_lexical_form(ninja: Run) -> None:
    Path("entities.json").write_text('{"@name": ["Kathy Clendenin"], "@band": ["the Beatles"]}')
    Path("truth").write_text('{"utt": "u", "true": [{"class": "@name", "text": "Kathy Clendenin"}]}\n')
    options = ("--entities", "entities.json", "--truth", "truth", "--report", "report.json")
    code, output, _ = ninja("score", "spoken", "written", *options)
    assert code == 0
    assert {"%RECALL 100.00 [ 1 / 1 ]", "%ENTITY-FORM 100.00 [ 1 / 1 ]"} <= set(output.splitlines())
    [entity] = json.loads(Path("report.json").read_text())["recovered"]
    assert (entity["text"], entity["instead"], entity["in_form"]) == ("Kathy Clendenin", "kathy clendenin", True)
    code, _, errors = ninja("score", "spoken", "written", *options, "--normalizer", "none")
    assert (code, "the true entity 'Kathy Clendenin' is not in the reference" in errors) == (1, True)


@pytest.mark.parametrize("text", [", . —", "🙂 🎉🎉", "\u200d …"])
def test_references_without_lexical_words_raise_format_error(ninja: Run, text: str) -> None:
    write("empty", {"u": text, "v": text})
    code, output, errors = ninja("score", "empty", "written")
    assert (code, output) == (1, "")
    assert "basic removes every word in the references, for example" in errors
    assert "so there is nothing to score; choose another normalizer" in errors
    with pytest.raises(FormatError, match="removes every word in the references"):
        score(split({"u": text}), {"u": ["a"]}, normalizer="basic")
    rate = score({"u": ["a"], "v": []}, split({"u": text, "v": text}), normalizer="basic")
    assert (rate.deletions, rate.insertions) == (1, 0)


@pytest.mark.parametrize(
    ("reference", "hypothesis", "errors"),
    [
        ("Привет, мир!", "привет мир", 0),
        ("שלום, עולם.", "שלום עולם", 0),
        ("مرحبا، العالم؟", "مرحبا العالم", 0),
        ("Cafe\u0301 I\u0307stanbul", "café i\u0307stanbul", 0),
        ("good 🎉 day 👩\u200d🚀", "Good day", 0),
        ("Hello שלום, мир 世界。", "hello שלום мир 世界", 0),
        ("Straße", "STRASSE", 0),
        ("straße", "street", 1),
    ],
)
def test_normalizer_basic_handles_all_scripts(reference: str, hypothesis: str, errors: int) -> None:
    assert score(split({"u": reference}), split({"u": hypothesis}), normalizer="basic").errors == errors


def test_normalizer_may_be_a_table_of_forms(ninja: Run) -> None:
    Path("table").write_text("Hi hello\nHm\n")
    write("reference", {"u": "Hi you Hm"})
    write("hypothesis", {"u": "hello You"})
    assert ninja("score", "reference", "hypothesis", "--normalizer", "table")[1].split()[:5] == [
        "%WER",
        "50.00",
        "[",
        "1",
        "/",
    ]
    code, _, errors = ninja("score", "reference", "hypothesis", "--normalizer", "nothing")
    assert (
        code,
        "normalizer is 'nothing', but must be one of none, basic, english, or an existing file" in errors,
    ) == (2, True)
    with pytest.raises(OptionError, match="must be one of"):
        score({"u": ["a"]}, {"u": ["a"]}, normalizer="nothing")


def test_normalizer_of_both_sides_is_chosen_once() -> None:
    notes: list[str] = []
    forms = LexicalForms(note=notes.append)
    assert choose_normalizer(forms, split(SPOKEN), split(SPOKEN)).is_identity
    assert choose_normalizer(forms, split(WRITTEN), split(SPOKEN)) is BASIC
    assert choose_normalizer(forms, split(SPOKEN), split(SPOKEN)) is BASIC
    assert notes == [LOOKS_WRITTEN]
