"""Places in files where lattices begin, found near a given byte without reading what lies before.

A binary archive has no marks between its lattices. A key and the head of a lattice are taken for its begin if two whole
lattices, or one and the end of the file, can be read from there; so bytes within a lattice that look like a head are
not. The one thing that could still pass, two whole lattices written into the labels of a third, is no silent fault
either: the shard that ends there is left with half a lattice, which fails with its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing

from ninja.errors import NinjaError
from ninja.files.place import Place
from ninja.files.stream import open_raw, open_stream
from ninja.formats.content import Content
from ninja.formats.kaldi.archive import KALDI_IMAGE, MAGIC, read_entries
from ninja.io.sources import is_kaldi
from ninja.lattice import Lattice

BLOCK = 1 << 20  # bytes looked through at once
LONGEST_HEAD = 4096 + 128  # bytes of a key, and of the head of its lattice
_BLANK_LINE = re.compile(rb"\n[ \t\r]*\n\s*")
# Behind the last lattice, whose last byte is 0: the highest of a state's id, or of the number of its arcs.
_KEY = re.compile(rb"[\0\s]([^\0\s]{1,4096}[ \t])\Z")


def next_lattice(path: str, offset: int, *, text: bool) -> int:
    """Return the byte at or after an offset at which a lattice of a Kaldi archive begins, or the size of the file.

    Args:
        path: A plain file.
        offset: ≥ 0.
        text: The archive is text.

    Raises:
        InputError: The file cannot be read.
    """
    with closing(open_raw(path, is_input=False)) as file:
        size = file.seek(0, 2)
        if offset == 0:
            return 0
        for place in _text_begins(file, offset) if text else _binary_begins(file, offset):
            if offset <= place < size and (text or _is_begin(path, place, size)):
                return place
    return size


def _binary_begins(file: object, offset: int) -> Iterator[int]:
    """Yield the places of keys with the head of a lattice behind them."""
    for begin, block in _blocks(file, max(0, offset - 1)):
        found = block.find(MAGIC)
        while found >= 0:
            key = _KEY.search(block, max(0, found - LONGEST_HEAD), found)
            if key is not None and KALDI_IMAGE.match(block, key.start(1)):
                yield begin + key.start(1)
            found = block.find(MAGIC, found + 1)


def _text_begins(file: object, offset: int) -> Iterator[int]:
    """Yield the places behind blank lines, which no lattice has within."""
    for begin, block in _blocks(file, max(0, offset - 2)):
        for blank in _BLANK_LINE.finditer(block):
            if is_kaldi(block[blank.end() : blank.end() + LONGEST_HEAD]):
                yield begin + blank.end()


def _blocks(file: object, begin: int) -> Iterator[tuple[int, bytes]]:
    """Yield the bytes of a file from a place on, with the place of each block; blocks overlap by two heads."""
    overlap = 2 * LONGEST_HEAD
    while True:
        file.seek(begin)  # type: ignore[attr-defined]
        block = b""
        while len(block) < BLOCK and (more := file.read(BLOCK - len(block))):  # type: ignore[attr-defined]
            block += more
        yield begin, block
        if len(block) < BLOCK:
            return
        begin += len(block) - overlap


def _is_begin(path: str, place: int, size: int) -> bool:
    """Tell whether a lattice begins at a place of a binary archive, and another, or nothing, follows it."""
    sound = 0
    try:
        with open_stream(Place(path, place, end=size), is_input=False) as stream:
            for _, found in read_entries(Content(stream, path), None, None):
                if not isinstance(found, Lattice):
                    return False
                sound += 1
                if sound == 2:
                    return True
    except NinjaError:
        return False
    return sound == 1
