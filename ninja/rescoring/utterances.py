"""Utterances in flight, the sources that yield them, their preparation and admission, and the report on a run."""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ninja.errors import LatticeError, Log, NinjaError, counted
from ninja.io.inputs import Inputs
from ninja.lattice import Lattice, Scales
from ninja.lattice.batch import Keyed, pairs
from ninja.lattice.lattice import ListLattice
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.lattice.text import LexicalForms, LexicalTable
from ninja.lm.protocol import PhraseMark
from ninja.lm.word_map import Coverage, WordMap, added
from ninja.rescoring.carry_over import CarryOver
from ninja.rescoring.equal_texts import merge_equal_texts
from ninja.rescoring.models import Model, VocabularyCheck

RELEASED = Lattice.from_arrays("", [0, 0], [], [], [], [], [0.0])
MIN_ARCS = 500  # smaller lattices are never reported as ambiguous
MAX_SHARE = 0.5  # largest fraction of epsilons or repeated words in a lattice that counts as determinized
ADVICE = (
    "some lattices are not determinized: more than half of their arcs have no word, or more than half repeat the word "
    "of another arc from the same state, so rescoring takes many times as long; run ninja prune and ninja "
    "determinize-pruned first"
)


class Submission(Future[Lattice]):
    """Future for a submitted lattice; once it is done, `is_complete` tells whether the search was completed."""

    is_complete = True  # False if the deadline expired before the search ended


@dataclass(slots=True, eq=False)
class Utterance:
    """A lattice that has been read or submitted, and whose result has not been returned yet."""

    lattice: Lattice
    entities: Any = None  # phrases of this utterance, for the context stage
    future: Submission | None = None  # set if the lattice was submitted
    deadline: float = math.inf  # time by `time.monotonic` at which the search is stopped
    phrases: PhraseMark | None = None  # all phrases of the utterance, for a model that reads them
    prompt: Sequence[int] = ()  # language model id of the prompt, if the utterance has one
    recording: str | None = None  # set if words are carried over
    history: Sequence[int] = ()  # language model word ids of the recording's earlier utterances
    num_arcs: int = 0  # arcs that count towards the limit on arcs in flight
    is_prepared: bool = False  # see `Preparation`
    is_done: bool = False
    result: Lattice | None = None
    error: NinjaError | None = None  # None if the lattice was submitted, because the future then has the error

    @property
    def key(self) -> str:
        """Utterance id."""
        return self.lattice.key

    @property
    def first_words(self) -> tuple[int, ...]:
        """Ids that the language model reads first: the phrase list, the prompt, and the words of the history."""
        return (*(() if self.phrases is None else (self.phrases.number,)), *self.prompt, *self.history)

    @property
    def is_expired(self) -> bool:
        """Whether the deadline of the utterance has passed."""
        return self.deadline < math.inf and time.monotonic() >= self.deadline

    def finish(self, result: Lattice | None = None, error: BaseException | None = None) -> None:
        """Set the result or the error, and pass it to the future if there is one."""
        if isinstance(error, NinjaError):
            error.key = error.key or self.key
            self.error = error if self.future is None else None
        self.result, self.is_done = result, True
        with suppress(InvalidStateError):  # the future fails when the service is closed
            if self.future is not None and error is not None:
                self.future.set_exception(error)
            elif self.future is not None:
                assert result is not None
                self.future.set_result(result)

    def release(self) -> None:
        """Free the lattices of an utterance whose future is done; it stays queued behind unfinished utterances."""
        self.lattice, self.result, self.phrases, self.future = RELEASED, None, None, None


class Source(ABC):
    """An ordered stream of utterances; the next one may not be available yet."""

    def __init__(self) -> None:
        self.has_ended = False  # whether no utterance follows those that were read ahead
        self.is_dry = False  # whether the last `poll` returned None, although more utterances may follow
        self._ahead: deque[Utterance] = deque()

    @abstractmethod
    def _poll(self) -> Utterance | None:
        """Return the next utterance; None if it is not available yet or `has_ended` is true."""

    def wait(self) -> bool:
        """Wait until `poll` can return an utterance; return False if no utterance will follow."""
        return not self.has_ended

    def close(self) -> None:
        """Free the resources that the source uses."""
        return

    def poll(self) -> Utterance | None:
        """Return the next utterance; None if it is not available yet or `has_ended` is true."""
        utterance = self._ahead.popleft() if self._ahead else self._poll()
        self.is_dry = utterance is None and not self.has_ended
        return utterance

    def read_ahead(self, num_arcs: int = 0) -> Sequence[Utterance]:
        """Return the next utterances without consuming them.

        Available utterances are read until there is at least one, and until they have `num_arcs` arcs in total.
        """
        arcs = sum(utterance.lattice.num_arcs for utterance in self._ahead)
        while not self._ahead or arcs < num_arcs:
            utterance = self._poll()
            if utterance is None:
                break
            self._ahead.append(utterance)
            arcs += utterance.lattice.num_arcs
        return self._ahead

    def first(self) -> Utterance | None:
        """Wait for the next utterance and return it without consuming it; return None if no utterance will follow."""
        while not self.read_ahead():
            if self.has_ended or not self.wait():
                return None
        return self._ahead[0]

    def failures(self) -> Iterator[Utterance]:
        """Yield the failed utterances that precede the next utterance without an error, which `first` then returns."""
        while (utterance := self.first()) is not None and utterance.error is not None:
            yield self._ahead.popleft()

    def __iter__(self) -> Iterator[Utterance]:
        """Yield the utterances, waiting until each is available."""
        while True:
            utterance = self.poll()
            if utterance is not None:
                yield utterance
            elif self.has_ended or not self.wait():
                return


class IterableSource(Source):
    """Source that reads lattices from an iterable; `poll` blocks until the next lattice is available."""

    def __init__(self, lattices: Iterable[Keyed]) -> None:
        super().__init__()
        self._pairs = pairs(lattices)

    def _poll(self) -> Utterance | None:
        for _, lattice in self._pairs:
            return Utterance(lattice)
        self.has_ended = True
        return None


@dataclass(slots=True)
class RescoreReport(Log):
    """Log for a rescoring run: failures, notes and counts."""

    arcs: int = 0  # arcs read
    arcs_written: int = 0
    expanded_arcs: int = 0  # (hypothesis, arc) pairs scored by the language model
    histories: int = 0  # distinct word histories, i.e. steps of the language model
    scores: int = 0  # distinct (history, word) pairs
    calls: int = 0  # batched calls of the language model
    frames: int = 0  # alignment labels on the best paths, if the lattices have alignments
    seconds: float = 0.0  # wall time
    lm_seconds: float = 0.0  # part of `seconds` spent in the language model
    merged: int = 0  # n-best hypotheses that were merged into another one with the same text
    left_out: int = 0  # n-best hypotheses beyond num_best, which are dropped
    coverages: tuple[Coverage, ...] = ()  # coverage of the words of all lattices, one per language model
    vocabulary: VocabularyCheck | None = None  # set by the caller, because a stage does not know the files

    def cover(self, coverages: Sequence[Coverage]) -> None:
        """Add the language models' word coverage of a file to their word coverage of all lattices."""
        self.coverages = added(self.coverages, coverages)

    def note_coverage(self) -> None:
        """Call ``on_note``, if it is set, with a note on each language model's word coverage of all lattices."""
        for coverage in self.coverages:
            if self.on_note is not None:
                self.on_note(f"vocabulary: {coverage}")

    @contextmanager
    def checking_words(self, stage: Any) -> Iterator[Callable[[Inputs], Iterator[Keyed]]]:
        """Return a context manager that checks how well the models of a stage cover the words in lattices.

        Entering the context manager returns a function that yields the lattices in its inputs, and checks the
        words of each file.

        Raises:
            VocabularyError: Too many words are unknown to a model.
        """
        self.vocabulary = check = stage.vocabulary_check(self)
        yield check.read
        check.close()
        self.note_coverage()

    def summary(self, seconds: float, frame_shift: float) -> str:
        """Return a one-line summary of the run.

        Args:
            seconds: Wall time of the run.
            frame_shift: Duration of a frame in seconds.
        """
        audio = self.frames * frame_shift
        sound = f", {audio:.0f} s of audio (real-time factor {seconds / audio:.4f})" if audio else ""
        lists = f", {counted(self.merged, 'hypothesis', 'hypotheses')} with equal texts merged" if self.merged else ""
        lists += (
            f", {counted(self.left_out, 'hypothesis', 'hypotheses')} beyond --num-best dropped" if self.left_out else ""
        )
        return (
            f"{counted(self.lattices, 'lattice')}{lists}, {counted(self.arcs, 'arc')} ({self.expanded_arcs} expanded), "
            f"{self.histories} histories, {self.calls} LM steps with {self.scores} scores, {seconds:.1f} s "
            f"({self.lm_seconds:.1f} s in the LM){sound}"
        )

    def merge(self, part: Log) -> None:
        """Add the entries of another log to this log; word coverage is added only if `vocabulary` is None."""
        if isinstance(part, RescoreReport) and self.vocabulary is None:
            self.cover(part.coverages)
        Log.merge(self, part)


class InFlight:
    """The utterances that were read but not yet returned, and a lock for all state that threads share.

    The lock guards this object, the source, the recording queue, the report, and symbol tables that grow.
    """

    def __init__(self) -> None:
        self.num_arcs = 0  # total number of arcs of the utterances
        self.has_ended = False  # whether the source has no more utterances
        self.has_threads = False  # whether several threads rescore
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._utterances: deque[Utterance] = deque()  # in input order
        self._stopped = False

    @property
    def is_empty(self) -> bool:
        """Whether all results have been returned."""
        return not self._utterances

    def add(self, utterance: Utterance) -> None:
        """Add an utterance and count its arcs as in flight until the utterance is popped."""
        utterance.num_arcs = max(utterance.lattice.num_arcs, 1)
        self._utterances.append(utterance)
        self.num_arcs += utterance.num_arcs

    def pop_done(self) -> Utterance | None:
        """Remove and return the next utterance in input order; return None if it is not done yet."""
        with self.lock:
            if not self._utterances or not self._utterances[0].is_done:
                return None
            self.num_arcs -= self._utterances[0].num_arcs
            self._changed.notify_all()
            return self._utterances.popleft()

    def wait_for_more(self, most_arcs: int) -> bool:
        """Block the calling thread, which is idle, until fewer than `most_arcs` arcs are in flight.

        Returns:
            False if no more utterances will follow, if the threads are stopped, or if there is only one thread.
        """
        if not self.has_threads:
            return False
        with self.lock:
            # This cannot deadlock: another thread computes the oldest utterance, or the main thread returns it.
            self._changed.wait_for(lambda: self.num_arcs < most_arcs or self.has_ended or self._stopped)
            return not self.has_ended and not self._stopped

    def stop(self) -> None:
        """Wake all waiting threads so that they end."""
        with self.lock:
            self._stopped = True
            self._changed.notify_all()


class RecordingQueue:
    """Queue that admits one utterance per recording at a time, or all utterances if words are not carried over."""

    def __init__(self, carry_over: CarryOver | None) -> None:
        self._carry_over = carry_over
        self._waiting: dict[str, deque[Utterance]] = {}  # recording with an utterance in flight → next ones
        self._history: dict[str, list[int]] = {}
        self._begin: dict[str, float] = {}  # start of the last utterance of each recording
        self._ready: deque[Utterance] = deque()

    def enter(self, utterance: Utterance) -> bool:
        """Return whether an utterance can be rescored now; if not, `ready` returns it later.

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
        """Return an utterance that no longer waits for its predecessor in the recording, or None if there is none."""
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


class ContextStage(Protocol):
    """A stage, such as ``ninja.context.Contextual``, that makes phrases more probable before lattices are rescored."""

    forms: LexicalForms | None  # the normalizer of the run; set by `Rescorer`

    @property
    def old_model(self) -> Any:
        """The first-pass language model, if it is loaded."""

    def prepare(self, utterance: Utterance, log: RescoreReport) -> None:
        """Make phrases more probable in the lattice of an utterance, and set the utterance's ``phrases``."""

    def bind(self, words: SymbolTable, log: RescoreReport) -> Any:
        """Load the models of this stage for the symbol table of the lattices."""

    def class_maps(self, words: SymbolTable, log: RescoreReport) -> Sequence[WordMap]:
        """Return maps from a symbol table to the words of class models; the coverage of these models is not tested."""

    def over(self, lm: Model) -> Model:
        """Combine a language model with the context model; without a context model, return the language model."""


class Preparation(Source):
    """Source that prepares the utterances from another source for rescoring.

    Preparation merges n-best hypotheses with equal texts, checks whether the models know the words, and applies the
    context stage.

    Args:
        check: Check for unknown words in all lattices that were not submitted; None if the caller checks the words.
        refuse: Function that is called with each submitted lattice, and raises an error if too many of its words are
            unknown to a model.
        forms: Function that returns the lexical forms of a lattice's words, which are used to compare texts; if it
            returns None, the written texts are compared.
    """

    def __init__(
        self,
        source: Source,
        report: RescoreReport,
        scales: Scales,
        *,
        check: VocabularyCheck | None,
        refuse: Callable[[Lattice], None],
        context: ContextStage | None,
        forms: Callable[[Lattice], LexicalTable | None],
    ) -> None:
        super().__init__()
        self._source = source
        self._report = report
        self._scales = scales
        self._check = check
        self._refuse = refuse
        self._context = context
        self._forms = forms

    def _poll(self) -> Utterance | None:
        while (utterance := self._source.poll()) is not None:
            try:
                if not utterance.is_prepared:
                    self._prepare(utterance)
            except BaseException as error:
                if utterance.future is None:
                    raise
                utterance.finish(error=error)
            utterance.is_prepared = True
            if not utterance.is_done or utterance.future is None:
                return utterance
        if self._source.has_ended and not self.has_ended:
            self.has_ended = True
            if self._check is not None:
                self._check.end_file()
        return None

    def wait(self) -> bool:
        """Wait for the next utterance of the other source; see `Source.wait`."""
        return self._source.wait()

    def _prepare(self, utterance: Utterance) -> None:
        report = self._report
        forms = self._forms(utterance.lattice)
        if isinstance(utterance.lattice, ListLattice):
            self._merge_equal_texts(utterance, utterance.lattice, forms)
        lattice = utterance.lattice
        report.arcs += lattice.num_arcs
        if utterance.future is not None:
            self._refuse(lattice)
        else:
            if ADVICE not in report.notes and is_ambiguous(lattice):
                report.note(ADVICE)
            if self._check is not None:
                self._check.add(lattice)
        if self._context is not None:
            try:
                self._context.prepare(utterance, report)
            except NinjaError as error:
                if utterance.future is not None:
                    raise
                utterance.finish(error=error)  # reported in input order, after the results of earlier utterances

    def _merge_equal_texts(self, utterance: Utterance, lattice: ListLattice, forms: LexicalTable | None) -> None:
        utterance.lattice, num_merged = merge_equal_texts(lattice, self._scales, forms)
        if num_merged and not self._report.merged:
            hypotheses = counted(num_merged, "hypothesis repeats", "hypotheses repeat")
            self._report.note(f"{utterance.key}: {hypotheses} the text of a better one; the probabilities are summed")
        self._report.merged += num_merged


def is_ambiguous(lattice: Lattice) -> bool:
    """Return whether a lattice looks as if it has not been determinized.

    This is the case if more than half of its arcs have no word, or if more than half repeat the word of another arc
    that leaves the same state. Lattices with fewer than `MIN_ARCS` arcs are assumed to be determinized.
    """
    if lattice.num_arcs < MIN_ARCS:
        return False
    num_epsilons = int(np.count_nonzero(lattice.word == EPSILON))
    if num_epsilons > MAX_SHARE * lattice.num_arcs:
        return True
    state = np.repeat(np.arange(lattice.num_states), np.diff(lattice.arc_begin))
    pair = (state << 32) | lattice.word
    num_pairs = np.unique(pair[lattice.word != EPSILON]).size
    return lattice.num_arcs - num_epsilons - num_pairs > MAX_SHARE * lattice.num_arcs
