"""Read lattices from whatever a user names: the door of this floor."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing

from ninja.errors import NinjaError
from ninja.formats.kaldi import Batch, Vocabulary, batches
from ninja.formats.sources import Source, tables
from ninja.lattice import Lattice
from ninja.symbols import SymbolTable


def read(
    source: Source,
    *,
    words: SymbolTable | str | os.PathLike[str] | None = None,
    on_error: Callable[[NinjaError], None] | None = None,
    allow_pipes: bool = False,
    read_ahead: bool = True,
) -> Iterator[tuple[str, Lattice]]:
    """Yield the key and the lattice of each entry of one or many tables, in their order.

    Whether a table is binary or text, packed with gzip or not, is seen from its content. The states of a lattice are
    sorted topologically where they are not yet, in the order in which Kaldi's tools would sort them, without the states
    that the start does not reach; otherwise states and arcs keep their numbers. Costs in double precision
    (``lattice8``, ``compactlattice84``) are rounded to single.

    Args:
        source: A file, a directory of archives, ``-`` for the standard input, a pattern (``lat.*.gz``, ``lat.JOB.gz``),
            a Kaldi rspecifier (``ark:…``, ``scp:…``, ``ark:gunzip -c lat.1.gz |``), or a list of these. A file of one
            lattice without a key (OpenFst's, too) gets the file's name as its key.
        words: Symbol table to attach, or its file; lattices with word ids it lacks are faulty then.
        on_error: Called with what is wrong with each faulty lattice, which is left out; without it the first fault is
            raised. After damage within a binary archive, the rest of that archive cannot be read.
        allow_pipes: Run any command that `source` names; without it only ``gunzip -c``, ``zcat`` and ``cat`` are
            understood (and served without running them). Commands in script files are never run.
        read_ahead: Read in a thread, ahead of the caller: 2 MB of a plain file, 32 MB of anything else.

    Raises:
        FormatError: Damage, or something that is no lattice.
        LatticeError: A lattice that is empty, has a cycle, no final state, or a cost or id out of range.
        SymbolError: A word id that `words` lacks.
        InputError: A file that cannot be read, a pattern that matches none, a command that failed.
        OptionError: An unknown option in an rspecifier.

    Source: Kaldi util/kaldi-table.h ("Table" concept), lat/kaldi-lattice.cc.
    """
    table = words if words is None or isinstance(words, SymbolTable) else SymbolTable.read(words)
    found = tables(source, allow_pipes=allow_pipes)
    return _entries(batches(found, Vocabulary.of(table), read_ahead=read_ahead), on_error)


def keys(
    source: Source, *, on_error: Callable[[NinjaError], None] | None = None, allow_pipes: bool = False
) -> Iterator[str]:
    """Yield the keys of one or many tables; arguments and errors are those of ``read``."""
    return (key for key, _ in read(source, on_error=on_error, allow_pipes=allow_pipes))


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
