"""Caffe2 nets: LSTMs in the form that Caffe2 writes, and nets that are rejected."""

import dataclasses
import shutil

import numpy as np
import pytest
import reference_caffe2 as slow
from hypothesis import given, settings

from ninja.errors import ModelError, OptionError, OutputError
from ninja.lattice.symbols import SymbolTable
from ninja.lm import load, sentence_logprobs

torch = pytest.importorskip("torch")

import tiny_lstm  # noqa: E402

from ninja.lm.imported import caffe2_net, export  # noqa: E402
from ninja.lm.imported.caffe2_net import Net, Operator, encode  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections")
INIT, PREDICT = "init_net.pb", "predict_net.pb"


@pytest.fixture(scope="module")
def nets_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("caffe2")
    export.to_caffe2(tiny_lstm.CHECKPOINT, folder)
    return folder


@pytest.fixture(scope="module")
def lm(nets_folder):
    return load(nets_folder)


@pytest.fixture
def folder(nets_folder, tmp_path):
    shutil.copytree(nets_folder, tmp_path, dirs_exist_ok=True)
    return tmp_path


def write(folder, init, predict, words=tiny_lstm.WORDS_TXT):
    (folder / INIT).write_bytes(encode(init))
    (folder / PREDICT).write_bytes(encode(predict))
    (folder / "words.txt").write_text(words)


def change(folder, name, **changes):
    net = caffe2_net.read(folder / name)
    (folder / name).write_bytes(encode(dataclasses.replace(net, **changes)))


@pytest.mark.parametrize("max_batch", [None, 1, 2])
def test_exported_nets_give_the_scores_of_the_lstm(nets_folder, max_batch):
    tiny_lstm.check_sentence_scores(load(nets_folder, max_batch=max_batch))


@pytest.mark.parametrize("checkpoint", tiny_lstm.SHAPES.values(), ids=tiny_lstm.SHAPES)
def test_exported_lstms_of_other_shapes_keep_their_scores(tmp_path, checkpoint):
    export.to_caffe2(checkpoint, tmp_path / "nets")
    tiny_lstm.check_sentence_scores(load(tmp_path / "nets"), checkpoint.module)


@settings(max_examples=12)
@given(lattice=tiny_lstm.LATTICES)
def test_rescoring_a_lattice_equals_scoring_its_paths(lm, lattice):
    tiny_lstm.check_path_scores(lm, lattice)


def test_nets_with_a_prefix_and_a_separate_vocabulary_are_loaded(folder):
    for name in (INIT, PREDICT):
        (folder / name).rename(folder / f"english_{name}")
    (folder / "words.txt").unlink()
    with pytest.raises(ModelError, match="no vocabulary"):
        load(folder)
    tiny_lstm.check_sentence_scores(load(folder, words=tiny_lstm.VOCABULARY))


def test_nets_serialized_by_protobuf_are_read(folder):
    """The protobuf library writes the files, with messages declared as in caffe2.proto."""
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    from google.protobuf import descriptor_pool, message_factory

    descriptor = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="caffe2.proto", package="caffe2", syntax="proto2")
    message_fields = {
        "Argument": "name=1:STRING f=2:FLOAT i=3:INT64 s=4:BYTES floats*=5:FLOAT ints*=6:INT64 strings*=7:BYTES",
        "OperatorDef": "input*=1:STRING output*=2:STRING name=3:STRING type=4:STRING arg*=5:Argument",
        "NetDef": "name=1:STRING op*=2:OperatorDef type=3:STRING arg*=6:Argument external_input*=7:STRING "
        "external_output*=8:STRING",
    }
    for name, fields in message_fields.items():
        message = file.message_type.add(name=name)
        for field in fields.split():
            field_name, field_type = field.split("=")
            number, type_name = field_type.split(":")
            field_label = descriptor.LABEL_REPEATED if field_name.endswith("*") else descriptor.LABEL_OPTIONAL
            is_message = type_name in message_fields
            entry = message.field.add(name=field_name.rstrip("*"), number=int(number), label=field_label)
            entry.type = descriptor.TYPE_MESSAGE if is_message else getattr(descriptor, f"TYPE_{type_name}")
            if is_message:
                entry.type_name = f".caffe2.{type_name}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    net_def = message_factory.GetMessageClass(pool.FindMessageTypeByName("caffe2.NetDef"))
    for name in (INIT, PREDICT):
        content = (folder / name).read_bytes()
        message_net = net_def.FromString(content)
        for op in message_net.op:
            op.name = "a name that is ignored"
        message_net.type = "dag"
        (folder / name).write_bytes(message_net.SerializeToString())
    assert {op.type for op in message_net.op} == {"Gather", "Concat", "FC", "ExpandDims", "LSTMUnit", "Squeeze", "Copy"}
    tiny_lstm.check_sentence_scores(load(folder))


def fill_operator(name, values):
    values = np.asarray(values, np.float32)
    return Operator(
        "GivenTensorFill",
        (),
        (name,),
        {"shape": values.shape, "values": values.ravel()},
    )


def rnn_cell_nets(random):
    """Return an LSTM without projection, with softmax and the names of rnn_cell.LSTMCell, and a NumPy function that
    scores sentences."""
    n, d = tiny_lstm.NUM_WORDS, 4
    e, w, b, o, ob = (random.normal(size=size) for size in ((n, d), (4 * d, 2 * d), 4 * d, (n, d), n))
    h0, c0 = random.normal(size=(2, 1, 1, d))
    init = [fill_operator(*pair) for pair in (("e", e), ("w", w), ("b", b), ("o", o), ("ob", ob))]
    init += [fill_operator("rnn/hidden_t_prev", h0), fill_operator("rnn/cell_t_prev", c0)]
    step = [
        Operator("Gather", ("e", "word"), ("x",), {}),
        Operator("Squeeze", ("rnn/hidden_t_prev",), ("h",), {"dims": (0,)}),
        Operator("Concat", ("x", "h"), ("xh", "_"), {"axis": 1}),
        Operator("FC", ("xh", "w", "b"), ("g2",), {}),
        Operator("Reshape", ("g2",), ("gates", "_old"), {"shape": (1, -1, 4 * d)}),
        Operator(
            "LSTMUnit",
            ("rnn/hidden_t_prev", "rnn/cell_t_prev", "gates", "seq_lengths", "timestep"),
            ("rnn/hidden_t", "rnn/cell_t"),
            {"forget_bias": 0.5},
        ),
        Operator(
            "Slice",
            ("rnn/hidden_t",),
            ("all",),
            {"starts": (0, 0, 0), "ends": (-1, -1, -1)},
        ),
        Operator("FC", ("all", "o", "ob"), ("logits3",), {"axis": 2}),
        Operator("Softmax", ("logits3",), ("probability",), {"axis": 2}),
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


def test_an_rnn_cell_step_net_agrees_with_plain_loops(tmp_path):
    init, predict, score = rnn_cell_nets(np.random.default_rng(3))
    write(tmp_path, init, predict)
    lm = load(tmp_path)
    assert sentence_logprobs(lm, tiny_lstm.SENTENCES) == pytest.approx(
        [score(s) for s in tiny_lstm.SENTENCES], abs=1e-4
    )
    assert lm.normalized is None


def test_an_unknown_operator_is_reported_with_its_position(folder):
    net = caffe2_net.read(folder / PREDICT)
    operator = Operator("RecurrentNetwork", ("word",), ("states",), {})
    change(folder, PREDICT, operators=(*net.operators[:2], operator, *net.operators[2:]))
    with pytest.raises(
        ModelError,
        match=r"predict_net.pb: operator 3, RecurrentNetwork, .* this operator "
        r"is not supported; supported operators: Given",
    ):
        load(folder)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"external_input": ("words",)},
            "the input 'word' is missing; the inputs are words, but must be word, NAME_prev",
        ),
        ({"external_output": ("hidden_0",)}, "the outputs are hidden_0; expected exactly one of logits"),
        (
            {"external_output": ("logits", "hidden_0", "hidden_1", "cell_1")},
            "the state cell_0_prev has no output cell_0 or cell_0_t; add its new value to the outputs",
        ),
        ({"external_output": ()}, "the outputs are none"),
    ],
)
def test_unexpected_inputs_and_outputs_are_refused(folder, changes, reason):
    change(folder, PREDICT, **changes)
    with pytest.raises(ModelError, match=f"predict_net.pb: {reason}"):
        load(folder)


@pytest.mark.parametrize(
    ("blob", "reason"),
    [
        ("embedding", "init_net.pb does not fill the inputs embedding"),
        ("cell_1_prev", "init_net.pb does not fill the state cell_1_prev"),
    ],
)
def test_blobs_missing_from_the_init_net_are_reported(folder, blob, reason):
    net = caffe2_net.read(folder / INIT)
    change(folder, INIT, operators=tuple(operator for operator in net.operators if operator.outputs != (blob,)))
    with pytest.raises(ModelError, match=reason):
        load(folder)


@pytest.mark.parametrize(
    ("blob", "values", "reason"),
    [
        (
            "bias",
            [1.0, 2.0],
            r"FC, which computes 'logits': the bias has shape \[2\] and type torch.float32, but must have shape \[11\]",
        ),
        (
            "gates_0_w",
            np.zeros((40, 9)),
            r"FC, which computes 'gates_0': the weight has 9 inputs, but the input \[1, 12\]",
        ),
        (
            "cell_0_prev",
            np.zeros((1, 1, 9)),
            r"LSTMUnit, which computes 'unit_0': gates of shape \[1, 1, 40\] do not fit cells of shape \[1, 1, 9\]",
        ),
    ],
)
def test_errors_of_weight_shapes_name_the_operator(folder, blob, values, reason):
    net = caffe2_net.read(folder / INIT)
    change(
        folder, INIT, operators=tuple(fill_operator(blob, values) if o.outputs == (blob,) else o for o in net.operators)
    )
    with pytest.raises(ModelError, match=f"predict_net.pb: operator [0-9]+, {reason}"):
        load(folder)


def test_failures_of_torch_name_the_operator_and_inputs(folder):
    net = caffe2_net.read(folder / PREDICT)
    arguments = {"dims": (7,)}
    operators = (dataclasses.replace(o, arguments=arguments) if o.outputs == ("flat_0",) else o for o in net.operators)
    change(folder, PREDICT, operators=tuple(operators))
    with pytest.raises(ModelError, match=r"operator 6, Squeeze, .*'flat_0': .*\(inputs: unit_0 \[1, 1, 10\]\)"):
        load(folder)
    operators = (dataclasses.replace(o, inputs=("lost",)) if o.outputs == ("flat_0",) else o for o in net.operators)
    change(folder, PREDICT, operators=tuple(operators))
    with pytest.raises(ModelError, match="its input 'lost' is neither an output of an earlier operator"):
        load(folder)


def test_an_initial_state_of_wrong_shape_is_refused(folder):
    net = caffe2_net.read(folder / INIT)
    operators = tuple(
        fill_operator("cell_0_prev", np.zeros((1, 2, 10))) if o.outputs == ("cell_0_prev",) else o
        for o in net.operators
    )
    change(folder, INIT, operators=operators)
    with pytest.raises(ModelError, match=r"the initial state cell_0_prev has shape \[1, 2, 10\]"):
        load(folder)


def test_a_state_that_changes_its_shape_is_refused(tmp_path):
    init, predict, _ = rnn_cell_nets(np.random.default_rng(3))
    zero_init = dataclasses.replace(
        init, operators=(*init.operators, fill_operator("rnn/cell_t_prev", np.zeros((1, 1, 4))))
    )
    outputs = Operator("Concat", ("rnn/cell_t", "rnn/cell_t"), ("rnn/cell_t", "_"), {"axis": 2})
    write(tmp_path, zero_init, dataclasses.replace(predict, operators=(*predict.operators, outputs)))
    with pytest.raises(ModelError, match=r"the network returns the state rnn/cell_t_prev with shape \[1, 1, 8\]"):
        load(tmp_path)


def test_the_total_size_of_constants_is_limited(folder):
    net = caffe2_net.read(folder / INIT)
    constants = tuple(Operator("ConstantFill", (), (f"c{n}",), {"shape": (2**22,)}) for n in range(5))
    change(folder, INIT, operators=(*net.operators, *constants))
    with pytest.raises(ModelError, match=r"c3.*constant values"):
        load(folder)


def test_every_truncation_is_refused(folder):
    for name in (INIT, PREDICT):
        content = (folder / name).read_bytes()
        ends = set()
        for length in range(0, len(content), max(1, len(content) // 60)):
            (folder / name).write_bytes(content[:length])
            with pytest.raises(ModelError) as caught:
                load(folder)
            ends.add(str(caught.value).split(": ")[1][:21])
        assert "the file is truncated" in ends
        (folder / name).write_bytes(content)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"once upon a time", r"predict_net.pb: the file is truncated or is not a Caffe2 net"),
        (b"", "the file has no operators"),
        (b"\x12\x03\x0a\x01x", "operator 1, : the operator has no type or no output"),
    ],
)
def test_files_that_are_not_nets_are_refused(folder, content, reason):
    (folder / PREDICT).write_bytes(content)
    with pytest.raises(ModelError, match=reason):
        load(folder)


def test_a_directory_with_two_predict_nets_is_refused(folder):
    (folder / f"other_{PREDICT}").write_bytes(b"")
    with pytest.raises(ModelError, match="a directory of an unknown format"):
        load(folder)


def test_wrong_vocabulary_size_and_device_are_refused(folder):
    with pytest.raises(ModelError, match="the vocabulary has 3 words, but the network scores 11"):
        load(folder, words=SymbolTable.from_words(["<s>", "</s>", "a"]))
    with pytest.raises(OptionError, match="cannot use the device 'nonsense'"):
        load(folder, "nonsense")


def test_nets_cannot_replace_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot create this directory"):
        export.to_caffe2(tiny_lstm.CHECKPOINT, tmp_path / "file")


def test_writing_and_reading_a_net_restores_it(tmp_path):
    arguments = {"f": 1.5, "i": -3, "s": "s", "floats": np.array([1, 2], np.float32), "ints": (-1, 2**40)}
    operator = Operator("X", ("a",), ("b",), arguments)
    (tmp_path / "net.pb").write_bytes(encode(Net("n", (operator,), ("a",), ("b",))))
    net = caffe2_net.read(tmp_path / "net.pb")
    assert (net.name, net.external_input, net.external_output) == ("n", ("a",), ("b",))
    [result] = net.operators
    assert (result.type, result.inputs, result.outputs, result.number) == ("X", ("a",), ("b",), 1)
    assert result.arguments.pop("floats").tolist() == arguments.pop("floats").tolist()
    assert result.arguments == arguments
