"""Writer for CTM files: rewrites the lines of an input CTM file, or creates lines for other lists with times."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ninja.errors import LatticeError
from ninja.formats.format import Field, WriteSettings
from ninja.formats.hypotheses.alignment import changed_words
from ninja.formats.nbest.text_rows import split
from ninja.formats.nbest.timed import TimedWords, Timing
from ninja.formats.nbest.writing import spelled
from ninja.formats.textual import encoded
from ninja.lattice.nbest import NBest

CHANNEL = "1"
UNKNOWN = "NA"  # replaces an unknown confidence
KEPT: frozenset[Field] = frozenset({"key", "times", "frame shift", "names", "fields"})
_TO_WORD = re.compile(
    r"([ \t\v\f]*(?:[^ \t\v\f]+[ \t\v\f]+){4})[^ \t\v\f]+"
)  # four fields and the spaces after them, and the word


@dataclass(frozen=True, slots=True)
class CtmLine:
    """A line in a CTM file."""

    row: str
    has_word: bool  # False for <eps>, which represents silence
    comments: tuple[str, ...] = ()  # lines without a word that directly precede this line


@dataclass(frozen=True, slots=True, eq=False)
class CtmLines:
    """The CTM lines of an utterance, stored as the document of its ``Origin``."""

    name: str  # file name
    key: str
    lines: tuple[CtmLine, ...]
    below: tuple[str, ...]  # comments below the last utterance of the file
    encoding: str
    format: str


class CtmEncoder:
    """Encoder that writes new words into the lines of an input CTM file, or creates lines for other lists with times.

    New words that replace an equal number of old words get the times and confidences of the old words. Other new words
    get the times of the lattice, and no confidence (``NA``).

    Source: NIST, SCTK, doc/infmts.htm, the format ctm.
    """

    def __init__(self, settings: WriteSettings) -> None:
        self._settings = settings
        self._timed = TimedWords(settings.options)
        self._shift = settings.options.frame_shift

    def add(self, nbest: NBest) -> bytes:
        """Encode the best hypothesis of an n-best list as CTM lines.

        Raises:
            LatticeError: A word has no time, or the utterance is missing from the segments file.
        """
        words = spelled(nbest.hypotheses[0], self._settings.words, nbest.key)
        lines = lines_of(nbest)
        if lines is None or lines.key != nbest.key or self._settings.options.segments is not None:
            rows, encoding = self._rows(nbest, words), self._settings.encoding
        else:
            rows, encoding = self._changed(nbest, lines, words), lines.encoding
        return encoded("".join(f"{row}\n" for row in rows), encoding, nbest.key)

    def end(self) -> bytes:
        """Return no bytes, because CTM has no footer."""
        return b""

    def _rows(self, nbest: NBest, words: Sequence[str]) -> list[str]:
        """Create CTM lines from the words and times of an n-best list, ignoring any CTM file that it was read from."""
        timing = self._timed.of(nbest, words)
        file, channel = timing.recording or nbest.key, timing.channel or CHANNEL
        has_confidences = timing.confidences is not None
        return [
            self._row(nbest, timing, index, f"{file} {channel}", word, has_confidences=has_confidences)
            for index, word in enumerate(words)
        ]

    def _row(self, nbest: NBest, timing: Timing, place: int, file: str, word: str, *, has_confidences: bool) -> str:
        if timing.begins is None or timing.ends is None:
            message = "the words have no times, which CTM requires; use lists with times (JSON with words)"
            raise LatticeError(f"{message}, or lattices with alignments (ninja align-words)", key=nbest.key)
        begin, end = timing.begins[place], timing.ends[place]
        digits = max(2, math.ceil(-math.log10(self._shift or nbest.frame_shift or 0.01) - 1e-9))
        confidence = ""
        if has_confidences:
            value = timing.confidences[place] if timing.confidences is not None else None
            confidence = f" {UNKNOWN}" if value is None else f" {value:g}"
        return f"{file} {begin:.{digits}f} {end - begin:.{digits}f} {word}{confidence}"

    def _changed(self, nbest: NBest, lines: CtmLines, words: Sequence[str]) -> list[str]:
        """Return the CTM lines from which an n-best list was read, with the new words in place of the old ones."""
        old = [line for line in lines.lines if line.has_word]
        fields = [split(line.row) for line in old]
        now: list[list[str]] = [[line.row] for line in old]  # for each old line with a word, the lines that replace it
        before: list[str] = []  # new lines before the first old word
        timing = None
        shift = 0  # number of words added minus number of words removed so far
        for begin, end, new in changed_words([row[4] for row in fields], words):
            if len(new) == end - begin:
                for place, word in zip(range(begin, end), new, strict=True):
                    now[place] = [_with_word(old[place].row, word)]
                continue
            timing = timing or self._timed.of(nbest, words)
            near = fields[min(begin, len(fields) - 1)] if fields else [lines.key, CHANNEL]
            has_confidences = len(near) == 6
            first = begin + shift
            rows = [
                self._row(
                    nbest,
                    replace(timing, confidences=None),
                    first + place,
                    " ".join(near[:2]),
                    word,
                    has_confidences=has_confidences,
                )
                for place, word in enumerate(new)
            ]
            for place in range(begin, end):
                now[place] = []
            if begin < end:
                now[begin] = rows
            elif begin:
                now[begin - 1] += rows
            else:
                before = rows
            shift += len(new) - (end - begin)
        result: list[str] = []
        spoken = iter(now)
        for line in lines.lines:
            result += line.comments
            if line.has_word:
                result += before
                before = []
            result += next(spoken) if line.has_word else [line.row]
        return [*result, *before, *lines.below]


def _with_word(row: str, word: str) -> str:
    """Replace the word in a line."""
    match = _TO_WORD.match(row)
    assert match is not None
    return match[1] + word + row[match.end() :]


def lines_of(nbest: NBest) -> CtmLines | None:
    """Return the CTM lines from which a list was read, or None if it was read from another format."""
    origin = None if nbest.record is None else nbest.record.origin
    return origin.document if origin is not None and isinstance(origin.document, CtmLines) else None
