"""The kernels of language models against their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninja import _lm


def slow_logsumexp(scores):
    """ln Σ e^score of each row, in float64."""
    wide = scores.astype(np.float64)
    most = wide.max(1, keepdims=True)
    return (most + np.log(np.exp(wide - most).sum(1, keepdims=True)))[:, 0]


@given(
    num_rows=st.integers(1, 4),
    length=st.sampled_from([1, 2, 63, 64, 65, 127, 128, 1000]),
    spread=st.sampled_from([0.0, 1.0, 10.0, 200.0]),
    offset=st.sampled_from([-300.0, 0.0, 300.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_logsumexp_agrees_with_its_slow_twin(num_rows, length, spread, offset, seed):
    random = np.random.default_rng(seed)
    scores = (random.normal(0, 1, (num_rows, length)) * spread + offset).astype(np.float32)
    found = _lm.logsumexp(scores.reshape(-1), num_rows)
    assert found.dtype == np.float32
    assert found == pytest.approx(slow_logsumexp(scores), abs=2e-5, rel=1e-6)


def test_scores_that_do_not_fill_their_rows_are_refused():
    with pytest.raises(ValueError, match="7 scores are not 2 rows"):
        _lm.logsumexp(np.zeros(7, np.float32), 2)


@given(
    num_rows=st.integers(0, 9),
    width=st.sampled_from([1, 15, 63, 64, 65, 200]),
    with_bias=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_scores_of_words_agree_with_their_slow_twin(num_rows, width, with_bias, seed):
    random = np.random.default_rng(seed)
    output, embedding = (random.normal(0, 1, (rows, width)).astype(np.float32) for rows in (num_rows, 5))
    bias = random.normal(0, 1, 5).astype(np.float32) if with_bias else None
    word = random.integers(5, size=num_rows).astype(np.int32)
    expected = [
        sum(float(x) * float(y) for x, y in zip(row, embedding[each], strict=True)) + (bias[each] if with_bias else 0)
        for row, each in zip(output, word, strict=True)
    ]
    assert _lm.word_scores(output, embedding, bias, word) == pytest.approx(np.array(expected), abs=1e-4)


def test_words_beyond_the_embeddings_are_refused():
    output, embedding = np.zeros((1, 4), np.float32), np.zeros((5, 4), np.float32)
    for word in (-1, 5):
        with pytest.raises(IndexError, match=f"word {word} is none of the 5"):
            _lm.word_scores(output, embedding, None, np.array([word], np.int32))
    with pytest.raises(ValueError, match="not of one shape"):
        _lm.word_scores(output, embedding[:, 1:].copy(), None, np.array([1], np.int32))
    with pytest.raises(ValueError, match="4 biases for 5 words"):
        _lm.word_scores(output, embedding, np.zeros(4, np.float32), np.array([1], np.int32))


CELLS = given(
    num_rows=st.integers(0, 4),
    cells=st.sampled_from([1, 2, 15, 16, 17, 64, 100]),
    gap=st.integers(0, 3),
    spread=st.sampled_from([0.0, 1e-3, 1.0, 10.0, 200.0]),
    seed=st.integers(0, 2**32 - 1),
)


def slow_lstm_cell(gates, old):
    """An LSTM's outputs and new cells, in float64, from gates in the order input, forget, output, candidate."""
    with np.errstate(over="ignore"):
        entry, forget, leave = (1 / (1 + np.exp(-part)) for part in np.split(gates.astype(np.float64), 4, axis=1)[:3])
    candidate = np.tanh(np.split(gates.astype(np.float64), 4, axis=1)[3])
    cell = forget * old + entry * candidate
    return leave * np.tanh(cell), cell


@CELLS
def test_an_lstm_cell_agrees_with_its_slow_twin(num_rows, cells, gap, spread, seed):
    random = np.random.default_rng(seed)
    gates = random.normal(0, spread, (num_rows, 4 * cells)).astype(np.float32)
    old = random.normal(0, 1, (num_rows, gap + cells)).astype(np.float32)
    new = np.full((num_rows, cells + 2 * gap), np.float32(7))
    expected, cell = slow_lstm_cell(gates, old[:, gap:])
    found = _lm.lstm_cell(gates, old[:, gap:], new[:, gap : gap + cells])
    assert found.dtype == np.float32
    assert found == pytest.approx(expected, abs=2e-6)
    assert new[:, gap : gap + cells] == pytest.approx(cell, abs=2e-6)
    assert (new[:, :gap] == 7).all()  # nothing beside the cells is written
    assert (new[:, gap + cells :] == 7).all()


def slow_peephole_cell(gates, before, peephole):
    """A Kaldi LSTM's new cells and what they let out, in float64; gates: input, forget, candidate, output."""
    entry, forget, candidate, leave = np.split(gates.astype(np.float64), 4, axis=1)

    def sigmoid(x):
        with np.errstate(over="ignore"):
            return 1 / (1 + np.exp(-x))

    cell = sigmoid(forget + peephole[1] * before) * before + sigmoid(entry + peephole[0] * before) * np.tanh(candidate)
    return np.concatenate((cell, sigmoid(leave + peephole[2] * cell) * np.tanh(cell)), 1)


@CELLS
def test_a_cell_with_peepholes_agrees_with_its_slow_twin(num_rows, cells, gap, spread, seed):
    random = np.random.default_rng(seed)
    gates = random.normal(0, spread, (num_rows, 4 * cells)).astype(np.float32)
    before = random.normal(0, 1, (num_rows, gap + cells)).astype(np.float32)
    peephole = random.normal(0, 1, (3, cells)).astype(np.float32)
    expected = slow_peephole_cell(gates, before[:, gap:], peephole)
    assert _lm.peephole_cell(gates, before[:, gap:], peephole) == pytest.approx(expected, abs=5e-6)


@given(
    widths=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    num_rows=st.integers(0, 6),
    gap=st.integers(0, 2),
    seed=st.integers(0, 99),
)
def test_rows_are_put_together_where_their_slots_are(widths, num_rows, gap, seed):
    random = np.random.default_rng(seed)
    pieces = [random.normal(size=(num_rows, width + gap)).astype(np.float32)[:, gap:] for width in widths]
    slots = random.permutation(8)[:num_rows].astype(np.int64)
    slab = np.full((8, sum(widths)), np.float32(7))
    expected = slab.copy()
    expected[slots] = np.concatenate(pieces, 1)
    _lm.scatter_rows(pieces, slots, slab)
    assert np.array_equal(slab, expected)


def test_rows_that_do_not_fit_their_slab_are_refused():
    piece, slab = np.zeros((2, 3), np.float32), np.zeros((4, 3), np.float32)
    for pieces, slots, message in (
        ([piece], [0], "the pieces differ"),
        ([piece[:, ::2]], [0, 1], "the pieces differ"),
        ([piece, piece], [0, 1], "pieces of 6 columns for rows of 3"),
        ([piece], [0, 4], "slot 4 is none of the slab's 4"),
        ([piece], [0, -1], "slot -1 is none"),
    ):
        with pytest.raises(ValueError, match=message):
            _lm.scatter_rows(pieces, np.array(slots, np.int64), slab)


def test_peepholes_of_another_shape_are_refused():
    gates, rows, peephole = np.zeros((2, 12), np.float32), np.zeros((2, 8), np.float32), np.zeros((3, 3), np.float32)
    with pytest.raises(ValueError, match="not of one shape"):
        _lm.peephole_cell(gates, rows[:1, :3], peephole)
    with pytest.raises(ValueError, match="not rows of the gates' width"):
        _lm.peephole_cell(gates, rows[:, :6:2], peephole)


def test_cells_of_another_shape_are_refused():
    gates, rows = np.zeros((2, 12), np.float32), np.zeros((2, 8), np.float32)
    with pytest.raises(ValueError, match="not of one shape"):
        _lm.lstm_cell(gates, rows[:1, :3], rows[:, 3:6])
    with pytest.raises(ValueError, match="not rows of the gates' width"):
        _lm.lstm_cell(gates, rows[:, :4], rows[:, 3:6])
    with pytest.raises(ValueError, match="not rows of the gates' width"):
        _lm.lstm_cell(gates, rows[:, :6:2], rows[:, 3:6])
