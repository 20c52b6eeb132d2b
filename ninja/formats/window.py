"""Windows over files that are read in pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Pieces = bytes | Iterable[bytes]  # a whole file, or its blocks of whole lines; the last line may lack a newline

LEAST = 64  # minimum number of bytes by which a window grows; readers look ahead less


def numbered_lines(content: Pieces) -> Iterator[tuple[int, bytes, bool]]:
    """Yield the number of each line, from 1, the line without its newline, and whether it has one."""
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
    """A part of a file that grows at its end; bytes before the next entry are dropped.

    Args:
        pieces: The file, in pieces of any size.
    """

    def __init__(self, pieces: Pieces) -> None:
        self.content = b""
        self.at = 0  # begin of the next entry in the content
        self.begin = 0  # begin of the content in the file
        self._pieces = iter(_pieces(pieces))

    def grow(self) -> bool:
        """Drop the bytes before the next entry and double the rest; return False at the end of the file."""
        size, wanted = 0, max(len(self.content) - self.at, LEAST)
        pieces: list[bytes] = []
        while size < wanted and (piece := next(self._pieces, None)) is not None:
            pieces.append(piece)
            size += len(piece)
        if not size:
            return False
        if self.at < len(self.content):
            pieces.insert(0, self.content[self.at :])
        self.content = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self.begin += self.at
        self.at = 0
        return True


def _pieces(content: Pieces) -> Iterable[bytes]:
    return (bytes(content),) if isinstance(content, bytes | bytearray | memoryview) else content
