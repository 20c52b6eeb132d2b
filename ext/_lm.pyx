# cython: language_level=3
# distutils: language = c++
"""Kernels of language models."""

cimport numpy as np
from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from arrays cimport data_of, new_array

np.import_array()


cdef extern from "logsumexp.hpp" namespace "ninja" nogil:
    void c_logsumexp "ninja::logsumexp"(const float*, int64_t, int64_t, float*)

cdef extern from "lstm_cell.hpp" namespace "ninja" nogil:
    void c_lstm_cell "ninja::lstm_cell"(float*, const float*, int64_t, float*, int64_t, int64_t, int64_t, float*)

cdef extern from "scatter_rows.hpp" namespace "ninja" nogil:
    cdef struct Columns "ninja::Columns":
        const float* first
        int64_t stride
        int64_t width
    void c_scatter_rows "ninja::scatter_rows"(const vector[Columns]&, const int64_t*, int64_t, float*, int64_t)

cdef extern from "peephole_cell.hpp" namespace "ninja" nogil:
    void c_peephole_cell "ninja::peephole_cell"(
        float*, const float*, int64_t, const float*, int64_t, int64_t, float*
    )


def logsumexp(scores, int64_t num_rows):
    """Return ln of the sum of e to the power of each row's scores, float32 [num_rows].

    Scores are float32 [num_rows * length], row by row, length at least 1.
    """
    cdef int64_t size = np.PyArray_SIZE(<np.ndarray>scores)
    if num_rows < 1 or size < num_rows or size % num_rows != 0:
        raise ValueError(f"{size} scores are not {num_rows} rows")
    cdef const float* source = <const float*>data_of(scores, np.NPY_FLOAT32, size)
    result = new_array(num_rows, np.NPY_FLOAT32)
    cdef float* target = <float*>np.PyArray_DATA(<np.ndarray>result)
    with nogil:
        c_logsumexp(source, num_rows, size // num_rows, target)
    return result


def lstm_cell(float[:, ::1] gates, float[:, :] old, float[:, :] new):
    """Return a cell's outputs, float32 [n, cells], and fill in the new cells.

    Gates are float32 [n, 4 * cells], in the order input, forget, output, candidate, before their non-linearities, and
    are overwritten. Old and new cells are float32 [n, cells]; their rows may lie apart.
    """
    cdef int64_t num_rows = gates.shape[0], cells = gates.shape[1] // 4
    if gates.shape[1] != 4 * cells or old.shape[0] != num_rows or new.shape[0] != num_rows:
        raise ValueError("gates and cells are not of one shape")
    if old.shape[1] != cells or new.shape[1] != cells or old.strides[1] != 4 or new.strides[1] != 4:
        raise ValueError("cells are not rows of the gates' width")
    cdef np.npy_intp[2] shape = [num_rows, cells]
    output = np.PyArray_SimpleNew(2, shape, np.NPY_FLOAT32)
    cdef float* target = <float*>np.PyArray_DATA(<np.ndarray>output)
    if num_rows and cells:
        with nogil:
            c_lstm_cell(
                &gates[0, 0], &old[0, 0], old.strides[0] // 4, &new[0, 0], new.strides[0] // 4, num_rows, cells, target
            )
    return output


def peephole_cell(float[:, ::1] gates, const float[:, :] before, const float[:, ::1] peephole):
    """Return the new cells and what they let out, float32 [n, 2 * cells].

    Gates are float32 [n, 4 * cells], in the order input, forget, candidate, output, before their non-linearities, and
    are overwritten. The cells before are float32 [n, cells], their rows may lie apart; peephole is float32 [3, cells].
    """
    cdef int64_t num_rows = gates.shape[0], cells = peephole.shape[1]
    if gates.shape[1] != 4 * cells or peephole.shape[0] != 3 or before.shape[0] != num_rows:
        raise ValueError("gates, cells and peepholes are not of one shape")
    if before.shape[1] != cells or before.strides[1] != 4:
        raise ValueError("cells are not rows of the gates' width")
    cdef np.npy_intp[2] shape = [num_rows, 2 * cells]
    result = np.PyArray_SimpleNew(2, shape, np.NPY_FLOAT32)
    cdef float* target = <float*>np.PyArray_DATA(<np.ndarray>result)
    if num_rows and cells:
        with nogil:
            c_peephole_cell(
                &gates[0, 0], &before[0, 0], before.strides[0] // 4, &peephole[0, 0], num_rows, cells, target
            )
    return result


def scatter_rows(list pieces, const int64_t[::1] slots, float[:, ::1] slab):
    """Write rows made of pieces that stand side by side into the rows of a slab.

    Row i of the pieces, float32 [n, width] each, their rows may lie apart, becomes row slots[i], int64 [n], of the slab
    that is float32 [slots, sum of widths].
    """
    cdef int64_t num_rows = slots.shape[0], width = 0, row
    cdef vector[Columns] columns
    cdef Columns one
    cdef const float[:, :] piece
    for piece in pieces:
        if piece.shape[0] != num_rows or (piece.shape[1] > 1 and piece.strides[1] != 4):
            raise ValueError("the pieces are not rows of one number")
        if num_rows and piece.shape[1]:
            one = Columns(&piece[0, 0], piece.strides[0] // 4, piece.shape[1])
            columns.push_back(one)
        width += piece.shape[1]
    if width != slab.shape[1]:
        raise ValueError(f"pieces of {width} columns for rows of {slab.shape[1]}")
    for row in range(num_rows):
        if not 0 <= slots[row] < slab.shape[0]:
            raise ValueError(f"slot {slots[row]} is none of the slab's {slab.shape[0]}")
    if num_rows and width:
        with nogil:
            c_scatter_rows(columns, &slots[0], num_rows, &slab[0, 0], width)
