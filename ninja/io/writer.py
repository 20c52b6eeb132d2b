"""``write``: lattices into a file or a folder of any format."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import replace
from typing import Any, Literal, cast

from ninja.errors import OptionError
from ninja.files.output import is_specifier, target
from ninja.files.place import STDIN as STDOUT
from ninja.formats import options as format_options
from ninja.formats.format import Format, WriteSettings, by_extension, by_name
from ninja.formats.textual import check_encoding
from ninja.io.kaldi_writer import KaldiWriter
from ninja.io.lattice_writer import LatticeWriter, Output
from ninja.io.layouts import Folder, NamedFiles, OneFile, OneLattice
from ninja.io.run_facts import Facts
from ninja.io.scales_beside import ChosenScales
from ninja.lattice.costs import Scales
from ninja.lattice.symbols import SymbolTable

KALDI = ("binary", "text")  # Kaldi's own archives, which have script files and are resumed
_NO_OUTPUTS = {  # endings of files that no format has
    ".stm": "STM is not written; write JSON lines (.jsonl), which hold words with times",
    ".scp": "a script file goes with an archive; say ark,scp:FILE.ark,FILE.scp",
}
_ONE_COST = ("costs", "scores")  # options of formats that may ask for one cost as it is


def write(
    name: str | os.PathLike[str],
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
) -> LatticeWriter:
    """Open a file or a folder of lattices for writing, as a context manager.

    The output appears under its name when the block is left without an exception, or not at all. It may have the name
    of a source: what reads that reads the old file to its end.

        with ninja.write("ark,t:out.txt") as output:
            output.write(lattice)

    The format is that of the name's extension: a Kaldi archive where it says nothing, text for ``.txt``, ``.slf``,
    ``.fst``, ``.pt``, ``.arrow``, ``.jsonl`` and so on for others. Formats of one lattice a file make a file with their
    extension of one lattice, and a folder of any other name, in which each lattice gets the file ``KEY`` with that
    extension. Of a lattice, formats of n-best lists get its best hypotheses, and those of confusion networks its
    network; they take such lists and networks, too. Words whose ids are written get a symbol table beside the output
    if their own was not read from a file.

    Args:
        name: A path (``.gz`` packs it, ``.txt`` is text), ``-`` for the standard output, or a Kaldi wspecifier:
            ``ark:…``, ``ark,t:…``, ``ark,scp:A,S``, ``ark:| gzip -c > F`` (served without a shell).
        resume: Go on with what an earlier attempt left behind, or with the output if it is there already; the output's
            ``keys_done`` says which lattices need not be written again. If this attempt fails, its output is kept, too.
            Kaldi archives only.
        kind: Write every lattice as this kind rather than as its own. Kaldi archives only.
        to: The format and its options, ``slf`` or ``slf:base=10,frame_shift=0.01``; None: by the extension.
            docs/formats.md lists them. k2 and espnet keep all in memory until the block is left.
        lossy: "refuse" a lattice from which anything would be lost; "allow": count it in ``lost``.
        words: Symbol table of the lattices; None: the one attached to each. An output of ids (``needs_words``) takes
            lattices of one table only.
        words_out: File for the symbol table of the words; None: beside the output, where one is needed.
        encoding: Of names of words in text formats but Kaldi's.
        scales: Scales by which paths were compared: those of formats with one cost, of lists and of networks, unless
            `to` says others; None: those that were chosen, else 1, 1, 0.
        chosen: Scales that were chosen for the lattices, of a rescoring, for example: where costs are written as they
            are, these stand in a file beside the output, in which `find_scales` and the commands find them.
        run: What the lattices depend on, see `ninja.io.run_facts`: with `resume`, the output of another run is
            refused, and nothing is added to a finished one whose run is not known. None: nothing is checked.
            Kaldi archives only.

    Raises:
        OptionError: The target makes no sense, there is no such format, or it has no such option.

    Source: Kaldi util/kaldi-table.h, lat/kaldi-lattice.cc; OpenFst vector-fst.h.
    """
    form, values = format_of(name, to)
    places = target(name)
    path = places.archive
    is_kaldi = form.name in KALDI
    for option, asked in (("resume", resume), ("kind", kind is not None)):
        if asked and not is_kaldi:
            raise OptionError(f"{option} is for Kaldi archives, but {os.fspath(name)!r} is to be {form.name}")
    if scales is None and chosen is not None:
        scales = chosen.scales
    values, note = (values, None) if is_kaldi or scales is None else _weighed(form, values, scales)
    if encoding != "utf-8":
        check_encoding(encoding)
    assert form.write is not None
    text = path.removesuffix(".gz").endswith(".txt")
    settings = WriteSettings(format_options.fill(form.write.options, values, form.name, text=text), words, encoding)
    table = None if words_out is None else os.fspath(words_out)
    beside = tuple(filter(None, (places.archive, places.script)))
    output = Output(path, form, settings, lossy, path.endswith(".gz"), table, note, beside, chosen, run)
    if is_kaldi:
        if os.path.isdir(path):
            raise OptionError(f"the output {path!r} is no file name")
        if to is not None:
            places = replace(places, text=form.name == KALDI[1])
        return KaldiWriter(output, places, resume=resume, kind=kind)
    if form.write.files == "named":
        if path == STDOUT:
            raise OptionError(f"{form.name} has many files; name a folder")
        return NamedFiles(output)
    if form.write.files == "each":
        return OneLattice(output) if _is_file(path, form) else Folder(output)
    if path != STDOUT and (os.path.isdir(path) or path.endswith(os.sep)):
        raise OptionError(f"the output {path!r} is no file name, but {form.name} has many lattices in one file")
    return OneFile(output)


def _is_file(path: str, form: Format) -> bool:
    """Tell whether a name is that of a file of a format rather than of a folder."""
    if path == STDOUT or path.endswith(os.sep) or os.path.isdir(path):
        return path == STDOUT
    if os.path.exists(path) and not os.path.isfile(path):  # /dev/null, a named pipe
        return True
    return path.removesuffix(".gz").lower().endswith(form.extensions)


def _weighed(form: Format, values: dict[str, str], by: Scales) -> tuple[dict[str, str], str | None]:
    """Return a format's options with the scales that paths were compared by, and a note on them.

    Scales among the options replace these. A format without a graph scale gets the proportion of both.
    """
    assert form.write is not None
    fields = {field.name for field in dataclasses.fields(cast(Any, form.write.options))}
    scales = {"acoustic_scale": by.acoustic, "lm_scale": by.lm, "word_penalty": by.word_penalty}
    asked = any(name in values for name in scales) or any(values.get(name, "total") != "total" for name in _ONE_COST)
    if "acoustic_scale" not in fields or asked:
        return values, None
    if "lm_scale" not in fields and by.lm > 0.0:  # paths keep their order
        scales = {"acoustic_scale": by.acoustic / by.lm}
    scales = {name: value for name, value in scales.items() if name in fields}
    graph, penalty = scales.get("lm_scale", 1.0), scales.get("word_penalty", 0.0)
    parts = ["graph" if graph == 1.0 else f"{graph:g} graph", f"{scales['acoustic_scale']:g} acoustic"]
    total = " + ".join(parts if penalty == 0.0 else [*parts, f"{penalty:g} for each word"])
    done = "hypotheses are in the order of" if form.holds == "nbest" else "costs are joined as"
    note = f"{done} {total}; another: --to {form.name}:acoustic_scale=…"
    return values | {name: repr(value) for name, value in scales.items()}, note


def spells_words(name: str | os.PathLike[str], to: str | None = None) -> bool:
    """Tell whether the format of a target spells words rather than holding their ids; see `format_of`."""
    form, values = format_of(name, to)
    assert form.write is not None
    return "ids" not in form.kept(format_options.fill(form.write.options, values, form.name))


def format_of(name: str | os.PathLike[str], to: str | None = None) -> tuple[Format, dict[str, str]]:
    """Return the format of a target, and its options in text.

    Args:
        name: As for ``target``.
        to: ``FORMAT`` or ``FORMAT:OPTION=VALUE,…``; None: by the extension, Kaldi's binary where that says nothing.

    Raises:
        OptionError: There is no such format, the extension is that of two or of files that are only read, or the name
            says its form itself.
    """
    if to is None:
        return _by_extension(name), {}
    named, values = format_options.split(to)
    found = by_name(named, "write")
    if is_specifier(name) and found.name != KALDI[target(name).text]:
        raise OptionError(f"{os.fspath(name)!r} says its form itself, so it cannot be {named!r}; give a file name")
    return found, values


def _by_extension(name: str | os.PathLike[str]) -> Format:
    path = os.fspath(name)
    if is_specifier(name) or path == STDOUT:
        return by_name(KALDI[target(name).text], "write")
    found = by_extension(path)
    writable = [each for each in found if each.write is not None]
    if len(writable) > 1:
        names = [each.name for each in writable]
        choices = " or ".join(f"to={each!r}" for each in names)
        flags = ", ".join(f"--to {each}" for each in names)
        raise OptionError(f"{path!r}: the extension is that of {' and '.join(names)}; say {choices} ({flags})")
    if writable:
        return writable[0]
    if found:
        raise OptionError(f"{path!r}: {found[0].name} files are only read; name the format (--to)")
    for ending, advice in _NO_OUTPUTS.items():
        if path.removesuffix(".gz").lower().endswith(ending):
            raise OptionError(f"{path!r}: {advice}, or name the format (--to)")
    return by_name(KALDI[0], "write")
