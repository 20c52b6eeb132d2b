"""Entries of Kaldi tables of FSTs with one cost, binary as OpenFst writes them, or text."""

from __future__ import annotations

import math

import numpy as np

from ninja.formats.fst_image import write_image
from ninja.lattice.fst import Fst


def as_text(fst: Fst, key: str) -> bytes:
    """Return an FST as an entry of a text table.

    Source: Kaldi fstext/kaldi-fst-io-inl.h, WriteFstKaldi; OpenFst, FstPrinter.
    """
    lines = [f"{key} "]
    begin, dst, taken, given = fst.arc_begin.tolist(), fst.dst.tolist(), fst.ilabel.tolist(), fst.olabel.tolist()
    for state, end in enumerate(fst.final_cost.tolist()):
        for arc in range(begin[state], begin[state + 1]):
            lines.append(f"{state}\t{dst[arc]}\t{taken[arc]}\t{given[arc]}{_weight(fst.cost[arc])}")
        if end < math.inf:
            lines.append(f"{state}{_weight(end)}")
    return "\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")


def _weight(cost: float) -> str:
    return f"\t{np.float32(cost):.6g}" if cost else ""


def as_image(fst: Fst, key: str) -> bytes:
    """Return an FST as an entry of a binary table, which may be read with OpenFst behind its key."""
    return key.encode("utf-8", "surrogateescape") + b" " + write_image(fst)
