"""Read UTF-8 text files, compressed or not, and TOML files; detect the kind of files that are not text."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from typing import IO, Any, cast

from ninja.errors import FormatError, InputError
from ninja.files.names import resolve
from ninja.files.remote import RemoteFile
from ninja.files.stream import STDIN, Place, is_remote, open_stream, without_mark

_KEY = rb"\S{1,4096} "
_MARKS = (
    (_KEY + rb"(?:\0B)?\xd6\xfd\xb2\x7e", "a Kaldi archive of lattices or other FSTs"),
    (_KEY + rb"\0B[FDC]M", "a Kaldi archive of matrices"),
    (_KEY + rb"\0B", "a binary Kaldi archive"),
    (rb"(?:\0B)?<Nnet3>", "a Kaldi nnet3 network"),
    (rb"\0B<ConstArpaLm>", "a Kaldi const-arpa language model"),
    (rb"(?:\0B)?<TransitionModel>", "a Kaldi acoustic model"),
    (rb"\0B", "a binary Kaldi file"),
    (rb"\xd6\xfd\xb2\x7e", "an OpenFst FST"),
    (rb"mmap lm http://kheafield\.com/code", "a KenLM language model"),
    (rb"\s*\\data\\\s", "a language model in ARPA format"),
    (rb"PK\x03\x04.{0,508}data\.pkl", "a PyTorch file"),
    (rb"PK\x03\x04", "a zip file"),
    (rb"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19\.", "an old PyTorch file"),
    (rb"\x80[\x02-\x05].", "a Python pickle"),
    (rb"\x93NUMPY", "a numpy array"),
    (rb".{4}\0{4}\{\"", "a safetensors file"),
    (rb"ARROW1\0|\xff{4}.{4}", "an Arrow file"),
    (rb"\x1f\x8b", "a gzip file"),
    (rb"\x89PNG|\xff\xd8\xff|GIF8[79]a", "a picture"),
    (rb"%PDF-", "a PDF document"),
    (rb"RIFF.{4}WAVE|fLaC\0|OggS\0", "an audio file"),
    (rb"\x7fELF", "a program"),
    (rb".{257}ustar", "a tar file"),
)
HEAD = 1 << 13  # bytes in which the kind of a file is detected
_OPTIONS = {"ark", "t", "b", "o", "s", "cs", "p"}


def kind_of(head: bytes) -> str | None:
    """Return the kind of a file, such as "a PyTorch file", given its first bytes; None for text and unknown kinds."""
    return next((kind for mark, kind in _MARKS if re.match(mark, head, re.DOTALL)), None)


def read(path: str | os.PathLike[str], *, plain: bool = False) -> str:
    """Return the text of a file, decompressed if it is gzip; for `plain`, see `open_raw`."""
    return decoded(content(path, plain=plain), path)


def read_named(name: str | os.PathLike[str]) -> str:
    """Return the text of a file, of ``-`` (stdin), ``ark:F``, or ``gunzip -c F |``.

    Raises:
        FormatError: See `decoded`; or the command is not ``gunzip -c``, ``zcat`` or ``cat``.
        InputError: A file cannot be read.
    """
    path = os.fspath(name)
    if not isinstance(name, os.PathLike) and not os.path.exists(path):
        kind, colon, rest = path.partition(":")
        if colon and "ark" in kind.split(",") and set(kind.split(",")) <= _OPTIONS:
            path = rest.strip()
        if path in ("", STDIN) or path.endswith("|"):
            texts = []
            for place in resolve(path):
                with open_stream(place) as stream:
                    texts.append(decoded(stream.rest(), place.name))
            if not texts:
                raise InputError("does not name a file", path)
            return "".join(texts)
    return read(path)


def content(path: str | os.PathLike[str], *, plain: bool = False) -> bytes:
    """Return the content of a file (even one named ``-``), decompressed if it is gzip; for `plain`, see `open_raw`."""
    name = os.fspath(path)
    with open_stream(Place(f"./{name}" if name == STDIN else name, plain=plain)) as stream:
        return stream.rest()


def decoded(content: bytes, path: str | os.PathLike[str]) -> str:
    """Decode UTF-8.

    Raises:
        FormatError: The content is not UTF-8 text; the message names the kind of file if it is known.
    """
    if (kind := kind_of(content[:HEAD])) is not None:
        raise FormatError(f"expected text, found {kind}; are two arguments swapped?", path)
    try:
        return without_mark(content, path).decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FormatError(f"not UTF-8 ({error.reason}); convert it with iconv", path, line=line) from error


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        InputError: The file cannot be read.
        FormatError: The file is not TOML.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        name = os.fspath(path)
        with cast("IO[bytes]", RemoteFile(name)) if is_remote(name) else open(name, "rb") as stream:
            return tomllib.load(stream)
    except InputError:
        raise
    except OSError as error:
        raise InputError(error.strerror or str(error), path) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"not TOML: {error}", path) from error
    except RecursionError:
        raise FormatError("tables or arrays are nested too deeply", path) from None


def toml_text(values: Mapping[str, Any], comments: Iterable[str] = ()) -> str:
    """Format values as TOML, preceded by comments."""
    import json

    lines = [f"# {line}\n" for line in comments]
    for name, value in values.items():
        # Strings, lists and booleans have the same syntax in JSON and TOML.
        text = repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
        lines.append(f"{name} = {text}\n")
    return "".join(lines)
