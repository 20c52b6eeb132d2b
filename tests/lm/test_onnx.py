"""ONNX models: the exported LSTM, networks with and without a state, and models that are rejected."""

import numpy as np
import pytest
from hypothesis import given, settings

from ninja.errors import DependencyError, ModelError, OptionError
from ninja.lattice.symbols import SymbolTable
from ninja.lm import load, sentence_logprobs

torch = pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")

import tiny_lstm  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402
from tiny_lstm import (  # noqa: E402
    NUM_WORDS,
    SENTENCES,
    WORDS,
)
from tiny_onnx import (  # noqa: E402
    DECAY,
    EMBEDDING,
    LAYERS,
    OUT,
    WIDTH,
    save,
    value,
    with_external_weight,
    write_recurrent,
    write_stateless,
)

from ninja.lm.imported import export  # noqa: E402
from ninja.lm.load import detect_format  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections")


@pytest.fixture(scope="module")
def lstm_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("onnx") / "model.onnx"
    export.to_onnx(tiny_lstm.CHECKPOINT, path)
    return path


@pytest.fixture(scope="module")
def lm(lstm_path):
    return load(lstm_path)


@pytest.mark.parametrize("checkpoint", tiny_lstm.SHAPES.values(), ids=tiny_lstm.SHAPES)
def test_exported_lstms_of_other_shapes_keep_their_scores(tmp_path, checkpoint):
    export.to_onnx(checkpoint, tmp_path / "model.onnx")
    tiny_lstm.check_sentence_scores(load(tmp_path / "model.onnx"), checkpoint.module)


def counting_row(words):
    """Return the expected scores of all words after a history."""
    state = np.zeros((LAYERS, WIDTH))
    for word in words:
        state = DECAY[:, 0] * state + EMBEDDING[word]
    row = np.tanh(state.sum(0)) @ OUT
    row[3] += np.sqrt(len(words))
    return row


def summing_row(words, lengths=False):
    return np.tanh(EMBEDDING[list(words)].sum(0)) @ OUT * (len(words) if lengths else 1)


def expected(row, sentences=SENTENCES, normalize=True, bos=0, eos=1):
    """Return the expected scores of whole sentences."""
    scores = []
    for sentence in sentences:
        total = 0.0
        for time, word in enumerate([*sentence, eos]):
            word_scores = row([bos, *sentence[:time]])
            total += word_scores[word] - (np.log(np.exp(word_scores).sum()) if normalize else 0.0)
        scores.append(total)
    return pytest.approx(scores, abs=1e-4)


@pytest.mark.parametrize("max_batch", [None, 1, 2])
def test_the_exported_lstm_keeps_its_scores(lstm_path, max_batch):
    tiny_lstm.check_sentence_scores(load(lstm_path, max_batch=max_batch))


def test_the_exported_lstm_is_valid_onnx(lstm_path):
    onnx.checker.check_model(onnx.load(lstm_path), full_check=True)
    assert detect_format(lstm_path).name == "an ONNX model"


@settings(max_examples=12)
@given(lattice=tiny_lstm.LATTICES)
def test_rescoring_a_lattice_equals_scoring_its_paths(lm, lattice):
    tiny_lstm.check_path_scores(lm, lattice)


@pytest.mark.parametrize("max_batch", [None, 1])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"column": True},
        {"kind": TensorProto.INT32},
        {"batch": None},
        {"batch": 1},
        {"batch": 4},
        {"names": ("s_prev", "s_next")},
        {"names": ("old_s", "out_s")},
        {"names": ("h0", "hn"), "metadata": {"states": "h0=hn"}},
    ],
)
def test_a_network_with_a_state_is_recognised_by_names_and_shapes(tmp_path, options, max_batch):
    lm = load(write_recurrent(tmp_path / "model.onnx", **options), max_batch=max_batch)
    assert sentence_logprobs(lm, SENTENCES) == expected(counting_row)
    assert lm.num_slots == 0


@pytest.mark.parametrize("max_batch", [None, 1])
@pytest.mark.parametrize("options", [{}, {"lengths": True}, {"batch": 3}])
def test_a_network_without_a_state_reads_the_whole_history(tmp_path, options, max_batch):
    lm = load(write_stateless(tmp_path / "model.onnx", **options), max_batch=max_batch)
    row = (lambda words: summing_row(words, True)) if options.get("lengths") else summing_row
    assert sentence_logprobs(lm, SENTENCES) == expected(row)


def test_log_probabilities_are_not_normalised_by_default(tmp_path):
    for build, row in ((write_recurrent, counting_row), (write_stateless, summing_row)):
        path = build(tmp_path / "model.onnx", score="logprob")
        assert sentence_logprobs(load(path), SENTENCES) == expected(row, normalize=False)
        assert sentence_logprobs(load(path, normalize=True), SENTENCES) == expected(row)
        path = build(tmp_path / "model.onnx")
        assert sentence_logprobs(load(path, normalize=False), SENTENCES) == expected(row, normalize=False)


def test_metadata_define_the_special_words(tmp_path):
    words = [f"w{number}" for number in range(NUM_WORDS - 2)] + ["</s>", "unheard"]
    lm = load(
        write_stateless(tmp_path / "m.onnx", metadata={"words": "\n".join(words), "bos": "</s>", "unk": "unheard"})
    )
    assert (lm.bos, lm.eos, lm.unk) == (NUM_WORDS - 2, NUM_WORDS - 2, NUM_WORDS - 1)
    assert sentence_logprobs(lm, [[2, 3]]) == expected(summing_row, [[2, 3]], bos=lm.bos, eos=lm.eos)


@pytest.mark.parametrize("with_ids", [False, True])
def test_words_in_metadata_may_contain_unicode_spaces(tmp_path, with_ids):
    words = [*WORDS[:-2], "10\N{NO-BREAK SPACE}000", "a\N{IDEOGRAPHIC SPACE}b"]
    lines = [f"{word}\t {number}" if with_ids else word for number, word in enumerate(words)]
    path = write_stateless(tmp_path / "m.onnx", metadata={"words": "\r\n".join(lines)})
    assert load(path).vocabulary == SymbolTable.from_words(words)


def test_the_vocabulary_may_be_in_words_txt_or_an_argument(tmp_path):
    path = write_stateless(tmp_path / "model.onnx")
    model = onnx.load(path)
    del model.metadata_props[:]
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="the model contains no vocabulary"):
        load(path)
    assert load(path, words=tiny_lstm.VOCABULARY).vocabulary == tiny_lstm.VOCABULARY
    (tmp_path / "words.txt").write_text(tiny_lstm.WORDS_TXT)
    assert load(path).vocabulary == tiny_lstm.VOCABULARY
    with pytest.raises(ModelError, match="the vocabulary has 2 words, but the network scores 11"):
        load(path, words=SymbolTable.from_words(["<s>", "</s>"]))


def node(*names, kind="Identity"):
    return helper.make_node(kind, list(names[:-1]), [names[-1]])


I64, F32 = TensorProto.INT64, TensorProto.FLOAT


@pytest.mark.parametrize(
    ("inputs", "outputs", "reason"),
    [
        (
            {"x": ["n"]},
            {"y": "x"},
            r"the inputs are x tensor\(float\) \['n'\] and the outputs y .*; expected `word` \[batch\] and states",
        ),
        ({"word": ["n"], "words": ["n", "t"]}, {"logits": "word"}, "expected `word`"),
        ({"word": ["n"]}, {"y": "word"}, "expected `word`"),
        ({"word": ["n", 3]}, {"logits": "word"}, "expected `word`"),
        ({"word": ["n"], "h": ["n", 2]}, {"logits": "word", "y": "h"}, "the state h has no output, such as new_h"),
        (
            {"word": ["n"], "h": ["n", "k"]},
            {"logits": "word", "new_h": "h"},
            "all dimensions except the batch dimension must be fixed",
        ),
        ({"word": ["n"], "h": [2, 2]}, {"logits": "word", "new_h": "h"}, "has no dimension with the batch size n"),
        (
            {"word": ["n"]},
            {"logits": "word"},
            r"the scores have shape \[1\] for words of shape \[1\], expected \[batch, words\]",
        ),
        ({"words": ["n", 7]}, {"logits": "words"}, "expected `word`"),
        (
            {"words": ["n", "t"]},
            {"logits": "words"},
            r"words of shape \[1, 2\] have shape \[1, 2\], but must have shape \[batch, time, words\]",
        ),
        ({"words": ["n", "t"], "mask": ["n", "t"]}, {"logits": "words"}, "expected `word`"),
    ],
)
def test_unexpected_inputs_and_outputs_are_refused(tmp_path, inputs, outputs, reason):
    path = save(
        tmp_path / "model.onnx",
        [helper.make_node("Cast", [old], [new], to=F32) for new, old in outputs.items()],
        [value(name, shape, I64 if name.startswith("word") else F32) for name, shape in inputs.items()],
        [value(name, None) for name in outputs],
    )
    with pytest.raises(ModelError, match=f"model.onnx: .*{reason}"):
        load(path)


def test_unknown_state_pairs_in_metadata_are_refused(tmp_path):
    with pytest.raises(
        ModelError, match=r"contains 'h=x', but the inputs are state_s, count_in and the outputs new_state_s, count_out"
    ):
        load(write_recurrent(tmp_path / "model.onnx", metadata={"states": "h=x"}))


def test_a_new_state_of_another_shape_is_refused(tmp_path):
    nodes = [
        helper.make_node("Concat", ["h", "h"], ["new_h"], axis=1),
        helper.make_node("Gather", ["e", "word"], ["logits"]),
    ]
    inputs = [value("word", ["n"], I64), value("h", ["n", 2])]
    outputs = [value("logits", ["n", NUM_WORDS]), value("new_h", ["n", 4])]
    path = save(tmp_path / "m.onnx", nodes, inputs, outputs, {"e": np.zeros((NUM_WORDS, NUM_WORDS), np.float32)})
    with pytest.raises(ModelError, match=r"the network returns the state h with shape \[1, 4\]"):
        load(path)


def test_errors_of_onnxruntime_are_reported(tmp_path):
    path = write_stateless(tmp_path / "model.onnx", metadata={"words": "\n".join([*WORDS, "one-too-many"])})
    with pytest.raises(ModelError, match="the vocabulary has 12 words, but the network scores 11"):
        load(path)
    nodes = [helper.make_node("Gather", ["e", "words"], ["logits"])]  # the embedding has a single row
    save(path, nodes, [value("words", ["n", "t"], I64)], [value("logits", ["n", "t", NUM_WORDS])], {"e": OUT[:1]})
    lm = load(path)
    with pytest.raises(ModelError, match=r"onnxruntime cannot run this model: .*indices"):
        sentence_logprobs(lm, [[5]])


def test_onnxruntime_out_of_memory_raises_memory_error(tmp_path):
    nodes = [
        helper.make_node("Shape", ["word"], ["num"]),
        helper.make_node("Mul", ["num", "many"], ["size"]),
        helper.make_node("ConstantOfShape", ["size"], ["zeros"]),
        helper.make_node("ReduceSum", ["zeros"], ["logits"], keepdims=0),
    ]
    inputs = [value("word", ["batch"], I64)]
    path = save(tmp_path / "m.onnx", nodes, inputs, [value("logits", [])], {"many": np.array([10**15])})
    with pytest.raises(MemoryError, match="allocate"):
        load(path)


def test_weights_in_a_separate_file_are_read(tmp_path):
    model = with_external_weight(tmp_path / "model.onnx", "weights.bin")
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "weights.bin").write_bytes(EMBEDDING.tobytes())
    assert sentence_logprobs(load(tmp_path / "model.onnx"), SENTENCES) == expected(summing_row)


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/passwd", "inner/../../weights.bin", "link.bin"])
def test_weights_outside_the_models_directory_are_refused(tmp_path, location):
    (tmp_path / "weights.bin").write_bytes(EMBEDDING.tobytes())
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link.bin").symlink_to(tmp_path / "weights.bin")
    model = with_external_weight(folder / "model.onnx", location)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=r"the weight 'embedding' is stored in .*, outside the model's directory"):
        load(folder / "model.onnx")


def test_constants_outside_the_models_directory_are_refused(tmp_path):
    tensor = with_external_weight(tmp_path / "model.onnx", "../w.bin").graph.initializer[0]
    assert tensor.name == "embedding"
    constant = helper.make_node("Constant", [], ["c"], value=tensor)
    model = helper.make_model(helper.make_graph([constant], "g", [], []), ir_version=8)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="outside the model's directory"):
        load(tmp_path / "model.onnx")


def test_every_truncation_is_refused(tmp_path, lstm_path):
    content = lstm_path.read_bytes()
    path = tmp_path / "broken.onnx"
    for length in range(3, len(content), len(content) // 50):
        path.write_bytes(content[:length])
        with pytest.raises(ModelError, match=r"broken.onnx(: |, byte )"):
            load(path)


def test_a_device_that_onnxruntime_lacks_is_refused(lstm_path):
    with pytest.raises(OptionError, match="'nonsense' is not a device"):
        load(lstm_path, "nonsense")
    with pytest.raises(OptionError, match="the installed onnxruntime cannot use the device 'mps'"):
        load(lstm_path, "mps")
    with pytest.raises(OptionError, match="max_batch is 0"):
        load(lstm_path, max_batch=0)


def test_missing_onnxruntime_is_reported(lstm_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(DependencyError, match=r"an ONNX model needs onnxruntime, .*pip install onnxruntime"):
        load(lstm_path)


def test_the_output_name_selects_the_format_of_a_conversion(tmp_path, ninja):
    from ninja.lm import checkpoint

    source = tmp_path / "model.pt"
    checkpoint.save(checkpoint.Checkpoint(tiny_lstm.MODULE, WORDS, {"unk_words": 77}), source)
    scores = sentence_logprobs(load(source), SENTENCES)
    for output in (f"{tmp_path}/model.onnx", f"{tmp_path}/nets/"):
        assert ninja("lm", "convert", source, "-o", output)[0] == 0
        assert sentence_logprobs(load(output), SENTENCES) == pytest.approx(scores, abs=1e-4)
        assert load(output).unk_words == 77
    code, _, stderr = ninja("lm", "convert", source, "-o", tmp_path / "other.bin")
    assert code == 1
    assert "cannot be converted to" in stderr
    code, _, stderr = ninja("lm", "convert", tmp_path / "model.onnx", "-o", tmp_path / "x.onnx")
    assert code == 1


def test_only_lstms_are_exported(tmp_path):
    from ninja.lm.checkpoint import Checkpoint

    with pytest.raises(ModelError, match="only Ninja's LSTM can be exported"):
        export.to_onnx(Checkpoint(torch.nn.Linear(1, 1), WORDS, {}), tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []
