"""The kernels of language models, compared with their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninja import _networks


def slow_logsumexp(scores):
    """Return ln Σ e^score of each row, in float64."""
    double = scores.astype(np.float64)
    maximum = double.max(1, keepdims=True)
    return (maximum + np.log(np.exp(double - maximum).sum(1, keepdims=True)))[:, 0]


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
    result = _networks.logsumexp(scores.reshape(-1), num_rows)
    assert result.dtype == np.float32
    assert result == pytest.approx(slow_logsumexp(scores), abs=2e-5, rel=1e-6)


def test_scores_that_do_not_fill_their_rows_are_refused():
    with pytest.raises(ValueError, match="7 scores are not 2 rows"):
        _networks.logsumexp(np.zeros(7, np.float32), 2)


@given(
    num_rows=st.integers(0, 9),
    width=st.sampled_from([1, 15, 63, 64, 65, 200]),
    gap=st.integers(0, 2),
    with_bias=st.booleans(),
    is_scaled=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_scores_of_words_agree_with_their_slow_twin(num_rows, width, gap, with_bias, is_scaled, seed):
    random = np.random.default_rng(seed)
    output = random.normal(0, 1, (4, width + gap)).astype(np.float32)[:, :width]
    embedding = random.integers(-127, 128, (5, width)).astype(np.int8 if is_scaled else np.float32)
    scale = random.uniform(0, 1, 5).astype(np.float32) if is_scaled else None
    bias = random.normal(0, 1, 5).astype(np.float32) if with_bias else None
    row, word = random.integers(4, size=num_rows), random.integers(5, size=num_rows).astype(np.int32)
    expected = [
        sum(float(x) * float(y) for x, y in zip(output[i], embedding[j], strict=True)) * (scale[j] if is_scaled else 1)
        + (bias[j] if with_bias else 0)
        for i, j in zip(row, word, strict=True)
    ]
    result = _networks.word_scores(output, row, embedding, scale, bias, word)
    terms = np.abs(output.astype(np.float64)) @ np.abs(embedding.astype(np.float64)).T  # [4, 5], sums of magnitudes
    assert (np.abs(result - np.array(expected)) <= 1e-6 * terms[row, word] + 1e-5).all()


def test_words_beyond_the_embeddings_are_refused():
    output, embedding, row = np.zeros((1, 4), np.float32), np.zeros((5, 4), np.float32), np.zeros(1, np.int64)
    valid_word = np.array([1], np.int32)
    for word in (-1, 5):
        with pytest.raises(IndexError, match=f"word {word} is none of the 5"):
            _networks.word_scores(output, row, embedding, None, None, np.array([word], np.int32))
    with pytest.raises(IndexError, match="row 1 is none of the 1"):
        _networks.word_scores(output, row + 1, embedding, None, None, valid_word)
    with pytest.raises(ValueError, match="not of one shape"):
        _networks.word_scores(output, row, embedding[:, 1:].copy(), None, None, valid_word)
    with pytest.raises(ValueError, match="4 biases for 5 words"):
        _networks.word_scores(output, row, embedding, None, np.zeros(4, np.float32), valid_word)
    with pytest.raises(ValueError, match="6 scales for 5 words"):
        _networks.word_scores(output, row, embedding.astype(np.int8), np.zeros(6, np.float32), None, valid_word)


CELLS = given(
    num_rows=st.integers(0, 4),
    cells=st.sampled_from([1, 2, 15, 16, 17, 64, 100]),
    gap=st.integers(0, 3),
    spread=st.sampled_from([0.0, 1e-3, 1.0, 10.0, 200.0]),
    seed=st.integers(0, 2**32 - 1),
)


def slow_lstm_cell(gates, old_cell):
    """Return an LSTM's outputs and new cells, in float64, from gates in the order input, forget, output, candidate."""
    with np.errstate(over="ignore"):
        input_gate, forget_gate, output_gate = (
            1 / (1 + np.exp(-gate)) for gate in np.split(gates.astype(np.float64), 4, axis=1)[:3]
        )
    candidate = np.tanh(np.split(gates.astype(np.float64), 4, axis=1)[3])
    cell = forget_gate * old_cell + input_gate * candidate
    return output_gate * np.tanh(cell), cell


@CELLS
def test_an_lstm_cell_agrees_with_its_slow_twin(num_rows, cells, gap, spread, seed):
    random = np.random.default_rng(seed)
    gates = random.normal(0, spread, (num_rows, 4 * cells)).astype(np.float32)
    old = random.normal(0, 1, (num_rows, gap + cells)).astype(np.float32)
    new = np.full((num_rows, cells + 2 * gap), np.float32(7))
    expected, cell = slow_lstm_cell(gates, old[:, gap:])
    result = _networks.lstm_cell(gates, old[:, gap:], new[:, gap : gap + cells])
    assert result.dtype == np.float32
    assert result == pytest.approx(expected, abs=2e-6)
    assert new[:, gap : gap + cells] == pytest.approx(cell, abs=2e-6)
    assert (new[:, :gap] == 7).all()  # the columns beside the cells are unchanged
    assert (new[:, gap + cells :] == 7).all()


@CELLS
def test_a_step_from_two_summands_agrees_with_its_slow_twin(num_rows, cells, gap, spread, seed):
    random = np.random.default_rng(seed)
    input_part, recurrent_part = (random.normal(0, spread, (rows, 4 * cells)).astype(np.float32) for rows in (3, 2))
    input_row, recurrent_row = random.integers(3, size=num_rows), random.integers(2, size=num_rows)
    slab = random.normal(0, 1, (9, cells + 2 * gap)).astype(np.float32)
    old_row, new_row = random.integers(4, size=num_rows), 4 + random.permutation(5)[:num_rows]
    expected, cell = slow_lstm_cell(
        input_part[input_row] + recurrent_part[recurrent_row], slab[old_row, gap : gap + cells]
    )
    unchanged = np.ones(slab.shape, np.bool_)
    unchanged[new_row, gap : gap + cells] = False
    old_values = slab[unchanged]
    result = _networks.lstm_step(
        input_part, input_row, recurrent_part, recurrent_row, slab[:, gap : gap + cells], old_row, new_row
    )
    assert result.dtype == np.float32
    assert result == pytest.approx(expected, abs=2e-6)
    assert slab[new_row, gap : gap + cells] == pytest.approx(cell, abs=2e-6)
    assert np.array_equal(slab[unchanged], old_values)  # everything except the new cells is unchanged


def test_steps_with_invalid_rows_are_refused():
    gates, cell, row = np.zeros((2, 8), np.float32), np.zeros((3, 2), np.float32), np.zeros(1, np.int64)
    for place, number in ((1, 2), (3, 2), (5, 3), (6, -1)):
        arguments = [gates, row, gates, row, cell, row, row]
        arguments[place] = np.array([number])
        with pytest.raises(IndexError, match=f"row {number} is none of the {3 if place > 3 else 2}"):
            _networks.lstm_step(*arguments)
    with pytest.raises(ValueError, match="rows of 8 numbers instead of 12"):
        _networks.lstm_step(gates, row, gates, row, np.zeros((3, 3), np.float32), row, row)
    with pytest.raises(ValueError, match="2 row numbers for 1 rows"):
        _networks.lstm_step(gates, row, gates, np.zeros(2, np.int64), cell, row, row)


@given(
    num_rows=st.integers(0, 14),
    num_inputs=st.sampled_from([1, 7, 64]),
    num_outputs=st.sampled_from([1, 15, 16, 31, 32, 33, 70]),
    gap=st.integers(0, 2),
    with_bias=st.booleans(),
    level=st.sampled_from([0, 1, 2]),
    seed=st.integers(0, 2**32 - 1),
)
def test_products_agree_with_their_slow_twin_in_any_batch(
    num_rows, num_inputs, num_outputs, gap, with_bias, level, seed
):
    random = np.random.default_rng(seed)
    weight, bias = (random.normal(0, 1, shape).astype(np.float32) for shape in ((num_outputs, num_inputs), num_outputs))
    rows = random.normal(0, 1, (5, num_inputs + gap)).astype(np.float32)[:, gap:]
    row = random.integers(5, size=num_rows)
    product = _networks.Product(weight, bias if with_bias else None, level)
    assert (product.num_inputs, product.num_outputs) == (num_inputs, num_outputs)
    result = product(rows, row)
    expected = rows[row].astype(np.float64) @ weight.T.astype(np.float64) + (bias if with_bias else 0)
    assert result.shape == expected.shape
    assert result == pytest.approx(expected, abs=1e-4)
    assert np.array_equal(result, product(rows)[row])
    assert np.array_equal(result[num_rows // 3 :], product(rows, row[num_rows // 3 :]))


def test_products_with_inconsistent_shapes_are_refused():
    weight = np.zeros((3, 4), np.float32)
    with pytest.raises(ValueError, match="weights and bias are not of one shape"):
        _networks.Product(weight, np.zeros(4, np.float32))
    with pytest.raises(ValueError, match="weights and bias are not of one shape"):
        _networks.Product(weight[:0], None)
    with pytest.raises(ValueError, match="rows of 5 numbers instead of 4"):
        _networks.Product(weight, None)(np.zeros((2, 5), np.float32))
    with pytest.raises(IndexError, match="row 2 is none of the 2"):
        _networks.Product(weight, None)(np.zeros((2, 4), np.float32), np.array([0, 2]))


@given(size=st.sampled_from([0, 1, 15, 64, 100]), spread=st.sampled_from([0.1, 1.0, 30.0]), seed=st.integers(0, 99))
def test_silu_agrees_with_its_definition(size, spread, seed):
    x = np.random.default_rng(seed).normal(0, spread, size).astype(np.float32)
    expected = x / (1 + np.exp(-x.astype(np.float64)))
    _networks.silu(x)
    assert x == pytest.approx(expected, abs=1e-5)


def slow_peephole_cell(gates, old_cell, peephole):
    """Return the new cells and outputs of a Kaldi LSTM, in float64; gates: input, forget, candidate, output."""
    input_gate, forget_gate, candidate, output_gate = np.split(gates.astype(np.float64), 4, axis=1)

    def sigmoid(x):
        with np.errstate(over="ignore"):
            return 1 / (1 + np.exp(-x))

    cell = sigmoid(forget_gate + peephole[1] * old_cell) * old_cell
    cell += sigmoid(input_gate + peephole[0] * old_cell) * np.tanh(candidate)
    return np.concatenate((cell, sigmoid(output_gate + peephole[2] * cell) * np.tanh(cell)), 1)


@CELLS
def test_a_cell_with_peepholes_agrees_with_its_slow_twin(num_rows, cells, gap, spread, seed):
    random = np.random.default_rng(seed)
    gates = random.normal(0, spread, (num_rows, 4 * cells)).astype(np.float32)
    old = random.normal(0, 1, (num_rows, gap + cells)).astype(np.float32)
    peephole = random.normal(0, 1, (3, cells)).astype(np.float32)
    expected = slow_peephole_cell(gates, old[:, gap:], peephole)
    assert _networks.peephole_cell(gates, old[:, gap:], peephole) == pytest.approx(expected, abs=5e-6)


@given(
    widths=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    num_rows=st.integers(0, 6),
    gap=st.integers(0, 2),
    seed=st.integers(0, 99),
)
def test_scatter_rows_concatenates_pieces_into_their_slots(widths, num_rows, gap, seed):
    random = np.random.default_rng(seed)
    pieces = [random.normal(size=(num_rows, width + gap)).astype(np.float32)[:, gap:] for width in widths]
    slots = random.permutation(8)[:num_rows].astype(np.int64)
    slab = np.full((8, sum(widths)), np.float32(7))
    expected = slab.copy()
    expected[slots] = np.concatenate(pieces, 1)
    _networks.scatter_rows(pieces, slots, slab)
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
            _networks.scatter_rows(pieces, np.array(slots, np.int64), slab)


def test_peepholes_of_wrong_shape_are_refused():
    gates, rows, peephole = np.zeros((2, 12), np.float32), np.zeros((2, 8), np.float32), np.zeros((3, 3), np.float32)
    with pytest.raises(ValueError, match="not of one shape"):
        _networks.peephole_cell(gates, rows[:1, :3], peephole)
    with pytest.raises(ValueError, match="not rows of the gates' width"):
        _networks.peephole_cell(gates, rows[:, :6:2], peephole)


def test_cells_of_wrong_shape_are_refused():
    gates, rows = np.zeros((2, 12), np.float32), np.zeros((2, 8), np.float32)
    with pytest.raises(ValueError, match="not of one shape"):
        _networks.lstm_cell(gates, rows[:1, :3], rows[:, 3:6])
    with pytest.raises(ValueError, match="not rows of the gates' width"):
        _networks.lstm_cell(gates, rows[:, :4], rows[:, 3:6])
    with pytest.raises(ValueError, match="not rows of the gates' width"):
        _networks.lstm_cell(gates, rows[:, :6:2], rows[:, 3:6])
