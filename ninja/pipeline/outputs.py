"""Outputs of a pipeline: lattices in files, or lines of text."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from ninja.errors import NinjaError, OptionError, SymbolError, counted
from ninja.files.output import Facts, is_specifier
from ninja.files.stream import STDIN as STDOUT
from ninja.files.stream import Guard, is_read_once
from ninja.formats.format import HEAD, Format, detect, reader
from ninja.io.companions import ChosenScales, write_table
from ninja.io.inputs import Inputs, State, state_of, states_of
from ninja.io.lattice_writer import LatticeWriter
from ninja.io.sources import SourceFile
from ninja.io.writer import OutputFormat, format_of, write
from ninja.lattice import Kind, Lattice, Scales
from ninja.lattice.batch import Batch
from ninja.lattice.lattice import ListLattice, as_list_of
from ninja.libraries import VERSION

LINES = ".jsonl"
_JOB = re.compile(r"(?<![A-Za-z0-9])JOB(?![A-Za-z0-9])")


@dataclass(frozen=True, slots=True)
class Output:
    """An output for lattices; most fields are arguments of ``ninja.write``.

    The name denotes a file. To write one output per input file, it denotes a folder, or contains ``JOB`` in place of a
    number.
    """

    name: str
    to: str | None = None  # format with its options; None selects it by the extension
    lossy: Literal["allow", "refuse"] = "allow"
    words_out: str | None = None  # file for the symbol table
    resume: bool = False  # continue the output of an interrupted run
    kind: Kind | None = None  # kind of lattices in Kaldi archives; None keeps the kind of each lattice
    scales: Scales | None = None  # scales with which paths were compared
    chosen: ChosenScales | None = None  # scales for the lattices, written to a scale file next to the output
    keeps_scales: bool = True  # if `chosen` is None, copy the scale file of the inputs
    settings: Mapping[str, object] | None = None  # options that affect the results; `resume` requires equal ones
    command: str = "ninja.pipeline.run"  # name of the command with these options
    other_states: tuple[State, ...] = ()  # states of other lattice files that affect the results
    guard: Guard | None = None  # protects the inputs from being replaced
    form: OutputFormat | None = None  # name and format, resolved by the constructor

    def __post_init__(self) -> None:
        """Resolve the format.

        Raises:
            OptionError: The name is invalid, or the format does not exist.
        """
        if self.form is None or (self.form.name, self.form.to) != (self.name, self.to):
            object.__setattr__(self, "form", format_of(self.name, self.to))

    def with_settings(self, settings: Mapping[str, object], states: Sequence[State]) -> Output:
        """Return a copy with the options on which the results depend, and the states of other lattice files."""
        return replace(self, settings=settings, other_states=tuple(states))

    @property
    def resolved(self) -> OutputFormat:
        """The name and format of the output."""
        assert self.form is not None
        return self.form

    @property
    def is_stdout(self) -> bool:
        """Whether the lattices are written to stdout."""
        return self.name == STDOUT

    @property
    def is_per_file(self) -> bool:
        """Whether each input file has a separate output."""
        if names_job(self.name):
            return True
        write = self.resolved.format.write
        assert write is not None
        is_folder = not is_specifier(self.name) and (self.name.endswith(os.sep) or os.path.isdir(self.name))
        return is_folder and write.files not in ("each", "named")  # these formats write several files to one folder


def names_job(name: str) -> bool:
    """Return whether a file name contains ``JOB`` instead of a number, as in Kaldi's scripts."""
    return _JOB.search(os.path.basename(name)) is not None


class TextOutput(NamedTuple):
    """A text file for the lines of each lattice; ``-`` is stdout."""

    name: str

    @property
    def is_stdout(self) -> bool:
        """Whether the lines are written to stdout."""
        return self.name == STDOUT


class LatticeSink:
    """An open output; lattices that cannot be written are added to the failures of the run.

    Args:
        writer: The writer of the output.
        inputs: Inputs of the run; their log gets the failures.
        has_originals: Whether the output is a copy of the input files, in which lattices replace only the words.
    """

    def __init__(self, writer: LatticeWriter, inputs: Inputs, *, has_originals: bool = False) -> None:
        self.has_originals = has_originals
        self.prepared = writer.prepared
        self.write_on_thread = writer.write_on_thread
        self._writer = writer
        self._inputs = inputs
        assert writer.format.write is not None
        self._format = writer.format.name
        self.needs_origins = writer.format.write.as_it_came or writer.format.write.restores
        self._sources: dict[str, ListLattice | None] = {}  # by key; None for a duplicate key
        self._timed: dict[str, bool] = {}  # key → whether the input lattice has times
        self._recorded: set[str] = set()  # keys of n-best lists with other fields
        self._num_untimed = 0  # lattices that lost their times
        self._num_unrecorded = 0  # n-best lists that lost their other fields

    def note_source(self, lattice: Lattice) -> None:
        """Record the fields of an input lattice that a stage may lose and, if necessary, its position in its file."""
        key = lattice.key
        self._timed[key] = lattice.time is not None or self._timed.get(key, False)
        if isinstance(lattice, ListLattice):
            if lattice.record and lattice.record.others:
                self._recorded.add(key)
            if self.needs_origins and self._has_origin(lattice):
                self._sources[key] = None if key in self._sources else lattice

    def notes(self) -> list[str]:
        """Return messages about the fields that the stage has lost."""
        notes = []
        if self._num_untimed:
            lattices = counted(self._num_untimed, "lattice")
            notes.append(f"times of {lattices} are not written, because states with different times were merged")
        if self._num_unrecorded and not self.needs_origins:
            lists = counted(self._num_unrecorded, "n-best list")
            notes.append(f"other fields of {lists} are not written, because paths changed")
        return notes

    def _note_result(self, lattice: Lattice) -> None:
        self._num_untimed += lattice.time is None and not lattice.ali.size and self._timed.get(lattice.key, False)
        self._num_unrecorded += lattice.key in self._recorded and not isinstance(lattice, ListLattice)

    def _has_origin(self, lattice: ListLattice) -> bool:
        """Return whether a lattice comes from a file in the format of the output."""
        origin = None if lattice.record is None else lattice.record.origin
        return origin is not None and origin.document is not None and origin.document.format == self._format

    @property
    def keys_done(self) -> Counter[str]:
        """Number of lattices of each key that are already in the output."""
        return self._writer.keys_done

    def take(self, lattice: Lattice) -> bool:
        """Write a lattice, and return whether it could be written."""
        output_lattice = lattice
        if self.needs_origins and (source := self._sources.pop(lattice.key, None)) is not None:
            output_lattice = as_list_of(source, lattice)
        try:
            self._writer.write(output_lattice)
        except NinjaError as error:
            inputs = self._inputs
            if inputs.table_error is not None and isinstance(error, SymbolError) and lattice.words is None:
                raise inputs.table_error from error
            if error.key is None:  # the whole output fails
                raise
            inputs.log.fail(error)
            return False
        self._note_result(lattice)
        return True

    def take_all(self, batch: Batch, prepared: Any) -> Batch:
        """Write a batch, and return the lattices that could be written.

        Args:
            prepared: Return value of ``prepared(batch)``, or None to write the lattices one by one.
        """
        if prepared is not None and self._writer.write_all(batch, prepared):
            if not batch.is_plain:
                for lattice in batch:
                    self._note_result(lattice)
            return batch
        failed = {index for index, lattice in enumerate(batch) if not self.take(lattice)}
        return batch.without(failed) if failed else batch


@contextmanager
def open_output(output: Output, inputs: Inputs) -> Iterator[LatticeSink]:
    """Open one output in a ``with`` block; on a terminal, lattices are written as text.

    When the output is complete, notes about fields that could not be written are added to the log.

    Raises:
        OptionError: The name is invalid, or specifies several outputs.
    """
    if output.is_per_file:
        raise OptionError(f"{output.name}: the command writes a single output; name a file")
    log = inputs.log
    output = as_it_came(output, inputs)
    if output.is_stdout and sys.stdout.isatty() and output.to is None:
        output = replace(output, name="ark,t:-")
    is_kaldi = output.resolved.is_kaldi
    write_format = output.resolved.format.write
    assert write_format is not None
    has_facts = is_kaldi and inputs.tables is None and not is_read_once(output.name)
    only = output.resolved.format if write_format.restores else None  # formats that restore accept other inputs, too
    originals = _paths(inputs, only) if write_format.as_it_came else ()
    writer = write(
        output.resolved,
        resume=output.resume,
        kind=output.kind if is_kaldi else None,
        lossy=output.lossy,
        words_out=output.words_out,
        scales=output.scales,
        chosen=output.chosen or (_scales_of(inputs) if output.keeps_scales else None),
        run=_facts(output, inputs) if has_facts else None,
        guard=output.guard,
        originals=originals,
    )
    inputs.spells_words |= output.resolved.spells_words
    try:
        with writer:
            if writer.resumed is not None:
                log.note(writer.resumed)
            sink = LatticeSink(writer, inputs, has_originals=bool(originals))
            yield sink
    except BaseException as error:
        if writer.num_saved and not isinstance(error, OptionError):
            saved = counted(writer.num_saved, "lattice was", "lattices were")
            log.note(f"{saved} saved; run the same command with --resume to continue")
        raise
    if output.words_out is not None and writer.words_path is None and (table := inputs.table()) is not None:
        write_table(table, output.words_out, output.guard)
        writer.words_path = output.words_out
    for note in writer.notes():
        log.note(note)
    log.lists_repeated |= writer.repeated
    for note in sink.notes():
        log.note(note)


def as_it_came(output: Output, inputs: Inputs) -> Output:
    """Return an output in the format of the inputs, if these are recogniser results with the output's extension.

    Formats of recogniser results keep all fields of the input files. A format that the user selects takes precedence.
    Files that contain a single JSON document are not joined into one output.
    """
    if output.to is not None or output.is_stdout or output.is_per_file:
        return output
    form = output.resolved.format
    is_unmarked = form.mark is None and not output.resolved.is_kaldi  # other formats may use the same extension
    if not (is_unmarked or LINES in form.extensions) or not (files := _plain_files(inputs)):
        return output
    from ninja.formats.nbest.json_lists import no_document

    try:
        format = reader(inputs.format).format if inputs.format is not None else format_of_file(files[0])
        head = files[0].inspect().head(HEAD)
        lines = head[: head.rfind(b"\n") + 1] if len(head) == HEAD else head
        has_lines = no_document(lines, encoding=inputs.encoding) is not None
    except NinjaError:  # reported by the reader
        return output
    if format is None or format.write is None:
        return output
    name = output.resolved.target.archive.removesuffix(".gz").lower()
    source = files[0].path.removesuffix(".gz").lower()
    if is_unmarked:
        is_same = format.write.restores and os.path.splitext(name)[1] == os.path.splitext(source)[1]
        return replace(output, to=format.name) if is_same else output
    if not format.write.as_it_came or (len(files) > 1 and not has_lines):
        return output
    if not name.endswith(format.extensions) or (not has_lines and name.endswith(LINES) and not source.endswith(LINES)):
        return output
    return replace(output, to=format.name)


def _plain_files(inputs: Inputs) -> list[SourceFile]:
    """Return the files of the inputs, including those in folders and lists."""
    files: list[SourceFile] = []
    for file in inputs.sources.resolvable_files:
        if file.kind == "folder":
            files += file.lattice_files
        else:
            files += file.members if file.kind in ("list", "scp") else [file]
    return files


def _paths(inputs: Inputs, format: Format | None = None) -> tuple[str, ...]:
    """Return the paths of input files that can be read again; in a shard, of its files.

    Args:
        format: Return only files in this format; None returns all files.
    """
    if inputs.tables is not None and format is None:
        return tuple(table.place.path for table in inputs.tables)
    files = [file for file in _plain_files(inputs) if not file.is_pipe]
    if format is not None:
        by_user = None if inputs.format is None else reader(inputs.format).format
        files = [file for file in files if (by_user or format_of_file(file)) is format]
    paths = tuple(file.path for file in files)
    if inputs.tables is None:
        return paths
    return tuple(table.place.path for table in inputs.tables if table.place.path in paths)


def _facts(output: Output, inputs: Inputs) -> Facts | None:
    """Return the facts that a resumed run must have in common with the interrupted one.

    Raises:
        OptionError: The output is to be resumed, but has no settings.
    """
    if output.settings is None:
        if output.resume:
            example = 'Output(..., resume=True, settings={"beam": 6.0})'
            raise OptionError(f"resume requires the settings on which the results depend, such as {example}")
        return None
    options = {
        name: value if isinstance(value, bool | int | float | str | list) else repr(value)
        for name, value in output.settings.items()
    }
    if inputs.words is None:
        with contextlib.suppress(NinjaError):
            options["words"] = [list(state_of(inputs.find_table()))]
    with contextlib.suppress(NinjaError):
        if inputs.scales is not None:
            options["scales"] = repr(inputs.scales.values())
    try:
        states = states_of(inputs.sources, inputs.format)
    except NinjaError:  # a pipe, or a source for which the reader will report an error
        states = [(name, -1, -1) for name in inputs.places]
    sources = [list(state) for state in (*output.other_states, *states)]
    return {"version": VERSION, "command": output.command, "options": options, "sources": sources}


def _scales_of(inputs: Inputs) -> ChosenScales | None:
    """Return the scales from files next to the inputs; if the files differ, add a note and return None."""
    try:
        return inputs.scales
    except OptionError as error:
        inputs.log.note(f"{error.message.split(';')[0]}; no scale file is written for the output")
        return None


def format_of_file(file: SourceFile) -> Format | None:
    """Return the format of an input, detected from its content; None if it is unknown or cannot be read."""
    try:
        return detect(file.inspect().head(HEAD), file.path)
    except NinjaError:
        return None
