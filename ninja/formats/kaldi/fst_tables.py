"""Kaldi tables of FSTs with one cost, binary as OpenFst writes them, or text."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from ninja.errors import OptionError
from ninja.files.output import Bytes, Packed, PartFile, StandardOutput
from ninja.io.sources import STDIN as STDOUT
from ninja.io.targets import target

Arc = tuple[int, int, int, float]  # input label, output label, end, cost


@dataclass(slots=True)
class Fst:
    """An FST in the tropical semiring, its arcs by state; state 0 is the start."""

    arcs: list[list[Arc]] = field(default_factory=list)
    final: list[float] = field(default_factory=list)  # +inf = not final


def as_text(fst: Fst, key: str) -> bytes:
    """Return an FST as an entry of a text table.

    Source: Kaldi fstext/kaldi-fst-io-inl.h, WriteFstKaldi; OpenFst, FstPrinter.
    """
    lines = [f"{key} "]
    for state, (arcs, end) in enumerate(zip(fst.arcs, fst.final, strict=True)):
        for taken, given, dst, cost in arcs:
            lines.append(f"{state}\t{dst}\t{taken}\t{given}" + (f"\t{np.float32(cost):.6g}" if cost else ""))
        if end < math.inf:
            lines.append(f"{state}" + (f"\t{np.float32(end):.6g}" if end else ""))
    return "\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")


def as_image(fst: Fst, key: str) -> bytes:
    """Return an FST as an entry of a binary table, which may be read with OpenFst behind its key."""
    from ninja import _openfst

    rows = [arc for arcs in fst.arcs for arc in arcs]
    taken, given, dst = (np.array([row[place] for row in rows], np.int32) for place in range(3))
    begin = np.concatenate(([0], np.cumsum([len(arcs) for arcs in fst.arcs]))).astype(np.int64)
    cost = np.array([row[3] for row in rows], np.float64)
    image = _openfst.write_image("standard", begin, dst, taken, given, cost, np.array(fst.final, np.float64))
    return key.encode("utf-8", "surrogateescape") + b" " + image


@contextmanager
def opened_table(name: str) -> Iterator[tuple[Bytes, bool]]:
    """Open a table for entries; yield where their bytes go, and whether it wants text.

    Args:
        name: A path (``.gz`` packs it, ``.txt`` is text), ``-`` (text on a terminal), ``ark:FILE`` or ``ark,t:FILE``.

    Raises:
        OptionError: The target makes no sense.
        OutputError: The file cannot be written.
    """
    chosen = target(name)
    if chosen.script is not None:
        raise OptionError(f"{name!r}: a table of FSTs gets no script file; write ark:FILE or ark,t:FILE")
    file = StandardOutput() if chosen.archive == STDOUT else PartFile(chosen.archive)
    try:
        packed = Packed(file) if chosen.packed else None
        yield packed or file, chosen.text or (name == STDOUT and sys.stdout.isatty())
        if packed is not None:
            packed.close()
        file.finish()
    except BaseException:
        file.abandon(keep=False)
        raise
