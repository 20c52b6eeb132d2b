"""Kernel behind ``ninja.consensus``; conversions only."""

cimport numpy as np
from libc.stdint cimport int32_t, int64_t

cimport consensus.kernels as c
from core.batch cimport Items, items_in
from core.lattice cimport Scales, data_of, doubles, floats, int32s, int64s, scales_of

from ninja.lattice import Lattice

np.import_array()


def decode_mbr(
    lattices not None, scales not None, start, bint search, bint silence,
    int64_t whole_words=c.kWholeWords, int64_t least_words=c.kLeastWords,
    int64_t most_words=c.kMostWords,
):
    """Decode lattices, beginning with their words of `start`, all of them and where those of each begin, or, if it is
    None, with the best paths.

    Beyond `whole_words` states times words, a state is compared with at least `least_words` to both sides of its time,
    with more as long as that takes no more than `most_words`.

    Returns:
        Place of the first lattice without a path or whose times contradict, -1: there is none; then the fields of a
        ``Consensus``, of all lattices one behind the other, in three groups, each with where the lattices begin: those
        of words, of bins and of entries; and (bayes_risk, rounds, touches_band), each [lattices].
    """
    cdef Items single
    cdef Items* items = items_in(lattices, single, Lattice)
    cdef Scales factors = scales_of(scales)
    cdef const int32_t* words = NULL
    cdef const int64_t* begin = NULL
    if start is not None:
        words = <const int32_t*>data_of(start[0], np.NPY_INT32, -1)
        begin = <const int64_t*>data_of(start[1], np.NPY_INT64, items.size() + 1)
    cdef c.Consensuses found
    cdef int64_t failed
    with nogil:
        failed = c.decode_mbr_all(
            items[0], factors, words, begin, search, silence, whole_words, least_words, most_words, found)
    return (
        failed,
        (int64s(found.words_begin), int32s(found.words), floats(found.confidence), pairs(floats(found.time))),
        (int64s(found.bins_begin), int64s(found.bin_begin), pairs(floats(found.bin_time))),
        (int64s(found.entries_begin), int32s(found.word), floats(found.posterior), pairs(floats(found.entry_time))),
        (doubles(found.risk), int64s(found.rounds), int64s(found.touches_band)),
    )


cdef inline object pairs(object array):
    return array.reshape(-1, 2)
