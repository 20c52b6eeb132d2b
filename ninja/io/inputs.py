"""``Inputs``: lattices that a user has named, with the options of reading them and the files beside them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from ninja.errors import NinjaError, OptionError
from ninja.files.cores import num_cores
from ninja.files.place import STDIN, Table
from ninja.files.stream import open_stream
from ninja.io.lookup import Lookup
from ninja.io.reader import Reading, spelled_words
from ninja.io.scales_beside import ChosenScales, find_scales
from ninja.io.sources import ReadOptions, Words, tables
from ninja.io.symbol_tables import find_table
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch
from ninja.lattice.symbols import SymbolTable
from ninja.log import Log

Name = str | os.PathLike[str]
Watch = Callable[[Reading], Iterator[tuple[str, Lattice]]]


@dataclass(slots=True)
class Inputs:
    """Sources of lattices with the options of reading them.

    Args:
        names: A file, folder, pattern, list of files, Kaldi rspecifier or ``-``, as for ``ninja.read``, or several.
        words: Symbol table, or its file.  [default: the words that the sources spell, or the table beside them]
        format: Format of the sources with its options.  [default: recognised by content]
        encoding: Encoding of text in formats other than Kaldi's.
        allow_pipes: Run commands named as sources.
        log: Notes and failures; with its ``on_error`` lattices that fail are left out, without it the first is raised.
        read_ahead: Read in a thread, ahead of the caller.
        beside: Other sources whose words must be known before the first lattice.
        are_lattices: The sources are lattices, whose words can make a symbol table.
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
    watch: Watch | None = None  # shows the progress of reading
    spells_output: Callable[[], bool] | None = None  # whether an output needs the names of ids
    table_error: OptionError | None = None  # why ids of the sources have no names, where an output spells them
    formats: Counter[str] = field(default_factory=Counter)  # names of the formats read, with their numbers of files
    tables: tuple[Table, ...] | None = None  # the part of the sources that is read  [default: all]
    digest: Any = None  # hash that takes in the keys read
    is_part: bool = False  # one file of several, of which others can be read
    _symbols: SymbolTable | None = None
    _words: Words | None = None
    _begun: Reading | None = None
    _current: Reading | None = None

    def __post_init__(self) -> None:
        """Take one name or several, a symbol table or its file."""
        names = (self.names,) if isinstance(self.names, str | os.PathLike) else tuple(self.names)
        self.names = tuple(name if isinstance(name, str) else os.fspath(name) for name in names)
        if isinstance(self.words, SymbolTable):
            self._symbols, self.words = self.words, self.words.path

    @property
    def places(self) -> tuple[str, ...]:
        """The names, as strings."""
        return self.names  # type: ignore[return-value]

    @property
    def on_failure(self) -> Callable[[NinjaError], None] | None:
        """The function that is called with the failures of lattices; None where the first one is raised."""
        return self._fail if self.log.on_error is not None else None

    @property
    def scales(self) -> ChosenScales | None:
        """Scales that were chosen for the lattices, in a file beside them.

        Raises:
            OptionError: The sources have different ones.
        """
        return find_scales(self.places, allow_pipes=True)  # no command is run for it

    @property
    def share(self) -> float | None:
        """Share of the sources' bytes read so far, up to the end of the last lattice, 0 to 1; None: not known."""
        return None if self._current is None else self._current.share

    @property
    def file(self) -> str | None:
        """File of the last lattice read."""
        return None if self._current is None else self._current.file

    def single_scores(self) -> str | None:
        """Describe lattices whose paths have one score, see `Reading.single_scores`; the first ones are read for it."""
        if self._begun is None:
            self._begun = self._reading(self.places, self.on_failure)
            self._begun.begin()
        return self._begun.single_scores()

    def table(self) -> SymbolTable | None:
        """Return the symbol table: `words`, or else that of the words which the sources spell, if they do.

        The first lattices are read for it, unless they have been; a table of their words grows while others are read.
        """
        self._load_words()
        if self._symbols is None and self.are_lattices and self._words is None:
            self._begun = self._reading(self.places, self.on_failure)
            self._begun.begin()
        return self._symbols if self._words is None else self._words.found

    def need_table(self) -> SymbolTable:
        """Return the symbol table, also one that lies beside sources of ids.

        Raises:
            NinjaError: The sources cannot be read, or their words have no names.
        """
        self.spell()
        table = self.table()
        if table is None:
            if self.table_error is None and self.are_lattices:
                for _ in self.read(self.places, None):  # a source that cannot be read is the cause, and is reported
                    break
            raise self.table_error or OptionError("there are no words; give their symbol table with --words")
        return table

    def spell(self) -> None:
        """Name ids of words by the table beside the sources, if there is one."""
        self.spells_output = lambda: True

    def lattices(self) -> Iterator[tuple[str, Lattice]]:
        """Yield the key and the lattice of each entry, source by source."""
        lattices = self._watched(self._start())
        return lattices if self.digest is None else self._digested(lattices)

    def batches(self) -> Iterator[Batch]:
        """Yield the lattices in batches, without faults, which go to the log."""
        batches = self._start().batches()
        return batches if self.digest is None else self._digested_batches(batches)

    def read(
        self, names: Sequence[str], on_error: Callable[[NinjaError], None] | None
    ) -> Iterator[tuple[str, Lattice]]:
        """Read lattices with the options of these inputs; arguments as for ``ninja.read``."""
        return self._watched(self._reading(names, on_error))

    def lookup(self, name: str) -> Lookup:
        """Open another source for lattices by their keys."""
        return Lookup(name, self._options(), on_error=self.on_failure, allow_pipes=self.allow_pipes)

    def like(self, names: Sequence[str], log: Log) -> Inputs:
        """Return other inputs that are read in the same way, with the same words."""
        self.table()
        return replace(self, names=tuple(names), log=log, tables=None, digest=None, _begun=None, _current=None)

    def part(self, name: str) -> Inputs:
        """Return the inputs of one file, with the same words and log."""
        self._options()  # the words are those of all parts
        one = copy(self)
        one.names, one._begun, one.is_part = (name,), None, True
        return one

    def _start(self) -> Reading:
        reading, self._begun = self._begun, None
        self._current = reading or self._reading(self.places, self.on_failure)
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

    def _reading(self, names: Sequence[str], on_error: Callable[[NinjaError], None] | None) -> Reading:
        if names is self.names and self.tables is not None:
            return Reading(self.tables, self._options(), on_error=on_error)
        if names is self.names and not self.is_part:
            _check_exists(self.places)
        return Reading(names, self._options(), on_error=on_error, allow_pipes=self.allow_pipes)

    def _load_words(self) -> None:
        if self._symbols is None and self.words is not None:
            assert not isinstance(self.words, SymbolTable)
            self._symbols = SymbolTable.read(self.words)

    def _options(self) -> ReadOptions:
        if self._words is None:
            self._load_words()
            self._words = Words(self._symbols or SymbolTable.growing(others=self._all_words), self._table_of_ids)
        return ReadOptions(
            self._words, self.format, self.encoding, self.read_ahead, formats=self.formats, on_note=self._note
        )

    def _fail(self, error: NinjaError) -> None:
        self.log.fail(error)  # of the log of the moment: a command may set another

    def _note(self, message: str) -> None:
        self.log.note(message)

    def _all_words(self) -> Iterator[tuple[str, int]]:
        how = {"format": self.format, "encoding": self.encoding, "allow_pipes": self.allow_pipes}
        return spelled_words([*self.places, *self.beside], **how)

    def _table_of_ids(self) -> SymbolTable | None:
        """Find the symbol table beside a source of ids, where an output spells words."""
        if self.spells_output is None or not self.spells_output():
            return None
        try:
            self.words = find_table(self.places)
        except OptionError as error:
            self.table_error = error
            return None
        self.log.note(f"words of {self.words}")
        return SymbolTable.read(self.words)


def _check_exists(names: tuple[str, ...]) -> None:
    """Refuse a single source that does not exist; of several, others can be read.

    Raises:
        InputError: As opening it does.
    """
    try:
        sources = tables(names, allow_pipes=True)  # no command is run for it
    except NinjaError:  # reading it raises the same
        return
    place = sources[0].place
    if len(sources) == 1 and place.command is None and place.path != STDIN and not os.path.exists(place.path):
        open_stream(place).close()
