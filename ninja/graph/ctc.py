"""Lattices of the matrices that CTC models give: prefix beam search, with a lexicon or without."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ninja import _ctc
from ninja.errors import LatticeError, ModelError, OptionError, SymbolError
from ninja.graph.build import from_arcs
from ninja.graph.ctc_lexicon import CtcLexicon
from ninja.graph.ctc_units import CtcUnits
from ninja.lattice import Lattice
from ninja.symbols import EPSILON, SymbolTable

ROUNDING = 0.1  # nats by which the probabilities of a frame may miss 1: matrices come in half precision, too
EPSILON_NAME = "<eps>"


@dataclass(frozen=True, slots=True)
class CtcOptions:
    """How widely to search."""

    beam: int = 100  # prefixes kept at each frame; 0: all
    score_beam: float = 20.0  # prefixes worse than the best by more are dropped, nats
    max_units: int = 0  # units that may follow a prefix at each frame, the most probable; 0: all
    min_logprob: float = -math.inf  # units and blanks less probable count as impossible, a frame's best one aside; nats

    def __post_init__(self) -> None:
        """Refuse what makes no sense.

        Raises:
            OptionError: Names the option, its value and the range.
        """
        for name in ("beam", "max_units"):
            if getattr(self, name) < 0:
                raise OptionError(f"{name} is {getattr(self, name)}, but must be 0 or more")
        if not self.score_beam > 0:
            raise OptionError(f"score_beam is {self.score_beam}, but must be above 0")
        if not self.min_logprob <= 0:
            raise OptionError(f"min_logprob is {self.min_logprob}, but must be 0 or less")


@dataclass(frozen=True, slots=True)
class CtcHypothesis:
    """A word sequence, and when its words were said by the best alignment."""

    words: tuple[tuple[str, ...], ...]  # each with the others that the lexicon spells the same way
    logprob: float  # natural logarithm of the probability of all its alignments
    begin: tuple[int, ...]  # first frame of each word
    end: tuple[int, ...]  # the frame after its last
    cost: tuple[float, ...]  # of the best alignment, from each word's first frame to the next word's; nats
    alignment: npt.NDArray[np.int32] = field(
        compare=False
    )  # by it, [frames]: the column of a unit; between words, the blank

    @property
    def text(self) -> str:
        """The words, the first of those spelled the same way, with blanks between."""
        return " ".join(alike[0] for alike in self.words)


def log_probabilities(
    matrix: npt.ArrayLike, scale: Literal["logprob", "logit", "prob"] = "logprob", key: str | None = None
) -> npt.NDArray[np.float64]:
    """Return a matrix as natural log-probabilities, float64 [frames, units].

    Args:
        matrix: What a model gave, [frames, units].
        scale: What its numbers are: natural log-probabilities, scores before the softmax, or probabilities.
        key: Utterance id, for the message.

    Raises:
        ModelError: It is no matrix, a number is NaN or +inf, or the frames' probabilities do not sum to 1.
        OptionError: ``scale`` is none of these.
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
        return values - total[:, None]
    if (bad := np.abs(total) > ROUNDING).any():
        frame = int(np.flatnonzero(bad)[0])
        message = f"the probabilities of frame {frame} sum to {math.exp(min(total[frame], 700.0)):.6g}, not to 1; "
        raise ModelError(message + "say if these are logit or prob instead of natural log-probabilities", key=key)
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
    between, and so do boundaries. What is within the beams is exact: prefixes that fell out of them are not counted.

    Args:
        logprob: Natural log-probabilities of all units at each frame, [frames, units].
        units: What the units are.
        lexicon: The words allowed; None: any.
        options: Beams.
        key: Utterance id, for messages.

    Returns:
        Word sequences, each once, the most probable first; no more than the beam, and none if the lexicon allows none.

    Raises:
        ModelError: Not log-probabilities, or not one for each unit.

    Source: Graves and Jaitly 2014, "Towards end-to-end speech recognition with recurrent neural networks", algorithm 1;
    Hannun, Maas, Jurafsky and Ng 2014, arXiv:1408.2873.
    """
    options = options or CtcOptions()
    values = log_probabilities(logprob, key=key)
    if values.shape[1] != len(units.names):
        message = f"the matrix has {values.shape[1]} columns, but there are {len(units.names)} units"
        raise ModelError(message, key=key)
    if options.min_logprob > -math.inf:
        kept = (values >= options.min_logprob) | (values == values.max(axis=1, keepdims=True, initial=-math.inf))
        values = np.where(kept, values, -np.inf)
    empty = np.zeros(0, np.int32)
    found = _ctc.search(
        values,
        units.blank,
        units.kind,
        np.zeros(1, np.int64) if lexicon is None else lexicon.child_begin,
        empty if lexicon is None else lexicon.unit,
        empty if lexicon is None else lexicon.child,
        np.zeros(0, np.uint8) if lexicon is None else lexicon.is_word,
        options.beam,
        options.score_beam,
        options.max_units,
    )
    alignment = _alignments(units.blank, len(values), found)
    unit_begin, unit = found[3:5]
    total, best, word_begin, state, first, end, before = (found[at].tolist() for at in (0, 1, 2, 7, 8, 9, 10))
    names: list[tuple[str, ...]]
    if lexicon is None:
        said = "".join(map(units.text.__getitem__, unit.tolist()))
        length = np.array([len(text) for text in units.text])
        begins = np.concatenate([[0], np.cumsum(length[unit])])[unit_begin].tolist()
        names = [(said[low:high],) for low, high in pairwise(begins)]
    else:
        names = [lexicon.words[each] for each in state]
    by_words: dict[tuple[tuple[str, ...], ...], int] = {}
    hypotheses: list[CtcHypothesis] = []
    for number, logprob_here in enumerate(total):
        low, high = word_begin[number], word_begin[number + 1]
        words = tuple(names[low:high])
        place = by_words.setdefault(words, len(hypotheses))
        if place < len(hypotheses):  # other units, or a boundary at the end: the same words
            kept = hypotheses[place]
            hypotheses[place] = replace(kept, logprob=float(np.logaddexp(kept.logprob, logprob_here)))
            continue
        steps = [0.0, *before[low + 1 : high], best[number]]
        cost = tuple(start - stop for start, stop in pairwise(steps)) if high > low else ()
        times = tuple(first[low:high]), tuple(end[low:high])
        hypotheses.append(CtcHypothesis(words, logprob_here, *times, cost, alignment[number]))
    return sorted(hypotheses, key=lambda each: -each.logprob)


def _alignments(blank: int, num_frames: int, found: tuple[npt.NDArray[Any], ...]) -> npt.NDArray[np.int32]:
    """Return the column at each frame of the best alignment of each hypothesis, int32 [hypotheses, frames]."""
    total, _, word_begin, unit_begin, unit, unit_first, unit_end, *_ = found
    columns = np.full((len(total), num_frames), blank, np.int32)
    length = unit_end - unit_first
    units_of = np.diff(unit_begin[word_begin])
    begin = np.repeat(np.arange(len(total)) * num_frames, units_of) + unit_first
    behind = np.cumsum(length)
    place = np.repeat(begin - (behind - length), length) + np.arange(length.sum())
    columns.reshape(-1)[place] = np.repeat(unit, length)
    return columns


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
    """Make a lattice of what a CTC search finds: its paths are the hypotheses, with their costs.

    Hypotheses share arcs as long as their words are the same. A path costs what its hypothesis does, -log p: each word
    has its share by the best alignment, and the last arc, without a word, the rest. Graph costs are 0. States stand at
    the frames of the best alignment of the first hypothesis through them; silence is an arc without a word. The label
    of a frame is its column in that alignment + 1, the blank's between words.

    Args:
        logprob: As for ``ctc_nbest``.
        units: What the units are.
        key: Utterance id.
        lexicon: The words allowed; None: any.
        options: Beams.
        words: Symbol table that the words must be in; None: one of the words found is made, epsilon 0.
        unknown: Word of the table that stands for those it lacks; None: these are refused.
        frame_shift: Seconds per frame of the matrix.

    Raises:
        LatticeError: The lexicon allows no hypothesis.
        SymbolError: A word is not in ``words``.
        ModelError: As for ``ctc_nbest``.
    """
    values = log_probabilities(logprob, key=key)
    hypotheses = ctc_nbest(values, units, lexicon, options, key=key)
    if not hypotheses:
        raise LatticeError("no hypothesis within the beam is made of words of the lexicon; widen it", key=key)
    return hypotheses_lattice(hypotheses, key, len(values), units.blank, words, unknown, frame_shift)


def hypotheses_lattice(
    hypotheses: Sequence[CtcHypothesis],
    key: str,
    num_frames: int,
    blank: int,
    words: SymbolTable | None = None,
    unknown: str | None = None,
    frame_shift: float | None = None,
) -> Lattice:
    """Make a lattice of hypotheses as ``ctc_nbest`` returns them; arguments and errors are those of ``ctc_lattice``.

    Args:
        hypotheses: The most probable first.
        key: Utterance id.
        num_frames: Of the matrix.
        blank: Its column.
        words: Symbol table that the words must be in, or None.
        unknown: Word that stands for those it lacks, or None.
        frame_shift: Seconds per frame.
    """
    if words is None:
        said = dict.fromkeys(word for each in hypotheses for alike in each.words for word in alike)
        words = SymbolTable.from_words([EPSILON_NAME, *said])
        unknown = None
    arcs: list[tuple[int, int, int, float]] = []
    labels: list[list[int]] = []
    numbered: dict[tuple[str, ...], tuple[int, ...]] = {}
    time, cost_to = [0], [0.0]
    below: list[dict[tuple[int, ...], int]] = [{}]
    paused: dict[tuple[int, int], int] = {}  # the state after silence
    ends: list[tuple[int, float]] = []
    ended: set[int] = set()

    def state(frame: int, cost: float) -> int:
        time.append(frame)
        cost_to.append(cost)
        below.append({})
        return len(time) - 1

    for each in hypotheses:
        at = 0
        for alike, begin, end, cost in zip(each.words, each.begin, each.end, each.cost, strict=True):
            if alike not in numbered:
                numbered[alike] = _ids(alike, words, unknown, key)
            ids = numbered[alike]
            if ids in below[at]:
                at = below[at][ids]
                continue
            source = at
            # Another hypothesis may have said the words before later than this one.
            late = max(begin, time[at])
            if late > time[at]:
                if (at, late) not in paused:
                    paused[at, late] = state(late, cost_to[at])
                    arcs.append((at, paused[at, late], EPSILON, 0.0))
                    labels.append([blank + 1] * (late - time[at]))
                source = paused[at, late]
            there = state(max(end, late), cost_to[at] + float(np.float32(cost)))
            arcs += [(source, there, number, cost) for number in ids]
            labels += [(each.alignment[late : time[there]] + 1).tolist()] * len(ids)
            below[at][ids] = there
            at = there
        if at not in ended:  # two hypotheses differ only in words that the table lacks: the better one stays
            ended.add(at)
            ends.append((at, -each.logprob - cost_to[at]))
    last = len(time)
    arcs += [(at, last, EPSILON, cost) for at, cost in ends]
    num_frames = max(num_frames, *time)
    labels += [[blank + 1] * (num_frames - time[at]) for at, _ in ends]
    src, dst, word, acoustic = zip(*arcs, strict=True)
    return from_arcs(
        key,
        src,
        dst,
        word,
        np.zeros(len(arcs)),
        acoustic,
        finals={last: 0.0},
        labels=labels,
        frame_shift=frame_shift,
        words=words,
    )


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
