"""Outputs of commands that write lattices."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from ninja.cli.facts import run_facts
from ninja.cli.options import Destination
from ninja.cli.parts import is_parted
from ninja.cli.source import Source
from ninja.errors import NinjaError, OptionError, SymbolError
from ninja.files.place import STDIN as STDOUT
from ninja.files.stream import gives_bytes_once
from ninja.io import writer as files
from ninja.io.lattice_writer import LatticeWriter
from ninja.io.scales_beside import ChosenScales, find_scales
from ninja.io.symbol_tables import write_table
from ninja.io.writer import KALDI, format_of, spells_words
from ninja.lattice import Kind, Lattice, Scales
from ninja.lattice.batch import Batch

SCALED = ("scale", "combine", "add-penalty")  # commands that write costs with their scales in them


class LatticeOutput:
    """An output of a command, in which a lattice that cannot be written joins the run's failures.

    Args:
        source: Its console counts lattices that cannot be written.
        is_stdout: Whether it is the standard output.
    """

    def __init__(self, writer: LatticeWriter, source: Source, *, is_stdout: bool) -> None:
        self.is_stdout = is_stdout
        self.prepared = writer.prepared
        self._writer = writer
        self._source = source

    @property
    def keys_done(self) -> Counter[str]:
        """Counts of keys that are in the output already."""
        return self._writer.keys_done

    def take(self, lattice: Lattice) -> bool:
        """Write a lattice; return False if it cannot be written."""
        try:
            self._writer.write(lattice)
        except NinjaError as error:
            if self._source.unnamed is not None and isinstance(error, SymbolError) and lattice.words is None:
                raise self._source.unnamed from error
            if error.key is None or self._source.on_error == "raise":  # without a key it is the end of the output
                raise
            self._source.console.log.fail(error)
            return False
        return True

    def take_all(self, batch: Batch, prepared: Any) -> Batch:
        """Write a batch, as the writer prepared it; return the lattices that could be written."""
        if prepared is not None and self._writer.write_all(batch, prepared):
            return batch
        failed = {place for place, lattice in enumerate(batch) if not self.take(lattice)}
        return batch.without(failed) if failed else batch


@contextmanager
def open_output(destination: Destination, source: Source, *, kind: Kind | None = None) -> Iterator[LatticeOutput]:
    """Open an output in a ``with`` block; a terminal gets text. A warning of losses follows once it is complete.

    Raises:
        OptionError: The target makes no sense, or names several outputs.
    """
    if is_parted(destination):
        raise OptionError(f"{destination.output_file}: this command has one output; name a file")
    name, words_out = destination.output_file, destination.words_out
    if name == STDOUT and sys.stdout.isatty() and destination.to is None:
        name = "ark,t:-"
    chosen = destination.chosen or _chosen(source)
    is_kaldi = format_of(name, destination.to)[0].name in KALDI
    writer = files.write(
        name,
        resume=destination.resume,
        kind=kind if is_kaldi else None,
        to=destination.to,
        lossy=destination.lossy,
        words_out=words_out,
        scales=_scales(),
        chosen=chosen,
        run=run_facts(source.places) if is_kaldi and source.shard is None and not gives_bytes_once(name) else None,
    )
    source.spelled_output = source.spelled_output or (lambda: spells_words(name, destination.to))
    try:
        with writer:
            if writer.resumed is not None:
                source.console.say(writer.resumed)
            yield LatticeOutput(writer, source, is_stdout=destination.output_file == STDOUT)
    except BaseException as error:
        if writer.kept and not isinstance(error, OptionError):
            number = "1 lattice is" if writer.kept == 1 else f"{writer.kept} lattices are"
            source.console.say(f"{number} kept; the same command with --resume goes on from there")
        raise
    if words_out is not None and writer.words_path is None and (table := source.table()) is not None:
        write_table(table, words_out)
        writer.words_path = words_out
    for note in writer.notes():
        source.console.note(note)
    if writer.repeated:
        source.console.repeated.clear()  # that is said


def _chosen(source: Source) -> ChosenScales | None:
    """Return the scales beside the source, which go on with its lattices unless the command writes scaled costs."""
    context = click.get_current_context(silent=True)
    if context is None or context.command.name in SCALED:
        return None
    try:
        return find_scales(source.places, allow_pipes=True)  # no command is run for it
    except OptionError as error:
        source.console.say(f"{error.message.split(';')[0]}: no scales are written beside the output")
        return None


def _scales() -> Scales | None:
    """Return the scales by which the running command compares paths, if it does."""
    context = click.get_current_context(silent=True)
    if context is None or context.command.name in SCALED or context.params.get("acoustic_scale") is None:
        return None
    given = context.params
    return Scales(given["acoustic_scale"], given.get("lm_scale", 1.0), given.get("word_penalty", 0.0))
