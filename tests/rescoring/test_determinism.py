"""Advice for lattices that are not determinized, such as those of PocketSphinx."""

from pathlib import Path

import numpy as np
import pytest
from rescoring_cases import random_lattice

import ninja as package
from ninja.rescoring.utterances import ADVICE, is_ambiguous

RAW = Path(__file__).resolve().parents[2] / "examples" / "pocketsphinx" / "lattices"
MODEL = {"lmrescore": "--lm", "rescore": "--rnnlm"}


@pytest.mark.parametrize("verb", MODEL)
@pytest.mark.parametrize("target", ["out.ark", "out/"])
def test_a_run_advises_once_to_determinize_ambiguous_lattices(ninja, tmp_path, verb, target) -> None:
    arguments = [verb, RAW, MODEL[verb], "english-ngram", "-o", f"{tmp_path}/{target}"]
    if verb == "rescore":
        arguments += ["--output", "best", "--max-hyps", 1, "--beam", 1]
    code, _, errors = ninja(*arguments, *(["--to", "slf"] if target == "out/" else []))
    assert code == 0, errors
    assert errors.count(ADVICE) == 1


@pytest.mark.parametrize("verb", MODEL)
def test_determinized_lattices_need_no_advice(ninja, tmp_path, verb) -> None:
    steps = ["prune", "--beam", 14], ["determinize-pruned", "--beam", 10]
    source = RAW
    for step in steps:
        target = tmp_path / step[0]
        options = ["--acoustic-scale", 0.1, "--to", "slf", "-o", f"{target}/"]
        assert ninja(step[0], source, *step[1:], *options)[0] == 0
        source = target
    code, _, errors = ninja(verb, source, MODEL[verb], "english-ngram", "-o", tmp_path / "out.ark")
    assert code == 0
    assert ADVICE not in errors


def test_is_ambiguous_agrees_with_a_loop_over_arcs() -> None:
    def slow(lattice) -> bool:
        epsilons = repeated = 0
        for begin, end in zip(lattice.arc_begin[:-1].tolist(), lattice.arc_begin[1:].tolist(), strict=True):
            words = set()
            for word in lattice.word[begin:end].tolist():
                epsilons += word == 0
                repeated += word != 0 and word in words
                words.add(word)
        return max(epsilons, repeated) > lattice.num_arcs / 2

    answers = set()
    for seed in range(40):
        lattice = random_lattice(seed, 60, 10 + seed % 3)
        limit = 1 + seed % 8
        lattice = lattice.replace(word=np.where(lattice.word > limit, seed % 2, lattice.word).astype(np.int32))
        assert is_ambiguous(lattice) == slow(lattice)
        answers.add(is_ambiguous(lattice))
    assert answers == {True, False}
    assert not is_ambiguous(random_lattice(0, 4, 2).replace(word=np.zeros(11, np.int32)))  # too few arcs to matter


def test_rescore_notes_ambiguous_lattices_once() -> None:
    from fake_lm import FakeLM

    lattice = random_lattice(3, 200, 20).replace
    ambiguous = lattice(word=np.ones(random_lattice(3, 200, 20).num_arcs, np.int32))
    report = package.RescoreReport()
    options = package.RescoreOptions(max_unknown=1.0, output="best", max_hyps=1)
    assert len(list(package.rescore([("a", ambiguous), ("b", ambiguous)], FakeLM(), options, report=report))) == 2
    assert report.notes.count(ADVICE) == 1
