"""Conversion of decoded word sequences and lattices to confusion networks."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ninja.consensus.decode import Consensus, check_consensus, mbr_decode
from ninja.graph.connect import connect
from ninja.graph.kinds import to_compact
from ninja.graph.posteriors import posteriors
from ninja.lattice import Lattice, Scales
from ninja.lattice.lattice import check_lattice, check_words, checked_shift, frozen
from ninja.lattice.network import ConfusionNetwork as ConfusionNetwork  # re-exported by the package
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.lattice.times import is_timed, state_times

ASSUMED_SHIFT = 0.01  # seconds per frame for lattices without a frame shift
MIN_SUM = 0.5  # minimum sum of the posteriors at a position; below 1 because words may have been pruned
MAX_SUM = 1.01  # maximum sum of the posteriors at a position
LARGEST_COST = float(np.finfo(np.float32).max)


def confusion_network(
    consensus: Consensus, frame_shift: float = 0.01, words: SymbolTable | None = None
) -> ConfusionNetwork:
    """Convert the network of a decoded word sequence to a ``ConfusionNetwork`` with word strings and times in seconds.

    Args:
        consensus: Result of ``mbr_decode``.
        frame_shift: Seconds per frame, that is, per alignment label, > 0.
        words: Symbol table; None uses decimal ids as words.

    Raises:
        OptionError: ``frame_shift`` is out of range.
        SymbolError: A word id is not in `words`.
    """
    check_consensus(consensus)
    check_words(words)
    checked_shift(frame_shift)
    names = [
        None if number == EPSILON else (str(number) if words is None else words.word(number))
        for number in consensus.word.tolist()
    ]
    has_times = consensus.bin_times.max(initial=0) > 0  # otherwise the lattice had no times
    is_word = (consensus.word != EPSILON) & has_times
    begin, end = np.round(consensus.word_times.astype(np.float64) * frame_shift, 6).T  # float32 has no more digits
    return ConfusionNetwork(
        consensus.key,
        consensus.bin_begin,
        tuple(names),
        consensus.posterior,
        frozen(np.where(is_word, begin, np.nan), np.float32),
        frozen(np.where(is_word, end - begin, np.nan), np.float32),
    )


def lattice_mesh(
    lattice: Lattice, scales: Scales = Scales(), frame_shift: float = ASSUMED_SHIFT
) -> tuple[Lattice | ConfusionNetwork, bool]:
    """Convert a lattice to a word mesh with the posteriors of the words at each position.

    If all paths in the lattice go through the same states, as in a lattice that was read from a mesh, the positions are
    unchanged, and the result is a lattice in which graph costs are negative logarithms of posteriors. Any other lattice
    is aligned with ``mbr_decode``, and the result is a network without the bins that contain no word.

    Graph costs are interpreted as negative logarithms of the posteriors in a mesh if there are no other costs, the LM
    scale is 1, the words at each position are distinct, and the sum of their posteriors is in [0.5, 1.01]. Otherwise,
    arc posteriors are computed, and the posteriors of arcs with the same word at a position are added.

    Args:
        lattice: Any lattice.
        scales: Scales that define the total cost; smaller scales flatten the distribution.
        frame_shift: Seconds per frame, > 0, for a lattice without a frame shift.

    Returns:
        The mesh, for ``ninja.formats.mesh.write_mesh``, and whether it has the same paths and costs as the lattice.

    Raises:
        LatticeError: No path leads from the start to a final state, or state times are inconsistent.
        OptionError: ``frame_shift`` is out of range.
        SymbolError: A word id is not in the lattice's symbol table.
    """
    check_lattice(lattice)
    shift = lattice.frame_shift or frame_shift
    checked_shift(shift)
    connected = connect(to_compact(lattice)).replace(frame_shift=shift)
    if not _is_mesh(connected):
        network = confusion_network(mbr_decode(lattice, scales), shift, lattice.words)
        return without_empty_bins(network), False
    if _has_posteriors(connected, scales.lm):
        return connected, True
    return _with_posteriors(connected, posteriors(connected, scales)), False


def _is_mesh(lattice: Lattice) -> bool:
    """Return whether all paths in a connected lattice go through all states."""
    ends_last = np.flatnonzero(lattice.is_final).tolist() == [lattice.num_states - 1]
    return ends_last and bool((lattice.dst == lattice.src + 1).all())


def _has_posteriors(lattice: Lattice, lm_scale: float) -> bool:
    """Return whether the graph costs in a mesh are taken as negative logarithms of posteriors; see `lattice_mesh`."""
    has_other_costs = lattice.acoustic.any() or lattice.final_graph[-1] != 0.0 or lattice.final_acoustic[-1] != 0.0
    if lm_scale != 1.0 or has_other_costs:
        return False
    pairs = lattice.src.astype(np.int64) << 32 | lattice.word
    if len(np.unique(pairs)) < lattice.num_arcs:
        return False
    with np.errstate(over="ignore"):
        sums = np.bincount(lattice.src, np.exp(-lattice.graph.astype(np.float64)))
    return bool(((sums >= MIN_SUM) & (sums <= MAX_SUM)).all())


def _with_posteriors(lattice: Lattice, posterior: npt.NDArray[np.float64]) -> Lattice:
    """Create a mesh in which graph costs are negative logarithms of posteriors, with the most probable words first."""
    shares_of: list[dict[int, float]] = [{} for _ in range(lattice.num_states - 1)]
    for position, word, share in zip(lattice.src.tolist(), lattice.word.tolist(), posterior.tolist(), strict=True):
        shares_of[position][word] = shares_of[position].get(word, 0.0) + share
    entries = [sorted(share_of_word.items(), key=lambda entry: -entry[1]) for share_of_word in shares_of]
    flat = [entry for position in entries for entry in position]
    return Lattice.from_arrays(
        lattice.key,
        np.cumsum([0, *map(len, entries), 0]),
        np.repeat(np.arange(1, lattice.num_states), [len(position) for position in entries]),
        [word for word, _ in flat],
        [0.0 - math.log(min(share, 1.0)) if share > 0.0 else LARGEST_COST for _, share in flat],
        np.zeros(len(flat)),
        [math.inf] * len(entries) + [0.0],
        time=state_times(lattice) if is_timed(lattice) else None,
        frame_shift=lattice.frame_shift,
        words=lattice.words,
    )


def without_empty_bins(network: ConfusionNetwork) -> ConfusionNetwork:
    """Remove the bins that contain no word, because SRILM meshes have no such bins."""
    bins = [network.bin(index) for index in range(network.num_bins)]
    nonempty = [entries for entries in bins if any(word is not None for word, *_ in entries)]
    return ConfusionNetwork.from_bins(network.key, nonempty)
