"""`ShardFolder`: the files of a sharded run, on a file system that all workers share or in an object store."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

from ninja.errors import InputError, OutputError
from ninja.files import remote
from ninja.files.output import reported
from ninja.files.place import is_file, is_remote
from ninja.files.stream import open_raw

BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class ShardFolder:
    """A folder whose files appear whole.

    Args:
        path: Its path, or its URL.
    """

    path: str

    def make(self) -> None:
        """Make the folder, unless it exists."""
        try:
            os.makedirs(self.attempts, exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot be made: {error.strerror or error}", self.attempts) from error

    @property
    def attempts(self) -> str:
        """The local folder for the files of attempts; on a shared file system the same folder."""
        if not is_remote(self.path):
            return self.path
        digest = hashlib.sha256(self.path.encode()).hexdigest()[:16]
        return os.path.join(os.path.dirname(remote.part_of(self.path)), f"{digest}.shards")

    def place(self, name: str) -> str:
        """Return the path or the URL of a file."""
        return f"{self.path}/{name}"

    def names(self) -> list[str]:
        """Return the names of the files, without hidden ones; an empty list if the folder does not exist."""
        if is_remote(self.path):
            try:
                return [url.rpartition("/")[2] for url in remote.listing(self.path)[0]]
            except InputError:
                return []
        with contextlib.suppress(FileNotFoundError):
            return [name for name in os.listdir(self.path) if not name.startswith(".")]
        return []

    def size(self, name: str) -> int | None:
        """Return the size of a file in bytes; None if it does not exist."""
        place = self.place(name)
        if is_remote(place):
            return remote.state_of(place)[0]
        return os.path.getsize(place) if os.path.isfile(place) else None

    def blocks(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a file.

        Raises:
            InputError: It cannot be read.
        """
        with open_raw(self.place(name)) as file:
            try:
                while block := file.read(BLOCK):
                    yield block
            except OSError as error:
                if isinstance(error, InputError):
                    raise
                raise InputError(f"cannot be read: {error.strerror or error}", self.place(name)) from error

    def take(self, path: str, name: str, *, replace: bool = True) -> None:
        """Move a file of `attempts` into the folder.

        Args:
            replace: Replace a file of the same name; otherwise that file stays, and the new one is removed.
        """
        place = self.place(name)
        if is_remote(place):
            if replace or not is_file(place):
                remote.put(path, place)
            os.remove(path)
            return
        with reported(place):
            if not replace:
                try:
                    os.link(path, place)  # unlike a rename, it never replaces another worker's file
                    os.remove(path)
                    return
                except FileExistsError:
                    os.remove(path)
                    return
                except OSError:  # the file system has no links
                    pass
            os.replace(path, place)

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        place = self.place(name)
        if is_remote(place):
            remote.remove(place)
            return
        with reported(place), contextlib.suppress(FileNotFoundError):
            os.remove(place)

    def remove_all(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.attempts, ignore_errors=True)
        for name in sorted(self.names(), reverse=True):  # the plan first: without it no file is used
            self.remove(name)
