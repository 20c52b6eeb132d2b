"""Text that may be shown on a terminal: keys and words of files must not move its cursor or change its settings."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tab and the end of a line


def printable(text: str) -> str:
    r"""Return a text with its control characters spelled out, ESC as ``\x1b``."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


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
