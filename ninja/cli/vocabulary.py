"""Lattices of a command's sources, whose words are counted and judged file by file."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ninja.io.inputs import Inputs
from ninja.lattice import Lattice
from ninja.rescoring.vocabulary import VocabularyCheck


def checked(check: VocabularyCheck) -> Callable[[Inputs], Iterator[tuple[str, Lattice]]]:
    """Return the function that reads a source, or one of its files, and checks the words of its lattices."""

    def read(inputs: Inputs) -> Iterator[tuple[str, Lattice]]:
        yield from check(inputs.lattices(), lambda: inputs.file)
        if not inputs.is_part:
            check.close()

    return read
