"""Tables of errors by utterance, speaker and word, and the commands that print Kaldi's lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reference_scoring import kaldi_alignment, kaldi_counts

from ninja.errors import FormatError
from ninja.evaluate import (
    Alignment,
    ErrorRate,
    align,
    align_text,
    aligned_line,
    by_speaker,
    count_operations,
    score,
    speaker_table,
    utterance_lines,
)

Ninja = Callable[..., tuple[int, str, str]]
SENTENCES = st.lists(st.sampled_from(["a", "b", "c", "가나", "d"]), max_size=8)
# The examples in the documentation of Kaldi's scripts wer_per_utt_details.pl, _spk_details.pl and _ops_details.pl.
EXAMPLE = Alignment(
    (
        ("word-A", "word-A"),
        (None, "word-A"),
        ("word-B", "word-B"),
        ("word-C", None),
        ("word-D", "word-D"),
        ("word-E", "word-X"),
    )
)


@settings(max_examples=40)
# In this example, a deletion and an insertion have equal costs, and a pair has a higher cost.
@example(list("babba"), list("bbaab"))
@given(SENTENCES, SENTENCES)
def test_alignment_agrees_with_align_text(reference: list[str], hypothesis: list[str]) -> None:
    assert align_text(reference, hypothesis).pairs == kaldi_alignment(reference, hypothesis)


@settings(max_examples=40)
@given(SENTENCES, SENTENCES)
def test_error_counts_agree_with_compute_wer(reference: list[str], hypothesis: list[str]) -> None:
    rate = align(reference, hypothesis).rate()
    assert (rate.insertions, rate.deletions, rate.substitutions) == kaldi_counts(reference, hypothesis)
    assert align_text(reference, hypothesis).rate().errors == rate.errors
    assert score({"u": reference}, {"u": hypothesis}) == rate


@given(st.lists(st.tuples(SENTENCES, SENTENCES, st.sampled_from("xyz")), min_size=1, max_size=8))
def test_errors_of_utterances_speakers_and_operations_sum_to_the_total(
    rows: list[tuple[list[str], list[str], str]],
) -> None:
    keys = [f"u{number}" for number in range(len(rows))]
    references = {key: row[0] for key, row in zip(keys, rows, strict=True)}
    hypotheses = {key: row[1] for key, row in zip(keys, rows, strict=True)}
    total = score(references, hypotheses)
    alignments = {key: align_text(references[key], hypotheses[key]) for key in keys}
    overall = sum((alignment.rate() for alignment in alignments.values()), ErrorRate())
    speaker_rates = by_speaker(alignments, {key: row[2] for key, row in zip(keys, rows, strict=True)})
    assert list(speaker_rates) == sorted({row[2] for row in rows})
    assert sum(speaker_rates.values(), ErrorRate()) == overall
    assert (overall.errors, overall.words, overall.sentence_errors) == (
        total.errors,
        total.words,
        total.sentence_errors,
    )
    counts = count_operations(alignments)
    counters = (counts.substitutions, counts.deletions, counts.insertions, counts.correct)
    expected = (overall.substitutions, overall.deletions, overall.insertions, overall.correct)
    assert tuple(counter.total() for counter in counters) == expected
    rows_of_table = [line.split() for line in counts.table().splitlines()]
    assert sum(int(row[-1]) for row in rows_of_table) == sum(expected)
    assert rows_of_table == sorted(rows_of_table, key=lambda row: (row[1], row[2]))


def test_utterance_lines_have_the_per_utt_layout() -> None:
    assert utterance_lines("UTT-A", EXAMPLE).splitlines() == [
        "UTT-A ref  word-A   <eps>  word-B  word-C  word-D  word-E",
        "UTT-A hyp  word-A  word-A  word-B   <eps>  word-D  word-X",
        "UTT-A op      C       I       C       D       C       S  ",
        "UTT-A #csid 3 1 1 1",
    ]
    assert utterance_lines("u", Alignment(())) == "u ref  \nu hyp  \nu op   \nu #csid 0 0 0 0\n"
    assert aligned_line("key1", Alignment((("a", "a"), ("b", None), ("c", "c")))) == "key1 a a ; b <eps> ; c c"
    assert aligned_line("u", Alignment(())) == "u"
    assert aligned_line("u", Alignment((("<eps>", "a"), (None, "b"))), "*", "|") == "u <eps> a | * b"
    with pytest.raises(FormatError, match="key 'u': the word '<eps>' is used as a special symbol in alignments"):
        utterance_lines("u", Alignment((("<eps>", "a"),)))
    with pytest.raises(FormatError, match="key 'u': the word ';' is used as a special symbol in alignments"):
        aligned_line("u", Alignment((("a", ";"),)))


def test_speaker_table_has_the_per_spk_layout() -> None:
    rates = by_speaker({"UTT-A": EXAMPLE}, {"UTT-A": "A"})
    assert speaker_table(rates).splitlines() == [
        "SPEAKER         id       #SENT      #WORD       Corr        Sub        Ins        Del        Err      S.Err",
        "A               raw          1          5          3          1          1          1          3          1",
        "A               sys          1          5      60.00      20.00      20.00      20.00      60.00     100.00",
        "SUM             raw          1          5          3          1          1          1          3          1",
        "SUM             sys          1          5      60.00      20.00      20.00      20.00      60.00     100.00",
    ]
    silent = by_speaker({"u": Alignment(((None, "a"),))}, {"u": "a-speaker-of-a-long-name"})
    assert [line[:29] for line in speaker_table(silent).splitlines()] == [
        "SPEAKER                  id  ",
        "a-speaker-of-a-long-name raw ",
        "SUM                      raw ",
    ]
    with pytest.raises(FormatError, match="key 'u': this utterance has no speaker; add it to utt2spk"):
        by_speaker({"u": EXAMPLE}, {})


def test_operation_table_has_the_ops_layout_and_ranks_errors() -> None:
    counts = count_operations({"u": EXAMPLE, "v": Alignment((("word-E", "word-X"), (None, "word-A"), (None, "b")))})
    assert counts.table().splitlines() == [
        "insertion      <eps>         b    1",
        "insertion      <eps>    word-A    2",
        "correct       word-A    word-A    1",
        "correct       word-B    word-B    1",
        "deletion      word-C     <eps>    1",
        "correct       word-D    word-D    1",
        "substitution  word-E    word-X    2",
    ]
    assert counts.most_often(1).splitlines() == [
        "2 substitutions, 1 different",
        "      2  word-E → word-X",
        "1 deletions, 1 different",
        "      1  word-C",
        "3 insertions, 2 different",
        "      2  word-A",
    ]
    long = count_operations({"u": Alignment((("x" * 20, "b"),) * 10)})
    assert long.table() == f"substitution  {'x' * 20}    {' ' * 15}b    10\n"
    assert count_operations({}).table() == ""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "text").write_text("u1 a b c\nu2 a\nu3 d\n")
    (tmp_path / "hyp").write_text("u1 a x\nu2 a\n")
    (tmp_path / "utt2spk").write_text("u1 s1\nu2 s2\nu3 s2\n")
    return tmp_path


def test_score_prints_tables_and_writes_details(ninja: Ninja, files: Path) -> None:
    options = (
        "--utt2spk",
        files / "utt2spk",
        "--most-often",
        3,
        "--per-utt",
        files / "per_utt",
        "--ops",
        files / "ops",
    )
    code, out, _ = ninja("score", files / "text", files / "hyp", "--mode", "all", *options)
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == "%WER 60.00 [ 3 / 5, 0 ins, 2 del, 1 sub ] [PARTIAL]"
    assert lines[3] == "%CER 57.14 [ 4 / 7, 0 ins, 3 del, 1 sub ]"
    assert [line.split()[:2] for line in lines[4:11]] == [
        ["SPEAKER", "id"],
        ["s1", "raw"],
        ["s1", "sys"],
        ["s2", "raw"],
        ["s2", "sys"],
        ["SUM", "raw"],
        ["SUM", "sys"],
    ]
    assert lines[11:13] == ["1 substitutions, 1 different", "      1  c → x"]
    assert (files / "per_utt").read_text().splitlines()[:4] == [
        "u1 ref  a    b    c",
        "u1 hyp  a  <eps>  x",
        "u1 op   C    D    S",
        "u1 #csid 1 1 0 1",
    ]
    assert (files / "ops").read_text().count("\n") == 4
    plain = ninja("score", files / "text", files / "hyp", "--mode", "all")
    assert out.startswith(plain[1])
    code, _, err = ninja("score", files / "text", files / "hyp", "--words", "w", "--oracle", "--ops", "o")
    assert (code, "--oracle cannot be used with --ops" in err) == (2, True)
    code, _, err = ninja("score", files / "text", files / "hyp", "--most-often", 3, "--biasing", "lists")
    assert (code, "--biasing cannot be used with --most-often" in err) == (2, True)


def test_lattices_give_the_same_tables_as_their_transcripts(ninja: Ninja, files: Path) -> None:
    examples = Path(__file__).resolve().parents[2] / "examples"
    lattices, words = examples / "lat.ark.gz", examples / "words.txt"
    assert ninja("best", lattices, "--words", words, "-o", files / "best")[0] == 0
    code, output, _ = ninja("score", examples / "text", lattices, "--words", words, "--most-often", 5)
    assert (code, output) == ninja("score", examples / "text", files / "best", "--most-often", 5)[:2]


def test_compute_wer_prints_kaldi_lines_and_statistics(ninja: Ninja, files: Path) -> None:
    inputs = (f"ark:{files / 'text'}", f"ark,t:{files / 'hyp'}")
    code, out, _ = ninja("compute-wer", "--text", "--mode=present", *inputs, files / "statistics")
    assert (code, out) == (
        0,
        "%WER 50.00 [ 2 / 4, 0 ins, 1 del, 1 sub ] [PARTIAL]\n%SER 50.00 [ 1 / 2 ]\n"
        "Scored 2 sentences, 1 not present in hyp.\n",
    )
    assert (files / "statistics").read_text() == "correct a\ndeletion b\nsubstitution c x\ncorrect a\n"
    (files / "hyp").write_text("u1 a b y c\nu2 a\nu3\n")
    code, out, _ = ninja("compute-wer", *inputs, "-")
    assert out.splitlines()[0] == "%WER 40.00 [ 2 / 5, 1 ins, 1 del, 0 sub ]"
    assert out.splitlines()[3:] == ["correct a", "correct b", "insertion y", "correct c", "correct a", "deletion d"]
    (files / "hyp").write_text("u1 a x\n")
    code, _, err = ninja("compute-wer", *inputs)
    assert (code, "no hypothesis for 2 of 3 references" in err) == (1, True)


def test_percentages_are_rounded_in_float32() -> None:
    assert str(ErrorRate(words=4000, deletions=3)).startswith("%WER 0.08 ")  # as a double, 0.0750 is below the tie
    assert str(ErrorRate(words=4000, deletions=9)).startswith("%WER 0.22 ")  # as a double, 0.2250 is above the tie


def test_align_text_writes_pairs_and_reports_missing_keys(ninja: Ninja, files: Path) -> None:
    code, out, err = ninja("align-text", files / "text", files / "hyp")
    assert (code, out) == (1, "u1 a a ; b <eps> ; c x\nu2 a a\n")
    assert err == f"ninja: 1 key of {files / 'text'} is not in {files / 'hyp'}: u3\n"
    options = ("--special-symbol", "***", "--separator", "|", "-o", files / "aligned")
    assert ninja("align-text", files / "hyp", files / "text", *options)[0] == 0
    assert (files / "aligned").read_text() == "u1 a a | *** b | x c\nu2 a a\n"
    (files / "hyp").write_text("other a\n")
    code, _, err = ninja("align-text", files / "text", files / "hyp")
    assert (code, "contains none of the keys of " in err) == (1, True)


def test_message_of_a_missing_hypothesis_names_the_option(tmp_path, ninja):
    (tmp_path / "text").write_text("u1 a\nu2 b\n")
    (tmp_path / "hyp").write_text("u1 a\n")
    code, _, stderr = ninja("score", tmp_path / "text", tmp_path / "hyp")
    assert code == 1
    assert "score them as empty with --mode all, or ignore them with --mode present" in stderr
