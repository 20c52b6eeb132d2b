"""OpenFst's own binary files: FSTs of the arc types standard, log and log64; vector and const ones are read."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter

import numpy as np

from ninja.errors import OptionError
from ninja.lattice import Lattice
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.openfst import ArcType, CostName, Side, from_image, to_image

MAGIC = b"\xd6\xfd\xb2\x7e"  # Kaldi's lattices begin so too; the arc type tells them apart
SYMBOLS_MAGIC = 2125658996


@dataclass(frozen=True, slots=True)
class OpenfstOptions:
    """How an OpenFst file is understood."""

    words: Side = "output"  # which labels are the words; the others are dropped

    def __post_init__(self) -> None:
        if self.words not in ("output", "input"):
            raise OptionError(f"words is {self.words!r}, but output or input is needed")


def read_fst(content: bytes, key: str, path: str | None = None, options: OpenfstOptions = OpenfstOptions()) -> Lattice:
    """Read a lattice from the bytes of an OpenFst file.

    Words are the output labels (input labels are dropped), graph costs the weights, acoustic costs 0. An attached
    output symbol table becomes the lattice's, or an input one where every arc has the same label on both sides. Arcs of
    infinite weight, the semiring's zero, are left out.

    Args:
        content: The whole file.
        key: Utterance id the lattice is to have.
        path: File name for error messages.
        options: How the file is understood.

    Raises:
        FormatError: Not a vector or const FST of the three arc types, damaged, cut short, or followed by more bytes.
        LatticeError: A cycle, no start, no final state, a weight of NaN or -infinity, a negative label.

    Source: OpenFst 1.8.4, vector-fst.h (VectorFstImpl::Read), const-fst.h (ConstFstImpl::Read), fst.cc (FstHeader).
    """
    return from_image(content, key, path, options.words)


def write_fst(
    lattice: Lattice,
    arc_type: ArcType = "standard",
    costs: CostName = "total",
    acoustic_scale: float = 1.0,
    symbols: SymbolTable | None = None,
) -> bytes:
    """Return a lattice as the bytes of an OpenFst file: a word acceptor with one cost; alignments stay behind.

    Args:
        lattice: The lattice.
        arc_type: Semiring; decides the width of weights.
        costs: Weight of an arc: "total" = ``acoustic_scale * acoustic + graph``, or "graph" or "acoustic" as it is.
        acoustic_scale: Factor of the acoustic cost in "total"; with one cost alone it is refused.
        symbols: Symbol table of the words, put into the file as that of both labels.

    Raises:
        OptionError: An argument is none of the above.
        LatticeError: A cost is more than a weight of that width holds.
        SymbolError: A word is missing from ``symbols``.
    """
    table = b"" if symbols is None else _symbols_image(lattice, symbols)
    return to_image(lattice, arc_type, costs, "word", acoustic_scale, table)


def _symbols_image(lattice: Lattice, symbols: SymbolTable) -> bytes:
    """Return a symbol table as OpenFst writes it; it is to name all words of a lattice.

    Source: OpenFst 1.8.4, symbol-table.cc (SymbolTableImpl::Write).
    """
    for word in np.unique(lattice.word).tolist():
        if word != EPSILON:
            symbols.word(word)
    return _table_image(symbols, len(symbols))


@lru_cache(maxsize=1)  # many lattices in a row have one table
def _table_image(symbols: SymbolTable, count: int) -> bytes:
    """Return the bytes of a symbol table; `count` tells a table that has grown from what it was."""
    name = b"words"
    # The id that OpenFst would give to the next symbol.
    next_id = max((number for _, number in symbols), default=-1) + 1
    pieces = [struct.pack(f"<ii{len(name)}sqq", SYMBOLS_MAGIC, len(name), name, next_id, count)]
    # Those that are numbered from 0 on without a gap come first and in order, as the reader assumes.
    for word, number in sorted(symbols, key=itemgetter(1)):
        spelled = word.encode()
        pieces.append(struct.pack(f"<i{len(spelled)}sq", len(spelled), spelled, number))
    return b"".join(pieces)
