"""Text that may be shown on a terminal: keys and words of files must not move its cursor or change its settings."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

# All but tab and the end of a line; and what turns the direction of a text, by which one name may look like another.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    r"""Return a text with its control characters spelled out, ESC as ``\x1b``, RIGHT-TO-LEFT OVERRIDE as ``\u202e``."""
    return _CONTROL.sub(lambda found: f"\\x{code:02x}" if (code := ord(found[0])) < 256 else f"\\u{code:04x}", text)


class Printable:
    """A text stream that spells control characters out."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.rich_proxied_file = stream  # where rich, which draws the progress line, writes instead

    def write(self, text: str) -> int:
        """Write a text."""
        self._stream.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts."""
        self._stream.writelines(map(printable, lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def printing() -> Iterator[None]:
    """Spell control characters out, in a ``with`` block, of all messages, and of results that go to a terminal."""
    before = sys.stdout, sys.stderr
    sys.stderr = cast(TextIO, Printable(sys.stderr))
    if sys.stdout.isatty():
        sys.stdout = cast(TextIO, Printable(sys.stdout))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
