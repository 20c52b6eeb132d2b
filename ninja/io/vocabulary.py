"""Functions that read the keys or the words in sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ninja.errors import NinjaError
from ninja.io.reader import read, words_in
from ninja.io.sources import Source, Sources
from ninja.lattice.symbols import SymbolTable


def keys(
    source: Source, *, on_error: Callable[[NinjaError], None] | None = None, allow_pipes: bool = False
) -> Iterator[str]:
    """Yield the keys in one or more sources; for arguments and errors, see ``read``."""
    return (key for key, _ in read(source, on_error=on_error, allow_pipes=allow_pipes))


def vocabulary(
    source: Source, *, format: str | None = None, encoding: str = "utf-8", allow_pipes: bool = False
) -> SymbolTable | None:
    """Return a symbol table of the words in files that contain no word ids, in order of first occurrence.

    All files are read completely, so use this only if all words must be known before the first lattice is processed.
    Lattices with errors are skipped. For arguments and other errors, see ``read``.

    Returns:
        The table, or None if no file contains words as text.
    """
    return words_in(Sources(source, allow_pipes=allow_pipes), format, encoding)
