"""Word times relative to the recording, for writers of formats with times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ninja.errors import LatticeError
from ninja.formats.hypotheses.alignment import changed_words
from ninja.formats.kaldi.tables import read_segments
from ninja.lattice import Lattice
from ninja.lattice.lattice import Origin, check_finite, checked_shift
from ninja.lattice.nbest import NBest

ASSUMED_SHIFT = 0.01  # seconds per frame if the frame shift is unknown; readers have the same default


@dataclass(frozen=True, slots=True)
class BestOptions:
    """Options for writing the best hypothesis."""

    n: ClassVar[int] = 1

    acoustic_scale: float = 1.0
    lm_scale: float = 1.0
    word_penalty: float = 0.0

    def __post_init__(self) -> None:
        for name in ("acoustic_scale", "lm_scale", "word_penalty"):
            check_finite(name, getattr(self, name))

    def most(self, lattice: Lattice) -> int:
        """Return the number of hypotheses to write for a lattice: only the best one."""
        return self.n


@dataclass(frozen=True, slots=True)
class TimedOptions(BestOptions):
    """Options for writing the best hypothesis with word times."""

    segments: str | None = None  # Kaldi's segments file; the start of the segment is added to the word times
    frame_shift: float | None = None  # seconds per frame  [default: the frame shift of the lattice, else 0.01]

    def __post_init__(self) -> None:
        if self.frame_shift is not None:
            checked_shift(self.frame_shift)
        BestOptions.__post_init__(self)


@dataclass(frozen=True, slots=True)
class Timing:
    """The times of an utterance in seconds from the start of its recording; unknown values are None."""

    recording: str | None  # name of the recording in the segments file
    begin: float | None
    end: float | None
    begins: list[float] | None  # [num_words]
    ends: list[float] | None  # [num_words]
    speaker: str | None
    channel: str | None
    confidences: list[float | None] | None  # [num_words]


class TimedWords:
    """Converter from the frames of best hypotheses to seconds, with the frame shift and segments file of a writer."""

    def __init__(self, options: TimedOptions) -> None:
        self._shift = options.frame_shift
        self._path = options.segments
        self._segments = None if options.segments is None else read_segments(options.segments)

    def of(self, nbest: NBest, words: Sequence[str]) -> Timing:
        """Return the times of the best hypothesis in a list; `words` are the words of this hypothesis as text.

        Raises:
            LatticeError: The utterance is missing from the segments file, or its segment has an invalid range.
        """
        recording, offset = None, 0.0
        begin = end = None
        origin = None if nbest.record is None else nbest.record.origin
        if origin is not None and origin.begin is not None and origin.end is not None:
            begin, end = origin.begin, origin.end
        if self._segments is not None:
            if nbest.key not in self._segments:
                raise LatticeError(f"{self._path} has no segment for this utterance", key=nbest.key)
            recording, offset, last = self._segments[nbest.key]
            if not 0 <= offset <= last < math.inf:
                raise LatticeError(
                    f"the segment of this utterance in {self._path}, {offset} to {last} s, is not a valid range",
                    key=nbest.key,
                )
            begin, end = (0.0, last - offset) if begin is None or end is None else (begin, end)
        best = nbest.hypotheses[0]
        shift = self._shift or nbest.frame_shift or ASSUMED_SHIFT
        begins = None if best.begin is None else [offset + frame * shift for frame in best.begin]
        ends = None if best.end is None else [offset + frame * shift for frame in best.end]
        return Timing(
            recording,
            None if begin is None else offset + begin,
            None if end is None else offset + end,
            begins,
            ends,
            None if origin is None else origin.speaker,
            None if origin is None else origin.channel,
            None if origin is None else confidences_of(origin, words),
        )


def confidences_of(origin: Origin, words: Sequence[str]) -> list[float | None] | None:
    """Return word confidences from the input file of an utterance, or None if that file has no confidences.

    New words that replace an equal number of old words get the confidences of the old words; other new words get None.
    """
    if not origin.confidences:
        return None
    values: list[float | None] = []
    at = 0
    for begin, end, new in changed_words(origin.words, words):
        values += origin.confidences[at:begin]
        values += origin.confidences[begin:end] if len(new) == end - begin else [None] * len(new)
        at = end
    return [*values, *origin.confidences[at:]]
