"""Rescoring on several threads with a small LSTM, for tests that compare it with one thread."""

import pytest
from rescoring_cases import random_lattice

from ninja.rescoring import RescoreOptions, Rescorer, RescoreReport

torch = pytest.importorskip("torch")

from ninja.lattice.symbols import SymbolTable  # noqa: E402
from ninja.lm.recurrent.lstm import LstmLM  # noqa: E402
from ninja.models.lstm import Config, LSTMLanguageModel  # noqa: E402

OPTIONS = RescoreOptions(acoustic_scale=0.5, max_unknown=1.0, batch_arcs=400)
LATTICES = [(lattice.key, lattice) for lattice in map(random_lattice, range(10))]


def make_lm(seed=1):
    torch.manual_seed(seed)
    words = SymbolTable.from_words(["<s>", "</s>", "<unk>", *(f"w{i}" for i in range(1, 9))])
    module = LSTMLanguageModel(Config(len(words), embedding=8, hidden=16, normaliser=4))
    module.initialise()
    return LstmLM(module.eval(), words)


def run(lm, options=OPTIONS, threads=1, lattices=LATTICES, log=None, **how):
    rescorer = Rescorer(lm, options, **how)
    log = RescoreReport() if log is None else log
    return list(rescorer.on_threads(lattices, log, threads))


def identical(found, expected):
    assert [key for key, _ in found] == [key for key, _ in expected]
    return all(one.identical(other) for (_, one), (_, other) in zip(found, expected, strict=True))
