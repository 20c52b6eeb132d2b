"""Options, progress reports and result of language model training; this module does not import torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from ninja.errors import (
    MAX_JOBS,
    MAX_LEARNING_RATE,
    MAX_WIDTH,
    OptionError,
    check_count,
    check_range,
    described,
    documented,
)
from ninja.lm.stored_network import MAX_LAYERS

Architecture = Literal["lstm", "transformer"]
Parallel = Literal["none", "ssgd", "ma", "bmuf", "adpsgd", "h-adpsgd"]
Precision = Literal["auto", "float32", "bfloat16"]
AtBlockEnd = Literal["average", "keep", "reset"]


@documented
@dataclass(frozen=True, slots=True)
class TrainOptions:
    """Options for training; the shipped English model was trained with the default sizes and rates."""

    architecture: Architecture = described("lstm", "Type of the network.")
    vocabulary: int = described(32_700, "Maximum number of words, including <s>, </s> and <unk>.")
    min_count: int = described(2, "Replace words that occur less often than this with <unk>.")
    embedding: int = described(256, "Width of embeddings and, without --projection, of each layer's output.")
    hidden: int = described(768, "Number of LSTM cells per layer, or width of the hidden layer in a Transformer block.")
    projection: int = described(
        0, "Width of each LSTM layer's output; 0 means the smaller of --embedding and --hidden."
    )
    layers: int = described(2, "Number of LSTM layers or Transformer blocks.")
    heads: int = described(
        4, "Number of attention heads per Transformer block; --embedding must be a multiple of twice this number."
    )
    dropout: float = described(0.1, "Fraction of the activations that are dropped in training.")

    init: str | None = described(
        None, "Start with the weights, vocabulary and sizes of a checkpoint, or of the shipped model 'english'."
    )
    epochs: float = described(4.5, "Number of passes over the text, during which the learning rate decreases to 0.")
    max_minutes: float | None = described(None, "Stop after this many minutes.")
    batch_tokens: int = described(4096, "Maximum number of tokens per batch, including padding.")
    learning_rate: float = described(2e-3, "Maximum learning rate, which is reached after the warm-up.")
    warmup: int = described(300, "Number of warm-up steps, during which the learning rate increases.")
    clip: float = described(1.0, "Maximum norm of the gradient.")
    samples: int = described(
        4096, "Mean number of words sampled for the softmax in training; 0 uses the whole vocabulary."
    )
    self_normalize: float = described(
        0.0, "Weight of the squared log-normaliser in the loss; with 0.1, scoring needs no softmax."
    )

    normaliser: int = described(
        0,
        "LSTM: width, such as 256, of layers that are trained last and estimate the log-normaliser, so that scoring "
        "needs no softmax; 0 for no such layers.",
    )

    workers: int = described(
        1, "Number of processes that train together; omit this under torchrun, which starts the processes."
    )
    parallel: Parallel = described("none", "Method that combines the updates of workers; see docs/training.md.")
    block_steps: int = described(
        50, "ma, bmuf: number of steps of each worker per block, after which weights are averaged."
    )
    block_momentum: float | None = described(None, "bmuf: block momentum.  [default: 1 - 1/workers]")
    block_rate: float = described(
        1.0, "bmuf: long-term effect of a block on the weights, relative to the sum of its workers' updates."
    )
    classical_momentum: bool = described(False, "bmuf: use classical instead of Nesterov block momentum.")
    block_optimizer: AtBlockEnd = described("average", "ma, bmuf: treatment of Adam's moments at the end of a block.")
    block_warmup: int = described(0, "ma, bmuf: number of steps that a single worker takes before the first block.")
    node_size: int | None = described(
        None, "h-adpsgd: number of workers per node.  [default: all workers of a machine]"
    )

    check_steps: int = described(1000, "Number of steps between evaluations on the held-out text.")
    patience: int = described(5, "Stop after this many consecutive evaluations without a lower perplexity.")
    seed: int = described(1, "Random seed.")
    resume: bool = described(
        False,
        "Resume an interrupted training run from its state file, whose name is the name of the output plus .state.",
    )
    precision: Precision = described(
        "auto", "Precision of matrix products; auto is bfloat16 if the processor or GPU supports it, else float32."
    )
    device: str = described("auto", "Torch device: cpu, cuda, cuda:1, …; auto uses cuda if torch can use it.")
    threads: int | None = described(None, "Number of torch threads.  [default: chosen by torch]")

    def __post_init__(self) -> None:
        lowest = {"vocabulary": 4, "min_count": 1, "batch_tokens": 1, "check_steps": 1, "warmup": 0, "samples": 0}
        lowest |= {"patience": 1, "seed": 0, "block_steps": 1, "block_warmup": 0}
        for name, least in lowest.items():
            check_count(name, getattr(self, name), least=least)
        for name, least in {"embedding": 1, "hidden": 1, "projection": 0, "heads": 1, "normaliser": 0}.items():
            check_count(name, getattr(self, name), least=least, most=MAX_WIDTH)
        check_count("layers", self.layers, least=1, most=MAX_LAYERS)
        check_range("learning_rate", self.learning_rate, above=0, most=MAX_LEARNING_RATE)
        check_range("self_normalize", self.self_normalize, least=0, finite=True)
        check_range("block_rate", self.block_rate, above=0, most=MAX_LEARNING_RATE)
        check_count("workers", self.workers, least=1, most=MAX_JOBS)
        for name in ("epochs", "clip", "max_minutes", "node_size"):
            if getattr(self, name) is not None:
                check_range(name, getattr(self, name), above=0)
        if self.threads is not None:
            check_count("threads", self.threads, least=1, most=MAX_JOBS)
        if self.epochs == math.inf:
            raise OptionError("epochs is inf, but must be finite; use max_minutes or patience to end training")
        if not 0 <= self.dropout < 1:
            raise OptionError(f"dropout is {self.dropout}, but must be in [0, 1)")
        if self.block_momentum is not None and not 0 <= self.block_momentum < 1:
            raise OptionError(f"block_momentum is {self.block_momentum}, but must be in [0, 1)")
        kinds = {"architecture": Architecture, "parallel": Parallel, "block_optimizer": AtBlockEnd}
        for name, kind in (*kinds.items(), ("precision", Precision)):
            if getattr(self, name) not in get_args(kind):
                names = ", ".join(get_args(kind))
                raise OptionError(f"{name} is {getattr(self, name)!r}, but must be one of {names}")
        if self.workers > 1 and self.parallel == "none":
            raise OptionError(f"workers is {self.workers}, but parallel is none; choose a method, such as bmuf")
        if self.projection and (self.architecture != "lstm" or self.projection >= min(self.embedding, self.hidden)):
            condition = "only an lstm can have a projection, which must be smaller than embedding and hidden"
            raise OptionError(f"projection is {self.projection}, but {condition}")
        if self.architecture != "lstm" and self.normaliser:
            raise OptionError(f"normaliser is {self.normaliser}, but only an lstm can have a normaliser")
        if self.architecture == "transformer" and self.embedding % (2 * self.heads):
            raise OptionError(f"embedding is {self.embedding}, but must be a multiple of 2 * heads = {2 * self.heads}")

    def num_weights(self, vocabulary: int) -> int:
        """Return a lower bound on the number of weights in a network with `vocabulary` words."""
        if self.architecture == "lstm":
            layer = 8 * self.hidden * min(self.projection or self.embedding, self.hidden)
        else:
            layer = 4 * self.embedding**2 + 2 * self.embedding * self.hidden
        return vocabulary * self.embedding + self.layers * layer + self.normaliser**2


# Options whose values are determined by the initial checkpoint.
SIZES = frozenset(
    {"architecture", "vocabulary", "min_count", "embedding", "hidden", "projection", "layers", "heads", "normaliser"}
)

# Options that may change when training is resumed.
CHANGEABLE = ("init", "epochs", "max_minutes", "normaliser", "patience", "resume", "device", "threads")


@dataclass(frozen=True, slots=True)
class Progress:
    """A progress report, which is passed to the caller's `progress` function."""

    step: int
    num_steps: int  # planned number; fewer if the time limit is reached
    epoch: float
    minutes: float
    words_per_second: float
    loss: float  # nats per token, mean since the last report; only roughly comparable, because the softmax is sampled
    learning_rate: float
    perplexity: float | None  # on the held-out text, if it has just been measured
    best: bool  # whether the perplexity is the lowest so far, and the checkpoint has just been written
    communication: float = 0.0  # fraction of this worker's time that communication adds to computation
    staleness: float | None = None  # adpsgd: mean number of steps that others began while a gradient was computed


@dataclass(frozen=True, slots=True)
class Trained:
    """The result of a training run."""

    perplexity: float  # on the held-out text, with the weights in their storage precision
    unknown: float  # fraction of the held-out words that are outside the vocabulary
    step: int  # step of the stored weights
    minutes: float
    output: str
    num_held_out: int = 0  # number of sentences held out from the training text, if there is no held-out text
