"""Places of bytes: files, offsets in files, the standard input, commands; Kaldi's names for them."""

from __future__ import annotations

import glob
import os
import re
import shlex
from dataclasses import dataclass
from typing import Literal

from ninja.errors import FormatError, InputError
from ninja.files import remote

STDIN = "-"
SPECIFIER = re.compile(r"(?=[a-z, ]*\b(?:ark|scp)\b)([a-z, ]+):(.*)", re.DOTALL)  # how Kaldi names a table
_OFFSET = re.compile(r"(.+):(\d+)", re.DOTALL)
_RANGE = re.compile(r"(.+)\[[\d:,]*\]", re.DOTALL)
_UNPACKERS = (["gunzip", "-c"], ["gzip", "-dc"], ["gzip", "-cd"], ["zcat"], ["cat"])
_SHELL = re.compile(r"[$`\\;&|<>(){}!#~]")


@dataclass(frozen=True, slots=True)
class Place:
    """Source of bytes."""

    path: str  # of a file, or its URL; "-" is the standard input
    offset: int = 0
    command: str | None = None  # a shell command whose output is read instead
    end: int | None = None  # byte of the file before which reading ends; None: the file's end
    line: int = 0  # lines of a text file before the offset

    @property
    def name(self) -> str:
        """Name in error messages."""
        return f"{self.command} |" if self.command else "standard input" if self.path == STDIN else self.path


@dataclass(frozen=True, slots=True)
class Table:
    """A file of lattices of any format, a script file that lists lattices, or a folder."""

    place: Place
    kind: Literal["ark", "scp", "any", "folder"] = "ark"  # "any": a list of files, too
    permissive: bool = False  # script file: pass over what cannot be read


def resolve(name: str, *, allow_pipes: bool = False, typed: bool = False) -> list[Place]:
    """Return where the bytes of a Kaldi rxfilename come from.

    Args:
        name: A file, ``file:offset``, ``-``, a command ending in ``|``; where typed, also a pattern.
        allow_pipes: Permit other commands than ``gunzip -c``, ``zcat`` and ``cat``.
        typed: The user typed it; a command found in a file is never run.

    Raises:
        FormatError: A command that is not permitted, or a range of rows, which lattices do not have.
        InputError: A pattern that no file matches.
    """
    if name.endswith("|"):
        command = name[:-1].strip()
        unpacked = _unpacked(command)
        if unpacked:
            return [place for path in unpacked for place in matching(path)]
        if not (allow_pipes and typed):
            raise FormatError(
                f"the command {command!r} is not run: only gunzip -c, zcat and cat are served"
                + ("; allow others with allow_pipes (--allow-pipes)" if typed else " in a script file"),
            )
        return [Place(STDIN, command=command)]
    if name.startswith("|"):
        raise FormatError(f"{name!r} is a command to write to, not to read from")
    if name in ("", STDIN):
        return [Place(STDIN)]
    if os.path.exists(name):
        return [Place(name)]
    if found := _OFFSET.fullmatch(name):
        return [Place(found[1], int(found[2]))]
    if _RANGE.fullmatch(name) and not typed:
        raise FormatError(f"{name!r} ends in a range of rows, which has no meaning for lattices")
    return matching(name) if typed else [Place(name)]


def _unpacked(command: str) -> list[str] | None:
    """Return the files of a ``gunzip -c``, ``zcat`` or ``cat`` command; None when it is another."""
    if _SHELL.search(command):
        return None
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    for unpacker in _UNPACKERS:
        if words[: len(unpacker)] == unpacker:
            paths = words[len(unpacker) :]
            return paths if paths and not any(path.startswith("-") and path != STDIN for path in paths) else None
    return None


def matching(path: str) -> list[Place]:
    """Return the files that a pattern names, in their natural order; a plain path stands for itself."""
    if path == STDIN or os.path.exists(path):
        return [Place(path)]
    name = os.path.basename(path)
    if remote.is_remote(path):
        found = remote.matching(path)
    elif "JOB" in name:
        folder = os.path.dirname(path)
        shape = re.compile(re.escape(name).replace("JOB", r"\d+"))
        entries = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
        found = [os.path.join(folder, entry) for entry in entries if shape.fullmatch(entry)]
    elif glob.has_magic(path):
        found = glob.glob(path)
    else:
        return [Place(path)]
    if not found:
        raise InputError("no file matches this pattern", path)
    return [Place(each) for each in sorted(found, key=natural)]


def natural(path: str) -> list[tuple[int, str | int]]:
    """Order lat.2.gz before lat.10.gz."""
    return [(1, int(part)) if part.isdigit() else (0, part) for part in re.split(r"([0-9]+)", path)]
