"""Alignment compared with Kaldi's tools on all golden lattices, if available; the align commands."""

from __future__ import annotations

import gzip
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from lattice_files import write_all
from reference_graph import SHARED
from strategies_align import integer_lines

import ninja as package
from ninja import _align
from ninja.formats.kaldi.transition_model import read_transition_model
from ninja.formats.kaldi.word_phones import read_word_boundary
from ninja.graph import best_path, equivalent, prune, state_times, to_raw
from ninja.graph.align import LexiconAligner, PhoneAligner, PhoneAlignment, WordAligner, word_times
from ninja.graph.transitions import add_transition_costs, to_phone_lattice
from ninja.lattice import Lattice
from ninja.lattice.transition_model import TransitionModel
from ninja.lattice.word_phones import KINDS, AlignLexicon, WordBoundary

KOREAN, GOLDEN = SHARED / "data" / "korean", SHARED / "golden" / "korean"
ARRAYS = ("arc_begin", "dst", "word", "graph", "acoustic", "ali_begin", "ali", "final_graph", "final_acoustic")
# The data are not part of the project; in CI, tests/conftest.py turns this skip into a failure.
pytestmark = pytest.mark.skipif(not GOLDEN.exists(), reason="Kaldi's results are not distributed with the project")


@lru_cache(maxsize=8)
def archive(name: str) -> dict[str, Lattice]:
    return dict(package.read(GOLDEN / name))


@pytest.fixture(scope="module")
def model() -> TransitionModel:
    return read_transition_model(KOREAN / "trans.mdl")


@pytest.fixture(scope="module")
def boundary() -> WordBoundary:
    return read_word_boundary(KOREAN / "word_boundary.int")


def arcs_of(lattice: Lattice, digits: int | None = None) -> list[tuple[object, ...]]:
    """Return start time, labels, word and optionally costs of each arc, without state numbers."""
    time = state_times(lattice)
    costs = np.stack([lattice.graph, lattice.acoustic], axis=1)
    return sorted(
        (
            int(time[src]),
            lattice.ali[lattice.ali_begin[arc] : lattice.ali_begin[arc + 1]].tobytes(),
            int(lattice.word[arc]),
            *(() if digits is None else np.round(costs[arc].astype(float), digits).tolist()),
        )
        for arc, src in enumerate(lattice.src)
    )


def assert_same(lattice: Lattice, expected: Lattice) -> None:
    """Check that all arcs agree, with costs to 1e-3 (Kaldi adds them in single precision)."""
    assert (lattice.num_states, lattice.num_arcs) == (expected.num_states, expected.num_arcs)
    arcs, expected_arcs = arcs_of(lattice, 3), arcs_of(expected, 3)
    assert [arc[:3] for arc in arcs] == [arc[:3] for arc in expected_arcs]
    assert np.allclose([arc[3:] for arc in arcs], [arc[3:] for arc in expected_arcs], rtol=0.0, atol=2e-3)


def assert_identical(lattice: Lattice, expected: Lattice) -> None:
    """Check that the arrays agree: states and arcs in Kaldi's order, and every bit of their costs."""
    for field in ARRAYS:
        array, expected_array = getattr(lattice, field), getattr(expected, field)
        assert array.dtype == expected_array.dtype
        assert array.tobytes() == expected_array.tobytes(), f"{expected.key}: {field}"


def test_word_alignment_is_identical_to_lattice_align_words(model: TransitionModel, boundary: WordBoundary) -> None:
    expected = archive("align_words.ark.gz")
    aligner = WordAligner(model, boundary)
    for key, lattice in archive("lat.ark.gz").items():
        assert_identical(aligner(lattice).whole(key), expected[key])
    assert len(expected) == 60


def test_general_algorithm_aligns_words_identically(model: TransitionModel, boundary: WordBoundary) -> None:
    expected = archive("align_words.ark.gz")
    aligner = WordAligner(model, boundary)
    for key, lattice in list(archive("lat.ark.gz").items())[::3]:
        with mock.patch.object(_align, "align", return_value=None):
            assert_identical(aligner(lattice).whole(key), expected[key])


def test_phone_alignment_is_identical_to_lattice_align_phones(model: TransitionModel) -> None:
    expected = archive("align_phones.ark.gz")
    aligner = PhoneAligner(model, PhoneAlignment(replace_output_symbols=True))
    for key, lattice in archive("lat.ark.gz").items():
        assert_identical(aligner(lattice).whole(key), expected[key])


def test_lexicon_of_aligned_words_agrees_with_word_boundaries(model: TransitionModel) -> None:
    expected = archive("align_words.ark.gz")
    entries = {
        (int(word), int(word), *model.phone[labels[model.is_final[labels]]].tolist())
        for lattice in expected.values()
        for word, labels in zip(lattice.word, np.split(lattice.ali, lattice.ali_begin[1:-1]), strict=True)
    }
    begin = np.cumsum([0, *map(len, sorted(entries))])
    lexicon = AlignLexicon(np.array([number for entry in sorted(entries) for number in entry], np.int32), begin)
    aligner = LexiconAligner(model, lexicon)
    for key in list(expected)[::2]:
        aligned = aligner(archive("lat.ark.gz")[key]).whole(key)
        assert set(arcs_of(aligned)) == set(arcs_of(expected[key]))
        if aligned.num_arcs < 800:
            assert equivalent(aligned, expected[key], costs="both")


def test_word_times_agree_with_nbest_to_ctm(model: TransitionModel, boundary: WordBoundary) -> None:
    expected: dict[str, list[tuple[float, float, str]]] = {}
    for line in gzip.decompress((GOLDEN / "ctm_best_aligned.gz").read_bytes()).decode().splitlines():
        key, _, begin, length, word = line.split()[:5]
        expected.setdefault(key.rsplit("-1", 1)[0] if key not in archive("lat.ark.gz") else key, []).append(
            (float(begin), float(length), word)
        )
    aligner = WordAligner(model, boundary)
    for key, lattice in archive("lat.ark.gz").items():
        aligned = aligner(lattice).whole(key)
        rows = [(word.begin, word.duration, str(word.word)) for word in word_times(aligned, frame_shift=0.03)]
        assert [row[2] for row in rows] == [row[2] for row in expected.get(key, [])]
        for row, expected_row in zip(rows, expected.get(key, []), strict=True):
            assert row[:2] == pytest.approx(expected_row[:2], abs=0.0051)


def test_raw_and_compact_lattices_have_the_same_word_alignment(model: TransitionModel, boundary: WordBoundary) -> None:
    lattice = prune(archive("lat.ark.gz")["lmy-lmy02061"], 2.0)
    aligner = WordAligner(model, boundary)
    assert arcs_of(aligner(to_raw(lattice)).whole("raw")) == arcs_of(aligner(lattice).whole("compact"))


def test_phone_lattices_have_the_phones_of_the_transition_ids(model: TransitionModel) -> None:
    for lattice in list(archive("lat.ark.gz").values())[:4]:
        labels = best_path(lattice).alignment
        begins = (model.hmm_state[labels] == 0) & ~model.is_self_loop[labels]
        phone_path = best_path(to_phone_lattice(lattice, model))
        assert phone_path.words.tolist() == model.phone[labels[begins]].tolist()
        assert phone_path.alignment.tolist() == labels.tolist()
        word_path = best_path(to_phone_lattice(lattice, model, replace_words=False))
        assert word_path.words.tolist() == best_path(lattice).words.tolist()
        assert word_path.alignment.tolist() == model.phone[labels[model.is_final[labels]]].tolist()


def test_transition_costs_are_the_sum_over_the_transition_ids(model: TransitionModel) -> None:
    for lattice in list(archive("lat.ark.gz").values())[:4]:
        path = best_path(lattice)
        for transition_scale, self_loop_scale in ((1.0, 1.0), (1.0, 0.1), (0.5, 0.25)):
            lattice_with_costs = add_transition_costs(lattice, model, transition_scale, self_loop_scale)
            expected = path.graph_cost
            for label in path.alignment:
                log_prob = float(model.log_prob[label])
                if transition_scale == self_loop_scale:
                    expected -= transition_scale * log_prob
                elif model.is_self_loop[label]:
                    expected -= self_loop_scale * log_prob
                else:
                    # The self-loop of a state has the lower transition id in this model.
                    leaving = float(np.log(1 - np.exp(model.log_prob[label - 1])))
                    expected -= self_loop_scale * leaving + transition_scale * (log_prob - leaving)
            final_state = int(lattice.dst[path.arcs[-1]])
            cost = float(
                lattice_with_costs.graph[path.arcs].astype(float).sum() + lattice_with_costs.final_graph[final_state]
            )
            assert cost == pytest.approx(expected, abs=1e-3)


@pytest.fixture
def damaged_archive(tmp_path: Path, model: TransitionModel, boundary: WordBoundary) -> Path:
    """Create five lattices: the second ends within a word, the fifth has transition ids of another model."""
    lattices = list(archive("lat.ark.gz").values())[:5]
    begins = np.flatnonzero((boundary.kinds(model.phone) == KINDS["begin"]) & model.is_final)[:1].astype(np.int32)
    ends = np.concatenate([[0], np.cumsum(lattices[1].is_final)])
    lattices[1] = replace(lattices[1], final_ali=np.repeat(begins, ends[-1]), final_ali_begin=ends)
    lattices[4] = replace(lattices[4], ali=lattices[4].ali + np.int32(10**6))
    write_all(tmp_path / "some.ark", lattices)
    return tmp_path / "some.ark"


ARGUMENTS = ("--model", KOREAN / "trans.mdl")


def test_align_words_reports_damaged_lattices_and_writes_their_aligned_part(
    ninja, damaged_archive: Path, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    keys = list(archive("lat.ark.gz"))[:5]
    boundary = ("--word-boundary", KOREAN / "word_boundary.int")
    code, _, err = ninja("align-words", damaged_archive, *boundary, *ARGUMENTS, "-o", tmp_path / "out.ark")
    assert code == 1
    assert f"key '{keys[4]}': arc 0 has the label" in err
    assert f"key '{keys[1]}'" in err
    assert "only its aligned part is written" in err
    assert f"2 failed: {keys[1]}, {keys[4]}" in err
    lattices = dict(package.read(tmp_path / "out.ark"))
    assert list(lattices) == keys[:4]
    for key in (keys[0], keys[2], keys[3]):
        assert_same(lattices[key], archive("align_words.ark.gz")[key])
    strict = ("--output-error-lats=false", "-o", tmp_path / "strict.ark")
    code, _, err = ninja("align-words", damaged_archive, *boundary, *ARGUMENTS, *strict)
    assert code == 1
    assert "not written" in err
    assert list(package.keys(tmp_path / "strict.ark")) == [keys[0], keys[2], keys[3]]


def test_align_words_in_two_processes_writes_the_same_archive(ninja, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    boundary = ("--word-boundary", KOREAN / "word_boundary.int", *ARGUMENTS)
    for jobs in (1, 2):
        out = ("--jobs", jobs, "-o", tmp_path / f"{jobs}.ark")
        assert ninja("align-words", GOLDEN / "lat.ark.gz", *boundary, *out)[0] == 0
    assert (tmp_path / "1.ark").read_bytes() == (tmp_path / "2.ark").read_bytes()


def test_align_phones_writes_every_lattice(ninja, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    options = ("--replace-output-symbols=true", "-o", tmp_path / "phones.ark")
    assert ninja("align-phones", GOLDEN / "lat.ark.gz", *ARGUMENTS, *options)[0] == 0
    assert sum(1 for _ in package.read(tmp_path / "phones.ark")) == 60


def test_align_words_lexicon_with_output_if_empty_copies_failed_lattices(
    ninja, damaged_archive: Path, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    keys = list(archive("lat.ark.gz"))[:5]
    words = {int(word) for key in keys for word in archive("lat.ark.gz")[key].word}
    (tmp_path / "align_lexicon.int").write_text(integer_lines([(word, word, 1) for word in sorted(words)]))
    options = ("--lexicon", tmp_path / "align_lexicon.int", *ARGUMENTS, "--max-expand", "1e-9")
    out = ("--output-if-empty", "true", "--output-error-lats=false", "-o", tmp_path / "out.ark")
    code, _, err = ninja("align-words-lexicon", damaged_archive, *options, *out)
    assert code == 1
    assert "5 failed" in err
    lattices = dict(package.read(tmp_path / "out.ark"))
    assert all(lattice.num_arcs == archive("lat.ark.gz")[key].num_arcs for key, lattice in lattices.items())


def test_align_words_lexicon_copies_lattices_with_words_missing_from_the_lexicon(
    ninja, damaged_archive: Path, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    keys = list(archive("lat.ark.gz"))[:5]
    (tmp_path / "align_lexicon.int").write_text("0 0 1\n")
    command = ("align-words-lexicon", damaged_archive, "--lexicon", tmp_path / "align_lexicon.int", *ARGUMENTS)
    code, _, err = ninja(*command, "--output-if-empty", "true", "-o", tmp_path / "out.ark")
    assert code == 1
    assert f"is not in {tmp_path}/align_lexicon.int (and " in err
    assert err.count(": the lattice is written unchanged") == 4
    assert list(package.keys(tmp_path / "out.ark")) == keys[:4]
    code, _, err = ninja(*command, "-o", tmp_path / "none.ark")
    assert code == 1
    assert err.count(": the lattice is not written") == 4
    assert not (tmp_path / "none.ark").exists()


def test_phone_lattices_and_transition_costs_are_written(ninja, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    for verb in ("to-phone-lattice", "add-trans-probs"):
        assert ninja(verb, GOLDEN / "lat.ark.gz", *ARGUMENTS, "-o", tmp_path / f"{verb}.ark")[0] == 0
        assert sum(1 for _ in package.read(tmp_path / f"{verb}.ark")) == 60


def test_a_missing_model_is_bad_input(ninja, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    code, _, err = ninja("align-phones", GOLDEN / "lat.ark.gz", "--model", tmp_path / "no.mdl", "-o", tmp_path / "out")
    assert code == 1
    assert "no.mdl: cannot be read" in err
    assert not (tmp_path / "out").exists()
