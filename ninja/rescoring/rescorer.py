"""`rescore` and the object behind it: language models and options, ready for many lattices."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from functools import partial
from itertools import chain
from typing import Any, Protocol

from ninja.errors import LatticeError, OptionError, check_range
from ninja.graph import num_frames
from ninja.lattice import Lattice
from ninja.lattice.keyed import pairs
from ninja.lattice.symbols import SymbolTable
from ninja.lm.protocol import PhraseMark
from ninja.lm.word_map import WordMap
from ninja.rescoring.arrivals import Arrivals
from ninja.rescoring.carry_over import CarryOver, RecordingQueue
from ninja.rescoring.determinism import ADVICE, is_ambiguous
from ninja.rescoring.engine import AsGiven, Coming, Engine, Keyed, SearchEngine, unmarked
from ninja.rescoring.equal_texts import merge_equal_texts, with_merged_texts
from ninja.rescoring.models import BoundModels, Model, ModelFiles, Pass, refuse_words
from ninja.rescoring.options import SENTENCES, RescoreOptions, RescoreReport
from ninja.rescoring.sentences import SentenceEngine
from ninja.rescoring.service import LiveReport, Request, Service, is_sound
from ninja.rescoring.vocabulary import VocabularyCheck, unknown_words


class ContextStage(Protocol):
    """The stage that makes phrases more probable before lattices are rescored, as `ninja.context` does."""

    @property
    def old_model(self) -> Any:
        """The first pass's language model, if it is loaded."""

    def unchecked(self, lattices: Iterable[AsGiven], log: RescoreReport) -> Iterator[AsGiven]:
        """Yield the lattices with their context, and None where the next is awaited."""

    def bind(self, words: SymbolTable, log: RescoreReport) -> Any:
        """Load the models for the lattices' words."""

    def class_maps(self, words: SymbolTable, log: RescoreReport) -> Sequence[WordMap]:
        """Return the maps of a symbol table to the words of class models, which may lack any of them."""

    def live(self, lattice: Lattice, entities: Any, log: RescoreReport) -> Lattice:
        """Return a lattice with its context, and phrases given with it: the same one, or one made for it."""

    def over(self, lm: Model) -> Model:
        """Return the language model that reads phrases; the same one without a context model."""

    def mark_of(self, lattice: Lattice) -> PhraseMark | None:
        """Return the phrases of a lattice that the stage gave, for such a model."""


class Rescorer:
    """Rescores lattices of threads, of coroutines or of an iterable with language models.

        with ninja.Rescorer(lm, options) as rescorer:
            future = rescorer.submit(lattice)         from any thread; future.result() is the rescored lattice
            lattice = await rescorer.rescore(lattice)  in a coroutine
        for key, lattice in rescorer(pairs): ...       as `rescore`; a stage for ``ninja.parallel.stream``

    Lattices that are in flight at once are rescored in one batch by a thread of the Rescorer's own, which others join
    and leave as they come and are done. The models are not to be used elsewhere meanwhile.

    Each lattice that is submitted is refused by itself if models lack more than ``max_unknown`` of its words, whatever
    else is in flight; those of an iterable are judged as `rescore` judges them.

    Args:
        lm: A language model, see ``ninja.lm.load``, or a mixture of several; None only takes the old one out. Or
            files, which are loaded when the first lattice is seen.
        carry_over: Order of utterances, for a model with context from earlier ones.
        context: What lattices go through first, as ``ninja.context.Contextual``.
        max_latency: Seconds, >= 0, that a lattice which finds nothing in flight waits for others to be rescored with.
        max_waiting: Lattices in flight, >= 1: submitted and not done. `submit` waits when there are as many.

    Raises:
        OptionError: ``max_latency`` or ``max_waiting`` is out of range.
    """

    def __init__(
        self,
        lm: Model | ModelFiles,
        options: RescoreOptions | None = None,
        *,
        old_lm: Model = None,
        carry_over: CarryOver | None = None,
        context: ContextStage | None = None,
        max_latency: float = 0.01,
        max_waiting: int = 512,
    ) -> None:
        check_range("max_latency", max_latency, least=0, finite=True)
        check_range("max_waiting", max_waiting, least=1)
        self.options = options or RescoreOptions()
        self.max_latency = max_latency
        self.max_waiting = max_waiting
        self.files = lm if isinstance(lm, ModelFiles) else None
        self.old_lm = old_lm  # once it is loaded
        self.carry_over = carry_over
        self.context = context
        self._maps: tuple[SymbolTable, int, Sequence[WordMap]] | None = None  # of the last table, and its size
        self._passes: list[Pass] = [] if isinstance(lm, ModelFiles) else [(lm, self.options)]
        self._live_models: BoundModels | None = None
        self._service: Service | None = None
        self._opening = threading.Lock()

    @classmethod
    def of_passes(
        cls, passes: Sequence[Pass], *, old_lm: Model = None, carry_over: CarryOver | None = None
    ) -> Rescorer:
        """Rescore with several models in turn, see `iterate`.

        Raises:
            OptionError: There is no pass.
        """
        if not passes:
            raise OptionError("there is no language model to rescore with")
        rescorer = cls(*passes[0], old_lm=old_lm, carry_over=carry_over)
        rescorer._passes = list(passes)
        return rescorer

    def __call__(self, lattices: Iterable[Keyed], log: RescoreReport | None = None) -> Iterator[Keyed]:
        """Return the rescored lattices in input order, computed lazily; see `rescore`.

        A batch waits until the source has given `batch_arcs` arcs or has ended; `rescore` does not wait.
        """
        return self.coming(pairs(lattices), RescoreReport() if log is None else log)  # type: ignore[return-value]

    def on_threads(self, lattices: Iterable[Keyed], log: RescoreReport, num_threads: int) -> Iterator[Keyed]:
        """Do the same on several threads, with one copy of the models' weights; the results are the same bytes.

        Models without twins, see `LanguageModel.twin`, share each product among torch's threads instead.
        """
        return self.coming(pairs(lattices), log, num_threads=num_threads)  # type: ignore[return-value]

    def coming(self, lattices: Iterable[Coming], log: RescoreReport, *, num_threads: int = 1) -> Iterator[Coming]:
        """Do the same with lattices that may be awaited, see `Arrivals`.

        Returns:
            ``(key, lattice)`` in input order, and None where all results are given out and the next lattice is awaited.
        """
        start = time.perf_counter()
        lattices = _counted(with_merged_texts(lattices, self.options.scales, log), log)
        if log.vocabulary is None:
            lattices = self.vocabulary_check(log)(lattices)
        if self.context is not None:
            lattices = self.context.unchecked(lattices, log)
        if not self._passes:
            first = next((pair for pair in lattices if pair is not None), None)
            if first is None:
                return lattices
            if not self._passes:  # the check of words may have loaded them for the first lattice
                self._load(first[1].words, log)
            lattices = chain([first], lattices)
        old_lm = self.old_lm
        for lm, options in self._passes:
            queue = RecordingQueue(self.carry_over)
            models = BoundModels(self._over(lm), old_lm, options)
            make_engine = partial(self._engine, lm, models, queue=queue, log=log, num_threads=num_threads)
            lattices = self._rescored(lattices, options, make_engine)
            old_lm = None  # it is taken out when the first of the models is put in
        return _measured(lattices, log, start)

    def _rescored(
        self, lattices: Iterable[Coming], options: RescoreOptions, make_engine: Callable[[RescoreOptions], Engine]
    ) -> Iterator[Coming]:
        """Return the results of an engine, made at once if the options name its algorithm, else at the first lattice.

        Raises:
            OptionError: Options contradict each other.
        """
        if options.algorithm is not None:
            return make_engine(options).results(lattices)
        self._refuse_carry_over(options)
        return _of_first(lattices, options, make_engine)

    def vocabulary_check(self, log: RescoreReport) -> VocabularyCheck:
        """Return the check of lattices' words, for callers that know the files; they set ``log.vocabulary``."""
        return VocabularyCheck(
            lambda words: self._word_maps(words, log),
            self.options.max_unknown,
            log.cover,
            other_maps=lambda words: () if self.context is None else self.context.class_maps(words, log),
        )

    def _word_maps(self, words: SymbolTable, log: RescoreReport) -> Sequence[WordMap]:
        """Return the maps of a symbol table to the words of each model of each pass."""
        if self._maps is not None and self._maps[0] is words and self._maps[1] == len(words):
            return self._maps[2]
        if not self._passes:
            self._load(words, log)
        old_lm, maps = self.old_lm, []
        for lm, options in self._passes:
            models = BoundModels(self._over(lm), old_lm, options)
            for name, model in models.named_models():
                maps.append(WordMap(words, model, options.unk_penalty, map_words=options.map_words, name=name))
            old_lm = None
        self._maps = words, len(words), maps  # a growing table was completed where that matters
        return maps

    def _load(self, words: SymbolTable | None, log: RescoreReport) -> None:
        assert self.files is not None
        if self.context is not None:
            if words is not None:
                self.context.bind(words, log)
            self.old_lm = self.context.old_model
        self._passes, self.old_lm = self.files.load(self.options, words, log, self.old_lm)

    def submit(self, lattice: Lattice, entities: Any = None, *, timeout: float | None = None) -> Future[Lattice]:
        """Rescore a lattice together with those of other callers; to be called from any thread.

        Args:
            lattice: A lattice with its symbol table; callers should share one table, to which the model is bound.
            entities: Phrases of this utterance, for the context: ``Entities``, or what ``Entities.from_dict`` takes,
                such as ``{"@name": ["tom chen"]}``.
            timeout: Seconds to wait while ``max_waiting`` lattices are in flight; None: as long as it takes.

        Returns:
            A future of the rescored lattice. What is wrong with the lattice, or befalls it, is raised by its
            ``result()`` and is of no consequence to others. One that is cancelled before its turn is dropped.

        Raises:
            BusyError: ``max_waiting`` lattices were in flight for as long as `timeout`.
            ClosedError: The Rescorer is closed.
            OptionError: There are entities, but no context; several models take turns; or this is no lattice.
        """
        service = self._opened(entities)
        request = Request(lattice, entities, Future())
        if is_sound(request):
            service.wait_for_place(timeout)
            service.put(request)
        return request.future

    async def rescore(self, lattice: Lattice, entities: Any = None) -> Lattice:
        """Rescore a lattice together with those of other callers; to be awaited.

        While ``max_waiting`` lattices are in flight this waits for its turn, and no thread is blocked. Who is cancelled
        gives its place to the next. Arguments and errors, of the lattice too, are those of `submit`.
        """
        import asyncio  # loaded where it is awaited

        service = self._opened(entities)
        request = Request(lattice, entities, Future())
        if is_sound(request):
            place = service.place()
            try:
                await asyncio.wrap_future(place)
            except BaseException:
                service.give_up(place)
                raise
            service.put(request)
        return await asyncio.wrap_future(request.future)

    def close(self, timeout: float | None = None) -> None:
        """Take no more lattices, and finish those in flight; leaving ``with`` does it.

        Args:
            timeout: Seconds; the futures of lattices that are not done by then fail with ``ClosedError``. None: as long
                as it takes.
        """
        with self._opening:
            if self._service is None:
                self._service = self._new_service()
        self._service.close(timeout)

    @property
    def report(self) -> RescoreReport:
        """Counts and notes of the lattices that were submitted; failures are with their futures."""
        return self._opened(None).report

    def __enter__(self) -> Rescorer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self.close(None if kind is None else 0.0)

    def _opened(self, entities: Any) -> Service:
        """Return the service, made for the first lattice."""
        if entities is not None and self.context is None:
            raise OptionError(
                "entities need a context to know their boosts; give Rescorer(..., context=Contextual(...))"
            )
        if len(self._passes) > 1 or (self.files is not None and self.files.directions):
            raise OptionError("several models that take turns go over an iterable; submit to a Rescorer for each")
        with self._opening:
            if self._service is None:
                self._service = self._new_service()
            return self._service

    def _new_service(self) -> Service:
        return Service(
            self._prepared,
            self._live_engine,
            carry_over=self.carry_over,
            batch_arcs=self.options.batch_arcs,
            max_latency=self.max_latency,
            max_waiting=self.max_waiting,
        )

    def _prepared(self, lattice: Lattice, entities: Any, log: RescoreReport) -> Lattice:
        lattice, num_merged = merge_equal_texts(lattice, self.options.scales)
        log.merged += num_merged
        prepared = lattice if self.context is None else self.context.live(lattice, entities, log)
        assert lattice.words is not None
        for word_map in self._word_maps(lattice.words, log):
            if word_map.unknown_share(lattice) > self.options.max_unknown:
                error = unknown_words(word_map.coverage([lattice]), self.options.max_unknown)
                error.key = lattice.key
                raise error
        return prepared

    def _live_engine(self, lattice: Lattice, queue: RecordingQueue, log: LiveReport) -> Engine:
        lm, options = self._passes[0]
        options = options.for_lattice(lattice)
        self._passes[0] = lm, options  # what a lattice gets does not depend on the one it comes with
        if self._live_models is None:
            self._live_models = BoundModels(self._over(lm), self.old_lm, options)
        return self._engine(lm, self._live_models, options, queue=queue, log=log)

    def _over(self, lm: Model) -> Model:
        return lm if self.context is None else self.context.over(lm)

    def _engine(
        self,
        lm: Model,
        models: BoundModels,
        options: RescoreOptions,
        *,
        queue: RecordingQueue,
        log: RescoreReport,
        num_threads: int = 1,
    ) -> Engine:
        self._refuse_carry_over(options)
        refuse_words(lm, options)
        engine = SentenceEngine if options.algorithm in SENTENCES else SearchEngine
        mark_of = unmarked if self.context is None else self.context.mark_of
        return engine(models, options, queue, log, num_threads, mark_of)

    def _refuse_carry_over(self, options: RescoreOptions) -> None:
        if self.carry_over is not None and options.backward:
            raise OptionError("a model that reads backwards knows nothing of earlier utterances; leave carry_over out")


def rescore(
    lattices: Iterable[Keyed],
    lm: Model,
    options: RescoreOptions | None = None,
    *,
    old_lm: Model = None,
    carry_over: CarryOver | None = None,
    report: RescoreReport | None = None,
) -> Iterator[Keyed]:
    """Give lattices the scores of a language model.

    With the old language model, whose scores the lattices hold, the graph cost of an arc becomes
    ``graph + lm_weight * (-log p_new(word | history) + log p_old(word | history))``. Without it, its share is taken
    out by interpolation, ``(1 - lm_weight) * graph + lm_weight * -log p_new(word | history)``, which is exact where
    the graph cost is the old model's alone. Final states pay for ``</s>``. Acoustic costs stay as they are.

    Args:
        lattices: ``(key, lattice)`` pairs with symbol tables attached, as ``ninja.read`` yields them. A thread asks for
            the next one when it is wanted; while a slow source, such as a decoder at work, has none to give, those that
            came before are rescored and given out.
        lm: A language model, see ``ninja.lm.load``, or a mixture of several; None only takes the old one out.
        carry_over: Order of utterances, for a model with context from earlier ones.
        report: Filled on the way with counts, notes and how well the models know the words. With its ``on_error`` a
            failed lattice is left out and reported; without, the first failure is raised.

    Returns:
        ``(key, lattice)`` in input order, computed lazily. Memory is bounded by ``options.batch_arcs``. Whoever stops
        early should close it, or forget it: the source is closed then, too.

    Raises:
        VocabularyError: More than ``options.max_unknown`` of the arcs carry words a model lacks: of the first hundred
            lattices', or of all.
        ModelError: The memory does not hold a single step of the model, or one of whole sentences is to score words.
        OptionError: There is no model, or context is to be carried over to a model that reads backwards.
        NinjaError: Without ``on_error``, the first failure of a lattice.

    Source: after Kumar et al. 2017, arXiv:1711.05448 (hypotheses kept per arc; our reading, not their definition) and
    Sundermeyer et al. 2014 (push-forward); look-ahead calibration after Xu et al. 2018 (Kaldi's pruned composition).
    """
    return _results(Rescorer(lm, options, old_lm=old_lm, carry_over=carry_over), lattices, report)


def iterate(
    lattices: Iterable[Keyed],
    passes: Sequence[Pass],
    *,
    old_lm: Model = None,
    carry_over: CarryOver | None = None,
    report: RescoreReport | None = None,
) -> Iterator[Keyed]:
    """Rescore lattices with several language models in turn, each on the results of the one before.

    After pass j the graph cost of an arc is ``(1 - w_j) * graph + w_j * -log p_j(word | history)`` of the graph cost
    that pass j - 1 left, ``w_j`` being the ``lm_weight`` of its options. Each pass searches the lattice that the one
    before it wrote, so that paths the first models ruled out cost the later ones nothing. Models that read sentences
    from their end take their turn with ``backward=True`` in their options.

    Args:
        lattices: As for `rescore`.
        passes: Each model and its options, first to last. What ``output="best"`` leaves, no later pass can change.
        old_lm: The language model of the first pass, taken out when the first of these models is put in.
        carry_over: As for `rescore`, in every pass.
        report: As for `rescore`, of all passes together.

    Returns:
        ``(key, lattice)`` in input order, computed lazily.

    Raises:
        OptionError: There is no pass.

    Source: Ogawa et al. 2023, arXiv:2312.12764 (their interpolation along the iterations is not given; this is the
    running one).
    """
    return _results(Rescorer.of_passes(passes, old_lm=old_lm, carry_over=carry_over), lattices, report)


def _results(rescorer: Rescorer, lattices: Iterable[Keyed], report: RescoreReport | None) -> Iterator[Keyed]:
    report = RescoreReport() if report is None else report
    arrivals = Arrivals(pairs(lattices))
    found = rescorer.coming(arrivals, report)  # refuses what makes no sense now, not when the first lattice is wanted

    def results() -> Iterator[Keyed]:
        with closing(arrivals), closing(found):  # type: ignore[type-var]
            for pair in found:
                if pair is None:
                    arrivals.wait()
                else:
                    report.lattices += 1
                    yield pair

    return results()


def _counted(lattices: Iterable[Coming], log: RescoreReport) -> Iterator[Coming]:
    for pair in lattices:
        if pair is not None:
            log.arcs += pair[1].num_arcs
            if ADVICE not in log.notes and is_ambiguous(pair[1]):
                log.note(ADVICE)
        yield pair


def _of_first(
    lattices: Iterable[Coming], options: RescoreOptions, make_engine: Callable[[RescoreOptions], Engine]
) -> Iterator[Coming]:
    """Yield the results of the engine for the first lattice, and None where the next one is awaited."""
    source = iter(lattices)
    for pair in source:
        if pair is None:
            yield None
            continue
        with closing(make_engine(options.for_lattice(pair[1])).results(chain([pair], source))) as results:  # type: ignore[type-var]
            yield from results
        return


def _measured(results: Iterator[Coming], log: RescoreReport, start: float) -> Iterator[Coming]:
    for pair in results:
        if pair is not None:
            lattice = pair[1]
            log.arcs_written += lattice.num_arcs
            with suppress(LatticeError):  # alignments may contradict each other
                log.frames += num_frames(lattice)
            log.seconds = time.perf_counter() - start
        yield pair
    log.seconds = time.perf_counter() - start
    if log.vocabulary is None:
        log.tell_coverage()
