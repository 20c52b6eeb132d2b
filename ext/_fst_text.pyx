# cython: language_level=3
"""OpenFst's text into arrays; conversions only."""

cimport numpy as np
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from arrays cimport doubles, int32s, int64s

np.import_array()


cdef extern from "<string_view>" namespace "std" nogil:
    cdef cppclass string_view:
        const char* data()
        size_t size()

cdef extern from "text_lattices.hpp" namespace "ninja" nogil:
    cdef struct LabelEntry "ninja::Vocabulary::Entry":
        string_view text
        int64_t line
    cdef cppclass Vocabulary:
        const vector[LabelEntry]& entries()

cdef extern from "fst_text.hpp" namespace "ninja" nogil:
    cdef enum class FstTextFault "ninja::FstTextFault"(int):
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
    void c_read "ninja::read_fst_text"(const char* at, const char* end, int64_t line, cbool acceptor,
                                       FstText& made) except +


cdef bytes _bytes(string_view text):
    return PyBytes_FromStringAndSize(text.data(), text.size())


def look(bytes content not None):
    """Tell what the lines have.

    Returns:
        Whether there are lines of three fields; of five; and, where there are neither, whether the last of four fields
        is always an integer; always a weight; and each of them once.
    """
    cdef const char* begin = PyBytes_AS_STRING(content)
    cdef int64_t size = len(content)
    cdef FstTextLook found
    cdef size_t place
    with nogil:
        found = look_at_fst_text(begin, begin + size)
    fourth = [_bytes(found.fourth[place]) for place in range(found.fourth.size())]
    return found.three, found.five, found.fourth_integer, found.fourth_weight, fourth


def read(bytes content not None, int64_t line, *, bint acceptor, bint spelled):
    """Read the lines of an acceptor or a transducer.

    Args:
        content: The lines.
        line: Number of the first one.
        acceptor: Arcs have one label rather than two.
        spelled: Return the spelling of labels that are integers, too.

    Returns:
        (fault, line, field, number of fields, None): 1 a number of fields that neither arcs nor final states have, 2 no
        state, 3 no weight, 4 there is no line at all, 5 a state that is entered has no line. Or (0, -1, b"", 0,
        machine), which is (labels, ids, arc_begin, dst, label, cost, final_cost): (output label, its first line) each
        once, empty if they are integers and not wanted; what they are as integers, int32 [labels + 1], after a 0, or
        None if some are none; labels of arcs by their places there, from 1.
    """
    cdef const char* begin = PyBytes_AS_STRING(content)
    cdef int64_t size = len(content)
    cdef FstText made
    cdef size_t place
    with nogil:
        c_read(begin, begin + size, line, acceptor, made)
    if made.fault != FstTextFault.kNone:
        return <int>made.fault, made.line, _bytes(made.field), made.num_fields, None
    ids = None if made.ids.empty() else int32s(made.ids)
    labels = [] if ids is not None and not spelled else [
        (_bytes(made.labels.entries()[place].text), made.labels.entries()[place].line)
        for place in range(made.labels.entries().size())
    ]
    return 0, -1, b"", 0, (
        labels, ids, int64s(made.arc_begin), int32s(made.dst), int32s(made.label), doubles(made.cost),
        doubles(made.final_cost),
    )
