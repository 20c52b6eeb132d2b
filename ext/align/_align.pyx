"""Bindings of the kernels that align lattices to words and phones; ``ninja.graph.align`` validates the arguments."""

cimport numpy as np
from cython.operator cimport dereference
from libc.stdint cimport int32_t, int64_t, uint32_t
from libcpp.memory cimport unique_ptr

cimport align.kernels as c
from core.batch cimport Items, capsule_of, items_in, lattice_like
from core.lattice cimport (
    Alignments, Arcs, LatticeArrays, alignments_of, arcs_of, data_of, lattice_of,
)

from ninja.lattice import SLOTS, Lattice

np.import_array()

cdef tuple _SLOTS = SLOTS  # a C variable, which needs no look-up by name
cdef object _new = object.__new__


cdef c.Labels labels_of(object known) except *:
    cdef c.Labels labels
    labels.of = <const uint32_t*>data_of(known, np.NPY_UINT32, -1)
    labels.num_labels = np.PyArray_DIM(<np.ndarray>known, 0) - 1
    return labels


cdef inline c.AlignOptions options_of(bint by_phone, bint reorder, int32_t silence_word, int64_t max_states,
                                      int64_t max_labels) noexcept:
    cdef c.AlignOptions options
    options.by_phone = by_phone
    options.phones_as_words = False
    options.reorder = reorder
    options.silence_word = silence_word
    options.partial_word = 0
    options.max_states = max_states
    options.max_labels = max_labels
    return options


def align(lattices, object known not None, bint by_phone, bint reorder, int32_t silence_word,
          int64_t max_states, int64_t max_labels):
    """Align a lattice, or all lattices of a batch, with the fast aligner.

    Returns:
        The aligned lattices; None if a lattice requires the general aligner, or has invalid labels or no labels; False
        if a limit is exceeded.
    """
    cdef Items single, results
    cdef Items* items = items_in(lattices, single, Lattice)
    cdef c.Labels labels = labels_of(known)
    cdef c.AlignOptions options = options_of(by_phone, reorder, silence_word, max_states, max_labels)
    cdef c.AlignEnd end
    with nogil:
        end = c.align_all(items[0], labels, options, results)
    if end != c.AlignEnd.kAligned:
        return False if end == c.AlignEnd.kTooLarge else None
    if items != &single:
        return lattices.like(capsule_of(results))
    return lattice_like(lattices, results[0], _new(Lattice), _SLOTS)


def align_generally(object lattice, object known not None, bint by_phone, bint phones_as_words, bint reorder,
                    int32_t silence_word, int32_t partial_word, int64_t expansion, int64_t max_states,
                    int64_t max_labels, *, bint epsilons=False):
    """Align any lattice with the general aligner.

    With `epsilons`, input arcs are kept as epsilons, as in Kaldi. Otherwise, only the best of several arcs with the
    same word and destination is kept.

    Returns:
        (the aligned lattice, AlignFault or 0), or None if a limit is exceeded.
    """
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments alignments = alignments_of(lattice)
    cdef c.Labels labels = labels_of(known)
    cdef c.AlignOptions options = options_of(by_phone, reorder, silence_word, max_states, max_labels)
    cdef unique_ptr[c.GeneralAligner] aligner
    cdef unique_ptr[c.EpsilonRemover] remover
    cdef c.AlignGraph graph
    cdef LatticeArrays arrays
    options.phones_as_words = phones_as_words
    options.partial_word = partial_word
    with nogil:
        aligner.reset(new c.GeneralAligner(arcs, alignments, labels, options, expansion))
        graph = dereference(aligner).align()
        if not graph.too_large:
            remover.reset(new c.EpsilonRemover(graph))
            if epsilons:
                arrays = dereference(remover).keep()
            else:
                arrays = dereference(remover).remove(max_labels, graph.too_large)
    return None if graph.too_large else (lattice_of(lattice, arrays, _new(Lattice), _SLOTS, None), <int>graph.fault)


def find_unknown_label(object labels not None, object known not None):
    """Return the index of the first label that is not a transition id or whose phone has no type, or -1."""
    cdef const int32_t* label = <const int32_t*>data_of(labels, np.NPY_INT32, -1)
    cdef int64_t length = np.PyArray_DIM(<np.ndarray>labels, 0)
    cdef c.Labels table = labels_of(known)
    cdef int64_t place
    with nogil:
        place = c.first_unknown_label(label, length, table)
    return place


cdef class Lexicon:
    """An alignment lexicon; ``entries[begin[i] : begin[i + 1]]`` is a word, its output word and its phones."""

    cdef unique_ptr[c.AlignLexicon] of
    cdef tuple arrays

    def __init__(self, object entries not None, object begin not None):
        cdef const int32_t* entry = <const int32_t*>data_of(entries, np.NPY_INT32, -1)
        cdef const int64_t* begins = <const int64_t*>data_of(begin, np.NPY_INT64, -1)
        cdef int64_t num_entries = np.PyArray_DIM(<np.ndarray>begin, 0) - 1
        self.arrays = (entries, begin)
        with nogil:
            self.of.reset(new c.AlignLexicon(entry, begins, num_entries))

    def __reduce__(self):
        return Lexicon, self.arrays


def align_by_lexicon(object lattice, object known not None, Lexicon lexicon not None, int32_t no_word,
                     int32_t partial_word, int64_t expansion, int64_t max_states, int64_t max_labels):
    """Align a phone lattice to words with a lexicon.

    Returns:
        (the aligned lattice, AlignFault or 0, word without an entry or -1), or None if a limit is exceeded.
    """
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments alignments = alignments_of(lattice)
    cdef c.Labels labels = labels_of(known)
    cdef c.LexiconOptions options
    cdef unique_ptr[c.LexiconAligner] aligner
    cdef unique_ptr[c.EpsilonRemover] remover
    cdef c.AlignGraph graph
    cdef LatticeArrays arrays
    options.no_word = no_word
    options.partial_word = partial_word
    options.expansion = expansion
    options.max_states = max_states
    options.max_labels = max_labels
    with nogil:
        aligner.reset(new c.LexiconAligner(arcs, alignments, labels, dereference(lexicon.of), options))
        graph = dereference(aligner).align()
        if not graph.too_large and dereference(aligner).unknown_word() < 0:
            remover.reset(new c.EpsilonRemover(graph))
            arrays = dereference(remover).remove(max_labels, graph.too_large)
    if graph.too_large:
        return None
    aligned = lattice_of(lattice, arrays, _new(Lattice), _SLOTS, None)
    return aligned, <int>graph.fault, dereference(aligner).unknown_word()
