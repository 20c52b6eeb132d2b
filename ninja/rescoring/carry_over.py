"""Context carry-over: the words of a recording's earlier utterances become the history of the next one."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ninja.errors import LatticeError, OptionError
from ninja.formats.kaldi.tables import read_segments, read_speakers
from ninja.rescoring.utterances import Utterance

MAX_WORDS = 64


@dataclass(frozen=True, slots=True)
class CarryOver:
    """Assignment of utterances to recordings, and the number of words to carry over.

    Before the language model scores an utterance, it reads the best paths of the recording's earlier utterances, in
    input order. An utterance that fails contributes no words.
    """

    recording: Mapping[str, str] | None = None  # by key; None if all utterances belong to one recording
    begin: Mapping[str, float] = field(default_factory=dict)  # seconds, by key; must not decrease within a recording
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
        """Read a Kaldi ``utt2spk`` file, and treat each speaker as a recording.

        Raises:
            FormatError: A line does not have two fields, or an utterance occurs twice.
        """
        return cls(read_speakers(path), max_words=max_words)

    @classmethod
    def from_segments(cls, path: str | os.PathLike[str], max_words: int = MAX_WORDS) -> CarryOver:
        """Read a Kaldi ``segments`` file, whose lines are ``utterance recording begin end`` with times in seconds.

        Raises:
            FormatError: A line has another form, or an utterance occurs twice.
        """
        segments = read_segments(path)
        recording = {key: name for key, (name, _, _) in segments.items()}
        return cls(recording, {key: begin for key, (_, begin, _) in segments.items()}, max_words)


class RecordingQueue:
    """Admit one utterance per recording at a time; without carry-over, admit every utterance at once."""

    def __init__(self, carry_over: CarryOver | None) -> None:
        self._carry_over = carry_over
        self._waiting: dict[str, deque[Utterance]] = {}  # by recording, for recordings with an utterance in flight
        self._history: dict[str, list[int]] = {}
        self._begin: dict[str, float] = {}  # begin of the last utterance of each recording
        self._ready: deque[Utterance] = deque()

    def enter(self, utterance: Utterance) -> bool:
        """Return whether an utterance may be rescored now; if not, `ready` returns it later.

        Raises:
            LatticeError: The recording of the utterance is unknown, or the utterance begins before the previous one.
        """
        if self._carry_over is None:
            return True
        utterance.recording = recording = self._recording(self._carry_over, utterance.key)
        if recording in self._waiting:
            self._waiting[recording].append(utterance)
            return False
        self._waiting[recording] = deque()
        utterance.history = tuple(self._history.get(recording, ()))
        return True

    def leave(self, utterance: Utterance, words: Sequence[int]) -> None:
        """Add the words of an utterance to its recording's history, and admit the recording's next utterance."""
        if utterance.recording is None:
            return
        assert self._carry_over is not None
        history = self._history.setdefault(utterance.recording, [])
        history += words
        if self._carry_over.max_words:
            del history[: -self._carry_over.max_words]
        waiting = self._waiting[utterance.recording]
        if waiting:
            self._ready.append(waiting.popleft())
            self._ready[-1].history = tuple(history)
        else:
            del self._waiting[utterance.recording]

    def ready(self) -> Utterance | None:
        """Return an utterance whose predecessor in the recording is done; None if there is no such utterance."""
        return self._ready.popleft() if self._ready else None

    def _recording(self, carry_over: CarryOver, key: str) -> str:
        if carry_over.recording is None:
            return ""
        recording = carry_over.recording.get(key)
        if recording is None:
            raise LatticeError("this utterance is missing from the utt2spk or segments file for carry-over", key=key)
        begin = carry_over.begin.get(key)
        if begin is not None:
            if begin < self._begin.get(recording, begin):
                raise LatticeError(
                    f"this utterance begins at {begin:.2f} s in {recording}, but the previous one begins at "
                    f"{self._begin[recording]:.2f} s; sort the lattices by time for carry-over",
                    key=key,
                )
            self._begin[recording] = begin
        return recording
