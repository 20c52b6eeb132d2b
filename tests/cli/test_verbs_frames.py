"""Frame posteriors, expected accuracies and pronunciations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_graph import SHARED
from reference_verbs import accuracy_shares, frame_shares, symbols_and_costs
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
needs_golden = pytest.mark.skipif(not KOREAN.exists(), reason="Kaldi's answers do not come with the project")


def only(what, steps):
    return tuple(number for kind, number in steps if kind == what)


@given(timed_lattices(), st.sampled_from([0.5, 1.0]), st.data())
def test_frame_posteriors_are_those_of_all_paths_together(lattice, acoustic_scale, data):
    ids = st.lists(st.integers(1, 4), min_size=lattice.ali.size, max_size=lattice.ali.size)
    changed = np.array(data.draw(ids), np.int32)
    lattice = type(lattice)(**{**{n: getattr(lattice, n) for n in lattice.__slots__}, "ali": changed})
    shares, log_likelihood = frame_shares(lattice, acoustic_scale)
    found = frame_posteriors(lattice, Scales(acoustic_scale))
    frames = np.repeat(np.arange(len(found.begin) - 1), np.diff(found.begin)).tolist()
    pairs = zip(frames, found.label.tolist(), strict=True)
    assert dict(zip(pairs, found.posterior.tolist(), strict=True)) == pytest.approx(shares)
    assert found.total == pytest.approx(log_likelihood)
    assert np.add.reduceat(found.posterior, found.begin[:-1]) == pytest.approx(1.0) if frames else True


def test_posteriors_of_final_labels_count_too():
    from ninja.graph import from_arcs

    lattice = from_arcs("a", [0], [1], [5], [1.0], finals={1: 0.5}, labels=[[3, 4]], final_labels={1: [6]})
    found = frame_posteriors(lattice)
    assert (found.begin.tolist(), found.label.tolist(), found.posterior.tolist()) == (
        [0, 1, 2, 3],
        [3, 4, 6],
        [1, 1, 1],
    )
    assert found.total == pytest.approx(-1.5)


def test_the_log_likelihood_of_a_path_without_costs_has_no_sign():
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
def test_accuracy_posteriors_are_those_of_all_paths_together(lattice, criterion, one_class, silences, data):
    model, ids = small_model(), st.integers(1, 4)
    changed = np.array(data.draw(st.lists(ids, min_size=lattice.ali.size, max_size=lattice.ali.size)), np.int32)
    lattice = type(lattice)(**{**{n: getattr(lattice, n) for n in lattice.__slots__}, "ali": changed})
    frames = len(only("label", symbols_and_costs(lattice)[0][0]))
    alignment = data.draw(st.lists(ids, min_size=frames, max_size=frames))
    kind = (model.pdf if criterion == "smbr" else model.phone).tolist()
    silent = [phone in silences for phone in model.phone.tolist()]
    shares, expected = accuracy_shares(lattice, alignment, kind, silent, one_class)
    reference = np.array(alignment, np.int32)
    found = accuracy_posteriors(
        lattice, reference, model, criterion, silence_phones=silences, one_silence_class=one_class
    )
    frame = np.repeat(np.arange(len(found.begin) - 1), np.diff(found.begin)).tolist()
    values = dict(zip(zip(frame, found.label.tolist(), strict=True), found.posterior.tolist(), strict=True))
    assert found.total == pytest.approx(expected)
    for place in shares.keys() | values.keys():
        assert values.get(place, 0.0) == pytest.approx(shares.get(place, 0.0), abs=1e-9)


def test_labels_of_final_states_have_accuracies_too():
    from ninja.graph import from_arcs

    lattice = from_arcs(
        "a", [0, 0], [1, 2], [5, 6], [1.0, 1.0], finals={1: 0.0, 2: 0.0}, labels=[[1], [2, 3]], final_labels={1: [4]}
    )
    found = accuracy_posteriors(lattice, np.array([1, 4], np.int32), small_model(), "smbr")
    assert found.total == pytest.approx(1.0)
    assert dict(zip(found.label.tolist(), found.posterior.tolist(), strict=True)) == pytest.approx(
        {1: 0.5, 2: -0.5, 3: -0.5, 4: 0.5}
    )


def test_a_final_state_with_a_way_on_counts_once():
    from ninja.graph import from_arcs

    ends = {1: [4], 2: [4]}
    lattice = from_arcs(
        "a", [0, 1], [1, 2], [5, 6], [1.0, 1.0], finals={1: 0.0, 2: 0.0}, labels=[[1], []], final_labels=ends
    )
    found = accuracy_posteriors(lattice, np.array([1, 4], np.int32), small_model(), "smbr")
    assert found.total == pytest.approx(2.0)
    assert found.posterior == pytest.approx(0.0)


def test_accuracies_need_an_alignment_of_the_lattice():
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
        ([2, 2, 1, 3], (1, 2), (3, 1)),  # the self-loop goes before it
        ([1, 1, 3, 4], (1, 1, 2), (1, 1, 2)),
        ([1, 4, 4, 3], (1, 2), (1, 3)),
        ([2], (1,), (1,)),  # broken off
        ([], (), ()),
    ],
)
def test_phones_end_behind_their_final_transitions(labels, phones, lengths):
    model = small_model()
    (found,) = pronunciations(linear("a", [7], labels), model)
    assert (found.word, found.begin, found.phones, found.lengths) == (7, 0, phones, lengths)
    with pytest.raises(LatticeError, match=r"the label 5, but the transition ids of final\.mdl are"):
        pronunciations(linear("a", [7], [5]), model)
