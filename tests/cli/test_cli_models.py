"""``ninja rescore`` with several language models: mixtures, old models, several passes, and context."""

import shutil

import numpy as np
import pytest
from example_lattices import EXAMPLES
from fake_lm import FakeLM
from rescoring_cases import TABLE, random_lattice

import ninja as package
from ninja.errors import ModelError, OptionError
from ninja.lattice import Scales
from ninja.lm import Mixture, load
from ninja.rescoring import CarryOver, ModelFiles, RescoreOptions, Rescorer, RescoreReport, iterate, models, rescore

NUM_LATTICES = 4


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    """Create a folder with some lattices, their words, and two small n-gram models."""
    folder = tmp_path_factory.mktemp("bed")
    word_ids = set()
    with package.write(folder / "lat.ark") as output:
        for number, (_, lattice) in enumerate(package.read(EXAMPLES / "lat.ark.gz")):
            if number < NUM_LATTICES:
                output.write(lattice)
                word_ids |= set(lattice.word.tolist())
    shutil.copy(EXAMPLES / "words.txt", folder)
    table = package.SymbolTable.read(folder / "words.txt")
    words = table.spell(sorted(word_ids))
    for seed, name in enumerate(("one.arpa", "two.arpa")):
        write_arpa(folder / name, words[seed:], seed)
    write_arpa(folder / "loud.arpa", [word.upper() for word in words], 3, unk=())
    return folder


def write_arpa(path, words, seed, unk=("<unk>",)):
    """Write a bigram model with random scores."""
    random = np.random.default_rng(seed)
    unigrams = ["<s>", "</s>", *unk, *(word for word in words if not word.startswith("<"))]
    pairs = sorted({tuple(random.choice(unigrams[3:], 2)) for _ in range(300)})
    lines = ["\\data\\", f"ngram 1={len(unigrams)}", f"ngram 2={len(pairs)}", "", "\\1-grams:"]
    lines += [f"{-random.uniform(0.5, 4):.4f} {word} {-random.uniform(0, 1):.4f}" for word in unigrams]
    lines += ["", "\\2-grams:", *(f"{-random.uniform(0.1, 2):.4f} {a} {b}" for a, b in pairs), "", "\\end\\", ""]
    path.write_text("\n".join(lines))


def lattices(bed):
    return package.read(bed / "lat.ark", words=bed / "words.txt")


def has_lattices(path, expected):
    lattices, expected = dict(package.read(path)), dict(expected)
    assert list(lattices) == list(expected)
    assert len(lattices) == NUM_LATTICES
    return all(lattice.identical(expected[key]) for key, lattice in lattices.items())


def test_models_are_mixed_and_unknown_words_of_each_are_reported(ninja, bed, tmp_path):
    first, second, output = bed / "one.arpa", bed / "two.arpa", tmp_path / "out.ark"
    arguments = ["--rnnlm", first, "--rnnlm", second, "--mixture", "linear", "--mixture-weights", "0.6,0.4"]
    code, _, errors = ninja("rescore", bed / "lat.ark", *arguments, "-o", output)
    assert code == 0
    messages = [line for line in errors.splitlines() if "vocabulary" in line]
    assert len(messages) == 2
    assert str(first) in messages[0]
    assert f"unknown to {second}" in messages[1]
    assert "scored as <unk> with penalty" in messages[1]
    mixture = Mixture(((load(first), 0.6), (load(second), 0.4)), "linear")
    assert has_lattices(output, rescore(lattices(bed), mixture))
    assert ninja("rescore", bed / "lat.ark", *arguments, "-o", tmp_path / "two.ark", "--jobs", 2)[0] == 0
    assert has_lattices(tmp_path / "two.ark", package.read(output))


def test_old_lm_is_subtracted_so_the_same_model_changes_nothing(ninja, bed, tmp_path):
    first, second, output = bed / "one.arpa", bed / "two.arpa", tmp_path / "out.ark"
    code, _, errors = ninja("rescore", bed / "lat.ark", "--rnnlm", second, "--old-lm", first, "-o", output)
    assert code == 0
    assert "vocabulary: the old language model contains" in errors
    assert has_lattices(output, rescore(lattices(bed), load(second), old_lm=load(first)))
    same_model = ["--rnnlm", first, "--old-lm", first, "--lm-weight", 1, "--output", "best"]
    assert ninja("rescore", bed / "lat.ark", *same_model, "-o", output)[0] == 0
    for (_, before), (_, after) in zip(lattices(bed), package.read(output), strict=True):
        expected, path = (package.graph.best_path(lattice, Scales(acoustic=0.1)) for lattice in (before, after))
        assert path.words.tolist() == expected.words.tolist()
        assert path.graph_cost == pytest.approx(expected.graph_cost, abs=1e-3)
    assert ninja("rescore", bed / "lat.ark", "--rnnlm", "none", "--old-lm", first, "-o", output)[0] == 0
    assert has_lattices(output, rescore(lattices(bed), None, old_lm=load(first)))


def test_iterate_rescores_forward_and_backward(ninja, bed, tmp_path):
    first, second, output = bed / "one.arpa", bed / "two.arpa", tmp_path / "out.ark"
    arguments = ["--rnnlm", first, "--rnnlm", second, "--iterate", "forward,backward", "--mixture-weights", "0.3,0.7"]
    assert ninja("rescore", bed / "lat.ark", *arguments, "--output", "best", "-o", output)[0] == 0
    passes = [
        (load(first), RescoreOptions(lm_weight=0.3)),
        (load(second), RescoreOptions(lm_weight=0.7, backward=True, output="best")),
    ]
    assert has_lattices(output, iterate(lattices(bed), passes))
    assert ninja("rescore", bed / "lat.ark", "--rnnlm", second, "--backward", "-o", output)[0] == 0
    assert has_lattices(output, rescore(lattices(bed), load(second), RescoreOptions(backward=True)))


def test_carry_over_follows_utt2spk_segments_or_the_input_order(ninja, bed, tmp_path):
    model, output = bed / "two.arpa", tmp_path / "out.ark"
    keys = list(package.keys(bed / "lat.ark"))
    (tmp_path / "utt2spk").write_text("".join(f"{key} spk{place % 2}\n" for place, key in enumerate(keys)))
    (tmp_path / "segments").write_text("".join(f"{key} rec {place} {place + 1}\n" for place, key in enumerate(keys)))
    common = ["rescore", bed / "lat.ark", "--rnnlm", model, "--carry-over", "--carry-words", 5, "-o", output]
    one_recording = CarryOver(max_words=5)
    for arguments, carry_over in (
        (["--utt2spk", tmp_path / "utt2spk"], CarryOver.from_utt2spk(tmp_path / "utt2spk", 5)),
        (["--segments", tmp_path / "segments"], one_recording),
        ([], one_recording),
    ):
        code, _, errors = ninja(*common, *arguments)
        assert code == 0
        assert ("all lattices are treated as one recording" in errors) == (not arguments)
        assert has_lattices(output, rescore(lattices(bed), load(model), carry_over=carry_over))


def test_map_words_case_finds_words_in_another_case(ninja, bed, tmp_path):
    arguments = ["rescore", bed / "lat.ark", "--rnnlm", bed / "loud.arpa", "-o", tmp_path / "out.ark"]
    code, _, errors = ninja(*arguments)
    assert code == 1
    assert "100.0% of arcs have words unknown" in errors
    code, _, errors = ninja(*arguments, "--map-words", "case", "--map-words", "unk")
    assert code == 0, errors
    assert "words found by case; " in errors


def test_the_cache_of_an_endpoint_is_neither_an_input_nor_an_output(ninja, bed, tmp_path):
    arguments = ["rescore", bed / "lat.ark", "--rnnlm", "http://127.0.0.1:9/v1/completions", "-o", tmp_path / "x.ark"]
    code, _, errors = ninja(*arguments, "--endpoint-cache", tmp_path / "x.ark")
    assert (code, "two outputs would be written to this file" in errors) == (2, True), errors
    code, _, errors = ninja(*arguments, "--endpoint-cache", bed / "lat.ark")
    assert (code, "is an input and would be overwritten" in errors) == (2, True), errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rnnlm", "none"], "--rnnlm none requires --old-lm"),
        (["--rnnlm", "none", "--rnnlm", "a", "--old-lm", "b"], "cannot be used with other models"),
        (["--mixture-weights", "0.5,0.5"], "the number of weights is 2, but must be 1, one per language model"),
        (["--mixture-weights", "half"], "must be numbers separated by commas"),
        (["--iterate", "forward,backward"], "the number of directions is 2, but must be 1, one per language model"),
        (["--iterate", "sideways"], "must be forward or backward for each model"),
        (["--iterate", "forward", "--backward"], "--backward cannot be used with --iterate"),
        (["--utt2spk", "f"], "require --carry-over"),
        (["--carry-words", 3], "require --carry-over"),
        (["--carry-over", "--utt2spk", "f", "--segments", "g"], "--utt2spk cannot be used with --segments"),
        (["--carry-over", "--resume", "-o", "x.ark"], "--carry-over cannot be used with --resume"),
        (
            ["--endpoint-cache", "x", "--endpoint-max-tokens", 5],
            "--endpoint-cache, --endpoint-max-tokens can be used only with a completions endpoint",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(ninja, bed, arguments, message):
    code, _, errors = ninja("rescore", bed / "lat.ark", *arguments)
    assert code != 0
    assert message in errors


def test_a_model_without_words_uses_the_symbol_table_of_the_lattices(monkeypatch):
    def open_model(path, options):
        words = options.words
        if path == "wordless" and words is None:
            raise ModelError("it has no words", path)
        if path == "broken":
            raise OptionError("broken")
        assert words is None or words is TABLE
        return FakeLM()

    monkeypatch.setattr(models, "open_model", open_model)
    notes = []
    pairs = [("k", random_lattice(1))]
    options = RescoreOptions(max_unknown=1.0)
    report = RescoreReport(on_note=notes.append)
    ((_, lattice),) = Rescorer(ModelFiles(("wordless",)), options)(pairs, report)
    ((_, expected),) = rescore(pairs, FakeLM(), options)
    assert lattice.identical(expected)
    assert report.notes == [
        "wordless: the model has no vocabulary; its word ids are taken from the lattices' symbol table"
    ]
    assert notes == [*report.notes, f"vocabulary: {report.coverages[0]}"]
    with pytest.raises(OptionError, match="broken"):
        list(Rescorer(ModelFiles(("broken",)), options)(pairs))
    assert list(Rescorer(ModelFiles(("missing",)))([])) == []


def test_a_command_loads_its_model_once(ninja, bed, tmp_path, monkeypatch):
    paths = []
    monkeypatch.setattr("ninja.rescoring.models.open_model", lambda path, options: paths.append(path) or load(path))
    assert ninja("rescore", bed / "lat.ark", "--rnnlm", bed / "one.arpa", "-o", tmp_path / "out.ark")[0] == 0
    assert len(paths) == 1
