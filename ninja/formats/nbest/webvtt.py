"""Reader and writer for WebVTT subtitles: a header, then blocks with a name, ``start --> end`` and tagged text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ninja.errors import FormatError
from ninja.formats.nbest.cue_text import WEBVTT
from ninja.formats.nbest.cue_writing import cue_format
from ninja.formats.nbest.cues import ARROW, Cue, Syntax, clock, line_begins, shown, times_of

_MARK = re.compile(rb"WEBVTT(?:[ \t\r\n]|\Z)")
_OTHER_BLOCK = re.compile(rb"(?:NOTE|STYLE|REGION)(?:[ \t\r\n]|\Z)")


def scan_webvtt(content: bytes, path: str | None) -> Iterator[Cue | FormatError]:
    """Yield the cues in a file; a block without times is an error, unless it is a comment, a style or a region.

    Source: W3C, WebVTT: The Web Video Text Tracks Format, "WebVTT file parsing".
    """
    if not _MARK.match(content):
        raise FormatError("the first line is not WEBVTT", path, line=1)
    lines = content.splitlines(keepends=True)
    begins = line_begins(lines)

    def end_of_block(place: int) -> int:
        while place < len(lines) and lines[place].strip(b"\r\n") and ARROW not in lines[place]:
            place += 1
        return place

    place = end_of_block(1)  # skip the rest of the header
    while place < len(lines):
        first = place
        if not lines[place].strip():
            place += 1
            continue
        times = end_of_block(
            place
        )  # index of the line with the times, which may follow a line with the name of the cue
        if times > first + 1 or times == len(lines) or ARROW not in lines[times]:
            if not _OTHER_BLOCK.match(lines[first]):
                yield FormatError(f"expected the times of a cue below {shown(lines[first])}", path, line=first + 1)
            place = times
            continue
        place = end_of_block(times + 1)
        begin, end = begins[times + 1], begins[place]
        end = begin + len(content[begin:end].rstrip(b"\r\n"))
        yield Cue(times + 1, lines[times], times_of(lines[times]), times + 2, begin, end)


def _cue(number: int, begin: int, end: int, lines: Sequence[str]) -> str:
    return f"{clock(begin, '.')} --> {clock(end, '.')}\n" + "\n".join(lines) + "\n\n"


VTT = Syntax("vtt", WEBVTT, scan_webvtt, b"WEBVTT\n\n", _cue, has_voices=True)
FORMAT = cue_format(VTT, "WebVTT subtitles; each cue is an utterance", _MARK.match, ".vtt", ("webvtt",))
