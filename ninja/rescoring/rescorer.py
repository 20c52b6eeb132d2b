"""`Rescorer`, which rescores lattices from threads, coroutines or an iterable."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ninja._core import num_frames
from ninja.errors import OptionError, check_range
from ninja.lattice import Lattice
from ninja.lattice.batch import Keyed
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import LexicalForms, LexicalTable
from ninja.lm.history_cache import cached
from ninja.lm.lexical import LexicalLM, models_of, with_lexical_forms
from ninja.lm.word_map import WordMap
from ninja.rescoring.algorithms import RescoreOptions
from ninja.rescoring.carry_over import CarryOver
from ninja.rescoring.engine import Engine
from ninja.rescoring.models import (
    BoundModels,
    Model,
    ModelFiles,
    VocabularyCheck,
    check_models,
    refuse_words,
    unknown_words,
)
from ninja.rescoring.prompts import Prompts
from ninja.rescoring.session import HISTORIES, Session, StreamOptions
from ninja.rescoring.utterances import (
    ContextStage,
    IterableSource,
    Preparation,
    RecordingQueue,
    RescoreReport,
    Source,
    Submission,
    Utterance,
)

if TYPE_CHECKING:
    from ninja.rescoring.service import Service

Pass = tuple[Model, RescoreOptions]


@dataclass(slots=True)
class _Pass:
    """A rescoring pass: a model, that model bound to the words in the lattices, and the pass's options and queue."""

    lm: Model
    models: BoundModels
    options: RescoreOptions
    queue: RecordingQueue

    def engine(self, source: Source, first: Utterance, report: RescoreReport, num_threads: int) -> Engine:
        """Return the engine for the selected algorithm, or the default engine for the type of the first lattice."""
        self.options = options = self.options.for_lattice(first.result or first.lattice)
        refuse_words(self.lm, options)
        engine: Engine = options.record.make_engine(source, self.models, options, self.queue, report, num_threads)
        return engine


class Rescorer:
    """Rescorer for lattices that are submitted by threads or coroutines, or read from an iterable.

        with ninja.Rescorer(lm, options) as rescorer:
            future = rescorer.submit(lattice)          # in any thread; future.result() is the rescored lattice
            lattice = await rescorer.rescore(lattice)  # in a coroutine
        for key, lattice in rescorer(pairs): ...       # like `rescore`; a Rescorer is also a pipeline stage

    Lattices that are submitted concurrently are rescored in one batch by a thread of the Rescorer. Do not use the
    models elsewhere at the same time. A submitted lattice is rejected if more than the fraction ``max_unknown`` of its
    arcs have words that are unknown to a model; lattices from an iterable are tested together, as in `rescore`.

    Args:
        lm: A language model (see ``ninja.lm.load``), a mixture, None to only subtract the old model, or model files
            (loaded when the first lattice arrives).
        old_lm: The first-pass language model (see `rescore`); not allowed with model files.
        carry_over: Recording of each utterance, for a model that reads the words of earlier utterances in the same
            recording.
        prompts: Texts that the model reads before the words of each utterance, for causal Hugging Face models.
        context: Stage that runs before rescoring, such as ``ninja.context.Contextual``.
        max_latency: Time in seconds, >= 0, that a lattice waits for others if it is submitted while none is in flight.
        max_waiting: Maximum number of lattices in flight, >= 1; `submit` blocks while this many are in flight.

    Raises:
        OptionError: ``max_latency`` or ``max_waiting`` is out of range, or a model is not a language model.
    """

    def __init__(
        self,
        lm: Model | ModelFiles,
        options: RescoreOptions | None = None,
        *,
        old_lm: Model = None,
        carry_over: CarryOver | None = None,
        prompts: Prompts | None = None,
        context: ContextStage | None = None,
        max_latency: float = 0.01,
        max_waiting: int = 512,
    ) -> None:
        check_models(lm, old_lm)
        check_range("max_latency", max_latency, least=0, finite=True)
        check_range("max_waiting", max_waiting, least=1)
        self.options = options or RescoreOptions()
        self.max_latency = max_latency
        self.max_waiting = max_waiting
        self._originals = lm, old_lm
        self.files = lm if isinstance(lm, ModelFiles) else None
        self.old_lm = old_lm
        self.carry_over = carry_over
        self.prompts = prompts
        self.context = context
        self._maps: tuple[SymbolTable, int, Sequence[WordMap]] | None = None  # table, its size, word maps
        self._forms: LexicalForms | None = None
        self._models: list[Pass] = [] if isinstance(lm, ModelFiles) else [(lm, self.options)]
        self._live_passes: list[_Pass] = []  # for submitted lattices
        self._service: Service | None = None
        self._sessions: Rescorer | None = None  # for the lattices of sessions
        self._keeps_histories = False  # whether language models keep histories between lattices
        self._opening = threading.Lock()

    @classmethod
    def of_passes(
        cls, passes: Sequence[Pass], *, old_lm: Model = None, carry_over: CarryOver | None = None
    ) -> Rescorer:
        """Return a Rescorer that applies several models in turn; see `iterate`.

        Raises:
            OptionError: `passes` is empty.
        """
        if not passes:
            raise OptionError("there is no language model to rescore with; specify at least one pass")
        check_models(*(lm for lm, _ in passes))
        rescorer = cls(*passes[0], old_lm=old_lm, carry_over=carry_over)
        rescorer._models = list(passes)
        return rescorer

    def __call__(self, lattices: Iterable[Keyed], log: RescoreReport | None = None) -> Iterator[Keyed]:
        """Yield the rescored lattices in input order, computed lazily; see `rescore`.

        Unlike in `rescore`, rescoring begins only when the source has yielded `batch_arcs` arcs or has ended.
        """
        return self._results(IterableSource(lattices), RescoreReport() if log is None else log)

    def on_threads(self, lattices: Iterable[Keyed], log: RescoreReport, num_threads: int) -> Iterator[Keyed]:
        """Rescore on several threads that share the model weights, with byte-identical results for any thread count.

        If `LanguageModel.twin` returns None, lattices are rescored on one thread, and torch parallelises each matrix
        product instead.
        """
        return self._results(IterableSource(lattices), log, num_threads)

    def vocabulary_check(self, log: RescoreReport) -> VocabularyCheck:
        """Return a check of how well the models cover the words in the lattices.

        A caller that reads the files itself must assign the check to ``log.vocabulary``.
        """
        return VocabularyCheck(
            lambda words: self._word_maps(words, log),
            self.options.max_unknown,
            log.cover,
            other_maps=lambda words: () if self.context is None else self.context.class_maps(words, log),
        )

    def submit(
        self, lattice: Lattice, entities: Any = None, *, timeout: float | None = None, deadline: float | None = None
    ) -> Submission:
        """Submit a lattice for rescoring; this method can be called from any thread.

        Args:
            lattice: A lattice with a symbol table. Callers should share one table, because the models are bound to it.
            entities: Phrases of this utterance for the context stage: ``Entities``, an argument of
                ``Entities.from_dict`` such as ``{"@name": ["tom chen"]}``, or a tuple of ``PhraseList``.
            timeout: Maximum time in seconds to wait while ``max_waiting`` lattices are in flight.  [default: no limit]
            deadline: Time in seconds, > 0, after which the search is stopped.  [default: no limit]

        Returns:
            A future for the rescored lattice. If the deadline expires first, ``is_complete`` of the future is False and
            the result is the best hypothesis so far, with the rest of the utterance taken from the first pass, or the
            lattice with its first-pass costs if there is no hypothesis yet. Errors in the lattice are raised by the
            future, not by this method. Cancelling the future before rescoring begins drops the lattice.

        Raises:
            BusyError: ``max_waiting`` lattices were still in flight after `timeout` seconds.
            ClosedError: The Rescorer is closed.
            OptionError: Entities are specified without a context, the Rescorer has several passes, `lattice` is not a
                lattice, or `deadline` is not above 0.
        """
        service = self._opened(entities)
        utterance, future = service.utterance(lattice, entities, deadline)
        if not utterance.is_done:
            service.wait_for_slot(timeout)
            service.put(utterance)
        return future

    async def rescore(self, lattice: Lattice, entities: Any = None) -> Lattice:
        """Rescore a lattice in a coroutine; see `submit` for arguments and errors.

        While ``max_waiting`` lattices are in flight, the coroutine waits without blocking a thread. Cancelling the
        coroutine frees its slot.
        """
        import asyncio  # imported here because no other method needs it

        service = self._opened(entities)
        utterance, future = service.utterance(lattice, entities, None)
        if not utterance.is_done:
            slot = service.slot()
            try:
                await asyncio.wrap_future(slot)
            except BaseException:
                service.release(slot)
                raise
            service.put(utterance)
        return await asyncio.wrap_future(future)

    def session(self, options: StreamOptions | None = None, *, entities: Any = None) -> Session:
        """Return a session for an utterance with a growing lattice; this method can be called from any thread.

        All sessions share a cache of language model histories and one batch, neither of which `submit` uses.

        Args:
            options: Conditions for treating words as stable.
            entities: Phrases of this utterance; see `submit`.

        Raises:
            OptionError: Entities are specified without a context stage; the Rescorer has several passes, carry-over,
                prompts or a context model; or the model reads phrase lists or scores only whole sentences.
            ClosedError: The Rescorer is closed.
        """
        service = self._opened(entities)
        service.release(service.slot())  # raises an error if the Rescorer is closed
        with self._opening:
            if self._sessions is None:
                self._sessions = self._of_sessions()
            sessions = self._sessions
        return Session(partial(sessions.submit, entities=entities), self.options.scales, options or StreamOptions())

    def _of_sessions(self) -> Rescorer:
        """Return the Rescorer for lattices from sessions; its models keep histories between lattices."""
        lm, old_lm = self._originals
        if self.carry_over is not None:
            raise OptionError("a session cannot carry words over from earlier utterances; omit carry_over")
        if self.prompts is not None:
            raise OptionError("a session cannot use prompts; omit prompts")
        first = self._models[0][0] if self._models else None
        if self.context is not None and self.context.over(first) is not first:
            raise OptionError("a session cannot use a context model; boost the phrases instead")
        sessions = Rescorer(
            lm if isinstance(lm, ModelFiles) else cached(lm, HISTORIES),
            # The posteriors of words are computed from alternatives, which a best path does not have.
            replace(self.options, output="lattice") if self.options.output == "best" else self.options,
            old_lm=cached(old_lm, HISTORIES),
            context=copy.copy(self.context),
            max_latency=self.max_latency,
            max_waiting=self.max_waiting,
        )
        sessions._keeps_histories = True
        return sessions

    def close(self, timeout: float | None = None) -> None:
        """Reject further lattices and finish the lattices in flight; called on leaving the ``with`` block.

        Args:
            timeout: Time in seconds after which the futures of unfinished lattices fail with ``ClosedError``.
                [default: no limit]
        """
        with self._opening:
            if self._service is None:
                self._service = self._new_service()
        self._service.shut(timeout)
        if self._sessions is not None:
            self._sessions.close(timeout)

    @property
    def in_flight(self) -> tuple[int, int]:
        """``(number of submitted lattices that wait for the batch, number of lattices in the batch)``."""
        service = self._service
        waiting, running = (0, 0) if service is None else (service.num_waiting, service.num_running)
        if self._sessions is not None:
            of_sessions = self._sessions.in_flight
            waiting, running = waiting + of_sessions[0], running + of_sessions[1]
        return waiting, running

    @property
    def report(self) -> RescoreReport:
        """Counts and notes for the submitted lattices; their errors are raised by the futures."""
        report = self._opened(None).report
        if self._sessions is None:
            return report
        total = RescoreReport()
        total.merge(report)
        total.merge(self._sessions.report)
        return total

    def __enter__(self) -> Rescorer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self.close(None if kind is None else 0.0)

    def _opened(self, entities: Any) -> Service:
        """Return the service that rescores submitted lattices; the first call creates it.

        Raises:
            OptionError: Entities are specified without a context stage, or the Rescorer has several passes.
        """
        if entities is not None and self.context is None:
            raise OptionError("entities require a context stage; pass context=Contextual(...) to Rescorer")
        if len(self._models) > 1 or (self.files is not None and self.files.directions):
            raise OptionError(
                "lattices cannot be submitted to a Rescorer with several passes; call it with an iterable, or use one "
                "Rescorer per model"
            )
        with self._opening:
            if self._service is None:
                self._service = self._new_service()
            return self._service

    def _new_service(self) -> Service:
        from ninja.rescoring.service import Service  # imported here because rescoring files does not need it

        return Service(
            lambda source, report: self._rescored(source, report, self._live_passes),
            self._forget_histories,
            batch_arcs=self.options.batch_arcs,
            max_latency=self.max_latency,
            max_waiting=self.max_waiting,
        )

    def _forget_histories(self) -> None:
        for model_pass in self._live_passes:
            model_pass.queue = RecordingQueue(self.carry_over)

    def _results(self, source: Source, report: RescoreReport, num_threads: int = 1) -> Iterator[Keyed]:
        """Check the options and return an iterator over the rescored lattices."""
        if not isinstance(report, RescoreReport):
            name = type(report).__name__
            raise OptionError(f"log is of type {name}, but a Rescorer needs a RescoreReport; pass RescoreReport()")
        if self._models:
            self._new_passes()
        return self._measured(source, report, num_threads)

    def _measured(self, source: Source, report: RescoreReport, num_threads: int) -> Iterator[Keyed]:
        start = time.perf_counter()
        utterances = self._rescored(source, report, [], num_threads)
        with closing(source), closing(utterances):  # type: ignore[type-var]
            for utterance in utterances:
                if utterance.error is not None:
                    report.fail(utterance.error, utterance.key)
                    continue
                assert utterance.result is not None
                report.arcs_written += utterance.result.num_arcs
                report.frames += max(num_frames(utterance.result), 0)  # -1 if the alignments of paths differ in length
                report.seconds = time.perf_counter() - start
                yield utterance.key, utterance.result
        report.seconds = time.perf_counter() - start
        if report.vocabulary is None:
            report.note_coverage()

    def _rescored(
        self, source: Source, report: RescoreReport, passes: list[_Pass], num_threads: int = 1
    ) -> Iterator[Utterance]:
        """Yield the rescored and failed utterances in input order, except utterances with futures.

        Args:
            source: Source of the utterances.
            report: Report to which counts and notes are added.
            passes: List of passes; if it is empty, the passes are appended once the models are loaded.
            num_threads: Number of threads.
        """
        source = self._prepared(source, report)
        yield from source.failures()
        first = source.first()
        if first is None:
            return
        if not self._models:  # the vocabulary check has not loaded them
            self._load(first.lattice.words, report)
        self._read_forms(report)
        if not passes:
            passes += self._new_passes()
        with ExitStack() as stack:
            for model_pass in passes:
                yield from source.failures()
                first = source.first()
                if first is None:
                    return
                source = stack.enter_context(closing(model_pass.engine(source, first, report, num_threads)))
            yield from source

    def _prepared(self, source: Source, report: RescoreReport) -> Source:
        return Preparation(
            source,
            report,
            self.options.scales,
            check=self.vocabulary_check(report) if report.vocabulary is None else None,
            refuse=lambda lattice: self._refuse_unknown_words(lattice, report),
            context=self.context,
            forms=lambda lattice: self._forms_of(lattice, report),
        )

    def _forms_of(self, lattice: Lattice, report: RescoreReport) -> LexicalTable | None:
        """Return the lexical forms of a lattice's words; None if a model reads the written words."""
        forms = self._read_forms(report)
        lms = [model for lm, _ in self._models for model in models_of(lm)]
        return forms.table(lattice) if all(isinstance(lm, LexicalLM) for lm in lms) else None

    def _read_forms(self, report: RescoreReport) -> LexicalForms:
        """Make models read lexical forms where necessary, and return the normalizer of the run."""
        forms, text = self._run_forms(report), self.options.lm_text
        if not forms.are_identical:
            self._models = [(with_lexical_forms(lm, forms, text), options) for lm, options in self._models]
            self.old_lm = with_lexical_forms(self.old_lm, forms, text)
        return forms

    def _run_forms(self, report: RescoreReport) -> LexicalForms:
        """Return the normalizer of the run and set it in the context stage."""
        if self._forms is None:
            self._forms = LexicalForms(self.options.normalizer, report.note)
        if self.context is not None:
            self.context.forms = self._forms
        return self._forms

    def _new_passes(self) -> list[_Pass]:
        old_lm, passes, maps = self.old_lm, [], () if self._maps is None else self._maps[2]
        self._check_prompts()
        for lm, options in self._models:
            if self.carry_over is not None and options.backward:
                raise OptionError("carry_over cannot be used with a model that reads sentences backward; omit it")
            refuse_words(lm, options)
            models = BoundModels(self._over(lm), old_lm, options, maps, self.prompts)
            passes.append(_Pass(lm, models, options, RecordingQueue(self.carry_over)))
            old_lm = None  # the first pass subtracts it
        return passes

    def _check_prompts(self) -> None:
        """Raise an `OptionError` if prompts cannot be used with the models or the context."""
        if self.prompts is None:
            return
        if any(options.backward for _, options in self._models):
            raise OptionError("prompts cannot be used with a model that reads sentences backward; omit them")
        if not any(model.takes_prompts for lm, _ in self._models for model in models_of(lm)):
            raise OptionError("no language model reads prompts; use a causal Hugging Face model, or omit the prompt")
        if any(self._over(lm) is not lm for lm, _ in self._models):
            raise OptionError("prompts cannot be used with a context model; boost the phrases, or omit the prompt")

    def _over(self, lm: Model) -> Model:
        return lm if self.context is None else self.context.over(lm)

    def _load(self, words: SymbolTable | None, report: RescoreReport) -> None:
        assert self.files is not None
        if self.context is not None:
            self._run_forms(report)
            if words is not None:
                self.context.bind(words, report)
            self.old_lm = self.context.old_model
        self._models, self.old_lm = self.files.load(self.options, words, report, self.old_lm)
        if self._keeps_histories:
            self._models = [(cached(lm, HISTORIES), options) for lm, options in self._models]
            self.old_lm = cached(self.old_lm, HISTORIES)

    def _word_maps(self, words: SymbolTable, report: RescoreReport) -> Sequence[WordMap]:
        """Return the maps from a symbol table to the words of each model in each pass."""
        if self._maps is not None and self._maps[0] is words and self._maps[1] == len(words):
            return self._maps[2]
        if not self._models:
            self._load(words, report)
        self._read_forms(report)
        earlier = () if self._maps is None or self._maps[0] is not words else self._maps[2]
        old_lm, maps = self.old_lm, list[WordMap]()
        for lm, options in self._models:
            models = BoundModels(self._over(lm), old_lm, options)
            for name, model in models.named_models():
                word_map = earlier[len(maps)] if len(maps) < len(earlier) else None
                if word_map is not None and word_map.lm is model:  # the table has grown
                    maps.append(word_map.grown())
                else:
                    maps.append(WordMap(words, model, options.unk_penalty, map_words=options.map_words, name=name))
            old_lm = None
        self._maps = words, len(words), maps
        return maps

    def _refuse_unknown_words(self, lattice: Lattice, report: RescoreReport) -> None:
        """Raise an error if too many words in a lattice are unknown to a model."""
        assert lattice.words is not None
        for word_map in self._word_maps(lattice.words, report):
            if word_map.unknown_share(lattice) > self.options.max_unknown:
                raise unknown_words(word_map.coverage(lattice), self.options.max_unknown)
