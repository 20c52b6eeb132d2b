"""OpenFst's own binary files: FSTs of the arc types standard, log and log64; vector and const ones are read."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Literal

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError, LatticeError, SymbolError
from ninja.formats.content import Content, Entry
from ninja.formats.format import Field, Format, Read, Write, WriteSettings
from ninja.formats.fst_image import ArcType, Image, Symbols, parse_image, parse_image_at, write_image
from ninja.formats.textual import OneCost, check_choice, kept_by_options, one_cost, refuse_empty
from ninja.lattice import Lattice
from ninja.lattice.arrays import frozen
from ninja.lattice.fst import Fst
from ninja.lattice.symbols import EPSILON, SymbolTable

MAGIC = b"\xd6\xfd\xb2\x7e"  # Kaldi's lattices begin so too; the arc type tells them apart
SYMBOLS_MAGIC = 2125658996

CostName = Literal["total", "graph", "acoustic"]
Side = Literal["output", "input"]
Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class OpenfstOptions:
    """Options of reading an OpenFst file."""

    words: Side = "output"  # labels that become the words; the others are dropped

    def __post_init__(self) -> None:
        check_choice("words", self.words, "output", "input")


def read_fst(content: bytes, key: str, path: str | None = None, options: OpenfstOptions = OpenfstOptions()) -> Lattice:
    """Read a lattice from the bytes of an OpenFst file.

    Words are the output labels (input labels are dropped), graph costs the weights, acoustic costs 0. An attached
    output symbol table becomes the lattice's, or an input one where every arc has the same label on both sides. Arcs of
    infinite weight, the semiring's zero, are left out.

    Raises:
        FormatError: Not a vector or const FST of the three arc types, damaged, cut short, or followed by more bytes.
        LatticeError: A cycle, no start, no final state, a weight of NaN or -infinity, a negative label.

    Source: OpenFst 1.8.4, vector-fst.h (VectorFstImpl::Read), const-fst.h (ConstFstImpl::Read), fst.cc (FstHeader).
    """
    image = parse_image(content, key, path)
    if image.end != len(content):
        left = len(content) - image.end
        raise FormatError(f"{left} bytes follow the end of the FST", path, key=key or None, byte=image.end)
    return _lattice(image, key, path, options.words)


def read_fst_at(content: bytes, begin: int, key: str, path: str | None = None) -> tuple[Lattice | LatticeError, int]:
    """Read a lattice from an image at an offset of other bytes.

    Returns:
        The lattice, or its error; and the offset at which the image ends.

    Raises:
        FormatError: The image is damaged or of another kind of FST, so that its end is unknown.
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
    # The table of the other side serves where the labels of both sides are equal.
    if symbols is None and np.array_equal(fst.ilabel, fst.olabel):
        symbols = others
    words = None if symbols is None else _table(symbols, key, path)
    # Costs beyond float32, possible in log64 only, become infinite and are refused as such.
    with np.errstate(over="ignore"):
        graph, final_graph = fst.cost.astype(np.float32), fst.final_cost.astype(np.float32)
    if (large := np.isposinf(final_graph) & np.isfinite(fst.final_cost)).any():  # it would not be final
        state = int(np.flatnonzero(large)[0])
        message = f"state {state} has the final weight {fst.final_cost[state]:g}, more than a float32 holds"
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
    """Write a lattice as an OpenFst file: a word acceptor with one cost, without alignments.

    Args:
        arc_type: Semiring; decides the width of weights.
        costs: Weight of an arc: "total" = ``acoustic_scale * acoustic + graph``, or "graph" or "acoustic" alone.
        acoustic_scale: Factor of the acoustic cost in "total"; must be 1 with one cost alone.
        symbols: Symbol table of the words, written for both labels.

    Raises:
        OptionError: An argument has another value.
        LatticeError: A cost overflows the weight type.
    """
    table = b"" if symbols is None else _symbols_image(lattice, symbols)
    cost, final_cost = weights(lattice, arc_type, costs, acoustic_scale)
    fst = Fst(lattice.arc_begin, lattice.dst, lattice.word, lattice.word, cost, final_cost)
    return write_image(fst, arc_type, table)


def weights(
    lattice: Lattice, arc_type: ArcType, costs: CostName, acoustic_scale: float = 1.0
) -> tuple[Float64, Float64]:
    """Return the single cost of each arc and each final state, checked against the range of the arc type.

    Returns:
        Costs of arcs and of final states, +inf = not final; float64 [num_arcs] and [num_states].
    """
    check_choice("arc_type", arc_type, "standard", "log", "log64")
    final = np.flatnonzero(lattice.is_final)
    final_cost = np.full(lattice.num_states, np.inf)
    with np.errstate(over="ignore"):
        cost = one_cost(lattice.graph, lattice.acoustic, costs, acoustic_scale)
        ends = lattice.final_graph[final], lattice.final_acoustic[final]
        final_cost[final] = one_cost(*ends, costs, acoustic_scale)
    _refuse_large(cost, arc_type, lambda arc: f"arc {arc}", lattice.key)
    _refuse_large(final_cost[final], arc_type, lambda place: f"ending in state {final[place]}", lattice.key)
    return cost, final_cost


def _refuse_large(cost: Float64, arc_type: ArcType, name: Callable[[int], str], key: str) -> None:
    """Raise LatticeError for costs that overflow the weight type: an infinite weight would remove the arc."""
    width = np.float64 if arc_type == "log64" else np.float32
    with np.errstate(over="ignore"):
        fits = np.isfinite(cost.astype(width))
    if not fits.all():
        first = int(np.flatnonzero(~fits)[0])
        advice = "a smaller acoustic_scale" + (" or arc_type=log64" if np.isfinite(cost[first]) else "")
        message = f"{name(first)} costs {cost[first]:g}, more than a {width.__name__} holds; take {advice}"
        raise LatticeError(message, key=key or None)


def _symbols_image(lattice: Lattice, symbols: SymbolTable) -> bytes:
    """Return a symbol table as OpenFst writes it, after checking that it has all words of a lattice.

    Source: OpenFst 1.8.4, symbol-table.cc (SymbolTableImpl::Write).
    """
    for word in np.unique(lattice.word).tolist():
        if word != EPSILON:
            symbols.word(word)
    return _table_image(symbols, len(symbols))


@lru_cache(maxsize=1)  # many lattices in a row have one table
def _table_image(symbols: SymbolTable, count: int) -> bytes:
    """Return the bytes of a symbol table; `count`, its size, makes the cache miss when the table has grown."""
    name = b"words"
    # The id of the next symbol in OpenFst.
    next_id = max((number for _, number in symbols), default=-1) + 1
    pieces = [struct.pack(f"<ii{len(name)}sqq", SYMBOLS_MAGIC, len(name), name, next_id, count)]
    # Ids numbered from 0 without a gap come first and in order, as the reader assumes.
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
    """Options of FSTs, also of those in archives."""

    arc_type: Literal["standard", "log", "log64"] = "standard"


@dataclass(frozen=True, slots=True)
class OpenfstWriteOptions(FstWriteOptions):
    """Options of an OpenFst file."""

    symbols: bool = False  # put the symbol table of the words into the file


def _encode(lattice: Lattice, settings: WriteSettings) -> bytes:
    refuse_empty(lattice)
    options = settings.options
    symbols = None
    if options.symbols:
        symbols = lattice.words if settings.words is None else settings.words
        if symbols is None:
            raise SymbolError("the words have no names to write; give their symbol table (--words)", key=lattice.key)
    return write_fst(lattice, options.arc_type, options.costs, options.acoustic_scale, symbols)


def _kept(keeps: frozenset[Field], options: OpenfstWriteOptions) -> frozenset[Field]:
    fields = kept_by_options(keeps, options)
    return fields | {"names"} if options.symbols else fields


FORMAT = Format(
    name="openfst",
    about="FST of OpenFst in its binary form, one a file",
    extensions=(".fst", ".fsa"),
    mark=_is_image,
    read=Read(_entries, OpenfstOptions, ids=True),
    keeps=frozenset({"paths", "graph", "acoustic", "unscaled", "ids"}),
    write=Write(_encode, options=OpenfstWriteOptions, files="each", keeps=_kept),
)
