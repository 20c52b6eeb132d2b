"""The class `CtcResult`: the word sequences found by the compiled CTC search, and their lattice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ninja import _ctc
from ninja.decoding.hypothesis import Hypothesis
from ninja.decoding.lexicon import CtcLexicon
from ninja.decoding.units import CtcUnits
from ninja.errors import SymbolError
from ninja.lattice import Lattice
from ninja.lattice.symbols import EPSILON, EPSILON_NAME, SymbolTable


@dataclass(frozen=True, slots=True, eq=False)
class CtcResult:
    """Distinct word sequences, in order of decreasing probability.

    The search finds unit sequences, and several unit sequences can spell the same words. For each word sequence,
    ``number`` is the index of its most probable unit sequence, whose best alignment determines the times of the words.
    Words form a tree: sequences that begin with the same words, spelled with the same units, share nodes.
    """

    number: npt.NDArray[np.int64]  # [sequences], index of the unit sequence
    logprob: npt.NDArray[np.float64]  # [sequences], log-probability of all alignments
    word_begin: npt.NDArray[np.int64]  # words of unit sequence n are word_begin[n] : word_begin[n + 1]
    node: npt.NDArray[np.int32]  # [words]
    begin: npt.NDArray[np.int32]  # [words], first frame in the best alignment
    end: npt.NDArray[np.int32]  # [words], last frame + 1
    cost: npt.NDArray[np.float64]  # [words], see `Hypothesis.cost`
    alignment: npt.NDArray[np.int32]  # [unit sequences, frames]
    parent: npt.NDArray[np.int32]  # [nodes], node of the previous word; -1 for the first word
    same: npt.NDArray[np.int32]  # [nodes], first node with the same words from the root
    spelling: npt.NDArray[np.int32]  # [nodes], index into `alike`
    unit_begin: npt.NDArray[np.int64]  # units of node n are unit[unit_begin[n] : unit_begin[n + 1]]
    unit: npt.NDArray[np.int32]
    alike: list[tuple[str, ...]]  # distinct words; words with the same spelling in the lexicon share an entry
    blank: int  # column of the blank

    def __len__(self) -> int:
        return len(self.number)

    def best(self, count: int | None) -> CtcResult:
        """Return the `count` most probable sequences, or all sequences if `count` is None."""
        return replace(self, number=self.number[:count], logprob=self.logprob[:count])

    def hypotheses(self) -> list[Hypothesis]:
        """Return the sequences as hypotheses."""
        words = list(map(self.alike.__getitem__, self.spelling[self.node].tolist()))
        columns = (self.begin, self.end, self.cost, self.word_begin, self.node, self.unit, self.unit_begin)
        begin, end, cost, word_begin, node, unit, unit_begin = (column.tolist() for column in columns)
        hypotheses = []
        for number, logprob in zip(self.number.tolist(), self.logprob.tolist(), strict=True):
            span = slice(word_begin[number], word_begin[number + 1])
            hypotheses.append(
                Hypothesis(
                    tuple(words[span]),
                    tuple(one for at in node[span] for one in unit[unit_begin[at] : unit_begin[at + 1]]),
                    score=logprob,
                    model_score=logprob,
                    begin=tuple(begin[span]),
                    end=tuple(end[span]),
                    cost=tuple(cost[span]),
                    alignment=self.alignment[number],
                )
            )
        return hypotheses

    def spellings(self) -> list[int]:
        """Return the distinct spellings in the sequences, in order of appearance, as indices into ``alike``."""
        if not len(self):
            return []
        spans = zip(self.word_begin[self.number].tolist(), self.word_begin[self.number + 1].tolist(), strict=True)
        spelling = self.spelling[np.concatenate([self.node[low:high] for low, high in spans])]
        first = np.full(len(self.alike), len(spelling))
        first[spelling[::-1]] = np.arange(len(spelling))[::-1]
        order: list[int] = np.argsort(first, kind="stable").tolist()
        return order[: int((first < len(spelling)).sum())]

    def words(self) -> list[str]:
        """Return the distinct words in all sequences, in order of appearance."""
        return list(dict.fromkeys(word for spelling in self.spellings() for word in self.alike[spelling]))

    def lattice(
        self, key: str, words: SymbolTable | None = None, unknown: str | None = None, frame_shift: float | None = None
    ) -> Lattice:
        """Return the lattice for a non-empty result; see ``ctc_lattice`` for the arguments."""
        if words is None:
            words, unknown = SymbolTable.from_words([EPSILON_NAME, *self.words()]), None
        elif words.grows:
            words.intern(self.words())
        spellings = self.spellings()
        kinds: dict[tuple[int, ...], int] = {}  # index of each set of word ids
        kind_of = np.zeros(len(self.alike), np.int32)
        for spelling in spellings:
            kind_of[spelling] = kinds.setdefault(_ids(self.alike[spelling], words, unknown, key), len(kinds))
        kind = kind_of[self.spelling]
        same = self.same if len(kinds) == len(spellings) else _same_nodes(self.parent, kind)
        arc_begin, dst, word, acoustic, ali_begin, ali = _ctc.lattice(
            *(self.number, self.logprob, self.word_begin, self.node, self.begin, self.end, self.cost, self.alignment),
            *(self.blank + 1, same, kind),
            np.cumsum([0, *map(len, kinds)]),
            np.array([number for ids in kinds for number in ids], np.int32),
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


def make_result(
    arrays: tuple[npt.NDArray[Any], ...], num_frames: int, units: CtcUnits, lexicon: CtcLexicon | None
) -> CtcResult:
    """Create a result from the arrays that ``_ctc.search`` returns, merging unit sequences with the same words."""
    parent, state, unit_begin, unit, total, word_begin, node, begin, end, cost, alignment = arrays
    number_of: dict[tuple[str, ...], int] = {}
    spelling = np.array(
        [number_of.setdefault(alike, len(number_of)) for alike in _spelled(state, unit_begin, unit, units, lexicon)],
        np.int32,
    )
    same = _same_nodes(parent, spelling)
    row_of: dict[int, int] = {}
    number: list[int] = []
    logprob: list[float] = []
    for hypothesis, (low, high) in enumerate(pairwise(word_begin.tolist())):
        words = int(same[node[high - 1]]) if high > low else -1
        row = row_of.setdefault(words, len(number))
        if row < len(number):  # the same words with other units, or with a boundary at the end
            logprob[row] = float(np.logaddexp(logprob[row], total[hypothesis]))
        else:
            number.append(hypothesis)
            logprob.append(float(total[hypothesis]))
    order = np.argsort(-np.array(logprob), kind="stable")
    return CtcResult(
        number=np.array(number, np.int64)[order],
        logprob=np.array(logprob)[order],
        word_begin=word_begin,
        node=node,
        begin=begin,
        end=end,
        cost=cost,
        alignment=alignment.reshape(len(total), num_frames),
        parent=parent,
        same=same,
        spelling=spelling,
        unit_begin=unit_begin,
        unit=unit,
        alike=list(number_of),
        blank=units.blank,
    )


def _same_nodes(parent: npt.NDArray[np.int32], kind: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return, for each node of the word tree, the first node with the same sequence of kinds on its path from the root.

    Parents must precede their children.
    """
    pairs = (parent.astype(np.int64) << 32) | kind
    if len(np.unique(pairs)) == len(pairs):  # the usual case, which is much faster
        return np.arange(len(parent), dtype=np.int32)
    first: dict[tuple[int, int], int] = {}
    same = [-1] * (len(parent) + 1)  # the last element represents the missing parent of first words
    for node, (above, number) in enumerate(zip(parent.tolist(), kind.tolist(), strict=True)):
        same[node] = first.setdefault((same[above], number), node)
    return np.array(same[:-1], np.int32)


def _spelled(
    state: npt.NDArray[np.int32],
    unit_begin: npt.NDArray[np.int64],
    unit: npt.NDArray[np.int32],
    units: CtcUnits,
    lexicon: CtcLexicon | None,
) -> list[tuple[str, ...]]:
    """Return, for each node of the word tree, the words that have the node's spelling.

    With a lexicon, several words can have the same spelling; without a lexicon, the only word is the text of the units.
    """
    if lexicon is not None:
        return list(map(lexicon.words.__getitem__, state.tolist()))
    text = "".join(map(units.text.__getitem__, unit.tolist()))
    length = np.array([len(part) for part in units.text])
    begin = np.concatenate([[0], np.cumsum(length[unit])])[unit_begin].tolist()
    return [(text[low:high],) for low, high in pairwise(begin)]


def _ids(alike: tuple[str, ...], words: SymbolTable, unknown: str | None, key: str) -> tuple[int, ...]:
    """Return the distinct symbol ids of the words in `alike`; a word missing from the table gets the id of `unknown`.

    Raises:
        SymbolError: A word is missing and `unknown` is None or also missing, or the id of a word is 0.
    """
    ids = []
    for word in alike:
        number = words.id(word)
        if number is None and unknown is not None:
            number = words.id(unknown)
        if number is None:
            message = (
                f"word {word!r} is not in the symbol table; specify a lexicon with only words of the table, "
                "or the unknown word"
            )
            raise SymbolError(message, words.path, key=key)
        if number == EPSILON:
            raise SymbolError(
                f"word {word!r} has the id {EPSILON}, which is reserved for epsilon; give it another id",
                words.path,
                key=key,
            )
        ids.append(number)
    return tuple(dict.fromkeys(ids))
