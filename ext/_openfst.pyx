# cython: language_level=3
"""OpenFst's binary images; conversions only."""

cimport numpy as np
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t
from libcpp.string cimport string
from libcpp.vector cimport vector

from arrays cimport doubles, int32s, int64s

np.import_array()


cdef extern from "fst_image.hpp" namespace "ninja" nogil:
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
        string error
        int64_t byte
        string arc_type
        int64_t end
        vector[int64_t] arc_begin
        vector[int32_t] dst
        vector[int32_t] ilabel
        vector[int32_t] olabel
        vector[double] cost
        vector[double] final_cost
        vector[string] symbol
        vector[int64_t] symbol_id
    int64_t c_image_size "ninja::image_size"(const FstArcs& fst, const string& arc_type) except +
    void c_write_image "ninja::write_image"(const FstArcs& fst, const string& arc_type, char* to) except +
    ParsedFst c_parse_image "ninja::parse_image"(const char* content, int64_t size) except +


def write_image(str arc_type not None, const int64_t[::1] arc_begin not None, const int32_t[::1] dst not None,
                const int32_t[::1] ilabel not None, const int32_t[::1] olabel not None,
                const double[::1] cost not None, const double[::1] final_cost not None):
    """Return the binary image of a vector FST whose start is state 0; costs in float64, +inf = not final."""
    cdef FstArcs fst
    cdef string name = arc_type.encode()
    fst.num_states = final_cost.shape[0]
    fst.num_arcs = dst.shape[0]
    if arc_begin.shape[0] != fst.num_states + 1 or arc_begin[fst.num_states] != fst.num_arcs or not (
            ilabel.shape[0] == olabel.shape[0] == cost.shape[0] == fst.num_arcs):
        raise ValueError("the arrays of an FST differ in length")
    fst.arc_begin = &arc_begin[0]
    fst.final_cost = &final_cost[0] if fst.num_states > 0 else NULL
    if fst.num_arcs > 0:
        fst.dst = &dst[0]
        fst.ilabel = &ilabel[0]
        fst.olabel = &olabel[0]
        fst.cost = &cost[0]
    image = PyBytes_FromStringAndSize(NULL, c_image_size(fst, name))
    cdef char* to = PyBytes_AS_STRING(image)
    with nogil:
        c_write_image(fst, name, to)
    return image


def parse_image(bytes image not None, int64_t begin=0):
    """Parse the binary image of a vector or const FST, from an offset on.

    Returns:
        (error, byte, fields): what is wrong, or ""; its offset behind `begin`, or -1; and
        (arc type, bytes taken, arc_begin, dst, ilabel, olabel, cost, final_cost, symbols or None).
    """
    if not 0 <= begin <= len(image):
        raise ValueError("an image that begins outside the bytes")
    cdef const char* content = PyBytes_AS_STRING(image) + begin
    cdef int64_t size = len(image) - begin
    cdef ParsedFst fst
    with nogil:
        fst = c_parse_image(content, size)
    if not fst.error.empty():
        return fst.error.decode("utf-8", "replace"), fst.byte, None
    symbols = None
    cdef size_t i
    if not fst.symbol.empty():
        symbols = [(fst.symbol[i], fst.symbol_id[i]) for i in range(fst.symbol.size())]
    return "", -1, (
        fst.arc_type.decode(), fst.end, int64s(fst.arc_begin), int32s(fst.dst), int32s(fst.ilabel),
        int32s(fst.olabel), doubles(fst.cost), doubles(fst.final_cost), symbols,
    )


def image_end(bytes image not None, int64_t begin=0):
    """Return how many bytes an image takes that is well formed, but no lattice; 0 if it is malformed."""
    if not 0 <= begin <= len(image):
        raise ValueError("an image that begins outside the bytes")
    cdef const char* content = PyBytes_AS_STRING(image) + begin
    cdef int64_t size = len(image) - begin
    cdef ParsedFst fst
    with nogil:
        fst = c_parse_image(content, size)
    return 0 if fst.byte >= 0 else fst.end
