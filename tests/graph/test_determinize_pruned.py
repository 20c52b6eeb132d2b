"""Pruned determinization compared with enumerated paths and with Kaldi, and its bounds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_determinize import (
    assert_contains,
    assert_matches_kaldi,
    difference,
    exponential_lattice,
    transitions,
    within_beam,
)
from reference_graph import SHARED, archive
from reference_openfst import Way, best_ways, ways, with_random_costs
from strategies import lattices

from ninja.errors import LatticeError, OptionError
from ninja.graph import (
    DeterminizeBounds,
    DeterminizeReport,
    best_path,
    connect,
    determinize,
    determinize_phone_pruned,
    determinize_pruned,
    determinize_retrying,
    equivalent,
    from_arcs,
    is_deterministic,
    to_raw,
)
from ninja.graph.determinize_pruned import with_phones, without_phones
from ninja.lattice import Lattice, check
from ninja.lattice.transition_model import TransitionModel

KOREAN, ENGLISH = SHARED / "golden" / "korean", SHARED / "golden" / "english"
RAW = SHARED / "data" / "korean" / "raw.ark.gz"
GOLDEN = [
    (RAW, KOREAN / "raw_determinize_pruned8.ark.gz", 8.0, 1.0),
    (KOREAN / "raw.ark.gz", KOREAN / "determinize_pruned6.ark.gz", 6.0, 1.0),
    (KOREAN / "lat.ark.gz", KOREAN / "determinize_pruned6.ark.gz", 6.0, 1.0),
    (ENGLISH / "lat.ark.gz", ENGLISH / "determinize_pruned6.ark.gz", 6.0, 0.1),
]
SCALES = st.sampled_from([1.0, 0.125, 2.5])
BEAMS = st.sampled_from([0.5, 4.0, 15.0, np.inf])
SMALL = lattices(max_states=7, max_word=3)
SEEDS = st.integers(0, 2**32 - 1)
EXACT = DeterminizeBounds(delta=0.0)


def random_model(seed: int, size: int = 12000) -> TransitionModel:
    """Return a transition model with random phones, states and self-loops."""
    random = np.random.default_rng(seed)

    def with_zero_id(values: np.ndarray) -> np.ndarray:
        return np.concatenate([values[:1] * 0, values])

    zeros = np.zeros(size + 1)
    return TransitionModel(
        "random.mdl",
        with_zero_id(random.integers(1, 4, size)).astype(np.int32),
        with_zero_id(random.integers(0, 2, size)).astype(np.int32),
        zeros.astype(np.int32),
        zeros.astype(np.int32),
        zeros.astype(bool),
        with_zero_id(random.random(size) < 0.3).astype(bool),
        zeros.astype(np.float32),
    )


def assert_part(result: Lattice, lattice: Lattice, beam: float) -> None:
    """Check that the result has only paths of the lattice, and all those within the beam."""
    check(result)
    assert connect(result) is result
    assert is_deterministic(result)
    paths = best_ways(result)
    assert_contains(paths, within_beam(lattice, beam - 1e-3))
    assert_contains(best_ways(lattice), paths)


@pytest.mark.parametrize(("source", "expected", "beam", "scale"), GOLDEN, ids=["raw", "expanded", "compact", "english"])
def test_determinize_pruned_agrees_with_kaldi(source: Path, expected: Path, beam: float, scale: float) -> None:
    source_lattices = archive(source)
    for key, reference in archive(expected).items():
        lattice, report = determinize_pruned(source_lattices[key], beam, scale)
        assert report == DeterminizeReport(beam, beam, 0, None)
        assert_matches_kaldi(lattice, reference, beam, scale)
        assert (lattice.num_states, lattice.num_arcs) == (connect(reference).num_states, connect(reference).num_arcs)


def test_determinize_phone_pruned_agrees_with_kaldi() -> None:
    raw = archive(RAW)
    for key, reference in archive(KOREAN / "raw_determinize_phone_pruned8.ark.gz").items():
        lattice = determinize_phone_pruned(raw[key], transitions(), 8.0)[0]
        assert_matches_kaldi(lattice, reference, 8.0, 1.0)
        assert (lattice.num_states, lattice.num_arcs) == (reference.num_states, reference.num_arcs)


def test_phone_determinization_gives_the_result_of_word_determinization() -> None:
    for lattice in list(archive(RAW).values())[:10]:
        word_pass = determinize_pruned(lattice, 8.0, 1.0, EXACT)[0]  # with delta > 0, each path would have small errors
        first_pass = determinize_phone_pruned(lattice, transitions(), 8.0, 1.0, EXACT, word_determinize=False)[0]
        assert (first_pass.word == 0).any(), lattice.key
        two_passes = determinize_phone_pruned(lattice, transitions(), 8.0, 1.0, EXACT)[0]
        for result in (two_passes, determinize_pruned(first_pass, 8.0, 1.0, EXACT)[0]):
            deviation = difference(result, word_pass)
            assert deviation.missing > 8.0 - 1e-3, lattice.key
            assert max(deviation.graph, deviation.acoustic) < 1e-3, lattice.key
            assert deviation.alignments <= 2, lattice.key  # paths that are equal except for rounding
        second_pass = determinize_phone_pruned(lattice, transitions(), 8.0, 1.0, EXACT, phone_determinize=False)[0]
        assert second_pass.num_arcs == word_pass.num_arcs


@given(SMALL, SEEDS, SCALES, BEAMS)
def test_the_best_path_of_each_word_sequence_within_the_beam_is_kept(
    lattice: Lattice, seed: int, scale: float, beam: float
) -> None:
    lattice = with_random_costs(lattice, seed)
    result = determinize_pruned(lattice, beam, scale, EXACT)[0]
    check(result)
    assert is_deterministic(result)
    assert connect(result) is result
    assert result.kind == "compact"
    paths = best_ways(result, scale)
    assert_contains(paths, within_beam(lattice, beam - 1e-2, scale))
    assert_contains(best_ways(lattice, scale), paths)  # no path is new


@given(SMALL, SEEDS, SCALES)
def test_determinization_with_an_infinite_beam_is_equivalent(lattice: Lattice, seed: int, scale: float) -> None:
    pytest.importorskip("pywrapfst")
    lattice = with_random_costs(lattice, seed)
    result, report = determinize_pruned(lattice, np.inf, scale, EXACT)
    assert report.complete
    assert equivalent(result, lattice, acoustic_scale=scale, costs="both")
    assert_contains(best_ways(result), best_ways(determinize(lattice, scale)))


@given(SMALL, SEEDS, SCALES, BEAMS)
def test_pruned_determinization_is_idempotent(lattice: Lattice, seed: int, scale: float, beam: float) -> None:
    first = determinize_pruned(with_random_costs(lattice, seed), beam, scale, EXACT)[0]
    second = determinize_pruned(first, np.inf, scale, EXACT)[0]
    for name in ("arc_begin", "dst", "word", "ali_begin", "ali", "final_ali_begin", "final_ali"):
        assert np.array_equal(getattr(first, name), getattr(second, name))
    for name in ("graph", "acoustic", "final_graph", "final_acoustic"):
        assert getattr(second, name) == pytest.approx(getattr(first, name), abs=1e-3)


@given(SMALL, BEAMS)
def test_pruned_determinization_keeps_the_best_total_of_tied_paths(lattice: Lattice, beam: float) -> None:
    expected = within_beam(lattice, beam)
    result_paths = best_ways(determinize_pruned(lattice, beam, 1.0, EXACT)[0])
    assert {words: result_paths[words].total() for words in expected} == pytest.approx(
        {words: way.total() for words, way in expected.items()}
    )


@given(lattices(max_states=7, max_word=3, connected=False), SEEDS)
def test_pruned_determinization_removes_states_on_no_path(lattice: Lattice, seed: int) -> None:
    lattice = with_random_costs(lattice, seed)
    expected = best_ways(lattice)
    if not expected:
        with pytest.raises(LatticeError, match="no path leads from the start"):
            determinize_pruned(lattice)[0]
        return
    assert_contains(best_ways(determinize_pruned(lattice, np.inf, 1.0, EXACT)[0]), expected)


@given(SMALL, SEEDS, st.integers(0, 100))
def test_inserting_and_removing_phones_keeps_all_paths(lattice: Lattice, seed: int, model_seed: int) -> None:
    lattice = to_raw(with_random_costs(lattice, seed))
    labelled, first_phone = with_phones(lattice, random_model(model_seed))
    check(labelled)
    hmm_state, loops = random_model(model_seed).hmm_state, random_model(model_seed).is_self_loop
    starts = [
        lattice.ali[lattice.ali_begin[arc]]
        for arc in np.flatnonzero((np.diff(lattice.ali_begin) > 0) & (lattice.src != 0))
    ]
    expected_phones = [
        random_model(model_seed).phone[label] for label in starts if hmm_state[label] == 0 and not loops[label]
    ]
    assert sorted(labelled.word[labelled.word >= first_phone] - first_phone) == sorted(expected_phones)
    paths, expected_paths = best_ways(without_phones(labelled, first_phone)), best_ways(lattice)
    assert paths.keys() == expected_paths.keys()
    assert_contains(paths, expected_paths)


@given(SMALL, SEEDS, st.integers(0, 100), SCALES, st.booleans())
def test_phone_passes_keep_the_best_paths_within_the_beam(
    lattice: Lattice, seed: int, model_seed: int, scale: float, word_determinize: bool
) -> None:
    lattice = with_random_costs(lattice, seed)
    result = determinize_phone_pruned(
        lattice, random_model(model_seed), 15.0, scale, EXACT, word_determinize=word_determinize
    )[0]
    check(result)
    assert is_deterministic(result) or not word_determinize
    result_paths = best_ways(result, scale)
    assert_contains(result_paths, within_beam(lattice, 15.0 - 1e-2, scale))
    # Beyond the beam, the best path of some words can be pruned while a worse path remains, whose arcs good paths need.
    paths = list(ways(lattice))
    assert all(any(is_near(path, way) for path in paths) for way in result_paths.values())


def is_near(first: Way, second: Way) -> bool:
    """Return whether two paths agree except for rounding."""
    costs = [abs(first.graph - second.graph), abs(first.acoustic - second.acoustic)]
    return (first.words, first.alignment) == (second.words, second.alignment) and max(costs) < 1e-3


def parallel_arcs(graph: float, first: list[int], second: list[int]) -> Lattice:
    """Return a lattice of two paths with the same word; the second has the given graph cost."""
    return from_arcs("two", (0, 0), (1, 1), (5, 5), (1.0, graph), (2.0, 2.0), finals={1: 0.0}, labels=[first, second])


def test_ties_are_broken_as_in_kaldi() -> None:
    assert determinize_pruned(parallel_arcs(1.0, [3, 4], [3, 7]))[0].ali.tolist() == [3, 7]  # the larger labels
    assert determinize_pruned(parallel_arcs(1.0, [3], [3, 7]))[0].ali.tolist() == [3]  # the shorter alignment
    # The total costs are equal in single precision, in which Kaldi compares them.
    assert determinize_pruned(parallel_arcs(float(np.nextafter(np.float32(1), 2)), [3, 4], [3, 7]))[0].ali.tolist() == [
        3,
        4,
    ]
    lattice = from_arcs("two", (0, 0), (1, 1), (5, 5), (1, 2), (2, 1), finals={1: 0.0}, labels=[[3], [7]])
    assert determinize_pruned(lattice)[0].ali.tolist() == [3]  # the smaller graph cost
    # Arcs of several labels are compared after the best cost is subtracted, which makes small differences visible.
    for labels, expected in (([[7], [3]], [7]), ([[7, 7], [3, 3]], [3, 3])):
        lattice = from_arcs("big", (0, 0), (1, 1), (5, 5), (1e6, 1e6), (0.03, 0.0), finals={1: 0.0}, labels=labels)
        assert determinize_pruned(lattice)[0].ali.tolist() == expected


def near_copies(graph: float, acoustic: float) -> Lattice:
    """Return a lattice whose words 1 and 2 lead to the same two states.

    The second state costs 1 more; after word 2 it also has the given costs.
    """
    src, dst, word = (0, 0, 0, 0, 1, 2), (1, 2, 1, 2, 3, 3), (1, 1, 2, 2, 3, 4)
    return from_arcs("alike", src, dst, word, (0, 1, 0, 1 + graph, 0, 0), (0, 0, 0, acoustic, 0, 0), finals={3: 0.0})


def test_state_sets_with_costs_within_delta_are_merged() -> None:
    assert determinize_pruned(near_copies(2.0**-11, 0.0))[0].num_states == 3
    assert determinize_pruned(near_copies(2.0**-11, 0.0), bounds=EXACT)[0].num_states == 4
    assert determinize_pruned(near_copies(2.0**-9, 0.0))[0].num_states == 4
    # Equal totals are not enough: merging would change graph and acoustic costs.
    assert determinize_pruned(near_copies(1.0, -1.0))[0].num_states == 4


@pytest.mark.parametrize(
    ("bounds", "limit"),
    [
        (DeterminizeBounds(delta=0.0, max_arcs=300, retry_cutoff=0.0), "arcs"),
        (DeterminizeBounds(delta=0.0, max_states=200, retry_cutoff=0.0), "states"),
        (DeterminizeBounds(delta=0.0, max_mem=40_000, retry_cutoff=0.0), "memory"),
    ],
)
def test_determinization_stops_at_a_bound_and_reports_the_effective_beam(bounds: DeterminizeBounds, limit: str) -> None:
    lattice = exponential_lattice(10)
    result, report = determinize_pruned(lattice, 100.0, 1.0, bounds)
    assert report.stopped_by == limit
    assert not report.complete
    assert 0.0 < report.effective_beam < 100.0
    assert f"beam {report.effective_beam:.4g} of 100 reached: the {limit} limit was reached" in str(report)
    assert_part(result, lattice, report.effective_beam)
    assert result.num_arcs <= 310


def test_determinization_without_bounds_can_be_exponential() -> None:
    result, report = determinize_pruned(exponential_lattice(10), np.inf)
    assert report.complete
    assert str(report) == "beam inf reached"
    assert result.num_states > 2**10


@pytest.mark.parametrize("bound", ["max_mem", "max_arcs", "max_states"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_bound_of_0_or_less_is_no_limit(bound: str, value: int) -> None:
    for lattice in (exponential_lattice(6), long_chain(40)):
        whole = determinize_pruned(lattice, np.inf)[0]
        result, report = determinize_pruned(lattice, np.inf, 1.0, DeterminizeBounds(**{bound: value}))
        assert report.complete
        assert result.identical(whole)


def test_memory_limit_stops_an_exponential_determinization() -> None:
    result, report = determinize_pruned(exponential_lattice(200), np.inf, 1.0, DeterminizeBounds(max_mem=1_000_000))
    assert report.stopped_by == "memory"
    assert report.retries == 0  # an infinite beam cannot be reduced
    assert report.effective_beam >= 0.0
    assert best_path(result).cost() == pytest.approx(best_path(exponential_lattice(200)).cost(), abs=0.1)


def test_determinization_is_retried_with_a_smaller_beam() -> None:
    lattice, bounds = exponential_lattice(12), DeterminizeBounds(delta=0.0, max_arcs=300)
    result, report = determinize_pruned(lattice, 50.0, 1.0, bounds)
    assert report.retries > 0
    assert report.effective_beam < 25.0
    assert f"after {report.retries} retries" in str(report)
    assert_contains(best_ways(result), within_beam(lattice, report.effective_beam - 1e-3))
    _, first_report = determinize_pruned(lattice, 50.0, 1.0, replace(bounds, retry_cutoff=0.0))
    assert first_report.retries == 0


def test_a_retry_finds_a_path_if_the_first_attempt_found_none() -> None:
    lattice = exponential_lattice(12)
    with pytest.raises(
        LatticeError, match=r"reached before a path was complete, even at beam 8; increase max_arcs, which is 8$"
    ):
        determinize_pruned(lattice, 8.0, bounds=DeterminizeBounds(max_arcs=8, retry_cutoff=0.0))[0]
    result = determinize_pruned(lattice, 8.0, bounds=DeterminizeBounds(max_arcs=20))[0]
    assert best_path(result).words.tolist() == best_path(lattice).words.tolist()


def long_chain(n: int = 3000) -> Lattice:
    """Return a lattice of word 1, or of word 2 and a chain of epsilons that word 1 can follow at each state.

    The alignments before these words have n² labels in total.
    """
    src, dst = [0, 0], [n + 2, 1]
    for state in range(1, n + 1):
        src += [state, state]
        dst += [state + 1, n + 2]
    word = [1, 2] + [0, 1] * n
    labels = [[9], [8], *([1 + (7 * arc) % 5] for arc in range(2 * n))]
    return from_arcs(
        "long", src, dst, word, [0.5, 2.0] + [0.25] * (2 * n), finals={n + 1: 0.0, n + 2: 0.0}, labels=labels
    )


def test_memory_limit_includes_long_alignments() -> None:
    lattice = long_chain()
    result, report = determinize_pruned(lattice, np.inf, bounds=DeterminizeBounds(max_mem=2_000_000))
    assert report.stopped_by == "memory"
    assert report.effective_beam == pytest.approx(1.75)
    assert best_ways(result) == {(1,): Way((1,), 0.5, 0.0, (9,))}
    with pytest.raises(LatticeError, match="epsilons link more than 500 states; prune the lattice, or raise"):
        determinize_pruned(lattice, np.inf, bounds=DeterminizeBounds(max_loop=500))[0]
    whole = determinize_pruned(lattice, np.inf)[0]
    assert {words: len(way.alignment) for words, way in best_ways(whole).items()} == {(1,): 1, (2,): 3001, (2, 1): 2}


def test_determinize_retrying_prunes_until_the_result_is_within_bounds() -> None:
    lattice, bounds = exponential_lattice(12), DeterminizeBounds(delta=0.0, max_mem=200_000)
    result, report = determinize_retrying(lattice, 10.0, 1.0, bounds)
    assert report.retries > 0
    assert report.beam == np.inf
    assert report.effective_beam == pytest.approx(10.0 * 0.9**report.retries)
    assert f"beam {report.effective_beam:.4g} of inf reached after {report.retries} retries" in str(report)
    assert_contains(best_ways(result), within_beam(lattice, report.effective_beam - 1e-3))
    whole, report = determinize_retrying(exponential_lattice(5), 10.0)
    assert report.complete
    pruned, _ = determinize_retrying(exponential_lattice(5), 3.0, prune_result=True)
    assert pruned.num_arcs < whole.num_arcs
    assert_contains(best_ways(pruned), within_beam(exponential_lattice(5), 3.0 - 1e-3))
    with pytest.raises(
        LatticeError, match="was exceeded even at beam 5; increase max_mem, which is 200000, or prune the lattice more"
    ):
        determinize_retrying(lattice, 10.0, 1.0, bounds, num_loops=1, beam_ratio=0.5)


def test_minimized_results_keep_their_paths() -> None:
    pytest.importorskip("pywrapfst")
    lattice = exponential_lattice(5)
    plain, small = determinize_pruned(lattice, 4.0)[0], determinize_pruned(lattice, 4.0, minimize=True)[0]
    assert small.num_states <= plain.num_states
    assert_contains(best_ways(small), best_ways(plain))
    small = determinize_phone_pruned(lattice, random_model(1), 4.0, minimize=True)[0]
    assert_contains(best_ways(small), within_beam(lattice, 4.0 - 1e-3))


def test_a_tiny_beam_keeps_the_best_path() -> None:
    for lattice in list(archive(RAW).values())[:5]:
        assert best_path(determinize_pruned(lattice, 1e-30)[0]).words.tolist() == best_path(lattice).words.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0.0}, "beam is 0.0, but must be above 0"),
        ({"beam": float("nan")}, "beam is nan, but must be above 0"),
        ({"acoustic_scale": float("inf")}, "acoustic_scale is inf, but must be finite"),
        (
            {"acoustic_scale": 1e-60},
            "acoustic_scale must not be 0, because the acoustic costs of the result are divided by it",
        ),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, float], message: str) -> None:
    for function in (
        determinize_pruned,
        determinize_retrying,
        lambda lattice, **options: determinize_phone_pruned(lattice, random_model(0), **options)[0],
    ):
        with pytest.raises(OptionError, match=message):
            function(parallel_arcs(1.0, [1], [2]), **options)


def test_bounds_and_loops_out_of_range_are_refused() -> None:
    with pytest.raises(OptionError, match=r"delta is -1\.0, but must be 0 or more"):
        DeterminizeBounds(delta=-1.0)
    with pytest.raises(OptionError, match=r"retry_cutoff is 1\.0, but must be 0 or more and below 1"):
        DeterminizeBounds(retry_cutoff=1.0)
    lattice = parallel_arcs(1.0, [1], [2])
    with pytest.raises(OptionError, match=r"beam_ratio is 1\.0, but must be above 0 and below 1"):
        determinize_retrying(lattice, beam_ratio=1.0)
    with pytest.raises(OptionError, match="num_loops is -1, but must be 0 or more"):
        determinize_retrying(lattice, num_loops=-1)
    with pytest.raises(OptionError, match="phone_determinize and word_determinize are both disabled"):
        determinize_phone_pruned(lattice, random_model(0), phone_determinize=False, word_determinize=False)[0]


def test_costs_beyond_single_precision_are_refused() -> None:
    for cost in (3e38, -3e38):
        lattice = from_arcs("big", (0, 1), (1, 2), (1, 0), (cost, cost), finals={2: 0.0}, labels=[[1], [2]])
        with pytest.raises(LatticeError, match="'big': costs or their sums exceed the range of float32"):
            determinize_pruned(lattice)[0]


def test_labels_outside_the_transition_ids_are_refused() -> None:
    with pytest.raises(
        LatticeError, match=r"'two': arc 1 has the label 9, but the transition ids of random.mdl are 1 to 8"
    ):
        determinize_phone_pruned(parallel_arcs(1.0, [1], [9]), random_model(0, size=8))[0]
    lattice = from_arcs("wide", (0,), (1,), (2**31 - 2,), (1.0,), finals={1: 0.0}, labels=[[1]])
    with pytest.raises(LatticeError, match="'wide': the word id 2147483646 is too large: no ids remain for phones"):
        determinize_phone_pruned(lattice, random_model(0))[0]
