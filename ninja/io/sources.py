"""What a user may name as a source of lattices, turned into a list of tables to read."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

from ninja.errors import FormatError, InputError, OptionError
from ninja.files.place import SPECIFIER, STDIN, Place, Table, matching, natural, resolve
from ninja.io.folder import NOT_LATTICES, lattice_files

Source = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

_READ_OPTIONS = {"ark", "scp", "b", "t", "o", "no", "p", "np", "s", "ns", "cs", "ncs", "bg"}
_NAME = re.compile(rb"\S*\.(?:ark|scp|slf|lat|fst|pt|arrow|pfsg|plf|mesh|nbest)(?:\.gz)?|\S+\.gz")  # of lattices
_LIST_HEAD = 1 << 13  # bytes of a list of files that are looked at
_OFFSET_OF = re.compile(rb"[^\s|]+:\d+")  # where in which archive a lattice lies
_LONGEST_NAME = 4096  # bytes
_ROWS = 100  # lines of a list that are looked at


def tables(source: Source, *, allow_pipes: bool = False, forced: bool = False) -> list[Table]:
    """List the tables that a source consists of.

    Args:
        source: A path, a directory, a list of files, ``-``, a pattern (``lat.*.gz``, ``lat.JOB.gz``), a Kaldi
            rspecifier, or several of these. A path-like object is a path, whatever its letters.
        allow_pipes: Run commands other than ``gunzip -c``, ``zcat`` and ``cat`` in a shell.
        forced: The user says which format the files have: all files of a directory are taken, but words.txt, README
            and LICENSE. Otherwise those that begin as lattices do, and those that would if they were not damaged.

    Raises:
        FormatError: A command where none is allowed, or an empty directory.
        InputError: A pattern that no file matches.
        OptionError: An unknown option in an rspecifier.

    Source: Kaldi util/kaldi-table.cc (ClassifyRspecifier), util/kaldi-io.cc (ClassifyRxfilename).
    """
    if isinstance(source, os.PathLike):
        return _of_path(os.fspath(source), forced=forced)
    if not isinstance(source, str):
        found = []
        for place, each in enumerate(source):
            if each == STDIN and place:  # its bytes may come only when what stands before it has been read
                found.append(Table(Place(STDIN)))
            else:
                found += tables(each, allow_pipes=allow_pipes, forced=forced)
        return found
    if source == STDIN:
        return _of_stdin()
    named = SPECIFIER.fullmatch(source)
    if named is None or os.path.exists(source):
        return _of_path(source, forced=forced)
    options = [option for option in re.split("[, ]+", named[1]) if option]
    unknown = [option for option in options if option not in _READ_OPTIONS]
    kinds = [option for option in options if option in ("ark", "scp")]
    if unknown:
        raise OptionError(f"rspecifier {source!r} has the unknown option {unknown[0]!r}")
    if len(kinds) != 1:
        raise OptionError(f"rspecifier {source!r} must say 'ark' or 'scp' once")
    kind: Literal["ark", "scp"] = "ark" if kinds[0] == "ark" else "scp"
    places = resolve(named[2].strip(), allow_pipes=allow_pipes, typed=True)
    return [Table(place, kind, permissive="p" in options) for place in places]


def _of_path(path: str, *, forced: bool) -> list[Table]:
    if os.path.isdir(path):
        return _of_folder(path, forced=forced)
    if path.endswith("|"):
        return [Table(place) for place in resolve(path)]  # refused, or one of the harmless commands
    if os.path.isfile(path):
        return _of_file(path)
    return [_table(place) for place in matching(path)]


def _of_folder(path: str, *, forced: bool) -> list[Table]:
    if os.path.isdir(os.path.join(path, "1best_recog")):
        return [Table(Place(path), "folder")]
    entries = sorted((entry.path for entry in os.scandir(path) if not entry.name.startswith(".")), key=natural)
    files = [entry for entry in entries if os.path.isfile(entry)]
    if forced:
        found = [file for file in files if not NOT_LATTICES.fullmatch(os.path.basename(file))]
    else:
        found = lattice_files(files)
    if not found:
        raise FormatError("no lattices lie in this directory", path)
    return [Table(Place(file)) for file in found]


def _of_file(path: str) -> list[Table]:
    """Return a file, or the files that it names if it is a list, one a line, some of which may be missing."""
    with suppress(OSError), open(path, "rb") as file:
        head = file.read(_LIST_HEAD)
        if names_script(head):
            return [Table(Place(path), "scp")]
        if _is_list(head):
            return _named(head + file.read())
    return [_table(Place(path))]


def _of_stdin() -> list[Table]:
    """Return the standard input, or what it lists."""
    from ninja.files.stream import peek

    try:
        head = peek(STDIN, _LIST_HEAD, lambda head: head.lstrip().count(b"\n") > 1 or b"\0" in head)
    except InputError:  # whoever reads it will say so
        head = b""
    head = head[: head.rfind(b"\n") + 1] or head  # the last line may go on
    is_script = names_script(head)
    is_list = not is_script and _is_list(head)
    if is_script or is_list:
        peek(STDIN, None)  # so that it can be read more than once
    return _named(_all_of_stdin()) if is_list else [Table(Place(STDIN), "scp" if is_script else "ark")]


def _all_of_stdin() -> bytes:
    from ninja.files.stream import open_stream
    from ninja.formats.content import Content

    with open_stream(Place(STDIN)) as stream:
        return Content(stream, STDIN).whole()


def _table(place: Place) -> Table:
    return Table(place, "scp" if place.path.endswith(".scp") else "ark")


def _named(content: bytes) -> list[Table]:
    """Return the files that a list names."""
    return [_table(Place(os.fsdecode(row.strip()))) for row in content.split(b"\n") if row.strip()]


def _is_list(head: bytes) -> bool:
    """Tell whether most lines of a file that begins so are names of files which are there."""
    rows = first_rows(head)
    return 2 * sum(map(is_file, rows)) >= len(rows) > 0


def names_script(head: bytes) -> bool:
    """Tell whether a file that begins so is a script file: lines of a key, and of a file that is there or an offset."""
    rows = [row.split(None, 1) for row in first_rows(head)]
    return bool(rows) and all(len(row) > 1 and (_OFFSET_OF.fullmatch(row[1]) or is_file(row[1])) for row in rows)


def first_rows(head: bytes) -> list[bytes]:
    """Return the first lines of a text that are whole, without blanks around them; none of what is no text."""
    rows = head.split(b"\n")
    rows = rows[:-1] if len(head) >= _LIST_HEAD else rows
    return [] if b"\0" in head else [row.strip() for row in rows[:_ROWS] if row.strip()]


def is_file(name: bytes) -> bool:
    """Tell whether a name in a file is that of a file."""
    return len(name) <= _LONGEST_NAME and os.path.isfile(name)


def advice(head: bytes, name: str) -> str | None:
    """Say what a text may be that is of no format for all that can be seen; None: nobody knows.

    Args:
        head: The first bytes.
        name: What messages call the file.
    """
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
