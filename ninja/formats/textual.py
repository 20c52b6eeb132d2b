"""Functions shared by the writers for text formats: id-to-word conversion, times, and combination of costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ninja import _core
from ninja.errors import LatticeError, SymbolError
from ninja.formats.content import check_choice
from ninja.formats.format import Field, WriteSettings
from ninja.lattice import Lattice
from ninja.lattice.lattice import check_finite, check_one_cost
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.lattice.word_ids import DENSE


def spelled(
    lattice: Lattice, words: SymbolTable | None, null: str, encoding: str = "utf-8"
) -> tuple[npt.NDArray[np.int32], list[bytes]]:
    """Return ``(indices, words)``: the word index for each arc, int32 [num_arcs], and the encoded words.

    Args:
        lattice: Any lattice.
        words: Symbol table.  [default: the table of the lattice]
        null: Name of epsilon.
        encoding: Encoding of the words.

    Raises:
        SymbolError: There is no symbol table, or a word is missing from it, equals `null` or cannot be encoded.
    """
    table = lattice.words if words is None else words
    largest = int(lattice.word.max(initial=0))
    if largest < DENSE * lattice.num_arcs:
        used = np.zeros(largest + 1, np.bool_)
        used[lattice.word] = True
        ids = np.flatnonzero(used)
        rank = np.zeros(largest + 1, np.int32)
        rank[ids] = np.arange(len(ids), dtype=np.int32)
        place = rank[lattice.word]
    else:
        ids, inverse = np.unique(lattice.word, return_inverse=True)
        place = inverse.astype(np.int32)
    numbers: list[int] = ids.tolist()
    has_epsilon = numbers[:1] == [EPSILON]
    if has_epsilon:
        del numbers[0]
    if table is None and numbers:
        raise SymbolError("the lattice contains only word ids; use --words to set a symbol table", key=lattice.key)
    names = [] if table is None else table.words_of(numbers)
    if null in names:
        number = numbers[names.index(null)]
        raise SymbolError(f"the word {null!r} (id {number}) is the name of epsilon in this format", key=lattice.key)
    try:
        labels = [name.encode(encoding, "surrogateescape") for name in names]
    except UnicodeEncodeError:
        labels = [encoded(name, encoding, lattice.key) for name in names]  # raises an error that contains the word
    return place, [null.encode(), *labels] if has_epsilon else labels


def frames(lattice: Lattice) -> npt.NDArray[np.int32] | None:
    """Return the frame of each state, int32 [num_states], from the lattice's times or, if it has none, its alignments.

    If the lattice has neither, or if the alignments are inconsistent, return None.
    """
    if lattice.time is not None:
        return lattice.time
    if not lattice.has_labels:
        return None
    time, arc = _core.state_times(lattice)
    return time if arc < 0 else None


def end_frame(lattice: Lattice, time: npt.NDArray[np.int32]) -> int:
    """Return the end frame of a lattice: the largest sum of a final state's time and the length of its alignment."""
    final = lattice.is_final
    length = np.diff(lattice.final_ali_begin)
    return max(0, int((time[final] + length[final]).max(initial=0)))


def plain_end(lattice: Lattice) -> int | None:
    """Return the only final state if its final cost is 0 and no arc leaves it, else None."""
    final = np.flatnonzero(lattice.is_final)
    last = int(final[0])
    costs = len(final) > 1 or lattice.final_graph[last] or lattice.final_acoustic[last]
    return None if costs or lattice.arc_begin[last + 1] > lattice.arc_begin[last] else last


def would_fold(lattice: Lattice, last: int) -> bool:
    """Return whether readers would replace the arcs that enter the last state with final costs.

    Readers do so if these arcs have no words and come from different states.
    """
    entering = np.flatnonzero(lattice.dst == last)
    if last == 0 or (lattice.word[entering] != EPSILON).any():
        return False
    source = np.searchsorted(lattice.arc_begin, entering, side="right") - 1
    return len(np.unique(source)) == len(source)


def encoded(text: str, encoding: str, key: str) -> bytes:
    """Encode a string; restore bytes that were not valid UTF-8 when a key was read."""
    try:
        return text.encode(encoding, "surrogateescape")
    except UnicodeEncodeError as error:
        raise SymbolError(f"{text!r} cannot be written as {encoding.upper()}", key=key) from error


@dataclass(frozen=True, slots=True)
class OneCost:
    """Options for formats that store one cost per arc."""

    costs: Literal["total", "graph", "acoustic"] = "total"  # cost to write; total: acoustic_scale * acoustic + graph
    acoustic_scale: float = 1.0

    def __post_init__(self) -> None:
        check_finite("acoustic_scale", self.acoustic_scale)
        check_one_cost("costs", self.costs, self.acoustic_scale)


def kept_costs(keeps: frozenset[Field], costs: str = "total", acoustic_scale: float = 1.0) -> frozenset[Field]:
    """Return the lattice fields that a format with one cost per arc can store."""
    if costs == "acoustic":
        keeps -= {"graph"}
    if costs == "graph" or acoustic_scale == 0.0:
        keeps -= {"acoustic"}
    return keeps if acoustic_scale == 1.0 else keeps - {"unscaled"}


def kept_by_options(keeps: frozenset[Field], options: OneCost) -> frozenset[Field]:
    """Return the lattice fields that a format can store when written with these options."""
    return kept_costs(keeps, options.costs, options.acoustic_scale)


def one_cost(
    graph: npt.NDArray[np.float32], acoustic: npt.NDArray[np.float32], costs: str, acoustic_scale: float
) -> npt.NDArray[np.float64]:
    """Combine graph and acoustic costs, for a format with one cost per arc; the result is float64.

    Args:
        graph: Graph costs.
        acoustic: Acoustic costs.
        costs: Cost to return: "total" (``acoustic_scale * acoustic + graph``), "graph" or "acoustic".
        acoustic_scale: Factor for acoustic costs in "total"; must be 1 otherwise.

    Raises:
        OptionError: ``costs`` or ``acoustic_scale`` has an invalid value.
    """
    check_choice("costs", costs, "total", "graph", "acoustic")
    check_finite("acoustic_scale", acoustic_scale)
    check_one_cost("costs", costs, acoustic_scale)
    if costs == "total":
        return acoustic_scale * acoustic.astype(np.float64) + graph
    return (graph if costs == "graph" else acoustic).astype(np.float64)


def refuse_spaces(name: bytes, key: str) -> None:
    """Raise SymbolError for a name that cannot be written without quotes."""
    if not name or any(letter in b" \t\n\v\f\r\0" for letter in name):
        raise SymbolError(f"{name.decode('utf-8', 'replace')!r} cannot be written without quotes", key=key)


def refuse_empty(lattice: Lattice) -> None:
    """Raise LatticeError for a lattice without a final state, which the format cannot store."""
    if not lattice.is_final.any():
        raise LatticeError("no state is final, so there is nothing to write", key=lattice.key)


def refuse_pathless(lattice: Lattice) -> None:
    """Raise LatticeError for a lattice without a path to a final state, which readers of the format reject."""
    refuse_empty(lattice)
    arcs = lattice.arc_begin, lattice.dst, lattice.word, lattice.graph, lattice.acoustic
    times, _ = _core.state_times(Lattice.unlabelled("", *arcs, lattice.final_graph, lattice.final_acoustic))
    if not (times[lattice.is_final] >= 0).any():  # the time of an unreachable state is -1
        raise LatticeError(
            "no path leads from the start to a final state, so there is nothing to write", key=lattice.key
        )


def text_encoder(write: Callable[..., bytes]) -> Callable[[Lattice, WriteSettings], bytes]:
    """Wrap a function ``write_X(lattice, words, options, encoding)`` for use as the ``encode`` function of a format."""

    def encode(lattice: Lattice, settings: WriteSettings) -> bytes:
        return write(lattice, settings.words, settings.options, settings.encoding)

    return encode
