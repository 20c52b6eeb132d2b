"""Unfolding: copy the states of a lattice so that each arc has one word history, chosen on first-pass costs alone.

What there is to score is then known before the language model is asked: a trie of words. Each algorithm is a way to
unfold; what the arcs get is the same for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ninja import _sentences
from ninja._trie import WordTrie
from ninja.errors import LatticeError
from ninja.graph import nbest
from ninja.graph.copies import copied_lattice
from ninja.lattice import Lattice
from ninja.rescoring.options import MAX_ARCS, RescoreOptions

NO_NODE = -2  # an arc without a word, a state that is not final

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Unfolded:
    """A lattice of copies and the trie of words that its arcs are scored by."""

    state_map: Int32s  # [num_states], state each is a copy of
    arc_begin: Int64s  # [num_states + 1]
    dst: Int32s  # [num_arcs], > source state
    arc_map: Int64s  # [num_arcs], arc each is a copy of
    arc_node: Int32s  # [num_arcs], node whose score the arc takes; NO_NODE
    final_node: Int32s  # [num_states], node of </s> after the state's history; NO_NODE
    parent: Int32s  # [num_nodes], -1 = the empty prefix; parents come before children
    word: Int32s  # [num_nodes], the language model's ids

    def lattice(self, source: Lattice, graph: Floats, final_graph: Floats, *, labels: bool = True) -> Lattice:
        """Return the copies as a lattice with new graph costs; see ``copied_lattice``."""
        return copied_lattice(
            source, self.state_map, self.arc_begin, self.dst, self.arc_map, graph, final_graph, labels=labels
        )


def unfold(lattice: Lattice, lm_word: Int32s, eos: int, options: RescoreOptions) -> Unfolded:
    """Unfold a lattice as the algorithm of the options does.

    Args:
        lattice: The lattice.
        lm_word: The language model's word of each arc, int32 [num_arcs], -1 = none.
        eos: Its ``</s>``.
        options: ``nbest``, ``cover`` or ``trie``, and what they need.

    Raises:
        LatticeError: No path leads from the start to a final state, or more than ten million arcs arise.
    """
    if options.algorithm == "nbest":
        return _along_the_best(lattice, lm_word, eos, options)
    scales = {"acoustic_scale": options.acoustic_scale, "word_penalty": options.word_penalty}
    try:
        if options.algorithm == "cover":
            found = _sentences.cover(
                lattice, lm_word, eos, **scales, min_posterior=options.min_posterior, max_arcs=MAX_ARCS
            )
        else:
            found = _sentences.prefixes(
                lattice,
                lm_word,
                eos,
                **scales,
                beam=options.first_pass_beam,
                max_nodes=options.max_trie_nodes,
                merge_order=options.history_words,
                max_arcs=MAX_ARCS,
            )
    except OverflowError as error:
        raise LatticeError(
            f"unfolding it passes {MAX_ARCS} arcs; set max_trie_nodes, a larger min_posterior or a smaller prune_beam",
            key=lattice.key,
        ) from error
    if found is None:
        raise LatticeError("no final state can be reached from the start", key=lattice.key)
    return Unfolded(*found)


def _along_the_best(lattice: Lattice, lm_word: Int32s, eos: int, options: RescoreOptions) -> Unfolded:
    """Unfold the n best paths of different words as the tree of their arcs."""
    paths = nbest(lattice, options.num_best, options.acoustic_scale, word_penalty=options.word_penalty)
    begin = np.cumsum([0, *(path.arcs.size for path in paths)])
    arcs = np.concatenate([path.arcs for path in paths]).astype(np.int32)
    tree = WordTrie()
    branch = tree.add(arcs, begin)  # branch of the tree of each arc of each path
    arc, above = tree.word, tree.parent  # of each branch; the state it enters has its number and one

    # The same sequences again, as words: those of the model, and </s> behind each.
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
