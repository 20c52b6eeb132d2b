"""Text files as a whole: UTF-8, packed with gzip or not."""

from __future__ import annotations

import gzip
import os
import zlib

from ninja.errors import FormatError, InputError

GZIP_MAGIC = b"\x1f\x8b"


def read(path: str | os.PathLike[str]) -> str:
    """Return the text of a file; a gzip file, known by its content, is unpacked.

    Raises:
        FormatError: The text is not UTF-8, or the gzip stream is damaged.
        InputError: The file cannot be read.
    """
    return decoded(content(path), path)


def content(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a file; a gzip file, known by its content, is unpacked.

    Raises:
        FormatError: The gzip stream is damaged.
        InputError: The file cannot be read.
    """
    try:
        with open(path, "rb") as stream:
            found = stream.read()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path) from error
    if found.startswith(GZIP_MAGIC):
        try:
            found = gzip.decompress(found)
        except (OSError, EOFError, zlib.error) as error:
            raise FormatError(f"the gzip stream is damaged: {error}", path) from error
    return found


def decoded(content: bytes, path: str | os.PathLike[str]) -> str:
    """Return bytes as text.

    Raises:
        FormatError: They are not UTF-8; the message has the line.
    """
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FormatError(f"not UTF-8 ({error.reason}); convert it with iconv", path, line=line) from error
