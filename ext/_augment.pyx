# cython: language_level=3
"""Spans of a lattice that sound like given phones."""

cimport numpy as np
from libc.stdint cimport int32_t, int64_t
from libcpp.vector cimport vector

from arrays cimport arcs_of, floats, int32s, int64s
from clattice cimport Arcs

np.import_array()


cdef extern from "augment.hpp" namespace "ninja" nogil:
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
    BestArcs c_best_arcs "ninja::best_arcs"(const Arcs& arcs, double acoustic_scale) except +
    Spans c_find_spans "ninja::find_spans"(
        const Arcs& arcs, const Sounds& sounds, const PhoneStrings& strings, const PhoneCosts& costs,
        const SpanLimits& limits) except +


def find_spans(
    lattice not None,
    const int32_t[::1] unit not None,
    const int64_t[::1] first not None,
    const int64_t[::1] sound_begin not None,
    const int32_t[::1] sound_phone not None,
    const int64_t[::1] string_begin not None,
    const int32_t[::1] string_phone not None,
    const float[:, ::1] substitution not None,
    const float[::1] insertion not None,
    const float[::1] deletion not None,
    double acoustic_scale,
    float weight,
    float beam,
    float max_distance,
    int32_t max_spans,
):
    """Return (string, start, end: int32, excess, distance: float32, arc_begin, arc: int64) of the spans found."""
    cdef Arcs arcs = arcs_of(lattice)
    cdef Sounds sounds
    cdef PhoneStrings strings
    cdef PhoneCosts costs
    cdef SpanLimits limits
    cdef Spans spans
    sounds.unit = &unit[0] if unit.shape[0] > 0 else NULL
    sounds.first = &first[0]
    sounds.strings.count = sound_begin.shape[0] - 1
    sounds.strings.begin = &sound_begin[0]
    sounds.strings.phone = &sound_phone[0] if sound_phone.shape[0] > 0 else NULL
    strings.count = string_begin.shape[0] - 1
    strings.begin = &string_begin[0]
    strings.phone = &string_phone[0] if string_phone.shape[0] > 0 else NULL
    costs.count = <int32_t>insertion.shape[0]
    costs.substitution = &substitution[0, 0]
    costs.insertion = &insertion[0]
    costs.deletion = &deletion[0]
    limits.acoustic_scale = acoustic_scale
    limits.weight = weight
    limits.beam = beam
    limits.max_distance = max_distance
    limits.max_spans = max_spans
    with nogil:
        spans = c_find_spans(arcs, sounds, strings, costs, limits)
    return (
        int32s(spans.string), int32s(spans.start), int32s(spans.end), floats(spans.excess), floats(spans.distance),
        int64s(spans.arc_begin), int64s(spans.arc),
    )


def best_arcs(lattice not None, double acoustic_scale):
    """Return the arcs by which the best path enters and leaves each state, -1: none; int64 [num_states] each."""
    cdef Arcs arcs = arcs_of(lattice)
    cdef BestArcs best
    with nogil:
        best = c_best_arcs(arcs, acoustic_scale)
    return int64s(best.c_in), int64s(best.out)
