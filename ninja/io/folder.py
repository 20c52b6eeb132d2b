"""Selection of the files of a folder that hold lattices, by their first bytes."""

from __future__ import annotations

import os
import re
import stat
from typing import Literal

from ninja.errors import FormatError, InputError
from ninja.errors import named as shortened
from ninja.files.place import Place, Table, natural
from ninja.files.remote import is_file, is_remote, listing
from ninja.files.stream import Stream, open_stream
from ninja.files.text import BOM
from ninja.formats.format import HEAD, by_extension, by_mark
from ninja.formats.unsupported import is_utf_16, refusal

SCALES_SUFFIX = ".scales.toml"  # behind the name of a file of lattices
SCALES_NAME = f"lattices{SCALES_SUFFIX}"  # in a folder of lattices
# Files and folders that lie beside lattices: tables, texts about them, and what Kaldi's recipes leave there.
COMPANIONS = re.compile(
    r"(?:.*\.)?(?:(?:words|phones)\.txt(?:\.gz)?|scales\.toml)|(?:README|LICENSE|COPYING|SOURCE).*|.*\.(?:md|log|mdl)|"
    r"num_jobs|frame_subsampling_factor|(?:cmvn|splice|delta)_opts|(?:best_)?[wc]er(?:_.*)?|text|utt2spk|spk2utt|"
    r"segments|word_boundary\.(?:int|txt)|(?:log|q|scoring(?:_.*)?)/"
)
_SHARED = (".txt", ".json", ".jsonl", ".tsv")  # extensions of files of any content
_KALDI_OBJECT = re.compile(rb"\S{1,4096} \0B")  # matrices, vectors, alignments
_PACKED = re.compile(r"\.(?:bz2|xz|lzma|zst|lz4|Z|7z|zip|tar)$")
NAMED = 5  # files that are left out, in a message

Holds = Literal["lattices", "results", "nothing", "damage", "companion"]


def files(folder: str) -> list[str]:
    """Return the files of a folder in their natural order, without hidden ones."""
    if is_remote(folder):
        return sorted(listing(folder)[0], key=natural)
    entries = [entry for entry in os.scandir(folder) if not entry.name.startswith(".") and entry.is_file()]
    return sorted((entry.path for entry in entries), key=natural)


def lattice_files(folder: str) -> list[str]:
    """Return the paths of the files in a folder that hold lattices; where there are none, those that hold results."""
    kinds = {path: _held(path) for path in files(folder)}
    left_out = {"nothing", "companion"} | ({"results"} if "lattices" in kinds.values() else set())
    return [path for path, kind in kinds.items() if kind not in left_out]


def size_of(table: Table) -> int | None:
    """Return how many bytes a file, or those of a folder, have; None: not known, as of a pipe."""
    path = table.place.path
    if table.place.end is not None:
        return table.place.end - table.place.offset
    try:
        if is_remote(path):
            return None
        if table.kind == "folder":
            return sum(os.path.getsize(each) for each in files(path))
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) and table.place.command is None else None


def below(folder: str) -> list[str]:
    """Return the folders in a folder, with a slash at their ends, without hidden ones and those of Kaldi's recipes."""
    if is_remote(folder):
        found = [f"{each}/" for each in listing(folder)[1]]
    else:
        found = [f"{each.path}/" for each in os.scandir(folder) if not each.name.startswith(".") and each.is_dir()]
    return sorted((path for path in found if not COMPANIONS.fullmatch(os.path.basename(path[:-1]) + "/")), key=natural)


def left_out(folder: str, others: list[str], results: list[str]) -> str:
    """Describe what of a folder is not read.

    Args:
        others: Files without lattices, and folders.
        results: Files of results, which are not read beside lattices.
    """
    said = []
    for paths, what in ((others, "without lattices"), (results, "of results beside lattices")):
        if paths:
            names = [path.removeprefix(os.path.join(folder, "")) for path in paths]
            are = "files {} are" if len(paths) > 1 else "file {} is"
            said.append(f"{len(paths)} {are.format(what)} left out: {shortened(names, NAMED)}")
    return "; ".join(said)


def holds_no_lattices(path: str) -> bool:
    """Tell whether a file is of another kind than lattices, not a damaged file of them."""
    return _held(path) in ("nothing", "companion")


def lattices_beside(folder: str) -> str:
    """Describe the files of lattices in a folder that is read as one list; empty: there are none."""
    found = [os.path.basename(path) for path in files(folder) if _held(path) == "lattices"]
    are = "files of lattices are" if len(found) > 1 else "file of lattices is"
    return f"{len(found)} {are} left out beside the lists of the folder: {shortened(found, NAMED)}" if found else ""


def is_companion(path: str) -> bool:
    """Tell by its name whether a file lies beside lattices, as the script file of an archive does."""
    known = COMPANIONS.fullmatch(os.path.basename(path)) is not None
    return known or (path.endswith(".scp") and is_file(path.removesuffix(".scp") + ".ark"))


def named(path: str) -> tuple[Holds, None]:
    """Tell by its name whether a file of a folder holds lattices of a given format."""
    return ("companion" if is_companion(path) else "lattices"), None


def held(path: str) -> tuple[Holds, Stream | None]:
    """Open a file and detect what it holds; the stream stays open unless that is no lattice."""
    known = is_companion(path)
    damage: Holds = "companion" if known else "damage"
    try:
        stream = open_stream(Place(path), is_input=False)
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
        return ("companion" if known else found), None
    return found, stream


def _held(path: str) -> Holds:
    found, stream = held(path)
    if stream is not None:
        stream.close()
    return found


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
