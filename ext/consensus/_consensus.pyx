"""Bindings of the kernel of ``ninja.consensus``."""

cimport numpy as np
from libc.stdint cimport int32_t, int64_t

cimport consensus.kernels as c
from core.batch cimport Items, items_in
from core.lattice cimport Scales, data_of, doubles, floats, int32s, int64s, scales_of

from ninja.lattice import Lattice

np.import_array()


def decode_mbr(
    lattices, scales not None, start, forms, bint search, bint silence,
    int64_t whole_words=c.kWholeWords, int64_t least_words=c.kLeastWords,
    int64_t most_words=c.kMostWords,
):
    """Decode lattices, starting from the words `start` (pool and offsets of each lattice), by default the best paths.

    If the number of states times twice the number of words exceeds `whole_words`, a state is compared with at least
    `least_words` words on both sides of its time, and with more words up to a total of `most_words` pairs. `forms` is
    None, or a pair: the indices of the lattices whose arcs have written forms, int64, ascending; and the form of each
    arc of these lattices, int32: a word id above 0, a negative number for a part of a word, or 0 for an arc
    without a form.

    Returns:
        The index of the first lattice without a path or with inconsistent times, or -1; the fields of ``Consensus``,
        concatenated over all lattices, in three groups with the offsets of each lattice (words, bins, entries); and
        (bayes_risk, rounds, touches_band), each [num_lattices]. With `forms`, also the entry of each word of those
        lattices, or -1 - bin without an entry; the most probable form of each entry, and its most probable form that is
        a whole word (0 = none); and the most probable word without lexical words in each bin (0 = none), its posterior
        and its times.
    """
    cdef Items single
    cdef Items* items = items_in(lattices, single, Lattice)
    cdef Scales factors = scales_of(scales)
    cdef const int32_t* words = NULL
    cdef const int64_t* begin = NULL
    if start is not None:
        words = <const int32_t*>data_of(start[0], np.NPY_INT32, -1)
        begin = <const int64_t*>data_of(start[1], np.NPY_INT64, items.size() + 1)
    cdef const int64_t* written = NULL
    cdef const int32_t* form = NULL
    cdef int64_t num_written = 0
    if forms is not None:
        written = <const int64_t*>data_of(forms[0], np.NPY_INT64, -1)
        num_written = np.PyArray_DIM(<np.ndarray>forms[0], 0)
        form = <const int32_t*>data_of(forms[1], np.NPY_INT32, -1)
    cdef c.Consensuses result
    cdef int64_t failed
    with nogil:
        failed = c.decode_mbr_all(
            items[0], factors, words, begin, form, written, num_written, search, silence, whole_words, least_words,
            most_words, result)
    return (
        failed,
        (int64s(result.words_begin), int32s(result.words), floats(result.confidence), pairs(floats(result.time))),
        (int64s(result.bins_begin), int64s(result.bin_begin), pairs(floats(result.bin_time))),
        (int64s(result.entries_begin), int32s(result.word), floats(result.posterior), pairs(floats(result.entry_time))),
        (doubles(result.risk), int64s(result.rounds), int64s(result.touches_band)),
        None if forms is None else (
            int64s(result.entry), int32s(result.forms.form), int32s(result.forms.whole), int32s(result.forms.mark),
            floats(result.forms.mark_share), pairs(floats(result.forms.mark_time)),
        ),
    )


cdef inline object pairs(object array):
    return array.reshape(-1, 2)
