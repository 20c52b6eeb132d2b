"""Folder for the files of a run in shards, either on a file system that all workers share or in an object store."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ninja.errors import InputError
from ninja.files import remote
from ninja.files.output import reported
from ninja.files.stream import is_file, is_remote, open_raw

BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class ShardFolder:
    """A folder to which files are added atomically.

    Args:
        path: Path or URL of the folder.
    """

    path: str

    def make(self) -> None:
        """Create the folder if it does not exist.

        Raises:
            OutputError: The parent folder does not exist or cannot be written to.
        """
        with reported(self.attempts, "created"):
            Path(self.attempts).mkdir(exist_ok=True)

    def tidy(self) -> None:
        """Remove the local temporary folder of a remote folder unless other attempts use it."""
        if is_remote(self.path):
            with contextlib.suppress(OSError):
                os.rmdir(self.attempts)

    @property
    def attempts(self) -> str:
        """Local folder for files that are being written: the folder itself or, if it is remote, a temporary folder."""
        if not is_remote(self.path):
            return self.path
        digest = hashlib.sha256(self.path.encode()).hexdigest()[:16]
        return os.path.join(os.path.dirname(remote.part_of(self.path)), f"{digest}.shards")

    def place(self, name: str) -> str:
        """Return the path or the URL of a file in the folder."""
        return f"{self.path}/{name}"

    def names(self) -> list[str]:
        """Return the names of the files, except hidden files; return an empty list if the folder does not exist.

        Raises:
            InputError: The folder is remote and cannot be listed.
        """
        if is_remote(self.path):
            try:
                return [url.rpartition("/")[2] for url in remote.listing(self.path)[0]]
            except InputError as error:
                if isinstance(error.__cause__, FileNotFoundError):
                    return []
                raise
        with contextlib.suppress(FileNotFoundError):
            return [name for name in os.listdir(self.path) if not name.startswith(".")]
        return []

    def size(self, name: str) -> int | None:
        """Return the size of a file in bytes, or None if it does not exist."""
        place = self.place(name)
        if is_remote(place):
            return remote.state_of(place)[0]
        return os.path.getsize(place) if os.path.isfile(place) else None

    def blocks(self, name: str) -> Iterator[bytes]:
        """Yield the content of a file in blocks.

        Raises:
            InputError: The file cannot be read.
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
        """Move a file to the folder atomically.

        Args:
            path: Path of a file in `attempts`.
            name: New name of the file.
            replace: Whether to overwrite an existing file with this name; if not, it is kept and ``path`` is removed.
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
                except OSError:  # the file system does not support links
                    pass
            os.replace(path, place)

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        place = self.place(name)
        if is_remote(place):
            remote.remove(place)
            return
        with reported(place), contextlib.suppress(FileNotFoundError):
            os.remove(place)

    def remove_all(self) -> None:
        """Remove the folder and all files in it."""
        shutil.rmtree(self.attempts, ignore_errors=True)
        for name in sorted(self.names(), reverse=True):  # the plan first, because no file is used without the plan
            self.remove(name)
