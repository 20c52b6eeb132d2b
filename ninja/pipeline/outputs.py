"""Outputs of a pipeline: lattices in one file or in one for each input, or lines of text."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from ninja.errors import NinjaError, OptionError, OutputError, SymbolError
from ninja.files.output import Guard, part_of
from ninja.files.place import STDIN as STDOUT
from ninja.files.place import is_read_once, is_remote, is_specifier, target
from ninja.formats.format import HEAD, Format, by_extension, detect, reader
from ninja.io.inputs import Inputs
from ninja.io.lattice_writer import LatticeWriter
from ninja.io.resume import Facts, State, state_of, states_of
from ninja.io.scales import ChosenScales
from ninja.io.sources import SourceFile
from ninja.io.symbol_tables import write_table
from ninja.io.writer import KALDI, OutputFormat, format_of, write
from ninja.lattice import Kind, Lattice, Scales
from ninja.lattice.batch import Batch
from ninja.lattice.lattice import ListLattice, as_list_of
from ninja.libraries import VERSION

LINES = ".jsonl"
_JOB = re.compile(r"(?<![A-Za-z0-9])JOB(?![A-Za-z0-9])")
_NUMBER = re.compile(r"(?<![A-Za-z0-9])[0-9]+(?![A-Za-z0-9])")


@dataclass(frozen=True, slots=True)
class Output:
    """An output for lattices, by the arguments of ``ninja.write``.

    The name is that of one file or, for a separate output of each input file, that of a folder, or one with ``JOB`` in
    place of a number.
    """

    name: str
    to: str | None = None  # format with its options  [default: by the extension]
    lossy: Literal["allow", "refuse"] = "allow"
    words_out: str | None = None  # file for the symbol table
    resume: bool = False  # continue the output of an attempt that was interrupted
    kind: Kind | None = None  # of lattices in Kaldi archives  [default: that of each lattice]
    scales: Scales | None = None  # by which paths were compared
    chosen: ChosenScales | None = None  # scales chosen for the lattices, written to a file beside them
    keeps_scales: bool = True  # if none are chosen, those beside the inputs are written beside the output, too
    settings: Mapping[str, object] | None = None  # options the results depend on; `resume` continues equal ones only
    command: str = "ninja.pipeline.run"  # whose options these are
    other_states: tuple[State, ...] = ()  # of other lattices the results depend on
    guard: Guard | None = None  # inputs that must not be replaced
    form: OutputFormat | None = None  # name and format, resolved when the object is made

    def __post_init__(self) -> None:
        """Resolve the format.

        Raises:
            OptionError: The name is invalid, or there is no such format.
        """
        if self.form is None or (self.form.name, self.form.to) != (self.name, self.to):
            object.__setattr__(self, "form", format_of(self.name, self.to))

    def with_settings(self, settings: Mapping[str, object], states: Sequence[State]) -> Output:
        """Return the output with the options that the results depend on, and the states of other lattices."""
        return replace(self, settings=settings, other_states=tuple(states))

    @property
    def resolved(self) -> OutputFormat:
        """The place and format of the output."""
        assert self.form is not None
        return self.form

    @property
    def is_stdout(self) -> bool:
        """Whether the lattices go to the standard output."""
        return self.name == STDOUT

    @property
    def is_per_file(self) -> bool:
        """Whether each input file has a separate output."""
        if names_job(self.name):
            return True
        write = self.resolved.format.write
        assert write is not None
        is_folder = not is_specifier(self.name) and (self.name.endswith(os.sep) or os.path.isdir(self.name))
        return is_folder and write.files not in ("each", "named")  # these have a file for each lattice, or named files


def names_job(name: str) -> bool:
    """Tell whether the name of a file has ``JOB`` in the place of a number, as in Kaldi's scripts."""
    return _JOB.search(os.path.basename(name)) is not None


@dataclass(frozen=True, slots=True)
class TextOutput:
    """A text file for the lines of each lattice; ``-`` is the standard output."""

    name: str

    @property
    def is_stdout(self) -> bool:
        """Whether the lines go to the standard output."""
        return self.name == STDOUT


class LatticeSink:
    """An open output; a lattice that cannot be written joins the run's failures."""

    def __init__(self, writer: LatticeWriter, inputs: Inputs, *, has_originals: bool = False) -> None:
        self.has_originals = has_originals  # files that are copied where no lattice replaces their words
        self.prepared = writer.prepared
        self._writer = writer
        self._inputs = inputs
        assert writer.format.write is not None
        self._format = writer.format.name
        self.needs_origins = writer.format.write.as_it_came or writer.format.write.restores
        self._sources: dict[str, ListLattice | None] = {}  # by key; None if a key occurs more than once

    def note_source(self, lattice: Lattice) -> None:
        """Note where a lattice comes from, as its result may lack this and is written to that place."""
        if self.needs_origins and isinstance(lattice, ListLattice) and self._has_place(lattice):
            self._sources[lattice.key] = None if lattice.key in self._sources else lattice

    def _has_place(self, lattice: ListLattice) -> bool:
        """Return whether a lattice comes from a file of the format of the output."""
        origin = None if lattice.record is None else lattice.record.origin
        return origin is not None and origin.document is not None and origin.document.format == self._format

    @property
    def keys_done(self) -> Counter[str]:
        """Counts of keys that are in the output already."""
        return self._writer.keys_done

    def take(self, lattice: Lattice) -> bool:
        """Write a lattice; return False if it cannot be written."""
        if self.needs_origins and (source := self._sources.pop(lattice.key, None)) is not None:
            lattice = as_list_of(source, lattice)
        try:
            self._writer.write(lattice)
        except NinjaError as error:
            inputs = self._inputs
            if inputs.table_error is not None and isinstance(error, SymbolError) and lattice.words is None:
                raise inputs.table_error from error
            if error.key is None:  # the whole output fails
                raise
            inputs.log.fail(error)
            return False
        return True

    def take_all(self, batch: Batch, prepared: Any) -> Batch:
        """Write a batch, as the writer prepared it; return the lattices that could be written."""
        if prepared is not None and self._writer.write_all(batch, prepared):
            return batch
        failed = {place for place, lattice in enumerate(batch) if not self.take(lattice)}
        return batch.without(failed) if failed else batch


@contextmanager
def open_output(output: Output, inputs: Inputs) -> Iterator[LatticeSink]:
    """Open one output in a ``with`` block, as text on a terminal; losses are noted when the output is complete.

    Raises:
        OptionError: The name makes no sense, or is that of several outputs.
    """
    if output.is_per_file:
        raise OptionError(f"{output.name}: this command has one output; name a file")
    log = inputs.log
    output = as_it_came(output, inputs)
    if output.is_stdout and sys.stdout.isatty() and output.to is None:
        output = replace(output, name="ark,t:-")
    is_kaldi = output.resolved.is_kaldi
    write_format = output.resolved.format.write
    assert write_format is not None
    has_facts = is_kaldi and inputs.tables is None and not is_read_once(output.name)
    only = output.resolved.format if write_format.restores else None  # lists of other formats are written, too
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
            yield LatticeSink(writer, inputs, has_originals=bool(originals))
    except BaseException as error:
        if writer.kept and not isinstance(error, OptionError):
            number = "1 lattice is" if writer.kept == 1 else f"{writer.kept} lattices are"
            log.note(f"{number} kept; the same command with --resume continues from there")
        raise
    if output.words_out is not None and writer.words_path is None and (table := inputs.table()) is not None:
        write_table(table, output.words_out, output.guard)
        writer.words_path = output.words_out
    for note in writer.notes():
        log.note(note)
    log.lists_repeated |= writer.repeated


def as_it_came(output: Output, inputs: Inputs) -> Output:
    """Return an output in the format of its inputs, if this is only written as it came and has the output's extension.

    The user's choice of a format takes precedence. Files that are read as a whole cannot be joined in one output.
    """
    if output.to is not None or output.is_stdout or output.is_per_file:
        return output
    form = output.resolved.format
    is_unmarked = form.mark is None and not output.resolved.is_kaldi  # files of another format may have the extension
    if not (is_unmarked or LINES in form.extensions) or not (files := _plain_files(inputs)):
        return output
    from ninja.formats.nbest.json_lists import no_document

    try:
        format = reader(inputs.format).format if inputs.format is not None else _format_of(files[0])
        head = files[0].inspect().head(HEAD)
        lines = head[: head.rfind(b"\n") + 1] if len(head) == HEAD else head
        has_lines = no_document(lines, encoding=inputs.encoding) is not None
    except NinjaError:  # reading reports it
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
    """Return the files of the inputs; those of folders and lists, too."""
    files: list[SourceFile] = []
    for file in inputs.sources.resolvable_files:
        if file.kind == "folder":
            files += file.lattice_files
        else:
            files += file.members if file.kind in ("list", "scp") else [file]
    return files


def _paths(inputs: Inputs, format: Format | None = None) -> tuple[str, ...]:
    """Return the paths of the files of the inputs, or of their share in a run, that can be read again.

    Args:
        format: Only files of this format.  [default: all]
    """
    if inputs.tables is not None and format is None:
        return tuple(table.place.path for table in inputs.tables)
    files = [file for file in _plain_files(inputs) if not file.is_pipe]
    if format is not None:
        by_user = None if inputs.format is None else reader(inputs.format).format
        files = [file for file in files if (by_user or _format_of(file)) is format]
    paths = tuple(file.path for file in files)
    if inputs.tables is None:
        return paths
    return tuple(table.place.path for table in inputs.tables if table.place.path in paths)


def _facts(output: Output, inputs: Inputs) -> Facts | None:
    """Return the facts of a run, which a resumed run must share.

    Raises:
        OptionError: The run is to be resumed, but its settings are unknown.
    """
    if output.settings is None:
        if output.resume:
            advice = 'such as Output(..., resume=True, settings={"beam": 6.0})'
            raise OptionError(f"resume needs the settings of the run, which tell it from others, {advice}")
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
    except NinjaError:  # a pipe, or a source that reading it reports
        states = [(name, -1, -1) for name in inputs.places]
    sources = [list(state) for state in (*output.other_states, *states)]
    return {"version": VERSION, "command": output.command, "options": options, "sources": sources}


def _scales_of(inputs: Inputs) -> ChosenScales | None:
    """Return the scales beside the inputs, or None after a note that says why there are none."""
    try:
        return inputs.scales
    except OptionError as error:
        inputs.log.note(f"{error.message.split(';')[0]}: no scales are written beside the output")
        return None


def outputs_of(output: Output, inputs: Inputs) -> list[tuple[Output, Inputs]]:
    """Return each input file with its output, or the inputs and the output if that is one file.

    ``JOB`` in the name of the output is replaced by the number in the name of each input. In a folder, outputs have
    the names of the inputs, and their format unless the output has another.

    Raises:
        OptionError: An input has no number or no name, two inputs have the same output, the folder does not exist, an
            output is an input, or the format of the files of a folder cannot be written.
    """
    if not output.is_per_file:
        return [(output, inputs)]
    pattern = output.name
    by_job = names_job(pattern)
    paths: dict[str, str] = {}  # the input of each output
    pairs: list[tuple[Output, Inputs]] = []
    for name, file, shape in _input_files(inputs):
        path, to = file.path, output.to
        if by_job:
            place = _with_number(pattern, path, shape)
        else:
            base, to = _with_extension(file, output)
            place = os.path.join(pattern, base)
        if place in paths:
            raise OptionError(f"{place}: {paths[place]} and {path} would both go there; name an output for each")
        paths[place] = path
        pairs.append((replace(output, name=place, to=to), inputs.part(name, file)))
    folder = os.path.dirname(target(pattern).archive) if by_job else pattern
    if by_job and not os.path.isdir(folder or ".") and not is_remote(pattern):
        raise OptionError(f"{pattern}: there is no folder {folder}; create it first")
    for place in paths:
        chosen = target(place)
        for path in (chosen.archive, part_of(chosen.archive), *([chosen.script] if chosen.script else [])):
            if output.guard is not None:
                output.guard.write(path)
    return pairs


@contextmanager
def output_folder(output: Output) -> Iterator[None]:
    """Make the folder of several outputs for a ``with`` block; an empty folder is removed afterwards.

    Raises:
        OutputError: It cannot be made.
    """
    folder = output.name
    if not output.is_per_file or names_job(folder) or os.path.isdir(folder) or is_remote(folder):
        yield
        return
    try:
        os.makedirs(folder)
    except OSError as error:
        raise OutputError(f"cannot be made: {error.strerror or error}", folder) from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def _input_files(inputs: Inputs) -> Iterator[tuple[str, SourceFile, re.Pattern[str]]]:
    """Yield the name and each file of the inputs, and the pattern of a number in its name."""
    for name in inputs.places:
        before, job, behind = os.path.basename(name).partition("JOB")
        shape = re.compile(f"(?<=^{re.escape(before)})[0-9]+(?={re.escape(behind)}$)") if job else _NUMBER
        sources = inputs.sources.of(name)
        for file in sources:
            if file.is_pipe:
                raise OptionError(f"{file.name} has no name for its output; name a file with -o")
            if file.kind == "folder":
                members = file.lattice_files
            elif file.kind == "list":
                members = _listed_files(file, inputs)
            else:
                yield name if len(sources) == 1 else file.path, file, shape
                continue
            yield from ((member.path, member, shape) for member in members)


def _listed_files(parent: SourceFile, inputs: Inputs) -> list[SourceFile]:
    """Return the files that a list names; those that cannot be read are failures of the run."""
    files, failures = parent.listed
    readable = []
    for file in files:
        try:
            file.inspect()
        except NinjaError as error:
            failures.append(error)
        else:
            readable.append(file)
    for failure in failures:
        inputs.log.fail(failure)
    return readable


def _with_number(pattern: str, path: str, shape: re.Pattern[str]) -> str:
    """Put the number of an input in the name of its output."""
    numbers = shape.findall(os.path.basename(path))
    if not numbers:
        raise OptionError(f"{path} has no number for JOB in {pattern}; name a folder with -o, for outputs of its name")
    return pattern.replace("JOB", numbers[-1])


def _with_extension(file: SourceFile, output: Output) -> tuple[str, str | None]:
    """Return the name of an output in a folder, its input's with the extension of its format, and the format."""
    path = file.path
    name = os.path.basename(path)
    known = by_extension(name)
    form, to = output.resolved.format, output.to
    if to is None and (kept := _format_of(file)) is not None and kept.name not in KALDI:
        if kept.write is not None and (kept.write.as_it_came or kept.write.restores):
            return name, kept.name
        if kept.write is None or kept.write.files == "named":
            raise OptionError(f"{path}: {kept.name} is not written so; say with --to which format {output.name} gets")
        form, to = kept, kept.name
    if form in known or (form.name in KALDI and not known and not name.endswith(".scp")):
        return name, to
    stem = name.removesuffix(".gz").removesuffix(".scp")
    ending = next((end for candidate in known for end in candidate.extensions if stem.lower().endswith(end)), "")
    return stem[: len(stem) - len(ending)] + form.extensions[0], to


def _format_of(file: SourceFile) -> Format | None:
    """Return the format of an input by its content; None if it is unknown, or the input cannot be read."""
    try:
        return detect(file.inspect().head(HEAD), file.path)
    except NinjaError:
        return None
