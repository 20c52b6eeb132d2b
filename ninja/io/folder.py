"""Selection of the files of a folder that hold lattices, by their first bytes."""

from __future__ import annotations

import os
import re
from typing import Literal

from ninja.errors import FormatError, InputError
from ninja.files.place import Place, natural
from ninja.files.stream import Stream, open_stream
from ninja.formats.content import BOM
from ninja.formats.format import HEAD, by_extension, by_mark
from ninja.formats.unsupported import is_utf_16, refusal

NOT_LATTICES = re.compile(r"(?:.*\.)?words\.txt(?:\.gz)?|(?:README|LICENSE).*")  # files that lie beside lattices
_SHARED = (".txt", ".json", ".jsonl", ".tsv")  # extensions of files of any content
_KALDI_OBJECT = re.compile(rb"\S{1,4096} \0B")  # matrices, vectors, alignments
_PACKED = re.compile(r"\.(?:bz2|xz|lzma|zst|lz4|Z|7z|zip|tar)$")

Holds = Literal["lattices", "results", "nothing", "damage"]


def files(folder: str) -> list[str]:
    """Return the files of a folder in their natural order, without hidden ones."""
    entries = [entry for entry in os.scandir(folder) if not entry.name.startswith(".") and entry.is_file()]
    return sorted((entry.path for entry in entries), key=natural)


def named(path: str) -> tuple[Holds, None]:
    """Tell by its name whether a file of a folder holds lattices of a given format."""
    return ("nothing" if NOT_LATTICES.fullmatch(os.path.basename(path)) else "lattices"), None


def held(path: str) -> tuple[Holds, Stream | None]:
    """Open a file and detect what it holds; the stream stays open unless that is nothing."""
    damage: Holds = "nothing" if NOT_LATTICES.fullmatch(os.path.basename(path)) else "damage"
    try:
        stream = open_stream(Place(path))
    except (InputError, FormatError):
        return damage, None
    try:
        found = holds(stream.head(HEAD), path)
    except (InputError, FormatError):
        stream.close()
        return damage, None
    found = damage if found == "damage" else found
    if found == "nothing":
        stream.close()
        return found, None
    return found, stream


def holds(head: bytes, name: str) -> Holds:
    """Detect what a file holds by its first bytes and name; "damage": it should hold lattices."""
    found = by_mark(head)
    if found is not None:
        if found.in_folder is not None and not found.in_folder(head.removeprefix(BOM)):
            return "nothing"
        return "results" if found.results else "lattices"
    return "damage" if seems_damaged(head, name) else "nothing"


def seems_damaged(head: bytes, name: str) -> bool:
    """Tell by its encoding or name whether a file of no format is a damaged file of lattices."""
    if is_utf_16(head) or (not head and needs_content(name)):
        return True
    return _is_named(name if refusal(head) is None else _PACKED.sub("", name)) and not _KALDI_OBJECT.match(head)


def needs_content(name: str) -> bool:
    """Tell whether a file of that name is damaged if it is empty; Kaldi's archives of nothing are not."""
    if _is_named(name) and not name.removesuffix(".gz").endswith(".ark"):
        return True
    return name.endswith(".gz") and os.path.isfile(name) and os.path.getsize(name) == 0


def _is_named(name: str) -> bool:
    """Tell whether a file's extension is that of lattices or lists."""
    if name.removesuffix(".gz").lower().endswith(_SHARED):
        return False
    return bool(by_extension(name))
