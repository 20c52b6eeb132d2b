"""Kaldi's matrices: one, or an archive of them, binary or text."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ninja.errors import FormatError, NinjaError
from ninja.files.stream import Stream
from ninja.formats.kaldi.objects import ObjectReader
from ninja.lattice import Array

OnError = Callable[[NinjaError], None]


def read_archive(stream: Stream, on_error: OnError | None = None) -> Iterator[tuple[str, Array]]:
    """Yield the key and the matrix of each entry of an archive; one at a time is in memory.

    `on_error` is called with the fault of a matrix whose end is known, which is left out; without it that is raised.

    Raises:
        FormatError: Damage, behind which nothing can be found.
    """
    reader = ObjectReader(stream)
    while (key := reader.next_key()) is not None:
        reader.pass_blanks()
        begin = reader.place
        try:
            matrix = reader.matrix()
        except FormatError as error:
            if on_error is None or reader.binary or reader.place == begin:  # only a text's end is known
                raise
            on_error(error)
        else:
            yield key, matrix


def read_one(stream: Stream, key: str) -> Array:
    """Return the matrix at a stream's position; nothing behind it is read."""
    reader = ObjectReader(stream)
    reader.begin_entry(key)
    return reader.matrix()
