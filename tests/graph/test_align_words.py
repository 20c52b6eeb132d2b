"""Alignment to words and phones: agreement with slow implementations, invariants, and errors for damaged lattices."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from reference_graph import best_sequences
from reference_word_align import Kinds, Unit, aligned_paths, least_costs, model_of, paths_as_units
from strategies_align import (
    BOUNDARY,
    PHONES,
    LabelledLattice,
    arbitrary_lattices,
    damaged_lattices,
    homophone_lattice,
    labelled_sausages,
    labelled_trees,
    linear_lattice,
)

from ninja import _align
from ninja.errors import LatticeError, OptionError
from ninja.graph import connect, from_arcs, scale, state_times
from ninja.graph.align import (
    Aligned,
    PhoneAligner,
    PhoneAlignment,
    WordAligner,
    WordAlignment,
    align_phones,
    align_words,
    word_times,
)
from ninja.lattice import Lattice, check
from ninja.lattice.batch import Batch
from ninja.lattice.word_phones import KINDS, WordBoundary

Paths = dict[tuple[Unit, ...], set[tuple[float, float]]]
MODEL = model_of(dict.fromkeys(PHONES, 1))  # phone p has the self-loop 2p - 1 and the final transition 2p
few_examples = settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def by_general_algorithm(function, *arguments):
    """Call a function with the fast algorithm disabled."""
    with mock.patch.object(_align, "align", return_value=None):
        return function(*arguments)


def assert_paths_agree(lattice: Lattice, expected: Paths, *, exhaustive: bool) -> None:
    """Check that every path is expected, with one of its costs, and that the best path of each sequence exists.

    Args:
        exhaustive: Require all paths; otherwise paths that differ only in labels may be missing.
    """
    check(lattice)
    assert connect(lattice) is lattice
    paths = paths_as_units(lattice)
    for units, costs in paths.items():
        assert costs <= expected[units]
    assert not exhaustive or paths.keys() == expected.keys()
    assert least_costs(paths) == least_costs(expected)


def assert_agrees(aligned: Aligned, example: LabelledLattice, kinds: Kinds | None, *, exhaustive: bool = False) -> None:
    expected, has_fault = aligned_paths(example.lattice, example.model, kinds, example.reorder)
    assert (aligned.fault is not None) == has_fault
    assert aligned.lattice is not None
    assert_paths_agree(aligned.lattice, expected, exhaustive=exhaustive)


@few_examples
@given(st.one_of(labelled_trees(), labelled_sausages()))
def test_word_alignment_agrees_with_alignment_of_each_path(example: LabelledLattice) -> None:
    aligner = WordAligner(example.model, BOUNDARY, WordAlignment(reorder=example.reorder))
    aligned = aligner(example.lattice)
    assert aligned.fault is None
    assert_agrees(aligned, example, PHONES, exhaustive=True)
    assert_agrees(by_general_algorithm(aligner, example.lattice), example, PHONES)


@few_examples
@given(st.one_of(labelled_trees(), labelled_sausages()))
def test_decoder_lattices_use_the_fast_algorithm(example: LabelledLattice) -> None:
    aligner = WordAligner(example.model, BOUNDARY, WordAlignment(reorder=example.reorder))
    with mock.patch.object(_align, "align_generally", side_effect=AssertionError):
        aligner(example.lattice)


@few_examples
@given(st.one_of(labelled_trees(), labelled_sausages()), st.floats(0.01, 3.0))
def test_fast_and_general_algorithm_give_identical_lattices(example: LabelledLattice, factor: float) -> None:
    lattice = scale(example.lattice, factor, factor / 3)  # so that float32 sums depend on the order of addition
    for aligner in (
        WordAligner(example.model, BOUNDARY, WordAlignment(reorder=example.reorder)),
        PhoneAligner(example.model, PhoneAlignment(reorder=example.reorder)),
    ):
        fast, general = aligner(lattice).lattice, by_general_algorithm(aligner, lattice).lattice
        assert fast is not None
        assert general is not None
        assert fast.identical(general)


@few_examples
@given(damaged_lattices())
def test_damaged_lattices_are_partially_aligned_and_reported(example: LabelledLattice) -> None:
    aligner = WordAligner(example.model, BOUNDARY, WordAlignment(reorder=example.reorder))
    assert_agrees(aligner(example.lattice), example, PHONES)
    assert_agrees(by_general_algorithm(aligner, example.lattice), example, PHONES)


@few_examples
@given(arbitrary_lattices())
def test_lattices_of_any_shape_are_aligned_to_words(example: LabelledLattice) -> None:
    aligner = WordAligner(example.model, BOUNDARY, WordAlignment(reorder=example.reorder))
    assert_agrees(aligner(example.lattice), example, PHONES)


@few_examples
@given(st.one_of(labelled_trees(), labelled_sausages(), damaged_lattices(), arbitrary_lattices()))
def test_phone_alignment_agrees_with_alignment_of_each_path(example: LabelledLattice) -> None:
    aligner = PhoneAligner(example.model, PhoneAlignment(remove_epsilon=False, reorder=example.reorder))
    assert_agrees(aligner(example.lattice), example, None, exhaustive=True)
    assert_agrees(by_general_algorithm(aligner, example.lattice), example, None, exhaustive=True)


@few_examples
@given(st.one_of(labelled_trees(), labelled_sausages()), st.booleans())
def test_replaced_output_symbols_are_the_phones_of_the_labels(example: LabelledLattice, remove_epsilon: bool) -> None:
    options = PhoneAlignment(replace_output_symbols=True, remove_epsilon=remove_epsilon, reorder=example.reorder)
    aligned = PhoneAligner(example.model, options)(example.lattice).whole("key")
    paths, _ = aligned_paths(example.lattice, example.model, None, example.reorder)
    expected: Paths = {}
    for units, costs in paths.items():
        phones = tuple((int(example.model.phone[labels[0]]), labels) for _, labels in units if labels)
        expected.setdefault(phones, set()).update(costs)
    assert_paths_agree(aligned, expected, exhaustive=not remove_epsilon)


def test_removing_epsilons_merges_words_with_the_same_phones() -> None:
    lattice = from_arcs("utt", [0] * 3, [1] * 3, [7, 8, 9], [1.0, 2.0, 3.0], finals={1: 0.0}, labels=[[3, 4]] * 3)
    aligned = align_phones(lattice, MODEL, PhoneAlignment(replace_output_symbols=True, remove_epsilon=False))
    assert paths_as_units(aligned) == {((2, (3, 4)),): {(1.0, 0.0), (2.0, 0.0), (3.0, 0.0)}}
    (costs,) = paths_as_units(align_phones(lattice, MODEL, PhoneAlignment(replace_output_symbols=True))).values()
    assert costs == {(1.0, 0.0)}


@few_examples
@given(st.one_of(labelled_trees(), labelled_sausages()))
def test_phone_alignment_keeps_word_sequences_and_costs(example: LabelledLattice) -> None:
    aligned = align_phones(example.lattice, example.model, PhoneAlignment(reorder=example.reorder))
    assert (aligned.word > 0).all()
    assert best_sequences(aligned) == best_sequences(example.lattice)


@few_examples
@given(st.one_of(labelled_trees(), labelled_sausages(), damaged_lattices()))
def test_silence_and_partial_words_get_their_configured_labels(example: LabelledLattice) -> None:
    plain = WordAligner(example.model, BOUNDARY, WordAlignment(reorder=example.reorder))(example.lattice)
    options = WordAlignment(silence_label=77, partial_word_label=88, reorder=example.reorder)
    labelled = WordAligner(example.model, BOUNDARY, options)(example.lattice)
    assert plain.lattice is not None
    assert labelled.lattice is not None
    kind = BOUNDARY.kinds(example.model.phone)
    first = labelled.lattice.ali[labelled.lattice.ali_begin[:-1]] if labelled.lattice.ali.size else labelled.lattice.ali
    is_epsilon = plain.lattice.word == 0
    assert np.array_equal(plain.lattice.word[~is_epsilon], labelled.lattice.word[~is_epsilon])
    assert (labelled.lattice.word[is_epsilon] == np.where(kind[first[is_epsilon]] == KINDS["nonword"], 77, 88)).all()


@settings(max_examples=12)
@given(labelled_sausages())
def test_aligned_lattices_keep_their_times_and_have_no_final_labels(example: LabelledLattice) -> None:
    length = {
        sum(len(labels) for _, labels in units)
        for units in aligned_paths(example.lattice, example.model, PHONES, example.reorder)[0]
    }
    assume(len(length) == 1)
    aligned = align_words(example.lattice, example.model, BOUNDARY, WordAlignment(reorder=example.reorder))
    assert aligned.final_ali.size == 0
    assert state_times(aligned).max() == length.pop()
    realigned = align_words(aligned, example.model, BOUNDARY, WordAlignment(reorder=example.reorder))
    assert paths_as_units(realigned) == paths_as_units(aligned)


def test_arrays_of_an_aligned_lattice_are_read_only_and_outlive_it() -> None:
    lattice = linear_lattice((1, [12]), (2, [12, 11]))
    aligned = align_words(lattice, MODEL, BOUNDARY)
    assert (aligned.key, aligned.kind, aligned.frame_shift, aligned.words) == ("utt", "compact", 0.03, None)
    arrays = [value for name in aligned.__slots__ if isinstance(value := getattr(aligned, name), np.ndarray)]
    copies = [array.copy() for array in arrays]
    assert len(arrays) == 11
    assert not any(array.flags.writeable for array in arrays)
    for array in arrays:
        with pytest.raises(ValueError, match="cannot set WRITEABLE"):
            array.flags.writeable = True
    del aligned
    realigned = [align_words(lattice, MODEL, BOUNDARY) for _ in range(100)]  # these reuse the memory if it was freed
    assert all(np.array_equal(array, copy) for array, copy in zip(arrays, copies, strict=True))
    assert all(result.identical(realigned[0]) for result in realigned)


def test_a_word_ends_where_the_next_phone_begins() -> None:
    # Silence (1), then phones 3 and 4: the word is on the arc of the silence, some of its labels are on the next arc.
    lattice = linear_lattice((2, [2, 1, 1, 6]), (1, [5, 8, 7]), final=[12, 11, 2])
    aligned = align_words(lattice, MODEL, BOUNDARY)
    assert list(paths_as_units(aligned)) == [((0, (2, 1, 1)), (2, (6, 5, 8, 7)), (1, (12, 11)), (0, (2,)))]
    assert aligned.frame_shift == 0.03


def test_word_times_are_in_seconds() -> None:
    lattice = linear_lattice((2, [2, 1, 1, 6]), (1, [5, 8, 7]), final=[12, 11, 2])
    aligned = align_words(lattice, MODEL, BOUNDARY)
    times = word_times(aligned)
    assert [word.word for word in times] == [2, 1]
    assert [(word.begin, word.duration) for word in times] == [
        (pytest.approx(0.09), pytest.approx(0.12)),
        (pytest.approx(0.21), pytest.approx(0.06)),
    ]
    assert word_times(aligned, frame_shift=0.01)[0].begin == pytest.approx(0.03)


def test_word_times_require_a_frame_shift_and_labels() -> None:
    lattice = from_arcs("utt", [0], [1], [5], [1.0], finals={1: 0.0})
    with pytest.raises(OptionError, match="pass the seconds per label as frame_shift"):
        word_times(lattice)
    with pytest.raises(LatticeError, match="neither alignments nor times"):
        word_times(lattice, frame_shift=0.01)
    with pytest.raises(OptionError, match="frame_shift is 0, but must be from"):
        word_times(lattice, frame_shift=0)


@pytest.mark.parametrize(
    ("lattice", "message"),
    [
        (linear_lattice((1, [12]), (2, [6])), "the last word is invalid"),
        (linear_lattice((1, [12]), (0, [6])), "the last word is incomplete"),
        (linear_lattice((1, [11])), "the last word is invalid"),
        (linear_lattice((0, [12])), "the last word is incomplete"),
        (linear_lattice((1, [12]), (2, [])), "words without labels at the end"),
        (linear_lattice((0, [1])), "the last silence is incomplete"),
        (linear_lattice((2, [6, 2, 8]), (1, [12])), "a phone is not allowed inside a word"),
        (linear_lattice((2, [6, 14, 8]), (1, [12])), "a phone is not allowed inside a word"),
        (linear_lattice((1, [11, 2, 12])), "a phone changes before its final transition"),
    ],
)
def test_lattices_that_cannot_be_aligned_raise_an_error_with_the_reason(lattice: Lattice, message: str) -> None:
    with pytest.raises(LatticeError, match=f"key 'utt': the lattice cannot be aligned: {message}"):
        align_words(lattice, MODEL, BOUNDARY)


def test_aligned_part_of_an_incomplete_lattice_is_returned() -> None:
    aligned = WordAligner(MODEL, BOUNDARY, WordAlignment(partial_word_label=9))(linear_lattice((1, [12]), (0, [6])))
    assert aligned.lattice is not None
    assert list(paths_as_units(aligned.lattice)) == [((1, (12,)), (9, (6,)))]


def test_label_outside_the_transition_ids_is_refused() -> None:
    with pytest.raises(LatticeError, match=r"arc 1 has the label 99, but the transition ids of small.mdl are 1 to 16;"):
        align_words(linear_lattice((1, [12]), (2, [99])), MODEL, BOUNDARY)
    with pytest.raises(LatticeError, match="key 'utt': final state 1 has the label 17"):
        align_phones(linear_lattice((1, [12]), final=[17]), MODEL)
    for label in (-(2**31), -1, 0, 2**31 - 1):  # a lookup of these would be out of bounds
        for invalid in (linear_lattice((1, [12]), (2, [label])), linear_lattice((1, [12]), final=[label])):
            with pytest.raises(LatticeError, match=f"has the label {label}, but the transition ids of small.mdl"):
                align_words(invalid, MODEL, BOUNDARY)
            with pytest.raises(LatticeError, match=f"has the label {label}, but the transition ids of small.mdl"):
                align_phones(invalid, MODEL)


def test_phone_without_a_word_boundary_entry_is_refused() -> None:
    boundary = WordBoundary("few.int", {6: KINDS["singleton"]})
    assert align_words(linear_lattice((1, [12])), MODEL, boundary).num_arcs == 1
    with pytest.raises(LatticeError, match=r"phone 3 \(transition id 6\) has no entry in few.int"):
        align_words(linear_lattice((1, [12]), (2, [6, 8])), MODEL, boundary)


def test_invalid_label_is_found_at_any_position_of_an_arc() -> None:
    for place in (0, 255, 256, 300, 511, 699):
        labels = [12, *[11] * 699]
        labels[place] = 17
        with pytest.raises(LatticeError, match="arc 0 has the label 17"):
            align_words(linear_lattice((1, labels)), MODEL, BOUNDARY)
        labels[place] = 6
        with pytest.raises(LatticeError, match=r"phone 3 \(transition id 6\) has no entry"):
            align_words(linear_lattice((1, labels)), MODEL, WordBoundary("few.int", {6: KINDS["singleton"]}))


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 40)), min_size=1, max_size=5), st.integers(0, 3))
def test_arcs_with_any_number_of_labels_are_aligned(lengths: list[tuple[int, int]], num_silent: int) -> None:
    # Each arc has the last labels of the previous word, followed by the first labels of its word.
    arcs: list[tuple[int, list[int]]] = []
    expected: list[Unit] = []
    remaining: list[int] = []
    for word, (num_leading, num_remaining) in enumerate(lengths, start=1):
        leading = [12, *[11] * (num_leading - 1)]
        arcs.append((word, remaining + leading))
        remaining = [11] * num_remaining
        expected.append((word, (*leading, *remaining)))
    silence = [2, *[1] * (num_silent - 1)] if num_silent else []
    if silence:
        expected.append((0, tuple(silence)))
    lattice = linear_lattice(*arcs, final=remaining + silence)
    aligner = WordAligner(MODEL, BOUNDARY)
    with mock.patch.object(_align, "align_generally", side_effect=AssertionError):
        aligned = aligner(lattice).whole("utt")
    assert list(paths_as_units(aligned)) == [tuple(expected)]
    assert aligned.identical(by_general_algorithm(aligner, lattice).whole("utt"))


def test_a_lattice_without_labels_is_refused() -> None:
    with pytest.raises(LatticeError, match="no alignments"):
        align_words(linear_lattice((1, [])), MODEL, BOUNDARY)


def test_the_largest_word_id_is_aligned() -> None:
    lattice = linear_lattice((2**31 - 1, [12]), (0, [2]))
    assert align_words(lattice, MODEL, BOUNDARY).word.tolist() == [2**31 - 1, 0]


def test_max_expand_limits_the_states_of_a_word_alignment() -> None:
    lattice = homophone_lattice(14)
    unbounded = WordAligner(MODEL, BOUNDARY)(lattice)
    assert unbounded.lattice is not None
    assert unbounded.lattice.num_states > 10000
    bounded = WordAligner(MODEL, BOUNDARY, WordAlignment(max_expand=2.0))(lattice)
    assert bounded.fault == "the result has more states than max_expand allows; raise max_expand"
    with (
        mock.patch("ninja.graph.align.words.MAX_STATES", 1000),
        pytest.raises(LatticeError, match="check that the model and the phone table match the lattice"),
    ):
        WordAligner(MODEL, BOUNDARY)(lattice)


def test_dead_end_states_are_removed() -> None:
    arcs = ([0, 0, 1, 2], [1, 2, 4, 3], [1, 3, 2, 4], [1.0, 2.0, 3.0, 4.0])
    lattice = from_arcs("utt", *arcs, finals={4: 0.0}, labels=[[12], [12], [12], [12]])
    for aligned in (align_words(lattice, MODEL, BOUNDARY), align_phones(lattice, MODEL)):
        assert connect(aligned) is aligned
        assert list(paths_as_units(aligned)) == [((1, (12,)), (2, (12,)))]


def test_order_of_arcs_and_of_float32_sums_depends_on_where_an_arc_is_split() -> None:
    # Word 3 follows word 1 and word 2, but only after word 2 does an input arc end where word 3 begins.
    large = 2.0**24  # (large + 1) + 1 is large in float32, and large + (1 + 1) is not
    lattice = from_arcs(
        "utt",
        [0, 0, 1, 2, 3, 3, 4],
        [1, 2, 3, 3, 4, 6, 5],
        [1, 2, 3, 3, 4, 5, 6],
        [0.0, 0.0, large, 0.0, 1.0, 0.0, 1.0],
        finals={5: 0.0, 6: 0.0},
        labels=[[12, 6], [12], [], [6], [], [8, 12], [8, 12, 12]],
    )
    aligner = WordAligner(MODEL, BOUNDARY)
    for aligned in (aligner(lattice).whole("utt"), by_general_algorithm(aligner, lattice).whole("utt")):
        assert aligned.arc_begin.tolist() == [0, 2, 4, 6, 7, 8, 9, 9]
        assert aligned.dst.tolist() == [2, 1, 3, 5, 5, 3, 4, 6, 6]
        assert aligned.word.tolist() == [1, 2, 3, 3, 3, 3, 4, 6, 5]
        assert aligned.graph.tolist() == [0.0, 0.0, 2.0, 0.0, large, large + 2.0, 0.0, 0.0, 0.0]


def test_a_self_loop_that_starts_an_arc_depends_on_the_previous_label() -> None:
    # The first label of the last arc is a self-loop: it belongs to the phone that just ended, or else begins a phone.
    lattice = from_arcs(
        "utt",
        [0, 0, 1],
        [1, 1, 2],
        [2, 1, 3],
        [1.0, 2.0, 3.0],
        finals={2: 0.0},
        labels=[[], [12], [11, 12]],
        final_labels={2: [12]},
    )
    aligned = WordAligner(MODEL, BOUNDARY)(lattice)
    assert aligned.fault is not None
    assert_agrees(aligned, LabelledLattice(MODEL, lattice, True), PHONES)


def test_remaining_labels_of_an_arc_depend_on_the_path_to_it() -> None:
    # The first label of the last arc ends a silence that began after word 1, but is the whole silence after word 2.
    lattice = from_arcs(
        "utt",
        [0, 0, 1],
        [1, 1, 2],
        [1, 2, 3],
        [1.0, 2.0, 3.0],
        finals={2: 0.0},
        labels=[[12, 1], [12], [2, 12]],
    )
    aligner = WordAligner(MODEL, BOUNDARY, WordAlignment(reorder=False))  # self-loops come first
    with mock.patch.object(_align, "align_generally", side_effect=AssertionError):
        aligned = aligner(lattice).whole("utt")
    assert set(paths_as_units(aligned)) == {
        ((1, (12,)), (0, (1, 2)), (3, (12,))),
        ((2, (12,)), (0, (2,)), (3, (12,))),
    }
    assert aligned.identical(by_general_algorithm(aligner, lattice).whole("utt"))


def test_a_self_loop_can_follow_or_precede_the_final_transition_of_a_phone() -> None:
    # The self-loop of the last arc ends the first unit after words 1 and 4; after word 2, the label after it does.
    lattice = from_arcs(
        "utt",
        [0, 0, 1, 2],
        [1, 2, 2, 3],
        [1, 2, 4, 3],
        [1.0, 2.0, 3.0, 4.0],
        finals={3: 0.0},
        labels=[[], [11], [12], [11, 12, 12]],
    )
    aligner = WordAligner(MODEL, BOUNDARY)
    with mock.patch.object(_align, "align_generally", side_effect=AssertionError):
        aligned = aligner(lattice).whole("utt")
    assert set(paths_as_units(aligned)) == {
        ((1, (12, 11)), (4, (12,)), (3, (12,))),
        ((2, (11, 11, 12)), (3, (12,))),
    }
    assert aligned.identical(by_general_algorithm(aligner, lattice).whole("utt"))


def test_alignment_states_that_differ_only_in_words_are_not_merged() -> None:
    aligner = WordAligner(MODEL, BOUNDARY)
    lattice = homophone_lattice(8)
    assert aligner(lattice).whole("grows").identical(by_general_algorithm(aligner, lattice).whole("grows"))


def test_aligners_are_thread_safe() -> None:
    aligner = WordAligner(MODEL, BOUNDARY)
    lattices = [homophone_lattice(size) for size in (3, 9, 5, 8, 10, 4, 7)] * 3
    with ThreadPoolExecutor(4) as pool:
        for aligned, lattice in zip(pool.map(aligner, lattices), lattices, strict=True):
            expected = aligner(lattice).lattice
            assert aligned.lattice is not None
            assert expected is not None
            assert aligned.lattice.identical(expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"silence_label": -1}, "silence_label is -1"),
        ({"partial_word_label": 2**31}, "partial_word_label is 2147483648"),
        ({"max_expand": -0.5}, "max_expand is -0.5"),
        ({"max_expand": float("nan")}, "max_expand is nan"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        WordAlignment(**options)  # type: ignore[arg-type]


def test_lattice_without_a_path_is_refused():
    inf = np.inf
    lattice = Lattice.from_arrays(
        "utt", [0, 0, 1, 1], [2], [1], [0.0], [0.0], [inf, inf, 0], [inf, inf, 0], ali_begin=[0, 2], ali=[11, 12],
    )  # fmt: skip
    assert WordAligner(MODEL, BOUNDARY).all(Batch.of([lattice])) is None
    with pytest.raises(LatticeError, match="no path can be aligned"):
        align_words(lattice, MODEL, BOUNDARY)
