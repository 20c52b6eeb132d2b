"""A pointer to phrases beside a language model; the file of a context model has it next to the encoder.

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
from ninja.errors import ModelError
from ninja.lm.checkpoint import Undrawn, write_atomically
from ninja.lm.lexical import LexicalLM
from ninja.lm.protocol import LanguageModel
from ninja.lm.stored_network import CardEntry
from ninja.models.phrase_pointer import Config, PhrasePointer

ADVICE = "`ninja train context-lm` makes one"
NUM_DIGESTED = 1000  # words whose vectors identify a model
COMMON = ("the", "of", "and", "to", "a", "in", "he", "was")  # for models with a vector for any word
LARGEST = 100_000  # number of a configuration


@dataclass(frozen=True, slots=True)
class ContextPointer:
    """A network that points to phrases, the encoder of phrases, and the language model that they belong to."""

    encoder: PhraseEncoder
    network: PhrasePointer  # float32, in evaluation mode
    base: dict[str, str]  # the language model's name and digest
    card: dict[str, CardEntry]  # how it was trained
    path: str = ""  # of its file
    keys: VectorCache = field(default_factory=VectorCache, compare=False)  # of phrases, by text and first word

    def refuse_other(self, lm: LanguageModel) -> None:
        """Raise a `ModelError` if a language model is not the one that the pointer was trained for."""
        if isinstance(lm, LexicalLM):
            lm = lm.lexical
        if lm.state_size is None:
            reason = "the language model does not give its hidden state; take an LSTM, a transformer or a Kaldi RNNLM"
        elif lm.state_size != self.network.config.state or digest(lm) != self.base["digest"]:
            name = self.base["name"]
            reason = (
                f"it was trained for another language model ({name}); take that one, or train it for this: {ADVICE}"
            )
        else:
            return
        raise ModelError(reason, self.path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write encoder and pointer as one file, in half precision."""
        pointer = {
            "base": self.base,
            "config": dataclasses.asdict(self.network.config),
            "state": in_half(self.network, path),
            "card": self.card,
        }
        write_atomically({**self.encoder.content(path), "pointer": pointer}, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ContextPointer:
        """Read a context model with a pointer, running no code from the file.

        Raises:
            ModelError: The file is damaged, is not a context model, or holds an encoder alone.
        """
        content = read_content(path)
        pointer = content.get("pointer")
        if pointer is None:
            raise ModelError(f"it holds an encoder of phrases, but no pointer for a language model; {ADVICE}", path)
        kinds = {"base": dict, "config": dict, "state": dict, "card": dict}
        if not isinstance(pointer, dict) or any(not isinstance(pointer.get(key), kinds[key]) for key in kinds):
            raise ModelError(f"its pointer is damaged; {RETRAIN}", path)
        encoder = PhraseEncoder.of(content, path)
        network = _built(pointer["config"], pointer["state"], encoder, path)
        base = pointer["base"]
        if any(not isinstance(base.get(name), str) for name in ("name", "digest")):
            raise ModelError(f"its pointer does not name its language model; {RETRAIN}", path)
        return cls(encoder, network, base, pointer["card"], os.fspath(path))


def _built(
    config: dict[str, Any], state: dict[str, torch.Tensor], encoder: PhraseEncoder, path: str | os.PathLike[str]
) -> PhrasePointer:
    names = {field.name for field in dataclasses.fields(Config)}
    if set(config) != names or any(type(number) is not int or not 1 < number < LARGEST for number in config.values()):
        raise ModelError(f"its pointer's configuration is absurd; {RETRAIN}", path)
    if config["vector"] != encoder.network.config.vector:
        raise ModelError(f"its pointer takes vectors of another encoder; {RETRAIN}", path)
    with torch.device("meta"), Undrawn():  # shapes only: no memory
        network = PhrasePointer(Config(**config))
    fill(network, state, path)
    return network


def digest(lm: LanguageModel) -> str:
    """Identify a language model: return a digest of the vectors of some of its words."""
    words = COMMON if lm.spells_words else [word for word, number in lm.vocabulary if number < NUM_DIGESTED]
    ids = np.array([number for number in lm.vocabulary.ids(words) if number >= 0] or [lm.eos], np.int32)
    vectors = np.ascontiguousarray(lm.word_vectors(ids), np.float32)
    return hashlib.sha256(vectors.tobytes()).hexdigest()[:16]
