"""Kaldi's matrices: one, or an archive of them, binary or text."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ninja.errors import FormatError, NinjaError
from ninja.files.stream import Stream
from ninja.formats.kaldi.objects import ObjectReader
from ninja.lattice import Array

OnError = Callable[[NinjaError], None]


def read_archive(stream: Stream, on_error: OnError | None = None) -> Iterator[tuple[str, Array]]:
    """Yield the key and the matrix of each entry of an archive; only one is in memory.

    Args:
        on_error: Called with the error of a matrix whose end is known, which is skipped; without it, it is raised.

    Raises:
        FormatError: The archive is damaged, and the next entry cannot be found.
    """
    reader = ObjectReader(stream)
    while (key := reader.next_key()) is not None:
        reader.skip_blanks()
        begin = reader.place
        try:
            matrix = reader.matrix()
        except FormatError as error:
            if on_error is None or reader.binary or reader.place == begin:  # only in text the end is known
                raise
            on_error(error)
        else:
            yield key, matrix


def read_one(stream: Stream, key: str) -> Array:
    """Read the matrix at the position of a stream."""
    reader = ObjectReader(stream)
    reader.begin_entry(key)
    return reader.matrix()
