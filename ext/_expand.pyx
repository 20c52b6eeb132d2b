# cython: language_level=3
# distutils: language = c++
"""The expansion engine's thin Python face: lattices in, questions for the language model out, lattices out."""

cimport numpy as np
from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

from arrays cimport alignments_of, arcs_of, copied, data_of, floats, freeze, int32s, int64s, new_array
from cexpand cimport (
    CExpander,
    Expansion,
    Search,
    SearchOptions,
    SearchStatus,
    expansion,
    fill_expansion,
    replaced_costs,
)
from clattice cimport Alignments, Arcs

from ninja.lattice import Lattice

np.import_array()

NO_PATH = <int>SearchStatus.kNoPath
NOT_FINITE = <int>SearchStatus.kNotFinite
TOO_LARGE = <int>SearchStatus.kTooLarge


cdef class Expander:
    """All lattices in flight of one half-batch."""

    cdef unique_ptr[CExpander] engine
    cdef dict taken  # ticket -> (lattice, lm_word, extra): the engine borrows their arrays
    cdef double acoustic_scale, word_penalty

    def __cinit__(
        self,
        int64_t root_slot,
        *,
        double graph_share,
        double lm_scale,
        double acoustic_scale,
        double word_penalty,
        double beam,
        double first_pass_beam,
        double growth_ratio,
        int32_t max_hyps,
        int32_t max_active,
        int64_t max_arcs,
        int32_t merge_order,
        int32_t eos,
        bool pruned,
        bool per_arc,
        bool look_ahead,
        bool calibrate,
    ):
        cdef SearchOptions options
        options.graph_share = graph_share
        options.lm_scale = lm_scale
        options.acoustic_scale = acoustic_scale
        options.word_penalty = word_penalty
        options.beam = beam
        options.first_pass_beam = first_pass_beam
        options.growth_ratio = growth_ratio
        options.max_hyps = max_hyps
        options.max_active = max_active
        options.max_arcs = max_arcs
        options.merge_order = merge_order
        options.eos = eos
        options.pruned = pruned
        options.per_arc = per_arc
        options.look_ahead = look_ahead
        options.calibrate = calibrate
        self.engine.reset(new CExpander(options, root_slot))
        self.taken = {}
        self.acoustic_scale = acoustic_scale
        self.word_penalty = word_penalty

    def add(self, lattice, lm_word, extra, context=()):
        """Take a lattice in and return its ticket; lm_word int32 [num_arcs], extra float32 [num_arcs].

        The language model reads the words of `context` before it scores any of the lattice.
        """
        cdef Arcs arcs = arcs_of(lattice)
        cdef const int32_t* words = <const int32_t*>data_of(lm_word, np.NPY_INT32, arcs.num_arcs)
        cdef const float* costs = <const float*>data_of(extra, np.NPY_FLOAT32, arcs.num_arcs)
        cdef vector[int32_t] before = context
        cdef int32_t ticket
        with nogil:
            ticket = self.engine.get().add(arcs, words, costs, before)
        self.taken[ticket] = (lattice, lm_word, extra)
        return ticket

    def gather(self):
        """Return (released slots, slots to advance, their words, slots to score, their words)."""
        cdef CExpander* engine = self.engine.get()
        with nogil:
            engine.gather()
        cdef vector[int64_t]* released = &engine.released()
        gone = copied(released.data(), released.size(), np.NPY_INT64)
        released.clear()
        return (
            gone,
            copied(engine.wave().advance_slot.data(), engine.wave().advance_slot.size(), np.NPY_INT64),
            copied(engine.wave().advance_word.data(), engine.wave().advance_word.size(), np.NPY_INT32),
            copied(engine.wave().score_slot.data(), engine.wave().score_slot.size(), np.NPY_INT64),
            copied(engine.wave().score_word.data(), engine.wave().score_word.size(), np.NPY_INT32),
        )

    def scatter(self, slots, logprob):
        """Hand in the answers to the questions of the last ``gather``."""
        cdef CExpander* engine = self.engine.get()
        cdef const int64_t* made = <const int64_t*>data_of(slots, np.NPY_INT64, engine.wave().advance_slot.size())
        cdef const float* answers = <const float*>data_of(logprob, np.NPY_FLOAT32, engine.wave().score_slot.size())
        with nogil:
            engine.scatter(made, answers)

    def ended(self):
        """Return (ticket, status, expanded arcs) of each search that has ended."""
        cdef vector[int32_t] tickets = self.engine.get().ended()
        cdef const Search* search
        found = []
        for ticket in tickets:
            search = &self.engine.get().search(ticket)
            found.append((ticket, <int>search.status(), search.num_expanded()))
        return found

    def remove(self, int32_t ticket):
        """Forget a search and its lattice."""
        self.engine.get().remove(ticket)
        del self.taken[ticket]

    def source(self, int32_t ticket):
        """Return the lattice a search was started on."""
        return self.taken[ticket][0]

    def all_slots(self):
        """Return every slot of the language model still in use, for the end of a run."""
        cdef vector[int64_t] slots = self.engine.get().slots()
        cdef vector[int64_t]* released = &self.engine.get().released()
        slots.insert(slots.end(), released.begin(), released.end())
        released.clear()
        return copied(slots.data(), slots.size(), np.NPY_INT64)

    def lattice(self, int32_t ticket):
        """Return the expanded lattice of an ended search."""
        source = self.taken[ticket][0]
        cdef Arcs arcs = arcs_of(source)
        cdef Alignments alignments = alignments_of(source)
        cdef Expansion out
        with nogil:
            out = expansion(self.engine.get().search(ticket), alignments)
        cdef np.npy_intp num_arcs = out.dst.size()
        cdef np.npy_intp num_states = out.state_map.size()
        word = new_array(num_arcs, np.NPY_INT32)
        acoustic = new_array(num_arcs, np.NPY_FLOAT32)
        ali_begin = new_array(num_arcs + 1, np.NPY_INT64)
        ali = new_array(out.num_ali, np.NPY_INT32)
        final_acoustic = new_array(num_states, np.NPY_FLOAT32)
        final_ali_begin = new_array(num_states + 1, np.NPY_INT64)
        final_ali = new_array(out.num_final_ali, np.NPY_INT32)
        cdef int32_t* to_word = <int32_t*>np.PyArray_DATA(<np.ndarray>word)
        cdef float* to_acoustic = <float*>np.PyArray_DATA(<np.ndarray>acoustic)
        cdef int64_t* to_ali_begin = <int64_t*>np.PyArray_DATA(<np.ndarray>ali_begin)
        cdef int32_t* to_ali = <int32_t*>np.PyArray_DATA(<np.ndarray>ali)
        cdef float* to_final = <float*>np.PyArray_DATA(<np.ndarray>final_acoustic)
        cdef int64_t* to_final_begin = <int64_t*>np.PyArray_DATA(<np.ndarray>final_ali_begin)
        cdef int32_t* to_final_ali = <int32_t*>np.PyArray_DATA(<np.ndarray>final_ali)
        with nogil:
            fill_expansion(
                out, arcs, alignments, to_word, to_acoustic, to_ali_begin, to_ali, to_final, to_final_begin,
                to_final_ali,
            )
        time = source.time
        if time is not None:
            time = freeze(time[int32s(out.state_map)])
        return Lattice(
            source.key,
            int64s(out.arc_begin),
            int32s(out.dst),
            freeze(word),
            floats(out.graph),
            freeze(acoustic),
            freeze(ali_begin),
            freeze(ali),
            floats(out.final_graph),
            freeze(final_acoustic),
            freeze(final_ali_begin),
            freeze(final_ali),
            source.kind,
            time,
            source.frame_shift,
            source.words,
        )

    def replaced(self, int32_t ticket):
        """Return (graph, final_graph) of the searched lattice with new costs, +inf where the search never went."""
        source = self.taken[ticket][0]
        cdef Arcs arcs = arcs_of(source)
        cdef Alignments alignments = alignments_of(source)
        graph = new_array(arcs.num_arcs, np.NPY_FLOAT32)
        final_graph = new_array(arcs.num_states, np.NPY_FLOAT32)
        cdef float* to_graph = <float*>np.PyArray_DATA(<np.ndarray>graph)
        cdef float* to_final = <float*>np.PyArray_DATA(<np.ndarray>final_graph)
        with nogil:
            replaced_costs(
                expansion(self.engine.get().search(ticket), alignments), arcs, self.acoustic_scale,
                self.word_penalty, to_graph, to_final,
            )
        return graph, final_graph
