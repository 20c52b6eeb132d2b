"""Reader and writer for OpenFst binary files: vector or (read only) const FSTs; arc types standard, log and log64."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Literal

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError, LatticeError, SymbolError, counted
from ninja.formats.content import Content, Entry, check_choice
from ninja.formats.format import Field, Format, Read, Write, WriteSettings
from ninja.formats.fst_image import ArcType, Image, Symbols, parse_image, parse_image_at, write_image
from ninja.formats.textual import OneCost, kept_by_options, one_cost, refuse_empty
from ninja.lattice import Lattice
from ninja.lattice.fst import Fst
from ninja.lattice.lattice import frozen
from ninja.lattice.symbols import EPSILON, SymbolTable

MAGIC = b"\xd6\xfd\xb2\x7e"  # binary Kaldi lattices also begin with these bytes, but have other arc types
SYMBOLS_MAGIC = 2125658996

CostName = Literal["total", "graph", "acoustic"]
Side = Literal["output", "input"]
Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class OpenfstOptions:
    """Options for reading an OpenFst file."""

    words: Side = "output"  # which labels become the words; the other labels are dropped

    def __post_init__(self) -> None:
        check_choice("words", self.words, "output", "input")


def read_fst(content: bytes, key: str, path: str | None = None, options: OpenfstOptions = OpenfstOptions()) -> Lattice:
    """Read a lattice from the bytes of an OpenFst file.

    By default, output labels become the words, and input labels are dropped. Weights become graph costs, and acoustic
    costs are 0. The output symbol table in the file becomes the symbol table of the lattice. If there is none, and the
    two labels of each arc are equal, the input symbol table is used. Arcs with an infinite weight (the zero of the
    semiring) are dropped.

    Raises:
        FormatError: The file is damaged or incomplete, continues after the FST, or is not a vector or const FST with
            the arc type standard, log or log64.
        LatticeError: The FST has a cycle, no start state, no final state, a weight of NaN or -infinity, or a negative
            label.

    Source: OpenFst 1.8.4, vector-fst.h (VectorFstImpl::Read), const-fst.h (ConstFstImpl::Read), fst.cc (FstHeader).
    """
    image = parse_image(content, key, path)
    if image.end != len(content):
        num_extra = len(content) - image.end
        raise FormatError(
            f"{counted(num_extra, 'byte follows', 'bytes follow')} the end of the FST; copy the file again",
            path,
            key=key or None,
            byte=image.end,
        )
    return _lattice(image, key, path, options.words)


def read_fst_at(content: bytes, begin: int, key: str, path: str | None = None) -> tuple[Lattice | LatticeError, int]:
    """Read a lattice from the binary FST that begins at a byte offset.

    Returns:
        The lattice or its error, and the byte offset at which the FST ends.

    Raises:
        FormatError: The FST is damaged or not supported; its end is therefore unknown.
    """
    image, end = parse_image_at(content, begin, key, path)
    if isinstance(image, LatticeError):
        return image, end
    try:
        return _lattice(image, key, path), end
    except LatticeError as error:
        return error, end


def _lattice(image: Image, key: str, path: str | None, side: Side = "output") -> Lattice:
    fst = image.fst
    label = fst.olabel if side == "output" else fst.ilabel
    symbols, others = image.output_symbols, image.input_symbols
    if side == "input":
        symbols, others = others, symbols
    # If input and output labels are equal, the symbol table of either side is valid for both.
    if symbols is None and np.array_equal(fst.ilabel, fst.olabel):
        symbols = others
    words = None if symbols is None else _table(symbols, key, path)
    # Costs that exceed float32, which only log64 can have, become infinite and are then rejected.
    with np.errstate(over="ignore"):
        graph, final_graph = fst.cost.astype(np.float32), fst.final_cost.astype(np.float32)
    if (
        large := np.isposinf(final_graph) & np.isfinite(fst.final_cost)
    ).any():  # with an infinite cost, the state would not be final
        state = int(np.flatnonzero(large)[0])
        message = f"state {state} has the final weight {fst.final_cost[state]:g}, which exceeds the range of float32"
        raise LatticeError(message, path, key=key or None)
    if not np.isfinite(graph).all() or np.isneginf(final_graph).any() or np.isposinf(final_graph).all():
        try:
            return Lattice.from_arrays(key, fst.arc_begin, fst.dst, label, graph, np.zeros_like(graph), final_graph)
        except LatticeError as error:
            raise LatticeError(error.message, path, key=key or None) from None
    final_acoustic = frozen(np.where(np.isposinf(final_graph), np.float32(np.inf), np.float32(0)))
    acoustic = frozen(np.zeros_like(graph))
    ends = frozen(final_graph), final_acoustic
    return Lattice.unlabelled(key, fst.arc_begin, fst.dst, label, frozen(graph), acoustic, *ends, words)


def _table(symbols: Symbols, key: str, path: str | None) -> SymbolTable:
    try:
        return SymbolTable(((name.decode("utf-8"), number) for name, number in symbols), path)
    except UnicodeDecodeError as error:
        raise FormatError(f"the symbol table is not UTF-8 ({error.reason})", path, key=key or None) from error


def write_fst(
    lattice: Lattice,
    arc_type: ArcType = "standard",
    costs: CostName = "total",
    acoustic_scale: float = 1.0,
    symbols: SymbolTable | None = None,
) -> bytes:
    """Encode a lattice as an OpenFst file: a word acceptor with one cost per arc, without alignments.

    Args:
        lattice: Any lattice.
        arc_type: Arc type, which determines the semiring and the precision of weights.
        costs: Cost that becomes the arc weight: "total" (``acoustic_scale * acoustic + graph``), "graph" or "acoustic".
        acoustic_scale: Factor for acoustic costs in "total"; must be 1 otherwise.
        symbols: Symbol table to write as both the input and the output symbol table.  [default: none]

    Raises:
        OptionError: An argument has an invalid value.
        LatticeError: A cost exceeds the range of the weight type.
    """
    table = b"" if symbols is None else _symbols_image(lattice, symbols)
    cost, final_cost = weights(lattice, arc_type, costs, acoustic_scale)
    fst = Fst(lattice.arc_begin, lattice.dst, lattice.word, lattice.word, cost, final_cost)
    return write_image(fst, arc_type, table)


def weights(
    lattice: Lattice, arc_type: ArcType, costs: CostName, acoustic_scale: float = 1.0
) -> tuple[Float64, Float64]:
    """Compute one cost per arc and final state, and check that costs are within the range of the arc type.

    Returns:
        Arc costs, float64 [num_arcs], and final costs, float64 [num_states]; final costs are +inf for non-final states.
    """
    check_choice("arc_type", arc_type, "standard", "log", "log64")
    final = np.flatnonzero(lattice.is_final)
    final_cost = np.full(lattice.num_states, np.inf)
    with np.errstate(over="ignore"):
        cost = one_cost(lattice.graph, lattice.acoustic, costs, acoustic_scale)
        ends = lattice.final_graph[final], lattice.final_acoustic[final]
        final_cost[final] = one_cost(*ends, costs, acoustic_scale)
    _refuse_large(cost, arc_type, lambda arc: f"arc {arc}", lattice.key)
    _refuse_large(final_cost[final], arc_type, lambda index: f"ending in state {final[index]}", lattice.key)
    return cost, final_cost


def _refuse_large(cost: Float64, arc_type: ArcType, name: Callable[[int], str], key: str) -> None:
    """Raise LatticeError if a cost overflows the weight type, because an infinite weight would remove the arc."""
    width = np.float64 if arc_type == "log64" else np.float32
    with np.errstate(over="ignore"):
        fits = np.isfinite(cost.astype(width))
    if not fits.all():
        first = int(np.flatnonzero(~fits)[0])
        advice = "a smaller acoustic_scale" + (" or arc_type=log64" if np.isfinite(cost[first]) else "")
        message = f"{name(first)} costs {cost[first]:g}, which exceeds the range of {width.__name__}; use {advice}"
        raise LatticeError(message, key=key or None)


def _symbols_image(lattice: Lattice, symbols: SymbolTable) -> bytes:
    """Check that a symbol table contains all words of a lattice, and encode it in OpenFst's format.

    Source: OpenFst 1.8.4, symbol-table.cc (SymbolTableImpl::Write).
    """
    for word in np.unique(lattice.word).tolist():
        if word != EPSILON:
            symbols.word(word)
    return _table_image(symbols, len(symbols))


@lru_cache(maxsize=1)  # consecutive lattices usually share a table
def _table_image(symbols: SymbolTable, count: int) -> bytes:
    """Encode a symbol table with `count` words; `count` is part of the cache key, because a table can grow."""
    name = b"words"
    # The header contains the id that OpenFst would assign to the next new symbol.
    next_id = max((number for _, number in symbols), default=-1) + 1
    pieces = [struct.pack(f"<ii{len(name)}sqq", SYMBOLS_MAGIC, len(name), name, next_id, count)]
    # OpenFst's reader assumes that consecutive ids, starting at 0, come first and in increasing order.
    for word, number in sorted(symbols, key=itemgetter(1)):
        spelled = word.encode()
        pieces.append(struct.pack(f"<i{len(spelled)}sq", len(spelled), spelled, number))
    return b"".join(pieces)


def _entries(content: Content, words: SymbolTable | None, options: OpenfstOptions) -> Iterator[Entry]:
    yield content.key, read_fst(content.whole(), content.key, content.name, options)


def _is_image(head: bytes) -> bool:
    return head.startswith(MAGIC)


@dataclass(frozen=True, slots=True)
class FstWriteOptions(OneCost):
    """Options for writing FSTs to files or archives."""

    arc_type: Literal["standard", "log", "log64"] = "standard"


@dataclass(frozen=True, slots=True)
class OpenfstWriteOptions(FstWriteOptions):
    """Options for writing an OpenFst file."""

    symbols: bool = False  # whether to write the symbol table of the words, too


def _encode(lattice: Lattice, settings: WriteSettings) -> bytes:
    refuse_empty(lattice)
    options = settings.options
    symbols = None
    if options.symbols:
        symbols = lattice.words if settings.words is None else settings.words
        if symbols is None:
            raise SymbolError("symbols=true requires a symbol table; set it with --words", key=lattice.key)
    return write_fst(lattice, options.arc_type, options.costs, options.acoustic_scale, symbols)


def _stored_fields(keeps: frozenset[Field], options: OpenfstWriteOptions) -> frozenset[Field]:
    fields = kept_by_options(keeps, options)
    return fields | {"names"} if options.symbols else fields


FORMAT = Format(
    name="openfst",
    about="FST in OpenFst's binary format, one per file",
    extensions=(".fst", ".fsa"),
    mark=_is_image,
    read=Read(_entries, OpenfstOptions, ids=True),
    keeps=frozenset({"paths", "graph", "acoustic", "unscaled", "ids"}),
    write=Write(_encode, options=OpenfstWriteOptions, files="each", keeps=_stored_fields),
)
