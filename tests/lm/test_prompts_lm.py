"""Prompts of causal Hugging Face models: scores are those of the whole text, and a prompt is read once."""

import functools
from dataclasses import replace

import numpy as np
import pytest
from fake_lm import FakeLM
from reference_rescore import close, path_costs, path_costs_under, word_logprob
from rescoring_cases import EXACT, mixture_logprob, random_lattice

from ninja.errors import LatticeError, ModelError
from ninja.lattice.symbols import SymbolTable
from ninja.lm import Mixture
from ninja.lm.lexical import LexicalLM
from ninja.lm.protocol import FIRST_PROMPT, are_prompts
from ninja.lm.trie import score_by_levels
from ninja.rescoring import CarryOver, Prompts, RescoreReport, rescore

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", reason="Hugging Face's transformers is not installed: ninja-asr[hf]")

from tiny_hf import folder, load_model, make_trie, no_network, one_quiet_thread  # noqa: E402, F401

PROMPT = "Topic: the cat.\nNames: dog, mat"
NAMED = SymbolTable.from_words(["<eps>", "the", "cat", "sat", "catalogue", "saturated", "theatre", "he", "mats"])
SMALL = [(f"utt{i}", replace(random_lattice(i, 6, 1), key=f"utt{i}", words=NAMED)) for i in range(4)]


class TransformersScores:
    """Scores by transformers of the whole text, with a space between the prompt and the first word."""

    def __init__(self, kind, prompt=PROMPT):
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder(kind))
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder(kind)).eval()
        self.prompt = prompt
        self.logprob = functools.cache(self._logprob)

    def pieces(self, words):
        return self.tokenizer(" ".join([*self.prompt.split(" "), *words]), add_special_tokens=False)["input_ids"]

    @torch.no_grad()
    def _logprob(self, history, word):
        history_pieces = self.pieces(history)
        pieces = [*history_pieces, self.tokenizer.eos_token_id] if word == "</s>" else self.pieces([*history, word])
        ids = [self.tokenizer.bos_token_id, *pieces]
        scores = self.model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        return float(sum(scores[place, ids[place + 1]] for place in range(len(history_pieces), len(pieces))))


cached_scores = functools.cache(TransformersScores)


def below_prompt(lm, parent, word, prompt=PROMPT):
    """Return a trie whose words all follow a prompt."""
    return np.concatenate([[-1], parent + 1]).astype(np.int32), np.concatenate([[lm.prompt(prompt)], word]).astype(
        np.int32
    )


@pytest.mark.parametrize("kind", ["gpt2", "opt", "llama", "mistral", "bloom", "mamba", "gemma2"])
def test_words_after_a_prompt_have_the_scores_of_the_whole_text(kind):
    lm, logprob = load_model(kind), TransformersScores(kind).logprob
    parent, word = make_trie(lm, 25)
    paths = []
    for parent_node, word_id in zip(parent.tolist(), word.tolist(), strict=True):
        paths.append([*(paths[parent_node] if parent_node >= 0 else ()), lm.vocabulary.word(word_id)])
    expected = np.array([logprob(tuple(path[:-1]), path[-1]) for path in paths])
    trie = below_prompt(lm, parent, word)
    assert abs(lm.score_trie(parent, word) - expected).max() > 0.1  # the prompt changes the scores
    np.testing.assert_allclose(lm.score_trie(*trie)[1:], expected, atol=1e-4)
    np.testing.assert_allclose(score_by_levels(lm, *trie)[1:], expected, atol=1e-4)


def test_capable_networks_read_tries_after_prompts_in_one_pass():
    reads_below = {
        kind: load_model(kind)._pieces._reads_below for kind in ("gpt2", "llama", "mistral", "bloom", "mamba")
    }
    assert reads_below == {"gpt2": True, "llama": True, "mistral": False, "bloom": False, "mamba": False}


@pytest.mark.parametrize("algorithm", ["nbest", "trie", "arcbeam"])
def test_a_prompt_is_read_once(algorithm, monkeypatch):
    lm = load_model("gpt2")
    prompt_lengths, num_pieces = [], []
    original_read, network = lm._pieces.read, lm._pieces._network
    monkeypatch.setattr(lm._pieces, "read", lambda pieces: prompt_lengths.append(len(pieces)) or original_read(pieces))

    def counting(**arguments):
        num_pieces.append(arguments["input_ids"].numel())
        return network(**arguments)

    monkeypatch.setattr(lm._pieces, "_network", counting)
    options = replace(EXACT, algorithm=algorithm, batch_arcs=1)  # each lattice is a separate batch
    assert len(list(rescore(SMALL, lm, options, prompts=Prompts("the cat " * 20)))) == len(SMALL)
    [length] = prompt_lengths
    num_pieces_without: list[int] = []
    with_prompt, num_pieces = sum(num_pieces), num_pieces_without
    list(rescore(SMALL, lm, options))
    assert with_prompt - sum(num_pieces) < 2 * length


@pytest.mark.parametrize("algorithm", ["trie", "arcbeam", "pruned"])
@pytest.mark.parametrize("mixture", [False, True])
def test_every_path_is_scored_after_the_prompt(algorithm, mixture):
    prompt, lm = "the cat sat", load_model("gpt2")
    logprob = cached_scores("gpt2", prompt).logprob
    if mixture:  # the second model reads the prompt with different ids; the third ignores it
        models = [(lm, 0.7), (load_model("llama"), 0.8), (FakeLM(0, extra_words=tuple(dict(NAMED))[1:]), -0.5)]
        lm, logprobs = Mixture(models), [logprob, cached_scores("llama", prompt).logprob, word_logprob(models[2][0])]
        logprob = mixture_logprob(
            [(part, weight) for part, (_, weight) in zip(logprobs, models, strict=True)], "loglinear"
        )
    options = replace(EXACT, algorithm=algorithm, max_trie_nodes=0, max_ngram_order=0)
    for (key, lattice), (_, result) in zip(
        SMALL, rescore(SMALL, lm, options, prompts=Prompts(f"{prompt} \n")), strict=True
    ):
        expected = path_costs_under(lattice, logprob, options, 1 - options.lm_weight)
        assert close(path_costs(result), expected), key
    assert not mixture or not models[2][0].history


def test_each_utterance_has_its_own_prompt_and_history():
    lm = load_model("gpt2")
    options = replace(EXACT, algorithm="nbest", num_best=1000, output="best")
    by_key = {"utt0": "the dog", "utt1": "", "utt2": "the mat"}
    errors = []
    report = RescoreReport(on_error=errors.append)
    results = dict(rescore(SMALL, lm, options, prompts=Prompts(by_key=by_key, path="p.tsv"), report=report))
    assert [str(error) for error in errors] == ["key 'utt3': this utterance is missing from the prompts in p.tsv"]
    for key, lattice in SMALL[:3]:
        prompts = Prompts(by_key[key]) if by_key[key] else None
        [(_, expected)] = rescore([(key, lattice)], lm, options, prompts=prompts)
        assert results[key].identical(expected)
    # Words that are carried over follow the prompt.
    carry_over_results = dict(rescore(SMALL[:2], lm, options, prompts=Prompts("the dog"), carry_over=CarryOver()))
    first = [NAMED.word(word) for word in carry_over_results["utt0"].word.tolist() if word]
    text = " ".join(["the dog", *first]) + "<|endoftext|>"
    [(_, expected)] = rescore([SMALL[1]], lm, options, prompts=Prompts(text))
    np.testing.assert_allclose(carry_over_results["utt1"].graph, expected.graph, atol=1e-4)


def test_invalid_prompts_are_refused():
    lm = load_model("gpt2")
    with pytest.raises(
        ModelError, match=r"the prompt has \d+ pieces, but the language model accepts at most 64, including"
    ):
        lm.prompt("zebra " * 60)
    assert lm.prompt("the cat \n") == lm.prompt("the cat") == FIRST_PROMPT
    assert are_prompts(np.array([0, FIRST_PROMPT - 1, FIRST_PROMPT, (1 << 30) - 1, 1 << 30])).tolist() == [
        False, False, True, True, False,
    ]  # fmt: skip
    with pytest.raises(LatticeError, match="missing from the prompts"):
        list(rescore(SMALL[:1], lm, EXACT, prompts=Prompts(by_key={})))


def test_lexical_models_read_the_prompt_unchanged():
    from ninja.lattice.text import LexicalForms

    lm = load_model("gpt2")
    lexical = LexicalLM(lm, LexicalForms("basic", lambda note: None))
    lexical.vocabulary.ids(["The,", "cat", "it's"])
    word = np.array([lexical.prompt(PROMPT), *lexical.vocabulary.ids(["The,", "cat"]), lexical.eos], np.int32)
    unit_ids = np.array([lm.prompt(PROMPT), *lm.vocabulary.ids(["the", "cat"]), lm.eos], np.int32)
    parent = np.array([-1, 0, 1, 2], np.int32)
    np.testing.assert_allclose(lexical.score_trie(parent, word), lm.score_trie(parent, unit_ids), atol=1e-5)
