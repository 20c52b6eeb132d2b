"""Context carry-over: the words of earlier utterances in a recording become the history of the next utterance."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from ninja.errors import OptionError
from ninja.formats.kaldi.tables import read_segments, read_speakers

MAX_WORDS = 64


@dataclass(frozen=True, slots=True)
class CarryOver:
    """Assignment of utterances to recordings, and the number of words to carry over.

    Before the language model scores an utterance, it reads the best paths of the recording's earlier utterances, in
    input order. Failed utterances contribute no words. Start times, if known, must not decrease within a recording.
    """

    recording: Mapping[str, str] | None = None  # utterance id → recording; None: a single recording
    begin: Mapping[str, float] = field(default_factory=dict)  # utterance id → start in seconds
    max_words: int = MAX_WORDS  # history length; 0 means no limit

    def __post_init__(self) -> None:
        """Validate `max_words`.

        Raises:
            OptionError: `max_words` is negative.
        """
        if self.max_words < 0:
            raise OptionError(f"max_words is {self.max_words}, but must be at least 0")

    @classmethod
    def from_utt2spk(cls, path: str | os.PathLike[str], max_words: int = MAX_WORDS) -> CarryOver:
        """Read a Kaldi ``utt2spk`` file; each speaker is treated as one recording.

        Raises:
            FormatError: A line does not have two fields, or an utterance occurs twice.
        """
        return cls(read_speakers(path), max_words=max_words)

    @classmethod
    def from_segments(cls, path: str | os.PathLike[str], max_words: int = MAX_WORDS) -> CarryOver:
        """Read a Kaldi ``segments`` file, whose lines are ``utterance recording begin end`` with times in seconds.

        Raises:
            FormatError: A line does not have these four fields, a time is not a number, or an utterance occurs twice.
        """
        segments = read_segments(path)
        recording = {key: name for key, (name, _, _) in segments.items()}
        return cls(recording, {key: begin for key, (_, begin, _) in segments.items()}, max_words)
