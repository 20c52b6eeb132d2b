"""The whole entries that an earlier attempt to write a Kaldi archive left behind."""

from __future__ import annotations

import os
import shutil
import zlib
from dataclasses import dataclass, field
from typing import cast

from ninja._tables import TableReader
from ninja.errors import FormatError, NinjaError
from ninja.files.output import Target, part_of, reported

CHUNK = 1 << 19


@dataclass(slots=True)
class ResumePoint:
    """The sound part of an unfinished archive."""

    length: int = 0  # bytes of the file that hold whole entries
    entries: list[tuple[str, int]] = field(default_factory=list)  # each key, and where its lattice lies, unpacked


def resume_point(chosen: Target) -> ResumePoint:
    """Find the whole entries of the temporary file, or of the finished one (of which a copy is made).

    Raises:
        FormatError: The finished file is damaged, or not of the format that is to be written.
        OutputError: The copy cannot be written.
    """
    part = part_of(chosen.archive)
    finished = os.path.isfile(chosen.archive)
    if not os.path.isfile(part):
        if not finished:
            return ResumePoint()
        with reported(chosen.archive):
            shutil.copyfile(chosen.archive, part)
    else:
        finished = False
    point = _packed(part) if chosen.packed else _plain(part)
    if finished and point.length != os.path.getsize(part):
        os.remove(part)
        raise FormatError("is damaged or of another format, so nothing can be appended; move it away", chosen.archive)
    return point


def _take(reader: TableReader, point: ResumePoint, *, at_end: bool) -> bool:
    """Parse the bytes read so far; tell whether they are sound."""
    entries = reader.parse(0 if at_end else 1 << 62)
    for (key, found), offset in zip(entries, reader.offsets, strict=True):
        if isinstance(found, NinjaError):
            return False
        point.entries.append((key, offset))
    return not reader.broken


def _plain(path: str) -> ResumePoint:
    point = ResumePoint()
    reader = TableReader(path)
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(reader.space(max(CHUNK, reader.pending))):
            reader.advance(count)
            if not _take(reader, point, at_end=False):
                break
            point.length = reader.position
    return point


def _packed(path: str) -> ResumePoint:
    """Members hold whole entries, so the sound part ends with a member."""
    from isal import isal_zlib

    damage: tuple[type[Exception], ...] = (zlib.error, cast(type[Exception], isal_zlib.error))
    point = ResumePoint()
    reader = TableReader(path)
    with open(path, "rb") as file:
        content = b""
        while True:
            unpacker = isal_zlib.decompressobj(wbits=31)
            member = ResumePoint()
            sound = True
            try:
                while not unpacker.eof and sound:
                    content = content or file.read(CHUNK)
                    if not content:
                        return point
                    unpacked = unpacker.decompress(content)
                    content = unpacker.unused_data
                    reader.space(len(unpacked))[:] = unpacked
                    reader.advance(len(unpacked))
                    sound = _take(reader, member, at_end=False)
            except damage:
                return point
            if not sound or reader.pending:
                return point
            point.length = file.tell() - len(content)
            point.entries += member.entries
