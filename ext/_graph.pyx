# distutils: language = c++
# cython: language_level=3
"""Graph kernels: conversions only. Arguments are validated in ``ninja.graph``; the lock is released in each kernel."""

cimport numpy as np
from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.vector cimport vector

cimport cgraph as c
from arrays cimport alignments_of, arcs_of, data_of, freeze, new_array
from blocks cimport Block, lattice_in
from clattice cimport Alignments, Arcs

from ninja.errors import LatticeError
from ninja.graph.path import Path
from ninja.lattice import SLOTS, Lattice

np.import_array()

cdef tuple _SLOTS = SLOTS  # a C variable: no look-up by name
cdef object _new = object.__new__


cdef object no_path(object lattice):
    return LatticeError("no path leads from the start to a final state", key=lattice.key)


cdef object time_for(c.NewLattice& to, object lattice, int64_t num_states):
    """Let the times of a lattice, if it has any, be written, too; return the array for them, or None."""
    if lattice.time is None:
        return None
    cdef object time = new_array(num_states, np.NPY_INT32)
    to.old_time = <const int32_t*>data_of(lattice.time, np.NPY_INT32, -1)
    to.time = <int32_t*>np.PyArray_DATA(<np.ndarray>time)
    return freeze(time)


cdef object made_like(object lattice, c.NewLattice& to, object time):
    return lattice_in(<Block*>&to, _new(Lattice), _SLOTS, lattice.key, lattice.kind, time, lattice.frame_shift,
                      lattice.words)


cdef object selected(object lattice, const Arcs& arcs, const Alignments& alignments, c.Selection& selection,
                     bint arc_map):
    """Copy what a kernel has selected into a lattice of its own."""
    if selection.num_states == 0:
        raise no_path(lattice)
    if selection.everything:
        c.give_back(selection)
        return (lattice, np.PyArray_Arange(0, arcs.num_arcs, 1, np.NPY_INT64)) if arc_map else lattice
    cdef c.NewLattice to
    cdef object time = time_for(to, lattice, selection.num_states)
    cdef object old_arc = None
    if arc_map:
        old_arc = new_array(selection.num_arcs, np.NPY_INT64)
        to.arc_map = <int64_t*>np.PyArray_DATA(<np.ndarray>old_arc)
    c.make_room(to, selection.num_states, selection.num_arcs, selection.num_labels, selection.num_final_labels)
    with nogil:
        c.write_selection(arcs, alignments, selection, to)
        c.give_back(selection)
    cdef object smaller = made_like(lattice, to, time)
    return (smaller, old_arc) if arc_map else smaller


cdef inline c.Scales scales_of(double acoustic_scale, double lm_scale, double word_penalty) noexcept:
    cdef c.Scales scales
    scales.acoustic = acoustic_scale
    scales.lm = lm_scale
    scales.word_penalty = word_penalty
    return scales


def connect(object lattice not None, object wanted, bint arc_map):
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments alignments = alignments_of(lattice)
    cdef const uint8_t* mark = NULL
    cdef c.Selection selection = c.take_selection()
    if wanted is not None:
        mark = <const uint8_t*>data_of(wanted, np.NPY_BOOL, arcs.num_arcs)
    with nogil:
        c.connect(arcs, alignments, mark, selection)
    return selected(lattice, arcs, alignments, selection, arc_map)


def prune(object lattice not None, double beam, double acoustic_scale, double lm_scale, double word_penalty,
          bint arc_map):
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments alignments = alignments_of(lattice)
    cdef c.Scales scales = scales_of(acoustic_scale, lm_scale, word_penalty)
    cdef c.Selection selection = c.take_selection()
    with nogil:
        c.prune(arcs, alignments, scales, beam, selection)
    return selected(lattice, arcs, alignments, selection, arc_map)


def state_times(object lattice not None):
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments alignments = alignments_of(lattice)
    cdef object time = new_array(arcs.num_states, np.NPY_INT32)
    cdef int32_t* moment = <int32_t*>np.PyArray_DATA(<np.ndarray>time)
    cdef int64_t arc
    with nogil:
        arc = c.state_times(arcs, alignments, moment)
    return freeze(time), arc


def first_backward_arc(object lattice not None, object time not None):
    cdef Arcs arcs = arcs_of(lattice)
    cdef const int32_t* moment = <const int32_t*>data_of(time, np.NPY_INT32, arcs.num_states)
    cdef int64_t arc
    with nogil:
        arc = c.first_backward_arc(arcs, moment)
    return arc


def num_frames(object lattice not None, object time not None):
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments alignments = alignments_of(lattice)
    cdef const int32_t* moment = <const int32_t*>data_of(time, np.NPY_INT32, arcs.num_states)
    cdef int64_t frames
    with nogil:
        frames = c.num_frames(arcs, alignments, moment)
    return frames


def depth_per_frame(object lattice not None, object time not None, int64_t frames):
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments alignments = alignments_of(lattice)
    cdef const int32_t* moment = <const int32_t*>data_of(time, np.NPY_INT32, arcs.num_states)
    cdef object depth = new_array(frames, np.NPY_INT32)
    cdef int32_t* counts = <int32_t*>np.PyArray_DATA(<np.ndarray>depth)
    with nogil:
        c.depth_per_frame(arcs, alignments, moment, frames, counts)
    return depth


def limit_depth(object lattice not None, object time not None, int64_t frames, int64_t max_arcs_per_frame,
                double acoustic_scale, bint arc_map):
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments alignments = alignments_of(lattice)
    cdef const int32_t* moment = <const int32_t*>data_of(time, np.NPY_INT32, arcs.num_states)
    cdef c.Scales scales = scales_of(acoustic_scale, 1.0, 0.0)
    cdef c.Selection selection = c.take_selection()
    with nogil:
        c.limit_depth(arcs, alignments, scales, moment, frames, max_arcs_per_frame, selection)
    return selected(lattice, arcs, alignments, selection, arc_map)


cdef object path_of(const Arcs& arcs, const Alignments& alignments, const int64_t* path, int64_t length):
    """Make the Path of some arcs; a few dozen of them, so the lock is kept."""
    cdef c.PathSize size = c.measure_path(arcs, alignments, path, length)
    cdef object ids = new_array(length, np.NPY_INT64)
    cdef object words = new_array(size.num_words, np.NPY_INT32)
    cdef object labels = new_array(size.num_labels, np.NPY_INT32)
    cdef int64_t* id_data = <int64_t*>np.PyArray_DATA(<np.ndarray>ids)
    cdef int64_t place
    for place in range(length):
        id_data[place] = path[place]
    c.write_path(arcs, alignments, path, length, <int32_t*>np.PyArray_DATA(<np.ndarray>words),
                 <int32_t*>np.PyArray_DATA(<np.ndarray>labels))
    return Path(freeze(ids), freeze(words), freeze(labels), size.graph_cost, size.acoustic_cost)


def best_path(object lattice not None, double acoustic_scale, double lm_scale, double word_penalty):
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments alignments = alignments_of(lattice)
    cdef c.Scales scales = scales_of(acoustic_scale, lm_scale, word_penalty)
    cdef vector[int64_t] path
    cdef bint found
    with nogil:
        found = c.best_path(arcs, scales, path)
    if not found:
        raise no_path(lattice)
    return path_of(arcs, alignments, path.data(), <int64_t>path.size())


def nbest(object lattice not None, int64_t n, double acoustic_scale, double lm_scale, double word_penalty):
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments alignments = alignments_of(lattice)
    cdef c.Scales scales = scales_of(acoustic_scale, lm_scale, word_penalty)
    cdef vector[int64_t] path_arc, path_begin
    cdef size_t path
    with nogil:
        c.nbest(arcs, scales, n, path_arc, path_begin)
    if path_begin.size() == 1:
        raise no_path(lattice)
    cdef list paths = []
    for path in range(path_begin.size() - 1):
        paths.append(path_of(arcs, alignments, path_arc.data() + path_begin[path],
                             path_begin[path + 1] - path_begin[path]))
    return paths


def path_lattice(object lattice not None, object path_arcs not None):
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments alignments = alignments_of(lattice)
    cdef const int64_t* path = <const int64_t*>data_of(path_arcs, np.NPY_INT64, -1)
    cdef int64_t length = np.PyArray_DIM(<np.ndarray>path_arcs, 0)
    cdef int64_t at = 0, place
    for place in range(length):
        if not 0 <= path[place] < arcs.num_arcs or not arcs.arc_begin[at] <= path[place] < arcs.arc_begin[at + 1]:
            raise LatticeError(f"arc {path[place]} does not leave state {at}: the path is not of this lattice",
                               key=lattice.key)
        at = arcs.dst[path[place]]
    cdef int64_t final_labels = alignments.final_ali_begin[at + 1] - alignments.final_ali_begin[at]
    cdef c.PathSize size = c.measure_path(arcs, alignments, path, length)
    if not size.graph_cost + size.acoustic_cost < float("inf"):
        raise LatticeError(f"the path ends in state {at}, which is not final", key=lattice.key)
    cdef c.NewLattice to
    cdef object time = time_for(to, lattice, length + 1)
    c.make_room(to, length + 1, length, size.num_labels - final_labels, final_labels)
    with nogil:
        c.write_linear(arcs, alignments, path, length, to)
    return made_like(lattice, to, time)


def posteriors(object lattice not None, double acoustic_scale, double lm_scale, double word_penalty):
    cdef Arcs arcs = arcs_of(lattice)
    cdef c.Scales scales = scales_of(acoustic_scale, lm_scale, word_penalty)
    cdef object posterior = new_array(arcs.num_arcs, np.NPY_FLOAT64)
    cdef double* probability = <double*>np.PyArray_DATA(<np.ndarray>posterior)
    cdef bint found
    with nogil:
        found = c.posteriors(arcs, scales, probability)
    if not found:
        raise no_path(lattice)
    return posterior


def forward_backward(object lattice not None, double acoustic_scale, double lm_scale, double word_penalty):
    cdef Arcs arcs = arcs_of(lattice)
    cdef c.Scales scales = scales_of(acoustic_scale, lm_scale, word_penalty)
    cdef object alpha = new_array(arcs.num_states, np.NPY_FLOAT64)
    cdef object beta = new_array(arcs.num_states, np.NPY_FLOAT64)
    cdef double* forward = <double*>np.PyArray_DATA(<np.ndarray>alpha)
    cdef double* backward = <double*>np.PyArray_DATA(<np.ndarray>beta)
    cdef double total
    with nogil:
        total = c.forward_backward(arcs, scales, forward, backward)
    if not total < float("inf"):
        raise no_path(lattice)
    return alpha, beta, total


def top_sort(object arc_begin not None, object dst not None, int32_t start):
    cdef const int64_t* begin = <const int64_t*>data_of(arc_begin, np.NPY_INT64, -1)
    cdef int64_t num_states = np.PyArray_DIM(<np.ndarray>arc_begin, 0) - 1
    cdef const int32_t* destination = <const int32_t*>data_of(dst, np.NPY_INT32, -1)
    cdef object new_state = new_array(num_states, np.NPY_INT32)
    cdef int32_t* number = <int32_t*>np.PyArray_DATA(<np.ndarray>new_state)
    cdef vector[int32_t] cycle
    with nogil:
        cycle = c.top_sort(num_states, begin, destination, start, number)
    return new_state, list(cycle)
