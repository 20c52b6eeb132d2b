"""Reader and writer for Kaldi archives of FSTs: keys followed by FSTs in OpenFst's binary or text format.

Input labels are ignored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ninja.errors import FormatError, NinjaError, OptionError
from ninja.formats.content import Content, Entry, Pieces, Window
from ninja.formats.format import Format, Read, Write, WriteSettings
from ninja.formats.fst_binary import MAGIC, FstWriteOptions, read_fst_at, write_fst
from ninja.formats.fst_image import write_image
from ninja.formats.fst_text import FstTextOptions, FstTextWriteOptions, read_fst_text, write_fst_text
from ninja.formats.textual import kept_by_options, refuse_empty
from ninja.lattice import Lattice
from ninja.lattice.fst import Fst
from ninja.lattice.symbols import SymbolTable

LONGEST_KEY = 4096  # bytes
_HEAD = LONGEST_KEY + 8  # number of bytes that contain the first key and the magic number of a binary FST
_SYMBOLS = "a symbol table declares"
_BLANK = re.compile(rb"[ \t\r\n]")
_MARK = re.compile(
    rb"\s*\S{1,4096}[ \t]"
    + MAGIC
    # Text: a line with the key, any number of arcs and states without weights, then an arc or state with one weight.
    + rb"|\s*\S{1,4096}[ \t\r]*\n(?:[ \t]*\d+(?:[ \t]+\d+[ \t]+\d+[ \t]+\d+)?[ \t\r]*\n)*"
    rb"[ \t]*\d+(?:[ \t]+\d+[ \t]+\d+[ \t]+\d+)?[ \t]+(?:[-+\d.][-+\d.eE]*|[Ii]nfinity|NaN|BadNumber)[ \t\r]*(?:\n|\Z)"
)
_END = re.compile(rb"\n[ \t\r]*\n")  # an empty line, which ends an FST in text format


def read_fst_archive(content: Pieces, path: str | None = None) -> Iterator[tuple[str, Lattice | NinjaError]]:
    """Yield the lattices in a Kaldi archive of FSTs, or their errors. Binary and text FSTs may be mixed.

    Output labels become words, and weights become graph costs; acoustic costs are 0. An FST that is not a lattice, for
    example because it has a cycle, yields an error. After a damaged binary FST, the rest of the archive is not read,
    because the start of the next entry is unknown.

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
            problem = "has no key" if blank is not None else "has an unterminated key"
            message = f"an entry {problem}; the rest of the archive is not read"
            yield "", FormatError(message, path, byte=window.begin + at)
            return
        key = window.content[at : blank.start()].decode("utf-8", "surrogateescape")
        offset = (blank.start() if blank.group() == b"\n" else blank.end()) - at
        try:
            lattice, end = _machine(window, offset, line, key, path)
        except FormatError as error:
            yield key, error
            return
        line += window.content.count(b"\n", window.at, end)
        window.at = end
        yield key, lattice


def _machine(window: Window, offset: int, line: int, key: str, path: str | None) -> tuple[Lattice | NinjaError, int]:
    """Return ``(lattice or error, end in window.content)`` for the next FST.

    Args:
        window: Window into the archive, positioned at the start of the entry.
        offset: Number of bytes in the key and the space before the FST.
        line: Line number of the entry.
        key: Key of the entry.
        path: File name for messages.
    """
    if not window.content.startswith(MAGIC, window.at + offset):
        if not _BLANK.match(window.content, window.at + offset):
            message = "the key is followed by neither a binary nor a text FST; the rest of the archive is not read"
            raise FormatError(message, path, key=key, byte=window.begin + window.at + offset)
        end = _end_of_text(window, offset, key, path)
        return _text(window.content[window.at + offset : end], line, key, path), end
    message = ""
    while True:
        try:
            lattice, end = read_fst_at(window.content, window.at + offset, key, path)
        except FormatError as error:
            error.byte = None if error.byte is None else error.byte + window.begin
            # If the message stays the same after the window has grown, the cause is not the end of the window, unless
            # the message is about the number of symbols.
            if (message == str(error) and _SYMBOLS not in message) or not window.grow():
                raise
            message = str(error)
        else:
            if end < len(window.content) or not window.grow():  # a binary FST without a state count extends to the end
                if isinstance(lattice, NinjaError) and lattice.byte is not None:
                    lattice.byte += window.begin
                return lattice, end


def _end_of_text(window: Window, offset: int, key: str, path: str | None) -> int:
    """Return the index in ``window.content`` at which a text FST ends."""
    while True:
        content, at = window.content, window.at + offset
        start = content.find(b"\n", at)
        has_text = content[at : None if start < 0 else start].strip() != b""
        end = None if start < 0 or has_text else _END.search(content, start)
        if end is not None:
            return end.end()
        if (start >= 0 and has_text) or not window.grow():
            message = "text follows the key on its line; the rest of the archive is not read"
            if start >= 0 and not has_text:
                message = "the archive ends inside this FST, so it is truncated; copy it again"
            raise FormatError(message, path, key=key, byte=window.begin + at)


def _text(content: bytes, line: int, key: str, path: str | None) -> Lattice | NinjaError:
    try:
        # Kaldi's text FSTs are transducers with integer labels.
        options = FstTextOptions(acceptor=False, labels="ids")
        return read_fst_text(content, key, path, None, options, line=line)
    except NinjaError as error:  # the next FST can still be read, because it begins after the empty line
        return error


@dataclass(frozen=True, slots=True)
class FstArchiveWriteOptions(FstWriteOptions):
    """Options for writing Kaldi archives of FSTs. Kaldi's tools expect FSTs with the arc type "standard"."""

    text: bool = False  # whether to write text, which is also written for ark,t: and file names that end in .txt


def fst_entry(lattice: Lattice, options: FstArchiveWriteOptions = FstArchiveWriteOptions()) -> bytes:
    """Encode a lattice as an entry of a Kaldi archive of FSTs: a word acceptor with one cost per arc.

    Raises:
        OptionError: The key is empty, contains whitespace, or is longer than 4096 bytes.
        LatticeError: The lattice has no final state (text only), or a cost exceeds the range of the weight type.
    """
    key = lattice.key.encode("utf-8", "surrogateescape")
    if not key or _BLANK.search(key) or len(key) > LONGEST_KEY:
        raise OptionError(
            f"a key in an archive must not be empty, contain whitespace or exceed {LONGEST_KEY} bytes", key=lattice.key
        )
    if not options.text:
        return key + b" " + write_fst(lattice, options.arc_type, options.costs, options.acoustic_scale)
    refuse_empty(lattice)
    text = FstTextWriteOptions(costs=options.costs, acoustic_scale=options.acoustic_scale)
    return key + b" \n" + write_fst_text(lattice, None, text) + b"\n"


def as_text(fst: Fst, key: str) -> bytes:
    """Encode an FST as an entry of a text archive.

    Source: Kaldi fstext/kaldi-fst-io-inl.h, WriteFstKaldi; OpenFst, FstPrinter.
    """
    lines = [f"{key} "]
    begin, dst, ilabel, olabel = fst.arc_begin.tolist(), fst.dst.tolist(), fst.ilabel.tolist(), fst.olabel.tolist()
    for state, final_cost in enumerate(fst.final_cost.tolist()):
        for arc in range(begin[state], begin[state + 1]):
            lines.append(f"{state}\t{dst[arc]}\t{ilabel[arc]}\t{olabel[arc]}{_weight(fst.cost[arc])}")
        if final_cost < math.inf:
            lines.append(f"{state}{_weight(final_cost)}")
    return "\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")


def _weight(cost: float) -> str:
    return f"\t{np.float32(cost):.6g}" if cost else ""


def as_image(fst: Fst, key: str) -> bytes:
    """Encode an FST as an entry of a binary archive: the key, followed by the FST in OpenFst's binary format."""
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
