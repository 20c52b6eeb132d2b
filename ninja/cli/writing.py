"""Outputs of commands: where lattices go, by which scales their costs are joined, and what the user is told."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from ninja.cli.options import Destination, check_files
from ninja.cli.source import Source
from ninja.errors import NinjaError, OptionError, SymbolError
from ninja.lattice import Kind, Lattice, Scales

if TYPE_CHECKING:
    from ninja.io.lattice_writer import LatticeWriter

SCALED = ("scale", "combine")  # commands that write costs with their scales in them


class LatticeOutput:
    """An output of a command, in which a lattice that cannot be written joins the run's failures.

    Args:
        writer: The open output.
        source: Its console counts lattices that cannot be written.
        unnamed: Error of lattices whose words have no names, although the format spells them; None: the writer's own.
    """

    def __init__(self, writer: LatticeWriter, source: Source, unnamed: OptionError | None) -> None:
        self._writer = writer
        self._source = source
        self._unnamed = unnamed

    @property
    def keys_done(self) -> Counter[str]:
        """How often keys stand in the output already."""
        return self._writer.keys_done

    def take(self, lattice: Lattice) -> bool:
        """Write a lattice; tell whether that was possible."""
        try:
            self._writer.write(lattice)
        except NinjaError as error:
            if self._unnamed is not None and isinstance(error, SymbolError) and lattice.words is None:
                raise self._unnamed from error
            if error.key is None or self._source.on_error == "raise":  # without a key it is the end of the output
                raise
            self._source.console.log.fail(error)
            return False
        return True


@contextmanager
def opened(destination: Destination, source: Source, *, kind: Kind | None = None) -> Iterator[LatticeOutput]:
    """Open an output in a ``with`` block; a terminal gets text. The user is told what is lost when it is complete.

    Raises:
        OptionError: The target makes no sense, or would be written over what is read.
    """
    from ninja.files.place import STDIN as STDOUT
    from ninja.io import write
    from ninja.io.symbol_tables import write_table
    from ninja.io.writer import KALDI, format_of

    target, words_out = destination.output_file, destination.words_out
    if target == STDOUT and sys.stdout.isatty() and destination.to is None:
        target = "ark,t:-"
    _check_places(target, words_out, source)
    is_kaldi = format_of(target, destination.to)[0].name in KALDI
    writer = write(
        target,
        resume=destination.resume,
        kind=kind if is_kaldi else None,
        to=destination.to,
        lossy=destination.lossy,
        words_out=words_out,
        scales=_scales(),
    )
    unnamed = find_names(source, destination)
    with writer:
        yield LatticeOutput(writer, source, unnamed)
    if words_out is not None and writer.words_path is None and (table := source.table()) is not None:
        write_table(table, words_out)
        writer.words_path = words_out
    for note in writer.notes():
        source.console.say(note)
    if writer.repeated:
        source.console.repeated.clear()  # that is said


def find_names(source: Source, destination: Destination) -> OptionError | None:
    """Look for a table of names for the sources' ids, where a format is written that spells words.

    Returns:
        The error if words turn out to have no names; None: a table was found, or none is needed.
    """
    from ninja.formats import options
    from ninja.io.symbol_tables import find_table
    from ninja.io.writer import format_of

    form, values = format_of(destination.output_file, destination.to)
    assert form.write is not None
    keeps = form.kept(options.fill(form.write.options, values, form.name))
    if "ids" in keeps or not source.are_lattices or source.table() is not None:
        return None
    try:
        source.words = find_table(source.places)
    except OptionError as error:
        return error
    source.console.say(f"words of {source.words}")
    return None


def _check_places(target: str, words_out: str | None, source: Source) -> None:
    """Refuse a script file or a symbol table that would be written over lattices.

    Raises:
        OptionError: Names the file.
    """
    from ninja.files.place import STDIN as STDOUT
    from ninja.files.target import target as understood

    chosen = understood(target)
    lattices = {os.path.realpath(each) for each in (chosen.archive, *source.places) if each != STDOUT}
    for name, what in ((chosen.script, "script file"), (words_out, "symbol table")):
        if name is not None and os.path.realpath(name) in lattices:
            raise OptionError(f"{name}: the {what} would be written over lattices; give it another name")
    if words_out is not None and chosen.script is not None:
        check_files([chosen.script, words_out])


def _scales() -> Scales | None:
    """Return the scales by which the running command compares paths, if it does."""
    context = click.get_current_context(silent=True)
    if context is None or context.command.name in SCALED or context.params.get("acoustic_scale") is None:
        return None
    given = context.params
    return Scales(given["acoustic_scale"], given.get("lm_scale", 1.0), given.get("word_penalty", 0.0))
