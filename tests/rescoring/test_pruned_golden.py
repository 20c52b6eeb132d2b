"""Kaldi's own pruned composition, on all 239 English lattices with its RNNLM, after subtracting the trigram."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import cache
from typing import NamedTuple, TypeVar

import numpy as np
import pytest
from english_models import first_pass_trigram
from reference_graph import SHARED

import ninja
from ninja.evaluate import ErrorRate, read_text, score
from ninja.graph import best_path
from ninja.lattice import Lattice, Scales
from ninja.lm import LanguageModel, load
from ninja.lm.trie import sentence_logprobs
from ninja.rescoring import RescoreOptions, rescore

ENGLISH = SHARED / "data" / "english"
GOLDEN = SHARED / "golden" / "english"
RNNLM = SHARED / "data" / "rnnlm" / "feat_english"
WER = {3: 25.20, 4: 24.82}  # of Kaldi, with LM weight 12 and word penalty 1
T = TypeVar("T")

# In CI, conftest.py raises an error without these data.
pytestmark = pytest.mark.skipif(
    not GOLDEN.is_dir(), reason="Kaldi's answers do not come with the project (in CI they must be there)"
)


class Setting(NamedTuple):
    lattices: list[tuple[str, Lattice]]
    words: ninja.SymbolTable
    rnnlm: LanguageModel
    trigram: LanguageModel


@pytest.fixture(scope="module")
def setting() -> Setting:
    words = ninja.SymbolTable.read(ENGLISH / "words.txt.gz")
    return Setting(
        list(ninja.read(ENGLISH / "test/libri/lat.ark.gz", words=words)),
        words,
        load(RNNLM, backend="numpy"),
        first_pass_trigram(),
    )


def rescored(setting: Setting, options: RescoreOptions) -> dict[str, Lattice]:
    return dict(rescore(setting.lattices, setting.rnnlm, options, old_lm=setting.trigram))


def kaldis(name: str, value: Callable[[list[str]], T]) -> dict[str, T]:
    with gzip.open(GOLDEN / name, "rt") as lines:
        return {key: value(fields) for key, *fields in map(str.split, lines)}


@cache
def best_of_kaldi(order: int) -> dict[str, tuple[list[int], float, float]]:
    """Return words, graph cost and acoustic cost of each utterance's best path."""
    name = f"rnnlm_pruned_{order}_6.best"
    words = kaldis(f"{name}.words.gz", lambda fields: [int(word) for word in fields])
    graph = kaldis(f"{name}.graph_cost.gz", lambda fields: float(fields[-1]))
    acoustic = kaldis(f"{name}.acoustic_cost.gz", lambda fields: float(fields[-1]))
    return {key: (words[key], graph[key], acoustic[key]) for key in words}


def error_rate(setting: Setting, lattices: dict[str, Lattice]) -> ErrorRate:
    best = {key: best_path(lattice, Scales(1 / 12, word_penalty=1.0)) for key, lattice in lattices.items()}
    hypotheses = {key: setting.words.spell(path.words) for key, path in best.items()}
    return score(read_text(ENGLISH / "test/libri/text"), hypotheses)


@pytest.mark.parametrize("order", [3, 4])
def test_expansion_and_best_path_agree_with_kaldi(setting: Setting, order: int) -> None:
    lattices = rescored(setting, RescoreOptions(algorithm="pruned", max_ngram_order=order))
    expected = dict(ninja.read(GOLDEN / f"rnnlm_pruned_{order}_6.ark.gz"))
    assert list(lattices) == list(expected)
    same_size = same_words = 0
    for key, lattice in lattices.items():
        words, graph, acoustic = best_of_kaldi(order)[key]
        same_size += lattice.num_states == expected[key].num_states and lattice.num_arcs == expected[key].num_arcs
        path = best_path(lattice, Scales(0.1))
        if list(path.words) == words:
            same_words += 1
            assert path.graph_cost == pytest.approx(graph, abs=1e-2)
            assert path.acoustic_cost == pytest.approx(acoustic, abs=1e-2)
    assert same_words >= 0.99 * len(expected) == pytest.approx(236.61)
    assert same_size >= 0.99 * len(expected)
    assert error_rate(setting, lattices).wer == pytest.approx(WER[order], abs=0.05)


def test_numpy_and_torch_have_equal_best_paths(setting: Setting) -> None:
    pytest.importorskip("torch")
    numpy_setting = setting._replace(lattices=setting.lattices[::10])
    torch_setting = numpy_setting._replace(rnnlm=load(RNNLM, backend="torch"))
    for options in RescoreOptions(algorithm="pruned", max_ngram_order=4), RescoreOptions(algorithm="arcbeam"):
        first, second = (rescored(backend_setting, options) for backend_setting in (numpy_setting, torch_setting))
        is_kaldis = []
        for key, lattice in first.items():
            paths = [best_path(rescored_lattice, Scales(0.1)) for rescored_lattice in (lattice, second[key])]
            assert paths[0].words.tolist() == paths[1].words.tolist()
            assert paths[0].graph_cost == pytest.approx(paths[1].graph_cost, abs=1e-3)
            is_kaldis.append(paths[0].words.tolist() == best_of_kaldi(4)[key][0])
        if options.algorithm == "pruned":
            assert sum(is_kaldis) >= len(is_kaldis) - 1


def test_arc_beam_with_full_histories_is_no_worse_than_kaldi(setting: Setting) -> None:
    lattices = rescored(setting, RescoreOptions(algorithm="arcbeam", beam=6.0, merge_order=0))
    assert error_rate(setting, lattices).wer <= WER[4] + 0.005  # Kaldi's figure is rounded
    kaldi = best_of_kaldi(4)
    spelled = {key: setting.words.spell(words) for key, (words, _, _) in kaldi.items()}

    def graph_costs(lm: LanguageModel) -> np.ndarray:
        return -sentence_logprobs(lm, [lm.vocabulary.ids(words) for words in spelled.values()])

    # The graph costs of the lattices are those of the trigram, half of which remains.
    exact = 0.5 * graph_costs(setting.trigram) + 0.5 * graph_costs(setting.rnnlm)
    worse = []
    for (key, (_, _, acoustic)), graph in zip(kaldi.items(), exact, strict=True):
        path = best_path(lattices[key], Scales(0.1))
        worse.append(path.graph_cost + 0.1 * path.acoustic_cost > graph + 0.1 * acoustic + 1e-3)
    assert np.mean(worse) <= 0.01
