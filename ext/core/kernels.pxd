"""C++ declarations of tries, FSTs and times; declarations only."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.vector cimport vector

from core.batch cimport Item, Items
from core.lattice cimport Alignments, Arcs, FstArcs, string_view

cdef extern from "core/arithmetic.hpp" namespace "ninja" nogil:
    const char* unsafe_option() noexcept

cdef extern from "core/trie.hpp" namespace "ninja" nogil:
    cdef cppclass Trie:
        Trie() except +
        const vector[int32_t]& parent()
        const vector[int32_t]& word()

    void add_sequences(Trie&, const int32_t*, const int64_t*, int64_t, int32_t*) except +
    void add_nodes(Trie&, const int32_t*, const int32_t*, int64_t, int32_t, int32_t*) except +

cdef extern from "core/fst_image.hpp" namespace "ninja" nogil:
    cdef cppclass ParsedFst:
        string error
        int64_t byte
        int64_t end
        vector[int64_t] arc_begin
        vector[int32_t] dst
        vector[int32_t] ilabel
        vector[int32_t] olabel
        vector[double] cost
        vector[double] final_cost
        vector[string] input_symbol
        vector[string] output_symbol
        vector[int64_t] input_symbol_id
        vector[int64_t] output_symbol_id
    int64_t image_size(const FstArcs& fst, const string& arc_type, int64_t symbols) except +
    void write_image(const FstArcs& fst, const string& arc_type, string_view symbols, char* to) except +
    ParsedFst parse_image(const char* content, int64_t size) except +

cdef extern from "core/fst_machine.hpp" namespace "ninja" nogil:
    cdef cppclass Machine:
        ParsedFst fst
        int64_t start
    Machine parse_any(const char* content, int64_t size) except +
    Machine parse_machine(const char* content, int64_t size) except +

cdef extern from "core/copy_labels.hpp" namespace "ninja" nogil:
    void copy_runs(const int32_t* pool, const int64_t* begin, const int64_t* length, int64_t num_runs,
                   int32_t* to) noexcept

cdef extern from "core/times.hpp" namespace "ninja" nogil:
    int64_t state_times(const Arcs& arcs, const Alignments& alignments, int32_t* time) noexcept
    int64_t first_backward_arc(const Arcs& arcs, const int32_t* time) noexcept
    void depth_per_frame(const Arcs& arcs, const Alignments& alignments, const int32_t* time, int64_t frames,
                         int32_t* depth) noexcept
    int64_t num_crossings(const Arcs& arcs, const Alignments& alignments, const int32_t* time,
                          int64_t frames) noexcept

cdef extern from "core/batch.hpp" namespace "ninja" nogil:
    int64_t num_frames(const Item& item) except +

cdef extern from "core/form_words.hpp" namespace "ninja" nogil:
    cdef struct Forms:
        const int32_t* code
        int64_t size
        const int64_t* begin
        const int32_t* part
        int64_t num_several
    cdef struct FormWords:
        vector[int32_t] unknown
        vector[int64_t] changed
        Items items
    cdef struct ArcForms:
        vector[int32_t] form
        vector[int32_t] word
        vector[int32_t] piece
    FormWords form_words(const Items& items, const Forms& forms, cbool all, cbool labels) except +
    ArcForms arc_forms(const Items& written, const Items& items, const int64_t* changed, int64_t num_changed) except +

cdef extern from "core/plain_words.hpp" namespace "ninja" nogil:
    cbool is_plain_word[Char](const Char* word, int64_t size) noexcept
    cbool has_small_letters(const uint8_t* word, int64_t size) noexcept
