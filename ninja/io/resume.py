"""The whole entries that an earlier attempt to write a Kaldi archive left behind."""

from __future__ import annotations

import os
import shutil
import zlib
from dataclasses import dataclass, field
from typing import cast

from ninja import _core
from ninja._tables import TableReader
from ninja.errors import FormatError
from ninja.files.output import PartFile, Target
from ninja.files.remote import is_file
from ninja.files.stream import open_raw

CHUNK = 1 << 19  # bytes read at once
PACKED_CHUNK = 1 << 16


@dataclass(slots=True)
class ResumePoint:
    """The sound part of an unfinished archive."""

    length: int = 0  # bytes of the file that hold whole entries
    tail: bytes = b""  # whole entries behind these, unpacked, of a gzip member that was broken off
    entries: list[tuple[str, int]] = field(default_factory=list)  # each key, and where its lattice lies, unpacked
    lost: int = 0  # bytes behind the last whole entry
    story: str | None = None  # what there was, for the user


def resume_point(chosen: Target, file: PartFile) -> ResumePoint:
    """Find the whole entries of the temporary file, or of the finished one, which is copied into it.

    What is behind them is cut off.

    Args:
        file: The temporary file, open.

    Raises:
        FormatError: The finished file is damaged, or not of the format that is to be written.
        OutputError: The copy cannot be written.
    """
    if file.is_direct:
        return ResumePoint()
    finished = not os.path.getsize(file.part)
    if finished:
        if not is_file(chosen.archive):
            return ResumePoint()
        with open_raw(chosen.archive, is_input=False) as source:
            shutil.copyfileobj(source, file, CHUNK)
    point = _packed(file.part) if chosen.packed else _plain(file.part)
    if finished and (point.lost or point.tail):
        raise FormatError("is damaged or of another format, so nothing can be appended; move it away", chosen.archive)
    file.cut(point.length)
    if not finished:
        count = len(point.entries)
        kept = (
            "1 lattice of an earlier attempt is kept"
            if count == 1
            else f"{count} lattices of an earlier attempt are kept"
        )
        point.story = f"{file.part}: {kept}"
        if point.lost:
            point.story += f", and {point.lost} bytes behind them, no whole lattice, are discarded"
    return point


def _take(reader: TableReader, point: ResumePoint) -> bool:
    """Parse the bytes read so far; tell whether they are sound, and only then add their entries."""
    items, faults = reader.parse(1 << 62)
    if reader.broken or faults:
        return False
    point.entries += zip(_core.keys(items), reader.offsets, strict=True)
    return True


def _plain(path: str) -> ResumePoint:
    point = ResumePoint()
    reader = TableReader(path)
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(reader.space(max(CHUNK, reader.pending))):
            reader.advance(count)
            if not _take(reader, point):
                break
            point.length = reader.position
    point.lost = os.path.getsize(path) - point.length
    return point


def _packed(path: str) -> ResumePoint:
    """Members hold whole entries; the last one may be broken off anywhere."""
    from isal import isal_zlib

    damage: tuple[type[Exception], ...] = (zlib.error, cast(type[Exception], isal_zlib.error))
    point = ResumePoint()
    reader = TableReader(path)
    with open(path, "rb") as file:
        content = file.read(PACKED_CHUNK)
        while content:
            unpacker = isal_zlib.decompressobj(wbits=31)
            member = bytearray()
            begin = end = reader.position  # of its whole entries
            try:
                while content and not unpacker.eof:
                    piece = unpacker.decompress(content)
                    content = unpacker.unused_data or file.read(PACKED_CHUNK)
                    member += piece
                    reader.space(len(piece))[:] = piece
                    reader.advance(len(piece))
                    if not _take(reader, point):
                        break
                    end = reader.position
                is_whole = unpacker.eof and end == begin + len(member)
            except damage:
                is_whole = False
            if is_whole:
                point.length = file.tell() - len(content)
                continue
            point.tail = bytes(member[: end - begin])
            point.lost = len(member) - len(point.tail)
            if not point.tail:
                point.lost = os.path.getsize(path) - point.length
            break
    return point
