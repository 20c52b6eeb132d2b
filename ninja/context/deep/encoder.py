r"""An encoder of phrases with its symbols: phrases in, vectors out.

Its file, of safetensors or as `torch.save` writes it (see `ninja.lm.model_file`), has no code:

    format   "ninja-context"          version  1
    config   {"hidden": 64, …}        letters  "abc…"    phones  "AA\nAE\n…"
    state    {"vector.weight": float16 tensor, …}
    card     {"entries": 126052, "steps": 3000, …}: how the encoder was trained
    pointer  {"base": …, "config": …, "state": …, "card": …}, where there is one, see `ninja.context.deep.pointer`
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ninja.context.deep.recipe import EXTRACTORS, INPUTS, OUTPUTS
from ninja.context.deep.symbols import FIRST, Symbols, padded
from ninja.errors import ModelError
from ninja.lm.checkpoint import Undrawn, read_saved, write_atomically
from ninja.lm.stored_network import CardEntry
from ninja.models.entity_encoder import Config, EntityEncoder

FORMAT = "ninja-context"
VERSION = 1
BATCH = 512  # strings encoded at a time
RETRAIN = "train it again, or copy it again from where it came"

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class PhraseEncoder:
    """A network that turns phrases into vectors, and the symbols it knows."""

    network: EntityEncoder  # float32, in evaluation mode
    symbols: Symbols
    card: dict[str, CardEntry]  # how it was trained

    @property
    def takes_phones(self) -> bool:
        """Whether the encoder reads the phones of phrases."""
        return bool(self.network.config.inputs != "letters")

    @torch.inference_mode()
    def vectors(self, texts: Sequence[str], phones: Sequence[Sequence[str]]) -> Vectors:
        """Return the vectors of phrases, of length 1; the similarity of two is their product.

        Args:
            texts: Spellings; "" if only the phones are known.
            phones: Phones of each; none if only the spelling is known; an encoder of letters ignores them.

        Returns:
            float32 [phrases, size]; zeros if nothing is known of a phrase, so that it is similar to no other.
        """
        letters = [self.symbols.spelled(text) for text in texts]
        sounds = [self.symbols.pronounced(names) for names in phones]
        inputs = self.network.config.inputs
        size = [len(spelled) * (inputs != "phones") + len(spoken) * (inputs != "letters")
                for spelled, spoken in zip(letters, sounds, strict=True)]  # fmt: skip
        out = np.zeros((len(texts), self.network.config.vector), np.float32)
        order = sorted((at for at in range(len(texts)) if size[at]), key=lambda at: size[at])
        for begin in range(0, len(order), BATCH):
            chosen = order[begin : begin + BATCH]
            parts = (torch.from_numpy(padded([part[at] for at in chosen]).T.copy()) for part in (letters, sounds))
            out[chosen] = self.network(*parts).numpy()
        return out

    def unknown_letters(self, texts: Iterable[str]) -> Counter[str]:
        """Count the letters of texts that the encoder does not know."""
        return self.symbols.unknown(texts)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the encoder with weights in half precision."""
        write_atomically(self.content(path), path)

    def content(self, path: str | os.PathLike[str]) -> dict[str, Any]:
        """Return the encoder as content of a file; `path` is for error messages."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "config": dataclasses.asdict(self.network.config),
            "letters": self.symbols.letters,
            "phones": "\n".join(self.symbols.phones),
            "state": in_half(self.network, path),
            "card": self.card,
        }

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PhraseEncoder:
        """Read an encoder, running no code from the file.

        Raises:
            ModelError: The file is damaged, or is no encoder of this version.
        """
        return cls.of(read_content(path), path)

    @classmethod
    def of(cls, content: dict[str, Any], path: str | os.PathLike[str]) -> PhraseEncoder:
        """Make an encoder of the content of a file."""
        for key, kind in (("config", dict), ("letters", str), ("phones", str), ("state", dict), ("card", dict)):
            if not isinstance(content.get(key), kind):
                raise ModelError(f"{key!r} is missing or of the wrong type; {RETRAIN}", path)
        symbols = Symbols(content["letters"], tuple(content["phones"].split("\n")))
        return cls(_built(content["config"], content["state"], symbols, path), symbols, content["card"])


def read_content(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a context model's file, running no code from it.

    Raises:
        ModelError: It is not a context model of this version.
    """
    try:
        content = read_saved(path)
    except ModelError as error:
        raise ModelError(f"no context model, or a damaged one: {error.message}", path) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ModelError("no context model; `ninja train context` makes those", path)
    if content.get("version") != VERSION:
        raise ModelError(f"context model of version {content.get('version')!r}; this Ninja reads {VERSION}", path)
    return content


def in_half(network: torch.nn.Module, path: str | os.PathLike[str]) -> dict[str, torch.Tensor]:
    """Return a network's weights in half precision.

    Raises:
        ModelError: The training diverged.
    """
    state = {name: weight.detach().cpu().half() for name, weight in network.state_dict().items()}
    for name, weight in state.items():
        if not torch.isfinite(weight).all():
            raise ModelError(f"weight {name} is not finite in half precision; the training diverged", path)
    return state


def fill(network: torch.nn.Module, state: dict[str, torch.Tensor], path: str | os.PathLike[str]) -> None:
    """Set the weights of a network.

    Raises:
        ModelError: Weights are missing, not expected, of another shape, or not finite.
    """
    expected = network.state_dict()
    if set(state) != set(expected):
        names = sorted(map(str, set(state) ^ set(expected)))
        raise ModelError(f"weights missing or not expected: {', '.join(names)[:200]}; {RETRAIN}", path)
    for name, weight in state.items():
        if not isinstance(weight, torch.Tensor) or weight.shape != expected[name].shape:
            raise ModelError(f"{name} is not of the shape its configuration needs; {RETRAIN}", path)
        if not torch.isfinite(weight).all():
            raise ModelError(f"{name} holds NaN or infinity; {RETRAIN}", path)
    network.load_state_dict({name: weight.float() for name, weight in state.items()}, assign=True)
    network.eval()


class SpelledEncoder:
    """An encoder that reads letters instead of phones."""

    def __init__(self, encoder: PhraseEncoder, path: str | os.PathLike[str]) -> None:
        if encoder.network.config.inputs == "phones":
            raise ModelError("it knows phones only; leave it out, or train one with --letters-only", path)
        self._encoder = encoder

    def vectors(self, texts: Sequence[str], phones: Sequence[Sequence[str]]) -> Vectors:
        """Return the vectors of strings of letters; texts are ignored."""
        return self._encoder.vectors(["".join(letters) for letters in phones], [()] * len(texts))

    def unknown_letters(self, texts: Iterable[str]) -> Counter[str]:
        """Count the letters of texts that the encoder does not know."""
        return self._encoder.unknown_letters(texts)


def _built(
    config: dict[str, Any], state: dict[str, Any], symbols: Symbols, path: str | os.PathLike[str]
) -> EntityEncoder:
    """Make the network of a configuration with its weights."""
    numbers = {"num_letters": len(symbols.letters) + FIRST, "num_phones": len(symbols.phones) + FIRST}
    entries = {field.name for field in dataclasses.fields(Config)}
    sizes = set(entries) - {"inputs", "outputs", "extractor"}
    if set(config) != entries or any(config[name] != number for name, number in numbers.items()):
        raise ModelError(f"its configuration does not fit its symbols; {RETRAIN}", path)
    for name in sorted(sizes):  # a layer has more than one byte per cell: larger numbers are damage
        if type(config[name]) is not int or not 0 < config[name] <= os.path.getsize(path):
            raise ModelError(f"an absurd {name} of {config[name]!r} in its configuration; {RETRAIN}", path)
    for name, allowed in (("inputs", INPUTS), ("outputs", OUTPUTS), ("extractor", EXTRACTORS)):
        if config[name] not in allowed:
            raise ModelError(f"{name} is {config[name]!r} in its configuration; {RETRAIN}", path)
    with torch.device("meta"), Undrawn():  # shapes only: no memory
        network = EntityEncoder(Config(**config))
    fill(network, state, path)
    return network
