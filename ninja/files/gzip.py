"""Compression and decompression of gzip files with isal."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable
from typing import IO, Any, Protocol, cast

from ninja.errors import FormatError

GZIP_MAGIC = b"\x1f\x8b"
PACKED_CHUNK = 1 << 17  # number of bytes of a gzip file that are read at a time
SHORTEST_MEMBER = 40  # minimum size of a member in bytes; shorter data after a member are not considered gzip
LEVEL = 2  # compression level of isal: files are as small as with gzip -1, at 0.9 GB/s
LARGEST_RATIO, FREE = 100, 1 << 28  # maximum ratio of decompressed to compressed bytes, beyond the first FREE bytes
MEMBER = 1 << 22  # number of decompressed bytes per member; an interrupted file can be resumed after a member


def _unpacker() -> tuple[Any, tuple[type[Exception], ...]]:
    """Return ``(decompressor, exceptions)``: a decompressor for one gzip member, and the exceptions that it raises."""
    from isal import isal_zlib

    return isal_zlib.decompressobj(wbits=31), (zlib.error, cast(type[Exception], isal_zlib.error))


def unpack_head(packed: bytes, size: int) -> bytes:
    """Decompress up to ``size`` bytes at the start of a gzip stream; return b"" if the stream is damaged."""
    unpacker, failures = _unpacker()
    with contextlib.suppress(*failures):
        return cast(bytes, unpacker.decompress(packed, size))
    return b""


class GzipReader:
    """Reader that decompresses consecutive gzip members.

    If the file is damaged, all data before the damage is returned before an error is raised.

    Args:
        head: First bytes of the file, which the caller has already read.
        raw: The file, positioned after these bytes.
        name: Name of the file in error messages.
    """

    def __init__(self, head: bytes, raw: IO[bytes], name: str) -> None:
        self._packed = head  # bytes read but not yet decompressed
        self._raw = raw
        self._name = name
        self._read = len(head)  # number of compressed bytes read
        self._unpacker: Any = None  # decompressor for the current member
        self._failures: tuple[type[Exception], ...] = ()
        self._members = 0  # number of members that have been started
        self._begin = 0  # offset of the current member in the compressed file
        self._has_output = False  # whether the current member has yielded data
        self._full = False  # whether the last call filled the buffer completely
        self._unpacked_size = 0

    @property
    def position(self) -> int:
        """Number of compressed bytes that have been decompressed so far."""
        return self._read - len(self._packed)

    def readinto(self, buffer: memoryview) -> int:
        """Read into a buffer; return the number of bytes read, which is 0 at the end of the stream."""
        while True:
            if self._unpacker is None and not self._begin_member():
                return 0
            if not self._packed and not self._full and not self._more():
                self._refuse_trailing_data()
                raise FormatError("the gzip stream is truncated", self._name)
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
                    message = f"{self._read:,} compressed bytes decompress to at least {self._unpacked_size:,} bytes"
                    raise FormatError(f"{message}; decompress the file first if you trust it", self._name)
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
                "unexpected data follows the end of the gzip stream; remove the data, or copy the file again",
                self._name,
                byte=self._begin,
            )
        self._members += 1
        self._has_output = False
        self._unpacker, self._failures = _unpacker()
        return True

    def _refuse_trailing_data(self) -> None:
        """Raise `FormatError` if the gzip member in which an error occurred was probably appended by mistake.

        A member was probably appended if it is not the first one, and either has no data or is too short to contain a
        lattice.
        """
        if self._members > 1 and (not self._has_output or self._read - self._begin < SHORTEST_MEMBER):
            raise FormatError(
                "incomplete data follows the end of the gzip stream; remove the data, or copy the file again",
                self._name,
                byte=self._begin,
            )

    def _more(self, packed: bytes = b"") -> bool:
        """Read more compressed bytes; return False at the end of the file."""
        more = self._raw.read(PACKED_CHUNK) or b""
        self._packed = packed + more
        self._read += len(more)
        return bool(more)


class Bytes(Protocol):
    """Protocol for objects with a method that writes bytes."""

    def write(self, content: bytes | memoryview) -> object:
        """Write all bytes."""
        ...


class GzipWriter:
    """Writer for consecutive gzip members; each member contains complete entries.

    Args:
        file: Output for the compressed bytes.
        follows: Whether the output already contains gzip members.
    """

    def __init__(self, file: Bytes, *, follows: bool = False) -> None:
        from isal import isal_zlib

        self._file = file
        self._new: Callable[[], Any] = lambda: isal_zlib.compressobj(LEVEL, isal_zlib.DEFLATED, 31)
        self._packer = self._new()
        self._size = 0
        self._members = int(follows)

    def write(self, content: bytes | memoryview) -> None:
        """Write the bytes of complete entries."""
        self._size += len(content)
        if packed := self._packer.compress(content):
            self._file.write(packed)
        if self._size >= MEMBER:
            self.end_member()

    def close(self) -> None:
        """End the last gzip member; if the file is empty, write an empty member."""
        if self._size or not self._members:
            self.end_member()

    def end_member(self) -> None:
        """End the current gzip member; its entries can then be read even if the file is truncated after the member."""
        self._file.write(self._packer.flush())
        self._packer = self._new()
        self._size = 0
        self._members += 1
