"""Rescoring by whole sentences: what is scored is chosen on first-pass costs, then scored all at once.

The lattices of a batch are unfolded, each in its own way, their words joined into one trie, and the language model is
asked about that trie. What a lattice gets does not depend on the others.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np

from ninja import _sentences
from ninja._trie import WordTrie
from ninja.errors import LatticeError, ModelError, NinjaError
from ninja.graph import best_path, connect, prune, reverse
from ninja.graph.copies import copied_lattice
from ninja.lattice import Lattice
from ninja.lm.protocol import LanguageModel
from ninja.lm.trie import score_trie
from ninja.rescoring.asking import Asker, out_of_memory
from ninja.rescoring.carry_over import Turn
from ninja.rescoring.run import Keyed, Run, with_replaced_costs
from ninja.rescoring.unfold import NO_NODE, Floats, Unfolded, unfold

TOO_MANY_WORDS = (
    "the memory does not hold its words in the language model all at once; set a smaller num_best, max_trie_nodes or "
    "prune_beam"
)


@dataclass(frozen=True, slots=True, eq=False)
class _Unfolding:
    """A lattice of the batch."""

    turn: Turn
    source: Lattice  # that was unfolded
    extra: Floats  # [num_arcs of it], cost of each word beyond the model's
    unfolded: Unfolded


class SentenceRun(Run):
    """One call of ``rescore`` with one of the algorithms that score sentences."""

    def _waves(self, source: Iterator[Keyed], ask: Asker) -> Generator[None, None, None]:
        while batch := self._batch(source):
            self._rescore(batch, ask)
            yield
        yield  # the last lattices may all have failed

    def _batch(self, source: Iterator[Keyed]) -> list[_Unfolding]:
        """Unfold lattices until there are arcs enough, or all that are left wait for others of their recording."""
        batch: list[_Unfolding] = []
        arcs = 0
        while arcs < self.options.batch_arcs:
            turn = self.turns.ready()
            if turn is None:
                if batch and self.num_arcs_held >= 2 * self.options.batch_arcs:
                    break  # what was read meanwhile waits for utterances of this batch
                pair = next(source, None)
                if pair is None:
                    break
                turn = self._enter(pair[1])
            if turn is None:
                continue
            try:
                batch.append(self._unfold(turn))
            except NinjaError as error:
                self._fail(turn.number, error)
                self.turns.leave(turn, ())
                continue
            arcs += max(turn.lattice.num_arcs, batch[-1].unfolded.dst.size)
        return batch

    def _unfold(self, turn: Turn) -> _Unfolding:
        options = self.options
        lattice = reverse(turn.lattice) if options.backward else turn.lattice
        lm_word, extra = self.models.of(lattice)
        if options.algorithm == "cover":
            lattice, arc = prune(
                lattice, options.first_pass_beam, options.acoustic_scale, 1.0, options.word_penalty, return_arc_map=True
            )
            lm_word, extra = lm_word[arc], extra[arc]
        return _Unfolding(turn, lattice, extra, unfold(lattice, lm_word, self.models.lm.eos, options))

    def _rescore(self, batch: list[_Unfolding], ask: Asker) -> None:
        """Score the words of a batch and keep its lattices; where memory does not hold it, half by half."""
        forest = WordTrie()
        nodes = [forest.add_trie(each.unfolded.parent, each.unfolded.word, self._below(forest, each)) for each in batch]
        parent, word = forest.parent, forest.word
        start = time.perf_counter()
        try:
            score = score_trie(_Patient(ask), parent, word, on_call=self._count_call)
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            if len(batch) == 1:
                [each] = batch
                self._fail(each.turn.number, LatticeError(TOO_MANY_WORDS, key=each.source.key))
                self.turns.leave(each.turn, ())
                return
            ask.notes.append(f"out of memory at {len(batch)} lattices; trying them half by half")
            self._tell(ask)
            self._rescore(batch[: len(batch) // 2], ask)
            self._rescore(batch[len(batch) // 2 :], ask)
            return
        self.report.lm_seconds += time.perf_counter() - start
        self.report.scores += parent.size
        self.report.histories += np.unique(parent[parent >= 0]).size
        self._tell(ask)
        for each, node in zip(batch, nodes, strict=True):
            said: tuple[int, ...] = ()
            try:
                said = self._finish(each, score[node])
            except NinjaError as error:
                self._fail(each.turn.number, error)
            self.turns.leave(each.turn, said)

    def _below(self, forest: WordTrie, each: _Unfolding) -> int:
        """Return the node behind the words that were said before an utterance, -1 if there are none."""
        context = np.array(each.turn.context, np.int32)
        return int(forest.add(context, np.array([0, context.size]))[-1]) if context.size else -1

    def _count_call(self) -> None:
        self.report.calls += 1

    def _finish(self, each: _Unfolding, score: Floats) -> tuple[int, ...]:
        """Keep a lattice with its new costs; return what was said in it, for the utterances that follow."""
        if not np.isfinite(score).all():
            raise ModelError("the language model gave NaN, or probability zero, for a word", key=each.source.key)
        options, unfolded, source = self.options, each.unfolded, each.source
        scale, penalty = options.acoustic_scale, options.word_penalty
        self.report.expanded_arcs += int(np.count_nonzero(unfolded.arc_node != NO_NODE))
        graph, final_graph = self._costs(each, score)
        said: tuple[int, ...] = ()
        result = None
        if options.output == "best" or each.turn.recording is not None:
            result = _best(unfolded, source, graph, final_graph, scale, penalty)
            if each.turn.recording is not None:
                said = tuple(self.models.said(source, result.word))
        if options.output == "input":
            arcs = (unfolded.state_map, unfolded.arc_begin, unfolded.dst, unfolded.arc_map)
            found = _sentences.replaced(source, *arcs, graph, final_graph, scale, penalty)
            result = with_replaced_costs(source, *found)
        elif options.output == "lattice":
            result = unfolded.lattice(source, graph, final_graph)
            # Beyond the trie the paths are many, and of little worth.
            cut = options.algorithm == "trie"
            result = prune(result, options.search_beam, scale, 1.0, penalty) if cut else connect(result)
        assert result is not None
        self._keep(each.turn, result)
        return said

    def _costs(self, each: _Unfolding, score: Floats) -> tuple[Floats, Floats]:
        """Return the new graph costs of the unfolded arcs and final states."""
        share, scale = self.models.graph_share, self.models.lm_scale
        unfolded, source = each.unfolded, each.source
        spoken = unfolded.arc_node != NO_NODE
        new = np.zeros(spoken.size)
        new[spoken] = each.extra[unfolded.arc_map[spoken]] - score[unfolded.arc_node[spoken]].astype(np.float64)
        graph = share * source.graph[unfolded.arc_map].astype(np.float64) + scale * new
        final_graph = np.full(unfolded.state_map.size, np.inf)
        ends = unfolded.final_node != NO_NODE
        old = source.final_graph[unfolded.state_map[ends]].astype(np.float64)
        final_graph[ends] = share * old - scale * score[unfolded.final_node[ends]].astype(np.float64)
        return graph.astype(np.float32), final_graph.astype(np.float32)


def _best(
    unfolded: Unfolded, source: Lattice, graph: Floats, final_graph: Floats, acoustic_scale: float, word_penalty: float
) -> Lattice:
    """Return the best path as a lattice, without having made the whole one's alignments."""
    whole = unfolded.lattice(source, graph, final_graph, labels=False)
    arcs = best_path(whole, acoustic_scale=acoustic_scale, word_penalty=word_penalty).arcs
    states = np.concatenate([[0], unfolded.dst[arcs]])
    final = np.full(states.size, np.inf, np.float32)
    final[-1] = final_graph[states[-1]]
    return copied_lattice(
        source,
        unfolded.state_map[states],
        np.minimum(np.arange(states.size + 1), arcs.size),
        np.arange(1, states.size, dtype=np.int32),
        unfolded.arc_map[arcs],
        graph[arcs],
        final,
    )


class _Patient(LanguageModel):
    """A language model that is asked less at once when memory runs out."""

    def __init__(self, ask: Asker) -> None:
        lm = ask.lm
        self._ask = ask
        self.vocabulary, self.bos, self.eos = lm.vocabulary, lm.bos, lm.eos
        self.unk, self.unk_words = lm.unk, lm.unk_words
        self.scores_tries = lm.scores_tries

    def start(self, count: int) -> np.ndarray:
        """See `LanguageModel.start`."""
        return self._ask.lm.start(count)

    def release(self, slots: np.ndarray) -> None:
        """See `LanguageModel.release`."""
        self._ask.lm.release(slots)

    def score_trie(self, parent: np.ndarray, word: np.ndarray) -> np.ndarray:
        """See `LanguageModel.score_trie`."""
        return self._ask.lm.score_trie(parent, word)

    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.advance`."""
        return self._ask(_NO_SLOTS, slots, words, _NO_SLOTS, _NO_WORDS)[0]

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.logprob`."""
        return self._ask(_NO_SLOTS, _NO_SLOTS, _NO_WORDS, slots, words)[1]


_NO_SLOTS = np.empty(0, np.int64)
_NO_WORDS = np.empty(0, np.int32)
