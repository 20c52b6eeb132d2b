"""Lattices of the matrices that CTC models give: prefix beam search, with a lexicon or without."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ninja import _ctc
from ninja.decoding.lexicon import NO_LEXICON, CtcLexicon
from ninja.decoding.units import CtcUnits, Scheme, ctc_units
from ninja.errors import LatticeError, ModelError, OptionError, SymbolError, check_range, described, documented
from ninja.lattice import Lattice
from ninja.lattice.symbols import EPSILON, EPSILON_NAME, SymbolTable

ROUNDING = 0.1  # nats by which the probabilities of a frame may miss 1: matrices come in half precision, too


@dataclass(frozen=True, slots=True, repr=False)
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

    def __repr__(self) -> str:
        return f"CtcHypothesis({self.text!r}, log-probability {self.logprob:.7g})"


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
        order: list[int] = np.argsort(first, kind="stable").tolist()
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
        elif words.grows:
            words.intern(self.words())
        names = self.names()
        ids: dict[tuple[int, ...], int] = {}
        kind_of = np.zeros(len(self.alike), np.int32)
        for name in names:
            kind_of[name] = ids.setdefault(_ids(self.alike[name], words, unknown, key), len(ids))
        kind = kind_of[self.name]
        same = self.same if len(ids) == len(names) else _same_places(self.parent, kind)
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


def _found_of(
    result: tuple[npt.NDArray[Any], ...], num_frames: int, units: CtcUnits, lexicon: CtcLexicon | None
) -> CtcFound:
    """Make word sequences of the unit sequences that ``_ctc.search`` found; those with the same words become one."""
    parent, state, unit_begin, unit, total, word_begin, place, begin, end, cost, alignment = result
    known: dict[tuple[str, ...], int] = {}
    name = np.array([known.setdefault(each, len(known)) for each in _said(state, unit_begin, unit, units, lexicon)])
    name = name.astype(np.int32)
    same = _same_places(parent, name)
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


def _same_places(parent: npt.NDArray[np.int32], kind: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
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


@documented
@dataclass(frozen=True, slots=True)
class CtcOptions:
    """Widths of the search."""

    beam: int = described(100, "Prefixes kept at each frame; 0 is all.")
    score_beam: float = described(20.0, "Drop prefixes that are worse than the best by more, in nats.")
    max_units: int = described(0, "Units that may follow a prefix at each frame, the most probable; 0 is all.")
    min_logprob: float = described(-math.inf, "Drop less probable units, except a frame's best, in nats.")

    def __post_init__(self) -> None:
        for name in ("beam", "max_units"):
            check_range(name, getattr(self, name), least=0)
        check_range("score_beam", self.score_beam, above=0)
        check_range("min_logprob", self.min_logprob, most=0)


def log_probabilities(
    matrix: npt.ArrayLike, scale: Literal["logprob", "logit", "prob"] = "logprob", key: str | None = None
) -> npt.NDArray[np.float64]:
    """Return a model's output [frames, units] as natural log-probabilities, float64.

    `scale` is the kind of its numbers: natural log-probabilities, scores before the softmax, or probabilities.

    Raises:
        ModelError: It is no matrix, a number is NaN or +inf, or the frames' probabilities do not sum to 1.
    """
    values = np.ascontiguousarray(matrix, np.float64)
    if values.ndim != 2 or not values.shape[1]:
        raise ModelError(f"a matrix [frames, units] is needed, but its shape is {list(values.shape)}", key=key)
    if (bad := np.isnan(values) | np.isposinf(values)).any():
        frame, unit = np.argwhere(bad)[0]
        raise ModelError(f"frame {frame}, unit {unit} is {values[frame, unit]}", key=key)
    if scale == "prob":
        if (bad := values < 0).any():
            frame, unit = np.argwhere(bad)[0]
            raise ModelError(f"frame {frame}, unit {unit} has the probability {values[frame, unit]}", key=key)
        with np.errstate(divide="ignore"):
            values = np.log(values)
    elif scale not in ("logprob", "logit"):
        raise OptionError(f"scale is {scale!r}, but must be logprob, logit or prob")
    if not len(values):
        return values
    most = values.max(axis=1, keepdims=True)
    if not np.isfinite(most).all():
        frame = int(np.flatnonzero(~np.isfinite(most[:, 0]))[0])
        raise ModelError(f"in frame {frame} no unit is possible", key=key)
    total = most[:, 0] + np.log(np.exp(values - most).sum(axis=1))
    if scale == "logit":
        normalised: npt.NDArray[np.float64] = values - total[:, None]
        return normalised
    if (bad := np.abs(total) > ROUNDING).any():
        frame = int(np.flatnonzero(bad)[0])
        kind = "prob" if (values >= 0).all() and (np.abs(values.sum(axis=1) - 1) <= ROUNDING).all() else "logit"
        looks = "probabilities" if kind == "prob" else "scores before the softmax"
        cure = f"--scale {kind}, in Python ninja.decoding.log_probabilities(matrix, {kind!r})"
        sums = f"the probabilities of frame {frame} sum to {math.exp(min(total[frame], 700.0)):.6g}, not to 1"
        raise ModelError(f"{sums}; these look like {looks}: {cure}", key=key)
    return values


def ctc_nbest(
    logprob: npt.ArrayLike,
    units: CtcUnits,
    lexicon: CtcLexicon | None = None,
    options: CtcOptions | None = None,
    *,
    key: str | None = None,
) -> list[CtcHypothesis]:
    """Find the most probable word sequences by a CTC model.

    A sequence has the probability of all its alignments together: repeats of a unit count once unless a blank stands
    between, and so do boundaries. Prefixes that fell out of the beams are not counted.

    Args:
        logprob: Natural log-probabilities of all units at each frame, [frames, units].
        lexicon: The words allowed; None: any.

    Returns:
        Word sequences, each once, the most probable first; no more than the beam, and none if the lexicon allows none.

    Raises:
        ModelError: Not log-probabilities, or not one for each unit.

    Source: Graves and Jaitly 2014, "Towards end-to-end speech recognition with recurrent neural networks", algorithm 1;
    Hannun, Maas, Jurafsky and Ng 2014, arXiv:1408.2873.
    """
    return ctc_search(logprob, units, lexicon, options, key=key).hypotheses()


def ctc_search(
    logprob: npt.ArrayLike,
    units: CtcUnits,
    lexicon: CtcLexicon | None = None,
    options: CtcOptions | None = None,
    key: str | None = None,
) -> CtcFound:
    """Search as ``ctc_nbest``, with arrays as the result."""
    options = options or CtcOptions()
    values = log_probabilities(logprob, key=key)
    if values.shape[1] != len(units.names):
        message = f"the matrix has {values.shape[1]} columns, but there are {len(units.names)} units"
        raise ModelError(message, key=key)
    if options.min_logprob > -math.inf:
        kept = (values >= options.min_logprob) | (values == values.max(axis=1, keepdims=True, initial=-math.inf))
        values = np.where(kept, values, -np.inf)
    tree = NO_LEXICON if lexicon is None else lexicon
    found = _ctc.search(
        values,
        units.blank,
        units.kind,
        tree.child_begin,
        tree.unit,
        tree.child,
        tree.is_word,
        options.beam,
        options.score_beam,
        options.max_units,
    )
    return _found_of(found, len(values), units, lexicon)


def ctc_lattice(
    logprob: npt.ArrayLike,
    units: CtcUnits,
    key: str,
    lexicon: CtcLexicon | None = None,
    options: CtcOptions | None = None,
    *,
    words: SymbolTable | None = None,
    unknown: str | None = None,
    frame_shift: float | None = None,
) -> Lattice:
    """Make a lattice whose paths are the hypotheses of a CTC search, with their costs.

    Hypotheses share arcs as long as their words are the same. A path costs what its hypothesis does, -log p: each word
    has its share by the best alignment, and the last arc, without a word, the rest. Graph costs are 0. States stand at
    the frames of the best alignment of the first hypothesis through them; silence is an arc without a word. The label
    of a frame is its column in that alignment + 1, the blank's between words.

    Args:
        logprob: As for ``ctc_nbest``.
        lexicon: The words allowed; None: any.
        words: Symbol table that the words must be in; None: one of the words found is made, epsilon 0.
        unknown: Word of the table that stands for those it lacks; None: these are refused.
        frame_shift: Seconds per frame of the matrix.

    Raises:
        LatticeError: The lexicon allows no hypothesis.
        SymbolError: A word is not in ``words``.
        ModelError: As for ``ctc_nbest``.
    """
    found = ctc_search(logprob, units, lexicon, options, key=key)
    if not len(found):
        raise LatticeError("no hypothesis within the beam is made of words of the lexicon; widen it", key=key)
    return found.lattice(key, words, unknown, frame_shift)


def from_ctc(
    key: str,
    matrix: Any,
    units: CtcUnits | Sequence[str],
    blank: int | str | None = None,
    *,
    scale: Literal["logprob", "logit", "prob"] = "logprob",
    scheme: Scheme = "letters",
    boundary: str | None = None,
    never: Iterable[str] = (),
    lexicon: CtcLexicon | None = None,
    options: CtcOptions | None = None,
    words: SymbolTable | None = None,
    frame_shift: float | None = None,
) -> Lattice:
    """Make a lattice of the output matrix of a CTC model for one utterance.

    What `log_probabilities`, `ctc_units` and `ctc_lattice` do, in one call; see these for the search and the costs.
    Paths are the word sequences within the beam, their acoustic costs ``-log p`` in nats; graph costs are 0.

    Args:
        key: Utterance id.
        matrix: Output of the model, [frames, units]: numpy's, torch's on any device, or nested lists.
        units: Name of each column, in their order, or units that were made before.
        blank: Which of the names is the blank: its number (-1: the last) or the name.
        scale: What the numbers are: natural log-probabilities, scores before the softmax, or probabilities.
        scheme: How units make words, see `ctc_units`; so are `boundary` and `never`.
        lexicon: The words allowed; None: any.
        options: Widths of the search.
        words: Symbol table that the words must be in, or ``SymbolTable.growing()``, which takes them in; None: the
            lattice gets a table of its own.
        frame_shift: Seconds per frame of the matrix.

    Raises:
        ModelError: The numbers are none of the kind, or there is not one for each unit.
        OptionError: There is no blank, or a name is none of the units.
        LatticeError: No hypothesis within the beam is made of the lexicon's words.
    """
    if not isinstance(units, CtcUnits):
        if blank is None:
            raise OptionError("blank is missing: say which unit is the blank, by its number or its name")
        units = ctc_units(units, blank, scheme, boundary=boundary, never=never)
    if hasattr(matrix, "detach"):
        matrix = matrix.detach().cpu().double().numpy()
    logprob = log_probabilities(matrix, scale, key)
    return ctc_lattice(logprob, units, key, lexicon, options, words=words, frame_shift=frame_shift)
