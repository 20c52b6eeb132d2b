r"""`PhraseEncoder`, which maps phrases to vectors.

An encoder file is in safetensors or torch format (see `ninja.lm.stored_network`). It contains no code, only these
entries:

    format   "ninja-context"          version  1
    config   {"hidden": 64, …}        letters  "abc…"    phones  "AA\nAE\n…"
    state    {"vector.weight": float16 tensor, …}
    card     {"entries": 126052, "steps": 3000, …}: how the encoder was trained
    pointer  {"base": …, "config": …, "state": …, "card": …}: optional, see `ninja.context.deep.pointer`
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
from ninja.lm.checkpoint import SkipInitialisation, read_saved, write_atomically
from ninja.lm.stored_network import CardEntry
from ninja.models.entity_encoder import Config, EntityEncoder

FORMAT = "ninja-context"
VERSION = 1
BATCH = 512  # number of strings in a batch
RETRAIN = "copy the file again, or train the model again"

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class PhraseEncoder:
    """A network that maps phrases to vectors, together with the table of letters and phones that it can read."""

    network: EntityEncoder  # float32, in evaluation mode
    symbols: Symbols
    card: dict[str, CardEntry]  # how the encoder was trained

    @property
    def takes_phones(self) -> bool:
        """Whether the encoder reads the phones of phrases."""
        return bool(self.network.config.inputs != "letters")

    @torch.inference_mode()
    def vectors(self, texts: Sequence[str], phones: Sequence[Sequence[str]]) -> Vectors:
        """Return unit vectors of phrases; the similarity of two phrases is the dot product of their vectors.

        Args:
            texts: Spelling of each phrase; "" if only its phones are known.
            phones: Phones of each phrase; empty if only its spelling is known. Ignored if the encoder reads only
                letters.

        Returns:
            float32 [phrases, size]; zeros for phrases without a known letter or phone.
        """
        letters = [self.symbols.spelled(text) for text in texts]
        sounds = [self.symbols.pronounced(names) for names in phones]
        inputs = self.network.config.inputs
        size = [len(spelled) * (inputs != "phones") + len(spoken) * (inputs != "letters")
                for spelled, spoken in zip(letters, sounds, strict=True)]  # fmt: skip
        out = np.zeros((len(texts), self.network.config.vector), np.float32)
        order = sorted((row for row in range(len(texts)) if size[row]), key=lambda row: size[row])
        for begin in range(0, len(order), BATCH):
            rows = order[begin : begin + BATCH]
            parts = (torch.from_numpy(padded([part[row] for row in rows]).T.copy()) for part in (letters, sounds))
            out[rows] = self.network(*parts).numpy()
        return out

    def unknown_letters(self, texts: Iterable[str]) -> Counter[str]:
        """Count the occurrences of each letter that is unknown to the encoder."""
        return self.symbols.unknown(texts)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the encoder with float16 weights."""
        write_atomically(self.content(path), path)

    def content(self, path: str | os.PathLike[str]) -> dict[str, Any]:
        """Return the content of the encoder's file; `path` is used in error messages."""
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
        """Read an encoder without running code from the file.

        Raises:
            ModelError: The file is damaged, or is not an encoder of this version.
        """
        return cls.of(read_content(path), path)

    @classmethod
    def of(cls, content: dict[str, Any], path: str | os.PathLike[str]) -> PhraseEncoder:
        """Create an encoder from the content of a file; see `load`."""
        for key, kind in (("config", dict), ("letters", str), ("phones", str), ("state", dict), ("card", dict)):
            if not isinstance(content.get(key), kind):
                raise ModelError(f"{key!r} is missing or has the wrong type; {RETRAIN}", path)
        symbols = Symbols(content["letters"], tuple(content["phones"].split("\n")))
        return cls(_built(content["config"], content["state"], symbols, path), symbols, content["card"])


def read_content(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the file of a context model without running code from the file.

    Raises:
        ModelError: The file is damaged, or is not a context model of this version.
    """
    try:
        content = read_saved(path)
    except ModelError as error:
        raise ModelError(f"not a context model, or damaged: {error.message}", path) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ModelError("not a context model; train one with ninja train context", path)
    if content.get("version") != VERSION:
        raise ModelError(
            f"the context model has version {content.get('version')!r}, but this release reads only version {VERSION}; "
            "train the model again",
            path,
        )
    return content


def in_half(network: torch.nn.Module, path: str | os.PathLike[str]) -> dict[str, torch.Tensor]:
    """Return the weights of a network as float16.

    Raises:
        ModelError: A weight is not finite, because training diverged.
    """
    state = {name: weight.detach().cpu().half() for name, weight in network.state_dict().items()}
    for name, weight in state.items():
        if not torch.isfinite(weight).all():
            raise ModelError(
                f"the weight {name} is not finite in float16 because training diverged; use a lower learning rate", path
            )
    return state


def fill(network: torch.nn.Module, state: dict[str, torch.Tensor], path: str | os.PathLike[str]) -> None:
    """Set the weights of a network, and switch the network to evaluation mode.

    Raises:
        ModelError: Weights are missing or unexpected, have the wrong shape, or are not finite.
    """
    expected = network.state_dict()
    if set(state) != set(expected):
        names = sorted(map(str, set(state) ^ set(expected)))
        raise ModelError(f"weights are missing or unexpected: {', '.join(names)[:200]}; {RETRAIN}", path)
    for name, weight in state.items():
        if not isinstance(weight, torch.Tensor) or weight.shape != expected[name].shape:
            raise ModelError(f"the shape of {name} does not match the configuration; {RETRAIN}", path)
        if not torch.isfinite(weight).all():
            raise ModelError(f"{name} contains NaN or infinity; {RETRAIN}", path)
    network.load_state_dict({name: weight.float() for name, weight in state.items()}, assign=True)
    network.eval()


class SpelledEncoder:
    """Adapter for callers that pass the letters of phrases as `phones`: the encoder receives them as spellings."""

    def __init__(self, encoder: PhraseEncoder, path: str | os.PathLike[str]) -> None:
        if encoder.network.config.inputs == "phones":
            raise ModelError(
                "the context model reads only phones; omit it, or train a context model with --letters-only", path
            )
        self._encoder = encoder

    def vectors(self, texts: Sequence[str], phones: Sequence[Sequence[str]]) -> Vectors:
        """Return the vectors of phrases; their letters are passed as `phones`, and `texts` is ignored."""
        return self._encoder.vectors(["".join(letters) for letters in phones], [()] * len(texts))

    def unknown_letters(self, texts: Iterable[str]) -> Counter[str]:
        """Count the occurrences of each letter that is unknown to the encoder."""
        return self._encoder.unknown_letters(texts)


def _built(
    config: dict[str, Any], state: dict[str, Any], symbols: Symbols, path: str | os.PathLike[str]
) -> EntityEncoder:
    """Create a network from its configuration and set its weights."""
    numbers = {"num_letters": len(symbols.letters) + FIRST, "num_phones": len(symbols.phones) + FIRST}
    entries = {field.name for field in dataclasses.fields(Config)}
    sizes = set(entries) - {"inputs", "outputs", "extractor"}
    if set(config) != entries or any(config[name] != number for name, number in numbers.items()):
        raise ModelError(f"the configuration does not match the letters and phones; {RETRAIN}", path)
    for name in sorted(sizes):  # a network with larger sizes would not fit into the file
        if type(config[name]) is not int or not 0 < config[name] <= os.path.getsize(path):
            raise ModelError(f"{name} in the configuration is {config[name]!r}, which is out of range; {RETRAIN}", path)
    for name, allowed in (("inputs", INPUTS), ("outputs", OUTPUTS), ("extractor", EXTRACTORS)):
        if config[name] not in allowed:
            raise ModelError(f"{name} in the configuration is {config[name]!r}, which is unknown; {RETRAIN}", path)
    with torch.device("meta"), SkipInitialisation():  # allocates no memory
        network = EntityEncoder(Config(**config))
    fill(network, state, path)
    return network
