"""Checkpoint files: equal in safetensors and in torch's format, read without torch; errors give the position."""

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest

from ninja.errors import ModelError
from ninja.lm import load, sentence_logprobs
from ninja.lm.network_image import image
from ninja.lm.stored_network import KINDS, SIZES, is_safetensors, lstm_shapes, read_network, read_safetensors
from ninja.models import ENGLISH

torch = pytest.importorskip("torch")

from ninja.lm import checkpoint  # noqa: E402
from ninja.lm.checkpoint import NETWORKS, Checkpoint  # noqa: E402
from ninja.lm.convert import convert  # noqa: E402
from ninja.models.lstm import Config, LSTMLanguageModel  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections")
WORDS = ["<s>", "</s>", "<unk>", "a", "b", "ça"]
SHAPES = [
    {"embedding": 4, "hidden": 6, "layers": 2},
    {"embedding": 6, "hidden": 8, "projection": 4, "normaliser": 3},
    {"embedding": 6, "hidden": 4, "projection": 3},
    {"embedding": 4, "hidden": 4, "layers": 1},
    {"embedding": 6, "hidden": 5, "layers": 3},
]


def make_module(**sizes):
    torch.manual_seed(0)
    module = LSTMLanguageModel(Config(len(WORDS), **{"layers": 2, **sizes}))
    module.initialise()
    return module


@pytest.fixture
def path(tmp_path):
    checkpoint.save(
        Checkpoint(make_module(embedding=4, hidden=6), WORDS, {"seed": 1}, "int8"), tmp_path / "a.safetensors"
    )
    return tmp_path / "a.safetensors"


@pytest.mark.parametrize("storage", ["half", "int8"])
@pytest.mark.parametrize("sizes", SHAPES)
def test_both_formats_are_equal_and_convertible(tmp_path, sizes, storage):
    card = {"seed": 1, "perplexity": 0.1 + 0.2, "precision": "float32", "resumed": False, "held_out": None}
    stored = Checkpoint(make_module(**sizes), WORDS, card, storage)
    for ending in ("pt", "safetensors"):
        checkpoint.save(stored, tmp_path / f"lm.{ending}")
    convert(tmp_path / "lm.pt", tmp_path / "from_pt.safetensors")
    convert(tmp_path / "lm.safetensors", tmp_path / "from_safetensors.pt")
    assert (tmp_path / "from_pt.safetensors").read_bytes() == (tmp_path / "lm.safetensors").read_bytes()
    networks = [read_network(path) for path in tmp_path.iterdir()]
    for network in networks:
        assert (network.kind, network.words, network.card, network.storage) == ("lstm", WORDS, card, storage)
        assert network.config == dataclasses.asdict(stored.module.config)
        assert set(network.arrays) == set(networks[0].arrays)
        for name, array in network.arrays.items():
            assert not array.flags.writeable
            assert array.dtype == networks[0].arrays[name].dtype
            assert (array == networks[0].arrays[name]).all()
        network.check_shapes(lstm_shapes(network.config))
    weights = checkpoint.as_stored(stored.module, storage).state_dict()
    assert lstm_shapes(networks[0].config) == {name: tuple(weight.shape) for name, weight in weights.items()}
    for name, weight in weights.items():
        assert (networks[0].weight(name) == weight.numpy()).all()
    scores = [sentence_logprobs(load(path), [[3, 4], [5]]) for path in tmp_path.iterdir()]
    assert all((score == scores[0]).all() for score in scores)


def test_stored_sizes_match_the_network_configurations():
    for kind, (config, _) in NETWORKS.items():
        assert {field.name for field in dataclasses.fields(config)} == {*SIZES[kind], "dropout"}
    assert set(KINDS) == {*NETWORKS, "nnet3"}


def test_a_checkpoint_is_read_without_torch():
    code = f"""
import sys
from ninja.lm.stored_network import lstm_shapes, read_network
stored = read_network({str(ENGLISH)!r})
stored.check_shapes(lstm_shapes(stored.config))
assert stored.weight("embedding.weight").shape == (len(stored.words), stored.config["embedding"])
sys.exit("torch" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_matrices_are_checked_with_their_scales(path):
    network = read_network(path)
    shapes = lstm_shapes(network.config)
    name = "embedding.weight"
    scale = network.arrays[f"{name}.scale"]
    for arrays, message in [
        ({name: network.arrays[name][:5]}, f"weights are missing or unexpected: {name}.scale"),
        ({f"{name}.scale": scale.astype(np.float64)}, f"weights are missing or unexpected: {name}.scale"),
        ({f"{name}.scale": None}, f"{name} is of type int8"),
        ({"bias": None}, "weights are missing or unexpected: bias"),
        ({"bias": network.arrays["bias"][:2]}, r"bias has shape \[2\], but the configuration needs \[6\]"),
        ({"bias": np.zeros(6, np.int8)}, "bias is of type int8"),
    ]:
        network_arrays = {key: array for key, array in {**network.arrays, **arrays}.items() if array is not None}
        with pytest.raises(ModelError, match=message):
            dataclasses.replace(network, arrays=network_arrays).check_shapes(shapes)


def rewrite_metadata(path, **entries):
    """Change entries of the metadata; None removes an entry."""
    content = read_safetensors(path.read_bytes())
    metadata = {key: value for key, value in {**content.metadata, **entries}.items() if value is not None}
    path.write_bytes(b"".join(image(content.arrays, metadata)))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"format": "pt"}, "not a Ninja checkpoint; .* or the directory of a Hugging Face model"),
        ({"format": None}, "not a Ninja checkpoint"),
        (
            {"version": "3"},
            "checkpoint version 3; upgrade Ninja, because this release reads only versions 1 and 2",
        ),
        ({"kind": "rnn"}, "type 'rnn'; upgrade Ninja, because this release supports only 'lstm'"),
        ({"config": "{"}, "the value of the metadata key 'config' is not JSON"),
        ({"config": "[" * 100_000}, "lists are nested too deeply"),
        ({"card": None}, "'card' is missing"),
        ({"words": "a"}, "the vocabulary has 1 words, but the configuration specifies 6"),
        ({"config": json.dumps({"vocabulary": 6})}, "the configuration has missing or unexpected entries"),
    ],
)
def test_inconsistent_safetensors_metadata_are_refused(path, entries, message):
    rewrite_metadata(path, **entries)
    with pytest.raises(ModelError, match=message) as caught:
        load(path)
    assert str(caught.value).startswith(str(path))


def test_header_errors_are_reported_with_file_and_byte(path, ninja):
    original = path.read_bytes()
    for content, message in [
        (original[:-1], "but the header describes|but only"),
        (original[:100], "byte 0: the header should have .* the file is truncated"),
        (
            (1 << 31).to_bytes(8, "little") + original[8:],
            "byte 0: the header has 2147483648 bytes, but at most",
        ),
        (original[:-1] + bytes([original[-1] ^ 1]), "the checksum differs"),
    ]:
        path.write_bytes(content)
        with pytest.raises(ModelError, match=message) as caught:
            load(path)
        assert str(caught.value).startswith(str(path))
        code, _, errors = ninja("lm", "info", path)
        assert code == 1
        assert str(path) in errors
        assert "Traceback" not in errors


def test_unknown_metadata_are_ignored(path):
    expected = sentence_logprobs(load(path), [[3, 4]])
    rewrite_metadata(path, author="somebody", license="Apache-2.0")
    assert (sentence_logprobs(load(path), [[3, 4]]) == expected).all()


def test_training_writes_the_format_of_the_file_suffix(tmp_path, ninja):
    (tmp_path / "text").write_text("a b\n" * 60)
    sizes = ["--embedding", 4, "--hidden", 6, "--epochs", 1, "--samples", 0, "--min-count", 1, "--threads", 1]
    for name in ("lm.safetensors", "lm.pt"):
        assert ninja("train", tmp_path / "text", "-o", tmp_path / name, *sizes)[0] == 0
    assert is_safetensors((tmp_path / "lm.safetensors").read_bytes())
    assert (tmp_path / "lm.pt").read_bytes().startswith(b"PK")
    safetensors_arrays, torch_arrays = (read_network(tmp_path / name).arrays for name in ("lm.safetensors", "lm.pt"))
    assert all((safetensors_arrays[name] == torch_arrays[name]).all() for name in {*safetensors_arrays, *torch_arrays})
