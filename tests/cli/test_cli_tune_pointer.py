"""``ninja tune --entities --context-model``: output file, and rejected options."""

from __future__ import annotations

import json

import pytest
from lattice_files import write_all

import ninja as package
from ninja.files.text import read_toml
from ninja.graph import from_arcs

pytest.importorskip("torch")

from tiny_lstm import CHECKPOINT
from tiny_pointer import TABLE, random_pointer

from ninja.lm.checkpoint import save


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    """Create a folder with a lattice, its reference and phrases, a language model and its pointer."""
    folder = tmp_path_factory.mktemp("bed")
    save(CHECKPOINT, folder / "lm.pt")
    random_pointer(package.lm.load(folder / "lm.pt")).save(folder / "pointer.pt")
    first, second = (TABLE.ids(text.split()) for text in ("w1 w2", "w1 w3"))
    lattice = from_arcs("utt", [0, 1, 1], [1, 2, 2], [first[0], first[1], second[1]], [1.0, 1.0, 2.0],
                        finals={2: 0.0}, words=TABLE)  # fmt: skip
    write_all(folder / "lat.ark", [lattice])
    (folder / "words.txt").write_text("".join(f"{word} {number}\n" for word, number in TABLE))
    (folder / "text").write_text("utt w1 w3\n")
    (folder / "names.json").write_text(json.dumps({"@name": ["w1 w3"]}))
    lists = {"key": "utt", "nbest": [{"text": "w1 w2", "score": -1}, {"text": "w1 w3", "score": -2}]}
    (folder / "lists.jsonl").write_text(json.dumps(lists) + "\n")
    return folder


@pytest.fixture
def command(bed):
    models = ["--rnnlm", bed / "lm.pt", "--context-model", bed / "pointer.pt"]
    return ["tune", bed / "lat.ark", "--ref", bed / "text", "--entities", bed / "names.json", *models]


def test_tune_writes_the_options_of_search_and_phrases(ninja, bed, command, tmp_path):
    search = ["--algorithm", "nbest", "--num-best", 5, "--map-words", "case", "--normalize"]
    code, _, errors = ninja(*command, *search, "--context-boost", 2, "--max-tokens", 5, "-o", tmp_path / "w.toml")
    assert code == 0, errors
    values = read_toml(tmp_path / "w.toml")
    search_options = {name: values.get(name) for name in ("algorithm", "num_best", "map_words", "normalize")}
    assert search_options == {"algorithm": "nbest", "num_best": 5, "map_words": ["case"], "normalize": True}
    assert (values["context_boost"], values["max_tokens"]) == (2.0, 5)
    command_line = [*search, "--context-boost", 2, "--max-tokens", 5, "--acoustic-scale", 0.1, *command[6:]]
    outputs = [tmp_path / "1.ark", tmp_path / "2.ark"]
    for options, output in zip((command_line, ["--config", tmp_path / "w.toml"]), outputs, strict=True):
        arguments = ["rescore", bed / "lat.ark", "--entities", bed / "names.json", *options, "-o", output]
        code, _, errors = ninja(*arguments)
        assert code == 0, errors
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


def test_tuning_on_nbest_lists_starts_from_the_default_rescoring_weights(ninja, bed, command, tmp_path):
    code, _, errors = ninja("tune", bed / "lists.jsonl", *command[2:], "-o", tmp_path / "w.toml")
    assert code == 0, errors
    values = read_toml(tmp_path / "w.toml")
    assert (values["lm_weight"], values["acoustic_scale"], values["word_penalty"]) == (0.15, 1.0, -1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--carry-over", "--carry-words", 3], "omit --carry-over, --carry-words"),
        (["--num-sentences", 7], "omit --num-sentences"),
        (["--max-general-rise", 1], "--max-general-rise can be used only with --general"),
        (["--general-entities", "names.json"], "--general-entities can be used only with --general"),
    ],
)
def test_options_without_effect_are_refused(ninja, command, options, message):
    code, _, errors = ninja(*command, *options)
    assert (code, message in errors) == (2, True), errors
