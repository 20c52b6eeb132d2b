"""What a format would lose from a lattice or an n-best list, in words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ninja.errors import SymbolError
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.word_ids import used_words

if TYPE_CHECKING:
    from ninja.lattice.nbest import NBest

ALIGNMENTS = "alignments"
TIMES = "times"
FRAME_SHIFT = "frame shift"
RAW = "raw kind"
KEY = "key"
GRAPH = "graph costs"
ACOUSTIC = "acoustic costs"
APART = "which cost is graph and which acoustic"
UNSCALED = "unscaled acoustic costs"
OF_WORDS = "costs of single words"
PATHS = "paths and their costs"
DIGITS = "last digits of costs"
SILENCES = "words that are read as silence (<s> or !ENTER)"
FILLERS = "words that are read as fillers or pronunciations ([NOISE] or to(2))"
NUMBERS = "names of words (numbers are read as ids)"
NATURAL_SHIFT = 0.01  # seconds, which readers of formats in frames take
SAMPLE = 8  # costs that most often tell

_FILLER = re.compile(r"\[.*\]|\+\+.*\+\+|.+\([1-9][0-9]*\)", re.DOTALL)


def of_kaldi(lattice: Lattice) -> list[str]:
    """Return what a Kaldi archive lacks: times where no labels say them, and how long a frame is."""
    if lattice.time is None and lattice.frame_shift is None:
        return []
    if lattice.has_labels:
        return [] if lattice.frame_shift is None else [FRAME_SHIFT]
    return [] if lattice.time is None else [TIMES]


def structure(lattice: Lattice, *, times: bool = False) -> list[str]:
    """Return what a format lacks that has no place for alignments and kinds, and for times or not."""
    lost = [ALIGNMENTS] if lattice.has_labels else []
    if lattice.time is not None and not times:
        lost.append(TIMES)
    return [*lost, RAW] if lattice.kind == "raw" else lost


def one_cost(lattice: Lattice, costs: str, acoustic_scale: float = 1.0) -> list[str]:
    """Return what a format lacks that has one cost: "total" = ``acoustic_scale * acoustic + graph``, or one of them.

    Its readers take that for the graph cost.
    """
    graph, acoustic = has_costs(lattice)
    lost = [GRAPH] if graph and costs == "acoustic" else []
    if acoustic and (costs == "graph" or acoustic_scale == 0.0):
        return [*lost, ACOUSTIC]
    if acoustic:
        lost.append(APART)
        if acoustic_scale != 1.0 and not graph:
            lost.append(UNSCALED)
    return lost


def in_text(lattice: Lattice) -> list[str]:
    """Return what Kaldi's text form lacks, besides: it has six digits."""
    for cost in lattice.acoustic[:SAMPLE].tolist():
        if abs(float(f"{cost:.6g}") - cost) > abs(cost) * 2.0**-24:  # more than float32 rounds
            return [DIGITS]
    final = lattice.is_final
    for part in (lattice.graph, lattice.acoustic, lattice.final_graph[final], lattice.final_acoustic[final]):
        cost = part[part != 0].astype(np.float64)
        unit = 10.0 ** (np.floor(np.log10(np.abs(cost))) - 5)
        if changed(cost, np.rint(cost / unit) * unit):
            return [DIGITS]
    return []


def has_costs(lattice: Lattice) -> tuple[bool, bool]:
    """Tell whether any graph cost is not 0, and any acoustic cost."""
    final = lattice.is_final
    graph = lattice.graph.any() or lattice.final_graph[final].any()
    return bool(graph), bool(lattice.acoustic.any() or lattice.final_acoustic[final].any())


def names(lattice: Lattice, words: SymbolTable | None) -> list[str]:
    """Return the names of a lattice's words, as far as they have any."""
    table = lattice.words if words is None else words
    if table is None:
        return []
    try:
        return [table.word(word) for word in used_words(lattice)]
    except SymbolError:  # whoever writes them says so
        return []


def is_filler(name: str) -> bool:
    """Tell whether Sphinx's readers take a word for noise, or its end for the number of a pronunciation."""
    return _FILLER.fullmatch(name) is not None


def of_list(nbest: NBest, n: int, *, labels: bool = False, times: bool = False, words: bool = False) -> list[str]:
    """Return what a format of lists lacks.

    Args:
        nbest: The list.
        n: Hypotheses asked for, 0: all; a list of so many may have been longer.
        labels: The format has a place for alignments.
        times: The format has a place for times.
        words: The format has a place for the costs of single words.
    """
    lost = [f"paths beyond the {n} best"] if n and len(nbest.hypotheses) >= n else []
    if not labels and any(each.labels is not None and any(each.labels) for each in nbest.hypotheses):
        lost.append(ALIGNMENTS)
    if not times and any(each.begin for each in nbest.hypotheses):
        lost.append(TIMES)
    if not words and any(any(each.graph[:-1]) or any(each.acoustic[:-1]) for each in nbest.hypotheses):
        lost.append(OF_WORDS)
    return lost


def sum_of_costs(nbest: NBest, costs: str = "total", acoustic_scale: float = 1.0) -> list[str]:
    """Return what a list loses whose hypotheses have one cost: the sum, its terms scaled, or one of them as it is.

    Its readers take that for the acoustic cost.
    """
    graph = any(each.graph_cost for each in nbest.hypotheses)
    acoustic = any(each.acoustic_cost for each in nbest.hypotheses)
    if costs == "acoustic":
        return [GRAPH] if graph else []
    if acoustic and (costs == "graph" or acoustic_scale == 0.0):
        return [ACOUSTIC, APART] if graph else [ACOUSTIC]
    if acoustic and acoustic_scale != 1.0 and not graph:
        return [UNSCALED]
    return [APART] if graph else []


def changed(cost: npt.ArrayLike, back: npt.ArrayLike) -> bool:
    """Tell whether costs change as float32."""
    with np.errstate(over="ignore"):
        return not np.array_equal(np.asarray(cost, np.float32), np.asarray(back, np.float32))
