"""``ninja lm``: description of models, probabilities of the words of a text, and messages about texts that cannot be
scored."""

import codecs
import gzip
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
from ninja.lm.perplexity import LN10

torch = pytest.importorskip("torch")

from ninja.lm import checkpoint  # noqa: E402
from ninja.models.lstm import Config, LSTMLanguageModel  # noqa: E402

WORDS = ["<eps>", "<s>", "</s>", "<unk>", "a", "b", "ça", "<brk>"]
IDS = {"one": [4, 5], "two": [], "three": [6, 3, 4]}  # word ids of the text below


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    """Create a folder with a Kaldi RNNLM, an RNNLM without <unk>, a checkpoint, and a text."""
    folder = tmp_path_factory.mktemp("lm")
    builder = Builder(1)
    node = builder.node(builder.affine(4, 4), "input")
    lines = [*builder.lines, f"output-node name=output input={node}"]
    embedding = np.random.default_rng(1).normal(size=(len(WORDS), 4)).astype(np.float32)
    for name, oov in (("rnnlm", "<unk>"), ("closed", None)):
        writer.write_directory(folder / name, lines, builder.components, WORDS, embedding, bos=1, eos=2, oov=oov)
    torch.manual_seed(0)
    module = LSTMLanguageModel(Config(4, embedding=4, hidden=6, layers=1)).eval()
    model = checkpoint.Checkpoint(module, ["<s>", "</s>", "<unk>", "a"], {"perplexity": 12.5, "unk_words": 3})
    checkpoint.save(model, folder / "lstm.pt")
    (folder / "text").write_text("one a b\ntwo\nthree ça zebra a\n")
    return folder


def scores(output):
    return {key: [float(value) for value in values] for key, *values in map(str.split, output.splitlines())}


def figures(line):
    """Return the logprob, ppl and ppl1 of a line."""
    return [float(value) for value in re.findall(r"= (\S+)", line)]


def expected_figures(logprob, words, ends):
    return pytest.approx([logprob, 10 ** (-logprob / (words + ends)), 10 ** (-logprob / words)], rel=1e-4)


@pytest.mark.parametrize("batch", [1, 2, 256])
def test_score_prints_a_score_for_each_word_and_the_sentence_end(ninja, bed, monkeypatch, batch):
    monkeypatch.setattr(lm_commands, "BATCH", batch)
    code, output, errors = ninja("lm", "score", bed / "rnnlm", bed / "text")
    assert code == 0
    word_scores = scores(output)
    assert {key: len(values) for key, values in word_scores.items()} == {"one": 3, "two": 1, "three": 4}
    expected = sentence_logprobs(load(bed / "rnnlm"), list(IDS.values()))
    assert [sum(values) for values in word_scores.values()] == pytest.approx(expected, abs=1e-4)
    total = expected.sum() / LN10
    unknown = word_scores["three"][1] / LN10
    counts, all_words, known_words = errors.splitlines()
    assert counts == "ninja: 3 sentences, 5 words, 1 OOVs"
    assert all_words.startswith("ninja: 0 zeroprobs, logprob= ")
    assert known_words.startswith("ninja: without the OOVs: logprob= ")
    assert figures(all_words) == expected_figures(total, 5, 3)
    assert figures(known_words) == expected_figures(total - unknown, 4, 3)


def test_score_normalises_on_request(ninja, bed):
    _, output, _ = ninja("lm", "score", bed / "rnnlm", bed / "text", "--normalize")
    expected = sentence_logprobs(load(bed / "rnnlm", normalize=True), list(IDS.values()))
    assert [sum(values) for values in scores(output).values()] == pytest.approx(expected, abs=1e-4)
    _, unnormalised, _ = ninja("lm", "score", bed / "lstm.pt", bed / "text", "--no-normalize")
    _, normalised, _ = ninja("lm", "score", bed / "lstm.pt", bed / "text")
    assert scores(unnormalised) != scores(normalised)


def test_unk_penalty_lowers_the_score_of_unknown_words(ninja, bed):
    without_penalty, with_penalty = (
        scores(ninja("lm", "score", bed / "rnnlm", bed / "text", "--unk-penalty", penalty)[1]) for penalty in (0, 2.5)
    )
    difference = np.array(without_penalty["three"]) - np.array(with_penalty["three"])
    assert difference == pytest.approx([0, 2.5, 0, 0], abs=1e-4)
    assert without_penalty["one"] == with_penalty["one"]


def test_a_penalty_that_is_not_finite_is_refused(ninja, bed):
    code, output, errors = ninja("lm", "score", bed / "rnnlm", bed / "text", "--unk-penalty", "nan")
    assert (code, output) == (2, "")
    assert "is nan, but must be finite" in errors


def test_unk_penalty_does_not_apply_to_unk_itself(ninja, bed, tmp_path):
    (tmp_path / "text").write_text("k <unk> zebra\n")
    without_penalty, with_penalty = (
        scores(ninja("lm", "score", bed / "rnnlm", tmp_path / "text", "--unk-penalty", penalty)[1])["k"]
        for penalty in (0, 2.5)
    )
    assert np.array(without_penalty) - np.array(with_penalty) == pytest.approx([0, 2.5, 0], abs=1e-4)


def test_score_reads_word_ids_without_keys(ninja, bed, tmp_path):
    (tmp_path / "ids").write_text("4 5\n\n6 3 4\n")
    _, output, _ = ninja("lm", "score", bed / "rnnlm", tmp_path / "ids", "--int", "--no-keys")
    _, expected, _ = ninja("lm", "score", bed / "rnnlm", bed / "text")
    assert output.splitlines() == [line.split(" ", 1)[1] for line in expected.splitlines()]


def test_scores_are_written_to_a_file_on_request(ninja, bed, tmp_path):
    _, expected, _ = ninja("lm", "score", bed / "rnnlm", bed / "text")
    code, output, _ = ninja("lm", "score", bed / "rnnlm", bed / "text", "-o", tmp_path / "scores")
    assert (code, output) == (0, "")
    assert (tmp_path / "scores").read_text() == expected


@pytest.mark.parametrize("encode", [bytes, gzip.compress, codecs.BOM_UTF8.__add__])
def test_a_text_is_read_from_stdin(ninja, bed, monkeypatch, encode):
    text = io.TextIOWrapper(io.BytesIO(encode((bed / "text").read_bytes())), encoding="ascii", errors="strict")
    monkeypatch.setattr(sys, "stdin", text)
    assert ninja("lm", "score", bed / "rnnlm", "-")[1] == ninja("lm", "score", bed / "rnnlm", bed / "text")[1]


@pytest.mark.parametrize(
    ("model", "text", "options", "message"),
    [
        ("closed", "k a\nl zebra\n", [], ":2: 'zebra' is unknown, and the model has no <unk>; set --oov-score"),
        ("rnnlm", "k a </s>\n", [], ":1: the text contains </s>, which is implied; remove it"),
        ("rnnlm", "k <s> a\n", [], ":1: the text contains <s>, which is implied; remove it"),
        ("rnnlm", "k a\n\n", [], ":2: the line is empty; add a key, or use --no-keys"),
        ("rnnlm", "k 3 8\n", ["--int"], ":1: '8' is not a word id of the model; expected 0 to 7"),
        ("rnnlm", "k 3 -1\n", ["--int"], ":1: '-1' is not a word id"),
        ("rnnlm", f"k {'9' * 5000}\n", ["--int"], f":1: '{'9' * 40}' is not a word id"),
        ("rnnlm", "k 3 a\n", ["--int"], ":1: 'a' is not a word id"),
        ("rnnlm", "k \udcff\n", [], ":1: not UTF-8"),
    ],
)
def test_an_invalid_line_of_a_text_is_reported(ninja, bed, tmp_path, model, text, options, message):
    (tmp_path / "text").write_text(text, errors="surrogateescape")
    code, output, errors = ninja("lm", "score", bed / model, tmp_path / "text", *options)
    assert code == 1
    assert errors.startswith(f"ninja: error: {tmp_path / 'text'}{message}")
    assert output == ""


def test_info_describes_a_model(ninja, bed):
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
        "words sharing <unk>": "unknown",
        "normalised": "no",
    }


def test_info_of_a_checkpoint_includes_its_perplexity_and_unknown_words(ninja, bed):
    facts = json.loads(ninja("lm", "info", bed / "lstm.pt", "--json")[1])
    assert facts["kind"] == "Ninja checkpoint (lstm)"
    assert facts["perplexity"] == 12.5
    assert facts["words sharing <unk>"] == 3
    assert facts["normalised"] is True
    module = checkpoint.read(bed / "lstm.pt").module
    assert facts["parameters"] == sum(weight.numel() for weight in module.parameters())
    assert json.loads(ninja("lm", "info", bed / "lstm.pt", "--json", "--no-normalize")[1])["normalised"] is False


def test_info_refuses_a_directory_of_an_unknown_format(ninja, tmp_path):
    code, _, errors = ninja("lm", "info", tmp_path)
    assert code == 1
    assert errors.startswith(f"ninja: error: {tmp_path}: this is a directory of an unknown format")


@pytest.mark.parametrize("name", group.commands)
def test_each_lm_command_has_an_example_and_option_help(name):
    command = group.commands[name]
    assert f"ninja lm {name}" in command.help.partition("Example")[2]
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, f"{name} --{option.name} has no help"


ARPA = """\\data\\
ngram 1=5
ngram 2=3

\\1-grams:
-99 <s> -0.5
-0.7 </s>
-0.6 a -0.25
-0.9 b 0
-99 never

\\2-grams:
-0.2 <s> a
-0.3 a b
-0.1 b </s>

\\end\\
"""  # without <unk>, as SRILM writes it


@pytest.fixture
def arpa(tmp_path):
    """Write an ARPA file without <unk>, and a text with two unknown words and a word of probability zero."""
    (tmp_path / "lm.arpa").write_text(ARPA)
    (tmp_path / "text").write_text("u1 a zebra b\nu2 <unk> a b\nu3 never\n")
    return tmp_path


def test_score_skips_words_unknown_to_an_arpa_file_like_srilm(ninja, arpa):
    code, output, errors = ninja("lm", "score", arpa / "lm.arpa", arpa / "text")
    assert code == 0
    # The history after zebra is empty, so that b has its 1-gram score; "never" has no back-off weight.
    expected = {"u1": [-0.2, 0, -0.9, -0.1], "u2": [0, -0.6, -0.3, -0.1], "u3": [-99.5, -0.7]}
    for key, values in scores(output).items():
        assert np.array(values) / LN10 == pytest.approx(expected[key], abs=1e-4)
    messages = errors.splitlines()
    assert messages[0].endswith("lm.arpa has no <unk>; skipping OOVs, like SRILM (see --oov-score)")
    assert messages[1] == "ninja: 3 sentences, 7 words, 2 OOVs"
    assert messages[2].startswith("ninja: 1 zeroprobs, logprob= -2.9 ")
    assert figures(messages[2]) == expected_figures(-2.9, 7 - 2 - 1, 3)
    assert len(messages) == 3


def test_multiwords_with_unknown_parts_are_skipped(ninja, arpa):
    (arpa / "multiwords").write_text("u1 a_b_zebra zebra_b a_b\n")
    (arpa / "text").write_text("u1 zebra zebra a b\n")
    code, output, errors = ninja("lm", "score", arpa / "lm.arpa", arpa / "multiwords", "--multi-char", "_")
    assert code == 0, errors
    parts = scores(ninja("lm", "score", arpa / "lm.arpa", arpa / "text")[1])["u1"]
    assert scores(output)["u1"] == pytest.approx([0, 0, parts[2] + parts[3], parts[4]], abs=1e-4)
    assert "3 words, 2 OOVs" in errors


def test_oov_score_does_not_depend_on_the_history(ninja, arpa):
    (arpa / "text").write_text("u1 a zebra b\nu2 zebra\n")
    _, output, errors = ninja("lm", "score", arpa / "lm.arpa", arpa / "text", "--oov-score", "-11.5")
    assert [scores(output)[key][place] for key, place in (("u1", 1), ("u2", 0))] == [-11.5, -11.5]
    counts, all_words, known_words = errors.splitlines()
    assert counts == "ninja: 2 sentences, 4 words, 2 OOVs"
    logprob = -0.2 - 0.9 - 0.1 - 0.7
    assert figures(all_words) == expected_figures(logprob - 23 / LN10, 4, 2)
    assert figures(known_words) == expected_figures(logprob, 2, 2)
    _, output, _ = ninja("lm", "score", arpa / "lm.arpa", arpa / "text", "--oov-score", "spread")
    assert scores(output)["u2"][0] == pytest.approx(-np.log(5), abs=1e-4)


@pytest.mark.parametrize("score", ["0.5", "-inf", "nan", "spill"])
def test_an_invalid_oov_score_is_refused(ninja, arpa, score):
    code, output, errors = ninja("lm", "score", arpa / "lm.arpa", arpa / "text", "--oov-score", score)
    assert code in (1, 2)
    assert output == ""
    assert "skip, spread" in errors


def test_score_suggests_no_keys_for_a_text_without_keys(ninja, bed, tmp_path):
    (tmp_path / "alike").write_text("the a\nthe b\n")
    (tmp_path / "known").write_text("a b\nb a\nzebra b\n")
    reasons = {"alike": "several lines begin with 'the'", "known": "2 of 3 keys are words in the vocabulary"}
    for name, reason in reasons.items():
        code, _, errors = ninja("lm", "score", bed / "rnnlm", tmp_path / name)
        assert code == 0
        assert f"{reason}; use --no-keys" in errors.splitlines()[0]
        assert "--no-keys" not in ninja("lm", "score", bed / "rnnlm", tmp_path / name, "--no-keys")[2]
    assert "--no-keys" not in ninja("lm", "score", bed / "rnnlm", bed / "text")[2]
