"""Kaldi's text tables: transcripts, speakers, segments."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from ninja.errors import FormatError
from ninja.formats.kaldi.tables import read_segments, read_speakers, read_text


def test_transcripts_are_read_as_kaldi_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("u1 한국  말\nu2\t a\u3000b c\r\nu3\n", encoding="utf-8")
    expected = {"u1": ["한국", "말"], "u2": ["a\u3000b", "c"], "u3": []}
    assert read_text(path) == expected
    compressed = tmp_path / "text.gz"
    compressed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_text(compressed) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "text: the file is empty"),
        (b"u1 a\n\nu2 b\n", "text:2: the line is empty; an utterance id is needed"),
        (b"u1 a\nu1 b\n", "text:2: utterance 'u1' occurs twice"),
        (b"u1 a\nu2 \xff\n", r"text:2: not UTF-8 \(invalid start byte\); convert it with iconv"),
        (gzip.compress(b"u1 a\n")[:-4], "text: the gzip stream is truncated"),
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xff\xff\xff", "text: the gzip stream is damaged"),
    ],
)
def test_invalid_transcripts_raise_format_error_with_their_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "text"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=message):
        read_text(path)


def test_speakers_are_read_line_by_line_and_empty_lines_skipped(tmp_path: Path) -> None:
    path = tmp_path / "utt2spk"
    path.write_text("a s\n\nb\tt\r\n")
    assert read_speakers(path) == {"a": "s", "b": "t"}
    for content, message in (
        ("a s\nb\n", "utt2spk:2: expected an utterance id and its speaker, found 'b'"),
        ("a s t\n", "utt2spk:1: expected an utterance id and its speaker, found 'a s t'"),
        ("a s\na t\n", "utt2spk:2: utterance 'a' occurs twice"),
    ):
        path.write_text(content)
        with pytest.raises(FormatError, match=message):
            read_speakers(path)


def test_segments_have_a_recording_a_begin_and_an_end(tmp_path: Path) -> None:
    path = tmp_path / "segments"
    path.write_text("a rec1 0.5 1.5\nb rec1 1.5 2\n")
    assert read_segments(path) == {"a": ("rec1", 0.5, 1.5), "b": ("rec1", 1.5, 2.0)}
    path.write_text("a rec1 0.5\n")
    with pytest.raises(FormatError, match="segments:1: expected an utterance id, its recording, start and end, found"):
        read_segments(path)
    path.write_text("a rec1 0.5 late\n")
    with pytest.raises(FormatError, match=r"segments:1: expected start and end in seconds, found '0.5' and 'late'"):
        read_segments(path)
