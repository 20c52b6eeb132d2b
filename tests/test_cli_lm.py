"""``ninja lm``: what a model is, the probability of each word of a text, and messages about texts it cannot score."""

import io
import json
import re
import sys

import click
import nnet3_writer as writer
import numpy as np
import pytest
from strategies_nnet3 import Builder

from ninja.cli import lm as lm_commands
from ninja.cli.lm import lm as group
from ninja.lm import load, sentence_logprobs

torch = pytest.importorskip("torch")

from ninja.lm import checkpoint  # noqa: E402
from ninja.models.lstm import Config, LSTMLanguageModel  # noqa: E402

WORDS = ["<eps>", "<s>", "</s>", "<unk>", "a", "b", "ça", "<brk>"]
IDS = {"one": [4, 5], "two": [], "three": [6, 3, 4]}  # of the text below


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    """A folder with a Kaldi RNNLM, one without a word for unknown ones, a checkpoint, and a text."""
    folder = tmp_path_factory.mktemp("lm")
    builder = Builder(1)
    last = builder.node(builder.affine(4, 4), "input")
    lines = [*builder.lines, f"output-node name=output input={last}"]
    embedding = np.random.default_rng(1).normal(size=(len(WORDS), 4)).astype(np.float32)
    for name, oov in (("rnnlm", "<unk>"), ("closed", None)):
        writer.directory(folder / name, lines, builder.components, WORDS, embedding, bos=1, eos=2, oov=oov)
    torch.manual_seed(0)
    module = LSTMLanguageModel(Config(4, embedding=4, hidden=6, layers=1)).eval()
    stored = checkpoint.Checkpoint(module, ["<s>", "</s>", "<unk>", "a"], {"perplexity": 12.5, "unk_words": 3})
    checkpoint.save(stored, folder / "lstm.pt")
    (folder / "text").write_text("one a b\ntwo\nthree ça zebra a\n")
    return folder


def scores(output):
    return {key: [float(each) for each in values] for key, *values in map(str.split, output.splitlines())}


@pytest.mark.parametrize("batch", [1, 2, 256])
def test_score_prints_a_number_for_each_word_and_one_for_the_end(ninja, bed, monkeypatch, batch):
    monkeypatch.setattr(lm_commands, "BATCH", batch)
    code, output, errors = ninja("lm", "score", bed / "rnnlm", bed / "text")
    assert code == 0
    found = scores(output)
    assert {key: len(each) for key, each in found.items()} == {"one": 3, "two": 1, "three": 4}
    expected = sentence_logprobs(load(bed / "rnnlm"), list(IDS.values()))
    assert [sum(each) for each in found.values()] == pytest.approx(expected, abs=1e-4)
    perplexity = np.exp(-expected.sum() / 8)
    assert errors == f"ninja: 3 sentences, 5 words, 1 of them unknown, perplexity {perplexity:.2f}\n"


def test_score_normalises_when_asked(ninja, bed):
    _, output, _ = ninja("lm", "score", bed / "rnnlm", bed / "text", "--normalize")
    expected = sentence_logprobs(load(bed / "rnnlm", normalize=True), list(IDS.values()))
    assert [sum(each) for each in scores(output).values()] == pytest.approx(expected, abs=1e-4)
    _, raw, _ = ninja("lm", "score", bed / "lstm.pt", bed / "text", "--no-normalize")
    _, exact, _ = ninja("lm", "score", bed / "lstm.pt", bed / "text")
    assert scores(raw) != scores(exact)


def test_an_unknown_word_may_cost_more_than_unk(ninja, bed):
    free, dear = (
        scores(ninja("lm", "score", bed / "rnnlm", bed / "text", "--unk-penalty", penalty)[1]) for penalty in (0, 2.5)
    )
    difference = np.array(free["three"]) - np.array(dear["three"])
    assert difference == pytest.approx([0, 2.5, 0, 0], abs=1e-4)
    assert free["one"] == dear["one"]


def test_unk_itself_is_no_unknown_word(ninja, bed, tmp_path):
    (tmp_path / "text").write_text("k <unk> zebra\n")
    free, dear = (
        scores(ninja("lm", "score", bed / "rnnlm", tmp_path / "text", "--unk-penalty", penalty)[1])["k"]
        for penalty in (0, 2.5)
    )
    assert np.array(free) - np.array(dear) == pytest.approx([0, 2.5, 0], abs=1e-4)


def test_texts_of_word_ids_and_without_keys_are_scored(ninja, bed, tmp_path):
    (tmp_path / "ids").write_text("4 5\n\n6 3 4\n")
    _, output, _ = ninja("lm", "score", bed / "rnnlm", tmp_path / "ids", "--int", "--no-keys")
    _, expected, _ = ninja("lm", "score", bed / "rnnlm", bed / "text")
    assert output.splitlines() == [line.split(" ", 1)[1] for line in expected.splitlines()]


def test_results_go_to_a_file_when_asked(ninja, bed, tmp_path):
    _, expected, _ = ninja("lm", "score", bed / "rnnlm", bed / "text")
    code, output, _ = ninja("lm", "score", bed / "rnnlm", bed / "text", "-o", tmp_path / "scores")
    assert (code, output) == (0, "")
    assert (tmp_path / "scores").read_text() == expected


def test_a_text_is_read_from_stdin(ninja, bed, monkeypatch):
    text = io.TextIOWrapper(io.BytesIO((bed / "text").read_bytes()), encoding="ascii", errors="strict")
    monkeypatch.setattr(sys, "stdin", text)
    assert ninja("lm", "score", bed / "rnnlm", "-")[1] == ninja("lm", "score", bed / "rnnlm", bed / "text")[1]


@pytest.mark.parametrize(
    ("model", "text", "options", "message"),
    [
        ("closed", "k a\nl zebra\n", [], ":2: the model has neither 'zebra' nor a word for unknown ones"),
        ("rnnlm", "k a </s>\n", [], ":1: </s> in the text; remove it, it is implied"),
        ("rnnlm", "k <s> a\n", [], ":1: <s> in the text; remove it, it is implied"),
        ("rnnlm", "k a\n\n", [], ":2: the line is empty; a key is needed, or give --no-keys"),
        ("rnnlm", "k 3 8\n", ["--int"], ":1: '8' is no word id of the model; these are 0 to 7"),
        ("rnnlm", "k 3 -1\n", ["--int"], ":1: '-1' is no word id"),
        ("rnnlm", "k 3 a\n", ["--int"], ":1: 'a' is no word id"),
        ("rnnlm", "k \udcff\n", [], ":1: not UTF-8"),
    ],
)
def test_a_text_that_cannot_be_scored_is_refused_with_its_line(ninja, bed, tmp_path, model, text, options, message):
    (tmp_path / "text").write_text(text, errors="surrogateescape")
    code, output, errors = ninja("lm", "score", bed / model, tmp_path / "text", *options)
    assert code == 1
    assert errors.startswith(f"ninja: error: {tmp_path / 'text'}{message}")
    assert output == ""


def test_info_says_what_a_model_is(ninja, bed):
    code, output, errors = ninja("lm", "info", bed / "rnnlm")
    assert (code, errors) == (0, "")
    facts = dict(re.split(r"  +", line, maxsplit=1) for line in output.splitlines())
    assert facts == {
        "kind": "Kaldi RNNLM",
        "words": "8",
        "parameters": "52",
        "sentence begin": "<s>",
        "sentence end": "</s>",
        "unknown word": "<unk>",
        "words it stood for": "unknown",
        "normalised": "no",
    }


def test_info_tells_of_a_checkpoint_what_its_card_does(ninja, bed):
    facts = json.loads(ninja("lm", "info", bed / "lstm.pt", "--json")[1])
    assert facts["kind"] == "Ninja checkpoint (lstm)"
    assert facts["perplexity"] == 12.5
    assert facts["words it stood for"] == 3
    assert facts["normalised"] is True
    module = checkpoint.read(bed / "lstm.pt").module
    assert facts["parameters"] == sum(weight.numel() for weight in module.parameters())
    assert json.loads(ninja("lm", "info", bed / "lstm.pt", "--json", "--no-normalize")[1])["normalised"] is False


def test_a_model_that_is_none_is_refused(ninja, tmp_path):
    code, _, errors = ninja("lm", "info", tmp_path)
    assert code == 1
    assert errors.startswith(f"ninja: error: {tmp_path}: a directory of unknown kind")


@pytest.mark.parametrize("name", group.commands)
def test_each_command_has_an_example_and_described_options(name):
    command = group.commands[name]
    assert f"ninja lm {name}" in command.help.partition("Example")[2]
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, f"{name} --{option.name} is not described"
