"""The wave loop: many lattices in flight, the language model asked about all of them at once.

Half of the lattices wait for the language model, which runs in a thread of its own, while the other half's bookkeeping
is done; then they change places. What a lattice gets does not depend on which others are in flight.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from ninja import _expand
from ninja.errors import LatticeError, ModelError, NinjaError
from ninja.graph import best_path, path_lattice, reverse
from ninja.rescoring.asking import Answers, Asker
from ninja.rescoring.carry_over import Turn
from ninja.rescoring.options import MAX_ARCS
from ninja.rescoring.run import Keyed, Run, with_replaced_costs


class _Half:
    """The lattices that take their waves together."""

    def __init__(self, expander: _expand.Expander) -> None:
        self.expander = expander
        self.turns: dict[int, Turn] = {}  # ticket -> what is searched there
        self.num_arcs = 0  # of these
        self.answers: Future[Answers] | None = None


class SearchRun(Run):
    """One call of ``rescore`` with one of the algorithms that search wave by wave."""

    def _waves(self, source: Iterator[Keyed], ask: Asker) -> Generator[None, None, None]:
        halves = [_Half(self._expander()) for _ in range(2)]
        with ThreadPoolExecutor(1, "language-model") as pool:
            try:
                while True:
                    for half in halves:
                        self._take_answers(half)
                        self._tell(ask)
                        self._admit(half, source, any(each.turns for each in halves))
                        if half.turns:
                            half.answers = pool.submit(ask, *half.expander.gather())
                            self.report.calls += 1
                    yield
                    if not any(half.turns for half in halves):
                        break
            finally:
                for half in halves:
                    self._abandon(half)

    def _expander(self) -> _expand.Expander:
        options = self.options
        return _expand.Expander(
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

    def _admit(self, half: _Half, source: Iterator[Keyed], busy: bool) -> None:
        """Take lattices in until the arcs in flight, or waiting behind a slow lattice, fill the budget."""
        budget = self.options.batch_arcs
        while not half.turns or half.num_arcs < budget // 2:
            turn = self.turns.ready()
            if turn is None:
                if self.num_arcs_held >= 4 * budget and busy:
                    return
                pair = next(source, None)
                if pair is None:
                    return
                turn = self._enter(pair[1])
            if turn is not None and self._start(half, turn):
                busy = True

    def _start(self, half: _Half, turn: Turn) -> bool:
        """Begin the search of a lattice; tell whether that was possible."""
        try:
            lattice = reverse(turn.lattice) if self.options.backward else turn.lattice
            lm_word, extra = self.models.of(lattice)
        except NinjaError as error:
            self._fail(turn.number, error)
            self.turns.leave(turn, ())
            return False
        half.turns[half.expander.add(lattice, lm_word, extra, turn.context)] = turn
        half.num_arcs += self.arcs_held[turn.number]
        return True

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
            turn = half.turns.pop(ticket)
            half.num_arcs -= self.arcs_held[turn.number]
            self.report.expanded_arcs += expanded
            words: Sequence[int] = ()
            try:
                words = self._finish(half.expander, ticket, status, turn)
            except NinjaError as error:
                self._fail(turn.number, error)
            self.turns.leave(turn, words)
            half.expander.remove(ticket)

    def _abandon(self, half: _Half) -> None:
        """Give every slot back, also when the run stops half-way."""
        if half.answers is not None and half.answers.exception() is None:
            slots, logprob, _ = half.answers.result()
            half.expander.scatter(slots, logprob)
        self.models.lm.release(half.expander.all_slots())

    def _finish(self, expander: _expand.Expander, ticket: int, status: int, turn: Turn) -> Sequence[int]:
        """Keep the result of a search, and return what was said for the utterances that follow."""
        source = expander.source(ticket)
        if status == _expand.NO_PATH:
            raise LatticeError("no final state can be reached from the start", key=source.key)
        if status == _expand.NOT_FINITE:
            raise ModelError("the language model gave NaN, or probability zero, for a word", key=source.key)
        if status == _expand.TOO_LARGE:
            raise LatticeError(
                f"its expansion passes {MAX_ARCS} arcs; set max_hyps, max_active or a smaller beam", key=source.key
            )
        said: Sequence[int] = ()
        if self.options.output == "input" and turn.recording is None:
            result = with_replaced_costs(source, *expander.replaced(ticket))
        else:
            result = expander.lattice(ticket)
            if self.options.output != "lattice" or turn.recording is not None:
                scale, penalty = self.options.acoustic_scale, self.options.word_penalty
                best = best_path(result, acoustic_scale=scale, word_penalty=penalty)
                if turn.recording is not None:
                    said = self.models.said(source, best.words)
                if self.options.output == "best":
                    result = path_lattice(result, best)
                elif self.options.output == "input":
                    result = with_replaced_costs(source, *expander.replaced(ticket))
        self._keep(turn, result)
        return said
