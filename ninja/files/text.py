"""Whole UTF-8 texts, gzip or not, in files and other places that Kaldi names."""

from __future__ import annotations

import os

from ninja.errors import FormatError, InputError
from ninja.files.kind import kind_of
from ninja.files.place import STDIN, Place, resolve
from ninja.files.stream import open_stream, without_mark

HEAD = 1 << 13  # bytes by which the kind of a file is detected
_OPTIONS = {"ark", "t", "b", "o", "s", "cs", "p"}


def read(path: str | os.PathLike[str], *, plain: bool = False) -> str:
    """Return the text of a file, decompressed if it is gzip; for `plain` see `open_raw`."""
    return decoded(content(path, plain=plain), path)


def read_named(name: str | os.PathLike[str]) -> str:
    """Return the text of a file, of ``-`` (the standard input), ``ark:F``, or ``gunzip -c F |``.

    Raises:
        FormatError: As `decoded`, or for commands other than ``gunzip -c``, ``zcat`` and ``cat``.
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
                raise InputError("names no file", path)
            return "".join(texts)
    return read(path)


def content(path: str | os.PathLike[str], *, plain: bool = False) -> bytes:
    """Return the bytes of a file, decompressed if it is gzip; ``-`` is a file name, too. For `plain` see `open_raw`."""
    name = os.fspath(path)
    with open_stream(Place(f"./{name}" if name == STDIN else name, plain=plain)) as stream:
        return stream.rest()


def decoded(content: bytes, path: str | os.PathLike[str]) -> str:
    """Decode UTF-8.

    Raises:
        FormatError: The bytes are no text; the message names the kind of file if it is known.
    """
    if (kind := kind_of(content[:HEAD])) is not None:
        raise FormatError(f"this is {kind}, but a text is expected here (are two arguments swapped?)", path)
    try:
        return without_mark(content, path).decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FormatError(f"not UTF-8 ({error.reason}); convert it with iconv", path, line=line) from error
