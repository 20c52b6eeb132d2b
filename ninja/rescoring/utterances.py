"""Utterances in flight, the sources that yield them, their preparation for rescoring, and their order of admission."""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Protocol

import numpy as np

from ninja.errors import LatticeError, NinjaError, counted
from ninja.graph.connect import connect
from ninja.lattice import Lattice, Scales
from ninja.lattice.batch import Keyed, pairs
from ninja.lattice.lattice import ListLattice, as_list_of, frozen
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.lattice.text import LexicalForms, LexicalTable
from ninja.lm.protocol import PhraseMark
from ninja.lm.word_map import WordMap
from ninja.rescoring.carry_over import CarryOver
from ninja.rescoring.models import Model
from ninja.rescoring.report import RescoreReport, VocabularyCheck

PATIENCE = 0.005  # seconds that a batch waits for the next utterance
SECONDS_TO_STOP = 0.5  # how long to wait for the reading thread when a source is closed
RELEASED = Lattice.from_arrays("", [0, 0], [], [], [], [], [0.0])
MIN_ARCS = 500  # smaller lattices are never reported as ambiguous
MAX_SHARE = 0.5  # fraction of ambiguous arcs; determinized lattices have none
ADVICE = (
    "some lattices are not determinized: more than half of their arcs have no word, or have the same word as another "
    "arc of the same state, so rescoring takes many times as long; run ninja prune and ninja determinize-pruned first"
)


class Submission(Future[Lattice]):
    """The future of a submitted lattice; when it is done, `is_complete` tells whether its search was complete."""

    is_complete = True  # False if the deadline expired before the search ended


@dataclass(slots=True, eq=False)
class Utterance:
    """A lattice in flight, from when it is read or submitted until its result is returned."""

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
    error: BaseException | None = None

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
        """Whether the deadline has passed."""
        return self.deadline < math.inf and time.monotonic() >= self.deadline

    def finish(self, result: Lattice | None = None, error: BaseException | None = None) -> None:
        """Set the result or the error, and pass it to the future if there is one."""
        if isinstance(error, NinjaError):
            error.key = error.key or self.key
        self.result, self.error, self.is_done = result, error, True
        with suppress(InvalidStateError):  # the future failed when the service was closed
            if self.future is not None and error is not None:
                self.future.set_exception(error)
            elif self.future is not None:
                assert result is not None
                self.future.set_result(result)

    def release(self) -> None:
        """Free the lattices of a delivered utterance, which remains in the queue until earlier ones are done."""
        self.lattice, self.result, self.phrases, self.future = RELEASED, None, None, None


class Source(ABC):
    """An ordered stream of utterances; the next one may not be available yet."""

    def __init__(self) -> None:
        self.has_ended = False  # no utterance follows those that were read ahead
        self.is_dry = False  # the last `poll` returned None, but more utterances may follow
        self._ahead: deque[Utterance] = deque()

    @abstractmethod
    def _poll(self) -> Utterance | None:
        """Return the next utterance; None if it is not available yet or `has_ended` is true."""

    def wait(self) -> bool:
        """Wait until `poll` may return an utterance; return False if none will follow."""
        return not self.has_ended

    def close(self) -> None:
        """Free the resources of the source."""
        return

    def poll(self) -> Utterance | None:
        """Return the next utterance; None if it is not available yet or `has_ended` is true."""
        utterance = self._ahead.popleft() if self._ahead else self._poll()
        self.is_dry = utterance is None and not self.has_ended
        return utterance

    def read_ahead(self, num_arcs: int = 0) -> Sequence[Utterance]:
        """Return the next utterances without consuming them.

        Reads at least one utterance, then more until they have `num_arcs` arcs in total or no more are available yet.
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
        """Wait for the next utterance and return it without consuming it; None if none will follow."""
        while not self.read_ahead():
            if self.has_ended or not self.wait():
                return None
        return self._ahead[0]

    def __iter__(self) -> Iterator[Utterance]:
        """Yield the utterances, waiting until each is available."""
        while True:
            utterance = self.poll()
            if utterance is not None:
                yield utterance
            elif self.has_ended or not self.wait():
                return


class IterableSource(Source):
    """The utterances of an iterable; `poll` blocks until the next one is available."""

    def __init__(self, lattices: Iterable[Keyed]) -> None:
        super().__init__()
        self._pairs = pairs(lattices)

    def _poll(self) -> Utterance | None:
        for _, lattice in self._pairs:
            return Utterance(lattice)
        self.has_ended = True
        return None


class Prefetch(Source):
    """The utterances of a possibly slow iterable, which is read in a thread.

    The thread reads one lattice per request and never reads ahead. It ends when the iterable ends or raises an error,
    or on `close`. Errors of the iterable are raised by `wait`.
    """

    def __init__(self, lattices: Iterable[Keyed]) -> None:
        super().__init__()
        self._pairs = pairs(lattices)
        self._requests: SimpleQueue[bool] = SimpleQueue()  # True: one more lattice; False: close
        self._items: SimpleQueue[Keyed | BaseException] = SimpleQueue()
        self._requested = 0.0  # time of the pending request, 0 if there is none
        self._item: Keyed | BaseException | None = None  # the reply to the pending request
        self._thread: threading.Thread | None = None

    def _poll(self) -> Utterance | None:
        """Return the next utterance; None if it is not read within `PATIENCE` seconds of the request."""
        self._request()
        if self._item is None:
            try:
                self._item = self._items.get(timeout=max(0.0, self._requested + PATIENCE - time.monotonic()))
            except Empty:
                return None
        if isinstance(self._item, BaseException):
            self.has_ended = isinstance(self._item, _End)
            return None
        (_, lattice), self._item = self._item, None
        self._requested = 0.0
        return Utterance(lattice)

    def wait(self) -> bool:
        """Wait until the next lattice is read; raise the error of the iterable if it failed."""
        self._request()
        if self._item is None:
            self._item = self._items.get()
        if isinstance(self._item, BaseException) and not isinstance(self._item, _End):
            raise self._item
        return True

    def close(self) -> None:
        """End the thread; if it is waiting for the iterable, it ends after the next lattice."""
        self._requests.put(False)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(SECONDS_TO_STOP)

    def _request(self) -> None:
        if self._requested:
            return
        if self._thread is None:
            arguments = (self._pairs, self._requests, self._items)  # not `self`, so that it can be garbage-collected
            self._thread = threading.Thread(target=_read, args=arguments, name="ninja-prefetch", daemon=True)
            self._thread.start()
        self._requested = time.monotonic()
        self._requests.put(True)


class _End(Exception):
    """Marks the end of the iterable."""


def _read(lattices: Iterator[Keyed], requests: SimpleQueue[bool], items: SimpleQueue[Keyed | BaseException]) -> None:
    """Put a lattice into a queue for each request, and finally `_End` or the error."""
    try:
        while requests.get():
            items.put(next(lattices))
    except StopIteration:
        items.put(_End())
    except BaseException as error:  # raised in the caller's thread
        items.put(error)
    finally:
        lattices.close()  # type: ignore[attr-defined]


def is_ambiguous(lattice: Lattice) -> bool:
    """Return whether most arcs have no word, or most share their word with another arc that leaves the same state."""
    if lattice.num_arcs < MIN_ARCS:
        return False
    num_epsilons = int(np.count_nonzero(lattice.word == EPSILON))
    if num_epsilons > MAX_SHARE * lattice.num_arcs:
        return True
    state = np.repeat(np.arange(lattice.num_states), np.diff(lattice.arc_begin))
    pair = (state << 32) | lattice.word
    num_pairs = np.unique(pair[lattice.word != EPSILON]).size
    return lattice.num_arcs - num_epsilons - num_pairs > MAX_SHARE * lattice.num_arcs


def merge_equal_texts(lattice: Lattice, scales: Scales, forms: LexicalTable | None = None) -> tuple[Lattice, int]:
    """Merge the hypotheses of an n-best list that have equal text, summing their probabilities.

    The cost of a hypothesis is ``acoustic scale · acoustic + LM scale · graph``; the merged cost is
    ``-log Σ exp(-cost)``. The best hypothesis is kept, and the difference is added to its acoustic cost, or to its
    graph cost if the acoustic scale is 0.

    Args:
        lattice: Any lattice; only n-best lists are changed.
        scales: Scales of the costs.
        forms: Lexical forms by which words are compared.  [default: compare words as they are written]

    Returns:
        The lattice and the number of hypotheses that were merged into others.
    """
    if not isinstance(lattice, ListLattice) or np.unique(lattice.dst).size < lattice.num_arcs:
        return lattice, 0  # not an n-best list, or no longer a tree
    groups = _paths_by_words(lattice, forms)
    num_merged = sum(len(states) - 1 for states, _, _ in groups)
    if num_merged <= 0:
        return lattice, 0
    final_graph = np.full(lattice.num_states, np.inf, np.float32)
    final_acoustic = final_graph.copy()
    for states, graph, acoustic in groups:
        costs = scales.acoustic * np.array(acoustic) + scales.lm * np.array(graph)
        best = int(costs.argmin())
        state = states[best]
        gain = -np.log(np.exp(costs[best] - costs).sum())
        final_graph[state], final_acoustic[state] = lattice.final_graph[state], lattice.final_acoustic[state]
        if len(states) > 1 and scales.acoustic > 0:
            final_acoustic[state] += gain / scales.acoustic
        elif len(states) > 1 and scales.lm > 0:
            final_graph[state] += gain / scales.lm
    merged = connect(lattice.replace(final_graph=frozen(final_graph), final_acoustic=frozen(final_acoustic)))
    listed = as_list_of(lattice, merged)
    assert isinstance(listed, ListLattice)
    return ListLattice.of(listed, len(groups), lattice.record), num_merged


def _paths_by_words(lattice: Lattice, forms: LexicalTable | None) -> list[tuple[list[int], list[float], list[float]]]:
    """Group the paths of a tree by their words; return the final states, graph and acoustic costs of each group."""
    arrays = (lattice.src, lattice.dst, lattice.word, lattice.graph, lattice.acoustic)
    arcs = zip(*(array.tolist() for array in arrays), strict=True)
    history = [0] * lattice.num_states  # id of the word sequence that leads to each state
    graph_cost = [0.0] * lattice.num_states
    acoustic_cost = [0.0] * lattice.num_states
    longer: dict[tuple[int, int], int] = {}
    for src, dst, word, graph, acoustic in arcs:  # a state is entered before it is left
        known = history[src]
        for lexical in (word,) if forms is None else forms.form(word):
            known = known if lexical == EPSILON else longer.setdefault((known, lexical), len(longer) + 1)
        history[dst] = known
        graph_cost[dst] = graph_cost[src] + graph
        acoustic_cost[dst] = acoustic_cost[src] + acoustic
    groups: dict[int, tuple[list[int], list[float], list[float]]] = {}
    for state in np.flatnonzero(lattice.is_final).tolist():
        states, graphs, acoustics = groups.setdefault(history[state], ([], [], []))
        states.append(state)
        graphs.append(graph_cost[state] + float(lattice.final_graph[state]))
        acoustics.append(acoustic_cost[state] + float(lattice.final_acoustic[state]))
    return list(groups.values())


class ContextStage(Protocol):
    """A stage that makes phrases more probable before lattices are rescored, such as ``ninja.context.Contextual``."""

    forms: LexicalForms | None  # the normalizer of the run; set by `Rescorer`

    @property
    def old_model(self) -> Any:
        """The first-pass language model, if it is loaded."""

    def prepare(self, utterance: Utterance, log: RescoreReport) -> None:
        """Add the context to the lattice of an utterance, and set its ``phrases``."""

    def bind(self, words: SymbolTable, log: RescoreReport) -> Any:
        """Load the models for the lattices' words."""

    def class_maps(self, words: SymbolTable, log: RescoreReport) -> Sequence[WordMap]:
        """Return the maps from a symbol table to the words of class models, which may lack any number of words."""

    def over(self, lm: Model) -> Model:
        """Wrap a language model so that it reads phrases; return it unchanged if there is no context model."""


class Preparation(Source):
    """The prepared utterances of a source.

    Args:
        check: Checks the words of all lattices; None if the caller does.
        refuse: Called with each submitted lattice; raises an error if models lack too many of its words.
        forms: Returns the lexical forms of a lattice's words, or None to compare texts as they are written.
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
            if not utterance.is_done:
                utterance.is_prepared = True
                return utterance
        if self._source.has_ended and not self.has_ended:
            self.has_ended = True
            if self._check is not None:
                self._check.end_file()
        return None

    def wait(self) -> bool:
        """See `Source.wait`."""
        return self._source.wait()

    def _prepare(self, utterance: Utterance) -> None:
        report = self._report
        table = self._forms(utterance.lattice)
        utterance.lattice, num_merged = merge_equal_texts(utterance.lattice, self._scales, table)
        lattice = utterance.lattice
        if num_merged and not report.merged:
            hypotheses = counted(num_merged, "hypothesis repeats", "hypotheses repeat")
            report.note(f"{utterance.key}: {hypotheses} the text of another; the probabilities are summed")
        report.merged += num_merged
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
                report.fail(error, utterance.key)
                utterance.finish(error=error)


class RecordingQueue:
    """Admit one utterance per recording at a time; without carry-over, admit every utterance at once."""

    def __init__(self, carry_over: CarryOver | None) -> None:
        self._carry_over = carry_over
        self._waiting: dict[str, deque[Utterance]] = {}  # by recording, for recordings with an utterance in flight
        self._history: dict[str, list[int]] = {}
        self._begin: dict[str, float] = {}  # start of the last utterance of each recording
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
