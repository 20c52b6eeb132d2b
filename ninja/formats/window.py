"""Files that are read piece by piece, so that none of them is ever in memory as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Pieces = bytes | Iterable[bytes]  # a file: all of it, or blocks of whole lines, of which the last may lack its end

LEAST = 64  # bytes by which a window grows at least: more than what a reader looks ahead


def numbered_lines(content: Pieces) -> Iterator[tuple[int, bytes, bool]]:
    """Yield each line of a file without its end: its number, from 1, the line, and whether a newline ends it."""
    number = 0
    for block in _pieces(content):
        lines = block.split(b"\n")
        last = lines.pop()
        for line in lines:
            number += 1
            yield number, line, True
        if last:
            yield number + 1, last, False


class Window:
    """A stretch of a file: it grows at its end, and loses what has been read at its start.

    Args:
        pieces: The file, in pieces of any size.
    """

    def __init__(self, pieces: Pieces) -> None:
        self.content = b""
        self.at = 0  # where in the content the next entry begins
        self.begin = 0  # where in the file the content begins
        self._pieces = iter(_pieces(pieces))

    def grow(self) -> bool:
        """Drop the bytes before the next entry and double the length of the rest.

        Returns:
            False: the file has ended, and nothing changes.
        """
        size, wanted = 0, max(len(self.content) - self.at, LEAST)
        found: list[bytes] = []
        while size < wanted and (piece := next(self._pieces, None)) is not None:
            found.append(piece)
            size += len(piece)
        if not size:
            return False
        if self.at < len(self.content):
            found.insert(0, self.content[self.at :])
        self.content = found[0] if len(found) == 1 else b"".join(found)
        self.begin += self.at
        self.at = 0
        return True


def _pieces(content: Pieces) -> Iterable[bytes]:
    return (bytes(content),) if isinstance(content, bytes | bytearray | memoryview) else content
