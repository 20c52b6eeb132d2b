"""Places of bytes: files, offsets in files, the standard input, commands; Kaldi's names for them."""

from __future__ import annotations

import glob
import os
import re
import shlex
from dataclasses import dataclass, replace
from typing import Literal

from ninja.errors import FormatError, InputError
from ninja.files import remote

STDIN = "-"
SPECIFIER = re.compile(r"(?=[a-z, ]*\b(?:ark|scp)\b)([a-z, ]+):(.*)", re.DOTALL)  # how Kaldi names a table
_OFFSET = re.compile(r"(.+):(\d+)", re.DOTALL)
_RANGE = re.compile(r"(.+)\[[\d:,]*\]", re.DOTALL)
_UNPACKERS = (["gunzip", "-c"], ["gzip", "-dc"], ["gzip", "-cd"], ["zcat"], ["cat"])
_SERVED = "only gunzip -c, zcat and cat are served"
LARGEST_OFFSET = 1 << 62  # bytes
_SHELL = re.compile(r"[$`\\;&|<>(){}!#~]")


@dataclass(frozen=True, slots=True)
class Place:
    """Source of bytes."""

    path: str  # of a file, or its URL; "-" is the standard input
    offset: int = 0
    command: str | None = None  # a shell command whose output is read instead
    end: int | None = None  # byte of the file before which reading ends; None: the file's end
    line: int = 0  # lines of a text file before the offset
    plain: bool = False  # a file names it: a pipe or a device, which may never end, is refused

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


def resolve(name: str, *, allow_pipes: bool = False, advise: bool = True) -> list[Place]:
    """Return where the bytes of a Kaldi rxfilename come from that the user typed.

    Args:
        name: A file, a pattern, ``file:offset``, ``-``, a command ending in ``|``.
        allow_pipes: Permit other commands than ``gunzip -c``, ``zcat`` and ``cat``.
        advise: Say in the refusal of a command how others are allowed.

    Raises:
        FormatError: A command that is not permitted, or an offset that no file has.
        InputError: A pattern that no file matches.
    """
    if name.endswith("|"):
        command = name[:-1].strip()
        unpacked = _unpacked(command)
        if unpacked:
            return [place for path in unpacked for place in matching(path)]
        if not allow_pipes:
            advice = "; allow others with allow_pipes (--allow-pipes)" if advise else ""
            raise FormatError(f"the command {command!r} is not run: {_SERVED}{advice}")
        return [Place(STDIN, command=command)]
    if name.startswith("|"):
        raise FormatError(f"{name!r} is a command to write to, not to read from")
    if name in ("", STDIN):
        return [Place(STDIN)]
    return [Place(name)] if os.path.exists(name) else _at_offset(name) or matching(name)


def resolve_listed(name: str, listed_in: str) -> list[Place]:
    """Return where the bytes of a Kaldi rxfilename come from that a script file names.

    Args:
        name: A plain file, ``file:offset``, or ``gunzip -c``, ``zcat`` or ``cat`` with such files.
        listed_in: The script file, or its URL.

    Raises:
        FormatError: It is none of these, a URL that `check_listed` refuses, or a range of rows, which lattices do not
            have.
        InputError: A pattern that no file matches.
    """
    if name.endswith("|"):
        command = name[:-1].strip()
        unpacked = _unpacked(command)
        if not unpacked:
            raise FormatError(f"the command {command!r} is not run: {_SERVED} in a script file")
        for path in unpacked:
            check_listed(path, listed_in)
        return [replace(place, plain=True) for path in unpacked for place in matching(path)]
    if name.startswith("|"):
        raise FormatError(f"{name!r} is a command to write to, not to read from")
    check_listed(name, listed_in)
    if os.path.exists(name):
        return [Place(name, plain=True)]
    if places := _at_offset(name):
        check_listed(places[0].path, listed_in)
        return [replace(places[0], plain=True)]
    if _RANGE.fullmatch(name):
        raise FormatError(f"{name!r} ends in a range of rows, which has no meaning for lattices")
    return [Place(name, plain=True)]


def check_listed(name: str, listed_in: str) -> None:
    """Check a file name in a list or a script file: it must not leave the machine, or the folder of a list at a URL.

    A local list may name any local file; one that is read from a URL names files by URLs in its own folder or below.

    Raises:
        FormatError: It is the standard input, or a URL that is not in the folder of the list.
    """
    if name in ("", STDIN):
        raise FormatError("the standard input is named on the command line alone, not in a file")
    home = listed_in.rpartition("/")[0] + "/"
    if remote.is_remote(listed_in):
        if not name.startswith(home) or ".." in name.split("/") or "::" in name:
            raise FormatError(
                f"{name!r} is not in {home}, and a list with a URL names files in its own folder or below"
            )
    elif remote.names_url(name):
        raise FormatError(f"{name!r} is a URL; URLs are taken from the command line alone, not from a file")


def below(name: str, named_in: str) -> str:
    """Return the path, or the URL, of a file that another file names, in whose folder or below it must be.

    Args:
        name: The name in the file; links are followed.
        named_in: The other file, or its URL.

    Raises:
        FormatError: It is not in that folder or below.
    """
    if remote.is_remote(named_in):
        parts = name.split("/")
        outside = os.path.isabs(name) or ".." in parts or ":" in name
        path = named_in.rpartition("/")[0] + "/" + name
    else:
        home = os.path.realpath(os.path.dirname(named_in))
        path = os.path.join(os.path.dirname(named_in), name)
        outside = "\0" in name or remote.names_url(name) or os.path.commonpath((home, os.path.realpath(path))) != home
    if outside:
        raise FormatError(f"{name!r} is not in the folder of {named_in} or below")
    return path


def _at_offset(name: str) -> list[Place]:
    """Return the place of ``file:offset``; nothing where the name has another form."""
    found = _OFFSET.fullmatch(name)
    if found is None:
        return []
    if len(found[2]) > len(str(LARGEST_OFFSET)) or int(found[2]) > LARGEST_OFFSET:
        raise FormatError(f"no file has a byte {found[2] if len(found[2]) < 40 else found[2][:40] + '…'}")
    return [Place(found[1], int(found[2]))]


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
