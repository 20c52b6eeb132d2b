# cython: language_level=3
"""C++ declarations of the graph kernels; declarations only."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp cimport bool as bool_t
from libcpp.vector cimport vector

from blocks cimport Block
from clattice cimport Alignments, Arcs


cdef extern from "scales.hpp" namespace "ninja" nogil:
    cdef struct Scales:
        double acoustic
        double lm
        double word_penalty


cdef extern from "select.hpp" namespace "ninja" nogil:
    cdef cppclass Selection:
        Selection() except +
        int64_t num_states
        int64_t num_arcs
        int64_t num_labels
        int64_t num_final_labels
        bool_t everything

    Selection take_selection() noexcept
    void give_back(Selection& selection) noexcept

    cdef cppclass NewLattice(Block):
        NewLattice()
        int64_t* arc_map
        const int32_t* old_time
        int32_t* time

    void make_room(NewLattice& to, int64_t num_states, int64_t num_arcs, int64_t num_labels,
                   int64_t num_final_labels) except +
    void write_selection(const Arcs& arcs, const Alignments& alignments, const Selection& selection,
                         const NewLattice& to) noexcept


cdef extern from "connect.hpp" namespace "ninja" nogil:
    void connect(const Arcs& arcs, const Alignments& alignments, const uint8_t* wanted,
                 Selection& selection) except +


cdef extern from "prune.hpp" namespace "ninja" nogil:
    void prune(const Arcs& arcs, const Alignments& alignments, const Scales& scales, double beam,
               Selection& selection) except +


cdef extern from "times.hpp" namespace "ninja" nogil:
    int64_t state_times(const Arcs& arcs, const Alignments& alignments, int32_t* time) noexcept
    int64_t first_backward_arc(const Arcs& arcs, const int32_t* time) noexcept
    int64_t num_frames(const Arcs& arcs, const Alignments& alignments, const int32_t* time) noexcept
    void depth_per_frame(const Arcs& arcs, const Alignments& alignments, const int32_t* time, int64_t frames,
                         int32_t* depth) except +


cdef extern from "limit_depth.hpp" namespace "ninja" nogil:
    void limit_depth(const Arcs& arcs, const Alignments& alignments, const Scales& scales, const int32_t* time,
                     int64_t frames, int64_t max_arcs_per_frame, Selection& selection) except +


cdef extern from "best_path.hpp" namespace "ninja" nogil:
    cdef struct PathSize:
        int64_t num_words
        int64_t num_labels
        double graph_cost
        double acoustic_cost

    PathSize measure_path(const Arcs& arcs, const Alignments& alignments, const int64_t* path,
                          int64_t length) noexcept
    void write_path(const Arcs& arcs, const Alignments& alignments, const int64_t* path, int64_t length,
                    int32_t* words, int32_t* labels) noexcept
    void write_linear(const Arcs& arcs, const Alignments& alignments, const int64_t* path, int64_t length,
                      const NewLattice& to) noexcept
    bool_t best_path(const Arcs& arcs, const Scales& scales, vector[int64_t]& path) except +


cdef extern from "nbest.hpp" namespace "ninja" nogil:
    void nbest(const Arcs& arcs, const Scales& scales, int64_t n, vector[int64_t]& path_arc,
               vector[int64_t]& path_begin) except +


cdef extern from "posteriors.hpp" namespace "ninja" nogil:
    bool_t posteriors(const Arcs& arcs, const Scales& scales, double* posterior) except +
    double forward_backward(const Arcs& arcs, const Scales& scales, double* alpha, double* beta) except +


cdef extern from "top_sort.hpp" namespace "ninja" nogil:
    vector[int32_t] top_sort(int64_t num_states, const int64_t* arc_begin, const int32_t* dst, int32_t start,
                             int32_t* new_state) except +
