"""Open a language model file, whatever kind it is: found by content, never by name."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ninja.errors import ModelError
from ninja.files.text import GZIP_MAGIC
from ninja.lattice.symbols import SymbolTable
from ninja.lm.imported.recognise import caffe2_nets, is_exported, is_onnx, is_torchscript
from ninja.lm.protocol import LanguageModel

if TYPE_CHECKING:
    from ninja.lm.kaldi.rnnlm import KaldiModel

HEAD = 512  # bytes of a file that tell its kind
CHECKPOINT = "a Ninja checkpoint"
KALDI_RNNLM = "a Kaldi RNNLM"
# What a Kaldi RNNLM's directory holds, were it only half of one.
KALDI_PIECES = (
    *("final.raw", "final.raw.gz", "final.raw.txt", "final.raw.txt.gz", "special_symbol_opts.txt"),
    *("word_embedding.final.mat", "feat_embedding.final.mat", "word_feats.txt", "word_feats.txt.gz"),
)


@dataclass(frozen=True, slots=True)
class Running:
    """How a language model is to compute, see `load`; what a kind of model has no use for, it ignores."""

    device: str
    normalize: bool | None  # None: as the kind of model is meant to be used
    max_batch: int | None
    words: SymbolTable | None = None  # of a file that numbers its words; None: found in it or beside it


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of language model, one file or a directory of them."""

    name: str
    # given the path and a file's first bytes, unpacked where they are gzip; a directory has none
    recognise: Callable[[str, bytes], bool]
    open: Callable[[str, Running], LanguageModel]


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
        OSError: The file cannot be read.
    """
    if path is None:
        from ninja.models import ENGLISH

        path = ENGLISH
    name = os.fspath(path)
    return kind_of(name).open(name, Running(device, normalize, max_batch, words))


def kind_of(path: str | os.PathLike[str]) -> Kind:
    """Tell of what kind a language model is.

    Raises:
        ModelError: There is no such file, or it is of a kind that Ninja does not know.
        OSError: The file cannot be read.
    """
    name = os.fspath(path)
    head = b"" if os.path.isdir(name) else _head(name)
    for kind in KINDS:
        if kind.recognise(name, _unpacked(head)):
            return kind
    found = "a directory of unknown kind" if os.path.isdir(name) else _describe(head)
    known = " or ".join(kind.name for kind in KINDS)
    raise ModelError(f"{found}, not {known}; train a model with `ninja train`", name)


def _head(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read(HEAD)
    except FileNotFoundError as error:
        raise ModelError("no such file; give a checkpoint of `ninja train`", path) from error


def _unpacked(head: bytes) -> bytes:
    """Return what the first bytes of a gzip file hold, as far as they tell; other bytes as they are."""
    if not head.startswith(GZIP_MAGIC):
        return head
    try:
        return zlib.decompressobj(wbits=31).decompress(head, HEAD)
    except zlib.error:
        return b""


def _is_arpa(head: bytes) -> bool:
    return re.search(rb"(^|\n)[ \t\r]*\\data\\\s", head) is not None


def _open_arpa(path: str, running: Running) -> LanguageModel:
    from ninja.lm.ngram.model import read_arpa

    return read_arpa(path)


def _open_const_arpa(path: str, running: Running) -> LanguageModel:
    from ninja.lm.ngram.model import read_const_arpa

    return read_const_arpa(path, running.words)


def _open_grammar(path: str, running: Running) -> LanguageModel:
    from ninja.lm.ngram.model import read_grammar

    return read_grammar(path, running.words)


def _open_kenlm(path: str, running: Running) -> LanguageModel:
    from ninja.lm.ngram.kenlm import KenLM

    return KenLM(path, running.words)


def _is_checkpoint(path: str, head: bytes) -> bool:
    """Tell a zip that is of no other kind, so that damaged ones are told as checkpoints."""
    return head[:4] == b"PK\x03\x04" and not is_torchscript(path, head) and not is_exported(path, head)


def _open_checkpoint(path: str, running: Running) -> LanguageModel:
    from ninja.lm import checkpoint
    from ninja.lm.attention.transformer import TransformerLM
    from ninja.lm.kaldi.rnnlm import KaldiModel
    from ninja.lm.recurrent.lstm import NeuralLM
    from ninja.models.transformer import TransformerLanguageModel

    stored = checkpoint.read(path)
    if isinstance(stored.module, KaldiModel):
        return _kaldi_rnnlm(stored.module, path, running)
    vocabulary = SymbolTable(((word, number) for number, word in enumerate(stored.words)), path)
    unk_words = stored.card.get("unk_words")
    kind: Any = TransformerLM if isinstance(stored.module, TransformerLanguageModel) else NeuralLM
    return kind(
        stored.module,
        vocabulary,
        running.device,
        normalize=running.normalize is not False,
        max_batch=running.max_batch,
        unk_words=unk_words if type(unk_words) is int and unk_words > 0 else None,
    )


def _open_hugging_face(path: str, running: Running) -> LanguageModel:
    from ninja.lm.huggingface.loading import open_directory

    normalize = running.normalize is not False
    return open_directory(path, running.words, running.device, normalize=normalize, max_batch=running.max_batch)


def _open_kaldi_rnnlm(path: str, running: Running) -> LanguageModel:
    from ninja.lm.kaldi import rnnlm

    return _kaldi_rnnlm(rnnlm.read(path), path, running)


def _kaldi_rnnlm(model: KaldiModel, path: str, running: Running) -> LanguageModel:
    from ninja.lm.kaldi.rnnlm import KaldiRnnlm

    normalize = running.normalize is True  # Kaldi's training keeps its models normalised, and Kaldi leaves it at that
    return KaldiRnnlm(model, running.device, normalize=normalize, max_batch=running.max_batch, path=path)


def _open_onnx(path: str, running: Running) -> LanguageModel:
    from ninja.lm.imported.onnx import open_model

    return open_model(path, running)


def _open_torchscript(path: str, running: Running) -> LanguageModel:
    from ninja.lm.imported.torch_module import open_torchscript

    return open_torchscript(path, running)


def _open_exported(path: str, running: Running) -> LanguageModel:
    from ninja.lm.imported.exported import open_exported

    return open_exported(path, running)


def _open_caffe2(path: str, running: Running) -> LanguageModel:
    from ninja.lm.imported.caffe2 import open_nets

    return open_nets(path, running)


def _is_kaldi_rnnlm(path: str, head: bytes) -> bool:
    """Tell a Kaldi RNNLM by its network, or by any of the pieces that a directory of one has."""
    if head:
        return head.startswith((b"\0B<Nnet3>", b"<Nnet3>"))
    return any(os.path.exists(os.path.join(path, name)) for name in KALDI_PIECES)


def _describe(head: bytes) -> str:
    """Say what a file that is no model looks like."""
    if not head:
        return "an empty file"
    if head[0] == 0x80:
        return "a pickle, which may run any code when it is opened"
    if head.startswith(GZIP_MAGIC):
        return "a gzip file"
    if b"\0" not in head:
        return "a text file"
    return "a file of unknown kind"


KINDS = [
    Kind(CHECKPOINT, _is_checkpoint, _open_checkpoint),
    Kind("a Hugging Face directory", lambda path, _: os.path.isfile(f"{path}/config.json"), _open_hugging_face),
    Kind(KALDI_RNNLM, _is_kaldi_rnnlm, _open_kaldi_rnnlm),
    Kind("an ARPA file", lambda _, head: _is_arpa(head), _open_arpa),
    Kind("a const-arpa", lambda _, head: head.startswith(b"\0B<ConstArpaLm>"), _open_const_arpa),
    Kind("a grammar (OpenFst)", lambda _, head: head.startswith(b"\xd6\xfd\xb2\x7e"), _open_grammar),
    Kind("a KenLM binary", lambda _, head: head.startswith(b"mmap lm http://kheafield.com/code"), _open_kenlm),
    Kind("a TorchScript archive", is_torchscript, _open_torchscript),
    Kind("an archive of torch.export", is_exported, _open_exported),
    Kind("an ONNX model", lambda _, head: is_onnx(head), _open_onnx),
    Kind("a directory of Caffe2 nets", lambda path, _: caffe2_nets(path) is not None, _open_caffe2),
]
