"""Measure a step of training, and simulate how fast N workers are.

    python -m benchmarks.training speed TRAIN [--link 1.25e9] [--latency 50e-6] [--node-link 10e9]

Measured are the seconds of a step on one core of this machine, their spread, and the bytes of the weights; the network
is described by options. ``benchmarks.training tables`` puts the tables into docs/training.md.

Each worker's step takes a time drawn around its mean. Waiting depends on the method:

- SSGD: every step is as long as the slowest worker's, and an all-reduce of the gradients, of which the backward pass
  hides a part;
- MA and BMUF: every block is as long as the slowest worker's, and an all-reduce of weights and moments;
- ADPSGD: no worker waits; weights are sent while gradients are computed, and exchanges that are too slow are skipped;
- H-ADPSGD: as SSGD within a node, over its own faster link, and as ADPSGD between nodes.

A ring all-reduce of B bytes over N workers sends 2 B (N − 1) / N from each, in 2 (N − 1) messages.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch

from benchmarks.command import argument, command, option
from benchmarks.tables import head, row
from ninja.train import loop
from ninja.train.corpus import Choice, open_corpus
from ninja.train.order import Order
from ninja.train.recipe import TrainOptions
from ninja.train.step import gradient, make_sampler, update


@dataclass(frozen=True)
class Machines:
    """Workers and the network between them; the defaults are a small cluster of GPUs."""

    step: float = 0.1  # seconds that a step's computation takes
    spread: float = 0.05  # standard deviation of a step's time over its mean
    weights: float = 50e6  # bytes of weights in single precision
    link: float = 1.25e9  # bytes a second between machines; 10 Gb/s
    latency: float = 50e-6  # seconds of a message
    node_link: float = 10e9  # bytes a second within a node
    hidden: float = 0.5  # share of a step in which SSGD's all-reduce can hide: most of the backward pass
    block_steps: int = 50
    block_tensors: int = 3  # vectors averaged after a block: weights and Adam's two moments; 1 where moments stay
    slow: float = 1.0  # times as long that one worker's steps take


def measure(train_text: str, options: TrainOptions, steps: int = 12, machines: Machines | None = None) -> Machines:
    """Measure steps of a training on one core of this machine, in CPU time: other work does not count."""
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    corpus = open_corpus(train_text, Choice(options.vocabulary, options.min_count, hold_out=False))
    module = loop._make(options, len(corpus.words))
    module.initialise()
    order = Order(corpus.sentences, options.batch_tokens, options.seed)
    sampler = make_sampler(order, len(corpus.words), options.samples)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.0, fused=True)
    seconds = []
    for number in range(steps + 2):
        begin = time.process_time()
        gradient(module, order, number, sampler, options)
        update(module, optimizer, options.learning_rate, options, number)
        seconds.append(time.process_time() - begin)
    later = np.array(seconds[2:])  # the first ones also allocate
    weights = 4 * sum(weight.numel() for weight in module.parameters())
    mean, deviation = float(later.mean()), float(later.std())
    return replace(machines or Machines(), step=mean, spread=deviation / mean, weights=weights)


def all_reduce(workers: int, size: float, link: float, latency: float) -> float:
    """Return the seconds of a ring all-reduce."""
    return 2 * (workers - 1) / workers * size / link + 2 * (workers - 1) * latency


def speed_up(method: str, workers: int, machines: Machines, *, node_size: int = 1, steps: int = 2000) -> float:
    """Return the steps a second of N workers, relative to a single worker of normal speed."""
    random = np.random.default_rng(1)
    step_seconds = machines.step * np.maximum(0.1, 1 + machines.spread * random.standard_normal((steps, workers)))
    step_seconds[:, 0] *= machines.slow
    if method == "ssgd":
        exposed = max(0.0, all_reduce(workers, machines.weights, machines.link, machines.latency) - _hidden(machines))
        seconds = step_seconds.max(1).sum() + steps * exposed
        return steps * workers * machines.step / seconds
    if method in ("ma", "bmuf"):
        blocks = step_seconds[: steps // machines.block_steps * machines.block_steps].reshape(
            -1, machines.block_steps, workers
        )
        size = machines.weights * machines.block_tensors
        exposed = all_reduce(workers, size, machines.link, machines.latency)
        seconds = blocks.sum(1).max(1).sum() + len(blocks) * exposed
        return blocks.shape[0] * blocks.shape[1] * workers * machines.step / seconds
    if method not in ("adpsgd", "h-adpsgd"):
        raise ValueError(f"method is {method!r}; it must be ssgd, ma, bmuf, adpsgd or h-adpsgd")
    size = node_size if method == "h-adpsgd" else 1
    exposed = max(0.0, all_reduce(size, machines.weights, machines.node_link, machines.latency) - _hidden(machines))
    # Leaders give the weights to their node before each step: a broadcast.
    exposed += 0.0 if size == 1 else machines.weights / machines.node_link
    nodes = step_seconds.reshape(steps, -1, size).max(2) + exposed  # [steps, nodes]
    return float((size * machines.step / nodes.mean(0)).sum())


def exchanges_per_step(machines: Machines) -> float:
    """Return the share of a learner's steps that are followed by an exchange before the next one."""
    return min(1.0, machines.step / (2 * machines.weights / machines.link + 2 * machines.latency))


def _hidden(machines: Machines) -> float:
    return machines.hidden * machines.step


PUBLISHED = {  # speed-ups; sources in docs/training.md
    "bmuf": {8: 6.9, 16: 13.2, 32: 26.7, 64: 51.3},
    "bmuf, Chen and Huo": {8: 7.3, 16: 15.3, 32: 28.4, 64: 56.2},
    "h-adpsgd": {64: 40.0},
}


def table(clusters: dict[str, Machines], node_size: int = 4) -> list[str]:
    """Return the speed-ups at 8 to 64 workers as the lines of a table, with the published ones.

    Args:
        clusters: The machines to simulate, by their names in the table.
    """
    sizes = (8, 16, 32, 64)
    lines = head("", *sizes)
    for method, (cluster, machines) in product(("ssgd", "bmuf", "adpsgd", "h-adpsgd"), clusters.items()):
        factors = (speed_up(method, size, machines, node_size=node_size) for size in sizes)
        lines.append(row(f"{method}, {cluster}", *(f"{factor:.1f}" for factor in factors)))
    for name, published in PUBLISHED.items():
        lines.append(row(f"{name}, published", *(published.get(size, "") for size in sizes)))
    return lines


@command
@argument("train", type=str)
@option("--link", default=Machines.link, help="Bytes a second between machines.")
@option("--latency", default=Machines.latency, help="Seconds of a message.")
@option("--node-link", default=Machines.node_link, help="Bytes a second within a node.")
def main(train: str, **network: float) -> None:
    machines = measure(train, TrainOptions(device="cpu"), machines=Machines(**network))
    print(f"step {machines.step:.2f} s, spread {machines.spread:.1%}, weights {machines.weights / 1e6:.1f} MB")
    print(*table({"simulated": machines}), sep="\n")
