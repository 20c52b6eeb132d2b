"""Union of lattices, and lattice-based system combination."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ninja import _graph
from ninja.errors import LatticeError, OptionError, check_count, check_range
from ninja.graph.connect import connect
from ninja.graph.determinize import remove_epsilons
from ninja.graph.kinds import remove_alignments
from ninja.graph.posteriors import forward_backward
from ninja.graph.scale import add_word_penalty, check_costs, scale
from ninja.lattice import Array, Lattice, Scales
from ninja.lattice.arrays import offsets
from ninja.lattice.batch import bare
from ninja.lattice.lattice import check_costs as check_new_costs
from ninja.lattice.lattice import check_finite, frozen
from ninja.lattice.times import is_timed, state_times
from ninja.lattice.word_ids import check_one_table

DELTA = 2.0**-12
MAX_LABELS = 1 << 26  # limit on the number of alignment labels in the result, and in all residuals; 256 MB each


def union(
    lattices: Iterable[Lattice],
    acoustic_scale: float = 1.0,
    *,
    determinize: bool = True,
    delta: float = DELTA,
    max_arcs: int = 1_000_000,
) -> Lattice:
    """Compute the union of lattices, keeping the best path for each word sequence with its costs and alignment.

    Equal parts of the lattices are merged. Paths with the same words but different alignments or costs stay separate up
    to the state at which the better path is known. If the lattices come from different recognisers, paths are separate
    nearly everywhere, and the result is large. Time and memory then grow with the square of the length of the separate
    paths, because their alignments are stored at every state until the better path is known. If many separate paths
    cross, the growth is exponential. For consensus decoding, use ``determinize=False``, which keeps all paths.

    Args:
        lattices: One or more lattices. The result has the key and symbol table of the first lattice; the frame shift is
            kept if it is the same in all lattices with times.
        acoustic_scale: Factor applied to acoustic costs when paths are compared; ties are broken as in ``determinize``.
        determinize: Merge paths with the same words. Otherwise all paths, epsilons and the field ``time`` are kept.
        delta: Unit of comparison, > 0: residual costs count as equal if they round to the same multiple of it. The
            cost of a path may change by up to ``delta`` where lattices differ. (Kaldi uses 2^-10.)
        max_arcs: Maximum number of arcs that determinization may create; this also limits the amount of computation.

    Returns:
        A connected lattice; costs are summed in float64.

    Raises:
        LatticeError: The union is too large, a lattice has no path from the start to a final state, a cost exceeds the
            range of float32, or the cost of an arc to be determinized is NaN.
        SymbolError: The lattices have different symbol tables.
        OptionError: There are no lattices, ``acoustic_scale`` is not finite, ``delta`` is not above 0, or ``max_arcs``
            is below 1.

    Source: Kaldi, latbin/lattice-union.cc and lat/determinize-lattice-pruned.h; Povey et al. 2012, "Generating exact
    lattices in the WFST framework", section 5.
    """
    check_finite("acoustic_scale", acoustic_scale)
    lattices = list(bare(lattices))
    if not lattices:
        raise OptionError("there are no lattices; specify at least one")
    check_range("delta", delta, above=0, finite=True)
    check_count("max_arcs", max_arcs, least=1)
    check_one_table(lattices)
    if not determinize:
        return _join_at_start([connect(lattice) for lattice in lattices])
    for lattice in lattices:
        if np.isnan(lattice.graph).any() or np.isnan(lattice.acoustic).any():
            check_new_costs(lattice)  # raises an error, because paths with NaN costs would not be merged
    plain = [
        connect(lattice) if lattice.word.all() else remove_epsilons(lattice, acoustic_scale, max_arcs)
        for lattice in lattices
    ]
    united = _graph.unite(plain, acoustic_scale, delta, max_arcs, MAX_LABELS)
    check_new_costs(united)
    return united.replace(frame_shift=_frame_shift(lattices))


def combine(
    lattices: Iterable[Lattice | None],
    weights: Sequence[float] | None = None,
    scales: Scales = Scales(),
    *,
    exponents: bool = False,
) -> Lattice:
    """Combine lattices from several systems; the paths of system k get the total probability ``weights[k]``.

    Costs are scaled, and the total cost of all paths in a lattice is subtracted from its final graph costs. In the
    result, only the sum of graph and acoustic cost is meaningful; all scales applied to it later must be 1. Consensus
    decoding of the result combines the systems.

    Args:
        lattices: One lattice per system, or None for a system without a lattice; the weight of that system is then
            missing from the total probability.
        weights: Weight of each system, > 0; normalised to sum to 1.  [default: equal weights]
        scales: Scales that define the total cost; they are applied to the costs of the result.
        exponents: Raise the path probabilities of system k to the power ``weights[k]`` and normalise each lattice to 1,
            instead of multiplying by the weight.

    Returns:
        A lattice with all paths, including paths with the same words. If a lattice has no times, or the frame shifts
        differ, the times of the systems cannot be compared; the result then has neither times nor alignments.

    Raises:
        LatticeError: A lattice has no path from the start to a final state, or a cost exceeds the range of float32.
        SymbolError: The lattices have different symbol tables.
        OptionError: There are no lattices, the numbers of weights and lattices differ, or a weight is not above 0.

    Source: Kaldi, latbin/lattice-combine.cc; Xu, Povey, Mangu and Zhu 2011, "Minimum Bayes risk decoding and system
    combination based on a recursion for edit distance".
    """
    lattices = list(bare(lattices, allow_none=True))
    shares = check_weights(weights, len(lattices))
    present = [(lattice, share) for lattice, share in zip(lattices, shares, strict=True) if lattice is not None]
    united = union(
        [normalize(lattice, share, scales, exponents=exponents) for lattice, share in present], determinize=False
    )
    if united.time is None and not _have_comparable_labels([lattice for lattice, _ in present if lattice.num_arcs]):
        return remove_alignments(united)
    return united


def _have_comparable_labels(lattices: Sequence[Lattice]) -> bool:
    """Return whether no lattice has labels, or all lattices have labels and all known frame shifts are equal."""
    labelled = [lattice.has_labels for lattice in lattices]
    shifts = {lattice.frame_shift for lattice in lattices if lattice.frame_shift is not None}
    return not any(labelled) or (all(labelled) and len(shifts) < 2)


def check_weights(weights: Sequence[float] | None, count: int) -> tuple[float, ...]:
    """Check the weights of `count` systems, and normalise them to sum to 1."""
    if count < 1:
        raise OptionError("there are no lattices to combine; specify at least one")
    if weights is None:
        return (1.0 / count,) * count
    if len(weights) != count:
        raise OptionError(f"there are {len(weights)} weights, but {count} systems; specify one weight per system")
    for weight in weights:
        check_range("a weight", weight, above=0, finite=True)
    total = sum(weights)
    return tuple(weight / total for weight in weights)


def normalize(lattice: Lattice, weight: float, scales: Scales = Scales(), *, exponents: bool = False) -> Lattice:
    """Scale the costs of a lattice, and normalise the total probability of all its paths.

    The total probability becomes ``weight`` or, with ``exponents``, 1. With ``exponents``, the scaled costs are also
    multiplied by ``weight``. To normalise, a constant is added to the final graph costs.
    """
    power = weight if exponents else 1.0
    scaled = scale(lattice, scales.lm * power, scales.acoustic * power)
    if scales.word_penalty:
        scaled = add_word_penalty(scaled, scales.word_penalty * power)
    total = forward_backward(scaled).total
    if not np.isfinite(total):
        raise LatticeError(f"the total cost of all paths is {total}, but must be finite", key=lattice.key)
    surplus = -total - (0.0 if exponents else float(np.log(weight)))
    with np.errstate(over="ignore"):  # check_costs raises
        final_graph = frozen(scaled.final_graph.astype(np.float64) + surplus, np.float32)
    return check_costs(scaled.replace(final_graph=final_graph), lattice)


def _join_at_start(lattices: Sequence[Lattice]) -> Lattice:
    """Merge the start states of connected lattices."""
    if len(lattices) == 1:
        return lattices[0]
    start_is_final = False  # the merged start can have only one final cost
    operands = []
    for lattice in lattices:
        is_final = bool(lattice.is_final[0])
        operands.append(_with_new_start(lattice) if is_final and start_is_final else lattice)
        start_is_final |= is_final
    start = next((lattice for lattice in operands if lattice.is_final[0]), operands[0])
    leaving = [int(lattice.arc_begin[1]) for lattice in operands]  # number of arcs of each start
    shift = np.cumsum([0, *(lattice.num_states - 1 for lattice in operands[:-1])]).tolist()

    def on_arcs(arrays: Sequence[Array]) -> Array:
        """Concatenate arrays with a value per arc: first all arcs that leave the start states, then all other arcs."""
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
        frozen(on_arcs([lattice.dst + np.int32(first) for lattice, first in zip(operands, shift, strict=True)])),
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
    """Return the frame shift of all lattices with times, or None if their frame shifts differ.

    If no lattice has times, return the frame shift of the first lattice.
    """
    timed = [lattice for lattice in lattices if is_timed(lattice)]
    shifts = {lattice.frame_shift for lattice in timed or lattices[:1]}
    return shifts.pop() if len(shifts) == 1 else None


def _times(lattices: Sequence[Lattice], on_states: Callable[[Array, Sequence[Array]], Array]) -> Array | None:
    """Return the state times of a union, or None if they follow from alignments or cannot be compared.

    Times can be compared if all lattices have consistent times, the same frame shift and the same time at the start.

    Args:
        lattices: The lattices.
        on_states: Function that joins the state arrays of all lattices into an array for the states of the union; its
            first argument is the array that provides the value of the start.
    """
    shifts = {lattice.frame_shift for lattice in lattices}
    if len(shifts) > 1 or not all(map(is_timed, lattices)) or all(lattice.time is None for lattice in lattices):
        return None
    try:
        times = [state_times(lattice) for lattice in lattices]
    except LatticeError:
        return None
    return frozen(on_states(times[0], times)) if len({int(time[0]) for time in times}) == 1 else None


def _with_new_start(lattice: Lattice) -> Lattice:
    """Add a new non-final start with an epsilon arc to the old start."""

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
