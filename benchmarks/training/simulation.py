"""Simulate a training by N workers, one after the other in one process: the slow twin of `ninja.train.parallel`.

The recursions are the papers', in NumPy. Gradients, Adam and the order of the batches are those of the real training.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from ninja.errors import ModelError
from ninja.lm import checkpoint
from ninja.lm.text import Sentences
from ninja.train import loop
from ninja.train.objective import perplexity
from ninja.train.order import Order
from ninja.train.recipe import TrainOptions
from ninja.train.step import gradient, learning_rate, make_sampler, update


@dataclass
class Block:
    """The recursion of Chen and Huo, in their notation."""

    wg: np.ndarray
    momentum: float
    rate: float
    nesterov: bool

    def __post_init__(self):
        self.w = self.wg.copy()
        self.delta = np.zeros_like(self.wg)

    def apply(self, mean):
        """Take the mean of the workers' weights; return where the next block begins."""
        self.delta = self.momentum * self.delta + self.rate * (mean - self.wg)
        self.w = self.w + self.delta
        self.wg = self.w + self.momentum * self.delta if self.nesterov else self.w.copy()
        return self.wg


@dataclass
class Learner:
    """The weights and the optimiser of one simulated worker."""

    module: torch.nn.Module
    optimizer: torch.optim.Adam

    @property
    def weights(self):
        """All weights, one vector."""
        return torch.cat([weight.detach().reshape(-1) for weight in self.module.parameters()]).numpy()

    @weights.setter
    def weights(self, vector):
        place = 0
        with torch.no_grad():
            for weight in self.module.parameters():
                weight.copy_(torch.from_numpy(vector[place : place + weight.numel()]).view_as(weight))
                place += weight.numel()

    def moments(self, name):
        """Return Adam's moments of all weights."""
        return [self.optimizer.state[weight][name] for weight in self.module.parameters()]


class Simulation:
    """N workers in one process.

    Args:
        module: Fresh weights; every worker gets a copy.
        options: Of the training; `workers`, `parallel` and the options of blocks among them.
        ring: Partners of ``adpsgd`` are the two neighbours by turns, instead of random ones.
        watch: Called with the number of batches taken, after each step or block, when `result` has been set.
    """

    def __init__(
        self,
        module,
        sentences: Sentences,
        options: TrainOptions,
        *,
        ring: bool = False,
        watch: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.options = options
        self.ring, self.watch = ring, watch
        self.order = Order(sentences, options.batch_tokens, options.seed)
        self.sampler = make_sampler(self.order, module.config.vocabulary, options.samples)
        self.learners = []
        for _ in range(options.workers):
            copied = copy.deepcopy(module)
            optimizer = torch.optim.Adam(copied.parameters(), lr=0.0, betas=(0.9, 0.99), fused=True)
            self.learners.append(Learner(copied, optimizer))
        self.begin = self.result = self.learners[0].weights.copy()  # where training would go on, and where it ends
        early = options.block_warmup if options.parallel in ("ma", "bmuf") else 0
        batches = max(1, round(options.epochs * self.order.epoch_batches))
        self.early = min(early, batches)
        self.total = batches - (batches - self.early) % options.workers

    def run(self):
        """Train to the end; return the module with the final weights."""
        if self.options.parallel in ("adpsgd", "h-adpsgd"):
            self._adpsgd()
        elif self.options.parallel in ("ma", "bmuf"):
            self._blocks()
        else:
            self._ssgd()
        module = self.learners[0].module
        self.learners[0].weights = self.result
        return module

    def _rate(self, at, step):
        return learning_rate(self.options, step, at / self.total)

    def _step(self, learner, number, at, step):
        gradient(learner.module, self.order, number, self.sampler, self.options)
        update(learner.module, learner.optimizer, self._rate(at, step), self.options, step)

    def _ssgd(self):
        size = self.options.workers
        for step, at in enumerate(range(0, self.total, size)):
            together = range(at, at + size)
            for learner, number in zip(self.learners, together, strict=True):
                gradient(learner.module, self.order, number, self.sampler, self.options, together=together)
            for weights in zip(*(learner.module.parameters() for learner in self.learners), strict=True):
                mean = sum(weight.grad / size for weight in weights)
                for weight in weights:
                    weight.grad = mean.clone()
            for learner in self.learners:
                update(learner.module, learner.optimizer, self._rate(at, step), self.options, step)
            self.begin = self.result = self.learners[0].weights.copy()
            self.watch(at + size)

    def _blocks(self):
        options, size = self.options, self.options.workers
        for at in range(self.early):
            self._step(self.learners[0], at, at, at)
            self.result = self.learners[0].weights.copy()
            self.watch(at + 1)
        for learner in self.learners[1:] if self.early else ():
            learner.weights = self.learners[0].weights.copy()
            learner.optimizer.load_state_dict(copy.deepcopy(self.learners[0].optimizer.state_dict()))
        if options.parallel == "ma":
            momentum, rate = 0.0, 1.0
        else:
            momentum = 1 - 1 / size if options.block_momentum is None else options.block_momentum
            rate = options.block_rate * size * (1 - momentum)
        block = Block(self.learners[0].weights.copy(), momentum, rate, not options.classical_momentum)
        for first in range(self.early, self.total, options.block_steps * size):
            for at in range(first, min(first + options.block_steps * size, self.total), size):
                step = self.early + (at - self.early) // size
                for rank, learner in enumerate(self.learners):
                    self._step(learner, at + rank, at, step)
            begin = block.apply(sum(learner.weights / size for learner in self.learners)).astype(np.float32)
            for learner in self.learners:
                learner.weights = begin
            self._moments_at_block_end()
            self.begin, self.result = begin, block.w.astype(np.float32)
            self.watch(min(first + options.block_steps * size, self.total))

    def _moments_at_block_end(self):
        if self.options.block_optimizer == "reset":
            for learner in self.learners:
                learner.optimizer.state.clear()
        if self.options.block_optimizer == "average":
            for name in ("exp_avg", "exp_avg_sq"):
                for moments in zip(*(learner.moments(name) for learner in self.learners), strict=True):
                    mean = sum(moment / self.options.workers for moment in moments)
                    for moment in moments:
                        moment.copy_(mean)

    def _adpsgd(self):
        """Run the learners by turns; each averages with a partner while it computes. A node is one learner."""
        node = self.options.node_size or 1
        learners = self.learners[:: node if self.options.parallel == "h-adpsgd" else 1]
        node = self.options.workers // len(learners)
        random = np.random.default_rng(self.options.seed)
        for at in range(0, self.total, self.options.workers):
            for index, number in enumerate(random.permutation(len(learners))):
                learner = learners[number]
                before = learner.weights.copy()
                first = at + index * node
                self._node_step(learner, range(first, first + node), at)
                change = learner.weights - before
                if len(learners) > 1:
                    # The partner takes part before this step is added: averaging goes on while gradients are computed.
                    offset = (1, -1)[at // self.options.workers % 2] if self.ring else random.integers(1, len(learners))
                    partner = learners[int((number + offset) % len(learners))]
                    before = (before + partner.weights) / 2
                    partner.weights = before
                learner.weights = before + change
            self.begin = self.result = sum(learner.weights / len(learners) for learner in learners).astype(np.float32)
            self.watch(at + self.options.workers)

    def _node_step(self, learner, together, at):
        means = [torch.zeros_like(weight) for weight in learner.module.parameters()]
        for number in together:
            gradient(learner.module, self.order, number, self.sampler, self.options, together=together)
            for mean, weight in zip(means, learner.module.parameters(), strict=True):
                mean += weight.grad / len(together)
        for mean, weight in zip(means, learner.module.parameters(), strict=True):
            weight.grad = mean
        step = at // self.options.workers
        update(learner.module, learner.optimizer, self._rate(at, step), self.options, step)

    def perplexity(self, dev: Sentences) -> float:
        """Measure the result, as it would be stored."""
        module = copy.deepcopy(self.learners[0].module)
        Learner(module, self.learners[0].optimizer).weights = self.result
        return perplexity(checkpoint.as_stored(module), dev)


def curve(
    options: TrainOptions, corpus, dev: Sentences, points: int = 1, *, ring: bool = False
) -> list[tuple[int, float]]:
    """Simulate a training; return the words seen and the perplexity at equal distances, inf after it has diverged."""
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    module = loop._make(options, len(corpus.words))
    module.initialise()
    measured: list[tuple[int, float]] = []

    def watch(at: int) -> None:
        if at * points // simulation.total > len(measured):
            try:
                perplexity = simulation.perplexity(dev)
            except OverflowError:
                perplexity = math.inf
            measured.append((simulation.order.num_words(range(at)), perplexity))

    simulation = Simulation(module, corpus.sentences, options, ring=ring, watch=watch)
    try:
        simulation.run()
    except ModelError:
        measured.append((simulation.order.num_words(range(simulation.total)), math.inf))
    return measured
