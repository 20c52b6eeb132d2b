"""Model files: they are read as written; damaged files and other file types are rejected with a reason."""

import gzip
import io
import os
import pickle
import zipfile

import numpy as np
import pytest
from nested import change

from ninja.errors import ModelError, OptionError
from ninja.lm import load, sentence_logprobs

torch = pytest.importorskip("torch")

from ninja.lm import checkpoint  # noqa: E402
from ninja.lm.checkpoint import Checkpoint  # noqa: E402
from ninja.models.lstm import Config, LSTMLanguageModel  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections")

WORDS = ["<s>", "</s>", "<unk>", "a", "b", "ça"]


@pytest.fixture
def module():
    torch.manual_seed(0)
    module = LSTMLanguageModel(Config(len(WORDS), embedding=4, hidden=6, layers=2, dropout=0.1))
    module.initialise()
    return checkpoint.as_stored(module)


@pytest.fixture
def path(tmp_path, module):
    checkpoint.save(Checkpoint(module, WORDS, {"seed": 1}), tmp_path / "model.pt")
    return tmp_path / "model.pt"


@pytest.fixture
def content(path):
    return torch.load(path, weights_only=True)


def test_writing_and_reading_a_checkpoint_restores_it(path, module):
    stored = checkpoint.read(path)
    assert stored.words == WORDS
    assert stored.card == {"seed": 1}
    assert stored.module.config == module.config
    assert not stored.module.training
    word = torch.tensor([[0], [3], [5]])
    torch.testing.assert_close(stored.module(word), module(word))


@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (7, 40)])
def test_int8_weights_are_rounded_to_steps_of_their_row(tmp_path, shape):
    torch.manual_seed(shape[1])
    words = [*WORDS[:3], *(f"w{number}" for number in range(shape[0]))]
    module = LSTMLanguageModel(Config(len(words), embedding=shape[1], hidden=shape[1] + 1, layers=1, normaliser=3))
    with torch.no_grad():
        for weight in module.parameters():
            weight.normal_(std=0.3)
        module.embedding.weight[2] = 0.0
        module.embedding.weight[0] *= 1e-6
    checkpoint.save(Checkpoint(module, words, {}, "int8"), tmp_path / "model.pt")
    stored = checkpoint.read(tmp_path / "model.pt")
    assert stored.storage == "int8"
    for name, weight in module.state_dict().items():
        expected = weight.half().double()
        if weight.dim() == 2:
            for number, row in enumerate(weight.double()):
                step = max(map(abs, row.tolist())) / 127
                expected[number] = torch.tensor([step * round(x / step) if step else 0.0 for x in row.tolist()])
        stored_weight = stored.module.state_dict()[name].double()
        torch.testing.assert_close(stored_weight, expected, rtol=1e-6, atol=1e-12)
        torch.testing.assert_close(checkpoint.as_stored(module, "int8").state_dict()[name].double(), stored_weight)
    checkpoint.save(stored, tmp_path / "again.pt")
    second_state = checkpoint.read(tmp_path / "again.pt").module.state_dict()
    torch.testing.assert_close(second_state, dict(stored.module.state_dict()), rtol=1e-6, atol=0)


@pytest.mark.parametrize("storage", ["half", "int8"])
@pytest.mark.parametrize(
    "sizes", [{"hidden": 8, "projection": 4}, {"hidden": 6}, {"hidden": 4}, {"hidden": 4, "projection": 3}]
)
def test_stored_lstms_of_other_shapes_keep_their_scores(tmp_path, sizes, storage):
    module = LSTMLanguageModel(Config(len(WORDS), embedding=6, **sizes))
    module.initialise()
    checkpoint.save(Checkpoint(module, WORDS, {}, storage), tmp_path / "model.pt")
    stored = checkpoint.read(tmp_path / "model.pt").module
    assert stored.config == module.config
    for name, weight in checkpoint.as_stored(module, storage).state_dict().items():
        assert torch.equal(stored.state_dict()[name], weight)
    with torch.inference_mode():
        logprob = stored.logits(stored(torch.tensor([[0], [3], [4]]))[:, 0]).log_softmax(-1)
    expected = float(logprob[0, 3] + logprob[1, 4] + logprob[2, 1])
    assert sentence_logprobs(load(tmp_path / "model.pt"), [[3, 4]]) == pytest.approx([expected], abs=1e-4)


def test_an_int8_checkpoint_is_smaller_and_has_version_2(tmp_path, module):
    module = LSTMLanguageModel(Config(len(WORDS), embedding=100, hidden=300, layers=2))
    for storage in ("half", "int8"):
        checkpoint.save(Checkpoint(module, WORDS, {}, storage), tmp_path / f"{storage}.pt")
    half_size, int8_size = ((tmp_path / f"{storage}.pt").stat().st_size for storage in ("half", "int8"))
    assert int8_size < 0.55 * half_size
    assert [torch.load(tmp_path / f"{name}.pt", weights_only=True)["version"] for name in ("half", "int8")] == [1, 2]


@pytest.mark.parametrize(
    ("scale", "reason"),
    [
        (None, "embedding.weight is of type int8"),
        (
            torch.ones(5),
            "weights are missing or unexpected: embedding.weight.scale|embedding.weight is of type int8",
        ),
        (torch.full((6,), float("inf")), "embedding.weight.scale contains NaN"),
        ([1.0] * 6, "embedding.weight.scale is not a tensor"),
    ],
)
def test_int8_weights_without_valid_scales_are_refused(tmp_path, module, scale, reason):
    path = tmp_path / "model.pt"
    checkpoint.save(Checkpoint(module, WORDS, {}, "int8"), path)
    content = torch.load(path, weights_only=True)
    torch.save(change(content, "state", "embedding.weight.scale", to=scale), path)
    with pytest.raises(ModelError, match=reason):
        load(path)


def test_weights_that_are_not_finite_are_not_stored_as_int8(tmp_path, module):
    with torch.no_grad():
        module.embedding.weight[3, 1] = float("nan")
    with pytest.raises(ModelError, match=r"weight embedding\.weight is not finite: the training diverged"):
        checkpoint.save(Checkpoint(module, WORDS, {}, "int8"), tmp_path / "model.pt")


def test_a_loaded_model_has_its_vocabulary(path):
    lm = load(path)
    assert [lm.vocabulary.word(number) for number in range(len(WORDS))] == WORDS
    assert (lm.bos, lm.eos, lm.unk) == (0, 1, 2)
    assert np.isfinite(lm.logprob(lm.start(1), np.array([5], np.int32))).all()


def test_options_reach_the_model(path):
    with pytest.raises(OptionError, match="max_batch"):
        load(path, max_batch=0)
    with pytest.raises(OptionError, match="device"):
        load(path, "nonsense")


def test_equal_models_give_identical_files(tmp_path, path, module):
    os.mkdir(tmp_path / "again")
    checkpoint.save(Checkpoint(module, WORDS, {"seed": 1}), tmp_path / "again" / "model.pt")
    assert (tmp_path / "again" / "model.pt").read_bytes() == path.read_bytes()


def test_a_diverged_model_is_not_written(tmp_path, module):
    with torch.no_grad():
        module.bias[3] = 1e6
    with pytest.raises(ModelError, match="bias is not finite in half precision"):
        checkpoint.save(Checkpoint(module, WORDS, {}), tmp_path / "model.pt")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "an empty file"),
        (pickle.dumps({"format": "ninja-lm"}), "a pickle"),
        (b"once upon a time\n", "a text file"),
        (gzip.compress(b"once"), "a gzip file"),
        (b"\x7fELF\0\0", "a program"),
        (b"u1 \0B\xd6\xfd\xb2\x7e", "a Kaldi archive of lattices"),
    ],
)
def test_errors_name_the_detected_file_type(tmp_path, content, reason):
    (tmp_path / "file.pt").write_bytes(content)
    with pytest.raises(
        ModelError, match=f"file.pt: this is {reason}.*, not a language model; specify a Ninja checkpoint"
    ):
        load(tmp_path / "file.pt")


def test_a_compressed_checkpoint_is_refused(tmp_path, path):
    (tmp_path / "model.gz").write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(ModelError, match="this is a Ninja checkpoint compressed with gzip; decompress it"):
        load(tmp_path / "model.gz")


def test_the_load_error_names_the_type_of_an_object_that_is_not_a_weight(tmp_path):
    torch.save({"format": "ninja-lm", "state": torch.nn.Linear(1, 1)}, tmp_path / "file.pt")
    message = (
        r"file.pt: the file contains an object of the type torch.nn.modules.linear.Linear; Ninja loads "
        r"only files of weights, because other files may run code"
    )
    with pytest.raises(ModelError, match=message):
        load(tmp_path / "file.pt")


def test_a_directory_and_a_missing_file_have_different_messages(tmp_path):
    with pytest.raises(ModelError, match="a directory of an unknown format"):
        load(tmp_path)
    with pytest.raises(ModelError, match="no such file; specify a language model"):
        load(tmp_path / "none.pt")


def test_the_error_for_a_hub_name_shows_the_download_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "exp").mkdir()
    for name, folder in (("gpt2", "gpt2"), ("facebook/opt-125m", "opt-125m"), ("Qwen/Qwen2.5-0.5B", "Qwen2.5-0.5B")):
        with pytest.raises(ModelError, match=f"hub: run hf download {name} --local-dir {folder}, and specify ./"):
            load(name)
    for name in ("lm.pt2", "exp/rnnlm", "./gpt2", "a/b/c"):
        with pytest.raises(ModelError, match="no such file; specify a language model"):
            load(name)


def test_every_truncation_is_refused(tmp_path, path):
    content = path.read_bytes()
    broken_path = tmp_path / "broken.pt"
    for length in range(4, len(content), 97):
        broken_path.write_bytes(content[:length])
        with pytest.raises(ModelError, match="the file was not saved by torch, or is damaged"):
            load(broken_path)


def test_a_flipped_bit_in_the_weights_is_refused(tmp_path, path, content):
    file_bytes = bytearray(path.read_bytes())
    weights = content["state"]["embedding.weight"].numpy().tobytes()
    file_bytes[file_bytes.index(weights) + 5] ^= 1
    path.write_bytes(file_bytes)
    with pytest.raises(ModelError, match="checksum"):
        load(path)


def test_zip_files_that_are_not_checkpoints_are_refused(tmp_path, path):
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("readme", "hello")
    with pytest.raises(ModelError, match="the zip file was not written by torch"):
        load(tmp_path / "other.zip")
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(tmp_path / "packed.pt", "w", zipfile.ZIP_DEFLATED) as target:
        for member in source.namelist():
            target.writestr(member, source.read(member))
    with pytest.raises(ModelError, match="the zip file has a compressed entry"):
        load(tmp_path / "packed.pt")


class Harmful:
    def __reduce__(self):
        return (print, ("code of the file ran",))


def test_code_in_a_checkpoint_is_not_run(tmp_path, capsys):
    torch.save({"format": "ninja-lm", "card": Harmful()}, tmp_path / "harmful.pt")
    with pytest.raises(ModelError, match="because other files may run code"):
        load(tmp_path / "harmful.pt")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("keys", "value", "reason"),
    [
        (["format"], None, "not a Ninja checkpoint"),
        (
            ["version"],
            3,
            "checkpoint version 3; upgrade Ninja, because this release reads only versions 1 and 2",
        ),
        (["kind"], "rnn", "type 'rnn'; upgrade Ninja, because this release supports only 'lstm'"),
        (["words"], None, "'words' is missing"),
        (["state"], [], "'state' is missing or of the wrong type"),
        (["card"], None, "'card' is missing"),
        (["words"], "<s>\n</s>", "the vocabulary has 2 words, but the configuration specifies 6"),
        (["words"], "<s>\n</s>\na\na\nb\nc", "occurs twice"),
        (["words"], "<s>\n</s>\n\na\nb\nc", "empty"),
        (["words"], "<s>\n<unk>\na\nb\nc\nd", "does not contain </s>"),
        (["config", "hidden"], None, "the configuration has missing or unexpected entries"),
        (["config", "hidden"], 10**12, "hidden in the configuration is 1000000000000, which is implausible"),
        (["config", "embedding"], -1, "embedding in the configuration is -1, which is implausible"),
        (["config", "layers"], 2.0, "layers in the configuration is 2.0, which is implausible"),
        (["config", "layers"], 65, "the sizes in the configuration are implausible"),
        (["config", "embedding"], 6, "missing or unexpected: lstm.weight_hr_l0"),
        (["config", "projection"], 4, "the sizes in the configuration are implausible"),
        (["config", "projection"], -1, "projection in the configuration is -1, which is implausible"),
        (["config", "dropout"], 1.5, "dropout in the configuration is 1.5, but must be in"),
        (["config", "hidden"], 7, r"has shape \[24, 4\], but the configuration needs \[28, 4\]"),
        (["config", "layers"], 1, "missing or unexpected: lstm.bias_hh_l1"),
        (["state", "bias"], None, "weights are missing or unexpected: bias"),
        (["state", "bias"], [0.0] * 6, "bias is not a tensor"),
        (["state", "bias"], torch.zeros(6, dtype=torch.int64), "bias is of type int64"),
        (["state", "bias"], torch.zeros(1).expand(6), "state.bias has more elements than the file stores for it"),
        (["state", "bias"], torch.full((6,), float("nan")), "bias contains NaN"),
    ],
)
def test_an_inconsistent_checkpoint_is_refused(path, content, keys, value, reason):
    torch.save(change(content, *keys, to=value), path)
    with pytest.raises(ModelError, match=reason) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_a_tensor_cannot_read_beyond_its_storage(path, content):
    """The storage declares more numbers than the file has, or the tensor more than its storage."""
    torch.save(change(content, "state", "bias", to=torch.arange(251.0)), path)
    count, claim = b"K\xfb", b"M\xff\xff"  # 251 and 65535 in the encoding of pickle
    replacements = {
        "declares 65535 numbers, but has 1004 bytes": (count + b"tq", claim + b"tq"),
        "a tensor extends beyond its storage": (count + b"\x85q", claim + b"\x85q"),
    }
    file_bytes = path.read_bytes()
    for message, (old, new) in replacements.items():
        with zipfile.ZipFile(io.BytesIO(file_bytes)) as source, zipfile.ZipFile(path, "w") as target:
            for name in source.namelist():
                member = source.read(name)
                assert not name.endswith("data.pkl") or old in member
                target.writestr(name, member.replace(old, new) if name.endswith("data.pkl") else member)
        with pytest.raises(ModelError, match=message):
            load(path)


def test_a_bare_tensor_is_refused(tmp_path):
    torch.save(torch.zeros(3), tmp_path / "tensor.pt")
    with pytest.raises(ModelError, match="not a Ninja checkpoint"):
        load(tmp_path / "tensor.pt")
