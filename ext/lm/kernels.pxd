"""C++ declarations of language models; declarations only."""

from libc.stdint cimport int8_t, int32_t, int64_t, uint16_t
from libcpp.string cimport string
from libcpp.vector cimport vector

from core.kernels cimport Machine
from core.lattice cimport Arcs, Composed, string_view
from lm.ngram cimport NgramModel

cdef extern from "lm/arpa.hpp" namespace "ninja" nogil:
    cdef cppclass WordList:
        int32_t size()
        string_view operator[](int32_t word)
    cdef cppclass ArpaReader:
        ArpaReader(int64_t most_ngrams) except +
        int64_t feed(const char* text, int64_t size) except +
        void close() except +
        NgramModel finish() except +
        const string& error()
        int64_t line()
        const WordList& words()

cdef extern from "lm/grammar.hpp" namespace "ninja" nogil:
    cdef cppclass NumberedNgrams:
        string error
        int64_t byte
        NgramModel model
        vector[int32_t] word_id
        int32_t bos
        int32_t eos
        int32_t unk
    NumberedNgrams read_const_arpa(const char* content, int64_t size) except +
    cdef struct GrammarLabels:
        int32_t backoff
        int32_t bos
        int32_t eos
    NumberedNgrams grammar_of(const Machine& machine, const GrammarLabels& label) except +

cdef extern from "lm/compose_ngram.hpp" namespace "ninja" nogil:
    Composed compose_ngram(
        const Arcs& arcs, const NgramModel& model, const int32_t* lm_word, const float* extra, int32_t eos,
        double scale, int64_t max_arcs) except +

ctypedef const float const_float
ctypedef const float* const_float_pointer
ctypedef float* float_pointer

cdef extern from "lm/cells.hpp" namespace "ninja" nogil:
    cdef struct Columns:
        const float* first
        int64_t stride
        int64_t width
    void logsumexp(const float*, int64_t, int64_t, float*)
    cdef cppclass Rows[T]:
        T* first
        const int64_t* row
        int64_t stride
    void lstm_cell(float*, const float*, int64_t, float*, int64_t, int64_t, int64_t, float*)
    void lstm_step(
        Rows[const_float], Rows[const_float], Rows[const_float], Rows[float], int64_t, int64_t, float*, float*)
    void peephole_cell(float*, const float*, int64_t, const float*, int64_t, int64_t, float*)
    void word_scores(
        Rows[const_float], const float*, const float*, const float*, const int32_t*, int64_t, int64_t, float*)
    void word_scores(
        Rows[const_float], const int8_t*, const float*, const float*, const int32_t*, int64_t, int64_t, float*)
    void silu(float*, int64_t)
    void scatter_rows(const vector[Columns]&, const int64_t*, int64_t, float*, int64_t)

cdef extern from "lm/multiply.hpp" namespace "ninja" nogil:
    int64_t packed_size(int64_t, int64_t)
    void pack_weights(const float*, int64_t, int64_t, float*)
    void multiply(
        const vector[const_float_pointer]&, const float*, const float*, int64_t, int64_t, int,
        const vector[float_pointer]&) except +
    int instruction_level()

cdef extern from "lm/training.hpp" namespace "ninja" nogil:
    void sampled_softmax(
        uint16_t*, const float*, const float*, const int64_t*, int64_t, int64_t, float, float, float*, float*,
        float*) except +
