"""Untrusted models: their code is not run, and no file outside their folder is read; see docs/security.md."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ninja.errors import FormatError, ModelError
from ninja.lm import load

torch = pytest.importorskip("torch")
pytest.importorskip("transformers", reason="Hugging Face's transformers is not installed: ninja-asr[hf]")

from tiny_hf import change_settings, copy_model, no_network, one_quiet_thread  # noqa: E402, F401


class Bomb:
    """An object that runs code when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self):
        return (open, (self.path, "w"))


@pytest.fixture
def model(tmp_path):
    """Return a copy of a model, for changes."""
    return copy_model(tmp_path)


@pytest.mark.parametrize("kind", ["checkpoint", "training state", "encoder", "lattices"])
def test_torch_files_are_not_unpickled(kind, tmp_path):
    path = tmp_path / "x.pt"
    torch.save({"format": "ninja-lm", "bomb": Bomb(tmp_path / "ran")}, path)
    if kind == "checkpoint":
        with pytest.raises(ModelError, match="Ninja loads only files of weights"):
            load(path)
    elif kind == "encoder":
        from ninja.context.deep.encoder import PhraseEncoder

        with pytest.raises(ModelError, match="because other files may run code"):
            PhraseEncoder.load(path)
    elif kind == "training state":
        from types import SimpleNamespace

        from ninja.train.state import restore

        workers = SimpleNamespace(agree=float, share_file=lambda path: Path(path).read_bytes())
        with pytest.raises(ModelError, match="not a training state"):
            restore(str(path), None, SimpleNamespace(workers=workers), {"texts": 1})  # type: ignore[arg-type]
    else:
        import ninja

        with pytest.raises(FormatError, match=r"an object of the type (builtins|io|_io)\.open"):
            list(ninja.read(path))
    assert not (tmp_path / "ran").exists()


def test_code_in_model_folder_is_not_run(model):
    for name in ("evil.py", "modeling_evil.py"):
        (model / name).write_text(f"open({str(model / 'ran')!r}, 'w')\nclass Evil: pass\n")
    code = {"AutoConfig": "evil.Evil", "AutoModelForCausalLM": "evil.Evil"}
    change_settings(model / "config.json", auto_map=code, model_type="gpt2")
    change_settings(model / "tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.Evil", "evil.Evil"]})
    load(model)
    assert not (model / "ran").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"attn_implementation": "evil/kernel"},
            "attn_implementation is 'evil/kernel', but Ninja does not run downloaded code",
        ),
        ({"_attn_implementation": {"": "evil/kernel"}}, "downloaded code"),
        ({"text_config": {"_experts_implementation": "evil/kernel@v1"}}, "downloaded code"),
    ],
)
def test_kernels_of_a_hub_are_not_fetched(model, changes, message):
    change_settings(model / "config.json", **changes)
    with pytest.raises(ModelError, match=message):
        load(model)


def test_an_adapter_that_names_another_model_is_refused(model):
    (model / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "/etc", "peft_type": "LORA"}))
    with pytest.raises(ModelError, match=r"this is an adapter \(adapter_config\.json\)"):
        load(model)


@pytest.mark.parametrize("shard", ["../outside.safetensors", "{outside}", "below/x.safetensors"])
def test_weight_index_must_name_files_in_its_folder(model, tmp_path_factory, shard):
    outside = tmp_path_factory.mktemp("outside") / "outside.safetensors"
    outside.write_bytes((model / "model.safetensors").read_bytes())
    (model / "model.safetensors").unlink()
    names = {"weight_map": {"transformer.wte.weight": shard.format(outside=outside)}}
    (model / "model.safetensors.index.json").write_text(json.dumps(names))
    with pytest.raises(ModelError, match="which is not in this directory"):
        load(model)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors.index.json"])
def test_deeply_nested_configuration_is_refused(model, name):
    (model / name).write_text('{"a":' * 100_000)
    with pytest.raises(ModelError, match=r"not valid JSON|not a weight index"):
        load(model)
