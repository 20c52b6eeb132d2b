"""Options for training a phrase encoder and a pointer; importing this module does not import torch."""

from __future__ import annotations

from dataclasses import dataclass

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

EXTRACTORS = ("boundary", "last", "average", "attention", "attention-boundary", "s2s-last", "nnlm-last")
INPUTS = ("letters", "phones", "both")
OUTPUTS = ("letters", "phones", "concat", "joint")


@documented
@dataclass(frozen=True, slots=True)
class EncoderOptions:
    """Options for training a phrase encoder; the shipped encoder was trained with the defaults."""

    extractor: str = described(
        "boundary", f"Method that combines encoder states into one vector: {', '.join(EXTRACTORS)}."
    )
    inputs: str = described("both", f"Inputs of the encoder: {', '.join(INPUTS)}.")
    outputs: str = described("joint", f"Outputs of the decoders during training: {', '.join(OUTPUTS)}.")
    hidden: int = described(64, "Size of the GRU state in each direction.")
    metric: float = described(1.0, "Weight of the loss on distances between pronunciations; 0 disables it.")
    steps: int = described(4000, "Number of training steps.")
    batch: int = described(256, "Number of phrases per step.")
    learning_rate: float = described(4e-3, "Maximum learning rate, which decays to 0.")
    max_minutes: float | None = described(None, "Maximum training time, in minutes.")
    seed: int = described(1, "Random seed.")
    threads: int | None = described(None, "Number of torch threads.  [default: chosen by torch]")

    def __post_init__(self) -> None:
        for name, known in (("extractor", EXTRACTORS), ("inputs", INPUTS), ("outputs", OUTPUTS)):
            if getattr(self, name) not in known:
                raise OptionError(f"{name} is {getattr(self, name)!r}, but must be one of {', '.join(known)}")
        check_count("hidden", self.hidden, least=1, most=MAX_WIDTH)
        for name, least in (("steps", 1), ("batch", 4), ("seed", 0)):
            check_range(name, getattr(self, name), least=least)
        check_range("metric", self.metric, least=0, finite=True)
        check_range("learning_rate", self.learning_rate, above=0, most=MAX_LEARNING_RATE)
        if self.max_minutes is not None:
            check_range("max_minutes", self.max_minutes, above=0, finite=True)
        if self.threads is not None:
            check_count("threads", self.threads, least=1, most=MAX_JOBS)


@dataclass(frozen=True, slots=True)
class EncoderProgress:
    """Training progress, which is passed to the caller's `progress` function."""

    step: int
    num_steps: int
    minutes: float
    loss: float  # mean loss since the last report


@documented
@dataclass(frozen=True, slots=True)
class PointerOptions:
    """Options for training a pointer for a language model."""

    positions: int = described(400_000, "Approximate number of words to train on.")
    common: int = described(5000, "Number of the most frequent words to exclude as one-word phrases.")
    steps: int = described(3000, "Number of training steps.")
    batch: int = described(128, "Number of sentences per step.")
    most_phrases: int = described(
        1000,
        "Maximum number of random phrases added to each phrase list of a batch; the number is drawn log-uniformly.",
    )
    width: int = described(64, "Size of queries and keys.")
    learning_rate: float = described(2e-3, "Maximum learning rate, which decays to 0.")
    seed: int = described(1, "Random seed.")
    threads: int | None = described(None, "Number of torch threads.  [default: chosen by torch]")

    def __post_init__(self) -> None:
        least = {"positions": 100, "common": 0, "steps": 1, "batch": 1, "most_phrases": 0, "seed": 0}
        for name, lowest in least.items():
            check_range(name, getattr(self, name), least=lowest)
        check_count("width", self.width, least=2, most=MAX_WIDTH)
        check_range("learning_rate", self.learning_rate, above=0, most=MAX_LEARNING_RATE)
        if self.threads is not None:
            check_count("threads", self.threads, least=1, most=MAX_JOBS)
