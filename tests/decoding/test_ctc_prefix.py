"""CTC scores of prefixes, and the search that combines them with a model of the next unit."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies_decode import ALL, list_of, spelled_weights
from test_beam_search import BOS, EOS, EXACT, drawn_model, score_of_all, starts_of

from ninja.decoding import BeamOptions, CtcPrefixes, SpelledTracker, Spelling, beam_search
from ninja.errors import OptionError

BLANK = BOS  # the unit that begins a sentence is never output, so its column can be that of the blank


def output(seed, frames, units=5):
    logits = np.random.default_rng(seed).normal(0, 1.5, (frames, units))
    return logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)


def collapsed(alignment):
    return tuple(unit for unit, _ in itertools.groupby(alignment) if unit != BLANK)


def probabilities(logprob):
    """Return the probability of each unit sequence, by all alignments."""
    total = {}
    for alignment in itertools.product(range(logprob.shape[1]), repeat=len(logprob)):
        probability = math.exp(sum(logprob[frame, unit] for frame, unit in enumerate(alignment)))
        total[collapsed(alignment)] = total.get(collapsed(alignment), 0.0) + probability
    return total


@settings(max_examples=20)
@given(st.integers(0, 999), st.integers(0, 4), st.lists(st.integers(1, 3), max_size=3))
def test_scores_of_prefixes_are_sums_over_all_alignments(seed, frames, prefix):
    short, long = output(seed, frames, 4), output(seed + 1, 5, 4)
    ctc = CtcPrefixes([short, long], BLANK)
    state, utterance, score = ctc.start(), np.arange(2), np.zeros(2)
    last = -1
    for unit in prefix:
        score, state = ctc.extend(utterance, state, np.array([last, last]), np.array([unit, unit]))
        last = unit
    whole = ctc.final(utterance, state)
    for number, logprob in enumerate((short, long)):
        total = probabilities(logprob)
        begins = sum(share for units, share in total.items() if units[: len(prefix)] == tuple(prefix))
        assert math.exp(score[number]) == pytest.approx(begins, abs=1e-9)
        assert math.exp(whole[number]) == pytest.approx(total.get(tuple(prefix), 0.0), abs=1e-9)


@settings(max_examples=15)
@given(st.integers(0, 999), spelled_weights, st.sampled_from([0.0, 0.3, 1.0]))
def test_unlimited_search_with_ctc_scores_equals_enumeration_of_all_sequences(seed, weights, weight):
    spelled = Spelling(["<s>", "</s>", "▁a", "b", "▁ab"], silent=["<s>", "</s>"])
    tracker = SpelledTracker(spelled, None, ALL, room=20)
    search = replace(EXACT, max_length=3, ctc_weight=weight, end_lengths=0)
    step, logprob_of = drawn_model(seed, 5, impossible=0.0)
    lists, ctc = [[list_of(weights)]], output(seed, 4)
    ctc[:, EOS] = -np.inf
    ctc -= np.logaddexp.reduce(ctc, axis=1, keepdims=True)
    total = probabilities(ctc)
    [hypotheses] = beam_search(
        step, starts_of([0]), tracker, lists, search, bos=BOS, eos=EOS, ctc=CtcPrefixes([ctc], BLANK)
    )
    model_scores = score_of_all(logprob_of, 0, tracker, lists[0], 5, 3, replace(search, context_scale=0.0))
    context = score_of_all(logprob_of, 0, tracker, lists[0], 5, 3, search)
    expected = {}
    for units, score in model_scores.items():
        if weight == 0 or total.get(units, 0.0) > 0:
            expected[units] = (1 - weight) * score + context[units] - score
            expected[units] += weight * math.log(total[units]) if weight else 0.0
    assert {hypothesis.units: hypothesis.score for hypothesis in hypotheses} == pytest.approx(expected, abs=1e-4)
    for hypothesis in hypotheses:
        assert hypothesis.score == pytest.approx(hypothesis.model_score + hypothesis.context_score, abs=1e-9)


SPELLING = Spelling(["<s>", "</s>", "a", "b", " "], boundary=" ", silent=["<s>", "</s>"])


def steady(end):
    """Return a model that always prefers "a", with a log-probability of ending."""
    logprob = np.log([1e-9, math.exp(end), 1 - math.exp(end) - 2e-9, 1e-9, 0.0 + 1e-300])

    def step(states, units):
        return np.tile(logprob, (len(units), 1)), states

    return step


def test_the_search_ends_when_longer_hypotheses_are_far_below_the_best():
    ctc = np.log(np.array([[0.05, 1e-12, 0.95, 1e-12, 1e-12]]))
    tracker = SpelledTracker(SPELLING)
    options = BeamOptions(beam=0, score_beam=math.inf, max_units=2, max_length=40, ctc_weight=0.5)
    lengths = {}
    for end_lengths in (0, 2, 3):
        counted = []

        def step(states, units, counted=counted):
            counted.append(len(units))
            return steady(-1.0)(states, units)

        states = np.zeros(1)
        search = replace(options, end_lengths=end_lengths, end_beam=0.1)
        long = CtcPrefixes([np.repeat(ctc, 30, axis=0)], 0)
        [hypotheses] = beam_search(step, states, tracker, [[]], search, bos=BOS, eos=EOS, ctc=long)
        lengths[end_lengths] = len(counted)
        assert hypotheses[0].units == (2,)
    assert lengths[2] + 1 == lengths[3] < lengths[0] == 16  # thirty frames contain "a" at most fifteen times


def test_utterances_of_a_batch_with_ctc_scores_do_not_affect_each_other():
    step, _ = drawn_model(5, 5)
    tracker = SpelledTracker(Spelling(["<s>", "</s>", "▁a", "b", "▁ab"], silent=["<s>", "</s>"]), None, ALL, room=40)
    lists = [[list_of({})], [list_of({})], [list_of({})]]
    outputs = [output(seed, 3 + seed) for seed in range(3)]
    options = BeamOptions(beam=3, max_length=8)

    def search(utterances):
        ctc = CtcPrefixes([outputs[utterance] for utterance in utterances], BLANK)
        phrase_lists = [lists[utterance] for utterance in utterances]
        return beam_search(step, starts_of(utterances), tracker, phrase_lists, options, bos=BOS, eos=EOS, ctc=ctc)

    batch = search([0, 1, 2])
    assert [search([utterance])[0] for utterance in range(3)] == batch


def test_ctc_outputs_that_do_not_match_are_refused():
    tracker = SpelledTracker(SPELLING)
    with pytest.raises(OptionError, match="ctc has 2 utterances, but lists has 1; pass both for the same utterances"):
        beam_search(
            steady(-1.0), np.zeros(1), tracker, [[]], bos=BOS, eos=EOS, ctc=CtcPrefixes([output(1, 2), output(2, 3)])
        )
    with pytest.raises(OptionError, match="the matrices have 4 to 5 columns"):
        CtcPrefixes([output(1, 2, 4), output(2, 3)])
    with pytest.raises(OptionError, match="blank is column 7, but the last column is 4"):
        CtcPrefixes([output(1, 2)], 7)
    with pytest.raises(OptionError, match="unit 4 is not one of the 4 columns of the CTC model"):
        beam_search(steady(-1.0), np.zeros(1), tracker, [[]], bos=BOS, eos=EOS, ctc=CtcPrefixes([output(1, 2, 4)]))
