"""Inputs and outputs of a run, their options, and file states for detecting changed files."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

from ninja.errors import Log, NinjaError, OptionError
from ninja.files import remote
from ninja.files.names import resolve_listed
from ninja.files.output import Facts, is_specifier
from ninja.files.stream import STDIN, Guard, Place, Table, identity_of, is_remote, names_job
from ninja.formats.format import OutputFormat, by_name, format_of, of_folder, reader
from ninja.formats.kaldi.archive import KALDI, find_table
from ninja.io import detection
from ninja.io.lookup import Lookup
from ninja.io.reader import Reading, ReadOptions, Words, words_in
from ninja.io.sources import ChosenScales, SourceFile, Sources, find_scales
from ninja.lattice import Kind, Lattice, Scales
from ninja.lattice.batch import Batch, num_cores
from ninja.lattice.lattice import has_graph_costs
from ninja.lattice.symbols import SymbolTable
from ninja.libraries import VERSION

Name = str | os.PathLike[str]
State = tuple[str, int, int]  # path, size and modification time in ns; -1 and -1 if the file does not exist
Watch = Callable[[Reading], Iterator[tuple[str, Lattice]]]


@dataclass(eq=False)
class Inputs:
    """Sources of lattices with options for reading them; each name is resolved once, and each file is opened once.

    Args:
        names: A file, folder, pattern, file list, Kaldi rspecifier or ``-``, or several of these; see ``ninja.read``.
        words: Symbol table or its path. None uses the words that the sources contain as text. If the sources contain
            word ids and `needs_words` is set, None uses the table next to the sources.
        format: Format of the sources and its options; None detects the format from the content.
        encoding: Encoding of text in non-Kaldi formats.
        allow_pipes: Allow shell commands as sources, and run them.
        log: Log for notes and failures. If it has an ``on_error`` function, lattices with errors are skipped; otherwise
            the first error is raised.
        read_ahead: Read ahead of the caller in a thread.
        beside: Additional sources, whose words must be known before the first lattice is read.
        are_lattices: Whether the sources contain lattices, whose words can form a symbol table.
        needs_words: Whether the caller needs words even if the sources contain word ids.
        guard: Guard that registers each file that is read, to protect the file from being replaced by an output.
    """

    names: Name | Sequence[Name]
    words: SymbolTable | Name | None = None
    format: str | None = None
    encoding: str = "utf-8"
    allow_pipes: bool = False
    log: Log = field(default_factory=Log)
    read_ahead: bool = field(default_factory=lambda: num_cores() > 1)
    beside: tuple[str, ...] = ()
    are_lattices: bool = True
    needs_words: bool = False
    guard: Guard | None = None
    sources: Sources = None  # type: ignore[assignment] # files to which `names` resolve
    watch: Watch | None = None  # shows the progress of reading
    table_error: OptionError | None = None  # explains why no symbol table was found next to the sources
    formats: Counter[str] = field(default_factory=Counter)  # format → number of files read
    tables: tuple[Table, ...] | None = None  # tables to read; None reads all tables of the sources
    digest: Any = None  # hash object that is updated with each key that is read
    is_part: bool = False  # whether this is one of several inputs, whose errors do not affect the other inputs
    unread: set[int] = field(default_factory=set)  # ``id()`` of each error due to which a lattice could not be read
    default_scales: frozenset[str] = frozenset()  # names of scales set neither by the user nor by a scale file
    _symbols: SymbolTable | None = None
    _words: Words | None = None
    _begun: Reading | None = None  # pass over the sources of which the first lattices have already been read
    _current: Reading | None = None
    _table_path: str | None = None

    def __post_init__(self) -> None:
        """Convert the names to strings, and resolve them."""
        names = (self.names,) if isinstance(self.names, str | os.PathLike) else tuple(self.names)
        self.names = tuple(name if isinstance(name, str) else os.fspath(name) for name in names)
        if isinstance(self.words, SymbolTable):
            self._symbols, self.words = self.words, self.words.path
        if self.sources is None:
            self.sources = Sources(self.places, allow_pipes=self.allow_pipes, guard=self.guard)

    def with_names(self, names: Sequence[str]) -> Inputs:
        """Return a copy with other names; the options and the symbol table are kept."""
        return replace(self, names=names, sources=self.sources.select(names), tables=None, _begun=None, _current=None)

    @property
    def places(self) -> tuple[str, ...]:
        """Names of the sources as strings."""
        return self.names  # type: ignore[return-value]

    @property
    def on_failure(self) -> Callable[[NinjaError], None] | None:
        """Function that is called with each failure; None if the first failure is raised."""
        return self._fail if self.log.on_error is not None else None

    @cached_property
    def scales(self) -> ChosenScales | None:
        """Scales from the scale file next to the lattices; None if there is no such file.

        Raises:
            OptionError: The sources have different scales, or only some of them have a scale file.
        """
        return find_scales(self.sources)

    @property
    def share(self) -> float | None:
        """Position after the last lattice read, as a fraction of the size of all files, in [0, 1]; None if unknown."""
        return None if self._current is None else self._current.share

    @property
    def file(self) -> str | None:
        """Path of the file from which the last lattice was read; None before the first lattice."""
        return None if self._current is None else self._current.file

    def single_scores(self) -> str | None:
        """Return "n-best lists" or "lattices without graph costs" if each path has only one score, else None.

        Only the first lattices are examined. N-best lists are always treated as having a single score.
        """
        reading = self._begin()
        if any(name != KALDI and by_name(name, "read").holds == "nbest" for name in reading.options.formats):
            return "n-best lists"
        for lattice in reading.first_batches[-1] if reading.first_batches else ():
            if has_graph_costs(lattice):
                return None
            if lattice.acoustic.any() or lattice.final_acoustic[lattice.is_final].any():
                return "lattices without graph costs"
        return None

    def first_lattice(self) -> Lattice | None:
        """Return the first lattice, or None if there are no lattices; this starts reading the sources."""
        return next((lattice for batch in self._begin().first_batches[-1:] for lattice in batch), None)

    def table(self) -> SymbolTable | None:
        """Return the symbol table, or None if `words` is not set and the sources contain only word ids.

        If `words` is not set, the table contains the words in the sources: the first lattices are read, and the table
        grows while the remaining lattices are read.
        """
        self._load_words()
        if self._symbols is None and self.are_lattices and self._words is None:
            self._begin()
        return self._symbols if self._words is None else self._words.known

    def need_table(self) -> SymbolTable:
        """Return the symbol table; if `words` is not set and the sources contain ids, use a table next to the sources.

        Raises:
            NinjaError: The sources cannot be read, or no symbol table was found.
        """
        self.needs_words = True
        table = self.table()
        if table is None:
            if self.table_error is None and self.are_lattices:
                for _ in self.read(None):  # if a source cannot be read, this raises its error
                    break
            raise self.table_error or OptionError("the sources contain no words; use --words to set a symbol table")
        return table

    def find_table(self) -> str:
        """Return the path of the symbol table next to the sources.

        Raises:
            OptionError: No symbol table was found, or several were found.
        """
        if self._table_path is None:
            self._table_path = find_table(self.places)
        return self._table_path

    def lattices(self) -> Iterator[tuple[str, Lattice]]:
        """Yield ``(key, lattice)`` for each entry, in the order of the sources."""
        lattices = self._watched(self._start())
        return lattices if self.digest is None else self._digested(lattices)

    def batches(self) -> Iterator[Batch]:
        """Yield batches without ``faults``; errors are passed to `on_failure` or, if it is None, raised."""
        batches = self._start().batches()
        return batches if self.digest is None else self._digested_batches(batches)

    def read(self, on_error: Callable[[NinjaError], None] | None) -> Iterator[tuple[str, Lattice]]:
        """Read the lattices in a separate pass; for `on_error`, see ``ninja.read``."""
        return self._watched(self._reading(on_error))

    def lookup(self, name: str) -> Lookup:
        """Open the source `name` for looking up lattices by key, with the same options as these inputs."""
        return Lookup(self.sources.select((name,)), self._options(), on_error=self.on_failure)

    def like(self, names: Sequence[str], log: Log) -> Inputs:
        """Return a copy with other names and another log; the options and the symbol table are kept."""
        self.table()
        sources = self.sources.select(tuple(names))
        other = replace(self, names=names, log=log, sources=sources, tables=None, digest=None)
        other._begun = other._current = other._table_path = None
        return other

    def part(self, name: str, file: SourceFile) -> Inputs:
        """Return inputs for a single source file, with the symbol table and the log of these inputs."""
        self._options()  # load the symbol table, which all parts share
        part = replace(self, names=(name,), is_part=True, sources=Sources(file))
        part._begun = part._table_path = None
        return part

    def _begin(self) -> Reading:
        if self._begun is None:
            self._begun = self._reading(self.on_failure)
            self._begun.begin()
        return self._begun

    def _start(self) -> Reading:
        reading, self._begun = self._begun, None
        self._current = reading or self._reading(self.on_failure)
        return self._current

    def _watched(self, reading: Reading) -> Iterator[tuple[str, Lattice]]:
        return reading.lattices() if self.watch is None else self.watch(reading)

    def _digested(self, lattices: Iterator[tuple[str, Lattice]]) -> Iterator[tuple[str, Lattice]]:
        for key, lattice in lattices:
            self.digest.update(key.encode("utf-8", "surrogateescape") + b"\n")
            yield key, lattice

    def _digested_batches(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        for batch in batches:
            self.digest.update(b"".join(key.encode("utf-8", "surrogateescape") + b"\n" for key in batch.keys))
            yield batch

    def _reading(self, on_error: Callable[[NinjaError], None] | None) -> Reading:
        if self.tables is not None:
            return Reading(Sources(self.tables, guard=self.guard), self._options(), on_error=on_error)
        if not self.is_part:
            _check_exists(self.sources)
        return Reading(self.sources, self._options(), on_error=on_error)

    def _load_words(self) -> None:
        if self._symbols is None and self.words is not None:
            assert not isinstance(self.words, SymbolTable)
            self._symbols = SymbolTable.read(self.words)

    def _options(self) -> ReadOptions:
        if self._words is None:
            self._load_words()
            self._words = Words(self._symbols or None, self._table_of_ids, others=self._all_words)
        return ReadOptions(
            self._words,
            self.format,
            self.encoding,
            read_ahead=self.read_ahead,
            formats=self.formats,
            on_note=self._note,
            guard=self.guard,
        )

    def _fail(self, error: NinjaError) -> None:
        self.unread.add(id(error))
        self.log.fail(error)  # not a bound method of the log, because a command may replace the log

    def _note(self, message: str) -> None:
        self.log.note(message)

    def _all_words(self) -> Iterable[tuple[str, int]]:
        sources = self.sources.select((*self.places, *self.beside))
        return words_in(sources.reopened(), self.format, self.encoding) or ()

    def _table_of_ids(self) -> SymbolTable | None:
        """If the caller needs words, return the symbol table next to a source that contains word ids, else None."""
        if not self.needs_words:
            return None
        try:
            self.words = self.find_table()
        except OptionError as error:
            self.table_error = error
            return None
        if self.guard is not None:
            self.guard.read(self.words, identity_of(self.words))
        self.log.note(f"using the symbol table {self.words}")
        return SymbolTable.read(self.words)


@dataclass(frozen=True, slots=True)
class Output:
    """An output for lattices; most fields are arguments of ``ninja.write``.

    `name` is a file name. To write one output per input file, set it to the name of a folder, or to a file name that
    contains ``JOB`` in place of the number of the input file.
    """

    name: str
    to: str | None = None  # format with its options; None selects it by the extension
    lossy: Literal["allow", "refuse"] = "allow"
    words_out: str | None = None  # file for the symbol table
    resume: bool = False  # whether to continue the output of an interrupted run
    kind: Kind | None = None  # kind of lattices in Kaldi archives; None keeps the kind of each lattice
    scales: Scales | None = None  # scales with which the paths of lattices were compared
    chosen: ChosenScales | None = None  # scales for the lattices, written to a scale file next to the output
    keeps_scales: bool = True  # whether to copy the scale file of the inputs if `chosen` is None
    settings: Mapping[str, object] | None = None  # options that affect the results; must be equal when a run is resumed
    command: str = "ninja.pipeline.run"  # name of the command to which `settings` belong
    other_states: tuple[State, ...] = ()  # states of other lattice files that affect the results
    guard: Guard | None = None  # guard that protects the inputs from being replaced
    form: OutputFormat | None = None  # name and format of the output, resolved by the constructor

    def __post_init__(self) -> None:
        """Resolve the format.

        Raises:
            OptionError: The name is invalid, or the format does not exist.
        """
        if self.form is None or (self.form.name, self.form.to) != (self.name, self.to):
            object.__setattr__(self, "form", format_of(self.name, self.to))

    def with_settings(self, settings: Mapping[str, object], states: Sequence[State]) -> Output:
        """Return a copy with `settings` and `other_states` replaced."""
        return replace(self, settings=settings, other_states=tuple(states))

    @property
    def resolved(self) -> OutputFormat:
        """Resolved name and format of the output."""
        assert self.form is not None
        return self.form

    @property
    def is_stdout(self) -> bool:
        """Whether the lattices are written to stdout."""
        return self.name == STDIN

    @property
    def is_per_file(self) -> bool:
        """Whether each input file has a separate output."""
        if names_job(self.name):
            return True
        write = self.resolved.format.write
        assert write is not None
        is_folder = not is_specifier(self.name) and (self.name.endswith(os.sep) or os.path.isdir(self.name))
        return is_folder and write.files not in ("each", "named")  # "each" and "named" write all inputs to one folder

    def scales_for(self, inputs: Inputs) -> ChosenScales | None:
        """Return the scales for the scale file of the output: `chosen`, or the inputs' scales if `keeps_scales` is set.

        If the inputs have different scales, or only some inputs have a scale file, log a note and return None.
        """
        if self.chosen is not None or not self.keeps_scales:
            return self.chosen
        try:
            return inputs.scales
        except OptionError as error:
            inputs.log.note(f"{error.message.split(';')[0]}; no scale file is written for the output")
            return None

    def facts(self, inputs: Inputs) -> Facts | None:
        """Return the version, command, options and sources of a run, which must be the same when the run is resumed.

        Return None if the output has no `settings`.

        Raises:
            OptionError: `resume` is set and `settings` is None.
        """
        if self.settings is None:
            if self.resume:
                example = 'Output(..., resume=True, settings={"beam": 6.0})'
                raise OptionError(f"resume requires the settings on which the results depend, such as {example}")
            return None
        options = {
            name: value if isinstance(value, bool | int | float | str | list) else repr(value)
            for name, value in self.settings.items()
        }
        if self.settings.get("words") is None and not isinstance(inputs.words, SymbolTable):
            with contextlib.suppress(NinjaError):
                options["words"] = [list(state_of(os.fspath(inputs.words or inputs.find_table())))]
        with contextlib.suppress(NinjaError):
            if inputs.scales is not None:
                options["scales"] = repr(inputs.scales.values())
        try:
            states = states_of(inputs.sources, inputs.format)
        except NinjaError:  # the source is a pipe, or the reader will report its error
            states = [(name, -1, -1) for name in inputs.places]
        sources = [list(state) for state in (*self.other_states, *states)]
        return {"version": VERSION, "command": self.command, "options": options, "sources": sources}


class TextOutput(NamedTuple):
    """A text output for the lines that a pipeline stage returns for each lattice; ``-`` is stdout."""

    name: str

    @property
    def is_stdout(self) -> bool:
        """Whether the lines are written to stdout."""
        return self.name == STDIN


def _check_exists(sources: Sources) -> None:
    """Raise `InputError` if there is only one source file and it does not exist."""
    files = sources.resolvable_files
    if (
        len(files) == 1
        and files[0].table.kind != "folder"
        and files[0].place.command is None
        and files[0].path != STDIN
        and not os.path.exists(files[0].path)
    ):
        files[0].open().close()


def state_of(path: str) -> State:
    """Return the path, size and modification time of a file, which show whether the file has changed.

    For a URL, a hash of the ETag or a similar tag from the object store replaces the modification time.
    """
    if is_remote(path):
        import hashlib  # rarely used: only for URLs

        size, mark = remote.state_of(path)
        return path, -1 if size is None else size, int(hashlib.sha256(mark.encode()).hexdigest()[:12], 16)
    try:
        status = os.stat(path)
    except OSError:
        return path, -1, -1
    return path, status.st_size, status.st_mtime_ns


def states_of(sources: Sources, format: str | None = None) -> list[State]:
    """Return the path, size and modification time of source files and of files listed in script files.

    Raises:
        NinjaError: See `source_files`.
    """
    paths: list[str] = []
    for file in source_files(sources, format):
        if file.kind == "folder":
            paths.extend(member.path for member in file.files)
            continue
        paths.append(file.path)
        if file.kind == "scp":
            paths.extend(place.path for _, place in script_rows(file) or () if place.path)
    return [state_of(path) for path in dict.fromkeys(paths)]


def source_files(sources: Sources, format: str | None) -> Iterator[SourceFile]:
    """Yield the lattice files in sources; a folder is a single item if its files together form one source.

    Raises:
        OptionError: A source is a pipe.
        NinjaError: A file list is invalid.
    """
    for file in sources.files:
        if file.is_pipe:
            raise OptionError(f"{file.name} cannot be divided into shards; use files instead")
        if file.kind == "folder":
            whole = of_folder(file.path, "utf-8") if format is None else reader(format)
            if whole is not None and whole.format.of_folder is not None:
                yield file
            elif format is None:
                yield from file.lattice_files
            else:
                yield from (member for member in file.files if not detection.is_companion(member.path))
        elif file.kind == "list":
            files, errors = file.listed
            if errors:
                raise errors[0]
            yield from files
        else:
            yield file


def script_rows(file: SourceFile) -> list[tuple[int, Place]] | None:
    """Return ``(offset, file)`` for each line of a script file, or None if it is compressed or unreadable."""
    try:
        if not file.inspect().seekable:
            return None
    except NinjaError:  # the reader will report the error
        return None
    rows: list[tuple[int, Place]] = []
    begin = 0
    for line in file.content().split(b"\n"):
        if fields := line.split(None, 1):
            name = os.fsdecode(fields[1].strip()) if len(fields) > 1 else None
            rows.append((begin, Place("") if name is None else _listed(name, file.name)))
        begin += len(line) + 1
    return rows


def _listed(name: str, script: str) -> Place:
    """Resolve a file name in a script file; return a `Place` with an empty path if the name is invalid."""
    try:
        places = resolve_listed(name, script)
    except NinjaError:
        return Place("")
    return places[0] if len(places) == 1 else Place("")
