"""SRILM's lists: words that are silence, and words of zero duration."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ninja
from ninja.errors import FormatError, LatticeError
from ninja.formats.nbest.srilm import BYTELOG, LOG10, SrilmOptions, SrilmWriteOptions, read_srilm, write_srilm
from ninja.formats.slf import SILENT
from ninja.lattice.nbest import Hypothesis, NBest

SECOND: Literal["NBestList2.0"] = "NBestList2.0"
LISTS = {
    "NBestList1.0": b"NBestList1.0\n(-1234) <s> the cat </s>\n(-1300) <s> </s>\n",
    "scores": b"-1234.5 -6.25 4 <s> the cat </s>\n-1230 -7.5 2 <s> a cat </s>\n-1 -1 1 <s> a cat </s>\n",
    "NBestList2.0": (
        b"NBestList2.0\n(-40) <s> ( st: 0.00 et: 0.09 g: 0 a: -4 ) h# ( st: 0.00 et: 0.09 g: 0 a: -4 ) "
        b"the ( st: 0.10 et: 0.29 g: -3 a: -10 ) <s> ( st: 0.30 et: 0.39 g: -1 a: -2 ) "
        b"cat ( st: 0.40 et: 0.49 g: -2 a: -11 ) </s> ( st: 0.50 et: 0.59 g: -5 a: -1 )\n"
    ),
}


def test_silent_words_are_dropped_in_each_variant() -> None:
    first = read_srilm(LISTS["NBestList1.0"], "u")
    assert [hypothesis.words for hypothesis in first.hypotheses] == [("the", "cat"), ()]
    assert [hypothesis.acoustic_cost for hypothesis in first.hypotheses] == [1234 * BYTELOG, 1300 * BYTELOG]
    scores = read_srilm(LISTS["scores"], "u")
    assert [hypothesis.words for hypothesis in scores.hypotheses] == [("the", "cat"), ("a", "cat"), ("a", "cat")]
    assert scores.hypotheses[0].acoustic_cost == 1234.5 * LOG10


def test_costs_of_silent_words_are_kept() -> None:
    (hypothesis,) = read_srilm(LISTS["NBestList2.0"], "u").hypotheses
    assert (hypothesis.words, hypothesis.begin, hypothesis.end) == (("the", "cat"), (10, 40), (30, 50))
    assert hypothesis.graph == pytest.approx((3 * BYTELOG, 3 * BYTELOG, 5 * BYTELOG))
    assert hypothesis.acoustic == pytest.approx(
        (14 * BYTELOG, 13 * BYTELOG, 2 * BYTELOG)
    )  # 1 of the 2 is not in the scores of words
    with_silence = read_srilm(LISTS["NBestList2.0"], "u", None, SrilmOptions(silent=frozenset())).hypotheses[0]
    assert with_silence.words == ("<s>", "the", "<s>", "cat", "</s>")
    assert with_silence.graph_cost == pytest.approx(hypothesis.graph_cost)
    assert with_silence.acoustic_cost == pytest.approx(hypothesis.acoustic_cost)


@pytest.mark.parametrize("variant", LISTS)
def test_the_silent_option_sets_the_silent_words(variant: str, tmp_path: Path) -> None:
    path = tmp_path / "utt.nbest"
    path.write_bytes(LISTS[variant])

    def words(form: str | None) -> set[str]:
        ((_, lattice),) = ninja.read(str(path), format=form)
        assert lattice.words is not None
        return {word for word, _ in lattice.words} - {"<eps>"}

    assert words(None).isdisjoint(SILENT)
    assert words("srilm:silent=") >= {"<s>", "</s>", "cat"}
    assert words("srilm:silent=cat+<s>") & {"<s>", "</s>", "cat"} == {"</s>"}


def test_a_wrong_number_of_words_is_refused_with_silent_words_too() -> None:
    with pytest.raises(FormatError, match="the number of words is 5, but 4 follow"):
        read_srilm(b"-1234.5 -6.25 5 <s> the cat </s>\n", "u")


def test_written_silent_words_are_reported_as_lost(tmp_path: Path) -> None:
    nbest = NBest("utt", (Hypothesis(("<s>", "a"), (0.0,) * 3, (0.0,) * 3),))
    with ninja.write(str(tmp_path / "utt.nbest")) as output:
        output.write(nbest)
    assert dict(output.lost) == {"words that readers interpret as silence (<s> or !ENTER)": 1}


@st.composite
def timed(draw: st.DrawFn) -> NBest:
    """Draw a list with many words of zero duration."""
    shift = draw(st.sampled_from([0.01, 0.01, 0.02, 0.0125, 0.005, 0.001, 0.03]))
    hypotheses = []
    for _ in range(draw(st.integers(1, 3))):
        count = draw(st.integers(1, 6))
        moments = sorted(draw(st.lists(st.integers(0, 12), min_size=2 * count, max_size=2 * count)))
        words = tuple(draw(st.lists(st.sampled_from(["a", "b", "b-1"]), min_size=count, max_size=count)))
        zeros = (0.0,) * (count + 1)
        hypotheses.append(Hypothesis(words, zeros, zeros, tuple(moments[::2]), tuple(moments[1::2])))
    return NBest("utt", tuple(hypotheses), shift)


@settings(max_examples=40)
@given(timed())
def test_no_word_is_read_as_a_phone_and_times_stay_in_order(nbest: NBest) -> None:
    content = write_srilm(nbest, None, SrilmWriteOptions(variant=SECOND))
    back = read_srilm(content, "utt", None, SrilmOptions(nbest.frame_shift or 0.01))
    times_changed = False
    for hypothesis, result in zip(nbest.hypotheses, back.hypotheses, strict=True):
        assert hypothesis.begin is not None
        assert hypothesis.end is not None
        assert result.begin is not None
        assert result.end is not None
        assert result.words == hypothesis.words
        moments = [moment for pair in zip(result.begin, result.end, strict=True) for moment in pair]
        assert moments == sorted(moments)
        assert all(begin < end for begin, end in zip(result.begin, result.end, strict=True))
        if all(begin < end for begin, end in zip(hypothesis.begin, hypothesis.end, strict=True)):
            assert (result.begin, result.end) == (hypothesis.begin, hypothesis.end)
        else:
            times_changed = True
        assert result.end[-1] <= max(hypothesis.end[-1], len(hypothesis.words))  # no frame is added if there are enough
    with (
        tempfile.TemporaryDirectory() as folder,
        ninja.write(f"{folder}/utt.nbest", to=f"srilm:variant={SECOND}") as output,
    ):
        output.write(nbest)
    assert ("times" in output.lost) == times_changed
    assert ("frame shift" in output.lost) == (nbest.frame_shift != 0.01)


def test_changed_times_are_refused_with_lossy_refuse(tmp_path: Path) -> None:
    zeros = (0.0,) * 3
    nbest = NBest("utt", (Hypothesis(("a", "b"), zeros, zeros, (5, 5), (5, 9)),), 0.01)
    with (
        ninja.write(str(tmp_path / "utt.nbest"), to=f"srilm:variant={SECOND}", lossy="refuse") as output,
        pytest.raises(LatticeError, match="key 'utt': srilm cannot store: times; use lossy="),
    ):
        output.write(nbest)


@pytest.mark.parametrize(
    ("begin", "end", "begins", "ends"),
    [
        ((5, 5), (5, 9), (5, 6), (6, 9)),  # taken from the next word
        ((5, 9), (9, 9), (5, 8), (8, 9)),  # taken from the previous word
        ((0, 0, 0), (0, 0, 0), (0, 1, 2), (1, 2, 3)),  # no frames are available
        ((0, 1, 2, 3), (1, 2, 3, 3), (0, 1, 2, 3), (1, 2, 3, 4)),
        ((0, 2, 3), (2, 3, 3), (0, 1, 2), (1, 2, 3)),
        ((3, 7), (3, 8), (3, 7), (4, 8)),  # taken from the gap
    ],
)
def test_words_of_zero_duration_take_a_frame_of_their_neighbours(
    begin: tuple[int, ...], end: tuple[int, ...], begins: tuple[int, ...], ends: tuple[int, ...]
) -> None:
    zeros = (0.0,) * (len(begin) + 1)
    nbest = NBest("u", (Hypothesis(tuple("abcd"[: len(begin)]), zeros, zeros, begin, end),), 0.01)
    (back,) = read_srilm(write_srilm(nbest, None, SrilmWriteOptions(variant=SECOND)), "u").hypotheses
    assert (back.begin, back.end) == (begins, ends)
