"""Training: its objective, convergence, stopping and resuming; and the conversion of text to batches."""

import dataclasses
import gzip
import json
import math
import os
from itertools import count, pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_training import TOY, toy, toy_command, toy_text_files  # noqa: F401

from ninja.errors import FormatError, ModelError, OptionError, OutputError
from ninja.lm import load, sentence_logprobs, text

torch = pytest.importorskip("torch")

from ninja.lm import checkpoint, compute  # noqa: E402
from ninja.models.lstm import Config, LSTMLanguageModel  # noqa: E402
from ninja.train import loop as train  # noqa: E402
from ninja.train import normaliser, objective, step  # noqa: E402
from ninja.train.objective import Sampler  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections")


# Objective


def make_module(vocabulary=50):
    torch.manual_seed(0)
    module = LSTMLanguageModel(Config(vocabulary, embedding=8, hidden=12, layers=2))
    module.initialise()
    with torch.no_grad():
        module.embedding.weight.mul_(5)
    return module


def gradients(module, loss_of):
    module.zero_grad(set_to_none=True)
    loss = loss_of(module(torch.arange(20).reshape(5, 4) + 7).flatten(0, 1))
    return loss, [weight.grad.clone() for weight in module.parameters()]


TARGET = torch.arange(20) * 7 % 50


@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_the_explicit_gradient_agrees_with_the_plain_softmax(monkeypatch, penalty):
    monkeypatch.setattr(objective, "ROWS", 7)
    module = make_module()

    def loss_of_softmax(output):
        logits = module.logits(output)
        normaliser = logits.logsumexp(-1)
        loss = torch.nn.functional.cross_entropy(logits, TARGET)
        (loss + penalty * normaliser.square().mean()).backward()
        return loss.item()

    sampler = Sampler.of_counts(np.ones(50), 0)
    expected_loss, expected_slopes = gradients(module, loss_of_softmax)
    loss, slopes = gradients(module, lambda output: objective.backward(module, output, TARGET, sampler, penalty))
    assert loss == pytest.approx(expected_loss, abs=1e-6)
    for expected_slope, slope in zip(expected_slopes, slopes, strict=True):
        torch.testing.assert_close(slope, expected_slope, atol=1e-6, rtol=1e-5)


def test_the_mean_sampled_gradient_is_close_to_the_full_gradient():
    module = make_module()
    sampler = Sampler.of_counts(np.arange(50) + 1, 25)
    torch.manual_seed(1)
    _, expected = gradients(
        module, lambda out: objective.backward(module, out, TARGET, Sampler.of_counts(np.ones(50), 0))
    )
    means = [torch.zeros_like(slope) for slope in expected]
    for _ in range(300):
        _, slopes = gradients(module, lambda output: objective.backward(module, output, TARGET, sampler))
        for mean, slope in zip(means, slopes, strict=True):
            mean += slope / 300
    for mean, slope in zip(means, expected, strict=True):
        assert float((mean - slope).norm() / slope.norm()) < 0.1


@given(st.lists(st.integers(0, 1000), min_size=3, max_size=60), st.data())
def test_inclusion_probabilities_sum_to_the_number_of_samples(count, data):
    samples = data.draw(st.integers(1, len(count) - 1))
    inclusion = Sampler.of_counts(np.array(count), samples).inclusion.numpy()
    assert inclusion.sum() == pytest.approx(samples, rel=1e-3)
    assert inclusion.min() > 0
    assert inclusion.max() <= 1
    assert (np.diff(inclusion[np.argsort(count)]) >= -1e-6).all()  # more frequent words have higher probabilities


@torch.no_grad()
def test_perplexity_agrees_with_scoring_each_sentence_alone(tmp_path):
    words = [*text.SPECIAL, "a", "b", "c"]
    module = make_module(len(words)).eval()
    (tmp_path / "text").write_text("a b c\nb\nc c zebra a\n")
    sentences = text.encode(tmp_path / "text", words)
    assert sentences.num_unknown == 1
    total = 0.0
    for sentence in ([3, 4, 5], [4], [5, 5, 2, 3]):
        logprob = module.logits(module(torch.tensor([[0], *([word] for word in sentence)]))[:, 0]).log_softmax(-1)
        total -= float(logprob[range(len(sentence) + 1), [*sentence, 1]].sum())
    assert objective.perplexity(module, sentences, max_tokens=6) == pytest.approx(np.exp(total / 11), rel=1e-5)


# Training


@pytest.mark.parametrize("limit", [None, "500"])
def test_onednn_caches_few_shapes_by_default(tmp_path, texts, monkeypatch, limit):
    name, default = train.ONEDNN_SHAPES
    monkeypatch.setenv(name, limit or "")
    if limit is None:
        monkeypatch.delenv(name)
    train.train(*texts, tmp_path / "model.pt", toy(epochs=0.1))
    assert os.environ[name] == (limit or default)


def test_training_learns_and_reports_the_stored_model(tmp_path, texts):
    reports = []
    result = train.train(*texts, tmp_path / "lm.pt", toy(layers=1, embedding=32, hidden=48, epochs=20), reports.append)
    perplexities = [report.perplexity for report in reports if report.perplexity is not None]
    # The lowest possible perplexity is 3: 9 subjects × 8 verbs × 2 endings in 4.5 tokens.
    assert result.perplexity == min(perplexities) < 4 < perplexities[0]
    assert result.unknown == 1 / len(texts[1].read_text().split())  # "sleeps" is unknown
    assert reports[-1].step == reports[-1].num_steps
    assert reports[-1].epoch == 20
    stored = checkpoint.read(tmp_path / "lm.pt")
    dev = text.encode(texts[1], stored.words)
    assert objective.perplexity(stored.module, dev) == pytest.approx(result.perplexity, rel=1e-6)
    assert stored.card["perplexity"] == result.perplexity
    assert stored.card["train_sha256"] == text.digest(texts[0])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dev.txt", "lm.pt", "train.txt"]

    lm = load(tmp_path / "lm.pt")
    likely, unlikely = ("subject1", "verb2", "object2"), ("subject1", "verb2", "object3")
    scores = sentence_logprobs(lm, [[lm.vocabulary.id(word) for word in words] for words in (likely, unlikely)])
    assert scores[0] > scores[1] + 2


@pytest.mark.parametrize("self_normalize", [0.0, 0.3])
def test_the_penalty_drives_the_normaliser_to_one(tmp_path, texts, self_normalize):
    train.train(*texts, tmp_path / "lm.pt", toy(self_normalize=self_normalize, samples=0, layers=1, epochs=20))
    raw_lm, exact_lm = load(tmp_path / "lm.pt", normalize=False), load(tmp_path / "lm.pt")
    word = np.arange(3, 29, dtype=np.int32)
    log_normaliser = [lm.logprob(lm.advance(lm.start(26), word), word) for lm in (raw_lm, exact_lm)]
    difference = np.abs(log_normaliser[0] - log_normaliser[1]).mean()
    assert difference < 0.2 if self_normalize else difference > 0.5


def test_a_normaliser_is_trained_without_changing_the_other_weights(tmp_path, texts, monkeypatch):
    monkeypatch.setattr(normaliser, "FEWEST_STEPS", 300)
    train.train(*texts, tmp_path / "plain.pt", toy(epochs=3, seed=5))
    train.train(*texts, tmp_path / "lm.pt", toy(epochs=3, normaliser=16, seed=5))
    plain_checkpoint, stored = checkpoint.read(tmp_path / "plain.pt"), checkpoint.read(tmp_path / "lm.pt")
    weights = stored.module.state_dict()
    assert all((weights[name] == weight).all() for name, weight in plain_checkpoint.module.state_dict().items())
    assert (plain_checkpoint.module.config.normaliser, stored.module.config.normaliser) == (0, 16)
    estimated_lm, exact_lm = load(tmp_path / "lm.pt"), load(tmp_path / "lm.pt", normalize=True)
    word = np.arange(3, 26, dtype=np.int32)
    scores = [lm.logprob(lm.advance(lm.start(23), word), word) for lm in (estimated_lm, exact_lm)]
    difference = np.sqrt(np.square(scores[0] - scores[1]).mean())
    assert difference < 0.4
    assert stored.card["normaliser_error"] < 0.4


def test_a_normaliser_is_added_to_an_int8_checkpoint(tmp_path, texts, monkeypatch):
    monkeypatch.setattr(normaliser, "FEWEST_STEPS", 300)
    options = toy(epochs=5, normaliser=16)
    train.train(*texts, tmp_path / "lm.pt", toy(epochs=5))
    stored = checkpoint.read(tmp_path / "lm.pt")
    checkpoint.save(dataclasses.replace(stored, storage="int8"), tmp_path / "small.pt")
    sentences, dev = (text.encode(path, stored.words) for path in texts)
    train.add_normaliser(tmp_path / "small.pt", sentences, dev, options)
    int8_checkpoint = checkpoint.read(tmp_path / "small.pt")
    assert (int8_checkpoint.storage, int8_checkpoint.module.config.normaliser) == ("int8", 16)
    step = stored.module.embedding.weight.abs().amax(1, keepdim=True) / 127
    assert ((int8_checkpoint.module.embedding.weight - stored.module.embedding.weight).abs() <= 0.51 * step).all()
    assert int8_checkpoint.card["normaliser_error"] < 1


def stop_at(step):
    def progress(report):
        if report.step >= step:
            raise KeyboardInterrupt

    return progress


def test_resumed_training_gives_the_weights_of_an_uninterrupted_run(tmp_path, texts):
    whole_path, resumed_path = tmp_path / "whole.pt", tmp_path / "halves.pt"
    train.train(*texts, whole_path, toy(dropout=0.2))
    with pytest.raises(KeyboardInterrupt):
        train.train(*texts, resumed_path, toy(dropout=0.2), stop_at(16))
    assert (tmp_path / "halves.pt.state").exists()
    torch.manual_seed(99)  # a new process has a different random state
    reports = []
    train.train(*texts, resumed_path, toy(dropout=0.2, resume=True), reports.append)
    assert reports[0].step > 16
    expected, resumed = checkpoint.read(whole_path), checkpoint.read(resumed_path)
    for name, weight in expected.module.state_dict().items():
        assert torch.equal(weight, resumed.module.state_dict()[name]), name
    assert not (tmp_path / "halves.pt.state").exists()


def test_equal_seeds_give_equal_models_and_keep_the_global_random_state(tmp_path, texts):
    torch.manual_seed(5)
    expected = torch.rand(3)
    for name, seed in (("a.pt", 3), ("b.pt", 3), ("c.pt", 4)):
        torch.manual_seed(5)
        train.train(*texts, tmp_path / name, toy(epochs=1, seed=seed))
        assert torch.equal(torch.rand(3), expected)
    weights = [checkpoint.read(tmp_path / name).module.embedding.weight for name in ("a.pt", "b.pt", "c.pt")]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_training_stops_when_the_held_out_text_gets_worse(tmp_path, texts):
    (tmp_path / "dev.txt").write_text("object1 object1 gladly gladly\n" * 5)  # the training text does not predict it
    reports = []
    result = train.train(*texts, tmp_path / "lm.pt", toy(epochs=500, patience=2, check_steps=5), reports.append)
    assert result.step < reports[-1].step < reports[-1].num_steps
    assert [report.best for report in reports if report.perplexity is not None][-2:] == [False, False]
    assert objective.perplexity(
        checkpoint.read(tmp_path / "lm.pt").module, text.encode(texts[1], checkpoint.read(tmp_path / "lm.pt").words)
    ) == pytest.approx(result.perplexity, rel=1e-6)


def test_a_training_interrupted_after_its_last_step_is_not_continued(tmp_path, texts, monkeypatch):
    (tmp_path / "dev.txt").write_text("object1 object1 gladly gladly\n" * 5)
    options = toy(epochs=500, patience=2, check_steps=5, normaliser=8)

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(normaliser, "FEWEST_STEPS", 20)
    with monkeypatch.context() as patched:
        patched.setattr(train, "add_normaliser", stop)
        with pytest.raises(KeyboardInterrupt):
            train.train(*texts, tmp_path / "lm.pt", options)
    reports = []
    train.train(*texts, tmp_path / "lm.pt", dataclasses.replace(options, resume=True), reports.append)
    assert reports == []
    assert checkpoint.read(tmp_path / "lm.pt").card["normaliser"] == 8


def test_training_ends_at_the_time_limit_with_a_low_learning_rate(tmp_path, texts, monkeypatch):
    clock = count()  # each reading advances the clock by one second
    monkeypatch.setattr(train, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    reports = []
    train.train(*texts, tmp_path / "lm.pt", toy(epochs=10_000, max_minutes=1, patience=10**6), reports.append)
    assert reports[-1].step < reports[-1].num_steps
    assert reports[-1].learning_rate < 0.1 * TOY.learning_rate


def test_resuming_needs_the_state_of_the_same_training(tmp_path, texts):
    output = tmp_path / "lm.pt"
    with pytest.raises(OptionError, match="no training state to resume; omit --resume"):
        train.train(*texts, output, toy(resume=True))
    with pytest.raises(KeyboardInterrupt):
        train.train(*texts, output, TOY, stop_at(8))
    with pytest.raises(OptionError, match="hidden was 24 and is now 32; resume with the same texts and options"):
        train.train(*texts, output, toy(resume=True, hidden=32))
    texts[0].write_text("another text\n" * 20)
    with pytest.raises(OptionError, match=r"train_sha256 was \w+ and is now"):
        train.train(*texts, output, toy(resume=True))
    (tmp_path / "lm.pt.state").write_bytes(b"PK\3\4 no more")
    with pytest.raises(ModelError, match="not a training state"):
        train.train(*texts, output, toy(resume=True))


def test_without_a_held_out_text_every_twentieth_sentence_is_held_out(tmp_path, texts):
    lines = texts[0].read_text().splitlines()
    lines[19] = "subject1 sleeps"  # a word that occurs only in the held-out part
    texts[0].write_text("\n".join(lines))
    result = train.train(texts[0], None, tmp_path / "found.pt", toy(epochs=1))
    (tmp_path / "rest.txt").write_text("\n".join(line for place, line in enumerate(lines, 1) if place % 20))
    (tmp_path / "held.txt").write_text("\n".join(lines[19::20]))
    expected = train.train(tmp_path / "rest.txt", tmp_path / "held.txt", tmp_path / "expected.pt", toy(epochs=1))
    assert (result.num_held_out, expected.num_held_out) == (10, 0)
    assert (result.perplexity, result.unknown) == (expected.perplexity, expected.unknown)
    assert result.unknown > 0
    checkpoint_of_result, expected_checkpoint = (
        checkpoint.read(tmp_path / name) for name in ("found.pt", "expected.pt")
    )
    assert checkpoint_of_result.words == expected_checkpoint.words
    assert all(
        map(
            torch.equal,
            checkpoint_of_result.module.state_dict().values(),
            expected_checkpoint.module.state_dict().values(),
        )
    )


def test_a_text_of_one_sentence_requires_a_held_out_text(tmp_path):
    (tmp_path / "text").write_text("a b\n")
    with pytest.raises(FormatError, match="specify a held-out text"):
        train.train(tmp_path / "text", None, tmp_path / "lm.pt", TOY)


def test_diverging_training_raises_model_error(tmp_path, texts):
    with pytest.raises(ModelError, match=r"diverged at step \d+; use a learning rate below"):
        train.train(*texts, tmp_path / "lm.pt", toy(learning_rate=1e30, epochs=50))


@pytest.mark.parametrize("rate", [1e3, 1e6])  # the perplexities are infinite or NaN
def test_a_training_without_a_finite_perplexity_has_diverged(tmp_path, texts, ninja, rate):
    arguments = toy_command(learning_rate=rate, clip=1e30, epochs=1, check_steps=2)
    log = tmp_path / "log"
    code, _, errors = ninja("train", texts[0], "--dev", texts[1], "-o", tmp_path / "lm.pt", "--log", log, *arguments)
    assert code == 1
    assert "ninja: error: training diverged: the held-out perplexity was infinite in all measurements; use" in errors
    assert not (tmp_path / "lm.pt").exists()
    rows = [json.loads(line, parse_constant=pytest.fail) for line in log.read_text().splitlines()]
    assert {row["perplexity"] for row in rows} == {None}


def test_a_missing_output_folder_is_refused_before_training(tmp_path, texts):
    with pytest.raises(OutputError, match="the folder of this file does not exist; create it first"):
        train.train(*texts, tmp_path / "none" / "lm.pt", TOY)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vocabulary": 3}, "vocabulary is 3, but must be 4 or more"),
        ({"epochs": 0}, "epochs is 0, but must be above 0"),
        ({"threads": 100_000_000}, "threads is 100000000, but must be at most 4096"),
        ({"epochs": float("inf")}, "epochs is inf, but must be finite"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
        ({"learning_rate": 1e300}, "learning_rate is 1e[+]300, but must be above 0 and at most 1e[+]30"),
        ({"self_normalize": float("inf")}, "self_normalize is inf, but must be 0 or more and finite"),
        ({"hidden": 100_000_000}, "hidden is 100000000, but must be at most 100000"),
        ({"layers": 65}, "layers is 65, but must be at most 64"),
        ({"warmup": 2**63}, "warmup is 9223372036854775808, but must be at most 9223372036854775807"),
        ({"workers": 100_000_000, "parallel": "bmuf"}, "workers is 100000000, but must be at most 4096"),
        ({"max_minutes": -1.0}, "max_minutes is -1.0"),
        ({"dropout": 1.0}, r"dropout is 1.0, but must be in \[0, 1\)"),
        (
            {"hidden": 8, "projection": 8},
            "projection is 8, but only an lstm can have a projection, which must be smaller than embedding and hidden",
        ),
        ({"samples": -1}, "samples is -1"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        toy(**options)


@pytest.mark.parametrize("options", [{}, {"architecture": "transformer", "heads": 2}])
def test_a_network_larger_than_the_memory_is_refused(tmp_path, texts, monkeypatch, options):
    monkeypatch.setattr(step, "BYTES_PER_WEIGHT", 1 << 60)
    with pytest.raises(OptionError, match="but the device cpu has"):
        train.train(*texts, tmp_path / "lm.pt", toy(**options))


@pytest.mark.parametrize(
    "options", [{}, {"projection": 4}, {"hidden": 8}, {"normaliser": 7}, {"architecture": "transformer", "heads": 2}]
)
def test_num_weights_is_a_lower_bound(options):
    module = train._make(toy(**options), 50)
    if "normaliser" in options:
        module.add_normaliser(options["normaliser"])
    num_weights = sum(weight.numel() for weight in module.parameters())
    assert 0.7 * num_weights < toy(**options).num_weights(50) <= num_weights


# Text


def test_the_vocabulary_contains_the_most_frequent_words(tmp_path):
    (tmp_path / "text.gz").write_bytes(gzip.compress(b"b b c\n\n a c  b\n<unk> d d d\n"))
    assert text.make_vocabulary(tmp_path / "text.gz", 6) == ["<s>", "</s>", "<unk>", "b", "d", "c"]
    assert text.make_vocabulary(tmp_path / "text.gz", 60, min_count=3) == ["<s>", "</s>", "<unk>", "b", "d"]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=40), st.integers(1, 60), st.sampled_from([None, 0, 1]))
def test_batches_contain_every_sentence_once_within_max_tokens(lengths, max_tokens, seed):
    begin = np.concatenate(([0], np.cumsum(lengths)))
    word = np.random.default_rng(0).integers(2, 50, begin[-1]).astype(np.int32)
    sentences = text.Sentences(word, begin, 0)
    groups = text.batches(sentences, max_tokens, seed)
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(lengths)))
    for members in groups:
        source, target = text.pad(sentences, members)
        assert len(members) == 1 or target.size <= max_tokens
        for column, sentence in enumerate(members):
            expected = word[begin[sentence] : begin[sentence + 1]].tolist()
            assert target[target[:, column] >= 0, column].tolist() == [*expected, 1]
            assert source[: len(expected) + 1, column].tolist() == [0, *expected]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the text contains no sentences"),
        (b"a b\n\xff\n", r"text:2: not UTF-8"),
        (b"a\n<s> b </s>\n", r"text:2: the text contains <s> or </s>; remove them"),
        (b"a " * 2001, r"text:1: the line has 2001 words"),
        (gzip.compress(b"a b\n" * 1000)[:-12], "gzip stream is truncated"),
    ],
)
def test_invalid_texts_are_refused(tmp_path, content, message):
    (tmp_path / "text").write_bytes(content)
    with pytest.raises(FormatError, match=message):
        text.make_vocabulary(tmp_path / "text", 100)


@pytest.mark.parametrize("architecture", ["lstm", "transformer"])
@pytest.mark.parametrize(
    ("precision", "has_instructions", "dtype"),
    [
        ("auto", True, torch.bfloat16),
        ("auto", False, torch.float32),
        ("bfloat16", False, torch.bfloat16),
        ("float32", True, torch.float32),
    ],
)
def test_the_precision_depends_on_the_option_and_the_processor(
    tmp_path, texts, monkeypatch, architecture, precision, has_instructions, dtype
):
    def record_dtype(module, output, *arguments):
        dtypes.add(torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else output.dtype)
        return backward(module, output, *arguments)

    dtypes, backward = set(), step.backward
    monkeypatch.setattr(step, "backward", record_dtype)
    monkeypatch.setattr(compute, "computes_in_half", lambda: has_instructions)
    options = toy(architecture=architecture, precision=precision, epochs=0.2, heads=2)
    train.train(*texts, tmp_path / "lm.pt", options)
    assert dtypes == {dtype}
    assert checkpoint.read(tmp_path / "lm.pt").card["precision"] == str(dtype).removeprefix("torch.")


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("cells", [16, 12])
def test_an_lstm_without_projection_may_have_few_cells(tmp_path, texts, cells, precision, ninja):
    options = toy_command(hidden=cells, precision=precision, epochs=6)
    assert ninja("train", texts[0], "--dev", texts[1], "-o", tmp_path / "lm.pt", *options)[0] == 0
    stored = checkpoint.read(tmp_path / "lm.pt")
    assert stored.module.config.hidden == cells
    assert stored.module.config.width == cells
    assert stored.card["perplexity"] < 20  # the vocabulary has 60 words
    words = text.encode(texts[1], stored.words)
    sentences = [words.word[begin:end].tolist() for begin, end in pairwise(words.begin)]
    mean = -sum(sentence_logprobs(load(tmp_path / "lm.pt"), sentences)) / (len(words.word) + len(words))
    assert math.exp(mean) == pytest.approx(stored.card["perplexity"], rel=1e-4)
