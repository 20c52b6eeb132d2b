"""Detection of file lists, script files and lattice files from their first bytes and their names."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Literal

from ninja.errors import FormatError, NinjaError, counted
from ninja.errors import named as shortened
from ninja.files.names import check_listed
from ninja.files.stream import BOM, STDIN, Place, Table, by_suffix, is_file, kind_of
from ninja.formats.content import first_rows, names_file, names_script
from ninja.formats.format import by_extension, by_mark
from ninja.formats.unsupported import is_utf_16, refusal

# Patterns are compiled when they are first used, because most commands need none of them.
_NAME = rb"\S*\.(?:ark|scp|slf|lat|fst|pt|arrow|pfsg|plf|mesh|nbest)(?:\.gz)?|\S+\.gz"  # names of lattice files
_ARC = rb"[\x00-\x08]|^-?[\d.]+(?:,|$)"  # fields that occur in archives, even in damaged ones, but not in transcripts
_NAMED_BY = {
    "a language model in ARPA format": "; use --rnnlm or --lm for language models",
    "a Kaldi archive of matrices": "; use `ninja ctc-decode` for matrices of a CTC model",
    "a numpy array": "; use `ninja ctc-decode` for matrices of a CTC model",
}
SCALES_SUFFIX = ".scales.toml"  # appended to the name of a lattice file to form the name of its scale file
SCALES_NAME = f"lattices{SCALES_SUFFIX}"  # name of the scale file in a folder of lattices
# Files and folders that accompany lattices: symbol tables, documentation, and other output of Kaldi's recipes.
COMPANIONS = (
    r"(?:.*\.)?(?:(?:words|phones)\.txt(?:\.gz)?|scales\.toml)|(?:README|LICENSE|COPYING|SOURCE).*|.*\.(?:md|log|mdl)|"
    r"num_jobs|frame_subsampling_factor|(?:cmvn|splice|delta)_opts|(?:best_)?[wc]er(?:_.*)?|text|utt2spk|spk2utt|"
    r"segments|word_boundary\.(?:int|txt)|(?:log|q|scoring(?:_.*)?)/"
)
_SHARED = (".txt", ".json", ".jsonl", ".tsv")  # extensions of files that may or may not contain lattices
_KALDI_OBJECT = rb"\S{1,4096} \0B"  # binary matrices, vectors or alignments
_PACKED = r"\.(?:bz2|xz|lzma|zst|lz4|Z|7z|zip|tar)$"
NAMED = 5  # maximum number of skipped files that a message lists


Holds = Literal["lattices", "results", "nothing", "damage", "companion"]


def other_kind(head: bytes) -> str | None:
    """Return a message about the actual content of a file without lattices, or None if it may be a damaged archive."""
    if (kind := kind_of(head)) is not None:
        return f"this is {kind}, not lattices{_NAMED_BY.get(kind, '')}"
    rows = [row.split() for row in first_rows(head)]
    if len(rows) > 1 and all(len(row) == 2 and row[1].isdigit() for row in rows):
        return "this looks like a symbol table, not lattices; pass it with --words (words=)"
    if len(rows) > 1 and all(len(row) > 1 and not any(re.search(_ARC, field) for field in row) for row in rows):
        return "this looks like transcripts, not lattices; check the order of the arguments"
    return None


def advice(head: bytes, name: str) -> str | None:
    """Return advice on how to read a text file in an unknown format, or None if there is no advice."""
    rows = first_rows(head)
    if not rows:
        return None
    path = STDIN if name == Place(STDIN).name else name
    if names_script(head):
        return f"it looks like a script file; use scp:{path}"
    if all(re.fullmatch(_NAME, row) or names_file(row) for row in rows):
        missing = next((row for row in rows if not names_file(row)), None)
        if missing is not None:
            return f"it looks like a list of files, but {os.fsdecode(missing)!r} does not exist in the current folder"
        return "it looks like a list of files, which cannot be read from a pipe or with ark:; pass the name of the list"
    return None


def names_in(content: bytes, listed_in: str) -> tuple[list[Table], list[NinjaError]]:
    """Return ``(files, errors)`` for a file list, with one error for each file name that is not allowed.

    Args:
        content: Content of the file list, with one file name per line.
        listed_in: Path or URL of the file list.
    """
    files: list[Table] = []
    errors: list[NinjaError] = []
    for number, row in enumerate(content.removeprefix(BOM).split(b"\n"), start=1):
        if name := os.fsdecode(row.strip()):
            try:
                check_listed(name, listed_in)
            except FormatError as error:
                error.path, error.line = listed_in, number
                errors.append(error)
            else:
                files.append(Table(Place(name, plain=True), by_suffix(name) or "ark"))
    return files, errors


def describe_skipped(folder: str, others: list[str], results: list[str]) -> str:
    """Return a message about the files that were skipped in a folder.

    Args:
        folder: Path of the folder.
        others: Skipped subfolders and files without lattices.
        results: Recogniser result files, which are skipped if the folder also contains lattices.
    """
    messages = []
    for paths, kind in ((others, "without lattices"), (results, "with recogniser results")):
        if paths:
            names = [path.removeprefix(os.path.join(folder, "")) for path in paths]
            messages.append(f"skipped {counted(len(paths), 'file')} {kind}: {shortened(names, NAMED)}")
    return "; ".join(messages)


def is_companion(path: str) -> bool:
    """Return whether a file name suggests a file that only accompanies lattices, such as a script file."""
    if re.fullmatch(COMPANIONS, os.path.basename(path)):
        return True
    return path.endswith(".scp") and is_file(path.removesuffix(".scp") + ".ark")


def holds_by_name(path: str) -> Holds:
    """Detect the content type of a file in a folder from its name alone; used if the user has set the format."""
    return "companion" if is_companion(path) else "lattices"


def holds(head: bytes, name: str) -> Holds:
    """Detect the content type of a file from its first bytes and its name; "damage" means a damaged lattice file."""
    format = by_mark(head)
    if format is not None:
        if format.in_folder is not None and not format.in_folder(head.removeprefix(BOM)):
            return "nothing"
        return "results" if format.results else "lattices"
    return "damage" if seems_damaged(head, name) else "nothing"


def seems_damaged(head: bytes, name: str) -> bool:
    """Return whether the encoding or name of a file in an unknown format suggests that it is a damaged lattice file."""
    if is_utf_16(head) or (not head and needs_content(name)):
        return True
    return _is_named(name if refusal(head) is None else re.sub(_PACKED, "", name)) and not re.match(_KALDI_OBJECT, head)


def needs_content(name: str) -> bool:
    """Return whether an empty file with this name is invalid.

    Kaldi archives may be empty, but a ``.gz`` file with 0 bytes is always invalid.
    """
    if _is_named(name) and not name.removesuffix(".gz").endswith(".ark"):
        return True
    with contextlib.suppress(OSError):  # another process may have removed the file
        return name.endswith(".gz") and os.path.isfile(name) and os.path.getsize(name) == 0
    return False


def _is_named(name: str) -> bool:
    """Return whether a file name has the extension of a lattice or n-best format."""
    if name.removesuffix(".gz").lower().endswith(_SHARED):
        return False
    return bool(by_extension(name))
