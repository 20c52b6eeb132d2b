"""Problems with unusual lattices: dead ends, state-level lattices, and costs and labels that cannot be written."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from lattice_files import write_all
from reference_graph import SHARED
from reference_verbs import arcs_of, symbols_and_costs
from reference_word_align import model_of
from strategies import lattices

import ninja as package
from ninja.cli.kaldi.ctm import pronunciation_lines
from ninja.consensus import path_ctm
from ninja.errors import LatticeError
from ninja.graph import add_word_penalty, boost, combine, from_arcs, linear, project, to_compact, to_fst, to_raw
from ninja.graph.transitions import add_transition_costs
from ninja.lattice import Lattice

PHONE_OF = np.array([0, 1, 1, 2, 2, 3, 3], np.int32)
MODEL = model_of({1: 1, 2: 1, 3: 1})  # phone p: its loop is 2p - 1, its end 2p


def spoken(kind: str = "compact", key: str = "utt") -> Lattice:
    """Return a lattice with two paths of two words, with a frame of silence between them."""
    lattice = from_arcs(
        key,
        [0, 0, 1, 2],
        [1, 1, 2, 3],
        [5, 6, 0, 7],
        [0.5, 1.0, 0.25, 0.125],
        [1.0, 0.25, 0.5, 2.0],
        finals={3: 0.0},
        labels=[[2, 1, 1], [4, 3, 3], [6], [2, 4]],
    )
    return to_raw(lattice) if kind == "raw" else lattice


def path(kind: str = "compact") -> Lattice:
    lattice = from_arcs(
        "utt", [0, 1, 2], [1, 2, 3], [5, 6, 7], [0.5] * 3, finals={3: 0.0}, labels=[[2, 1, 1], [6], [2, 4]]
    )
    return to_raw(lattice) if kind == "raw" else lattice


def with_dead_ends(lattice: Lattice) -> Lattice:
    """Add an arc to a dead end, and an unreachable state with an arc of many labels."""
    last = lattice.num_states - 1
    arcs = [
        (0, last + 1, 9, 1.0, [2] * 50),
        *(
            (int(src), int(dst), int(word), float(cost), lattice.ali[begin:end].tolist())
            for src, dst, word, cost, begin, end in zip(
                lattice.src,
                lattice.dst,
                lattice.word,
                lattice.graph,
                lattice.ali_begin[:-1],
                lattice.ali_begin[1:],
                strict=True,
            )
        ),
        (last + 2, last, 9, 1.0, [4] * 50),
    ]
    src, dst, word, cost, labels = zip(*arcs, strict=True)
    return from_arcs(lattice.key, src, dst, word, cost, finals={last: 0.0}, labels=labels)


def test_boosting_does_not_look_at_what_is_on_no_path() -> None:
    whole = replace(spoken(), acoustic=np.zeros(4, np.float32))
    alignment = np.array([2, 1, 3, 6, 2, 2], np.int32)
    found = boost(with_dead_ends(whole), alignment, PHONE_OF, 1.0)
    assert symbols_and_costs(found) == symbols_and_costs(boost(whole, alignment, PHONE_OF, 1.0))


def test_paths_that_end_earlier_than_the_alignment_are_refused() -> None:
    lattice = from_arcs("utt", [0, 0], [1, 2], [5, 6], [0.0, 0.0], finals={1: 0.0, 2: 0.0}, labels=[[2, 1, 1], [4, 3]])
    with pytest.raises(LatticeError, match="key 'utt': not all paths have the 3 frames of the alignment"):
        boost(lattice, np.array([2, 1, 1], np.int32), PHONE_OF)
    nowhere = from_arcs("utt", [0, 0], [1, 2], [5, 6], [0.0] * 2, finals={1: 0.0}, labels=[[2], [4] * 9])
    nowhere = replace(nowhere, final_graph=np.full(3, np.inf, np.float32))
    with pytest.raises(LatticeError, match="key 'utt': "):
        boost(nowhere, np.array([2], np.int32), PHONE_OF)


def test_lattices_with_dead_ends_are_boosted_and_the_others_too(ninja, tmp_path) -> None:  # type: ignore[no-untyped-def]
    model = SHARED / "data" / "korean" / "trans.mdl"
    if not model.exists():
        pytest.skip("the model does not come with the project")
    dead, short, good = with_dead_ends(spoken(key="dead")), linear("short", [5], [2, 1]), spoken(key="good")
    write_all(tmp_path / "in.ark", (dead, short, good))
    (tmp_path / "ali").write_text("".join(f"{key} 2 1 1 6 2 4\n" for key in ("dead", "short", "good")))
    run = ("boost-ali", tmp_path / "in.ark", "--model", model, "--ali", tmp_path / "ali", "-o", tmp_path / "out.ark")
    code, _, errors = ninja(*run)
    assert code == 1
    assert "key 'short': the lattice has 2 frames, but the alignment has 6" in errors
    found = dict(package.read(tmp_path / "out.ark"))
    assert list(found) == ["dead", "good"]
    assert [found[key].num_arcs for key in found] == [4, 4]
    code, _, errors = ninja(*run, "--b", "1e39")
    assert code != 0
    assert [key for key, _ in package.read(tmp_path / "out.ark")] == ["dead", "good"]  # as it was


def test_times_of_a_format_do_not_stand_in_for_the_frames_of_labels() -> None:
    lattice = replace(path(), time=np.array([0, 1, 2, 6], np.int32))
    alignment = np.array([2, 1, 1, 6, 4, 4], np.int32)
    assert boost(lattice, alignment, PHONE_OF, 1.0).graph.tolist() == [0.5, 0.5, -0.5]


@given(lattices(max_states=6))
def test_a_machine_of_whole_words_is_that_of_the_compact_lattice(lattice: Lattice) -> None:
    raw = to_raw(lattice)
    for rm_eps in (True, False):
        ours, theirs = (to_fst(given, 0.5, 1.0, rm_eps=rm_eps) for given in (raw, to_compact(raw)))
        assert (arcs_of(ours), ours.final_cost.tolist()) == (arcs_of(theirs), theirs.final_cost.tolist())


@pytest.mark.parametrize("verb", [("arc-post", "--print-alignment"), ("to-fst", "--lm-scale=1"), ("nbest-to-ctm",)])
def test_lattices_by_states_give_what_those_by_words_give(ninja, tmp_path, verb) -> None:  # type: ignore[no-untyped-def]
    printed = []
    for kind in ("compact", "raw"):
        write_all(tmp_path / kind, [path(kind) if verb[0] == "nbest-to-ctm" else spoken(kind)])
        out = f"ark,t:{tmp_path}/out" if verb[0] == "to-fst" else tmp_path / "out"
        assert ninja(verb[0], tmp_path / kind, *verb[1:], "-o", out)[0] == 0
        printed.append((tmp_path / "out").read_text())
    assert [lattice.kind for _, lattice in package.read(tmp_path / "raw")] == ["raw"]
    assert printed[0] == printed[1] != ""


def test_words_of_a_path_by_states_have_all_their_frames() -> None:
    assert path_ctm(path("raw")) == path_ctm(path()) == "utt 1 0.00 0.03 5\nutt 1 0.03 0.01 6\nutt 1 0.04 0.02 7\n"


def test_pronunciations_of_a_path_by_states_have_all_their_phones() -> None:
    lines = partial(pronunciation_lines, model=MODEL, lengths=True)
    assert lines([path("raw")]) == lines([path()]) == ["utt 0 3 5 1\nutt 3 1 6 3\nutt 4 1,1 7 1 2\n"]


def test_graph_costs_beyond_floats_are_refused() -> None:
    refused = pytest.raises(LatticeError, match="key 'utt': the new graph costs exceed the range of float32")
    lattice = spoken()
    for penalty in (1e39, -1e39, 3e38):
        large = lattice.with_costs(np.full(4, 3e38 * np.sign(penalty), np.float32))
        with refused:
            add_word_penalty(large, penalty)
    with refused:
        boost(lattice, np.array([6] * 6, np.int32), PHONE_OF, 2e38)
    at_the_end = from_arcs("utt", [0], [1], [5], [0.0], finals={1: 0.0}, labels=[[]], final_labels={1: [2] * 4})
    with refused:
        boost(at_the_end, np.array([6] * 4, np.int32), PHONE_OF, -2e38)
    for options in ((1e39, 1e39), (1.0, 1e39), (1e308, 1e308)):
        for each in (lattice, at_the_end):
            with refused:
                add_transition_costs(each, MODEL, *options)
    with refused:
        combine([path().with_costs(np.full(3, 3e38, np.float32))])


def test_states_that_are_not_final_stay_so_where_costs_change() -> None:
    alignment = np.array([6] * 6, np.int32)
    for made in (
        add_word_penalty(spoken(), 1e38),
        boost(spoken(), alignment, PHONE_OF, 1e37),
        add_transition_costs(spoken(), MODEL, 1e37),
        combine([spoken()]),
    ):
        assert made.is_final.sum() == 1
        assert np.isfinite(made.graph).all()


def test_negative_labels_become_no_words() -> None:
    lattice = from_arcs("utt", [0], [1], [5], [0.0], finals={1: 0.0}, labels=[[3, -7, 2]])
    with pytest.raises(LatticeError, match="key 'utt': the label -7 is negative and cannot become a word id"):
        project(lattice, project_output=False)
    assert project(lattice).word.tolist() == [5]
