"""Reader and writer for Whisper's TSV: lines with a start and an end in milliseconds, and a text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ninja.errors import FormatError
from ninja.formats.nbest.cue_text import PLAIN
from ninja.formats.nbest.cue_writing import cue_format
from ninja.formats.nbest.cues import Cue, Syntax, line_begins

_MARK = re.compile(rb"start\tend\ttext[ \t]*(?:[\r\n]|\Z)")
_MILLISECONDS = re.compile(rb"[ ]*(-?)([0-9]{1,12})[ ]*")


def scan_tsv(content: bytes, path: str | None) -> Iterator[Cue | FormatError]:
    """Yield each line below the header of a file as a cue; texts may contain tabs.

    Source: openai/whisper, whisper/utils.py, WriteTSV.
    """
    if not _MARK.match(content):
        raise FormatError("the first line must be start, end and text, separated by tabs", path, line=1)
    lines = content.splitlines(keepends=True)
    begins = line_begins(lines)
    for number, line in enumerate(lines[1:], start=2):
        row = line.rstrip(b"\r\n")
        if not row.strip():
            continue
        fields = row.split(b"\t", 2)
        times = (_clock(fields[0]), _clock(fields[1])) if len(fields) == 3 else None
        end = begins[number - 1] + len(row)
        yield Cue(number, row, times, number, end - len(fields[-1]), end)


def _clock(text: bytes) -> bytes:
    """Convert text with a number of milliseconds to hours, minutes and seconds; return any other text unchanged."""
    match = _MILLISECONDS.fullmatch(text)
    if match is None:
        return text
    minutes, milliseconds = divmod(int(match[2]), 60_000)
    return b"%s%d:%02d:%02d.%03d" % (match[1], minutes // 60, minutes % 60, milliseconds // 1000, milliseconds % 1000)


def _cue(number: int, begin: int, end: int, lines: Sequence[str]) -> str:
    return f"{begin}\t{end}\t{' '.join(lines)}\n"


TSV = Syntax("whisper-tsv", PLAIN, scan_tsv, b"start\tend\ttext\n", _cue)
FORMAT = cue_format(
    TSV, "Whisper's TSV: one segment per line, with start and end in milliseconds and text", _MARK.match, ".whisper.tsv"
)
