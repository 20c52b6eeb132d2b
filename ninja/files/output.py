"""Output files that appear whole or not at all, under a name that no other process writes, and never over an input."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import io
import os
import sys
from collections.abc import Iterable, Iterator
from typing import IO, Any, Protocol, TextIO

from ninja.errors import OptionError, OutputError
from ninja.files import remote
from ninja.files.place import STDIN as STDOUT
from ninja.files.place import Identity, identity_of, is_remote, target
from ninja.files.terminal import printable

LONGEST_NAME = 255  # bytes of a file name, on all usual file systems
_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
_NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


class Guard:
    """The files that a run reads and those that its outputs replace, which must be different files.

    Args:
        inputs: Paths of inputs that are known before the run; iterated when an output exists already.
    """

    def __init__(self, inputs: Iterable[str] = ()) -> None:
        self._inputs = inputs
        self._read: dict[Identity, str] = {}
        self._replaced: dict[Identity, str] = {}

    def read(self, path: str, identity: Identity | None) -> None:
        """Note a file that is being read.

        Raises:
            OptionError: An output replaces it.
        """
        if identity is not None:
            if identity in self._replaced:
                raise _overwritten(self._replaced[identity], path)
            self._read[identity] = path

    def write(self, path: str) -> None:
        """Note a file that is about to be written.

        Raises:
            OptionError: It is an input.
        """
        identity = identity_of(path)
        if identity is None or identity in self._replaced:
            return
        for source in self._inputs:
            if (known := identity_of(source)) is not None:
                self._read.setdefault(known, source)
        self._inputs = ()
        if identity in self._read:
            raise _overwritten(path, self._read[identity])
        self._replaced[identity] = path


def _overwritten(output: str, source: str) -> OptionError:
    place = "" if output == source else f"{output}: "
    return OptionError(f"{place}{source} is read and would be written over; give the output another name")


class Bytes(Protocol):
    """Writer of bytes."""

    def write(self, content: bytes | memoryview) -> object:
        """Write all of them."""
        ...


@contextlib.contextmanager
def reported(path: str) -> Iterator[None]:
    """Raise errors of the system as ``OutputError``."""
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"cannot be written: {error.strerror or error}", path) from error


class StandardOutput:
    """The standard output."""

    name = "standard output"

    def __init__(self) -> None:
        sys.stdout.flush()
        self._stream = sys.stdout.buffer
        self._is_shown = sys.stdout.isatty()

    def write(self, content: bytes | memoryview) -> None:
        """Write bytes; control characters are escaped on a terminal."""
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
        """Do nothing: written bytes cannot be removed."""


class PartFile(io.RawIOBase):
    """A file with a temporary name beside its final one (``.NAME.part``) until it is finished.

    Only one writer at a time may have the temporary file open. Special files (``/dev/null``, ``/dev/stdout``, named
    pipes) are written directly. Readers of a file that is replaced keep the old content; a link is replaced, not its
    target. The file of a URL is written on this machine and uploaded once it is complete; if that fails, it is kept.

    An interrupt may occur between the opening and the block that finishes or abandons the file: then it is abandoned
    with the last reference to it.

    Args:
        path: The file.
        keep: Continue the temporary file of an earlier writer, whose bytes `cut` discards, and keep it if it is neither
            finished nor abandoned.
        guard: Inputs that must not be replaced.

    Raises:
        OutputError: It cannot be written, or another process is writing it.
        OptionError: It would replace an input.
    """

    def __init__(self, path: str, *, keep: bool = False, guard: Guard | None = None) -> None:
        self._is_pending = False  # a temporary file that is neither finished nor abandoned
        self.name = path
        self._url = path if is_remote(path) else None
        self.is_direct = _is_direct(path)
        self.part = path if self.is_direct else part_of(path)
        self._final = os.path.abspath(path)  # the current folder may change
        self._place = path if self._url is None else self.part  # in messages
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
            message = f"is being written by another process, as {self.part}; wait for it, or name another output"
            raise OutputError(message, self.name) from None
        except OSError:
            raise
        except BaseException:  # Ctrl-C just after it was created
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
        rest = memoryview(content)
        with reported(self._place):
            while rest:
                rest = rest[self._file.write(rest) :]
        return len(content)

    def cut(self, length: int) -> None:
        """Truncate the temporary file to this number of bytes, and continue there."""
        with reported(self._place):
            self._file.truncate(length)
            self._file.seek(length)

    def finish(self) -> None:
        """Give the file its final name, once its bytes are on disk."""
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
        self._is_pending = False
        with reported(self._place):
            self._file.close()

    def _put(self, url: str) -> None:
        try:
            remote.put(self.part, url)
        except OutputError as error:
            self.is_direct = True  # keep it
            error.message += f"; the whole file is {self.part} on this machine"
            raise
        os.remove(self.part)

    def abandon(self, *, keep: bool) -> None:
        """Remove the file, or keep it under its temporary name to be resumed."""
        if not self.is_direct and not keep and self._is_there():
            _remove(self.part)
        with contextlib.suppress(OSError):
            self._file.close()
        self._is_pending = False

    def _is_there(self) -> bool:
        """Return whether the temporary file still exists and is this one, not another writer's."""
        return not self._file.closed and is_there(self._file.fileno(), self.part)

    def __del__(self) -> None:
        if self._is_pending and self._process == os.getpid():  # not in a process forked from the writer's
            with contextlib.suppress(OSError):
                self.abandon(keep=False)
        super().__del__()


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.remove(path)


def _is_direct(path: str) -> bool:
    """Return whether a path is written directly: a special file, or a stream of this process."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.islink(path) and (folder == "/dev" or os.path.realpath(folder).startswith("/proc/")):
        return True  # /dev/stdout and /dev/fd/1, also if the shell redirects them to a file
    return os.path.exists(path) and not os.path.isfile(path)  # the real path of a pipe may not exist


@contextlib.contextmanager
def opened(path: str, guard: Guard | None = None) -> Iterator[PartFile]:
    """Write a file in a ``with`` block; it appears when the block is left without an exception."""
    file = PartFile(path, guard=guard)
    try:
        yield file
        file.finish()
    except BaseException:
        file.abandon(keep=False)
        raise


@contextlib.contextmanager
def opened_as_text(path: str, guard: Guard | None = None) -> Iterator[TextIO]:
    """Write a UTF-8 text file in a ``with`` block, as ``opened`` does."""
    with opened(path, guard) as file:
        stream = io.TextIOWrapper(io.BufferedWriter(file), encoding="utf-8", errors="surrogateescape")
        yield stream
        stream.flush()


@contextlib.contextmanager
def text_output(name: str, guard: Guard | None = None) -> Iterator[TextIO]:
    """Write a UTF-8 text file in a ``with`` block, as ``opened`` does; ``-`` is the standard output.

    As in Kaldi, ``ark:F`` and ``ark,t:F`` mean the file F.
    """
    output = target(name)
    if output.script is not None:
        raise OptionError(f"{name!r} names two files, but these results are one text; name one")
    if output.archive == STDOUT:
        yield sys.stdout
        return
    with opened_as_text(output.archive, guard) as stream:
        yield stream


def part_of(path: str) -> str:
    """Return the temporary name of a file."""
    if is_remote(path):
        return remote.part_of(path)
    folder, name = os.path.split(path)
    part = f".{name}.part"
    if len(os.fsencode(part)) > LONGEST_NAME:
        part = f".{hashlib.sha256(os.fsencode(name)).hexdigest()}.part"
    return os.path.join(os.path.realpath(folder), part)


def open_locked(path: str, *, keep: bool) -> int:
    """Open a temporary file for writing, and lock it while it is open.

    The lock ends with its process, so files of killed processes do not block. NFS passes such locks to its server. Some
    file systems (FUSE, clusters) have no locks: there the second writer replaces the file of the first, which notices
    that by `is_there` before it gives the file its final name.

    Args:
        keep: Open the file of an earlier writer rather than a new one.

    Raises:
        BlockingIOError: Another writer has it open.
        OSError: It cannot be opened. Links are not followed: another user of the folder may have created them.
    """
    while True:
        is_new = True
        try:
            descriptor = _open(path, os.O_CREAT if keep else os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            is_new = False
            try:
                descriptor = _open(path, 0)
            except FileNotFoundError:  # finished or removed meanwhile
                continue
        try:
            _lock(descriptor)
            if is_there(descriptor, path):
                if is_new or keep:
                    return descriptor
                os.remove(path)  # it may still be open somewhere, so its bytes stay as they are
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def is_there(descriptor: int, path: str) -> bool:
    """Return whether a path is that of an open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def sync(descriptor: int) -> None:
    """Wait until a file or the entries of a folder are on disk, where the file system supports it."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def sync_folder(path: str) -> None:
    """Wait until the entries of a folder are on disk; do nothing for a folder that may not be read."""
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
