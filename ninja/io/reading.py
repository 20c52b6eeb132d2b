"""``read``, ``keys`` and ``vocabulary``, which read sources in any format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, overload

from ninja.errors import NinjaError
from ninja.io.reader import Reading, ReadOptions, Words, spelled_words, words_in
from ninja.io.sources import Source, Sources, as_sources
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
    """Yield the key and the lattice of each entry of one or more files in any format, in order.

    Each file is opened once; its format and compression are detected from its content. As in Kaldi's tools, states that
    cannot be reached from the start are removed, and the others are sorted topologically if necessary. Costs in double
    precision (``lattice8``, ``compactlattice84``) are rounded to single precision.

    Lattices in formats that spell words get their ids from `words`. If it is None, the words of all files form one
    table, which grows while the files are read; lattices of a file that contains a symbol table, such as an Arrow file,
    keep that table.

    Args:
        source: A file, a folder, a list of files (one per line), ``-`` for stdin, a pattern (``lat.*.gz``,
            ``lat.JOB.gz``), a Kaldi rspecifier (``ark:…``, ``scp:…``, ``ark:gunzip -c lat.1.gz |``), or several of
            these. A lattice without a key gets the name of its file as key.
        batches: Yield `Batch` objects of many lattices each, which functions process in one call.
        words: Symbol table to attach, or its path; words that it lacks are errors. ``SymbolTable.growing()`` gets
            the words of all files, including those that contain symbol tables; no file may then contain only ids.
        format: Format of all files, such as ``slf``, or with options ``slf:frame_shift=0.016,graph=n``; see
            docs/formats.md. None detects the format of each file; formats that have no signature are detected by the
            extension.
        encoding: Encoding of text in formats other than Kaldi's.
        on_error: Called with the error of each invalid lattice, which is skipped; with None, the first error is raised.
            Lattices in Ninja's own format are read from the file, and their errors raised, when they are used. Errors
            that apply to all lattices (``error.of_run``) are always raised. After damage in a binary archive, the rest
            of the archive cannot be read.
        allow_pipes: Run shell commands in `source`. By default, only ``gunzip -c``, ``zcat`` and ``cat`` are accepted,
            and emulated. Commands in script files are never run.
        read_ahead: Read in a thread, ahead of the caller: up to 2 MB of an uncompressed file if there are several
            cores, and up to 32 MB of other sources.

    Raises:
        FormatError: A file is damaged or of another kind, or a folder contains no lattices.
        LatticeError: A lattice is empty, has a cycle, no final state, or a cost or an id that is out of range.
        SymbolError: A word is not in `words`.
        TableError: A word id is not in `words`, so the table belongs to other lattices.
        InputError: A file cannot be read, no file matches a pattern, or a command failed.
        OptionError: An option in an rspecifier, the format, or the encoding is unknown.

    Source: Kaldi util/kaldi-table.h ("Table" concept), lat/kaldi-lattice.cc; docs/formats.md for the others.
    """
    sources = as_sources(source, allow_pipes=allow_pipes)
    if words is None:
        others = partial(spelled_words, sources, format=format, encoding=encoding)
        known = Words(others=others, keep_tables=True)
    else:
        known = Words(words if isinstance(words, SymbolTable) else SymbolTable.read(words))
    options = ReadOptions(known, format, encoding, read_ahead=read_ahead, late=on_error is None)
    reading = Reading(sources, options, on_error=on_error)
    return reading.batches() if batches else reading.lattices()


def keys(
    source: Source, *, on_error: Callable[[NinjaError], None] | None = None, allow_pipes: bool = False
) -> Iterator[str]:
    """Yield the keys of one or more sources; for arguments and errors, see ``read``."""
    return (key for key, _ in read(source, on_error=on_error, allow_pipes=allow_pipes))


def vocabulary(
    source: Source, *, format: str | None = None, encoding: str = "utf-8", allow_pipes: bool = False
) -> SymbolTable | None:
    """Return a symbol table of the words that files contain as text, not as ids, in order of first occurrence.

    All files are read completely, so use this only if all words must be known before the first lattice. Lattices with
    errors are skipped. For arguments and other errors, see ``read``.

    Returns:
        The table, or None if no file contains words as text.
    """
    return words_in(Sources(source, allow_pipes=allow_pipes), format, encoding)
