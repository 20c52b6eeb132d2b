"""Archives of torch.export.save: read without torch's own reader, run, refused."""

import json
import warnings
import zipfile

import pytest
from hypothesis import given, settings

from ninja.errors import ModelError, OptionError
from ninja.lm import from_module, load, sentence_logprobs

torch = pytest.importorskip("torch")

import tiny_lstm  # noqa: E402
from test_torch_module import Attention, Flat, rewrite  # noqa: E402
from tiny_lstm import (  # noqa: E402
    EMBEDDING,
    HIDDEN,
    LAYERS,
    MODULE,
    SENTENCES,
    VOCABULARY,
    WORDS_TXT,
    one_thread,  # noqa: F401
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:LSTM with projections"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The tensor attributes"),
]


def export(module, inputs, shapes, path, **extra):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(module.eval(), inputs, dynamic_shapes=shapes)
        torch.export.save(
            program, str(path), extra_files={name.replace("_txt", ".txt"): text for name, text in extra.items()}
        )
    return path


def flat_inputs(batch):
    return (
        torch.zeros(batch, dtype=torch.int64),
        torch.zeros(LAYERS, batch, EMBEDDING),
        torch.zeros(LAYERS, batch, HIDDEN),
    )


@pytest.fixture(scope="module")
def stateful(tmp_path_factory):
    batch = torch.export.Dim("batch")
    path = tmp_path_factory.mktemp("export") / "model.pt2"
    return export(Flat(), flat_inputs(3), ({0: batch}, {1: batch}, {1: batch}), path, words_txt=WORDS_TXT)


@pytest.fixture(scope="module")
def stateless(tmp_path_factory):
    batch, time = torch.export.Dim("batch"), torch.export.Dim("time")
    path = tmp_path_factory.mktemp("export") / "model.pt2"
    words = torch.zeros(2, 3, dtype=torch.int64)
    return export(Attention(), (words,), ({0: batch, 1: time},), path, words_txt=WORDS_TXT)


@pytest.mark.parametrize("max_batch", [None, 1])
def test_an_exported_program_scores_as_its_definition(stateful, max_batch):
    tiny_lstm.scores_as_the_definition(load(stateful, max_batch=max_batch))


def test_an_exported_program_of_a_fixed_batch_is_run_in_such_batches(tmp_path):
    lm = load(export(Flat(), flat_inputs(3), None, tmp_path / "model.pt2"), words=VOCABULARY)
    tiny_lstm.scores_as_the_definition(lm)


@torch.inference_mode()
def test_an_exported_program_without_a_state_scores_as_its_module(stateless):
    lm = from_module(Attention(), VOCABULARY)
    exact = [
        float(Attention()(torch.tensor([[0, *s]]))[0].log_softmax(-1)[range(len(s) + 1), [*s, 1]].sum())
        for s in SENTENCES
    ]
    for max_batch in (None, 1):
        assert sentence_logprobs(load(stateless, max_batch=max_batch), SENTENCES) == pytest.approx(exact, abs=1e-4)
    assert sentence_logprobs(lm, SENTENCES) == pytest.approx(exact, abs=1e-4)


@settings(max_examples=15)
@given(lattice=tiny_lstm.LATTICES)
def test_rescoring_with_an_exported_program_equals_scoring_paths(stateful, lattice):
    tiny_lstm.rescores_as_paths_score(load(stateful), lattice)


class Harmful:
    def __reduce__(self):
        return (print, ("code of the file ran",))


def test_no_pickle_of_an_archive_is_opened(tmp_path, stateful, capsys):
    import io

    pickled = io.BytesIO()
    torch.save(Harmful(), pickled)

    def poison(name, content):
        return pickled.getvalue() if name.endswith(".pt") else content

    tiny_lstm.scores_as_the_definition(load(rewrite(stateful, tmp_path / "model.pt2", poison)))

    def pickle_weights(name, content):
        return content.replace(b'"use_pickle": false', b'"use_pickle": true') if "weights_config" in name else content

    with pytest.raises(ModelError, match=r"the weight .* is pickled, or of an unknown type; Ninja unpickles nothing"):
        load(rewrite(stateful, tmp_path / "model.pt2", pickle_weights))
    assert capsys.readouterr().out == ""


def edit(stateful, path, function, member="/models/"):
    """Change an archive's JSON."""

    def change(name, content):
        if member not in name or not name.endswith(".json"):
            return content
        model = json.loads(content)
        function(model)
        return json.dumps(model).encode()

    return rewrite(stateful, path, change)


def graph(model):
    return model["graph_module"]["graph"]


@pytest.mark.parametrize(
    "target",
    ["torch.os.system", "os.system", "torch.ops.aten.save.default", "torch.ops.aten.from_file.default", "builtins.eval",
     "torch.ops.aten.linear.other", "torch.ops.aten.nothing.default", "_operator.attrgetter",
     "torch.ops.prims.add.default", "torch.ops.aten.linear.default.x", "torch.ops.aten.__class__.default"],
)  # fmt: skip
def test_operators_that_are_not_torchs_own_are_refused_by_name(tmp_path, stateful, target):
    path = edit(stateful, tmp_path / "model.pt2", lambda model: graph(model)["nodes"][0].update(target=target))
    with pytest.raises(ModelError, match=f"model.pt2: the operator '{target}' is none that Ninja runs"):
        load(path)


def test_expressions_in_an_archive_are_not_evaluated(tmp_path, stateful):
    def poison(model):
        for tensor in graph(model)["tensor_values"].values():
            for size in tensor["sizes"]:
                if "as_expr" in size:
                    size["as_expr"]["expr_str"] = "open('touched', 'w')"

    lm = load(edit(stateful, tmp_path / "model.pt2", poison))  # it is a name of the batch like any other
    tiny_lstm.scores_as_the_definition(lm)


def without(name):
    return lambda model: model.pop(name)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: m["schema_version"].update(major=7), "version 7 of torch.export's archives; Ninja reads version 8"),
        (without("graph_module"), "not as torch.export writes it .*graph_module"),
        (lambda m: graph(m)["outputs"].pop(), r"inputs .*, 2 outputs; expected \(word \[batch\], states …\)"),
        (lambda m: graph(m)["nodes"].pop(), "its graph uses 'linear' before it is made"),
        (lambda m: graph(m)["nodes"][0]["inputs"].reverse(), "torch.ops.aten.embedding.default fails: "),
        (lambda m: graph(m)["nodes"][0]["inputs"][0].update(arg={"as_graph": {}}), "an argument as_graph"),
        (
            lambda m: graph(m)["tensor_values"]["hidden"]["sizes"].__setitem__(1, {"as_int": 6}),
            "no dimension for a batch",
        ),
        (lambda m: m["graph_module"]["signature"]["output_specs"][0].update(buffer_mutation={}), "changes its buffers"),
        (
            lambda m: m["graph_module"]["signature"]["input_specs"][0]["parameter"].update(parameter_name="lost"),
            "needs the parameter 'lost', which is not in the archive",
        ),
    ],
)
def test_a_damaged_graph_is_refused(tmp_path, stateful, change, reason):
    with pytest.raises(ModelError, match=f"model.pt2: .*({reason})"):
        load(edit(stateful, tmp_path / "model.pt2", change))


@pytest.mark.parametrize(
    "change",
    [
        {"sizes": [{"as_int": 12}, {"as_int": 6}]},
        {"storage_offset": {"as_int": 1}},
        {"storage_offset": {"as_int": -1}},
        {"strides": [{"as_int": -6}, {"as_int": 1}]},
        {"sizes": [{"as_int": 2**40}, {"as_int": 6}], "strides": [{"as_int": 0}, {"as_int": 0}]},
    ],
)
def test_weights_that_want_more_than_their_bytes_are_refused(tmp_path, stateful, change):
    def enlarge(model):
        model["config"]["stepping.module.embedding.weight"]["tensor_meta"].update(change)

    with pytest.raises(ModelError, match=r"'stepping.module.embedding.weight' needs more than its 264 bytes"):
        load(edit(stateful, tmp_path / "model.pt2", enlarge, "weights_config"))


def test_a_truncated_archive_is_noticed(tmp_path, stateful):
    whole = bytearray(stateful.read_bytes())
    path = tmp_path / "model.pt2"
    for length in range(100, len(whole), len(whole) // 20):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelError, match=r"truncated or damaged|holds more than weights"):  # it has a zip inside
            load(path)
    weights = MODULE.embedding.weight.detach().numpy().tobytes()
    whole[whole.index(weights) + 5] ^= 1
    path.write_bytes(whole)
    with pytest.raises(ModelError, match=r"truncated or damaged archive .*CRC"):
        load(path)


def test_an_archive_of_two_programs_and_a_wrong_device_are_refused(tmp_path, stateful):
    with zipfile.ZipFile(stateful) as old:
        name = next(name for name in old.namelist() if "/models/" in name)
        model = old.read(name)
    path = rewrite(stateful, tmp_path / "model.pt2", lambda _, content: content)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name.replace("model.json", "other.json"), model)
    with pytest.raises(ModelError, match="2 programs in one archive"):
        load(path)
    with pytest.raises(OptionError, match="cannot use the device 'nonsense'"):
        load(stateful, "nonsense")
