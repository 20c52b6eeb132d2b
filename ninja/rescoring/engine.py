"""The engine, which rescores many utterances concurrently, and the arc-beam and push-forward searches.

Results are returned in input order, and do not depend on the other utterances in flight. With several threads, each
thread takes the next utterance when its batch has capacity. Each thread calls a separate copy of the model; the copies
share the weights. The lattices in a search are divided into two halves: while the language model scores one half in a
separate thread, the other half is expanded; then the two halves swap roles.
"""

from __future__ import annotations

import copy
import sys
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from queue import SimpleQueue
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from ninja import _search
from ninja.errors import LatticeError, ModelError, NinjaError, starting_threads
from ninja.graph import best_path, connect, path_lattice, reverse, select_arcs
from ninja.lattice import Lattice
from ninja.lattice.lattice import as_list_of, frozen
from ninja.lm.protocol import Answers, BatchedLM
from ninja.rescoring.models import BoundModels
from ninja.rescoring.options import MAX_ARCS, Algorithm, EngineOptions, SearchOptions
from ninja.rescoring.utterances import InFlight, RecordingQueue, RescoreReport, Source, Utterance

SECONDS_TO_STOP = 10.0  # how long to wait for threads to end when a run is stopped

Result = TypeVar("Result")


class Engine(Source):
    """One pass of a model over the utterances from a source; subclasses implement the algorithms."""

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
        self.num_threads = num_threads  # reduced to 1 if `LanguageModel.twin` returns None
        self.batch_arcs = options.batch_arcs  # per thread
        self.in_flight = InFlight()
        self._steps: Generator[None, None, None] | None = None

    def _poll(self) -> Utterance | None:
        """Return the next rescored or failed utterance in input order; utterances with a future are skipped."""
        if self._steps is None:
            ahead = self.source.read_ahead(self.options.batch_arcs)
            if not ahead:
                self.has_ended = self.source.has_ended
                return None
            self.models.bind([utterance.lattice for utterance in ahead])
            self._steps = self._start()
        while True:
            while (utterance := self.in_flight.pop_done()) is not None:
                if utterance.result is not None or utterance.error is not None:  # otherwise, its future has the result
                    return utterance
            if next(self._steps, True):  # a step yields None, so True means that no step is left
                self.has_ended = True
                return None
            if self.source.is_dry and self.in_flight.is_empty:
                return None

    def wait(self) -> bool:
        """Wait for the next utterance of the source; see `Source.wait`."""
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
        """Rescore utterances with a language model, and yield after each step; a step can finish several utterances."""

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
            if utterance.result is not None:  # the previous pass rescored it; this pass starts from the result
                utterance.lattice, utterance.result, utterance.is_done = utterance.result, None, False
                utterance.recording, utterance.history = None, ()
            self.in_flight.add(utterance)
            if utterance.error is not None:  # an earlier stage failed
                continue
            try:
                if self.queue.enter(utterance):
                    if not utterance.is_expired:
                        return utterance
                    self.finish_early(utterance)
            except LatticeError as error:
                self.fail(utterance, error)

    def finish(self, utterance: Utterance, result: Lattice, words: Sequence[int] = ()) -> None:
        """Set the result of an utterance, and add `words` to the history for the next utterance in the recording."""
        result = as_list_of(utterance.lattice, reverse(result) if self.options.backward else result)
        with self.in_flight.lock:
            if utterance.future is not None:
                self.report.lattices += 1
            self.queue.leave(utterance, words)
            utterance.finish(result)
            if utterance.future is not None:
                utterance.release()

    def finish_early(self, utterance: Utterance) -> None:
        """Finish an utterance whose deadline has expired; the result keeps the first-pass costs."""
        lattice = utterance.lattice
        if self.options.output == "best":
            lattice = path_lattice(lattice, best_path(lattice, self.options.scales))
        if utterance.future is not None:
            utterance.future.is_complete = False
        self.finish(utterance, reverse(lattice) if self.options.backward else lattice)

    def fail(self, utterance: Utterance, error: NinjaError) -> None:
        """Set the error of an utterance; unless it has a future, the error is reported after all earlier results."""
        with self.in_flight.lock:
            self.queue.leave(utterance, ())
            utterance.finish(error=error)
            if utterance.future is not None:
                utterance.release()

    def note(self, notes: list[str]) -> None:
        """Add the notes of a language model to the report, and remove them from the list."""
        with self.in_flight.lock:
            while notes:
                self.report.note(notes.pop(0))


def on_threads(jobs: Sequence[Generator[None, None, None]], in_flight: InFlight) -> Generator[None, None, None]:
    """Run each generator to completion in a separate thread.

    Yields whenever a generator yields or finishes, and raises the first error. While the generators run, torch is
    limited to one thread per generator.
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
        except BaseException as error:  # the caller's thread raises the error
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
            if thread.ident is not None:  # started; a thread that still waits for its source is abandoned
                thread.join(max(0.0, until - time.monotonic()))
        if torch is not None:
            torch.set_num_threads(torch_threads)


class _Ended(BaseException):
    """Event to signal that a thread has finished."""


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


class _HalfBatch:
    """Half of the lattices in a search; the language model scores the lattices in a half together."""

    def __init__(self, expander: _search.Expander) -> None:
        self.expander = expander
        self.utterances: dict[int, Utterance] = {}  # by the number that the expander assigned
        self.num_arcs = 0  # total number of arcs of the utterances
        self.answers: Future[Answers] | None = None


class SearchEngine(Engine):
    """Engine for a search in which the hypotheses in each state compete."""

    competes_on_arcs: ClassVar[bool] = False
    is_pruned: ClassVar[bool] = False  # whether all hypotheses of a lattice compete; see `ninja.rescoring.pruned`

    @property
    def growth(self) -> tuple[int, float]:
        """``(maximum number of arcs in an expanded lattice, growth ratio between updates in pruned composition)``."""
        return MAX_ARCS, 1.0

    def steps(self, lm: BatchedLM) -> Generator[None, None, None]:
        """Rescore utterances in two halves, which are scored and expanded in turn; see `Engine.steps`."""
        halves = [_HalfBatch(self._expander()) for _ in range(2)]
        here = InThisThread()
        any_thread = lm.lm.twin() is not None  # whether the model can be called from any thread
        with here if self.in_flight.has_threads else ThreadPoolExecutor(1, "language-model") as pool:
            try:
                while True:
                    for half, other in (halves, halves[::-1]):
                        self._take_answers(half)
                        self.note(lm.notes)
                        self._admit(half, bool(half.utterances or other.utterances))
                        if half.utterances:
                            # If the other half is empty, there is no work to overlap with the scoring of this half.
                            executor = here if any_thread and not other.utterances else pool
                            half.answers = executor.submit(lm.wave, *half.expander.gather())
                    yield
                    if self.source.is_dry or any(half.utterances for half in halves):
                        continue
                    if not self.in_flight.wait_for_more(4 * self.options.batch_arcs):
                        break
            finally:
                for half in halves:
                    self._abandon(half)

    def _expander(self) -> _search.Expander:
        options = self.options
        max_arcs, growth_ratio = self.growth
        return _search.Expander(
            int(self.models.lm.start(1)[0]),
            graph_share=self.models.graph_share,
            lm_scale=self.models.lm_scale,
            acoustic_scale=options.acoustic_scale,
            word_penalty=options.word_penalty,
            beam=options.search_beam,
            first_pass_beam=options.first_pass_beam,
            growth_ratio=growth_ratio,
            max_hyps=options.hypotheses,
            max_active=options.max_active,
            max_arcs=max_arcs,
            merge_order=options.history_words,
            eos=self.models.lm.eos,
            pruned=self.is_pruned,
            per_arc=self.competes_on_arcs,
            look_ahead=options.look_ahead != "none",
            calibrate=options.look_ahead == "calibrated",
        )

    def _admit(self, half: _HalfBatch, busy: bool) -> None:
        """Add lattices to one half of the batch until the half is full or too many arcs are in flight.

        The arcs of finished lattices that wait for an earlier lattice count as arcs in flight.

        Args:
            half: The half of the batch.
            busy: Whether either half contains lattices. If not, the first lattice is added regardless of the
                number of arcs in flight, unless several threads rescore.
        """
        while not half.utterances or half.num_arcs < self.batch_arcs // 2:
            with self.in_flight.lock:
                most = 4 * self.options.batch_arcs if busy or self.in_flight.has_threads else np.inf
                utterance = self.next_utterance(most)
                if utterance is None:
                    return
                try:
                    lattice = reverse(utterance.lattice) if self.options.backward else utterance.lattice
                    lm_word, extra = self.models.of(lattice)  # locked: a symbol table may grow in another thread
                    utterance.prompt = self.models.prompt_ids(utterance.key)
                except NinjaError as error:
                    self.fail(utterance, error)
                    continue
            half.utterances[half.expander.add(lattice, lm_word, extra, utterance.first_words)] = utterance
            half.num_arcs += utterance.num_arcs
            busy = True

    def _take_answers(self, half: _HalfBatch) -> None:
        if half.answers is None:
            return
        slots, logprob, seconds = half.answers.result()
        half.answers = None
        half.expander.scatter(slots, logprob)
        self._stop_expired(half)
        ended = half.expander.ended()
        with self.in_flight.lock:
            self.report.calls += 1
            self.report.histories += slots.size
            self.report.scores += logprob.size
            self.report.lm_seconds += seconds
            self.report.expanded_arcs += sum(expanded for _, _, expanded in ended)
        for number, status, _ in ended:
            utterance = half.utterances.pop(number)
            half.num_arcs -= utterance.num_arcs
            try:
                self.finish(utterance, *self._result(half.expander, number, status, utterance))
            except NinjaError as error:
                self.fail(utterance, error)
            half.expander.remove(number)

    def _stop_expired(self, half: _HalfBatch) -> None:
        """Stop the search for each utterance whose deadline has expired."""
        expired = [(number, utterance) for number, utterance in half.utterances.items() if utterance.is_expired]
        if not expired:
            return
        ended = {number for number, _, _ in half.expander.ended()}
        for number, utterance in expired:
            if number in ended:
                continue
            if half.expander.stop(number):
                assert utterance.future is not None  # only submitted lattices have deadlines
                utterance.future.is_complete = False
            else:  # there is no hypothesis yet
                del half.utterances[number]
                half.num_arcs -= utterance.num_arcs
                self.finish_early(utterance)
                half.expander.remove(number)

    def _abandon(self, half: _HalfBatch) -> None:
        """Release all language model histories of an unfinished half, for example when the run is stopped."""
        if half.answers is not None and half.answers.exception() is None:
            slots, logprob, _ = half.answers.result()
            half.expander.scatter(slots, logprob)
        self.models.lm.release(half.expander.all_slots())

    def _result(
        self, expander: _search.Expander, number: int, status: int, utterance: Utterance
    ) -> tuple[Lattice, Sequence[int]]:
        """Return ``(lattice, words to carry over to the next utterance)`` for a finished search."""
        source = expander.source(number)
        if status == _search.NO_PATH:
            raise LatticeError("no final state can be reached from the start state", key=source.key)
        if status == _search.NOT_FINITE:
            raise ModelError("the language model returned NaN or probability zero for a word", key=source.key)
        if status == _search.TOO_LARGE:
            raise _too_large(source.key)
        if status == _search.OVERFLOW:
            message = "the costs of paths exceed the range of float32; scale the costs of the lattice down first"
            raise LatticeError(message, key=source.key)
        output, words = self.options.output, list[int]()
        if output == "best" or utterance.recording is not None:
            result = self._expanded(expander, number)
            best = best_path(result, self.options.scales)
            if utterance.recording is not None:
                words = self.models.carried_words(source, best.words)
            if output == "best":
                return path_lattice(result, best), words
            if output == "lattice":
                return result, words
        elif output == "lattice":
            return self._expanded(expander, number), words
        return with_replaced_costs(source, *expander.replaced(number)), words

    @staticmethod
    def _expanded(expander: _search.Expander, number: int) -> Lattice:
        result = expander.lattice(number, MAX_ARCS)
        if result is None:
            raise _too_large(expander.source(number).key)
        return result


def _too_large(key: str) -> LatticeError:
    return LatticeError(
        f"the expanded lattice exceeds {MAX_ARCS} arcs; set max_hyps, max_active or a smaller beam", key=key
    )


class ArcBeamEngine(SearchEngine):
    """Engine for a search in which the hypotheses on each arc compete."""

    competes_on_arcs = True


ARCBEAM = Algorithm("arcbeam", SearchOptions, ArcBeamEngine, "hypotheses compete on each arc", max_hyps=4)
PUSHFORWARD = Algorithm("pushforward", SearchOptions, SearchEngine, "hypotheses compete in each state", max_hyps=5)


def with_replaced_costs(
    source: Lattice, graph: npt.NDArray[np.float32], final_graph: npt.NDArray[np.float32]
) -> Lattice:
    """Replace the graph costs of a lattice; an infinite new cost removes the arc or makes the state non-final.

    Args:
        source: Lattice from which all other fields are taken.
        graph: New graph costs, [num_arcs].
        final_graph: New final graph costs, [num_states].
    """
    final_acoustic = np.where(np.isinf(final_graph), np.float32(np.inf), source.final_acoustic)
    used = np.isfinite(graph)
    changed = source.with_costs(np.where(used, graph, np.float32(0)))
    changed = changed.replace(final_graph=frozen(final_graph), final_acoustic=frozen(final_acoustic))
    return connect(changed if used.all() else select_arcs(changed, used))
