"""`BlockMomentum` around any module: equal to NumPy, with any optimiser, buffers, half precision, and states."""

import copy
import io

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402
from worker_threads import run_in_threads  # noqa: E402

from ninja.errors import OptionError, WorkerError  # noqa: E402
from ninja.train.parallel import BlockMomentum, PairwiseAveraging, launch  # noqa: E402

WORKERS, STEPS, INPUTS, OUTPUTS = 4, 23, 5, 3
OPTIMIZERS = {
    "sgd": lambda weights: torch.optim.SGD(weights, lr=0.1),
    "momentum": lambda weights: torch.optim.SGD(weights, lr=0.05, momentum=0.9),
    "adam": lambda weights: torch.optim.Adam(weights, lr=0.02),
}


def batch(rank, step):
    """Return the inputs and targets of a worker's step."""
    random = np.random.default_rng((rank, step))
    return random.normal(size=(6, INPUTS)), random.normal(size=(6, OUTPUTS))


def linear(dtype=torch.float64):
    module = torch.nn.Linear(INPUTS, OUTPUTS, dtype=dtype)
    random = np.random.default_rng(3)  # threads share the random state of torch
    for weight in module.parameters():
        weight.data.copy_(torch.from_numpy(random.normal(size=weight.shape)))
    return module


def fit(model, optimizer, rank, steps, dtype=torch.float64):
    """Train a model on the batches of a worker."""
    for step in steps:
        inputs, targets = (torch.from_numpy(array).to(dtype) for array in batch(rank, step))
        optimizer.zero_grad()
        (model(inputs) - targets).square().mean().backward()
        optimizer.step()


def train(rank, kind, steps=STEPS, **options):
    """Train a linear layer on a worker; return the weights with and without the look-ahead."""
    module = linear()
    optimizer = OPTIMIZERS[kind](module.parameters())
    model = BlockMomentum(module, optimizer, **options)
    fit(model, optimizer, rank, range(steps))
    model.synchronize()
    ahead = vector_of(module)
    with model.result():
        return ahead, vector_of(module)


def vector_of(module):
    return torch.cat([weight.detach().flatten() for weight in module.parameters()]).numpy().copy()


class NumpyWorker:
    """The slow twin of a worker: a linear layer with explicit formulas for its gradient and optimiser."""

    def __init__(self, rank, kind, weights):
        self.rank, self.kind, self.weights = rank, kind, weights.copy()
        self.reset()

    def reset(self):
        self.step, self.moments = 0, [np.zeros_like(self.weights), np.zeros_like(self.weights)]

    def train(self, number):
        inputs, targets = batch(self.rank, number)
        matrix = self.weights[: OUTPUTS * INPUTS].reshape(OUTPUTS, INPUTS)
        error = 2 * (inputs @ matrix.T + self.weights[OUTPUTS * INPUTS :] - targets) / targets.size
        gradient = np.concatenate([(error.T @ inputs).ravel(), error.sum(0)])
        self.step += 1
        if self.kind == "sgd":
            self.weights -= 0.1 * gradient
        elif self.kind == "momentum":
            self.moments[0] = 0.9 * self.moments[0] + gradient
            self.weights -= 0.05 * self.moments[0]
        else:
            self.moments[0] = 0.9 * self.moments[0] + 0.1 * gradient
            self.moments[1] = 0.999 * self.moments[1] + 0.001 * gradient**2
            mean, square = self.moments[0] / (1 - 0.9**self.step), self.moments[1] / (1 - 0.999**self.step)
            self.weights -= 0.02 * mean / (np.sqrt(square) + 1e-8)


def numpy_train(kind, momentum, rate, classical, block_steps, warmup, block_optimizer):
    """Return the weights with and without the look-ahead, by the recursion of Chen and Huo."""
    start = vector_of(linear())
    workers = [NumpyWorker(rank, kind, start) for rank in range(WORKERS)]
    ahead, model, delta = start.copy(), start.copy(), np.zeros_like(start)
    for step in range(STEPS):
        for worker in workers:
            worker.train(step)
        block = step + 1 - warmup
        if block == 0:
            ahead, model = workers[0].weights.copy(), workers[0].weights.copy()
            for worker in workers:
                worker.weights, worker.step = ahead.copy(), workers[0].step
                worker.moments = [moment.copy() for moment in workers[0].moments]
        elif block > 0 and (block % block_steps == 0 or step + 1 == STEPS):
            mean = sum(worker.weights for worker in workers) / WORKERS
            delta = momentum * delta + rate * (mean - ahead)
            model = model + delta
            ahead = model.copy() if classical else model + momentum * delta
            moments = [sum(worker.moments[n] for worker in workers) / WORKERS for n in (0, 1)]
            for worker in workers:
                worker.weights = ahead.copy()
                if block_optimizer == "average":
                    worker.moments = [moment.copy() for moment in moments]
        if block_optimizer == "reset" and block >= 0 and (block % block_steps == 0 or step + 1 == STEPS):
            for worker in workers:
                worker.reset()
    return ahead, model


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("block_optimizer", ["average", "keep", "reset"])
@pytest.mark.parametrize(("classical", "warmup"), [(True, 0), (False, 7)])
def test_blocks_with_any_optimiser_agree_with_numpy(kind, block_optimizer, classical, warmup):
    options = {"classical": classical, "block_steps": 5, "warmup": warmup, "block_optimizer": block_optimizer}
    results = run_in_threads(WORKERS, lambda rank: train(rank, kind, momentum=0.6, rate=0.8, **options))
    expected = numpy_train(kind, 0.6, 0.8, **options)
    for result in results:
        for weights, reference in zip(result, expected, strict=True):
            np.testing.assert_allclose(weights, reference, rtol=0, atol=1e-12 * np.abs(reference).max())


def test_default_momentum_and_rate_apply_the_sum_of_the_workers_updates():
    options = {"classical": False, "block_steps": 5, "warmup": 0, "block_optimizer": "average"}
    [result, *_] = run_in_threads(WORKERS, lambda rank: train(rank, "sgd", block_steps=5))
    expected = numpy_train("sgd", 1 - 1 / WORKERS, 1.0, **options)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-12)


def test_without_momentum_weights_are_exact_averages():
    results = run_in_threads(2, lambda rank: train(rank, "sgd", momentum=0.0, rate=1.0, block_steps=STEPS))
    averages = []
    for rank in range(2):
        module = linear()
        fit(module, OPTIMIZERS["sgd"](module.parameters()), rank, range(STEPS))
        averages.append(vector_of(module))
    for ahead, model in results:
        assert (ahead == averages[0] / 2 + averages[1] / 2).all()
        assert (ahead == model).all()


def test_the_warmup_ends_without_a_call_if_block_steps_is_none():
    def work(rank):
        module = linear()
        optimizer = OPTIMIZERS["adam"](module.parameters())
        model = BlockMomentum(module, optimizer, block_steps=None, warmup=3)
        fit(model, optimizer, rank, range(3))
        return vector_of(module)

    expected, *results = run_in_threads(3, work)
    for weights in results:
        assert (weights == expected).all()


class BufferedModule(torch.nn.Module):
    """Batch normalisation, an infinite mask that never changes, a constant, and a frozen weight."""

    def __init__(self, rank):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(INPUTS)
        self.frozen = torch.nn.Parameter(torch.full((2,), float(rank)), requires_grad=False)
        self.register_buffer("mask", torch.tensor([0.0, -torch.inf]))
        self.register_buffer("constant", torch.tensor([0.1 * (rank + 1)]))

    def forward(self, inputs):
        return self.norm(inputs)


def test_buffers_are_averaged_and_constants_come_from_the_first_worker():
    def work(rank):
        module = BufferedModule(rank)
        optimizer = torch.optim.SGD(module.norm.parameters(), lr=0.1)
        model = BlockMomentum(module, optimizer, block_steps=2)
        for step in range(2):
            model(torch.from_numpy(batch(rank, step)[0]).float()).square().mean().backward()
            optimizer.step()
        return module.state_dict()

    states = run_in_threads(3, work)
    mean = np.zeros(INPUTS)
    for rank in range(3):
        worker_mean = np.zeros(INPUTS)
        for step in range(2):
            worker_mean = 0.9 * worker_mean + 0.1 * batch(rank, step)[0].mean(0)
        mean += worker_mean / 3
    for state in states:
        np.testing.assert_allclose(state["norm.running_mean"], mean, atol=1e-6)
        assert state["norm.num_batches_tracked"] == 2
        assert state["mask"].tolist() == [0.0, -torch.inf]
        assert torch.equal(state["constant"], torch.tensor([0.1]))
        assert state["frozen"].tolist() == [0.0, 0.0]


class AssigningModule(torch.nn.Module):
    """A module that assigns a new tensor to its buffer in each step."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))
        self.register_buffer("mean", torch.zeros(1))

    def forward(self, inputs):
        self.mean = (self.mean + inputs.mean()) / 2
        return self.scale * inputs


def test_buffers_that_a_module_assigns_are_averaged():
    def work(rank):
        module = AssigningModule()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        model = BlockMomentum(module, optimizer, block_steps=2)
        for _ in range(4):
            model(torch.full((3,), rank + 1.0)).sum().backward()
            optimizer.step()
        return module.mean.item()

    assert run_in_threads(2, work) == [pytest.approx(1.5 * (1 - 0.5**4))] * 2


def test_complex_weights_are_averaged_with_their_imaginary_parts():
    def work(rank):
        weight = torch.nn.Parameter(torch.full((2,), 1 + 1j + rank))
        module = torch.nn.ParameterList([weight])
        optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
        BlockMomentum(module, optimizer, momentum=0.0, rate=1.0, block_steps=1)
        weight.grad = torch.full((2,), (2 + 4j) * rank)
        optimizer.step()
        return weight.tolist()

    assert run_in_threads(2, work) == [[1 + 1j - (1 + 2j)] * 2] * 2


def test_half_precision_weights_accumulate_changes_below_their_rounding():
    def work(rank):
        module = torch.nn.Linear(1, 1, bias=False, dtype=torch.float16)
        torch.nn.init.constant_(module.weight, 1.0)
        optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
        model = BlockMomentum(module, optimizer, momentum=0.0, rate=0.25, block_steps=1)
        for _ in range(8):
            module.weight.grad = torch.full((1, 1), -0.001, dtype=torch.float16)  # one unit in the last place
            optimizer.step()
        assert module.weight.dtype == torch.float16
        return model.update.weights.item(), module.weight.item()

    for master, weight in run_in_threads(2, work):
        assert master == pytest.approx(1 + 8 * 0.25 * 2**-10, abs=1e-7)
        assert weight == 1 + 2 * 2**-10


@pytest.mark.parametrize(("at", "block_optimizer"), [(3, "keep"), (9, "average"), (13, "keep")])
def test_training_resumed_from_a_state_is_bit_identical(at, block_optimizer):
    options = {"block_steps": 5, "warmup": 4, "block_optimizer": block_optimizer}

    def work(rank):
        module = linear(torch.float32)
        optimizer = OPTIMIZERS["adam"](module.parameters())
        model = BlockMomentum(module, optimizer, **options)
        fit(model, optimizer, rank, range(at), torch.float32)
        file = io.BytesIO()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
        fit(model, optimizer, rank, range(at, STEPS), torch.float32)
        file.seek(0)
        state = torch.load(file, weights_only=True)
        second_module = torch.nn.Linear(INPUTS, OUTPUTS)
        second_optimizer = OPTIMIZERS["adam"](second_module.parameters())
        weights = BlockMomentum(second_module, second_optimizer, **options)
        weights.load_state_dict(state["model"])
        second_optimizer.load_state_dict(state["optimizer"])
        fit(weights, second_optimizer, rank, range(at, STEPS), torch.float32)
        for wrapper in (model, weights):
            wrapper.synchronize()
            wrapper.synchronize()  # has no effect, because no step was made since
        with model.result(), weights.result():
            return vector_of(module), vector_of(second_module)

    for expected, weights in run_in_threads(WORKERS, work):
        assert (expected == weights).all()


def test_the_result_is_loaded_only_inside_the_context():
    module = linear()
    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        optimizer = OPTIMIZERS["adam"](module.parameters())
        model = BlockMomentum(module, optimizer, momentum=0.5, rate=1.0, block_steps=3)
        fit(model, optimizer, 0, range(7))
        expected = copy.deepcopy(module.state_dict())
        with model.result():
            assert not torch.equal(module.weight, expected["weight"])
        assert torch.equal(module.weight, expected["weight"])
    finally:
        dist.destroy_process_group()


def test_optimisers_with_different_states_are_refused_on_all_workers():
    def work(rank):
        module = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)])
        optimizer = OPTIMIZERS["adam"](module.parameters())
        BlockMomentum(module, optimizer, block_steps=1)
        module[0](torch.ones(1, 2)).sum().backward()
        if rank:
            module[1](torch.ones(1, 2)).sum().backward()
        with pytest.raises(
            WorkerError, match="the workers share between 24 and 36 values, but must share the same number"
        ):
            optimizer.step()

    run_in_threads(2, work)


@pytest.mark.parametrize("wrapper", [BlockMomentum, PairwiseAveraging])
def test_weights_added_to_the_optimiser_after_wrapping_are_refused(wrapper):
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        module, second_module = linear(), linear()
        optimizer = OPTIMIZERS["sgd"](module.parameters())
        model = wrapper(module, optimizer)
        fit(model, optimizer, 0, range(1))
        optimizer.add_param_group({"params": second_module.parameters()})
        with pytest.raises(
            OptionError, match="had 2 weight tensors when the module was wrapped, and now has 4; add all"
        ):
            optimizer.step()
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"momentum": 1.0}, r"momentum is 1.0, but must be in \[0, 1\)"),
        ({"rate": 0.0}, "rate is 0.0, but must be above 0"),
        ({"block_steps": 0}, "block_steps is 0, but must be 1 or more"),
        ({"warmup": -1}, "warmup is -1, but must be 0 or more"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    module = linear()
    with pytest.raises(OptionError, match=message):
        BlockMomentum(module, OPTIMIZERS["sgd"](module.parameters()), **options)


# GPUs


@pytest.mark.parametrize(
    ("device", "backend"), [("cpu", "gloo"), ("cuda", "cpu:gloo,cuda:nccl"), ("cuda:3", "cpu:gloo,cuda:nccl")]
)
def test_weights_of_gpus_are_sent_by_nccl_and_counters_by_gloo(monkeypatch, device, backend):
    backends = []

    def init(backend, **options):
        backends.append(backend)
        init_process_group("cpu:gloo,cuda:fake" if "nccl" in backend else backend, **options)

    init_process_group = dist.init_process_group
    monkeypatch.setattr(dist, "init_process_group", init)
    with launch.single_group(device) as workers:
        assert workers.total(3.0) == [3.0]
    assert backends == [backend]


def test_64_workers_send_two_messages_per_block_on_the_device_of_the_weights(monkeypatch):
    messages = []

    def record(vector, *arguments, group):
        messages.append((vector.device.type, vector.dtype, len(vector)))
        return all_reduce(vector, *arguments, group=group)

    all_reduce = dist.all_reduce
    monkeypatch.setattr(dist, "all_reduce", record)
    dist.init_process_group("fake", store=FakeStore(), rank=5, world_size=64)
    try:
        module = torch.nn.Linear(INPUTS, OUTPUTS, device="meta")
        optimizer = OPTIMIZERS["momentum"](module.parameters())
        monkeypatch.setattr(BlockMomentum, "_check_sizes", lambda self, size: None)  # meta tensors have no values
        model = BlockMomentum(module, optimizer, block_steps=2)
        for _ in range(6):
            model(torch.ones(1, INPUTS, device="meta")).sum().backward()
            optimizer.step()
    finally:
        dist.destroy_process_group()
    size = OUTPUTS * (INPUTS + 1)
    assert messages == [("meta", torch.float32, 2 * size)] * 3  # weights and momentum, once per block
