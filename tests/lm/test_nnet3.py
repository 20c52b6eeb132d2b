"""Kaldi's nnet3 networks: small random ones agree with a slow implementation, damaged ones are rejected."""

import nnet3_writer as writer
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from reference_nnet3 import Twin
from strategies_nnet3 import DIM, KINDS, Builder, networks, reals

from ninja.errors import FormatError, NinjaError

torch = pytest.importorskip("torch")

from ninja.lm.compute import linear  # noqa: E402
from ninja.lm.kaldi import nnet3  # noqa: E402
from ninja.lm.kaldi.array_operations import LIBRARY, OPERATIONS  # noqa: E402
from ninja.lm.kaldi.torch_rnnlm import _lstm_cell  # noqa: E402
from ninja.models.nnet3 import Network  # noqa: E402
from ninja.models.nnet3_operations import Kernels, library  # noqa: E402


@torch.inference_mode()
def run(graph, inputs, kernels=None):
    """Process sentences in parallel step by step, float32 [sentences, time, dim]."""
    network = Network(graph, library(kernels=kernels))
    row = torch.zeros(len(inputs), network.width)
    outputs = []
    for time in range(inputs.shape[1]):
        old_row = row.clone()
        new_row = torch.cat(network.step(row, torch.from_numpy(inputs[:, time].copy())), 1)
        assert torch.equal(row, old_row), "a step changed its input state"
        row = new_row
        outputs.append(row[:, : network.output_dim].clone())
    return torch.stack(outputs, 1).numpy()


def run_on_numpy(graph, inputs):
    """Process sentences as `run`, with the NumPy backend."""
    network = Network(graph, LIBRARY)
    row = np.zeros((len(inputs), network.width), np.float32)
    outputs = []
    for time in range(inputs.shape[1]):
        old_row = row.copy()
        new_row = np.concatenate(network.step(row, inputs[:, time].copy()), 1)
        assert np.array_equal(row, old_row), "a step changed its input state"
        row = new_row
        outputs.append(row[:, : network.output_dim].copy())
    return np.stack(outputs, 1)


def parse(tmp_path, content):
    (tmp_path / "final.raw").write_bytes(content)
    return nnet3.read(tmp_path / "final.raw")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("nnet3")


@given(networks(), st.booleans())
def test_steps_agree_with_the_slow_twin_over_sentences(folder, network, binary):
    lines, components = network
    inputs = np.random.default_rng(len(lines)).normal(size=(3, 5, DIM)).astype(np.float32)
    model = parse(folder, writer.network(lines, components, binary))
    outputs = run(model.graph, inputs, Kernels(linear, _lstm_cell))
    expected = np.array([Twin(lines, components, sentence).outputs() for sentence in inputs])
    assume(np.abs(expected).max() < 1e4)  # recurrent products soon overflow float32
    assert run_on_numpy(model.graph, inputs) == pytest.approx(expected, rel=2e-3, abs=2e-4)
    assert outputs == pytest.approx(expected, rel=2e-3, abs=2e-4)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=4)
@given(data=st.data())
def test_each_component_agrees_with_the_slow_twin(folder, kind, data):
    builder = Builder(data.draw(st.integers(0, 99)))
    builder.add(data.draw, kind=kind)
    affine = builder.node(builder.affine(DIM, DIM), builder.nodes[-1])  # reads the component's output in memory
    lines = [*builder.lines, f"output-node name=output input=Sum({affine}, {builder.nodes[-1]})"]
    inputs = np.random.default_rng(1).normal(size=(2, 4, DIM)).astype(np.float32)
    graph = parse(folder, writer.network(lines, builder.components)).graph
    outputs = run(graph, inputs)
    expected = [Twin(lines, builder.components, sentence).outputs() for sentence in inputs]
    assert run_on_numpy(graph, inputs) == pytest.approx(np.array(expected), rel=1e-3, abs=1e-4)
    assert outputs == pytest.approx(np.array(expected), rel=1e-3, abs=1e-4)


def test_unused_nodes_are_not_computed(tmp_path):
    lines = [
        "input-node name=input dim=2",
        "component-node name=a component=c input=Sum(input, IfDefined(Offset(input, -1)))",
        "component-node name=unused component=c input=Sum(a, IfDefined(Offset(unused, -9)))",
        "dim-range-node name=r input-node=a dim-offset=1 dim=1",
        "output-node name=output input=r",
    ]
    graph = parse(tmp_path, writer.network(lines, {"c": ("TanhComponent", {"<Dim>": 2})})).graph
    assert [node.name for node in graph.nodes] == ["a", "r", "output"]
    assert Network(graph, LIBRARY).width == 1 + 2  # the output, and the input of the previous step


def lstm_layer():
    """Return the old ``lstm-layer`` of Kaldi, in which each gate is a node."""
    builder = Builder(7)
    cells = 3
    for gate in "ifoc":
        weights = builder.affine(cells, DIM + cells)
        builder.node(weights, "Append(input, IfDefined(Offset(l.m_trunc, -1)))", f"l.W_{gate}")
    old_cell = "IfDefined(Offset(l.c_trunc, -1))"
    for gate, cell in (("i", old_cell), ("f", old_cell), ("o", "l.c")):
        scale = builder.component("NaturalGradientPerElementScale", Params=reals(builder.random, cells))
        builder.node(scale, cell, f"l.w_{gate}c")
        builder.node(builder.component("Sigmoid", Dim=cells), f"Sum(l.W_{gate}, l.w_{gate}c)", f"l.{gate}")
    product = builder.component("ElementwiseProduct", InputDim=2 * cells, OutputDim=cells)
    builder.node(builder.component("Tanh", Dim=cells), "l.W_c", "l.g")
    builder.node(product, "Append(l.f, IfDefined(Offset(l.c_trunc, -1)))", "l.c1")
    builder.node(product, "Append(l.i, l.g)", "l.c2")
    builder.node(builder.component("NoOp", Dim=cells), "Sum(l.c1, l.c2)", "l.c")
    builder.node(builder.component("Tanh", Dim=cells), "l.c", "l.h")
    builder.node(product, "Append(l.o, l.h)", "l.m")
    for name in ("c", "m"):
        builder.node(builder.component("BackpropTruncation", Dim=cells, Scale=0.9), f"l.{name}", f"l.{name}_trunc")
    last = builder.node(builder.affine(DIM, cells), "l.m")
    return [*builder.lines, f"output-node name=output input={last} objective=linear"], builder.components


def test_an_lstm_of_single_gates_agrees_with_the_slow_twin(tmp_path):
    lines, components = lstm_layer()
    inputs = np.random.default_rng(2).normal(size=(2, 6, DIM)).astype(np.float32)
    graph = parse(tmp_path, writer.network(lines, components)).graph
    expected = [Twin(lines, components, sentence).outputs() for sentence in inputs]
    for outputs in (run(graph, inputs), run_on_numpy(graph, inputs)):
        assert outputs == pytest.approx(np.array(expected), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("binary", [True, False])
def test_every_truncation_is_refused(tmp_path, binary):
    content = writer.network(LINES, COMPONENTS, binary).rstrip(b"\n")
    assert parse(tmp_path, content).graph.output_dim == 2
    for length in range(len(content)):
        with pytest.raises(FormatError, match=r"final.raw(:\d+)?, byte \d+: "):
            parse(tmp_path, content[:length])


@settings(max_examples=40)
@given(st.booleans(), st.data())
def test_damage_raises_a_ninja_error_or_is_harmless(folder, binary, data):
    content = bytearray(writer.network(LINES, COMPONENTS, binary))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        model = parse(folder, bytes(content))
    except NinjaError:
        return
    network = Network(model.graph, library())
    network.step(torch.zeros(1, network.width), torch.zeros(1, network.input_dim))


LINES = [
    "input-node name=input dim=2",
    "component-node name=a component=a input=Append(input, IfDefined(Offset(input, -1)))",
    "component-node name=b component=b input=a",
    "dim-range-node name=r input-node=b dim-offset=1 dim=2",
    "output-node name=output input=r objective=linear",
]
COMPONENTS = {
    "a": ("AffineComponent", {"<LinearParams>": np.ones((3, 4), "<f4"), "<BiasParams>": np.ones(3, "<f4")}),
    "b": ("TanhComponent", {"<Dim>": 3, "<Count>": 2.0}),
}


def with_line(place, line):
    return [line if number == place else old_line for number, old_line in enumerate(LINES)]


def with_descriptor(descriptor):
    return with_line(2, f"component-node name=b component=b input={descriptor}")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["nonsense", *LINES], r":2, byte \d+: a configuration line has the unknown type 'nonsense'"),
        (
            [*LINES, "component name=x type=NoOpComponent dim=3"],
            r":7, byte \d+: components are configured in this file",
        ),
        (with_line(0, "input-node name=ivector dim=2"), "no input-node with the name 'input'"),
        (with_line(4, "output-node name=out input=r"), "no output-node with the name 'output'"),
        ([*LINES, LINES[1]], "'a' is malformed or occurs twice"),
        (
            with_line(1, "component-node name=a component=z input=input"),
            r":3, byte \d+: there is no component with the name 'z'",
        ),
        (with_line(1, "component-node name=a component=a"), "the component-node has no input="),
        (
            with_line(0, "input-node name=input dim=2000000000"),
            "dim of the input-node is 2000000000, but must be in \\[1, 1048576\\]",
        ),
        (with_line(0, "input-node name=input dim=-2"), "dim of the input-node is -2, but"),
        (
            with_line(3, "dim-range-node name=r input-node=b dim-offset=2 dim=2"),
            "columns 2 to 3 are selected from a node that has 3",
        ),
        (with_line(1, "component-node name=a component=a input=input"), "a needs an input of width 4, but gets 2"),
        (with_descriptor("Sum(a, input)"), "different or implausible widths: 2, 3"),
        (with_descriptor("Sum(a, Const(1.0, 2000000000))"), "a descriptor contains the implausible number 2000000000"),
        (with_descriptor("Const(1.0, 20000000)"), "different or implausible widths: 20000000"),
        (with_descriptor("z"), "there is no node with the name 'z'"),
        (with_descriptor("output"), "there is no node with the name 'output'"),
        (with_descriptor("Sum(a, b)"), "the node b depends on itself at the same step"),
        (with_descriptor("Offset(a, -1)"), "b needs words before the first; put IfDefined around its Offset"),
        (with_descriptor("Sum(a, IfDefined(Offset(a, 1)))"), "b needs a word 1 steps later"),
        (with_descriptor("Sum(a, IfDefined(Offset(a, -101)))"), "b needs the word 101 steps earlier; at most 100"),
        (with_descriptor("Sum(a, IfDefined(Offset(a, -1e300)))"), "a descriptor contains the implausible number"),
        (with_descriptor("Sum(a, IfDefined(Offset(a, -1.5)))"), "expected an integer in a descriptor, found -1.5"),
        (with_descriptor("IfDefined(Sum(Offset(a, -1), Offset(a, -2)))"), "whose terms begin at different steps"),
        (with_descriptor("IfDefined(Sum(Offset(a, -1), Const(1, 3)))"), "whose terms begin at different steps"),
        (
            with_descriptor("Failover(a, a)"),
            "the descriptor Failover is not supported; supported descriptors: Append, Sum, IfDefined",
        ),
        (with_descriptor("Switch(a, a)"), "the descriptor Switch is not supported"),
        (with_descriptor("Sum(a"), "a descriptor is incomplete"),
        (with_descriptor("Sum(a, )"), "expected a descriptor, found '\\)'"),
        (with_descriptor("a a"), "unexpected 'a' after the end of a descriptor"),
        (with_descriptor("Scale(x, a)"), "expected a number in a descriptor, found 'x'"),
        (with_descriptor("Sum(Append(a, a), a)"), "a Sum adds Appends of different lengths"),
        (with_descriptor("Sum(Const(1, 3), Const(1, 2))"), "constants of different widths"),
        (with_descriptor("IfDefined(" * 60 + "a" + ")" * 60), "descriptors are nested more than 50 levels deep"),
        (
            [
                *with_descriptor("Sum(a, IfDefined(Offset(c, -1)))"),
                "component-node name=c component=b input=Const(1, 3)",
            ],
            "b needs an earlier value of c, which does not depend on the input",
        ),
        ([*with_descriptor("Sum(a, i)"), "input-node name=i dim=3"], "the network has a second input, i"),
    ],
)
def test_an_invalid_configuration_is_refused_with_its_line(tmp_path, lines, message):
    with pytest.raises(FormatError, match=message):
        parse(tmp_path, writer.network(lines, COMPONENTS, binary=False))


MATRIX, VECTOR = np.ones((3, 4), "<f4"), np.ones(3, "<f4")


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (
            "BlockAffineComponent",
            {},
            "a \\(BlockAffineComponent\\): this type is not supported; supported types: Affine",
        ),
        ("AffineComponent", {"<BiasParams>": VECTOR}, "<LinearParams> is missing"),
        ("AffineComponent", {"<LinearParams>": MATRIX, "<BiasParams>": np.ones(2, "<f4")}, "2 biases for 3 rows"),
        (
            "AffineComponent",
            {"<LinearParams>": VECTOR, "<BiasParams>": VECTOR},
            "<LinearParams> is not a non-empty matrix",
        ),
        ("AffineComponent", {"<LinearParams>": MATRIX * np.nan, "<BiasParams>": VECTOR}, "contains NaN or infinity"),
        ("TdnnComponent", {"<TimeOffsets>": [-1, 0], "<LinearParams>": MATRIX}, "the component reads words other than"),
        ("LstmNonlinearityComponent", {"<Params>": np.ones((4, 2), "<f4")}, "4 rows instead of 3"),
        ("LstmNonlinearityComponent", {"<Params>": MATRIX, "<UseDropout>": True}, "dropout masks as input"),
        ("GruNonlinearityComponent", {"<w_h>": MATRIX}, "more columns than rows"),
        ("TanhComponent", {"<Dim>": 2**30}, "<Dim> is 1073741824, but must be in \\[1, 1048576\\]"),
        ("TanhComponent", {"<Dim>": True}, "<Dim> is not an integer"),
        ("NormalizeComponent", {"<Dim>": 4, "<BlockDim>": 3}, "the width 4 is not a multiple of the block size 3"),
        ("NormalizeComponent", {"<Dim>": 4, "<TargetRms>": -1.0}, "<TargetRms> is -1.0"),
        ("NormalizeComponent", {"<Dim>": 4, "<AddLogStddev>": 4}, "<AddLogStddev> is neither T nor F"),
        (
            "BatchNormComponent",
            {"<Dim>": 3, "<StatsMean>": VECTOR, "<StatsVar>": VECTOR},
            "the statistics of 3 columns are missing",
        ),
        ("ScaleAndOffsetComponent", {"<Dim>": 4, "<Scales>": VECTOR, "<Offsets>": VECTOR}, "3 scales and 3 offsets"),
        ("BackpropTruncationComponent", {"<Dim>": 3, "<Scale>": float("inf")}, "<Scale> is not finite"),
        ("ElementwiseProductComponent", {"<InputDim>": 5, "<OutputDim>": 2}, "the input width 5 is not a multiple"),
        ("SumGroupComponent", {"<Sizes>": [2, -1]}, "a group has -1 columns"),
        (
            "SumGroupComponent",
            {"<Sizes>": [2**30, 2**30]},
            "the input width 2147483648 or output width 2 is implausible",
        ),
        ("PermuteComponent", {"<ColumnMap>": [0, 0]}, "not a permutation"),
    ],
)
@pytest.mark.parametrize("binary", [True, False])
def test_an_invalid_component_is_refused_with_its_name(tmp_path, kind, fields, message, binary):
    with pytest.raises(FormatError, match=message):
        parse(tmp_path, writer.network(LINES, {"a": (kind, fields)}, binary))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\0B<TransitionModel> ", "not an nnet3 network: <Nnet3> is missing at the start; specify final.raw"),
        (b"\0B<Nnet3> \n\n<NumComponents> \4\xff\xff\xff\x7f", "the file ends where a token is expected"),
        (b"\0B<Nnet3> \n\n<NumComponents> T", "byte 28: expected a number, found the byte 0x54"),
        (b"<Nnet3> \n\n<NumComponents> many ", r":3, byte \d+: expected an integer"),
        (b"<Nnet3> \n\n<NumComponents> 1 <ComponentName> a <Tanh> ", "expected the type of component a, found"),
        (b"<Nnet3> \n\n<NumComponents> 1 <ComponentName> a <TanhComponent> <Dim> 3 </Tanh> ", "expected a field of"),
    ],
)
def test_a_file_that_is_not_a_network_is_refused_with_the_position(tmp_path, content, message):
    with pytest.raises(FormatError, match=message):
        parse(tmp_path, content)


def test_numpy_has_the_operations_of_torch():
    from ninja.models import nnet3_operations

    assert set(OPERATIONS) == set(nnet3_operations.OPERATIONS)
