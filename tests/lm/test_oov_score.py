"""N-gram models without <unk>: unknown words are skipped, have separate or common scores, or stop the run."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_graph import costs_of, paths
from reference_ngram import SlowNgram, models, write_arpa, write_const_arpa, write_grammar
from strategies import lattices

import ninja as package
from ninja.errors import OptionError, VocabularyError
from ninja.graph import from_arcs
from ninja.lattice.symbols import SymbolTable
from ninja.lm import load, sentence_logprobs
from ninja.lm.ngram.compose import compose_ngram
from ninja.lm.protocol import LoadOptions
from ninja.lm.word_map import WordMap

IDS = {"<eps>": 0, "a": 7, "b": 4, "ç": 9, "#0": 11, "<s>": 12, "</s>": 13}
CLOSED = SlowNgram(
    2,
    {
        ("<s>",): (-99.0, -0.5),
        ("</s>",): (-0.5, 0.0),
        ("a",): (-1.0, -0.25),
        ("b",): (-0.75, -0.125),
        ("<s>", "a"): (-0.25, 0.0),
        ("a", "b"): (-0.5, 0.0),
        ("b", "</s>"): (-0.0625, 0.0),
    },
)


def without_unk(model):
    return SlowNgram(model.order, {ngram: scores for ngram, scores in model.ngrams.items() if "<unk>" not in ngram})


def slow_score(model, words, oov):
    """Return ln P of a sentence and its end; an unknown word scores `oov` and starts an empty history."""
    history, total = ("<s>",), 0.0
    for word in (*words, "</s>"):
        if (word,) in model.ngrams:
            total += model.score(history, word)
            history = (*history, word)
        else:
            total += oov
            history = ()
    return total


def write_model(model, folder, kind):
    words = SymbolTable(IDS.items())
    contents = {"arpa": write_arpa, "const": lambda ngrams: write_const_arpa(ngrams, IDS)}
    contents["grammar"] = lambda ngrams: write_grammar(ngrams, IDS)
    path = folder / "lm"
    path.write_bytes(contents[kind](model if kind == "arpa" else model.closed()))
    return path, words


@settings(max_examples=12)
@given(models(), st.sampled_from(["arpa", "const", "grammar"]), st.sampled_from(["skip", "spread", -4.5]))
def test_scores_of_unknown_words_agree_with_a_slow_implementation(tmp_path_factory, model, kind, score):
    model = without_unk(model)
    path, words = write_model(model, tmp_path_factory.mktemp("oov"), kind)
    lm = load(path, words=words, oov_score=score)
    slow = model if kind == "arpa" else model.closed()
    oov = {"skip": 0.0, "spread": -math.log(len(lm.vocabulary) - 1)}.get(score, score)
    known_words = sorted({ngram[0] for ngram in model.ngrams} - {"<s>", "</s>"})
    random = np.random.default_rng(0)
    sentences = [random.choice([*known_words, "zebra"], int(size)).tolist() for size in random.integers(0, 7, 20)]
    ids = [[lm.unk if word == "zebra" else lm.vocabulary.id(word) for word in sentence] for sentence in sentences]
    expected = [slow_score(slow, sentence, oov) for sentence in sentences]
    np.testing.assert_allclose(sentence_logprobs(lm, ids), expected, rtol=1e-5, atol=1e-4)


def test_kenlm_scores_of_unknown_words_agree_with_the_slow_twin(tmp_path):
    pytest.importorskip("kenlm")
    from ninja.lm.ngram.kenlm import KenLM

    (tmp_path / "lm.arpa").write_bytes(write_arpa(CLOSED))
    lm = KenLM(str(tmp_path / "lm.arpa"), SymbolTable.from_words(["<eps>", "a", "b"]))
    lm.score_oovs(-4.5)
    sentences = [["a", "zebra", "b"], ["zebra"], ["a", "b", "zebra", "zebra", "a", "b"]]
    ids = [[lm.unk if word == "zebra" else lm.vocabulary.id(word) for word in sentence] for sentence in sentences]
    assert sentence_logprobs(lm, ids) == pytest.approx(
        [slow_score(CLOSED, sentence, -4.5) for sentence in sentences], abs=1e-4
    )


@settings(max_examples=10)
@given(lattices(max_states=6, connected=False), st.sampled_from(["skip", "spread", -4.5]))
def test_composition_gives_unknown_words_the_same_scores(tmp_path_factory, lattice, score):
    words = ["<eps>", "a", "b", "</s>", "zebra", "zoo"]
    path, _ = write_model(CLOSED, tmp_path_factory.mktemp("compose"), "arpa")
    lm = load(path, oov_score=score)
    composed, arc_map = compose_ngram(
        lattice, lm, word_map=WordMap(SymbolTable.from_words(words), lm), return_arc_map=True
    )
    # The model has 4 words, and the table 2 unknown words.
    oov = {"skip": 0.0, "spread": -math.log(4) - math.log(2)}.get(score, score)
    for path in paths(composed):
        source_path = tuple(int(arc_map[arc]) for arc in path)
        path_words = [
            words[lattice.word[arc]] for arc in source_path if words[lattice.word[arc]] not in ("<eps>", "</s>")
        ]
        expected = costs_of(lattice, source_path)[0] - slow_score(CLOSED, path_words, oov)
        assert costs_of(composed, path)[0] == pytest.approx(expected, abs=1e-4)


def test_oov_score_has_no_effect_on_a_model_with_unk(tmp_path):
    (tmp_path / "lm").write_bytes(write_arpa(SlowNgram(2, {**CLOSED.ngrams, ("<unk>",): (-2.0, 0.0)})))
    lm = load(tmp_path / "lm", oov_score="skip")
    assert (lm.oov_score, lm.unk_words) == (None, None)
    assert lm.logprob(lm.start(1), np.array([lm.unk], np.int32))[0] == pytest.approx(-2.5 * math.log(10))


@pytest.mark.parametrize("score", ["spill", 0.5, -math.inf, math.nan])
def test_invalid_oov_scores_are_refused(score):
    with pytest.raises(OptionError, match="skip, spread, or a natural-log probability"):
        LoadOptions(oov_score=score)


@pytest.fixture
def inputs(tmp_path):
    """Write two lattices with an unknown word, and an ARPA file without <unk>."""
    words = SymbolTable.from_words(["<eps>", "a", "b", "zebra"])
    with package.write(tmp_path / "lat.ark") as output:
        for key in ("one", "two"):
            lattice = from_arcs(key, [0, 0, 1], [1, 1, 2], [1, 3, 2], [5.0, 4.5, 1.0], [7.0, 7.0, 7.0], finals={2: 0.0})
            output.write(lattice.replace(words=words))
    (tmp_path / "words.txt").write_text("".join(f"{word} {number}\n" for word, number in words))
    (tmp_path / "lm.arpa").write_bytes(write_arpa(CLOSED))
    return tmp_path


@pytest.mark.parametrize("model", [("--rnnlm",), ("--rnnlm", None, "--old-lm")])
def test_a_failed_run_suggests_oov_scores_once(ninja, inputs, model):
    model_options = [str(inputs / "lm.arpa") if argument is None else argument for argument in model]
    options = ["--max-unknown", "1", *model_options, inputs / "lm.arpa"]
    code, output, errors = ninja("rescore", inputs / "lat.ark", *options, "-o", inputs / "out.ark")
    assert (code, output) == (1, "")
    assert [line for line in errors.splitlines() if "error" in line] == [errors.splitlines()[-1]]
    assert "skip, spread or a log-probability" in errors.splitlines()[-1]
    assert "zebra" in errors.splitlines()[-1]
    assert not (inputs / "out.ark").exists()


def test_rescore_applies_the_oov_score_and_reports_it_once(ninja, inputs):
    options = ["--max-unknown", "1", "--rnnlm", inputs / "lm.arpa", "--lm-weight", "1", "--oov-score"]
    for score, cost in (("skip", 0.0), ("-2.5", 2.5)):
        out = inputs / "out.ark"
        code, _, errors = ninja("rescore", inputs / "lat.ark", *options, score, "-o", out, "--output", "lattice")
        assert code == 0
        assert errors.count(f"the model has no <unk>, so they are scored with --oov-score {score}") == 1
        (_, lattice), _ = package.read(out)
        costs = {tuple(int(lattice.word[arc]) for arc in path): costs_of(lattice, path)[0] for path in paths(lattice)}
        assert costs[3, 2] == pytest.approx(cost - slow_score(CLOSED, ["zebra", "b"], 0.0), abs=1e-4)
        assert costs[1, 2] == pytest.approx(-slow_score(CLOSED, ["a", "b"], 0.0), abs=1e-4)


def test_lmrescore_applies_the_oov_score_and_reports_it_once(ninja, inputs):
    command = ["lmrescore", inputs / "lat.ark", "--lm", inputs / "lm.arpa", "-o", inputs / "out.ark"]
    code, _, errors = ninja(*command)
    assert code == 1
    assert "set --oov-score (skip, spread or a log-probability)" in errors
    code, _, errors = ninja(*command, "--oov-score", "skip")
    assert code == 0
    assert errors.count("the model has no <unk>, so they are scored with --oov-score skip") == 1
    (_, lattice), _ = package.read(inputs / "out.ark")
    costs = {tuple(int(lattice.word[arc]) for arc in path): costs_of(lattice, path)[0] for path in paths(lattice)}
    assert costs[3, 2] == pytest.approx(5.5 - slow_score(CLOSED, ["zebra", "b"], 0.0), abs=1e-4)


def test_lmrescore_reports_an_unsupported_model_once(ninja, inputs):
    (inputs / "lm.pt").write_bytes(b"no model")
    code, _, errors = ninja("lmrescore", inputs / "lat.ark", "--lm", inputs / "lm.pt", "-o", inputs / "out.ark")
    assert (code, errors.count("error:")) == (1, 1)


def test_rescore_in_python_suggests_oov_score(inputs):
    pairs = list(package.read(inputs / "lat.ark", words=inputs / "words.txt"))
    with pytest.raises(VocabularyError, match="set oov_score"):
        list(package.rescore(pairs, load(inputs / "lm.arpa"), package.RescoreOptions(max_unknown=1.0)))
