"""Context in which phrases match the lexical forms of the words in a lattice."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary, WeakSet

import numpy as np
import numpy.typing as npt

from ninja.context.entities.lists import PhraseList
from ninja.context.entities.written import WrittenWords
from ninja.context.grammar.compile import ListCompiler
from ninja.context.grammar.respell import PhraseTrie, Respelling
from ninja.context.grammar.tracker import Match, Tracker, add_context
from ninja.graph.lexical import LexicalLattice
from ninja.lattice import Lattice
from ninja.lattice.arrays import gather, offsets
from ninja.lattice.lattice import as_list_of, frozen
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.lattice.text import Normalizer
from ninja.lm.word_map import MARKS


class LexicalContext:
    """Written phrases, and the lexical forms by which they match the words in lattices.

    Args:
        words: Symbol table of the lattices.
        normalizer: Normalizer for the written words and the phrases.
    """

    def __init__(self, words: SymbolTable, normalizer: Normalizer) -> None:
        self.written = WrittenWords(words, normalizer)
        self.table = self.written.table
        self.table.lexical.intern(MARKS)  # trackers for a growing table must know these symbols
        self.compiler = ListCompiler(self._spell)
        self._ids: dict[str, list[int]] = {}  # the lexical ids of each word of the phrases
        self._learned: WeakSet[PhraseList] = WeakSet()
        self._tries: WeakKeyDictionary[PhraseList, PhraseTrie] = WeakKeyDictionary()

    @property
    def words(self) -> SymbolTable:
        """The symbol table of results, with the words of the lattices and of respelled phrases."""
        return self.written.words

    def _spell(self, words: Sequence[str]) -> list[int]:
        """Return the lexical ids of the words in a phrase; call `learn` with the phrase list first."""
        return [number for word in words for number in self._ids[word]]

    def learn_all(self) -> None:
        """Normalise all words in the table, so that the words unknown to each model can be counted."""
        self.table.learn(np.array([number for _, number in self.words], np.int64))

    def add_context(
        self, lattice: Lattice, lexical: LexicalLattice, tracker: Tracker, lists: Sequence[PhraseList]
    ) -> Lattice:
        """Add the score of the contextual grammar to every path of a lattice; see `ninja.context.add_context`.

        A phrase occurs where its lexical words occur. It is spelled as in its list, with the punctuation of the words
        that it replaces (see `written.in_place_of`). A list without capitals does not define the case of its words, so
        the case of the lattice is kept.

        Args:
            lattice: The lattice of written words.
            lexical: The lattice of lexical forms that corresponds to `lattice`.
            tracker: The grammar over the lexical words.
            lists: The phrase lists of the utterance.
        """
        self.learn(lists)
        composed, arc_map = add_context(lexical.lattice, tracker, lists, return_arc_map=True)
        return self._written(lattice, lexical, composed, arc_map, lists)

    def respelled(self, lattice: Lattice, lexical: LexicalLattice, lists: Sequence[PhraseList]) -> Lattice:
        """Respell the phrases of a lattice in the same way as `add_context`, without changing any costs."""
        return self._written(lattice, lexical, lexical.lattice, np.arange(lexical.lattice.num_arcs), lists)

    def _written(
        self,
        lattice: Lattice,
        lexical: LexicalLattice,
        composed: Lattice,
        arc_map: npt.NDArray[np.int64],
        lists: Sequence[PhraseList],
    ) -> Lattice:
        """Convert a composed lattice of lexical words to a lattice of written words and respell its phrases."""
        is_last = self._is_last(lexical)
        written = lattice.word[lexical.source_arc]
        word = np.where(lexical.is_first, written, EPSILON)[arc_map]
        cased = [phrases for phrases in lists if phrases.has_capitals]
        if cased:
            respelling = Respelling([self._trie(phrases) for phrases in cased], self.table, self.written)
            respelled = respelling(composed, written[arc_map], lexical.is_first[arc_map], is_last[arc_map])
            if respelled is not None:
                composed, arcs, word = respelled
                arc_map = arc_map[arcs]
        return as_list_of(lattice, self._contracted(lattice, lexical, composed, arc_map, word, is_last[arc_map]))

    def learn(self, lists: Sequence[PhraseList]) -> None:
        """Normalise the words of all phrases in the given lists."""
        for phrases in lists:
            if phrases in self._learned:
                continue
            self._learned.add(phrases)
            texts = " ".join(phrase.text for _, phrase in phrases)
            new = [word for word in dict.fromkeys(texts.split()) if word not in self._ids]
            forms = self.table.normalizer.forms(new)
            ids = iter(self.table.lexical.intern(part for form in forms for part in form))
            self._ids.update((word, [next(ids) for _ in form]) for word, form in zip(new, forms, strict=True))

    def matches(self, tracker: Tracker, lists: Sequence[PhraseList], words: Sequence[str]) -> list[Match]:
        """Return the phrases, with their positions, on the grammar's best path through a sequence of written words.

        If several phrases contain parts of the same written word, only the first of them is returned.
        """
        forms = self.table.normalizer.forms(words)
        self.learn(lists)
        position = [index for index, form in enumerate(forms) for _ in form]
        tracker.clear()
        start = tracker.start(lists)
        ids = self.table.lexical.ids(word for form in forms for word in form)
        matches: list[Match] = []
        for match in tracker.matches(start, ids):
            begin, end = position[match.begin], position[match.end - 1] + 1
            if not matches or begin >= matches[-1].end:
                matches.append(Match(begin, end, match.cls, " ".join(words[begin:end])))
        return matches

    def _trie(self, phrases: PhraseList) -> PhraseTrie:
        if phrases not in self._tries:
            self._tries[phrases] = PhraseTrie(phrases, self.table)
        return self._tries[phrases]

    @staticmethod
    def _is_last(lexical: LexicalLattice) -> npt.NDArray[np.bool_]:
        """Return whether each arc contains the last lexical word of its written word, bool [num_arcs]."""
        is_end = np.zeros(lexical.lattice.num_states, np.bool_)
        is_end[lexical.state] = True
        return is_end[lexical.lattice.dst]

    def _contracted(
        self,
        source: Lattice,
        lexical: LexicalLattice,
        composed: Lattice,
        arc_map: npt.NDArray[np.int64],
        word: npt.NDArray[np.integer],
        is_last: npt.NDArray[np.bool_],
    ) -> Lattice:
        """Return a lattice of written words in which arcs without a written word are joined to the preceding arc.

        Args:
            source: The lattice of written words before the composition.
            lexical: The lattice of lexical forms that corresponds to `source`.
            composed: The composed lattice, whose arcs are copies of arcs in the lexical lattice.
            arc_map: The lexical arc of each composed arc, int64 [num_arcs].
            word: The written word of each composed arc, [num_arcs].
            is_last: Whether each composed arc contains the last lexical word of its written word, bool [num_arcs].
        """
        word = frozen(word.astype(np.int32))
        if is_last.all():
            return composed.replace(word=word, words=self.words)
        is_joined = np.zeros(composed.num_states, np.bool_)  # whether a state is inside a word
        is_joined[composed.dst[~is_last]] = True
        exit_arc = np.minimum(composed.arc_begin[:-1], composed.num_arcs - 1)  # the only arc that leaves such a state
        is_joined &= word[exit_arc] == EPSILON
        keep = ~is_joined[composed.src]
        dst = composed.dst[keep].astype(np.int64)
        graph, acoustic = composed.graph[keep].astype(np.float64), composed.acoustic[keep].astype(np.float64)
        last = np.flatnonzero(keep)  # the last arc that is joined
        while (inside := is_joined[dst]).any():
            last[inside] = exit_arc[dst[inside]]
            graph[inside] += composed.graph[last[inside]]
            acoustic[inside] += composed.acoustic[last[inside]]
            dst[inside] = composed.dst[last[inside]]
        number = np.cumsum(~is_joined) - 1
        begin, end = _label_ranges(source, lexical)
        first = arc_map[keep]
        label_begin, ali = gather(source.ali, begin[first], end[arc_map[last]] - begin[first])
        states = ~is_joined
        return composed.replace(
            arc_begin=offsets(np.bincount(number[composed.src[keep]], minlength=int(states.sum()))),
            dst=frozen(number[dst].astype(np.int32)),
            word=frozen(word[keep]),
            graph=frozen(graph.astype(np.float32)),
            acoustic=frozen(acoustic.astype(np.float32)),
            ali_begin=label_begin,
            ali=ali,
            final_graph=frozen(composed.final_graph[states]),
            final_acoustic=frozen(composed.final_acoustic[states]),
            final_ali_begin=offsets(np.diff(composed.final_ali_begin)[states]),
            time=None if composed.time is None else frozen(composed.time[states]),
            words=self.words,
        )


def _label_ranges(source: Lattice, lexical: LexicalLattice) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return (first, last + 1), the range of each lexical arc's labels among the labels of the written lattice."""
    length = np.diff(lexical.lattice.ali_begin)
    order = np.argsort(lexical.source_arc, kind="stable")  # keeps the order of the arcs of a word
    end = np.empty(len(length), np.int64)
    end[order] = np.cumsum(length[order])
    return end - length, end
