"""Output files, which are written atomically by one process at a time and never replace an input; terminal output.

Control characters are escaped on a terminal, because keys and words in files could otherwise control the terminal.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, NamedTuple, TextIO, cast

from ninja.errors import OptionError, OutputError
from ninja.files import remote
from ninja.files.stream import SPECIFIER, Guard, is_remote
from ninja.files.stream import STDIN as STDOUT

LONGEST_NAME = 255  # maximum length of a file name in bytes on common file systems
Facts = Mapping[
    str, Any
]  # facts on which the results of a run depend (version, options, sources); see `ninja.io.resume`
_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
_NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
# Control characters except tab and newline, and marks of text direction, which can make one name look like another.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_WRITE_OPTIONS = {"ark", "scp", "b", "t", "f", "nf", "p"}
_PACKER = r"\|\s*gzip(?:\s+-c)?\s*>\s*([^\s$`\\;&|<>(){}!#~*?'\"]+)\s*"


class Target(NamedTuple):
    """The files to which an output is written, whether they contain text, and whether they are compressed."""

    archive: str  # path of the output file; "-" is stdout
    script: str | None = None  # path of the script file, which lists the offset of each lattice in the archive
    text: bool = False
    packed: bool = False  # whether the file is compressed with gzip


def target(name: str | os.PathLike[str]) -> Target:
    """Parse the name of an output.

    Args:
        name: A path (compressed if it ends in ``.gz``, text if it ends in ``.txt`` or ``.txt.gz``), ``-``, or a Kaldi
            wspecifier: ``ark:…``, ``ark,t:…``, ``ark,scp:A,S``, ``ark:| gzip -c > F``. A path-like object is always
            treated as a path.

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
    location = match[2].strip()
    unknown = [option for option in options if option not in _WRITE_OPTIONS]
    if unknown:
        raise OptionError(f"wspecifier {name!r} has the unknown option {unknown[0]!r}")
    kinds = [option for option in options if option in ("ark", "scp")]
    text = "t" in options
    if kinds == ["ark"]:
        if location.startswith("|"):
            packer = re.fullmatch(_PACKER, location)
            if packer is None:
                raise OptionError(f"{name!r}: the only supported output command is '| gzip -c > FILE'")
            return _checked(Target(packer[1], text=text, packed=True))
        return _checked(Target(location or STDOUT, text=text, packed=location.endswith(".gz")))
    if sorted(kinds) == ["ark", "scp"]:
        names = location.split(",")
        if len(names) != 2:
            raise OptionError(f"wspecifier {name!r} must specify two files, such as ark,scp:lat.ark,lat.scp")
        archive, script = names if kinds[0] == "ark" else reversed(names)
        return _checked(Target(archive.strip(), script.strip(), text, archive.strip().endswith(".gz")))
    raise OptionError(f"invalid wspecifier {name!r}: expected ark:FILE, or ark,scp:FILE,FILE for two files")


def is_specifier(name: str | os.PathLike[str]) -> bool:
    """Return whether a name is a Kaldi specifier, such as ``ark:…``."""
    return not isinstance(name, os.PathLike) and SPECIFIER.fullmatch(name) is not None


def _checked(target: Target) -> Target:
    if not target.archive:
        raise OptionError(f"the output {target.archive!r} is not a file name")
    if target.script is not None:
        if target.packed or target.archive == STDOUT or re.search(r"^\||\n", target.archive):
            archive = "an uncompressed archive file with a one-line name"
            raise OptionError(f"a script file requires {archive}, not {target.archive!r}")
        if target.script in ("", STDOUT, target.archive):
            message = "must have a different name from the archive, and cannot be stdout"
            raise OptionError(f"the script file {target.script!r} {message}")
    return target


@contextlib.contextmanager
def reported(path: str, action: str = "written") -> Iterator[None]:
    """Convert an OSError in a ``with`` block to an `OutputError` with the message "cannot be ACTION: REASON"."""
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"cannot be {action}: {error.strerror or error}", path) from error


class StandardOutput:
    """An output that is written to stdout, with control characters escaped on a terminal."""

    name = "standard output"

    def __init__(self) -> None:
        sys.stdout.flush()
        self._stream = sys.stdout.buffer
        self._is_shown = sys.stdout.isatty()

    def write(self, content: bytes | memoryview) -> None:
        """Write bytes; on a terminal, control characters are escaped."""
        if self._is_shown:
            text = printable(bytes(content).decode("utf-8", "surrogateescape"))
            content = text.encode("utf-8", "surrogateescape")
        with reported(self.name):
            self._stream.write(content)

    def finish(self) -> None:
        """Flush the buffer."""
        with reported(self.name):
            self._stream.flush()

    def abandon(self, *, keep: bool) -> None:
        """Do nothing, because written bytes cannot be removed."""


class PartFile(io.RawIOBase):
    """An output file that has a temporary name (``.NAME.part``) in the same folder until it is finished.

    A lock ensures that only one writer can open the temporary file. Special files (``/dev/null``, ``/dev/stdout``,
    named pipes) are written directly. If an existing file is replaced, its readers continue to read the old content. If
    the path is a link, the link is replaced, not its target. A remote file is first written on this machine, and
    uploaded when it is complete; if the upload fails, the local file is kept.

    An interrupt can occur between opening the file and entering the block that finishes or abandons it. The file is
    then abandoned when it is garbage-collected.

    Args:
        path: Path or URL of the file.
        keep: Continue a temporary file from an earlier writer (`cut` truncates it), and keep it if it is neither
            finished nor abandoned.
        guard: Guard that protects the inputs from being replaced.
        syncs_folder: Also wait until the final name is on disk. If False, the caller must call `sync_folder`.

    Raises:
        OutputError: The file cannot be written, or another process is writing it.
        OptionError: The file would replace an input.
    """

    _is_pending = False  # whether `__del__` removes the temporary file; a default in case `__init__` is interrupted

    def __init__(self, path: str, *, keep: bool = False, guard: Guard | None = None, syncs_folder: bool = True) -> None:
        self.name = path
        self._syncs_folder = syncs_folder
        self._url = path if is_remote(path) else None
        self.is_direct = _is_direct(path)
        self.part = path if self.is_direct else part_of(path)
        self._final = os.path.abspath(path)  # absolute, because the working folder may change
        self._place = path if self._url is None else self.part  # path in error messages
        if guard is not None:
            guard.write(path)
            guard.write(self.part)
        if self._url is not None:
            remote.check_target(self._url)
        with reported(self._place):
            if self.is_direct:
                self._file: IO[bytes] = open(path, "wb", buffering=0)  # noqa: SIM115
            else:
                self._file = self._open(keep=keep)
            self._process, self._is_pending = os.getpid(), not self.is_direct and not keep

    def _open(self, *, keep: bool) -> IO[bytes]:
        try:
            file = open(open_locked(self.part, keep=keep), "r+b", buffering=0)  # noqa: SIM115
        except BlockingIOError:
            message = f"is being written by another process ({self.part}); wait for it, or choose another output"
            raise OutputError(message, self.name) from None
        except OSError:
            raise
        except BaseException:  # an interrupt occurred just after the file was created
            if not keep:
                _remove(self.part)
            raise
        file.seek(0, os.SEEK_END)
        return file

    def writable(self) -> bool:
        """Return True, which ``io.BufferedWriter`` requires."""
        return True

    def write(self, content: Any) -> int:
        """Write all bytes."""
        remaining = memoryview(content)
        with reported(self._place):
            while remaining:
                remaining = remaining[self._file.write(remaining) :]
        return len(content)

    def cut(self, length: int) -> None:
        """Truncate the temporary file to `length` bytes, and continue writing at its end."""
        with reported(self._place):
            self._file.truncate(length)
            self._file.seek(length)

    def finish(self) -> None:
        """Wait until the file is on disk, and give it its final name."""
        if self._url is not None:
            self._put(self._url)
        elif not self.is_direct:
            with reported(self.name):
                sync(self._file.fileno())
                if not self._is_there():
                    message = f"was not written, because another process replaced {self.part}; choose another output"
                    raise OutputError(message, self.name)
                os.replace(self.part, self._final)
                if self._syncs_folder:
                    sync_folder(os.path.dirname(self.part))
        self._is_pending = False
        with reported(self._place):
            self._file.close()

    def _put(self, url: str) -> None:
        try:
            remote.put(self.part, url)
        except OutputError as error:
            self.is_direct = True  # prevents `abandon` from removing the local file
            error.message += f"; the complete file is {self.part} on this machine"
            raise
        os.remove(self.part)

    def abandon(self, *, keep: bool) -> None:
        """Remove the file, or keep it under its temporary name for a later run that resumes writing."""
        if not self.is_direct and not keep and self._is_there():
            _remove(self.part)
        with contextlib.suppress(OSError):
            self._file.close()
        self._is_pending = False

    def _is_there(self) -> bool:
        """Return whether the temporary file still exists and has not been replaced by another writer."""
        return not self._file.closed and is_there(self._file.fileno(), self.part)

    def __del__(self) -> None:
        if self._is_pending and self._process == os.getpid():  # a forked process must not remove the file
            with contextlib.suppress(OSError):
                self.abandon(keep=False)
        super().__del__()


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.remove(path)


def _is_direct(path: str) -> bool:
    """Return whether a path must be written directly because it is a special file or a stream of this process."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.islink(path) and (folder == "/dev" or os.path.realpath(folder).startswith("/proc/")):
        return True  # /dev/stdout or /dev/fd/1, even if the shell redirects it to a file
    return os.path.exists(path) and not os.path.isfile(path)  # not the real path, which may not exist for a pipe


@contextlib.contextmanager
def opened(path: str, guard: Guard | None = None, *, syncs_folder: bool = True) -> Iterator[PartFile]:
    """Open a file under a temporary name in a ``with`` block; then rename the file, or remove it after an error."""
    file = PartFile(path, guard=guard, syncs_folder=syncs_folder)
    try:
        yield file
        file.finish()
    except BaseException:
        file.abandon(keep=False)
        raise


@contextlib.contextmanager
def opened_as_text(path: str, guard: Guard | None = None) -> Iterator[TextIO]:
    """Open a UTF-8 text file for writing in a ``with`` block; see `opened`."""
    with opened(path, guard) as file:
        stream = io.TextIOWrapper(io.BufferedWriter(file), encoding="utf-8", errors="surrogateescape")
        yield stream
        stream.flush()


@contextlib.contextmanager
def text_output(name: str, guard: Guard | None = None) -> Iterator[TextIO]:
    """Open a UTF-8 text file, or stdout, for writing in a ``with`` block; see `opened`.

    Args:
        name: A path, ``-`` for stdout, or Kaldi's ``ark:F`` or ``ark,t:F`` for the file F.
        guard: Guard that protects the inputs from being replaced.

    Raises:
        OptionError: The name specifies two files (``ark,scp:A,S``).
    """
    output = target(name)
    if output.script is not None:
        raise OptionError(f"{name!r} specifies two files, but the output is a single text file; specify one file")
    if output.archive == STDOUT:
        yield sys.stdout
        return
    with opened_as_text(output.archive, guard) as stream:
        yield stream


def part_of(path: str) -> str:
    """Return the path of the temporary file for an output."""
    if is_remote(path):
        return remote.part_of(path)
    folder, name = os.path.split(path)
    part = f".{name}.part"
    if len(os.fsencode(part)) > LONGEST_NAME:
        import hashlib  # rarely used: only for long names

        part = f".{hashlib.sha256(os.fsencode(name)).hexdigest()}.part"
    return os.path.join(os.path.realpath(folder), part)


def open_locked(path: str, *, keep: bool) -> int:
    """Open a temporary file for writing and lock it until it is closed.

    The lock is released when the process ends, so a killed process does not block other processes. NFS forwards such
    locks to its server. On file systems without locks (FUSE, some clusters), a second writer replaces the first
    writer's file. The first writer detects this with `is_there` before it gives the file its final name.

    Args:
        path: Path of the temporary file.
        keep: Open the existing file from an earlier writer instead of a new file.

    Returns:
        The file descriptor.

    Raises:
        BlockingIOError: Another writer has the file open.
        OSError: The file cannot be opened, or is a link (possibly created by another user of the folder).
    """
    while True:
        is_new = True
        try:
            descriptor = _open(path, os.O_CREAT if keep else os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            is_new = False
            try:
                descriptor = _open(path, 0)
            except FileNotFoundError:  # another writer has finished or removed the file in the meantime
                continue
        try:
            _lock(descriptor)
            if is_there(descriptor, path):
                if is_new or keep:
                    return descriptor
                os.remove(path)  # do not truncate the file instead, because another process may still have it open
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def is_there(descriptor: int, path: str) -> bool:
    """Return whether a path still refers to the open file with the given descriptor."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def sync(descriptor: int) -> None:
    """Wait until a file or the entries of a folder are on disk, if the file system supports this."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def sync_folder(path: str) -> None:
    """Wait until the entries of a folder are on disk; do nothing if the folder is not readable."""
    try:
        descriptor = os.open(path or os.curdir, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:
        return
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def _open(path: str, flags: int) -> int:
    return os.open(path, os.O_RDWR | os.O_NOFOLLOW | flags, 0o666)


def _lock(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise


def printable(text: str) -> str:
    r"""Escape control characters, for example ESC as ``\x1b`` and RIGHT-TO-LEFT OVERRIDE as ``\u202e``."""
    return _CONTROL.sub(lambda match: f"\\x{code:02x}" if (code := ord(match[0])) < 256 else f"\\u{code:04x}", text)


class Printable:
    """A text stream that escapes control characters."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.rich_proxied_file = stream  # the library rich writes the progress line to this stream without escaping

    def write(self, text: str) -> int:
        """Write a string and return its length."""
        self._stream.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several strings."""
        self._stream.writelines(map(printable, lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def printing() -> Iterator[None]:
    """Escape control characters on stderr, and on stdout if it is a terminal, during a ``with`` block."""
    before = sys.stdout, sys.stderr
    sys.stderr = cast(TextIO, Printable(sys.stderr))
    if sys.stdout.isatty():
        sys.stdout = cast(TextIO, Printable(sys.stdout))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def write_facts(place: str, facts: Facts, guard: Guard | None = None) -> None:
    """Write the facts about a run to a file next to its output; the temporary file of the output must be open."""
    part = part_of(path := facts_path(place))
    if guard is not None:
        guard.write(path)
    with reported(path):
        _remove(part)
        try:
            with open(
                os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb"
            ) as file:  # O_EXCL: do not follow links
                file.write(dumped(facts))
            os.replace(part, path)
        finally:
            _remove(part)


def remove_facts(place: str) -> None:
    """Remove the file with the facts about the run that wrote an output."""
    with reported(path := facts_path(place)), contextlib.suppress(FileNotFoundError):
        os.remove(path)


def dumped(facts: Facts) -> bytes:
    """Encode facts about a run as JSON; ASCII escapes represent paths that are not valid UTF-8."""
    import json  # rarely used: only for outputs with facts

    return json.dumps(facts, indent=1).encode() + b"\n"


def facts_path(place: str) -> str:
    """Return the path of the file with the facts about the run that wrote an output."""
    return part_of(place).removesuffix(".part") + ".run"


def toml_text(values: Mapping[str, Any], comments: Iterable[str] = ()) -> str:
    """Format names and values as TOML, preceded by comment lines."""
    import json

    lines = [f"# {line}\n" for line in comments]
    for name, value in values.items():
        # Strings, lists and booleans have the same syntax in JSON and TOML.
        text = float.__repr__(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
        lines.append(f"{name} = {text}\n")
    return "".join(lines)
