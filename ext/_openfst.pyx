# cython: language_level=3
"""OpenFst's binary images; conversions only."""

cimport numpy as np
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.vector cimport vector

from arrays cimport doubles, int32s, int64s

np.import_array()


cdef extern from "<string_view>" namespace "std" nogil:
    cdef cppclass string_view:
        string_view(const char* data, size_t size) except +

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
        vector[string] input_symbol
        vector[int64_t] input_symbol_id
        cbool names_outputs
    int64_t c_image_size "ninja::image_size"(const FstArcs& fst, const string& arc_type, int64_t symbols) except +
    void c_write_image "ninja::write_image"(const FstArcs& fst, const string& arc_type, string_view symbols,
                                            char* to) except +
    ParsedFst c_parse_image "ninja::parse_image"(const char* content, int64_t size) except +


def write_image(str arc_type not None, const int64_t[::1] arc_begin not None, const int32_t[::1] dst not None,
                const int32_t[::1] ilabel not None, const int32_t[::1] olabel not None,
                const double[::1] cost not None, const double[::1] final_cost not None, bytes symbols not None=b""):
    """Return the binary image of a vector FST whose start is state 0; costs in float64, +inf = not final.

    `symbols`, unless empty, are the bytes of a symbol table for input and output labels.
    """
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
    image = PyBytes_FromStringAndSize(NULL, c_image_size(fst, name, len(symbols)))
    cdef char* to = PyBytes_AS_STRING(image)
    cdef const char* table = PyBytes_AS_STRING(symbols)
    cdef int64_t size = len(symbols)
    with nogil:
        c_write_image(fst, name, string_view(table, size), to)
    return image


cdef object _pairs(const vector[string]& symbol, const vector[int64_t]& number):
    cdef size_t i
    return None if symbol.empty() else [(symbol[i], number[i]) for i in range(symbol.size())]


def parse_image(bytes image not None, int64_t begin=0):
    """Parse the binary image of a vector or const FST, from an offset on.

    Returns:
        (error, byte, fields): what is wrong, or ""; its offset behind `begin`, or -1; and
        (arc type, bytes taken, arc_begin, dst, ilabel, olabel, cost, final_cost, (input symbols, output symbols)),
        both (name, id) each, or None. Arcs of infinite weight are left out.
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
    symbols = (_pairs(fst.input_symbol, fst.input_symbol_id),
               _pairs(fst.symbol, fst.symbol_id) if fst.names_outputs else None)
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
