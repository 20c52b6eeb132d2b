"""A toy language and options of trainings on it, which take a second."""

import dataclasses

import numpy as np
import pytest

from ninja.train import TrainOptions

TOY = TrainOptions(
    device="cpu",
    vocabulary=60,
    min_count=1,
    embedding=16,
    hidden=24,
    layers=2,
    epochs=4,
    batch_tokens=128,
    learning_rate=2e-2,
    warmup=5,
    samples=30,
    check_steps=8,
    block_steps=3,
    seed=3,
    threads=1,
)


def toy(**options):
    """Return the options of a toy training with some changes."""
    return dataclasses.replace(TOY, **options)


def toy_command(**options):
    """Return the options as arguments of ``ninja train``."""
    train_options, defaults = toy(**options), TrainOptions()
    arguments = []
    for name, value in dataclasses.asdict(train_options).items():
        if value != getattr(defaults, name):
            arguments += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return arguments


def toy_sentences(count, seed):
    """Create sentences of a small language: subject, verb and object, sometimes with an adverb."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        verb = random.integers(8)
        words = [f"subject{random.integers(9)}", f"verb{verb}", f"object{verb}"]
        yield " ".join(words + ["gladly"] * int(random.integers(2)))


def toy_texts(folder, count=200):
    """Write a training text, and a held-out text with an unknown word; return their paths."""
    (folder / "train.txt").write_text("\n".join(toy_sentences(count, 1)))
    (folder / "dev.txt").write_text("\n".join([*toy_sentences(40, 2), "subject1 sleeps"]))
    return folder / "train.txt", folder / "dev.txt"


@pytest.fixture(name="texts")
def toy_text_files(tmp_path):
    return toy_texts(tmp_path)
