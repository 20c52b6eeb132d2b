"""A tiny RNNLM directory of Kaldi."""

import nnet3_writer as writer
import numpy as np
from strategies_nnet3 import Builder

WORDS = ["<eps>", "<s>", "</s>", "<unk>", "a", "b", "ça", "<brk>"]
FEATURES = [{}, *({0: 0.01, number % 4 + 1: 0.5} for number in range(1, len(WORDS)))]
RANDOM = np.random.default_rng(5)
EMBEDDING, FEATURE_EMBEDDING = (RANDOM.normal(size=(rows, 4)).astype(np.float32) for rows in (len(WORDS), 5))


def tiny_network():
    """Return an LSTM layer that also sees the last word but one."""
    builder = Builder(3)
    last = builder.cell("LstmNonlinearity", "Sum(input, IfDefined(Offset(input, -2)))", "lstm")
    return [*builder.lines, f"output-node name=output input={last} objective=linear"], builder.components


LINES, COMPONENTS = tiny_network()


def write_model(folder, embedding_kind="words", encoding="binary"):
    features = FEATURES if embedding_kind == "features" else None
    embedding = EMBEDDING if features is None else FEATURE_EMBEDDING
    options = {"bos": 1, "eos": 2, "oov": "<unk>", "features": features, "binary": encoding == "binary"}
    return writer.write_directory(folder, LINES, COMPONENTS, WORDS, embedding, **options)
