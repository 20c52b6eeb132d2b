"""Kaldi archives of FSTs: a key and a machine after the other, as OpenFst writes it or in text.

Not read: input labels.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ninja.errors import FormatError, LatticeError, NinjaError, OptionError
from ninja.formats.content import Content, Entry
from ninja.formats.format import Format, Read, Write, WriteSettings
from ninja.formats.fst_binary import MAGIC, FstWriteOptions, read_fst_at, write_fst
from ninja.formats.fst_image import write_image
from ninja.formats.fst_text import FstTextOptions, FstTextWriteOptions, read_fst_text, write_fst_text
from ninja.formats.textual import kept_by_options, refuse_empty
from ninja.formats.window import Pieces, Window
from ninja.lattice import Lattice
from ninja.lattice.fst import Fst
from ninja.lattice.symbols import SymbolTable

LONGEST_KEY = 4096  # bytes
_HEAD = LONGEST_KEY + 8  # bytes that hold a key and what tells an image from text
_SYMBOLS = "a symbol table claims"
_BLANK = re.compile(rb"[ \t\r\n]")
_MARK = re.compile(
    rb"\s*\S{1,4096}[ \t]"
    + MAGIC
    # In text: the key on its line, then perhaps arcs and states without weights, then one with a weight that is single.
    + rb"|\s*\S{1,4096}[ \t\r]*\n(?:[ \t]*\d+(?:[ \t]+\d+[ \t]+\d+[ \t]+\d+)?[ \t\r]*\n)*"
    rb"[ \t]*\d+(?:[ \t]+\d+[ \t]+\d+[ \t]+\d+)?[ \t]+(?:[-+\d.][-+\d.eE]*|[Ii]nfinity|NaN|BadNumber)[ \t\r]*(?:\n|\Z)"
)
_END = re.compile(rb"\n[ \t\r]*\n")  # an empty line ends a machine in text


def read_fst_archive(content: Pieces, path: str | None = None) -> Iterator[tuple[str, Lattice | NinjaError]]:
    """Read the lattices of a Kaldi archive of FSTs, binary and text machines as they come.

    Words are the output labels, graph costs the weights, acoustic costs 0. A machine that is no lattice, for one
    because it has a cycle, costs only itself; damage in a binary one ends the reading, since it is not known where the
    next begins.

    Source: Kaldi, fstext/kaldi-fst-io-inl.h (VectorFstTplHolder::Read, ReadFstKaldi).
    """
    window = Window(content)
    line = 1
    while True:
        while len(window.content) - window.at < _HEAD and window.grow():
            pass
        at = window.at
        if at == len(window.content):
            return
        blank = _BLANK.search(window.content, at, at + LONGEST_KEY + 1)
        if blank is None or blank.start() == at:
            what = "no key" if blank is not None else "a key without an end"
            message = f"{what} where an entry begins; the rest is not read"
            yield "", FormatError(message, path, byte=window.begin + at)
            return
        key = window.content[at : blank.start()].decode("utf-8", "surrogateescape")
        behind = (blank.start() if blank.group() == b"\n" else blank.end()) - at
        try:
            found, end = _machine(window, behind, line, key, path)
        except FormatError as error:
            yield key, error
            return
        line += window.content.count(b"\n", window.at, end)
        window.at = end
        yield key, found


def _machine(window: Window, behind: int, line: int, key: str, path: str | None) -> tuple[Lattice | NinjaError, int]:
    """Return the next machine or its error, and its end in the window."""
    if not window.content.startswith(MAGIC, window.at + behind):
        if not _BLANK.match(window.content, window.at + behind):
            message = "neither an OpenFst image nor text behind the key; the rest is not read"
            raise FormatError(message, path, key=key, byte=window.begin + window.at + behind)
        end = _end_of_text(window, behind, key, path)
        return _text(window.content[window.at + behind : end], line, key, path), end
    said = ""
    while True:
        try:
            found, end = read_fst_at(window.content, window.at + behind, key, path)
        except FormatError as error:
            error.byte = None if error.byte is None else error.byte + window.begin
            # What is wrong where the window ends is something else as soon as that is another place; but that there
            # are too many symbols sounds the same.
            if (said == str(error) and _SYMBOLS not in said) or not window.grow():
                raise
            said = str(error)
        else:
            if end < len(window.content) or not window.grow():  # an image may take all that there is
                if isinstance(found, NinjaError) and found.byte is not None:
                    found.byte += window.begin
                return found, end


def _end_of_text(window: Window, behind: int, key: str, path: str | None) -> int:
    """Return the end, in the window, of a text machine at an offset from the begin of its entry."""
    while True:
        content, at = window.content, window.at + behind
        start = content.find(b"\n", at)
        has_text = content[at : None if start < 0 else start].strip() != b""
        end = None if start < 0 or has_text else _END.search(content, start)
        if end is not None:
            return end.end()
        if (start >= 0 and has_text) or not window.grow():
            what = "text on the line of the key; the rest is not read"
            if start >= 0 and not has_text:
                what = "the archive ends inside this machine: it is cut short"
            raise FormatError(what, path, key=key, byte=window.begin + at)


def _text(content: bytes, line: int, key: str, path: str | None) -> Lattice | NinjaError:
    try:
        # Kaldi's text machines are transducers over integers.
        options = FstTextOptions(acceptor=False, labels="ids")
        return read_fst_text(content, key, path, None, options, line=line)
    except NinjaError as error:  # an empty line follows: the next machine is not lost
        return error


@dataclass(frozen=True, slots=True)
class FstArchiveWriteOptions(FstWriteOptions):
    """Options of ``fst_entry``; Kaldi's tools read "standard" machines."""

    text: bool = False  # as in ark,t:, which a name with .txt means, too


def fst_entry(lattice: Lattice, options: FstArchiveWriteOptions = FstArchiveWriteOptions()) -> bytes:
    """Return a lattice as an entry of a Kaldi archive of FSTs: word acceptors with one cost.

    Raises:
        OptionError: The key has blanks in it.
    """
    key = lattice.key.encode("utf-8", "surrogateescape")
    if not key or _BLANK.search(key) or len(key) > LONGEST_KEY:
        raise OptionError("a key of an archive has no blanks and is not empty", key=lattice.key)
    if not options.text:
        return key + b" " + write_fst(lattice, options.arc_type, options.costs, options.acoustic_scale)
    if not lattice.is_final.any():
        raise LatticeError("no state is final, so there is nothing to write", key=lattice.key)
    text = FstTextWriteOptions(costs=options.costs, acoustic_scale=options.acoustic_scale)
    return key + b" \n" + write_fst_text(lattice, None, text) + b"\n"


def as_text(fst: Fst, key: str) -> bytes:
    """Return an FST as an entry of a text archive.

    Source: Kaldi fstext/kaldi-fst-io-inl.h, WriteFstKaldi; OpenFst, FstPrinter.
    """
    lines = [f"{key} "]
    begin, dst, taken, given = fst.arc_begin.tolist(), fst.dst.tolist(), fst.ilabel.tolist(), fst.olabel.tolist()
    for state, end in enumerate(fst.final_cost.tolist()):
        for arc in range(begin[state], begin[state + 1]):
            lines.append(f"{state}\t{dst[arc]}\t{taken[arc]}\t{given[arc]}{_shown(fst.cost[arc])}")
        if end < math.inf:
            lines.append(f"{state}{_shown(end)}")
    return "\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")


def _shown(cost: float) -> str:
    return f"\t{np.float32(cost):.6g}" if cost else ""


def as_image(fst: Fst, key: str) -> bytes:
    """Return an FST as an entry of a binary archive, which may be read with OpenFst behind its key."""
    return key.encode("utf-8", "surrogateescape") + b" " + write_image(fst)


def _entries(content: Content, words: SymbolTable | None, options: None) -> Iterator[Entry]:
    return read_fst_archive(content.pieces(), content.name)


def _encode(lattice: Lattice, settings: WriteSettings) -> bytes:
    refuse_empty(lattice)
    return fst_entry(lattice, settings.options)


FORMAT = Format(
    name="fst-ark",
    about="Kaldi archive of FSTs, binary or text",
    mark=_MARK.match,
    read=Read(_entries, ids=True),
    keeps=frozenset({"paths", "key", "graph", "acoustic", "unscaled", "ids"}),
    write=Write(_encode, options=FstArchiveWriteOptions, keeps=kept_by_options, key_is_field=True),
)
