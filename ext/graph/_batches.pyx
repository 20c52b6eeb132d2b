"""Graph kernels on batches: conversions only. Each takes items and returns items, with what failed; see ``_graph``."""

cimport numpy as np
from libc.stdint cimport int64_t
from libcpp cimport bool as cbool

cimport graph.kernels as c
from core.batch cimport Items, Results, capsule_of, failures_of, items_of, results_of
from core.lattice cimport Scales, doubles, int32s, int64s

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


def best_words_each(object items not None, double acoustic_scale, double lm_scale, double word_penalty):
    cdef Items* given = items_of(items)
    cdef Scales scales = Scales(acoustic_scale, lm_scale, word_penalty)
    cdef c.PathWords found
    with nogil:
        found = c.best_words_each(given[0], scales)
    return (int32s(found.word), int64s(found.begin), doubles(found.graph_cost), doubles(found.acoustic_cost),
            int64s(found.num_labels), failures_of(found.failures))


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
