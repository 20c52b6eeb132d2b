"""Word error rates and the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_openfst import least_edit_distance
from strategies import lattices

from ninja.errors import FormatError, LatticeError, OptionError
from ninja.evaluate import Alignment, ErrorRate, align, oracle_score, score, score_each
from ninja.evaluate.error_rate import align_at_costs
from ninja.evaluate.scoring import is_id
from ninja.graph.oracle import oracle
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

WORDS = st.lists(st.sampled_from(["a", "b", "c", "", "é"]).filter(bool), max_size=6)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"a": "the cat"}, "the text of 'a' is a string; pass a list of words"),
        ({"a": [3, 4]}, r"the text of 'a' contains 3, but must be a list of words \(str\)"),
        ({"a": np.array([3, 4])}, r"the text of 'a' contains np.int64\(3\), but must be a list of words \(str\)"),
        ({"a": None}, r"the text of 'a' contains None, but must be a list of words \(str\)"),
        ([["the", "cat"]], "the texts are a list, but must be a mapping, such as"),
        ("ref.txt", "the texts are a str, but must be a mapping, such as"),
    ],
)
def test_texts_that_are_not_lists_of_words_raise_option_error(wrong, message: str) -> None:
    words = {"a": ["the", "cat"]}
    for references, hypotheses in ((wrong, words), (words, wrong)):
        with pytest.raises(OptionError, match=message):
            score(references, hypotheses)


def test_arrays_of_words_are_scored() -> None:
    assert score({"a": np.array(["the", "cat"])}, {"a": np.array(["the", "hat"])}).substitutions == 1


def test_alignment_shows_every_edit() -> None:
    alignment = align(["the", "cat", "sat", "down"], ["a", "cat", "sat", "right", "down", "there"])
    assert alignment.rate() == ErrorRate(
        words=4, substitutions=1, insertions=2, deletions=0, sentences=1, sentence_errors=1
    )
    assert alignment.rate().correct == 3
    assert str(alignment) == "ref: the cat sat ***   down ***\nhyp: a   cat sat right down there"
    assert align(["a"], []).pairs == (("a", None),)
    assert align([], ["a"]).pairs == ((None, "a"),)
    assert str(align([], [])) == "ref:\nhyp:"


@given(WORDS, WORDS)
def test_alignment_has_the_fewest_edits_and_all_words(reference: list[str], hypothesis: list[str]) -> None:
    alignment = align(reference, hypothesis)
    assert [word for word, _ in alignment.pairs if word is not None] == reference
    assert [word for _, word in alignment.pairs if word is not None] == hypothesis
    numbers = {word: i + 1 for i, word in enumerate(sorted({*reference, *hypothesis}))}
    size = len(hypothesis)
    chain = Lattice.from_arrays(
        "chain",
        [*range(size + 1), size],
        range(1, size + 1),
        [numbers[word] for word in hypothesis],
        [0.0] * size,
        [0.0] * size,
        [np.inf] * size + [0],
    )
    assert alignment.rate().errors == least_edit_distance(chain, [numbers[word] for word in reference])


def test_scores_are_printed_in_kaldi_format() -> None:
    references = {"u1": ["a", "b", "c"], "u2": ["a", "b"], "u3": []}
    hypotheses = {"u1": ["a", "x"], "u2": ["a", "b"], "u3": ["c"]}
    rate = score(references, hypotheses)
    assert str(rate) == (
        "%WER 60.00 [ 3 / 5, 1 ins, 1 del, 1 sub ]\n%SER 66.67 [ 2 / 3 ]\nScored 3 sentences, 0 not present in hyp."
    )
    assert list(score_each(references, hypotheses)) == ["u1", "u2", "u3"]


def test_rates_of_parts_sum_to_the_total() -> None:
    references = {"u1": ["a", "b", "c"], "u2": ["a", "b"]}
    hypotheses = {"u1": ["a", "c"], "u2": ["b", "b", "c"]}
    parts = [score({key: references[key]}, {key: hypotheses[key]}) for key in references]
    assert sum(parts, ErrorRate()) == score(references, hypotheses)
    assert score(references, hypotheses).wer == pytest.approx(60.0)
    with pytest.raises(TypeError):
        parts[0] + 1  # type: ignore[operator]


def test_errors_without_reference_words_give_an_infinite_rate() -> None:
    assert ErrorRate().wer == ErrorRate().ser == 0.0
    assert ErrorRate(insertions=1).wer == float("inf")


def test_mode_determines_the_treatment_of_missing_hypotheses() -> None:
    references = {"u1": ["a"], "u2": ["b", "c"], "u3": ["d"]}
    hypotheses = {"u1": ["a"], "other": ["x"]}
    with pytest.raises(FormatError, match=r"'u2': no hypothesis for 2 of 3 references; .* --mode all \(mode='all'\)"):
        score(references, hypotheses)
    all_mode = score(references, hypotheses, "all")
    assert (all_mode.errors, all_mode.words, all_mode.sentences) == (3, 4, 3)
    assert (all_mode.missing, all_mode.unreferenced) == (2, 1)
    assert "[PARTIAL]" in str(all_mode)
    present = score(references, hypotheses, "present")
    assert (present.errors, present.words, present.sentences, present.missing) == (0, 1, 1, 2)
    with pytest.raises(FormatError, match="no reference has a hypothesis"):
        score(references, {"other": []}, "all")
    with pytest.raises(OptionError, match="mode is 'some', but must be one of strict, all, present"):
        score(references, hypotheses, "some")  # type: ignore[arg-type]


@settings(deadline=None, max_examples=40)
@given(lattices(max_states=7, max_word=4, connected=False), st.lists(st.sampled_from([1, 2, 3, 4, -1]), max_size=6))
def test_oracle_agrees_with_enumeration(lattice: Lattice, reference: list[int]) -> None:
    try:
        expected = least_edit_distance(lattice, reference)
    except ValueError:
        with pytest.raises(LatticeError, match="no path leads"):
            oracle(lattice, reference)
        return
    nearest = oracle(lattice, reference)
    assert nearest.edits == expected
    # The result is a path of the lattice, and its insertions and deletions are consistent.
    src = lattice.src
    ends = [0, *lattice.dst[nearest.arcs]]
    assert ends[:-1] == src[nearest.arcs].tolist()
    assert lattice.is_final[ends[-1]]
    assert nearest.words.tolist() == [word for word in lattice.word[nearest.arcs].tolist() if word]
    assert align([str(word) for word in reference], [str(word) for word in nearest.words]).rate().errors == expected
    assert nearest.insertions - nearest.deletions == len(nearest.words) - len(reference)


def two_words() -> Lattice:
    return Lattice.from_arrays("u1", [0, 2, 3, 3], [1, 1, 2], [1, 2, 3], [0, 0, 0], [0, 0, 0], [np.inf, np.inf, 0])


def test_oracle_rate_counts_unmatched_lattices_and_references() -> None:
    words = SymbolTable([("<eps>", 0), ("a", 1), ("<unk>", 2), ("c", 3)])
    references = {"u1": ["zzz", "c", "d"], "gone": ["a"]}
    copies = [two_words(), two_words().with_key("extra")]
    rate = oracle_score(copies, references, words)
    assert (rate.words, rate.substitutions, rate.deletions, rate.insertions) == (3, 1, 1, 0)
    assert (rate.sentences, rate.missing, rate.unreferenced) == (1, 1, 1)
    assert oracle_score(copies, references, words, unknown=2).errors == 1
    with pytest.raises(FormatError, match="no lattice has a reference"):
        oracle_score(copies, {"other": []}, words)
    with pytest.raises(LatticeError, match=r"word id 0 \(epsilon\)"):
        oracle(copies[0], [0])


def test_alignment_of_equal_words_has_no_errors() -> None:
    rate: Any = Alignment((("a", "a"),)).rate()
    assert (rate.errors, rate.sentence_errors) == (0, 0)


def test_ids_are_limited_to_32_bits():
    assert is_id("2147483647")
    assert is_id("0000000001")
    assert not any(map(is_id, ("2147483648", "00000000001", "-1", "1.0", "²", "")))


def test_sequences_too_long_for_an_alignment_with_costs_are_refused() -> None:
    words = ["a"] * 50_000
    with pytest.raises(OptionError, match="cannot align a reference of 50000 words with a hypothesis of 50000 words"):
        align_at_costs(words, words, 1, 1, 1)
