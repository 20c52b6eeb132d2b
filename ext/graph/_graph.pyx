"""Bindings of the graph kernels, which run without the GIL; ``ninja.graph`` validates the arguments.

`lattices` is a `Lattice` or a `Batch`; results have the same type.
"""

cimport numpy as np
from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

cimport graph.kernels as c
from core.batch cimport (
    Items, Results, capsule_of, failures_of, items_in, items_of, lattice_error, lattice_like, result_of,
)
from core.lattice cimport (
    Alignments, Arcs, FstArcs, Scales, alignments_of, arcs_of, copied, data_of, doubles, freeze, fst_of, int32s, int64s,
    lattice_of, new_array, scales_of,
)

from ninja.graph.path import Path
from ninja.lattice import SLOTS, Lattice

np.import_array()

cdef tuple _SLOTS = SLOTS  # a C variable, which needs no look-up by name
cdef object _new = object.__new__


cdef object no_path(object lattice):
    return lattice_error(lattice, "no path leads from the start to a final state")


cdef object too_large(object lattice, object limit, object advice="prune the lattice first"):
    return lattice_error(lattice, f"{limit}; {advice}")


cdef object result(object lattices, Results& results):
    return result_of(lattices, results, Lattice, _SLOTS)


cdef object selected(object lattices, Results& results, bint arc_map):
    """Return the lattices and, if `arc_map`, the old arc of each arc, int64 [arcs of all lattices]."""
    selection = result(lattices, results)
    return (selection, copied(results.arc_map.data(), results.arc_map.size(), np.NPY_INT64)) if arc_map else selection


def connect(lattices, wanted, bint arc_map):
    """Connect lattices, through the arcs of `wanted`, bool [arcs of all lattices], if it is not None."""
    cdef Items single
    cdef Items* items = items_in(lattices, single, Lattice)
    cdef const uint8_t* mark = NULL
    cdef Results results
    if wanted is not None:
        mark = <const uint8_t*>data_of(wanted, np.NPY_BOOL, lattices.num_arcs)
    with nogil:
        results = c.connect_each(items[0], mark, arc_map)
    return selected(lattices, results, arc_map)


def prune(lattices, double beam, scales not None, bint arc_map):
    cdef Items single
    cdef Items* items = items_in(lattices, single, Lattice)
    cdef Scales factors = scales_of(scales)
    cdef Results results
    with nogil:
        results = c.prune_each(items[0], factors, beam, arc_map)
    return selected(lattices, results, arc_map)


def limit_depth(lattice, time not None, int64_t max_arcs_per_frame, double acoustic_scale, bint arc_map):
    cdef Items single
    cdef Items* items = items_in(lattice, single, Lattice)
    cdef const int32_t* moment = <const int32_t*>data_of(time, np.NPY_INT32, items[0][0].arcs.num_states)
    cdef Scales scales = Scales(acoustic_scale, 1.0, 0.0)
    cdef Results results
    with nogil:
        results = c.limit_depth_of(items[0], scales, moment, max_arcs_per_frame, arc_map)
    return selected(lattice, results, arc_map)


cdef list paths_of(object lattice, const Items& items, const c.Paths& paths):
    """Return the paths of a lattice. They are short, so the GIL is not released."""
    cdef const Arcs* arcs = &items[0].arcs
    cdef const Alignments* labels = &items[0].labels
    cdef c.PathSize size
    cdef const int64_t* path
    cdef int64_t length
    cdef size_t number
    cdef list path_objects = []
    if paths.arc_begin.size() == 1:
        raise no_path(lattice)
    for number in range(paths.arc_begin.size() - 1):
        path = paths.arc.data() + paths.arc_begin[number]
        length = paths.arc_begin[number + 1] - paths.arc_begin[number]
        size = c.measure_path(arcs[0], labels[0], path, length)
        words = new_array(size.num_words, np.NPY_INT32)
        alignment = new_array(size.num_labels, np.NPY_INT32)
        c.write_path(arcs[0], labels[0], path, length, <int32_t*>np.PyArray_DATA(<np.ndarray>words),
                     <int32_t*>np.PyArray_DATA(<np.ndarray>alignment))
        arcs_of_path = freeze(copied(path, length, np.NPY_INT64))
        path_objects.append(Path(arcs_of_path, freeze(words), freeze(alignment), size.graph_cost, size.acoustic_cost))
    return path_objects


cdef object lattices_of(object batch, const Items& items, const c.Paths& paths, bint several):
    cdef Results results
    with nogil:
        results = c.path_lattices(items, paths, several)
    return batch.with_result((capsule_of(results.items), failures_of(results.failures)), several=several)


def best_path(lattices, scales not None):
    """Return the best path of a lattice; for a batch, the paths as lattices."""
    cdef Items single
    cdef Items* items = items_in(lattices, single, Lattice)
    cdef Scales factors = scales_of(scales)
    cdef c.Paths paths
    with nogil:
        paths = c.best_paths(items[0], factors)
    return paths_of(lattices, single, paths)[0] if items == &single else lattices_of(lattices, items[0], paths, False)


def best_words(batch, scales not None):
    """Return the index of the first lattice without a path, or -1, and the fields of ``BestWords``."""
    cdef Items single
    cdef Items* items = items_in(batch, single, Lattice)
    cdef Scales factors = scales_of(scales)
    cdef c.PathWords words
    cdef int64_t failed
    with nogil:
        failed = c.best_words_all(items[0], factors, words)
    return failed, (int32s(words.word), int64s(words.begin), doubles(words.graph_cost), doubles(words.acoustic_cost),
                    int64s(words.num_labels))


def nbest(lattices, int64_t n, scales not None, compared=None):
    """Return the n best paths of a lattice; for a batch, all paths as lattices.

    Paths are compared by the words of the items `compared`, by default the words of the lattices.
    """
    cdef Items single
    cdef Items* items = items_in(lattices, single, Lattice)
    cdef Items* searched = items if compared is None else items_of(compared)
    cdef Scales factors = scales_of(scales)
    cdef c.Paths paths
    with nogil:
        paths = c.nbest_paths(searched[0], n, factors)
    return paths_of(lattices, single, paths) if items == &single else lattices_of(lattices, items[0], paths, True)


def path_lattice(lattice, path_arcs not None):
    cdef Arcs arcs = arcs_of(lattice)
    cdef Items single
    cdef Items* items = items_in(lattice, single, Lattice)
    cdef const int64_t* path = <const int64_t*>data_of(path_arcs, np.NPY_INT64, -1)
    cdef int64_t length = np.PyArray_DIM(<np.ndarray>path_arcs, 0)
    cdef int64_t state = 0, place
    cdef c.Paths paths
    cdef Results results
    for place in range(length):
        if not 0 <= path[place] < arcs.num_arcs or not arcs.arc_begin[state] <= path[place] < arcs.arc_begin[state + 1]:
            message = f"arc {path[place]} does not leave state {state}: the path belongs to another lattice"
            raise lattice_error(lattice, message)
        state = arcs.dst[path[place]]
    if not max(arcs.final_graph[state], arcs.final_acoustic[state]) < float("inf"):
        raise lattice_error(lattice, f"the path ends in state {state}, which is not final")
    paths.arc.assign(path, path + length)
    paths.arc_begin.push_back(length)
    paths.path_begin.push_back(1)
    with nogil:
        results = c.path_lattices(items[0], paths, False)
    return result(lattice, results)


def posteriors(object lattice, scales not None):
    cdef Arcs arcs = arcs_of(lattice)
    cdef Scales factors = scales_of(scales)
    cdef object posterior = new_array(arcs.num_arcs, np.NPY_FLOAT64)
    cdef object of_final = new_array(arcs.num_states, np.NPY_FLOAT64)
    cdef double* probability = <double*>np.PyArray_DATA(<np.ndarray>posterior)
    cdef double* end_probability = <double*>np.PyArray_DATA(<np.ndarray>of_final)
    cdef bint found
    with nogil:
        found = c.posteriors(arcs, factors, probability, end_probability)
    if not found:
        raise no_path(lattice)
    return posterior, of_final


def probable_arcs(batch, scales not None, double least, cbool labels):
    """Return the index of the first lattice without a path or with inconsistent times, or -1, and the fields of
    ``ProbableArcs``.
    """
    cdef Items single
    cdef Items* items = items_in(batch, single, Lattice)
    cdef Scales factors = scales_of(scales)
    cdef c.ProbableArcs arcs
    cdef int64_t failed
    with nogil:
        failed = c.probable_arcs_all(items[0], factors, least, labels, arcs)
    return failed, (int64s(arcs.begin), int32s(arcs.start), int32s(arcs.frames), doubles(arcs.posterior),
                    int32s(arcs.word), int32s(arcs.label), int64s(arcs.label_begin))


def oracle(lattices, words not None, begin not None, int64_t whole_cells=c.kWholeCells,
           int64_t least_words=c.kLeastOracleWords, int64_t most_cells=c.kMostOracleCells, compared=None):
    """Find the path of each lattice nearest to its reference, ``words[begin[i] : begin[i + 1]]``.

    If the number of states times twice the number of words exceeds `whole_cells`, states are compared with at least
    `least_words` words on both sides of their position, and with more while the table has at most `most_cells`.
    References are compared with the words of the items `compared`, by default with the words of the lattices.

    Returns:
        Index of the first lattice without a path, or -1; (substitutions, insertions, deletions, touches_band), each
        int64 [lattices]; (arcs, offset of each path in them, words, offset of the words of each path).
    """
    cdef Items single
    cdef Items* items = items_in(lattices, single, Lattice)
    cdef Items* searched = items if compared is None else items_of(compared)
    cdef const int32_t* reference = <const int32_t*>data_of(words, np.NPY_INT32, -1)
    cdef const int64_t* first = <const int64_t*>data_of(begin, np.NPY_INT64, items.size() + 1)
    cdef c.Oracles paths
    cdef int64_t failed
    with nogil:
        failed = c.oracle_all(searched[0], items[0], reference, first, whole_cells, least_words, most_cells, paths)
    counts = int64s(paths.substitutions), int64s(paths.insertions), int64s(paths.deletions), int64s(paths.touches_band)
    return failed, counts, (int64s(paths.arc), int64s(paths.arc_begin), int32s(paths.word), int64s(paths.word_begin))


def forward_backward(object lattice, scales not None):
    cdef Arcs arcs = arcs_of(lattice)
    cdef Scales factors = scales_of(scales)
    cdef object alpha = new_array(arcs.num_states, np.NPY_FLOAT64)
    cdef object beta = new_array(arcs.num_states, np.NPY_FLOAT64)
    cdef double* forward = <double*>np.PyArray_DATA(<np.ndarray>alpha)
    cdef double* backward = <double*>np.PyArray_DATA(<np.ndarray>beta)
    cdef double total
    with nogil:
        total = c.forward_backward(arcs, factors, forward, backward)
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


def remove_epsilons(lattice, double acoustic_scale, int64_t max_arcs, int64_t max_labels):
    """Remove epsilons; also return whether a cost of the result exceeds single precision."""
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments labels = alignments_of(lattice)
    cdef c.EpsilonFree arrays
    with nogil:
        arrays = c.remove_epsilons(arcs, labels, acoustic_scale, max_arcs, max_labels)
    if arrays.too_large:
        limit = f"{max_arcs} arcs" if <int64_t>arrays.dst.size() > max_arcs else f"{max_labels} labels"
        raise too_large(lattice, f"more than {limit} remain without the epsilons")
    if arrays.state.empty():
        raise no_path(lattice)
    time = lattice.time
    if time is not None:
        time = freeze(time[int32s(arrays.state)])
    return lattice_of(lattice, arrays, _new(Lattice), _SLOTS, time), arrays.exceeds_range


def determinize(lattice, double acoustic_scale, int64_t max_arcs):
    """Determinize a connected lattice without epsilons."""
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments labels = alignments_of(lattice)
    cdef c.GrowingLattice arrays
    with nogil:
        arrays = c.determinize(arcs, labels, acoustic_scale, max_arcs)
    if arrays.too_large:
        raise too_large(lattice, f"determinization needs more than {max_arcs} arcs, or as much work")
    return lattice_of(lattice, arrays, _new(Lattice), _SLOTS, None)


def determinize_pruned(lattices, double beam, float acoustic_scale, bounds not None):
    """Determinize lattices within a beam and ``DeterminizeBounds``.

    Returns:
        For a lattice, (reason for which the last try stopped: 0 none, 1 memory, 2 arcs, 3 states, 4 loop, 5 costs out
        of range; its beam; the effective beam; number of retries; the new lattice, or None if no path was found). For
        a batch, a batch, or None if a lattice does not reach the beam in the first try.
    """
    cdef Items single, results
    cdef Items* items = items_in(lattices, single, Lattice)
    cdef c.DeterminizeBounds limits = c.DeterminizeBounds(bounds.delta, bounds.max_mem, bounds.max_arcs,
                                                          bounds.max_states, bounds.max_loop)
    cdef double retry_cutoff = 0.0
    cdef c.DeterminizedLattice last
    cdef cbool complete
    if items == &single:
        retry_cutoff = bounds.retry_cutoff
    with nogil:
        complete = c.determinize_pruned_all(items[0], beam, acoustic_scale, retry_cutoff, limits, results, last)
    if items != &single:
        return lattices.like(capsule_of(results)) if complete else None
    determinized = None if results.empty() else lattice_like(lattices, results[0], _new(Lattice), _SLOTS)
    return <int>last.stopped_by, last.beam, last.effective_beam, last.retries, determinized


def unite(list lattices not None, double acoustic_scale, double delta, int64_t max_arcs, int64_t max_labels):
    """Determinize the union of connected lattices without epsilons."""
    cdef vector[c.Operand] operands
    cdef c.Operand operand
    cdef int64_t first = 0
    cdef c.GrowingLattice arrays
    for lattice in lattices:
        operand.arcs = arcs_of(lattice)
        operand.labels = alignments_of(lattice)
        operand.first = first
        first += operand.arcs.num_states
        operands.push_back(operand)
    with nogil:
        arrays = c.unite(operands, acoustic_scale, delta, max_arcs, max_labels)
    if arrays.too_large:
        raise too_large(lattices[0], f"determinization of the union needs more than {max_arcs} arcs, or as much work",
                        "prune the lattices first, or keep all paths without determinization")
    return lattice_of(lattices[0], arrays, _new(Lattice), _SLOTS, None)


def push(lattices, cbool strings, cbool weights, double acoustic_scale):
    cdef Items single
    cdef Items* items = items_in(lattices, single, Lattice)
    cdef Results results
    with nogil:
        results = c.push_each(items[0], strings, weights, acoustic_scale)
    return result(lattices, results)


def minimize(lattices, cbool strings, cbool weights, double acoustic_scale, double delta):
    cdef Items single
    cdef Items* items = items_in(lattices, single, Lattice)
    cdef Results results
    with nogil:
        results = c.minimize_each(items[0], strings, weights, acoustic_scale, delta)
    return result(lattices, results)


cdef object split_arrays(object lattice, c.SplitLattice& split, object limit):
    """Return the old state of each state, arc_begin, dst, the old arc of each arc, and the states' automaton states."""
    if split.too_large:
        raise too_large(lattice, limit)
    return (
        int32s(split.state_map), int64s(split.arc_begin), int32s(split.dst), int64s(split.arc_map),
        int32s(split.automaton_state),
    )


def expand_ngram(lattice, int32_t num_words, int64_t max_arcs):
    """Split states by the last words before them; see ``split_arrays``."""
    cdef Arcs arcs = arcs_of(lattice)
    cdef c.SplitLattice split
    with nogil:
        split = c.expand_ngram(arcs, num_words, max_arcs)
    return split_arrays(lattice, split, f"the expansion to {num_words + 1}-grams has more than {max_arcs} arcs")


def follow_transcript(lattice, const int32_t[::1] words not None, int64_t max_arcs):
    """Split states by the number of words of a transcript before them; see ``split_arrays``.

    After other words, the automaton's state is one more than the number of words of the transcript.
    """
    cdef Arcs arcs = arcs_of(lattice)
    cdef c.SplitLattice split
    cdef int64_t length = words.shape[0]
    cdef const int32_t* first = &words[0] if length > 0 else NULL
    with nogil:
        split = c.follow_transcript(arcs, first, length, max_arcs)
    return split_arrays(lattice, split, f"the difference has more than {max_arcs} arcs")


def arcs_by_word(lattice):
    """Return the arcs, state by state in the order of their words, int64 [num_arcs]."""
    cdef Arcs arcs = arcs_of(lattice)
    cdef vector[int64_t] order
    with nogil:
        order = c.arcs_by_word(arcs)
    return int64s(order)


def compose(lattice, machine not None, int32_t phi, int64_t max_arcs):
    """Compose a lattice, by its words, with an ``Fst``, whose arcs are in the order of their input labels.

    Returns:
        A state of the FST on a cycle of epsilons; or (arc_begin, dst, word, arc of the lattice or -1, arc of the FST or
        -1, cost of the FST on each arc, state of the lattice, state of the FST, final cost of the FST).
    """
    cdef Arcs arcs = arcs_of(lattice)
    cdef FstArcs fst = fst_of(machine.arc_begin, machine.dst, machine.ilabel, machine.olabel, machine.cost,
                              machine.final_cost)
    cdef int64_t start = machine.start
    cdef c.Composition composed
    with nogil:
        composed = c.compose(arcs, fst, start, phi, max_arcs)
    if composed.too_large:
        raise too_large(lattice, f"the composition has more than {max_arcs} arcs")
    if composed.cycle >= 0:
        return composed.cycle
    return (
        int64s(composed.arc_begin), int32s(composed.dst), int32s(composed.word), int64s(composed.arc_map),
        int64s(composed.fst_arc), doubles(composed.cost), int32s(composed.state_map), int32s(composed.fst_state),
        doubles(composed.final_cost),
    )


def align_words(
    const int32_t[::1] reference not None, const int32_t[::1] hypothesis not None,
    int64_t insertion, int64_t deletion, int64_t substitution,
):
    """Return the aligned positions in the reference and in the hypothesis, int32 [pairs], -1 for no word."""
    cdef int64_t rows = reference.shape[0]
    cdef int64_t columns = hypothesis.shape[0]
    cdef const int32_t* first = &reference[0] if rows > 0 else NULL
    cdef const int32_t* second = &hypothesis[0] if columns > 0 else NULL
    cdef c.EditCosts costs = c.EditCosts(insertion, deletion, substitution)
    cdef c.WordAlignment alignment
    with nogil:
        alignment = c.align_words(first, rows, second, columns, costs)
    return int32s(alignment.reference), int32s(alignment.hypothesis)


def edit_counts(
    const int32_t[::1] reference not None, const int64_t[::1] reference_begin not None,
    const int32_t[::1] hypothesis not None, const int64_t[::1] hypothesis_begin not None,
):
    """Return insertions, deletions and substitutions of pairs of sequences, int32 [3 · pairs].

    Pair i is ``reference[reference_begin[i]:reference_begin[i + 1]]`` and likewise the hypothesis.
    """
    cdef int64_t pairs = reference_begin.shape[0] - 1
    cdef const int32_t* first = &reference[0] if reference.shape[0] > 0 else NULL
    cdef const int32_t* second = &hypothesis[0] if hypothesis.shape[0] > 0 else NULL
    cdef vector[int32_t] counts
    cdef c.EditCounts edits
    cdef int64_t i
    with nogil:
        for i in range(pairs):
            edits = c.edit_counts(
                first + reference_begin[i], reference_begin[i + 1] - reference_begin[i],
                second + hypothesis_begin[i], hypothesis_begin[i + 1] - hypothesis_begin[i],
            )
            counts.push_back(edits.insertions)
            counts.push_back(edits.deletions)
            counts.push_back(edits.substitutions)
    return int32s(counts)
