"""Parse the names of inputs and outputs: files, offsets, URLs, standard streams, commands and Kaldi specifiers."""

from __future__ import annotations

import glob
import os
import re
import stat
from typing import Literal, NamedTuple

from ninja.errors import FormatError, InputError, OptionError
from ninja.files import remote

STDIN = "-"
SPECIFIER = re.compile(r"(?=[a-z, ]*\b(?:ark|scp)\b)([a-z, ]+):(.*)", re.DOTALL)  # rspecifier or wspecifier
_OFFSET = r"(?s)(.+):(\d+)"
_RANGE = r"(?s)(.+)\[[\d:,]*\]"
_UNPACKERS = (["gunzip", "-c"], ["gzip", "-dc"], ["gzip", "-cd"], ["zcat"], ["cat"])
_SUPPORTED = "only gunzip -c, zcat and cat are supported"
LARGEST_OFFSET = 1 << 62  # bytes
_SHELL = r"[$`\\;&|<>(){}!#~]"
_URL = re.compile(r"(?!file:|local:)(?:[a-z0-9+.-]+::)*[a-z][a-z0-9+.-]+://.")
Identity = tuple[int, int] | str  # device and inode, which all links to a file share, or the URL


def is_remote(path: str) -> bool:
    """Return whether a name has the form of a URL of a remote file."""
    return _URL.match(path) is not None


def names_url(text: str) -> bool:
    """Return whether a text contains a URL, such as ``ark:s3://…``, including URLs of local files."""
    return re.search(r"[a-z][a-z0-9+.-]+://", text, re.IGNORECASE) is not None


def is_file(path: str) -> bool:
    """Return whether a path or URL is that of an existing file."""
    return remote.is_file(path) if is_remote(path) else os.path.isfile(path)


def identity_of(path: str) -> Identity | None:
    """Return the identity of a regular file, which is the same for all its names; None if it does not exist."""
    if is_remote(path):
        return remote.identity_of(path) if remote.is_file(path) else None
    try:
        return identity(os.stat(path))
    except (OSError, ValueError):
        return None


def identity(status: os.stat_result) -> Identity | None:
    """Return the identity of a regular file, None for a pipe, device or folder."""
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def is_read_once(path: str) -> bool:
    """Return whether a path can be read only once, because it is stdin, a pipe or a device."""
    if path == STDIN:
        return True
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


class Place(NamedTuple):
    """Where to read bytes: a file or a part of it, a command, or stdin."""

    path: str  # file or URL; "-" is stdin
    offset: int = 0  # in bytes
    command: str | None = None  # shell command whose output is read instead
    end: int | None = None  # offset at which reading ends; None reads to the end of the file
    line: int = 0  # number of lines of a text file before the offset
    plain: bool = False  # refuse pipes and devices, as the name comes from another file

    @property
    def name(self) -> str:
        """The name for error messages."""
        return f"{self.command} |" if self.command else "standard input" if self.path == STDIN else self.path


class Table(NamedTuple):
    """A lattice file in any format, a script file, or a folder."""

    place: Place
    kind: Literal["ark", "scp", "any", "folder"] = "ark"  # "any": detected from the content; may be a file list
    permissive: bool = False  # skip lines of a script file that cannot be read


def resolve(name: str, *, allow_pipes: bool = False, advise: bool = True) -> list[Place]:
    """Resolve a Kaldi rxfilename from the command line.

    Args:
        name: A file, a pattern, ``file:offset``, ``-``, or a command that ends in ``|``.
        allow_pipes: Allow commands other than ``gunzip -c``, ``zcat`` and ``cat``.
        advise: Mention the option that allows other commands in error messages.

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
        raise FormatError(f"{name!r} is a command to write to, not to read from")
    if name in ("", STDIN):
        return [Place(STDIN)]
    return [Place(name)] if os.path.exists(name) else _at_offset(name) or matching(name)


def resolve_listed(name: str, listed_in: str) -> list[Place]:
    """Resolve a Kaldi rxfilename in a script file.

    Args:
        name: A regular file, ``file:offset``, or ``gunzip -c``, ``zcat`` or ``cat`` with such files.
        listed_in: Path or URL of the script file.

    Raises:
        FormatError: The name has another form, is not allowed by `check_listed`, or ends in a range of rows, which
            applies only to matrices.
        InputError: No file matches the pattern.
    """
    if name.endswith("|"):
        command = name[:-1].strip()
        if not (unpacked := _unpacked(command)):
            raise FormatError(f"the command {command!r} is not allowed; {_SUPPORTED} in a script file")
        for path in unpacked:
            check_listed(path, listed_in)
        return [place._replace(plain=True) for path in unpacked for place in matching(path)]
    if name.startswith("|"):
        raise FormatError(f"{name!r} is a command to write to, not to read from")
    check_listed(name, listed_in)
    if os.path.exists(name):
        return [Place(name, plain=True)]
    if places := _at_offset(name):
        check_listed(places[0].path, listed_in)
        return [places[0]._replace(plain=True)]
    if re.fullmatch(_RANGE, name):
        raise FormatError(f"{name!r} ends in a range of rows, which lattices do not have")
    return [Place(name, plain=True)]


def check_listed(name: str, listed_in: str) -> None:
    """Check a name in a file list or script file.

    A local list may name any local file; a remote list may name only URLs in its folder and below.

    Raises:
        FormatError: The name is ``-``, or a URL that is not allowed.
    """
    if name in ("", STDIN):
        raise FormatError("standard input (-) is allowed only on the command line, not in a file")
    home = listed_in.rpartition("/")[0] + "/"
    if is_remote(listed_in):
        if not name.startswith(home) or ".." in name.split("/") or "::" in name:
            raise FormatError(f"{name!r} is not in {home}; a remote list may name only files in its folder and below")
    elif names_url(name):
        raise FormatError(f"{name!r} is a URL, which is allowed only on the command line, not in a file")


def below(name: str, named_in: str) -> str:
    """Return the path or URL of a file that another file names, relative to the folder of that file.

    Args:
        name: The name in the file.
        named_in: Path or URL of the file that contains the name.

    Raises:
        FormatError: The file, after links are followed, is not in that folder or below.
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
        raise FormatError(f"{name!r} is not in the folder of {named_in} or below")
    return path


def _at_offset(name: str) -> list[Place]:
    """Return the place of ``file:offset``, or an empty list for names of another form."""
    match = re.fullmatch(_OFFSET, name)
    if match is None:
        return []
    path, offset = match.groups()
    if len(offset) > len(str(LARGEST_OFFSET)) or int(offset) > LARGEST_OFFSET:
        raise FormatError(f"the offset {offset if len(offset) < 40 else offset[:40] + '…'} is too large")
    return [Place(path, int(offset))]


def _unpacked(command: str) -> list[str] | None:
    """Return the files of a ``gunzip -c``, ``zcat`` or ``cat`` command, None for other commands."""
    if re.search(_SHELL, command):
        return None
    try:
        import shlex  # for commands only

        words = shlex.split(command)
    except ValueError:
        return None
    for unpacker in _UNPACKERS:
        if words[: len(unpacker)] == unpacker:
            paths = words[len(unpacker) :]
            return paths if paths and not any(path.startswith("-") and path != STDIN for path in paths) else None
    return None


def matching(path: str) -> list[Place]:
    """Return the files that match a pattern, in natural order; a path without a pattern is returned unchanged."""
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


_WRITE_OPTIONS = {"ark", "scp", "b", "t", "f", "nf", "p"}
_PACKER = r"\|\s*gzip(?:\s+-c)?\s*>\s*([^\s$`\\;&|<>(){}!#~*?'\"]+)\s*"


class Target(NamedTuple):
    """Files and form of an output."""

    archive: str  # path; "-" is stdout
    script: str | None = None  # script file with the offset of each lattice in the archive
    text: bool = False
    packed: bool = False  # compressed with gzip


def target(name: str | os.PathLike[str]) -> Target:
    """Parse the name of an output.

    Args:
        name: A path (compressed if it ends in ``.gz``, text if it ends in ``.txt`` or ``.txt.gz``), ``-``, or a Kaldi
            wspecifier: ``ark:…``, ``ark,t:…``, ``ark,scp:A,S``, ``ark:| gzip -c > F``. A path-like object is always
            taken as a path.

    Raises:
        OptionError: The wspecifier is invalid, or contains a command that is not supported.

    Source: Kaldi util/kaldi-table.cc (ClassifyWspecifier).
    """
    match = None if isinstance(name, os.PathLike) else SPECIFIER.fullmatch(name)
    if match is None:
        path = os.fspath(name)
        if path.startswith("|"):
            raise OptionError(f"{path!r}: commands are not run; use ark:| gzip -c > FILE or a file name")
        return _checked(Target(path, text=path.removesuffix(".gz").endswith(".txt"), packed=path.endswith(".gz")))
    options = [option for option in re.split("[, ]+", match[1]) if option]
    rest = match[2].strip()
    unknown = [option for option in options if option not in _WRITE_OPTIONS]
    if unknown:
        raise OptionError(f"wspecifier {name!r} has the unknown option {unknown[0]!r}")
    kinds = [option for option in options if option in ("ark", "scp")]
    text = "t" in options
    if kinds == ["ark"]:
        if rest.startswith("|"):
            packer = re.fullmatch(_PACKER, rest)
            if packer is None:
                raise OptionError(f"{name!r}: the only supported output command is '| gzip -c > FILE'")
            return _checked(Target(packer[1], text=text, packed=True))
        return _checked(Target(rest or STDIN, text=text, packed=rest.endswith(".gz")))
    if sorted(kinds) == ["ark", "scp"]:
        names = rest.split(",")
        if len(names) != 2:
            raise OptionError(f"wspecifier {name!r} must name two files, such as ark,scp:lat.ark,lat.scp")
        archive, script = names if kinds[0] == "ark" else reversed(names)
        return _checked(Target(archive.strip(), script.strip(), text, archive.strip().endswith(".gz")))
    raise OptionError(f"wspecifier {name!r} must begin with 'ark', or with 'ark,scp' and name two files")


def is_specifier(name: str | os.PathLike[str]) -> bool:
    """Return whether a name has the form of a Kaldi specifier, such as ``ark:…``."""
    return not isinstance(name, os.PathLike) and SPECIFIER.fullmatch(name) is not None


def _checked(target: Target) -> Target:
    if not target.archive:
        raise OptionError(f"the output {target.archive!r} is not a file name")
    if target.script is not None:
        if target.packed or target.archive == STDIN:
            raise OptionError("a script file requires an uncompressed archive that is not standard output")
        if target.script in ("", STDIN, target.archive):
            raise OptionError(f"the script file {target.script!r} must have a different name from the archive")
    return target


def by_suffix(path: str) -> Literal["scp"] | None:
    """Return "scp" if a path has the extension ``.scp``, else None."""
    return "scp" if path.endswith(".scp") else None


def files_of(folder: str) -> list[str]:
    """Return the paths of the files in a folder, except hidden ones, in natural order."""
    if is_remote(folder):
        return sorted(remote.listing(folder)[0], key=natural)
    entries = [entry for entry in os.scandir(folder) if not entry.name.startswith(".") and entry.is_file()]
    return sorted((entry.path for entry in entries), key=natural)


def size_of(table: Table) -> int | None:
    """Return the size in bytes of a file, or of all files in a folder; None if unknown, for example for a pipe."""
    path = table.place.path
    if table.place.end is not None:
        return table.place.end - table.place.offset
    try:
        if is_remote(path):
            return None
        if table.kind == "folder":
            return sum(map(os.path.getsize, files_of(path)))
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) and table.place.command is None else None
