"""Outputs of a pipeline: lattices in one file or in one per input file, or lines of text."""

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

from ninja.errors import NinjaError, OptionError, OutputError, SymbolError, counted
from ninja.files.output import Facts, is_specifier, part_of, target
from ninja.files.stream import STDIN as STDOUT
from ninja.files.stream import Guard, is_read_once, is_remote
from ninja.formats.format import HEAD, Format, by_extension, detect, reader
from ninja.io.companions import ChosenScales, write_table
from ninja.io.inputs import Inputs, State, state_of, states_of
from ninja.io.lattice_writer import LatticeWriter
from ninja.io.sources import SourceFile
from ninja.io.writer import KALDI, OutputFormat, format_of, write
from ninja.lattice import Kind, Lattice, Scales
from ninja.lattice.batch import Batch
from ninja.lattice.lattice import ListLattice, as_list_of
from ninja.libraries import VERSION

LINES = ".jsonl"
_JOB = re.compile(r"(?<![A-Za-z0-9])JOB(?![A-Za-z0-9])")
_NUMBER = r"(?<![A-Za-z0-9])[0-9]+(?![A-Za-z0-9])"


@dataclass(frozen=True, slots=True)
class Output:
    """An output for lattices; most fields are arguments of ``ninja.write``.

    The name is that of a file. To write one output per input file, it is that of a folder, or a file name that contains
    ``JOB`` instead of a number.
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
        has_originals: Input files are copied, except for the words that lattices replace.
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

    def note_source(self, lattice: Lattice) -> None:
        """Remember an input lattice if its result must be written where the lattice was in the input file."""
        if self.needs_origins and isinstance(lattice, ListLattice) and self._has_origin(lattice):
            self._sources[lattice.key] = None if lattice.key in self._sources else lattice

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
        """Write a batch, and return the lattices that could be written.

        Args:
            prepared: Return value of ``prepared(batch)``, or None to write the lattices one by one.
        """
        if prepared is not None and self._writer.write_all(batch, prepared):
            return batch
        failed = {index for index, lattice in enumerate(batch) if not self.take(lattice)}
        return batch.without(failed) if failed else batch


@contextmanager
def open_output(output: Output, inputs: Inputs) -> Iterator[LatticeSink]:
    """Open one output in a ``with`` block; on a terminal, lattices are written as text.

    When the output is complete, notes about fields that could not be written are added to the log.

    Raises:
        OptionError: The name is invalid, or stands for several outputs.
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
            yield LatticeSink(writer, inputs, has_originals=bool(originals))
    except BaseException as error:
        if writer.kept and not isinstance(error, OptionError):
            saved = counted(writer.kept, "lattice was", "lattices were")
            log.note(f"{saved} saved; run the same command with --resume to continue")
        raise
    if output.words_out is not None and writer.words_path is None and (table := inputs.table()) is not None:
        write_table(table, output.words_out, output.guard)
        writer.words_path = output.words_out
    for note in writer.notes():
        log.note(note)
    log.lists_repeated |= writer.repeated


def as_it_came(output: Output, inputs: Inputs) -> Output:
    """Return an output whose format is that of the inputs, if they are recogniser results with the output's extension.

    Such formats keep all fields of the input files. A format that the user selects takes precedence. Files that contain
    a single JSON document are not joined into one output.
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


def outputs_of(output: Output, inputs: Inputs) -> list[tuple[Output, Inputs]]:
    """Return pairs of output and inputs: one per input file, or a single one if the output is one file.

    ``JOB`` in the name of the output is replaced by the number in the name of each input. Outputs in a folder have the
    names of the inputs, and also their formats unless the output has a format.

    Raises:
        OptionError: An input has no number or no name, two inputs have the same output, the folder does not exist, an
            output is also an input, or the format of an input cannot be written.
    """
    if not output.is_per_file:
        return [(output, inputs)]
    pattern = output.name
    by_job = names_job(pattern)
    paths: dict[str, str] = {}  # output → input
    pairs: list[tuple[Output, Inputs]] = []
    for name, file, shape in _input_files(inputs):
        path, to = file.path, output.to
        if by_job:
            output_path = _with_number(pattern, path, shape)
        else:
            base, to = _with_extension(file, output)
            output_path = os.path.join(pattern, base)
        if output_path in paths:
            inputs_of = f"{paths[output_path]} and {path}"
            raise OptionError(f"{output_path}: {inputs_of} would both be written to this file; process them separately")
        paths[output_path] = path
        pairs.append((replace(output, name=output_path, to=to), inputs.part(name, file)))
    folder = os.path.dirname(target(pattern).archive) if by_job else pattern
    if by_job and not os.path.isdir(folder or ".") and not is_remote(pattern):
        raise OptionError(f"{pattern}: the folder {folder} does not exist; create it first")
    for output_path in paths:
        files = target(output_path)
        for path in (files.archive, part_of(files.archive), *([files.script] if files.script else [])):
            if output.guard is not None:
                output.guard.write(path)
    return pairs


@contextmanager
def output_folder(output: Output) -> Iterator[None]:
    """Create the folder of several outputs for a ``with`` block, and remove it afterwards if it is empty.

    Raises:
        OutputError: The folder cannot be created.
    """
    folder = output.name
    if not output.is_per_file or names_job(folder) or os.path.isdir(folder) or is_remote(folder):
        yield
        return
    try:
        os.makedirs(folder)
    except OSError as error:
        raise OutputError(f"cannot be created: {error.strerror or error}", folder) from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def _input_files(inputs: Inputs) -> Iterator[tuple[str, SourceFile, re.Pattern[str]]]:
    """Yield each input file with the name of its source, and a pattern that matches the number in its name."""
    for name in inputs.places:
        before, job, after = os.path.basename(name).partition("JOB")
        shape = re.compile(f"(?<=^{re.escape(before)})[0-9]+(?={re.escape(after)}$)" if job else _NUMBER)
        sources = inputs.sources.of(name)
        for file in sources:
            if file.is_pipe:
                raise OptionError(f"{file.name} has no file name to use for an output; name a single file with -o")
            if file.kind == "folder":
                members = file.lattice_files
            elif file.kind == "list":
                members = _listed_files(file, inputs)
            else:
                yield name if len(sources) == 1 else file.path, file, shape
                continue
            yield from ((member.path, member, shape) for member in members)


def _listed_files(parent: SourceFile, inputs: Inputs) -> list[SourceFile]:
    """Return the files that a list names; add those that cannot be read to the failures of the run."""
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
    """Replace ``JOB`` in the name of an output by the number of an input."""
    numbers = shape.findall(os.path.basename(path))
    if not numbers:
        raise OptionError(f"{path} has no number that could replace JOB in {pattern}; name a folder with -o instead")
    return pattern.replace("JOB", numbers[-1])


def _with_extension(file: SourceFile, output: Output) -> tuple[str, str | None]:
    """Return the name and the format of an output in a folder.

    The name is that of the input, with the extension of the output format.
    """
    path = file.path
    name = os.path.basename(path)
    formats = by_extension(name)
    form, to = output.resolved.format, output.to
    if to is None and (input_format := format_of_file(file)) is not None and input_format.name not in KALDI:
        if input_format.write is not None and (input_format.write.as_it_came or input_format.write.restores):
            return name, input_format.name
        if input_format.write is None or input_format.write.files == "named":
            raise OptionError(f"{path}: {input_format.name} cannot be written to one file per input; use --to")
        form, to = input_format, input_format.name
    if not form.extensions or form in formats or (form.name in KALDI and not formats and not name.endswith(".scp")):
        return name, to
    stem = name.removesuffix(".gz").removesuffix(".scp")
    ending = next((end for candidate in formats for end in candidate.extensions if stem.lower().endswith(end)), "")
    return stem[: len(stem) - len(ending)] + form.extensions[0], to


def format_of_file(file: SourceFile) -> Format | None:
    """Return the format of an input, detected from its content; None if it is unknown or cannot be read."""
    try:
        return detect(file.inspect().head(HEAD), file.path)
    except NinjaError:
        return None
