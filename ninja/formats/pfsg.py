"""Reader and writer for SRILM's probabilistic finite-state grammars (PFSG)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ninja import _formats
from ninja.errors import FormatError, LatticeError, NinjaError
from ninja.formats import textual
from ninja.formats.content import Content, Entry, Naming, Pieces, Window, check_encoding, keyed, refuse_unended
from ninja.formats.format import Format, Read, Write, WriteSettings
from ninja.formats.textual import OneCost
from ninja.formats.word_nodes import word_nodes
from ninja.lattice import Lattice
from ninja.lattice.symbols import EPSILON_NAME, SymbolTable
from ninja.lattice.word_ids import used_names

NULL = "NULL"
SCALE = 10000.5  # costs in a PFSG are natural logarithms multiplied by this number and rounded to integers
SILENT = frozenset({"<s>", "</s>"})  # words without sound that SRILM writes at the first and last node
SILENCES = "words that readers interpret as silence (<s> or </s>)"  # listed in messages about lost fields
_LARGEST = 2**31 - 1
_DURATION = re.compile(r"\(duration=[^()]*\)$")  # SRILM appends the duration to names
_FIRST = re.compile(rb"\s*name[ \t]+(\S+)\s+nodes\s+\d+\s")
_BLANK = re.compile(rb"\s+")
_DEFAULTS = OneCost()
_NEXT = re.compile(rb"\n(?=[^\S\n]*name[ \t]+\S+\s+nodes\s+\d+\s)")


@dataclass(frozen=True, slots=True)
class PfsgOptions:
    """Options for reading a PFSG."""

    fold: Literal["never", "null"] = "null"  # null: transitions to a final NULL node become final costs
    silent: frozenset[str] = SILENT  # words that are read as NULL
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        check_encoding(self.encoding)


def read_pfsg(
    content: bytes,
    key: str,
    path: str | None = None,
    words: SymbolTable | None = None,
    options: PfsgOptions = PfsgOptions(),
) -> Lattice:
    """Read a lattice from the bytes of a PFSG file.

    Nodes become states, and transitions become arcs with the word of the node that they enter. The cost of a transition
    becomes the graph cost. The lattice has no times.

    Raises:
        FormatError: The file is not a PFSG, is damaged, is truncated (the last line lacks a newline), or continues
            after the lattice.
        LatticeError: The PFSG has a cycle, no path from the initial to the final node, a transition into the initial
            node or out of the final node, or a cost that exceeds the range of float32.
        SymbolError: A word is not in ``words``.

    Source: SRILM, pfsg-format(5).
    """
    result = _parse(content, 0, 1, key, path, options)
    if result["stop"] < len(content):
        message = "the file continues after the lattice; if it has several lattices, read the lattices one by one"
        raise FormatError(message, path, key=key, line=result["line"])
    return Naming(key, path, words, options.encoding).lattice(result)


def read_pfsgs(
    content: Pieces,
    path: str | None = None,
    words: SymbolTable | None = None,
    options: PfsgOptions = PfsgOptions(),
) -> Iterator[Lattice | NinjaError]:
    """Yield the lattices in a PFSG file, or their errors. Keys are the names without the durations that SRILM appends.

    Raises:
        FormatError: The file is damaged (see ``read_pfsg``), and the rest of the file cannot be read.
    """
    window, line, first = Window(content), 1, True
    while window.at < len(window.content) or window.grow():
        blank = None if first else _BLANK.match(window.content, window.at)
        if blank is not None:
            line += window.content.count(b"\n", window.at, blank.end())
            window.at = blank.end()
            continue
        first = False
        try:
            result = _parse_next(window, line, path, options)
        except LatticeError as error:  # yielded only after parsing, which finds the end of the lattice
            line += _skip(window, error, options)
            yield error
            continue
        window.at, line = result["stop"], result["line"]
        try:
            name = Naming("", path, words, options.encoding).decoded(result["name"], line)
            yield Naming(_DURATION.sub("", name), path, words, options.encoding).lattice(result)
        except NinjaError as error:
            yield error


def _parse_next(window: Window, line: int, path: str | None, options: PfsgOptions) -> dict[str, Any]:
    """Parse the next lattice; enlarge the window until it contains the whole lattice."""
    message = ""
    while True:
        try:
            return _parse(window.content, window.at, line, "", path, options)
        except FormatError as error:
            # If the message stays the same after the window has grown, the error is not due to the end of the window.
            if message == str(error) or not window.grow():
                raise
            message = str(error)


def _skip(window: Window, error: LatticeError, options: PfsgOptions) -> int:
    """Skip an invalid lattice, store its key in `error`, and return the number of lines skipped."""
    header = _FIRST.match(window.content, window.at)
    if header is not None:
        error.key = _DURATION.sub("", header[1].decode(options.encoding, "replace"))
    length = 0 if header is None else header.end() - window.at
    while (following := _NEXT.search(window.content, window.at + length)) is None and window.grow():
        pass
    begin, window.at = window.at, len(window.content) if following is None else following.end()
    return window.content.count(b"\n", begin, window.at)


def _parse(content: bytes, at: int, line: int, key: str, path: str | None, options: PfsgOptions) -> dict[str, Any]:
    null = [word.encode(options.encoding) for word in (NULL, EPSILON_NAME, *sorted(options.silent))]
    fold = 1 if options.fold == "null" else 0
    result = _formats.read_pfsg(bytes(content), at, line, path, key or None, fold=fold, null=null)
    if result["stop"] == len(content):
        name = _DURATION.sub("", result["name"].decode(options.encoding, "replace"))
        refuse_unended(content[at:], path, key or name, b"", line)
    return result


def write_pfsg(
    lattice: Lattice,
    words: SymbolTable | None = None,
    options: OneCost = _DEFAULTS,
    encoding: str = "utf-8",
) -> bytes:
    """Encode a lattice as a PFSG file.

    The key becomes the name of the PFSG. A state becomes one node for each word that ends there. The two costs are
    combined and rounded to multiples of 1/10000.5; times and alignments are not written. Writing a lattice that was
    read from a PFSG reproduces the PFSG.

    Raises:
        SymbolError: A word or the key contains whitespace or cannot be encoded, or a word is not in the symbol table.
        LatticeError: No path leads to a final state, a cost does not fit in 32 bits, or moving words to nodes requires
            too many transitions.

    Source: SRILM, pfsg-format(5).
    """
    textual.refuse_pathless(lattice)
    check_encoding(encoding)
    place, names = textual.spelled(lattice, words, NULL, encoding)
    for name in names:
        textual.refuse_spaces(name, lattice.key)
    nodes = word_nodes(lattice, "end")
    cost = textual.one_cost(nodes.graph, nodes.acoustic, options.costs, options.acoustic_scale)
    score = np.rint(-cost * SCALE)
    if np.abs(score).max(initial=0) > _LARGEST:
        raise LatticeError(
            "a cost exceeds the range of a PFSG, which is ±214,737; scale the costs down first", key=lattice.key
        )
    label = [NULL.encode() if arc < 0 else names[place[arc]] for arc in nodes.word.tolist()]
    key = textual.encoded(lattice.key or "lattice", encoding, lattice.key)
    textual.refuse_spaces(key, lattice.key)
    lines = [b"name " + key, b"nodes %d " % len(label) + b" ".join(label)]
    lines += [b"initial %d" % nodes.start, b"final %d" % nodes.end, b"transitions %d" % len(score)]
    rows = zip(nodes.src.tolist(), nodes.dst.tolist(), score.tolist(), strict=True)
    lines += [*(b"%d %d %d" % row for row in rows), b"", b""]
    return b"\n".join(lines)


def _entries(content: Content, words: SymbolTable | None, options: PfsgOptions) -> Iterator[Entry]:
    return keyed(read_pfsgs(content.blocks(), content.name, words, options))


def _misread(lattice: Lattice, settings: WriteSettings) -> list[str]:
    """Return a message about lost data if the lattice contains words that readers interpret as NULL."""
    return [SILENCES] if {*SILENT, EPSILON_NAME} & used_names(lattice, settings.words) else []


FORMAT = Format(
    name="pfsg",
    about="SRILM finite-state grammars (PFSG), as written by lattice-tool",
    extensions=(".pfsg",),
    mark=_FIRST.match,
    read=Read(_entries, PfsgOptions),
    keeps=frozenset({"paths", "key", "graph", "acoustic", "unscaled", "names"}),
    write=Write(
        textual.text_encoder(write_pfsg),
        options=OneCost,
        keeps=textual.kept_by_options,
        also_lost=_misread,
        key_is_field=True,
        encoded_keys=True,
    ),
)
