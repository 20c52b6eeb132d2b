"""Algorithms that search with the language model: arc-beam, push-forward and Kaldi's pruned composition.

The lattices are divided into two halves. While the language model scores one half in its own thread, the other half is
expanded; then they swap.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ninja import _search
from ninja.errors import LatticeError, ModelError, NinjaError
from ninja.graph import best_path, path_lattice, reverse
from ninja.lattice import Lattice
from ninja.rescoring.engine import Answers, BatchedLM, Engine, InThisThread, with_replaced_costs
from ninja.rescoring.options import LARGEST, MAX_ARCS, Algorithm, EngineOptions, SearchOptions, option
from ninja.rescoring.utterances import Utterance


@dataclass(frozen=True)
class PrunedOptions(EngineOptions):
    """Options of Kaldi's pruned composition."""

    section: ClassVar[str] = "Search: pruned"

    max_ngram_order: int = option(
        3, "pruned: merge histories whose last N-1 words are equal; 0 merges no histories.", 2, LARGEST, or_zero=True
    )
    max_arcs: int = option(
        100_000, "pruned: stop expanding a lattice at this many arcs if it has a complete path.", 1, MAX_ARCS
    )
    growth_ratio: float = option(
        1.5, "pruned: re-estimate costs each time the lattice grows by this factor.", 1.01, 1e6
    )


class _HalfBatch:
    """Lattices that are scored in the same language model calls."""

    def __init__(self, expander: _search.Expander) -> None:
        self.expander = expander
        self.utterances: dict[int, Utterance] = {}  # by the number that the expander assigned
        self.num_arcs = 0  # number of arcs of all utterances
        self.answers: Future[Answers] | None = None


class SearchEngine(Engine):
    """Search in which hypotheses compete in each state."""

    options: PrunedOptions
    competes_on_arcs: ClassVar[bool] = False
    is_pruned: ClassVar[bool] = False  # Kaldi's pruned composition

    def steps(self, lm: BatchedLM) -> Generator[None, None, None]:
        """See `Engine.steps`."""
        halves = [_HalfBatch(self._expander()) for _ in range(2)]
        with InThisThread() if self.in_flight.has_threads else ThreadPoolExecutor(1, "language-model") as pool:
            try:
                while True:
                    for half in halves:
                        self._take_answers(half)
                        self.note(lm.notes)
                        self._admit(half, any(other.utterances for other in halves))
                        if half.utterances:
                            half.answers = pool.submit(lm.wave, *half.expander.gather())
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
            max_arcs=options.max_arcs if self.is_pruned else MAX_ARCS,
            merge_order=options.history_words,
            eos=self.models.lm.eos,
            pruned=self.is_pruned,
            per_arc=self.competes_on_arcs,
            look_ahead=options.look_ahead != "none",
            calibrate=options.look_ahead == "calibrated",
        )

    def _admit(self, half: _HalfBatch, busy: bool) -> None:
        """Add lattices up to the limit on arcs, which includes finished lattices that wait for an earlier one."""
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
        """Stop the searches of utterances whose deadline has expired."""
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
        """Release all slots, for example when the run is stopped."""
        if half.answers is not None and half.answers.exception() is None:
            slots, logprob, _ = half.answers.result()
            half.expander.scatter(slots, logprob)
        self.models.lm.release(half.expander.all_slots())

    def _result(
        self, expander: _search.Expander, number: int, status: int, utterance: Utterance
    ) -> tuple[Lattice, Sequence[int]]:
        """Return the result of a search, and the words to carry over to the next utterance."""
        source = expander.source(number)
        if status == _search.NO_PATH:
            raise LatticeError("no final state can be reached from the start state", key=source.key)
        if status == _search.NOT_FINITE:
            raise ModelError("the language model returned NaN or probability zero for a word", key=source.key)
        if status == _search.TOO_LARGE:
            raise _too_large(source.key)
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
    """Search in which hypotheses compete on each arc."""

    competes_on_arcs = True


class PrunedEngine(SearchEngine):
    """Kaldi's pruned composition, in which all hypotheses of a lattice compete with each other."""

    is_pruned = True


ARCBEAM = Algorithm("arcbeam", SearchOptions, ArcBeamEngine, "hypotheses compete on each arc", max_hyps=4)
PUSHFORWARD = Algorithm("pushforward", SearchOptions, SearchEngine, "hypotheses compete in each state", max_hyps=5)
PRUNED = Algorithm(
    "pruned",
    PrunedOptions,
    PrunedEngine,
    "Kaldi's pruned composition",
    history_words=lambda options: max(options.max_ngram_order - 1, 0),
)
