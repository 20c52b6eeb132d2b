"""Open a language model file, whatever kind it is: found by content, never by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from ninja.errors import ModelError
from ninja.lm.protocol import LanguageModel
from ninja.symbols import SymbolTable
from ninja.utf8 import GZIP_MAGIC

HEAD = 512  # bytes of a file that tell its kind


@dataclass(frozen=True, slots=True)
class Running:
    """How a language model is to compute, see `load`; what a kind of model has no use for, it ignores."""

    device: str
    normalize: bool | None  # None: as the kind of model is meant to be used
    max_batch: int | None


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of language model, one file or a directory of them."""

    name: str
    recognise: Callable[[str, bytes], bool]  # given the path and a file's first bytes, which a directory has none of
    open: Callable[[str, Running], LanguageModel]


def load(
    path: str | os.PathLike[str] | None = None,
    device: str = "cpu",
    *,
    normalize: bool | None = None,
    max_batch: int | None = None,
) -> LanguageModel:
    """Load a language model.

    Args:
        path: A model of any kind in `KINDS`, a file or a directory; None = the English model that is shipped with
            Ninja.
        device: Where torch computes, such as ``"cuda"``.
        normalize: Normalise scores exactly. A network trained to normalise itself may go without; None = as the
            kind of model is meant to be used, that is: normalised.
        max_batch: Most histories a network sees at once; None = as many as a call brings.

    Raises:
        ModelError: There is no such file, it is of another kind, damaged, or contradicts itself.
        OptionError: An option is out of range, or torch cannot use the device.
        OSError: The file cannot be read.
    """
    if path is None:
        from ninja.models import ENGLISH

        path = ENGLISH
    name = os.fspath(path)
    head = b"" if os.path.isdir(name) else _head(name)
    for kind in KINDS:
        if kind.recognise(name, head):
            return kind.open(name, Running(device, normalize, max_batch))
    found = "a directory of unknown kind" if os.path.isdir(name) else _describe(head)
    known = " or ".join(kind.name for kind in KINDS)
    raise ModelError(f"{found}, not {known}; train a model with `ninja train`", name)


def _head(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read(HEAD)
    except FileNotFoundError as error:
        raise ModelError("no such file; give a checkpoint of `ninja train`", path) from error


def _open_checkpoint(path: str, running: Running) -> LanguageModel:
    from ninja.lm import checkpoint
    from ninja.lm.neural import NeuralLM

    stored = checkpoint.read(path)
    vocabulary = SymbolTable(((word, number) for number, word in enumerate(stored.words)), path)
    unk_words = stored.card.get("unk_words")
    return NeuralLM(
        stored.module,
        vocabulary,
        running.device,
        normalize=running.normalize is not False,
        max_batch=running.max_batch,
        unk_words=unk_words if type(unk_words) is int and unk_words > 0 else None,
    )


def _describe(head: bytes) -> str:
    """Say what a file that is no model looks like."""
    if not head:
        return "an empty file"
    if head[0] == 0x80:
        return "a pickle, which may run any code when it is opened"
    if head.startswith(GZIP_MAGIC):
        return "a gzip file"
    if head.lstrip()[:6] == b"\\data\\":
        return "an n-gram model (ARPA)"
    if b"\0" not in head:
        return "a text file"
    return "a file of unknown kind"


KINDS = [
    Kind("a Ninja checkpoint", lambda _, head: head[:4] == b"PK\x03\x04", _open_checkpoint),
]
