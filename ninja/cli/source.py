"""The lattices a command reads, and the options of reading them."""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import click

from ninja.cli.console import Console
from ninja.cli.files import Lattices
from ninja.cli.options import Command, Destination, jobs, reads, section, typed
from ninja.cli.shard_source import SHARD, ShardSource
from ninja.errors import NinjaError, OptionError
from ninja.files.cores import num_cores
from ninja.files.place import SPECIFIER, STDIN
from ninja.files.stream import open_stream
from ninja.io.lookup import Lookup
from ninja.io.reader import Reading, spelled_words
from ninja.io.sources import ReadOptions, Words, tables
from ninja.io.sources import Source as Places
from ninja.io.symbol_tables import find_table
from ninja.io.writer import spells_words
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch
from ninja.lattice.symbols import SymbolTable

WORDS_HELP = "Symbol table: a word and its id on each line."
BESIDE_HELP = f"{WORDS_HELP}  [default: words.txt beside the source]"
OPTIONS = ("words", "format", "encoding", "allow_pipes", "on_error", "jobs")  # of reading
OUTPUT_OPTIONS = ("output_file", "to", "lossy", "words_out", "resume")


@dataclass(slots=True)
class Source:
    """The lattices of one run of a command."""

    places: tuple[str, ...]
    words: str | None = None  # file of the symbol table
    format: str | None = None  # with its options; None: recognised by content
    encoding: str = "utf-8"
    allow_pipes: bool = False
    on_error: Literal["skip", "raise"] = "skip"
    jobs: int | None = None  # None: all cores where threads work, one process elsewhere
    beside: tuple[str, ...] = ()  # other sources whose words must be known before the first lattice
    are_lattices: bool = True  # whose own words may make a symbol table
    spelled_output: Callable[[], bool] | None = None  # whether an output needs names of ids
    console: Console = field(default_factory=Console)
    symbols: SymbolTable | None = None
    formats: Counter[str] = field(default_factory=Counter)  # names of those met, with their numbers of files
    unnamed: OptionError | None = None  # why ids of the source have no names, where an output spells them
    is_part: bool = False  # one file of several, of which others can be read
    shard: ShardSource | None = None  # what is read of the places, where that is not all
    _words: Words | None = None
    _begun: Reading | None = None
    _current: Reading | None = None

    def __post_init__(self) -> None:
        """Let failures end the command unless they are to be skipped."""
        if self.shard is not None:
            self.shard.source = self
        self.console.tolerant = self.on_error == "skip"
        self.console.use_log(self.console.log)

    def single_scores(self) -> str | None:
        """Describe lattices whose paths have one score, see `Reading.single_scores`."""
        if self._begun is None:
            self._begun = self._reading(self.places, self.on_failure)
            self._begun.begin()
        return self._begun.single_scores()

    @property
    def threads(self) -> int:
        """Number of threads that compiled work is spread over."""
        return self.jobs or num_cores()

    @property
    def workers(self) -> int:
        """Number of processes that other work is spread over."""
        return self.jobs or 1

    @property
    def on_failure(self) -> Callable[[NinjaError], None] | None:
        """Return the function that failures of lattices are handed to; None where they end the command."""
        return (lambda error: self.console.log.fail(error)) if self.on_error == "skip" else None

    def table(self) -> SymbolTable | None:
        """Return the symbol table of ``--words``; without it, that of the words which the sources spell, if they do.

        The first lattices are read for it, where they have not been; the table grows while the others are.
        """
        if self.symbols is None and self.words is not None:
            self.symbols = SymbolTable.read(self.words)
        elif self.symbols is None and self.are_lattices and self._words is None:
            self._begun = self._reading(self.places, self.on_failure)
            self._begun.begin()
        return self.symbols if self._words is None else self._words.found

    def need_table(self) -> SymbolTable:
        """Return the symbol table of ``--words``, of the sources' own words, or of the file that lies beside them.

        Raises:
            NinjaError: The sources cannot be read.
        """
        self.spell()
        table = self.table()
        if table is None:
            if self.unnamed is None and self.are_lattices:
                for _ in self.read(self.places, None):  # if it cannot be read, that is why there are no words
                    break
            raise self.unnamed or OptionError("there are no words; give their symbol table with --words")
        return table

    def spell(self) -> None:
        """Give ids of words the names in the table that lies beside the sources, if one does."""
        self.spelled_output = lambda: True

    def lattices(self) -> Iterator[tuple[str, Lattice]]:
        """Read the sources, one after the other."""
        reading, self._begun = self._begun, None
        self._current = reading or self._reading(self.places, self.on_failure)
        found = self._watched(self._current)
        return found if self.shard is None else self.shard.noted(found)

    def batches(self) -> Iterator[Batch]:
        """Read the sources in batches."""
        reading, self._begun = self._begun, None
        self._current = reading or self._reading(self.places, self.on_failure)
        found = self._current.batches()
        return found if self.shard is None else self.shard.noted_batches(found)

    @property
    def share(self) -> float | None:
        """Share of the sources' bytes read so far, up to the end of the last lattice, 0 to 1; None: not known."""
        return None if self._current is None else self._current.share

    @property
    def file(self) -> str | None:
        """File of the last lattice read."""
        return None if self._current is None else self._current.file

    def _watched(self, reading: Reading) -> Iterator[tuple[str, Lattice]]:
        """Yield the lattices, and show how many they are unless results are counted."""
        if self.console.bar is not None and not self.console.bar.by_reading:
            yield from reading.lattices()
            return
        with self.console.progress("lattices read") as own:
            bar = own or self.console.bar
            for key, lattice in reading.lattices():
                if bar is not None:
                    bar.step(key, share=reading.share)
                yield key, lattice

    def read(self, places: Places, on_error: Callable[[NinjaError], None] | None) -> Iterator[tuple[str, Lattice]]:
        """Read lattices with the options of this source."""
        return self._watched(self._reading(places, on_error))

    def lookup(self, place: str) -> Lookup:
        """Open another source for lattices by their keys."""
        return Lookup(place, self._options(), on_error=self.on_failure, allow_pipes=self.allow_pipes)

    def like(self, places: tuple[str, ...]) -> Source:
        """Return another source that is read in the same way, with the same words."""
        self.table()
        return replace(self, places=places, console=Console(), _begun=None, shard=None)

    def part(self, place: str) -> Source:
        """Return one file of this source as a source with the same words, console and log."""
        self._options()  # the words are those of all parts
        found = copy(self)
        found.places, found._begun, found.is_part = (place,), None, True
        return found

    def _reading(self, places: Places, on_error: Callable[[NinjaError], None] | None) -> Reading:
        if places is self.places and self.shard is not None:
            return Reading(self.shard.tables, self._options(), on_error=on_error)
        if places is self.places and not self.is_part:
            _refuse_missing(self.places)
        return Reading(places, self._options(), on_error=on_error, allow_pipes=self.allow_pipes)

    def _options(self) -> ReadOptions:
        if self._words is None:
            if self.symbols is None and self.words is not None:
                self.symbols = SymbolTable.read(self.words)
            self._words = Words(self.symbols or SymbolTable.growing(others=self._all_words), self._table_of_ids)
        ahead = self.threads > 1  # one is asked for where there is one core
        return ReadOptions(self._words, self.format, self.encoding, ahead, formats=self.formats, on_note=self._note)

    def _note(self, message: str) -> None:
        self.console.log.note(message)

    def _all_words(self) -> Iterator[tuple[str, int]]:
        how = {"format": self.format, "encoding": self.encoding, "allow_pipes": self.allow_pipes}
        return spelled_words([*self.places, *self.beside], **how)

    def _table_of_ids(self) -> SymbolTable | None:
        """Find the symbol table beside a source of ids, where an output spells words."""
        if self.spelled_output is None or not self.spelled_output():
            return None
        try:
            self.words = find_table(self.places)
        except OptionError as error:
            self.unnamed = error
            return None
        self.console.say(f"words of {self.words}")
        return SymbolTable.read(self.words)


def reads_lattices(command: Command) -> Command:
    """Give a command the source argument and the options of reading, handed to it as ``source``.

    A command that writes lattices gets those options as ``destination``.
    """
    return _reads(reading_options(jobs)(command))


def reads_lattices_alone(command: Command) -> Command:
    """Do the same for a command that one process must do."""
    return _reads(reading_options()(command))


def _reads(command: Command) -> Command:
    @click.argument("source", nargs=-1, required=True, type=Lattices())
    @functools.wraps(command)
    def collected(source: tuple[str, ...], **options: Any) -> None:
        _refuse_output_as_source(source)
        command(**opened(source, options))

    return collected


def reading_options(*running: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Add the options of reading, and some that say how a command runs; ``opened`` takes them."""
    text = "Skip lattices that fail (exit code 1 at the end), or stop at the first."
    return section(
        "Input and output",
        reads("--words", BESIDE_HELP),
        click.option(
            "--from",
            "format",
            metavar="FORMAT[:OPTION=VALUE,...]",
            help="Format of the sources.  [default: recognised by content]",
        ),
        click.option("--encoding", default="utf-8", help="Encoding of the sources' text."),
        section(
            "Running",
            *running,
            click.option("--on-error", type=click.Choice(["skip", "raise"]), default="skip", help=text),
            click.option("--allow-pipes", is_flag=True, help="Run a command typed as a source ('ark:command |')."),
        ),
    )


def opened(places: tuple[str, ...], options: dict[str, Any], **given: Any) -> dict[str, Any]:
    """Return a command's arguments with the options of reading as ``source``, and those of writing as ``destination``.

    Args:
        places: Of the lattices, as the user names them.
    """
    rest = dict(options)
    chosen = {name: rest.pop(name) for name in OPTIONS if name in rest}
    if "to" in rest:
        rest["destination"] = Destination(**{name: rest.pop(name) for name in OUTPUT_OPTIONS if name in rest})
        destination = rest["destination"]
        given["spelled_output"] = lambda: spells_words(destination.output_file, destination.to)
    context = click.get_current_context(silent=True)
    rest["source"] = Source(places, **chosen, **given, shard=None if context is None else context.meta.get(SHARD))
    return rest


def _refuse_missing(places: tuple[str, ...]) -> None:
    """Refuse a source that there is not, where it is the only one; of several, others can be read.

    Raises:
        InputError: As opening it does.
    """
    try:
        found = tables(places, allow_pipes=True)  # no command is run for it
    except NinjaError:  # as reading it will say
        return
    place = found[0].place
    if len(found) == 1 and place.command is None and place.path != STDIN and not os.path.exists(place.path):
        open_stream(place).close()


def _refuse_output_as_source(places: tuple[str, ...]) -> None:
    """Refuse Kaldi's way of calling, ``ark:IN ark:OUT``: OUT would be read as a second source.

    Raises:
        OptionError: Says how it is done here.
    """
    writes = any(each.name == "output_file" for each in click.get_current_context().command.params)
    are_specifiers = len(places) == 2 and all(SPECIFIER.fullmatch(each) for each in places)
    if writes and are_specifiers and not typed(["output_file"]):
        raise OptionError(
            f"is {places[1]} meant to be written? Outputs are named with -o; to read both, name them without 'ark:'"
        )
