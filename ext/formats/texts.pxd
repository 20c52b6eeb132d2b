"""C++ declarations of text formats and tensors; declarations only."""

from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.vector cimport vector

from core.lattice cimport Arcs, Block, string_view

cdef extern from "formats/text_lattices.hpp" namespace "ninja" nogil:
    cdef struct Fault:
        int kind
        string message
        int64_t line
    const int kNone "ninja::Fault::kNone"
    const int kLattice "ninja::Fault::kLattice"
    cdef struct WordEntry "ninja::Vocabulary::Entry":
        string_view text
        int64_t line
        int32_t word
    cdef cppclass Vocabulary:
        const vector[WordEntry]& entries()
    cdef cppclass TextLattice:
        vector[int64_t] arc_begin
        vector[int32_t] dst
        vector[int32_t] word
        vector[float] graph
        vector[float] acoustic
        vector[float] final_graph
        vector[float] final_acoustic
        vector[int32_t] time

cdef extern from "formats/text_lattices_read.hpp" namespace "ninja" nogil:
    cdef cppclass SlfCost:
        string field
        int32_t item
        cbool acoustic
    cdef enum class SlfWords(int):
        kAuto
    cdef cppclass SlfOptions:
        double frame_shift
        SlfWords words
        vector[SlfCost] costs
        cbool fill
        double missing_score
    cdef cppclass SlfParser:
        SlfParser(const char*, const char*, const SlfOptions&) except +
        Vocabulary words
        string_view utterance
        vector[int64_t] num_costs
    cdef cppclass TextTokens:
        Vocabulary words
        int64_t line()
        const char* at()
    cdef cppclass SphinxParser(TextTokens):
        SphinxParser(const char*, const char*, double base, cbool bracketed) except +
    cdef cppclass PfsgParser(TextTokens):
        PfsgParser(const char*, const char*, int64_t line) except +
        string_view name
    cdef enum class PlfScores(int):
        kAuto
    cdef cppclass PlfParser(TextTokens):
        PlfParser(const char*, const char*, int64_t line, PlfScores kind, int32_t graph, int32_t acoustic) except +
    int kNull
    int kSilent
    void add_silent(Vocabulary& words, const vector[string]& names, int32_t word) except +
    Fault read_text[Parser](Parser& parser, int32_t fold, const char* node_name, TextLattice& lattice) except +

cdef extern from "formats/slf_write.hpp" namespace "ninja" nogil:
    cdef struct SlfStyle:
        const int32_t* time
        double frame_shift
        int decimals
        double log_base
        cbool linear
        cbool end
        int32_t end_time
    string slf_lines(const Arcs& arcs, const int32_t* place, const vector[string]& texts,
                     const SlfStyle& style) except +

cdef extern from "formats/fst_text.hpp" namespace "ninja" nogil:
    cdef enum class FstTextFault(int):
        kNone
    cdef cppclass FstTextLook:
        cbool three
        cbool five
        cbool fourth_integer
        cbool fourth_weight
        vector[string_view] fourth
    cdef cppclass FstText:
        FstTextFault fault
        int64_t line
        string_view field
        int64_t num_fields
        Vocabulary labels
        vector[int32_t] ids
        vector[int64_t] arc_begin
        vector[int32_t] dst
        vector[int32_t] label
        vector[double] cost
        vector[double] final_cost
    FstTextLook look_at_fst_text(const char* at, const char* end) except +
    void read_fst_text(const char* at, const char* end, int64_t line, cbool acceptor, FstText& made) except +

cdef extern from "formats/k2_image.hpp" namespace "ninja" nogil:
    cdef struct K2Fsa:
        int64_t num_arcs
        int64_t num_states
        const int32_t* arcs
        const int32_t* word
        const float* lm
        const float* am
        cbool as_graph
    cdef cppclass K2Fault:
        string error
        int64_t arc
        cbool malformed
    cdef cppclass K2Plan:
        K2Fault fault
        int64_t num_states
        int64_t num_arcs
    K2Plan plan_k2(const K2Fsa& fsa) except +
    K2Fault fill_k2(const K2Fsa& fsa, const K2Plan& plan, const Block& to) except +
