"""``Inputs``: lattices that a user has named, with the options of reading them and the files beside them; ``read``."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, overload

from ninja.errors import NinjaError, OptionError
from ninja.files.output import Guard
from ninja.files.place import STDIN, Table, identity_of
from ninja.files.threads import num_cores
from ninja.io.lookup import Lookup
from ninja.io.reading import Reading, ReadOptions
from ninja.io.scales import ChosenScales, find_scales
from ninja.io.sources import Source, SourceFile, Sources, as_sources
from ninja.io.symbol_tables import Words, find_table
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch
from ninja.lattice.symbols import SymbolTable
from ninja.log import Log

Name = str | os.PathLike[str]
Watch = Callable[[Reading], Iterator[tuple[str, Lattice]]]


@dataclass
class Inputs:
    """Sources of lattices with the options of reading them; names are resolved once, and files opened once.

    Args:
        names: A file, folder, pattern, list of files, Kaldi rspecifier or ``-``, as for ``ninja.read``, or several.
        words: Symbol table, or its file.  [default: the words that the sources spell, or the table beside them]
        format: Format of the sources with its options.  [default: detected by content]
        encoding: Encoding of text in formats other than Kaldi's.
        allow_pipes: Run commands named as sources.
        log: Notes and failures; with its ``on_error`` lattices that fail are left out, without it the first is raised.
        read_ahead: Read in a thread, ahead of the caller.
        beside: Other sources whose words must be known before the first lattice.
        are_lattices: The sources are lattices, whose words can make a symbol table.
        spells_words: An output needs the names of ids, so the table beside the sources is read.
        guard: Notes each file that is read, which no output may replace.
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
    spells_words: bool = False
    guard: Guard | None = None
    sources: Sources = None  # type: ignore[assignment] # the files that the names refer to
    watch: Watch | None = None  # shows the progress of reading
    table_error: OptionError | None = None  # why there is no table beside the sources, where an output spells words
    formats: Counter[str] = field(default_factory=Counter)  # number of files of each format that was read
    tables: tuple[Table, ...] | None = None  # the part of the sources that is read  [default: all]
    digest: Any = None  # hash that is updated with the keys read
    is_part: bool = False  # one file of several, of which others can be read
    default_scales: frozenset[str] = frozenset()  # scales that neither the user nor a file beside the sources gives
    _symbols: SymbolTable | None = None
    _words: Words | None = None
    _begun: Reading | None = None  # whose first lattices have been read
    _current: Reading | None = None
    _table_path: str | None = None

    def __post_init__(self) -> None:
        """Convert the names to strings, and a symbol table to its file."""
        names = (self.names,) if isinstance(self.names, str | os.PathLike) else tuple(self.names)
        self.names = tuple(name if isinstance(name, str) else os.fspath(name) for name in names)
        if isinstance(self.words, SymbolTable):
            self._symbols, self.words = self.words, self.words.path
        if self.sources is None:
            self.sources = Sources(self.places, allow_pipes=self.allow_pipes, guard=self.guard)

    def with_names(self, names: Sequence[str]) -> Inputs:
        """Return the inputs of other names, with the same options and symbol table."""
        return replace(self, names=names, sources=self.sources.select(names), tables=None, _begun=None, _current=None)

    @property
    def places(self) -> tuple[str, ...]:
        """The names, as strings."""
        return self.names  # type: ignore[return-value]

    @property
    def on_failure(self) -> Callable[[NinjaError], None] | None:
        """Function that is called with the failures of lattices; None where the first one is raised."""
        return self._fail if self.log.on_error is not None else None

    @cached_property
    def scales(self) -> ChosenScales | None:
        """Scales that were chosen for the lattices, in a file beside them.

        Raises:
            OptionError: The sources have different ones.
        """
        return find_scales(self.sources)

    @property
    def share(self) -> float | None:
        """Share of the sources' bytes read so far, up to the end of the last lattice, 0 to 1; None if unknown."""
        return None if self._current is None else self._current.share

    @property
    def file(self) -> str | None:
        """File of the last lattice read."""
        return None if self._current is None else self._current.file

    def single_scores(self) -> str | None:
        """Describe lattices whose paths have one score, see `Reading.single_scores`; reads the first lattices."""
        return self._begin().single_scores()

    def table(self) -> SymbolTable | None:
        """Return the symbol table: `words`, else that of the words which the sources spell.

        The first lattices are read for it; a table of their words grows while others are read.
        """
        self._load_words()
        if self._symbols is None and self.are_lattices and self._words is None:
            self._begin()
        return self._symbols if self._words is None else self._words.known

    def need_table(self) -> SymbolTable:
        """Return the symbol table, for sources of ids the one beside them.

        Raises:
            NinjaError: The sources cannot be read, or their words have no names.
        """
        self.spells_words = True
        table = self.table()
        if table is None:
            if self.table_error is None and self.are_lattices:
                for _ in self.read(None):  # a source that cannot be read is the cause, and is reported
                    break
            raise self.table_error or OptionError("there are no words; give their symbol table with --words")
        return table

    def find_table(self) -> str:
        """Return the path of the symbol table beside the sources.

        Raises:
            OptionError: There is none, or there are several.
        """
        if self._table_path is None:
            self._table_path = find_table(self.places)
        return self._table_path

    def lattices(self) -> Iterator[tuple[str, Lattice]]:
        """Yield the key and the lattice of each entry, source by source."""
        lattices = self._watched(self._start())
        return lattices if self.digest is None else self._digested(lattices)

    def batches(self) -> Iterator[Batch]:
        """Yield the lattices in batches, without faults, which go to the log."""
        batches = self._start().batches()
        return batches if self.digest is None else self._digested_batches(batches)

    def read(self, on_error: Callable[[NinjaError], None] | None) -> Iterator[tuple[str, Lattice]]:
        """Read the lattices in another pass; `on_error` as for ``ninja.read``."""
        return self._watched(self._reading(on_error))

    def lookup(self, name: str) -> Lookup:
        """Open another source for lattices by their keys."""
        return Lookup(self.sources.select((name,)), self._options(), on_error=self.on_failure)

    def like(self, names: Sequence[str], log: Log) -> Inputs:
        """Return other inputs that are read in the same way, with the same words."""
        self.table()
        sources = self.sources.select(tuple(names))
        other = replace(self, names=names, log=log, sources=sources, tables=None, digest=None)
        other._begun = other._current = other._table_path = None
        return other

    def part(self, name: str, file: SourceFile) -> Inputs:
        """Return the inputs of one file, with the same words and log."""
        self._options()  # the words are those of all parts
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
            self._words = Words(self._symbols or SymbolTable.growing(others=self._all_words), self._table_of_ids)
        return ReadOptions(
            self._words,
            self.format,
            self.encoding,
            self.read_ahead,
            formats=self.formats,
            on_note=self._note,
            guard=self.guard,
        )

    def _fail(self, error: NinjaError) -> None:
        self.log.fail(error)  # of the current log, which a command may replace

    def _note(self, message: str) -> None:
        self.log.note(message)

    def _all_words(self) -> Iterator[tuple[str, int]]:
        sources = self.sources.select((*self.places, *self.beside))
        return spelled_words(sources, format=self.format, encoding=self.encoding)

    def _table_of_ids(self) -> SymbolTable | None:
        """Read the symbol table beside a source of ids, where an output spells words."""
        if not self.spells_words:
            return None
        try:
            self.words = self.find_table()
        except OptionError as error:
            self.table_error = error
            return None
        if self.guard is not None:
            self.guard.read(self.words, identity_of(self.words))
        self.log.note(f"words of {self.words}")
        return SymbolTable.read(self.words)


def _check_exists(sources: Sources) -> None:
    """Refuse a single source that does not exist; of several, others can be read.

    Raises:
        InputError: As opening it does.
    """
    files = sources.resolvable_files
    if (
        len(files) == 1
        and files[0].place.command is None
        and files[0].path != STDIN
        and not os.path.exists(files[0].path)
    ):
        files[0].open().close()


@overload
def read(
    source: Source,
    *,
    batches: Literal[False] = False,
    words: SymbolTable | str | os.PathLike[str] | None = None,
    format: str | None = None,
    encoding: str = "utf-8",
    on_error: Callable[[NinjaError], None] | None = None,
    allow_pipes: bool = False,
    read_ahead: bool = True,
) -> Iterator[tuple[str, Lattice]]: ...
@overload
def read(
    source: Source,
    *,
    batches: Literal[True],
    words: SymbolTable | str | os.PathLike[str] | None = None,
    format: str | None = None,
    encoding: str = "utf-8",
    on_error: Callable[[NinjaError], None] | None = None,
    allow_pipes: bool = False,
    read_ahead: bool = True,
) -> Iterator[Batch]: ...
def read(
    source: Source,
    *,
    batches: bool = False,
    words: SymbolTable | str | os.PathLike[str] | None = None,
    format: str | None = None,
    encoding: str = "utf-8",
    on_error: Callable[[NinjaError], None] | None = None,
    allow_pipes: bool = False,
    read_ahead: bool = True,
) -> Iterator[tuple[str, Lattice]] | Iterator[Batch]:
    """Yield the key and the lattice of each entry of one or many files of any format, in their order.

    Each file is opened once; its format, and whether it is gzip, are detected by its content. States that cannot be
    reached from the start are removed, and the others sorted topologically, as by Kaldi's tools, if necessary. Costs in
    double precision (``lattice8``, ``compactlattice84``) are rounded to single.

    Lattices of formats that spell words have the ids of `words`. Without it the words of all files form one table,
    which grows while they are read; lattices of a file with a table of its own, such as Arrow's, keep that table.

    Args:
        source: A file, a directory, a list of files (one in each line), ``-`` for the standard input, a pattern
            (``lat.*.gz``, ``lat.JOB.gz``), a Kaldi rspecifier (``ark:…``, ``scp:…``, ``ark:gunzip -c lat.1.gz |``), or
            several of these. A lattice without a key gets its file's name as its key.
        batches: Yield `Batch` objects of many lattices each, which functions process in one call.
        words: Symbol table to attach, or its file; lattices with other words are errors then.
            ``SymbolTable.growing()`` takes in all words, also of files with tables of their own; then no file may hold
            ids alone.
        format: Format of every file: ``slf``, or with options ``slf:frame_shift=0.016,graph=n``; see docs/formats.md.
            Needed for formats without a mark if the file has another extension.  [default: detected]
        encoding: Encoding of text in formats other than Kaldi's.
        on_error: Called with the error of each faulty lattice, which is left out; without it, the first error is
            raised (of Ninja's own format, whose lattices stay in their file, when the lattice is used). Errors that
            apply to any lattice (``error.of_run``) are always raised. After damage within a binary archive, the rest of
            that archive cannot be read.
        allow_pipes: Run any command that `source` names; by default only ``gunzip -c``, ``zcat`` and ``cat`` are
            understood, and served without running them. Commands in script files are never run.
        read_ahead: Read in a thread, ahead of the caller: 2 MB of a plain file if there is more than one core, 32 MB
            of anything else.

    Raises:
        FormatError: Damage, a file of another kind, or a directory without lattices.
        LatticeError: A lattice that is empty, has a cycle, no final state, or a cost or id out of range.
        SymbolError: A word that `words` lacks.
        TableError: The id of a word that `words` lacks: the table belongs to other lattices.
        InputError: A file cannot be read, no file matches a pattern, or a command failed.
        OptionError: An unknown option in an rspecifier, an unknown format or encoding.

    Source: Kaldi util/kaldi-table.h ("Table" concept), lat/kaldi-lattice.cc; docs/formats.md for the others.
    """
    sources = as_sources(source, allow_pipes=allow_pipes)
    if words is None:
        others = partial(spelled_words, sources, format=format, encoding=encoding)
        known = Words(SymbolTable.growing(others=others), keep_tables=True)
    else:
        known = Words(words if isinstance(words, SymbolTable) else SymbolTable.read(words))
    options = ReadOptions(known, format, encoding, read_ahead, late=on_error is None)
    reading = Reading(sources, options, on_error=on_error)
    return reading.batches() if batches else reading.lattices()


def keys(
    source: Source, *, on_error: Callable[[NinjaError], None] | None = None, allow_pipes: bool = False
) -> Iterator[str]:
    """Yield the keys of one or many tables; arguments and errors are those of ``read``."""
    return (key for key, _ in read(source, on_error=on_error, allow_pipes=allow_pipes))


def vocabulary(
    source: Source, *, format: str | None = None, encoding: str = "utf-8", allow_pipes: bool = False
) -> SymbolTable | None:
    """Return one symbol table of the words that files spell, in the order of their first occurrence.

    All files are read for it; use it only if all words must be known before the first lattice. Errors of
    lattices are left to ``read``. Arguments and errors are those of ``read``.

    Returns:
        The table; None if no file spells its words.
    """
    return _vocabulary(Sources(source, allow_pipes=allow_pipes), format, encoding)


def _vocabulary(sources: Sources, format: str | None, encoding: str) -> SymbolTable | None:
    words = SymbolTable.growing()
    options = ReadOptions(Words(words), format, encoding, read_ahead=False, on_note=lambda _: None)
    spells = False
    for _, lattice in Reading(sources, options, on_error=lambda _: None).lattices():
        spells |= lattice.words is words
    return words if spells else None


def spelled_words(sources: Sources, *, format: str | None, encoding: str) -> Iterator[tuple[str, int]]:
    """Yield the words of sources that are read for them alone; see `vocabulary`.

    Raises:
        OptionError: A source can be read only once.
    """
    for file in sources.files:
        if file.is_pipe:
            raise OptionError(
                f"{file.name}: its words must be known before its lattices are read, which a pipe does not "
                "allow; give the symbol table (--words), for unknown words of a model their cost (--unk-penalty)"
            )
    yield from _vocabulary(sources.reopened(), format, encoding) or ()
