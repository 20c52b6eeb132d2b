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
IDS = {"one": [4, 5], "two": [], "three": [6, 3, 4]}  # of the text below


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    """Create a folder with a Kaldi RNNLM, an RNNLM without <unk>, a checkpoint, and a text."""
    folder = tmp_path_factory.mktemp("lm")
    builder = Builder(1)
    last = builder.node(builder.affine(4, 4), "input")
    lines = [*builder.lines, f"output-node name=output input={last}"]
    embedding = np.random.default_rng(1).normal(size=(len(WORDS), 4)).astype(np.float32)
    for name, oov in (("rnnlm", "<unk>"), ("closed", None)):
        writer.write_directory(folder / name, lines, builder.components, WORDS, embedding, bos=1, eos=2, oov=oov)
    torch.manual_seed(0)
    module = LSTMLanguageModel(Config(4, embedding=4, hidden=6, layers=1)).eval()
    stored = checkpoint.Checkpoint(module, ["<s>", "</s>", "<unk>", "a"], {"perplexity": 12.5, "unk_words": 3})
    checkpoint.save(stored, folder / "lstm.pt")
    (folder / "text").write_text("one a b\ntwo\nthree ça zebra a\n")
    return folder


def scores(output):
    return {key: [float(each) for each in values] for key, *values in map(str.split, output.splitlines())}


def figures(line):
    """Return logprob, ppl and ppl1 of a line."""
    return [float(each) for each in re.findall(r"= (\S+)", line)]


def expected_figures(logprob, words, ends):
    return pytest.approx([logprob, 10 ** (-logprob / (words + ends)), 10 ** (-logprob / words)], rel=1e-4)


@pytest.mark.parametrize("batch", [1, 2, 256])
def test_score_prints_a_number_for_each_word_and_one_for_the_end(ninja, bed, monkeypatch, batch):
    monkeypatch.setattr(lm_commands, "BATCH", batch)
    code, output, errors = ninja("lm", "score", bed / "rnnlm", bed / "text")
    assert code == 0
    found = scores(output)
    assert {key: len(each) for key, each in found.items()} == {"one": 3, "two": 1, "three": 4}
    expected = sentence_logprobs(load(bed / "rnnlm"), list(IDS.values()))
    assert [sum(each) for each in found.values()] == pytest.approx(expected, abs=1e-4)
    total = expected.sum() / LN10
    unknown = found["three"][1] / LN10
    counts, whole, known = errors.splitlines()
    assert counts == "ninja: 3 sentences, 5 words, 1 OOVs"
    assert whole.startswith("ninja: 0 zeroprobs, logprob= ")
    assert known.startswith("ninja: without the OOVs: logprob= ")
    assert figures(whole) == expected_figures(total, 5, 3)
    assert figures(known) == expected_figures(total - unknown, 4, 3)


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


def test_a_penalty_that_is_not_finite_is_refused(ninja, bed):
    code, output, errors = ninja("lm", "score", bed / "rnnlm", bed / "text", "--unk-penalty", "nan")
    assert (code, output) == (2, "")
    assert "is nan, but must be finite" in errors


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


@pytest.mark.parametrize("encode", [bytes, gzip.compress, codecs.BOM_UTF8.__add__])
def test_a_text_is_read_from_stdin(ninja, bed, monkeypatch, encode):
    text = io.TextIOWrapper(io.BytesIO(encode((bed / "text").read_bytes())), encoding="ascii", errors="strict")
    monkeypatch.setattr(sys, "stdin", text)
    assert ninja("lm", "score", bed / "rnnlm", "-")[1] == ninja("lm", "score", bed / "rnnlm", bed / "text")[1]


@pytest.mark.parametrize(
    ("model", "text", "options", "message"),
    [
        ("closed", "k a\nl zebra\n", [], ":2: 'zebra' is unknown, and the model has no <unk>; see --oov-score"),
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
        "words sharing <unk>": "unknown",
        "normalised": "no",
    }


def test_info_tells_of_a_checkpoint_what_its_card_does(ninja, bed):
    facts = json.loads(ninja("lm", "info", bed / "lstm.pt", "--json")[1])
    assert facts["kind"] == "Ninja checkpoint (lstm)"
    assert facts["perplexity"] == 12.5
    assert facts["words sharing <unk>"] == 3
    assert facts["normalised"] is True
    module = checkpoint.read(bed / "lstm.pt").module
    assert facts["parameters"] == sum(weight.numel() for weight in module.parameters())
    assert json.loads(ninja("lm", "info", bed / "lstm.pt", "--json", "--no-normalize")[1])["normalised"] is False


def test_a_model_that_is_none_is_refused(ninja, tmp_path):
    code, _, errors = ninja("lm", "info", tmp_path)
    assert code == 1
    assert errors.startswith(f"ninja: error: {tmp_path}: this is a directory of an unknown format")


@pytest.mark.parametrize("name", group.commands)
def test_each_command_has_an_example_and_described_options(name):
    command = group.commands[name]
    assert f"ninja lm {name}" in command.help.partition("Example")[2]
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, f"{name} --{option.name} is not described"


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
"""  # as SRILM writes it: without <unk>


@pytest.fixture
def closed(tmp_path):
    """Write an ARPA file without <unk>, and a text with two unknown words and a word of probability zero."""
    (tmp_path / "lm.arpa").write_text(ARPA)
    (tmp_path / "text").write_text("u1 a zebra b\nu2 <unk> a b\nu3 never\n")
    return tmp_path


def test_words_that_an_arpa_file_lacks_are_left_out_as_srilm_does(ninja, closed):
    code, output, errors = ninja("lm", "score", closed / "lm.arpa", closed / "text")
    assert code == 0
    # after zebra there is no history: b as 1-gram, and no back-off weight is paid; nothing backs off to the zero of u3
    wanted = {"u1": [-0.2, 0, -0.9, -0.1], "u2": [0, -0.6, -0.3, -0.1], "u3": [-99.5, -0.7]}
    for key, found in scores(output).items():
        assert np.array(found) / LN10 == pytest.approx(wanted[key], abs=1e-4)
    said = errors.splitlines()
    assert said[0].endswith("lm.arpa has no <unk>; skipping OOVs, like SRILM (see --oov-score)")
    assert said[1] == "ninja: 3 sentences, 7 words, 2 OOVs"
    assert said[2].startswith("ninja: 1 zeroprobs, logprob= -2.9 ")
    assert figures(said[2]) == expected_figures(-2.9, 7 - 2 - 1, 3)
    assert len(said) == 3


def test_multiwords_whose_parts_are_unknown_are_left_out(ninja, closed):
    (closed / "multiwords").write_text("u1 a_b_zebra zebra_b a_b\n")
    (closed / "text").write_text("u1 zebra zebra a b\n")
    code, output, errors = ninja("lm", "score", closed / "lm.arpa", closed / "multiwords", "--multi-char", "_")
    assert code == 0, errors
    parts = scores(ninja("lm", "score", closed / "lm.arpa", closed / "text")[1])["u1"]
    assert scores(output)["u1"] == pytest.approx([0, 0, parts[2] + parts[3], parts[4]], abs=1e-4)
    assert "3 words, 2 OOVs" in errors


def test_an_oov_score_is_the_same_after_every_history(ninja, closed):
    (closed / "text").write_text("u1 a zebra b\nu2 zebra\n")
    _, output, errors = ninja("lm", "score", closed / "lm.arpa", closed / "text", "--oov-score", "-11.5")
    assert [scores(output)[key][place] for key, place in (("u1", 1), ("u2", 0))] == [-11.5, -11.5]
    counts, whole, known = errors.splitlines()
    assert counts == "ninja: 2 sentences, 4 words, 2 OOVs"
    logprob = -0.2 - 0.9 - 0.1 - 0.7
    assert figures(whole) == expected_figures(logprob - 23 / LN10, 4, 2)
    assert figures(known) == expected_figures(logprob, 2, 2)
    _, output, _ = ninja("lm", "score", closed / "lm.arpa", closed / "text", "--oov-score", "spread")
    assert scores(output)["u2"][0] == pytest.approx(-np.log(5), abs=1e-4)


@pytest.mark.parametrize("score", ["0.5", "-inf", "nan", "spill"])
def test_an_oov_score_out_of_range_is_refused(ninja, closed, score):
    code, output, errors = ninja("lm", "score", closed / "lm.arpa", closed / "text", "--oov-score", score)
    assert code in (1, 2)
    assert output == ""
    assert "skip, spread" in errors


def test_a_text_without_keys_is_noticed(ninja, bed, tmp_path):
    (tmp_path / "alike").write_text("the a\nthe b\n")
    (tmp_path / "known").write_text("a b\nb a\nzebra b\n")
    reasons = {"alike": "several lines begin with 'the'", "known": "2 of 3 keys are words in the vocabulary"}
    for name, why in reasons.items():
        code, _, errors = ninja("lm", "score", bed / "rnnlm", tmp_path / name)
        assert code == 0
        assert f"{why}; use --no-keys" in errors.splitlines()[0]
        assert "--no-keys" not in ninja("lm", "score", bed / "rnnlm", tmp_path / name, "--no-keys")[2]
    assert "--no-keys" not in ninja("lm", "score", bed / "rnnlm", bed / "text")[2]
