"""Lines of utterances one after the other: a bad line costs its utterance, the others are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ninja.errors import FormatError

T = TypeVar("T")
Line = tuple[str, int, T | FormatError]  # key ("": not told), line, and what stands there or what is wrong with it


@dataclass(eq=False, slots=True)
class Block(Generic[T]):
    """The lines of an utterance."""

    key: str
    found: list[T] = field(default_factory=list)
    error: FormatError | None = None  # what is wrong with the first bad one

    def spoil(self, error: FormatError) -> None:
        """Note an error, unless there is one already."""
        self.error = self.error or error


def blocks(lines: Iterable[Line[T]], path: str | None) -> Iterator[Block[T]]:
    """Gather lines that follow each other by their keys, and yield what nothing behind can belong to any more.

    A bad line spoils the utterance whose key it has, and the one that it stands within; any other is an entry of its
    own. An utterance that goes on after another one is one, too.
    """
    seen: set[str] = set()
    last: Block[T] | None = None
    stray: list[Block[T]] = []  # bad lines since that one
    for key, line, found in lines:
        if last is not None and key == last.key:
            block = last
            for each in stray:
                _spoil(block, each)
            stray = []
        elif isinstance(found, FormatError):
            if not stray or stray[-1].key != key or not key:
                stray.append(Block(key, error=found))
            continue
        else:
            if last is not None:
                yield last
            block = last = Block(key)
            for each in stray:
                if each.key == key:
                    _spoil(block, each)
                else:
                    yield each
            stray = []
            if key in seen:
                block.spoil(
                    FormatError("the utterance goes on after another one; sort the file", path, key=key, line=line)
                )
            seen.add(key)
        if isinstance(found, FormatError):
            block.spoil(found)
        else:
            block.found.append(found)
    if last is not None:
        yield last
    yield from stray


def _spoil(block: Block[T], stray: Block[T]) -> None:
    """Let a bad line be that of an utterance."""
    assert stray.error is not None
    stray.error.key = block.key
    block.spoil(stray.error)
