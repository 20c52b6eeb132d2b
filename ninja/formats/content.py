"""One file, as the reader of a format wants it."""

from __future__ import annotations

import os
from pathlib import Path

from ninja.errors import FormatError
from ninja.formats.sources import STDIN
from ninja.formats.streams import Stream

LARGEST = 1 << 34  # bytes of a file that is read as a whole
CHUNK = 1 << 20
BOM = b"\xef\xbb\xbf"


class Content:
    """What stands in one file; it is read when it is asked for, or mapped.

    Args:
        stream: The file, opened at its begin.
        path: Its name; "-" is the standard input.
    """

    def __init__(self, stream: Stream, path: str) -> None:
        self.name = stream.name  # for messages
        self.path = path
        self._stream = stream
        self._whole: bytes | None = None

    @property
    def key(self) -> str:
        """Utterance id of a lattice that has none of its own: the file's name without its ending and .gz."""
        if self.path == STDIN:
            return "stdin"
        name = os.path.basename(self.path).removesuffix(".gz")
        return os.path.splitext(name)[0] or name

    def numbered(self, number: int) -> str:
        """Return the utterance id of one of several lattices without any, counted from 1."""
        return str(number) if self.path == STDIN else f"{self.key}-{number}"

    def whole(self) -> bytes:
        """Return all bytes, unpacked, without the mark with which some editors begin text.

        Raises:
            FormatError: They are more than any lattices can be, or the gzip stream is damaged.
            InputError: The file cannot be read.
        """
        if self._whole is None:
            pieces = bytearray()
            buffer = memoryview(bytearray(CHUNK))
            while count := self._stream.readinto(buffer):
                pieces += buffer[:count]
                if len(pieces) > LARGEST:
                    raise FormatError(f"more than {LARGEST >> 30} GB, too much for one file of this format", self.name)
            self._whole = bytes(pieces.removeprefix(BOM))
        return self._whole

    def mapped(self) -> Path | bytes:
        """Return the file's path where its bytes can be mapped as they are, else all bytes."""
        return Path(self.path) if self._stream.seekable else self.whole()
