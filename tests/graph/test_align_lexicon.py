"""Word alignment by a lexicon: agreement with a slow implementation, and errors for words and phones it lacks."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference_graph import costs_of, paths
from reference_word_align import Unit, least_costs, model_of, paths_as_units, segmentations, units_of_path
from strategies_align import (
    PHONES,
    SPELLINGS,
    LabelledLattice,
    homophone_lattice,
    integer_lines,
    labelled_sausages,
    labelled_trees,
    linear_lattice,
)

from ninja.errors import FormatError, LatticeError, OptionError
from ninja.formats.kaldi.word_phones import read_align_lexicon
from ninja.graph import from_arcs, select_arcs
from ninja.graph.align import LexiconAligner, LexiconAlignment, align_words_lexicon
from ninja.lattice import Lattice, check
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.word_phones import AlignLexicon

MODEL = model_of(dict.fromkeys(PHONES, 1))  # phone p has the self-loop 2p - 1 and the final transition 2p
SILENCES = [(0, 0, 1), (0, 0, 2)]
COMPLETE = [*SILENCES, *((word, word, *phones) for word, phones in SPELLINGS.items())]
# An ambiguous lexicon: words that are prefixes or suffixes of others, a replaced word, words pronounced as silence.
AMBIGUOUS = [*COMPLETE, (2, 9, 3, 4), (2, 2, 1, 3, 4), (4, 4, 7), (5, 5, 3, 5), (0, 0, 5, 8), (1, 1, 6, 1)]
AMBIGUOUS.remove((2, 2, 3, 4))


def lexicon_of(entries: list[tuple[int, ...]]) -> AlignLexicon:
    numbers = [number for entry in entries for number in entry]
    return AlignLexicon(np.array(numbers, np.int32), np.cumsum([0, *map(len, entries)]), "small_lexicon.int")


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.one_of(labelled_trees(max_words=5), labelled_sausages(max_length=3)), st.sampled_from([COMPLETE, AMBIGUOUS]))
def test_lexicon_alignment_finds_all_segmentations_of_the_phones(
    example: LabelledLattice, entries: list[tuple[int, ...]]
) -> None:
    lexicon = {(word, *phones): output for word, output, *phones in entries}
    expected: dict[tuple[Unit, ...], set[tuple[float, float]]] = {}
    for path in paths(example.lattice):
        units, _ = units_of_path(example.lattice, path, example.model, None, example.reorder)
        phones = [(int(example.model.phone[labels[0]]), labels) for _, labels in units if labels]
        words = [word for word, _ in units if word]
        for segmentation in segmentations(words, phones, lexicon):
            expected.setdefault(segmentation, set()).add(costs_of(example.lattice, path))
    aligner = LexiconAligner(example.model, lexicon_of(entries), LexiconAlignment(reorder=example.reorder))
    aligned = aligner(example.lattice)
    if not expected:
        assert aligned.fault is not None
        return
    assert aligned.fault is None
    assert aligned.lattice is not None
    check(aligned.lattice)
    aligned_paths = paths_as_units(aligned.lattice)
    assert all(costs <= expected[units] for units, costs in aligned_paths.items())
    assert least_costs(aligned_paths) == least_costs(expected)


def test_lexicon_replaces_words_and_silence_by_output_words() -> None:
    lexicon = lexicon_of([(0, 70, 1), (1, 8, 6), (2, 0, 3, 4)])
    aligned = align_words_lexicon(linear_lattice((1, [2, 12]), (2, [6, 8])), MODEL, lexicon)
    assert list(paths_as_units(aligned)) == [((70, (2,)), (8, (12,)), (0, (6, 8)))]


def test_cheaper_epsilon_arc_with_unknown_phones_does_not_remove_a_word() -> None:
    lattice = from_arcs(
        "utt", [0, 0, 1], [1, 1, 2], [0, 0, 5], [1.0, 2.0, 0.0], finals={2: 0.0}, labels=[[4], [6], [8]]
    )  # no entry begins with the phone of the cheaper arc
    aligned = align_words_lexicon(lattice, MODEL, lexicon_of([(5, 5, 3, 4)]))
    assert paths_as_units(aligned) == {((5, (6, 8)),): {(2.0, 0.0)}}


def test_a_word_may_have_no_phones() -> None:
    lexicon = lexicon_of([(0, 0, 1), (1, 1, 6), (7, 7)])
    aligned = align_words_lexicon(linear_lattice((7, [2]), (1, [12])), MODEL, lexicon)
    assert ((7, ()), (0, (2,)), (1, (12,))) in paths_as_units(aligned)
    aligned = align_words_lexicon(linear_lattice((1, []), (7, [12])), MODEL, lexicon)
    assert list(paths_as_units(aligned)) == [((1, (12,)), (7, ()))]


def test_word_missing_from_the_lexicon_is_named_in_the_error() -> None:
    with pytest.raises(LatticeError, match=r"cannot be aligned: word 5 is not in small_lexicon.int$"):
        align_words_lexicon(linear_lattice((1, [12]), (5, [6, 8])), MODEL, lexicon_of(COMPLETE[:3]))


def test_only_paths_with_words_missing_from_the_lexicon_are_dropped() -> None:
    def lattice_with(*words: int) -> Lattice:
        return from_arcs(
            "utt",
            [0, *(1 for _ in words), 1],
            [1, *(2 for _ in words), 2],
            [1, *words, 2],
            range(len(words) + 2),
            finals={2: 0.25},
            labels=[[12], *([6, 8] for _ in words), [6, 8]],
            words=SymbolTable([("<eps>", 0), ("one", 1), ("two", 2), ("five", 5)]),
        )

    aligner = LexiconAligner(MODEL, lexicon_of(COMPLETE[:4]))
    aligned = aligner(lattice_with(5))
    assert aligned.fault == "word 'five' (5) is not in small_lexicon.int"
    assert aligned.lattice is not None
    assert list(paths_as_units(aligned.lattice)) == [((1, (12,)), (2, (6, 8)))]
    aligned = aligner(lattice_with(7, 8, 9))
    assert aligned.fault is not None
    assert re.fullmatch(r"word [789] is not in small_lexicon.int \(and 2 more\)", aligned.fault)
    assert aligned.lattice is not None
    assert list(paths_as_units(aligned.lattice)) == [((1, (12,)), (2, (6, 8)))]
    aligned = aligner(linear_lattice((1, [12]), (5, [6, 8])))
    assert (aligned.lattice, aligned.fault) == (None, "word 5 is not in small_lexicon.int")


@given(st.one_of(labelled_trees(max_words=5), labelled_sausages(max_length=3)), st.sampled_from([1, 2, 3, 4, 5, 6]))
def test_alignment_ignores_paths_with_words_missing_from_the_lexicon(example: LabelledLattice, word: int) -> None:
    options = LexiconAlignment(reorder=example.reorder)
    reduced_lexicon = lexicon_of([entry for entry in COMPLETE if entry[0] != word])
    aligned = LexiconAligner(example.model, reduced_lexicon, options)(example.lattice)
    try:
        lattice = select_arcs(example.lattice, example.lattice.word != word)
        expected = LexiconAligner(example.model, lexicon_of(COMPLETE), options)(lattice)
    except LatticeError:  # no path remains, or none with labels
        assert aligned.fault is not None
        return
    if expected.fault is None:
        assert expected.lattice is not None
        assert aligned.lattice is not None
        assert paths_as_units(aligned.lattice) == paths_as_units(expected.lattice)
    if word not in example.lattice.word:
        assert aligned.fault == expected.fault


def test_phones_that_match_no_entry_are_reported_and_kept_as_a_partial_word() -> None:
    lexicon = lexicon_of([(0, 0, 1), (1, 1, 6), (2, 2, 3, 4)])
    aligned = LexiconAligner(MODEL, lexicon, LexiconAlignment(partial_word_label=9))(
        linear_lattice((1, [12]), (2, [6]), (0, []))
    )
    assert aligned.fault is not None
    assert aligned.fault.startswith("the last phones or words match no lexicon entry")
    assert aligned.lattice is not None
    assert list(paths_as_units(aligned.lattice)) == [((1, (12,)), (2, (6,)))]
    with pytest.raises(LatticeError, match="key 'utt': the lattice cannot be aligned: the last phones or words"):
        aligned.whole("utt")


def test_words_left_without_phones_are_kept_in_the_partial_alignment() -> None:
    aligned = LexiconAligner(MODEL, lexicon_of([(1, 1, 6), (2, 2, 3, 4)]))(linear_lattice((1, []), (2, [12])))
    assert aligned.fault is not None
    assert aligned.lattice is not None
    assert list(paths_as_units(aligned.lattice)) == [((1, (12,)), (2, ()))]


def test_max_expand_limits_the_states_of_a_lexicon_alignment() -> None:
    lattice = homophone_lattice(12)
    lexicon = lexicon_of([(1, 1, 6), (2, 2, 6)])
    assert LexiconAligner(MODEL, lexicon)(lattice).fault is None
    bounded = LexiconAligner(MODEL, lexicon, LexiconAlignment(max_expand=0.01))(lattice)
    assert bounded.lattice is None
    assert bounded.fault == "the result has more states than max_expand allows; raise max_expand"


def test_aligners_can_be_pickled() -> None:
    aligner = LexiconAligner(MODEL, lexicon_of(COMPLETE))
    lattice = linear_lattice((1, [2, 12]), (2, [6, 8]))
    expected = aligner(lattice).lattice
    aligned = pickle.loads(pickle.dumps(aligner))(lattice).lattice
    assert aligned.identical(expected)


def test_a_lexicon_is_read(tmp_path: Path) -> None:
    path = tmp_path / "align_lexicon.int"
    path.write_text(integer_lines([(0, 0, 1), (1, 8, 6), (1, 8, 6), (2, 2)]))
    lexicon = read_align_lexicon(path)
    assert lexicon.num_entries == 3
    assert lexicon.entries.tolist() == [0, 0, 1, 1, 8, 6, 2, 2]
    assert lexicon.replacements.tolist() == [0, 8, 2]
    assert repr(lexicon).endswith("align_lexicon.int', 3 entries)")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1 6\nSIL SIL 1\n", "align_lexicon.int:2: expected a word id, .*specify align_lexicon.int, not .txt"),
        ("1\n", "int:1: expected"),
        ("1 1 -6\n", "int:1: expected"),
        ("1 1 0\n", "int:1: expected"),
        ("1 2147483647 6\n", "int:1: expected"),
        ("0 0\n", "int:1: word 0 has no phones"),
        ("1 1 6\n1 2 6\n", "int:2: word 1 has the same phones on an earlier line, but with the output word 1"),
        ("", "the file has no words"),
    ],
)
def test_invalid_lexicons_raise_format_errors(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "align_lexicon.int").write_text(text)
    with pytest.raises(FormatError, match=message):
        read_align_lexicon(tmp_path / "align_lexicon.int")


def test_options_out_of_range_are_refused() -> None:
    with pytest.raises(OptionError, match="partial_word_label is -1"):
        LexiconAlignment(partial_word_label=-1)
    with pytest.raises(OptionError, match="max_expand is nan"):
        LexiconAlignment(max_expand=float("nan"))
