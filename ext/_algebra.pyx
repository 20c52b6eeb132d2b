# cython: language_level=3
# distutils: language=c++
"""Kernels of the algebra of lattices: conversions only. Arguments are validated in ``ninja.graph``."""

cimport numpy as np
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.vector cimport vector

from arrays cimport alignments_of, arcs_of, doubles, floats, int32s, int64s
from blocks cimport Block, lattice_in, new_block
from clattice cimport Alignments, Arcs

from ninja.errors import LatticeError
from ninja.lattice import SLOTS, Lattice

np.import_array()

cdef int64_t GROWTH = 64  # labels that pushing may make of one, beyond ROOM
cdef int64_t ROOM = 1 << 20

cdef tuple _SLOTS = SLOTS  # a C variable: no look-up by name
cdef object new = object.__new__


cdef extern from "union.hpp" namespace "ninja" nogil:
    cdef cppclass Operand:
        Operand() except +
        Arcs arcs
        Alignments labels
        int64_t first
    cdef cppclass United:
        cbool too_large
        vector[int64_t] arc_begin
        vector[int64_t] ali_begin
        vector[int64_t] final_ali_begin
        vector[int32_t] dst
        vector[int32_t] word
        vector[int32_t] ali
        vector[int32_t] final_ali
        vector[float] graph
        vector[float] acoustic
        vector[float] final_graph
        vector[float] final_acoustic
    United c_unite "ninja::unite"(const vector[Operand]& operands, double acoustic_scale, double delta,
                                  int64_t max_arcs, int64_t max_labels) except +

cdef extern from "push.hpp" namespace "ninja" nogil:
    cdef cppclass Pushing:
        int64_t num_labels
        int64_t num_final_labels
    Pushing plan_push(const Arcs& arcs, const Alignments& labels, cbool strings, cbool weights,
                      double acoustic_scale) except +
    void write_pushed(const Arcs& arcs, const Alignments& labels, const Pushing& plan, const Block& to) noexcept

cdef extern from "minimize.hpp" namespace "ninja" nogil:
    cdef cppclass Merged:
        int64_t num_states
        int64_t num_arcs
        int64_t num_labels
        int64_t num_final_labels
    cdef cppclass Minimized:
        Merged merged
    Minimized c_minimize "ninja::minimize"(const Arcs& arcs, const Alignments& labels, Pushing& plan,
                                           double delta) except +
    void write_minimized(const Arcs& arcs, const Minimized& found, const Block& to) noexcept

cdef extern from "expand_ngram.hpp" namespace "ninja" nogil:
    cdef cppclass SplitLattice:
        cbool too_large
        vector[int64_t] arc_begin
        vector[int32_t] dst
        vector[int64_t] arc_map
        vector[int32_t] state_map
        vector[int32_t] followed
    SplitLattice c_expand_ngram "ninja::expand_ngram"(const Arcs& arcs, int32_t num_words, int64_t max_arcs) except +
    SplitLattice c_follow_transcript "ninja::follow_transcript"(const Arcs& arcs, const int32_t* words, int64_t length,
                                                                int64_t max_arcs) except +

cdef extern from "compose_lattices.hpp" namespace "ninja" nogil:
    cdef cppclass ComposedPair:
        cbool too_large
        vector[int64_t] arc_begin
        vector[int32_t] dst
        vector[int64_t] first
        vector[int64_t] second
        vector[int32_t] of_first
        vector[int32_t] of_second
    ComposedPair c_compose_pair "ninja::compose_pair"(const Arcs& a, const Arcs& b, int64_t max_arcs) except +

cdef extern from "compose_fst.hpp" namespace "ninja" nogil:
    cdef struct FstArcs:
        int64_t num_states
        int64_t num_arcs
        const int64_t* arc_begin
        const int32_t* dst
        const int32_t* ilabel
        const int32_t* olabel
        const double* cost
        const double* final_cost
    cdef cppclass ParsedFst:
        vector[int64_t] arc_begin
        vector[int32_t] dst
        vector[int32_t] ilabel
        vector[int32_t] olabel
        vector[double] cost
        vector[double] final_cost
    cdef cppclass Machine:
        string error
        int64_t byte
        int64_t start
        ParsedFst fst
    cdef cppclass ComposedFst:
        cbool too_large
        int64_t cycle
        vector[int64_t] arc_begin
        vector[int32_t] dst
        vector[int32_t] word
        vector[int64_t] arc_map
        vector[double] cost
        vector[int32_t] state_map
        vector[double] final_cost
    Machine c_parse_machine "ninja::parse_machine"(const char* content, int64_t size) except +
    ComposedFst c_compose_fst "ninja::compose_fst"(const Arcs& arcs, const FstArcs& fst, int64_t start, int32_t phi,
                                                   int64_t max_arcs) except +


def unite(list lattices not None, double acoustic_scale, double delta, int64_t max_arcs, int64_t max_labels):
    """Determinize the union of connected lattices without epsilons.

    Returns:
        None when a bound is passed, else a tuple of the lattice's arrays in the order of its fields.
    """
    cdef vector[Operand] operands
    cdef Operand operand
    cdef int64_t first = 0
    cdef United found
    for lattice in lattices:
        operand.arcs = arcs_of(lattice)
        operand.labels = alignments_of(lattice)
        operand.first = first
        first += operand.arcs.num_states
        operands.push_back(operand)
    with nogil:
        found = c_unite(operands, acoustic_scale, delta, max_arcs, max_labels)
    if found.too_large:
        return None
    return (
        int64s(found.arc_begin), int32s(found.dst), int32s(found.word), floats(found.graph), floats(found.acoustic),
        int64s(found.ali_begin), int32s(found.ali), floats(found.final_graph), floats(found.final_acoustic),
        int64s(found.final_ali_begin), int32s(found.final_ali),
    )


cdef Pushing planned(object lattice, const Arcs& arcs, const Alignments& labels, cbool strings, cbool weights,
                     double acoustic_scale) except *:
    cdef Pushing plan
    cdef int64_t before = labels.ali_begin[arcs.num_arcs] + labels.final_ali_begin[arcs.num_states]
    with nogil:
        plan = plan_push(arcs, labels, strings, weights, acoustic_scale)
    if plan.num_labels > GROWTH * before + ROOM:
        raise LatticeError(f"pushing would make {plan.num_labels} labels of {before}; push costs only", key=lattice.key)
    return plan


def push(lattice not None, cbool strings, cbool weights, double acoustic_scale):
    """Push alignments, costs, or both, of a connected lattice."""
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments labels = alignments_of(lattice)
    cdef Pushing plan = planned(lattice, arcs, labels, strings, weights, acoustic_scale)
    cdef Block to = new_block(arcs.num_states, arcs.num_arcs, plan.num_labels, plan.num_final_labels)
    with nogil:
        write_pushed(arcs, labels, plan, to)
    return lattice_in(
        &to, new(Lattice), _SLOTS, lattice.key, "compact" if strings else lattice.kind,
        None if strings else lattice.time, lattice.frame_shift, lattice.words,
    )


def minimize(lattice not None, cbool strings, cbool weights, double acoustic_scale, double delta):
    """Merge equal states of a connected lattice; its alignments are pushed, or compared as they are."""
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments labels = alignments_of(lattice)
    cdef Pushing plan = planned(lattice, arcs, labels, strings, weights, acoustic_scale)
    cdef Minimized found
    with nogil:
        found = c_minimize(arcs, labels, plan, delta)
    cdef Block to = new_block(
        found.merged.num_states, found.merged.num_arcs, found.merged.num_labels, found.merged.num_final_labels
    )
    with nogil:
        write_minimized(arcs, found, to)
    return lattice_in(
        &to, new(Lattice), _SLOTS, lattice.key, "compact" if strings else lattice.kind, None, lattice.frame_shift,
        lattice.words,
    )


cdef object split_arrays(SplitLattice& found):
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
    cdef SplitLattice found
    with nogil:
        found = c_expand_ngram(arcs, num_words, max_arcs)
    return split_arrays(found)


def follow_transcript(lattice not None, const int32_t[::1] words not None, int64_t max_arcs):
    """Split states by how much of a transcript has been said.

    Returns:
        As ``expand_ngram``; the last are words said, or one more than there are where something else was said, too.
    """
    cdef Arcs arcs = arcs_of(lattice)
    cdef SplitLattice found
    cdef int64_t length = words.shape[0]
    cdef const int32_t* first = &words[0] if length > 0 else NULL
    with nogil:
        found = c_follow_transcript(arcs, first, length, max_arcs)
    return split_arrays(found)


def compose_pair(first not None, second not None, int64_t max_arcs):
    """Compose two lattices over their words.

    Returns:
        None when more than max_arcs arcs arise, else (arc_begin, dst, arc of the first lattice or -1, arc of the second
        or -1, state of the first, state of the second).
    """
    cdef Arcs a = arcs_of(first)
    cdef Arcs b = arcs_of(second)
    cdef ComposedPair found
    with nogil:
        found = c_compose_pair(a, b, max_arcs)
    if found.too_large:
        return None
    return (
        int64s(found.arc_begin), int32s(found.dst), int64s(found.first), int64s(found.second),
        int32s(found.of_first), int32s(found.of_second),
    )


def parse_machine(bytes image not None):
    """Parse the binary image of a vector FST in whatever order its states are.

    Returns:
        (error, byte, fields): what is wrong, or ""; its offset, or -1; and (start, arc_begin, dst, ilabel, olabel,
        cost, final_cost), the arcs of each state in the order of their input labels.
    """
    cdef const char* content = PyBytes_AS_STRING(image)
    cdef int64_t size = len(image)
    cdef Machine machine
    with nogil:
        machine = c_parse_machine(content, size)
    if not machine.error.empty():
        return machine.error.decode("utf-8", "replace"), machine.byte, None
    return "", -1, (
        machine.start, int64s(machine.fst.arc_begin), int32s(machine.fst.dst), int32s(machine.fst.ilabel),
        int32s(machine.fst.olabel), doubles(machine.fst.cost), doubles(machine.fst.final_cost),
    )


def compose_fst(lattice not None, int64_t start, const int64_t[::1] arc_begin not None, const int32_t[::1] dst not None,
                const int32_t[::1] ilabel not None, const int32_t[::1] olabel not None,
                const double[::1] cost not None, const double[::1] final_cost not None, int32_t phi,
                int64_t max_arcs):
    """Compose a lattice, by its words, with what ``parse_machine`` gave.

    Returns:
        None when more than max_arcs arcs arise; a state of the FST on a cycle of epsilons; else (arc_begin, dst, word,
        arc of the lattice or -1, cost of the FST on each arc, state of the lattice, final cost of the FST there).
    """
    cdef Arcs arcs = arcs_of(lattice)
    cdef ComposedFst found
    cdef FstArcs fst
    fst.num_states = final_cost.shape[0]
    fst.num_arcs = dst.shape[0]
    fst.arc_begin = &arc_begin[0]
    fst.final_cost = &final_cost[0]
    if fst.num_arcs > 0:
        fst.dst = &dst[0]
        fst.ilabel = &ilabel[0]
        fst.olabel = &olabel[0]
        fst.cost = &cost[0]
    with nogil:
        found = c_compose_fst(arcs, fst, start, phi, max_arcs)
    if found.too_large:
        return None
    if found.cycle >= 0:
        return found.cycle
    return (
        int64s(found.arc_begin), int32s(found.dst), int32s(found.word), int64s(found.arc_map), doubles(found.cost),
        int32s(found.state_map), doubles(found.final_cost),
    )
