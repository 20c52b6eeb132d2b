"""Reader and writer for CMU Sphinx lattices (Sphinx 3, PocketSphinx).

Pronunciation numbers and the end frames of words are ignored; fillers become epsilon.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from ninja import _formats
from ninja.errors import LatticeError
from ninja.formats import textual
from ninja.formats.content import Naming, check_base, check_encoding, first_line, one_lattice
from ninja.formats.format import Format, Read, Write, WriteSettings
from ninja.formats.word_nodes import word_nodes
from ninja.lattice import Lattice
from ninja.lattice.lattice import checked_shift
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.word_ids import used_names

SILENT = frozenset({"<s>", "</s>", "<sil>"})
NULL = "<sil>"
BASE = 1.0001  # base of the logarithms in Sphinx files
_FILLER = re.compile(
    r"\[.*\]|\+\+.*\+\+|.+\(0*[1-9][0-9]*\)", re.DOTALL
)  # noise, or a word with a pronunciation number
_LARGEST = 2**31 - 1
_FIRST = re.compile(rb"Frames[ \t]+\d+")


@dataclass(frozen=True, slots=True)
class SphinxOptions:
    """Options for reading a Sphinx lattice."""

    silent: frozenset[str] = SILENT  # words that become epsilon
    bracketed: bool = True  # whether words in [] or ++ ++, such as [NOISE], also become epsilon
    base: float | None = None  # base of the logarithms in a file without "# -logbase"  [default: raise an error]
    frame_shift: float = 0.01  # seconds per frame; times in the file are frame numbers
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        checked_shift(self.frame_shift)
        check_encoding(self.encoding)
        if self.base is not None:
            check_base(self.base)


def read_sphinx(
    content: bytes,
    key: str,
    path: str | None = None,
    words: SymbolTable | None = None,
    options: SphinxOptions = SphinxOptions(),
) -> Lattice:
    """Read a lattice from the bytes of a Sphinx file.

    Nodes become states at the frame in which their word begins, and edges become arcs with their acoustic scores and
    the word of the node that they leave. Pronunciation numbers are removed ("to(2)" becomes "to"), and fillers become
    epsilon. The format has no language model scores, so graph costs are 0.

    Raises:
        FormatError: The file is not a Sphinx lattice, or it is damaged or truncated; or an edge leaves the last node or
            enters the first.
        LatticeError: The lattice has a cycle, no path from the first to the last node, or a cost that exceeds the
            range of float32.
        SymbolError: A word is not in ``words``.

    Source: pocketsphinx, src/ps_lattice.c (ps_lattice_read).
    """
    silent = [word.encode(options.encoding) for word in sorted(options.silent)]
    base = options.base or 0.0
    result = _formats.read_sphinx(bytes(content), path, key, base=base, bracketed=options.bracketed, silent=silent)
    return Naming(key, path, words, options.encoding).lattice(result, options.frame_shift)


@dataclass(frozen=True, slots=True)
class SphinxWriteOptions:
    """Options for ``write_sphinx``."""

    base: float = BASE  # base of the logarithms

    def __post_init__(self) -> None:
        check_base(self.base)


def write_sphinx(
    lattice: Lattice,
    words: SymbolTable | None = None,
    options: SphinxWriteOptions = SphinxWriteOptions(),
    encoding: str = "utf-8",
) -> bytes:
    """Encode a lattice as a Sphinx file.

    A state becomes one node for each word that begins there. Acoustic scores are converted to logarithms to
    base ``options.base`` and rounded to integers (to about 0.0001 nats for base 1.0001). Graph costs and alignments are
    not written. Times come from the lattice or its alignments, or are 0 if it has neither. Writing a lattice that was
    read from Sphinx reproduces the Sphinx lattice.

    Raises:
        SymbolError: A word is not in the symbol table, or contains whitespace.
        LatticeError: No path leads to a final state, a score does not fit in 32 bits, or moving words to nodes
            requires too many edges.

    Source: pocketsphinx, src/ps_lattice.c (ps_lattice_write).
    """
    textual.refuse_pathless(lattice)
    check_encoding(encoding)
    base = options.base
    place, names = textual.spelled(lattice, words, NULL, encoding)
    for name in names:
        textual.refuse_spaces(name, lattice.key)
    nodes = word_nodes(lattice, "begin")
    frames = textual.frames(lattice)
    time = np.zeros(lattice.num_states, np.int32) if frames is None else np.maximum(frames, 0)
    last = textual.end_frame(lattice, time)
    begin = np.append(time, last)[nodes.state]
    # A word ends one frame before the next word begins; a node that no link leaves ends in its first frame.
    first_end, last_end = np.full(len(begin), _LARGEST, np.int64), begin.astype(np.int64)
    ends = begin[nodes.dst].astype(np.int64) - 1
    np.minimum.at(first_end, nodes.src, ends)
    np.maximum.at(last_end, nodes.src, ends)
    first_end = np.clip(first_end, begin, last_end)
    score = np.rint(-nodes.acoustic.astype(np.float64) / math.log(base))
    if np.abs(score).max(initial=0) > _LARGEST:
        raise LatticeError(f"a score exceeds 32 bits with base {base}; use a larger base", key=lattice.key)
    lines = [b"# getcwd: .", b"# -logbase %s" % repr(base).encode(), b"#", b"Frames %d" % max(last, 1), b"#"]
    lines.append(b"Nodes %d (NODEID WORD STARTFRAME FIRST-ENDFRAME LAST-ENDFRAME)" % len(begin))
    for node, arc in enumerate(nodes.word.tolist()):
        name = NULL.encode() if arc < 0 else names[place[arc]]
        lines.append(b"%d %s %d %d %d ; %d" % (node, name, begin[node], first_end[node], last_end[node], node))
    lines += [b"#", b"Initial %d" % nodes.start, b"Final %d" % nodes.end, b"#"]
    lines += [b"BestSegAscr 0 (NODEID ENDFRAME ASCORE)", b"#", b"Edges (FROM-NODEID TO-NODEID ASCORE)"]
    edges = zip(nodes.src.tolist(), nodes.dst.tolist(), score.tolist(), strict=True)
    lines += [*(b"%d %d %d" % edge for edge in edges), b"End", b""]
    return b"\n".join(lines)


def _misread(lattice: Lattice, settings: WriteSettings) -> list[str]:
    """Return a message about lost data if the lattice has words that readers interpret as fillers or pronunciations."""
    names = used_names(lattice, settings.words)
    if any(name in SILENT or _FILLER.fullmatch(name) for name in names):
        return ["words that readers interpret as fillers or pronunciations ([NOISE] or to(2))"]
    return []


FORMAT = Format(
    name="sphinx",
    about="CMU Sphinx lattice, one per file",
    extensions=(".sphinx", ".lat"),
    mark=lambda head: _FIRST.fullmatch(first_line(head)),
    read=Read(one_lattice(read_sphinx), SphinxOptions, single=True),
    keeps=frozenset({"paths", "times", "acoustic", "apart", "unscaled", "names"}),
    write=Write(textual.text_encoder(write_sphinx), options=SphinxWriteOptions, files="each", also_lost=_misread),
)
