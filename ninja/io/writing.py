"""Functions that open a file or folder for writing lattices in any format."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

from ninja.files.output import Facts
from ninja.files.stream import Guard
from ninja.formats.content import check_encoding
from ninja.formats.format import OutputFormat, format_of
from ninja.io.sources import ChosenScales
from ninja.io.writer import KaldiWriter, LatticeWriter, OutputSettings
from ninja.lattice.lattice import Scales
from ninja.lattice.symbols import SymbolTable


def write(
    name: str | os.PathLike[str] | OutputFormat,
    *,
    resume: bool = False,
    kind: Literal["compact", "raw"] | None = None,
    to: str | None = None,
    lossy: Literal["allow", "refuse"] = "allow",
    words: SymbolTable | str | os.PathLike[str] | None = None,
    words_out: str | os.PathLike[str] | None = None,
    encoding: str = "utf-8",
    scales: Scales | None = None,
    chosen: ChosenScales | None = None,
    run: Facts | None = None,
    guard: Guard | None = None,
    originals: Sequence[str] = (),
) -> LatticeWriter:
    """Open a file or folder for writing lattices; use the returned writer in a ``with`` block.

    The output gets its final name when the block ends without an exception; otherwise it is removed. An output can
    replace a source; the source's reader then continues to read the old file.

        with ninja.write("ark,t:out.txt") as output:
            output.write(lattice)

    The extension selects the format: text for ``.txt``, other formats for ``.slf``, ``.fst``, ``.pt``, ``.arrow``,
    ``.jsonl`` and so on, and a binary Kaldi archive for unknown extensions. Formats that store one lattice per file
    write a file if the name has their extension, and otherwise a folder with one file per lattice, named after its key.
    Formats for n-best lists store the best hypotheses of a lattice, and formats for confusion networks store its
    confusion network; n-best lists and networks can also be written directly. If the output contains word ids, the
    symbol table is written next to it, unless the table was read from a file.

    Args:
        name: A path (compressed if it ends in ``.gz``, text if it ends in ``.txt``), ``-`` for stdout, or a Kaldi
            wspecifier: ``ark:…``, ``ark,t:…``, ``ark,scp:A,S``, ``ark:| gzip -c > F`` (emulated without a shell).
        resume: Continue the output of an earlier attempt, whether complete or not; the writer's ``keys_done`` contains
            the keys of the lattices in it. If this attempt fails, its output is saved for the next attempt. Only for
            Kaldi archives.
        kind: Kind to which lattices are converted; None keeps the kind of each lattice. Only for Kaldi archives.
        to: The format and its options, such as ``slf`` or ``slf:base=10,frame_shift=0.01``; see docs/formats.md. None
            selects the format by the extension. k2 and espnet keep all lattices in memory until the block ends.
        lossy: "refuse" raises an error for lattices with fields that the format cannot store; "allow" drops such fields
            and counts them in ``lost``.
        words: Symbol table of the lattices, or its path; None uses each lattice's table. An output that stores ids
            (``needs_words``) accepts only lattices that share a table.
        words_out: File for the symbol table; None writes it next to the output if necessary.
        encoding: Encoding of words in non-Kaldi text formats.
        scales: Scales for combining the costs in formats with a single cost, in n-best lists and in networks, unless
            `to` sets them. None uses the scales of `chosen`, or else acoustic scale 1, LM scale 1 and word penalty 0.
        chosen: Scales chosen for the lattices, for example in rescoring. If costs are written unscaled, the scales are
            written to a file next to the output, where `find_scales` and the commands find them.
        run: Facts that identify the run and determine its lattices; see `ninja.io.resume`. With `resume`, an output
            from a different run is refused, and a complete output from an unknown run is not extended; None omits
            these checks. Only for Kaldi archives.
        guard: Guard that protects the inputs from being replaced.
        originals: Paths of all files from which the lattices were read, in order. Formats that preserve all other
            fields of the input files require these paths. A file is copied if none of its lattices are written.

    Raises:
        OptionError: The name is invalid, or the format or one of its options does not exist.
        InputError: The symbol table cannot be read.

    Source: Kaldi util/kaldi-table.h, lat/kaldi-lattice.cc; OpenFst vector-fst.h.
    """
    form = name if isinstance(name, OutputFormat) else format_of(name, to)
    if encoding != "utf-8":
        check_encoding(encoding)
    settings = OutputSettings.of(
        form,
        resume=resume,
        kind=kind,
        lossy=lossy,
        words=words if isinstance(words, SymbolTable | None) else SymbolTable.read(words),
        words_out=None if words_out is None else os.fspath(words_out),
        encoding=encoding,
        scales=scales,
        chosen=chosen,
        run=run,
        guard=guard,
        originals=originals,
    )
    return open_writer(settings)


def open_writer(output: OutputSettings) -> LatticeWriter:
    """Return the writer for an output.

    Raises:
        OptionError: The format cannot be written to the file or folder.
    """
    if output.resume:
        from ninja.io.resume import ResumedWriter

        return ResumedWriter(output)
    if output.is_kaldi:
        return KaldiWriter(output)
    from ninja.io.layouts import writer_of

    return writer_of(output)
