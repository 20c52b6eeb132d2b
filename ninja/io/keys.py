"""Checks of utterance ids: whether a format can store them."""

from __future__ import annotations

import os

from ninja.errors import LatticeError
from ninja.formats.format import Write

LONGEST_KEY = 4096  # bytes, as Kaldi's tools read it


def check_field(key: str) -> None:
    """Raise `LatticeError` if a key is empty or contains white space."""
    if not key or key.split() != [key]:
        raise LatticeError(f"the key {key!r} is empty or contains white space; use another key", key=key)


def check_key(key: str, write: Write, encoding: str) -> None:
    """Raise `LatticeError` if a format cannot store a key; `encoding` is that of the output."""
    if write.key_is_field:
        check_field(key)
    if 4 * len(key) > LONGEST_KEY and len(os.fsencode(key)) > LONGEST_KEY:
        raise LatticeError(f"the key is longer than {LONGEST_KEY} bytes", key=key[:60])
    if write.encoded_keys:
        try:
            key.encode(encoding)
        except UnicodeEncodeError as error:
            message = f"the key cannot be encoded as {encoding.upper()}; use another key or encoding"
            raise LatticeError(message, key=key) from error
