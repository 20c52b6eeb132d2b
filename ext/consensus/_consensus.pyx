"""Kernel behind ``ninja.consensus``; conversions only."""

cimport numpy as np
from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

cimport consensus.kernels as c
from core.lattice cimport Alignments, Arcs, Scales, alignments_of, arcs_of, data_of, floats, int32s, int64s

from ninja.errors import LatticeError

np.import_array()


def decode_mbr(
    lattice not None, time not None, weights not None, const int32_t[::1] start, bint search, bint silence,
    int64_t whole_words=c.kWholeWords, int64_t least_words=c.kLeastWords,
    int64_t most_words=c.kMostWords,
):
    """Decode a lattice whose states stand at the given frames, beginning with `start` or, if None, the best path.

    Beyond `whole_words` states times words, a state is compared with at least `least_words` to both sides of its time,
    with more as long as that takes no more than `most_words`.

    Returns:
        The fields of a ``Consensus`` behind its key.
    """
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments labels = alignments_of(lattice)
    cdef const int32_t* moment = <const int32_t*>data_of(time, np.NPY_INT32, arcs.num_states)
    cdef Scales scales = Scales(weights.acoustic, weights.lm, weights.word_penalty)
    cdef vector[int32_t] given
    cdef const vector[int32_t]* words = NULL
    if start is not None:
        if start.shape[0] > 0:
            given.assign(&start[0], &start[0] + start.shape[0])
        words = &given
    cdef c.Consensus found
    cdef cbool leads
    with nogil:
        leads = c.decode_mbr(arcs, labels, moment, scales, words, search, silence, whole_words, least_words, most_words,
                             found)
    if not leads:
        raise LatticeError("no path leads from the start to a final state", key=lattice.key)
    return (
        int32s(found.words), floats(found.confidence), floats(found.time).reshape(-1, 2), int64s(found.bin_begin),
        int32s(found.word), floats(found.posterior), floats(found.entry_time).reshape(-1, 2),
        floats(found.bin_time).reshape(-1, 2), found.risk, found.rounds, found.touches_band,
    )
