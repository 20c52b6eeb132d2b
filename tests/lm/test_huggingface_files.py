"""Directories of Hugging Face: missing, damaged or unsupported parts are reported, and no code in them is run."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from ninja.errors import ModelError
from ninja.lm import load

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", reason="Hugging Face's transformers is not installed: ninja-asr[hf]")

from tiny_hf import (  # noqa: E402
    TABLE,
    change_settings,
    copy_model,
    folder,
    load_model,
    make_trie,
    no_network,  # noqa: F401
    one_quiet_thread,  # noqa: F401
    word_pieces,
)

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def copy(tmp_path):
    """Return a function that copies a model into a temporary folder."""
    return lambda kind: copy_model(tmp_path, kind)


def assert_refused(path, message, error=ModelError):
    with pytest.raises(error, match=message) as caught:
        load(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_reported(copy):
    path = copy("gpt2")
    weights = (path / "model.safetensors").read_bytes()
    (path / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    assert_refused(path, "transformers cannot load this model")
    (path / "model.safetensors").unlink()
    assert_refused(path, "this directory has no weights file; it needs one of model.safetensors")
    (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "model-1.safetensors"}}))
    assert_refused(path, "model-1.safetensors, to which model.safetensors.index.json refers, is missing")
    (path / "model.safetensors.index.json").write_text("[]")
    assert_refused(path, "not a weight index")
    (path / "tokenizer.json").unlink()
    (path / "model.safetensors").write_bytes(weights)
    (path / "model.safetensors.index.json").unlink()
    assert_refused(path, "this directory has no tokenizer file; it needs one of")
    (path / "config.json").write_text("{")
    assert_refused(path, "not valid JSON")
    (path / "config.json").write_text("{}")
    assert_refused(path, "model_type is missing")


def test_missing_weights_are_not_initialized_randomly(copy):
    path = copy("llama")
    model = transformers.AutoModelForCausalLM.from_pretrained(path)
    state = model.state_dict()
    del state["lm_head.weight"]
    model.save_pretrained(path, state_dict=state)
    assert_refused(path, "weights that LlamaForCausalLM needs are missing or have wrong shapes: lm_head.weight")


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_pickled_weights_are_read_but_run_no_code(copy):
    expected = load_model("gpt2")
    path = copy("gpt2")
    state = transformers.AutoModelForCausalLM.from_pretrained(path).state_dict()
    (path / "model.safetensors").unlink()
    torch.save(state, path / "pytorch_model.bin")
    parent, word = make_trie(expected)
    lm = load(path)
    lm.vocabulary.ids(name for name, _ in expected.vocabulary)
    np.testing.assert_allclose(lm.score_trie(parent, word), expected.score_trie(parent, word), atol=1e-5)

    class Bomb:
        def __reduce__(self):
            return (open, (str(path / "ran"), "w"))

    for write in (lambda stream: pickle.dump(Bomb(), stream), lambda stream: torch.save({"a": Bomb()}, stream)):
        with open(path / "pytorch_model.bin", "wb") as stream:
            write(stream)
        assert_refused(path, "transformers cannot load this model")
        assert not (path / "ran").exists()


def test_code_in_a_model_directory_is_not_run(copy):
    path = copy("gpt2")
    (path / "evil.py").write_text(f"open({str(path / 'ran')!r}, 'w')\nclass Evil: pass\n")
    change_settings(
        path / "config.json", model_type="evil", auto_map={"AutoConfig": "evil.Evil", "AutoModelForCausalLM": "evil.E"}
    )
    assert_refused(path, "unsupported model type 'evil'")
    assert not (path / "ran").exists()


def test_unsupported_model_types_are_refused():
    assert_refused(
        folder("t5"), r"unsupported model type 't5' \(T5ForConditionalGeneration\); Ninja runs causal and masked"
    )


def test_a_model_without_an_end_of_text_is_refused(copy):
    path = copy("gpt2")
    change_settings(path / "tokenizer_config.json", eos_token=None, bos_token=None)
    for number in (None, 50256):  # the default of GPT-2, which exceeds the vocabulary
        change_settings(path / "config.json", eos_token_id=number, bos_token_id=number)
        assert_refused(path, "defines an end-of-text piece")
    change_settings(path / "config.json", eos_token_id=[0, 3], bos_token_id=None)
    lm = load(path)
    assert word_pieces(lm, "<s>") == word_pieces(lm, "</s>") == [0]


def test_a_tokenizer_with_more_pieces_than_the_network_is_refused(copy):
    path = copy("gpt2")
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    tokenizer.add_tokens(["zebra"])
    tokenizer.save_pretrained(path)
    lm = load(path)
    slots = lm.start(2)
    assert np.isfinite(lm.logprob(slots, np.array(lm.vocabulary.ids(["the", "mat"]), np.int32))).all()
    with pytest.raises(ModelError, match=r"the tokenizer returns piece \d+, but the network has only"):
        lm.logprob(slots[:1], np.array(lm.vocabulary.ids(["zebra"]), np.int32))


# The commands


def test_lm_score_and_lm_info_accept_a_hugging_face_directory(tmp_path, ninja):
    lm = load_model("gpt2")
    (tmp_path / "words.txt").write_text("".join(f"{word} {number}\n" for word, number in TABLE))
    (tmp_path / "text").write_text("utt the zebra sat\n")
    code, stdout, stderr = ninja("lm", "score", folder("gpt2"), tmp_path / "text", "--words", tmp_path / "words.txt")
    assert code == 0, stderr
    chain = [lm.vocabulary.id(word) for word in ("the", "zebra", "sat", "</s>")]
    expected = lm.score_trie(np.arange(-1, 3, dtype=np.int32), np.array(chain, np.int32))
    np.testing.assert_allclose([float(score) for score in stdout.split()[1:]], expected, atol=1e-4)
    assert ninja("lm", "score", folder("gpt2"), tmp_path / "text")[1] == stdout  # the symbol table is optional
    for kind in ("gpt2", "bert"):
        code, stdout, stderr = ninja("lm", "info", folder(kind), "--words", tmp_path / "words.txt")
        assert code == 0, stderr
        assert "Hugging Face directory" in stdout


def test_the_command_looks_up_the_words_of_the_lattices(tmp_path, ninja):
    archive = EXAMPLES / "lat.ark.gz"
    command = ["rescore", archive, "--words", EXAMPLES / "words.txt", "--output", "best", "-o", tmp_path / "out.ark"]
    code, _, stderr = ninja(*command, "--rnnlm", folder("llama"), "--max-unknown", 1, "--algorithm", "trie")
    assert (code, "words unknown to the language model" in stderr) == (0, True)
    code, _, stderr = ninja(*command, "--rnnlm", folder("bert"))
    assert code == 1
    assert "arcbeam scores words; use nbest" in stderr
