"""What every command that reads lattices shares: its source and options, its progress, its failures, its exit code."""

from __future__ import annotations

import functools
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from ninja.cli.options import Command, typed
from ninja.cli.word_tables import find_words
from ninja.errors import LatticeError, NinjaError, OptionError, shown
from ninja.lattice import Kind, Lattice
from ninja.log import Log
from ninja.parallel.pipeline import Stage, stream

if TYPE_CHECKING:
    from ninja.io.lookup import Lookup
    from ninja.io.sources import Source
    from ninja.lattice.symbols import SymbolTable

Result = TypeVar("Result")
Another = TypeVar("Another", bound="Reading")
AnyLog = TypeVar("AnyLog", bound=Log)
NAMED_FAILURES = 20
OUTPUT_OPTIONS = ("to", "lossy", "words_out")  # what ``lattice_output`` adds beside -o
BATCH_ARCS = 200_000
_HOW_OFTEN = re.compile(r"^\d+ (?:times )?(?!times)")  # in the words of what is lost of one lattice

JOBS = click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Worker processes.")
WORDS_HELP = "Symbol table, a word and its id on each line."


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """How lattices are written, besides where."""

    to: str | None = None  # the format, with its options; None: seen from the file's ending
    lossy: Literal["allow", "refuse"] = "allow"
    words_out: str | None = None  # file for the symbol table of what is written


@dataclass(slots=True)
class Reading:
    """One command's run over its lattices."""

    source: tuple[str, ...]
    words: str | None
    jobs: int
    on_error: str  # "skip" or "raise"
    allow_pipes: bool
    format: str | None = None  # of the sources, with its options; None: seen from the content
    encoding: str = "utf-8"
    output: OutputOptions = OutputOptions()
    beside: tuple[str, ...] = ()  # other sources whose words must have the same ids
    are_lattices: bool = True  # the sources, whose own words may make a symbol table
    may_be_empty: bool = False  # it is no failure if there is no lattice at all
    log: Log = field(default_factory=Log)
    start: float = field(default_factory=time.perf_counter)
    _progress: Any = None
    _table: SymbolTable | None = None
    _looked: bool = False  # for a table of the sources' own words
    _timed: dict[str, bool] = field(default_factory=dict)  # by the key: whether a lattice came with times, not labels
    repeated: list[str] = field(default_factory=list)  # keys that came again, one for each time
    lost: Counter[str] | None = None  # what reading lost, and of how many lattices; None: nobody asks

    def __post_init__(self) -> None:
        """Show what is logged."""
        self.use_log(self.log)

    def use_log(self, log: AnyLog) -> AnyLog:
        """Make this the log of the run, and show its notes and failures."""
        self.log = log
        log.on_note = self.say
        log.on_error = self._say_failed if self.on_error == "skip" else None
        return log

    def table(self) -> SymbolTable | None:
        """Return the symbol table of ``--words``; without it, that of the words which the sources spell, if any do."""
        from ninja.lattice.symbols import SymbolTable

        if self._table is None and self.words is not None:
            self._table = SymbolTable.read(self.words)
        elif self._table is None and self.are_lattices and not self._looked:
            from ninja.io import vocabulary

            self._looked = True
            self._table = vocabulary(
                [*self.source, *self.beside],
                format=self.format,
                encoding=self.encoding,
                allow_pipes=self.allow_pipes,
            )
        return self._table

    def need_table(self) -> SymbolTable:
        """Return the symbol table of ``--words``, of the sources' own words, or of the file that lies beside them.

        Raises:
            OptionError: There is none.
            NinjaError: The sources cannot be read.
        """
        if self.table() is None:
            try:
                self.words = find_words(self.source)
            except OptionError:
                if self.are_lattices:
                    for _ in self.read(self.source, None):  # if it cannot be read, that is why there are no words
                        break
                raise
            self.say(f"words of {self.words}")
        table = self.table()
        assert table is not None
        return table

    def format_names(self) -> list[str | None]:
        """Return the format of each file that is read; None: nobody can tell beforehand. To be asked before reading."""
        from ninja.formats.kaldi.archive import Vocabulary
        from ninja.io.batches import Asked, format_name
        from ninja.io.sources import tables

        asked = Asked(Vocabulary(), self.format, self.encoding)
        sources = [*self.source, *self.beside]
        return [
            format_name(table, asked)
            for table in tables(sources, allow_pipes=self.allow_pipes, forced=self.format is not None)
        ]

    def lattices(self) -> Iterator[tuple[str, Lattice]]:
        """Read the sources, one after the other."""
        return self.read(self.source, self.failed if self.on_error == "skip" else None)

    def read(self, source: Source, on_error: Callable[[NinjaError], None] | None) -> Iterator[tuple[str, Lattice]]:
        """Read a source as the user wants it read."""
        from ninja.io import read

        return read(
            source,
            words=self.table(),
            format=self.format,
            encoding=self.encoding,
            lossy=self.output.lossy,
            lost=None if self.lost is None else self._note_lost,
            on_error=on_error,
            allow_pipes=self.allow_pipes,
        )

    def lookup(self, source: Source) -> Lookup:
        """Open another source, from which lattices are fetched by their keys; it must be one of ``beside``."""
        from ninja.io.lookup import Lookup

        return Lookup(
            source,
            words=self.table(),
            format=self.format,
            encoding=self.encoding,
            on_error=self.failed if self.on_error == "skip" else None,
            allow_pipes=self.allow_pipes,
        )

    def results(
        self,
        stage: Stage[Result],
        to_stdout: bool = False,
        done: Collection[str] = (),
        batch_arcs: int = BATCH_ARCS,
    ) -> Iterator[tuple[str, Result]]:
        """Yield the stage's result for each lattice, showing progress where somebody watches that and no results."""
        results = stream(
            self._noting(self.lattices()),
            stage,
            jobs=self.jobs,
            batch_arcs=batch_arcs,
            done=done,
            log=self.log,
        )
        watched = sys.stderr.isatty() and not (to_stdout and sys.stdout.isatty())
        return self._some(self._shown(results) if watched else results)

    def write(
        self,
        target: str,
        stage: Stage[Lattice],
        *,
        resume: bool = False,
        kind: Kind | None = None,
        batch_arcs: int = BATCH_ARCS,
        on_result: Callable[[Lattice], None] | None = None,
    ) -> int:
        """Write the stage's lattices to a file of any format, a terminal gets text; return how many arcs they have."""
        from ninja.cli import writing

        arcs = untimed = 0
        self.lost = Counter()
        with writing.opened(target, self, resume=resume, kind=kind) as output:
            for _, lattice in self.results(stage, target == "-", output.keys_done, batch_arcs):
                if not output.take(lattice):
                    self.log.lattices -= 1
                    continue
                arcs += lattice.num_arcs
                untimed += lattice.time is None and not lattice.ali.size and self._timed.get(lattice.key, False)
                if on_result is not None:
                    on_result(lattice)
        if untimed:
            self.say(f"the times of {untimed} lattices are lost: states of different times became one")
        for what, count in sorted(self.lost.items(), key=lambda item: (-item[1], item[0]))[:NAMED_FAILURES]:
            self.say(f"lost in reading: {what} ({count} lattices)")
        if len(self.lost) > NAMED_FAILURES:
            self.say(f"lost in reading: {len(self.lost) - NAMED_FAILURES} other things; --lossy refuse names all")
        return arcs

    def failed(self, failure: NinjaError) -> None:
        """Note a failure, and say so at once."""
        self.log.fail(failure)

    def say(self, message: str) -> None:
        """Print a line on stderr, above the progress bar if there is one."""
        if self._progress is None:
            click.echo(f"ninja: {message}", err=True)
        else:
            self._progress.console.print(f"ninja: {message}", markup=False, highlight=False, soft_wrap=True)

    def close(self, message: str | None = None) -> None:
        """Say what was done and what failed, and end the command with the right exit code."""
        if message is not None:
            self.say(message)
        if self.log.skipped:
            self.say(f"{self.log.skipped} lattices stood in the output already and were left alone")
        if self.repeated:
            self.say(f"{len(self.repeated)} lattices have keys that came before: {named(self.repeated)}")
        failures = self.log.failures
        if failures:
            keys = [failure.key or failure.path or "?" for failure in failures]
            self.say(f"{len(failures)} failed: {named(keys)}")
        click.get_current_context().exit(1 if failures else 0)

    def as_another(self, kind: Callable[..., Another], **more: Any) -> Another:
        """Return this run as one of another kind, with the fields that it has besides."""
        return kind(**{each.name: getattr(self, each.name) for each in fields(Reading) if each.init} | more)

    @property
    def seconds(self) -> float:
        """Seconds since the command began."""
        return time.perf_counter() - self.start

    def _some(self, results: Iterator[tuple[str, Result]]) -> Iterator[tuple[str, Result]]:
        """Refuse to end without a single result: an output that stood already is better than an empty one."""
        yield from results
        if self.log.lattices or self.log.skipped or (self.may_be_empty and not self.log.failures):
            return
        if self.log.failures:
            raise LatticeError(f"not one lattice of {len(self.log.failures)} could be used; nothing is written")
        raise LatticeError(f"there is no lattice in {', '.join(self.source)}; nothing is written")

    def _noting(self, lattices: Iterator[tuple[str, Lattice]]) -> Iterator[tuple[str, Lattice]]:
        for key, lattice in lattices:
            if key in self._timed:
                self.repeated.append(key)
            self._timed[key] = lattice.time is not None or self._timed.get(key, False)
            yield key, lattice

    def _note_lost(self, key: str, lost: Sequence[str]) -> None:
        assert self.lost is not None
        self.lost.update({_HOW_OFTEN.sub("", what) for what in lost})

    def _say_failed(self, failure: NinjaError) -> None:
        self.say(f"failed: {failure}")

    def _shown(self, results: Iterable[tuple[str, Result]]) -> Iterator[tuple[str, Result]]:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (
            SpinnerColumn(),
            TextColumn("{task.completed} lattices"),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
        )
        with Progress(
            *columns, console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
        ) as progress:
            self._progress = progress
            task = progress.add_task("")
            try:
                for key, result in results:
                    progress.update(task, advance=1, description=f"[dim]{key.replace('[', '')}")
                    yield key, result
            finally:
                self._progress = None


def reads_lattices(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the source argument and the options of reading, handed to it as one ``Reading``."""
    return _reads(command, JOBS)


def reads_lattices_alone(command: Callable[..., None]) -> Callable[..., None]:
    """Do the same for a command that one process must do."""
    return _reads(command)


def _reads(command: Callable[..., None], *more: Callable[[Command], Command]) -> Callable[..., None]:
    @click.argument("source", nargs=-1, required=True)
    @reading_options(*more)
    @functools.wraps(command)
    def collected(source: tuple[str, ...], **options: Any) -> None:
        _refuse_output_as_source(source)
        reading, rest = opened(source, options)
        command(reading, **rest)

    return collected


def reading_options(*more: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Add the options of reading, and some more behind ``--words``; ``opened`` takes them."""
    text = "Go on after a lattice failed (exit code 1 at the end), or stop there."

    def add(command: Command) -> Command:
        decorators: list[Callable[[Command], Command]] = [
            click.option("--encoding", default="utf-8", show_default=True, help="Encoding of the sources' text."),
            click.option(
                "--from",
                "format",
                metavar="FORMAT[:OPTION=VALUE,...]",
                help="Format of the sources.  [default: as their content says]",
            ),
            click.option("--allow-pipes", is_flag=True, help="Run a command typed as a source ('ark:command |')."),
            click.option(
                "--on-error", type=click.Choice(["skip", "raise"]), default="skip", show_default=True, help=text
            ),
            *more,
            click.option("--words", metavar="FILE", help=WORDS_HELP),
        ]
        for decorate in decorators:
            command = decorate(command)
        return command

    return add


def opened(source: tuple[str, ...], options: dict[str, Any], **given: Any) -> tuple[Reading, dict[str, Any]]:
    """Return the run that the options of reading and writing lattices ask for, and the other options."""
    rest = dict(options)
    output = OutputOptions(**{name: rest.pop(name) for name in OUTPUT_OPTIONS if name in rest})
    reading = Reading(
        source,
        rest.pop("words"),
        rest.pop("jobs", 1),
        rest.pop("on_error"),
        rest.pop("allow_pipes"),
        rest.pop("format"),
        rest.pop("encoding"),
        output,
        **given,
    )
    return reading, rest


def named(keys: Sequence[str]) -> str:
    """Return the first of some keys, and how many there are besides."""
    more = f" and {len(keys) - NAMED_FAILURES} more" if len(keys) > NAMED_FAILURES else ""
    return ", ".join(key if key.isprintable() and len(key) < 80 else shown(key) for key in keys[:NAMED_FAILURES]) + more


def _refuse_output_as_source(source: tuple[str, ...]) -> None:
    """Refuse Kaldi's way of calling, ``ark:IN ark:OUT``: OUT would be read as a second source.

    Raises:
        OptionError: Says how it is done here.
    """
    from ninja.io.sources import SPECIFIER

    writes = any(each.name == "output_file" for each in click.get_current_context().command.params)
    are_specifiers = len(source) == 2 and all(SPECIFIER.fullmatch(each) for each in source)
    if writes and are_specifiers and not typed(["output_file"]):
        raise OptionError(
            f"is {source[1]} meant to be written? Outputs are named with -o; to read both, name them without 'ark:'"
        )
