"""``write``: lattices to a file or a folder of any format."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from ninja.errors import OptionError
from ninja.files.output import Guard
from ninja.files.place import STDIN as STDOUT
from ninja.files.place import Target, is_specifier, target
from ninja.formats.format import Format, WriteSettings, by_extension, by_name, fill_options, split_options
from ninja.formats.textual import check_encoding
from ninja.io.kaldi_writer import KaldiWriter
from ninja.io.lattice_writer import LatticeWriter, OutputSettings
from ninja.io.layouts import Folder, NamedFiles, OneFile, OneLattice
from ninja.io.resume import Facts
from ninja.io.scales import ChosenScales
from ninja.lattice.lattice import Scales
from ninja.lattice.symbols import SymbolTable

KALDI = ("binary", "text")  # Kaldi's own archives, which have script files and can be resumed
_NO_OUTPUTS = {  # extensions that no format has
    ".stm": "STM is not written; write JSON lines (.jsonl), which hold words with times",
    ".feather": "tables are written as Parquet (.parquet)",
    ".scp": "a script file goes with an archive; say ark,scp:FILE.ark,FILE.scp",
}
_ONE_COST = ("costs", "scores")  # options of formats that may select one unscaled cost


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """The name of an output, resolved to its place and format."""

    name: str
    to: str | None  # format with its options, as the user named it
    target: Target
    format: Format
    options: Mapping[str, str]

    @property
    def is_kaldi(self) -> bool:
        """Whether it is a Kaldi archive."""
        return self.format.name in KALDI

    @property
    def spells_words(self) -> bool:
        """Whether words are written by their names rather than their ids."""
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
    words: SymbolTable | None = None,
    words_out: str | os.PathLike[str] | None = None,
    encoding: str = "utf-8",
    scales: Scales | None = None,
    chosen: ChosenScales | None = None,
    run: Facts | None = None,
    guard: Guard | None = None,
    originals: Sequence[str] = (),
) -> LatticeWriter:
    """Open a file or a folder of lattices for writing, as a context manager.

    The output appears under its name when the block is left without an exception, or not at all. It may have the name
    of a source, whose reader continues to read the old file.

        with ninja.write("ark,t:out.txt") as output:
            output.write(lattice)

    The format is that of the extension: a Kaldi archive for unknown extensions, text for ``.txt``, ``.slf``, ``.fst``,
    ``.pt``, ``.arrow``, ``.jsonl`` and so on for others. Formats of one lattice per file write a file if the name has
    their extension, and otherwise a folder, in which each lattice gets the file ``KEY`` with that extension. Formats of
    n-best lists write the best hypotheses of a lattice, and those of confusion networks its network; they also take
    such lists and networks. If ids of words are written, the symbol table goes beside the output unless it was read
    from a file.

    Args:
        name: A path (``.gz`` compresses it, ``.txt`` is text), ``-`` for the standard output, or a Kaldi wspecifier:
            ``ark:…``, ``ark,t:…``, ``ark,scp:A,S``, ``ark:| gzip -c > F`` (served without a shell).
        resume: Continue the output of an earlier attempt, or a finished one; ``keys_done`` of the output names the
            lattices that need not be written again. If this attempt fails, its output is kept. Kaldi archives only.
        kind: Write every lattice as this kind.  [default: its own] Kaldi archives only.
        to: The format and its options, ``slf`` or ``slf:base=10,frame_shift=0.01``; docs/formats.md lists them. k2 and
            espnet keep all lattices in memory until the block is left.  [default: by the extension]
        lossy: "refuse" lattices that would lose anything; "allow": count the losses in ``lost``.
        words: Symbol table of the lattices. An output of ids (``needs_words``) takes lattices of one table only.
            [default: that of each lattice]
        words_out: File for the symbol table.  [default: beside the output, if it is needed]
        encoding: Encoding of words in text formats other than Kaldi's.
        scales: Scales of paths, for formats with one cost, lists and networks, unless `to` has others.
            [default: those of `chosen`, else 1, 1, 0]
        chosen: Scales that were chosen for the lattices, for example by a rescoring: if costs are written unscaled, the
            scales are written to a file beside the output, where `find_scales` and the commands find them.
        run: Facts that the lattices depend on, see `ninja.io.resume`: with `resume`, the output of another run is
            refused, and nothing is added to a finished output of an unknown run. Kaldi archives only.
            [default: nothing is checked]
        guard: Inputs that must not be replaced.
        originals: Paths of all files that the lattices come from, in order, for formats that are written as they came:
            files without a lattice among those that are written are copied.

    Raises:
        OptionError: The name is invalid, there is no such format, or it has no such option.

    Source: Kaldi util/kaldi-table.h, lat/kaldi-lattice.cc; OpenFst vector-fst.h.
    """
    form = name if isinstance(name, OutputFormat) else format_of(name, to)
    format, target = form.format, form.target
    path = target.archive
    for option, is_given in (("resume", resume), ("kind", kind is not None)):
        if is_given and not form.is_kaldi:
            raise OptionError(f"{option} is for Kaldi archives, but {form.name!r} is to be {format.name}")
    if scales is None and chosen is not None:
        scales = chosen.scales
    values, note = (form.options, None) if form.is_kaldi or scales is None else _scaled(format, form.options, scales)
    if encoding != "utf-8":
        check_encoding(encoding)
    assert format.write is not None
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
            raise OptionError(f"the output {path!r} is not a file name")
        if form.to is not None:
            target = replace(target, text=format.name == KALDI[1])
        return KaldiWriter(output, target, resume=resume, kind=kind)
    if format.write.files == "named":
        if path == STDOUT:
            raise OptionError(f"{format.name} has many files; name a folder")
        return NamedFiles(output)
    if format.write.files == "each":
        return OneLattice(output) if _is_file(path, format) else Folder(output)
    if path != STDOUT and (os.path.isdir(path) or path.endswith(os.sep)):
        raise OptionError(f"the output {path!r} is not a file name, but {format.name} has many lattices in one file")
    return OneFile(output)


def _is_file(path: str, format: Format) -> bool:
    """Return whether a name is that of a file of a format rather than of a folder."""
    if path == STDOUT or path.endswith(os.sep) or os.path.isdir(path):
        return path == STDOUT
    if os.path.exists(path) and not os.path.isfile(path):  # /dev/null, a named pipe
        return True
    return path.removesuffix(".gz").lower().endswith(format.extensions)


def _scaled(format: Format, values: Mapping[str, str], scales: Scales) -> tuple[Mapping[str, str], str | None]:
    """Return a format's options with the scales of paths, and a note on them.

    Scales among the options replace these. A format without a graph scale gets the ratio of both.
    """
    assert format.write is not None
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
    total = " + ".join(parts if penalty == 0.0 else [*parts, f"{penalty:g} for each word"])
    subject = "hypotheses are in the order of" if format.holds == "nbest" else "costs are joined as"
    note = f"{subject} {total}; another: --to {format.name}:acoustic_scale=…"
    return {**values, **{name: repr(value) for name, value in weights.items()}}, note


def format_of(name: str | os.PathLike[str], to: str | None = None) -> OutputFormat:
    """Resolve the name of an output.

    Args:
        name: As for ``target``.
        to: ``FORMAT`` or ``FORMAT:OPTION=VALUE,…``.  [default: by the extension, else Kaldi's binary]

    Raises:
        OptionError: There is no such format, the extension is that of several formats or of one that is not written, or
            `to` contradicts a wspecifier.
    """
    place = target(name)
    if to is None:
        return OutputFormat(os.fspath(name), None, place, _by_extension(name, place), {})
    known, values = split_options(to)
    format = by_name(known, "write")
    if is_specifier(name) and format.name != KALDI[place.text]:
        raise OptionError(f"{os.fspath(name)!r} says its form itself, so it cannot be {known!r}; give a file name")
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
        raise OptionError(f"{path!r}: the extension is that of {' and '.join(names)}; say {choices} ({flags})")
    if writable:
        return writable[0]
    if formats:
        raise OptionError(f"{path!r}: {formats[0].name} files are only read; name the format (--to)")
    for ending, advice in _NO_OUTPUTS.items():
        if path.removesuffix(".gz").lower().endswith(ending):
            raise OptionError(f"{path!r}: {advice}, or name the format (--to)")
    return by_name(KALDI[0], "write")
