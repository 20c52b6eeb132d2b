"""ONNX models that could run code, loop endlessly, or access other memory or files are rejected before loading."""

from pathlib import Path

import numpy as np
import pytest

from ninja.errors import ModelError
from ninja.lm import load, sentence_logprobs
from ninja.lm.imported.onnx_check import OPERATORS

pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402
from tiny_lstm import NUM_WORDS, SENTENCES  # noqa: E402
from tiny_onnx import EMBEDDING, save, value, with_external_weight, write_stateless  # noqa: E402

WORDS_IN = [value("words", ["n", "t"], TensorProto.INT64)]
SCORES_OUT = [value("logits", ["n", "t", NUM_WORDS])]
SUBGRAPH = helper.make_graph([helper.make_node("Identity", ["words"], ["y"])], "body", [], [value("y", None)])


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (helper.make_node("Strange", ["words"], ["logits"], domain="my.own"), r"node 1 '', my\.own\.Strange: Ninja"),
        (helper.make_node("EPContext", ["words"], ["logits"], domain="com.microsoft"), r"com\.microsoft\.EPContext: "),
        (helper.make_node("Gather", ["words"], ["logits"], domain="com.microsoft"), r"com\.microsoft\.Gather: Ninja"),
        (helper.make_node("Loop", ["", "", "words"], ["logits"], name="l", body=SUBGRAPH), "node 1 'l', Loop: Ninja"),
        (helper.make_node("Scan", ["words"], ["logits"], body=SUBGRAPH, num_scan_inputs=1), "Scan: Ninja does not run"),
        (helper.make_node("If", ["w"], ["logits"], then_branch=SUBGRAPH, else_branch=SUBGRAPH), "If: Ninja"),
        (helper.make_node("SequenceAt", ["words", "words"], ["logits"]), "SequenceAt: Ninja does not run"),
        (helper.make_node("Identity", ["words"], ["logits"], x=SUBGRAPH), "the attribute 'x' contains g; only"),
        (helper.make_node("Identity", ["words"], ["logits"], x=[SUBGRAPH]), "the attribute 'x' contains graphs; only"),
        (helper.make_node("OneHot", ["words", "words", "words"], ["logits"]), "OneHot: Ninja does not run"),
        (helper.make_node("Max", ["words", ""], ["logits"]), "Max: an input is missing"),
        (helper.make_node("Split", ["words"], ["logits"], num_outputs=0), "Split: an input is missing, or"),
        (helper.make_node("Split", ["words", "words"], ["logits"], num_outputs=1), "Split: an input is"),
        (
            helper.make_node("Constant", [], ["logits"], sparse_value=helper.make_sparse_tensor(
                helper.make_tensor("v", TensorProto.FLOAT, [1], [1.0]),
                helper.make_tensor("i", TensorProto.INT64, [1], [0]), [2])),
            "Constant: the attribute 'sparse_value' contains sparse_tensor; only",
        ),
    ],
)  # fmt: skip
def test_unlisted_operators_and_subgraphs_are_refused(tmp_path, node, message):
    path = save(tmp_path / "model.onnx", [node], WORDS_IN, SCORES_OUT, domain=node.domain)
    with pytest.raises(ModelError, match=rf"model\.onnx: .*{message}"):
        load(path)


def test_an_attribute_without_a_type_is_refused(tmp_path):
    node = helper.make_node("Identity", ["words"], ["logits"], x=SUBGRAPH)
    node.attribute[0].ClearField("type")
    with pytest.raises(ModelError, match="the attribute 'x' contains g"):
        load(save(tmp_path / "model.onnx", [node], WORDS_IN, SCORES_OUT))


def save_changed_model(path, change):
    """Change and save the model of `write_stateless`."""
    model = onnx.load(write_stateless(path))
    change(model)
    path.write_bytes(model.SerializeToString())
    return path


def function(model):
    node = helper.make_node("Identity", ["x"], ["y"])
    model.functions.append(helper.make_function("f", "F", ["x"], ["y"], [node], [helper.make_opsetid("", 17)]))


def sparse(model):
    values = helper.make_tensor("embedding", TensorProto.FLOAT, [1], [1.0])
    places = helper.make_tensor("places", TensorProto.INT64, [1], [10**12])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [NUM_WORDS, 3]))


def weight(**fields):
    def change(model):
        tensor = model.graph.initializer[0]
        for name, content in fields.items():
            if name == "dims":
                tensor.dims[:] = content
            else:
                setattr(tensor, name, content)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (function, "the model defines the function 'F'; inline functions"),
        (sparse, "the weight 'embedding' is sparse"),
        (lambda model: model.training_info.add(), "the model contains training information"),
        (weight(dims=[2**31, 2**31]), r"the weight 'embedding' has 132 bytes, but its shape needs \d{20}"),
        (weight(dims=[-11, -3]), r"the weight 'embedding' has the shape \[-11, -3\]"),
        (weight(dims=[NUM_WORDS, 4]), "has 132 bytes, but its shape needs 176"),
        (weight(raw_data=b"1234"), "has 4 bytes, but its shape needs 132"),
        (
            weight(data_type=TensorProto.STRING),
            "the weight 'embedding' has the unsupported type STRING; supported types: FLOAT",
        ),
        (weight(data_type=77), "the weight 'embedding' has the unsupported type 77"),
    ],
)
def test_functions_and_inconsistent_weights_are_refused(tmp_path, change, message):
    with pytest.raises(ModelError, match=rf"model\.onnx: .*{message}"):
        load(save_changed_model(tmp_path / "model.onnx", change))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"offset": "4"}, "needs 132 bytes, but is stored in bytes 4 to 136 of 'weights.bin', which has 132"),
        ({"offset": "1" * 19}, "which has 132"),
        ({"offset": "1" * 5000}, "expected a location, offset and length"),
        ({"length": "4"}, "needs 132 bytes, but is stored in bytes 0 to 4"),
        ({"offset": "-4"}, "expected a location, offset and length"),
        ({"address": "4"}, "expected a location, offset and length"),
        ({"location": ""}, "is stored in '', outside the model's directory"),
        ({"location": "absent.bin"}, "in 'absent.bin', which is missing from the model's directory"),
        ({"location": "."}, "in '.', which is missing"),
        ({"location": "weights.bin\0"}, "outside the model's directory"),
    ],
)
def test_incomplete_external_weights_are_refused(tmp_path, entries, message):
    model = with_external_weight(tmp_path / "model.onnx", "weights.bin")
    tensor = next(initializer for initializer in model.graph.initializer if initializer.name == "embedding")
    attributes = {"location": "weights.bin", **entries}
    del tensor.external_data[:]
    for key, text in attributes.items():
        tensor.external_data.add(key=key, value=text)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "weights.bin").write_bytes(EMBEDDING.tobytes())
    with pytest.raises(ModelError, match=f"the weight 'embedding' .*{message}"):
        load(tmp_path / "model.onnx")


def test_a_weight_is_not_read_from_an_address_in_memory(tmp_path):
    """onnxruntime reserves this file name for weights in memory, for which the offset is an address."""
    secret = np.full((NUM_WORDS, 3), 2.5, np.float32)
    model = with_external_weight(tmp_path / "model.onnx", "*/_ORT_MEM_ADDR_/*")
    tensor = next(initializer for initializer in model.graph.initializer if initializer.name == "embedding")
    tensor.external_data.add(key="offset", value=str(secret.ctypes.data))
    tensor.external_data.add(key="length", value=str(secret.nbytes))
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="which is missing from the model's directory"):
        load(tmp_path / "model.onnx")


@pytest.mark.parametrize("name", ["model.ort", "model.json", "model.textproto"])
def test_the_file_name_does_not_determine_the_format(tmp_path, name):
    expected = sentence_logprobs(load(write_stateless(tmp_path / "model.onnx")), SENTENCES)
    assert sentence_logprobs(load(write_stateless(tmp_path / name)), SENTENCES) == pytest.approx(expected)


def test_the_documentation_lists_the_operators():
    page = (Path(__file__).parents[2] / "docs" / "networks.md").read_text()
    operators = page.partition("These standard operators are supported: ")[2].partition(".")[0]
    assert set(operators.replace("\n", " ").split(", ")) == OPERATORS
