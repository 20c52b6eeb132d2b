"""Choosing weights: the features that costs are made of, the search, and the file that carries them over."""

from __future__ import annotations

import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fake_lm import FakeLM
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_rescore import path_costs
from rescoring_cases import random_lattice
from strategies import lattices

import ninja as package
from ninja import _search
from ninja.errors import FormatError, OptionError
from ninja.evaluate import edits
from ninja.files import toml
from ninja.graph import best_path, determinize, nbest
from ninja.lattice import Scales
from ninja.lm import Mixture
from ninja.rescoring import RescoreOptions, RescoreReport, rescore
from ninja.tune.features import Features, features
from ninja.tune.first_pass import tune_first_pass
from ninja.tune.weights import ACOUSTIC_FACTORS, WORD_PENALTIES, Weights, choose, tune_weights

OPTIONS = RescoreOptions(
    algorithm="trie", max_trie_nodes=0, beam=math.inf, max_unknown=1.0, unk_penalty=2.0, acoustic_scale=0.5,
    lm_weight=0.7, word_penalty=0.25,
)  # fmt: skip
# Deterministic, so that words say which path is meant.
LATTICES = [(f"seed-{n}", determinize(random_lattice(n, num_states=7, fan=1), 0.5)) for n in range(6)]
ALL = 100_000  # sentences: more than any of these lattices has


class Other(FakeLM):
    """Another model of the same words."""

    def score(self, history: tuple[int, ...], word: int) -> float:
        return super().score((*history, 3), word)


def references() -> dict[str, list[str]]:
    """What a language model with no first pass would choose, with an error here and there."""
    options = replace(OPTIONS, lm_weight=0.9, acoustic_scale=0.3, word_penalty=1.0, output="best")
    said = {}
    for key, lattice in rescore(LATTICES, FakeLM(), options):
        said[key] = [*lattice.words.spell(lattice.word[lattice.word != 0]), *(["w1"] if key == "seed-3" else [])]
    return said


def taken(models: list[FakeLM], options: RescoreOptions, old_lm: FakeLM | None = None, **chosen: int) -> Features:
    lm = models[0] if len(models) == 1 else Mixture([(lm, 1 / len(models)) for lm in models])
    return features(
        LATTICES, lambda source: rescore(source, lm, options, old_lm=old_lm), references(), models, options,
        old_lm=old_lm, **{"num_best": ALL, **chosen},
    )  # fmt: skip


def total(found: Features, weights: Weights) -> np.ndarray:
    """Cost of each sentence, as the score of an arc is defined."""
    new = np.array(weights.mixture) @ found.of_sentences(found.logprob)
    old = 0.0 if found.old_logprob is None else found.of_sentences(found.old_logprob)
    share = 1 - weights.lm_weight if found.old_logprob is None else 1.0
    cost = weights.acoustic_scale * found.acoustic + share * found.graph - weights.lm_weight * (new - old)
    return cost + weights.word_penalty * found.num_words


@settings(max_examples=60)
@given(lattice=lattices(max_states=6, max_word=3), missing=st.lists(st.integers(1, 3), max_size=4))
def test_sentences_cost_what_their_best_paths_do(lattice: package.Lattice, missing: list[int]) -> None:
    best: dict[tuple[int, ...], float] = {}
    for cost in path_costs(lattice):
        best[cost.words] = min(best.get(cost.words, math.inf), 0.5 * cost.acoustic + cost.graph)
    sentences = [*best, tuple(missing)]
    begin = np.cumsum([0, *map(len, sentences)])
    words = np.array([word for sentence in sentences for word in sentence], np.int32)
    graph, acoustic = _search.sentence_costs(lattice, words, begin, 0.5, 0.25)
    expected = [best.get(sentence, math.inf) for sentence in sentences]
    assert (0.5 * acoustic + graph).tolist() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("with_old", [False, True])
@pytest.mark.parametrize("num_models", [1, 2])
def test_features_tell_what_rescoring_with_other_weights_costs(num_models: int, with_old: bool) -> None:
    models = [FakeLM(), Other()][:num_models]
    old_lm = Other() if with_old else None
    found = taken(models, OPTIONS, old_lm)
    for lm_weight, scale, penalty in ((0.7, 0.5, 0.25), (0.2, 1.0, -1.0), (1.0, 0.1, 2.0)):
        options = replace(OPTIONS, lm_weight=lm_weight, acoustic_scale=scale, word_penalty=penalty)
        lm = models[0] if num_models == 1 else Mixture([(lm, 0.5) for lm in models])
        cost = total(found, Weights(lm_weight, scale, penalty, (1 / num_models,) * num_models))
        for number, (_, lattice) in enumerate(rescore(LATTICES, lm, options, old_lm=old_lm)):
            paths = nbest(lattice, ALL, Scales(scale, word_penalty=penalty))
            here = np.sort(cost[found.lattice == number])
            assert here == pytest.approx([path.cost(Scales(scale, word_penalty=penalty)) for path in paths], abs=1e-3)


def test_a_linear_mixture_is_mixed_word_by_word() -> None:
    models = [FakeLM(), Other()]
    found = taken(models, OPTIONS)
    mixed = [(model, weight) for model, weight in zip(models, (0.25, 0.75), strict=True)]
    options = replace(OPTIONS, output="best")
    tuned = choose(found, Weights(0.7, 0.5, 0.25, (0.25, 0.75)), "linear")
    errors = 0
    said = references()
    for key, lattice in rescore(LATTICES, Mixture(mixed, "linear"), options):
        errors += edits(said[key], lattice.words.spell(lattice.word[lattice.word != 0]))
    assert tuned.wer_before == pytest.approx(100 * errors / sum(map(len, said.values())))


def test_one_model_is_not_asked_again_and_several_once() -> None:
    lm = FakeLM()
    asked = FakeLM()
    list(rescore(LATTICES, asked, OPTIONS))
    taken([lm], OPTIONS)
    assert (lm.num_advanced, lm.num_scored) == (asked.num_advanced, asked.num_scored)
    assert not lm.history


def test_a_weight_that_leaves_nothing_to_see_of_the_model_has_it_asked() -> None:
    lm = FakeLM()
    found, unweighted = taken([lm], OPTIONS), taken([lm], replace(OPTIONS, lm_weight=0.0))
    weights = Weights(0.6, 0.5, 0.25)
    assert np.sort(total(found, weights)) == pytest.approx(np.sort(total(unweighted, weights)), abs=1e-3)


def test_backward_models_read_the_words_in_reverse() -> None:
    models = [FakeLM(), Other()]
    options = replace(OPTIONS, backward=True)
    found = taken(models, options)
    cost = total(found, Weights(0.7, 0.5, 0.25, (0.5, 0.5)))
    lm = Mixture([(lm, 0.5) for lm in models])
    for number, (_, lattice) in enumerate(rescore(LATTICES, lm, options)):
        best = best_path(lattice, Scales(0.5, word_penalty=0.25)).cost(Scales(0.5, word_penalty=0.25))
        assert cost[found.lattice == number].min() == pytest.approx(best, abs=1e-3)


@settings(max_examples=12)
@given(st.integers(0, 10_000), st.sampled_from([1, 2, 3]), st.sampled_from(["loglinear", "linear"]))
def test_no_weights_of_the_grid_have_fewer_errors_than_those_chosen(seed: int, num_models: int, how: str) -> None:
    rng = np.random.default_rng(seed)
    size = 30
    begin = np.cumsum([0, *rng.integers(1, 4, size)])
    found = Features(
        lattice=np.sort(np.concatenate([np.arange(5), rng.integers(0, 5, size - 5)])),
        errors=rng.integers(0, 6, size),
        graph=rng.uniform(0, 20, size),
        acoustic=rng.uniform(0, 100, size),
        num_words=np.diff(begin),
        token_begin=begin,
        logprob=rng.uniform(-9, 0, (num_models, begin[-1])).astype(np.float32),
        old_logprob=None,
        reference_words=25,
        first_pass_errors=9,
    )
    start = Weights(0.5, 0.1, 0.0, (1 / num_models,) * num_models)
    tuned = choose(found, start, how)
    assert tuned == choose(found, start, how)
    assert tuned.wer <= tuned.wer_before
    assert tuned.wer_oracle <= tuned.wer
    for lm_weight in (0.0, 0.3, 1.0):
        for penalty in (-2.0, 0.5, 4.0):
            weights = replace(start, lm_weight=lm_weight, word_penalty=penalty)
            assert tuned.wer <= choose_nothing(found, weights, how) + 1e-9
    assert sum(tuned.weights.mixture) == pytest.approx(1.0)
    assert choose_nothing(found, tuned.weights, how) == pytest.approx(tuned.wer)


def choose_nothing(found: Features, weights: Weights, how: str) -> float:
    """Word error rate at the weights, sentence by sentence."""
    errors = 0
    for lattice in range(found.num_lattices):
        best, least = -1, math.inf
        for sentence in np.flatnonzero(found.lattice == lattice):
            tokens = slice(found.token_begin[sentence], found.token_begin[sentence + 1])
            said = found.logprob[:, tokens].astype(np.float64)
            share = np.array(weights.mixture)
            new = (share @ said).sum() if how == "loglinear" else np.log(share @ np.exp(said)).sum()
            cost = weights.acoustic_scale * found.acoustic[sentence] + (1 - weights.lm_weight) * found.graph[sentence]
            cost += weights.word_penalty * found.num_words[sentence] - weights.lm_weight * new
            if cost < least:
                best, least = sentence, cost
        errors += int(found.errors[best])
    return 100 * errors / found.reference_words


def one_sentence_better_above(lm_weight: float) -> Features:
    """Two sentences; the right one wins if the new model counts for more than this."""
    return Features(
        lattice=np.array([0, 0]),
        errors=np.array([0, 1]),
        graph=np.array([lm_weight, 0.0]),
        acoustic=np.zeros(2),
        num_words=np.array([1, 1]),
        token_begin=np.array([0, 1, 2]),
        logprob=np.array([[0.0, -(1 - lm_weight)]], np.float32),
        old_logprob=None,
        reference_words=1,
        first_pass_errors=1,
    )


def test_of_equals_the_grid_takes_the_nearest_and_a_line_the_middle() -> None:
    tuned = choose(one_sentence_better_above(0.45), Weights(0.2, 0.1, 0.0))
    assert (tuned.wer_before, tuned.wer) == (100.0, 0.0)
    assert 0.46 < tuned.weights.lm_weight < 0.6
    assert tuned.weights.acoustic_scale == pytest.approx(0.1, rel=0.2)
    assert tuned.edges == ()


def test_an_optimum_at_the_edge_is_told() -> None:
    assert choose(one_sentence_better_above(0.995), Weights(0.2, 0.1, 0.0)).edges == (
        "lm_weight 0.998 is at the upper end of its range: the old scores do not help",
    )


def test_a_model_of_a_mixture_that_adds_nothing_is_left_out() -> None:
    found = one_sentence_better_above(0.45)
    misleading = np.array([[-9.0, 0.0]], np.float32)
    found = replace(found, logprob=np.concatenate([found.logprob, misleading]))
    tuned = choose(found, Weights(0.5, 0.1, 0.0, (0.5, 0.5)))
    assert (tuned.wer, tuned.weights.mixture) == (0.0, (1.0, 0.0))
    assert tuned.edges[-1] == "model 2 of the mixture adds nothing"


def test_references_of_other_utterances_are_refused() -> None:
    with pytest.raises(FormatError, match="are these utterance ids of the same set"):
        tune_weights(LATTICES, {"other": ["w1"]}, FakeLM(), OPTIONS)
    with pytest.raises(OptionError, match="num_best is 0"):
        tune_weights(LATTICES, references(), FakeLM(), OPTIONS, num_best=0)


def test_a_lattice_that_fails_is_left_out() -> None:
    failures: list[package.NinjaError] = []
    nameless = replace(LATTICES[1][1], key="seed-1", words=None)
    pairs = [LATTICES[0], ("seed-1", nameless), *LATTICES[2:]]
    tuned = tune_weights(pairs, references(), FakeLM(), OPTIONS, report=RescoreReport(on_error=failures.append))
    assert tuned.num_lattices == 5
    assert [failure.key for failure in failures] == ["seed-1"]


def test_the_search_finds_back_what_made_the_references() -> None:
    tuned = tune_weights(LATTICES, references(), FakeLM(), OPTIONS)
    words = sum(map(len, references().values()))
    assert tuned.wer == pytest.approx(100 / words)  # the error that was put in
    assert tuned.wer < tuned.wer_first_pass


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    """A folder with four lattices, their words, and a unigram that knows all of these."""
    folder = tmp_path_factory.mktemp("bed")
    examples = Path(__file__).parents[2] / "examples"
    with package.write(folder / "lat.ark") as output:
        for number, (_, lattice) in enumerate(package.read(examples / "lat.ark.gz")):
            if number in (0, 2, 3, 4):
                output.write(lattice)
    for name in ("words.txt", "text"):
        shutil.copy(examples / name, folder)
    table = package.SymbolTable.read(folder / "words.txt")
    words = ["<s>", "</s>", "<unk>", *(word for word, _ in table if word not in ("<eps>", "<s>", "</s>", "<unk>"))]
    grams = [f"{-99 if word == '<s>' else -2 - len(word) % 5 / 4}\t{word}" for word in words]
    arpa = ["\\data\\", f"ngram 1={len(words)}", "\n\\1-grams:", *grams, "\n\\end\\\n"]
    (folder / "lm.arpa").write_text("\n".join(arpa))
    return folder


@pytest.fixture
def tuning(bed, tmp_path):
    """Arguments of ``ninja tune`` on a set of four lattices, and the file it is to write."""
    return ["tune", bed / "lat.ark", "--ref", bed / "text"], tmp_path / "weights.toml"


def test_the_command_writes_weights_that_rescore_takes(ninja, bed, tuning, tmp_path):
    arguments, weights = tuning
    model = ["--rnnlm", bed / "lm.arpa", "--acoustic-scale", 0.05]
    code, printed, errors = ninja(*arguments, *model, "--algorithm", "cover", "-o", weights)
    assert (code, printed) == (0, "")
    assert "before rescoring" in errors.splitlines()[-1]
    assert "LM weight" in errors.splitlines()[-1]
    text = weights.read_text()
    assert text.startswith(f"# ninja tune {bed / 'lat.ark'} --ref ")
    assert f'rnnlm = ["{bed / "lm.arpa"}"]' in text
    assert 'algorithm = "cover"' in text

    values = {line.split(" = ")[0]: line.split(" = ")[1] for line in text.splitlines() if line[0] != "#"}
    asked = [f"--{name.replace('_', '-')}={values[name]}" for name in ("lm_weight", "acoustic_scale", "word_penalty")]
    given = ["--rnnlm", bed / "lm.arpa", "--algorithm", "cover"]
    outputs = []
    for extra in (["--config", weights], [*given, *asked], ["--config", weights, "--lm-weight", 0]):
        outputs.append(tmp_path / f"{len(outputs)}.ark")
        assert ninja("rescore", bed / "lat.ark", *extra, "-o", outputs[-1])[0] == 0
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    assert outputs[0].read_bytes() != outputs[2].read_bytes()


def test_mixtures_are_tuned_and_written(ninja, bed, tuning, tmp_path):
    arguments, weights = tuning
    models = ["--rnnlm", bed / "lm.arpa", "--rnnlm", bed / "lm.arpa", "--mixture", "linear"]
    code, _, errors = ninja(*arguments, *models, "--algorithm", "nbest", "--num-best", 5, "-o", weights)
    assert code == 0
    assert ", mixture 0.5,0.5;" in errors.splitlines()[-1]  # the same model twice: nothing to choose
    assert 'mixture = "linear"' in weights.read_text()
    assert 'mixture_weights = "0.5,0.5"' in weights.read_text()
    assert ninja("rescore", bed / "lat.ark", "--config", weights, "-o", tmp_path / "out.ark")[0] == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("lm_weights = 1", "has no option 'lm_weights'"),
        ("lm_weight = [1]", "lm_weight is [1], but takes one value"),
        ("[rescore]\nlm_weight = 1", "has no option 'rescore'"),
        ("lm_weight", "no TOML"),
        ("lm_weight = 3", "--lm-weight is 3.0, but must lie in"),
        (None, "No such file"),
    ],
)
def test_a_wrong_file_of_options_is_named(ninja, bed, tmp_path, content, message):
    path = tmp_path / "weights.toml"
    if content is not None:
        path.write_text(content)
    code, _, errors = ninja("rescore", bed / "lat.ark", "--config", path, "-o", tmp_path / "out.ark")
    assert code in (1, 2)
    assert message in errors
    assert str(path) in errors or content == "lm_weight = 3"


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--jobs", 2], "omit --jobs"),
        (["--iterate", "forward"], "omit --iterate"),
        (["--rnnlm", "none", "--old-lm", "lm.arpa"], "no language model to choose a weight for"),
    ],
)
def test_tune_weights_refuses_inputs_that_cannot_be_tuned(ninja, tuning, extra, message):
    arguments, _ = tuning
    code, _, errors = ninja(*arguments, *extra)
    assert code == 2
    assert message in errors


def test_the_first_pass_is_tuned_alone(ninja, bed, tuning, tmp_path):
    arguments, weights = tuning
    code, printed, errors = ninja(*arguments, "--rnnlm", "none", "--acoustic-scale", 0.5, "-o", weights)
    assert (code, printed) == (0, "")
    values = toml.read(weights)
    assert sorted(values) == ["acoustic_scale", "word_penalty"]
    before, after = re.search(r"WER ([\d.]+) with the scales given, ([\d.]+) with these", errors).groups()
    assert float(after) < float(before)
    score = ("score", bed / "text", bed / "lat.ark", "--words", bed / "words.txt", "--mode", "present")
    for options, wer in ((("--acoustic-scale", 0.5), before), (("--config", weights), after)):
        assert ninja(*score, *options)[1].startswith(f"%WER {wer} ")
    assert ninja(*arguments, "--rnnlm", "none", "--acoustic-scale", 0, "-o", weights)[0] == 2


def test_the_first_pass_is_tuned_to_the_best_of_its_grid():
    said = references()
    start = Scales(0.4, word_penalty=0.5)
    tuned = tune_first_pass(LATTICES, said, start)

    def errors(scales):
        return sum(edits(said[key], lattice.words.spell(best_path(lattice, scales).words)) for key, lattice in LATTICES)

    words = sum(map(len, said.values()))
    grid = [
        errors(Scales(0.4 * factor, word_penalty=0.5 + penalty))
        for factor in ACOUSTIC_FACTORS
        for penalty in WORD_PENALTIES
    ]
    assert tuned.wer == 100 * errors(tuned.scales) / words <= 100 * min(grid) / words
    assert tuned.wer_before == 100 * errors(start) / words
    assert tune_first_pass(LATTICES, said, start) == tuned
    with pytest.raises(FormatError, match="no lattice has a reference"):
        tune_first_pass(LATTICES, {}, start)


def test_the_file_goes_to_stdout_without_an_output(ninja, bed, tuning):
    arguments, _ = tuning
    code, printed, _ = ninja(*arguments, "--rnnlm", bed / "lm.arpa", "--algorithm", "nbest", "--num-best", 5)
    assert code == 0
    assert "lm_weight = " in printed


@pytest.mark.parametrize("mixture", [False, True])
def test_the_rate_printed_is_that_of_a_rescoring_with_the_weights(ninja, bed, tuning, tmp_path, mixture):
    """Two sentences of each lattice are too few to search among: the search expects a rate that is not had."""
    arguments, weights = tuning
    models = ["--rnnlm", bed / "lm.arpa", "--mixture", "linear", *(["--rnnlm", "english-ngram"] if mixture else [])]
    code, _, errors = ninja(*arguments, *models[: None if mixture else 2], "--num-sentences", 2, "-o", weights)
    assert code == 0
    figures = re.search(r"([\d.]+) rescored with these(?: \(the search among .* expected ([\d.]+)\))?;", errors)
    assert figures is not None, errors
    if not mixture:
        assert figures[2] is not None
        assert figures[2] != figures[1]
    assert figures[0] in weights.read_text()
    out = tmp_path / "out.ark"
    assert ninja("rescore", bed / "lat.ark", "--config", weights, "-o", out)[0] == 0
    score = ninja("score", bed / "text", out, "--words", bed / "words.txt", "--mode", "present")
    assert score[1].startswith(f"%WER {figures[1]} ")
