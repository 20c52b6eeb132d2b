"""C++ declarations of the graph kernels; declarations only."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from core.batch cimport Items, Results
from core.lattice cimport Alignments, Arcs, FstArcs, LatticeArrays, Scales

cdef extern from "graph/batches.hpp" namespace "ninja" nogil:
    Results prune_each(const Items& items, const Scales& scales, double beam, cbool arc_map) except +
    Results connect_each(const Items& items, const uint8_t* wanted, cbool arc_map) except +
    Results limit_depth_of(const Items& items, const Scales& scales, const int32_t* time,
                           int64_t max_arcs_per_frame, cbool arc_map) except +
    cdef cppclass Paths:
        Paths() except +
        vector[int64_t] arc
        vector[int64_t] arc_begin
        vector[int64_t] path_begin
    Paths best_paths(const Items& items, const Scales& scales) except +
    Paths nbest_paths(const Items& items, int64_t n, const Scales& scales) except +
    Results path_lattices(const Items& items, const Paths& paths, cbool numbered) except +
    cdef cppclass PathWords:
        PathWords() except +
        vector[int32_t] word
        vector[int64_t] begin
        vector[double] graph_cost
        vector[double] acoustic_cost
        vector[int64_t] num_labels
    int64_t best_words_all(const Items& items, const Scales& scales, PathWords& found) except +
    cdef cppclass ProbableArcs:
        ProbableArcs() except +
        vector[int64_t] begin
        vector[int32_t] start
        vector[int32_t] frames
        vector[int32_t] word
        vector[double] posterior
        vector[int32_t] label
        vector[int64_t] label_begin
    int64_t probable_arcs_all(const Items& items, const Scales& scales, double least, cbool with_labels,
                              ProbableArcs& found) except +
    cdef cppclass Oracles:
        Oracles() except +
        vector[int64_t] substitutions
        vector[int64_t] insertions
        vector[int64_t] deletions
        vector[int64_t] touches_band
        vector[int64_t] arc
        vector[int64_t] arc_begin
        vector[int32_t] word
        vector[int64_t] word_begin
    int64_t oracle_all(const Items& items, const Items& written, const int32_t* words, const int64_t* begin,
                       int64_t whole_cells,
                       int64_t least_words, int64_t most_cells, Oracles& found) except +
    Results push_each(const Items& items, cbool strings, cbool weights, double acoustic_scale) except +
    Results minimize_each(const Items& items, cbool strings, cbool weights, double acoustic_scale,
                          double delta) except +
    cdef enum class Bound:
        kNone
    cdef struct DeterminizeBounds:
        float delta
        int64_t max_mem
        int64_t max_arcs
        int64_t max_states
        int64_t max_loop
    cdef cppclass DeterminizedLattice:
        DeterminizedLattice()
        Bound stopped_by
        double beam
        double effective_beam
        int32_t retries
        int32_t num_states
    cbool determinize_pruned_all(const Items& items, double beam, float acoustic_scale, double retry_cutoff,
                                 const DeterminizeBounds& bounds, Items& results,
                                 DeterminizedLattice& last) except +

cdef extern from "graph/best_path.hpp" namespace "ninja" nogil:
    cdef struct PathSize:
        int64_t num_words
        int64_t num_labels
        double graph_cost
        double acoustic_cost

    PathSize measure_path(const Arcs& arcs, const Alignments& alignments, const int64_t* path,
                          int64_t length) noexcept
    void write_path(const Arcs& arcs, const Alignments& alignments, const int64_t* path, int64_t length,
                    int32_t* words, int32_t* labels) noexcept

cdef extern from "graph/posteriors.hpp" namespace "ninja" nogil:
    cbool posteriors(const Arcs& arcs, const Scales& scales, double* posterior, double* of_final) except +
    double forward_backward(const Arcs& arcs, const Scales& scales, double* alpha, double* beta) except +

cdef extern from "core/top_sort.hpp" namespace "ninja" nogil:
    vector[int32_t] top_sort(int64_t num_states, const int64_t* arc_begin, const int32_t* dst, int32_t start,
                             int32_t* new_state) except +

cdef extern from "graph/potential.hpp" namespace "ninja" nogil:
    void path_extremes(int64_t num_states, const int64_t* arc_begin, const int32_t* dst, const double* cost,
                       const double* final_cost, double* least, double* most) except +

cdef extern from "graph/growing_lattice.hpp" namespace "ninja" nogil:
    cdef cppclass GrowingLattice(LatticeArrays):
        cbool too_large

cdef extern from "graph/epsilon.hpp" namespace "ninja" nogil:
    cdef cppclass EpsilonFree(GrowingLattice):
        vector[int32_t] state
        cbool exceeds_range
    EpsilonFree remove_epsilons(const Arcs& arcs, const Alignments& labels, double acoustic_scale,
                                int64_t max_arcs, int64_t max_labels) except +

cdef extern from "graph/determinize.hpp" namespace "ninja" nogil:
    GrowingLattice determinize(const Arcs& arcs, const Alignments& labels, double acoustic_scale,
                               int64_t max_arcs) except +

cdef extern from "graph/union.hpp" namespace "ninja" nogil:
    cdef cppclass Operand:
        Operand() except +
        Arcs arcs
        Alignments labels
        int64_t first
    GrowingLattice unite(const vector[Operand]& operands, double acoustic_scale, double delta, int64_t max_arcs,
                         int64_t max_labels) except +

cdef extern from "graph/split_states.hpp" namespace "ninja" nogil:
    cdef cppclass SplitLattice:
        cbool too_large
        vector[int64_t] arc_begin
        vector[int32_t] dst
        vector[int64_t] arc_map
        vector[int32_t] state_map
        vector[int32_t] automaton_state
    SplitLattice expand_ngram(const Arcs& arcs, int32_t num_words, int64_t max_arcs) except +
    SplitLattice follow_transcript(const Arcs& arcs, const int32_t* words, int64_t length, int64_t max_arcs) except +

cdef extern from "graph/compose.hpp" namespace "ninja" nogil:
    cdef cppclass Composition:
        cbool too_large
        int64_t cycle
        vector[int64_t] arc_begin
        vector[int32_t] dst
        vector[int32_t] word
        vector[int64_t] arc_map
        vector[int64_t] fst_arc
        vector[double] cost
        vector[int32_t] state_map
        vector[int32_t] fst_state
        vector[double] final_cost
    vector[int64_t] arcs_by_word(const Arcs& arcs) except +
    Composition compose(const Arcs& arcs, const FstArcs& fst, int64_t start, int32_t phi, int64_t max_arcs) except +

cdef extern from "graph/oracle.hpp" namespace "ninja" nogil:
    const int64_t kWholeCells, kLeastOracleWords, kMostOracleCells

cdef extern from "graph/align_words.hpp" namespace "ninja" nogil:
    cdef struct EditCosts:
        int64_t insertion
        int64_t deletion
        int64_t substitution
    cdef struct WordAlignment:
        vector[int32_t] reference
        vector[int32_t] hypothesis
    WordAlignment align_words(
        const int32_t* reference, int64_t rows, const int32_t* hypothesis, int64_t columns, const EditCosts& costs
    ) except +

cdef extern from "graph/edit_counts.hpp" namespace "ninja" nogil:
    cdef struct EditCounts:
        int32_t insertions
        int32_t deletions
        int32_t substitutions
    EditCounts edit_counts(
        const int32_t* reference, int64_t rows, const int32_t* hypothesis, int64_t columns
    ) except +
