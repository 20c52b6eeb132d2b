"""Caffe2's operators according to their documentation, as plain loops over numpy arrays."""

from __future__ import annotations

import itertools
import math

import numpy as np


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def fc(x, w, b, axis=1, axis_w=1, transposed=False):
    """Multiply rows of x by w, [outputs, inputs] or transposed, and add b."""
    rows = math.prod(x.shape[:axis])
    x2 = x.reshape(rows, -1)
    w2 = w.reshape(math.prod(w.shape[:axis_w]), -1)
    outputs = w2.shape[1] if transposed else w2.shape[0]
    y = np.zeros((rows, outputs), np.float32)
    for n, o in itertools.product(range(rows), range(outputs)):
        weight = (lambda i, o=o: w2[i, o]) if transposed else (lambda i, o=o: w2[o, i])
        y[n, o] = b[o] + sum(float(x2[n, i]) * float(weight(i)) for i in range(x2.shape[1]))
    return y.reshape(*x.shape[:axis], outputs)


def lstm_unit(hidden, cell, gates, lengths, timestep, forget_bias=0.0, drop_states=False):
    """Compute an LSTM step of the gates input, forget, output, candidate; ended sequences keep or drop their states."""
    _, n, d = cell.shape
    new_hidden, new_cell = np.zeros_like(cell), np.zeros_like(cell)
    for i, j in itertools.product(range(n), range(d)):
        if lengths is not None and timestep >= lengths[i]:
            new_hidden[0, i, j] = 0 if drop_states else hidden[0, i, j]
            new_cell[0, i, j] = 0 if drop_states else cell[0, i, j]
            continue
        entry, forget, leave, candidate = (float(gates[0, i, k * d + j]) for k in range(4))
        c = sigmoid(forget + forget_bias) * cell[0, i, j] + sigmoid(entry) * math.tanh(candidate)
        new_cell[0, i, j] = c
        new_hidden[0, i, j] = sigmoid(leave) * math.tanh(c)
    return new_hidden, new_cell


def softmax(x, axis=1):
    rows = x.reshape(math.prod(x.shape[:axis]), -1)
    return np.array([[math.exp(v) / sum(math.exp(w) for w in row) for v in row] for row in rows], np.float32).reshape(
        x.shape
    )


def legacy_broadcast(compute, a, b, axis):
    """Apply `compute` with b's dimensions aligned to `axis` of a, or to a's end."""
    first = a.ndim - b.ndim if axis == -1 else axis
    c = np.zeros_like(a)
    for place in np.ndindex(*a.shape):
        c[place] = compute(a[place], b[place[first : first + b.ndim]])
    return c


def gather(x, indices, axis=0):
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    y = np.zeros(shape, x.dtype)
    for place in np.ndindex(*shape):
        at = place[axis : axis + indices.ndim]
        y[place] = x[(*place[:axis], indices[at], *place[axis + indices.ndim :])]
    return y


def slice_(x, starts, ends):
    """Slice; negative bounds count from one beyond the end."""
    bounds = []
    for size, start, end in zip(x.shape, starts, ends, strict=False):
        start, end = (size + 1 + b if b < 0 else b for b in (start, end))
        bounds.append(range(min(start, size), min(end, size)))
    bounds += [range(size) for size in x.shape[len(bounds) :]]
    return x[np.ix_(*bounds)]


def reshape(x, shape):
    sizes = [x.shape[i] if size == 0 else size for i, size in enumerate(shape)]
    inferred = x.size // math.prod(size for size in sizes if size != -1)
    return np.array(x.ravel().tolist(), x.dtype).reshape([inferred if size == -1 else size for size in sizes])
