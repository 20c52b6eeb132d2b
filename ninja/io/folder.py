"""Files of a folder, and the detection of those that hold lattices by their first bytes."""

from __future__ import annotations

import os
import re
import stat
from typing import Literal

from ninja.errors import named as shortened
from ninja.files.place import Table, is_file, is_remote, natural
from ninja.files.remote import listing
from ninja.files.stream import BOM
from ninja.formats.format import by_extension, by_mark
from ninja.formats.unsupported import is_utf_16, refusal

SCALES_SUFFIX = ".scales.toml"  # after the name of a file of lattices
SCALES_NAME = f"lattices{SCALES_SUFFIX}"  # in a folder of lattices
# Files and folders beside lattices: tables, texts about them, and output of Kaldi's recipes.
COMPANIONS = re.compile(
    r"(?:.*\.)?(?:(?:words|phones)\.txt(?:\.gz)?|scales\.toml)|(?:README|LICENSE|COPYING|SOURCE).*|.*\.(?:md|log|mdl)|"
    r"num_jobs|frame_subsampling_factor|(?:cmvn|splice|delta)_opts|(?:best_)?[wc]er(?:_.*)?|text|utt2spk|spk2utt|"
    r"segments|word_boundary\.(?:int|txt)|(?:log|q|scoring(?:_.*)?)/"
)
_SHARED = (".txt", ".json", ".jsonl", ".tsv")  # extensions of files of any content
_KALDI_OBJECT = re.compile(rb"\S{1,4096} \0B")  # matrices, vectors, alignments
_PACKED = re.compile(r"\.(?:bz2|xz|lzma|zst|lz4|Z|7z|zip|tar)$")
NAMED = 5  # skipped files in a message

Holds = Literal["lattices", "results", "nothing", "damage", "companion"]


def files(folder: str) -> list[str]:
    """Return the files of a folder in their natural order, without hidden ones."""
    if is_remote(folder):
        return sorted(listing(folder)[0], key=natural)
    entries = [entry for entry in os.scandir(folder) if not entry.name.startswith(".") and entry.is_file()]
    return sorted((entry.path for entry in entries), key=natural)


def size_of(table: Table) -> int | None:
    """Return the bytes of a file or of the files of a folder; None if unknown, as of a pipe."""
    path = table.place.path
    if table.place.end is not None:
        return table.place.end - table.place.offset
    try:
        if is_remote(path):
            return None
        if table.kind == "folder":
            return sum(map(os.path.getsize, files(path)))
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) and table.place.command is None else None


def below(folder: str) -> list[str]:
    """Return the folders in a folder, ending in a slash, without hidden ones and those of Kaldi's recipes."""
    if is_remote(folder):
        paths = listing(folder)[1]
    else:
        paths = [entry.path for entry in os.scandir(folder) if not entry.name.startswith(".") and entry.is_dir()]
    return sorted((f"{path}/" for path in paths if not COMPANIONS.fullmatch(f"{os.path.basename(path)}/")), key=natural)


def left_out(folder: str, others: list[str], results: list[str]) -> str:
    """Describe the files of a folder that are not read.

    Args:
        others: Files without lattices, and folders.
        results: Files of results, which are not read beside lattices.
    """
    messages = []
    for paths, description in ((others, "without lattices"), (results, "of results beside lattices")):
        if paths:
            names = [path.removeprefix(os.path.join(folder, "")) for path in paths]
            subject = f"files {description} are" if len(paths) > 1 else f"file {description} is"
            messages.append(f"{len(paths)} {subject} left out: {shortened(names, NAMED)}")
    return "; ".join(messages)


def is_companion(path: str) -> bool:
    """Return whether a file belongs to lattices, by its name, such as the script file of an archive."""
    if COMPANIONS.fullmatch(os.path.basename(path)):
        return True
    return path.endswith(".scp") and is_file(path.removesuffix(".scp") + ".ark")


def holds_by_name(path: str) -> Holds:
    """Detect by its name whether a file of a folder holds lattices of a given format."""
    return "companion" if is_companion(path) else "lattices"


def holds(head: bytes, name: str) -> Holds:
    """Detect the content of a file by its first bytes and name; "damage" if it should hold lattices."""
    format = by_mark(head)
    if format is not None:
        if format.in_folder is not None and not format.in_folder(head.removeprefix(BOM)):
            return "nothing"
        return "results" if format.results else "lattices"
    return "damage" if seems_damaged(head, name) else "nothing"


def seems_damaged(head: bytes, name: str) -> bool:
    """Return whether a file of no format is a damaged file of lattices, by its encoding or name."""
    if is_utf_16(head) or (not head and needs_content(name)):
        return True
    return _is_named(name if refusal(head) is None else _PACKED.sub("", name)) and not _KALDI_OBJECT.match(head)


def needs_content(name: str) -> bool:
    """Return whether an empty file of that name is damaged; empty Kaldi archives are not."""
    if _is_named(name) and not name.removesuffix(".gz").endswith(".ark"):
        return True
    return name.endswith(".gz") and os.path.isfile(name) and os.path.getsize(name) == 0


def _is_named(name: str) -> bool:
    """Return whether the extension of a file is that of lattices or n-best lists."""
    if name.removesuffix(".gz").lower().endswith(_SHARED):
        return False
    return bool(by_extension(name))
