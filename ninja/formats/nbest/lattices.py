"""Lattices of n-best lists: hypotheses share states as long as they begin alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ninja.errors import LatticeError, NinjaError, SymbolError
from ninja.formats.content import Content, Entry
from ninja.lattice import Lattice
from ninja.lattice.list_lattice import ListLattice
from ninja.lattice.nbest import Hypothesis, NBest, check, with_silence
from ninja.lattice.symbols import EPSILON, EPSILON_NAME, SymbolTable

LARGEST_FRAME = 2**31 - 1


def nbest_lattice(nbest: NBest, words: SymbolTable | None = None, path: str | None = None) -> Lattice:
    """Make a lattice whose paths are the hypotheses of a list, with their costs.

    Hypotheses share a path as long as their words agree in everything: cost, time and labels, too. Those that agree in
    everything to the end are one path. Time between words is an arc without a word. Costs become single precision.

    Args:
        words: Symbol table that the words must be in; None: one of the list's own words is made, epsilon 0. Where the
            words are ids, it is only attached.

    Raises:
        LatticeError: A cost is beyond single precision, or times or labels make no sense.
        SymbolError: A word is not in ``words``, or is the name of epsilon.
    """
    return nbest_lattices([nbest], words, path)[0]


def nbest_lattices(lists: Sequence[NBest], words: SymbolTable | None = None, path: str | None = None) -> list[Lattice]:
    """Make the lattices of several lists, with one symbol table; the rest is as for ``nbest_lattice``."""
    if words is None or words.grows:
        said = dict.fromkeys(word for each in lists for one in each.hypotheses for word in one.words)
        names = [word for word in said if isinstance(word, str)]
        if said and not names:
            words = None  # ids
        elif words is None:
            words = SymbolTable.from_words([EPSILON_NAME, *(word for word in names if word != EPSILON_NAME)])
    return [_lattice(each, words, path) for each in lists]


def _lattice(nbest: NBest, words: SymbolTable | None, path: str | None) -> ListLattice:
    """Make the lattice of a list."""
    nbest = with_silence(nbest)
    check(nbest)
    timed = any(each.begin is not None for each in nbest.hypotheses)
    trie = _Trie(nbest.key, path)
    for each in nbest.hypotheses:
        trie.add(each, _ids(each, words, nbest.key, path))
    lattice = trie.lattice(nbest.frame_shift if timed else None, words, timed)
    return ListLattice.of(lattice, len(nbest.hypotheses), nbest.record)


class _Trie:
    """A lattice that grows by hypotheses; states are numbered in the order in which they are made."""

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

    def add(self, each: Hypothesis, ids: list[int]) -> None:
        at = 0
        labels = each.labels or ((),) * (len(ids) + 1)
        for place, word in enumerate(ids):
            end = self.time[at]
            if each.begin is not None and each.end is not None:
                begin, end = each.begin[place], each.end[place]
                if not self.time[at] <= begin <= end <= LARGEST_FRAME:
                    message = f"word {place + 1} begins at frame {begin} and ends at {end}, the one before it at "
                    self._refuse(message + f"{self.time[at]}; words must not overlap", each)
                if begin > self.time[at]:
                    at = self._step(at, EPSILON, begin, (0.0, 0.0), ())
            at = self._step(at, word, end, self._costs(each, place), labels[place])
        last = (*self._costs(each, len(ids)), labels[-1])
        if self.finals.get(at, last) != last:  # the same words at another cost
            at = self._step(at, EPSILON, self.time[at], (0.0, 0.0), (), apart=last)
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
            ali=np.array([label for each in pool for label in each], np.int64),
            final_ali_begin=np.cumsum([0, *map(len, final_pool)]),
            final_ali=np.array([label for each in final_pool for label in each], np.int64),
            time=self.time if timed else None,
            frame_shift=frame_shift,
            words=words,
        )

    def _step(
        self, at: int, word: int, time: int, cost: tuple[float, float], labels: tuple[int, ...], apart: object = None
    ) -> int:
        """Follow an arc, made if there is none like it."""
        like = (word, time, cost, labels, apart)
        there = self.below[at].get(like)
        if there is None:
            there = self.below[at][like] = len(self.below)
            self.below.append({})
            self.time.append(time)
            self.src.append(at)
            self.dst.append(there)
            self.word.append(word)
            self.cost.append(cost)
            self.labels.append(labels)
        return there

    def _costs(self, each: Hypothesis, place: int) -> tuple[float, float]:
        """Return costs as they will be stored, so that those that become the same are the same."""
        with np.errstate(over="ignore"):
            graph, acoustic = float(np.float32(each.graph[place])), float(np.float32(each.acoustic[place]))
        if not np.isfinite(graph) or not np.isfinite(acoustic):
            self._refuse(f"a hypothesis has the costs {each.graph[place]} and {each.acoustic[place]}", each)
        return graph + 0.0, acoustic + 0.0  # no -0.0

    def _refuse(self, message: str, each: Hypothesis) -> None:
        raise LatticeError(message, self.path, key=self.key, line=each.line)


def _ids(each: Hypothesis, words: SymbolTable | None, key: str, path: str | None) -> list[int]:
    """Return the ids of a hypothesis's words."""
    ids = []
    names = [word for word in each.words if isinstance(word, str)]
    known = dict(zip(names, [-1] * len(names) if words is None else words.intern(names), strict=True))
    for word in each.words:
        number = word if isinstance(word, int) else known[word]
        if number < 0:
            if word == EPSILON_NAME:
                number = EPSILON
            else:
                message = f"word {word!r} is not in the symbol table; is it the right one?"
                raise SymbolError(message, path, key=key, line=each.line)
        if number == EPSILON:
            raise SymbolError(f"a hypothesis has the word {word!r}, which means no word", path, key=key, line=each.line)
        ids.append(number)
    return ids


def list_entries(lists: Iterable[NBest | NinjaError], content: Content, words: SymbolTable | None) -> Iterator[Entry]:
    """Yield the n-best lists of a file as lattices whose hypotheses share their beginnings."""
    for each in lists:
        if isinstance(each, NinjaError):
            yield each.key or "", each
            continue
        try:
            lattice = nbest_lattice(each, words, content.name)
        except NinjaError as error:
            error.key = error.key or each.key
            yield each.key, error
            continue
        yield each.key, lattice
