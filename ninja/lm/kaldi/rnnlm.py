"""Kaldi's RNNLM directories as language models.

    final.raw                     the network (nnet3), binary or text
    word_embedding.final.mat      a row for each word; or the next two files instead of this one
    feat_embedding.final.mat      a row for each feature
    word_feats.txt                the features of each word
    special_symbol_opts.txt       --bos-symbol=N --eos-symbol=N --brk-symbol=N; Kaldi's defaults if missing
    config/words.txt              words and their ids
    config/oov.txt                the word that replaces unknown words; optional

Files can be compressed with gzip. The network maps the embedding of a word to a vector. The product of this vector and
the embedding of the next word is approximately the log-probability of that word, because training keeps the
probabilities nearly normalised. Kaldi uses the product unchanged, and so does Ninja by default.

A Ninja checkpoint stores

    config   {"vocabulary": 20006, "bos": 20003, "eos": 20004, "unk": 1, "lines": ["input-node name=input dim=200", …],
              "components": {"tdnn1.affine": {"type": "NaturalGradientAffineComponent"}, …}}
    state    {"embedding": tensor, "tdnn1.affine <LinearParams>": tensor, …}

The vectors and matrices of components are in the state; their other fields are in the configuration. "features.weight",
"features.begin", "features.index" and "features.value" can replace "embedding"; see `Features`.

Source: Kaldi, rnnlm/rnnlm-core-compute.cc, rnnlm/rnnlm-compute-state.cc, scripts/rnnlm/lmrescore_pruned.sh.
"""

from __future__ import annotations

import os
import re
import warnings
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError, ModelError
from ninja.files.stream import content_of, text_of
from ninja.formats.kaldi.objects import BLANK, ObjectReader
from ninja.lattice import Array
from ninja.lattice.symbols import SymbolTable
from ninja.lm.kaldi import nnet3
from ninja.lm.kaldi.components import FieldValue
from ninja.lm.kaldi.nnet3 import Nnet3, single

NETWORKS = ("final.raw", "final.raw.gz", "final.raw.txt", "final.raw.txt.gz")
WORD_EMBEDDING = "word_embedding.final.mat"
FEATURE_EMBEDDING = "feat_embedding.final.mat"
FEATURES = "word_feats.txt"
SPECIAL = "special_symbol_opts.txt"
DEFAULT_SPECIAL = {"bos": 1, "eos": 2, "brk": 3}
AGAIN = "convert the model again"  # advice for a damaged checkpoint
_SPECIAL_OPTION = re.compile(r"--(bos|eos|brk)-symbol=([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class Features:
    """Features of words: word w has the features ``index[begin[w] : begin[w + 1]]``, weighted by their values."""

    weight: Array  # float32 [features, embedding]
    begin: Array  # int64 [words + 1]
    index: Array  # int64 [entries]
    value: Array  # float32 [entries]


@dataclass(frozen=True, slots=True)
class KaldiModel:
    """The network, words and embeddings of a Kaldi RNNLM."""

    network: Nnet3
    words: list[str]  # by id
    embedding: Array | Features  # float32 [words, embedding], or its factors
    bos: int
    eos: int
    unk: int | None

    @property
    def num_parameters(self) -> int:
        """Number of trained parameters."""
        embedding = self.embedding.weight if isinstance(self.embedding, Features) else self.embedding
        return int(self.network.graph.num_parameters + embedding.size)


def read(path: str | os.PathLike[str]) -> KaldiModel:
    """Read a Kaldi RNNLM from its directory; `path` is the directory or a network file in it.

    Raises:
        ModelError: A file is missing, or two files contradict each other.
        FormatError: A file is damaged or unsupported.
    """
    path = os.fspath(path)
    directory = path if os.path.isdir(path) else os.path.dirname(path) or "."
    words_path = _find(directory, "config/words.txt")
    words = _words(words_path)
    network_path = _find(directory, *NETWORKS) if directory == path else path
    network = nnet3.read(network_path)
    dim = network.graph.input_dim
    if network.graph.output_dim != dim:
        message = f"the network's input has width {dim} and its output {network.graph.output_dim}; "
        raise ModelError(message + "they must be equal in a language model", network_path)
    embedding = _embedding(directory, len(words), dim)
    special = _special(directory)
    for name in ("bos", "eos"):
        if not 0 < special[name] < len(words):
            message = f"--{name}-symbol is {special[name]}, but must be a word id from 1 to {len(words) - 1}"
            raise ModelError(f"{message} ({words_path})", os.path.join(directory, SPECIAL))
    return KaldiModel(network, words, embedding, special["bos"], special["eos"], _unk(directory, words))


def _find(directory: str, *names: str) -> str:
    """Return the path of the first of `names` that exists, with or without ``.gz``; raise `ModelError` if none does."""
    for name in names:
        for path in (os.path.join(directory, name), os.path.join(directory, f"{name}.gz")):
            if os.path.exists(path):
                return path
    raise ModelError(f"{names[0]} is missing; copy the whole directory of the Kaldi RNNLM", directory)


def _words(path: str) -> list[str]:
    table = {number: word for word, number in SymbolTable.read(path)}
    if not table:
        raise ModelError("the file contains no words; specify the words.txt of this model", path)
    if sorted(table) != list(range(len(table))):
        message = f"the ids of the {len(table)} words are not 0 to {len(table) - 1}"
        raise ModelError(f"{message}; specify the words.txt of this model", path)
    return [table[number] for number in range(len(table))]


def _embedding(directory: str, num_words: int, dim: int) -> Array | Features:
    if not any(os.path.exists(os.path.join(directory, f"{WORD_EMBEDDING}{end}")) for end in ("", ".gz")):
        try:
            path = _find(directory, FEATURE_EMBEDDING)
        except ModelError:
            message = f"{WORD_EMBEDDING} and {FEATURE_EMBEDDING} are both missing; copy the whole directory"
            raise ModelError(message, directory) from None
        weight = _matrix(path, dim)
        return _features(_find(directory, FEATURES), weight, num_words)
    path = _find(directory, WORD_EMBEDDING)
    weight = _matrix(path, dim)
    if len(weight) != num_words:
        message = f"there are embeddings for {len(weight)} words, but config/words.txt has {num_words}"
        raise ModelError(f"{message}; copy both files from the same model", path)
    return weight


def _matrix(path: str, dim: int) -> Array:
    reader = ObjectReader.open(path)
    matrix = single(reader.array())
    if matrix.ndim != 2:
        reader.fail("expected a matrix, found a vector", 0)
    if not reader.at_end():
        reader.fail("unexpected content after the matrix")
    if matrix.shape[1] != dim:
        message = f"the dimension of the embeddings is {matrix.shape[1]}, but the network expects {dim}"
        raise ModelError(f"{message}; copy both files from the same model", path)
    if not np.isfinite(matrix).all():
        raise ModelError("the matrix contains NaN or infinity: the training diverged; use an earlier iteration", path)
    return matrix


def _features(path: str, weight: Array, num_words: int) -> Features:
    """Read ``word_feats.txt``, in which each line contains a word id and (feature, value) pairs."""
    content = content_of(path)
    length = _numbers_per_line(content)
    if len(length) != num_words:
        message = f"there are features for {len(length)} words, but config/words.txt has {num_words}"
        raise ModelError(f"{message}; copy both files from the same model", path)
    if (incomplete := np.flatnonzero(length % 2 == 0)).size:
        raise FormatError(
            "expected a word id followed by pairs of feature and value", path, line=int(incomplete[0]) + 1
        )
    number = _numbers(content, path)
    is_word = np.zeros(len(number), np.bool_)
    is_word[np.cumsum(length) - length] = True
    pair = number[~is_word].reshape(-1, 2)
    if (wrong := np.flatnonzero(number[is_word] != np.arange(num_words))).size:
        raise FormatError(f"expected the features of word {wrong[0]}", path, line=int(wrong[0]) + 1)
    feature, value = pair[:, 0].astype(np.int64), pair[:, 1].astype(np.float32)
    bad = (feature != pair[:, 0]) | (feature < 0) | (feature >= len(weight)) | ~np.isfinite(value)
    begin = np.concatenate(([0], np.cumsum(length // 2)))
    if bad.any():
        first = np.flatnonzero(bad)[0]
        expected = f"expected one of the {len(weight)} rows of {FEATURE_EMBEDDING}, counted from 0, and a finite value"
        raise FormatError(
            f"{expected}, found {pair[first, 0]:g} {pair[first, 1]:g}",
            path,
            line=int(np.searchsorted(begin, first, "right")),
        )
    return Features(weight, begin, feature, value)


def _numbers_per_line(content: bytes) -> npt.NDArray[np.int64]:
    """Return the number of fields on each line, like ``str.split`` but fast enough for a million lines."""
    byte = np.frombuffer(content, np.uint8)
    blank = np.zeros(256, np.bool_)
    blank[list(BLANK)] = True
    inside = ~blank[byte]
    begins = inside.copy()
    begins[1:] &= ~inside[:-1]
    ends = np.flatnonzero(byte == ord("\n"))
    if len(byte) and byte[-1] != ord("\n"):
        ends = np.append(ends, len(byte) - 1)
    return np.diff(np.searchsorted(np.flatnonzero(begins), ends, "right"), prepend=0)


def _numbers(content: bytes, path: str) -> npt.NDArray[np.float64]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # older NumPy only warns about invalid numbers
            return np.fromstring(content.decode("latin-1"), np.float64, sep=" ")
    except (DeprecationWarning, ValueError) as error:
        for line, text in enumerate(content.split(b"\n"), start=1):
            for field in text.split():
                try:
                    float(field)
                except ValueError:
                    message = f"{field[:40]!r} is not a number; features are pairs of numbers"
                    raise FormatError(message, path, line=line) from None
        raise FormatError(f"cannot read the numbers in this file: {error}", path) from error


def _special(directory: str) -> dict[str, int]:
    """Read the ids of the sentence start, end and break symbols; missing ids default to Kaldi's values."""
    path = _find(directory, SPECIAL)
    special = dict(DEFAULT_SPECIAL)
    for option in text_of(path).split():
        match = _SPECIAL_OPTION.fullmatch(option)
        if not match:
            raise FormatError(
                f"unknown option {option[:60]!r}; expected --bos-symbol=N, --eos-symbol=N or --brk-symbol=N", path
            )
        special[match[1]] = int(match[2])
    return special


def _unk(directory: str, words: list[str]) -> int | None:
    path = os.path.join(directory, "config", "oov.txt")
    if not os.path.exists(path):
        return None
    word = text_of(path).strip()
    if word not in words:
        message = f"{word[:60]!r} replaces unknown words, but is not in config/words.txt"
        raise ModelError(f"{message}; copy the whole directory", path)
    return words.index(word)


def pack(model: KaldiModel) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return a model's configuration and weights as stored in a checkpoint."""
    state: dict[str, Array] = {}
    if isinstance(model.embedding, Features):
        state["features.weight"] = model.embedding.weight
        state["features.begin"] = model.embedding.begin
        state["features.index"] = model.embedding.index.astype(np.int32)
        state["features.value"] = model.embedding.value
    else:
        state["embedding"] = model.embedding
    components: dict[str, dict[str, Any]] = {}
    for name, (kind, fields) in model.network.fields.items():
        components[name] = {"type": kind}
        for token, value in fields.items():
            if isinstance(value, np.ndarray):
                state[f"{name} {token}"] = value
            else:
                components[name][token] = value
    config = {"vocabulary": len(model.words), "bos": model.bos, "eos": model.eos, "unk": model.unk}
    return config | {"lines": model.network.lines, "components": components}, state


def build(config: dict[str, Any], state: dict[str, Array], words: list[str], path: str) -> KaldiModel:
    """Build a model from its configuration and weights (all finite); raise a `ModelError` if they are inconsistent."""

    def fail(message: str) -> NoReturn:
        raise ModelError(f"{message}; {AGAIN}", path)

    lines, components = config.get("lines"), config.get("components")
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        fail("the configuration lines are missing")
    if not isinstance(components, dict):
        fail("the components are missing")
    fields: dict[str, tuple[str, dict[str, FieldValue]]] = {}
    for name, entries in components.items():
        kind = entries.get("type") if isinstance(entries, dict) else None
        if not isinstance(name, str) or not isinstance(kind, str):
            fail(f"the component {name!r} has no type")
        fields[name] = kind, {token: value for token, value in entries.items() if token != "type"}
    for key, array in state.items():
        name, _, token = key.partition(" ")
        if name in fields and token:
            if array.dtype != np.float32:
                fail(f"{key} is of type {array.dtype}, but must be float32")
            fields[name][1][token] = array
    network = nnet3.rebuild(lines, fields, fail)
    dim = network.graph.input_dim
    embedding = state.get("embedding")
    source: Array | Features = _stored_features(state, len(words), fail) if embedding is None else embedding
    weight = source.weight if isinstance(source, Features) else source
    if weight.dtype != np.float32 or weight.ndim != 2 or weight.shape[1] != dim or network.graph.output_dim != dim:
        fail(f"the embeddings have the shape {list(weight.shape)}, but the network has the width {dim}")
    if not isinstance(source, Features) and len(source) != len(words):
        fail(f"there are {len(source)} embeddings for {len(words)} words")
    for name in ("bos", "eos", "unk"):
        if name not in config:
            fail(f"{name} is missing from the configuration")
        number = config[name]
        if (type(number) is not int or not 0 <= number < len(words)) and not (name == "unk" and number is None):
            fail(f"{name} is {number!r}, which is not a word id")
    return KaldiModel(network, words, source, config["bos"], config["eos"], config["unk"])


def _stored_features(state: dict[str, Array], num_words: int, fail: Any) -> Features:
    """Validate and return the features of the words."""
    try:
        weight, begin, index, value = (state[f"features.{name}"] for name in ("weight", "begin", "index", "value"))
    except KeyError:
        fail("the word embeddings are missing")
    typed = begin.dtype == np.int64 and index.dtype == np.int32 and value.dtype == np.float32
    if not typed or any(array.ndim != 1 for array in (begin, index, value)) or weight.ndim != 2:
        fail("the word features have the wrong type")
    valid = len(begin) == num_words + 1 and begin[0] == 0 and begin[-1] == len(index) and (np.diff(begin) >= 0).all()
    if not valid or len(index) != len(value):
        fail("the word features are inconsistent")
    if len(index) and (int(index.min()) < 0 or int(index.max()) >= len(weight)):
        fail(f"a word has a feature outside the range 0 to {len(weight) - 1}")
    return Features(weight, begin, index.astype(np.int64), value)
