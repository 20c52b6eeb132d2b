"""Symbol tables that lie beside lattices."""

from __future__ import annotations

import filecmp
import os

from ninja.errors import OptionError

WORDS_NAMES = ("words.txt", "words.txt.gz")


def words_beside(archive: str) -> str:
    """Return where the symbol table of one archive alone lies: ``lat.ark.words.txt`` beside ``lat.ark``."""
    return f"{archive}.words.txt"


def find_words(source: tuple[str, ...]) -> str:
    """Return the symbol table that lies beside the lattices.

    Args:
        source: What the user named as the lattices, at least one; ``-`` has nothing beside it.

    Raises:
        OptionError: There is none, or several that differ.
    """
    found = list(dict.fromkeys(place for each in source if (place := _beside(each)) is not None))
    if not found:
        names = " or ".join(WORDS_NAMES)
        raise OptionError(f"{source[0]}: no {names} beside it; give the words' spelling with --words")
    for other in found[1:]:
        if not filecmp.cmp(found[0], other, shallow=False):
            raise OptionError(f"{found[0]} and {other}, beside the lattices, differ; say with --words which one it is")
    return found[0]


def _beside(source: str) -> str | None:
    """Return the symbol table that lies beside a source, if there is one."""
    from ninja.io.sources import SPECIFIER

    if source == "-":
        return None
    path = source if os.path.exists(source) or not SPECIFIER.fullmatch(source) else source.partition(":")[2]
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    names = [words_beside(path), *(os.path.join(folder, name) for name in WORDS_NAMES)]
    return next((name for name in names if os.path.isfile(name)), None)
