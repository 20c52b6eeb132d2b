"""Graph kernels on batches: conversions only. Each takes items and returns items, with what failed; see ``_graph``."""

cimport numpy as np
from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool

cimport graph.kernels as c
from core.batch cimport Items, Results, capsule_of, items_of, results_of
from core.lattice cimport Scales, data_of, doubles, int32s, int64s

np.import_array()


def prune_each(object items not None, double beam, double acoustic_scale, double lm_scale, double word_penalty):
    cdef Items* given = items_of(items)
    cdef Scales scales = Scales(acoustic_scale, lm_scale, word_penalty)
    cdef Results found
    with nogil:
        found = c.prune_each(given[0], scales, beam)
    return results_of(found)


def best_path_each(object items not None, double acoustic_scale, double lm_scale, double word_penalty):
    cdef Items* given = items_of(items)
    cdef Scales scales = Scales(acoustic_scale, lm_scale, word_penalty)
    cdef Results found
    with nogil:
        found = c.best_path_each(given[0], scales)
    return results_of(found)


def best_words_all(object items not None, double acoustic_scale, double lm_scale, double word_penalty):
    """Find the words of best paths.

    Returns:
        Place of the first item without a path, -1: there is none; the fields of a ``BestWords``.
    """
    cdef Items* given = items_of(items)
    cdef Scales scales = Scales(acoustic_scale, lm_scale, word_penalty)
    cdef c.PathWords found
    cdef int64_t failed
    with nogil:
        failed = c.best_words_all(given[0], scales, found)
    return failed, (int32s(found.word), int64s(found.begin), doubles(found.graph_cost), doubles(found.acoustic_cost),
                    int64s(found.num_labels))


def probable_arcs_all(object items not None, double acoustic_scale, double lm_scale, double word_penalty, double least,
                      cbool labels):
    """Find the arcs of at least some posterior.

    Returns:
        Place of the first item without a path or whose times contradict, -1: there is none; the fields of a
        ``ProbableArcs``.
    """
    cdef Items* given = items_of(items)
    cdef Scales scales = Scales(acoustic_scale, lm_scale, word_penalty)
    cdef c.ProbableArcs found
    cdef int64_t failed
    with nogil:
        failed = c.probable_arcs_all(given[0], scales, least, labels, found)
    return failed, (int64s(found.begin), int32s(found.start), int32s(found.frames), doubles(found.posterior),
                    int32s(found.word), int32s(found.label), int64s(found.label_begin))


def oracle_all(object items not None, words not None, begin not None, int64_t whole_cells=c.kWholeCells,
               int64_t least_words=c.kLeastOracleWords, int64_t most_cells=c.kMostOracleCells):
    """Find the path of each item nearest to its reference, ``words[begin[place] : begin[place + 1]]``.

    Beyond a table of `whole_cells`, states are compared with at least `least_words` words to both sides of their place,
    with more as long as that takes no more than `most_cells`.

    Returns:
        Place of the first item without a path, -1: there is none; (substitutions, insertions, deletions, touches_band),
        each int64 [items]; (arcs, where each path begins; words, where those of each path begin).
    """
    cdef Items* given = items_of(items)
    cdef const int32_t* said = <const int32_t*>data_of(words, np.NPY_INT32, -1)
    cdef const int64_t* first = <const int64_t*>data_of(begin, np.NPY_INT64, given.size() + 1)
    cdef c.Oracles found
    cdef int64_t failed
    with nogil:
        failed = c.oracle_all(given[0], said, first, whole_cells, least_words, most_cells, found)
    counts = int64s(found.substitutions), int64s(found.insertions), int64s(found.deletions), int64s(found.touches_band)
    return failed, counts, (int64s(found.arc), int64s(found.arc_begin), int32s(found.word), int64s(found.word_begin))


def nbest_each(object items not None, int64_t n, double acoustic_scale, double lm_scale, double word_penalty):
    cdef Items* given = items_of(items)
    cdef Scales scales = Scales(acoustic_scale, lm_scale, word_penalty)
    cdef Results found
    with nogil:
        found = c.nbest_each(given[0], n, scales)
    return results_of(found)


def push_each(object items not None, cbool strings, cbool weights, double acoustic_scale):
    cdef Items* given = items_of(items)
    cdef Results found
    with nogil:
        found = c.push_each(given[0], strings, weights, acoustic_scale)
    return results_of(found)


def minimize_each(object items not None, cbool strings, cbool weights, double acoustic_scale, double delta):
    cdef Items* given = items_of(items)
    cdef Results found
    with nogil:
        found = c.minimize_each(given[0], strings, weights, acoustic_scale, delta)
    return results_of(found)


def determinize_pruned_all(object items not None, double beam, float acoustic_scale, object bounds not None):
    """Determinize all items; None where one needs more than a first try."""
    cdef Items* given = items_of(items)
    cdef c.DeterminizeBounds most = c.DeterminizeBounds(bounds.delta, bounds.max_mem, bounds.max_arcs,
                                                        bounds.max_states, bounds.max_loop)
    cdef Items found
    cdef cbool done
    with nogil:
        done = c.determinize_pruned_all(given[0], beam, acoustic_scale, most, found)
    return capsule_of(found) if done else None
