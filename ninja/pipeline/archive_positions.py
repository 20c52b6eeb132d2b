"""Find positions at which lattices begin in a Kaldi archive, without reading the archive from its start.

A binary archive contains no separators between its lattices. A position is accepted if a key and a lattice header
follow, and if two complete lattices, or one lattice and the end of the file, can be read from there. Labels of a
lattice that look like two complete lattices would be accepted by mistake, but not silently: the shard that ends at this
position would contain an incomplete lattice, and its error message would contain the position.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from ninja.errors import NinjaError
from ninja.files.stream import Place, open_raw, open_stream
from ninja.formats.content import Content
from ninja.formats.kaldi.archive import KALDI_IMAGE, MAGIC, read_entries
from ninja.io.sources import is_kaldi
from ninja.lattice import Lattice

BLOCK = 1 << 20  # size of the blocks that are searched, in bytes
LONGEST_HEAD = 4096 + 128  # maximum number of bytes of a key and a lattice header
_BLANK_LINE = re.compile(rb"\n[ \t\r]*\n\s*")
# Matches a key after a lattice. The last byte of a lattice is 0: the high byte of a state id or of a number of arcs.
_KEY = re.compile(rb"[\0\s]([^\0\s]{1,4096}[ \t])\Z")


def next_lattice_begin(path: str, offset: int, *, text: bool) -> int:
    """Return the position of the first lattice that begins at or after an offset in a Kaldi archive.

    Args:
        path: An uncompressed file.
        offset: Offset in bytes, ≥ 0.
        text: Whether the archive is in text format.

    Returns:
        Position in bytes; the size of the file if no lattice begins there.

    Raises:
        InputError: The file cannot be read.
    """
    with closing(open_raw(path)) as file:
        size = file.seek(0, 2)
        if offset == 0:
            return 0
        for position in _text_begins(file, offset) if text else _binary_begins(file, offset):
            if offset <= position < size and (text or _is_begin(path, position, size)):
                return position
    return size


def _binary_begins(file: Any, offset: int) -> Iterator[int]:
    """Yield the position of each key that is followed by a lattice header."""
    for begin, block in _blocks(file, max(0, offset - 1)):
        head = block.find(MAGIC)
        while head >= 0:
            key = _KEY.search(block, max(0, head - LONGEST_HEAD), head)
            if key is not None and KALDI_IMAGE.match(block, key.start(1)):
                yield begin + key.start(1)
            head = block.find(MAGIC, head + 1)


def _text_begins(file: Any, offset: int) -> Iterator[int]:
    """Yield the position of each key that follows a blank line; blank lines occur only between lattices."""
    for begin, block in _blocks(file, max(0, offset - 2)):
        for blank in _BLANK_LINE.finditer(block):
            if is_kaldi(block[blank.end() : blank.end() + LONGEST_HEAD]):
                yield begin + blank.end()


def _blocks(file: Any, begin: int) -> Iterator[tuple[int, bytes]]:
    """Yield ``(position, bytes)`` for each block of a file; consecutive blocks overlap by twice `LONGEST_HEAD`."""
    overlap = 2 * LONGEST_HEAD
    while True:
        file.seek(begin)
        block = b""
        while len(block) < BLOCK and (more := file.read(BLOCK - len(block))):
            block += more
        yield begin, block
        if len(block) < BLOCK:
            return
        begin += len(block) - overlap


def _is_begin(path: str, position: int, size: int) -> bool:
    """Return whether a binary archive has a lattice at a position, followed by another one or the end of the file."""
    num_lattices = 0
    try:
        with open_stream(Place(path, position, end=size)) as stream:
            for _, lattice in read_entries(Content(stream, path), None, None):
                if not isinstance(lattice, Lattice):
                    return False
                num_lattices += 1
                if num_lattices == 2:
                    return True
    except NinjaError:
        return False
    return num_lattices == 1
