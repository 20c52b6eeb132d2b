"""Conversion of word times from seconds to frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

SLACK = 1e-6  # tolerance for rounding errors of times, in seconds
LAST_FRAME = 2**31 - 2


class Frames(NamedTuple):
    """Word times, rounded to frames."""

    begin: tuple[int, ...]
    end: tuple[int, ...]
    num_overlaps: int  # number of words whose start was moved to the end of the previous word


def frames_of(times: Sequence[tuple[float, float]], words: Sequence[str], frame_shift: float) -> Frames:
    """Round word times to frames; a word that overlaps the previous word begins at the end of the previous word.

    Args:
        times: Start and end of each word in seconds.
        words: The words, for messages.
        frame_shift: Seconds per frame, > 0.

    Raises:
        ValueError: Times are out of range or run backwards: a word ends before it begins, or begins before the previous
            word.
    """
    begins: list[int] = []
    ends: list[int] = []
    num_overlaps = 0
    last_begin = last_end = 0.0
    for number, (begin, end) in enumerate(times):
        where = f"word {number + 1}, {words[number][:40]!r},"
        if end < begin - SLACK:
            raise ValueError(f"times run backwards: {where} ends at {end:g} s, before it begins at {begin:g} s")
        if begin < last_begin - SLACK:
            before = f"before the previous word ({last_begin:g} s)"
            raise ValueError(f"times run backwards: {where} begins at {begin:g} s, {before}")
        if not 0 <= begin <= end + SLACK or end > frame_shift * LAST_FRAME:
            raise ValueError(f"times are out of range: {where} begins at {begin:g} s and ends at {end:g} s")
        num_overlaps += begin < last_end - SLACK
        last_begin, last_end = begin, max(last_end, end)
        begins.append(max(round(begin / frame_shift), ends[-1] if ends else 0))
        ends.append(max(round(end / frame_shift), begins[-1]))
    return Frames(tuple(begins), tuple(ends), num_overlaps)
