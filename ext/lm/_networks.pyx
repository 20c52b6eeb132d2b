"""Bindings of the kernels of recurrent networks."""

cimport numpy as np
from libc.stdint cimport int8_t, int32_t, int64_t, uint16_t
from libcpp.vector cimport vector

cimport lm.kernels as c
from core.lattice cimport data_of, new_array

np.import_array()


def logsumexp(scores, int64_t num_rows):
    """Return ln Σ exp of the scores of each row, float32 [num_rows].

    Scores are float32 [num_rows * length], row by row, where length is at least 1.
    """
    cdef int64_t size = np.PyArray_SIZE(<np.ndarray>scores)
    if num_rows < 1 or size < num_rows or size % num_rows != 0:
        raise ValueError(f"{size} scores are not {num_rows} rows")
    cdef const float* source = <const float*>data_of(scores, np.NPY_FLOAT32, size)
    result = new_array(num_rows, np.NPY_FLOAT32)
    cdef float* target = <float*>np.PyArray_DATA(<np.ndarray>result)
    with nogil:
        c.logsumexp(source, num_rows, size // num_rows, target)
    return result


def lstm_cell(float[:, ::1] gates, float[:, :] old, float[:, :] new):
    """Return a cell's outputs, float32 [n, cells], and fill in the new cells.

    Gates are float32 [n, 4 * cells], in the order input, forget, output, candidate, before their non-linearities, and
    are overwritten. Old and new cells are float32 [n, cells] with any row stride.
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
            c.lstm_cell(
                &gates[0, 0], &old[0, 0], old.strides[0] // 4, &new[0, 0], new.strides[0] // 4, num_rows, cells, target
            )
    return output


def peephole_cell(float[:, ::1] gates, const float[:, :] before, const float[:, ::1] peephole):
    """Return the new cells and their outputs, float32 [n, 2 * cells].

    Gates are float32 [n, 4 * cells], in the order input, forget, candidate, output, before their non-linearities, and
    are overwritten. The previous cells are float32 [n, cells] with any row stride; peephole is float32 [3, cells].
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
            c.peephole_cell(
                &gates[0, 0], &before[0, 0], before.strides[0] // 4, &peephole[0, 0], num_rows, cells, target
            )
    return result


cdef _check_rows(const int64_t[::1] row, int64_t num_rows, Py_ssize_t end):
    cdef int64_t i
    if row.shape[0] != num_rows:
        raise ValueError(f"{row.shape[0]} row numbers for {num_rows} rows")
    for i in range(num_rows):
        if not 0 <= row[i] < end:
            raise IndexError(f"row {row[i]} is none of the {end}")


cdef c.Rows[c.const_float] _rows(const float[:, :] matrix, const int64_t[::1] row, int64_t width) except *:
    cdef c.Rows[c.const_float] rows
    if matrix.shape[1] != width or (width > 1 and matrix.strides[1] != 4):
        raise ValueError(f"rows of {matrix.shape[1]} numbers instead of {width}, or not contiguous")
    rows.first = &matrix[0, 0]
    rows.row = &row[0]
    rows.stride = matrix.strides[0] // 4
    return rows


def lstm_step(
    const float[:, :] below not None,
    const int64_t[::1] below_row not None,
    const float[:, :] before not None,
    const int64_t[::1] before_row not None,
    float[:, :] cell not None,
    const int64_t[::1] old_row not None,
    const int64_t[::1] new_row not None,
):
    """Return the outputs of a layer's cells, float32 [n, cells], and fill in the new cells.

    The gates of step i, in the order input, forget, output, candidate, before their non-linearities, are the sum of
    row below_row[i] of `below` and row before_row[i] of `before`, float32 [rows, 4 * cells] each. Row old_row[i] of
    `cell`, float32 [rows, cells] with any row stride, is the old cell; the new one is written to row new_row[i].
    """
    cdef int64_t num_rows = below_row.shape[0], cells = cell.shape[1]
    cdef np.npy_intp[2] shape = [num_rows, cells]
    output = np.PyArray_SimpleNew(2, shape, np.NPY_FLOAT32)
    if not num_rows or not cells:
        return output
    _check_rows(below_row, num_rows, below.shape[0])
    _check_rows(before_row, num_rows, before.shape[0])
    _check_rows(old_row, num_rows, cell.shape[0])
    _check_rows(new_row, num_rows, cell.shape[0])
    cdef c.Rows[c.const_float] one = _rows(below, below_row, 4 * cells)
    cdef c.Rows[c.const_float] other = _rows(before, before_row, 4 * cells)
    cdef c.Rows[c.const_float] old = _rows(cell, old_row, cells)
    cdef c.Rows[float] new
    new.first = &cell[0, 0]
    new.row = &new_row[0]
    new.stride = cell.strides[0] // 4
    cdef vector[float] gates
    gates.resize(4 * cells)
    cdef float* target = <float*>np.PyArray_DATA(<np.ndarray>output)
    with nogil:
        c.lstm_step(one, other, old, new, num_rows, cells, gates.data(), target)
    return output


cdef class Product:
    """The product of rows with the weights of a layer, plus a bias; a row's result has the same bits in any batch.

    Weights are float32 [outputs, inputs], a bias float32 [outputs] or None. The instruction set is at most `level` (0
    baseline, 1 AVX2, 2 AVX-512), and never above the level of the processor.
    """

    cdef readonly int64_t num_outputs, num_inputs
    cdef vector[float] packed, bias
    cdef int level

    def __init__(self, const float[:, ::1] weight not None, const float[::1] bias, int level=2):
        self.level = min(level, c.instruction_level())
        self.num_outputs, self.num_inputs = weight.shape[0], weight.shape[1]
        if not self.num_outputs or not self.num_inputs or (bias is not None and bias.shape[0] != self.num_outputs):
            raise ValueError("weights and bias are not of one shape")
        self.packed.resize(c.packed_size(self.num_outputs, self.num_inputs))
        cdef const float* source = &weight[0, 0]
        with nogil:
            c.pack_weights(source, self.num_outputs, self.num_inputs, self.packed.data())
        if bias is not None:
            self.bias.assign(&bias[0], &bias[0] + self.num_outputs)

    def __call__(self, const float[:, :] rows not None, const int64_t[::1] row=None):
        """Return the products of all rows, or of the rows numbered by `row`, float32 [n, outputs].

        Rows are float32 [rows, inputs] with any row stride, and their numbers int64 [n].
        """
        cdef int64_t num_rows = rows.shape[0] if row is None else row.shape[0], i
        cdef np.npy_intp[2] shape = [num_rows, self.num_outputs]
        result = np.PyArray_SimpleNew(2, shape, np.NPY_FLOAT32)
        if rows.shape[1] != self.num_inputs or (self.num_inputs > 1 and rows.strides[1] != 4):
            raise ValueError(f"rows of {rows.shape[1]} numbers instead of {self.num_inputs}, or not contiguous")
        if not num_rows:
            return result
        if row is not None:
            _check_rows(row, num_rows, rows.shape[0])
        cdef const float* first = &rows[0, 0]
        cdef float* target = <float*>np.PyArray_DATA(<np.ndarray>result)
        cdef const float* bias = self.bias.data() if self.bias.size() else NULL
        cdef int64_t stride = rows.strides[0] // 4
        cdef vector[c.const_float_pointer] source
        cdef vector[c.float_pointer] to
        with nogil:
            source.resize(num_rows)
            to.resize(num_rows)
            for i in range(num_rows):
                source[i] = first + (i if row is None else row[i]) * stride
                to[i] = target + i * self.num_outputs
            c.multiply(source, self.packed.data(), bias, self.num_outputs, self.num_inputs, self.level, to)
        return result


def silu(float[::1] x not None):
    """Replace each number x with x / (1 + e^-x)."""
    cdef int64_t size = x.shape[0]
    if size:
        with nogil:
            c.silu(&x[0], size)


def word_scores(
    const float[:, :] output not None,
    const int64_t[::1] row not None,
    embedding not None,
    const float[::1] scale,
    const float[::1] bias,
    const int32_t[::1] word not None,
):
    """Return the scores of words after outputs, float32 [n].

    Score i is the product of row row[i] of `output`, float32 [rows, width] with any row stride, with row word[i] of
    `embedding`, float32 or int8 [words, width], times the word's scale, plus its bias, float32 [words] or None each.
    """
    cdef int64_t num_rows = word.shape[0], width = output.shape[1], num_words = len(embedding), i
    cdef const float[:, ::1] wide
    cdef const int8_t[:, ::1] narrow
    if embedding.ndim != 2 or embedding.shape[1] != width or row.shape[0] != num_rows:
        raise ValueError("outputs, words and embeddings are not of one shape")
    for name, numbers in (("scales", scale), ("biases", bias)):
        if numbers is not None and len(numbers) != num_words:
            raise ValueError(f"{len(numbers)} {name} for {num_words} words")
    for i in range(num_rows):
        if not 0 <= word[i] < num_words:
            raise IndexError(f"word {word[i]} is none of the {num_words}")
    result = new_array(num_rows, np.NPY_FLOAT32)
    cdef float* target = <float*>np.PyArray_DATA(<np.ndarray>result)
    cdef const float* factor = NULL
    cdef const float* offset = NULL
    if not num_rows or not width:
        return result
    _check_rows(row, num_rows, output.shape[0])
    cdef c.Rows[c.const_float] rows = _rows(output, row, width)
    if scale is not None:
        factor = &scale[0]
    if bias is not None:
        offset = &bias[0]
    if embedding.dtype.itemsize == 1:
        narrow = embedding
        with nogil:
            c.word_scores(rows, &narrow[0, 0], factor, offset, &word[0], num_rows, width, target)
    else:
        wide = embedding
        with nogil:
            c.word_scores(rows, &wide[0, 0], factor, offset, &word[0], num_rows, width, target)
    return result


def scatter_rows(list pieces, const int64_t[::1] slots, float[:, ::1] slab):
    """Concatenate matrices horizontally, and write their rows into the rows of a slab.

    Row i of the matrices, float32 [n, width] each with any row stride, becomes row slots[i], int64 [n], of the slab,
    float32 [slots, sum of widths].
    """
    cdef int64_t num_rows = slots.shape[0], width = 0, row
    cdef vector[c.Columns] columns
    cdef c.Columns one
    cdef const float[:, :] piece
    for piece in pieces:
        if piece.shape[0] != num_rows or (piece.shape[1] > 1 and piece.strides[1] != 4):
            raise ValueError("the pieces differ in their number of rows")
        if num_rows and piece.shape[1]:
            one = c.Columns(&piece[0, 0], piece.strides[0] // 4, piece.shape[1])
            columns.push_back(one)
        width += piece.shape[1]
    if width != slab.shape[1]:
        raise ValueError(f"pieces of {width} columns for rows of {slab.shape[1]}")
    for row in range(num_rows):
        if not 0 <= slots[row] < slab.shape[0]:
            raise ValueError(f"slot {slots[row]} is none of the slab's {slab.shape[0]}")
    if num_rows and width:
        with nogil:
            c.scatter_rows(columns, &slots[0], num_rows, &slab[0, 0], width)


def sampled_softmax(
    uint16_t[:, ::1] score not None,
    const float[::1] offset not None,
    const float[::1] target_score not None,
    const int64_t[::1] hit not None,
    float share,
    float self_normalize,
    float[::1] offset_slope not None,
):
    """Replace scores, bfloat16, with the gradients of a sampled softmax, and add their sums to `offset_slope`.

    Returns:
        Log-normalisers, and gradients with respect to the scores of the targets, float32 [n] each; see
        ext/lm/training.hpp.
    """
    cdef int64_t num_rows = score.shape[0], length = score.shape[1]
    normaliser, slope = new_array(num_rows, np.NPY_FLOAT32), new_array(num_rows, np.NPY_FLOAT32)
    cdef float[::1] z = normaliser, by_target = slope
    if num_rows and length:
        with nogil:
            c.sampled_softmax(
                &score[0, 0], &offset[0], &target_score[0], &hit[0], num_rows, length, share, self_normalize, &z[0],
                &by_target[0], &offset_slope[0]
            )
    return normaliser, slope
