"""Context carry-over: the utterances of a recording one after the other, each with the words before it as context."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ninja.errors import LatticeError, OptionError
from ninja.formats.kaldi.tables import read_segments, read_speakers
from ninja.lattice import Lattice
from ninja.lm.protocol import PhraseMark

MAX_WORDS = 64
GONE = Lattice.from_arrays("", [0, 0], [], [], [], [], [0.0])


@dataclass(frozen=True, slots=True)
class CarryOver:
    """Order of the utterances of recordings, and length of the context carried over.

    The language model reads the best paths of a recording's earlier utterances, in the order of the input, before it
    scores the next one. An utterance that fails adds nothing.
    """

    recording: Mapping[str, str] | None = None  # of each key; None: all utterances are of one recording
    begin: Mapping[str, float] = field(default_factory=dict)  # seconds, of each key; must rise where given
    max_words: int = MAX_WORDS  # of the context; 0: no bound

    def __post_init__(self) -> None:
        """Refuse a negative bound.

        Raises:
            OptionError: `max_words` is negative.
        """
        if self.max_words < 0:
            raise OptionError(f"max_words is {self.max_words}, but must be at least 0")

    @classmethod
    def from_utt2spk(cls, path: str | os.PathLike[str], max_words: int = MAX_WORDS) -> CarryOver:
        """Read Kaldi's ``utt2spk``: an utterance and its speaker on each line.

        Raises:
            FormatError: A line is something else, or an utterance occurs twice.
        """
        return cls(read_speakers(path), max_words=max_words)

    @classmethod
    def from_segments(cls, path: str | os.PathLike[str], max_words: int = MAX_WORDS) -> CarryOver:
        """Read Kaldi's ``segments``: an utterance, its recording, begin and end in seconds on each line.

        Raises:
            FormatError: A line is something else, or an utterance occurs twice.
        """
        segments = read_segments(path)
        recording = {key: name for key, (name, _, _) in segments.items()}
        return cls(recording, {key: begin for key, (_, begin, _) in segments.items()}, max_words)


@dataclass(slots=True, eq=False)
class Utterance:
    """A lattice in flight."""

    lattice: Lattice
    recording: str | None = None  # None: it has nothing to do with its neighbours
    context: Sequence[int] = ()  # the language model's words to read before it
    phrases: PhraseMark | None = None  # its list of phrases, for a model that takes them
    is_done: bool = False
    result: Lattice | None = None  # None once it is done: it failed, or was given out before its turn
    num_arcs: int = field(init=False)  # read, at least 1: what it counts for in the limit of arcs in flight

    def __post_init__(self) -> None:
        self.num_arcs = max(self.lattice.num_arcs, 1)

    @property
    def key(self) -> str:
        """Utterance id."""
        return self.lattice.key

    @property
    def first_words(self) -> tuple[int, ...]:
        """What the language model reads before it: the mark of its phrases, and its context."""
        return (*(() if self.phrases is None else (self.phrases.number,)), *self.context)

    def let_go(self) -> None:
        """Let go of the lattice and the result, which was given out; its place behind slower ones remains."""
        self.lattice, self.result, self.phrases = GONE, None, None


class RecordingQueue:
    """Admits one utterance of each recording at a time; without carry-over, all at once."""

    def __init__(self, carry_over: CarryOver | None) -> None:
        self._carry_over = carry_over
        self._waiting: dict[str, deque[Utterance]] = {}  # of each recording with one in flight: those behind it
        self._said: dict[str, list[int]] = {}
        self._begin: dict[str, float] = {}  # of the last utterance of each recording
        self._ready: deque[Utterance] = deque()

    def enter(self, utterance: Utterance) -> bool:
        """Tell whether an utterance may be rescored now, rather than after one that was read before.

        Raises:
            LatticeError: Its recording is not known, or it comes too late.
        """
        if self._carry_over is None:
            return True
        recording = self._recording(utterance.key)
        utterance.recording = recording
        if recording in self._waiting:
            self._waiting[recording].append(utterance)
            return False
        self._waiting[recording] = deque()
        utterance.context = tuple(self._said.get(recording, ()))
        return True

    def leave(self, utterance: Utterance, words: Sequence[int]) -> None:
        """Store the words of an utterance, and admit the next one of its recording."""
        if utterance.recording is None:
            return
        assert self._carry_over is not None
        said = self._said.setdefault(utterance.recording, [])
        said += words
        if self._carry_over.max_words:
            del said[: -self._carry_over.max_words]
        waiting = self._waiting[utterance.recording]
        if waiting:
            self._ready.append(waiting.popleft())
            self._ready[-1].context = tuple(said)
        else:
            del self._waiting[utterance.recording]

    def ready(self) -> Utterance | None:
        """Return an utterance that has waited long enough."""
        return self._ready.popleft() if self._ready else None

    def _recording(self, key: str) -> str:
        assert self._carry_over is not None
        if self._carry_over.recording is None:
            return ""
        recording = self._carry_over.recording.get(key)
        if recording is None:
            raise LatticeError("the list of recordings for carry-over lacks this utterance", key=key)
        begin = self._carry_over.begin.get(key)
        if begin is not None:
            if begin < self._begin.get(recording, begin):
                raise LatticeError(
                    f"it begins at {begin:.2f} s of {recording}, but comes after an utterance that begins at "
                    f"{self._begin[recording]:.2f} s; sort the lattices by time for carry-over",
                    key=key,
                )
            self._begin[recording] = begin
        return recording
