"""References in STM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ninja.errors import FormatError
from ninja.evaluate import read_stm

SEGMENTS = {"a-1": ("rec-A", 0.0, 1.5), "a-2": ("rec-A", 1.5, 3.0), "b-1": ("rec-B", 0.0, 1.5), "c": ("talk", 2.0, 4.0)}
STM = """;; CATEGORY "0" "" ""
rec A spk1 0.00 1.50 <o,f0,male> hello there
rec A spk1 1.51 3.00 IGNORE_TIME_SEGMENT_IN_SCORING
rec B spk2 0.00 1.50 <O> yes
talk 1 spk3 2 4.001 one two
"""


def test_stm_lines_map_to_utterances_by_time(tmp_path: Path) -> None:
    (tmp_path / "ref.stm").write_text(STM)
    references = read_stm(tmp_path / "ref.stm", SEGMENTS)
    assert references == {"a-1": ["hello", "there"], "b-1": ["yes"], "c": ["one", "two"]}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("rec A spk1 0.00", "expected file, channel"),
        ("rec A spk1 x 1.5 a", "expected file, channel"),
        ("rec A spk1 0.5 1.5 a", "no segment matches rec A from 0.5 to 1.5 s"),
        ("rec A spk1 0 1.5 { a / b }", "alternatives"),
        ("rec A s 0 1.5 a\\nrec A s 0 1.5 b", "another line refers to the same utterance; remove one of the lines"),
        (";; nothing", "the file contains no reference"),
    ],
)
def test_stm_refuses_malformed_segments(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "ref.stm").write_text(line.replace("\\n", "\n") + "\n")
    with pytest.raises(FormatError, match=message):
        read_stm(tmp_path / "ref.stm", SEGMENTS)


def test_score_takes_an_stm_file_with_segments(ninja: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    reference, segments, hypothesis = (tmp_path / name for name in ("ref.stm", "segments", "hyp"))
    reference.write_text(STM)
    segments.write_text("".join(f"{key} {rec} {begin} {end}\n" for key, (rec, begin, end) in SEGMENTS.items()))
    hypothesis.write_text("a-1 hello where\na-2 so what\nb-1 yes\nc one two\n")
    code, printed, errors = ninja("score", reference, hypothesis, "--segments", segments)
    assert (code, printed.split("\n")[0]) == (0, "%WER 20.00 [ 1 / 5, 0 ins, 0 del, 1 sub ]")
    assert "1 hypothesis has no reference" in errors
    assert ninja("score", reference, hypothesis)[0] == 2
    assert ninja("score", hypothesis, hypothesis, "--segments", segments)[0] == 2
