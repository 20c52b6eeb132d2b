"""Simple operations of Kaldi's common programs: kinds, projection, scales, boosts, FSTs, single paths."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_graph import SHARED, best_sequences, paths
from reference_operations import arcs_of, boosted_costs, machine_costs, symbols_and_costs
from strategies import costs, lattices
from strategies_graph import timed_lattices

import ninja
from ninja import NinjaError
from ninja.errors import LatticeError, OptionError
from ninja.graph import (
    best_path,
    boost,
    equivalent,
    linear,
    project,
    random_paths,
    remove_alignments,
    scale,
    to_compact,
    to_fst,
    to_raw,
)
from ninja.lattice import Lattice, check

KOREAN = SHARED / "golden" / "korean"
# The data are not part of the project; in CI, tests/conftest.py turns this skip into a failure.
needs_golden = pytest.mark.skipif(not KOREAN.exists(), reason="Kaldi's golden files are not part of the project")


@given(lattices(max_states=6))
def test_to_raw_keeps_paths_and_has_at_most_one_label_per_arc(lattice):
    raw = to_raw(lattice)
    check(raw)
    assert raw.kind == "raw"
    assert np.diff(raw.ali_begin).max(initial=0) <= 1
    assert not raw.final_ali.size
    assert symbols_and_costs(raw) == symbols_and_costs(lattice)


def test_to_raw_drops_labels_of_states_that_are_not_final():
    lattice = linear("utt", [1, 2], [1, 2, 3]).replace(
        final_ali_begin=np.array([0, 0, 2, 2]), final_ali=np.array([7, 8], np.int32)
    )
    raw = to_raw(lattice)
    check(raw)
    assert raw.ali.tolist() == [1, 2, 3]
    assert raw.num_states == 4


def test_to_raw_expands_raw_lattices_with_several_labels_on_an_arc():
    lattice = linear("utt", [1, 2], [1, 2, 3])
    assert to_raw(lattice.replace(kind="raw")).identical(to_raw(lattice))
    raw = to_raw(lattice)
    assert to_raw(raw) is raw


@given(lattices(max_states=6))
def test_to_compact_keeps_paths_without_adding_arcs(lattice):
    raw = to_raw(lattice)
    compact = to_compact(raw)
    check(compact)
    assert compact.kind == "compact"
    assert symbols_and_costs(compact) == symbols_and_costs(raw)
    assert compact.num_arcs <= raw.num_arcs


@given(lattices(kind="raw", max_states=7))
def test_to_compact_removes_states_inside_chains(lattice):
    compact = to_compact(lattice)
    num_in, num_out = np.bincount(compact.dst, minlength=compact.num_states), np.diff(compact.arc_begin)
    for state in range(1, compact.num_states):
        if num_in[state] == 1 and num_out[state] == 1 and not compact.is_final[state]:
            assert compact.word[compact.arc_begin[state]] != 0


@needs_golden
def test_raw_lattices_have_the_size_of_kaldi_lattices():
    expected = dict(ninja.read(KOREAN / "raw.ark.gz"))
    for _, lattice in ninja.read(KOREAN / "lat.ark.gz"):
        raw, kaldi = to_raw(lattice), expected[lattice.key]
        assert (raw.num_states, raw.num_arcs, raw.ali.size) == (kaldi.num_states, kaldi.num_arcs, kaldi.ali.size)
        compact = to_compact(raw)
        ends = np.count_nonzero(np.diff(lattice.final_ali_begin))  # their labels may become separate arcs
        assert lattice.num_arcs <= compact.num_arcs <= lattice.num_arcs + ends


@given(lattices(max_states=6))
def test_project_copies_words_to_labels_or_labels_to_words(lattice):
    words = project(lattice)
    assert words.kind == "raw"
    assert [steps for steps, _ in symbols_and_costs(words)] == sorted(
        tuple(word_and_label_steps(numbers_of("word", steps))) for steps, _ in symbols_and_costs(lattice)
    )
    labels = project(lattice, project_output=False)
    assert sorted(numbers_of("label", steps) for steps, _ in symbols_and_costs(labels)) == sorted(
        numbers_of("label", steps) for steps, _ in symbols_and_costs(lattice)
    )
    assert sorted(numbers_of("word", steps) for steps, _ in symbols_and_costs(labels)) == sorted(
        numbers_of("label", steps) for steps, _ in symbols_and_costs(lattice)
    )


def numbers_of(kind, steps):
    return tuple(number for step_kind, number in steps if step_kind == kind)


def word_and_label_steps(words):
    for word in words:
        yield ("word", word)
        yield ("label", word)


@needs_golden
def test_projected_lattices_are_equivalent_to_kaldi_lattices():
    expected = dict(ninja.read(KOREAN / "project.ark.gz"))
    for _, lattice in ninja.read(KOREAN / "lat.ark.gz"):
        projected = project(lattice)
        assert equivalent(projected, expected[lattice.key], costs="both"), lattice.key
        assert projected.ali.tolist() == projected.word[projected.word != 0].tolist()
        assert projected.num_arcs == expected[lattice.key].num_arcs


@given(lattices())
def test_remove_alignments_keeps_words_and_costs(lattice):
    unaligned = remove_alignments(lattice)
    check(unaligned)
    assert not unaligned.ali.size
    assert not unaligned.final_ali.size
    assert sorted(cost for _, cost in symbols_and_costs(unaligned)) == sorted(
        cost for _, cost in symbols_and_costs(lattice)
    )


FACTORS = st.floats(-2, 2).map(lambda factor: round(factor, 3))


@given(lattices(), st.tuples(FACTORS, FACTORS, FACTORS, FACTORS))
def test_scale_multiplies_costs_by_a_matrix(lattice, factors):
    lm_scale, acoustic_scale, acoustic2lm, lm2acoustic = factors
    scaled = scale(lattice, lm_scale, acoustic_scale, acoustic2lm, lm2acoustic)
    for ends in ("", "final_"):
        old_costs, new_costs = (
            zip(getattr(item, f"{ends}graph").tolist(), getattr(item, f"{ends}acoustic").tolist(), strict=True)
            for item in (lattice, scaled)
        )
        for (graph, acoustic), new in zip(old_costs, new_costs, strict=True):
            if graph == np.inf:
                assert new == (np.inf, np.inf)
                continue
            assert new == pytest.approx(
                (lm_scale * graph + acoustic2lm * acoustic, lm2acoustic * graph + acoustic_scale * acoustic), abs=1e-5
            )


@given(lattices(), st.floats(0.25, 2), st.floats(0.25, 2), st.floats(-0.2, 0.2), st.floats(-0.2, 0.2))
def test_scaling_with_the_inverse_matrix_restores_the_costs(lattice, a, b, c, d):
    (e, f), (g, h) = np.linalg.inv([[a, c], [d, b]])
    restored = scale(scale(lattice, a, b, c, d), e, h, f, g)
    for name in ("graph", "acoustic", "final_graph", "final_acoustic"):
        assert getattr(restored, name) == pytest.approx(getattr(lattice, name), abs=1e-3)


def test_invalid_scales_are_refused():
    lattice = linear("a", [1, 2], [3, 4], 1e30, -1e30)
    with pytest.raises(OptionError, match="acoustic2lm_scale is nan, but must be finite"):
        scale(lattice, acoustic2lm_scale=float("nan"))
    with pytest.raises(OptionError, match="lm2acoustic_scale is inf, but must be finite"):
        scale(lattice, lm2acoustic_scale=float("inf"))
    with pytest.raises(LatticeError, match="key 'a': the scaled graph costs exceed the range of float32"):
        scale(lattice, 1e20)


PHONES = [0, 1, 1, 2, 2, 3, 3, 9]


@given(timed_lattices(max_arcs=6), st.data())
def test_boost_counts_the_wrong_phones_of_each_path(lattice, data):
    ids = st.integers(1, len(PHONES) - 1)
    frames = len(numbers_of("label", symbols_and_costs(lattice)[0][0]))
    label_lists = st.lists(ids, min_size=lattice.ali.size, max_size=lattice.ali.size)
    ali = np.array(data.draw(label_lists), np.int32)
    lattice = type(lattice)(**{**{name: getattr(lattice, name) for name in lattice.__slots__}, "ali": ali})
    alignment = data.draw(st.lists(ids, min_size=frames, max_size=frames))
    silences = data.draw(st.sets(st.sampled_from([1, 2, 9])))
    b, silence_error = data.draw(costs(0, 2)), data.draw(st.sampled_from([0.0, 0.25, 1.0]))
    boosted = boost(lattice, np.array(alignment, np.int32), np.array(PHONES, np.int32), b, silences, silence_error)
    expected = boosted_costs(lattice, alignment, PHONES, b, silences, silence_error)
    for (steps, (graph, _)), (expected_steps, cost) in zip(symbols_and_costs(boosted), expected, strict=True):
        assert steps == expected_steps
        assert graph == pytest.approx(cost, abs=1e-4)


@given(lattices(max_states=5, max_labels=2, kind="compact"))
def test_boost_includes_labels_of_final_states(lattice):
    try:
        has_equal_lengths = len({len(numbers_of("label", steps)) for steps, _ in symbols_and_costs(lattice)}) == 1
    except NinjaError:
        return
    length = len(numbers_of("label", symbols_and_costs(lattice)[0][0]))
    if not has_equal_lengths:
        return
    phones = np.arange(12001, dtype=np.int32)
    try:
        boosted = boost(lattice, np.full(length, 12000, np.int32), phones, 1.0)
    except LatticeError:  # times of inner states can still contradict each other
        return
    expected = boosted_costs(lattice, [12000] * length, phones.tolist(), 1.0, set(), 0.0)
    assert [graph for _, (graph, _) in symbols_and_costs(boosted)] == pytest.approx([cost for _, cost in expected])


def test_boost_compares_labels_of_final_states_with_the_last_frames():
    from ninja.graph import from_arcs

    lattice = from_arcs("a", [0], [1], [5], [1.0], finals={1: 2.0}, labels=[[1, 3]], final_labels={1: [5, 5]})
    boosted = boost(lattice, np.array([2, 5, 6, 6], np.int32), np.array(PHONES, np.int32), 1.0)
    # One wrong phone on the arc, none in the final state.
    assert (boosted.graph.tolist(), boosted.final_graph[1]) == ([0.0], 2.0)


def test_boost_refuses_other_alignments_other_models_and_invalid_options():
    lattice, phones = linear("a", [1], [3, 4, 5]), np.array(PHONES, np.int32)
    reference = np.array([3, 4, 5], np.int32)
    with pytest.raises(LatticeError, match="key 'a': the lattice has 3 frames, but the alignment has 2"):
        boost(lattice, reference[:2], phones)
    with pytest.raises(
        LatticeError, match="the lattice has the transition id 5, but the transition ids of the model are 1 to 4"
    ):
        boost(lattice, reference, phones[:5])
    with pytest.raises(
        LatticeError, match="the alignment has the transition id 0, but the transition ids of the model are 1 to 7"
    ):
        boost(lattice, np.array([3, 0, 5], np.int32), phones)
    with pytest.raises(OptionError, match=r"max_silence_error is 2\.0, but must be between 0 and 1"):
        boost(lattice, reference, phones, max_silence_error=2.0)
    with pytest.raises(OptionError, match="b is nan, but must be finite"):
        boost(lattice, reference, phones, float("nan"))


@given(lattices(max_states=7), st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.5, 1.0]))
def test_to_fst_gives_each_word_sequence_its_best_cost(lattice, acoustic_scale, lm_scale):
    expected = best_sequences(lattice, acoustic_scale=acoustic_scale, lm_scale=lm_scale)
    for rm_eps in (True, False):
        fst = to_fst(lattice, acoustic_scale, lm_scale, rm_eps=rm_eps)
        assert machine_costs(fst) == pytest.approx(expected)


def test_to_fst_refuses_a_lattice_without_paths():
    inf = np.inf
    arcs = [0, 1, 1, 1], [1], [0], [0.0], [0.0]
    lattice = Lattice.from_arrays("a", *arcs, [inf, inf, 0.0], [inf, inf, 0.0])  # the final state is unreachable
    with pytest.raises(LatticeError, match="key 'a': no path leads from the start to a final state"):
        to_fst(lattice)


@given(lattices(max_states=6))
def test_to_fst_writes_labels_as_inputs_and_words_as_outputs(lattice):
    fst = to_fst(lattice, 1.0, 1.0, rm_eps=False, read_compact=False, project_output=False)
    assert fst.num_arcs == to_raw(lattice).num_arcs
    inputs = sorted(arc[0] for arcs in arcs_of(fst) for arc in arcs if arc[0])
    assert inputs == sorted([*lattice.ali.tolist(), *lattice.final_ali.tolist()])
    assert machine_costs(fst) == pytest.approx(best_sequences(lattice))
    fst = to_fst(lattice, 1.0, 1.0, read_compact=False, project_output=False)
    assert machine_costs(fst) == pytest.approx(best_sequences(lattice))


def test_to_fst_adds_the_costs_of_removed_epsilons_to_the_next_arcs():
    from ninja.graph import from_arcs

    lattice = from_arcs(
        "a", [0, 1, 1], [1, 2, 2], [0, 5, 6], [0.5, 1.0, 4.0], finals={2: 0.0}, labels=[[3], [], [4]], kind="raw"
    )
    fst = to_fst(lattice, 0.0, 1.0, read_compact=False, project_output=False)
    assert arcs_of(fst) == [[(3, 0, 1, 3.5), (3, 5, 2, 1.5)], [(4, 6, 2, 1.0)], []]


def test_to_fst_moves_words_to_arcs_without_a_word():
    lattice = linear("a", [5, 6], [1, 2, 3, 4], 1.0, 2.0)
    fst = to_fst(lattice, read_compact=False, project_output=False)
    assert [len(arcs) for arcs in arcs_of(fst)] == [1, 1, 1, 1, 0]
    assert [arcs[0][:2] for arcs in arcs_of(fst)[:-1]] == [(1, 5), (2, 6), (3, 0), (4, 0)]
    with pytest.raises(OptionError, match=r"acoustic_scale is nan and lm_scale is 0\.0, but both must be finite"):
        to_fst(lattice, float("nan"))


@given(st.lists(st.integers(1, 9)), st.lists(st.integers(1, 9)), costs(), costs())
def test_linear_has_the_words_labels_and_costs_of_its_arguments(words, labels, graph, acoustic):
    lattice = linear("a", words, labels, graph, acoustic)
    path = best_path(lattice)
    assert (path.words.tolist(), path.alignment.tolist()) == (words, labels)
    assert (path.graph_cost, path.acoustic_cost) == (graph, acoustic)
    assert paths(lattice) == [tuple(range(lattice.num_arcs))]


def test_linear_refuses_epsilons_and_negative_labels():
    with pytest.raises(LatticeError, match="key 'a': the word id is 0, but must be above 0"):
        linear("a", [1, 0])
    with pytest.raises(LatticeError, match="key 'a': the label is -1, but must be above 0"):
        linear("a", [1], [-1])


@given(lattices(connected=False), st.integers(1, 5), st.integers(0, 3))
def test_random_paths_are_paths_of_the_lattice_and_repeat_with_a_seed(lattice, n, seed):
    try:
        samples = random_paths(lattice, n, seed)
    except LatticeError:  # the lattice has no path
        return
    paths_of_lattice = {steps for steps, _ in symbols_and_costs(lattice)}
    assert len(samples) == n
    assert all(symbols_and_costs(sample)[0][0] in paths_of_lattice for sample in samples)
    for sample, repeated in zip(samples, random_paths(lattice, n, seed), strict=True):
        assert sample.identical(repeated)


def test_random_paths_choose_all_paths_equally_often():
    from ninja.graph import from_arcs

    lattice = from_arcs("a", [0, 0], [1, 1], [1, 2], [0, 100], finals={0: 0.0, 1: 0.0})
    counts = Counter(tuple(best_path(sample).words.tolist()) for sample in random_paths(lattice, 3000))
    assert counts == {words: pytest.approx(1000, abs=120) for words in ((), (1,), (2,))}
    with pytest.raises(OptionError, match="n is 0, but must be 1 or more"):
        random_paths(lattice, 0)
