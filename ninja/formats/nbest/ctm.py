"""CTM in: the words of a 1-best hypothesis with times and confidences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ninja.errors import FormatError, OptionError
from ninja.formats.nbest.hypothesis import Hypothesis, NBest
from ninja.formats.nbest.rows import number, rows, split
from ninja.formats.textual import EPSILON_NAME, check_encoding, checked_shift

LAST_FRAME = 2**31 - 2


@dataclass(frozen=True, slots=True)
class CtmOptions:
    """How a CTM file is understood."""

    frame_shift: float = 0.01  # seconds; times are rounded to frames
    keys: Literal["file", "file-channel"] = "file"  # what makes an utterance id of the first two fields
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        checked_shift(self.frame_shift)
        check_encoding(self.encoding)
        if self.keys not in ("file", "file-channel"):
            raise OptionError(f"keys is {self.keys!r}, but must be file or file-channel")


@dataclass(frozen=True, slots=True)
class CtmUtterance:
    """One utterance of a CTM file: a list of one hypothesis, and what has no place in it."""

    nbest: NBest
    channel: str
    confidence: tuple[float | None, ...]  # of each word, as it stands there; None: not given


def read_ctm(content: bytes, path: str | None = None, options: CtmOptions | None = None) -> list[CtmUtterance]:
    """Read a CTM file: ``file channel begin duration word [confidence]``, seconds, one word a line.

    There are no scores, so both costs are 0; a confidence is no cost and is kept aside. Words that rounding to frames
    would make overlap begin where the one before ends. Comments (``;;``), empty lines and ``<eps>``, as Kaldi writes
    silence, are left out.

    Args:
        content: The whole file, unpacked.
        path: File name for error messages.
        options: How the file is understood.

    Raises:
        FormatError: A line is none of a CTM, times go back, a file has two channels or goes on after another one, or
            there are alternatives (``<ALT>``).

    Source: NIST, SCTK, doc/infmts.htm, the format ctm.
    """
    options = options or CtmOptions()
    shift = options.frame_shift
    found: dict[str, tuple[str, list[str], list[int], list[int], list[float | None], int]] = {}
    last_key, last_begin = "", 0.0
    for line, row in rows(content, path, options.encoding):
        fields = split(row)
        if not fields or fields[0].startswith(";;"):
            continue
        if len(fields) not in (5, 6):
            raise FormatError(f"expected file, channel, begin, duration, word, found {row[:60]!r}", path, line=line)
        file, channel, begin_text, duration_text, word = fields[:5]
        if word.upper().startswith("<ALT"):
            raise FormatError("there are alternatives (<ALT>); choose among them first", path, line=line)
        begin = number(begin_text, "when the word begins", path, line)
        duration = number(duration_text, "how long the word is", path, line)
        confidence = number(fields[5], "a confidence", path, line) if len(fields) == 6 and fields[5] != "NA" else None
        key = file if options.keys == "file" else f"{file}-{channel}"
        if begin < 0 or duration < 0 or (begin + duration) / shift > LAST_FRAME:
            raise FormatError(f"a word begins at {begin} s and lasts {duration} s", path, key=key, line=line)
        if key != last_key:
            if key in found:
                raise FormatError("the utterance goes on after another one; sort the file", path, key=key, line=line)
            found[key] = (channel, [], [], [], [], line)
            last_key, last_begin = key, 0.0
        if found[key][0] != channel:
            message = f"the file has the channels {found[key][0]!r} and {channel!r}; make them part of the key"
            raise FormatError(message, path, key=key, line=line)
        if begin < last_begin:
            raise FormatError(f"a word begins at {begin} s, before the one above it", path, key=key, line=line)
        last_begin = begin
        if word == EPSILON_NAME:
            continue
        _, words, begins, ends, confidences, _ = found[key]
        words.append(word)
        begins.append(max(round(begin / shift), ends[-1] if ends else 0))
        ends.append(max(round((begin + duration) / shift), begins[-1]))
        confidences.append(confidence)
    if not found:
        raise FormatError("there are no words", path)
    utterances = []
    for key, (channel, words, begins, ends, confidences, line) in found.items():
        none = (0.0,) * (len(words) + 1)
        each = Hypothesis(tuple(words), none, none, tuple(begins), tuple(ends), line=line)
        given = sum(value is not None for value in confidences)
        lost = (f"{given} confidences",) if given else ()
        utterances.append(CtmUtterance(NBest(key, (each,), shift, lost), channel, tuple(confidences)))
    return utterances
