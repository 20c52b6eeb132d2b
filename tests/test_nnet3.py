"""Kaldi's nnet3 networks: random small ones, binary and text, run step by step against a slow twin."""

import nnet3_writer as writer
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from reference_nnet3 import Twin
from strategies_nnet3 import DIM, KINDS, Builder, networks, reals

torch = pytest.importorskip("torch")

from ninja.lm.compute import linear  # noqa: E402
from ninja.lm.kaldi import nnet3  # noqa: E402
from ninja.lm.kaldi.rnnlm import _lstm_cell  # noqa: E402
from ninja.models.nnet3 import Network  # noqa: E402
from ninja.models.nnet3_operations import Kernels  # noqa: E402


@torch.inference_mode()
def run(graph, inputs, kernels=None):
    """Step through sentences side by side, float32 [sentences, time, dim]."""
    network = Network(graph, kernels=kernels)
    row = torch.zeros(len(inputs), network.width)
    outputs = []
    for time in range(inputs.shape[1]):
        before = row.clone()
        after = torch.cat(network.step(row, torch.from_numpy(inputs[:, time].copy())), 1)
        assert torch.equal(row, before), "a step has changed the state it came from"
        row = after
        outputs.append(row[:, : network.output_dim].clone())
    return torch.stack(outputs, 1).numpy()


def parsed(tmp_path, content):
    (tmp_path / "final.raw").write_bytes(content)
    return nnet3.read(tmp_path / "final.raw")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("nnet3")


@settings(max_examples=150)
@given(networks(), st.booleans())
def test_steps_agree_with_the_twin_over_sentences(folder, network, binary):
    lines, components = network
    inputs = np.random.default_rng(len(lines)).normal(size=(3, 5, DIM)).astype(np.float32)
    found = parsed(folder, writer.network(lines, components, binary))
    outputs = run(found.graph, inputs, Kernels(linear, _lstm_cell))
    expected = np.array([Twin(lines, components, sentence).outputs() for sentence in inputs])
    assume(np.abs(expected).max() < 1e4)  # products that feed themselves soon leave what float32 can hold
    assert outputs == pytest.approx(expected, rel=2e-3, abs=2e-4)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=4)
@given(data=st.data())
def test_each_component_agrees_with_the_twin(folder, kind, data):
    builder = Builder(data.draw(st.integers(0, 99)))
    builder.add(data.draw, kind=kind)
    lines = [*builder.lines, f"output-node name=output input={builder.nodes[-1]}"]
    inputs = np.random.default_rng(1).normal(size=(2, 4, DIM)).astype(np.float32)
    outputs = run(parsed(folder, writer.network(lines, builder.components)).graph, inputs)
    expected = [Twin(lines, builder.components, sentence).outputs() for sentence in inputs]
    assert outputs == pytest.approx(np.array(expected), rel=1e-3, abs=1e-4)


def test_nothing_is_computed_that_the_output_does_not_need(tmp_path):
    lines = [
        "input-node name=input dim=2",
        "component-node name=a component=c input=Sum(input, IfDefined(Offset(input, -1)))",
        "component-node name=unused component=c input=Sum(a, IfDefined(Offset(unused, -9)))",
        "dim-range-node name=r input-node=a dim-offset=1 dim=1",
        "output-node name=output input=r",
    ]
    graph = parsed(tmp_path, writer.network(lines, {"c": ("TanhComponent", {"<Dim>": 2})})).graph
    assert [node.name for node in graph.nodes] == ["a", "r", "output"]
    assert Network(graph).width == 1 + 2  # the output, and the input of the step before


def lstm_layer():
    """Kaldi's older ``lstm-layer``, each gate of which is a node, as it wires it."""
    builder = Builder(7)
    cells = 3
    for gate in "ifoc":
        weights = builder.affine(cells, DIM + cells)
        builder.node(weights, "Append(input, IfDefined(Offset(l.m_trunc, -1)))", f"l.W_{gate}")
    before = "IfDefined(Offset(l.c_trunc, -1))"
    for gate, cell in (("i", before), ("f", before), ("o", "l.c")):
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


def test_an_lstm_of_single_gates_agrees_with_the_twin(tmp_path):
    lines, components = lstm_layer()
    inputs = np.random.default_rng(2).normal(size=(2, 6, DIM)).astype(np.float32)
    outputs = run(parsed(tmp_path, writer.network(lines, components)).graph, inputs)
    expected = [Twin(lines, components, sentence).outputs() for sentence in inputs]
    assert outputs == pytest.approx(np.array(expected), rel=1e-4, abs=1e-5)
