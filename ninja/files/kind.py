"""Kinds of files that are often named by mistake, detected by their first bytes."""

from __future__ import annotations

import re

_KEY = rb"\S{1,4096} "
_MARKS: tuple[tuple[re.Pattern[bytes], str], ...] = tuple(
    (re.compile(mark, re.DOTALL), kind)
    for mark, kind in (
        (_KEY + rb"(?:\0B)?\xd6\xfd\xb2\x7e", "a Kaldi archive of lattices or other FSTs"),
        (_KEY + rb"\0B[FDC]M", "a Kaldi archive of matrices"),
        (_KEY + rb"\0B", "a binary Kaldi archive"),
        (rb"(?:\0B)?<Nnet3>", "a network of Kaldi's nnet3"),
        (rb"\0B<ConstArpaLm>", "a const-arpa language model of Kaldi"),
        (rb"(?:\0B)?<TransitionModel>", "an acoustic model of Kaldi"),
        (rb"\0B", "a binary file of Kaldi"),
        (rb"\xd6\xfd\xb2\x7e", "an FST of OpenFst"),
        (rb"mmap lm http://kheafield\.com/code", "a language model of KenLM"),
        (rb"\s*\\data\\\s", "a language model in ARPA format"),
        (rb"PK\x03\x04.{0,508}data\.pkl", "a PyTorch file"),
        (rb"PK\x03\x04", "a zip file"),
        (rb"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19\.", "an old PyTorch file"),
        (rb"\x80[\x02-\x05].", "a pickle of Python"),
        (rb"\x93NUMPY", "a numpy array"),
        (rb".{4}\0{4}\{\"", "a file of safetensors"),
        (rb"ARROW1\0|\xff{4}.{4}", "an Arrow file"),
        (rb"\x1f\x8b", "a file packed with gzip"),
        (rb"\x89PNG|\xff\xd8\xff|GIF8[79]a", "a picture"),
        (rb"%PDF-", "a PDF document"),
        (rb"RIFF.{4}WAVE|fLaC\0|OggS\0", "an audio file"),
        (rb"\x7fELF", "a program"),
        (rb".{257}ustar", "a tar file"),
    )
)


def kind_of(head: bytes) -> str | None:
    """Return the kind of a file by its first bytes, such as "a PyTorch file"; None for text and unknown kinds."""
    return next((kind for mark, kind in _MARKS if mark.match(head)), None)
