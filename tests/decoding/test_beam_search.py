"""Beam searches with context: without beams, they find the same results as an exhaustive search."""

import itertools
import math
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies_decode import ALL, PIECES, WORD, boosts, list_of, names, spelled_weights, steps

from ninja.context.grammar.tracker import Match, Tracker
from ninja.decoding import BeamOptions, CtcOptions, SpelledTracker, Spelling, beam_search, ctc_nbest, ctc_units
from ninja.decoding.boosted_ctc import within_beams
from ninja.decoding.lexicon import NO_LEXICON
from ninja.errors import ModelError, OptionError
from ninja.lattice.symbols import SymbolTable

TABLE = SymbolTable.from_words(["<eps>", "</s>", "b", "ab", "aa", "bb", "a"])
EXACT = BeamOptions(beam=0, score_beam=math.inf, max_units=0)
PIECE_UNITS = ctc_units(["<s>", "▁", "▁a", "▁ab", "a", "b", "bb"], 0, "pieces")  # those of PIECES
UNIFORM = np.log(np.full((3, 7), 1 / 7))


def spelled_tracker():
    return SpelledTracker(PIECES, room=20)


# Search with models that return the next unit


BOS, EOS = 0, 1


def drawn_model(seed, num_units, impossible=0.1):
    """Return a model whose states are histories, with random probabilities for each history."""

    def logprob_of(utterance, history):
        random = np.random.default_rng([seed, utterance, *history])
        logits = random.normal(0, 1.5, num_units)
        if len(history) > 1:
            logits[random.random(num_units) < impossible] = -np.inf
        logits[[2, EOS]] = np.maximum(logits[[2, EOS]], -4)
        return logits - np.logaddexp.reduce(logits)

    def step(states, units):
        after = np.empty(len(states), object)
        after[:] = [
            (utterance, (*history, int(unit))) for (utterance, history), unit in zip(states, units, strict=True)
        ]
        return np.array([logprob_of(*state) for state in after]).reshape(len(after), num_units), after

    return step, logprob_of


def starts_of(utterances):
    states = np.empty(len(utterances), object)
    states[:] = [(utterance, ()) for utterance in utterances]
    return states


def score_of_all(logprob_of, utterance, tracker, lists, num_units, longest, options):
    """Return the scores of all unit sequences."""
    scores = {}
    start = tracker.start(lists)
    for length in range(longest + 1):
        for units in itertools.product([u for u in range(num_units) if u != EOS], repeat=length):
            history = (BOS, *units)
            model = sum(logprob_of(utterance, history[: at + 1])[unit] for at, unit in enumerate((*units, EOS)))
            context = sum(steps(tracker, start, units))
            if math.isfinite(model + context):
                scores[units] = model + options.context_scale * context + options.length_reward * length
    return scores


def rounded_scores(hypotheses):
    return [(hypothesis.units, round(hypothesis.score, 3)) for hypothesis in hypotheses]


@settings(deadline=None, max_examples=20)
@given(
    seed=st.integers(0, 2**32 - 1),
    weights=spelled_weights,
    words=st.booleans(),
    keyword=boosts,
    scale=st.sampled_from([0.0, 0.5, 1.0]),
    reward=st.sampled_from([-0.5, 0.0, 1.0]),
)
def test_unlimited_beam_search_equals_enumeration_of_all_sequences(seed, weights, words, keyword, scale, reward):
    spelled = Spelling(["<s>", "</s>", "▁a", "b", "▁ab"], silent=["<s>", "</s>"])
    options = replace(ALL, keyword_boost=keyword)
    if words:
        tracker = Tracker(SymbolTable.from_words(["<eps>", "</s>", *WORD.values()]), None, options)
    else:
        tracker = SpelledTracker(spelled, None, options, room=20)
    search = replace(EXACT, max_length=3, context_scale=scale, length_reward=reward)
    step, logprob_of = drawn_model(seed, 5)
    lists = [[list_of(weights)]]
    (hypotheses,) = beam_search(step, starts_of([0]), tracker, lists, search, bos=BOS, eos=EOS)
    expected = score_of_all(logprob_of, 0, tracker, lists[0], 5, 3, search)
    assert {hypothesis.units: hypothesis.score for hypothesis in hypotheses} == pytest.approx(expected, abs=1e-4)
    assert hypotheses[0].score == max(hypothesis.score for hypothesis in hypotheses)
    for hypothesis in hypotheses:
        parts = hypothesis.model_score + scale * hypothesis.context_score + reward * len(hypothesis.units)
        assert hypothesis.score == pytest.approx(parts, abs=1e-9)


@settings(deadline=None, max_examples=12)
@given(
    seed=st.integers(0, 2**32 - 1), weights=st.lists(spelled_weights, min_size=1, max_size=4), beam=st.integers(1, 4)
)
def test_utterances_of_a_batch_do_not_affect_each_other(seed, weights, beam):
    spelled = Spelling(["<s>", "</s>", "▁a", "b", "▁ab"], silent=["<s>", "</s>"])
    tracker = SpelledTracker(spelled, None, ALL, room=40)
    options = BeamOptions(beam=beam, max_length=5, max_units=4)
    model_step, _ = drawn_model(seed, 5)

    def step(states, units):
        counts = np.unique([utterance for utterance, _ in states], return_counts=True)[1]
        assert (counts <= beam).all()
        return model_step(states, units)

    lists = [[list_of(phrase_weights)] for phrase_weights in weights]
    utterances = list(range(len(lists)))
    batch = beam_search(step, starts_of(utterances), tracker, lists, options, bos=BOS, eos=EOS)
    for utterance in utterances:
        single = beam_search(step, starts_of([utterance]), tracker, [lists[utterance]], options, bos=BOS, eos=EOS)
        assert single == [batch[utterance]]
        assert len(batch[utterance]) <= beam


def test_partial_boosts_keep_a_name_in_the_beam():
    # The model prefers "z" to "n" in each of three places, so that a beam of 4 prunes "nn" without a boost.
    spelling = Spelling(["<s>", "</s>", *"nxyz"], boundary=" ", silent=["<s>", "</s>"])
    logprob = np.log([1e-9, 0.01, 0.07, 0.2, 0.3, 0.42])

    def step(states, units):
        after = states + 1
        ending = np.where(np.arange(6) == EOS, 0.0, -50.0)
        return np.where(after[:, None] > 3, ending, logprob), after

    def best(*lists):
        (hypotheses,) = beam_search(
            step, np.zeros(1), SpelledTracker(spelling, room=20), [lists], BeamOptions(beam=4), bos=BOS, eos=EOS
        )
        return spelling.words(hypotheses[0].units), hypotheses[0].matches

    assert best() == (["zzz"], ())
    assert best(names("nnn")) == (["nnn"], (Match(0, 1, "@name", "nnn"),))


def test_the_search_continues_while_a_better_hypothesis_is_possible():
    continuing, ending = np.log([1e-9, 0.05, 0.9, 0.05]), np.log([1e-9, 1 - 3e-9, 1e-9, 1e-9])

    def step(states, units):
        return np.where((states < 10)[:, None], continuing, ending), states + 1

    tracker = Tracker(SymbolTable.from_words(["<eps>", "</s>", "a", "b"]))
    (hypotheses,) = beam_search(step, np.zeros(1), tracker, [[]], BeamOptions(beam=2), bos=BOS, eos=EOS)
    assert hypotheses[0].units == (2,) * 10
    assert len(hypotheses) == 2


def test_ending_is_tried_even_if_it_is_improbable():
    def step(states, units):
        return np.tile(np.log([1e-9, 0.1, 0.6, 0.3]), (len(units), 1)), states

    tracker = Tracker(SymbolTable.from_words(["<eps>", "</s>", "a", "b"]))
    options = BeamOptions(max_units=1, max_length=2)
    (hypotheses,) = beam_search(step, np.zeros(1), tracker, [[]], options, bos=BOS, eos=EOS)
    assert [hypothesis.units for hypothesis in hypotheses] == [(), (2,), (2, 2)]


def test_model_states_can_be_nested():
    States = namedtuple("States", "length texts")
    logprob = np.log(np.full(3, 1 / 3))

    def step(states, units):
        assert states.length.tolist() == [len(text) for text in states.texts["units"][0]]
        texts = np.empty(len(units), object)
        texts[:] = [text + str(unit) for text, unit in zip(states.texts["units"][0], units, strict=True)]
        return np.tile(logprob, (len(units), 1)), States(states.length + 1, {"units": [texts]})

    start = States(np.zeros(2, np.int64), {"units": [np.array(["", ""], object)]})
    tracker = Tracker(SymbolTable.from_words(["<eps>", "</s>", "a"]))
    first, second = beam_search(step, start, tracker, [[], []], BeamOptions(beam=3, max_length=4), bos=BOS, eos=EOS)
    assert first == second
    assert [first[0].units, len(first)] == [(), 3]


def test_no_utterances_have_no_hypotheses():
    tracker = spelled_tracker()
    assert beam_search(lambda *_: pytest.fail("the model was called"), np.zeros(0), tracker, [], bos=0, eos=1) == []


def test_an_utterance_that_cannot_end_has_no_hypothesis():
    def step(states, units):
        return np.tile([0.0, -np.inf], (len(units), 1)), states

    tracker = Tracker(SymbolTable.from_words(["a", "b"]))
    assert beam_search(step, np.zeros(1), tracker, [[]], BeamOptions(max_length=3), bos=0, eos=1) == [[]]


@pytest.mark.parametrize(
    ("logprob", "error", "message"),
    [
        (np.zeros((2, 3)), ModelError, r"step: log-probabilities have shape \(2, 3\), but there are 1 hypotheses"),
        (np.zeros(3), ModelError, r"step: log-probabilities have shape \(3,\), but must be \[1, units\]"),
        ([[0.0, np.nan, 0.0]], ModelError, "step: the log-probability of unit 1 in row 0 is NaN"),
        ([[0.0, 2.5, 0.0]], ModelError, "of unit 1 in row 0 is 2.5, above 0; if these are logits"),
        ([[0.0]], OptionError, "bos or eos is 1, but the model has only the units 0 to 0"),
        (np.zeros((1, 9)), OptionError, "unit 7 is out of range; there are 7 units"),
    ],
)
def test_a_step_without_log_probabilities_is_refused(logprob, error, message):
    with pytest.raises(error, match=message):
        beam_search(lambda states, _: (logprob, states), np.zeros(1), spelled_tracker(), [[]], bos=0, eos=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": -1}, "beam is -1, but must be 0 or more"),
        ({"max_units": -1}, "max_units is -1, but must be 0 or more"),
        ({"max_length": 0}, "max_length is 0, but must be 1 or more"),
        ({"score_beam": 0.0}, "score_beam is 0.0, but must be above 0"),
        ({"score_beam": math.nan}, "score_beam is nan, but must be above 0"),
        ({"context_scale": -1.0}, "context_scale is -1.0, but must be 0 or more"),
        ({"length_reward": math.inf}, "length_reward is inf, but must be finite"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        BeamOptions(**options)


# Search with models that return frames


def ctc_probability(logprob, units, blank):
    """Return the probability of all alignments of a unit sequence."""
    total = -math.inf
    for labels in itertools.product(range(logprob.shape[1]), repeat=len(logprob)):
        merged = [label for at, label in enumerate(labels) if at == 0 or labels[at - 1] != label]
        if [label for label in merged if label != blank] == list(units):
            total = np.logaddexp(total, sum(logprob[at, label] for at, label in enumerate(labels)))
    return total


@st.composite
def frames(draw, num_units, max_frames):
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    logits = random.normal(0, 2, (draw(st.integers(0, max_frames)), num_units))
    logits[random.random(logits.shape) < 0.1] = -np.inf
    logits[:, 1] = np.maximum(logits[:, 1], -3)
    return logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)


@settings(deadline=None, max_examples=20)
@given(
    logprob=frames(4, 4),
    weights=spelled_weights,
    words=st.booleans(),
    blank=st.integers(0, 3),
    keyword=boosts,
    scale=st.sampled_from([0.0, 0.5, 1.0]),
    reward=st.sampled_from([-0.5, 0.0, 1.0]),
)
def test_unlimited_ctc_search_equals_enumeration_of_all_alignments(
    logprob, weights, words, blank, keyword, scale, reward
):
    options = replace(ALL, keyword_boost=keyword)
    names = ["▁a", "b", "▁ab"]
    names.insert(blank, "<b>")
    if words:
        tracker = Tracker(SymbolTable.from_words(["<eps>", *WORD.values()]), None, options)
    else:
        tracker = SpelledTracker(Spelling(names, silent=["<b>"]), None, options, room=20)
    search = CtcOptions(beam=0, score_beam=math.inf, context_scale=scale, length_reward=reward)
    lists = [list_of(weights)]
    hypotheses = ctc_nbest(logprob, ctc_units(names, blank), options=search, tracker=tracker, lists=lists)
    expected = {}
    start = tracker.start(lists)
    for length in range(len(logprob) + 1):
        for sequence in itertools.product([unit for unit in range(4) if unit != blank], repeat=length):
            model = ctc_probability(logprob, sequence, blank)
            if math.isfinite(model):
                context = sum(steps(tracker, start, sequence))
                expected[sequence] = model + scale * context + reward * length
    assert {hypothesis.units: hypothesis.score for hypothesis in hypotheses} == pytest.approx(expected, abs=1e-4)
    scores = [hypothesis.score for hypothesis in hypotheses]
    assert scores == sorted(scores, reverse=True)


@given(logprob=frames(6, 12), weights=spelled_weights, beam=st.integers(1, 5), data=st.data())
def test_ctc_beam_limits_hypotheses_and_ignores_the_order_of_phrases(logprob, weights, beam, data):
    names = ["<b>", "▁a", "▁ab", "b", "a", "▁"]
    spelling, units = Spelling(names, silent=["<b>"]), ctc_units(names, 0, "pieces")
    options = CtcOptions(beam=beam, max_units=4)
    shuffled = {cls: dict(data.draw(st.permutations(list(phrases.items())))) for cls, phrases in weights.items()}
    result, shuffled_result = (
        ctc_nbest(logprob, units, None, options, tracker=SpelledTracker(spelling, room=20), lists=[list_of(phrases)])
        for phrases in (weights, shuffled)
    )
    assert rounded_scores(result) == rounded_scores(shuffled_result)
    assert [hypothesis.text for hypothesis in result] == [
        " ".join(spelling.words(hypothesis.units)) for hypothesis in result
    ]
    assert len(result) <= beam
    assert len({hypothesis.units for hypothesis in result}) == len(result)


@pytest.mark.parametrize(
    ("logprob", "options", "error", "message"),
    [
        ([[0.0, np.nan]], {}, ModelError, "the value of unit 1 in frame 0 is nan"),
        (np.log(np.full((1, 9), 1 / 9)), {}, ModelError, "the matrix has 9 columns, but there are 7 units"),
        (UNIFORM, {"lexicon": NO_LEXICON}, OptionError, "a lexicon cannot be used together with a tracker"),
        (UNIFORM, {"tracker": None}, OptionError, "phrase lists require a tracker; pass a tracker"),
        (UNIFORM, {"tracker": None, "lists": (), "options": CtcOptions(length_reward=1)}, OptionError,
         "length_reward cannot be used without a tracker"),
    ],
)  # fmt: skip
def test_a_ctc_search_with_a_tracker_refuses_bad_input(logprob, options, error, message):
    options = {"tracker": spelled_tracker(), "lists": [names("b")], **options}
    with pytest.raises(error, match=message):
        ctc_nbest(logprob, PIECE_UNITS, **options)


def test_the_beam_limits_equally_probable_sequences():
    assert len(ctc_nbest(UNIFORM, PIECE_UNITS, None, CtcOptions(beam=3), tracker=spelled_tracker())) == 3


class Forbidding:
    """A tracker that never allows a unit."""

    def __init__(self, unit):
        self.unit = unit

    def clear(self):
        pass

    def start(self, lists=()):
        return 0

    def advance(self, states, units):
        assert (states == 0).all(), "a hypothesis continued after a forbidden unit"
        forbidden = units == self.unit
        return np.where(forbidden, -1, 0), np.where(forbidden, -np.inf, 0).astype(np.float32)

    def final(self, states):
        return np.zeros(len(states), np.float32)

    def matches(self, start, units):
        return []

    def spell(self, units):
        return []


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_beam_search_finds_only_words_of_the_grammar(scale):
    options = replace(EXACT, max_length=2, context_scale=scale)
    step, _ = drawn_model(1, 4, impossible=0)
    (stepped,) = beam_search(step, starts_of([0]), Forbidding(2), [[]], options, bos=BOS, eos=EOS)
    logprob, units = np.log(np.full((3, 4), 1 / 4)), ctc_units(["<b>", "x", "y", "z"], 0)
    search = CtcOptions(beam=0, score_beam=math.inf, context_scale=scale)
    for hypotheses in stepped, ctc_nbest(logprob, units, None, search, tracker=Forbidding(2)):
        assert hypotheses
        assert not any(2 in hypothesis.units for hypothesis in hypotheses)


@pytest.mark.parametrize("make", [spelled_tracker, lambda: Tracker(TABLE)], ids=["spelled", "words"])
def test_threads_share_a_tracker(make):
    def attention(seed, tracker):
        step, _ = drawn_model(seed, len(PIECES), impossible=0)
        lists = [[names("ab", "aa ab")]]
        return beam_search(step, starts_of([0]), tracker, lists, BeamOptions(beam=4, max_length=5), bos=BOS, eos=EOS)

    def ctc(seed, tracker):
        logprob = np.log(np.random.default_rng(seed).dirichlet(np.full(len(PIECES), 0.3), 12))
        return ctc_nbest(logprob, PIECE_UNITS, None, CtcOptions(beam=8), tracker=tracker, lists=[names("ab", "bb a")])

    cases = [(search, seed) for seed in range(12) for search in (attention, ctc)]
    expected = [search(seed, make()) for search, seed in cases]
    shared = make()
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda case: case[0](case[1], shared), cases)) == expected


def test_within_beams_keeps_a_hypothesis_exactly_at_the_beam():
    score = np.array([-3.0, -1.0, -np.inf, -1.0, -3.5])
    assert within_beams(score, 0, 2.0).tolist() == [1, 3, 0]
    assert within_beams(score, 1, 2.0).tolist() == [1]
