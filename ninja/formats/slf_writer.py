"""HTK's standard lattice format (SLF), written."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ninja import _formats
from ninja.errors import LatticeError, OptionError
from ninja.formats import textual
from ninja.formats.slf import NULL, SlfExtras
from ninja.formats.slf_base import LARGEST, Rebasing
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

Rows = tuple[Mapping[str, Mapping[int, str]], dict[int, int]]  # values of fields, and which row each number is

_SPECIAL = re.compile(rb"[\x00-\x1f][0-7]?|[\x20\x7f\\]")


def write_slf(
    lattice: Lattice,
    words: SymbolTable | None = None,
    *,
    extras: SlfExtras | None = None,
    base: float | None = None,
    frame_shift: float | None = None,
    encoding: str = "utf-8",
) -> bytes:
    """Return a lattice as the bytes of an HTK file, words on its links.

    States become nodes, arcs become links with ``a`` (acoustic) and ``l`` (graph) scores. Final costs stand on links
    with !NULL to an end node of their own, unless the lattice ends in one state without any. Reading gives the same
    lattice: with natural or other logarithms bit for bit, with probabilities (``base=0``) but for their last digit.
    Alignments stay behind; the times that they give are written.

    Args:
        lattice: The lattice.
        words: Its symbol table; None: the one attached to it.
        extras: What reading found beside the lattice, to be written again; the lattice must still be of that shape.
        base: Of the logarithms; 0: probabilities; None: as ``extras`` say, else natural. Scores and the penalty that
            ``extras`` keep come along into another base.
        frame_shift: Seconds; None: the lattice's own, else 0.01.
        encoding: Of the file.

    Raises:
        OptionError: ``base`` or ``frame_shift`` makes no sense; ``extras`` belong to another lattice, keep ``a`` or
            ``l``, or a field of which nobody knows whether it is a logarithm, where the base is not theirs.
        SymbolError: A word has no name.
        FormatError: A score to be put into another base is no number.
        LatticeError: No state is final, or a cost or a score is too large for a probability.

    Source: HTK HNet.c (WriteLattice); which fields are in the base: SRILM HTKLattice.cc (readHTK, getHTKscore).
    """
    textual.refuse_empty(lattice)
    textual.check_encoding(encoding)
    extras = extras or SlfExtras(shape=(lattice.num_states, lattice.num_arcs))
    if extras.shape != (lattice.num_states, lattice.num_arcs):
        raise OptionError(
            f"extras of a lattice of {extras.shape[0]} states, {extras.shape[1]} arcs do not fit {lattice!r}"
        )
    own = {*extras.on_arc, *extras.on_final} & {"a", "l"}
    if own:
        message = f"the extras keep {' and '.join(sorted(own))}, where the lattice's own costs are to stand"
        raise OptionError(f"{message}; leave them out of the extras", key=lattice.key or None)
    header = dict(extras.header)
    kept_base = float(header["base"]) if "base" in header else 1.0
    if base is None:
        base = kept_base
    if not (base == 0 or 1 <= base < math.inf):
        raise OptionError(f"base is {base}, but 0 (probabilities), 1 (natural logarithms) or more are needed")
    change = Rebasing(kept_base, base, lattice.key)
    if change.changes:
        header = change.of_header(header)
        extras = _rebased(extras, change)
    shift = textual.checked_shift(frame_shift or lattice.frame_shift or 0.01)
    if base == 0:
        _check_probabilities(lattice)
    place, names = textual.spelled(lattice, words, NULL, encoding)
    time = textual.frames(lattice)
    end = _needs_end(lattice) or bool(extras.on_final or extras.on_end)  # for these need a place
    end_time = 0 if time is None else max(textual.end_frame(lattice, time), extras.end_time or 0)
    on_node, on_link = _kept_fields(lattice, extras, encoding, end=end)
    lines = _formats.slf_lines(
        lattice,
        place,
        [_quoted(name) for name in names],
        None if time is None else np.maximum(time, 0),
        frame_shift=shift,
        decimals=_decimals(shift),
        log_base=1.0 if base in (0, 1) else math.log(base),
        linear=base == 0,
        graph=True,
        acoustic=True,
        end=end,
        end_time=end_time,
        on_node=on_node,
        on_link=on_link,
    )
    return _header(lattice, header, base, encoding, end=end) + lines


def _rebased(extras: SlfExtras, change: Rebasing) -> SlfExtras:
    on_end = change.of_rows({name: {0: value} for name, value in extras.on_end.items()})
    return replace(
        extras,
        on_state=change.of_rows(extras.on_state),
        on_arc=change.of_rows(extras.on_arc),
        on_final=change.of_rows(extras.on_final),
        on_end={name: values[0] for name, values in on_end.items()},
    )


def _header(lattice: Lattice, header: dict[str, str], base: float, encoding: str, *, end: bool) -> bytes:
    ours = ("VERSION", "V", "UTTERANCE", "U", "base", "start", "end", "dir", "tscale")
    rows = [("VERSION", header.get("VERSION", header.get("V", "1.1")))]
    utterance = header.get("UTTERANCE", header.get("U", lattice.key))
    if utterance:
        rows.append(("UTTERANCE", utterance))
    if base != 1:
        rows.append(("base", repr(base)))
    rows += [(name, value) for name, value in header.items() if name not in ours]
    last = lattice.num_states if end else int(np.flatnonzero(lattice.is_final)[0])
    rows += [("start", "0"), ("end", str(last))]
    lines = [name.encode() + b"=" + _quoted(textual.encoded(value, encoding, lattice.key)) for name, value in rows]
    num_links = lattice.num_arcs + (int(lattice.is_final.sum()) if end else 0)
    lines.append(b"N=%d\tL=%d" % (lattice.num_states + end, num_links))
    return b"\n".join(lines) + b"\n"


def _needs_end(lattice: Lattice) -> bool:
    """Tell whether final costs need an end node of their own; where not, reading must not fold what is there."""
    final = np.flatnonzero(lattice.is_final)
    last = int(final[0])
    if len(final) > 1 or lattice.final_graph[last] or lattice.final_acoustic[last]:
        return True
    if lattice.arc_begin[last + 1] > lattice.arc_begin[last]:
        return True
    return textual.would_fold(lattice, last)


def _check_probabilities(lattice: Lattice) -> None:
    final = lattice.is_final
    for cost in (lattice.graph, lattice.acoustic, lattice.final_graph[final], lattice.final_acoustic[final]):
        if np.abs(cost).max(initial=0) > LARGEST:  # exp(-cost) would be 0 or infinite
            worst = float(cost[np.abs(cost).argmax()])
            raise LatticeError(f"the cost {worst:g} is too large for a probability; write logarithms", key=lattice.key)


def _decimals(shift: float) -> int:
    """Return how many decimals tell the multiples of a shift apart."""
    return next((places for places in range(2, 10) if abs(round(shift, places) - shift) < 1e-12), 9)


def _quoted(text: bytes) -> bytes:
    """Return a value as HTK reads it: blanks and backslashes escaped, quotes where they would open a quoted text.

    So is a digit behind a control character: SRILM reads as many octal digits as there are.
    """
    if not text:
        return b'""'
    text = _SPECIAL.sub(
        lambda found: b"\\\\" if found[0] == b"\\" else b"".join(b"\\%03o" % byte for byte in found[0]), text
    )
    return b"\\" + text if text[:1] in (b'"', b"'") else text


def _kept_fields(lattice: Lattice, extras: SlfExtras, encoding: str, *, end: bool) -> tuple[list[bytes], list[bytes]]:
    """Return what stands at the end of each node and link line; empty lists: nothing."""

    def lines(tables: list[Rows], length: int) -> list[bytes]:
        if not any(table for table, _ in tables):
            return []
        made = [b""] * length
        for table, row_of in tables:
            for name, values in table.items():
                for number, value in values.items():
                    row = row_of.get(number, -1) if row_of else number
                    if row >= 0:
                        made[row] += b"\t" + name.encode() + b"=" + textual.encoded(value, encoding, lattice.key)
        return made

    finals = np.flatnonzero(lattice.is_final).tolist() if end else []
    final_row = {state: lattice.num_arcs + rank for rank, state in enumerate(finals)}
    on_node: list[Rows] = [(extras.on_state, {})]
    if end and extras.on_end:
        on_node.append(({name: {lattice.num_states: value} for name, value in extras.on_end.items()}, {}))
    on_link: list[Rows] = [(extras.on_arc, {})]
    if finals:
        on_link.append((extras.on_final, final_row))
    return lines(on_node, lattice.num_states + end), lines(on_link, lattice.num_arcs + len(finals))
