"""Read lattices of one or many sources."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal, overload

from ninja.errors import NinjaError, OptionError
from ninja.files.stream import gives_bytes_once
from ninja.formats.format import by_name
from ninja.formats.kaldi.archive import KALDI
from ninja.formats.textual import check_encoding
from ninja.io.sources import ReadOptions, Source, Tables, Words, tables
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch
from ninja.lattice.symbols import SymbolTable


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

    Each file is opened once; its format, and whether it is packed with gzip, is seen from its content. States that the
    start does not reach are left out, and the others sorted topologically, as Kaldi's tools sort them, where they are
    not. Costs in double precision (``lattice8``, ``compactlattice84``) are rounded to single.

    Lattices of formats that spell words have the ids of `words`. Without it the words of all files make one table,
    which grows while they are read; lattices of a file with a table of its own, such as Arrow's, keep that.

    Args:
        source: A file, a directory, a list of files (one a line), ``-`` for the standard input, a pattern
            (``lat.*.gz``, ``lat.JOB.gz``), a Kaldi rspecifier (``ark:…``, ``scp:…``, ``ark:gunzip -c lat.1.gz |``), or
            several of these. A lattice without a key of its own gets its file's name as its key.
        batches: Yield `Batch` objects of many lattices each, which functions that take them work through in one call.
        words: Symbol table to attach, or its file; lattices with words it lacks are faulty then.
            ``SymbolTable.growing()`` takes in all words, also of files with tables of their own; then no file may hold
            ids alone.
        format: Read every file as this one: ``slf``, or with options ``slf:frame_shift=0.016,graph=n``; see
            docs/formats.md. Needed for formats without a mark whose extension is not theirs.
        on_error: Called with what is wrong with each faulty lattice, which is left out; without it the first fault is
            raised (of Ninja's own format, whose lattices stay in their file, when the lattice is used). Raised all the
            same is what would be as wrong for any other lattice (``error.of_run``). After damage within a binary
            archive, the rest of that archive cannot be read.
        allow_pipes: Run any command that `source` names; without it only ``gunzip -c``, ``zcat`` and ``cat`` are
            understood (and served without running them). Commands in script files are never run.
        read_ahead: Read in a thread, ahead of the caller: 2 MB of a plain file where there is more than one core, 32 MB
            of anything else.

    Raises:
        FormatError: Damage, something that is no lattice, or an empty directory.
        LatticeError: A lattice that is empty, has a cycle, no final state, or a cost or id out of range.
        SymbolError: A word that `words` lacks.
        TableError: The id of a word that `words` lacks: it is another table.
        InputError: A file that cannot be read, a pattern that matches none, a command that failed.
        OptionError: An unknown option in an rspecifier, an unknown format or encoding.

    Source: Kaldi util/kaldi-table.h ("Table" concept), lat/kaldi-lattice.cc; docs/formats.md for the others.
    """
    if words is None:
        others = partial(spelled_words, source, format=format, encoding=encoding, allow_pipes=allow_pipes)
        known = Words(SymbolTable.growing(others=others), own=True)
    else:
        known = Words(words if isinstance(words, SymbolTable) else SymbolTable.read(words))
    options = ReadOptions(known, format, encoding, read_ahead, late=on_error is None)
    reading = Reading(source, options, on_error=on_error, allow_pipes=allow_pipes)
    return reading.batches() if batches else reading.lattices()


class Reading:
    """Lattices of sources that are being read.

    Args:
        source: As for `read`.
        options: How files are read.
        on_error: As for `read`.
        allow_pipes: As for `read`.
    """

    def __init__(
        self,
        source: Source,
        options: ReadOptions,
        *,
        on_error: Callable[[NinjaError], None] | None = None,
        allow_pipes: bool = False,
    ) -> None:
        if options.encoding != "utf-8":
            check_encoding(options.encoding)
        self.options = options
        self._on_error = on_error
        self._tables = Tables(options)
        self._batches = self._tables.batches(tables(source, allow_pipes=allow_pipes))
        self._position = 0.0  # bytes of all files up to the end of the last entry
        self._begun: list[Batch] = []  # batches read by `begin` that are still to be yielded

    @property
    def share(self) -> float | None:
        """Share of all files read so far, up to the end of the last lattice given, 0 to 1; None: not known."""
        size = self._tables.size
        return min(1.0, self._position / size) if size and self._position else None

    @property
    def file(self) -> str | None:
        """File of the last lattice given, or the script file that lists it."""
        return self._tables.file

    def begin(self) -> SymbolTable | None:
        """Read the first lattices and return the symbol table of their words; None: they have ids alone."""
        for batch in self._batches:
            self._begun.append(batch)
            if len(batch):
                break
        self._batches = _behind(self._begun, self._batches)
        return self.options.words.found

    def single_scores(self) -> str | None:
        """Describe lattices whose paths have one score, by the first ones that were read; None: they have several.

        N-best lists count as such also where their files keep several scores.
        """
        if any(name != KALDI and by_name(name, "read").holds == "nbest" for name in self.options.formats):
            return "n-best lists"
        for lattice in self._begun[-1] if self._begun else ():
            if lattice.graph.any() or lattice.final_graph[lattice.is_final].any():
                return None
            if lattice.acoustic.any() or lattice.final_acoustic[lattice.is_final].any():
                return "lattices without graph costs"
        return None

    def lattices(self) -> Iterator[tuple[str, Lattice]]:
        """Yield the key and the lattice of each entry."""
        try:
            for batch in self._batches:
                step = max(0.0, batch.position - self._position) / max(1, len(batch) + len(batch.faults))
                for key, found in batch.entries():
                    self._position += step
                    if not isinstance(found, NinjaError):
                        yield key, found
                    elif self._on_error is None or found.of_run:
                        raise found
                    else:
                        self._on_error(found)
        finally:
            self.close()

    def batches(self) -> Iterator[Batch]:
        """Yield the lattices in batches, none of them empty, without faults, which are reported before their batch."""
        try:
            for batch in self._batches:
                self._position = max(self._position, batch.position)
                for before, found in batch.faults:
                    if self._on_error is not None and not found.of_run:
                        self._on_error(found)
                        continue
                    if before:
                        yield batch.first(before)
                    raise found
                if len(batch):
                    yield batch.without_faults()
        finally:
            self.close()

    def close(self) -> None:
        """End reading."""
        self._batches.close()  # type: ignore[attr-defined]


def _behind(begun: list[Batch], rest: Iterator[Batch]) -> Iterator[Batch]:
    try:
        while begun:
            yield begun.pop(0)  # nothing holds it longer than its reader
        yield from rest
    finally:
        rest.close()  # type: ignore[attr-defined]


def keys(
    source: Source, *, on_error: Callable[[NinjaError], None] | None = None, allow_pipes: bool = False
) -> Iterator[str]:
    """Yield the keys of one or many tables; arguments and errors are those of ``read``."""
    return (key for key, _ in read(source, on_error=on_error, allow_pipes=allow_pipes))


def vocabulary(
    source: Source, *, format: str | None = None, encoding: str = "utf-8", allow_pipes: bool = False
) -> SymbolTable | None:
    """Return one symbol table of the words that files spell, in the order in which they come.

    Every file is read for it: only a caller who must know all words before the first lattice needs it. Faults of
    lattices are left to ``read``. Arguments and errors are those of ``read``.

    Returns:
        The table; None if no file spells its words.
    """
    words = SymbolTable.growing()
    options = ReadOptions(Words(words), format, encoding, read_ahead=False, on_note=lambda _: None)
    reading = Reading(source, options, on_error=lambda _: None, allow_pipes=allow_pipes)
    spelled = False
    for _, lattice in reading.lattices():
        spelled |= lattice.words is words
    return words if spelled else None


def spelled_words(source: Source, **how: Any) -> Iterator[tuple[str, int]]:
    """Yield the words of a source that is read for them alone; see `vocabulary`.

    Raises:
        OptionError: It can be read only once.
    """
    for table in tables(source, allow_pipes=how["allow_pipes"]):
        if table.place.command is not None or gives_bytes_once(table.place.path):
            raise OptionError(
                f"{table.place.name}: its words must be known before its lattices are read, which a pipe does not "
                "allow; give the symbol table (--words), for unknown words of a model their cost (--unk-penalty)"
            )
    yield from vocabulary(source, **how) or ()
