"""Escape control characters, so that keys and words from files cannot control a terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

# All except tab and newline, and marks of text direction, which can make one name look like another.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    r"""Escape control characters: ESC as ``\x1b``, RIGHT-TO-LEFT OVERRIDE as ``\u202e``."""
    return _CONTROL.sub(lambda match: f"\\x{code:02x}" if (code := ord(match[0])) < 256 else f"\\u{code:04x}", text)


class Printable:
    """A text stream that escapes control characters."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.rich_proxied_file = stream  # rich, which draws the progress line, writes here

    def write(self, text: str) -> int:
        """Write a text, and return its length."""
        self._stream.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        self._stream.writelines(map(printable, lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def printing() -> Iterator[None]:
    """Escape control characters on stderr, and on stdout if it is a terminal, in a ``with`` block."""
    before = sys.stdout, sys.stderr
    sys.stderr = cast(TextIO, Printable(sys.stderr))
    if sys.stdout.isatty():
        sys.stdout = cast(TextIO, Printable(sys.stdout))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
