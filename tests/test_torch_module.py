"""Networks written for torch: modules, TorchScript and torch.export, and archives that are refused."""

import warnings
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings

import ninja
from ninja.errors import ModelError, OptionError
from ninja.lattice.symbols import SymbolTable
from ninja.lm import from_module, load, sentence_logprobs

torch = pytest.importorskip("torch")

import tiny_lstm  # noqa: E402
from tiny_lstm import (  # noqa: E402
    EMBEDDING,
    HIDDEN,
    LAYERS,
    MODULE,
    NUM_WORDS,
    SENTENCES,
    VOCABULARY,
    WORDS_TXT,
    one_thread,  # noqa: F401
)

from ninja.lm import checkpoint  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:LSTM with projections"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The tensor attributes"),
]
Tensor = torch.Tensor


class Stepping(torch.nn.Module):
    """The LSTM with a state as nn.LSTM has it: two tensors, layers first."""

    def __init__(self):
        super().__init__()
        self.module = MODULE

    @torch.jit.export
    def initial_state(self, batch: int) -> tuple[Tensor, Tensor]:
        return torch.zeros(2, batch, 6), torch.zeros(2, batch, 10)

    @torch.jit.export
    def step(self, word: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        output, state = self.module.lstm(self.module.embedding(word)[None], state)
        return self.module.logits(output[0]), state

    def forward(self, words: Tensor) -> Tensor:
        return self.module.logits(self.module(words.t())).transpose(0, 1)


class Whole(torch.nn.Module):
    """The LSTM without a state."""

    def __init__(self):
        super().__init__()
        self.module = MODULE

    def forward(self, words: Tensor) -> Tensor:
        return self.module.logits(self.module(words.t())).transpose(0, 1)


class OneTensor(torch.nn.Module):
    """The LSTM with all of its state in one tensor, batch first, and scores that are log-probabilities."""

    def __init__(self):
        super().__init__()
        self.stepping = Stepping()

    def initial_state(self, batch):
        return torch.zeros(batch, LAYERS, EMBEDDING + HIDDEN)

    def step(self, word, state):
        output, cell = (part.transpose(0, 1).contiguous() for part in state.split((EMBEDDING, HIDDEN), -1))
        scores, parts = self.stepping.step(word, (output, cell))
        return scores.log_softmax(-1), torch.cat(parts, -1).transpose(0, 1)


class Flat(torch.nn.Module):
    """The step for torch.export: word and states in, scores and states out."""

    def __init__(self):
        super().__init__()
        self.stepping = Stepping()

    def forward(self, word, hidden, cell):
        scores, (hidden, cell) = self.stepping.step(word, (hidden, cell))
        return scores, hidden, cell


class Attention(torch.nn.Module):
    """A causal network without a state that torch.export can trace for any length, with buffers of both sorts."""

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
@pytest.mark.parametrize(("module", "options"), [(Stepping, {"batch_dim": 1}), (OneTensor, {}), (Whole, {})])
def test_a_module_scores_as_its_definition(module, options, max_batch):
    lm = from_module(module(), VOCABULARY, max_batch=max_batch, **options)
    assert lm.normalized
    tiny_lstm.scores_as_the_definition(lm)


@settings(max_examples=20)
@given(lattice=tiny_lstm.LATTICES)
def test_rescoring_a_lattice_equals_scoring_its_paths(lattice):
    for module, axis in ((Stepping(), (1, 1)), (Whole(), 0)):
        tiny_lstm.rescores_as_paths_score(from_module(module, VOCABULARY, batch_dim=axis), lattice)


def test_special_words_and_normalisation_are_the_callers_choice():
    words = SymbolTable.from_words([*(f"w{n}" for n in range(NUM_WORDS - 1)), "<eos>"])
    lm = from_module(Whole(), words, bos="<eos>", eos="<eos>", unk="w3", normalize=False)
    assert (lm.bos, lm.eos, lm.unk, lm.normalized) == (NUM_WORDS - 1, NUM_WORDS - 1, 3, None)
    with torch.inference_mode():
        expected = float(Whole()(torch.tensor([[NUM_WORDS - 1]]))[0, 0, 4])
    assert lm.logprob(lm.start(1), np.array([4], np.int32))[0] == pytest.approx(expected, abs=1e-5)


def method(name, result):
    def build():
        module = Stepping()
        setattr(module, name, result)
        return module

    return build


@pytest.mark.parametrize(
    ("build", "options", "error", "message"),
    [
        (
            Stepping,
            {},
            ModelError,
            r"initial_state\(1\) gives \[2, 1, 6\]: dimension 0 is no batch of 1; set batch_dim",
        ),
        (Stepping, {"batch_dim": (1, 1, 1)}, ModelError, "2 parts of the state, but 3 batch dimensions"),
        (Stepping, {"batch_dim": 7}, ModelError, "dimension 7 is no batch"),
        (Stepping, {"batch_dim": 1, "device": "nonsense"}, OptionError, "cannot use the device 'nonsense'"),
        (Stepping, {"batch_dim": 1, "max_batch": 0}, OptionError, "max_batch is 0"),
        (method("initial_state", lambda batch: 3), {}, ModelError, "the state is int, not a tensor or a tuple"),
        (method("step", lambda w, s: (w, s)), {"batch_dim": 1}, ModelError, r"shape \[1\] for 1 words, not \[batch"),
        (
            method("step", lambda w, s: (torch.zeros(len(w), NUM_WORDS), s[:1] * 2)),
            {"batch_dim": 1},
            ModelError,
            r"the state 1 comes back with the shape \[2, 1, 6\]",
        ),
        (torch.nn.Identity, {}, ModelError, r"shape \[1, 2\] for words \[1, 2\], not \[batch, time, words\]"),
    ],
)
def test_a_module_of_another_kind_is_refused(build, options, error, message):
    with pytest.raises(error, match=message):
        from_module(build(), VOCABULARY, **options)


def test_a_step_without_a_beginning_and_other_vocabularies_are_refused():
    class Endless(torch.nn.Module):
        def step(self, word, state):
            return word, state

    with pytest.raises(ModelError, match=r"Endless has step but no initial_state"):
        from_module(Endless(), VOCABULARY)
    with pytest.raises(ModelError, match="2 words in the vocabulary, but the network scores 11"):
        from_module(Whole(), SymbolTable.from_words(["<s>", "</s>"]))


def script(module, path, **extra):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(module.eval()).save(
            str(path), _extra_files={name.replace("_txt", ".txt"): text for name, text in extra.items()}
        )
    return path


@pytest.fixture(scope="module")
def torchscript(tmp_path_factory):
    return script(Stepping(), tmp_path_factory.mktemp("script") / "model.pt", words_txt=WORDS_TXT, batch_dim_txt="1\n")


@pytest.mark.parametrize("max_batch", [None, 1])
def test_a_torchscript_archive_scores_as_its_definition(torchscript, max_batch):
    tiny_lstm.scores_as_the_definition(load(torchscript, max_batch=max_batch))


def test_a_torchscript_archive_without_a_state_and_with_words_beside(tmp_path):
    path = script(Whole(), tmp_path / "model.pt")
    with pytest.raises(ModelError, match="no vocabulary"):
        load(path)
    (tmp_path / "words.txt").write_text(WORDS_TXT)
    tiny_lstm.scores_as_the_definition(load(path))
    tiny_lstm.scores_as_the_definition(load(path, words=VOCABULARY))


class Writer(Whole):
    def forward(self, words: Tensor) -> Tensor:
        torch.save(words, "touched")
        return self.module.logits(self.module(words.t())).transpose(0, 1)


class Reader(Whole):
    def forward(self, words: Tensor) -> Tensor:
        content = torch.from_file("secret", False, 3)
        return self.module.logits(self.module(words.t())).transpose(0, 1) + content.sum()


def test_torchscript_that_touches_files_is_not_loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for module, name in ((Writer, "save"), (Reader, "from_file")):
        path = script(module(), tmp_path / "model.pt", words_txt=WORDS_TXT)
        with pytest.raises(ModelError, match=f"model.pt: its code names '{name}', which may touch files"):
            load(path)
        hidden = tmp_path / "hidden.pt"  # torch finds its code in capital letters too
        rewrite(path, hidden, lambda where, content: content, rename=lambda where: where.replace("/code/", "/CODE/"))
        with zipfile.ZipFile(hidden, "a") as archive:
            archive.writestr("model/code/other.py", "")
        with pytest.raises(ModelError, match=f"hidden.pt: its code names '{name}'"):
            load(hidden)
    assert not (tmp_path / "touched").exists()


def test_an_archive_with_two_members_of_a_name_is_not_loaded(tmp_path, torchscript):
    path = rewrite(torchscript, tmp_path / "model.pt", lambda _, content: content)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(next(name for name in archive.namelist() if name.endswith(".py")).upper(), "")
    with pytest.raises(ModelError, match="packed anew"):
        load(path)


def test_operators_of_other_libraries_are_not_loaded(tmp_path, torchscript):
    def strange(name, content):
        return content.replace(b"torch.linear(", b"ops.strange.linear(") if name.endswith(".py") else content

    rewrite(torchscript, tmp_path / "model.pt", strange)
    with pytest.raises(ModelError, match=r"its code names 'ops\.strange'"):
        load(tmp_path / "model.pt")


def rewrite(source, target, change, packed=zipfile.ZIP_STORED, rename=str):
    """Copy an archive, changing what is in it; `change` may return None to leave a member out."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", packed) as new:
        for name in old.namelist():
            content = change(name, old.read(name))
            if content is not None:
                new.writestr(rename(name), content)
    return target


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("one", "batch_dim.txt inside holds 'one', not integers"),
        ("0", "is no batch of 1"),
        ("1 1 1", "3 batch dimensions"),
    ],
)
def test_a_wrong_batch_dimension_inside_is_told(tmp_path, text, message):
    path = script(Stepping(), tmp_path / "model.pt", words_txt=WORDS_TXT, batch_dim_txt=text)
    with pytest.raises(ModelError, match=f"model.pt: .*{message}"):
        load(path)


def test_torchscript_that_fails_or_is_damaged_is_told(tmp_path, torchscript):
    class Failing(torch.nn.Module):
        def forward(self, words: Tensor) -> Tensor:
            raise ValueError("no words today")

    path = script(Failing(), tmp_path / "model.pt", words_txt=WORDS_TXT)
    with pytest.raises(ModelError, match=r"its code fails: .*no words today"):
        load(path)
    whole = bytearray(torchscript.read_bytes())
    for length in range(100, len(whole), len(whole) // 20):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelError, match="truncated or damaged"):
            load(path)
    weights = MODULE.embedding.weight.detach().numpy().tobytes()
    whole[whole.index(weights) + 5] ^= 1
    path.write_bytes(whole)
    with pytest.raises(ModelError, match=r"truncated or damaged archive .*CRC"):
        load(path)
    with pytest.raises(ModelError, match="packed anew"):
        load(rewrite(torchscript, path, lambda _, content: content, zipfile.ZIP_DEFLATED))
    with pytest.raises(ModelError, match="torch cannot load it"):
        load(rewrite(torchscript, path, lambda name, content: None if name.endswith("data.pkl") else content))


def test_a_checkpoint_is_still_a_checkpoint(tmp_path):
    checkpoint.save(tiny_lstm.CHECKPOINT, tmp_path / "model.pt")
    tiny_lstm_scores = sentence_logprobs(load(tmp_path / "model.pt"), SENTENCES)
    assert np.isfinite(tiny_lstm_scores).all()
    assert ninja.lm.from_module is from_module
