"""Results of a CTC search: word sequences as arrays, hypotheses, lattices."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ninja import _ctc
from ninja.ctc.lexicon import CtcLexicon
from ninja.ctc.units import CtcUnits
from ninja.errors import SymbolError
from ninja.formats.textual import EPSILON_NAME
from ninja.lattice import Lattice
from ninja.lattice.symbols import EPSILON, SymbolTable


@dataclass(frozen=True, slots=True)
class CtcHypothesis:
    """A word sequence, with times by the best alignment."""

    words: tuple[tuple[str, ...], ...]  # each with the others that the lexicon spells the same way
    logprob: float  # natural logarithm of the probability of all its alignments
    begin: tuple[int, ...]  # first frame of each word
    end: tuple[int, ...]  # the frame after its last
    cost: tuple[float, ...]  # of the best alignment, from each word's first frame to the next word's; nats
    # By it, [frames]: the column of a unit; between words, the blank.
    alignment: npt.NDArray[np.int32] = field(compare=False)

    @property
    def text(self) -> str:
        """The words, the first of those spelled the same way, with blanks between."""
        return " ".join(alike[0] for alike in self.words)


@dataclass(frozen=True, slots=True, eq=False)
class CtcFound:
    """Word sequences, each once, the most probable first.

    The search tells unit sequences apart; ``number`` names one of these for each word sequence, whose times count.
    Words hang in a tree: sequences that begin with the same units, cut the same way, share places.
    """

    number: npt.NDArray[np.int64]  # [sequences]
    logprob: npt.NDArray[np.float64]  # [sequences], of all alignments
    word_begin: npt.NDArray[np.int64]  # words of number n are word_begin[n] : word_begin[n + 1]
    place: npt.NDArray[np.int32]  # [words], in the tree
    begin: npt.NDArray[np.int32]  # [words], first frame by the best alignment
    end: npt.NDArray[np.int32]  # [words], the frame after the last
    cost: npt.NDArray[np.float64]  # [words], as in `CtcHypothesis`
    alignment: npt.NDArray[np.int32]  # [numbers, frames]
    parent: npt.NDArray[np.int32]  # [places], of the word before; -1: none
    same: npt.NDArray[np.int32]  # [places], one place for all with the same words up to there
    name: npt.NDArray[np.int32]  # [places], in `alike`
    alike: list[tuple[str, ...]]  # distinct words, each with the others that the lexicon spells the same way
    blank: int  # its column

    def __len__(self) -> int:
        return len(self.number)

    def best(self, count: int | None) -> CtcFound:
        """Return the most probable sequences only, ``count`` of them; None: all."""
        return replace(self, number=self.number[:count], logprob=self.logprob[:count])

    def hypotheses(self) -> list[CtcHypothesis]:
        """Return the sequences as objects."""
        words = list(map(self.alike.__getitem__, self.name[self.place].tolist()))
        begin, end, cost, word_begin = (each.tolist() for each in (self.begin, self.end, self.cost, self.word_begin))
        made = []
        for number, logprob in zip(self.number.tolist(), self.logprob.tolist(), strict=True):
            here = slice(word_begin[number], word_begin[number + 1])
            times = tuple(begin[here]), tuple(end[here])
            made.append(CtcHypothesis(tuple(words[here]), logprob, *times, tuple(cost[here]), self.alignment[number]))
        return made

    def names(self) -> list[int]:
        """Return the places in ``alike`` of the words of all sequences, each once, as they come."""
        if not len(self):
            return []
        spans = zip(self.word_begin[self.number].tolist(), self.word_begin[self.number + 1].tolist(), strict=True)
        name = self.name[np.concatenate([self.place[low:high] for low, high in spans])]
        first = np.full(len(self.alike), len(name))
        first[name[::-1]] = np.arange(len(name))[::-1]
        order = np.argsort(first, kind="stable").tolist()
        return order[: int((first < len(name)).sum())]

    def words(self) -> list[str]:
        """Return the words of all sequences, each once, as they come."""
        return list(dict.fromkeys(word for name in self.names() for word in self.alike[name]))

    def lattice(
        self, key: str, words: SymbolTable | None = None, unknown: str | None = None, frame_shift: float | None = None
    ) -> Lattice:
        """Make a lattice, of at least one sequence; arguments are those of ``ctc_lattice``."""
        if words is None:
            words, unknown = SymbolTable.from_words([EPSILON_NAME, *self.words()]), None
        names = self.names()
        ids: dict[tuple[int, ...], int] = {}
        kind_of = np.zeros(len(self.alike), np.int32)
        for name in names:
            kind_of[name] = ids.setdefault(_ids(self.alike[name], words, unknown, key), len(ids))
        kind = kind_of[self.name]
        same = self.same if len(ids) == len(names) else same_places(self.parent, kind)
        arc_begin, dst, word, acoustic, ali_begin, ali = _ctc.lattice(
            *(self.number, self.logprob, self.word_begin, self.place, self.begin, self.end, self.cost, self.alignment),
            *(self.blank + 1, same, kind),
            np.cumsum([0, *map(len, ids)]),
            np.array([number for each in ids for number in each], np.int32),
        )
        final = np.full(len(arc_begin) - 1, np.inf, np.float32)
        final[-1] = 0.0
        return Lattice.from_arrays(
            *(key, arc_begin, dst, word, np.zeros(len(dst), np.float32), acoustic, final),
            ali_begin=ali_begin,
            ali=ali,
            frame_shift=frame_shift,
            words=words,
        )


def found_of(
    result: tuple[npt.NDArray[Any], ...], num_frames: int, units: CtcUnits, lexicon: CtcLexicon | None
) -> CtcFound:
    """Make word sequences of the unit sequences that ``_ctc.search`` found; those with the same words become one."""
    parent, state, unit_begin, unit, total, word_begin, place, begin, end, cost, alignment = result
    known: dict[tuple[str, ...], int] = {}
    name = np.array([known.setdefault(each, len(known)) for each in _said(state, unit_begin, unit, units, lexicon)])
    name = name.astype(np.int32)
    same = same_places(parent, name)
    by_words: dict[int, int] = {}
    number: list[int] = []
    logprob: list[float] = []
    for each, (low, high) in enumerate(pairwise(word_begin.tolist())):
        words = int(same[place[high - 1]]) if high > low else -1
        kept = by_words.setdefault(words, len(number))
        if kept < len(number):  # other units, or a boundary at the end: the same words
            logprob[kept] = float(np.logaddexp(logprob[kept], total[each]))
        else:
            number.append(each)
            logprob.append(float(total[each]))
    order = np.argsort(-np.array(logprob), kind="stable")
    return CtcFound(
        number=np.array(number, np.int64)[order],
        logprob=np.array(logprob)[order],
        word_begin=word_begin,
        place=place,
        begin=begin,
        end=end,
        cost=cost,
        alignment=alignment.reshape(len(total), num_frames),
        parent=parent,
        same=same,
        name=name,
        alike=list(known),
        blank=units.blank,
    )


def same_places(parent: npt.NDArray[np.int32], kind: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return for each place of a tree, parents first, the first one with the same kinds from the root to there."""
    pairs = (parent.astype(np.int64) << 32) | kind
    if len(np.unique(pairs)) == len(pairs):  # nearly always, and much faster
        return np.arange(len(parent), dtype=np.int32)
    known: dict[tuple[int, int], int] = {}
    same = [-1] * (len(parent) + 1)  # the last where there is no parent
    for place, pair in enumerate(zip(parent.tolist(), kind.tolist(), strict=True)):
        same[place] = known.setdefault((same[pair[0]], pair[1]), place)
    return np.array(same[:-1], np.int32)


def _said(
    state: npt.NDArray[np.int32],
    unit_begin: npt.NDArray[np.int64],
    unit: npt.NDArray[np.int32],
    units: CtcUnits,
    lexicon: CtcLexicon | None,
) -> list[tuple[str, ...]]:
    """Return the word in each place, with those spelled the same way."""
    if lexicon is not None:
        return list(map(lexicon.words.__getitem__, state.tolist()))
    said = "".join(map(units.text.__getitem__, unit.tolist()))
    length = np.array([len(text) for text in units.text])
    begin = np.concatenate([[0], np.cumsum(length[unit])])[unit_begin].tolist()
    return [(said[low:high],) for low, high in pairwise(begin)]


def _ids(alike: tuple[str, ...], words: SymbolTable, unknown: str | None, key: str) -> tuple[int, ...]:
    """Return the ids of words that are spelled the same way, without repeats."""
    ids = []
    for word in alike:
        number = words.id(word)
        if number is None and unknown is not None:
            number = words.id(unknown)
        if number is None:
            message = f"word {word!r} is not in the symbol table; give a lexicon of its words, or the unknown word"
            raise SymbolError(message, words.path, key=key)
        if number == EPSILON:
            raise SymbolError(f"word {word!r} has the id {EPSILON}, which stands for no word", words.path, key=key)
        if number not in ids:
            ids.append(number)
    return tuple(ids)
