"""The engine: many lattices in flight, the language model called for all of them at once, results in input order.

Half of the lattices wait for the language model, which runs in a thread of its own, while the other half's bookkeeping
is done; then they change places. On several threads each takes the next lattice whenever it has room for one, and asks
a twin of the model itself. What a lattice gets does not depend on which others are in flight.
"""

from __future__ import annotations

import copy
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ninja import _search
from ninja.errors import LatticeError, ModelError, NinjaError
from ninja.graph import best_path, connect, path_lattice, reverse, select_arcs
from ninja.lattice import Lattice
from ninja.lattice.arrays import frozen
from ninja.lattice.list_lattice import as_list_of
from ninja.lm import LanguageModel
from ninja.lm.protocol import PhraseMark
from ninja.rescoring.carry_over import RecordingQueue, Utterance
from ninja.rescoring.models import BoundModels
from ninja.rescoring.options import MAX_ARCS, RescoreOptions, RescoreReport
from ninja.rescoring.threads import InFlight, InThisThread, on_threads

Keyed = tuple[str, Lattice]
Coming = Keyed | None  # None: the next lattice is awaited; those in flight are to be given out
AsGiven = TypeVar("AsGiven", Keyed, Coming)
MarkOf = Callable[[Lattice], PhraseMark | None]


def unmarked(_: Lattice) -> None:
    """Return the phrases of a lattice where no model takes any: none."""


class Engine(ABC):
    """One run of one model over many lattices; subclasses search, or score whole sentences."""

    def __init__(
        self,
        models: BoundModels,
        options: RescoreOptions,
        queue: RecordingQueue,
        report: RescoreReport,
        num_threads: int = 1,
        mark_of: MarkOf = unmarked,
    ) -> None:
        self.models = models
        self.mark_of = mark_of  # the phrases of a lattice, for a model that takes them
        self.options = options
        self.queue = queue
        self.report = report
        self.num_threads = num_threads  # that compute, if the models have twins
        self.batch_arcs = options.batch_arcs  # of each thread
        self.in_flight = InFlight()
        self.awaiting = False  # the next lattice is on its way, where the source says so

    def results(self, lattices: Iterable[Coming]) -> Iterator[Coming]:
        """Yield the rescored lattices in input order, and None where all are given out and the next is awaited."""
        source = iter(lattices)
        first: list[Keyed] = []
        num_arcs = 0
        for pair in source:
            self.awaiting = pair is None
            if pair is None and first:
                break
            if pair is None:
                yield None
                continue
            first.append(pair)
            num_arcs += pair[1].num_arcs
            if num_arcs >= self.options.batch_arcs:
                break
        if not first:
            return
        self.models.bind(lattice for _, lattice in first)
        with closing(self._work(chain(first, source))) as waves:
            for _ in waves:
                while (utterance := self.in_flight.pop_done()) is not None:
                    if utterance.result is not None:
                        yield utterance.key, utterance.result
                if self.awaiting and self.in_flight.is_empty:
                    yield None

    def _work(self, source: Iterator[Coming]) -> Generator[None, None, None]:
        """Rescore in one thread or several, stopping whenever some lattices may be done."""
        each = self.models.for_threads(self.num_threads)
        if len(each) < 2:
            return self._waves(source, BatchedLM(self.models.lm))
        engines = []
        for models in each:
            engine = copy.copy(self)
            engine.models = models
            engine.batch_arcs = max(1, self.options.batch_arcs // len(each))
            engines.append(engine)
        return on_threads([engine._waves(source, BatchedLM(engine.models.lm)) for engine in engines], self.in_flight)

    @abstractmethod
    def _waves(self, source: Iterator[Coming], lm: BatchedLM) -> Generator[None, None, None]:
        """Rescore, stopping whenever some lattices may be done."""

    def _next(self, source: Iterator[Coming], most_arcs: float) -> Utterance | None:
        """Return the next utterance to rescore; None if none is there or more arcs than these are in flight."""
        while True:
            utterance = self.queue.ready()
            if utterance is not None:
                return utterance
            if self.in_flight.num_arcs >= most_arcs:
                return None
            try:
                pair = next(source)
            except StopIteration:
                self.awaiting = False
                self.in_flight.has_ended = True
                return None
            self.awaiting = pair is None
            if pair is None:
                return None
            utterance = Utterance(pair[1], phrases=self.mark_of(pair[1]))
            self.in_flight.add(utterance)
            try:
                if self.queue.enter(utterance):
                    return utterance
            except LatticeError as error:
                self._fail(utterance, error)

    def _finish(self, utterance: Utterance, result: Lattice, said: Sequence[int] = ()) -> None:
        """Keep the result of an utterance, and pass its words to the next one of its recording."""
        result = as_list_of(utterance.lattice, reverse(result) if self.options.backward else result)
        with self.in_flight.lock:
            utterance.result = result
            utterance.is_done = True
            self.queue.leave(utterance, said)

    def _fail(self, utterance: Utterance, error: NinjaError) -> None:
        with self.in_flight.lock:
            self.report.fail(error)
            utterance.is_done = True
            self.queue.leave(utterance, ())

    def _pass_on(self, notes: list[str]) -> None:
        with self.in_flight.lock:
            while notes:
                self.report.note(notes.pop(0))


class _HalfBatch:
    """Lattices that are scored in the same calls."""

    def __init__(self, expander: _search.Expander) -> None:
        self.expander = expander
        self.utterances: dict[int, Utterance] = {}  # by the expander's number for each
        self.num_arcs = 0  # of these
        self.answers: Future[Answers] | None = None


class SearchEngine(Engine):
    """The algorithms that search wave by wave."""

    def _waves(self, source: Iterator[Coming], lm: BatchedLM) -> Generator[None, None, None]:
        halves = [_HalfBatch(self._expander()) for _ in range(2)]
        with InThisThread() if self.in_flight.has_threads else ThreadPoolExecutor(1, "language-model") as pool:
            try:
                while True:
                    for half in halves:
                        self._take_answers(half)
                        self._pass_on(lm.notes)
                        self._admit(half, source, any(each.utterances for each in halves))
                        if half.utterances:
                            half.answers = pool.submit(lm.wave, *half.expander.gather())
                    yield
                    if self.awaiting or any(half.utterances for half in halves):
                        continue
                    if not self.in_flight.wait_for_more(4 * self.options.batch_arcs):
                        break
            finally:
                for half in halves:
                    self._abandon(half)

    def _expander(self) -> _search.Expander:
        options = self.options
        return _search.Expander(
            int(self.models.lm.start(1)[0]),
            graph_share=self.models.graph_share,
            lm_scale=self.models.lm_scale,
            acoustic_scale=options.acoustic_scale,
            word_penalty=options.word_penalty,
            beam=options.search_beam,
            first_pass_beam=options.first_pass_beam,
            growth_ratio=options.growth_ratio,
            max_hyps=options.hypotheses,
            max_active=options.max_active,
            max_arcs=options.max_arcs if options.algorithm == "pruned" else MAX_ARCS,
            merge_order=options.history_words,
            eos=self.models.lm.eos,
            pruned=options.algorithm == "pruned",
            per_arc=options.algorithm == "arcbeam",
            look_ahead=options.look_ahead != "none",
            calibrate=options.look_ahead == "calibrated",
        )

    def _admit(self, half: _HalfBatch, source: Iterator[Coming], busy: bool) -> None:
        """Take lattices in until the arcs in flight, or waiting behind a slow lattice, fill the budget."""
        while not half.utterances or half.num_arcs < self.batch_arcs // 2:
            with self.in_flight.lock:
                most = 4 * self.options.batch_arcs if busy or self.in_flight.has_threads else np.inf
                utterance = self._next(source, most)
                if utterance is None:
                    return
                try:
                    lattice = reverse(utterance.lattice) if self.options.backward else utterance.lattice
                    lm_word, extra = self.models.of(lattice)  # within the lock: a symbol table may grow while one reads
                except NinjaError as error:
                    self._fail(utterance, error)
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
                self._finish(utterance, *self._result(half.expander, number, status, utterance))
            except NinjaError as error:
                self._fail(utterance, error)
            half.expander.remove(number)

    def _abandon(self, half: _HalfBatch) -> None:
        """Give every slot back, also when the run stops half-way."""
        if half.answers is not None and half.answers.exception() is None:
            slots, logprob, _ = half.answers.result()
            half.expander.scatter(slots, logprob)
        self.models.lm.release(half.expander.all_slots())

    def _result(
        self, expander: _search.Expander, number: int, status: int, utterance: Utterance
    ) -> tuple[Lattice, Sequence[int]]:
        """Return the result of a search, and the words carried over to the next utterances."""
        source = expander.source(number)
        if status == _search.NO_PATH:
            raise LatticeError("no final state can be reached from the start", key=source.key)
        if status == _search.NOT_FINITE:
            raise ModelError("the language model gave NaN, or probability zero, for a word", key=source.key)
        if status == _search.TOO_LARGE:
            raise LatticeError(
                f"its expansion passes {MAX_ARCS} arcs; set max_hyps, max_active or a smaller beam", key=source.key
            )
        output, said = self.options.output, list[int]()
        if output == "best" or utterance.recording is not None:
            result = expander.lattice(number)
            best = best_path(result, self.options.scales)
            if utterance.recording is not None:
                said = self.models.said(source, best.words)
            if output == "best":
                return path_lattice(result, best), said
            if output == "lattice":
                return result, said
        elif output == "lattice":
            return expander.lattice(number), said
        return with_replaced_costs(source, *expander.replaced(number)), said


def with_replaced_costs(
    source: Lattice, graph: npt.NDArray[np.float32], final_graph: npt.NDArray[np.float32]
) -> Lattice:
    """Replace graph costs; arcs and finals the search never used have no score of the new model and are left out."""
    final_acoustic = np.where(np.isinf(final_graph), np.float32(np.inf), source.final_acoustic)
    used = np.isfinite(graph)
    changed = source.with_costs(np.where(used, graph, np.float32(0)))
    changed = changed.replace(final_graph=frozen(final_graph), final_acoustic=frozen(final_acoustic))
    return connect(changed if used.all() else select_arcs(changed, used))


Slots = npt.NDArray[np.int64]
Words = npt.NDArray[np.int32]
Answers = tuple[Slots, npt.NDArray[np.float32], float]
Scalar = TypeVar("Scalar", bound=np.generic)


class BatchedLM(LanguageModel):
    """A language model called with at most `limit` histories or words at once; None is no limit.

    When a call runs out of memory the limit becomes half its size, for the rest of the run, and the call is made
    again in pieces.
    """

    def __init__(self, lm: LanguageModel) -> None:
        self.lm = lm
        self.limit: int | None = None
        self.notes: list[str] = []  # for the user, from the thread in which the model is called
        self.vocabulary, self.bos, self.eos = lm.vocabulary, lm.bos, lm.eos
        self.unk, self.unk_words = lm.unk, lm.unk_words
        self.scores_tries, self.whole_sentences = lm.scores_tries, lm.whole_sentences
        self.takes_phrases = lm.takes_phrases
        self._too_many = 0  # size of the first call that ran out of memory since one that did not

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
        """See `LanguageModel.advance`; if it fails, the slots made on the way are given back."""
        return self._in_pieces("advance", slots, words, np.empty(0, np.int64))

    def logprob(self, slots: Slots, words: Words) -> npt.NDArray[np.float32]:
        """See `LanguageModel.logprob`."""
        return self._in_pieces("logprob", slots, words, np.empty(0, np.float32))

    def wave(
        self, released: Slots, advance_slot: Slots, advance_word: Words, score_slot: Slots, score_word: Words
    ) -> Answers:
        """Give slots back, make histories, score words; score slots below 0 count the histories made here.

        If this fails, the histories made on the way are given back.

        Returns:
            Slots of the new histories, natural-log probabilities, and the seconds it took.

        Raises:
            ModelError: The model returned another number of values, or the memory does not even hold one history.
        """
        start = time.perf_counter()
        if released.size:
            self.release(released)
        made = self.advance(advance_slot, advance_word)
        fresh = score_slot < 0
        score_slot[fresh] = made[-1 - score_slot[fresh]]
        try:
            logprob = self.logprob(score_slot, score_word)
        except BaseException:
            self.release(made)
            raise
        return made, logprob, time.perf_counter() - start

    def _in_pieces(self, method: str, slots: Slots, words: Words, empty: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """Call a method with as many slots at once as memory and limit allow."""
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
                        f"the model's {method} gave shape {np.shape(answer)} for a batch of {last - first}"
                    )
                if self._too_many:
                    self.notes.append(
                        f"out of memory at {self._too_many} questions to the language model; at most {self.limit} "
                        "from now on"
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
                "the memory does not hold one more history of the language model; use a smaller batch_arcs, "
                "max_active or model"
            ) from error
        self.limit = size // 2
        self._too_many = self._too_many or size
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            torch.cuda.empty_cache()  # what lies there in pieces too small may be of use as one


def out_of_memory(error: BaseException) -> bool:
    """Tell whether numpy, or torch if it is in use, ran out of memory."""
    torch = sys.modules.get("torch")
    return (
        isinstance(error, MemoryError)
        or (torch is not None and isinstance(error, torch.OutOfMemoryError))
        or "DefaultCPUAllocator: can't allocate memory" in str(error)  # torch has no type for this one
    )
