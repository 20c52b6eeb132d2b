"""Rescoring on several threads with a small LSTM, for tests that compare it with one thread."""

import pytest
from rescoring_cases import random_lattice

from ninja.rescoring import RescoreOptions, Rescorer, RescoreReport

torch = pytest.importorskip("torch")

from ninja.lattice.symbols import SymbolTable  # noqa: E402
from ninja.lm.recurrent.lstm import LstmLM  # noqa: E402
from ninja.models.lstm import Config, LSTMLanguageModel  # noqa: E402

OPTIONS = RescoreOptions(acoustic_scale=0.5, max_unknown=1.0, batch_arcs=200)
LATTICES = [(lattice.key, lattice) for lattice in (random_lattice(seed, num_states=16) for seed in range(10))]


def make_lm(seed=1):
    torch.manual_seed(seed)
    words = SymbolTable.from_words(["<s>", "</s>", "<unk>", *(f"w{i}" for i in range(1, 9))])
    module = LSTMLanguageModel(Config(len(words), embedding=8, hidden=16, normaliser=4))
    module.initialise()
    return LstmLM(module.eval(), words)


def run(lm, options=OPTIONS, threads=1, lattices=LATTICES, log=None, **rescorer_options):
    rescorer = Rescorer(lm, options, **rescorer_options)
    log = RescoreReport() if log is None else log
    return list(rescorer.on_threads(lattices, log, threads))


def identical(results, expected):
    assert [key for key, _ in results] == [key for key, _ in expected]
    return all(
        result.identical(expected_result) for (_, result), (_, expected_result) in zip(results, expected, strict=True)
    )
