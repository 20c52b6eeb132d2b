"""C++ declarations of contextual grammars and spans that sound similar."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from core.lattice cimport Arcs, Composed
from lm.ngram cimport NgramModel

cdef extern from "context/context.hpp" namespace "ninja" nogil:
    cdef cppclass Phrases:
        vector[int64_t] arc_begin
        vector[int32_t] word
        vector[int32_t] dst
        vector[float] bonus
        vector[float] final_bonus
    cdef cppclass BoundModel:
        const NgramModel* model
        const int32_t* word
        const float* cost
        int32_t eos
    cdef struct ContextOptions:
        double scale
        double class_share
        double class_boost
        double keyword_boost
        int32_t max_tokens
    cdef cppclass PhraseList "ninja::UtteranceLists::List":
        const Phrases* phrases
        int32_t class_word
    cdef cppclass UtteranceLists:
        vector[PhraseList] lists
        vector[const Phrases*] unwanted
    cdef cppclass PhraseSpan "ninja::ContextTracker::PhraseSpan":
        int32_t begin
        int32_t end
        int32_t list
    cdef cppclass ContextTracker:
        ContextTracker(const BoundModel&, const BoundModel&, const uint8_t*, const ContextOptions&)
        void clear()
        int32_t start(UtteranceLists) except +
        int32_t advance(int32_t, int32_t, float*) except +
        float final_score(int32_t) except +
        cbool has(int64_t)
        vector[PhraseSpan] explain(int32_t, const int32_t*, int64_t) except +

cdef extern from "context/compose_context.hpp" namespace "ninja" nogil:
    Composed compose_context(const Arcs&, ContextTracker*, int32_t, double, int64_t) except +

cdef extern from "context/augment.hpp" namespace "ninja" nogil:
    cdef struct PhoneStrings:
        int64_t count
        const int64_t* begin
        const int32_t* phone

    cdef struct Sounds:
        const int32_t* unit
        const int64_t* first
        PhoneStrings strings

    cdef struct PhoneCosts:
        int32_t count
        const float* substitution
        const float* insertion
        const float* deletion

    cdef struct SpanLimits:
        double acoustic_scale
        float weight
        float beam
        float max_distance
        int32_t max_spans

    cdef struct Spans:
        vector[int32_t] string
        vector[int32_t] start
        vector[int32_t] end
        vector[float] excess
        vector[float] distance
        vector[int64_t] arc_begin
        vector[int64_t] arc

    cdef struct BestArcs:
        vector[int64_t] c_in "in"
        vector[int64_t] out
    BestArcs best_arcs(const Arcs& arcs, double acoustic_scale) except +
    Spans find_spans(
        const Arcs& arcs, const Sounds& sounds, const PhoneStrings& strings, const PhoneCosts& costs,
        const SpanLimits& limits) except +

cdef extern from "context/shared_phones.hpp" namespace "ninja" nogil:
    cdef struct AlignedSpan:
        int32_t string
        int32_t begin
        int32_t end
    float shared_weight(
        const AlignedSpan& span, const Sounds& sounds, const PhoneStrings& strings, const PhoneCosts& costs,
        const float* weight) except +
