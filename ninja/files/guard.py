"""Refusal of outputs that would replace an input of the same run, by device and inode, or by URL."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from ninja.errors import OptionError
from ninja.files import remote

Identity = tuple[int, int] | str  # device and inode, which all links to a file share; the URL of a remote one


class Guard:
    """The files that a run reads, and those that its outputs replace, which must be different ones.

    Args:
        inputs: Lists the paths of the inputs that are known before the run; asked once, if an output is there already.
    """

    def __init__(self, inputs: Callable[[], Iterable[str]]) -> None:
        self._inputs = inputs
        self._named: dict[Identity | None, str] | None = None  # the inputs, once they were asked for
        self._read: dict[Identity, str] = {}  # inputs opened so far
        self._replaced: dict[Identity, str] = {}

    def read(self, path: str, identity: Identity | None) -> None:
        """Note a file that is being read.

        Raises:
            OptionError: An output would replace it.
        """
        if identity is not None:
            if identity in self._replaced:
                raise _refusal(self._replaced[identity], path)
            self._read[identity] = path

    def write(self, path: str) -> None:
        """Note a file that is about to be written.

        Raises:
            OptionError: It is an input.
        """
        identity = identity_of(path)
        if identity is None or identity in self._replaced:
            return
        if self._named is None:
            self._named = {identity_of(each): each for each in self._inputs()}
        found = self._read.get(identity) or self._named.get(identity)
        if found is not None:
            raise _refusal(path, found)
        self._replaced[identity] = path


_guard: Guard | None = None


@contextmanager
def guarded(guard: Guard) -> Iterator[None]:
    """Let a guard watch over all files that are opened in a ``with`` block."""
    global _guard
    before, _guard = _guard, guard
    try:
        yield
    finally:
        _guard = before


def reading(path: str, descriptor: int | None) -> None:
    """Tell the guard, if there is one, that an open file is read; without a descriptor the path is a URL."""
    if _guard is not None:
        _guard.read(path, remote.identity_of(path) if descriptor is None else _identity(os.fstat(descriptor)))


def writing(path: str) -> None:
    """Tell the guard, if there is one, that a file is about to be written."""
    if _guard is not None:
        _guard.write(path)


def identity_of(path: str) -> Identity | None:
    """Return the identity of a plain file, whatever its name; None: there is none."""
    if remote.is_remote(path):
        return remote.identity_of(path) if remote.is_file(path) else None
    try:
        return _identity(os.stat(path))
    except (OSError, ValueError):
        return None


def _identity(found: os.stat_result) -> Identity | None:
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def _refusal(output: str, source: str) -> OptionError:
    place = "" if output == source else f"{output}: "
    return OptionError(f"{place}{source} is read and would be written over; give the output another name")
