"""The wave loop: many lattices in flight, the language model asked about all of them at once.

Half of the lattices wait for the language model, which runs in a thread of its own, while the other half's bookkeeping
is done; then they change places. What a lattice gets does not depend on which others are in flight.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from ninja import _expand
from ninja.errors import LatticeError, ModelError, NinjaError, SymbolError, VocabularyError
from ninja.graph import best_path, connect, num_frames, path_lattice, select_arcs
from ninja.lattice import Lattice
from ninja.lm import LanguageModel
from ninja.rescore.options import RescoreOptions
from ninja.rescore.report import RescoreReport
from ninja.rescore.vocabulary import Coverage, WordMap

MAX_ARCS = 10_000_000  # of one lattice's expansion; beyond, the lattice is given up rather than the machine

Slots = npt.NDArray[np.int64]
Answers = tuple[Slots, npt.NDArray[np.float32], float]
Keyed = tuple[str, Lattice]


def rescore(
    lattices: Iterable[Keyed],
    lm: LanguageModel,
    options: RescoreOptions | None = None,
    *,
    on_error: Callable[[NinjaError], None] | None = None,
    on_coverage: Callable[[Coverage], None] | None = None,
    report: RescoreReport | None = None,
) -> Iterator[Keyed]:
    """Give lattices the scores of a language model.

    The graph cost of an arc becomes ``(1 - lm_weight) * graph + lm_weight * -log p(word | history)``: without the old
    language model at hand, its share is taken out by interpolation, which is exact where the graph cost is the old
    model's alone. Final states pay for ``</s>``. Acoustic costs stay as they are.

    Args:
        lattices: ``(key, lattice)`` pairs with symbol tables attached, as ``ninja.read`` yields them.
        lm: A language model, see ``ninja.lm.load``.
        options: Algorithm, weights, limits and the kind of output.
        on_error: Called with each lattice's failure, which is then left out; without it the first failure is raised.
        on_coverage: Called once, before rescoring, with how well the model knows the first lattices' words.
        report: Counters to fill.

    Yields:
        ``(key, lattice)`` in input order. Memory is bounded by ``options.batch_arcs``.

    Raises:
        VocabularyError: More than ``options.max_unknown`` of the first lattices' arcs carry words the model lacks.
        NinjaError: Without ``on_error``, the first failure of a lattice.

    Source: after Kumar et al. 2017, arXiv:1711.05448 (hypotheses kept per arc; our reading, not their definition) and
    Sundermeyer et al. 2014 (push-forward); look-ahead calibration after Xu et al. 2018 (Kaldi's pruned composition).
    """
    run = _Run(lm, options or RescoreOptions(), on_error, report or RescoreReport())
    return run.results(lattices, on_coverage)


class _Half:
    """The lattices that take their waves together."""

    def __init__(self, expander: _expand.Expander) -> None:
        self.expander = expander
        self.number: dict[int, int] = {}  # ticket -> place in the input
        self.num_arcs = 0  # of these
        self.answers: Future[Answers] | None = None


class _Run:
    """One call of ``rescore``."""

    def __init__(
        self,
        lm: LanguageModel,
        options: RescoreOptions,
        on_error: Callable[[NinjaError], None] | None,
        report: RescoreReport,
    ) -> None:
        self.lm = lm
        self.options = options
        self.on_error = on_error
        self.report = report
        self.word_map: WordMap | None = None
        self.done: dict[int, Keyed | None] = {}  # finished, waiting for its turn; None: failed
        self.arcs_held: dict[int, int] = {}  # arcs of each lattice taken in and not yet handed out
        self.num_arcs_held = 0  # their sum; counted along, since tiny lattices are in flight by the ten thousand
        self.next_in = 0
        self.next_out = 0

    def results(self, lattices: Iterable[Keyed], on_coverage: Callable[[Coverage], None] | None) -> Iterator[Keyed]:
        start = time.perf_counter()
        source = iter(lattices)
        first = self._peek(source)
        if on_coverage is not None and self.report.coverage is not None:
            on_coverage(self.report.coverage)
        source = chain(first, source)
        halves = [_Half(self._expander()) for _ in range(2)]
        with ThreadPoolExecutor(1, "language-model") as pool:
            try:
                while True:
                    for half in halves:
                        self._take_answers(half)
                        self._admit(half, source)
                        if half.number:
                            half.answers = pool.submit(_ask, self.lm, *half.expander.gather())
                            self.report.calls += 1
                    while self.next_out in self.done:
                        result = self.done.pop(self.next_out)
                        self.num_arcs_held -= self.arcs_held.pop(self.next_out)
                        self.next_out += 1
                        self.report.seconds = time.perf_counter() - start
                        if result is not None:
                            yield result
                    if not any(half.number for half in halves) and not self.done:
                        break
            finally:
                for half in halves:
                    self._abandon(half)
        self.report.seconds = time.perf_counter() - start

    def _peek(self, source: Iterator[Keyed]) -> list[Keyed]:
        """Take the first lattices and refuse when the model does not know their words."""
        first: list[Keyed] = []
        arcs = 0
        for key, lattice in source:
            first.append((key, lattice))
            arcs += lattice.num_arcs
            if arcs >= self.options.batch_arcs:
                break
        tables = [lattice.words for _, lattice in first if lattice.words is not None]
        if not first:
            return first
        if not tables:
            raise VocabularyError("the lattices carry no symbol table; give the words.txt they were made with")
        self.word_map = WordMap(tables[0], self.lm, self.options.unk_penalty)
        coverage = self.word_map.coverage(lattice for _, lattice in first)
        self.report.coverage = coverage
        if coverage.share > self.options.max_unknown:
            raise VocabularyError(
                f"{coverage.facts}; more than max_unknown = {self.options.max_unknown:.0%}: is this the right model, "
                "and the right symbol table? Raise max_unknown to go on all the same"
            )
        return first

    def _expander(self) -> _expand.Expander:
        options = self.options
        return _expand.Expander(
            int(self.lm.start(1)[0]),
            lm_weight=options.lm_weight,
            acoustic_scale=options.acoustic_scale,
            word_penalty=options.word_penalty,
            beam=options.beam,
            first_pass_beam=options.first_pass_beam,
            max_hyps=options.hypotheses,
            max_active=options.max_active,
            max_arcs=MAX_ARCS,
            merge_order=options.history_words,
            eos=self.lm.eos,
            per_arc=options.algorithm == "arcbeam",
            look_ahead=options.look_ahead != "none",
            calibrate=options.look_ahead == "calibrated",
        )

    def _admit(self, half: _Half, source: Iterator[Keyed]) -> None:
        """Take lattices in until the arcs in flight, or waiting behind a slow lattice, fill the budget."""
        budget = self.options.batch_arcs
        while not half.number or (half.num_arcs < budget // 2 and self.num_arcs_held < 2 * budget):
            pair = next(source, None)
            if pair is None:
                return
            number, self.next_in = self.next_in, self.next_in + 1
            _, lattice = pair
            self.arcs_held[number] = max(lattice.num_arcs, 1)
            self.num_arcs_held += self.arcs_held[number]
            self.report.arcs += lattice.num_arcs
            try:
                lm_word, extra = self._words_of(lattice)
            except (SymbolError, VocabularyError) as error:
                self._fail(number, error)
                continue
            half.number[half.expander.add(lattice, lm_word, extra)] = number
            half.num_arcs += self.arcs_held[number]

    def _words_of(self, lattice: Lattice) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        if lattice.words is None:
            raise VocabularyError("the lattice carries no symbol table", key=lattice.key)
        if self.word_map is None or self.word_map.words is not lattice.words:
            self.word_map = WordMap(lattice.words, self.lm, self.options.unk_penalty)
        return self.word_map.of(lattice)

    def _take_answers(self, half: _Half) -> None:
        if half.answers is None:
            return
        slots, logprob, seconds = half.answers.result()
        half.answers = None
        half.expander.scatter(slots, logprob)
        self.report.histories += slots.size
        self.report.scores += logprob.size
        self.report.lm_seconds += seconds
        for ticket, status, expanded in half.expander.ended():
            number = half.number.pop(ticket)
            half.num_arcs -= self.arcs_held[number]
            self.report.expanded_arcs += expanded
            try:
                self._finish(half.expander, ticket, status, number)
            except NinjaError as error:
                self._fail(number, error)
            half.expander.remove(ticket)

    def _abandon(self, half: _Half) -> None:
        """Give every slot back, also when the run stops half-way."""
        if half.answers is not None:
            if half.answers.exception() is not None:
                return  # which slots were made is not known; the error is on its way up
            slots, logprob, _ = half.answers.result()
            half.expander.scatter(slots, logprob)
        self.lm.release(half.expander.all_slots())

    def _finish(self, expander: _expand.Expander, ticket: int, status: int, number: int) -> None:
        source = expander.source(ticket)
        if status == _expand.NO_PATH:
            raise LatticeError("no final state can be reached from the start", key=source.key)
        if status == _expand.NOT_FINITE:
            raise ModelError("the language model gave NaN, or probability zero, for a word", key=source.key)
        if status == _expand.TOO_LARGE:
            raise LatticeError(
                f"its expansion passes {MAX_ARCS} arcs; set max_hyps, max_active or a smaller beam", key=source.key
            )
        if self.options.output == "input":
            result = _with_replaced_costs(source, *expander.replaced(ticket))
        else:
            result = expander.lattice(ticket)
            if self.options.output == "best":
                scale, penalty = self.options.acoustic_scale, self.options.word_penalty
                result = path_lattice(result, best_path(result, acoustic_scale=scale, word_penalty=penalty))
        self.report.lattices += 1
        self.report.arcs_written += result.num_arcs
        self.report.frames += _frames_if_known(result)
        self.done[number] = (result.key, result)

    def _fail(self, number: int, error: NinjaError) -> None:
        if self.on_error is None:
            raise error
        self.report.failures.append(error)
        self.on_error(error)
        self.done[number] = None


def _ask(
    lm: LanguageModel,
    released: Slots,
    advance_slot: Slots,
    advance_word: npt.NDArray[np.int32],
    score_slot: Slots,
    score_word: npt.NDArray[np.int32],
) -> Answers:
    """Put one wave's questions to the language model; score slots below 0 count the histories made here."""
    start = time.perf_counter()
    if released.size:
        lm.release(released)
    made = lm.advance(advance_slot, advance_word) if advance_slot.size else np.empty(0, np.int64)
    _check_shape("advance", made, advance_slot)
    if made.size:
        fresh = score_slot < 0
        score_slot[fresh] = made[-1 - score_slot[fresh]]
    logprob = lm.logprob(score_slot, score_word) if score_slot.size else np.empty(0, np.float32)
    _check_shape("logprob", logprob, score_slot)
    return (
        np.ascontiguousarray(made, np.int64),
        np.ascontiguousarray(logprob, np.float32),
        time.perf_counter() - start,
    )


def _check_shape(method: str, answer: npt.NDArray[Any], question: Slots) -> None:
    if np.shape(answer) != question.shape:
        raise ModelError(f"the model's {method} gave shape {np.shape(answer)} for a batch of {question.size}")


def _with_replaced_costs(
    source: Lattice, graph: npt.NDArray[np.float32], final_graph: npt.NDArray[np.float32]
) -> Lattice:
    """Keep the topology; arcs and finals the search never used have no score of the new model and are left out."""
    final_acoustic = np.where(np.isinf(final_graph), np.float32(np.inf), source.final_acoustic)
    for array in (final_graph, final_acoustic):
        array.flags.writeable = False
    used = np.isfinite(graph)
    changed = replace(
        source.with_costs(np.where(used, graph, np.float32(0))), final_graph=final_graph, final_acoustic=final_acoustic
    )
    return connect(changed if used.all() else select_arcs(changed, used))


def _frames_if_known(lattice: Lattice) -> int:
    """Return the length in frames, for the report; 0 where alignments contradict each other."""
    try:
        return num_frames(lattice)
    except LatticeError:
        return 0
