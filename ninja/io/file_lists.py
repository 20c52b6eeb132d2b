"""Lists of files and script files, detected by their first lines; advice on files of no known format."""

from __future__ import annotations

import os
import re
from typing import Literal

from ninja.errors import FormatError, NinjaError
from ninja.files.kind import kind_of
from ninja.files.place import STDIN, Place, Table, check_listed, is_remote
from ninja.files.stream import BOM

_NAME = re.compile(rb"\S*\.(?:ark|scp|slf|lat|fst|pt|arrow|pfsg|plf|mesh|nbest)(?:\.gz)?|\S+\.gz")  # of lattices
LIST_HEAD = 1 << 13  # bytes by which a list is detected
_OFFSET_OF = re.compile(rb"[^\s|]+:\d+")  # archive and offset of a lattice
_LONGEST_NAME = 4096  # bytes
_ROWS = 100  # lines by which a list is detected
_ARC = re.compile(rb"[\x00-\x08]|^-?[\d.]+(?:,|$)")  # in lines of archives, also damaged ones
_NAMED_BY = {
    "a language model in ARPA format": "; language models are named with --rnnlm or --lm",
    "a Kaldi archive of matrices": "; matrices of a CTC model: ninja ctc-decode",
    "a numpy array": "; matrices of a CTC model: ninja ctc-decode",
}


def is_list(head: bytes) -> bool:
    """Return whether most of the first lines of a file name existing files."""
    rows = first_rows(head)
    return 2 * sum(map(is_file, rows)) >= len(rows) > 0


def names_script(head: bytes) -> bool:
    """Return whether a file is a script file: its first lines have a key and an existing file, or an offset."""
    rows = [row.split(None, 1) for row in first_rows(head)]
    return bool(rows) and all(len(row) > 1 and (_OFFSET_OF.fullmatch(row[1]) or is_file(row[1])) for row in rows)


def other_kind(head: bytes) -> str | None:
    """Describe a file of another kind, and how to name it; None if it may be a damaged archive."""
    if (kind := kind_of(head)) is not None:
        return f"this is {kind}, not lattices{_NAMED_BY.get(kind, '')}"
    rows = [row.split() for row in first_rows(head)]
    if len(rows) > 1 and all(len(row) == 2 and row[1].isdigit() for row in rows):
        return "this looks like a symbol table, a word and its id on each line; name it with --words (words=)"
    if len(rows) > 1 and all(len(row) > 1 and not any(map(_ARC.search, row)) for row in rows):
        return "this looks like transcripts, a key and words on each line, not lattices; are two arguments swapped?"
    return None


def first_rows(head: bytes) -> list[bytes]:
    """Return the complete first lines, without blanks around them; an empty list for binary data."""
    rows = head.split(b"\n")
    rows = rows[:-1] if len(head) >= LIST_HEAD else rows
    return [] if b"\0" in head else [row.strip() for row in rows[:_ROWS] if row.strip()]


def is_file(name: bytes) -> bool:
    """Return whether a name in a list is that of an existing file; a URL without blanks is taken for one."""
    if len(name) > _LONGEST_NAME:
        return False
    return os.path.isfile(name) or (is_remote(os.fsdecode(name)) and len(name.split()) == 1)


def advice(head: bytes, name: str) -> str | None:
    """Return advice on a text of no known format, if there is any."""
    rows = first_rows(head)
    if not rows:
        return None
    path = STDIN if name == Place(STDIN).name else name
    if names_script(head):
        return f"it looks like a script file; read it as scp:{path}"
    if all(_NAME.fullmatch(row) or is_file(row) for row in rows):
        missing = next((row for row in rows if not is_file(row)), None)
        if missing is not None:
            return f"it looks like a list of files, but there is no {os.fsdecode(missing)!r} as seen from here"
        return "it looks like a list of files; name it as the first source, not in a pipe nor with ark:"
    return None


def by_suffix(path: str) -> Literal["scp"] | None:
    """Return the kind of a table by its extension; None for other extensions than ``.scp``."""
    return "scp" if path.endswith(".scp") else None


def names_in(content: bytes, listed_in: str) -> tuple[list[Table], list[NinjaError]]:
    """Return the files that a list names, one in each line, and an error for each name that is not allowed.

    Args:
        content: Bytes of the list.
        listed_in: Path or URL of the list.
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
