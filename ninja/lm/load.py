"""Open a language model, one file or a directory, of any kind, detected by content, never by name."""

from __future__ import annotations

import importlib
import os
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass

from ninja.errors import ModelError
from ninja.files.gzip import GZIP_MAGIC, unpack_head
from ninja.lattice.symbols import SymbolTable
from ninja.lm.protocol import LanguageModel, LoadOptions
from ninja.models import ENGLISH

HEAD = 512  # bytes of a file that tell its kind
ZIP_MAGIC = b"PK\x03\x04"
CHECKPOINT = "a Ninja checkpoint"
KALDI_RNNLM = "a Kaldi RNNLM"
# Files of a Kaldi RNNLM's directory; any of them tells one, were it only half there.
KALDI_PIECES = (
    *("final.raw", "final.raw.gz", "final.raw.txt", "final.raw.txt.gz", "special_symbol_opts.txt"),
    *("word_embedding.final.mat", "feat_embedding.final.mat", "word_feats.txt", "word_feats.txt.gz"),
)
CAFFE2_NETS = ("init_net.pb", "predict_net.pb")  # how the names of Caffe2's two nets end
# What may follow the version in an ONNX file: producer, its version, domain, version, text, graph, operators, metadata.
_ONNX_FIELDS = (0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42, 0x72)

Reader = Callable[..., LanguageModel]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file or directory that may be a language model."""

    head: bytes  # first bytes, unpacked where they are gzip; a directory has none
    names: list[str]  # of a zip's members, unless it is damaged, or of a directory's files

    def has(self, *names: str) -> bool:
        """Tell whether any of these files lies in the directory."""
        return not self.head and not set(names).isdisjoint(self.names)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of language model."""

    name: str
    recognise: Callable[[Candidate], bool]
    module: str  # of ninja.lm, which is imported when such a model is opened
    function: str  # of that module, which opens it
    call: Callable[[Reader, str, LoadOptions], LanguageModel] = lambda read, path, options: read(path, options)

    def open(self, path: str, options: LoadOptions) -> LanguageModel:
        """Open a model of this kind."""
        return self.call(getattr(importlib.import_module(f"ninja.lm.{self.module}"), self.function), path, options)


def load(
    path: str | os.PathLike[str] | None = None,
    device: str = "cpu",
    *,
    normalize: bool | None = None,
    max_batch: int | None = None,
    words: SymbolTable | None = None,
) -> LanguageModel:
    """Load a language model.

    Args:
        path: A model of any kind in `KINDS`, a file or a directory; None = the English model that is shipped with
            Ninja.
        device: Where torch computes, such as ``"cuda"``.
        normalize: Normalise scores exactly. A network trained to normalise itself may go without; None = as the
            kind of model is meant to be used: Kaldi RNNLMs as they are, as Kaldi does, all others normalised.
        max_batch: Most histories a network sees at once; None = as many as a call brings.
        words: The symbol table of a model that numbers its words and does not spell them: const-arpa, ``G.fst``, and
            networks of other toolkits; or the words that a Hugging Face model of pieces is to score. None = the one in
            the file, or ``words.txt`` or ``words.txt.gz`` beside it. Other kinds ignore it.

    Raises:
        ModelError: There is no such file, it is of another kind, damaged, or contradicts itself.
        OptionError: An option is out of range, or torch cannot use the device.
        DependencyError: The library that this kind of model needs is not installed.
    """
    if path is None:
        path = ENGLISH
    name = os.fspath(path)
    return kind_of(name).open(name, LoadOptions(device, normalize, max_batch, words))


def kind_of(path: str | os.PathLike[str]) -> Kind:
    """Detect the kind of a language model; a `ModelError` says what else it is, or that there is no such file."""
    name = os.fspath(path)
    head, names = (b"", os.listdir(name)) if os.path.isdir(name) else _contents(name)
    candidate = Candidate(unpack_head(head, HEAD) if head.startswith(GZIP_MAGIC) else head, names)
    for kind in KINDS:
        if kind.recognise(candidate):
            return kind
    found = "a directory of unknown kind" if os.path.isdir(name) else _describe(head)
    known = " or ".join(kind.name for kind in KINDS)
    raise ModelError(f"{found}, not {known}; train a model with `ninja train`", name)


def _contents(path: str) -> tuple[bytes, list[str]]:
    """Return the first bytes of a file, and the members of a zip."""
    try:
        with open(path, "rb") as stream:
            head = stream.read(HEAD)
        if not head.startswith(ZIP_MAGIC):
            return head, []
        with zipfile.ZipFile(path) as archive:
            return head, archive.namelist()
    except FileNotFoundError as error:
        raise ModelError("no such file; give a checkpoint of `ninja train`", path) from error
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        return head, []


def _begins(*heads: bytes) -> Callable[[Candidate], bool]:
    return lambda candidate: candidate.head.startswith(heads)


def _with_words(read: Reader, path: str, options: LoadOptions) -> LanguageModel:
    return read(path, options.words)


def _is_checkpoint(candidate: Candidate) -> bool:
    """Tell a zip that is of no other kind, so that damaged ones are reported as checkpoints."""
    return _begins(ZIP_MAGIC)(candidate) and not _is_torchscript(candidate) and not _is_exported(candidate)


def _is_torchscript(candidate: Candidate) -> bool:
    names = candidate.names
    return any(name.endswith("/constants.pkl") for name in names) and any("/code/" in name for name in names)


def _is_exported(candidate: Candidate) -> bool:
    return any(re.fullmatch(r"[^/]*/models/[^/]+\.json", name) for name in candidate.names)


def _is_kaldi_rnnlm(candidate: Candidate) -> bool:
    return candidate.head.startswith((b"\0B<Nnet3>", b"<Nnet3>")) or candidate.has(*KALDI_PIECES)


def _is_arpa(candidate: Candidate) -> bool:
    return re.search(rb"(^|\n)[ \t\r]*\\data\\\s", candidate.head) is not None


def _is_onnx(candidate: Candidate) -> bool:
    """Tell an ONNX model: the version of the format, 3 or later, and then another of its fields."""
    head = candidate.head
    return len(head) > 2 and head[0] == 0x08 and 3 <= head[1] < 0x80 and head[2] in _ONNX_FIELDS


def _is_caffe2(candidate: Candidate) -> bool:
    nets = [sum(name.endswith(end) for name in candidate.names) for end in CAFFE2_NETS]
    return not candidate.head and nets == [1, 1]


def _describe(head: bytes) -> str:
    """Describe a file that is no model."""
    if not head:
        return "an empty file"
    if head[0] == 0x80:
        return "a pickle, which may run any code when it is opened"
    if head.startswith(GZIP_MAGIC):
        return "a gzip file"
    if b"\0" not in head:
        return "a text file"
    return "a file of unknown kind"


KINDS = [  # the first that recognises a model opens it
    Kind(CHECKPOINT, _is_checkpoint, "checkpoint", "open_checkpoint"),
    Kind("a Hugging Face directory", lambda c: c.has("config.json"), "huggingface.loading", "open_directory"),
    Kind(KALDI_RNNLM, _is_kaldi_rnnlm, "kaldi.rnnlm", "open_rnnlm"),
    Kind("an ARPA file", _is_arpa, "ngram.model", "read_arpa", lambda read, path, options: read(path)),
    Kind("a const-arpa", _begins(b"\0B<ConstArpaLm>"), "ngram.model", "read_const_arpa", _with_words),
    Kind("a grammar (OpenFst)", _begins(b"\xd6\xfd\xb2\x7e"), "ngram.model", "read_grammar", _with_words),
    Kind("a KenLM binary", _begins(b"mmap lm http://kheafield.com/code"), "ngram.kenlm", "KenLM", _with_words),
    Kind("a TorchScript archive", _is_torchscript, "imported.torch_module", "open_torchscript"),
    Kind("an archive of torch.export", _is_exported, "imported.exported", "open_exported"),
    Kind("an ONNX model", _is_onnx, "imported.onnx", "open_model"),
    Kind("a directory of Caffe2 nets", _is_caffe2, "imported.caffe2", "open_nets"),
]
