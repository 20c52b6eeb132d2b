"""Readers for Kaldi matrices in binary or text format, in archives or in single files."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ninja.errors import FormatError, NinjaError
from ninja.files.stream import Stream
from ninja.formats.kaldi.objects import ObjectReader
from ninja.lattice import Array

OnError = Callable[[NinjaError], None]


def read_archive(stream: Stream, on_error: OnError | None = None) -> Iterator[tuple[str, Array]]:
    """Yield ``(key, matrix)`` for each entry of an archive; only one matrix is in memory at a time.

    Args:
        stream: The archive.
        on_error: Function that is called with the error if a matrix is damaged, but the next entry can be found; the
            matrix is then skipped.  [default: raise the error]

    Raises:
        FormatError: The archive is damaged, and the next entry cannot be found.
    """
    reader = ObjectReader(stream)
    while (key := reader.next_key()) is not None:
        reader.skip_spaces()
        begin = reader.place
        try:
            matrix = reader.matrix()
        except FormatError as error:
            if on_error is None or reader.binary or reader.place == begin:  # the end of a binary matrix is unknown
                raise
            on_error(error)
        else:
            yield key, matrix


def read_one(stream: Stream, key: str) -> Array:
    """Read the matrix at the current position in a stream; `key` is the key for error messages."""
    reader = ObjectReader(stream)
    reader.begin_entry(key)
    return reader.matrix()
