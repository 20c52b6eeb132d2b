"""Utterances in flight, the sources that they are read from, and the preparation of their lattices."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from ninja.errors import NinjaError
from ninja.graph.connect import connect
from ninja.lattice import Lattice, Scales
from ninja.lattice.arrays import frozen
from ninja.lattice.batch import Keyed, pairs
from ninja.lattice.lattice import ListLattice, as_list_of
from ninja.lattice.symbols import EPSILON
from ninja.lattice.text import LexicalTable
from ninja.lm.protocol import PhraseMark

PATIENCE = 0.005  # seconds that a batch waits for one more utterance
SECONDS_TO_STOP = 0.5  # for a source that is still busy when its lattices are no longer wanted
RELEASED = Lattice.from_arrays("", [0, 0], [], [], [], [], [0.0])
MIN_ARCS = 500  # of ambiguous lattices; smaller ones take little time
MAX_SHARE = 0.5  # of ambiguous arcs; determinized lattices have none
ADVICE = (
    "some lattices are not determinized: half of their arcs have no word, or repeat a word of their state, so that a "
    "rescoring takes many times as long; first ninja prune, then ninja determinize-pruned"
)


@dataclass(slots=True, eq=False)
class Utterance:
    """A lattice from when it is read or submitted until its result is delivered."""

    lattice: Lattice
    entities: Any = None  # phrases of this utterance alone, for the context stage
    future: Future[Lattice] | None = None  # of the caller who submitted it
    phrases: PhraseMark | None = None  # all its phrases, for a model that reads them
    recording: str | None = None  # whose words are carried over
    history: Sequence[int] = ()  # the language model's words of the utterances before it
    num_arcs: int = 0  # counted in the limit of arcs in flight
    is_prepared: bool = False  # by the context stage
    is_done: bool = False
    result: Lattice | None = None
    error: BaseException | None = None

    @property
    def key(self) -> str:
        """Utterance id."""
        return self.lattice.key

    @property
    def first_words(self) -> tuple[int, ...]:
        """Words that the language model reads first: the mark of the phrases, and the history."""
        return (*(() if self.phrases is None else (self.phrases.number,)), *self.history)

    def finish(self, result: Lattice | None = None, error: BaseException | None = None) -> None:
        """Set the result or the error, and pass it to the future if there is one."""
        if isinstance(error, NinjaError):
            error.key = error.key or self.key
        self.result, self.error, self.is_done = result, error, True
        with suppress(InvalidStateError):  # set already, when the service was closed
            if self.future is not None and error is not None:
                self.future.set_exception(error)
            elif self.future is not None:
                assert result is not None
                self.future.set_result(result)

    def release(self) -> None:
        """Drop the lattices of a delivered utterance, which keeps its place behind slower ones."""
        self.lattice, self.result, self.phrases, self.future = RELEASED, None, None, None


class Source(ABC):
    """Utterances in order, the next of which may not be there yet."""

    def __init__(self) -> None:
        self.has_ended = False  # no utterance follows those read ahead
        self.is_dry = False  # the last `poll` found none, but more may follow
        self._ahead: deque[Utterance] = deque()

    @abstractmethod
    def _poll(self) -> Utterance | None:
        """Return the next utterance; None if it is not there yet, or `has_ended`."""

    def wait(self) -> bool:
        """Wait until `poll` may return an utterance; return False if none follows."""
        return not self.has_ended

    def close(self) -> None:
        """Free the resources of the source."""
        return

    def poll(self) -> Utterance | None:
        """Return the next utterance; None if it is not there yet, or `has_ended`."""
        utterance = self._ahead.popleft() if self._ahead else self._poll()
        self.is_dry = utterance is None and not self.has_ended
        return utterance

    def read_ahead(self, num_arcs: int = 0) -> Sequence[Utterance]:
        """Return the next utterances, which `poll` returns again: one, or more up to a number of arcs.

        There are fewer if the next is not there yet.
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
        """Wait for the next utterance, which `poll` returns again; None if there is none."""
        while not self.read_ahead():
            if self.has_ended or not self.wait():
                return None
        return self._ahead[0]

    def __iter__(self) -> Iterator[Utterance]:
        """Yield the utterances, waiting for each."""
        while True:
            utterance = self.poll()
            if utterance is not None:
                yield utterance
            elif self.has_ended or not self.wait():
                return


class IterableSource(Source):
    """The utterances of an iterable; `poll` waits for each."""

    def __init__(self, lattices: Iterable[Keyed]) -> None:
        super().__init__()
        self._pairs = pairs(lattices)

    def _poll(self) -> Utterance | None:
        for _, lattice in self._pairs:
            return Utterance(lattice)
        self.has_ended = True
        return None


class Prefetch(Source):
    """The utterances of an iterable that may be slow, read in a thread.

    The thread reads a lattice when one is polled for, never more. It ends with the iterable, its error or `close`.
    `wait` raises the errors of the iterable.
    """

    def __init__(self, lattices: Iterable[Keyed]) -> None:
        super().__init__()
        self._pairs = pairs(lattices)
        self._requests: SimpleQueue[bool] = SimpleQueue()  # True: one more lattice; False: close
        self._items: SimpleQueue[Keyed | BaseException] = SimpleQueue()
        self._requested = 0.0  # when; 0: no request is open
        self._item: Keyed | BaseException | None = None  # the answer to the open request
        self._thread: threading.Thread | None = None

    def _poll(self) -> Utterance | None:
        """Return the next utterance; None if it is not read within some milliseconds of the request."""
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
        """Wait until the next lattice is read, or raise the error of the iterable."""
        self._request()
        if self._item is None:
            self._item = self._items.get()
        if isinstance(self._item, BaseException) and not isinstance(self._item, _End):
            raise self._item
        return True

    def close(self) -> None:
        """End the thread; one that waits for the iterable ends after its next lattice."""
        self._requests.put(False)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(SECONDS_TO_STOP)

    def _request(self) -> None:
        if self._requested:
            return
        if self._thread is None:
            arguments = (self._pairs, self._requests, self._items)  # not `self`, which may be dropped without `close`
            self._thread = threading.Thread(target=_read, args=arguments, name="ninja-prefetch", daemon=True)
            self._thread.start()
        self._requested = time.monotonic()
        self._requests.put(True)


class _End(Exception):
    """The end of an iterable."""


def _read(lattices: Iterator[Keyed], requests: SimpleQueue[bool], items: SimpleQueue[Keyed | BaseException]) -> None:
    """Put a lattice into a queue for each request; in the end `_End`, or the error."""
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
    """Tell whether most arcs have no word, or most repeat a word of another arc that leaves their state."""
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
    """Merge the hypotheses of an n-best list that have the same words; their probabilities add up.

    The cost of a hypothesis is ``acoustic scale · acoustic + LM scale · graph``; that of the merged one is
    ``-log Σ exp(-cost)``. The best of the hypotheses remains, and the difference is added to its acoustic cost, or to
    its graph cost at an acoustic scale of 0.

    Args:
        lattice: Any lattice; one that is not of an n-best list is returned unchanged.
        forms: Lexical forms, by which words are compared; by default, words are compared as they are.

    Returns:
        The lattice and the number of hypotheses that were merged into others.
    """
    if not isinstance(lattice, ListLattice) or np.unique(lattice.dst).size < lattice.num_arcs:
        return lattice, 0  # none of a list, or not its tree any more
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
    """Group the paths of a tree by their words: their final states, graph costs and acoustic costs."""
    arrays = (lattice.src, lattice.dst, lattice.word, lattice.graph, lattice.acoustic)
    arcs = zip(*(array.tolist() for array in arrays), strict=True)
    history = [0] * lattice.num_states  # number of the words that lead to each state
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
