"""Caffe2 nets: the LSTM in their form, their operators against plain loops, and nets that are refused."""

import dataclasses
import shutil

import numpy as np
import pytest
import reference_caffe2 as slow
from hypothesis import given, settings
from hypothesis import strategies as st

from ninja.errors import ModelError, OptionError, OutputError
from ninja.lattice.symbols import SymbolTable
from ninja.lm import load, sentence_logprobs

torch = pytest.importorskip("torch")

import tiny_lstm  # noqa: E402
from tiny_lstm import one_thread  # noqa: E402, F401

from ninja.lm.imported import caffe2_net, export  # noqa: E402
from ninja.lm.imported.caffe2_net import Argument, Net, Operator, encode  # noqa: E402
from ninja.lm.imported.caffe2_operators import OPERATORS  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections")
INIT, PREDICT = "init_net.pb", "predict_net.pb"


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("caffe2")
    export.to_caffe2(tiny_lstm.CHECKPOINT, folder)
    return folder


@pytest.fixture(scope="module")
def lm(exported):
    return load(exported)


@pytest.fixture
def folder(exported, tmp_path):
    shutil.copytree(exported, tmp_path, dirs_exist_ok=True)
    return tmp_path


def write(folder, init, predict, words=tiny_lstm.WORDS_TXT):
    (folder / INIT).write_bytes(encode(init))
    (folder / PREDICT).write_bytes(encode(predict))
    (folder / "words.txt").write_text(words)


def change(folder, name, **changes):
    net = caffe2_net.read(folder / name)
    (folder / name).write_bytes(encode(dataclasses.replace(net, **changes)))


@pytest.mark.parametrize("max_batch", [None, 1, 2])
def test_the_lstm_as_nets_scores_as_its_definition(exported, max_batch):
    tiny_lstm.scores_as_the_definition(load(exported, max_batch=max_batch))


@settings(max_examples=30)
@given(lattice=tiny_lstm.LATTICES)
def test_rescoring_a_lattice_equals_scoring_its_paths(lm, lattice):
    tiny_lstm.rescores_as_paths_score(lm, lattice)


def test_the_models_of_a_prefix_and_of_a_given_vocabulary_are_opened(folder):
    for name in (INIT, PREDICT):
        (folder / name).rename(folder / f"english_{name}")
    (folder / "words.txt").unlink()
    with pytest.raises(ModelError, match="no vocabulary"):
        load(folder)
    tiny_lstm.scores_as_the_definition(load(folder, words=tiny_lstm.VOCABULARY))


def test_nets_are_read_as_caffe2_itself_would_write_them(folder):
    """The library of protocol buffers writes what a declaration of its own, from caffe2.proto, says."""
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    from google.protobuf import descriptor_pool, message_factory

    kind = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="caffe2.proto", package="caffe2", syntax="proto2")
    declared = {
        "Argument": "name=1:STRING f=2:FLOAT i=3:INT64 s=4:BYTES floats*=5:FLOAT ints*=6:INT64 strings*=7:BYTES",
        "OperatorDef": "input*=1:STRING output*=2:STRING name=3:STRING type=4:STRING arg*=5:Argument",
        "NetDef": "name=1:STRING op*=2:OperatorDef type=3:STRING arg*=6:Argument external_input*=7:STRING "
        "external_output*=8:STRING",
    }
    for name, fields in declared.items():
        message = file.message_type.add(name=name)
        for one in fields.split():
            label, rest = one.split("=")
            number, sort = rest.split(":")
            repeated = kind.LABEL_REPEATED if label.endswith("*") else kind.LABEL_OPTIONAL
            inner = sort in declared
            entry = message.field.add(name=label.rstrip("*"), number=int(number), label=repeated)
            entry.type = kind.TYPE_MESSAGE if inner else getattr(kind, f"TYPE_{sort}")
            if inner:
                entry.type_name = f".caffe2.{sort}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    net_def = message_factory.GetMessageClass(pool.FindMessageTypeByName("caffe2.NetDef"))
    for name in (INIT, PREDICT):
        ours = (folder / name).read_bytes()
        theirs = net_def.FromString(ours)
        for op in theirs.op:
            op.name = "a name that is ignored"
        theirs.type = "dag"
        (folder / name).write_bytes(theirs.SerializeToString())
    assert {op.type for op in theirs.op} == {"Gather", "Concat", "FC", "ExpandDims", "LSTMUnit", "Squeeze", "Copy"}
    tiny_lstm.scores_as_the_definition(load(folder))


def filled(name, values):
    values = np.asarray(values, np.float32)
    return Operator(
        "GivenTensorFill",
        (),
        (name,),
        {"shape": Argument(ints=values.shape), "values": Argument(floats=values.ravel())},
    )


def a_net_in_caffe2s_own_manner(random):
    """An LSTM without projection as rnn_cell.LSTMCell names its step, softmax at its end; and its score in numpy."""
    n, d = tiny_lstm.NUM_WORDS, 4
    e, w, b, o, ob = (random.normal(size=size) for size in ((n, d), (4 * d, 2 * d), 4 * d, (n, d), n))
    h0, c0 = random.normal(size=(2, 1, 1, d))
    init = [filled(*pair) for pair in (("e", e), ("w", w), ("b", b), ("o", o), ("ob", ob))]
    init += [filled("rnn/hidden_t_prev", h0), filled("rnn/cell_t_prev", c0)]
    step = [
        Operator("Gather", ("e", "word"), ("x",), {}),
        Operator("Squeeze", ("rnn/hidden_t_prev",), ("h",), {"dims": Argument(ints=(0,))}),
        Operator("Concat", ("x", "h"), ("xh", "_"), {"axis": Argument(i=1)}),
        Operator("FC", ("xh", "w", "b"), ("g2",), {}),
        Operator("Reshape", ("g2",), ("gates", "_old"), {"shape": Argument(ints=(1, -1, 4 * d))}),
        Operator(
            "LSTMUnit",
            ("rnn/hidden_t_prev", "rnn/cell_t_prev", "gates", "seq_lengths", "timestep"),
            ("rnn/hidden_t", "rnn/cell_t"),
            {"forget_bias": Argument(f=0.5)},
        ),
        Operator(
            "Slice",
            ("rnn/hidden_t",),
            ("all",),
            {"starts": Argument(ints=(0, 0, 0)), "ends": Argument(ints=(-1, -1, -1))},
        ),
        Operator("FC", ("all", "o", "ob"), ("logits3",), {"axis": Argument(i=2)}),
        Operator("Softmax", ("logits3",), ("probability",), {"axis": Argument(i=2)}),
    ]
    inputs = ("word", "seq_lengths", "timestep", "rnn/hidden_t_prev", "rnn/cell_t_prev", "e", "w", "b", "o", "ob")
    outputs = ("probability", "rnn/hidden_t", "rnn/cell_t")

    def score(sentence):
        h, c, total = h0[None, 0], c0[None, 0], 0.0
        for word, target in zip([0, *sentence], [*sentence, 1], strict=True):
            gates = slow.fc(np.concatenate((e[word], h.ravel()))[None], w, b)[None]
            h, c = slow.lstm_unit(h, c, gates, [1], 0, forget_bias=0.5)
            total += np.log(slow.softmax(slow.fc(h[0], o, ob))[0, target])
        return total

    return Net("init", tuple(init)), Net("step", tuple(step), inputs, outputs), score


def test_a_step_net_in_caffe2s_own_names_and_shapes_scores_as_plain_loops(tmp_path):
    init, predict, score = a_net_in_caffe2s_own_manner(np.random.default_rng(3))
    write(tmp_path, init, predict)
    lm = load(tmp_path)
    assert sentence_logprobs(lm, tiny_lstm.SENTENCES) == pytest.approx(
        [score(s) for s in tiny_lstm.SENTENCES], abs=1e-4
    )
    assert lm.normalized is None


def run(kind, arrays, count=1, **arguments):
    """Run an operator; arguments that are tuples are lists of integers."""
    made = {}
    for name, value in arguments.items():
        sort = (
            "ints"
            if isinstance(value, tuple)
            else "s"
            if isinstance(value, str)
            else "f"
            if isinstance(value, float)
            else "i"
        )
        made[name] = Argument(**{sort: value})
    tensors = [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]
    inputs, outputs = (
        tuple(f"{side}{place}" for place in range(n)) for side, n in (("in", len(tensors)), ("out", count))
    )
    results = OPERATORS[kind](Operator(kind, inputs, outputs, made, "net.pb", 1), tensors)
    return [each.numpy() for each in results]


few = settings(max_examples=25)
SEEDS = st.integers(0, 2**31).map(np.random.default_rng)
SIZES = st.integers(1, 4)


def numbers(random, *sizes):
    return random.normal(size=sizes).astype(np.float32)


@few
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
        split, bias = numbers(random, o, 2, c), numbers(random, 2 * o)  # axis_w = 2: the outputs are o × 2
        assert run("FC", [x, split, bias], axis=2, axis_w=2)[0] == pytest.approx(
            slow.fc(x, split, bias, 2, 2), abs=1e-4
        )


@few
@given(SEEDS, SIZES, SIZES, st.sampled_from([{}, {"drop_states": 1}, {"forget_bias": 1.25}]))
def test_lstm_unit_keeps_states_where_a_sequence_has_ended(random, n, d, more):
    hidden, cell, gates = numbers(random, 1, n, d), numbers(random, 1, n, d), numbers(random, 1, n, 4 * d)
    lengths, time = random.integers(0, 3, n).astype(np.int32), np.array([1], np.int32)
    kept = {"drop_states": bool(more.get("drop_states", 0)), "forget_bias": more.get("forget_bias", 0.0)}
    for found, expected in (
        (
            run("LSTMUnit", [hidden, cell, gates, lengths, time], 2, **more),
            slow.lstm_unit(hidden, cell, gates, lengths, 1, **kept),
        ),
        (
            run("LSTMUnit", [hidden, cell, gates, time], 2, sequence_lengths=0, **more),
            slow.lstm_unit(hidden, cell, gates, None, 1, **kept),
        ),
    ):
        for ours, theirs in zip(found, expected, strict=True):
            assert ours == pytest.approx(theirs, abs=1e-5)


@few
@given(SEEDS, SIZES, SIZES, SIZES)
def test_softmax_takes_the_dimensions_from_its_axis_as_one(random, a, b, c):
    x = numbers(random, a, b, c)
    assert run("Softmax", [x])[0] == pytest.approx(slow.softmax(x), abs=1e-5)
    assert run("Softmax", [x], axis=2)[0] == pytest.approx(slow.softmax(x, 2), abs=1e-5)


@few
@given(SEEDS, SIZES, SIZES, SIZES)
def test_arithmetic_broadcasts_in_the_old_way_when_asked_and_as_numpy_else(random, a, b, c):
    x = numbers(random, a, b, c)
    plain = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}
    for kind, compute in plain.items():
        for shape, axis in (((b,), 1), ((a, b), 0), ((c,), -1), ((b, c), -1), ((b, c), 1)):
            y = numbers(random, *shape)
            expected = slow.legacy_broadcast(compute, x, y, axis)
            assert run(kind, [x, y], broadcast=1, axis=axis)[0] == pytest.approx(expected, rel=1e-5)
        y = numbers(random, b, 1)
        assert run(kind, [x, y])[0] == pytest.approx(compute(x, y), rel=1e-5)
    assert run("Sum", [x, x, x])[0] == pytest.approx(3 * x, rel=1e-5)


@few
@given(SEEDS, SIZES, SIZES, SIZES)
def test_gather_slice_and_reshape_move_as_documented(random, a, b, c):
    x = numbers(random, a, b, c)
    where = random.integers(0, b, (2, 3)).astype(np.int32)
    assert np.array_equal(run("Gather", [x, where], axis=1)[0], slow.gather(x, where, 1))
    assert np.array_equal(run("Gather", [x, where % a])[0], slow.gather(x, where % a))
    starts, ends = (0, int(random.integers(0, b)), 0), (-1, b, int(random.integers(0, c)) - c - 1)
    assert np.array_equal(run("Slice", [x], starts=starts, ends=ends)[0], slow.slice_(x, starts, ends))
    for shape in ((0, -1), (-1,), (a * b, 0 * c + c), (1, 0, -1) if b else ()):
        if 0 in shape and shape[:2] == (1, 0):
            shape = (a, 0, -1)
        found, old = run("Reshape", [x], 2, shape=shape)
        assert np.array_equal(found, slow.reshape(x, shape))
        assert old.tolist() == [a, b, c]


@few
@given(SEEDS, SIZES, SIZES, SIZES)
def test_products_and_shapes_agree_with_numpy(random, a, b, c):
    x, y = numbers(random, a, b), numbers(random, b, c)
    expected = pytest.approx(x @ y, abs=1e-4)
    for kind in ("MatMul", "BatchMatMul"):
        assert run(kind, [x, y])[0] == expected
        assert run(kind, [x.T, y], trans_a=1)[0] == expected
        assert run(kind, [x, y.T], trans_b=1)[0] == expected
    both, sizes = run("Concat", [x, x, x[:, :1]], 2, axis=1)
    assert np.array_equal(both, np.concatenate((x, x, x[:, :1]), 1))
    assert sizes.tolist() == [b, b, 1]
    assert np.array_equal(run("Concat", [x, x], 2, axis=0, add_axis=1)[0], np.stack((x, x)))
    for pieces in (
        run("Split", [both], 3, axis=1, split=(b, b, 1)),
        run("Split", [both, np.array([b, b, 1], np.int32)], 3, axis=1),
    ):
        for ours, theirs in zip(pieces, (x, x, x[:, :1]), strict=True):
            assert np.array_equal(ours, theirs)
    assert np.array_equal(run("Split", [np.concatenate((x, x))], 2, axis=0)[1], x)
    assert run("ExpandDims", [x], dims=(0, 2))[0].shape == (1, a, 1, b)
    assert run("Squeeze", [x[None, :, None]], dims=(0, 2))[0].shape == (a, b)
    assert np.array_equal(run("Transpose", [x])[0], x.T)
    assert np.array_equal(run("Transpose", [x[None]], axes=(1, 2, 0))[0], x[:, :, None])
    assert run("Shape", [x])[0].tolist() == [a, b]
    assert run("Cast", [x], to=10)[0].dtype == run("Cast", [x], to="int64")[0].dtype == np.int64


def test_functions_of_one_number_agree_with_numpy():
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
        ("GivenTensorIntFill", [], {"shape": (2**40,), "values": (1, 2)}, "2 values for the shape"),
        ("Softmax", [np.zeros((2, 2))], {"axis": 5}, "axis 5 of a tensor with 2 dimensions"),
        ("Split", [np.zeros((2, 3))], {"axis": 1, "split": (1, 1)}, "cannot split 3"),
        ("Slice", [np.zeros((2, 3))], {"starts": (2,), "ends": (1,)}, "cannot take 2 … 1 of 2"),
        ("Slice", [np.zeros(2)], {"starts": (0, 0), "ends": (1, 1)}, "2 starts and 2 ends for 1 dimensions"),
        ("Reshape", [np.zeros(2)], {"shape": (2, 0)}, "cannot keep sizes"),
        ("Cast", [np.zeros(2)], {"to": 4}, "cannot cast"),
        ("Dropout", [np.zeros(2)], {}, "is_test is not set"),
        ("LSTMUnit", [np.zeros((1, 1, 1))] * 3, {}, "3 inputs, not 5"),
        ("LSTMUnit", [np.zeros((1, 1, 1))] * 5, {}, "there must be four a cell"),
    ],
)
def test_an_operator_that_cannot_run_is_named(kind, arrays, arguments, reason):
    with pytest.raises(ModelError, match=rf"net.pb: operator 1, {kind}, which makes 'out0': .*{reason}"):
        run(kind, arrays, **arguments)


def test_an_unknown_operator_is_named_with_its_place(folder):
    net = caffe2_net.read(folder / PREDICT)
    strange = Operator("RecurrentNetwork", ("word",), ("states",), {})
    change(folder, PREDICT, operators=(*net.operators[:2], strange, *net.operators[2:]))
    with pytest.raises(
        ModelError, match=r"predict_net.pb: operator 3, RecurrentNetwork, .* does not run; it runs Given"
    ):
        load(folder)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"external_input": ("words",)}, "no input `word`; found words; expected word, NAME_prev"),
        ({"external_output": ("hidden_0",)}, "outputs: hidden_0; expected exactly one of logits"),
        (
            {"external_output": ("logits", "hidden_0", "hidden_1", "cell_1")},
            "no output cell_0 or cell_0_t for the state cell_0_prev",
        ),
        ({"external_output": ()}, "outputs: none"),
    ],
)
def test_other_inputs_and_outputs_are_refused(folder, changes, reason):
    change(folder, PREDICT, **changes)
    with pytest.raises(ModelError, match=f"predict_net.pb: {reason}"):
        load(folder)


@pytest.mark.parametrize(
    ("blob", "reason"),
    [
        ("embedding", "inputs that .*init_net.pb does not fill: embedding"),
        ("cell_1_prev", "init_net.pb does not fill the state cell_1_prev"),
    ],
)
def test_what_the_first_net_does_not_fill_is_named(folder, blob, reason):
    net = caffe2_net.read(folder / INIT)
    change(folder, INIT, operators=tuple(each for each in net.operators if each.outputs != (blob,)))
    with pytest.raises(ModelError, match=reason):
        load(folder)


@pytest.mark.parametrize(
    ("blob", "values", "reason"),
    [
        ("bias", [1.0, 2.0], r"FC, which makes 'logits': a bias of \[2\] for 11 outputs"),
        ("gates_0_w", np.zeros((40, 9)), r"FC, which makes 'gates_0': the weight is for 9 inputs, not for \[1, 12\]"),
        (
            "cell_0_prev",
            np.zeros((1, 1, 9)),
            r"LSTMUnit, which makes 'unit_0': gates \[1, 1, 40\] for cells \[1, 1, 9\]",
        ),
    ],
)
def test_weights_that_do_not_fit_are_told_by_operator_and_shapes(folder, blob, values, reason):
    net = caffe2_net.read(folder / INIT)
    change(folder, INIT, operators=tuple(filled(blob, values) if o.outputs == (blob,) else o for o in net.operators))
    with pytest.raises(ModelError, match=f"predict_net.pb: operator [0-9]+, {reason}"):
        load(folder)


def test_what_fails_on_torch_is_told_by_operator_and_inputs(folder):
    net = caffe2_net.read(folder / PREDICT)
    flat = {"dims": Argument(ints=(7,))}
    wrong = (dataclasses.replace(o, arguments=flat) if o.outputs == ("flat_0",) else o for o in net.operators)
    change(folder, PREDICT, operators=tuple(wrong))
    with pytest.raises(ModelError, match=r"operator 6, Squeeze, .*'flat_0': .*\(inputs: unit_0 \[1, 1, 10\]\)"):
        load(folder)
    missing = (dataclasses.replace(o, inputs=("lost",)) if o.outputs == ("flat_0",) else o for o in net.operators)
    change(folder, PREDICT, operators=tuple(missing))
    with pytest.raises(ModelError, match="nothing makes its input 'lost'"):
        load(folder)


def test_a_start_that_is_no_state_is_refused(folder):
    net = caffe2_net.read(folder / INIT)
    wrong = tuple(
        filled("cell_0_prev", np.zeros((1, 2, 10))) if o.outputs == ("cell_0_prev",) else o for o in net.operators
    )
    change(folder, INIT, operators=wrong)
    with pytest.raises(ModelError, match=r"the start of the state cell_0_prev is \[1, 2, 10\]"):
        load(folder)


def test_a_state_of_a_changing_shape_is_refused(tmp_path):
    init, predict, _ = a_net_in_caffe2s_own_manner(np.random.default_rng(3))
    swapped = dataclasses.replace(init, operators=(*init.operators, filled("rnn/cell_t_prev", np.zeros((1, 1, 4)))))
    outputs = Operator("Concat", ("rnn/cell_t", "rnn/cell_t"), ("rnn/cell_t", "_"), {"axis": Argument(i=2)})
    write(tmp_path, swapped, dataclasses.replace(predict, operators=(*predict.operators, outputs)))
    with pytest.raises(ModelError, match=r"the state rnn/cell_t_prev comes back with the shape \[1, 1, 8\]"):
        load(tmp_path)


def test_constants_are_bounded_in_all(folder):
    net = caffe2_net.read(folder / INIT)
    large = tuple(Operator("ConstantFill", (), (f"c{n}",), {"shape": Argument(ints=(2**22,))}) for n in range(5))
    change(folder, INIT, operators=(*net.operators, *large))
    with pytest.raises(ModelError, match=r"c3.*constants in all"):
        load(folder)


def test_every_truncation_is_noticed(folder):
    for name in (INIT, PREDICT):
        whole = (folder / name).read_bytes()
        ends = set()
        for length in range(0, len(whole), max(1, len(whole) // 60)):
            (folder / name).write_bytes(whole[:length])
            with pytest.raises(ModelError) as caught:
                load(folder)
            ends.add(str(caught.value).split(": ")[1][:9])
        assert "truncated" in ends
        (folder / name).write_bytes(whole)


def test_files_that_are_no_nets_are_refused(folder):
    (folder / PREDICT).write_bytes(b"once upon a time")
    with pytest.raises(ModelError, match=r"predict_net.pb: truncated, or no Caffe2 net"):
        load(folder)
    (folder / PREDICT).write_bytes(b"")
    with pytest.raises(ModelError, match="a net without operators"):
        load(folder)
    (folder / PREDICT).write_bytes(b"\x12\x03\x0a\x01x")
    with pytest.raises(ModelError, match="operator 1, : no type, or no output"):
        load(folder)
    (folder / "other_predict_net.pb").write_bytes(b"")
    with pytest.raises(ModelError, match="a directory of unknown kind"):
        load(folder)


def test_a_vocabulary_of_another_size_and_a_wrong_device_are_refused(folder):
    with pytest.raises(ModelError, match="3 words in the vocabulary, but the network scores 11"):
        load(folder, words=SymbolTable.from_words(["<s>", "</s>", "a"]))
    with pytest.raises(OptionError, match="cannot use the device 'nonsense'"):
        load(folder, "nonsense")


def test_nets_cannot_be_written_where_a_file_stands(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot make this directory"):
        export.to_caffe2(tiny_lstm.CHECKPOINT, tmp_path / "file")


def test_a_net_is_read_as_it_was_written(tmp_path):
    operator = Operator("X", ("a",), ("b",), {"v": Argument(1.5, -3, "s", np.array([1, 2], np.float32), (-1, 2**40))})
    (tmp_path / "net.pb").write_bytes(encode(Net("n", (operator,), ("a",), ("b",))))
    net = caffe2_net.read(tmp_path / "net.pb")
    assert (net.name, net.external_input, net.external_output) == ("n", ("a",), ("b",))
    [read] = net.operators
    value = read.arguments["v"]
    assert (read.type, read.inputs, read.outputs, read.number) == ("X", ("a",), ("b",), 1)
    assert (value.f, value.i, value.s, value.floats.tolist(), value.ints) == (1.5, -3, "s", [1, 2], (-1, 2**40))
