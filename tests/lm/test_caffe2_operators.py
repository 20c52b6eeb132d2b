"""Caffe2's operators on torch against plain loops."""

import numpy as np
import pytest
import reference_caffe2 as slow
from hypothesis import given, settings
from hypothesis import strategies as st

from ninja.errors import ModelError

torch = pytest.importorskip("torch")

from ninja.lm.imported.caffe2 import _run  # noqa: E402
from ninja.lm.imported.caffe2_net import Operator  # noqa: E402
from ninja.lm.imported.caffe2_operators import OPERATORS, runner  # noqa: E402


def run(kind, arrays, count=1, **arguments):
    """Run an operator; arguments that are tuples are lists of integers."""
    tensors = [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]
    inputs, outputs = (
        tuple(f"{side}{place}" for place in range(n)) for side, n in (("in", len(tensors)), ("out", count))
    )
    results = OPERATORS[kind](Operator(kind, inputs, outputs, arguments, "net.pb", 1), tensors)
    return [tensor.numpy() for tensor in results]


few_examples = settings(max_examples=12)
SEEDS = st.integers(0, 2**31).map(np.random.default_rng)
SIZES = st.integers(1, 4)


def numbers(random, *sizes):
    return random.normal(size=sizes).astype(np.float32)


@few_examples
@given(SEEDS, SIZES, SIZES, SIZES, SIZES, st.booleans())
def test_fc_is_a_product_with_the_weights_of_each_output(random, a, b, c, o, transposed):
    x, bias = numbers(random, a, b, c), numbers(random, o)
    kind = "FCTransposed" if transposed else "FC"
    for axis, inputs in ((1, b * c), (2, c)):
        w = numbers(random, *((inputs, o) if transposed else (o, inputs)))
        expected = slow.fc(x, w, bias, axis, transposed=transposed)
        assert run(kind, [x, w, bias], axis=axis)[0] == pytest.approx(expected, abs=1e-4)
    if not transposed:
        w = numbers(random, o, b, c)
        assert run("FC", [x, w, bias])[0] == pytest.approx(slow.fc(x, w, bias), abs=1e-4)
        split, bias = numbers(random, o, 2, c), numbers(random, 2 * o)  # axis_w = 2: there are o × 2 outputs
        assert run("FC", [x, split, bias], axis=2, axis_w=2)[0] == pytest.approx(
            slow.fc(x, split, bias, 2, 2), abs=1e-4
        )


@few_examples
@given(SEEDS, SIZES, SIZES, st.sampled_from([{}, {"drop_states": 1}, {"forget_bias": 1.25}]))
def test_lstm_unit_keeps_states_where_a_sequence_has_ended(random, n, d, arguments):
    hidden, cell, gates = numbers(random, 1, n, d), numbers(random, 1, n, d), numbers(random, 1, n, 4 * d)
    lengths, time = random.integers(0, 3, n).astype(np.int32), np.array([1], np.int32)
    options = {"drop_states": bool(arguments.get("drop_states", 0)), "forget_bias": arguments.get("forget_bias", 0.0)}
    for outputs, expected in (
        (
            run("LSTMUnit", [hidden, cell, gates, lengths, time], 2, **arguments),
            slow.lstm_unit(hidden, cell, gates, lengths, 1, **options),
        ),
        (
            run("LSTMUnit", [hidden, cell, gates, time], 2, sequence_lengths=0, **arguments),
            slow.lstm_unit(hidden, cell, gates, None, 1, **options),
        ),
    ):
        for output, reference in zip(outputs, expected, strict=True):
            assert output == pytest.approx(reference, abs=1e-5)


@few_examples
@given(SEEDS, SIZES, SIZES, SIZES)
def test_softmax_flattens_the_dimensions_from_its_axis(random, a, b, c):
    x = numbers(random, a, b, c)
    assert run("Softmax", [x])[0] == pytest.approx(slow.softmax(x), abs=1e-5)
    assert run("Softmax", [x], axis=2)[0] == pytest.approx(slow.softmax(x, 2), abs=1e-5)


@few_examples
@given(SEEDS, SIZES, SIZES, SIZES)
def test_arithmetic_supports_legacy_and_numpy_broadcasting(random, a, b, c):
    x = numbers(random, a, b, c)
    functions = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}
    for kind, compute in functions.items():
        for shape, axis in (((b,), 1), ((a, b), 0), ((c,), -1), ((b, c), -1), ((b, c), 1)):
            y = numbers(random, *shape)
            expected = slow.legacy_broadcast(compute, x, y, axis)
            assert run(kind, [x, y], broadcast=1, axis=axis)[0] == pytest.approx(expected, rel=1e-5)
        y = numbers(random, b, 1)
        assert run(kind, [x, y])[0] == pytest.approx(compute(x, y), rel=1e-5)
    assert run("Sum", [x, x, x])[0] == pytest.approx(3 * x, rel=1e-5)


@few_examples
@given(SEEDS, SIZES, SIZES, SIZES)
def test_gather_slice_and_reshape_agree_with_their_definitions(random, a, b, c):
    x = numbers(random, a, b, c)
    index = random.integers(0, b, (2, 3)).astype(np.int32)
    assert np.array_equal(run("Gather", [x, index], axis=1)[0], slow.gather(x, index, 1))
    assert np.array_equal(run("Gather", [x, index % a])[0], slow.gather(x, index % a))
    starts, ends = (0, int(random.integers(0, b)), 0), (-1, b, int(random.integers(0, c)) - c - 1)
    assert np.array_equal(run("Slice", [x], starts=starts, ends=ends)[0], slow.slice_(x, starts, ends))
    for shape in ((0, -1), (-1,), (a * b, 0 * c + c), (1, 0, -1) if b else ()):
        if 0 in shape and shape[:2] == (1, 0):
            shape = (a, 0, -1)
        result, old_shape = run("Reshape", [x], 2, shape=shape)
        assert np.array_equal(result, slow.reshape(x, shape))
        assert old_shape.tolist() == [a, b, c]


@few_examples
@given(SEEDS, SIZES, SIZES, SIZES)
def test_products_and_shapes_agree_with_numpy(random, a, b, c):
    x, y = numbers(random, a, b), numbers(random, b, c)
    expected = pytest.approx(x @ y, abs=1e-4)
    for kind in ("MatMul", "BatchMatMul"):
        assert run(kind, [x, y])[0] == expected
        assert run(kind, [x.T, y], trans_a=1)[0] == expected
        assert run(kind, [x, y.T], trans_b=1)[0] == expected
    joint, sizes = run("Concat", [x, x, x[:, :1]], 2, axis=1)
    assert np.array_equal(joint, np.concatenate((x, x, x[:, :1]), 1))
    assert sizes.tolist() == [b, b, 1]
    assert np.array_equal(run("Concat", [x, x], 2, axis=0, add_axis=1)[0], np.stack((x, x)))
    for pieces in (
        run("Split", [joint], 3, axis=1, split=(b, b, 1)),
        run("Split", [joint, np.array([b, b, 1], np.int32)], 3, axis=1),
    ):
        for piece, part in zip(pieces, (x, x, x[:, :1]), strict=True):
            assert np.array_equal(piece, part)
    assert np.array_equal(run("Split", [np.concatenate((x, x))], 2, axis=0)[1], x)
    assert run("ExpandDims", [x], dims=(0, 2))[0].shape == (1, a, 1, b)
    assert run("Squeeze", [x[None, :, None]], dims=(0, 2))[0].shape == (a, b)
    assert np.array_equal(run("Transpose", [x])[0], x.T)
    assert np.array_equal(run("Transpose", [x[None]], axes=(1, 2, 0))[0], x[:, :, None])
    assert run("Shape", [x])[0].tolist() == [a, b]
    assert run("Cast", [x], to=10)[0].dtype == run("Cast", [x], to="int64")[0].dtype == np.int64


def test_elementwise_functions_agree_with_numpy():
    x = np.linspace(-3, 3, 13, dtype=np.float32)
    for kind, compute in {
        "Sigmoid": lambda v: 1 / (1 + np.exp(-v)), "Tanh": np.tanh, "Relu": lambda v: np.maximum(v, 0), "Exp": np.exp,
        "Negative": np.negative, "Copy": np.array, "Alias": np.array, "StopGradient": np.array,
    }.items():  # fmt: skip
        assert run(kind, [x])[0] == pytest.approx(compute(x), abs=1e-5)
    assert run("Log", [np.exp(x)])[0] == pytest.approx(x, abs=1e-5)
    assert np.array_equal(run("Dropout", [x], 2, is_test=1)[0], x)


def test_constants_are_filled():
    assert run("ConstantFill", [], shape=(2, 3), value=1.5)[0].tolist() == [[1.5] * 3] * 2
    assert run("ConstantFill", [], shape=(2,), value=3)[0].dtype == np.int64
    assert run("ConstantFill", [], shape=(2,), value=3, dtype=2)[0].dtype == np.int32
    assert run("ConstantFill", [np.zeros((2, 3), np.float32)], extra_shape=(4,))[0].shape == (2, 3, 4)
    assert run("ConstantFill", [np.array([5, 6])], input_as_shape=1)[0].shape == (5, 6)
    assert run("GivenTensorIntFill", [], shape=(2,), values=(7, 8))[0].tolist() == [7, 8]
    assert run("GivenTensorInt64Fill", [], shape=(1, 2), values=(7, 8))[0].dtype == np.int64


@pytest.mark.parametrize(
    ("kind", "arrays", "arguments", "reason"),
    [
        ("ConstantFill", [], {"shape": (2**20, 2**20)}, "more than"),
        ("ConstantFill", [], {"shape": (-1,)}, "negative size"),
        ("ConstantFill", [], {"shape": (1,), "dtype": 4}, "dtype 4"),
        ("GivenTensorIntFill", [], {"shape": (2**40,), "values": (1, 2)}, "2 values do not fit the shape"),
        ("Softmax", [np.zeros((2, 2))], {"axis": 5}, "axis 5 is out of range for a tensor with 2 dimensions"),
        ("Split", [np.zeros((2, 3))], {"axis": 1, "split": (1, 1)}, "cannot split a dimension of size 3"),
        (
            "Slice",
            [np.zeros((2, 3))],
            {"starts": (2,), "ends": (1,)},
            "cannot slice from 2 to 1 in a dimension of size 2",
        ),
        (
            "Slice",
            [np.zeros(2)],
            {"starts": (0, 0), "ends": (1, 1)},
            "2 starts and 2 ends do not fit a tensor of shape \[2\]",
        ),
        ("Reshape", [np.zeros(2)], {"shape": (2, 0)}, "copies a dimension that the input"),
        ("Cast", [np.zeros(2)], {"to": 4}, "cannot cast to the unsupported type 4"),
        ("Dropout", [np.zeros(2)], {}, "is_test is not set"),
        ("LSTMUnit", [np.zeros((1, 1, 1))] * 3, {}, "expected 5 inputs, found 3"),
        ("LSTMUnit", [np.zeros((1, 1, 1))] * 5, {}, "do not fit cells of shape"),
    ],
)
def test_errors_name_the_operator(kind, arrays, arguments, reason):
    with pytest.raises(ModelError, match=rf"net.pb: operator 1, {kind}, which computes 'out0': .*{reason}"):
        run(kind, arrays, **arguments)


@pytest.mark.parametrize("kind", ["FC", "FCTransposed"])
def test_an_empty_weight_is_refused_when_used(kind):
    operator = Operator(kind, ("x", "w", "b"), ("y",), {}, "net.pb", 1)
    blobs = {"x": torch.zeros(2, 3), "w": torch.zeros(0, 3), "b": torch.zeros(0)}
    function = runner(operator, blobs)
    with pytest.raises(ModelError, match=rf"operator 1, {kind}, which computes 'y': cannot reshape"):
        _run(operator, blobs, function)
