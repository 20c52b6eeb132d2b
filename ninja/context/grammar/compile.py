"""Compile lists of phrases into acceptors of word ids; OpenFst minimises the acceptors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from ninja import _context
from ninja._core import WordTrie
from ninja.context.entities.lists import Phrase, PhraseList
from ninja.lattice import Lattice
from ninja.openfst import from_fst, pywrapfst_module, to_fst

Spell = Callable[[Sequence[str]], Sequence[int]]


@dataclass(frozen=True, slots=True, eq=False)
class CompiledList:
    """A phrase list that is compiled into acceptors."""

    boosted: dict[str, _context.Phrases]  # the phrases with a weight ≥ 0, by class
    suppressed: tuple[_context.Phrases, ...]  # the phrases with a negative weight, of all classes
    num_phrases: int  # number of phrases whose words are all in the symbol table

    @property
    def num_bytes(self) -> int:
        """Memory that the acceptors use, in bytes."""
        return sum(acceptor.num_bytes for acceptor in (*self.boosted.values(), *self.suppressed))


def compile_list(phrases: PhraseList, spell: Spell) -> CompiledList:
    """Compile a phrase list into acceptors.

    The order of the phrases does not matter. Phrases with an unknown word are omitted (`Entities.unknown` reports
    them).

    Args:
        phrases: The phrase list.
        spell: Function that returns the ids of the words of a phrase, -1 for unknown words.

    Returns:
        The acceptors of the boosted and of the suppressed phrases.
    """
    boosted, suppressed, count = {}, [], 0
    for name, members in phrases.classes.items():
        spelled = _spelled(members, spell)
        count += len(spelled)
        good = {ids: weight for ids, weight in spelled.items() if weight >= 0}
        if good:
            boosted[name] = _acceptor(good, as_partial=True)
        if len(good) < len(spelled):
            suppressed.append(_acceptor({ids: w for ids, w in spelled.items() if w < 0}, as_partial=False))
    return CompiledList(boosted, tuple(suppressed), count)


def _spelled(phrases: Iterable[Phrase], spell: Spell) -> dict[tuple[int, ...], float]:
    """Return the weight of each word sequence; for duplicate phrases, the largest weight."""
    weight_of: dict[tuple[int, ...], float] = {}
    for phrase in phrases:
        ids = tuple(spell(phrase.text.split()))
        if ids and min(ids) >= 0:
            weight_of[ids] = max(phrase.weight, weight_of.get(ids, phrase.weight))
    return weight_of


def _acceptor(weight_of: dict[tuple[int, ...], float], *, as_partial: bool) -> _context.Phrases:
    """Return the minimal acceptor of weighted phrases.

    Args:
        weight_of: Weight per word of each phrase; the keys are the word ids of the phrases.
        as_partial: Apply boosts at each word. A word gets the largest weight of all phrases that begin with the words
            so far; at the end of a phrase, the excess over the phrase's boost is removed. If False, apply boosts
            only at the ends of phrases.
    """
    phrases = sorted(weight_of)
    weight = np.array([weight_of[ids] for ids in phrases], np.float64)
    length = np.array([len(ids) for ids in phrases], np.int64)
    begin = np.concatenate([[0], np.cumsum(length)])
    trie = WordTrie()
    node = trie.add(np.fromiter((word for ids in phrases for word in ids), np.int32, begin[-1]), begin)
    per_word = np.repeat(weight, length) if as_partial else np.zeros(begin[-1])
    bonus = np.zeros(len(trie))
    np.maximum.at(bonus, node, per_word)
    boosted = np.add.reduceat(bonus[node], begin[:-1])
    end = np.full(len(trie) + 1, np.inf)
    end[node[begin[1:] - 1] + 1] = boosted - weight * length
    return _minimal(trie.parent + 1, trie.word, -bonus, end)


def _minimal(
    parent: npt.NDArray[np.int32],
    word: npt.NDArray[np.int32],
    cost: npt.NDArray[np.float64],
    end: npt.NDArray[np.float64],
) -> _context.Phrases:
    """Minimise a trie with OpenFst.

    Args:
        parent: The node that each arc leaves; arc n - 1 leads to node n.
        word: The word id of each arc.
        cost: The cost of each arc.
        end: The cost of ending a phrase at each node, infinite where no phrase ends.
    """
    order = np.lexsort((word, parent))
    arc_begin = np.searchsorted(parent[order], np.arange(len(end) + 1))
    pywrapfst = pywrapfst_module()
    machine = to_fst(Lattice.from_arrays("", arc_begin, order + 1, word[order], cost[order], np.zeros(len(word)), end))
    # Minimisation does not push weights that are encoded in the labels.
    coder = pywrapfst.EncodeMapper(arc_type="standard", encode_labels=True, encode_weights=True)
    machine.encode(coder)
    machine.minimize()
    machine.decode(coder)
    merged = from_fst(machine)
    src = np.repeat(np.arange(merged.num_states), np.diff(merged.arc_begin))
    order = np.lexsort((merged.word, src))
    bonus = np.where(merged.graph[order] == 0, np.float32(0), -merged.graph[order])
    final = np.where(np.isinf(merged.final_graph), np.float32(np.nan), 0 - merged.final_graph)
    return _context.Phrases(merged.arc_begin, merged.word[order], merged.dst[order], bonus, final.astype(np.float32))


class ListCompiler:
    """A compiler for phrase lists that caches its results while the lists exist.

    Args:
        spell: Function that returns the ids of the words of a phrase, -1 for unknown words.
        keep_all: Cache the results of all lists. If False, cache only named lists, which utterances share.
    """

    def __init__(self, spell: Spell, *, keep_all: bool = False) -> None:
        self._spell = spell
        self._keep_all = keep_all
        self._compiled: WeakKeyDictionary[PhraseList, CompiledList] = WeakKeyDictionary()

    def of(self, lists: Sequence[PhraseList]) -> list[CompiledList]:
        """Return the compiled form of each phrase list, from the cache if possible."""
        return [self._of_list(phrases) for phrases in lists]

    def _of_list(self, phrases: PhraseList) -> CompiledList:
        compiled = self._compiled.get(phrases) or compile_list(phrases, self._spell)
        if phrases.name or self._keep_all:
            self._compiled[phrases] = compiled
        return compiled
