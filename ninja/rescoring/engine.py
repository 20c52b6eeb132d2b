"""The engine: rescores many utterances at once in batched language model calls, and returns results in input order.

The result of an utterance does not depend on the others in flight. With several threads, each thread takes the next
utterance when its batch has capacity, and calls a copy of the model that shares its weights.
"""

from __future__ import annotations

import copy
import sys
import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import closing
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ninja.errors import LatticeError, ModelError, NinjaError
from ninja.files.threads import starting_threads
from ninja.graph import best_path, connect, path_lattice, reverse, select_arcs
from ninja.lattice import Lattice
from ninja.lattice.lattice import as_list_of, frozen
from ninja.lm import LanguageModel
from ninja.rescoring.models import BoundModels
from ninja.rescoring.options import EngineOptions
from ninja.rescoring.report import RescoreReport
from ninja.rescoring.utterances import RecordingQueue, Source, Utterance

SECONDS_TO_STOP = 10.0  # how long to wait for threads to end when a run is stopped

Slots = npt.NDArray[np.int64]
Words = npt.NDArray[np.int32]
Answers = tuple[Slots, npt.NDArray[np.float32], float]
Scalar = TypeVar("Scalar", bound=np.generic)
Result = TypeVar("Result")


class InFlight:
    """Utterances that were read but not yet returned, and the lock that guards all shared state.

    The lock also guards the source, the recording queue, the report, and symbol tables that grow.
    """

    def __init__(self) -> None:
        self.num_arcs = 0  # number of arcs of all utterances
        self.has_ended = False  # no utterance follows in the source
        self.has_threads = False  # several threads rescore
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._utterances: deque[Utterance] = deque()  # in input order
        self._stopped = False

    @property
    def is_empty(self) -> bool:
        """True if all results have been returned."""
        return not self._utterances

    def add(self, utterance: Utterance) -> None:
        """Add an utterance; its arcs are counted until it is popped."""
        utterance.num_arcs = max(utterance.lattice.num_arcs, 1)
        self._utterances.append(utterance)
        self.num_arcs += utterance.num_arcs

    def pop_done(self) -> Utterance | None:
        """Remove and return the next utterance in input order, if it is done."""
        with self.lock:
            if not self._utterances or not self._utterances[0].is_done:
                return None
            self.num_arcs -= self._utterances[0].num_arcs
            self._changed.notify_all()
            return self._utterances.popleft()

    def wait_for_more(self, most_arcs: int) -> bool:
        """Block an idle thread until fewer than `most_arcs` arcs are in flight.

        Returns:
            False if no more utterances will come, or if there is only one thread.
        """
        if not self.has_threads:
            return False
        with self.lock:
            # Another thread computes the oldest utterance, or the main thread returns it.
            self._changed.wait_for(lambda: self.num_arcs < most_arcs or self.has_ended or self._stopped)
            return not self.has_ended and not self._stopped

    def stop(self) -> None:
        """Wake all waiting threads so that they end."""
        with self.lock:
            self._stopped = True
            self._changed.notify_all()


class Engine(Source):
    """One pass of a model over the utterances of a source; subclasses implement the algorithms."""

    def __init__(
        self,
        source: Source,
        models: BoundModels,
        options: EngineOptions,
        queue: RecordingQueue,
        report: RescoreReport,
        num_threads: int = 1,
    ) -> None:
        super().__init__()
        self.source = source
        self.models = models
        self.options = options
        self.queue = queue
        self.report = report
        self.num_threads = num_threads  # 1 is used if a model has no `LanguageModel.twin`
        self.batch_arcs = options.batch_arcs  # per thread
        self.in_flight = InFlight()
        self._steps: Generator[None, None, None] | None = None

    def _poll(self) -> Utterance | None:
        """Return the next rescored utterance in input order, skipping those already delivered to a future."""
        if self._steps is None:
            ahead = self.source.read_ahead(self.options.batch_arcs)
            if not ahead:
                self.has_ended = self.source.has_ended
                return None
            self.models.bind([utterance.lattice for utterance in ahead])
            self._steps = self._start()
        while True:
            while (utterance := self.in_flight.pop_done()) is not None:
                if utterance.result is not None:  # otherwise it failed, or was delivered
                    return utterance
            if next(self._steps, True):  # steps yield None, so True means that they have ended
                self.has_ended = True
                return None
            if self.source.is_dry and self.in_flight.is_empty:
                return None

    def wait(self) -> bool:
        """See `Source.wait`."""
        return self.source.wait()

    def close(self) -> None:
        """Stop the threads and release all histories."""
        if self._steps is not None:
            self._steps.close()

    def _start(self) -> Generator[None, None, None]:
        """Start rescoring on one thread or on several; see `steps`."""
        models = self.models.for_threads(self.num_threads)
        if len(models) < 2:
            return self.steps(BatchedLM(self.models.lm))
        engines = [copy.copy(self) for _ in models]
        for engine, bound in zip(engines, models, strict=True):
            engine.models = bound
            engine.batch_arcs = max(1, self.options.batch_arcs // len(models))
        return on_threads([engine.steps(BatchedLM(engine.models.lm)) for engine in engines], self.in_flight)

    @abstractmethod
    def steps(self, lm: BatchedLM) -> Generator[None, None, None]:
        """Rescore with a model, yielding whenever utterances may be done."""

    def next_utterance(self, most_arcs: float) -> Utterance | None:
        """Return the next utterance to rescore; None if none is available yet or too many arcs are in flight."""
        while True:
            utterance = self.queue.ready()
            if utterance is not None:
                return utterance
            if self.in_flight.num_arcs >= most_arcs:
                return None
            utterance = self.source.poll()
            if utterance is None:
                self.in_flight.has_ended = self.source.has_ended
                return None
            if utterance.result is not None:  # the result of the previous pass
                utterance.lattice, utterance.result, utterance.is_done = utterance.result, None, False
                utterance.recording, utterance.history = None, ()
            self.in_flight.add(utterance)
            try:
                if self.queue.enter(utterance):
                    if not utterance.is_expired:
                        return utterance
                    self.finish_early(utterance)
            except LatticeError as error:
                self.fail(utterance, error)

    def finish(self, utterance: Utterance, result: Lattice, words: Sequence[int] = ()) -> None:
        """Set the result of an utterance, and carry its words over to the recording's next utterance."""
        result = as_list_of(utterance.lattice, reverse(result) if self.options.backward else result)
        with self.in_flight.lock:
            if utterance.future is not None:
                self.report.lattices += 1
            self.queue.leave(utterance, words)
            utterance.finish(result)
            if utterance.future is not None:
                utterance.release()

    def finish_early(self, utterance: Utterance) -> None:
        """Set the first pass as the result of an utterance whose deadline has expired."""
        lattice = utterance.lattice
        if self.options.output == "best":
            lattice = path_lattice(lattice, best_path(lattice, self.options.scales))
        if utterance.future is not None:
            utterance.future.is_complete = False
        self.finish(utterance, reverse(lattice) if self.options.backward else lattice)

    def fail(self, utterance: Utterance, error: NinjaError) -> None:
        """Set the error of an utterance, and report it unless the utterance was submitted with a future."""
        with self.in_flight.lock:
            if utterance.future is None:
                self.report.fail(error, utterance.key)
            self.queue.leave(utterance, ())
            utterance.finish(error=error)
            if utterance.future is not None:
                utterance.release()

    def note(self, notes: list[str]) -> None:
        """Move the notes of a model to the report."""
        with self.in_flight.lock:
            while notes:
                self.report.note(notes.pop(0))


def on_threads(jobs: Sequence[Generator[None, None, None]], in_flight: InFlight) -> Generator[None, None, None]:
    """Run each generator to completion in its own thread.

    Yields whenever a generator yields or finishes, and raises the first error. While they run, torch is limited to one
    thread per generator.
    """
    in_flight.has_threads = True
    events: SimpleQueue[BaseException | None] = SimpleQueue()
    is_stopped = threading.Event()

    def run(job: Generator[None, None, None]) -> None:
        event: BaseException = _Ended()
        try:
            with closing(job):
                for _ in job:
                    events.put(None)
                    if is_stopped.is_set():
                        break
        except BaseException as error:  # raised in the caller's thread
            event = error
        events.put(event)

    torch: Any = sys.modules.get("torch")
    torch_threads = 0 if torch is None else torch.get_num_threads()
    threads = [
        threading.Thread(target=run, args=(job,), name=f"rescoring-{number}", daemon=True)
        for number, job in enumerate(jobs)
    ]
    try:
        if torch is not None:
            torch.set_num_threads(1)  # also applies to threads started later
        with starting_threads():
            for thread in threads:
                thread.start()
        num_running = len(threads)
        while num_running:
            event = events.get()
            if isinstance(event, _Ended):
                num_running -= 1
            elif event is not None:
                raise event
            yield
    finally:
        is_stopped.set()
        in_flight.stop()
        until = time.monotonic() + SECONDS_TO_STOP
        for thread in threads:
            if thread.ident is not None:  # the thread was started; one that still waits for its source is abandoned
                thread.join(max(0.0, until - time.monotonic()))
        if torch is not None:
            torch.set_num_threads(torch_threads)


class _Ended(BaseException):
    """Event of a thread that has finished."""


class InThisThread:
    """A `concurrent.futures` executor that calls functions immediately, in the calling thread."""

    def submit(self, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """Call a function and return a completed future with its result or error."""
        future: Future[Result] = Future()
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)
        return future

    def __enter__(self) -> InThisThread:
        return self

    def __exit__(self, *error: object) -> None:
        return


def with_replaced_costs(
    source: Lattice, graph: npt.NDArray[np.float32], final_graph: npt.NDArray[np.float32]
) -> Lattice:
    """Replace the graph costs, and remove the arcs and final states whose new cost is infinite: they were not scored.

    Args:
        graph: New graph costs, [num_arcs].
        final_graph: New final graph costs, [num_states].
    """
    final_acoustic = np.where(np.isinf(final_graph), np.float32(np.inf), source.final_acoustic)
    used = np.isfinite(graph)
    changed = source.with_costs(np.where(used, graph, np.float32(0)))
    changed = changed.replace(final_graph=frozen(final_graph), final_acoustic=frozen(final_acoustic))
    return connect(changed if used.all() else select_arcs(changed, used))


class BatchedLM(LanguageModel, locks=False):
    """A language model that is called with at most `limit` histories or words at once; None means no limit.

    If a call runs out of memory, the limit becomes half its batch size for the rest of the run, and the call is
    repeated in smaller batches.
    """

    def __init__(self, lm: LanguageModel) -> None:
        self.lm = lm
        self.limit: int | None = None
        self.notes: list[str] = []  # for the user, from the thread in which the model is called
        self.vocabulary, self.bos, self.eos = lm.vocabulary, lm.bos, lm.eos
        self.unk, self.unk_words = lm.unk, lm.unk_words
        self.scores_tries, self.whole_sentences = lm.scores_tries, lm.whole_sentences
        self.takes_phrases, self.takes_prompts = lm.takes_phrases, lm.takes_prompts
        self._too_many = 0  # batch size of the first call that ran out of memory since the last success

    @property
    def end_of_ids(self) -> int:
        """See `LanguageModel.end_of_ids`."""
        return self.lm.end_of_ids

    def start(self, count: int) -> Slots:
        """See `LanguageModel.start`."""
        return self.lm.start(count)

    def release(self, slots: Slots) -> None:
        """See `LanguageModel.release`."""
        self.lm.release(slots)

    def score_trie(self, parent: Words, word: Words) -> npt.NDArray[np.float32]:
        """See `LanguageModel.score_trie`."""
        return self.lm.score_trie(parent, word)

    def advance(self, slots: Slots, words: Words) -> Slots:
        """See `LanguageModel.advance`; new slots are released if this fails."""
        return self._in_pieces("advance", slots, words, np.empty(0, np.int64))

    def logprob(self, slots: Slots, words: Words) -> npt.NDArray[np.float32]:
        """See `LanguageModel.logprob`."""
        return self._in_pieces("logprob", slots, words, np.empty(0, np.float32))

    def wave(
        self, obsolete: Slots, advance_slot: Slots, advance_word: Words, score_slot: Slots, score_word: Words
    ) -> Answers:
        """Run one wave of the search: release slots, extend histories and score words.

        If scoring fails, the slots of the new histories are released.

        Args:
            obsolete: Slots to release.
            advance_slot: Slots of the histories to extend.
            advance_word: Word that extends each history.
            score_slot: Slot of the history before each word to score; -1 - i selects the i-th new history. Negative
                entries are replaced in place.
            score_word: The words to score.

        Returns:
            Slots of the new histories, natural-log probabilities, and the elapsed seconds.

        Raises:
            ModelError: The model returned a wrong number of values, or a single history does not fit into memory.
        """
        start = time.perf_counter()
        if obsolete.size:
            self.release(obsolete)
        new_slots = self.advance(advance_slot, advance_word)
        is_new = score_slot < 0
        score_slot[is_new] = new_slots[-1 - score_slot[is_new]]
        try:
            logprob = self.logprob(score_slot, score_word)
        except BaseException:
            self.release(new_slots)
            raise
        return new_slots, logprob, time.perf_counter() - start

    def _in_pieces(self, method: str, slots: Slots, words: Words, empty: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """Call a method on batches of slots that are as large as the limit and the memory allow."""
        pieces: list[npt.NDArray[Scalar]] = []
        first = 0
        try:
            while first < slots.size:
                last = slots.size if self.limit is None else min(slots.size, first + self.limit)
                try:
                    answer: Any = getattr(self.lm, method)(slots[first:last], words[first:last])
                except (MemoryError, RuntimeError) as error:
                    if not out_of_memory(error):
                        raise
                    self._halve(last - first, error)
                    continue
                if np.shape(answer) != (last - first,):
                    raise ModelError(
                        f"the model's {method} returned shape {np.shape(answer)} for a batch of {last - first}"
                    )
                if self._too_many:
                    self.notes.append(
                        f"out of memory with a language model batch of {self._too_many}; batches are limited to "
                        f"{self.limit} from now on"
                    )
                    self._too_many = 0
                pieces.append(np.ascontiguousarray(answer, empty.dtype))
                first = last
        except BaseException:
            if method == "advance":
                for piece in pieces:
                    self.release(piece)  # type: ignore[arg-type]
            raise
        return pieces[0] if len(pieces) == 1 else np.concatenate([empty, *pieces])

    def _halve(self, size: int, error: BaseException) -> None:
        if size == 1:
            raise ModelError(
                "out of memory for a single history of the language model; use a smaller batch_arcs, max_active "
                "or model"
            ) from error
        self.limit = size // 2
        self._too_many = self._too_many or size
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            torch.cuda.empty_cache()  # reduces fragmentation


def out_of_memory(error: BaseException) -> bool:
    """Return whether the error means that numpy or torch ran out of memory."""
    torch = sys.modules.get("torch")
    return (
        isinstance(error, MemoryError)
        or (torch is not None and isinstance(error, torch.OutOfMemoryError))
        or "DefaultCPUAllocator: can't allocate memory" in str(error)  # torch raises a plain RuntimeError here
    )
