"""For each kind of model: rescoring a lattice without limits equals scoring every path as a sentence."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from reference_rescore import close, path_costs, path_costs_under
from strategies import lattices
from tiny_lstm import EXACT, MODULE, NUM_WORDS, VOCABULARY
from tiny_rnnlm import write_model

from ninja.lattice.symbols import SymbolTable
from ninja.lm import load
from ninja.lm.trie import word_logprobs
from ninja.rescoring import rescore

torch = pytest.importorskip("torch")  # a core dependency, but absent from some checkouts

from ninja.lm.attention.transformer import TransformerLM  # noqa: E402
from ninja.lm.recurrent.lstm import LstmLM  # noqa: E402
from ninja.models.transformer import Config, TransformerLanguageModel  # noqa: E402

ARPA = """\\data\\
ngram 1=6
ngram 2=4

\\1-grams:
-99 <s> -0.3
-1.0 </s>
-0.6 <unk> -0.1
-0.4 a -0.2
-0.8 b
-0.9 w3 -0.4

\\2-grams:
-0.1 <s> a
-0.25 a </s>
-0.5 w3 a
-0.7 a b

\\end\\
"""


def lstm(folder):
    return LstmLM(MODULE, VOCABULARY)


def transformer(folder):
    torch.manual_seed(3)
    module = TransformerLanguageModel(Config(NUM_WORDS, embedding=8, hidden=12, layers=2, heads=2))
    return TransformerLM(module.eval(), VOCABULARY)


def kaldi_rnnlm(folder):
    return load(write_model(folder / "rnnlm"))


def ngram(folder):
    (folder / "lm.arpa").write_text(ARPA)
    return load(folder / "lm.arpa")


@pytest.fixture(params=[lstm, transformer, kaldi_rnnlm, ngram], scope="module")
def lm(request, tmp_path_factory):
    return request.param(tmp_path_factory.mktemp("model"))


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lattice=lattices(max_states=6, max_word=8))
@pytest.mark.parametrize("algorithm", ["arcbeam", "pushforward", "pruned"])
def test_every_path_has_the_cost_of_its_sentence(lm, lattice, algorithm):
    names = ["<eps>", "a", "b", "w3", "ça", "w5", "w6", "w7", "w8"]  # some are unknown to some models
    lattice = replace(lattice, words=SymbolTable.from_words(names))

    def logprob(history, word):
        ids = [lm.unk if lm.vocabulary.id(name) is None else lm.vocabulary.id(name) for name in history]
        if word == "</s>":
            return float(word_logprobs(lm, [ids])[0][-1])
        number = lm.vocabulary.id(word)
        score = word_logprobs(lm, [[*ids, lm.unk if number is None else number]])[0][len(ids)]
        return float(score) - (EXACT.unk_penalty if number is None else 0.0)

    options = replace(EXACT, algorithm=algorithm, max_ngram_order=0, max_arcs=10**6)
    [(_, result)] = rescore([(lattice.key, lattice)], lm, options)
    expected = path_costs_under(lattice, logprob, options, 1 - options.lm_weight)
    assert close(path_costs(result), expected)
