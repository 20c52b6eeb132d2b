"""`ContextPointer`, a network that points to phrases according to the state of a language model.

The pointer is stored in the file of a context model, together with the encoder:

pointer  {"base": {"name": "english.safetensors", "digest": "3f…"}, "config": {"state": 256, …},
"state": {"offset": float16 tensor, …}, "card": {"steps": 1500, …}}
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ninja.context.deep.encoder import RETRAIN, PhraseEncoder, fill, in_half, read_content
from ninja.context.retrieval.vector_cache import VectorCache
from ninja.errors import MAX_WIDTH, ModelError
from ninja.lm.checkpoint import SkipInitialisation, write_atomically
from ninja.lm.lexical import LexicalLM
from ninja.lm.protocol import LanguageModel
from ninja.lm.stored_network import CardEntry
from ninja.models.phrase_pointer import Config, PhrasePointer

ADVICE = "train one with ninja train context-lm"
NUM_DIGESTED = 1000  # number of words whose vectors identify a model with a fixed vocabulary
COMMON = ("the", "of", "and", "to", "a", "in", "he", "was")  # words whose vectors identify an open-vocabulary model


@dataclass(frozen=True, slots=True)
class ContextPointer:
    """A pointer network, its phrase encoder, and the identity of the language model for which it was trained."""

    encoder: PhraseEncoder
    network: PhrasePointer  # float32, in evaluation mode
    base: dict[str, str]  # name and digest of the language model
    card: dict[str, CardEntry]  # how the pointer was trained
    path: str = ""
    keys: VectorCache = field(default_factory=VectorCache, compare=False)  # cached keys by text and first word

    def refuse_other(self, lm: LanguageModel) -> None:
        """Raise a `ModelError` unless the pointer was trained for the given language model."""
        if isinstance(lm, LexicalLM):
            lm = lm.lexical
        if lm.state_size is None:
            reason = "the language model has no hidden state; use an LSTM, a transformer or a Kaldi RNNLM"
        elif lm.state_size != self.network.config.state or digest(lm) != self.base["digest"]:
            name = self.base["name"]
            reason = (
                f"the context model was trained for another language model ({name}); use that model, or train a "
                "context model for this one with ninja train context-lm"
            )
        else:
            return
        raise ModelError(reason, self.path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the encoder and the pointer to one file, with float16 weights."""
        pointer = {
            "base": self.base,
            "config": dataclasses.asdict(self.network.config),
            "state": in_half(self.network, path),
            "card": self.card,
        }
        write_atomically({**self.encoder.content(path), "pointer": pointer}, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ContextPointer:
        """Read a context model that has a pointer, without running code from the file.

        Raises:
            ModelError: The file is damaged, is not a context model, or contains only an encoder.
        """
        content = read_content(path)
        pointer = content.get("pointer")
        if pointer is None:
            raise ModelError(f"the file contains a phrase encoder, but no pointer for a language model; {ADVICE}", path)
        kinds = {"base": dict, "config": dict, "state": dict, "card": dict}
        if not isinstance(pointer, dict) or any(not isinstance(pointer.get(key), kinds[key]) for key in kinds):
            raise ModelError(f"the pointer is damaged; {RETRAIN}", path)
        encoder = PhraseEncoder.of(content, path)
        network = _built(pointer["config"], pointer["state"], encoder, path)
        base = pointer["base"]
        if any(not isinstance(base.get(name), str) for name in ("name", "digest")):
            raise ModelError(f"the pointer does not specify its language model; {RETRAIN}", path)
        return cls(encoder, network, base, pointer["card"], os.fspath(path))


def _built(
    config: dict[str, Any], state: dict[str, torch.Tensor], encoder: PhraseEncoder, path: str | os.PathLike[str]
) -> PhrasePointer:
    names = {field.name for field in dataclasses.fields(Config)}
    sizes = config.values()
    if set(config) != names or any(type(size) is not int or not 1 < size <= MAX_WIDTH for size in sizes):
        raise ModelError(f"the configuration of the pointer is invalid; {RETRAIN}", path)
    if config["vector"] != (size := encoder.network.config.vector):
        message = f"the pointer reads vectors of size {config['vector']}, but the encoder writes vectors of size {size}"
        raise ModelError(f"{message}; {RETRAIN}", path)
    with torch.device("meta"), SkipInitialisation():  # allocates no memory
        network = PhrasePointer(Config(**config))
    fill(network, state, path)
    return network


def digest(lm: LanguageModel) -> str:
    """Return a digest that identifies a language model by the vectors of some of its words."""
    words = COMMON if lm.open_vocabulary else [word for word, number in lm.vocabulary if number < NUM_DIGESTED]
    ids = np.array([number for number in lm.vocabulary.ids(words) if number >= 0] or [lm.eos], np.int32)
    vectors = np.ascontiguousarray(lm.word_vectors(ids), np.float32)
    return hashlib.sha256(vectors.tobytes()).hexdigest()[:16]
