"""Writer for SegLST: a JSON list of segments with session, speaker, times and text; an utterance becomes a segment."""

from __future__ import annotations

import json
from typing import Any

from ninja.formats.format import WriteSettings
from ninja.formats.hypotheses.mixed import TIMES_OF_WORDS, is_of, lost_others
from ninja.formats.nbest.timed import TimedWords
from ninja.formats.nbest.writing import spelled
from ninja.formats.textual import encoded
from ninja.lattice.nbest import NBest


class SeglstEncoder:
    """Encoder that writes the best hypothesis of each n-best list as a segment, for lists from other formats.

    The session is the recording from the segments file (option ``segments``), or else the key. Times are taken from the
    words, or else from the utterance. Unknown times, speakers and channels are omitted.

    Source: fgnt/meeteval, meeteval/io/seglst.py.
    """

    def __init__(self, settings: WriteSettings) -> None:
        self._settings = settings
        self._timed = TimedWords(settings.options)
        self._before = "[\n"

    def add(self, nbest: NBest) -> bytes:
        """Encode the best hypothesis of a list; return the next bytes of the file.

        Raises:
            LatticeError: The utterance is missing from the segments file.
        """
        words = spelled(nbest.hypotheses[0], self._settings.words, nbest.key)
        timing = self._timed.of(nbest, words)
        begin, end = timing.begin, timing.end
        if timing.begins and timing.ends:
            begin, end = timing.begins[0], max(timing.ends)
        segment: dict[str, Any] = {"session_id": timing.recording or nbest.key, "words": " ".join(words)}
        others = {"speaker": timing.speaker, "channel": timing.channel}
        segment |= {name: value for name, value in others.items() if value is not None}
        if begin is not None and end is not None:
            segment |= {"start_time": round(begin, 6), "end_time": round(end, 6)}
        text = json.dumps(segment, ensure_ascii=False, indent=2).replace("\n", "\n  ")
        content = encoded(f"{self._before}  {text}", self._settings.encoding, nbest.key)
        self._before = ",\n"
        return content

    def end(self) -> bytes:
        """Return the bytes that close the list of segments."""
        return b"[]\n" if self._before == "[\n" else b"\n]\n"


def lost_elsewhere(nbest: NBest, settings: WriteSettings, form: str) -> list[str]:
    """Return the names of the fields that SegLST cannot store; a list that was read from SegLST loses no fields."""
    if is_of(nbest, form):
        return []
    lost = [TIMES_OF_WORDS] if any(hypothesis.begin for hypothesis in nbest.hypotheses) else []
    return lost + lost_others(nbest, form, "start", "end", "channel")
