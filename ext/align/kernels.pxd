"""C++ declarations of the alignment kernels; declarations only."""

from libc.stdint cimport int32_t, int64_t, uint32_t
from libcpp cimport bool as cbool

from core.batch cimport Items
from core.lattice cimport Alignments, Arcs, LatticeArrays

cdef extern from "align/align_units.hpp" namespace "ninja" nogil:
    cdef struct Labels:
        const uint32_t* of
        int64_t num_labels

    cdef struct AlignOptions:
        cbool by_phone
        cbool phones_as_words
        cbool reorder
        int32_t silence_word
        int32_t partial_word
        int64_t max_states
        int64_t max_labels

    cdef enum class AlignEnd:
        kAligned
        kUnsure
        kTooLarge

    int64_t first_unknown_label(const int32_t* label, int64_t length, const Labels& known) noexcept

cdef extern from "align/batches.hpp" namespace "ninja" nogil:
    AlignEnd align_all(const Items& items, const Labels& known, const AlignOptions& options, Items& results) except +

cdef extern from "align/align_graph.hpp" namespace "ninja" nogil:
    cdef enum class AlignFault:
        kNone

    cdef cppclass AlignGraph:
        AlignFault fault
        cbool too_large

    cdef cppclass EpsilonRemover:
        EpsilonRemover(const AlignGraph& graph) except +
        LatticeArrays remove(int64_t max_labels, cbool& too_large) except +
        LatticeArrays keep() except +

cdef extern from "align/word_align_general.hpp" namespace "ninja" nogil:
    cdef cppclass GeneralAligner:
        GeneralAligner(const Arcs& arcs, const Alignments& alignments, const Labels& known,
                       const AlignOptions& options, int64_t expansion) except +
        AlignGraph align() except +

cdef extern from "align/word_align_lexicon.hpp" namespace "ninja" nogil:
    cdef cppclass AlignLexicon:
        AlignLexicon(const int32_t* entry, const int64_t* begin, int64_t num_entries) except +

    cdef struct LexiconOptions:
        int32_t no_word
        int32_t partial_word
        int64_t expansion
        int64_t max_states
        int64_t max_labels

    cdef cppclass LexiconAligner:
        LexiconAligner(const Arcs& arcs, const Alignments& alignments, const Labels& known,
                       const AlignLexicon& lexicon, const LexiconOptions& options) except +
        AlignGraph align() except +
        int32_t unknown_word() noexcept
