"""Temporary files that one writer at a time has open."""

from __future__ import annotations

import errno
import fcntl
import os

_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
_NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


def open_alone(path: str, *, keep: bool) -> int:
    """Open a temporary file for writing, and lock it for as long as it is open.

    The lock ends with its process, so a file that a killed one left is no obstacle. NFS passes such locks on to its
    server. Some file systems (of FUSE, of clusters) have none: there the second writer replaces the file of the first,
    which finds that out by `is_there` before it gives the file its name.

    Args:
        keep: Open the file that an earlier writer left rather than a new one.

    Raises:
        BlockingIOError: Another writer has it open.
        OSError: It cannot be opened. A link is not followed: it is another's, who shares the folder, and leads
            anywhere.
    """
    while True:
        is_new = True
        try:
            descriptor = _open(path, os.O_CREAT if keep else os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            is_new = False
            try:
                descriptor = _open(path, 0)
            except FileNotFoundError:  # it has been finished or removed meanwhile
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
    """Tell whether a path is that of an open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def sync(descriptor: int) -> None:
    """Wait until the bytes of a file or the names of a folder are on the disk, where the file system can say so."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def sync_folder(path: str) -> None:
    """Wait until the names of a folder are on the disk; one that must not be read is left to the system."""
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
