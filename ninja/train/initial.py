"""Reader for the initial checkpoint of a training run: its weights, vocabulary and sizes."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass

import torch

from ninja.errors import ModelError, OptionError
from ninja.lm import checkpoint, text
from ninja.lm.kaldi.rnnlm import KaldiModel
from ninja.lm.load import place_of
from ninja.lm.word_map import SPECIAL
from ninja.train.recipe import SIZES, TrainOptions

NORMALISER = "normaliser."  # prefix of the names of the layers that estimate the log-normaliser


def normaliser_weights(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor] | None:
    """Return the weights, by name, of the layers that estimate the log-normaliser, or None if there are none."""
    layers = {name: weight for name, weight in state.items() if name.startswith(NORMALISER)}
    return {name.removeprefix(NORMALISER): weight for name, weight in layers.items()} or None


@dataclass(frozen=True, slots=True)
class Initial:
    """The initial checkpoint of a training run."""

    words: list[str]  # the vocabulary, by id
    state: dict[str, torch.Tensor]  # weights, float32, without the weights of the normaliser
    normaliser: dict[str, torch.Tensor] | None  # weights of the normaliser, which is trained after the network
    unk_words: int  # number of distinct words that <unk> replaced in the training text; 0 if unknown
    sha256: str  # SHA-256 of the file in hexadecimal


def read_initial(options: TrainOptions) -> tuple[TrainOptions, Initial]:
    """Read the checkpoint `TrainOptions.init`.

    Returns:
        ``(options, checkpoint)``; the options contain the sizes in the checkpoint.

    Raises:
        ModelError: The file is damaged, or does not contain a network that Ninja trains.
        OptionError: A size differs both from its default and from the size in the checkpoint.
    """
    assert options.init is not None
    path = place_of(options.init)
    if not os.path.isfile(path):
        raise ModelError("no such file; specify a checkpoint written by `ninja train`", path)
    stored = checkpoint.read(path)
    if stored.kind not in checkpoint.NETWORKS:
        names = " or ".join(sorted(checkpoint.NETWORKS))
        raise ModelError(
            f"training cannot start with a network of type {stored.kind!r}; specify a network of type {names}", path
        )
    if tuple(stored.words[: len(SPECIAL)]) != SPECIAL:
        raise ModelError(
            f"the first words of the vocabulary must be {', '.join(SPECIAL)}; specify a checkpoint written by "
            "`ninja train`",
            path,
        )
    assert not isinstance(stored.module, KaldiModel)
    config = dataclasses.asdict(stored.module.config)
    sizes = {name: config[name] for name in SIZES if name in config} | {"architecture": stored.kind}
    sizes |= {"vocabulary": len(stored.words)}
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if field.name in SIZES and value not in (field.default, sizes.get(field.name)):
            raise OptionError(f"{field.name} is {value}, but the checkpoint {path} sets the sizes; omit {field.name}")
    unk_words = stored.card.get("unk_words")
    state = stored.module.state_dict()
    return dataclasses.replace(options, **sizes), Initial(
        stored.words,
        {name: weight for name, weight in state.items() if not name.startswith(NORMALISER)},
        normaliser_weights(state),
        unk_words if type(unk_words) is int and unk_words > 0 else 0,
        text.digest(path),
    )
