"""Kaldi RNNLM directories: scores of Kaldi and of a slow implementation, checkpoints, and missing parts."""

import functools
import gzip

import nnet3_writer as writer
import numpy as np
import pytest
from nested import change
from reference_graph import SHARED
from reference_nnet3 import Twin
from tiny_rnnlm import COMPONENTS, EMBEDDING, FEATURE_EMBEDDING, FEATURES, LINES, WORDS, write_model

from ninja.errors import FormatError, ModelError, OptionError, OutputError
from ninja.lm import LanguageModel, load, sentence_logprobs
from ninja.lm.trie import word_logprobs

torch = pytest.importorskip("torch")

from ninja.lm import checkpoint  # noqa: E402
from ninja.lm.convert import convert  # noqa: E402
from ninja.lm.kaldi import rnnlm  # noqa: E402
from ninja.lm.kaldi.torch_rnnlm import KaldiRnnlm  # noqa: E402

RNNLM = SHARED / "data" / "rnnlm"
SCORES = RNNLM / "scores"
ENGLISH = SHARED / "golden" / "english"
# The repository does not contain these models; conftest.py requires them in CI.
golden = pytest.mark.skipif(not RNNLM.is_dir(), reason=f"Kaldi's models are not in {RNNLM}")


def numbers(path, kind):
    rows = (line.split() for line in path.read_text().splitlines())
    return {key: [kind(value) for value in values] for key, *values in rows}


GOLDEN = [
    ("feat", SCORES / "text.int", SCORES / "feat.wordlogprobs"),
    ("word", SCORES / "text.int", SCORES / "word.wordlogprobs"),
    ("feat_english", ENGLISH / "refs60.int", ENGLISH / "refs60.feat_english.wordlogprobs"),
]


read_once = functools.cache(rnnlm.read)  # reading the features of English words takes a second


@golden
@pytest.mark.parametrize("normalize", [False, True], ids=["unnorm", "norm"])
@pytest.mark.parametrize(("name", "text", "scores"), GOLDEN, ids=[name for name, _, _ in GOLDEN])
@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_scores_agree_with_kaldi(monkeypatch, name, text, scores, normalize, backend):
    monkeypatch.setattr(rnnlm, "read", read_once)
    ids = numbers(text, int)
    expected = numbers(scores.with_name(f"{scores.name}.{'norm' if normalize else 'unnorm'}.txt"), float)
    lm = load(RNNLM / name, "cpu", normalize=normalize, max_batch=256, backend=backend)
    for is_sequential in (False, True):  # in a batch, and one by one
        keys = list(expected)[:: 12 if is_sequential else 1]
        if is_sequential:
            lm._max_batch = 1
        logprobs = word_logprobs(lm, [ids[key] for key in keys])
        for key, logprob in zip(keys, logprobs, strict=True):
            assert logprob == pytest.approx(expected[key], abs=1e-4), key
    assert lm.num_slots == 0


@golden
def test_text_and_binary_networks_have_the_same_scores():
    ids = list(numbers(SCORES / "text.int", int).values())
    binary, text = (load(RNNLM / "word" / name) for name in ("final.raw", "final.raw.txt.gz"))
    assert sentence_logprobs(text, ids) == pytest.approx(sentence_logprobs(binary, ids), abs=1e-3)


@golden
def test_lm_score_prints_the_scores_of_kaldi(ninja, tmp_path):
    code, output, errors = ninja("lm", "score", RNNLM / "word", SCORES / "text")
    assert code == 0
    assert errors.startswith(
        "ninja: 200 sentences, 2619 words, 81 OOVs\nninja: 0 zeroprobs, logprob= -6849.94 ppl= 269.1"
    )
    printed_scores = {key: list(map(float, scores)) for key, *scores in map(str.split, output.splitlines())}
    for key, scores in numbers(SCORES / "word.wordlogprobs.unnorm.txt", float).items():
        assert printed_scores[key] == pytest.approx(scores, abs=1e-3)


# A small model


@pytest.fixture
def folder(tmp_path):
    return write_model(tmp_path / "rnnlm")


def expected_scores(embedding, sentence, normalize):
    """Return the expected score of each word after its predecessors."""
    outputs = Twin(LINES, COMPONENTS, embedding[[1, *sentence]]).outputs()
    logits = outputs @ embedding.T.astype(float)  # [time, words]
    score = logits[np.arange(len(outputs)), [*sentence, 2]]
    return score - np.log(np.exp(logits[:, 1:]).sum(1)) if normalize else score


SENTENCES = [[4, 5, 3, 6, 6], [], [7], [5, 4, 5, 4, 5, 4, 5]]


@pytest.mark.parametrize("normalize", [None, False, True])
@pytest.mark.parametrize("mode", ["binary", "text"])
@pytest.mark.parametrize("kind", ["words", "features"])
@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_scores_agree_with_the_slow_twin(tmp_path, backend, kind, mode, normalize):
    lm = load(write_model(tmp_path / "rnnlm", kind, mode), "cpu", normalize=normalize, backend=backend)
    embedding = EMBEDDING
    if kind == "features":
        embedding = np.zeros((len(FEATURES), FEATURE_EMBEDDING.shape[1]), FEATURE_EMBEDDING.dtype)
        for word, features in enumerate(FEATURES):
            for feature, value in features.items():
                embedding[word] += value * FEATURE_EMBEDDING[feature]
    for sentence, logprob in zip(SENTENCES, word_logprobs(lm, SENTENCES), strict=True):
        assert logprob == pytest.approx(expected_scores(embedding, sentence, normalize), abs=1e-5)
    assert lm.num_slots == 0
    assert isinstance(lm, LanguageModel)
    assert (lm.bos, lm.eos, lm.unk, lm.normalized) == (1, 2, 3, bool(normalize))


def test_normalised_probabilities_of_all_words_but_epsilon_sum_to_one(folder):
    lm = load(folder, normalize=True)
    slot = lm.advance(lm.start(1), np.array([4], np.int32))
    logprob = lm.logprob(np.repeat(slot, len(WORDS) - 1), np.arange(1, len(WORDS), dtype=np.int32))
    assert np.exp(logprob.astype(float)).sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="compares CPU and GPU; no CUDA device here")
def test_gpu_scores_agree_with_the_cpu(folder):
    cpu_scores, gpu_scores = (sentence_logprobs(load(folder, device), SENTENCES) for device in ("cpu", "cuda"))
    assert gpu_scores == pytest.approx(cpu_scores, abs=1e-4)


def test_an_unknown_device_is_refused(folder):
    with pytest.raises(OptionError, match="cannot use the device 'nonsense'"):
        load(folder, "nonsense")


def test_gzip_files_and_the_path_of_the_network_are_accepted(folder):
    expected = sentence_logprobs(load(folder), SENTENCES)
    for path in ("final.raw", "word_embedding.final.mat", "special_symbol_opts.txt", "config/words.txt"):
        (folder / f"{path}.gz").write_bytes(gzip.compress((folder / path).read_bytes()))
        (folder / path).unlink()
    for path in (folder, folder / "final.raw.gz"):
        assert sentence_logprobs(load(path), SENTENCES) == pytest.approx(expected, abs=1e-6)


def test_special_symbols_have_kaldis_defaults(folder):
    (folder / "special_symbol_opts.txt").write_text("")
    words = ["<eps>", "<s>", "</s>", "<brk>", "a", "b", "c", "d"]
    (folder / "config" / "words.txt").write_text("".join(f"{word} {number}\n" for number, word in enumerate(words)))
    (folder / "config" / "oov.txt").unlink()
    lm = load(folder)
    assert (lm.bos, lm.eos, lm.unk) == (1, 2, None)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["final.raw"], "final.raw is missing; copy the whole directory of the Kaldi RNNLM"),
        (["word_embedding.final.mat"], "word_embedding.final.mat and feat_embedding.final.mat are both missing"),
        (["config/words.txt"], "config/words.txt is missing"),
        (["special_symbol_opts.txt"], "special_symbol_opts.txt is missing"),
        (["final.raw", "word_embedding.final.mat"], "final.raw is missing"),
    ],
)
def test_a_missing_file_is_reported(folder, names, message):
    for name in names:
        (folder / name).unlink()
    with pytest.raises(ModelError, match=f"^{folder}: {message}"):
        load(folder)


def test_a_missing_file_of_word_features_is_reported(tmp_path):
    folder = write_model(tmp_path / "rnnlm", "features")
    (folder / "word_feats.txt").unlink()
    with pytest.raises(ModelError, match=r"word_feats.txt is missing"):
        load(folder)


@pytest.mark.parametrize(
    ("path", "content", "error", "message"),
    [
        ("config/words.txt", "<eps> 0\na 1\nb 3\n", ModelError, "the ids of the 3 words are not 0 to 2"),
        ("config/words.txt", "<eps> 0\na 1\n", ModelError, "embeddings for 8 words, but config/words.txt has 2"),
        ("config/oov.txt", "<oov>\n", ModelError, "'<oov>' replaces unknown words, but is not in config/words.txt"),
        (
            "special_symbol_opts.txt",
            "--bos-symbol=99",
            ModelError,
            r"--bos-symbol is 99, but must be a word id from 1 to 7 \(.*words\.txt\)",
        ),
        (
            "special_symbol_opts.txt",
            "--foo=1",
            FormatError,
            "unknown option '--foo=1'; expected --bos-symbol=N, --eos-symbol=N or",
        ),
        (
            "word_embedding.final.mat",
            writer.matrix(EMBEDDING[:, :3]),
            ModelError,
            "dimension of the embeddings is 3, but the network expects 4",
        ),
        ("word_embedding.final.mat", writer.matrix(EMBEDDING * np.float32(np.nan)), ModelError, "NaN or infinity"),
        ("word_embedding.final.mat", writer.matrix(EMBEDDING)[:-1], FormatError, "the file is truncated"),
        ("final.raw", writer.network(LINES[:-1], COMPONENTS), FormatError, "no output-node with the name 'output'"),
    ],
)
def test_inconsistent_files_are_refused(folder, path, content, error, message):
    (folder / path).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(error, match=message) as caught:
        load(folder)
    assert str(caught.value).startswith(f"{folder}/")


def test_a_network_with_different_input_and_output_widths_is_refused(folder):
    lines = [*LINES[:-1], "output-node name=output input=Append(lstm, lstm)"]
    (folder / "final.raw").write_bytes(writer.network(lines, COMPONENTS))
    with pytest.raises(ModelError, match=r"input has width 4 and its output 8; they must be equal in a language model"):
        load(folder)


@pytest.mark.parametrize(
    ("edit", "error", "message"),
    [
        (lambda text: text.replace("3\t0 0.01", "3\t0 half"), FormatError, ":4: b'half' is not a number"),
        (lambda text: text.replace("3\t0 0.01", "3\t0"), FormatError, ":4: expected a word id followed by pairs"),
        (lambda text: text.replace("3\t0 0.01", "3\t9 0.01"), FormatError, ":4: expected one of the 5 rows .* 9 0.01"),
        (lambda text: text.replace("3\t0 0.01", "3\t0.5 0.01"), FormatError, ":4: expected one of .* found 0.5 0.01"),
        (lambda text: text.replace("3\t0 0.01", "3\t0 inf"), FormatError, ":4: .* and a finite value, found 0 inf"),
        (lambda text: text.replace("3\t0 0.01", "4\t0 0.01"), FormatError, ":4: expected the features of word 3"),
        (lambda text: text + "8\t0 0.01\n", ModelError, "features for 9 words, but config/words.txt has 8"),
        (lambda text: "", ModelError, "features for 0 words"),
    ],
)
def test_invalid_word_features_are_refused_with_their_line(tmp_path, edit, error, message):
    path = write_model(tmp_path / "rnnlm", "features") / "word_feats.txt"
    path.write_text(edit(path.read_text()))
    with pytest.raises(error, match=rf"word_feats.txt.*{message}"):
        load(path.parent)


# Checkpoints


@pytest.mark.parametrize("name", ["lm.pt", "lm.safetensors"])
@pytest.mark.parametrize("kind", ["words", "features"])
def test_a_converted_checkpoint_has_bit_identical_scores(ninja, tmp_path, kind, name):
    folder = write_model(tmp_path / "rnnlm", kind, "text")
    assert ninja("lm", "convert", folder, "-o", tmp_path / name) == (0, "", "")
    directory_lm, checkpoint_lm = load(folder), load(tmp_path / name)
    assert np.array_equal(sentence_logprobs(checkpoint_lm, SENTENCES), sentence_logprobs(directory_lm, SENTENCES))
    assert checkpoint_lm.vocabulary == directory_lm.vocabulary
    assert (checkpoint_lm.bos, checkpoint_lm.eos, checkpoint_lm.unk, checkpoint_lm.normalized) == (1, 2, 3, False)
    assert load(tmp_path / name, normalize=True).normalized


def test_a_missing_output_folder_is_refused(folder, tmp_path):
    with pytest.raises(OutputError):
        convert(folder, tmp_path / "none" / "lm.pt")


def test_only_kaldi_models_are_converted(ninja, folder, tmp_path):
    convert(folder, tmp_path / "lm.pt")
    code, _, errors = ninja("lm", "convert", tmp_path / "lm.pt", "-o", tmp_path / "again.pt")
    assert code == 1
    assert f"{tmp_path / 'lm.pt'}: a Ninja checkpoint cannot be" in errors


@pytest.mark.parametrize(
    ("kind", "keys", "value", "message"),
    [
        ("words", ["config", "lines"], None, "the configuration lines are missing"),
        ("words", ["config", "lines"], ["x"], "a configuration line has the unknown type"),
        ("words", ["config", "components"], [], "the components are missing"),
        ("words", ["config", "components", "c0"], 3, "the component 'c0' has no type"),
        ("words", ["config", "components", "c0", "type"], "XComponent", r"c0 \(XComponent\): this type is not"),
        ("words", ["config", "components", "c2", "<Dim>"], 2**40, "<Dim> is 1099511627776"),
        ("words", ["config", "bos"], 8, "bos is 8, which is not a word id"),
        ("words", ["config", "eos"], None, "eos is missing"),
        ("words", ["config", "unk"], None, "unk is missing"),
        ("words", ["config", "unk"], "a", "unk is 'a', which is not a word id"),
        ("words", ["state", "c0 <LinearParams>"], None, "<LinearParams> is missing"),
        ("words", ["state", "c0 <LinearParams>"], torch.ones(2), "<LinearParams> is not a non-empty matrix"),
        ("words", ["state", "c0 <LinearParams>"], torch.ones(8, 6).half(), "is of type float16"),
        (
            "words",
            ["state", "c0 <LinearParams>"],
            torch.ones(1, 1).expand(8, 6),
            "has more elements than the file stores for it",
        ),
        ("words", ["state", "embedding"], None, "the word embeddings are missing"),
        ("words", ["state", "embedding"], torch.ones(7, 4), "7 embeddings for 8 words"),
        (
            "words",
            ["state", "embedding"],
            torch.ones(8, 5),
            r"the embeddings have the shape \[8, 5\], but the network has the width 4",
        ),
        ("words", ["state", "embedding"], torch.full((8, 4), torch.inf), "embedding contains NaN or infinity"),
        ("features", ["state", "features.begin"], torch.arange(9), "are inconsistent"),
        ("features", ["state", "features.begin"], torch.arange(9).int(), "have the wrong type"),
        ("features", ["state", "features.index"], torch.full((14,), 5).int(), "a feature outside the range 0 to 4"),
        ("features", ["state", "features.value"], torch.ones(13), "are inconsistent"),
    ],
)
def test_an_inconsistent_checkpoint_is_refused(tmp_path, kind, keys, value, message):
    convert(write_model(tmp_path / "rnnlm", kind), tmp_path / "lm.pt")
    content = torch.load(tmp_path / "lm.pt", weights_only=True)
    torch.save(change(content, *keys, to=value), tmp_path / "lm.pt")
    with pytest.raises(ModelError, match=message) as caught:
        load(tmp_path / "lm.pt")
    assert str(caught.value).startswith(f"{tmp_path / 'lm.pt'}: ")


def test_the_number_of_parameters_is_reported(folder):
    model = rnnlm.read(folder)
    lstm = 8 * 6 + 8 + 3 * 2 + 4 * 2 + 4
    assert model.num_parameters == KaldiRnnlm(model).num_parameters == lstm + EMBEDDING.size
    checkpoint.save(checkpoint.Checkpoint(model, model.words, {}), folder / "lm.pt")
    state = torch.load(folder / "lm.pt", weights_only=True)["state"]
    assert not any(weight.dtype == torch.float16 for weight in state.values())
