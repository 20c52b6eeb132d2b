"""Bindings of the kernels of ``ninja.rescoring``."""

cimport numpy as np
from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

cimport search.kernels as c
from core.lattice cimport Arcs, Copies, Scales, arcs_of, copied, data_of, int32s, int64s, lattice_of_copies, new_array

from ninja.lattice import SLOTS, Lattice

np.import_array()

cdef tuple _SLOTS = SLOTS  # a C variable, which needs no look-up by name
cdef object _new = object.__new__

NO_PATH = <int>c.SearchStatus.kNoPath
NOT_FINITE = <int>c.SearchStatus.kNotFinite
TOO_LARGE = <int>c.SearchStatus.kTooLarge
OVERFLOW = <int>c.SearchStatus.kOverflow


cdef class Expander:
    """Searches of the lattices that are being processed in one half of a batch."""

    cdef unique_ptr[c.Expander] engine
    cdef dict entries  # ticket -> (lattice, lm_word, extra), whose arrays the engine borrows

    def __cinit__(self, int64_t root_slot, **options):
        cdef c.SearchOptions search_options = options
        self.engine.reset(new c.Expander(search_options, root_slot))
        self.entries = {}

    def add(self, lattice, lm_word, extra, context=()):
        """Add a lattice and return its ticket; lm_word int32 [num_arcs], extra float32 [num_arcs].

        The language model reads the words of `context` before it scores any of the lattice.
        """
        cdef Arcs arcs = arcs_of(lattice)
        cdef const int32_t* words = <const int32_t*>data_of(lm_word, np.NPY_INT32, arcs.num_arcs)
        cdef const float* costs = <const float*>data_of(extra, np.NPY_FLOAT32, arcs.num_arcs)
        cdef vector[int32_t] history = context
        cdef int32_t ticket
        with nogil:
            ticket = self.engine.get().add(arcs, words, costs, history)
        self.entries[ticket] = (lattice, lm_word, extra)
        return ticket

    def gather(self):
        """Return (released slots, slots to advance, their words, slots to score, their words)."""
        cdef c.Expander* engine = self.engine.get()
        with nogil:
            engine.gather()
        cdef vector[int64_t]* released = &engine.released()
        released_slots = copied(released.data(), released.size(), np.NPY_INT64)
        released.clear()
        return (
            released_slots,
            copied(engine.wave().advance_slot.data(), engine.wave().advance_slot.size(), np.NPY_INT64),
            copied(engine.wave().advance_word.data(), engine.wave().advance_word.size(), np.NPY_INT32),
            copied(engine.wave().score_slot.data(), engine.wave().score_slot.size(), np.NPY_INT64),
            copied(engine.wave().score_word.data(), engine.wave().score_word.size(), np.NPY_INT32),
        )

    def scatter(self, slots, logprob):
        """Pass the answers to the requests of the last ``gather`` to the searches."""
        cdef c.Expander* engine = self.engine.get()
        cdef const int64_t* new_slots = <const int64_t*>data_of(slots, np.NPY_INT64, engine.wave().advance_slot.size())
        cdef const float* answers = <const float*>data_of(logprob, np.NPY_FLOAT32, engine.wave().score_slot.size())
        with nogil:
            engine.scatter(new_slots, answers)

    def ended(self):
        """Return (ticket, status, expanded arcs) of each search that has ended."""
        cdef vector[int32_t] tickets = self.engine.get().ended()
        cdef const c.Search* search
        states = []
        for ticket in tickets:
            search = &self.engine.get().search(ticket)
            states.append((ticket, <int>search.status(), search.num_expanded()))
        return states

    def stop(self, int32_t ticket):
        """End a running search with its best hypothesis, completed by the first pass; return False if it has none."""
        cdef cbool has_answer
        with nogil:
            has_answer = self.engine.get().stop(ticket)
        return has_answer

    def remove(self, int32_t ticket):
        """Remove a search and its lattice."""
        self.engine.get().remove(ticket)
        del self.entries[ticket]

    def source(self, int32_t ticket):
        """Return the lattice of a search."""
        return self.entries[ticket][0]

    def all_slots(self):
        """Return all language model slots in use, to release them at the end of a run."""
        cdef vector[int64_t] slots = self.engine.get().slots()
        cdef vector[int64_t]* released = &self.engine.get().released()
        slots.insert(slots.end(), released.begin(), released.end())
        released.clear()
        return copied(slots.data(), slots.size(), np.NPY_INT64)

    def lattice(self, int32_t ticket, int64_t max_arcs):
        """Return the expanded lattice of an ended search; None if it has more than `max_arcs` arcs."""
        cdef Copies copies
        cdef cbool fits
        with nogil:
            fits = self.engine.get().expanded(ticket, max_arcs, copies)
        if not fits:
            return None
        return lattice_of_copies(self.entries[ticket][0], copies, _new(Lattice), _SLOTS)

    def replaced(self, int32_t ticket):
        """Return the new (graph, final_graph) costs of the searched lattice; +inf for arcs on no path of the result."""
        source = self.entries[ticket][0]
        cdef Arcs arcs = arcs_of(source)
        graph = new_array(arcs.num_arcs, np.NPY_FLOAT32)
        final_graph = new_array(arcs.num_states, np.NPY_FLOAT32)
        cdef float* to_graph = <float*>np.PyArray_DATA(<np.ndarray>graph)
        cdef float* to_final = <float*>np.PyArray_DATA(<np.ndarray>final_graph)
        with nogil:
            self.engine.get().replaced(ticket, to_graph, to_final)
        return graph, final_graph


cdef object arrays_of(const c.Unfolded& out):
    return (
        int32s(out.state_map),
        int64s(out.arc_begin),
        int32s(out.dst),
        int64s(out.arc_map),
        int32s(out.arc_node),
        int32s(out.final_node),
        int32s(out.trie.parent()),
        int32s(out.trie.word()),
    )


def cover(lattice not None, lm_word not None, int32_t eos, *, double acoustic_scale, double word_penalty,
          double min_posterior, int64_t max_arcs):
    """Expand a lattice by posteriors and cover it with paths.

    Returns:
        The arrays of ``Unfolded``; None if the lattice has no path.
    """
    cdef Arcs arcs = arcs_of(lattice)
    cdef const int32_t* words = <const int32_t*>data_of(lm_word, np.NPY_INT32, arcs.num_arcs)
    cdef Scales scales = Scales(acoustic_scale, 1.0, word_penalty)
    cdef c.Unfolded out
    cdef cbool has_path
    with nogil:
        has_path = c.expand_by_posterior(arcs, scales, min_posterior, max_arcs, words, out)
        if has_path:
            c.cover(arcs, scales, words, eos, out)
    return arrays_of(out) if has_path else None


def prefixes(lattice not None, lm_word not None, int32_t eos, *, double acoustic_scale, double word_penalty,
             double beam, int64_t max_nodes, int32_t merge_order, int64_t max_arcs):
    """Unfold a lattice along its best word prefixes; return the arrays of ``Unfolded``, or None if it has no path."""
    cdef Arcs arcs = arcs_of(lattice)
    cdef const int32_t* words = <const int32_t*>data_of(lm_word, np.NPY_INT32, arcs.num_arcs)
    cdef Scales scales = Scales(acoustic_scale, 1.0, word_penalty)
    cdef c.Unfolded out
    cdef cbool has_path
    cdef c.Prefixes* trie
    with nogil:
        trie = new c.Prefixes(arcs, scales, words, eos, beam, max_nodes, merge_order, max_arcs)
        try:
            has_path = not trie.empty()
            if has_path:
                trie.unfold(max_arcs, out)
        finally:
            del trie
    return arrays_of(out) if has_path else None


def sentence_costs(lattice not None, word not None, begin not None, double acoustic_scale, double word_penalty):
    """Return the graph and acoustic cost of the best path of each word sequence, float64 [sequences], or +inf.

    Sequence s is ``word[begin[s] : begin[s + 1]]``; word is int32 [words], begin int64 [sequences + 1].
    """
    cdef Arcs arcs = arcs_of(lattice)
    cdef int64_t count = np.PyArray_SIZE(<np.ndarray>begin) - 1
    cdef const int64_t* begins = <const int64_t*>data_of(begin, np.NPY_INT64, -1)
    cdef const int32_t* words = <const int32_t*>data_of(word, np.NPY_INT32, begins[count])
    cdef Scales scales = Scales(acoustic_scale, 1.0, word_penalty)
    graph = new_array(count, np.NPY_FLOAT64)
    acoustic = new_array(count, np.NPY_FLOAT64)
    cdef double* to_graph = <double*>np.PyArray_DATA(<np.ndarray>graph)
    cdef double* to_acoustic = <double*>np.PyArray_DATA(<np.ndarray>acoustic)
    with nogil:
        c.sentence_costs(arcs, scales, words, begins, count, to_graph, to_acoustic)
    return graph, acoustic


def replaced(lattice not None, state_map not None, arc_begin not None, dst not None, arc_map not None,
             graph not None, final_graph not None, double acoustic_scale, double word_penalty):
    """Return the (graph, final_graph) costs of a lattice, taken from its unfolded copy, or +inf if not in the copy."""
    cdef Arcs arcs = arcs_of(lattice)
    cdef np.npy_intp num_states = np.PyArray_SIZE(<np.ndarray>state_map)
    cdef np.npy_intp num_arcs = np.PyArray_SIZE(<np.ndarray>dst)
    cdef Copies out
    cdef const int32_t* states = <const int32_t*>data_of(state_map, np.NPY_INT32, num_states)
    cdef const int64_t* begins = <const int64_t*>data_of(arc_begin, np.NPY_INT64, num_states + 1)
    cdef const int32_t* targets = <const int32_t*>data_of(dst, np.NPY_INT32, num_arcs)
    cdef const int64_t* arc = <const int64_t*>data_of(arc_map, np.NPY_INT64, num_arcs)
    cdef const float* cost = <const float*>data_of(graph, np.NPY_FLOAT32, num_arcs)
    cdef const float* end = <const float*>data_of(final_graph, np.NPY_FLOAT32, num_states)
    out.state_map.assign(states, states + num_states)
    out.arc_begin.assign(begins, begins + num_states + 1)
    out.dst.assign(targets, targets + num_arcs)
    out.arc_map.assign(arc, arc + num_arcs)
    out.graph.assign(cost, cost + num_arcs)
    out.final_graph.assign(end, end + num_states)
    new_graph = new_array(arcs.num_arcs, np.NPY_FLOAT32)
    new_final = new_array(arcs.num_states, np.NPY_FLOAT32)
    cdef float* to_graph = <float*>np.PyArray_DATA(<np.ndarray>new_graph)
    cdef float* to_final = <float*>np.PyArray_DATA(<np.ndarray>new_final)
    with nogil:
        c.replaced_costs(out, arcs, acoustic_scale, word_penalty, to_graph, to_final)
    return new_graph, new_final
