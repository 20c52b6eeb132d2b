"""Scores of decoded sentences for confidence models."""

import pytest
from fake_lm import FakeLM

from ninja.lm.surprise import WordSurprise
from ninja.lm.trie import word_logprobs


@pytest.mark.parametrize("unk", [True, False])
@pytest.mark.parametrize("words", [["w1", "zzz", "w2"], ["zzz"], [], ["w3"]])
def test_unknown_words_are_scored_as_unk_or_skipped(words, unk):
    lm = FakeLM(unk=unk)
    ids = [lm.vocabulary.id(word) for word in words]
    (surprise,) = WordSurprise(lm)([words])
    (logprob,) = word_logprobs(lm, [[lm.unk if word is None else word for word in ids if unk or word is not None]])
    scores = iter(logprob.tolist())
    assert surprise.logprob.tolist() == [next(scores) if unk or word is not None else 0.0 for word in [*ids, lm.eos]]
    assert surprise.is_unknown.tolist() == [word is None for word in ids]
