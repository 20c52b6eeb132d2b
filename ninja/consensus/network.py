"""Confusion networks of decoded word sequences and of lattices."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ninja.consensus.decode import Consensus, check_frame_shift, mbr_decode
from ninja.graph.connect import connect
from ninja.graph.kinds import to_compact
from ninja.graph.posteriors import posteriors
from ninja.lattice import Lattice, Scales
from ninja.lattice.arrays import frozen
from ninja.lattice.network import ConfusionNetwork
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.lattice.times import is_timed, state_times

ASSUMED_SHIFT = 0.01  # seconds per frame of lattices that do not say
LEAST_SHARE = 0.5  # to which costs of a position add up if they are posteriors: words may have been left out
LARGEST_SHARE = 1.01  # likewise
LARGEST_COST = float(np.finfo(np.float32).max)


def confusion_network(
    consensus: Consensus, frame_shift: float = 0.01, words: SymbolTable | None = None
) -> ConfusionNetwork:
    """Return the network around a decoded word sequence, with words spelled and times in seconds.

    Without symbol table, word ids are spelled as numbers.

    Raises:
        OptionError: ``frame_shift``, seconds per frame (per label), is not above 0.
        SymbolError: `words` lacks a word id.
    """
    check_frame_shift(frame_shift)
    names = [
        None if number == EPSILON else (str(number) if words is None else words.word(number))
        for number in consensus.word.tolist()
    ]
    has_times = consensus.bin_times.max(initial=0) > 0  # else the lattice had none
    is_word = (consensus.word != EPSILON) & has_times
    begin, end = np.round(consensus.word_times.astype(np.float64) * frame_shift, 6).T  # single precision holds no more
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
    """Return the positions of a lattice with the posteriors of their words, and whether nothing of it is lost.

    A lattice whose paths all go through the same states, as that of a mesh does, keeps its positions: it comes back as
    a lattice whose graph costs are negative logarithms of posteriors. Any other is aligned by ``mbr_decode``; bins
    without a word are left out of that network.

    Graph costs are taken for the posteriors they are in the lattice of a mesh if there are no other costs, the LM
    scale is 1, and the words at each position differ and add up to 0.5 to 1.01. Otherwise posteriors are those of the
    arcs, and those of arcs with the same word at one position are added up.

    Args:
        scales: Scales of costs; smaller ones flatten.
        frame_shift: Seconds per frame of a lattice that does not say, > 0.

    Returns:
        What ``ninja.formats.mesh.write_mesh`` writes; True: paths and costs are those of the lattice.

    Raises:
        LatticeError: No path leads from the start to a final state, or the times of states contradict each other.
        OptionError: ``frame_shift`` is not above 0.
        SymbolError: The lattice's table lacks a word id.
    """
    shift = lattice.frame_shift or frame_shift
    check_frame_shift(shift)
    row = connect(to_compact(lattice)).replace(frame_shift=shift)
    if not _in_a_row(row):
        network = confusion_network(mbr_decode(lattice, scales), shift, lattice.words)
        return without_empty_bins(network), False
    if _of_posteriors(row, scales.lm):
        return row, True
    return _with_posteriors(row, posteriors(row, scales)), False


def _in_a_row(lattice: Lattice) -> bool:
    """Tell whether all paths of a connected lattice go through all states."""
    last = np.flatnonzero(lattice.is_final).tolist() == [lattice.num_states - 1]
    return last and bool((lattice.dst == lattice.src + 1).all())


def _of_posteriors(lattice: Lattice, lm_scale: float) -> bool:
    """Tell whether graph costs can be those of a mesh that was read."""
    has_other_costs = lattice.acoustic.any() or lattice.final_graph[-1] != 0.0 or lattice.final_acoustic[-1] != 0.0
    if lm_scale != 1.0 or has_other_costs:
        return False
    pairs = lattice.src.astype(np.int64) << 32 | lattice.word
    if len(np.unique(pairs)) < lattice.num_arcs:
        return False
    with np.errstate(over="ignore"):
        sums = np.bincount(lattice.src, np.exp(-lattice.graph.astype(np.float64)))
    return bool(((sums >= LEAST_SHARE) & (sums <= LARGEST_SHARE)).all())


def _with_posteriors(lattice: Lattice, posterior: npt.NDArray[np.float64]) -> Lattice:
    """Return the words of each position, the most probable first, with their posteriors as graph costs."""
    shares_of: list[dict[int, float]] = [{} for _ in range(lattice.num_states - 1)]
    for place, word, share in zip(lattice.src.tolist(), lattice.word.tolist(), posterior.tolist(), strict=True):
        shares_of[place][word] = shares_of[place].get(word, 0.0) + share
    entries = [sorted(shares_at.items(), key=lambda entry: -entry[1]) for shares_at in shares_of]
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
    """Return a network without the bins in which there is no word, which SRILM's meshes do not have."""
    bins = [network.bin(place) for place in range(network.num_bins)]
    nonempty = [entries for entries in bins if any(word is not None for word, *_ in entries)]
    return ConfusionNetwork.from_bins(network.key, nonempty)
