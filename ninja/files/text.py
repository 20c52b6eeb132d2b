"""Texts as a whole: UTF-8, packed with gzip or not, named by a path or in Kaldi's way."""

from __future__ import annotations

import io
import os
import warnings

from ninja.errors import FormatError, InputError, NinjaWarning
from ninja.files.gzip import GZIP_MAGIC
from ninja.files.kind import kind_of
from ninja.files.place import STDIN, Place, resolve
from ninja.files.stream import Stream, gives_bytes_once, open_raw, open_stream

BOM = b"\xef\xbb\xbf"
HEAD = 1 << 13  # bytes by which other files are told
_OPTIONS = {"ark", "t", "b", "o", "s", "cs", "p"}


def read(path: str | os.PathLike[str], *, plain: bool = False) -> str:
    """Return the text of a file; a gzip file, known by its content, is unpacked; see `open_raw` for `plain`."""
    return decoded(content(path, plain=plain), path)


def read_named(name: str | os.PathLike[str]) -> str:
    """Return a text: of a file, ``-`` (the standard input), ``ark:F``, or ``gunzip -c F |`` and its like.

    Raises:
        FormatError: As ``read``, or it is a command that is not served.
    """
    path = os.fspath(name)
    if not isinstance(name, os.PathLike) and not os.path.exists(path):
        kind, colon, rest = path.partition(":")
        if colon and "ark" in kind.split(",") and set(kind.split(",")) <= _OPTIONS:
            path = rest.strip()
        if path in ("", "-") or path.endswith("|"):
            texts = []
            for place in resolve(path):
                with open_stream(place) as stream:
                    texts.append(decoded(stream.rest(), place.name))
            if not texts:
                raise InputError("names no file", path)
            return "".join(texts)
    return read(path)


def content(path: str | os.PathLike[str], *, plain: bool = False) -> bytes:
    """Return the bytes of a file; a gzip file, known by its content, is unpacked; see `open_raw` for `plain`."""
    if not plain and os.fspath(path) != STDIN and gives_bytes_once(os.fspath(path)):
        with open_stream(Place(os.fspath(path))) as stream:  # whose first bytes may have been peeked at
            return stream.rest()
    file = open_raw(os.fspath(path), plain=plain)
    try:
        with file:
            found = file.read()
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path) from error
    return Stream(io.BytesIO(found), os.fspath(path)).rest() if found.startswith(GZIP_MAGIC) else found


def without_mark(content: bytes, path: str | os.PathLike[str] | None) -> bytes:
    """Return text without the byte-order mark with which some editors begin it; warn if it had one."""
    if not content.startswith(BOM):
        return content
    warnings.warn(f"{path or 'text'}: the byte-order mark at its beginning is left out", NinjaWarning, stacklevel=2)
    return content[len(BOM) :]


def decoded(content: bytes, path: str | os.PathLike[str]) -> str:
    """Return bytes as text.

    Raises:
        FormatError: They are none; the message says what else they are, if that is known.
    """
    if (kind := kind_of(content[:HEAD])) is not None:
        raise FormatError(f"this is {kind}, but a text is expected here (are two arguments swapped?)", path)
    try:
        return without_mark(content, path).decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FormatError(f"not UTF-8 ({error.reason}); convert it with iconv", path, line=line) from error
