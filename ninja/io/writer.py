"""``write``, which opens a file or folder for lattices in any format."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

from ninja.errors import OptionError
from ninja.files.output import Facts, Target, is_specifier, target
from ninja.files.stream import STDIN as STDOUT
from ninja.files.stream import Guard
from ninja.formats.content import check_encoding
from ninja.formats.format import Format, WriteSettings, by_extension, by_name, fill_options, split_options
from ninja.io.companions import ChosenScales
from ninja.io.lattice_writer import KaldiWriter, LatticeWriter, OutputSettings
from ninja.lattice.lattice import Scales
from ninja.lattice.symbols import SymbolTable

KALDI = ("binary", "text")  # Kaldi archives, which may have script files and can be resumed
_NO_OUTPUTS = {  # extensions that cannot be written
    ".stm": "STM cannot be written; use JSON lines (.jsonl) for words with times",
    ".feather": "Feather cannot be written; use Parquet (.parquet)",
    ".scp": "a script file requires an archive; use ark,scp:FILE.ark,FILE.scp",
}
_ONE_COST = ("costs", "scores")  # format options that may select a single unscaled cost


class OutputFormat(NamedTuple):
    """The name of an output, resolved to its files and format."""

    name: str
    to: str | None  # format with its options, as the user named it
    target: Target
    format: Format
    options: Mapping[str, str]

    @property
    def is_kaldi(self) -> bool:
        """Whether the output is a Kaldi archive."""
        return self.format.name in KALDI

    @property
    def spells_words(self) -> bool:
        """Whether words are written instead of word ids."""
        assert self.format.write is not None
        options = fill_options(self.format.write.options, self.options, self.format.name)
        return "ids" not in self.format.kept(options)


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
    """Open a file or folder for lattices; use the result in a ``with`` block.

    The output gets its name when the block ends without an exception; otherwise it is removed. It may have the name of
    a source; the reader of the source then continues to read the old file.

        with ninja.write("ark,t:out.txt") as output:
            output.write(lattice)

    The extension selects the format: text for ``.txt``, other formats for ``.slf``, ``.fst``, ``.pt``, ``.arrow``,
    ``.jsonl`` and so on, and a binary Kaldi archive for unknown extensions. Formats that store one lattice per file
    write a file if the name has their extension, and otherwise a folder with a file per lattice, named by its key.
    Formats for n-best lists store the best hypotheses of a lattice, and formats for confusion networks its network;
    n-best lists and networks can also be written directly. If the output contains word ids, the symbol table is written
    next to it, unless the table was read from a file.

    Args:
        name: A path (compressed if it ends in ``.gz``, text if it ends in ``.txt``), ``-`` for stdout, or a Kaldi
            wspecifier: ``ark:…``, ``ark,t:…``, ``ark,scp:A,S``, ``ark:| gzip -c > F`` (emulated without a shell).
        resume: Continue the output of an earlier attempt, complete or not; ``keys_done`` of the writer has the keys of
            its lattices. If this attempt fails, its output is saved for the next one. Only for Kaldi archives.
        kind: Kind to which lattices are converted; None keeps the kind of each lattice. Only for Kaldi archives.
        to: The format and its options, such as ``slf`` or ``slf:base=10,frame_shift=0.01``, see docs/formats.md; None
            selects it by the extension. k2 and espnet keep all lattices in memory until the block ends.
        lossy: "refuse" raises an error for lattices with fields that the format cannot store; "allow" drops such fields
            and counts them in ``lost``.
        words: Symbol table of the lattices, or its path; None uses each lattice's table. An output of ids
            (``needs_words``) accepts only lattices that share a table.
        words_out: File for the symbol table; None writes it next to the output if necessary.
        encoding: Encoding of words in text formats other than Kaldi's.
        scales: Scales for combining the costs in formats with a single cost, in n-best lists and in networks, unless
            `to` sets them. None uses the scales of `chosen`, or else 1, 1 and 0.
        chosen: Scales chosen for the lattices, for example in rescoring. If costs are written unscaled, the scales are
            written to a file next to the output, where `find_scales` and the commands find them.
        run: Facts on which the lattices depend, see `ninja.io.resume`. With `resume`, an output of another run is
            refused, and a complete output of an unknown run is not extended; None checks nothing. Only for Kaldi
            archives.
        guard: Protects the inputs from being replaced.
        originals: Paths of all files from which the lattices come, in order, for formats that restore all other fields
            of the input files; files whose lattices are not written are copied.

    Raises:
        OptionError: The name is invalid, or the format or one of its options does not exist.
        InputError: The symbol table cannot be read.

    Source: Kaldi util/kaldi-table.h, lat/kaldi-lattice.cc; OpenFst vector-fst.h.
    """
    form = name if isinstance(name, OutputFormat) else format_of(name, to)
    format, target = form.format, form.target
    path = target.archive
    for option, is_given in (("resume", resume), ("kind", kind is not None)):
        if is_given and not form.is_kaldi:
            raise OptionError(
                f"{option} applies only to Kaldi archives, but the format of {form.name!r} is {format.name}"
            )
    if scales is None and chosen is not None:
        scales = chosen.scales
    values, note = (form.options, None) if form.is_kaldi or scales is None else _scaled(format, form.options, scales)
    if encoding != "utf-8":
        check_encoding(encoding)
    assert format.write is not None
    if not isinstance(words, SymbolTable | None):
        words = SymbolTable.read(words)
    text = path.removesuffix(".gz").endswith(".txt")
    output = OutputSettings(
        path,
        format,
        WriteSettings(
            fill_options(format.write.options, values, format.name, text=text), words, encoding, tuple(originals)
        ),
        lossy,
        packed=path.endswith(".gz"),
        words_out=None if words_out is None else os.fspath(words_out),
        note=note,
        beside=tuple(filter(None, (target.archive, target.script))),
        chosen=chosen,
        run=run,
        guard=guard,
    )
    if form.is_kaldi:
        if os.path.isdir(path):
            raise OptionError(f"the output {path!r} is a folder; add a file name")
        if form.to is not None:
            target = target._replace(text=format.name == KALDI[1])
        return KaldiWriter(output, target, resume=resume, kind=kind)
    from ninja.io.layouts import Folder, NamedFiles, OneFile, OneLattice

    if format.write.files == "named":
        if path == STDOUT:
            raise OptionError(f"{format.name} writes several files; name a folder")
        return NamedFiles(output)
    if format.write.files == "each":
        return OneLattice(output) if _is_file(path, format) else Folder(output)
    if path != STDOUT and (os.path.isdir(path) or path.endswith(os.sep)):
        raise OptionError(f"the output {path!r} is a folder, but {format.name} writes a single file; add a file name")
    return OneFile(output)


def _is_file(path: str, format: Format) -> bool:
    """Return whether an output is a single file in a format, rather than a folder."""
    if path == STDOUT or path.endswith(os.sep) or os.path.isdir(path):
        return path == STDOUT
    if os.path.exists(path) and not os.path.isfile(path):  # /dev/null, a named pipe
        return True
    return path.removesuffix(".gz").lower().endswith(format.extensions)


def _scaled(format: Format, values: Mapping[str, str], scales: Scales) -> tuple[Mapping[str, str], str | None]:
    """Add scales to the options of a format, and return a note about them.

    Scales that the options already have take precedence. If a format has no graph scale, the acoustic scale is divided
    by it.
    """
    assert format.write is not None
    if format.write.options is None:
        return values, None
    fields = {field.name for field in dataclasses.fields(cast(Any, format.write.options))}
    weights = {"acoustic_scale": scales.acoustic, "lm_scale": scales.lm, "word_penalty": scales.word_penalty}
    has_own = any(name in values for name in weights) or any(values.get(name, "total") != "total" for name in _ONE_COST)
    if "acoustic_scale" not in fields or has_own:
        return values, None
    if "lm_scale" not in fields and scales.lm > 0.0:  # paths keep their order
        weights = {"acoustic_scale": scales.acoustic / scales.lm}
    weights = {name: value for name, value in weights.items() if name in fields}
    graph, penalty = weights.get("lm_scale", 1.0), weights.get("word_penalty", 0.0)
    parts = ["graph" if graph == 1.0 else f"{graph:g} graph", f"{weights['acoustic_scale']:g} acoustic"]
    total = " + ".join(parts if penalty == 0.0 else [*parts, f"{penalty:g} per word"])
    subject = "hypotheses are sorted by" if format.holds == "nbest" else "costs are combined as"
    note = f"{subject} {total}; use --to {format.name}:acoustic_scale=… to change it"
    return {**values, **{name: repr(value) for name, value in weights.items()}}, note


def format_of(name: str | os.PathLike[str], to: str | None = None) -> OutputFormat:
    """Resolve the name of an output.

    Args:
        name: See ``target``.
        to: ``FORMAT`` or ``FORMAT:OPTION=VALUE,…``; None selects the format by the extension, or else a binary Kaldi
            archive.

    Raises:
        OptionError: The format does not exist, the extension belongs to several formats or to a read-only format, or
            `to` contradicts a wspecifier.
    """
    place = target(name)
    if to is None:
        return OutputFormat(os.fspath(name), None, place, _by_extension(name, place), {})
    known, values = split_options(to)
    format = by_name(known, "write")
    if is_specifier(name) and format.name != KALDI[place.text]:
        raise OptionError(f"{os.fspath(name)!r} is a wspecifier, whose format cannot be {known!r}; use a file name")
    return OutputFormat(os.fspath(name), to, place, format, values)


def _by_extension(name: str | os.PathLike[str], place: Target) -> Format:
    path = os.fspath(name)
    if is_specifier(name) or path == STDOUT:
        return by_name(KALDI[place.text], "write")
    formats = by_extension(path)
    writable = [format for format in formats if format.write is not None]
    if len(writable) > 1:
        names = [format.name for format in writable]
        choices = " or ".join(f"to={name!r}" for name in names)
        flags = ", ".join(f"--to {name}" for name in names)
        raise OptionError(f"{path!r}: the extension is that of {' and '.join(names)}; use {choices} ({flags})")
    if writable:
        return writable[0]
    if formats:
        raise OptionError(f"{path!r}: {formats[0].name} files cannot be written; select another format with --to")
    for ending, advice in _NO_OUTPUTS.items():
        if path.removesuffix(".gz").lower().endswith(ending):
            raise OptionError(f"{path!r}: {advice}, or select a format with --to")
    return by_name(KALDI[0], "write")
