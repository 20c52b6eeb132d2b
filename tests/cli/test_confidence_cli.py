"""Commands that fit, print and score confidences."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from confident_sets import WORDS, overconfident
from lattice_files import write_all

from ninja.consensus import mbr_decode
from ninja.consensus.confidence_model import read_confidence_model
from ninja.consensus.word_confidences import WordConfidenceEstimator
from ninja.lattice.batch import Batch
from ninja.lattice.lattice import frozen

NUM_UTTERANCES = 70


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """Write a development set, and the same lattices with a boost for the second words."""
    folder = tmp_path_factory.mktemp("confidences")
    lattices, references = overconfident(NUM_UTTERANCES)
    write_all(folder / "dev.ark", lattices.values())
    boosted = (
        lattice.replace(graph=frozen(lattice.graph - 50.0 * (lattice.word % 2 == 0), np.float32))
        for lattice in lattices.values()
    )
    write_all(folder / "boosted.ark", boosted)
    (folder / "text").write_text("".join(f"{key} {' '.join(words)}\n" for key, words in references.items()))
    (folder / "words.txt").write_text("".join(f"{word} {number}\n" for word, number in WORDS))
    return folder


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def confidences(lines, name="confidence"):
    return [[word[name] for word in line["words"]] for line in lines]


def test_a_fitted_model_calibrates_the_confidences_of_all_commands(ninja, sets, tmp_path):
    source = sets / "dev.ark", "--words", sets / "words.txt"
    model = tmp_path / "model.toml"
    code, _, err = ninja("tune", *source, "--ref", sets / "text", "--confidence", "-o", model)
    assert code == 0
    assert re.search(r"calibrated: NCE 0\.\d+, ECE 0\.\d+, AUC 0\.\d+ \[ .*cross-validated by utterance", err)
    assert f"map: logistic; {NUM_UTTERANCES} lattices" in err
    assert model.read_text().startswith("# ninja tune --confidence")

    lattices, _ = overconfident(NUM_UTTERANCES)
    batch = Batch.of(lattices.values())
    words = [result.words for result in mbr_decode(batch)]
    estimates = WordConfidenceEstimator(read_confidence_model(model))(batch, words)
    expected = [pytest.approx(estimate.confidences.tolist(), abs=1e-3) for estimate in estimates]

    code, _, err = ninja("best", *source, "--confidence", model, "--json", tmp_path / "best", "-o", tmp_path / "text")
    assert code == 0, err
    lines = read_lines(tmp_path / "best")
    assert confidences(lines) == expected
    assert [f"{line['key']} {line['text']}" for line in lines] == (tmp_path / "text").read_text().splitlines()
    assert lines[0]["words"][1] | {"confidence": 0} == {"word": "w2", "start": 0.03, "end": 0.06, "confidence": 0}

    code, _, err = ninja("mbr-decode", *source, "--confidence", model, "--json", tmp_path / "mbr", "-o", "/dev/null")
    assert code == 0, err
    assert confidences(read_lines(tmp_path / "mbr")) == expected
    assert "bins" in read_lines(tmp_path / "mbr")[0]

    code, _, err = ninja("to-ctm-conf", *source, "--confidence", model, "-o", tmp_path / "ctm")
    assert code == 0, err
    column = [float(line.split()[5]) for line in (tmp_path / "ctm").read_text().splitlines()]
    assert column == pytest.approx([value for line in confidences(lines) for value in line], abs=0.006)

    for name in ("best", "mbr", "ctm"):
        code, out, err = ninja("score", sets / "text", tmp_path / name, "--confidences", "--plot", tmp_path / "a.svg")
        assert code == 0, err
        assert re.search(r"%WER .*\n(.*\n)*NCE 0\.\d+, ECE 0\.\d+, AUC 0\.\d+ \[ \d+ correct of 420 words \]", out)
        assert (tmp_path / "a.svg").read_text().startswith("<svg")


def test_boosted_words_also_have_a_confidence_without_boosts(ninja, sets, tmp_path):
    code, _, err = ninja(
        "best", sets / "boosted.ark", "--words", sets / "words.txt", "--unboosted", sets / "dev.ark",
        "--json", tmp_path / "json", "-o", "/dev/null",
    )  # fmt: skip
    assert code == 0, err
    lines = read_lines(tmp_path / "json")
    assert {word["word"] for word in lines[0]["words"]} == {"w1", "w3", "w5", "w7", "w9", "w11"}
    assert min(map(min, confidences(lines))) == 1.0
    assert max(map(max, confidences(lines, "confidence_without_boosts"))) <= 0.5


def test_a_missing_unboosted_lattice_fails_only_its_utterance(ninja, sets, tmp_path):
    lattices, _ = overconfident(NUM_UTTERANCES)
    write_all(tmp_path / "most.ark", list(lattices.values())[1:])
    code, _, err = ninja(
        "best", sets / "boosted.ark", "--words", sets / "words.txt", "--unboosted", tmp_path / "most.ark",
        "--json", tmp_path / "json", "-o", "/dev/null",
    )  # fmt: skip
    assert code == 1
    assert "key 'utt000': the lattice without boosts is missing" in err
    assert len(read_lines(tmp_path / "json")) == NUM_UTTERANCES - 1


def test_a_small_set_fits_no_map_and_keeps_posteriors(ninja, sets, tmp_path):
    lattices, _ = overconfident(10)
    write_all(tmp_path / "few.ark", lattices.values())
    code, _, err = ninja(
        "tune", tmp_path / "few.ark", "--words", sets / "words.txt", "--ref", sets / "text", "--confidence",
        "--confidence-map", "monotone", "-o", tmp_path / "model.toml",
    )  # fmt: skip
    assert code == 0
    assert "60 words" in err
    assert "too few to fit a map, so posteriors are kept" in err
    assert read_confidence_model(tmp_path / "model.toml").map == "raw"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["best", "--confidence", "MODEL"], "require --json"),
        (["mbr-decode", "--confidence", "MODEL"], "require --json"),
        (["best", "--confidence-lm", "english", "--json", "JSON"], "--confidence-lm requires --confidence"),
        (["best", "--confidence", "MODEL", "--confidence-lm", "english", "--json", "JSON"], "uses no language model"),
        (["best", "--json", "JSON", "--cost", "COST"], "--json cannot be used with --alignment or --cost"),
        (["to-ctm-conf", "--unboosted", "SOURCE"], "--unboosted requires a confidence model that uses it"),
        (["tune", "--ref", "TEXT", "--confidence-map", "monotone"], "can be used only with --confidence"),
        (["tune", "--ref", "TEXT", "--confidence", "--rnnlm", "none"], "omit --rnnlm"),
        (["tune", "--ref", "TEXT", "--confidence", "--confidence-map", "monotone", "--unboosted", "SOURCE"], "omit"),
    ],
)  # fmt: skip
def test_incompatible_options_of_confidences_are_refused(ninja, sets, tmp_path, command, message):
    (tmp_path / "model.toml").write_text(
        'version = 1\nmap = "raw"\nacoustic_scale = 1.0\nlm_scale = 1.0\nword_penalty = 0.0\n'
    )
    files = {
        "MODEL": tmp_path / "model.toml",
        "JSON": tmp_path / "a.json",
        "COST": tmp_path / "a.cost",
        "TEXT": sets / "text",
        "SOURCE": sets / "dev.ark",
    }
    name, *options = (files.get(part, part) for part in command)
    code, _, err = ninja(name, sets / "dev.ark", "--words", sets / "words.txt", "-o", tmp_path / "out", *options)
    assert code in (1, 2)
    assert message in err
    assert not (tmp_path / "out").exists()


def test_a_note_reports_a_model_fitted_with_other_scales(ninja, sets, tmp_path):
    (tmp_path / "model.toml").write_text(
        'version = 1\nmap = "raw"\nacoustic_scale = 0.5\nlm_scale = 1.0\nword_penalty = 0.0\n'
    )
    code, _, err = ninja(
        "best", sets / "dev.ark", "--words", sets / "words.txt", "--acoustic-scale", "0.25", "-o", "/dev/null",
        "--json", tmp_path / "json", "--confidence", tmp_path / "model.toml",
    )  # fmt: skip
    assert code == 0
    assert "the confidence model was fitted with acoustic scale 0.5" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--plot", "a.svg"], "--plot requires --confidences"),
        (["--confidences", "--plot", "a.png"], "reliability diagrams are SVG files"),
        (["--confidences", "--written"], "--confidences cannot be used with --written"),
        (["--confidences"], "the words have no confidences"),
    ],
)
def test_score_confidences_requires_words_with_confidences(ninja, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("a b c\n")
    (tmp_path / "words.ctm").write_text("a 1 0.00 0.10 b\na 1 0.10 0.10 c\n")
    code, _, err = ninja("score", "text", "words.ctm", *options)
    assert code in (1, 2)
    assert message in err


def test_score_reads_confidences_from_a_ctm(ninja, tmp_path):
    (tmp_path / "text").write_text("a b c d\n")
    (tmp_path / "words.ctm").write_text("a 1 0.00 0.10 b 0.9\na 1 0.10 0.10 x 0.0\na 1 0.20 0.10 d NA\n")
    code, out, err = ninja("score", tmp_path / "text", tmp_path / "words.ctm", "--confidences")
    assert code == 0, err
    assert "[ 1 correct of 2 words ]" in out
    assert "1 confidence is below 0.0001 or above 0.9999" in err
