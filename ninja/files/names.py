"""Resolution of input names to files: patterns, offsets, commands, and entries in script files."""

from __future__ import annotations

import glob
import os
import re

from ninja.errors import FormatError, InputError
from ninja.files import remote
from ninja.files.stream import STDIN, Place, is_remote

_OFFSET = r"(?s)(.+):(\d+)"
_RANGE = r"(?s)(.+)\[[\d:,]*\]"
_UNPACKERS = (["gunzip", "-c"], ["gzip", "-dc"], ["gzip", "-cd"], ["zcat"], ["cat"])
_SUPPORTED = "only gunzip -c, zcat and cat are supported"
LARGEST_OFFSET = 1 << 62  # bytes
_SHELL = r"[$`\\;&|<>(){}!#~]"


def names_url(text: str) -> bool:
    """Return whether a string contains a URL, such as ``ark:s3://…``; URLs of local files also count."""
    return re.search(r"[a-z][a-z0-9+.-]+://", text, re.IGNORECASE) is not None


def resolve(name: str, *, allow_pipes: bool = False, advise: bool = True) -> list[Place]:
    """Resolve a Kaldi rxfilename from the command line to the locations of files or to a command.

    Args:
        name: A path, a pattern, ``file:offset``, ``-``, or a command that ends in ``|``.
        allow_pipes: Allow commands other than ``gunzip -c``, ``zcat`` and ``cat``.
        advise: Whether error messages mention the option that allows other commands.

    Raises:
        FormatError: The command is not allowed, or the offset is out of range.
        InputError: No file matches the pattern.
    """
    if name.endswith("|"):
        command = name[:-1].strip()
        if unpacked := _unpacked(command):
            return [place for path in unpacked for place in matching(path)]
        if not allow_pipes:
            advice = "; use --allow-pipes (allow_pipes=) to run other commands" if advise else ""
            raise FormatError(f"the command {command!r} is not allowed; {_SUPPORTED}{advice}")
        return [Place(STDIN, command=command)]
    if name.startswith("|"):
        raise FormatError(f"{name!r} is a command to write to, not to read from; commands for input end in |")
    if name in ("", STDIN):
        return [Place(STDIN)]
    return [Place(name)] if os.path.exists(name) else _at_offset(name) or matching(name)


def resolve_listed(name: str, listed_in: str) -> list[Place]:
    """Resolve a Kaldi rxfilename in a script file to the locations of files.

    Args:
        name: A regular file, ``file:offset``, or a ``gunzip -c``, ``zcat`` or ``cat`` command for such files.
        listed_in: Path or URL of the script file.

    Raises:
        FormatError: The name is any other command, is not allowed by `check_listed`, has an offset that is out of
            range, or ends in a range of rows such as ``[0:9]``, which is valid only for matrices.
        InputError: No file matches a pattern in the command.
    """
    if name.endswith("|"):
        command = name[:-1].strip()
        if not (unpacked := _unpacked(command)):
            raise FormatError(f"the command {command!r} is not allowed; {_SUPPORTED} in a script file")
        for path in unpacked:
            check_listed(path, listed_in)
        return [place._replace(plain=True) for path in unpacked for place in matching(path)]
    if name.startswith("|"):
        raise FormatError(f"{name!r} is a command to write to, not to read from; commands for input end in |")
    check_listed(name, listed_in)
    if os.path.exists(name):
        return [Place(name, plain=True)]
    if places := _at_offset(name):
        check_listed(places[0].path, listed_in)
        return [places[0]._replace(plain=True)]
    if re.fullmatch(_RANGE, name):
        raise FormatError(f"{name!r} ends in a range of rows, which applies only to matrices")
    return [Place(name, plain=True)]


def check_listed(name: str, listed_in: str) -> None:
    """Check a name in a file list or script file.

    A local list can contain any local file; a remote list can contain only URLs in its folder and subfolders.

    Raises:
        FormatError: The name is ``-``, or is not allowed in this list.
    """
    if name in ("", STDIN):
        raise FormatError("standard input (-) is allowed only on the command line, not in a file")
    home = listed_in.rpartition("/")[0] + "/"
    if is_remote(listed_in):
        if not name.startswith(home) or ".." in name.split("/") or "::" in name:
            raise FormatError(
                f"{name!r} is not in {home}; a remote list can contain only files in its own folder and subfolders"
            )
    elif names_url(name):
        raise FormatError(f"{name!r} is a URL, which is allowed only on the command line, not in a file")


def below(name: str, named_in: str) -> str:
    """Resolve a file name that occurs in another file, relative to the folder of the other file.

    Args:
        name: Relative name of a file.
        named_in: Path or URL of the file that contains the name.

    Raises:
        FormatError: After links are followed, the file is outside the folder of `named_in`.
    """
    if is_remote(named_in):
        parts = name.split("/")
        outside = os.path.isabs(name) or ".." in parts or ":" in name
        path = named_in.rpartition("/")[0] + "/" + name
    else:
        home = os.path.realpath(os.path.dirname(named_in))
        path = os.path.join(os.path.dirname(named_in), name)
        outside = "\0" in name or names_url(name) or os.path.commonpath((home, os.path.realpath(path))) != home
    if outside:
        raise FormatError(f"{name!r} is not in the folder of {named_in} or one of its subfolders")
    return path


def _at_offset(name: str) -> list[Place]:
    """Parse a name such as ``file:offset``; return a list of one location, or an empty list for any other name."""
    match = re.fullmatch(_OFFSET, name)
    if match is None:
        return []
    path, offset = match.groups()
    if len(offset) > len(str(LARGEST_OFFSET)) or int(offset) > LARGEST_OFFSET:
        raise FormatError(
            f"the offset {offset if len(offset) < 40 else offset[:40] + '…'} of {path!r} is too large; "
            f"the maximum is {LARGEST_OFFSET}"
        )
    return [Place(path, int(offset))]


def _unpacked(command: str) -> list[str] | None:
    """Return the files that a ``gunzip -c``, ``zcat`` or ``cat`` command reads, or None for any other command."""
    if re.search(_SHELL, command):
        return None
    try:
        import shlex  # rarely used: only for commands

        words = shlex.split(command)
    except ValueError:
        return None
    for unpacker in _UNPACKERS:
        if words[: len(unpacker)] == unpacker:
            paths = words[len(unpacker) :]
            return paths if paths and not any(path.startswith("-") and path != STDIN for path in paths) else None
    return None


def matching(path: str) -> list[Place]:
    """Return the locations of the files that match a pattern, in natural order; a plain path matches itself."""
    if path == STDIN or os.path.exists(path):
        return [Place(path)]
    name = os.path.basename(path)
    if is_remote(path):
        paths = remote.matching(path)
    elif "JOB" in name:
        folder = os.path.dirname(path)
        pattern = re.compile(re.escape(name).replace("JOB", r"\d+"))
        entries = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
        paths = [os.path.join(folder, entry) for entry in entries if pattern.fullmatch(entry)]
    elif glob.has_magic(path):
        paths = glob.glob(path)
    else:
        return [Place(path)]
    if not paths:
        raise InputError("no file matches this pattern", path)
    return [Place(path) for path in sorted(paths, key=natural)]


def natural(path: str) -> list[tuple[int, str | int]]:
    """Return a sort key that orders lat.2.gz before lat.10.gz."""
    return [(1, int(part)) if part.isdigit() else (0, part) for part in re.split(r"([0-9]+)", path)]


def listing(folder: str) -> tuple[list[str], list[str]]:
    """Return ``(file paths, subfolder paths)`` for a folder in natural order, without hidden files and subfolders.

    Raises:
        InputError: The folder cannot be read.
    """
    if is_remote(folder):
        files, subfolders = remote.listing(folder)
    else:
        try:
            entries = [entry for entry in os.scandir(folder) if not entry.name.startswith(".")]
            files = [entry.path for entry in entries if entry.is_file()]
            subfolders = [entry.path for entry in entries if entry.is_dir()]
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", error.filename or folder) from error
    return sorted(files, key=natural), sorted(subfolders, key=natural)
