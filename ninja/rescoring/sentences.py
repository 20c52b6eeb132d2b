"""The algorithms nbest, cover and trie, which select sentences or prefixes by first-pass costs and score them together.

The lattices in a batch are unfolded: states are copied so that each arc has a single word history. The algorithms
differ in which histories they keep. The words of all lattices are joined into one trie, which the language model
scores. The scores of a lattice do not depend on the other lattices in the batch.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ninja import _search
from ninja._core import WordTrie
from ninja.errors import LatticeError, ModelError, NinjaError
from ninja.graph import best_path, connect, nbest, prune, reverse
from ninja.graph.split import copied_lattice
from ninja.lattice import Lattice, Scales
from ninja.lattice.lattice import ListLattice
from ninja.lm.protocol import BatchedLM, out_of_memory
from ninja.lm.trie import score_trie
from ninja.rescoring.engine import Engine, with_replaced_costs
from ninja.rescoring.options import DEFAULT_MERGE_ORDER, LARGEST, MAX_ARCS, Algorithm, EngineOptions, option
from ninja.rescoring.utterances import Utterance

TOO_MANY_WORDS = (
    "out of memory while the language model scored the words of this lattice; set a smaller num_best, max_trie_nodes "
    "or prune_beam"
)
DEFAULT_NUM_BEST = 100
NO_NODE = -2  # trie node of arcs without a word, and of states that are not final

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class SentenceOptions(EngineOptions):
    """Options for the algorithms that score whole sentences: nbest, cover and trie."""

    section: ClassVar[str] = "Search: nbest, cover, trie"

    num_best: int | None = option(
        None,
        "nbest: maximum number of sentences per lattice.  [default: 100; for n-best lists, all sentences]",
        1,
        LARGEST,
    )
    min_posterior: float = option(0.5, "cover: split states after arcs whose posterior exceeds this.", 0, 1)
    max_trie_nodes: int = option(
        1000, "trie: maximum number of word prefixes per lattice; 0 keeps all within the beam.", 0, LARGEST
    )

    def sentences_of(self, lattice: Lattice) -> int:
        """Return the maximum number of sentences that ``nbest`` scores in a lattice."""
        if self.num_best is not None:
            return self.num_best
        return max(lattice.num_hypotheses, 1) if isinstance(lattice, ListLattice) else DEFAULT_NUM_BEST


@dataclass(frozen=True, slots=True, eq=False)
class Unfolded:
    """A lattice unfolded into copies of its states and arcs, and the word trie for scoring the copied arcs."""

    state_map: Int32s  # [num_states], source state of each copy
    arc_begin: Int64s  # [num_states + 1]
    dst: Int32s  # [num_arcs], greater than the state that the arc leaves
    arc_map: Int64s  # [num_arcs], source arc of each copy
    arc_node: Int32s  # [num_arcs], trie node that scores the arc, or NO_NODE
    final_node: Int32s  # [num_states], trie node of </s> after the state's history, or NO_NODE
    parent: Int32s  # [num_nodes], -1 for the empty prefix; parents precede children
    word: Int32s  # [num_nodes], word ids of the language model

    def lattice(self, source: Lattice, graph: Floats, final_graph: Floats, *, labels: bool = True) -> Lattice:
        """Return the unfolded copy of a source lattice, with new graph costs; see ``copied_lattice``."""
        return copied_lattice(
            source, self.state_map, self.arc_begin, self.dst, self.arc_map, graph, final_graph, labels=labels
        )


def unfold_prefixes(lattice: Lattice, lm_word: Int32s, eos: int, options: SentenceOptions) -> Unfolded:
    """Unfold a lattice into a trie of its best word prefixes.

    Args:
        lm_word: The language model's word id of each arc, -1 for no word, int32 [num_arcs].
        eos: The language model's id of ``</s>``.

    Raises:
        LatticeError: The lattice has no path from the start to a final state, or the result exceeds ten million arcs.
    """
    return _unfolded(
        lattice,
        lambda: _search.prefixes(
            lattice,
            lm_word,
            eos,
            acoustic_scale=options.acoustic_scale,
            word_penalty=options.word_penalty,
            beam=options.first_pass_beam,
            max_nodes=options.max_trie_nodes,
            merge_order=options.history_words,
            max_arcs=MAX_ARCS,
        ),
    )


def unfold_cover(lattice: Lattice, lm_word: Int32s, eos: int, options: SentenceOptions) -> Unfolded:
    """Unfold a lattice so that each arc has the history of the best path through that arc; see `unfold_prefixes`."""
    return _unfolded(
        lattice,
        lambda: _search.cover(
            lattice,
            lm_word,
            eos,
            acoustic_scale=options.acoustic_scale,
            word_penalty=options.word_penalty,
            min_posterior=options.min_posterior,
            max_arcs=MAX_ARCS,
        ),
    )


def _unfolded(lattice: Lattice, unfold: Callable[[], Any]) -> Unfolded:
    try:
        arrays = unfold()
    except OverflowError as error:
        raise LatticeError(
            f"the unfolded lattice exceeds {MAX_ARCS} arcs; set max_trie_nodes, a larger min_posterior or a smaller "
            "prune_beam",
            key=lattice.key,
        ) from error
    if arrays is None:
        raise LatticeError("no final state can be reached from the start state", key=lattice.key)
    return Unfolded(*arrays)


def unfold_best_paths(lattice: Lattice, lm_word: Int32s, eos: int, num_best: int, scales: Scales) -> Unfolded:
    """Unfold the n best paths with distinct word sequences into a tree; see `unfold_prefixes`."""
    paths = nbest(lattice, num_best, scales)
    begin = np.cumsum([0, *(path.arcs.size for path in paths)])
    arcs = np.concatenate([path.arcs for path in paths]).astype(np.int32)
    tree = WordTrie()
    branch = tree.add(arcs, begin)  # tree branch of each arc of each path
    arc, above = tree.word, tree.parent  # arc and parent of each branch; branch b enters state b + 1

    # The word sequences of the paths, as word ids of the model, each followed by </s>.
    word = np.insert(lm_word[arcs], begin[1:], eos)
    spoken = word >= 0
    spoken_begin = np.concatenate([[0], np.cumsum(spoken)])[begin + np.arange(begin.size)]
    trie = WordTrie()
    node = np.full(word.size, NO_NODE, np.int32)
    node[spoken] = trie.add(np.ascontiguousarray(word[spoken]), spoken_begin)
    ends = begin[1:] + np.arange(len(paths))

    last = np.array([0 if first == end else branch[end - 1] + 1 for first, end in pairwise(begin)])
    final_node = np.full(arc.size + 1, NO_NODE, np.int32)
    final_node[last] = node[ends]
    branch_node = np.empty(arc.size, np.int32)
    branch_node[branch] = np.delete(node, ends)
    order = np.argsort(above, kind="stable")
    return Unfolded(
        state_map=np.concatenate([[0], lattice.dst[arc]]).astype(np.int32),
        arc_begin=np.searchsorted(above[order], np.arange(-1, arc.size + 1)),
        dst=(order + 1).astype(np.int32),
        arc_map=arc[order].astype(np.int64),
        arc_node=branch_node[order],
        final_node=final_node,
        parent=trie.parent,
        word=trie.word,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Unfolding:
    """An utterance in the batch and its unfolded lattice."""

    utterance: Utterance
    source: Lattice  # the lattice before unfolding
    extra: Floats  # [number of arcs in source], cost of each arc in addition to the model's score
    unfolded: Unfolded


class SentenceEngine(Engine):
    """Base class for engines that score unfolded lattices."""

    options: SentenceOptions

    def steps(self, lm: BatchedLM) -> Generator[None, None, None]:
        """Unfold and rescore utterances batch by batch; see `Engine.steps`."""
        while True:
            if batch := self._batch():
                self._rescore(batch, lm)
            yield
            if not batch and not self.source.is_dry and not self.in_flight.wait_for_more(2 * self.options.batch_arcs):
                return

    def _batch(self) -> list[Unfolding]:
        """Unfold lattices until the batch has enough arcs, or no further lattice can be rescored now."""
        batch: list[Unfolding] = []
        arcs = 0
        most = 2 * self.options.batch_arcs
        while arcs < self.batch_arcs:
            with self.in_flight.lock:
                utterance = self.next_utterance(most if batch or self.in_flight.has_threads else np.inf)
            if utterance is None:
                break
            try:
                batch.append(self._unfold(utterance))
            except NinjaError as error:
                self.fail(utterance, error)
                continue
            arcs += max(utterance.lattice.num_arcs, batch[-1].unfolded.dst.size)
        return batch

    def _unfold(self, utterance: Utterance) -> Unfolding:
        lattice = reverse(utterance.lattice) if self.options.backward else utterance.lattice
        with self.in_flight.lock:  # a symbol table may grow in another thread
            lm_word, extra = self.models.of(lattice)
            utterance.prompt = self.models.prompt_ids(utterance.key)
        return self.unfold(utterance, lattice, lm_word, extra)

    @abstractmethod
    def unfold(self, utterance: Utterance, lattice: Lattice, lm_word: Int32s, extra: Floats) -> Unfolding:
        """Unfold a lattice so that each arc has a single word history.

        Args:
            utterance: Utterance to score.
            lattice: Lattice of the utterance, reversed if the model reads backward.
            lm_word: The model's word id of each arc, -1 for no word, int32 [num_arcs].
            extra: Cost of each arc in addition to the model's score, float32 [num_arcs].
        """

    def prune(self, result: Lattice) -> Lattice:
        """Remove the states of a rescored lattice that are not on a path from the start to a final state."""
        return connect(result)

    def _rescore(self, batch: list[Unfolding], lm: BatchedLM) -> None:
        """Score the words in a batch and rescore its lattices; halve the batch if memory runs out."""
        forest = WordTrie()
        nodes = [
            forest.add_trie(unfolding.unfolded.parent, unfolding.unfolded.word, self._below(forest, unfolding))
            for unfolding in batch
        ]
        parent, word = forest.parent, forest.word
        start = time.perf_counter()
        try:
            score = score_trie(lm, parent, word, on_call=self._count_call)
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            if len(batch) == 1:
                self.fail(batch[0].utterance, LatticeError(TOO_MANY_WORDS, key=batch[0].source.key))
                return
            lm.notes.append(f"out of memory with a batch of {len(batch)} lattices; retrying with half as many")
            self.note(lm.notes)
            self._rescore(batch[: len(batch) // 2], lm)
            self._rescore(batch[len(batch) // 2 :], lm)
            return
        with self.in_flight.lock:
            self.report.lm_seconds += time.perf_counter() - start
            self.report.scores += parent.size
            self.report.histories += np.unique(parent[parent >= 0]).size
        self.note(lm.notes)
        for unfolding, node in zip(batch, nodes, strict=True):
            try:
                self.finish(unfolding.utterance, *self._result(unfolding, score[node]))
            except NinjaError as error:
                self.fail(unfolding.utterance, error)

    def _below(self, forest: WordTrie, unfolding: Unfolding) -> int:
        """Add to the trie the words that the model reads before an utterance; return their last node, or -1 if none."""
        context = np.array(unfolding.utterance.first_words, np.int32)
        return int(forest.add(context, np.array([0, context.size]))[-1]) if context.size else -1

    def _count_call(self) -> None:
        with self.in_flight.lock:
            self.report.calls += 1

    def _result(self, unfolding: Unfolding, score: Floats) -> tuple[Lattice, list[int]]:
        """Return ``(lattice with new costs, words to carry over to the next utterance)``."""
        options, unfolded, source = self.options, unfolding.unfolded, unfolding.source
        if not np.isfinite(score).all():
            raise ModelError("the language model returned NaN or probability zero for a word", key=source.key)
        scales = options.scales
        with self.in_flight.lock:
            self.report.expanded_arcs += int(np.count_nonzero(unfolded.arc_node != NO_NODE))
        graph, final_graph = self._costs(unfolding, score)
        words: list[int] = []
        if options.output == "best" or unfolding.utterance.recording is not None:
            best = _best(unfolded, source, graph, final_graph, scales)
            if unfolding.utterance.recording is not None:
                words = self.models.carried_words(source, best.word)
            if options.output == "best":
                return best, words
        if options.output == "input":
            arcs = (unfolded.state_map, unfolded.arc_begin, unfolded.dst, unfolded.arc_map)
            costs = _search.replaced(source, *arcs, graph, final_graph, scales.acoustic, scales.word_penalty)
            return with_replaced_costs(source, *costs), words
        return self.prune(unfolded.lattice(source, graph, final_graph)), words

    def _costs(self, unfolding: Unfolding, score: Floats) -> tuple[Floats, Floats]:
        """Return ``(arc costs, final costs)``: the new graph costs of the unfolded arcs and final states."""
        share, scale = self.models.graph_share, self.models.lm_scale
        unfolded, source = unfolding.unfolded, unfolding.source
        spoken = unfolded.arc_node != NO_NODE
        new = np.zeros(spoken.size)
        new[spoken] = unfolding.extra[unfolded.arc_map[spoken]] - score[unfolded.arc_node[spoken]].astype(np.float64)
        graph = share * source.graph[unfolded.arc_map].astype(np.float64) + scale * new
        final_graph = np.full(unfolded.state_map.size, np.inf)
        ends = unfolded.final_node != NO_NODE
        old = source.final_graph[unfolded.state_map[ends]].astype(np.float64)
        final_graph[ends] = share * old - scale * score[unfolded.final_node[ends]].astype(np.float64)
        return graph.astype(np.float32), final_graph.astype(np.float32)


def _best(unfolded: Unfolded, source: Lattice, graph: Floats, final_graph: Floats, scales: Scales) -> Lattice:
    """Return the best path as a lattice, without copying the alignments of other paths."""
    whole = unfolded.lattice(source, graph, final_graph, labels=False)
    arcs = best_path(whole, scales).arcs
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


class NBestEngine(SentenceEngine):
    """Engine that scores the n best sentences."""

    def unfold(self, utterance: Utterance, lattice: Lattice, lm_word: Int32s, extra: Floats) -> Unfolding:
        """Unfold a lattice into a tree of its n best sentences; see `SentenceEngine.unfold`."""
        num_best = self.options.sentences_of(utterance.lattice)
        if isinstance(utterance.lattice, ListLattice):
            with self.in_flight.lock:
                self.report.left_out += max(0, utterance.lattice.num_hypotheses - num_best)
        unfolded = unfold_best_paths(lattice, lm_word, self.models.lm.eos, num_best, self.options.scales)
        return Unfolding(utterance, lattice, extra, unfolded)


class CoverEngine(SentenceEngine):
    """Engine that scores each arc with the history of the best path through that arc."""

    def unfold(self, utterance: Utterance, lattice: Lattice, lm_word: Int32s, extra: Floats) -> Unfolding:
        """Unfold a lattice so that each arc has its best history; see `SentenceEngine.unfold`."""
        options = self.options
        lattice, arc = prune(lattice, options.first_pass_beam, options.scales, return_arc_map=True)
        unfolded = unfold_cover(lattice, lm_word[arc], self.models.lm.eos, options)
        return Unfolding(utterance, lattice, extra[arc], unfolded)


class TrieEngine(SentenceEngine):
    """Engine that scores the best word prefixes."""

    def unfold(self, utterance: Utterance, lattice: Lattice, lm_word: Int32s, extra: Floats) -> Unfolding:
        """Unfold a lattice into a trie of its best word prefixes; see `SentenceEngine.unfold`."""
        return Unfolding(utterance, lattice, extra, unfold_prefixes(lattice, lm_word, self.models.lm.eos, self.options))

    def prune(self, result: Lattice) -> Lattice:
        """Remove the paths outside the beam, because a trie can contain many such paths; see `SentenceEngine.prune`."""
        return prune(result, self.options.search_beam, self.options.scales)


def _trie_history(options: SentenceOptions) -> int:
    if options.merge_order is not None:
        return options.merge_order
    return DEFAULT_MERGE_ORDER if options.max_trie_nodes else 0


NBEST = Algorithm("nbest", SentenceOptions, NBestEngine, "the best sentences", beam=8.0, scores_sentences=True)
COVER = Algorithm("cover", SentenceOptions, CoverEngine, "the best path through each arc", beam=8.0, prune_beam=5.0)
TRIE = Algorithm("trie", SentenceOptions, TrieEngine, "the best word prefixes", beam=8.0, history_words=_trie_history)
