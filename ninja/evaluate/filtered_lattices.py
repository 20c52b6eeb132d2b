"""Application of transcript filters to the words in lattices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ninja.errors import OptionError
from ninja.evaluate.word_filters import WordFilter
from ninja.lattice import Lattice
from ninja.lattice.lattice import frozen
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.lattice.word_ids import used_words


class LatticeFilter:
    """A transcript filter that is applied to each word in a lattice; filtered lattices have a separate symbol table.

    Raises:
        OptionError: A rule in the global mapping file replaces a sequence of words.
    """

    def __init__(self, word_filter: WordFilter) -> None:
        if word_filter.mapping is not None and any(
            len(pattern) > 1 for rules in word_filter.mapping.rules.values() for pattern, _ in rules
        ):
            raise OptionError(
                "the global mapping file has rules for several words, which cannot be applied to lattices; remove them"
            )
        self.filter = word_filter
        self.table = SymbolTable.growing()
        self._changed: dict[str, tuple[int, ...]] = {}  # word -> ids of the words that replace it

    def check(self, references: Mapping[str, Sequence[str]]) -> None:
        """Check that the filter changes each word in the references independently of its context.

        Raises:
            OptionError: The filter depends on the context.
            NinjaError: See ``WordFilter.lines``.
        """
        if self.filter.script is None:
            return
        lines = list(references.items())
        self._add({word for _, words in lines for word in words})
        for (key, words), whole in zip(lines, self.filter.lines(lines), strict=True):
            if self.table.intern(whole) != [number for word in words for number in self._changed[word]]:
                message = f"depends on the context of words, so it cannot be applied to lattices (utterance {key})"
                advice = "use a script that changes each word independently of the other words"
                raise OptionError(f"{self.filter.script} {message}; {advice}")

    def lattice(self, lattice: Lattice, words: SymbolTable) -> Lattice:
        """Apply the filter to the words in a lattice; see ``relabel``.

        Args:
            lattice: Any lattice.
            words: Symbol table for a lattice that has none.
        """
        ids = used_words(lattice)
        names = (lattice.words or words).spell(ids)
        self._add(set(names))
        return relabel(lattice, {number: self._changed[name] for number, name in zip(ids, names, strict=True)})

    def _add(self, names: set[str]) -> None:
        """Apply the filter to new words, and store the results."""
        new = sorted(names - self._changed.keys())
        changed = self.filter.lines([(str(number), [name]) for number, name in enumerate(new)])
        for name, words in zip(new, changed, strict=True):
            self._changed[name] = tuple(self.table.intern(words))


def relabel(lattice: Lattice, mapping: Mapping[int, Sequence[int]]) -> Lattice:
    """Replace each word in a lattice with any number of words.

    If any word is replaced by several words, its arcs become chains of arcs; the first arc in a chain has the costs.
    The result then has neither alignments nor times.

    Args:
        lattice: Any lattice.
        mapping: Ids of the new words by word id; it must contain all words in the lattice except epsilon.
    """
    if all(len(words) < 2 for words in mapping.values()):
        ids = np.array(sorted({EPSILON, *mapping}))
        new = np.array([(*mapping.get(number, ()), EPSILON)[0] for number in ids.tolist()], np.int32)
        return lattice.replace(word=frozen(new[np.searchsorted(ids, lattice.word)]), words=None)
    arcs: list[tuple[int, int, float, float]] = []  # destination, word, costs
    begin, first = [0], np.zeros(lattice.num_states, np.int64)  # `first` maps each state to its new number
    out = [
        [(arc, tuple(mapping[word]) if (word := int(lattice.word[arc])) != EPSILON else ()) for arc in range(*bounds)]
        for bounds in zip(lattice.arc_begin[:-1].tolist(), lattice.arc_begin[1:].tolist(), strict=True)
    ]
    added = [sum(max(len(words) - 1, 0) for _, words in leaving) for leaving in out]
    first[1:] = np.cumsum(1 + np.array(added[:-1], np.int64))
    final_graph = np.full(int(first[-1]) + 1 + added[-1], np.inf, np.float32)
    final_acoustic = final_graph.copy()
    final_graph[first], final_acoustic[first] = lattice.final_graph, lattice.final_acoustic
    for state, leaving in enumerate(out):
        between = int(first[state])
        chains: list[tuple[int, int, float, float]] = []
        for arc, words in leaving:
            costs = float(lattice.graph[arc]), float(lattice.acoustic[arc])
            last = int(first[lattice.dst[arc]])
            inner = list(range(between + 1, between + len(words)))  # new states
            between += len(inner)
            ends = [*inner, last]
            arcs.append((ends[0], words[0] if words else EPSILON, *costs))
            chains += [(end, word, 0.0, 0.0) for end, word in zip(ends[1:], words[1:], strict=True)]
        begin.append(len(arcs))
        for chain in chains:
            arcs.append(chain)
            begin.append(len(arcs))
    dst, labels = (np.array([arc[field] for arc in arcs], np.int64) for field in range(2))
    graph, acoustic = (np.array([arc[field] for arc in arcs], np.float32) for field in (2, 3))
    return Lattice.from_arrays(lattice.key, begin, dst, labels, graph, acoustic, final_graph, final_acoustic)
