# cython: language_level=3
# distutils: language = c++
"""Kernels of language models."""

cimport numpy as np
from libc.stdint cimport int64_t

from arrays cimport data_of, new_array

np.import_array()


cdef extern from "logsumexp.hpp" namespace "ninja" nogil:
    void c_logsumexp "ninja::logsumexp"(const float*, int64_t, int64_t, float*)


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
