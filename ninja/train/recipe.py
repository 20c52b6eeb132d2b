"""Options, progress and result of training a language model; without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from ninja.errors import OptionError, described, documented

Architecture = Literal["lstm", "transformer"]
Parallel = Literal["none", "ssgd", "ma", "bmuf", "adpsgd", "h-adpsgd"]
Precision = Literal["auto", "float32", "bfloat16"]
AtBlockEnd = Literal["average", "keep", "reset"]


@documented
@dataclass(frozen=True, slots=True)
class TrainOptions:
    """Options of training a model; sizes and rates default to those of the shipped English model."""

    architecture: Architecture = described("lstm", "Kind of network.")
    vocabulary: int = described(32_700, "Most words, <s>, </s> and <unk> included.")
    min_count: int = described(2, "Replace words rarer than this with <unk>.")
    embedding: int = described(256, "Width of embeddings and, without --projection, of each layer's output.")
    hidden: int = described(768, "LSTM cells per layer, or width of a Transformer's hidden layers.")
    projection: int = described(0, "LSTM: width of each layer's output; 0: as --embedding, at most --hidden.")
    layers: int = described(2, "LSTM layers or Transformer blocks.")
    heads: int = described(4, "Attention heads of each Transformer block; twice as many must divide --embedding.")
    dropout: float = described(0.1, "Share of activations dropped in training.")

    init: str | None = described(
        None, "Checkpoint, or english, whose weights, vocabulary and sizes the training starts with."
    )
    epochs: float = described(4.5, "Passes over the text; the learning rate falls to 0 at their end.")
    max_minutes: float | None = described(None, "Stop after this many minutes.")
    batch_tokens: int = described(4096, "Tokens per step, padding included.")
    learning_rate: float = described(2e-3, "Highest learning rate, reached after the warm-up.")
    warmup: int = described(300, "Steps in which the learning rate rises.")
    clip: float = described(1.0, "Largest norm of the gradient.")
    samples: int = described(4096, "Words sampled for the softmax in training; 0 takes the whole vocabulary.")
    self_normalize: float = described(0.0, "Weight of the squared log-normaliser; 0.1 makes scores need no softmax.")

    normaliser: int = described(
        0,
        "LSTM: width of layers that estimate the log-normaliser, trained at the end; 256 makes scores need no softmax.",
    )

    workers: int = described(1, "Processes that train together; under torchrun, as many as it starts.")
    parallel: Parallel = described("none", "How workers combine their updates; see docs/training.md.")
    block_steps: int = described(50, "ma, bmuf: steps of each worker between two averages.")
    block_momentum: float | None = described(None, "bmuf: momentum of blocks.  [default: 1 - 1/workers]")
    block_rate: float = described(1.0, "bmuf: long-run weight of a block over that of its workers' summed updates.")
    classical_momentum: bool = described(False, "bmuf: begin blocks where the last ended, not ahead of it.")
    block_optimizer: AtBlockEnd = described("average", "ma, bmuf: treatment of Adam's moments after a block.")
    block_warmup: int = described(0, "ma, bmuf: steps of one worker alone before the first block.")
    node_size: int | None = described(None, "h-adpsgd: workers per node.  [default: those of a machine]")

    check_steps: int = described(1000, "Steps between two measurements on the held-out text.")
    patience: int = described(5, "Stop after this many measurements without a better perplexity.")
    seed: int = described(1, "Seed of all random numbers.")
    resume: bool = described(False, "Resume an interrupted training from FILE.state.")
    precision: Precision = described(
        "auto", "Of products; auto is bfloat16 where the processor or GPU has instructions for it, else float32."
    )
    device: str = described("auto", "Where torch computes: cpu, cuda, cuda:1, …; auto is cuda if torch can use it.")
    threads: int | None = described(None, "Number of PyTorch threads.  [default: PyTorch's]")

    def __post_init__(self) -> None:
        lowest = {"vocabulary": 4, "min_count": 1, "embedding": 1, "layers": 1, "batch_tokens": 1, "check_steps": 1}
        lowest |= {"hidden": 1, "heads": 1, "warmup": 0, "samples": 0, "patience": 1, "seed": 0, "self_normalize": 0}
        lowest |= {"normaliser": 0, "workers": 1, "block_steps": 1, "block_warmup": 0}
        for name, least in lowest.items():
            if not getattr(self, name) >= least:
                raise OptionError(f"{name} is {getattr(self, name)}; it must be at least {least}")
        for name in ("epochs", "learning_rate", "clip", "max_minutes", "threads", "block_rate", "node_size"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise OptionError(f"{name} is {value}; it must be above 0")
        if not 0 <= self.dropout < 1:
            raise OptionError(f"dropout is {self.dropout}; it must be in [0, 1)")
        if self.block_momentum is not None and not 0 <= self.block_momentum < 1:
            raise OptionError(f"block_momentum is {self.block_momentum}; it must be in [0, 1)")
        kinds = {"architecture": Architecture, "parallel": Parallel, "block_optimizer": AtBlockEnd}
        for name, kind in (*kinds.items(), ("precision", Precision)):
            if getattr(self, name) not in get_args(kind):
                known = ", ".join(get_args(kind))
                raise OptionError(f"{name} is {getattr(self, name)!r}; it must be one of {known}")
        if self.workers > 1 and self.parallel == "none":
            raise OptionError(f"workers is {self.workers}, but parallel is none; bmuf is a good first choice")
        least = min(self.embedding, self.hidden)
        if not 0 <= self.projection < least or (self.projection and self.architecture != "lstm"):
            message = f"projection is {self.projection}; only an lstm takes one, of less than its embedding and cells"
            raise OptionError(message)
        if self.architecture != "lstm" and self.normaliser:
            raise OptionError(f"normaliser is {self.normaliser}, but only an lstm can estimate its normaliser")
        if self.architecture == "transformer" and self.embedding % (2 * self.heads):
            raise OptionError(f"embedding is {self.embedding}; it must be a multiple of twice the {self.heads} heads")


# Options that a checkpoint determines with which a training starts.
SIZES = frozenset(
    {"architecture", "vocabulary", "min_count", "embedding", "hidden", "projection", "layers", "heads", "normaliser"}
)

# Options that may change when a training is resumed.
CHANGEABLE = ("init", "epochs", "max_minutes", "normaliser", "patience", "resume", "device", "threads")


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a training, passed to the caller's `progress` function."""

    step: int
    num_steps: int  # planned; fewer if the time runs out
    epoch: float
    minutes: float
    words_per_second: float
    loss: float  # nats per token, mean since the last report; sampled, so only roughly comparable
    learning_rate: float
    perplexity: float | None  # on the held-out text, when it has just been measured
    best: bool  # it was the lowest so far, and the checkpoint has just been written
    communication: float = 0.0  # share of this worker's time that the computation does not hide
    staleness: float | None = None  # adpsgd: steps that others began while a gradient was computed, mean


@dataclass(frozen=True, slots=True)
class Trained:
    """The result of a training."""

    perplexity: float  # on the held-out text, of the weights as stored
    unknown: float  # share of the held-out words that are outside the vocabulary
    step: int  # at which the stored weights were reached
    minutes: float
    output: str
    num_held_out: int = 0  # sentences of the training text that were held out, where no held-out text was given
