"""Lattices of a command's sources, whose words are counted and judged file by file."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ninja.cli.source import Source
from ninja.lattice import Lattice
from ninja.rescoring.vocabulary import VocabularyCheck


def checked(check: VocabularyCheck) -> Callable[[Source], Iterator[tuple[str, Lattice]]]:
    """Return the function that reads a source, or one of its files, and checks the words of its lattices."""

    def read(source: Source) -> Iterator[tuple[str, Lattice]]:
        yield from check(source.lattices(), lambda: source.file)
        if not source.is_part:
            check.close()

    return read
