"""``ninja correct``: correction of words in files of any format, reports, and rejected options."""

from __future__ import annotations

import json

import pytest
from lattice_files import write_all

import ninja as package
from ninja.graph import best_path, from_arcs
from ninja.lattice import Scales
from ninja.lattice.symbols import SymbolTable

NAMES = "Kathy Clendenin\nFugazi\n"
OPTIONS = ("--letters-only", "--threshold", "0.1")
SRT = (
    "1\n00:00:01,000 --> 00:00:03,000\n<i>Please call Kathy\nClendening,</i> now!\n\n"
    "2\n00:00:04,000 --> 00:00:05,000\nGood night.\n"
)
WORDS = ["Please", "call", "Kathy", "Clendening,", "now!"]
WHISPER = {
    "text": " Please call Kathy Clendening, now!",
    "segments": [
        {
            "id": 0, "start": 0.0, "end": 2.5, "text": " Please call Kathy Clendening, now!", "avg_logprob": -0.2,
            "words": [
                {"word": f" {word}", "start": place / 2, "end": (place + 1) / 2, "probability": 0.5}
                for place, word in enumerate(WORDS)
            ],
        }
    ],
    "language": "en",
}  # fmt: skip
CTM = "".join(f"u1 1 {place / 2:.2f} 0.50 {word} 0.50\n" for place, word in enumerate(WORDS))
FILES = {
    "talk.srt": SRT,
    "talk.vtt": "WEBVTT\n\nNOTE by hand\n\n" + SRT.replace(",000", ".000"),
    "talk.json": json.dumps(WHISPER, indent=2),
    "talk.ctm": ";; made by hand\n" + CTM,
    "text": "utt-1 Please call Kathy Clendening, now!\nutt-2  good   night\n\nutt-3\n",
    "keyed.tsv": "first\tPlease call Kathy Clendening, now!\nsecond\tgood night\n",
    "plain.txt": "Please call Kathy Clendening, now!\n  good night\n",
    "talk.whisper.tsv": "start\tend\ttext\n0\t2500\tPlease call Kathy Clendening, now!\n",
}


@pytest.fixture
def names(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text(NAMES)
    return path


@pytest.mark.parametrize("name", FILES)
def test_correct_changes_only_the_words_of_the_phrase(ninja, names, tmp_path, name):
    source, output = tmp_path / name, tmp_path / "fixed" / name
    output.parent.mkdir()
    source.write_text(FILES[name])
    code, _, errors = ninja("correct", source, "--entities", names, *OPTIONS, "-o", output)
    assert (code, "1 correction in 1 of" in errors) == (0, True), errors
    assert output.read_text() == FILES[name].replace("Clendening", "Clendenin")


def test_stdout_has_the_format_of_the_input(ninja, names, tmp_path):
    (tmp_path / "talk.srt").write_text(SRT)
    code, printed, _ = ninja("correct", tmp_path / "talk.srt", "--entities", names, *OPTIONS)
    assert (code, printed) == (0, SRT.replace("Clendening", "Clendenin"))


def test_a_phrase_with_fewer_words_spans_the_time_of_the_words_it_replaces(ninja, names, tmp_path):
    (tmp_path / "talk.ctm").write_text("u1 1 0.00 0.40 hear 0.90\nu1 1 0.40 0.20 fu 0.40\nu1 1 0.60 0.40 gazi 0.40\n")
    code, _, errors = ninja("correct", tmp_path / "talk.ctm", "--entities", names, *OPTIONS, "-o", tmp_path / "out.ctm")
    assert code == 0, errors
    assert (tmp_path / "out.ctm").read_text() == "u1 1 0.00 0.40 hear 0.90\nu1 1 0.40 0.60 Fugazi NA\n"


def test_each_hypothesis_of_a_list_is_corrected(ninja, names, tmp_path):
    texts = {"call kathy clendening": -1.0, "call cathy clendening": -2.0}
    record = {"key": "u", "nbest": [{"text": text, "score": score} for text, score in texts.items()]}
    (tmp_path / "a.jsonl").write_text(json.dumps(record) + "\n")
    code, _, _ = ninja("correct", tmp_path / "a.jsonl", "--entities", names, *OPTIONS, "-o", tmp_path / "b.jsonl")
    assert code == 0
    corrected = json.loads((tmp_path / "b.jsonl").read_text())
    assert {hypothesis["text"] for hypothesis in corrected["nbest"]} == {"call Kathy Clendenin"}


@pytest.mark.parametrize("is_named", [True, False])
def test_correct_adds_a_corrected_best_path_to_a_lattice(ninja, names, tmp_path, is_named):
    table = SymbolTable.from_words(["<eps>", "call", "kathy", "clendening", "home"])
    src, dst, word, graph = [0, 1, 2, 1], [1, 2, 3, 3], [1, 2, 3, 4], [1.0, 1.0, 1.0, 3.0]
    lattice = from_arcs("u", src, dst, word, graph, finals={3: (0.0, 0.0)}, words=table)
    write_all(str(tmp_path / "lat.ark"), [lattice])
    (tmp_path / "words.txt").write_text("".join(f"{word} {number}\n" for word, number in table))
    table_option = ("--words", tmp_path / "words.txt") if is_named else ()  # otherwise the table next to the lattices
    code, _, errors = ninja(
        "correct", tmp_path / "lat.ark", *table_option, "--entities", names, *OPTIONS,
        "--acoustic-scale", 1, "-o", tmp_path / "out.ark",
    )  # fmt: skip
    assert code == 0, errors
    words = SymbolTable.read(tmp_path / "out.ark.words.txt")
    ((_, corrected),) = package.read(tmp_path / "out.ark", words=words)
    assert words.spell(best_path(corrected, Scales()).words) == ["call", "Kathy", "Clendenin"]
    assert corrected.num_arcs == lattice.num_arcs + 2


def test_the_report_lists_each_correction(ninja, names, tmp_path):
    (tmp_path / "talk.srt").write_text(SRT)
    report = tmp_path / "report.jsonl"
    ninja("correct", tmp_path / "talk.srt", "--entities", names, *OPTIONS, "-o", tmp_path / "o.srt", "--report", report)
    (record,) = map(json.loads, report.read_text().splitlines())
    probability, distance = record.pop("probability"), record.pop("distance")
    assert 0.1 <= probability <= 1
    assert distance == pytest.approx(0.5 / 14, abs=1e-3)  # one letter longer than the phrase
    assert record == {
        "utt": "talk-1", "begin": 2, "end": 4, "before": "Kathy Clendening,", "after": "Kathy Clendenin,",
        "phrase": "Kathy Clendenin", "class": "", "kind": "sound", "left": "Please call", "right": "now!",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("STM", "rec1 A kathy_clendening 0.00 1.00 <O,F0,M> good night\n"),
        ("trn", "good night (kathy-clendening-1)\nplease call (kathy-clendening-2)\n"),
    ],
)
def test_correct_refuses_formats_with_ids_in_the_text(ninja, names, tmp_path, name, text):
    (tmp_path / "text").write_text(text)
    code, output, errors = ninja("correct", tmp_path / "text", "--entities", names, *OPTIONS)
    assert (code, output) == (1, "")
    assert f"the file is in {name} format; begin each line with a key, followed only by words" in errors


@pytest.mark.parametrize("confidence", ["50", "-0.69"])
def test_confidences_that_are_not_probabilities_are_refused(ninja, names, tmp_path, confidence):
    (tmp_path / "talk.ctm").write_text(CTM.replace(" 0.50\n", f" {confidence}\n"))
    code, _, errors = ninja("correct", tmp_path / "talk.ctm", "--entities", names, *OPTIONS)
    assert code == 1
    assert f"key 'u1': the confidence of 'Please' is {confidence}, but must be between 0 and 1; convert" in errors


def test_phrases_of_other_utterances_are_reported(ninja, tmp_path):
    (tmp_path / "text").write_text(FILES["text"])
    note = "none of 3 utterances has phrases; check that their keys match the ids in the phrase list"
    for key, is_reported in ("utt-4", True), ("utt-1", False):
        (tmp_path / "names.jsonl").write_text(json.dumps({"utt": key, "phrases": ["Kathy Clendenin"]}))
        code, _, errors = ninja("correct", tmp_path / "text", "--entities", tmp_path / "names.jsonl", *OPTIONS)
        assert code == 0
        assert (note in errors) is is_reported


def test_correct_uses_the_threshold_that_tune_writes(ninja, names, tmp_path):
    texts = [f"utt-{number} please call me tomorrow evening" for number in range(410)]
    (tmp_path / "text").write_text("\n".join([*texts, "utt-x call Kathy Clendening now"]) + "\n")
    (tmp_path / "ref").write_text("\n".join([*texts, "utt-x call Kathy Clendenin now"]) + "\n")
    code, _, errors = ninja(
        "tune", tmp_path / "text", "--ref", tmp_path / "ref", "--entities", names, "--correct",
        "--letters-only", "--max-false-corrections", 0.01, "-o", tmp_path / "correct.toml",
    )  # fmt: skip
    assert code == 0, errors
    assert (
        "0 of 410 utterances without phrases are changed, at most 0.98% of a future set of this size with 95% "
        "confidence" in errors
    )
    assert "\nthreshold = 0.01\nletters_only = true\n" in (tmp_path / "correct.toml").read_text()
    code, printed, _ = ninja("correct", tmp_path / "text", "--entities", names, "--config", tmp_path / "correct.toml")
    assert (code, printed.splitlines()[-1]) == (0, "utt-x call Kathy Clendenin now")


def test_tune_refuses_too_few_utterances_for_a_threshold(ninja, names, tmp_path):
    (tmp_path / "text").write_text("utt-1 good night\n")
    (tmp_path / "ref").write_text("utt-1 good night\n")
    code, _, errors = ninja("tune", tmp_path / "text", "--ref", tmp_path / "ref", "--entities", names, "--correct")
    assert code == 2
    assert "at least 400 utterances without phrases are needed" in errors
    assert "but only 1 utterance has none; use more utterances" in errors


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--entities names.txt --correct --margin 2", "omit --margin"),
        ("--entities names.txt --correct --augment", "omit --augment"),
        (
            "--entities names.txt --context-model names.txt --margin 2",
            "--margin cannot be used with --context-model, which replaces boosts",
        ),
        ("--correct", "--correct requires --entities"),
        ("--max-false-corrections 0.02", "--max-false-corrections can be used only with --correct"),
    ],
)
def test_tune_refuses_options_that_exclude_correct(ninja, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("utt-1 good night\n")
    code, _, errors = ninja("tune", "text", "--ref", "text", *options.split())
    assert (code, message in errors) == (2, True), errors
