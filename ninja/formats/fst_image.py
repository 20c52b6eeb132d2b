"""Conversion between ``Fst`` and OpenFst's binary format (vector or const FSTs; arc types standard, log and log64)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from ninja import _core
from ninja.errors import FormatError, LatticeError
from ninja.files.stream import Place, open_stream
from ninja.lattice.fst import Fst

ArcType = Literal["standard", "log", "log64"]
Symbols = list[tuple[bytes, int]]  # names and ids


@dataclass(frozen=True, slots=True)
class Image:
    """An acyclic FST parsed from OpenFst's binary format."""

    fst: Fst  # with states in topological order
    end: int  # byte offset at which the FST ends
    input_symbols: Symbols | None
    output_symbols: Symbols | None


def write_image(fst: Fst, arc_type: ArcType = "standard", symbols: bytes = b"") -> bytes:
    """Encode an FST whose start state is 0 in OpenFst's binary format."""
    return _core.write_image(
        arc_type, fst.arc_begin, fst.dst, fst.ilabel, fst.olabel, fst.cost, fst.final_cost, symbols
    )


def parse_image(content: bytes, key: str = "", path: str | None = None) -> Image:
    """Parse an acyclic FST in OpenFst's binary format.

    If states are not in topological order, the reachable states are sorted. Arcs with an infinite weight (the zero
    of the semiring) are dropped, because no path can take them.

    Raises:
        FormatError: The FST is damaged or not supported.
        LatticeError: The FST has a cycle, no start state, a weight of NaN or -infinity, or a negative label.
    """
    image, _ = parse_image_at(content, 0, key, path)
    if isinstance(image, LatticeError):
        raise image
    return image


def parse_image_at(content: bytes, begin: int, key: str, path: str | None) -> tuple[Image | LatticeError, int]:
    """Parse the FST that begins at a byte offset; return ``(FST or LatticeError, byte offset at which it ends)``.

    Raises:
        FormatError: The FST is damaged or not supported.
    """
    error, byte, size, fields = _core.parse_image(content, begin)
    if error and byte >= 0:
        raise FormatError(error, path, key=key or None, byte=begin + byte)
    end = begin + size
    if fields is None:
        return LatticeError(error, path, key=key or None), end
    arc_begin, dst, ilabel, olabel, cost, final_cost, *symbols = fields
    return Image(Fst(arc_begin, dst, ilabel, olabel, cost, final_cost, path=path), end, *symbols), end


def parse_transducer(content: bytes, path: str | None = None) -> Fst:
    """Parse the bytes of an OpenFst file. The FST may have cycles; arcs are sorted by input label.

    Raises:
        FormatError: The file is damaged or incomplete, continues after the FST, or is not a vector or const FST with
            the arc type standard, log or log64.
        LatticeError: The FST has no start state, an infinite arc weight, a final weight of -infinity, a weight of NaN,
            or a negative label.
    """
    error, byte, fields = _core.parse_machine(content)
    if error and byte >= 0:
        raise FormatError(error, path, byte=byte)
    if fields is None:
        raise LatticeError(error, path)
    start, arc_begin, dst, ilabel, olabel, cost, final_cost = fields
    return Fst(arc_begin, dst, ilabel, olabel, cost, final_cost, start, path, is_sorted=True)


def read_transducer(path: str | os.PathLike[str]) -> Fst:
    """Read an OpenFst file, optionally compressed with gzip; ``-`` is standard input."""
    name = os.fspath(path)
    with open_stream(Place(name)) as stream:
        return parse_transducer(stream.rest(), name)
