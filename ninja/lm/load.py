"""Load a language model from a file or a directory; the format is detected from the content."""

from __future__ import annotations

import importlib
import os
import re
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from ninja.errors import ModelError, OptionError
from ninja.files.gzip import GZIP_MAGIC, unpack_head
from ninja.files.stream import BOM, kind_of
from ninja.lattice.symbols import SymbolTable
from ninja.libraries import explained, needed_for
from ninja.lm.devices import DRIVER
from ninja.lm.endpoint.options import EndpointOptions
from ninja.lm.multiwords import MultiwordLM
from ninja.lm.ngram.class_model import with_classes
from ninja.lm.ngram.model import NgramLM
from ninja.lm.protocol import ON_CPU, Backend, LanguageModel, LoadOptions, OOVScore, TextTransform
from ninja.lm.stored_network import KALDI, LSTM, is_safetensors, read_network
from ninja.models import ENGLISH, ENGLISH_NGRAM

if TYPE_CHECKING:
    from ninja.lm.kaldi.rnnlm import KaldiModel

HEAD = 512  # bytes read to detect the format
ZIP_MAGIC = b"PK\x03\x04"
CHECKPOINT = "a Ninja checkpoint"
KALDI_RNNLM = "a Kaldi RNNLM"
# A directory with any of these files is a Kaldi RNNLM, possibly an incomplete one.
KALDI_PIECES = (
    *("final.raw", "final.raw.gz", "final.raw.txt", "final.raw.txt.gz", "special_symbol_opts.txt"),
    *("word_embedding.final.mat", "feat_embedding.final.mat", "word_feats.txt", "word_feats.txt.gz"),
)
# Names such as gpt2 or facebook/opt-125m, without a file extension.
_HUB_NAME = re.compile(r"(?!.*\.[A-Za-z]{1,7}\d?$)\w[\w.-]*(?:/\w[\w.-]*)?")
SHIPPED = {"english": ENGLISH, "english-ngram": ENGLISH_NGRAM}  # by name
CAFFE2_NETS = ("init_net.pb", "predict_net.pb")  # suffixes of the file names of a pair of Caffe2 nets
# Fields that may follow the version of an ONNX file: producer name, producer version, domain, model version,
# documentation, graph, operator sets, metadata.
_ONNX_FIELDS = (0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42, 0x72)
_EXPORTED = re.compile(r"[^/]*/models/[^/]+\.json|([^/]*/)?serialized_exported_program\.json")
_EXPORT = (
    "torch.onnx.export(module, (word, *state), 'model.onnx', input_names=['word', 'state', …],"
    " output_names=['logits', 'new_state', …], dynamic_axes={'word': {0: 'batch'}, …})"
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file or directory that may be a language model."""

    head: bytes  # first bytes, decompressed if the file is gzip; empty for a directory
    names: list[str]  # names of the members of an undamaged zip file, or of the files in a directory

    def has(self, *names: str) -> bool:
        """Return whether the candidate is a directory that contains at least one of the files `names`."""
        return not self.head and not set(names).isdisjoint(self.names)


@dataclass(frozen=True, slots=True)
class ModelFormat:
    """A language model format: how it is detected, and the function that opens it."""

    name: str  # name of the format with an article, for messages
    recognise: Callable[[Candidate], bool]
    opener: str  # MODULE:FUNCTION in ninja.lm, imported on use; called with the path and the result of `arguments`
    arguments: Callable[[LoadOptions], tuple[object, ...]] = lambda options: (options,)
    reads_gzip: bool = False  # whether its files can be compressed

    def open(self, path: str, options: LoadOptions) -> LanguageModel:
        """Open a model of this format."""
        module, _, function = self.opener.partition(":")
        try:
            opener = getattr(importlib.import_module(f"ninja.lm.{module}"), function)
        except ImportError as error:
            raise explained(error, self.name, path) from error
        lm: LanguageModel = opener(path, *self.arguments(options))
        if options.classes is not None and isinstance(lm, NgramLM):
            lm = with_classes(lm, options.classes)
        if options.oov_score is not None and lm.unk is None and lm.takes_oov_score:
            lm.score_oovs(options.oov_score)
        if options.multi_char is not None and not lm.open_vocabulary:  # the tokenizer of such a model splits multiwords
            lm = MultiwordLM(lm, options.multi_char)
        return lm


def load(
    path: str | os.PathLike[str] | None = None,
    device: str = "auto",
    *,
    normalize: bool | None = None,
    max_batch: int | None = None,
    words: SymbolTable | None = None,
    oov_score: OOVScore | None = None,
    classes: str | os.PathLike[str] | None = None,
    multi_char: str | None = None,
    text_transform: TextTransform | None = None,
    backend: Backend = "auto",
    endpoint: EndpointOptions | None = None,
) -> LanguageModel:
    """Load a language model.

    Args:
        path: A file or directory in any format of `FORMATS`, the name of a shipped model (see `SHIPPED`), or the URL of
            a completions endpoint (see `ninja.lm.endpoint`).  [default: the shipped model ``english``]
        device: Torch device, such as ``"cuda:1"``. ``"auto"`` selects the first NVIDIA GPU that torch can use, else
            the CPU. With a comma-separated list such as ``"cuda:0,cuda:1"``, the model is copied to each device, and
            rescoring distributes the lattices over the copies.
        normalize: True to normalise scores exactly, in single precision; False to use unnormalised scores, for a
            network that was trained to be self-normalised. By default, Kaldi RNNLMs are not normalised, as in Kaldi.
            Models that estimate their normaliser, such as the shipped model, use the estimate; on torch, their weights
            are in bfloat16 if the processor supports it. All other models are normalised exactly.
        max_batch: Maximum number of histories per network call.  [default: no limit]
        words: Symbol table for models that contain word ids but not the words: const-arpa, ``G.fst``, and networks from
            other toolkits. Other models ignore the table.  [default: the table in the file, else
            ``words.txt`` or ``words.txt.gz`` in the same directory]
        oov_score: Score of unknown words in an n-gram model without ``<unk>``, regardless of the history: ``"skip"``
            for no cost, as in SRILM; ``"spread"`` to share the probability 1 / (vocabulary size) among them; or
            a natural-log probability. The word after an unknown word is scored without a history. By default, unknown
            words are rejected. Models with ``<unk>`` ignore this option.
        classes: SRILM class definitions (``ngram -classes``), with lines ``CLASS [probability] word …``, for an n-gram
            model whose vocabulary contains the classes.
        multi_char: Character at which words are split into parts that are scored one by one, such as ``"_"`` for SRILM
            multiwords.
        text_transform: ``"lower"`` to lower-case words for Hugging Face models, if the lattices are in upper case.
        backend: Library that runs LSTM networks and Kaldi RNNLMs: ``"numpy"`` does not need torch, starts faster,
            and computes in single precision on the CPU; ``"torch"`` also supports GPUs. ``"auto"`` selects NumPy for
            these networks on the CPU, else torch. The scores differ by at most 1e-4 in single precision.
        endpoint: Model name, limits and cache of a completions endpoint; used if `path` is a URL.

    Raises:
        ModelError: The file is missing, damaged or inconsistent, or its format is unknown.
        FormatError: The class definitions are invalid.
        OptionError: An option is out of range, or torch cannot use the device.
        DependencyError: A library that the model needs is not installed.
    """
    options = LoadOptions(
        device, normalize, max_batch, words, oov_score, classes, multi_char, text_transform, backend, endpoint
    )
    lm = open_model(path, options)
    refuse_unused_classes([lm], options)
    return lm


def refuse_unused_classes(models: Iterable[LanguageModel], options: LoadOptions) -> None:
    """Raise an `OptionError` if class definitions are specified but no model contains any of the classes."""
    if options.classes is not None and not any(lm.classes for lm in models):
        raise OptionError(
            "no language model contains any of these classes; specify the class definitions of the model",
            options.classes,
        )


def open_model(path: str | os.PathLike[str] | None, options: LoadOptions) -> LanguageModel:
    """Load a language model without checking that class definitions are used; see `load`."""
    return _open(place_of(path), options)


def _open(name: str, options: LoadOptions) -> LanguageModel:
    model_format = detect_format(name)
    device, *others = options.device.split(",")
    if others and options.backend == "auto":
        options = replace(options, backend="torch")  # devices matter only to torch
    lm = model_format.open(name, replace(options, device=device.strip()))
    if others and lm.device is not None:  # a model that computes with torch has a device
        lm.replicas = (lm, *(model_format.open(name, replace(options, device=other.strip())) for other in others))
    return lm


_open_cached = lru_cache(maxsize=8)(_open)


def cache_models() -> None:
    """Cache the models that this process opens, by path and options."""
    global _open
    _open = _open_cached


def is_endpoint(name: str) -> bool:
    """Return whether a model name is the URL of a completions endpoint."""
    return name.startswith(("http://", "https://"))


def place_of(path: str | os.PathLike[str] | None) -> str:
    """Return the path of a model.

    None refers to the default model. Names in `SHIPPED` refer to shipped models, unless a file of that name exists.
    """
    name = "english" if path is None else os.fspath(path)
    return name if name not in SHIPPED or os.path.exists(name) else os.fspath(SHIPPED[name])


def detect_format(path: str | os.PathLike[str]) -> ModelFormat:
    """Detect the format of a language model.

    Raises:
        ModelError: The file is missing, has an unknown format, is compressed although its format must be uncompressed,
            or contains a torch program, which may access memory outside its tensors.
    """
    name = place_of(path)
    if is_endpoint(name):
        return ENDPOINT
    head, names = (b"", _names(name)) if os.path.isdir(name) else _contents(name)
    candidate = Candidate(unpack_head(head, HEAD) if head.startswith(GZIP_MAGIC) else head, names)
    program = _torch_program(candidate)
    if program:
        advice = f"{_EXPORT}, or pass the module to ninja.lm.from_module (docs/networks.md)"
        raise ModelError(
            f"{program} is not loaded, because it may access memory outside its tensors; export it to ONNX ({advice})",
            name,
        )
    for model_format in FORMATS:
        if model_format.recognise(candidate):
            if head.startswith(GZIP_MAGIC) and not model_format.reads_gzip:
                raise ModelError(f"this is {model_format.name} compressed with gzip; decompress it with gunzip", name)
            return model_format
    described = "a directory of an unknown format" if os.path.isdir(name) else _describe(head, candidate.head)
    *names, last = (model_format.name for model_format in FORMATS)
    raise ModelError(f"this is {described}, not a language model; specify {', '.join(names)} or {last}", name)


def _names(folder: str) -> list[str]:
    """Return the names of the files in a model directory.

    Raises:
        ModelError: The directory or a subdirectory contains a pipe or a device, from which a library could read
            forever.
    """
    for place, folders, names in os.walk(folder):
        if place != folder:
            folders.clear()  # models have no deeper subdirectories
        for name in names:
            path = os.path.join(place, name)
            if os.path.exists(path) and not os.path.isfile(path):
                raise ModelError("not a regular file; remove it from the model directory", path)
    return os.listdir(folder)


def _contents(path: str) -> tuple[bytes, list[str]]:
    """Return the first bytes of a file, and its members if it is a zip file."""
    try:
        with open(path, "rb") as stream:
            head = stream.read(HEAD)
        if not head.startswith(ZIP_MAGIC):
            return head, []
        with zipfile.ZipFile(path) as archive:
            return head, archive.namelist()
    except FileNotFoundError as error:
        if _HUB_NAME.fullmatch(path) and not os.path.isdir(path.partition("/")[0]):
            folder = path.rpartition("/")[2]
            advice = f"run hf download {path} --local-dir {folder}, and specify ./{folder}"
            raise ModelError(
                f"no such file or directory; models are not downloaded from the Hugging Face hub: {advice}", path
            ) from error
        raise ModelError(
            "no such file; specify a language model, such as a checkpoint from ninja train", path
        ) from error
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        return head, []


def _begins(*heads: bytes) -> Callable[[Candidate], bool]:
    return lambda candidate: candidate.head.startswith(heads)


def _torch_program(candidate: Candidate) -> str | None:
    """Return the type of a torch archive that contains a program, for messages; None for any other file."""
    names = candidate.names
    if any(name.endswith("/constants.pkl") for name in names) and any("/code/" in name.lower() for name in names):
        return "a TorchScript archive"
    if any(_EXPORTED.fullmatch(name) for name in names):
        return "a torch.export archive"
    return None


def _is_checkpoint(candidate: Candidate) -> bool:
    return candidate.head.startswith(ZIP_MAGIC) or is_safetensors(candidate.head)


def _is_huggingface(candidate: Candidate) -> bool:
    return candidate.has("config.json")


def _is_kaldi_rnnlm(candidate: Candidate) -> bool:
    return candidate.head.startswith((b"\0B<Nnet3>", b"<Nnet3>")) or candidate.has(*KALDI_PIECES)


def _is_arpa(candidate: Candidate) -> bool:
    return re.search(rb"(^|\n)[ \t\r]*\\data\\\s", candidate.head.removeprefix(BOM)) is not None


def _is_onnx(candidate: Candidate) -> bool:
    """Return whether a file begins like an ONNX file: a format version >= 3, then the key of another ONNX field."""
    head = candidate.head
    return len(head) > 2 and head[0] == 0x08 and 3 <= head[1] < 0x80 and head[2] in _ONNX_FIELDS


def _is_caffe2(candidate: Candidate) -> bool:
    nets = [sum(name.endswith(end) for name in candidate.names) for end in CAFFE2_NETS]
    return not candidate.head and nets == [1, 1]


def _describe(head: bytes, unpacked: bytes) -> str:
    """Describe the type of a file that is not a model, based on its first bytes."""
    if not head:
        return "an empty file"
    if head[0] == 0x80:
        return "a pickle, which could run any code when it is opened"
    return kind_of(unpacked) or kind_of(head) or ("a text file" if b"\0" not in head else "a file of an unknown format")


def _only_words(options: LoadOptions) -> tuple[SymbolTable | None]:
    return (options.words,)


FORMATS = [  # the first format that recognises a model opens it
    ModelFormat(CHECKPOINT, _is_checkpoint, "load:open_network"),
    ModelFormat("a Hugging Face directory", _is_huggingface, "huggingface.loading:open_directory"),
    ModelFormat(KALDI_RNNLM, _is_kaldi_rnnlm, "load:open_rnnlm", reads_gzip=True),
    ModelFormat("an ARPA file", _is_arpa, "ngram.model:read_arpa", lambda options: (), reads_gzip=True),
    ModelFormat(
        "a const-arpa", _begins(b"\0B<ConstArpaLm>"), "ngram.model:read_const_arpa", _only_words, reads_gzip=True
    ),
    ModelFormat(
        "a grammar (OpenFst)", _begins(b"\xd6\xfd\xb2\x7e"), "ngram.model:read_grammar", _only_words, reads_gzip=True
    ),
    ModelFormat("a KenLM binary", _begins(b"mmap lm http://kheafield.com/code"), "ngram.kenlm:KenLM", _only_words),
    ModelFormat("an ONNX model", _is_onnx, "imported.onnx:open_model"),
    ModelFormat("a directory of Caffe2 nets", _is_caffe2, "imported.caffe2:open_nets"),
]
# `FORMATS` does not contain this format, because a URL has no content from which it could be detected.
ENDPOINT = ModelFormat("a completions endpoint", lambda candidate: False, "endpoint.loading:open_endpoint")


def open_network(path: str, options: LoadOptions) -> LanguageModel:
    """Open a checkpoint as a language model; see `ninja.lm.load`."""
    network = read_network(path)
    if network.kind == KALDI:
        from ninja.lm.kaldi import rnnlm

        model = rnnlm.build(network.config, network.arrays, network.words, network.path)
        return _open_kaldi(model, path, options)
    if choose_backend(options, network.kind, on_numpy=network.kind == LSTM) == "numpy":
        from ninja.lm.recurrent.array_lstm import ArrayLstm

        return ArrayLstm(network, options)
    with needed_for(f"a network of type {network.kind}", path):
        from ninja.lm.checkpoint import open_checkpoint
    return open_checkpoint(network, options)


def open_rnnlm(path: str, options: LoadOptions) -> LanguageModel:
    """Open a Kaldi RNNLM as a language model; see `ninja.lm.kaldi.rnnlm.read` and `ninja.lm.load`."""
    from ninja.lm.kaldi import rnnlm

    return _open_kaldi(rnnlm.read(path), path, options)


def _open_kaldi(model: KaldiModel, path: str, options: LoadOptions) -> LanguageModel:
    if choose_backend(options, KALDI, on_numpy=True) == "numpy":
        from ninja.lm.kaldi.array_rnnlm import ArrayRnnlm

        return ArrayRnnlm(model, options, path)
    with needed_for("a Kaldi RNNLM on torch", path):
        from ninja.lm.kaldi.torch_rnnlm import KaldiRnnlm
    return KaldiRnnlm(model, options, path)


def choose_backend(options: LoadOptions, kind: str, *, on_numpy: bool) -> Literal["numpy", "torch"]:
    """Return the library that runs a network.

    Args:
        options: The backend and the device.
        kind: Type of the network, for messages.
        on_numpy: Whether the network can run on NumPy.

    Raises:
        OptionError: The backend is numpy, but the network needs torch.
    """
    if options.backend == "numpy" and not on_numpy:
        raise OptionError(f"a {kind} network needs torch; use the backend torch or auto")
    if options.backend != "auto":
        return options.backend
    if not on_numpy or options.device not in ON_CPU:
        return "torch"
    if options.device == "auto" and os.path.exists(DRIVER) and find_spec("torch") is not None:
        return "torch"  # there is a GPU
    return "numpy"
