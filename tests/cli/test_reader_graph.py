"""Problems with unusual lattices: dead ends, state-level lattices, and costs and labels that cannot be written."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from lattice_files import write_all
from reference_graph import SHARED
from reference_operations import arcs_of, symbols_and_costs
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


def word_lattice(kind: str = "compact", key: str = "utt") -> Lattice:
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


def single_path(kind: str = "compact") -> Lattice:
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


def test_boost_ignores_arcs_on_no_path() -> None:
    lattice = replace(word_lattice(), acoustic=np.zeros(4, np.float32))
    alignment = np.array([2, 1, 3, 6, 2, 2], np.int32)
    boosted = boost(with_dead_ends(lattice), alignment, PHONE_OF, 1.0)
    assert symbols_and_costs(boosted) == symbols_and_costs(boost(lattice, alignment, PHONE_OF, 1.0))


def test_boost_refuses_paths_shorter_than_the_alignment() -> None:
    lattice = from_arcs("utt", [0, 0], [1, 2], [5, 6], [0.0, 0.0], finals={1: 0.0, 2: 0.0}, labels=[[2, 1, 1], [4, 3]])
    with pytest.raises(LatticeError, match="key 'utt': not all paths have the 3 frames of the alignment"):
        boost(lattice, np.array([2, 1, 1], np.int32), PHONE_OF)
    without_final_states = from_arcs("utt", [0, 0], [1, 2], [5, 6], [0.0] * 2, finals={1: 0.0}, labels=[[2], [4] * 9])
    without_final_states = replace(without_final_states, final_graph=np.full(3, np.inf, np.float32))
    with pytest.raises(LatticeError, match="key 'utt': "):
        boost(without_final_states, np.array([2], np.int32), PHONE_OF)


def test_boost_ali_boosts_lattices_with_dead_ends(ninja, tmp_path) -> None:  # type: ignore[no-untyped-def]
    model = SHARED / "data" / "korean" / "trans.mdl"
    if not model.exists():
        # The data are not part of the project; in CI, tests/conftest.py turns this skip into a failure.
        pytest.skip("the model is not part of the project")
    dead, short, good = with_dead_ends(word_lattice(key="dead")), linear("short", [5], [2, 1]), word_lattice(key="good")
    write_all(tmp_path / "in.ark", (dead, short, good))
    (tmp_path / "ali").write_text("".join(f"{key} 2 1 1 6 2 4\n" for key in ("dead", "short", "good")))
    options = ("--model", model, "--ali", tmp_path / "ali", "-o", tmp_path / "out.ark")
    code, _, errors = ninja("boost-ali", tmp_path / "in.ark", *options)
    assert code == 1
    assert "key 'short': the lattice has 2 frames, but the alignment has 6" in errors
    lattices = dict(package.read(tmp_path / "out.ark"))
    assert list(lattices) == ["dead", "good"]
    assert [lattices[key].num_arcs for key in lattices] == [4, 4]
    code, _, errors = ninja("boost-ali", tmp_path / "in.ark", *options, "--b", "1e39")
    assert code != 0
    assert [key for key, _ in package.read(tmp_path / "out.ark")] == ["dead", "good"]  # unchanged


def test_boost_takes_frames_from_labels_and_not_from_state_times() -> None:
    lattice = replace(single_path(), time=np.array([0, 1, 2, 6], np.int32))
    alignment = np.array([2, 1, 1, 6, 4, 4], np.int32)
    assert boost(lattice, alignment, PHONE_OF, 1.0).graph.tolist() == [0.5, 0.5, -0.5]


@given(lattices(max_states=6))
def test_to_fst_agrees_for_raw_and_compact_lattices(lattice: Lattice) -> None:
    raw = to_raw(lattice)
    for rm_eps in (True, False):
        fst = to_fst(raw, 0.5, 1.0, rm_eps=rm_eps)
        expected = to_fst(to_compact(raw), 0.5, 1.0, rm_eps=rm_eps)
        assert (arcs_of(fst), fst.final_cost.tolist()) == (arcs_of(expected), expected.final_cost.tolist())


@pytest.mark.parametrize("verb", [("arc-post", "--print-alignment"), ("to-fst", "--lm-scale=1"), ("nbest-to-ctm",)])
def test_raw_and_compact_lattices_give_the_same_output(ninja, tmp_path, verb) -> None:  # type: ignore[no-untyped-def]
    printed = []
    for kind in ("compact", "raw"):
        write_all(tmp_path / kind, [single_path(kind) if verb[0] == "nbest-to-ctm" else word_lattice(kind)])
        out = f"ark,t:{tmp_path}/out" if verb[0] == "to-fst" else tmp_path / "out"
        assert ninja(verb[0], tmp_path / kind, *verb[1:], "-o", out)[0] == 0
        printed.append((tmp_path / "out").read_text())
    assert [lattice.kind for _, lattice in package.read(tmp_path / "raw")] == ["raw"]
    assert printed[0] == printed[1] != ""


def test_path_ctm_agrees_for_raw_and_compact_paths() -> None:
    expected = "utt 1 0.00 0.03 5\nutt 1 0.03 0.01 6\nutt 1 0.04 0.02 7\n"
    assert path_ctm(single_path("raw")) == path_ctm(single_path()) == expected


def test_pronunciations_agree_for_raw_and_compact_paths() -> None:
    lines = partial(pronunciation_lines, model=MODEL, lengths=True)
    assert lines([single_path("raw")]) == lines([single_path()]) == ["utt 0 3 5 1\nutt 3 1 6 3\nutt 4 1,1 7 1 2\n"]


def test_graph_costs_beyond_float32_are_refused() -> None:
    range_error = pytest.raises(LatticeError, match="key 'utt': the new graph costs exceed the range of float32")
    lattice = word_lattice()
    for penalty in (1e39, -1e39, 3e38):
        large = lattice.with_costs(np.full(4, 3e38 * np.sign(penalty), np.float32))
        with range_error:
            add_word_penalty(large, penalty)
    with range_error:
        boost(lattice, np.array([6] * 6, np.int32), PHONE_OF, 2e38)
    with_final_labels = from_arcs("utt", [0], [1], [5], [0.0], finals={1: 0.0}, labels=[[]], final_labels={1: [2] * 4})
    with range_error:
        boost(with_final_labels, np.array([6] * 4, np.int32), PHONE_OF, -2e38)
    for options in ((1e39, 1e39), (1.0, 1e39), (1e308, 1e308)):
        for operand in (lattice, with_final_labels):
            with range_error:
                add_transition_costs(operand, MODEL, *options)
    with range_error:
        combine([single_path().with_costs(np.full(3, 3e38, np.float32))])


def test_operations_on_costs_keep_the_final_states() -> None:
    alignment = np.array([6] * 6, np.int32)
    for lattice in (
        add_word_penalty(word_lattice(), 1e38),
        boost(word_lattice(), alignment, PHONE_OF, 1e37),
        add_transition_costs(word_lattice(), MODEL, 1e37),
        combine([word_lattice()]),
    ):
        assert lattice.is_final.sum() == 1
        assert np.isfinite(lattice.graph).all()


def test_project_refuses_negative_labels() -> None:
    lattice = from_arcs("utt", [0], [1], [5], [0.0], finals={1: 0.0}, labels=[[3, -7, 2]])
    with pytest.raises(LatticeError, match="key 'utt': the label -7 is negative and cannot become a word id"):
        project(lattice, project_output=False)
    assert project(lattice).word.tolist() == [5]
