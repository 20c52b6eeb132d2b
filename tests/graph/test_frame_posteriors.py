"""Frame posteriors, expected accuracies and pronunciations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_graph import SHARED
from reference_operations import accuracy_shares, frame_shares, symbols_and_costs
from strategies_graph import timed_lattices

from ninja.errors import LatticeError, OptionError
from ninja.graph import (
    accuracy_posteriors,
    frame_posteriors,
    linear,
    pronunciations,
)
from ninja.lattice import Scales
from ninja.lattice.transition_model import TransitionModel

KOREAN = SHARED / "golden" / "korean"
# The data are not part of the project; in CI, tests/conftest.py turns this skip into a failure.
needs_golden = pytest.mark.skipif(not KOREAN.exists(), reason="Kaldi's golden files are not part of the project")


def labels_of(steps):
    return tuple(number for kind, number in steps if kind == "label")


@given(timed_lattices(), st.sampled_from([0.5, 1.0]), st.data())
def test_frame_posteriors_agree_with_enumeration_of_paths(lattice, acoustic_scale, data):
    ids = st.lists(st.integers(1, 4), min_size=lattice.ali.size, max_size=lattice.ali.size)
    ali = np.array(data.draw(ids), np.int32)
    lattice = type(lattice)(**{**{name: getattr(lattice, name) for name in lattice.__slots__}, "ali": ali})
    shares, log_likelihood = frame_shares(lattice, acoustic_scale)
    result = frame_posteriors(lattice, Scales(acoustic_scale))
    frames = np.repeat(np.arange(len(result.begin) - 1), np.diff(result.begin)).tolist()
    pairs = zip(frames, result.label.tolist(), strict=True)
    assert dict(zip(pairs, result.posterior.tolist(), strict=True)) == pytest.approx(shares)
    assert result.total == pytest.approx(log_likelihood)
    assert np.add.reduceat(result.posterior, result.begin[:-1]) == pytest.approx(1.0) if frames else True


def test_frame_posteriors_include_labels_of_final_states():
    from ninja.graph import from_arcs

    lattice = from_arcs("a", [0], [1], [5], [1.0], finals={1: 0.5}, labels=[[3, 4]], final_labels={1: [6]})
    result = frame_posteriors(lattice)
    assert (result.begin.tolist(), result.label.tolist(), result.posterior.tolist()) == (
        [0, 1, 2, 3],
        [3, 4, 6],
        [1, 1, 1],
    )
    assert result.total == pytest.approx(-1.5)


def test_the_log_likelihood_of_a_path_without_costs_is_not_negative_zero():
    assert str(frame_posteriors(linear("a", [1], [3, 4])).total) == "0.0"


def small_model():
    """Create a model of two phones with one state: transitions 1 and 3 leave it, 2 and 4 are self-loops with separate
    densities."""

    def of(kind, *values):
        return np.array(values, kind)

    return TransitionModel(
        "final.mdl",
        phone=of(np.int32, 0, 1, 1, 2, 2),
        hmm_state=of(np.int32, 0, 0, 0, 0, 0),
        transition_state=of(np.int32, 0, 1, 1, 2, 2),
        pdf=of(np.int32, -1, 0, 1, 2, 3),
        is_final=of(np.bool_, 0, 1, 0, 1, 0),
        is_self_loop=of(np.bool_, 0, 0, 1, 0, 1),
        log_prob=np.zeros(5, np.float32),
    )


@given(
    timed_lattices(max_arcs=8), st.sampled_from(["mpfe", "smbr"]), st.booleans(), st.sets(st.integers(1, 2)), st.data()
)
def test_accuracy_posteriors_agree_with_enumeration_of_paths(lattice, criterion, one_class, silences, data):
    model, ids = small_model(), st.integers(1, 4)
    ali = np.array(data.draw(st.lists(ids, min_size=lattice.ali.size, max_size=lattice.ali.size)), np.int32)
    lattice = type(lattice)(**{**{name: getattr(lattice, name) for name in lattice.__slots__}, "ali": ali})
    frames = len(labels_of(symbols_and_costs(lattice)[0][0]))
    alignment = data.draw(st.lists(ids, min_size=frames, max_size=frames))
    kind = (model.pdf if criterion == "smbr" else model.phone).tolist()
    silent = [phone in silences for phone in model.phone.tolist()]
    shares, expected = accuracy_shares(lattice, alignment, kind, silent, one_class)
    reference = np.array(alignment, np.int32)
    result = accuracy_posteriors(
        lattice, reference, model, criterion, silence_phones=silences, one_silence_class=one_class
    )
    frame = np.repeat(np.arange(len(result.begin) - 1), np.diff(result.begin)).tolist()
    values = dict(zip(zip(frame, result.label.tolist(), strict=True), result.posterior.tolist(), strict=True))
    assert result.total == pytest.approx(expected)
    for place in shares.keys() | values.keys():
        assert values.get(place, 0.0) == pytest.approx(shares.get(place, 0.0), abs=1e-9)


def test_accuracy_posteriors_include_labels_of_final_states():
    from ninja.graph import from_arcs

    lattice = from_arcs(
        "a", [0, 0], [1, 2], [5, 6], [1.0, 1.0], finals={1: 0.0, 2: 0.0}, labels=[[1], [2, 3]], final_labels={1: [4]}
    )
    result = accuracy_posteriors(lattice, np.array([1, 4], np.int32), small_model(), "smbr")
    assert result.total == pytest.approx(1.0)
    assert dict(zip(result.label.tolist(), result.posterior.tolist(), strict=True)) == pytest.approx(
        {1: 0.5, 2: -0.5, 3: -0.5, 4: 0.5}
    )


def test_a_final_state_with_outgoing_arcs_counts_once():
    from ninja.graph import from_arcs

    ends = {1: [4], 2: [4]}
    lattice = from_arcs(
        "a", [0, 1], [1, 2], [5, 6], [1.0, 1.0], finals={1: 0.0, 2: 0.0}, labels=[[1], []], final_labels=ends
    )
    result = accuracy_posteriors(lattice, np.array([1, 4], np.int32), small_model(), "smbr")
    assert result.total == pytest.approx(2.0)
    assert result.posterior == pytest.approx(0.0)


def test_accuracy_posteriors_refuse_an_alignment_of_another_lattice():
    lattice, model = linear("a", [1], [1, 2]), small_model()
    with pytest.raises(LatticeError, match=r"key 'a': the lattice has . frames, but the alignment has 1"):
        accuracy_posteriors(lattice, np.array([1], np.int32), model, "mpfe")
    with pytest.raises(LatticeError, match=r"the alignment has the label 9, but the transition ids of final\.mdl are"):
        accuracy_posteriors(lattice, np.array([1, 9], np.int32), model, "mpfe")
    with pytest.raises(OptionError, match="criterion is 'mpe', but must be one of mpfe, smbr"):
        accuracy_posteriors(lattice, np.array([1, 2], np.int32), model, "mpe")


@pytest.mark.parametrize(
    ("labels", "phones", "lengths"),
    [
        ([1, 2, 2, 3], (1, 2), (3, 1)),  # the self-loop follows the transition that leaves the state
        ([2, 2, 1, 3], (1, 2), (3, 1)),  # the self-loop precedes it
        ([1, 1, 3, 4], (1, 1, 2), (1, 1, 2)),
        ([1, 4, 4, 3], (1, 2), (1, 3)),
        ([2], (1,), (1,)),  # truncated
        ([], (), ()),
    ],
)
def test_phones_end_after_their_final_transitions(labels, phones, lengths):
    model = small_model()
    (pronunciation,) = pronunciations(linear("a", [7], labels), model)
    assert (pronunciation.word, pronunciation.begin) == (7, 0)
    assert (pronunciation.phones, pronunciation.lengths) == (phones, lengths)
    with pytest.raises(LatticeError, match=r"the label 5, but the transition ids of final\.mdl are"):
        pronunciations(linear("a", [7], [5]), model)
