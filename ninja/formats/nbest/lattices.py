"""Conversion of n-best lists to lattices in which hypotheses share the states of common prefixes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ninja.errors import LatticeError, NinjaError, OptionError, SymbolError, kind_of
from ninja.formats.content import Content, Entry
from ninja.lattice import Lattice
from ninja.lattice.lattice import ListLattice, check_words
from ninja.lattice.nbest import Hypothesis, NBest, check, with_silence
from ninja.lattice.symbols import EPSILON, EPSILON_NAME, SymbolTable, not_in_table

LARGEST_FRAME = 2**31 - 1


def nbest_lattice(nbest: NBest, words: SymbolTable | None = None, path: str | None = None) -> Lattice:
    """Create a lattice with one path for each hypothesis in a list; the path has the costs of its hypothesis.

    Hypotheses share arcs as long as their words, costs, times and labels are equal; equal hypotheses share a path. Gaps
    between words become arcs without a word. The final states are in the order of the list. The first of several
    hypotheses with equal costs is therefore the best path. To keep this order, a hypothesis that is a prefix of an
    earlier hypothesis ends with an arc without a word. Costs are rounded to single precision.

    Args:
        nbest: The list.
        words: Symbol table that must contain the words. If the list contains word ids, the table is only attached to
            the lattice.  [default: a new table of the words in the list, in which epsilon is 0]
        path: File name for messages.

    Raises:
        LatticeError: A cost exceeds the range of float32, or times or labels are invalid.
        SymbolError: A word is not in ``words``, or is epsilon.
    """
    return nbest_lattices([nbest], words, path)[0]


def nbest_lattices(lists: Sequence[NBest], words: SymbolTable | None = None, path: str | None = None) -> list[Lattice]:
    """Convert several n-best lists to lattices that share a symbol table; see ``nbest_lattice``."""
    check_words(words)
    for nbest in lists:
        if not isinstance(nbest, NBest):
            raise OptionError(f"expected an NBest, but got {kind_of(nbest)}; use lattice_nbest to convert a lattice")
    if words is None or words.grows:
        used = dict.fromkeys(word for nbest in lists for item in nbest.hypotheses for word in item.words)
        names = [word for word in used if isinstance(word, str)]
        if used and not names:
            words = None  # the lists contain ids, for which a growing table has no words
        elif words is None:
            words = SymbolTable.from_words([EPSILON_NAME, *(word for word in names if word != EPSILON_NAME)])
    return [_lattice(nbest, words, path) for nbest in lists]


def _lattice(nbest: NBest, words: SymbolTable | None, path: str | None) -> ListLattice:
    """Create the lattice for a list."""
    nbest = with_silence(nbest)
    check(nbest)
    timed = any(hypothesis.begin is not None for hypothesis in nbest.hypotheses)
    trie = _Trie(nbest.key, path)
    for hypothesis in nbest.hypotheses:
        trie.add(hypothesis, _ids(hypothesis, words, nbest.key, path))
    lattice = trie.lattice(nbest.frame_shift if timed else None, words, timed)
    return ListLattice.of(lattice, len(nbest.hypotheses), nbest.record)


class _Trie:
    """A lattice that is being created as a prefix tree; states are numbered in the order of creation."""

    def __init__(self, key: str, path: str | None) -> None:
        self.key, self.path = key, path
        self.below: list[dict[object, int]] = [{}]
        self.time = [0]
        self.src: list[int] = []
        self.dst: list[int] = []
        self.word: list[int] = []
        self.cost: list[tuple[float, float]] = []
        self.labels: list[tuple[int, ...]] = []
        self.finals: dict[int, tuple[float, float, tuple[int, ...]]] = {}

    def add(self, hypothesis: Hypothesis, ids: list[int]) -> None:
        at = 0
        labels = hypothesis.labels or ((),) * (len(ids) + 1)
        for index, word in enumerate(ids):
            end = self.time[at]
            if hypothesis.begin is not None and hypothesis.end is not None:
                begin, end = hypothesis.begin[index], hypothesis.end[index]
                if not self.time[at] <= begin <= end <= LARGEST_FRAME:
                    message = f"word {index + 1} begins at frame {begin} and ends at {end}, but the previous word "
                    self._refuse(message + f"ends at {self.time[at]}; words must not overlap", hypothesis)
                if begin > self.time[at]:
                    at = self._step(at, EPSILON, begin, (0.0, 0.0), ())
            at = self._step(at, word, end, self._costs(hypothesis, index), labels[index])
        last = (*self._costs(hypothesis, len(ids)), labels[-1])
        if self.below[at] if at not in self.finals else self.finals[at] != last:
            # A prefix of an earlier hypothesis, or the same words with other costs, ends in a new state, because the
            # numbers of the final states determine the order of hypotheses with equal costs.
            at = self._step(at, EPSILON, self.time[at], (0.0, 0.0), (), final=last)
        self.finals[at] = last

    def lattice(self, frame_shift: float | None, words: SymbolTable | None, timed: bool) -> Lattice:
        order = np.argsort(np.array(self.src, np.int64), kind="stable")
        src = np.array(self.src, np.int64)[order]
        num_states = len(self.below)
        final = np.full((2, num_states), np.inf)
        for state, (graph, acoustic, _) in self.finals.items():
            final[:, state] = graph, acoustic
        cost = np.array(self.cost, np.float64).reshape(-1, 2)[order]
        pool = [self.labels[arc] for arc in order.tolist()]
        final_pool = [self.finals[state][2] if state in self.finals else () for state in range(num_states)]
        return Lattice.from_arrays(
            self.key,
            np.searchsorted(src, np.arange(num_states + 1)),
            np.array(self.dst, np.int64)[order],
            np.array(self.word, np.int64)[order],
            cost[:, 0],
            cost[:, 1],
            *final,
            ali_begin=np.cumsum([0, *map(len, pool)]),
            ali=np.array([label for labels in pool for label in labels], np.int64),
            final_ali_begin=np.cumsum([0, *map(len, final_pool)]),
            final_ali=np.array([label for labels in final_pool for label in labels], np.int64),
            time=self.time if timed else None,
            frame_shift=frame_shift,
            words=words,
        )

    def _step(
        self, at: int, word: int, time: int, cost: tuple[float, float], labels: tuple[int, ...], final: object = None
    ) -> int:
        """Return the destination state of an arc; create the arc unless an equal arc exists."""
        arc = (word, time, cost, labels, final)
        dst = self.below[at].get(arc)
        if dst is None:
            dst = self.below[at][arc] = len(self.below)
            self.below.append({})
            self.time.append(time)
            self.src.append(at)
            self.dst.append(dst)
            self.word.append(word)
            self.cost.append(cost)
            self.labels.append(labels)
        return dst

    def _costs(self, hypothesis: Hypothesis, place: int) -> tuple[float, float]:
        """Return ``(graph cost, acoustic cost)`` of a word, rounded to single precision."""
        costs = hypothesis.graph[place], hypothesis.acoustic[place]
        with np.errstate(over="ignore"):
            graph, acoustic = (float(np.float32(cost)) for cost in costs)
        if not np.isfinite(graph) or not np.isfinite(acoustic):
            self._refuse(
                f"a hypothesis has the costs {costs[0]} and {costs[1]}, which must be finite in float32", hypothesis
            )
        return graph + 0.0, acoustic + 0.0  # converts -0.0 to 0.0

    def _refuse(self, message: str, hypothesis: Hypothesis) -> None:
        raise LatticeError(message, self.path, key=self.key, line=hypothesis.line)


def _ids(hypothesis: Hypothesis, words: SymbolTable | None, key: str, path: str | None) -> list[int]:
    """Return the ids of the words in a hypothesis."""
    ids = []
    names = [word for word in hypothesis.words if isinstance(word, str)]
    id_of = dict(zip(names, [-1] * len(names) if words is None else words.intern(names), strict=True))
    for word in hypothesis.words:
        number = word if isinstance(word, int) else id_of[word]
        if number < 0:
            if word == EPSILON_NAME:
                number = EPSILON
            else:
                raise SymbolError(not_in_table(word), path, key=key, line=hypothesis.line)
        if number == EPSILON:
            message = f"a hypothesis has the word {word!r}, which is epsilon"
            raise SymbolError(message, path, key=key, line=hypothesis.line)
        ids.append(number)
    return ids


def list_entries(
    read: Callable[[Content, Any], Iterable[NBest | NinjaError]],
) -> Callable[[Content, SymbolTable | None, Any], Iterator[Entry]]:
    """Convert a function that reads n-best lists from a file to a function that yields lattices.

    Args:
        read: Function that returns the n-best lists, or their errors, given the file and the options of the format.
    """

    def entries(content: Content, words: SymbolTable | None, options: Any) -> Iterator[Entry]:
        for nbest in read(content, options):
            if isinstance(nbest, NinjaError):
                yield nbest.key or "", nbest
                continue
            try:
                yield nbest.key, nbest_lattice(nbest, words, content.name)
            except NinjaError as error:
                error.key = error.key or nbest.key
                yield nbest.key, error

    return entries
