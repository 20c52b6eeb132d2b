"""One file, as the reader of a format wants it."""

from __future__ import annotations

import io
import os
from pathlib import Path

from ninja.errors import FormatError
from ninja.formats.sources import STDIN
from ninja.formats.streams import Stream

LARGEST = 1 << 34  # bytes of a file that is read as a whole
LARGEST_PACKED = 1 << 28  # of one packed with gzip, unpacked, ...
LARGEST_RATIO = 100  # ... or so many times its size, if that is more: lattices are packed to a tenth or so
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

        At most 16 GB are read; of a file packed with gzip at most 256 MB or 100 times its size, whichever is more. They
        are held once. How large the standard input or the output of a command is packed, nobody knows: 16 GB.

        Raises:
            FormatError: They are more than any lattices can be, or the gzip stream is damaged.
            InputError: The file cannot be read.
        """
        if self._whole is None:
            pieces = io.BytesIO()  # gives its bytes away without a copy
            buffer = memoryview(bytearray(CHUNK))
            largest, reason = self._largest()
            self._stream.head(len(BOM))
            while count := self._stream.readinto(buffer):
                skipped = len(BOM) if not pieces.tell() and buffer[:count].tobytes().startswith(BOM) else 0
                pieces.write(buffer[skipped:count])
                if pieces.tell() > largest:
                    raise FormatError(reason, self.name)
            self._whole = pieces.getvalue()
        return self._whole

    def _largest(self) -> tuple[int, str]:
        """Return how many bytes are read at most, and what is wrong if there are more."""
        plain = (LARGEST, f"more than {LARGEST >> 30} GB, too much for one file of this format")
        if self._stream.seekable or not os.path.isfile(self.path):
            return plain
        largest = max(LARGEST_PACKED, LARGEST_RATIO * os.path.getsize(self.path))
        what = f"{LARGEST_PACKED >> 20} MB and {LARGEST_RATIO} times its size"
        packed = (largest, f"it unpacks to more than {what}, as lattices do not; if it holds some, gunzip it first")
        return min(plain, packed)

    def mapped(self) -> Path | bytes:
        """Return the file's path where its bytes can be mapped as they are, else all bytes."""
        return Path(self.path) if self._stream.seekable else self.whole()
