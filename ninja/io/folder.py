"""Which files of a folder hold lattices, by how they begin."""

from __future__ import annotations

import os
import re
from typing import Literal

from ninja.errors import FormatError, InputError
from ninja.files.place import Place
from ninja.files.stream import open_stream
from ninja.formats.content import BOM
from ninja.formats.format import HEAD, by_extension, by_mark
from ninja.formats.unsupported import is_utf_16, refusal

NOT_LATTICES = re.compile(r"(?:.*\.)?words\.txt(?:\.gz)?|(?:README|LICENSE).*")  # files that lie beside lattices
_SHARED = (".txt", ".json", ".jsonl", ".tsv")  # extensions of files of any content
_KALDI_OBJECT = re.compile(rb"\S{1,4096} \0B")  # matrices, vectors, alignments
_PACKED = re.compile(r"\.(?:bz2|xz|lzma|zst|lz4|Z|7z|zip|tar)$")

Holds = Literal["lattices", "results", "nothing", "damage"]


def lattice_files(files: list[str]) -> list[str]:
    """Return those of some files that hold lattices, or should; where there are none, those that hold results."""
    held = {file: _held(file) for file in files}
    wanted = "lattices" if "lattices" in held.values() else "results"
    return [file for file, holds in held.items() if holds in (wanted, "damage")]


def holds(head: bytes, name: str) -> Holds:
    """Tell by a file's beginning and name what it holds; "damage": it should hold lattices."""
    found = by_mark(head)
    if found is not None:
        if found.in_folder is not None and not found.in_folder(head.removeprefix(BOM)):
            return "nothing"
        return "results" if found.results else "lattices"
    return "damage" if seems_damaged(head, name) else "nothing"


def seems_damaged(head: bytes, name: str) -> bool:
    """Tell whether a file that is of no format should have been one of lattices, by its encoding or its name."""
    if is_utf_16(head) or (not head and needs_content(name)):
        return True
    return _is_named(name if refusal(head) is None else _PACKED.sub("", name)) and not _KALDI_OBJECT.match(head)


def needs_content(name: str) -> bool:
    """Tell whether a file of that name is damaged if it is empty; Kaldi's archives of nothing are not."""
    if _is_named(name) and not name.removesuffix(".gz").endswith(".ark"):
        return True
    return name.endswith(".gz") and os.path.isfile(name) and os.path.getsize(name) == 0


def _is_named(name: str) -> bool:
    """Tell whether a file's extension says that it holds lattices or lists."""
    if name.removesuffix(".gz").lower().endswith(_SHARED):
        return False
    return bool(by_extension(name))


def _held(path: str) -> Holds:
    damage: Holds = "nothing" if NOT_LATTICES.fullmatch(os.path.basename(path)) else "damage"
    try:
        with open_stream(Place(path)) as stream:
            head = stream.head(HEAD)
    except (InputError, FormatError):
        return damage
    held = holds(head, path)
    return damage if held == "damage" else held
