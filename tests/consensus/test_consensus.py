"""Consensus decoding: comparison with a slow implementation and with Kaldi's results, and laws."""

from __future__ import annotations

import gzip
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from reference_consensus import expected_errors, slow_decode
from reference_graph import SHARED, archive
from strategies import costs, lattices
from strategies_graph import SCALES, scales_of, timed_lattices

from ninja.consensus import Consensus, mbr_decode, sentence_confidence
from ninja.consensus.decode import decode_with_limits
from ninja.errors import LatticeError, OptionError
from ninja.graph import best_path, from_arcs, nbest, path_lattice, to_compact
from ninja.io import read
from ninja.lattice import Lattice, Scales
from ninja.lattice.batch import Batch

WINDOW = 4  # words
GOLDEN = {"korean": 1.0, "english": 0.1}


@st.composite
def spoken_lattices(draw: st.DrawFn) -> Lattice:
    """Draw a lattice with times and few words, so that some words occur several times."""
    lattice = draw(timed_lattices())
    word = draw(st.lists(st.integers(0, 3), min_size=lattice.num_arcs, max_size=lattice.num_arcs))
    return replace(lattice, word=np.array(word, np.int32))


@st.composite
def parallel_paths(draw: st.DrawFn) -> Lattice:
    """Draw a lattice whose paths meet only at their ends, for which the recursion is exact."""
    src, dst, word, cost = [], [], [], []
    state = 1
    sentences = draw(st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=4), min_size=1, max_size=5))
    for sentence in sentences:
        source = 0
        for place, word_id in enumerate(sentence):
            target = -1 if place == len(sentence) - 1 else state
            state += target > 0
            src, dst, word = [*src, source], [*dst, target], [*word, word_id]
            cost.append(draw(costs(0.0, 3.0)))
            source = target
    return from_arcs("parallel", src, [state if to < 0 else to for to in dst], word, cost, finals={state: 0.0})


def bins_of(result: Consensus) -> list[list[tuple[int, float]]]:
    pairs = list(zip(result.word.tolist(), result.posterior.tolist(), strict=True))
    begin = result.bin_begin.tolist()
    return [pairs[first:end] for first, end in pairwise(begin)]


def assert_has_expected_network(result: Consensus, slow: object) -> None:
    assert result.words.tolist() == slow.words
    assert result.bayes_risk == pytest.approx(slow.risk, abs=1e-6)
    assert result.confidences == pytest.approx(slow.confidences, abs=1e-6)
    for probabilities, expected in zip(bins_of(result), slow.bins, strict=True):
        assert dict(probabilities) == pytest.approx(dict(expected), abs=1e-6)
    assert result.bin_times == pytest.approx(np.array(slow.bin_times), abs=1e-4)
    if all(confidence > 1e-6 for confidence in slow.confidences):  # otherwise times are sums divided by tiny numbers
        assert result.times == pytest.approx(np.array(slow.times).reshape(-1, 2), abs=1e-3)
    spans = {}
    for place, entries in enumerate(bins_of(result)):
        begin = int(result.bin_begin[place])
        spans |= {(place, word): result.word_times[begin + at].tolist() for at, (word, _) in enumerate(entries)}
    for place, (entries, times) in enumerate(zip(slow.bins, slow.word_times, strict=True)):
        for (word, share), span in zip(entries, times, strict=True):
            if share > 1e-6:  # other times are sums divided by tiny numbers
                assert spans[place, word] == pytest.approx(list(span), abs=1e-3)


@given(lattices(max_labels=0), SCALES, st.booleans())
def test_consensus_has_the_least_expected_error(lattice: Lattice, scales: dict[str, float], decode_mbr: bool) -> None:
    lattice = to_compact(lattice) if lattice.num_arcs else lattice
    slow = slow_decode(lattice, **scales, decode_mbr=decode_mbr)
    assert_has_expected_network(mbr_decode(lattice, scales_of(scales), decode_mbr=decode_mbr), slow)


@given(spoken_lattices(), st.booleans())
def test_times_are_the_expected_times_of_paths(lattice: Lattice, decode_mbr: bool) -> None:
    assert_has_expected_network(mbr_decode(lattice, decode_mbr=decode_mbr), slow_decode(lattice, decode_mbr=decode_mbr))


@given(spoken_lattices(), st.lists(st.integers(0, 4), max_size=5), st.booleans())
def test_decoding_can_begin_with_any_words(lattice: Lattice, given_words: list[int], decode_mbr: bool) -> None:
    words = [word for word in given_words if word]
    slow = slow_decode(lattice, decode_mbr=decode_mbr, hypothesis=words)
    assert_has_expected_network(mbr_decode(lattice, hypothesis=given_words, decode_mbr=decode_mbr), slow)
    if not decode_mbr:
        assert slow.words == words


@given(lattices(max_labels=0, connected=False, kind="compact"))
def test_states_on_no_path_have_no_effect(lattice: Lattice) -> None:
    from ninja.graph import connect

    try:
        connected = connect(lattice)
    except LatticeError:
        with pytest.raises(LatticeError, match="no path leads from the start to a final state"):
            mbr_decode(lattice)
        return
    result, connected_result = mbr_decode(lattice), mbr_decode(connected)
    assert result.words.tolist() == connected_result.words.tolist()
    assert bins_of(result) == bins_of(connected_result)
    assert result.bayes_risk == connected_result.bayes_risk


@given(spoken_lattices(), SCALES)
def test_posteriors_of_each_bin_sum_to_one(lattice: Lattice, scales: dict[str, float]) -> None:
    result = mbr_decode(lattice, scales_of(scales))
    sums = np.add.reduceat(result.posterior.astype(float), result.bin_begin[:-1])
    assert sums == pytest.approx(np.ones(len(sums)), abs=1e-6)
    assert len(result.bin_times) == len(sums)
    assert (result.posterior >= 0).all()
    assert (np.diff(result.bin_times, axis=1) >= -1e-4).all()


@given(spoken_lattices())
def test_the_expected_error_is_at_most_that_of_the_best_path(lattice: Lattice) -> None:
    best = mbr_decode(lattice, decode_mbr=False)
    result = mbr_decode(lattice)
    again = mbr_decode(lattice, hypothesis=result.words, decode_mbr=False)
    assert again.bayes_risk <= best.bayes_risk + 1e-3
    # Where paths meet, the recursion takes the mean before the minimum, so that it can only overestimate.
    assert expected_errors(lattice, result.words.tolist()) <= again.bayes_risk + 1e-6


@given(parallel_paths())
def test_bayes_risk_of_parallel_paths_is_the_expected_error(lattice: Lattice) -> None:
    result = mbr_decode(lattice)
    errors = expected_errors(lattice, result.words.tolist())
    assert errors <= expected_errors(lattice, best_path(lattice).words.tolist()) + 1e-3
    again = mbr_decode(lattice, hypothesis=result.words, decode_mbr=False)
    assert again.bayes_risk == pytest.approx(errors, abs=1e-3)


@given(spoken_lattices())
def test_a_single_path_has_confidence_one(lattice: Lattice) -> None:
    best = best_path(lattice)
    result = mbr_decode(path_lattice(lattice, best))
    assert result.words.tolist() == best.words.tolist()
    assert result.confidences.tolist() == [1.0] * len(result.words)
    assert result.bayes_risk == 0.0
    begin = np.concatenate([[0], np.cumsum(np.diff(lattice.ali_begin)[best.arcs])])
    spoken = np.flatnonzero(lattice.word[best.arcs])
    assert result.times.tolist() == [[begin[at], begin[at + 1]] for at in spoken]
    assert sentence_confidence(path_lattice(lattice, best)) == np.inf


def test_a_word_outside_the_lattice_has_confidence_0_and_the_time_of_its_bin() -> None:
    labels = [[1] * length for length in (3, 4, 6, 5)]
    lattice = from_arcs(
        "a", [0, 0, 1, 2], [1, 2, 3, 3], [5, 5, 6, 7], [0.0, 1.0, 0.0, 0.0], finals={3: 0.0}, labels=labels
    )
    result = mbr_decode(lattice, hypothesis=[5, 9], decode_mbr=False)
    assert result.words.tolist() == [5, 9]
    assert result.confidences.tolist() == [1.0, 0.0]
    assert result.word[result.bin_begin[3] :].tolist() == [6, 7, 0]
    assert result.times[1, 1] == pytest.approx(9.0)
    assert result.word_times[result.bin_begin[3]] == pytest.approx([3.0, 9.0])
    # 5 ends at 3.269 on average, after the start of 6, so the nine frames are divided in proportion to both durations.
    assert result.times[1, 0] == result.times[0, 1] == pytest.approx(9 * 3.26894 / (3.26894 + 6), abs=1e-4)
    assert result.bayes_risk == pytest.approx(1.0)


def test_decoding_begins_with_the_first_of_equal_paths() -> None:
    lattice = from_arcs("e", [0, 0], [1, 1], [5, 6], [1.0, 1.0], finals={1: 0.0})
    assert mbr_decode(lattice, decode_mbr=False).words.tolist() == [5]
    assert mbr_decode(lattice).words.tolist() == [6]  # the largest id of equal posteriors wins, as in Kaldi


def test_labels_of_a_final_state_take_time() -> None:
    lattice = from_arcs("f", [0], [1], [5], [1.0], finals={1: 0.0}, labels=[[1] * 3], final_labels={1: [2, 2]})
    result = mbr_decode(lattice)
    assert result.times.tolist() == [[0.0, 3.0]]
    assert result.bin_times.tolist() == [[0.0, 0.0], [0.0, 3.0], [3.0, 5.0]]


@pytest.mark.parametrize("cost", [80.0, 95.0, 103.0, 103.2, 110.0])
def test_words_with_tiny_posteriors_have_correct_times(cost: float) -> None:
    labels = [[1] * 10, [1] * 10, [1] * 3]
    lattice = from_arcs("u", [0, 0, 1], [1, 1, 2], [1, 2, 3], [0.0, cost, 0.0], finals={2: 0.0}, labels=labels)
    result = mbr_decode(lattice)
    assert result.word.tolist() == [0, 1, 2, 0, 3, 0]
    assert result.word_times[2] == pytest.approx([0.0, 10.0], rel=1e-5)


def test_silence_is_kept_on_request() -> None:
    lattice = from_arcs("s", [0, 1, 2], [1, 2, 3], [5, 0, 6], [0.0] * 3, finals={3: 0.0}, labels=[[1] * 3] * 3)
    assert mbr_decode(lattice).words.tolist() == [5, 6]
    result = mbr_decode(lattice, print_silence=True)
    assert result.words.tolist() == [0, 5, 0, 6, 0]
    assert len(result.confidences) == len(result.times) == 5


def test_a_raw_lattice_is_decoded_like_its_compact_lattice() -> None:
    raw = from_arcs("r", [0, 1, 2, 2], [1, 2, 3, 3], [7, 0, 8, 9], [0.0] * 4, finals={3: 0.0},
                    labels=[[1], [2], [3], [4]], kind="raw")  # fmt: skip
    result = mbr_decode(raw)
    assert result.words.tolist() == [7, 9]
    assert result.times.tolist() == [[0.0, 2.0], [2.0, 3.0]]


def test_state_times_are_used_without_labels() -> None:
    lattice = from_arcs("t", [0, 1], [1, 2], [5, 6], [0.0] * 2, finals={2: 0.0}, time=[2, 10, 25])
    assert mbr_decode(lattice).times.tolist() == [[2.0, 10.0], [10.0, 25.0]]


def test_lattices_are_decoded_in_threads() -> None:
    paths = [
        from_arcs("p", [0, 0, 1, 1], [1, 1, 2, 2], [1, 2, 3, n], [0.1, n / 50, 0.2, 0.3], finals={2: 0.0})
        for n in range(1, 200)
    ]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(mbr_decode, paths))
    for lattice, result in zip(paths, results, strict=True):
        assert bins_of(result) == bins_of(mbr_decode(lattice))


@given(spoken_lattices())
def test_sentence_confidence_is_the_cost_difference_of_the_two_best_paths(lattice: Lattice) -> None:
    paths = nbest(lattice, 2)
    expected = np.inf if len(paths) == 1 else paths[1].cost() - paths[0].cost()
    assert sentence_confidence(lattice) == expected
    assert expected >= 0


def test_arrays_of_a_consensus_are_read_only() -> None:
    result = mbr_decode(from_arcs("w", [0], [1], [5], [0.0], finals={1: 0.0}))
    for name in ("words", "confidences", "times", "bin_begin", "word", "posterior", "word_times", "bin_times"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(result, name)[...] = 0


@pytest.mark.parametrize("name", ["acoustic_scale", "lm_scale", "word_penalty"])
def test_a_scale_of_nan_is_refused(name: str) -> None:
    lattice = from_arcs("n", [0], [1], [5], [0.0], finals={1: 0.0})
    with pytest.raises(OptionError, match=f"{name} is nan, but must be finite"):
        mbr_decode(lattice, scales_of({name: float("nan")}))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([-1], "the hypothesis contains -1, but word ids are 0 to"),
        ([2**31], "the hypothesis contains 2147483648, but word ids are 0 to"),
        ([1.5], "hypothesis must be a sequence of word ids, but is float64"),
        ([[1]], "hypothesis must be a sequence of word ids, but is int64"),
    ],
)
def test_a_hypothesis_without_word_ids_is_refused(words: list[float], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        mbr_decode(from_arcs("h", [0], [1], [5], [0.0], finals={1: 0.0}), hypothesis=words)


def test_a_batch_with_another_number_of_hypotheses_is_refused() -> None:
    batch = Batch.of([from_arcs("h", [0], [1], [5], [0.0], finals={1: 0.0})] * 2)
    with pytest.raises(OptionError, match="the number of hypotheses is 1, but the number of lattices is 2"):
        mbr_decode(batch, hypothesis=[[5]])


def test_only_paths_with_costs_in_the_range_of_float32_are_decoded() -> None:
    src, dst, word = [0, 0, 1, 2], [1, 2, 3, 3], [1, 2, 3, 4]
    lattice = from_arcs("a", src, dst, word, [1.0] * 4, [2e38, 1.0, 1.0, 1.0], finals={3: 0.0})
    assert mbr_decode(lattice, Scales(2.0)).confidences.tolist() == [1.0, 1.0]
    with pytest.raises(LatticeError, match=r"key 'a': the scaled costs exceed the range of float32; scale the costs"):
        mbr_decode(lattice, Scales(1e39))


def test_times_that_contradict_each_other_are_refused() -> None:
    lattice = from_arcs("c", [0, 0], [1, 1], [5, 6], [0.0] * 2, finals={1: 0.0}, labels=[[1], [1, 1]])
    with pytest.raises(LatticeError, match="state 1 is at frame 1 on one path, but at frame 2 via arc 1"):
        mbr_decode(lattice)


def test_decoding_within_a_narrow_band_agrees_with_decoding_without_a_band() -> None:
    for timed in (True, False):
        lattice = long_lattice(400, timed)
        every, near = (within(lattice, limits) for limits in ((1 << 40, 0), (0, 24)))
        assert near.words.tolist() == every.words.tolist()
        assert near.bayes_risk == pytest.approx(every.bayes_risk, rel=1e-9)
        is_probable = every.posterior > 1e-6
        posteriors = {(bin_of(near, at), int(word)): near.posterior[at] for at, word in enumerate(near.word)}
        for at in np.flatnonzero(is_probable):
            assert posteriors[bin_of(every, at), int(every.word[at])] == pytest.approx(every.posterior[at], abs=1e-6)


def test_a_narrow_band_follows_a_hypothesis_in_a_long_recording() -> None:
    lattice = long_lattice(400, timed=False)
    words = mbr_decode(lattice).words[40:]  # their times differ from those of the states
    every, near = (within(lattice, limits, words) for limits in ((1 << 40, 0), (0, 24)))
    assert near.bayes_risk == pytest.approx(every.bayes_risk, rel=1e-9)
    assert near.confidences == pytest.approx(every.confidences, abs=1e-6)


@given(st.integers(0, 1 << 30), st.integers(WINDOW, 12), st.booleans(), st.floats(0.5, 6.0))
@example(1_000_123, 4, True, 0.7960156034122248)  # probabilities of 1e-8 decide between equally probable words
@example(1_001_486, 5, False, 1.093204391796539)
@example(308, 4, False, 0.5)  # a margin of two words is too narrow
def test_a_result_that_does_not_touch_the_band_equals_the_full_comparison(
    seed: int, least_words: int, timed: bool, scale: float
) -> None:
    lattice = long_lattice(120, timed, seed, scale)
    every, near = (within(lattice, limits) for limits in ((1 << 40, 0), (0, least_words)))
    assert not every.touches_band
    if not near.touches_band:
        assert near.words.tolist() == every.words.tolist()
        assert near.bayes_risk == pytest.approx(every.bayes_risk, abs=1e-6)
        assert near.confidences == pytest.approx(every.confidences, abs=1e-6)


def test_touches_band_is_set_for_a_lattice_too_flat_for_its_band() -> None:
    flat, peaked = (long_lattice(400, False, scale=scale) for scale in (0.0, 4.0))
    for lattice, touches in ((flat, True), (peaked, False)):
        tight = within(lattice, (0, 16, 1))
        assert tight.touches_band is touches
        assert not mbr_decode(lattice).touches_band


@pytest.mark.parametrize("language", GOLDEN)
def test_real_lattices_have_identical_results_in_narrow_bands(language: str) -> None:
    for lattice in archive(SHARED / "golden" / language / "lat.ark.gz").values():
        scales = Scales(GOLDEN[language])
        every, near = (within(lattice, limits, scales=scales) for limits in ((1 << 40, 0), (0, 6)))
        assert near.words.tolist() == every.words.tolist()
        assert near.confidences.tolist() == every.confidences.tolist()
        assert (near.bayes_risk, near.rounds, near.touches_band) == (every.bayes_risk, every.rounds, every.touches_band)


def within(lattice: Lattice, limits: tuple[int, ...], hypothesis: Any = None, scales: Scales = Scales()) -> Consensus:
    """Decode a lattice, or only build the network of a hypothesis, with limits on comparisons."""
    start = None if hypothesis is None else [hypothesis]
    return decode_with_limits(Batch.of([lattice]), start, scales, hypothesis is None, False, *limits)[0]


def bin_of(result: Consensus, entry: int) -> int:
    return int(np.searchsorted(result.bin_begin, entry, side="right"))


def long_lattice(states: int, timed: bool, seed: int = 400, scale: float = 4.0) -> Lattice:
    """Create a long lattice with arcs over one to four states, and with few words, so that many are repeated."""
    random = np.random.default_rng(seed)
    src = np.repeat(np.arange(states - 1), 4)
    dst = np.minimum(src + random.integers(1, 5, len(src)), states - 1)
    dst[::4] = src[::4] + 1
    word, cost = random.integers(0, 60, len(src)), scale * (random.exponential(1.0, len(src)) + 0.5 * (dst - src))
    time = 7 * np.arange(states) if timed else None
    return from_arcs("long", src, dst, word, cost, finals={states - 1: 0.0}, time=time)


def lines(path: Path) -> dict[str, str]:
    rows = gzip.decompress(path.read_bytes()).decode().splitlines()
    return {line.split(" ", 1)[0]: line.split(" ", 1)[1] for line in rows}


@pytest.mark.parametrize("language", GOLDEN)
def test_words_risks_bins_and_times_agree_with_lattice_mbr_decode(language: str) -> None:
    folder = SHARED / "golden" / language
    all_lattices = archive(folder / "lat.ark.gz")
    words, risks = lines(folder / "mbr.words.gz"), lines(folder / "mbr.bayes_risk.gz")
    sausages, times = lines(folder / "mbr.sausage.gz"), lines(folder / "mbr.times.gz")
    for key, lattice in all_lattices.items():
        result = mbr_decode(lattice, Scales(GOLDEN[language]))
        assert [str(word) for word in result.words] == words[key].split()
        assert result.bayes_risk == pytest.approx(float(risks[key]), abs=1e-5)
        bins = [fields.split() for fields in sausages[key].replace("]", "").split("[")[1:]]
        expected_words = [list(map(int, fields[::2])) for fields in bins]
        assert [[word for word, _ in entries] for entries in bins_of(result)] == expected_words
        shares = [float(share) for fields in bins for share in fields[1::2]]
        assert result.posterior == pytest.approx(shares, abs=1e-6)
        spans = [[float(time) for time in span.split()] for span in times[key].split(";")]
        assert result.bin_times == pytest.approx(np.array(spans), abs=1e-3)


def test_words_of_wide_lattices_agree_with_lattice_mbr_decode() -> None:
    path = SHARED / "data" / "korean" / "wide.ark.gz"
    if not path.exists():
        # In CI, conftest.py raises an error without these data.
        pytest.skip(f"{path} is absent: the results of Kaldi are not part of the project (they are required in CI)")
    words = lines(SHARED / "golden" / "korean" / "wide_mbr.words.gz")
    for key, lattice in read(path):
        assert [str(word) for word in mbr_decode(lattice).words] == words[key].split()
