"""Compression and decompression of gzip, by isal."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any, cast

from ninja.errors import FormatError

if TYPE_CHECKING:
    from ninja.files.output import Bytes

GZIP_MAGIC = b"\x1f\x8b"
PACKED_CHUNK = 1 << 17  # bytes of a gzip file read at once
SHORTEST_MEMBER = 40  # bytes; shorter data after a member are not gzip, even if they begin with its magic number
PACKING = 2  # isal's level: as small as gzip -1, at 0.9 GB/s
LARGEST_RATIO, FREE = 100, 1 << 28  # limit of unpacked bytes per packed byte, after the first FREE bytes
MEMBER = 1 << 22  # unpacked bytes after which a new member begins, so that an interrupted file can be resumed


def _unpacker() -> tuple[Any, tuple[type[Exception], ...]]:
    """Return a decompressor of one member, and the errors it raises."""
    from isal import isal_zlib

    return isal_zlib.decompressobj(wbits=31), (zlib.error, cast(type[Exception], isal_zlib.error))


def unpack_head(packed: bytes, size: int) -> bytes:
    """Decompress the beginning of a gzip stream; return b"" if it is damaged."""
    unpacker, failures = _unpacker()
    with contextlib.suppress(*failures):
        return cast(bytes, unpacker.decompress(packed, size))
    return b""


class GzipReader:
    """Decompresses a series of gzip members; the bytes before a damaged place are still returned.

    `head` are the first bytes, which have been read already.
    """

    def __init__(self, head: bytes, raw: IO[bytes], name: str) -> None:
        self._packed = head  # read and not yet unpacked
        self._raw = raw
        self._name = name
        self._read = len(head)  # bytes read so far
        self._unpacker: Any = None  # of the current member
        self._failures: tuple[type[Exception], ...] = ()
        self._members = 0  # number of members so far
        self._begin = 0  # offset of the current member in the packed file
        self._has_output = False  # whether the current member gave a byte
        self._full = False  # whether the last buffer was filled to its end
        self._unpacked_size = 0

    @property
    def position(self) -> int:
        """Number of packed bytes that were decompressed so far."""
        return self._read - len(self._packed)

    def readinto(self, buffer: memoryview) -> int:
        """Read into a buffer and return the number of bytes, 0 at the end of the stream."""
        while True:
            if self._unpacker is None and not self._begin_member():
                return 0
            if not self._packed and not self._full and not self._more():
                self._refuse_trailing_data()
                raise FormatError("the gzip stream ends too early: the file is cut short", self._name)
            try:
                content = self._unpacker.decompress(self._packed, len(buffer))
            except self._failures as error:
                self._refuse_trailing_data()
                raise FormatError(f"the gzip stream is damaged: {error}", self._name) from error
            self._full = len(content) == len(buffer)  # the decompressor may have more output without more input
            self._packed = self._unpacker.unconsumed_tail
            if self._unpacker.eof:
                self._packed = self._unpacker.unused_data
                self._unpacker = None
                self._full = False
            if content:
                self._has_output = True
                self._unpacked_size += len(content)
                if self._unpacked_size > max(FREE, LARGEST_RATIO * self._read):
                    message = f"{self._read:,} packed bytes unpack to more than {self._unpacked_size:,}"
                    raise FormatError(f"{message}; was it made to fill the memory? If not, unpack it first", self._name)
                buffer[: len(content)] = content
                return len(content)

    def _begin_member(self) -> bool:
        while not (packed := self._packed.lstrip(b"\0")):  # some programs pad files with zeros
            if not self._more():
                return False
        self._packed = packed
        while len(self._packed) < len(GZIP_MAGIC) and self._more(self._packed):
            pass
        self._begin = self._read - len(self._packed)
        if not self._packed.startswith(GZIP_MAGIC):
            raise FormatError(
                "the gzip stream ends here, and no other follows: is something else appended to the file?",
                self._name,
                byte=self._begin,
            )
        self._members += 1
        self._has_output = False
        self._unpacker, self._failures = _unpacker()
        return True

    def _refuse_trailing_data(self) -> None:
        """Refuse a later member that fails before its first byte, or is too short to hold a lattice."""
        if self._members > 1 and (not self._has_output or self._read - self._begin < SHORTEST_MEMBER):
            raise FormatError(
                "the gzip stream ends here, and the next one is incomplete: is something else appended to the file, or "
                "is it cut short?",
                self._name,
                byte=self._begin,
            )

    def _more(self, rest: bytes = b"") -> bool:
        """Read more bytes; return whether there were any."""
        more = self._raw.read(PACKED_CHUNK) or b""
        self._packed = rest + more
        self._read += len(more)
        return bool(more)


class GzipWriter:
    """Writes a series of gzip members, each of whole entries; with `follows`, after existing members of the file."""

    def __init__(self, file: Bytes, *, follows: bool = False) -> None:
        from isal import isal_zlib

        self._file = file
        self._new: Callable[[], Any] = lambda: isal_zlib.compressobj(PACKING, isal_zlib.DEFLATED, 31)
        self._packer = self._new()
        self._size = 0
        self._members = int(follows)

    def write(self, content: bytes | memoryview) -> None:
        """Write the bytes of whole entries."""
        self._size += len(content)
        if packed := self._packer.compress(content):
            self._file.write(packed)
        if self._size >= MEMBER:
            self.end_member()

    def close(self) -> None:
        """End the last member; even an empty file has one."""
        if self._size or not self._members:
            self.end_member()

    def end_member(self) -> None:
        """End a member, whose entries can be read even if the file is truncated after it."""
        self._file.write(self._packer.flush())
        self._packer = self._new()
        self._size = 0
        self._members += 1
