"""`rescore` and the object behind it: language models and options, ready for many lattices."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Protocol

from ninja.errors import LatticeError, OptionError
from ninja.graph import num_frames
from ninja.lattice import Lattice
from ninja.lattice.keyed import pairs
from ninja.rescoring.arrivals import Arrivals
from ninja.rescoring.carry_over import CarryOver, RecordingQueue
from ninja.rescoring.engine import AsGiven, Coming, Engine, Keyed, SearchEngine
from ninja.rescoring.models import BoundModels, Model, ModelFiles, Pass
from ninja.rescoring.options import SENTENCES, RescoreOptions, RescoreReport
from ninja.rescoring.sentences import SentenceEngine


class ContextStage(Protocol):
    """The stage that makes phrases more probable before lattices are rescored, as `ninja.context` does."""

    old_model: Any  # the first pass's language model, where it is loaded

    def __call__(self, lattices: Iterable[AsGiven], log: RescoreReport) -> Iterator[AsGiven]:
        """Yield the lattices with their context, and None where the next is awaited."""


class Rescorer:
    """Rescores lattices with language models: a stage for ``ninja.parallel.stream``, and what `rescore` calls.

    Args:
        lm: A language model, see ``ninja.lm.load``, or a mixture of several; None only takes the old one out. Or
            files, which are loaded when the first lattice is seen; only these can go to worker processes.
        carry_over: Order of utterances, for a model with context from earlier ones.
        context: What lattices go through first.
    """

    def __init__(
        self,
        lm: Model | ModelFiles,
        options: RescoreOptions | None = None,
        *,
        old_lm: Model = None,
        carry_over: CarryOver | None = None,
        context: ContextStage | None = None,
    ) -> None:
        self.options = options or RescoreOptions()
        self.files = lm if isinstance(lm, ModelFiles) else None
        self.old_lm = old_lm  # once it is loaded
        self.carry_over = carry_over
        self.context = context
        self._passes: list[Pass] = [] if isinstance(lm, ModelFiles) else [(lm, self.options)]

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

    def coming(self, lattices: Iterable[Coming], log: RescoreReport) -> Iterator[Coming]:
        """Do the same with lattices that may be awaited, see `Arrivals`.

        Returns:
            ``(key, lattice)`` in input order, and None where all results are given out and the next lattice is awaited.
        """
        start = time.perf_counter()
        lattices = _counted(lattices, log)
        if self.context is not None:
            lattices = self.context(lattices, log)
        if not self._passes:
            first = next((pair for pair in lattices if pair is not None), None)
            if first is None:
                return lattices
            self._load(first[1], log)
            lattices = chain([first], lattices)
        old_lm = self.old_lm
        for lm, options in self._passes:
            lattices = self._engine(BoundModels(lm, old_lm, options), options, log).results(lattices)
            old_lm = None  # it is taken out when the first of the models is put in
        if self.files is not None:  # of a worker's later batches: whether the models know the words is settled now
            self._passes = [(lm, replace(options, max_unknown=1.0)) for lm, options in self._passes]
        return _measured(lattices, log, start)

    def _load(self, lattice: Lattice, log: RescoreReport) -> None:
        assert self.files is not None
        if self.context is not None:
            self.old_lm = self.context.old_model
        self._passes, self.old_lm = self.files.load(self.options, lattice.words, log, self.old_lm)

    def _engine(self, models: BoundModels, options: RescoreOptions, log: RescoreReport) -> Engine:
        if self.carry_over is not None and options.backward:
            raise OptionError("a model that reads backwards knows nothing of earlier utterances; leave carry_over out")
        queue = RecordingQueue(self.carry_over)
        engine = SentenceEngine if options.algorithm in SENTENCES else SearchEngine
        return engine(models, options, queue, log)

    def __reduce__(self) -> tuple[object, ...]:
        if self.carry_over is not None:
            raise OptionError("context cannot be carried over from one worker process to another; use one process")
        if self.files is None:
            raise OptionError("worker processes load models for themselves: give ModelFiles, or use one process")
        return partial(Rescorer, context=self.context), (self.files, self.options)


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
        VocabularyError: More than ``options.max_unknown`` of the first lattices' arcs carry words a model lacks.
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
        yield pair


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
