"""Readers for TOML files, for text files that are specified by paths or Kaldi rspecifiers, and for their lines."""

from __future__ import annotations

import os
import sys
from typing import Any

from ninja.errors import FormatError, InputError
from ninja.files.names import resolve
from ninja.files.stream import STDIN, decoded, open_stream, text_of

_OPTIONS = {"ark", "t", "b", "o", "s", "cs", "p"}


def read_named(name: str | os.PathLike[str]) -> str:
    """Return the text of a file that is specified as a path, ``-`` (stdin), ``ark:F`` or ``gunzip -c F |``.

    Raises:
        FormatError: The file is not UTF-8 text, or the command is not ``gunzip -c``, ``zcat`` or ``cat``.
        InputError: A file cannot be read.
    """
    path = os.fspath(name)
    if not isinstance(name, os.PathLike) and not os.path.exists(path):
        kind, colon, file_name = path.partition(":")
        if colon and "ark" in kind.split(",") and set(kind.split(",")) <= _OPTIONS:
            path = file_name.strip()
        if path in ("", STDIN) or path.endswith("|"):
            texts = []
            for place in resolve(path):
                with open_stream(place) as stream:
                    texts.append(decoded(stream.rest(), place.name))
            if not texts:
                raise InputError("specifies no file", path)
            return "".join(texts)
    return text_of(path)


def line_fields(line: str) -> list[str]:
    """Return the fields of a line, which spaces and tabs separate; words can contain other whitespace, like U+00A0."""
    fields = line.split()
    if " ".join(fields) == line:  # usual, and faster than the general case
        return fields
    return [field for field in line.replace("\t", " ").rstrip("\r").split(" ") if field]


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a TOML file, or stdin if the path is ``-``.

    Raises:
        InputError: The file cannot be read.
        FormatError: The file is not TOML or not UTF-8.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(text_of(path))
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"not TOML: {error}", path) from error
    except RecursionError:
        raise FormatError("tables or arrays are nested too deeply", path) from None
