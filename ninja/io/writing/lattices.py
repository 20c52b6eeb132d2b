"""Lattices as bytes of the formats that hold lattices, and what each of these would lose."""

from __future__ import annotations

import math

import numpy as np

from ninja.errors import LatticeError, SymbolError
from ninja.io.writing import losses
from ninja.io.writing.options import Asked, FstText
from ninja.lattice import Lattice

COSTS = ("graph", "acoustic", "final_graph", "final_acoustic")


def slf(lattice: Lattice, asked: Asked) -> bytes:
    """Return the bytes of an HTK file."""
    from ninja.formats.slf_writer import write_slf

    base, shift = asked.options.base, asked.options.frame_shift
    return write_slf(lattice, asked.words, base=base, frame_shift=shift, encoding=asked.encoding)


def slf_lost(lattice: Lattice, asked: Asked) -> list[str]:
    """Return what an HTK file would lose; times that alignments say are kept."""
    from ninja.formats.slf import SILENT, SlfOptions, read_slf

    lost = losses.structure(lattice, times=True)
    if not {*SILENT, "<eps>"}.isdisjoint(losses.names(lattice, asked.words)):
        lost.append(losses.SILENCES)
    if asked.options.base == 0:
        options = SlfOptions(silent=frozenset(), encoding=asked.encoding)
        back = read_slf(slf(lattice, asked), lattice.key, None, None, options)
        if any(losses.changed(getattr(lattice, name), getattr(back, name)) for name in COSTS):
            lost.append(losses.DIGITS)
    return lost


def sphinx(lattice: Lattice, asked: Asked) -> bytes:
    """Return the bytes of a Sphinx file."""
    from ninja.formats.sphinx import write_sphinx

    return write_sphinx(lattice, asked.words, base=asked.options.base, encoding=asked.encoding)


def sphinx_lost(lattice: Lattice, asked: Asked) -> list[str]:
    """Return what a Sphinx file would lose; times that alignments say are kept."""
    from ninja.formats.sphinx import SILENT

    lost = losses.structure(lattice, times=True)
    if losses.has_costs(lattice)[0]:
        lost.append(losses.GRAPH)
    if lattice.frame_shift not in (None, losses.NATURAL_SHIFT):
        lost.append(losses.FRAME_SHIFT)
    unit = math.log(asked.options.base)
    acoustic = np.concatenate((lattice.acoustic, lattice.final_acoustic[lattice.is_final])).astype(np.float64)
    if losses.changed(acoustic, 0 - np.rint(-acoustic / unit) * unit):
        lost.append(losses.DIGITS)
    if any(name in SILENT or losses.is_filler(name) for name in losses.names(lattice, asked.words)):
        lost.append(losses.FILLERS)
    return lost


def pfsg(lattice: Lattice, asked: Asked) -> bytes:
    """Return the bytes of a PFSG."""
    from ninja.formats.pfsg import write_pfsg

    costs, scale = asked.options.costs, asked.options.acoustic_scale
    return write_pfsg(lattice, asked.words, costs=costs, acoustic_scale=scale, encoding=asked.encoding)


def pfsg_lost(lattice: Lattice, asked: Asked) -> list[str]:
    """Return what a PFSG would lose."""
    from ninja.formats.pfsg import SCALE
    from ninja.formats.textual import one_cost

    costs, scale = asked.options.costs, asked.options.acoustic_scale
    lost = losses.structure(lattice) + losses.one_cost(lattice, costs, scale)
    final = lattice.is_final
    graph = np.concatenate((lattice.graph, lattice.final_graph[final]))
    acoustic = np.concatenate((lattice.acoustic, lattice.final_acoustic[final]))
    cost = one_cost(graph, acoustic, costs, scale)
    return [*lost, losses.DIGITS] if losses.changed(cost, 0 - np.rint(-cost * SCALE) / SCALE) else lost


def plf(lattice: Lattice, asked: Asked) -> bytes:
    """Return a line of PLF."""
    from ninja.formats.plf import write_plf

    scores, scale = asked.options.scores, asked.options.acoustic_scale
    return write_plf(lattice, asked.words, scores=scores, acoustic_scale=scale, encoding=asked.encoding)


def plf_lost(lattice: Lattice, asked: Asked) -> list[str]:
    """Return what PLF would lose."""
    scores, scale = asked.options.scores, asked.options.acoustic_scale
    if scores == "both":
        return losses.structure(lattice)
    return losses.structure(lattice) + losses.one_cost(lattice, scores, scale)


def fst(lattice: Lattice, asked: Asked) -> bytes:
    """Return the bytes of an OpenFst file."""
    from ninja.formats.fst_binary import write_fst
    from ninja.formats.textual import refuse_empty

    refuse_empty(lattice)
    options = asked.options
    symbols = None
    if options.symbols:
        symbols = lattice.words if asked.words is None else asked.words
        if symbols is None:
            raise SymbolError("the words have no names to write; give their symbol table (--words)", key=lattice.key)
    return write_fst(lattice, options.arc_type, options.costs, options.acoustic_scale, symbols)


def fst_lost(lattice: Lattice, asked: Asked) -> list[str]:
    """Return what OpenFst would lose."""
    return losses.structure(lattice) + losses.one_cost(lattice, asked.options.costs, asked.options.acoustic_scale)


def fst_text(lattice: Lattice, asked: Asked) -> bytes:
    """Return an FST in text."""
    from ninja.formats.fst_text import write_fst_text
    from ninja.formats.textual import refuse_empty

    refuse_empty(lattice)
    options = asked.options
    return write_fst_text(
        lattice,
        asked.words,
        labels=options.labels,
        acceptor=options.acceptor,
        costs=options.costs,
        acoustic_scale=options.acoustic_scale,
        encoding=asked.encoding,
    )


def fst_text_lost(lattice: Lattice, asked: Asked) -> list[str]:
    """Return what an FST in text would lose."""
    lost = losses.structure(lattice) + losses.one_cost(lattice, asked.options.costs, asked.options.acoustic_scale)
    if asked.options.labels == "words":
        said = losses.names(lattice, asked.words)
        if said and all(name.isascii() and name.isdigit() for name in said):
            lost.append(losses.NUMBERS)
    return lost


def fst_entry(lattice: Lattice, asked: Asked) -> bytes:
    """Return an entry of a Kaldi archive of FSTs."""
    from ninja.formats.kaldi.fst_archive import fst_entry as entry
    from ninja.formats.textual import refuse_empty

    refuse_empty(lattice)
    options = asked.options
    return entry(
        lattice,
        text=options.text,
        arc_type=options.arc_type,
        costs=options.costs,
        acoustic_scale=options.acoustic_scale,
    )


def fst_entry_lost(lattice: Lattice, asked: Asked) -> list[str]:
    """Return what an archive of FSTs would lose."""
    options = asked.options
    if not options.text:
        return fst_lost(lattice, asked)
    return fst_text_lost(lattice, Asked(FstText(options.costs, options.acoustic_scale), None, asked.encoding))


def k2_checked(lattice: Lattice) -> None:
    """Refuse a lattice that would keep all the others out of their file.

    Raises:
        LatticeError: No state is final, or the sum of two costs is beyond float32.
    """
    from ninja.formats.textual import refuse_empty

    refuse_empty(lattice)
    final = lattice.is_final
    with np.errstate(over="ignore"):
        sums = (lattice.graph + lattice.acoustic, lattice.final_graph[final] + lattice.final_acoustic[final])
    if not all(np.isfinite(each).all() for each in sums):
        raise LatticeError("graph and acoustic cost of an arc add up to more than float32 holds", key=lattice.key)


def k2_lost(lattice: Lattice, asked: Asked) -> list[str]:
    """Return what a k2 file would lose."""
    return [] if asked.options.extras else losses.structure(lattice)


def native_lost(lattice: Lattice, asked: Asked) -> list[str]:
    """Return what our own files lose: nothing."""
    return []
