"""``ninja tune``: the file of weights that other commands read, and the printed results."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from example_lattices import write_first

import ninja as package
from ninja.evaluate import read_text
from ninja.files.text import read_toml


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    """Create a folder with four lattices, their words, and a unigram model that contains all of these words."""
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
    """Return arguments of ``ninja tune`` for a set of four lattices, and the output file."""
    return ["tune", bed / "lat.ark", "--ref", bed / "text"], tmp_path / "weights.toml"


def test_tune_writes_weights_for_rescore(ninja, bed, tuning, tmp_path):
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
    names = ("lm_weight", "acoustic_scale", "word_penalty")
    weight_options = [f"--{name.replace('_', '-')}={values[name]}" for name in names]
    model_options = ["--rnnlm", bed / "lm.arpa", "--algorithm", "cover"]
    outputs = []
    for options in (["--config", weights], [*model_options, *weight_options], ["--config", weights, "--lm-weight", 0]):
        outputs.append(tmp_path / f"{len(outputs)}.ark")
        assert ninja("rescore", bed / "lat.ark", *options, "-o", outputs[-1])[0] == 0
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    assert outputs[0].read_bytes() != outputs[2].read_bytes()


@pytest.mark.parametrize(("option", "value"), [("--normalize", True), ("--no-normalize", False)])
def test_tune_writes_the_normalisation_of_the_model(ninja, bed, tmp_path, option, value):
    weights = tmp_path / "weights.toml"
    archive = write_first(tmp_path / "one.ark", 1)
    arguments = ["tune", archive, "--ref", bed / "text", "--words", bed / "words.txt"]
    code, _, errors = ninja(*arguments, option, "-o", weights)
    assert code == 0, errors
    assert read_toml(weights)["normalize"] is value


def test_mixtures_are_tuned_and_written(ninja, bed, tuning, tmp_path):
    arguments, weights = tuning
    models = ["--rnnlm", bed / "lm.arpa", "--rnnlm", bed / "lm.arpa", "--mixture", "linear"]
    code, _, errors = ninja(*arguments, *models, "--algorithm", "nbest", "--num-best", 5, "-o", weights)
    assert code == 0
    assert ", mixture 0.5,0.5;" in errors.splitlines()[-1]  # two copies of one model need no tuning
    assert 'mixture = "linear"' in weights.read_text()
    assert 'mixture_weights = "0.5,0.5"' in weights.read_text()
    assert ninja("rescore", bed / "lat.ark", "--config", weights, "-o", tmp_path / "out.ark")[0] == 0


def test_weights_are_tuned_with_the_words_of_earlier_utterances(ninja, bed, tuning, tmp_path):
    arguments, weights = tuning
    keys = list(package.keys(bed / "lat.ark"))
    (tmp_path / "utt2spk").write_text("".join(f"{key} spk\n" for key in keys))
    (tmp_path / "segments").write_text("".join(f"{key} rec {place} {place + 1}\n" for place, key in enumerate(keys)))
    common = [*arguments, "--rnnlm", bed / "lm.arpa", "--carry-over", "--carry-words", 5, "-o", weights]
    texts = []
    for recordings in (["--utt2spk", tmp_path / "utt2spk"], ["--segments", tmp_path / "segments"]):
        code, _, errors = ninja(*common, *recordings)
        assert code == 0, errors
        texts.append([line for line in weights.read_text().splitlines() if not line.startswith("#")])
    assert texts[0] == texts[1]
    assert {"carry_over = true", "carry_words = 5"} <= set(texts[0])
    code, _, errors = ninja("rescore", bed / "lat.ark", "--config", weights, "-o", tmp_path / "out.ark")
    assert (code, "all lattices are treated as one recording" in errors) == (0, True), errors


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("lm_weights = 1", "has no option 'lm_weights'"),
        ("lm_weight = [1]", "lm_weight is [1], but must be a single value"),
        ("[rescore]\nlm_weight = 1", "has no option 'rescore'"),
        ("lm_weight", "not TOML"),
        ("lm_weight = 3", "--lm-weight is 3.0, but must be in"),
        ("lm_weight = true", "lm_weight is True, but must be a number"),
        ("max_hyps = inf", "max_hyps is inf, but must be an integer"),
        ("max_hyps = 2.5", "max_hyps is 2.5, but must be an integer"),
        ("normalize = 0", "normalize is 0, but must be true or false"),
        ("old_lm = 1979-05-27", "old_lm is datetime.date(1979, 5, 27), but must be a string"),
        ("rnnlm = [false]", "rnnlm is [False], but must be a string"),
        ("oov_score = 07:32:00", "but must be a string or a number"),
        ('old_lm = "\\u0000"', "which contains a null character"),
        ("lm-weight = 1\nlm_weight = 0", "lm_weight is specified twice"),
        (None, "No such file"),
    ],
)
def test_an_invalid_option_file_is_refused_by_name(ninja, bed, tmp_path, content, message):
    path = tmp_path / "weights.toml"
    if content is not None:
        path.write_text(content)
    code, _, errors = ninja("rescore", bed / "lat.ark", "--config", path, "-o", tmp_path / "out.ark")
    assert code in (1, 2)
    assert message in errors
    assert str(path) in errors or content == "lm_weight = 3"


def test_option_files_accept_names_with_hyphens(ninja, bed, tmp_path):
    (tmp_path / "scales.toml").write_text("acoustic-scale = 0.01\nword-penalty = 3\n")
    expected = ninja("best", bed / "lat.ark", "--acoustic-scale", 0.01, "--word-penalty", 3)
    assert ninja("best", bed / "lat.ark", "--config", tmp_path / "scales.toml") == expected
    (tmp_path / "scales.toml").write_text("acoustic-scale = 0.01\nword_penalty = 3\n")
    assert ninja("best", bed / "lat.ark", "--config", tmp_path / "scales.toml") == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rnnlm", "none", "--old-lm", "lm.arpa"], "there is no language model to tune"),
        (["--rnnlm", "none", "--lm-weight", 0.5, "--beam", 3], "of the first pass; omit --beam, --lm-weight"),
        (["--rnnlm", "none", "--carry-over"], "--carry-over requires a language model"),
        (["--segments", "f"], "require --carry-over"),
    ],
)
def test_tune_refuses_options_that_exclude_tuning(ninja, tuning, options, message):
    arguments, _ = tuning
    code, _, errors = ninja(*arguments, *options)
    assert code == 2
    assert message in errors


@pytest.fixture(scope="module")
def large_bed(bed, tmp_path_factory):
    """Repeat the set of four lattices 13 times, so that it has the 500 words that are needed to choose weights."""
    folder = tmp_path_factory.mktemp("large")
    references = read_text(bed / "text")
    with package.write(folder / "lat.ark") as output, (folder / "text").open("w") as text:
        for copy in range(13):
            for key, lattice in package.read(bed / "lat.ark"):
                output.write(lattice.replace(key=f"{key}-{copy}"))
                text.write(f"{key}-{copy} {' '.join(references[key])}\n")
    shutil.copy(bed / "words.txt", folder)
    keys = [line.split()[0] for line in (folder / "text").read_text().splitlines()]
    (folder / "utt2spk").write_text("".join(f"{key} {key.rpartition('-')[2]}\n" for key in keys))
    return folder


def test_scales_are_tuned_without_a_language_model(ninja, large_bed, tmp_path):
    weights = tmp_path / "weights.toml"
    arguments = ["tune", large_bed / "lat.ark", "--ref", large_bed / "text", "--utt2spk", large_bed / "utt2spk"]
    code, printed, errors = ninja(*arguments, "--rnnlm", "none", "--acoustic-scale", 1, "-o", weights)
    assert (code, printed) == (0, "")
    values = read_toml(weights)
    assert sorted(values) == ["acoustic_scale", "word_penalty"]
    before, after = re.search(r"WER ([\d.]+) with the initial scales, ([\d.]+) with the chosen scales", errors).groups()
    assert float(after) < float(before)
    evidence = re.search(r"difference from the initial weights: .*cross-validated by speaker\)", errors)
    assert evidence is not None, errors
    assert evidence[0] in weights.read_text()
    score = ("score", large_bed / "text", large_bed / "lat.ark", "--words", large_bed / "words.txt")
    for options, wer in ((("--acoustic-scale", 1), before), (("--config", weights), after)):
        assert ninja(*score, *options)[1].startswith(f"%WER {wer} ")
    assert ninja(*arguments, "--rnnlm", "none", "--acoustic-scale", 0, "-o", weights)[0] == 2


@pytest.mark.parametrize("model", ["none", "lm.arpa"])
def test_a_small_set_keeps_the_initial_weights(ninja, bed, tuning, model):
    arguments, weights = tuning
    lm = model if model == "none" else bed / model
    code, _, errors = ninja(*arguments, "--rnnlm", lm, "--acoustic-scale", 0.5, "--word-penalty", 0.3, "-o", weights)
    assert code == 0
    values = read_toml(weights)
    assert (values["acoustic_scale"], values["word_penalty"]) == (0.5, 0.3)
    message = re.search(r"the initial weights are kept: \d+ words are too few to choose other weights", errors)
    assert message is not None, errors
    assert message[0] in weights.read_text()


@pytest.mark.parametrize("model", ["none", "lm.arpa"])
def test_references_without_words_are_refused(ninja, bed, tuning, tmp_path, model):
    arguments, weights = tuning
    arguments = [tmp_path / "empty" if argument == bed / "text" else argument for argument in arguments]
    (tmp_path / "empty").write_text("".join(f"{key}\n" for key in read_text(bed / "text")))
    lm = model if model == "none" else bed / model
    code, _, errors = ninja(*arguments, "--rnnlm", lm, "-o", weights)
    assert (code, weights.exists()) == (1, False)
    assert "the references of the lattices contain no words, so the word error rate is undefined" in errors


def test_tune_prints_weights_without_an_output_file(ninja, bed, tuning):
    arguments, _ = tuning
    code, printed, _ = ninja(*arguments, "--rnnlm", bed / "lm.arpa", "--algorithm", "nbest", "--num-best", 5)
    assert code == 0
    assert "lm_weight = " in printed


@pytest.mark.parametrize("mixture", [False, True])
def test_tune_reports_the_wer_of_rescoring_with_its_weights(ninja, large_bed, tmp_path, mixture):
    weights, out = tmp_path / "weights.toml", tmp_path / "out.ark"
    arguments = ["tune", large_bed / "lat.ark", "--ref", large_bed / "text", "--num-sentences", 2, "-o", weights]
    models = ["--rnnlm", "english-ngram", *(["--rnnlm", "english-ngram", "--mixture", "linear"] if mixture else [])]
    code, _, errors = ninja(*arguments, *models, "--acoustic-scale", 0.02, "--lm-weight", 0.2)
    assert code == 0
    figures = re.search(
        r"([\d.]+) with the initial weights, "
        r"([\d.]+) rescored with the chosen weights(?: \([\d.]+ among the sentences\))?;",
        errors,
    )
    assert figures is not None, errors
    assert float(figures[2]) < float(figures[1])
    assert figures[0] in weights.read_text()
    assert ninja("rescore", large_bed / "lat.ark", "--config", weights, "-o", out)[0] == 0
    score = ninja("score", large_bed / "text", out, "--words", large_bed / "words.txt")
    assert score[1].startswith(f"%WER {figures[2]} ")
    if mixture:  # a second copy of the model does not lower the WER
        assert len(read_toml(weights)["rnnlm"]) == 1
        assert "model 2 of the mixture is not used" in errors


def test_default_initial_weights_depend_on_the_kind_of_input(ninja, bed, tmp_path):
    lists = tmp_path / "lists.jsonl"
    lists.write_text(
        '{"key": "one", "nbest": [{"text": "the scene", "score": -1}, {"text": "a scene", "score": -2}]}\n'
    )
    (tmp_path / "text").write_text("one the scene\n")
    weights = tmp_path / "weights.toml"
    for source, ref, expected in (
        (bed / "lat.ark", bed / "text", (0.8, 0.1, 0.5)),
        (lists, tmp_path / "text", (0.15, 1.0, -1.0)),
    ):
        model = ["--rnnlm", "english-ngram", "--max-unknown", 1]
        code, _, errors = ninja("tune", source, "--ref", ref, *model, "-o", weights)
        assert code == 0, errors
        assert "initial weights are the defaults for " in errors
        values = read_toml(weights)
        assert (values["lm_weight"], values["acoustic_scale"], values["word_penalty"]) == expected
        code, _, errors = ninja("tune", source, "--ref", ref, *model, "--word-penalty", 0.25, "-o", weights)
        assert code == 0, errors
        assert "initial weights are the defaults for " not in errors
        values = read_toml(weights)
        assert (values["lm_weight"], values["word_penalty"]) == (0.5, 0.25)
