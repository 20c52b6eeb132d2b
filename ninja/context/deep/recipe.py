"""Options of training an encoder of phrases and a pointer; imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from ninja.errors import OptionError, check_range, described, documented

EXTRACTORS = ("boundary", "last", "average", "attention", "s2s-last", "nnlm-last")
INPUTS = ("letters", "phones", "both")
OUTPUTS = ("letters", "phones", "concat", "joint")


@documented
@dataclass(frozen=True, slots=True)
class EncoderOptions:
    """Options of training an encoder of phrases; the defaults are those of the shipped one."""

    extractor: str = described("boundary", f"How encoder states become one vector: {', '.join(EXTRACTORS)}.")
    inputs: str = described("both", f"Input of the encoder: {', '.join(INPUTS)}.")
    outputs: str = described("joint", f"Output of the decoders in training: {', '.join(OUTPUTS)}.")
    hidden: int = described(64, "Number of LSTM cells per direction.")
    metric: float = described(1.0, "Weight of the loss on distances between pronunciations; 0 disables it.")
    steps: int = described(4000, "Number of training steps.")
    batch: int = described(256, "Phrases per step.")
    learning_rate: float = described(4e-3, "Highest learning rate; it falls to 0.")
    max_minutes: float | None = described(None, "Stop after this many minutes.")
    seed: int = described(1, "Seed of the random numbers.")
    threads: int | None = described(None, "Threads of torch.  [default: chosen by torch]")

    def __post_init__(self) -> None:
        for name, known in (("extractor", EXTRACTORS), ("inputs", INPUTS), ("outputs", OUTPUTS)):
            if getattr(self, name) not in known:
                raise OptionError(f"{name} is {getattr(self, name)!r}; it must be one of {', '.join(known)}")
        for name, least in (("hidden", 1), ("steps", 1), ("batch", 4), ("seed", 0), ("metric", 0)):
            check_range(name, getattr(self, name), least=least)
        for name in ("learning_rate", "max_minutes", "threads"):
            if getattr(self, name) is not None:
                check_range(name, getattr(self, name), above=0, finite=True)


@dataclass(frozen=True, slots=True)
class EncoderProgress:
    """Progress of a training, for the caller's `progress` function."""

    step: int
    num_steps: int
    minutes: float
    loss: float  # mean since the last report


@documented
@dataclass(frozen=True, slots=True)
class PointerOptions:
    """Options of training a pointer to phrases beside a language model."""

    positions: int = described(400_000, "Words of the text to train on, in whole sentences.")
    common: int = described(5000, "Most frequent words of the text, which are not phrases by themselves.")
    steps: int = described(3000, "Number of training steps.")
    batch: int = described(128, "Sentences per step.")
    most_phrases: int = described(1000, "Longest simulated list; sizes from 1 on are drawn log-uniformly.")
    width: int = described(64, "Size of queries and keys.")
    learning_rate: float = described(2e-3, "Highest learning rate; it falls to 0.")
    seed: int = described(1, "Seed of the random numbers.")
    threads: int | None = described(None, "Threads of torch.  [default: chosen by torch]")

    def __post_init__(self) -> None:
        least = {"positions": 100, "common": 0, "steps": 1, "batch": 1, "most_phrases": 1, "width": 2, "seed": 0}
        for name, lowest in least.items():
            check_range(name, getattr(self, name), least=lowest)
        for name in ("learning_rate", "threads"):
            if getattr(self, name) is not None:
                check_range(name, getattr(self, name), above=0, finite=True)
