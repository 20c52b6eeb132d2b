"""Torch modules as language models; archives of TorchScript and torch.export are rejected."""

import re
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import ninja
from ninja.errors import ModelError, OptionError
from ninja.lattice.symbols import SymbolTable
from ninja.lm import from_module, load, sentence_logprobs

torch = pytest.importorskip("torch")

import tiny_lstm  # noqa: E402
from tiny_lstm import (  # noqa: E402  # noqa: E402
    EMBEDDING,
    HIDDEN,
    LAYERS,
    NUM_WORDS,
    SENTENCES,
    VOCABULARY,
    WORDS_TXT,
    SentenceModule,
    StepModule,
)

from ninja.lm import checkpoint  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:LSTM with projections"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The tensor attributes"),
]
Tensor = torch.Tensor


class OneTensor(torch.nn.Module):
    """The LSTM with its whole state in one tensor, batch first; its scores are log-probabilities."""

    def __init__(self):
        super().__init__()
        self.stepping = StepModule()

    def initial_state(self, batch):
        return torch.zeros(batch, LAYERS, EMBEDDING + HIDDEN)

    def step(self, word, state):
        output, cell = (part.transpose(0, 1).contiguous() for part in state.split((EMBEDDING, HIDDEN), -1))
        scores, parts = self.stepping.step(word, (output, cell))
        return scores.log_softmax(-1), torch.cat(parts, -1).transpose(0, 1)


class Attention(torch.nn.Module):
    """A causal network without a state, with both kinds of buffers, that torch.export can trace for any length."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.embedding = torch.nn.Embedding(NUM_WORDS, 8)
        self.query = torch.nn.Linear(8, 24)
        self.out = torch.nn.Linear(8, NUM_WORDS)
        self.register_buffer("scale", torch.tensor(2.0))
        self.register_buffer("shift", torch.arange(4.0), persistent=False)

    def forward(self, words):
        n, t = words.shape
        q, k, v = self.query(self.embedding(words)).view(n, t, 2, 12).transpose(1, 2).chunk(3, -1)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, 8)
        place = torch.arange(t, device=words.device)[None, :, None] * 0.1 * torch.ones(n, t, 1)
        return self.out(torch.relu(y) * self.scale + self.shift.sum() + place)


@pytest.mark.parametrize("max_batch", [None, 1])
@pytest.mark.parametrize(("module", "options"), [(StepModule, {"batch_dim": 1}), (OneTensor, {}), (SentenceModule, {})])
def test_module_scores_agree_with_the_definition(module, options, max_batch):
    lm = from_module(module(), VOCABULARY, max_batch=max_batch, **options)
    assert lm.normalized
    tiny_lstm.check_sentence_scores(lm)


@settings(max_examples=10)
@given(lattice=tiny_lstm.LATTICES)
def test_rescoring_a_lattice_equals_scoring_its_paths(lattice):
    for module, axis in ((StepModule(), (1, 1)), (SentenceModule(), 0)):
        tiny_lstm.check_path_scores(from_module(module, VOCABULARY, batch_dim=axis), lattice)


def test_special_words_and_normalisation_are_arguments():
    words = SymbolTable.from_words([*(f"w{n}" for n in range(NUM_WORDS - 1)), "<eos>"])
    lm = from_module(SentenceModule(), words, bos="<eos>", eos="<eos>", unk="w3", normalize=False)
    assert (lm.bos, lm.eos, lm.unk, lm.normalized) == (NUM_WORDS - 1, NUM_WORDS - 1, 3, None)
    with torch.inference_mode():
        expected = float(SentenceModule()(torch.tensor([[NUM_WORDS - 1]]))[0, 0, 4])
    assert lm.logprob(lm.start(1), np.array([4], np.int32))[0] == pytest.approx(expected, abs=1e-5)


def with_method(name, result):
    def build():
        module = StepModule()
        setattr(module, name, result)
        return module

    return build


@pytest.mark.parametrize(
    ("build", "options", "error", "message"),
    [
        (
            StepModule,
            {},
            ModelError,
            r"initial_state\(1\) returns shape \[2, 1, 6\], in which dimension 0 is not 1; set batch_dim",
        ),
        (StepModule, {"batch_dim": (1, 1, 1)}, ModelError, "the state has 2 tensors, but batch_dim lists 3 dimensions"),
        (StepModule, {"batch_dim": 7}, ModelError, "dimension 7 is not 1"),
        (StepModule, {"batch_dim": 1, "device": "nonsense"}, OptionError, "cannot use the device 'nonsense'"),
        (StepModule, {"batch_dim": 1, "max_batch": 0}, OptionError, "max_batch is 0"),
        (
            with_method("initial_state", lambda batch: 3),
            {},
            ModelError,
            "the state must be a tensor or a tuple of tensors, not int",
        ),
        (
            with_method("step", lambda w, s: (w, s)),
            {"batch_dim": 1},
            ModelError,
            r"shape \[1\] for words of shape \[1\], expected \[batch",
        ),
        (
            with_method("step", lambda w, s: (torch.zeros(len(w), NUM_WORDS), s[:1] * 2)),
            {"batch_dim": 1},
            ModelError,
            r"the network returns the state 1 with shape \[2, 1, 6\]",
        ),
        (
            torch.nn.Identity,
            {},
            ModelError,
            r"words of shape \[1, 2\] have shape \[1, 2\], but must have shape \[batch, time, words\]",
        ),
    ],
)
def test_unsuitable_modules_are_refused(build, options, error, message):
    with pytest.raises(error, match=message):
        from_module(build(), VOCABULARY, **options)


def test_step_without_initial_state_and_wrong_vocabulary_are_refused():
    class Endless(torch.nn.Module):
        def step(self, word, state):
            return word, state

    with pytest.raises(ModelError, match=r"Endless defines step but not initial_state"):
        from_module(Endless(), VOCABULARY)
    with pytest.raises(ModelError, match="the vocabulary has 2 words, but the network scores 11"):
        from_module(SentenceModule(), SymbolTable.from_words(["<s>", "</s>"]))


def save_script(path):
    torch.jit.script(torch.nn.Linear(2, 2)).save(str(path))


def save_export(path):
    shape = {"words": {0: torch.export.Dim("batch"), 1: torch.export.Dim("time")}}
    program = torch.export.export(Attention().eval(), (torch.zeros(3, 5, dtype=torch.int64),), dynamic_shapes=shape)
    torch.export.save(program, str(path))


def save_older_export(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("version", "5.3")
        archive.writestr("serialized_exported_program.json", "{}")


@pytest.mark.parametrize(
    ("save", "kind"),
    [
        (save_script, "a TorchScript archive"),
        (save_export, r"a torch\.export archive"),
        (save_older_export, r"a torch\.export archive"),
    ],
)
def test_torch_programs_are_refused_with_advice_to_export_onnx(tmp_path, save, kind, ninja):
    path = tmp_path / "model.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save(path)
    (tmp_path / "words.txt").write_text(WORDS_TXT)
    with pytest.raises(ModelError, match=rf"model\.pt: {kind} is not loaded, .*torch\.onnx\.export\(module, "):
        load(path)
    code, _, error = ninja("lm", "info", path)
    assert code == 1
    assert "torch.onnx.export" in error


def test_the_documented_onnx_export_keeps_the_scores(tmp_path, monkeypatch):
    """Run the example of docs/networks.md."""
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    page = (Path(__file__).parents[2] / "docs" / "networks.md").read_text()
    [code] = re.findall(r"```python\n(.*?torch\.onnx\.export.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(5)
    names: dict[str, Any] = {"vocabulary": NUM_WORDS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(code, names)
    (tmp_path / "words.txt").write_text(WORDS_TXT)

    class Steps(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.module = names["module"]

        def initial_state(self, batch):
            return torch.zeros(2, batch, 512), torch.zeros(2, batch, 512)

        def step(self, word, state):
            scores, *state = self.module(word, *state)
            return scores, tuple(state)

    expected = sentence_logprobs(from_module(Steps(), VOCABULARY, batch_dim=1), SENTENCES)
    assert sentence_logprobs(load("model.onnx"), SENTENCES) == pytest.approx(expected, abs=1e-4)


def test_a_checkpoint_with_suffix_pt_is_loaded(tmp_path):
    checkpoint.save(tiny_lstm.CHECKPOINT, tmp_path / "model.pt")
    scores = sentence_logprobs(load(tmp_path / "model.pt"), SENTENCES)
    assert np.isfinite(scores).all()
    assert ninja.lm.from_module is from_module
