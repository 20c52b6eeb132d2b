"""Union: all paths of several lattices in one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ninja import _graph
from ninja.errors import LatticeError, OptionError
from ninja.graph.connect import connect
from ninja.graph.epsilons import remove_epsilons
from ninja.lattice import Array, Lattice
from ninja.lattice.arrays import frozen, offsets
from ninja.lattice.costs import check_finite
from ninja.lattice.times import is_timed, state_times
from ninja.lattice.word_ids import check_one_table

DELTA = 2.0**-12
MAX_LABELS = 1 << 26  # alignment labels of a result, and of what is owed on the way to it: 256 MB each


def union(
    lattices: Sequence[Lattice],
    acoustic_scale: float = 1.0,
    *,
    determinize: bool = True,
    delta: float = DELTA,
    max_arcs: int = 1_000_000,
) -> Lattice:
    """Unite lattices and keep, for each word sequence, the best path of them all: both its costs and its alignment.

    Equal stretches of the lattices become one. Where one word sequence is aligned in different ways, or by far other
    costs, its paths stay apart up to the place that decides between them; if they do so nearly everywhere, as in
    lattices of different recognisers, there is no small result: ``determinize=False`` keeps all paths, which is what
    consensus decoding needs anyway.

    Args:
        lattices: One or more; key and symbol table are those of the first, the frame shift if all have the same.
        acoustic_scale: Factor of acoustic costs where paths compete; ties as for ``determinize``.
        determinize: False: keep all paths, equal ones too; epsilons stay, and times that a format gave.
        delta: Costs still to be paid that round to the same multiple of this count as equal, > 0; a path may move by as
            much where lattices differ. (Kaldi: 2^-10.)
        max_arcs: Refuse if more arcs arise in determinization, or as much work.

    Returns:
        A connected lattice; sums are made in float64.

    Raises:
        LatticeError: A bound is passed, or one lattice has no path from the start to a final state.
        SymbolError: The lattices' words have ids of different tables.
        OptionError: There is no lattice, ``acoustic_scale`` is not finite, ``delta`` not above 0, ``max_arcs`` below 1.

    Source: Kaldi, latbin/lattice-union.cc and lat/determinize-lattice-pruned.h; Povey et al. 2012, "Generating exact
    lattices in the WFST framework", section 5.
    """
    check_finite("acoustic_scale", acoustic_scale)
    if not lattices:
        raise OptionError("there is no lattice to unite")
    if not 0.0 < delta < np.inf:
        raise OptionError(f"delta is {delta}, but must be above 0")
    if max_arcs < 1:
        raise OptionError(f"max_arcs is {max_arcs}, but must be 1 or more")
    check_one_table(lattices)
    if not determinize:
        return _side_by_side([connect(lattice) for lattice in lattices])
    plain = [
        connect(lattice) if lattice.word.all() else remove_epsilons(lattice, acoustic_scale, max_arcs)
        for lattice in lattices
    ]
    united = _graph.unite(plain, acoustic_scale, delta, max_arcs, MAX_LABELS)
    if united is None:
        raise LatticeError(
            f"more than {max_arcs} arcs, or as much work, to determinize the union; prune the lattices first, or keep "
            "all paths without determinization",
            key=lattices[0].key,
        )
    return united.replace(frame_shift=_frame_shift(lattices))


def _side_by_side(lattices: Sequence[Lattice]) -> Lattice:
    """Join connected lattices at their start states."""
    if len(lattices) == 1:
        return lattices[0]
    taken = False  # a state has one final cost only
    operands = []
    for lattice in lattices:
        is_final = bool(lattice.is_final[0])
        operands.append(_with_entry(lattice) if is_final and taken else lattice)
        taken |= is_final
    start = next((lattice for lattice in operands if lattice.is_final[0]), operands[0])
    leaving = [int(lattice.arc_begin[1]) for lattice in operands]  # arcs of each one's start
    shift = np.cumsum([0, *(lattice.num_states - 1 for lattice in operands[:-1])]).tolist()

    def on_arcs(arrays: Sequence[Array]) -> Array:
        """Put values of the starts' arcs before those of all others."""
        heads = [array[:count] for array, count in zip(arrays, leaving, strict=True)]
        return np.concatenate([*heads, *(array[count:] for array, count in zip(arrays, leaving, strict=True))])

    def on_states(of_start: Array, arrays: Sequence[Array]) -> Array:
        return np.concatenate([of_start[:1], *(array[1:] for array in arrays)])

    labels_of_starts = [int(lattice.ali_begin[count]) for lattice, count in zip(operands, leaving, strict=True)]
    labels = [lattice.ali[:count] for lattice, count in zip(operands, labels_of_starts, strict=True)]
    labels += [lattice.ali[count:] for lattice, count in zip(operands, labels_of_starts, strict=True)]
    final_labels = [start.final_ali[: start.final_ali_begin[1]]]
    final_labels += [lattice.final_ali[lattice.final_ali_begin[1] :] for lattice in operands]
    degree = on_states(np.array([sum(leaving)]), [np.diff(lattice.arc_begin) for lattice in operands])
    final_length = on_states(np.diff(start.final_ali_begin), [np.diff(lattice.final_ali_begin) for lattice in operands])
    return Lattice(
        lattices[0].key,
        offsets(degree),
        frozen(on_arcs([lattice.dst + np.int32(by) for lattice, by in zip(operands, shift, strict=True)])),
        frozen(on_arcs([lattice.word for lattice in operands])),
        frozen(on_arcs([lattice.graph for lattice in operands])),
        frozen(on_arcs([lattice.acoustic for lattice in operands])),
        offsets(on_arcs([np.diff(lattice.ali_begin) for lattice in operands])),
        frozen(np.concatenate(labels)),
        frozen(on_states(start.final_graph, [lattice.final_graph for lattice in operands])),
        frozen(on_states(start.final_acoustic, [lattice.final_acoustic for lattice in operands])),
        offsets(final_length),
        frozen(np.concatenate(final_labels)),
        kind="raw" if all(lattice.kind == "raw" for lattice in lattices) else "compact",
        time=_times(operands, on_states),
        frame_shift=_frame_shift(lattices),
        words=lattices[0].words,
    )


def _frame_shift(lattices: Sequence[Lattice]) -> float | None:
    """Return the frame shift that all lattices with frames have, or None."""
    timed = [lattice for lattice in lattices if is_timed(lattice)]
    shifts = {lattice.frame_shift for lattice in timed or lattices[:1]}
    return shifts.pop() if len(shifts) == 1 else None


def _times(lattices: Sequence[Lattice], on_states: Callable[[Array, Sequence[Array]], Array]) -> Array | None:
    """Return the times of the states, where all lattices have them, from the same start on in the same frames."""
    shifts = {lattice.frame_shift for lattice in lattices}
    if len(shifts) > 1 or not all(is_timed(lattice) for lattice in lattices):
        return None
    if all(lattice.time is None for lattice in lattices):
        return None
    try:
        found = [state_times(lattice) for lattice in lattices]
    except LatticeError:
        return None
    return frozen(on_states(found[0], found)) if len({int(time[0]) for time in found}) == 1 else None


def _with_entry(lattice: Lattice) -> Lattice:
    """Return the lattice behind one arc without a word, from a new start that is not final."""

    def before(value: float, array: Array) -> Array:
        return frozen(np.concatenate([np.array([value], array.dtype), array]))

    return lattice.replace(
        arc_begin=before(0, lattice.arc_begin + 1),
        dst=before(1, lattice.dst + np.int32(1)),
        word=before(0, lattice.word),
        graph=before(0.0, lattice.graph),
        acoustic=before(0.0, lattice.acoustic),
        ali_begin=before(0, lattice.ali_begin),
        final_graph=before(np.inf, lattice.final_graph),
        final_acoustic=before(np.inf, lattice.final_acoustic),
        final_ali_begin=before(0, lattice.final_ali_begin),
        time=None if lattice.time is None else before(int(lattice.time[0]), lattice.time),
    )
