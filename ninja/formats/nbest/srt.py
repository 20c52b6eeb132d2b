"""Reader and writer for SubRip subtitles (SRT): each cue has a number, ``start --> end`` and lines of text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ninja.errors import FormatError
from ninja.formats.nbest.cue_text import SUBRIP
from ninja.formats.nbest.cue_writing import cue_format
from ninja.formats.nbest.cues import ARROW, Cue, Syntax, clock, line_begins, shown, times_of

_NUMBER = re.compile(rb"[ \t]*[0-9]{1,9}[ \t]*[\r\n]*")
_CUT_TIMES = re.compile(rb"[ \t]*-?[0-9]+:[0-9]")
_MARK = re.compile(rb"[ \t\r\n]*(?:[0-9]+[ \t]*(?:\r\n|\r|\n)[ \t]*)?-?(?:[0-9]+:)?[0-9]+:[0-9]+[,.][0-9]+[ \t]+-->")
_EXPECTED = "expected a number and the times of a cue (00:00:01,000 --> 00:00:02,000)"


def scan_srt(content: bytes, path: str | None) -> Iterator[Cue | FormatError]:
    """Yield the cues in a file; their texts may contain empty lines.

    Text before the first cue is an error. A cue that follows an empty line and has a number, but no complete times, is
    also an error.

    Source: FFmpeg, libavformat/srtdec.c, for the conventions; SubRip has no specification.
    """
    lines = content.splitlines(keepends=True)
    begins = line_begins(lines)
    arrows = [place for place, line in enumerate(lines) if ARROW in line]
    heads = []  # index of the first line of each cue
    for place, before in zip(arrows, [-1, *arrows], strict=False):
        heads.append(place - 1 if place - 1 > before and _NUMBER.fullmatch(lines[place - 1]) else place)
    heads.append(len(lines))
    for place in range(heads[0]):
        if lines[place].strip():
            yield FormatError(f"{_EXPECTED}, found {shown(lines[place])}", path, line=place + 1)
            break
    for head, place, stop in zip(heads, arrows, heads[1:], strict=False):
        cut = _cut_cue(lines, head, place + 1, stop)
        last = stop if cut is None else cut
        while last > place + 1 and not lines[last - 1].strip():
            last -= 1
        begin, end = begins[place + 1], begins[last]
        end = begin + len(content[begin:end].rstrip(b"\r\n"))
        yield Cue(place + 1, lines[place], times_of(lines[place]), place + 2, begin, end)
        if cut is not None:
            yield FormatError(
                f"{_EXPECTED}, found {shown(lines[cut])}; copy the file again if it is truncated", path, line=cut + 1
            )


def _cut_cue(lines: list[bytes], head: int, first: int, stop: int) -> int | None:
    """Find the number of a truncated cue within the text of the cue before it.

    Return the index of the line that contains this number, or None if no truncated cue follows.

    Args:
        lines: The lines of the file.
        head: Index of the first line of the cue, which is its number if it has one.
        first: Index of the first line of the cue's text.
        stop: Index of the line after the cue's text.
    """
    number = int(lines[head]) if head < first - 1 else None
    for index in range(first + 1, stop):
        if not _NUMBER.fullmatch(lines[index]) or lines[index - 1].strip():
            continue
        following = lines[index + 1] if index + 1 < stop else b""
        if int(lines[index]) - 1 == number or _CUT_TIMES.match(following):
            return index
    return None


def _cue(number: int, begin: int, end: int, lines: Sequence[str]) -> str:
    return f"{number}\n{clock(begin, ',')} --> {clock(end, ',')}\n" + "\n".join(lines) + "\n\n"


SRT = Syntax("srt", SUBRIP, scan_srt, b"", _cue, is_ended_by_arrow=True)
FORMAT = cue_format(SRT, "SubRip subtitles (SRT); each cue is an utterance", _MARK.match, ".srt")
