"""Read lattices from whatever a user names: the door of this floor."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing

from ninja.errors import NinjaError, OptionError
from ninja.formats.kaldi.archive import Batch, Vocabulary
from ninja.formats.textual import check_encoding
from ninja.io.batches import Asked, batches, spells
from ninja.io.sources import Source, tables
from ninja.io.wording import Merging
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable


def read(
    source: Source,
    *,
    words: SymbolTable | str | os.PathLike[str] | None = None,
    format: str | None = None,
    encoding: str = "utf-8",
    on_error: Callable[[NinjaError], None] | None = None,
    allow_pipes: bool = False,
    read_ahead: bool = True,
) -> Iterator[tuple[str, Lattice]]:
    """Yield the key and the lattice of each entry of one or many files of any format, in their order.

    What a file holds, and whether it is packed with gzip, is seen from its content. The states of a lattice are sorted
    topologically where they are not yet, in the order in which Kaldi's tools would sort them, without the states that
    the start does not reach; otherwise states and arcs keep their numbers. Costs in double precision (``lattice8``,
    ``compactlattice84``) are rounded to single.

    Lattices of formats that spell words have the ids of `words`. Without it, each file's own words make a table; then
    ids of two files mean different words, unless ``vocabulary(source)`` is given as `words`.

    Args:
        source: A file, a directory, a list of files (one a line), ``-`` for the standard input, a pattern
            (``lat.*.gz``, ``lat.JOB.gz``), a Kaldi rspecifier (``ark:…``, ``scp:…``, ``ark:gunzip -c lat.1.gz |``), or
            several of these. A lattice without a key of its own gets its file's name as its key.
        words: Symbol table to attach, or its file; lattices with words it lacks are faulty then.
        format: Read every file as this one: ``slf``, or with options ``slf:frame_shift=0.016,graph=n``; see
            docs/formats.md. Needed where a file could be of two.
        encoding: Of text.
        on_error: Called with what is wrong with each faulty lattice, which is left out; without it the first fault is
            raised (of Ninja's own format, whose lattices stay in their file, when the lattice is used). After damage
            within a binary archive, the rest of that archive cannot be read.
        allow_pipes: Run any command that `source` names; without it only ``gunzip -c``, ``zcat`` and ``cat`` are
            understood (and served without running them). Commands in script files are never run.
        read_ahead: Read in a thread, ahead of the caller: 2 MB of a plain file where there is more than one core, 32 MB
            of anything else.

    Raises:
        FormatError: Damage, something that is no lattice, or a file that could be of two formats.
        LatticeError: A lattice that is empty, has a cycle, no final state, or a cost or id out of range.
        SymbolError: A word, or the id of one, that `words` lacks.
        InputError: A file that cannot be read, a pattern that matches none, a command that failed.
        OptionError: An unknown option in an rspecifier, an unknown format or encoding.

    Source: Kaldi util/kaldi-table.h ("Table" concept), lat/kaldi-lattice.cc; docs/formats.md for the others.
    """
    check_encoding(encoding)
    table = words if words is None or isinstance(words, SymbolTable) else SymbolTable.read(words)
    asked = Asked(Vocabulary.of(table), format, encoding, read_ahead, late=on_error is None)
    found = tables(source, allow_pipes=allow_pipes, forced=format is not None)
    return _entries(batches(found, asked), on_error)


def keys(
    source: Source, *, on_error: Callable[[NinjaError], None] | None = None, allow_pipes: bool = False
) -> Iterator[str]:
    """Yield the keys of one or many tables; arguments and errors are those of ``read``."""
    return (key for key, _ in read(source, on_error=on_error, allow_pipes=allow_pipes))


def vocabulary(
    source: Source, *, format: str | None = None, encoding: str = "utf-8", allow_pipes: bool = False
) -> SymbolTable | None:
    """Return one symbol table for the words that files spell, in the order in which they come.

    Every file is read for it, but Kaldi's archives, whose words are ids only. What is wrong with a lattice is passed
    over; ``read`` will tell. Words of one file and ids of another are not mixed: nobody knows what the ids mean.

    Args:
        source: As for ``read``; the standard input is kept in memory for it, if it is spelled.
        format: As for ``read``.
        encoding: As for ``read``.
        allow_pipes: As for ``read``; the output of commands is not looked at.

    Returns:
        The table; None if no file spells its words.

    Raises:
        InputError: A pattern that no file matches.
        OptionError: As for ``read``; or one file spells its words, and another holds ids only.
    """
    asked = Asked(Vocabulary(), format, encoding, read_ahead=False)
    found = [
        (table, spells(table, asked)) for table in tables(source, allow_pipes=allow_pipes, forced=format is not None)
    ]
    bare = [table.place.command or table.place.path for table, spelled in found if spelled is False]
    words = Merging()
    for table in [table for table, spelled in found if spelled]:
        for batch in batches([table], asked):
            for _, lattice in batch.entries:
                if not isinstance(lattice, Lattice):
                    continue
                if lattice.words is not None:
                    words.add(lattice.words)
                elif lattice.word.any():
                    bare.append(table.place.path)
    merged = words.table()
    if merged is not None and bare:
        raise OptionError(
            f"{bare[0]} holds ids of words, but another source spells words; say with words= (--words) what ids mean"
        )
    return merged


def _entries(batches: Iterator[Batch], on_error: Callable[[NinjaError], None] | None) -> Iterator[tuple[str, Lattice]]:
    with closing(batches):  # type: ignore[type-var]
        for batch in batches:
            if not batch.faulty:
                yield from batch.entries  # type: ignore[misc]
                continue
            for key, found in batch.entries:
                if not isinstance(found, NinjaError):
                    yield key, found
                elif on_error is None:
                    raise found
                else:
                    on_error(found)
