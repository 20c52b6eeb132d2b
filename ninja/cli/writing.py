"""Lattices on their way to a file of any format."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ninja.cli.reading import Reading, words_beside
from ninja.errors import LatticeError, NinjaError, OptionError
from ninja.lattice import Kind, Lattice

if TYPE_CHECKING:
    from collections import Counter

    from ninja.formats.output import Output
    from ninja.symbols import SymbolTable

ALL_PATHS = 100_000  # of a lattice, where all are wanted; more are refused


class Taking:
    """An output that takes lattices, and makes of them what its format holds.

    Args:
        output: Opened for writing.
        reading: The run whose failures a lattice that cannot be written joins.
        names_go: Nothing will say what the ids of words mean, unless the user has a table of them.
    """

    def __init__(self, output: Output, reading: Reading, *, names_go: bool) -> None:
        self.words: SymbolTable | None = None  # of the last lattice that was written
        self._output = output
        self._reading = reading
        self._names_go = names_go

    @property
    def keys_done(self) -> Counter[str]:
        """How often keys stand in the output already."""
        return self._output.keys_done

    @property
    def needs_words(self) -> bool:
        """Whether the names of words live outside the file."""
        return self._output.needs_words

    @property
    def lost(self) -> Counter[str]:
        """What was lost, and of how many lattices."""
        return self._output.lost

    def take(self, lattice: Lattice) -> bool:
        """Write a lattice; tell whether that was possible."""
        if self._names_go and lattice.words is not None:
            raise OptionError(
                "the words' ids would lose their names on the standard output; give --words, --words-out FILE, or --to "
                "a format that spells words"
            )
        try:
            self._output.write(self._made(lattice), key=lattice.key)
        except NinjaError as error:
            if error.key is None or self._reading.on_error == "raise":  # without a key it is the end of the output
                raise
            self._reading.counts.lattices -= 1
            self._reading.failed(error)
            return False
        self.words = lattice.words
        return True

    def _made(self, lattice: Lattice) -> Any:
        wants = self._output.wants
        if wants.kind == "nbest":
            from ninja.graph import lattice_nbest

            found = lattice_nbest(
                lattice, wants.n or ALL_PATHS + 1, wants.acoustic_scale, wants.lm_scale, wants.word_penalty
            )
            if not wants.n and len(found.hypotheses) > ALL_PATHS:
                raise LatticeError(f"more than {ALL_PATHS} paths; say how many are wanted (n=…)", key=lattice.key)
            return found
        if wants.kind == "mesh":
            from ninja.cli.mbr_decode import DEFAULT_FRAME_SHIFT
            from ninja.consensus import confusion_network, mbr_decode, mesh_text

            decoded = mbr_decode(lattice, wants.acoustic_scale, wants.lm_scale)
            return mesh_text(confusion_network(decoded, lattice.frame_shift or DEFAULT_FRAME_SHIFT, lattice.words))
        return lattice


@contextmanager
def opened(target: str, reading: Reading, *, resume: bool, kind: Kind | None) -> Iterator[Taking]:
    """Open a file of the format that the user wants, in a ``with`` block.

    Raises:
        OptionError: The target makes no sense, or the words' ids would lose their names.
    """
    from ninja.formats import write
    from ninja.formats.sources import STDIN as STDOUT
    from ninja.formats.targets import KALDI, format_of
    from ninja.formats.targets import target as understood

    options = reading.output
    if format_of(target, options.to)[0] not in KALDI:
        kind = None
    output = write(target, resume=resume, kind=kind, to=options.to, lossy=options.lossy)
    unnamed = output.needs_words and reading.words is None and options.words_out is None
    with output:
        yield Taking(output, reading, names_go=unnamed and understood(target).archive == STDOUT)


def place_of_words(reading: Reading, target: str) -> str | None:
    """Return where the symbol table goes: as ``--words-out`` says; one of the sources' own words beside the archive."""
    from ninja.formats.targets import target as understood

    archive = understood(target).archive
    if reading.output.words_out is not None or reading.words is not None or archive == os.devnull:
        return reading.output.words_out
    return os.path.join(archive, "words.txt") if os.path.isdir(archive) else words_beside(archive)


def write_words(table: SymbolTable, path: str) -> None:
    """Write a symbol table as Kaldi's ``words.txt``."""
    from ninja.formats.files import opened_as_text

    with opened_as_text(path) as file:
        file.writelines(f"{word} {number}\n" for word, number in table)
