"""Kaldi RNNLMs inside Ninja's checkpoints.

    config   {"vocabulary": 20006, "bos": 20003, "eos": 20004, "unk": 1, "lines": ["input-node name=input dim=200", …],
              "components": {"tdnn1.affine": {"type": "NaturalGradientAffineComponent"}, …}}
    state    {"embedding": tensor, "tdnn1.affine <LinearParams>": tensor, …}

Vectors and matrices of components are weights, their other fields stand in the configuration. Instead of "embedding"
there may be "features.weight", "features.begin", "features.index" and "features.value", see `Features`.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import torch

from ninja.errors import ModelError
from ninja.lm.kaldi import nnet3
from ninja.lm.kaldi.components import Kept
from ninja.lm.kaldi.rnnlm import Features, KaldiModel

AGAIN = "convert the model again"


def pack(model: KaldiModel) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Return a model's configuration and weights."""
    state: dict[str, torch.Tensor] = {}
    if isinstance(model.embedding, Features):
        state["features.weight"] = model.embedding.weight
        state["features.begin"] = model.embedding.begin
        state["features.index"] = model.embedding.index.int()
        state["features.value"] = model.embedding.value
    else:
        state["embedding"] = model.embedding
    components: dict[str, dict[str, Any]] = {}
    for name, (kind, fields) in model.network.fields.items():
        components[name] = {"type": kind}
        for token, value in fields.items():
            if isinstance(value, np.ndarray):
                state[f"{name} {token}"] = torch.from_numpy(value)
            else:
                components[name][token] = value
    config = {"vocabulary": len(model.words), "bos": model.bos, "eos": model.eos, "unk": model.unk}
    return config | {"lines": model.network.lines, "components": components}, state


def build(config: dict[str, Any], state: dict[str, torch.Tensor], words: list[str], path: str) -> KaldiModel:
    """Make a model of its configuration and weights, which were checked to be finite, if they fit together."""

    def fail(message: str) -> NoReturn:
        raise ModelError(f"{message}; {AGAIN}", path)

    lines, components = config.get("lines"), config.get("components")
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        fail("its configuration lines are missing")
    if not isinstance(components, dict):
        fail("its components are missing")
    fields: dict[str, tuple[str, dict[str, Kept]]] = {}
    for name, entries in components.items():
        kind = entries.get("type") if isinstance(entries, dict) else None
        if not isinstance(name, str) or not isinstance(kind, str):
            fail(f"its component {name!r} has no type")
        fields[name] = kind, {token: value for token, value in entries.items() if token != "type"}
    for key, tensor in state.items():
        name, _, token = key.partition(" ")
        if name in fields and token:
            if tensor.dtype != torch.float32:
                fail(f"{key} is of type {tensor.dtype}")
            fields[name][1][token] = tensor.contiguous().numpy()
    network = nnet3.rebuild(lines, fields, fail)
    dim = network.graph.input_dim
    embedding = state.get("embedding")
    made: torch.Tensor | Features = _features(state, len(words), fail) if embedding is None else embedding
    weight = made.weight if isinstance(made, Features) else made
    if weight.dtype != torch.float32 or weight.ndim != 2 or weight.shape[1] != dim or network.graph.output_dim != dim:
        fail(f"embeddings of shape {list(weight.shape)} for a network of width {dim}")
    if not isinstance(made, Features) and len(made) != len(words):
        fail(f"{len(made)} embeddings for {len(words)} words")
    for name in ("bos", "eos", "unk"):
        number = config.get(name)
        if (type(number) is not int or not 0 <= number < len(words)) and not (name == "unk" and number is None):
            fail(f"{name} is {number!r}, which is no word")
    return KaldiModel(network, words, made, config["bos"], config["eos"], config["unk"])


def _features(state: dict[str, torch.Tensor], num_words: int, fail: Any) -> Features:
    """Return the features of words, none of which points outside."""
    try:
        weight, begin, index, value = (state[f"features.{each}"] for each in ("weight", "begin", "index", "value"))
    except KeyError:
        fail("the embeddings of its words are missing")
    whole = begin.dtype == torch.int64 and index.dtype == torch.int32 and value.dtype == torch.float32
    if not whole or any(tensor.ndim != 1 for tensor in (begin, index, value)) or weight.ndim != 2:
        fail("the features of its words are of the wrong type")
    rising = len(begin) == num_words + 1 and begin[0] == 0 and begin[-1] == len(index) and (begin.diff() >= 0).all()
    if not rising or len(index) != len(value):
        fail("the features of its words do not add up")
    if len(index) and (int(index.min()) < 0 or int(index.max()) >= len(weight)):
        fail(f"a word has a feature that is none of {len(weight)}")
    return Features(weight, begin, index.long(), value)
