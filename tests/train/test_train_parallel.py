"""Training with several workers: the update rules, one worker and several, and states."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_training import (
    TOY,
    toy,
    toy_sentences,
    toy_text_files,  # noqa: F401
    toy_texts,
)

from ninja.errors import OptionError

torch = pytest.importorskip("torch")

import train_workers  # noqa: E402

from benchmarks.training.simulation import Block, Simulation  # noqa: E402
from ninja.lm import checkpoint, text  # noqa: E402
from ninja.train import loop  # noqa: E402
from ninja.train.order import Order  # noqa: E402
from ninja.train.parallel import launch  # noqa: E402
from ninja.train.parallel.block_momentum import BlockUpdate, block_factors  # noqa: E402
from ninja.train.step import gradient, make_sampler  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections")


# The recursions of blocks


def blocks(count=20, size=7, seed=0):
    """Return the difference between the mean of the workers and W_g for each block."""
    return np.random.default_rng(seed).normal(size=(count, size))


@settings(max_examples=12)
@given(st.floats(0.0, 0.99), st.floats(0.05, 3.0), st.booleans(), st.integers(0, 99), st.sampled_from([1, 20]))
def test_block_updates_agree_with_the_paper(momentum, rate, nesterov, seed, count):
    start = np.random.default_rng(seed).normal(size=7)
    update = BlockUpdate(torch.from_numpy(start), momentum, rate, nesterov=nesterov)
    paper = Block(start.copy(), momentum, rate, nesterov)
    for change in blocks(count, seed=seed):
        weights_ahead = update.apply(update.weights + torch.from_numpy(change))
        tolerance = 1e-12 * np.abs(paper.apply(paper.wg + change)).max()
        np.testing.assert_allclose(weights_ahead.numpy(), paper.wg, rtol=0, atol=tolerance)
        np.testing.assert_allclose(update.result().numpy(), paper.w, rtol=0, atol=tolerance)


@pytest.mark.parametrize("nesterov", [True, False])
def test_constant_changes_converge_to_rate_over_one_minus_momentum(nesterov):
    update = BlockUpdate(torch.zeros(1, dtype=torch.float64), 0.75, 0.5, nesterov=nesterov)
    weight_before = 0.0
    for _ in range(200):
        weight_before = update.result().item()
        update.apply(update.weights + 1.0)
    assert update.result().item() - weight_before == pytest.approx(0.5 / (1 - 0.75))


def test_nesterov_momentum_differs_from_that_of_fairseq():
    momentum, fairseq_weights, delta = 0.75, np.zeros(7), np.zeros(7)
    update = BlockUpdate(torch.zeros(7, dtype=torch.float64), momentum, 1.0)
    for change in blocks():
        update.apply(update.weights + torch.from_numpy(change))
        delta = momentum * delta + change
        fairseq_weights = fairseq_weights + delta + momentum * delta  # fairseq's optim/bmuf.py
    assert np.abs(update.weights.numpy() - fairseq_weights).max() > 1.0


def test_without_momentum_and_with_rate_one_blocks_are_plain_averages():
    update = BlockUpdate(torch.randn(50), 0.0, 1.0)
    for _ in range(5):
        mean = torch.randn(50) * 1e3
        assert torch.equal(update.apply(mean), mean)
        assert torch.equal(update.result(), mean)


@pytest.mark.parametrize(
    ("momentum", "weight", "workers", "expected"),
    [
        (None, 1.0, 8, (0.875, 1.0)),
        (None, 1.0, 1, (0.0, 1.0)),
        (None, 1.25, 49, (1 - 1 / 49, 1.25)),
        (0.9, 1.25, 8, (0.9, 1.0)),
        (0.0, 1.0, 4, (0.0, 4.0)),
    ],
)
def test_block_factors_give_blocks_the_requested_weight(momentum, weight, workers, expected):
    assert block_factors(momentum, weight, workers) == pytest.approx(expected)


# Order


def test_the_text_is_redistributed_to_the_workers_each_epoch(tmp_path):
    (tmp_path / "text").write_text("\n".join(toy_sentences(100, 1)))
    sentences = text.encode(tmp_path / "text", text.make_vocabulary(tmp_path / "text", 60))
    order = Order(sentences, 32, 3)
    epochs = [[order.batch(epoch * order.epoch_batches + n) for n in range(order.epoch_batches)] for epoch in (0, 1, 2)]
    for groups in epochs:
        assert sorted(np.concatenate(groups).tolist()) == list(range(100))
    first_worker_sentences = [sorted(np.concatenate(groups[::2]).tolist()) for groups in epochs]
    assert first_worker_sentences[0] != first_worker_sentences[1]
    second_order = Order(sentences, 32, 3)
    assert second_order.batch(2 * second_order.epoch_batches).tolist() == epochs[2][0].tolist()
    numbers = range(order.epoch_batches - 1, order.epoch_batches + 2)
    words = sum(
        len(line.split()) for number in numbers for line in np.array(list(toy_sentences(100, 1)))[order.batch(number)]
    )
    assert order.num_words(numbers) == words
    assert order.num_tokens(numbers) == words + sum(len(order.batch(number)) for number in numbers)


def test_the_mean_gradient_of_workers_is_that_of_all_tokens(tmp_path):
    lines = sorted(toy_sentences(60, 1), key=len)
    (tmp_path / "text").write_text("\n".join([*lines, "subject1 " * 40]))  # batches of very different lengths
    sentences = text.encode(tmp_path / "text", text.make_vocabulary(tmp_path / "text", 60))
    options = toy(samples=0, dropout=0.0, batch_tokens=100, precision="float32")
    torch.manual_seed(0)
    module = loop._make(options, 60)
    module.initialise()
    order = Order(sentences, options.batch_tokens, 3)
    sampler, numbers = make_sampler(order, 60, 0), range(order.epoch_batches)
    assert len({len(order.batch(number)) for number in numbers}) > 1
    mean = [torch.zeros_like(weight) for weight in module.parameters()]
    for number in numbers:
        gradient(module, order, number, sampler, options, together=numbers)
        for mean_gradient, weight in zip(mean, module.parameters(), strict=True):
            mean_gradient += weight.grad / len(numbers)
    gradient(module, Order(sentences, 10**6, 3), 0, sampler, options)
    for mean_gradient, weight in zip(mean, module.parameters(), strict=True):
        assert float((mean_gradient - weight.grad).norm() / weight.grad.norm()) < 1e-4


# One worker


def weights(path):
    return checkpoint.read(path).module.state_dict()


def assert_equal_weights(state, expected):
    for name, weight in state.items():
        assert torch.equal(weight, expected[name]), name


@pytest.mark.parametrize("method", ["ssgd", "ma", "bmuf", "adpsgd", "h-adpsgd"])
def test_one_worker_of_any_method_equals_plain_training(tmp_path, texts, method):
    options = toy(epochs=1, dropout=0.2)
    loop.train(*texts, tmp_path / "plain.pt", options)
    result = loop.train(*texts, tmp_path / "lm.pt", dataclasses.replace(options, parallel=method))
    assert_equal_weights(weights(tmp_path / "plain.pt"), weights(tmp_path / "lm.pt"))
    assert result.perplexity == checkpoint.read(tmp_path / "plain.pt").card["perplexity"]
    assert not torch.distributed.is_initialized()


# Several workers

METHODS = {
    "ssgd": {"parallel": "ssgd"},
    "ma": {"parallel": "ma"},
    "nbm": {"parallel": "bmuf", "block_warmup": 5, "learning_rate": 5e-3},
    "cbm": {"parallel": "bmuf", "classical_momentum": True, "block_optimizer": "reset", "block_momentum": 0.3},
    "keep": {"parallel": "bmuf", "block_optimizer": "keep", "block_rate": 0.8},
}
ROUNDED = 16  # roundings per step and weight: in sums, clipping, Adam, and the mean over workers
HALF = {"half precision": {"parallel": "bmuf", "precision": "bfloat16"}}
GOSSIP = {"adpsgd": {"parallel": "adpsgd"}, "h-adpsgd": {"parallel": "h-adpsgd", "node_size": 2}}


@pytest.fixture(scope="module")
def trainings(tmp_path_factory):
    """Train two workers with each method, without interruption and resumed; all but one method in single precision."""
    folder = tmp_path_factory.mktemp("workers")
    text_paths = tuple(map(str, toy_texts(folder)))
    methods = METHODS | HALF | GOSSIP
    shared_options = {"workers": 2, "epochs": 3, "dropout": 0.2, "precision": "float32"}
    options = {name: toy(**shared_options | method_options) for name, method_options in methods.items()}
    work = [(text_paths, str(folder / f"{name}.pt"), method_options) for name, method_options in options.items()]
    reports, resumed_reports = launch.run(train_workers.train_and_resume, (work,), 2, "cpu", lambda report: None)
    return (
        folder,
        text_paths,
        options,
        dict(zip(options, reports, strict=True)),
        dict(zip(options, resumed_reports, strict=True)),
    )


def state_of(path):
    return torch.load(path, weights_only=True)


def relative_distance(weights, reference, initial):
    """Return the distance between the results of two trainings, relative to the change by the first."""
    return np.linalg.norm(weights - reference) / np.linalg.norm(weights - initial)


def rounding(steps):
    """Return a bound of rounding errors: each step rounds each weight, its gradient and its moments."""
    return np.finfo(np.float32).eps * ROUNDED * steps


@pytest.mark.parametrize("name", METHODS)
def test_two_workers_agree_with_a_simulation(trainings, name):
    folder, paths, options, reports, _ = trainings
    stored, state = checkpoint.read(folder / f"{name}.pt"), state_of(folder / f"{name}.pt.whole")
    sentences, dev = (text.encode(path, stored.words) for path in paths)
    torch.manual_seed(TOY.seed)
    module = loop._make(options[name], len(stored.words))
    module.initialise()
    simulation = Simulation(module, sentences, options[name])
    initial = simulation.begin
    simulation.run()
    assert reports[name][-1].step == reports[name][-1].num_steps
    begin = np.concatenate([weight.flatten().numpy() for weight in state["module"].values()])
    order = dict(module.named_parameters())
    assert list(order) == list(state["module"])
    assert relative_distance(begin, simulation.begin, initial) < rounding(reports[name][-1].num_steps)
    assert reports[name][-1].perplexity == pytest.approx(simulation.perplexity(dev), rel=1e-5)


def test_the_simulations_of_different_methods_differ_by_more_than_rounding(trainings):
    _, paths, options, reports, _ = trainings
    words = text.make_vocabulary(paths[0], TOY.vocabulary, 1)
    end_weights = []
    for name, changes in (("nbm", {}), ("nbm", {"classical_momentum": True}), ("nbm", {"block_optimizer": "keep"})):
        torch.manual_seed(TOY.seed)
        module = loop._make(options[name], len(words))
        module.initialise()
        simulation = Simulation(module, text.encode(paths[0], words), dataclasses.replace(options[name], **changes))
        initial = simulation.begin
        simulation.run()
        end_weights.append(simulation.begin)
    tolerance = rounding(reports["nbm"][-1].num_steps)
    assert (
        min(relative_distance(end_weights[0], weights_of_method, initial) for weights_of_method in end_weights[1:])
        > 100 * tolerance
    )


def test_the_stored_weights_are_those_without_the_look_ahead(trainings):
    folder, _, _, reports, _ = trainings
    assert reports["nbm"][-1].best
    state = state_of(folder / "nbm.pt.whole")
    begin = torch.cat([weight.flatten() for weight in state["module"].values()])
    momentum = state["sharing"]["outer"]["state"][0]["momentum_buffer"]
    stored_weights = torch.cat([weight.flatten() for weight in weights(folder / "nbm.pt").values()])
    assert momentum.abs().max() > 1e-3
    expected = (begin + 0.5 * momentum).half().float()  # η is 1 − 1/2
    torch.testing.assert_close(stored_weights, expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", METHODS | HALF)
def test_resumed_workers_equal_uninterrupted_workers(trainings, name):
    folder, _, _, reports, resumed_reports = trainings
    expected, resumed_state = state_of(folder / f"{name}.pt.whole"), state_of(folder / f"{name}.pt.end")
    expected["counters"]["minutes"] = resumed_state["counters"]["minutes"]
    assert_equal(expected, resumed_state)
    expected_perplexities, perplexities = (
        [report.perplexity for report in reports_of[name] if report.perplexity]
        for reports_of in (reports, resumed_reports)
    )
    assert 0 < len(perplexities) < len(expected_perplexities)
    assert perplexities == expected_perplexities[-len(perplexities) :]
    assert not (folder / f"{name}.pt.state").exists()


def assert_equal(state, expected):
    """Check that two states are identical."""
    if isinstance(state, torch.Tensor):
        assert torch.equal(state, expected)
    elif isinstance(state, dict):
        assert state.keys() == expected.keys()
        for name, value in state.items():
            assert_equal(value, expected[name])
    else:
        assert state == expected


def test_a_node_of_all_workers_is_synchronous(trainings):
    folder, *_ = trainings
    synchronous, hierarchical = (state_of(folder / f"{name}.pt.whole")["module"] for name in ("ssgd", "h-adpsgd"))
    for name, weight in synchronous.items():
        torch.testing.assert_close(weight, hierarchical[name], rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", GOSSIP)
def test_asynchronous_workers_use_every_batch_and_can_be_resumed(trainings, name):
    folder, _, _, reports, resumed_reports = trainings
    for report in (reports[name][-1], resumed_reports[name][-1]):
        assert (report.step, report.epoch) == (report.num_steps, reports["ssgd"][-1].epoch)
        assert report.perplexity < 1.3 * reports["ssgd"][-1].perplexity
    assert len(resumed_reports[name]) < len(reports[name])
    state = state_of(folder / f"{name}.pt.end")
    learners = state["sharing"]["learners"]
    mean = torch.cat([weight.flatten() for weight in state["module"].values()])
    assert len(learners) == (2 if name == "adpsgd" else 1)
    torch.testing.assert_close(mean, learners[:, : len(mean)].mean(0), rtol=0, atol=1e-6)
    assert learners[:, -1].sum() == len(learners) * state["counters"]["taken"] / 2  # steps of the learners' optimisers
    assert reports[name][-1].staleness >= 0
    assert not (folder / f"{name}.pt.state").exists()


def test_reports_include_the_work_of_all_workers(trainings):
    _, _, _, reports, _ = trainings
    for report in reports["ssgd"]:
        assert report.epoch == pytest.approx(3 * report.step / report.num_steps, rel=0.05)
        assert 0 < report.communication < 1
        assert report.words_per_second > 0


def test_nodes_must_have_equal_size(tmp_path, texts):
    with pytest.raises(OptionError, match="node_size is 2, which does not divide the number of workers, 1"):
        loop.train(*texts, tmp_path / "lm.pt", toy(parallel="h-adpsgd", node_size=2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 2}, "workers is 2, but parallel is none"),
        ({"workers": 0}, "workers is 0, but must be 1 or more"),
        ({"block_momentum": 1.0}, r"block_momentum is 1.0, but must be in \[0, 1\)"),
        ({"node_size": 0}, "node_size is 0, but must be above 0"),
        ({"block_rate": 0.0}, "block_rate is 0.0, but must be above 0"),
        ({"block_optimizer": "forget"}, "block_optimizer is 'forget', but must be one of average, keep, reset"),
    ],
)
def test_options_of_workers_out_of_range_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        toy(**options)
