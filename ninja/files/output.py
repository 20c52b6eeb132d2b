"""Output files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, Protocol, TextIO

from ninja.errors import OptionError, OutputError
from ninja.files import remote
from ninja.files.guard import writing
from ninja.files.lock import is_there, open_alone, sync, sync_folder
from ninja.files.place import SPECIFIER
from ninja.files.place import STDIN as STDOUT
from ninja.files.terminal import printable

LONGEST_NAME = 255  # bytes of the name of a file, on all usual file systems


class Bytes(Protocol):
    """Writer of bytes."""

    def write(self, content: bytes | memoryview) -> object:
        """Write all of them."""
        ...


@contextlib.contextmanager
def reported(path: str) -> Iterator[None]:
    """Turn the system's errors into ``OutputError``."""
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"cannot be written: {error.strerror or error}", path) from error


class StandardOutput:
    """The standard output; bytes written there cannot be taken back."""

    name = "standard output"

    def __init__(self) -> None:
        sys.stdout.flush()
        self._stream = sys.stdout.buffer
        self._is_shown = sys.stdout.isatty()

    def write(self, content: bytes | memoryview) -> None:
        """Write bytes; on a terminal with control characters spelled out."""
        if self._is_shown:
            text = printable(bytes(content).decode("utf-8", "surrogateescape"))
            content = text.encode("utf-8", "surrogateescape")
        with reported(self.name):
            self._stream.write(content)

    def finish(self) -> None:
        """Write the bytes that are still buffered."""
        with reported(self.name):
            self._stream.flush()

    def abandon(self, *, keep: bool) -> None:
        """Do nothing: it cannot be taken back."""


class PartFile(io.RawIOBase):
    """A file under a temporary name beside its final one (``.NAME.part``) until it is finished.

    One writer at a time has the temporary file open; a second one is refused. What is no plain file (``/dev/null``,
    ``/dev/stdout``, a named pipe) is written directly. A reader of the file that it replaces reads on in that one; a
    link is replaced, not what it leads to. The file of a URL is on this machine, and put there once it is whole; if
    that fails, it stays here.

    An interrupt may fall between its opening and the block that would finish or abandon it: then it is abandoned
    with the last reference to it.

    Args:
        path: The file.
        keep: Go on with the temporary file that an earlier writer left, whose bytes `cut` discards, and leave it if it
            is neither finished nor abandoned.

    Raises:
        OutputError: It cannot be written, or another process is writing it.
        OptionError: It would replace an input of the command that runs.
    """

    def __init__(self, path: str, *, keep: bool = False) -> None:
        self._left = False  # a temporary file that is neither finished nor abandoned
        self.name = path
        self._url = path if remote.is_remote(path) else None
        self.is_direct = _is_direct(path)
        self.part = path if self.is_direct else part_of(path)
        self._final = os.path.abspath(path)  # also if the program goes to another folder meanwhile
        self._place = path if self._url is None else self.part  # where the bytes are written, in messages
        writing(path)
        writing(self.part)
        if self._url is not None:
            remote.check_target(self._url)
        with reported(self._place):
            if self.is_direct:
                self._file: IO[bytes] = open(path, "wb", buffering=0)  # noqa: SIM115
            else:
                self._file = self._open(keep=keep)
            self._process, self._left = os.getpid(), not self.is_direct and not keep

    def _open(self, *, keep: bool) -> IO[bytes]:
        try:
            file = open(open_alone(self.part, keep=keep), "r+b", buffering=0)  # noqa: SIM115
        except BlockingIOError:
            message = f"is being written by another process, as {self.part}; wait for it, or name another output"
            raise OutputError(message, self.name) from None
        except OSError:
            raise
        except BaseException:  # Ctrl-C just after it was made
            if not keep:
                _remove(self.part)
            raise
        file.seek(0, os.SEEK_END)
        return file

    def writable(self) -> bool:
        """Tell Python's own layers that this can be written."""
        return True

    def write(self, content: Any) -> int:
        """Write all of some bytes."""
        left = memoryview(content)
        with reported(self._place):
            while left:
                left = left[self._file.write(left) :]
        return len(content)

    def cut(self, length: int) -> None:
        """Keep this number of bytes of the temporary file, and write on behind them."""
        with reported(self._place):
            self._file.truncate(length)
            self._file.seek(length)

    def finish(self) -> None:
        """Give the file its name, once its bytes are on the disk."""
        if self._url is not None:
            self._put(self._url)
        elif not self.is_direct:
            with reported(self.name):
                sync(self._file.fileno())
                if not self._is_there():
                    message = f"another process has replaced {self.part}, so the file is not written; name another"
                    raise OutputError(message, self.name)
                os.replace(self.part, self._final)
                sync_folder(os.path.dirname(self.part))
        self._left = False
        with reported(self._place):
            self._file.close()

    def _put(self, url: str) -> None:
        try:
            remote.put(self.part, url)
        except OutputError as error:
            self.is_direct = True  # not to be removed
            error.message += f"; the whole file is {self.part} on this machine"
            raise
        os.remove(self.part)

    def abandon(self, *, keep: bool) -> None:
        """Remove the file, or keep it under its temporary name to be taken up later."""
        if not self.is_direct and not keep and self._is_there():
            _remove(self.part)
        with contextlib.suppress(OSError):
            self._file.close()
        self._left = False

    def _is_there(self) -> bool:
        """Tell whether the temporary file is there, and is this one rather than another writer's."""
        return not self._file.closed and is_there(self._file.fileno(), self.part)

    def __del__(self) -> None:
        if self._left and self._process == os.getpid():  # not in a process forked from the writer's
            with contextlib.suppress(OSError):
                self.abandon(keep=False)
        super().__del__()


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.remove(path)


def _is_direct(path: str) -> bool:
    """Tell whether a path is written directly: it is no plain file, or one of the streams of this process."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.islink(path) and (folder == "/dev" or os.path.realpath(folder).startswith("/proc/")):
        return True  # /dev/stdout and /dev/fd/1, whatever the shell connected them with
    return os.path.exists(path) and not os.path.isfile(path)  # not by its real path: pipes may have none


@contextlib.contextmanager
def opened(path: str) -> Iterator[PartFile]:
    """Write a file in a ``with`` block; it gets its name when the block is left without an exception."""
    file = PartFile(path)
    try:
        yield file
        file.finish()
    except BaseException:
        file.abandon(keep=False)
        raise


@contextlib.contextmanager
def opened_as_text(path: str) -> Iterator[TextIO]:
    """Write a UTF-8 text file in a ``with`` block, as ``opened`` does."""
    with opened(path) as file:
        stream = io.TextIOWrapper(io.BufferedWriter(file), encoding="utf-8", errors="surrogateescape")
        yield stream
        stream.flush()


@contextlib.contextmanager
def text_output(name: str) -> Iterator[TextIO]:
    """Open a text file for results, ``-`` for stdout; a file appears under its name only when it is complete.

    As in Kaldi, ``ark:F`` and ``ark,t:F`` mean the file F.
    """
    chosen = target(name)
    if chosen.script is not None:
        raise OptionError(f"{name!r} names two files, but these results are one text; name one")
    if chosen.archive == STDOUT:
        yield sys.stdout
        return
    with opened_as_text(chosen.archive) as stream:
        yield stream


def part_of(path: str) -> str:
    """Return the temporary name of a file."""
    if remote.is_remote(path):
        return remote.part_of(path)
    folder, name = os.path.split(path)
    part = f".{name}.part"
    if len(os.fsencode(part)) > LONGEST_NAME:
        part = f".{hashlib.sha256(os.fsencode(name)).hexdigest()}.part"
    return os.path.join(os.path.realpath(folder), part)


_OPTIONS = {"ark", "scp", "b", "t", "f", "nf", "p"}
_PACKER = re.compile(r"\|\s*gzip(?:\s+-c)?\s*>\s*([^\s$`\\;&|<>(){}!#~*?'\"]+)\s*")


@dataclass(frozen=True, slots=True)
class Target:
    """Place and form of an output."""

    archive: str  # file; "-" is the standard output
    script: str | None = None  # script file that says where in the archive each lattice lies
    text: bool = False
    packed: bool = False  # gzip


def target(name: str | os.PathLike[str]) -> Target:
    """Understand a target.

    Args:
        name: A path (``.gz`` packs it, ``.txt`` and ``.txt.gz`` are text), ``-``, or a Kaldi wspecifier: ``ark:…``,
            ``ark,t:…``, ``ark,scp:A,S``, ``ark:| gzip -c > F``. A path-like object is a path, whatever its letters;
            it may be a folder.

    Source: Kaldi util/kaldi-table.cc (ClassifyWspecifier).
    """
    found = None if isinstance(name, os.PathLike) else SPECIFIER.fullmatch(name)
    if found is None:
        path = os.fspath(name)
        if path.startswith("|"):
            raise OptionError(f"{path!r}: commands are not run; write ark:| gzip -c > FILE or a file name")
        return _checked(Target(path, text=path.removesuffix(".gz").endswith(".txt"), packed=path.endswith(".gz")))
    options = [option for option in re.split("[, ]+", found[1]) if option]
    rest = found[2].strip()
    unknown = [option for option in options if option not in _OPTIONS]
    if unknown:
        raise OptionError(f"wspecifier {name!r} has the unknown option {unknown[0]!r}")
    kinds = [option for option in options if option in ("ark", "scp")]
    text = "t" in options
    if kinds == ["ark"]:
        if rest.startswith("|"):
            packer = _PACKER.fullmatch(rest)
            if packer is None:
                raise OptionError(f"{name!r}: of commands to write to, only '| gzip -c > FILE' is served")
            return _checked(Target(packer[1], text=text, packed=True))
        return _checked(Target(rest or STDOUT, text=text, packed=rest.endswith(".gz")))
    if sorted(kinds) == ["ark", "scp"]:
        names = rest.split(",")
        if len(names) != 2:
            raise OptionError(f"wspecifier {name!r} must name two files, as in ark,scp:lat.ark,lat.scp")
        archive, script = names if kinds[0] == "ark" else reversed(names)
        return _checked(Target(archive.strip(), script.strip(), text, archive.strip().endswith(".gz")))
    raise OptionError(f"wspecifier {name!r} must say 'ark', or 'ark,scp' with two files")


def is_specifier(name: str | os.PathLike[str]) -> bool:
    """Tell whether a target is named in Kaldi's way, ``ark:…``."""
    return not isinstance(name, os.PathLike) and SPECIFIER.fullmatch(name) is not None


def _checked(chosen: Target) -> Target:
    if not chosen.archive:
        raise OptionError(f"the output {chosen.archive!r} is no file name")
    if chosen.script is not None:
        if chosen.packed or chosen.archive == STDOUT:
            raise OptionError(
                "a script file needs an archive that is a plain file, neither gzip nor the standard output"
            )
        if chosen.script in ("", STDOUT, chosen.archive):
            raise OptionError(f"the script file {chosen.script!r} is no file name of its own")
    return chosen
