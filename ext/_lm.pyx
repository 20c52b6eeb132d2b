# cython: language_level=3
# distutils: language = c++
"""Kernels of language models."""

cimport numpy as np
from libc.stdint cimport int64_t

from arrays cimport data_of, new_array

np.import_array()


cdef extern from "logsumexp.hpp" namespace "ninja" nogil:
    void c_logsumexp "ninja::logsumexp"(const float*, int64_t, int64_t, float*)

cdef extern from "lstm_cell.hpp" namespace "ninja" nogil:
    void c_lstm_cell "ninja::lstm_cell"(float*, const float*, int64_t, float*, int64_t, int64_t, int64_t, float*)


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
