# cython: language_level=3
# distutils: language=c++
"""Rows of columns as lines of text: conversions only. Arguments are validated in ``ninja.formats.rows``."""

cimport numpy as np
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from arrays cimport data_of
from ckaldi cimport Output, string_view

np.import_array()

cdef extern from "rows_text.hpp" namespace "ninja" nogil:
    enum Kind "ninja::TextColumn::Kind":
        kIntegers "ninja::TextColumn::kIntegers"
        kNumbers "ninja::TextColumn::kNumbers"
        kNames "ninja::TextColumn::kNames"
        kRuns "ninja::TextColumn::kRuns"
    cdef struct TextColumn:
        Kind kind
        const int32_t* integer
        const double* number
        const int64_t* begin
        const int64_t* end
        const char* letters
        char separator
        cbool may_lack
    void print_rows(string_view prefix, const vector[TextColumn]& columns, int64_t num_rows, Output& output) except +


cdef class Rows:
    """Columns of so many rows; they must outlive it."""

    cdef vector[TextColumn] columns
    cdef int64_t num_rows
    cdef list held

    def __init__(self, int64_t num_rows):
        self.num_rows = num_rows
        self.held = []

    def integers(self, values not None):
        cdef TextColumn column
        column.kind = kIntegers
        column.integer = <const int32_t*>data_of(values, np.NPY_INT32, self.num_rows)
        self.columns.push_back(column)
        self.held.append(values)

    def numbers(self, values not None):
        cdef TextColumn column
        column.kind = kNumbers
        column.number = <const double*>data_of(values, np.NPY_FLOAT64, self.num_rows)
        self.columns.push_back(column)
        self.held.append(values)

    def names(self, number not None, bytes letters not None, begin not None, end not None):
        cdef TextColumn column
        column.kind = kNames
        column.integer = <const int32_t*>data_of(number, np.NPY_INT32, self.num_rows)
        column.letters = PyBytes_AS_STRING(letters)
        column.begin = <const int64_t*>data_of(begin, np.NPY_INT64, -1)
        column.end = <const int64_t*>data_of(end, np.NPY_INT64, -1)
        self.columns.push_back(column)
        self.held.append((number, letters, begin, end))

    def runs(self, pool not None, begin not None, end not None, str separator not None, cbool may_lack):
        cdef TextColumn column
        column.kind = kRuns
        column.integer = <const int32_t*>data_of(pool, np.NPY_INT32, -1)
        column.begin = <const int64_t*>data_of(begin, np.NPY_INT64, self.num_rows)
        column.end = <const int64_t*>data_of(end, np.NPY_INT64, self.num_rows)
        column.separator = <char>ord(separator)
        column.may_lack = may_lack
        self.columns.push_back(column)
        self.held.append((pool, begin, end))

    def text(self, bytes prefix not None):
        """Return the lines, each of which begins with `prefix`."""
        cdef Output output
        cdef string_view first = string_view(PyBytes_AS_STRING(prefix), len(prefix))
        with nogil:
            print_rows(first, self.columns, self.num_rows, output)
        return PyUnicode_DecodeUTF8(output.data(), output.size(), "surrogateescape")
