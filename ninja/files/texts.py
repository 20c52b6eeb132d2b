"""Whole texts from wherever a user may name them in Kaldi's way."""

from __future__ import annotations

import os

from ninja.errors import InputError
from ninja.files import text as utf8
from ninja.files.place import resolve
from ninja.files.stream import open_stream

_OPTIONS = {"ark", "t", "b", "o", "s", "cs", "p"}
_CHUNK = 1 << 20


def read_whole(name: str | os.PathLike[str]) -> str:
    """Return a text: of a file, ``-`` (the standard input), ``ark:F``, or ``gunzip -c F |`` and its like.

    Raises:
        FormatError: It is not UTF-8, its gzip stream is damaged, or it is a command that is not served.
        InputError: It cannot be read.
    """
    path = os.fspath(name)
    if not isinstance(name, os.PathLike) and not os.path.exists(path):
        kind, colon, rest = path.partition(":")
        if colon and "ark" in kind.split(",") and set(kind.split(",")) <= _OPTIONS:
            path = rest.strip()
        if path in ("", "-") or path.endswith("|"):
            return "".join(_unpacked(path))
    return utf8.read(path)


def _unpacked(name: str) -> list[str]:
    texts = []
    for place in resolve(name, typed=True):
        content = bytearray()
        buffer = memoryview(bytearray(_CHUNK))
        with open_stream(place) as stream:
            while count := stream.readinto(buffer):
                content += buffer[:count]
        texts.append(utf8.decoded(bytes(content), place.name))
    if not texts:
        raise InputError("names no file", name)
    return texts
