"""Respell lattices so that phrases are written as in their lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from ninja.context.entities.lists import PhraseList
from ninja.context.entities.written import WrittenWords, ends_sentence, genitive_ending, in_place_of, is_capitalised
from ninja.graph.split import copied_lattice
from ninja.lattice import Lattice
from ninja.lattice.symbols import EPSILON
from ninja.lattice.text import LexicalTable

Ids = npt.NDArray[np.integer]
_Nodes = tuple[tuple[int, int], ...]  # (list, node) of phrases in progress
_Progress = tuple[_Nodes, bool]  # phrases in progress, and whether the next word may begin a sentence


@dataclass(frozen=True, slots=True, eq=False)
class _Spelling:
    """The written form of a phrase in a list."""

    words: tuple[str, ...]
    start: dict[int, int]  # index of a lexical word -> index of the written word that begins there
    length: int  # number of lexical words


@dataclass(frozen=True, slots=True)
class _Rest:
    """The first words of a phrase whose last words have already been respelled."""

    spelling: _Spelling
    length: int  # number of lexical words that are not respelled yet
    last: str  # the lattice's word that the last word of the phrase replaces


class PhraseTrie:
    """A trie of the phrases in a list, keyed by their lexical words; suppressed phrases are omitted."""

    def __init__(self, phrases: PhraseList, table: LexicalTable) -> None:
        self.step: dict[tuple[int, int], int] = {}  # (node, lexical word) -> node; 0 is the root
        self.spelling: dict[int, _Spelling] = {}  # node -> the first phrase of the list that ends there
        self._num_nodes = 1
        for _, phrase in phrases:
            if phrase.weight >= 0:
                self._add(phrase.text.split(), table)

    def _add(self, words: Sequence[str], table: LexicalTable) -> None:
        forms = table.normalizer.forms(words)
        node = 0
        for word in table.ids(words):
            node = self.step.setdefault((node, word), self._num_nodes)
            self._num_nodes += node == self._num_nodes
        lengths = [len(form) for form in forms]
        if node and all(lengths):  # a word without lexical words does not occur in a lattice
            starts = np.cumsum([0, *lengths[:-1]]).tolist()
            self.spelling.setdefault(
                node, _Spelling(tuple(words), {at: i for i, at in enumerate(starts)}, sum(lengths))
            )


class Respelling:
    """Callable that respells the lattices of an utterance.

    Phrases are chosen backwards from the end of each path. If several phrases end with the same word, the longest one
    is chosen, and the search continues before its first word.

    Args:
        tries: The trie of each list's phrases.
        table: Lexical forms of the written words.
        words: Table of the written words in the results; respelling adds the words of phrases to it.
    """

    def __init__(self, tries: Sequence[PhraseTrie], table: LexicalTable, words: WrittenWords) -> None:
        self._tries = tries
        self._table = table
        self._words = words
        self._first = {word for trie in tries for node, word in trie.step if node == 0}

    def __call__(
        self, lattice: Lattice, written: Ids, is_first: npt.NDArray[np.bool_], is_last: npt.NDArray[np.bool_]
    ) -> tuple[Lattice, Ids, Ids] | None:
        """Respell a lattice of lexical words.

        States are split where words belong to a phrase on one path but not on another; the set of paths and their
        costs stay the same.

        Args:
            lattice: The lattice of lexical words.
            written: The written word to which the lexical word of each arc belongs, int [num_arcs].
            is_first: Whether each arc contains the first lexical word of its written word, bool [num_arcs].
            is_last: Whether each arc contains the last lexical word of its written word, bool [num_arcs].

        Returns:
            (new lattice, old arcs, written words): the old arc and the written word of each new arc, int64 [num_arcs]
            each. The written word is 0 for all arcs of a word except the first. If no word is respelled, the result
            is None.
        """
        word = lattice.word
        if not np.isin(word, list(self._first)).any():
            return None
        forward = _Forward(self, lattice, written, is_first, is_last)
        if not forward.has_phrases:
            return None
        backward = _Backward(self, forward)
        if not backward.has_changes:
            return None
        return backward.result()

    def spell(self, word: int) -> str:
        """Return the written word with the given id."""
        return self._table.words.word(word)

    def id(self, word: str) -> int:
        """Return the id of a written word."""
        return self._words.ids([word])[0]

    def advance(self, nodes: _Nodes, word: int, *, begins: bool) -> _Nodes:
        """Return the phrases in progress after a lexical word; with `begins`, also phrases that begin with the word."""
        after = [(at, node) for at, before in nodes if (node := self._tries[at].step.get((before, word)))]
        if begins and word in self._first:
            after += [(at, node) for at, trie in enumerate(self._tries) if (node := trie.step.get((0, word)))]
        return tuple(after)

    def ending(self, nodes: _Nodes) -> _Spelling | None:
        """Return the longest phrase that ends at one of the trie nodes; in a tie, the phrase from the first list."""
        spellings = [self._tries[at].spelling.get(node) for at, node in nodes]
        return max((s for s in spellings if s is not None), key=lambda s: s.length, default=None)


class _Forward:
    """The states of a lattice, split by the phrases in progress and by whether the next word may begin a sentence."""

    def __init__(
        self,
        phrases: Respelling,
        lattice: Lattice,
        written: Ids,
        is_first: npt.NDArray[np.bool_],
        is_last: npt.NDArray[np.bool_],
    ) -> None:
        self.lattice = lattice
        self.written, self.word = written.tolist(), lattice.word.tolist()
        self.is_first = is_first.tolist()
        self.states: list[int] = []  # the lattice's state of each copy, in ascending order
        self.begins_sentence: list[bool] = []  # whether the next word may begin a sentence, by copy
        self.incoming: list[list[tuple[int, int, _Spelling | None]]] = []  # (copy before, arc, phrase that ends there)
        self.has_phrases = False
        number: list[dict[_Progress, int]] = [{} for _ in range(lattice.num_states)]
        copies: list[list[tuple[_Progress, list[tuple[int, int, _Spelling | None]]]]] = [
            [] for _ in range(lattice.num_states)
        ]
        copies[0].append((((), True), []))
        begin, dst, last = lattice.arc_begin.tolist(), lattice.dst.tolist(), is_last.tolist()
        ends_at = cache(lambda word: ends_sentence(phrases.spell(word)))
        capitals = self._capitals(phrases, lattice)
        for state in range(lattice.num_states):
            for (nodes, is_start), incoming in copies[state]:
                copy = len(self.states)
                self.states.append(state)
                self.begins_sentence.append(is_start)
                self.incoming.append(incoming)
                for arc in range(begin[state], begin[state + 1]):
                    word, after, starts, phrase = self.word[arc], nodes, is_start, None
                    if word != EPSILON:
                        after = phrases.advance(nodes, word, begins=self.is_first[arc])
                        starts = ends_at(self.written[arc])
                        phrase = phrases.ending(after) if after and last[arc] else None
                        self.has_phrases |= phrase is not None
                    elif self.written[arc] != EPSILON:
                        starts = starts or ends_at(self.written[arc])
                    place = after, starts and capitals[dst[arc]]
                    state_of, entries = number[dst[arc]], copies[dst[arc]]
                    if place not in state_of:
                        state_of[place] = len(entries)
                        entries.append((place, []))
                    entries[state_of[place]][1].append((copy, arc, phrase))

    def _capitals(self, phrases: Respelling, lattice: Lattice) -> list[bool]:
        """Return whether a capitalised word that begins a phrase can follow each state, directly or after epsilons."""
        begins = np.isin(lattice.word, list(phrases._first))
        names = {word: is_capitalised(phrases.spell(word)) for word in set(np.array(self.written)[begins].tolist())}
        capitals = [False] * lattice.num_states
        begin, dst = lattice.arc_begin.tolist(), lattice.dst.tolist()
        for state in reversed(range(lattice.num_states)):
            capitals[state] = any(
                capitals[dst[arc]] if self.word[arc] == EPSILON else begins[arc] and names[self.written[arc]]
                for arc in range(begin[state], begin[state + 1])
            )
        return capitals


class _Backward:
    """The states of `_Forward`, split further by the phrase, if any, that is respelled on paths through them."""

    def __init__(self, phrases: Respelling, forward: _Forward) -> None:
        self._forward = forward
        self.has_changes = False
        lattice = forward.lattice
        is_final = (lattice.final_graph < np.inf).tolist()
        rests: list[dict[_Rest | None, int]] = [{} for _ in forward.states]
        # (source copy, number of its rest, destination copy, number of its rest, arc, written word)
        arcs: list[tuple[int, int, int, int, int, int]] = []
        for copy in reversed(range(len(forward.states))):
            if is_final[forward.states[copy]]:
                rests[copy].setdefault(None, len(rests[copy]))
            for rest, number in list(rests[copy].items()):
                for before, arc, phrase in forward.incoming[copy]:
                    earlier, word = self._respelled(phrases, before, arc, phrase, rest)
                    at = rests[before].setdefault(earlier, len(rests[before]))
                    arcs.append((before, at, copy, number, arc, word))
        begin = np.cumsum([0, *map(len, rests)])
        columns = np.array(arcs, np.int64).reshape(-1, 6).T
        src, dst = begin[columns[0]] + columns[1], begin[columns[2]] + columns[3]
        order = np.lexsort((columns[4], src))
        self._src, self._dst, self._arc, self._word = src[order], dst[order], columns[4][order], columns[5][order]
        self._state = np.repeat(forward.states, np.diff(begin))
        self._is_end = np.array([rest is None for by_rest in rests for rest in by_rest], np.bool_)

    def _respelled(
        self, phrases: Respelling, before: int, arc: int, phrase: _Spelling | None, suffix: _Rest | None
    ) -> tuple[_Rest | None, int]:
        """Return the words of a phrase that remain to be respelled before an arc, and the new written word of the arc.

        The remaining words are None if no phrase is being respelled before the arc.
        """
        forward = self._forward
        written, word = forward.written[arc], forward.word[arc]
        if suffix is None and phrase is None:
            return None, written if forward.is_first[arc] else EPSILON
        if word == EPSILON:
            return suffix, written if suffix is None else EPSILON
        if suffix is None:
            assert phrase is not None
            suffix = _Rest(phrase, phrase.length, phrases.spell(written))
        place = suffix.length - 1
        at = suffix.spelling.start.get(place)
        number = EPSILON
        if at is not None:
            words = suffix.spelling.words
            if place == 0 or at == len(words) - 1:
                first = phrases.spell(written) if place == 0 else ""
                begins = place == 0 and forward.begins_sentence[before]
                genitive = "" if genitive_ending(words[-1]) else genitive_ending(suffix.last)
                words = in_place_of(words, first, suffix.last, begins_sentence=begins, genitive=genitive)
            number = phrases.id(words[at])
        self.has_changes |= number != (written if forward.is_first[arc] else EPSILON)
        return (_Rest(suffix.spelling, place, suffix.last) if place else None), number

    def result(self) -> tuple[Lattice, Ids, Ids]:
        """Return the new lattice, and the old arc and the written word of each new arc."""
        source = self._forward.lattice
        state_map = self._state.astype(np.int32)
        lattice = copied_lattice(
            source,
            state_map,
            np.searchsorted(self._src, np.arange(len(state_map) + 1)),
            self._dst.astype(np.int32),
            self._arc,
            source.graph[self._arc],
            np.where(self._is_end, source.final_graph[state_map], np.float32(np.inf)),
        )
        return lattice, self._arc, self._word
