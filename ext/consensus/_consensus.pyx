"""Kernel behind ``ninja.consensus``; conversions only."""

cimport numpy as np
from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

cimport consensus.kernels as c
from core.lattice cimport Alignments, Arcs, Scales, alignments_of, arcs_of, data_of, floats, int32s, int64s

np.import_array()


def decode_mbr(lattice not None, time not None, double acoustic_scale, double lm_scale, double word_penalty,
               const int32_t[::1] start, bint search, bint silence):
    """Decode a lattice whose states stand at the given frames, beginning with `start` or, if None, the best path.

    Returns:
        None when no path leads to a final state, else (words, confidence, time, bin_begin, word, posterior, entry_time,
        bin_time, risk, rounds); times lie flat, begin and end in turn.
    """
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments labels = alignments_of(lattice)
    cdef const int32_t* moment = <const int32_t*>data_of(time, np.NPY_INT32, arcs.num_states)
    cdef Scales scales = Scales(acoustic_scale, lm_scale, word_penalty)
    cdef vector[int32_t] given
    cdef const vector[int32_t]* words = NULL
    if start is not None:
        if start.shape[0] > 0:
            given.assign(&start[0], &start[0] + start.shape[0])
        words = &given
    cdef c.Consensus found
    cdef cbool leads
    with nogil:
        leads = c.decode_mbr(arcs, labels, moment, scales, words, search, silence, found)
    if not leads:
        return None
    return (
        int32s(found.words), floats(found.confidence), floats(found.time), int64s(found.bin_begin), int32s(found.word),
        floats(found.posterior), floats(found.entry_time), floats(found.bin_time), found.risk, found.rounds,
    )
