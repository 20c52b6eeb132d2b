"""Small ONNX networks with and without a state."""

import numpy as np
import pytest
from tiny_lstm import NUM_WORDS, WORDS

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

RANDOM = np.random.default_rng(5)
WIDTH, LAYERS = 3, 2
EMBEDDING = RANDOM.normal(size=(NUM_WORDS, WIDTH)).astype(np.float32)
DECAY = RANDOM.uniform(0.2, 0.9, (LAYERS, 1, WIDTH)).astype(np.float32)
OUT = RANDOM.normal(size=(WIDTH, NUM_WORDS)).astype(np.float32)


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def save(path, nodes, inputs, outputs, weights=None, metadata=None, domain=""):
    tensors = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    versions = [helper.make_opsetid("", 17)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    model = helper.make_model(graph, ir_version=8, opset_imports=versions)
    helper.set_model_props(model, {"words": "\n".join(WORDS), **(metadata or {})})
    path.write_bytes(model.SerializeToString())
    return path


def write_recurrent(
    path, *, batch="batch", names=("state_s", "new_state_s"), column=False, kind=TensorProto.INT64, **model_options
):
    """Write a recurrent network: s = decay · s + embedding(word), layers × batch × width; scores from their sum.

    Its second state is an integer that counts words, and adds its square root to the score of word 3.
    """
    score = model_options.pop("score", "logits")
    old, new = names
    nodes = [
        helper.make_node("Reshape", ["word", "flat"], ["word1"]),
        helper.make_node("Gather", ["embedding", "word1"], ["x"]),
        helper.make_node("Mul", [old, "decay"], ["kept"]),
        helper.make_node("Add", ["kept", "x"], [new]),
        helper.make_node("ReduceSum", [new, "axis0"], ["sum"], keepdims=0),
        helper.make_node("Tanh", ["sum"], ["squashed"]),
        helper.make_node("MatMul", ["squashed", "out"], ["plain"]),
        helper.make_node("Add", ["count_in", "one"], ["count_out"]),
        helper.make_node("Cast", ["count_out"], ["counted"], to=TensorProto.FLOAT),
        helper.make_node("Sqrt", ["counted"], ["root"]),
        helper.make_node("Mul", ["root", "third"], ["more"]),
        helper.make_node("Add", ["plain", "more"], [score if not column else "flat_score"]),
    ]
    weights = {
        "embedding": EMBEDDING, "decay": DECAY, "out": OUT, "flat": np.array([-1]), "axis0": np.array([0]),
        "one": np.array([[1]], np.int32), "third": (np.arange(NUM_WORDS) == 3).astype(np.float32)[None],
    }  # fmt: skip
    if column:
        nodes.append(helper.make_node("Unsqueeze", ["flat_score", "one64"], [score]))
        weights["one64"] = np.array([1])
    inputs = [
        value("word", [batch, 1] if column else [batch], kind),
        value(old, [LAYERS, batch, WIDTH]),
        value("count_in", [batch, 1], TensorProto.INT32),
    ]
    outputs = [
        value(new, [LAYERS, batch, WIDTH]),
        value(score, [batch, 1, NUM_WORDS] if column else [batch, NUM_WORDS]),
        value("count_out", [batch, 1], TensorProto.INT32),
    ]
    return save(path, nodes, inputs, outputs, weights, **model_options)


def with_external_weight(path, location):
    model = onnx.load(write_stateless(path))
    weight = next(tensor for tensor in model.graph.initializer if tensor.name == "embedding")
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location)
    return model


def write_stateless(path, *, lengths=False, score="logits", batch="batch", **model_options):
    """Write a network without a state: the running sum of embeddings, times the number of words if lengths are
    given."""
    nodes = [
        helper.make_node("Gather", ["embedding", "words"], ["x"]),
        helper.make_node("CumSum", ["x", "axis1"], ["sum"]),
        helper.make_node("Tanh", ["sum"], ["squashed"]),
        helper.make_node("MatMul", ["squashed", "out"], ["plain" if lengths else score]),
    ]
    weights = {"embedding": EMBEDDING, "out": OUT, "axis1": np.array(1)}
    inputs = [value("words", [batch, "time"], TensorProto.INT64)]
    if lengths:
        nodes += [
            helper.make_node("Cast", ["lengths"], ["real"], to=TensorProto.FLOAT),
            helper.make_node("Reshape", ["real", "column"], ["real3"]),
            helper.make_node("Mul", ["plain", "real3"], [score]),
        ]
        weights["column"] = np.array([-1, 1, 1])
        inputs.append(value("lengths", [batch], TensorProto.INT64))
    return save(path, nodes, inputs, [value(score, [batch, "time", NUM_WORDS])], weights, **model_options)
