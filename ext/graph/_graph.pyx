"""Graph kernels: conversions only. Arguments are validated in ``ninja.graph``; the lock is released in each kernel."""

cimport numpy as np
from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

cimport graph.kernels as c
from core.lattice cimport (
    Alignments, Arcs, Block, FstArcs, Scales, alignments_of, arcs_of, data_of, doubles, freeze,
    fst_of, int32s, int64s, lattice_like, lattice_of, new_array, new_block,
)

from ninja.errors import LatticeError
from ninja.graph.path import Path
from ninja.lattice import SLOTS, Lattice

np.import_array()

cdef tuple _SLOTS = SLOTS  # a C variable: no look-up by name
cdef object _new = object.__new__


cdef object no_path(object lattice):
    return LatticeError("no path leads from the start to a final state", key=lattice.key)


cdef int take_time(c.NewLattice& to, object lattice) except -1:
    """Let the times of a lattice, if it has any, be written, too."""
    if lattice.time is not None:
        to.old_time = <const int32_t*>data_of(lattice.time, np.NPY_INT32, -1)
    return 0


cdef object made_like(object lattice, c.NewLattice& to):
    return lattice_like(lattice, <Block*>&to, _new(Lattice), _SLOTS, lattice.kind, None)


cdef object selected(object lattice, const Arcs& arcs, const Alignments& alignments, c.Selection& selection,
                     bint arc_map):
    """Copy what a kernel has selected into a lattice of its own."""
    if selection.num_states == 0:
        raise no_path(lattice)
    if selection.everything:
        c.give_back(selection)
        return (lattice, np.PyArray_Arange(0, arcs.num_arcs, 1, np.NPY_INT64)) if arc_map else lattice
    cdef c.NewLattice to
    take_time(to, lattice)
    cdef object old_arc = None
    if arc_map:
        old_arc = new_array(selection.num_arcs, np.NPY_INT64)
        to.arc_map = <int64_t*>np.PyArray_DATA(<np.ndarray>old_arc)
    c.make_room(to, selection.num_states, selection.num_arcs, selection.num_labels, selection.num_final_labels)
    with nogil:
        c.write_selection(arcs, alignments, selection, to)
        c.give_back(selection)
    cdef object smaller = made_like(lattice, to)
    return (smaller, old_arc) if arc_map else smaller


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
    cdef Scales scales = Scales(acoustic_scale, lm_scale, word_penalty)
    cdef c.Selection selection = c.take_selection()
    with nogil:
        c.prune(arcs, alignments, scales, beam, selection)
    return selected(lattice, arcs, alignments, selection, arc_map)


def limit_depth(object lattice not None, object time not None, int64_t max_arcs_per_frame, double acoustic_scale,
                bint arc_map):
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments alignments = alignments_of(lattice)
    cdef const int32_t* moment = <const int32_t*>data_of(time, np.NPY_INT32, arcs.num_states)
    cdef Scales scales = Scales(acoustic_scale, 1.0, 0.0)
    cdef c.Selection selection = c.take_selection()
    with nogil:
        c.limit_depth(arcs, alignments, scales, moment, max_arcs_per_frame, selection)
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
    cdef Scales scales = Scales(acoustic_scale, lm_scale, word_penalty)
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
    cdef Scales scales = Scales(acoustic_scale, lm_scale, word_penalty)
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
    take_time(to, lattice)
    c.make_room(to, length + 1, length, size.num_labels - final_labels, final_labels)
    with nogil:
        c.write_linear(arcs, alignments, path, length, to)
    return made_like(lattice, to)


def posteriors(object lattice not None, double acoustic_scale, double lm_scale, double word_penalty):
    cdef Arcs arcs = arcs_of(lattice)
    cdef Scales scales = Scales(acoustic_scale, lm_scale, word_penalty)
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
    cdef Scales scales = Scales(acoustic_scale, lm_scale, word_penalty)
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


def path_extremes(const int64_t[::1] arc_begin not None, const int32_t[::1] dst not None,
                  const double[::1] cost not None, const double[::1] final_cost not None):
    """Return the smallest and the largest cost of a path through a machine in topological order."""
    cdef double least = 0.0
    cdef double most = 0.0
    cdef int64_t num_states = final_cost.shape[0]
    cdef const int32_t* to = &dst[0] if dst.shape[0] > 0 else NULL
    cdef const double* on_arc = &cost[0] if cost.shape[0] > 0 else NULL
    with nogil:
        c.path_extremes(num_states, &arc_begin[0], to, on_arc, &final_cost[0], &least, &most)
    return least, most


def remove_epsilons(lattice not None, double acoustic_scale, int64_t max_arcs):
    """Remove epsilons; None when more than max_arcs arcs arise."""
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments labels = alignments_of(lattice)
    cdef c.EpsilonFree found
    with nogil:
        found = c.remove_epsilons(arcs, labels, acoustic_scale, max_arcs)
    if found.too_large:
        return None
    if found.state.empty():
        raise no_path(lattice)
    time = lattice.time
    if time is not None:
        time = freeze(time[int32s(found.state)])
    return lattice_of(lattice, found, _new(Lattice), _SLOTS, time)


def determinize(lattice not None, double acoustic_scale, int64_t max_arcs):
    """Determinize a connected lattice without epsilons.

    Returns:
        None when more than max_arcs arcs arise, else (arc_begin, dst, word, then the old arcs each arc stands for as
        begin and pool, the old final state of each state or -1, and the old arcs before it as begin and pool).
    """
    cdef Arcs arcs = arcs_of(lattice)
    cdef c.Determinized found
    with nogil:
        found = c.determinize(arcs, acoustic_scale, max_arcs)
    if found.too_large:
        return None
    return (
        int64s(found.arc_begin), int32s(found.dst), int32s(found.word), int64s(found.taken_begin), int32s(found.taken),
        int32s(found.final_state), int64s(found.final_taken_begin), int32s(found.final_taken),
    )


def determinize_pruned(lattice not None, double beam, float acoustic_scale, bounds not None):
    """Determinize a lattice within a beam and bounds, those of ``DeterminizeBounds``.

    Returns:
        (what stopped the last try: 0 nothing, 1 memory, 2 arcs, 3 states, 4 loop, 5 costs beyond single precision; its
        beam; the beam it reached; how often it was tried again; the new lattice, None where no path was found).
    """
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments labels = alignments_of(lattice)
    cdef c.DeterminizeBounds given = c.DeterminizeBounds(bounds.delta, bounds.max_mem, bounds.max_arcs,
                                                         bounds.max_states, bounds.max_loop)
    cdef double retry_cutoff = bounds.retry_cutoff
    cdef c.DeterminizedLattice found
    with nogil:
        found = c.determinize_pruned(arcs, labels, beam, acoustic_scale, retry_cutoff, given)
    made = lattice_of(lattice, found, _new(Lattice), _SLOTS, None) if found.num_states > 0 else None
    return <int>found.stopped_by, found.beam, found.effective_beam, found.retries, made


cdef int64_t GROWTH = 64  # labels that pushing may make of one, beyond ROOM
cdef int64_t ROOM = 1 << 20


def unite(list lattices not None, double acoustic_scale, double delta, int64_t max_arcs, int64_t max_labels):
    """Determinize the union of connected lattices without epsilons; None when a bound is passed."""
    cdef vector[c.Operand] operands
    cdef c.Operand operand
    cdef int64_t first = 0
    cdef c.United found
    for lattice in lattices:
        operand.arcs = arcs_of(lattice)
        operand.labels = alignments_of(lattice)
        operand.first = first
        first += operand.arcs.num_states
        operands.push_back(operand)
    with nogil:
        found = c.unite(operands, acoustic_scale, delta, max_arcs, max_labels)
    if found.too_large:
        return None
    return lattice_of(lattices[0], found, _new(Lattice), _SLOTS, None)


cdef c.Pushing planned(object lattice, const Arcs& arcs, const Alignments& labels, cbool strings, cbool weights,
                       double acoustic_scale) except *:
    cdef c.Pushing plan
    cdef int64_t before = labels.ali_begin[arcs.num_arcs] + labels.final_ali_begin[arcs.num_states]
    with nogil:
        plan = c.plan_push(arcs, labels, strings, weights, acoustic_scale)
    if plan.num_labels > GROWTH * before + ROOM:
        raise LatticeError(f"pushing would make {plan.num_labels} labels of {before}; push costs only", key=lattice.key)
    return plan


def push(lattice not None, cbool strings, cbool weights, double acoustic_scale):
    """Push alignments, costs, or both, of a connected lattice."""
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments labels = alignments_of(lattice)
    cdef c.Pushing plan = planned(lattice, arcs, labels, strings, weights, acoustic_scale)
    cdef Block to = new_block(arcs.num_states, arcs.num_arcs, plan.num_labels, plan.num_final_labels)
    with nogil:
        c.write_pushed(arcs, labels, plan, to)
    return lattice_like(lattice, &to, _new(Lattice), _SLOTS, "compact" if strings else lattice.kind,
                        None if strings else lattice.time)


def minimize(lattice not None, cbool strings, cbool weights, double acoustic_scale, double delta):
    """Merge equal states of a connected lattice; its alignments are pushed, or compared as they are."""
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments labels = alignments_of(lattice)
    cdef c.Pushing plan = planned(lattice, arcs, labels, strings, weights, acoustic_scale)
    cdef c.Minimized found
    with nogil:
        found = c.minimize(arcs, labels, plan, delta)
    cdef Block to = new_block(
        found.merged.num_states, found.merged.num_arcs, found.merged.num_labels, found.merged.num_final_labels
    )
    with nogil:
        c.write_minimized(arcs, found, to)
    return lattice_like(lattice, &to, _new(Lattice), _SLOTS, "compact" if strings else lattice.kind, None)


cdef object split_arrays(c.SplitLattice& found):
    if found.too_large:
        return None
    return (
        int32s(found.state_map), int64s(found.arc_begin), int32s(found.dst), int64s(found.arc_map),
        int32s(found.followed),
    )


def expand_ngram(lattice not None, int32_t num_words, int64_t max_arcs):
    """Split states by the last words before them.

    Returns:
        None when more than max_arcs arcs arise, else (old state of each state, arc_begin, dst, old arc of each arc, a
        number for the words before each state).
    """
    cdef Arcs arcs = arcs_of(lattice)
    cdef c.SplitLattice found
    with nogil:
        found = c.expand_ngram(arcs, num_words, max_arcs)
    return split_arrays(found)


def follow_transcript(lattice not None, const int32_t[::1] words not None, int64_t max_arcs):
    """Split states by how much of a transcript has been said.

    Returns:
        As ``expand_ngram``; the last are words said, or one more than there are where something else was said, too.
    """
    cdef Arcs arcs = arcs_of(lattice)
    cdef c.SplitLattice found
    cdef int64_t length = words.shape[0]
    cdef const int32_t* first = &words[0] if length > 0 else NULL
    with nogil:
        found = c.follow_transcript(arcs, first, length, max_arcs)
    return split_arrays(found)


def compose_pair(first not None, second not None, int64_t max_arcs):
    """Compose two lattices over their words.

    Returns:
        None when more than max_arcs arcs arise, else (arc_begin, dst, arc of the first lattice or -1, arc of the second
        or -1, state of the first, state of the second).
    """
    cdef Arcs a = arcs_of(first)
    cdef Arcs b = arcs_of(second)
    cdef c.ComposedPair found
    with nogil:
        found = c.compose_pair(a, b, max_arcs)
    if found.too_large:
        return None
    return (
        int64s(found.arc_begin), int32s(found.dst), int64s(found.first), int64s(found.second),
        int32s(found.of_first), int32s(found.of_second),
    )


def compose_fst(lattice not None, machine not None, int32_t phi, int64_t max_arcs):
    """Compose a lattice, by its words, with an ``Fst``.

    Returns:
        None when more than max_arcs arcs arise; a state of the FST on a cycle of epsilons; else (arc_begin, dst, word,
        arc of the lattice or -1, cost of the FST on each arc, state of the lattice, final cost of the FST there).
    """
    cdef Arcs arcs = arcs_of(lattice)
    cdef FstArcs fst = fst_of(machine.arc_begin, machine.dst, machine.ilabel, machine.olabel, machine.cost,
                              machine.final_cost)
    cdef int64_t start = machine.start
    cdef c.ComposedFst found
    with nogil:
        found = c.compose_fst(arcs, fst, start, phi, max_arcs)
    if found.too_large:
        return None
    if found.cycle >= 0:
        return found.cycle
    return (
        int64s(found.arc_begin), int32s(found.dst), int32s(found.word), int64s(found.arc_map), doubles(found.cost),
        int32s(found.state_map), doubles(found.final_cost),
    )


def align_words(
    const int32_t[::1] reference not None, const int32_t[::1] hypothesis not None,
    int64_t insertion, int64_t deletion, int64_t substitution,
):
    """Return int32 [pairs] positions in the reference and in the hypothesis, -1 where a side has no word."""
    cdef int64_t rows = reference.shape[0]
    cdef int64_t columns = hypothesis.shape[0]
    cdef const int32_t* said = &reference[0] if rows > 0 else NULL
    cdef const int32_t* heard = &hypothesis[0] if columns > 0 else NULL
    cdef c.EditCosts costs = c.EditCosts(insertion, deletion, substitution)
    cdef c.WordAlignment found
    with nogil:
        found = c.align_words(said, rows, heard, columns, costs)
    return int32s(found.reference), int32s(found.hypothesis)
