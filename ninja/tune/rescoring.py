"""Choosing the weights of a rescoring on sentences whose costs are known part by part."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import numpy.typing as npt

from ninja.errors import OptionError
from ninja.lm import LanguageModel, Mixture
from ninja.lm.mixture import How
from ninja.rescoring.engine import Keyed
from ninja.rescoring.options import RescoreOptions
from ninja.rescoring.report import RescoreReport
from ninja.rescoring.rescorer import rescore
from ninja.tune.features import Features, features

# What is tried first: each with each. Acoustic scales are factors of the one to start with.
LM_WEIGHTS = np.linspace(0.0, 1.0, 11)
ACOUSTIC_FACTORS = 2.0 ** np.linspace(-1.0, 1.0, 9)
WORD_PENALTIES = np.linspace(-2.0, 4.0, 13)
MAX_MIXTURES = 12  # combinations of mixture weights tried with all of the above

LINE = 21  # values tried along one weight when refining
EDGE = 0.02  # of the range of a weight: what lies nearer to its end than this lies at the end
ROUNDS = 5  # in each of which the lines are half as long as before

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Weights:
    """What ``ninja tune`` chooses."""

    lm_weight: float
    acoustic_scale: float
    word_penalty: float
    mixture: tuple[float, ...] = (1.0,)  # of the models, summing to 1


@dataclass(frozen=True, slots=True)
class Tuned:
    """The outcome of ``tune``; word error rates in percent, all on the same sentences."""

    weights: Weights
    wer: float
    wer_before: float  # at the weights to start with
    wer_first_pass: float  # of the lattices as they were, at the starting acoustic scale and word penalty
    wer_oracle: float  # of the sentence with the fewest errors of each lattice: no weights can go below
    edges: tuple[str, ...]  # which weights lie at the end of what was tried, and what that may mean
    num_lattices: int
    num_sentences: int


def tune(
    lattices: Iterable[Keyed],
    references: Mapping[str, Sequence[str]],
    lm: LanguageModel | Mixture,
    options: RescoreOptions | None = None,
    *,
    old_lm: LanguageModel | Mixture | None = None,
    num_best: int = 300,
    report: RescoreReport | None = None,
) -> Tuned:
    """Choose LM weight, acoustic scale, word penalty and mixture weights for the fewest word errors.

    The lattices are rescored once, with the weights of the options, and the n best sentences taken that come out.
    From then on no network runs, but to score these by each model of a mixture: other weights only make other
    sentences of them the best.

    Args:
        lattices: A development set, with symbol tables; never the set that results are reported on.
        references: Words said, by key.
        lm: The language model, or a mixture, whose weights are chosen too.
        options: The rescoring, and the weights to start with.
        old_lm: The language model of the first pass, as in ``rescore``.
        num_best: Sentences of each lattice to choose from, ≥ 1.
        report: As in ``rescore``.

    Raises:
        OptionError: ``num_best`` is below 1.
        FormatError: No lattice has a reference.
        NinjaError: As ``rescore`` raises.
    """
    if num_best < 1:
        raise OptionError(f"num_best is {num_best}, but must be 1 or more")
    options = replace(options or RescoreOptions(), output="lattice")
    how: How = lm.how if isinstance(lm, Mixture) else "loglinear"
    models = [model for model, _ in lm.models] if isinstance(lm, Mixture) else [lm]
    shares = np.array([weight for _, weight in lm.models] if isinstance(lm, Mixture) else [1.0])

    log = RescoreReport() if report is None else report

    def rescored(source: Iterable[Keyed]) -> Iterator[Keyed]:
        return rescore(source, lm, options, old_lm=old_lm, report=log)

    found = features(lattices, rescored, references, models, options, old_lm=old_lm, num_best=num_best, log=log)
    mixture = tuple((shares / shares.sum()).tolist()) if shares.sum() > 0 else (1 / len(models),) * len(models)
    start = Weights(options.lm_weight, options.acoustic_scale, options.word_penalty, mixture)
    return choose(found, start, how)


def choose(found: Features, start: Weights, how: How = "loglinear") -> Tuned:
    """Choose the weights under which the best sentences have the fewest errors.

    Every combination of a coarse grid is tried, then one weight after the other on ever shorter lines about the best.
    Of equals the grid takes what is nearest to the start, a line the middle of its stretch of equals. What comes out
    is the same in every run.

    Args:
        found: The sentences.
        start: Weights to start with; its acoustic scale is the middle of those tried.
        how: How the models mix.
    """
    errors = _Errors(found, how)
    ranges = _ranges(start)
    best, fewest = _of_grid(errors, start, ranges)
    if (as_given := errors.of(start)) < fewest:  # it need not lie on the grid
        best, fewest = start, as_given
    for part in range(ROUNDS):
        for axis in range(3 + (len(start.mixture) if len(start.mixture) > 1 else 0)):
            best, fewest = _along(errors, best, fewest, axis, ranges, 0.5**part)
    for model, share in enumerate(best.mixture):
        if 0 < share <= EDGE and errors.of(without := _with(best, 3 + model, 0.0)) <= fewest:
            best = without  # a model that may as well not run
    words = max(found.reference_words, 1)
    nearest = np.minimum.reduceat(found.errors, np.flatnonzero(np.diff(found.lattice, prepend=-1)))
    return Tuned(
        weights=best,
        wer=100.0 * fewest / words,
        wer_before=100.0 * as_given / words,
        wer_first_pass=100.0 * found.first_pass_errors / words,
        wer_oracle=100.0 * int(nearest.sum()) / words,
        edges=_edges(best, ranges),
        num_lattices=found.num_lattices,
        num_sentences=found.lattice.size,
    )


@dataclass(frozen=True, slots=True)
class _Range:
    """Values tried for one weight."""

    name: str
    grid: Doubles
    step: float  # half the length of the first line


def _ranges(start: Weights) -> list[_Range]:
    scales = start.acoustic_scale * ACOUSTIC_FACTORS
    return [
        _Range("lm_weight", LM_WEIGHTS, 0.1),
        _Range("acoustic_scale", scales, float(scales[-1] - scales[0]) / (scales.size - 1)),
        _Range("word_penalty", WORD_PENALTIES, 0.5),
        _Range("mixture", np.array([0.0, 1.0]), 0.25),
    ]


class _Errors:
    """Word errors of the best sentences under any weights."""

    def __init__(self, found: Features, how: How) -> None:
        self._found = found
        self._how = how
        place = np.arange(found.lattice.size)
        first = np.flatnonzero(np.diff(found.lattice, prepend=-1))
        self._column = place - first[found.lattice]
        self._shape = (found.num_lattices, int(self._column.max(initial=0)) + 1)
        self._graph, self._acoustic = self._padded(found.graph), self._padded(found.acoustic)
        self._words = self._padded(found.num_words)
        self._missing = self._padded(np.zeros(found.lattice.size), np.inf)
        self._edits = self._padded(found.errors).astype(np.int64)
        self._row = np.arange(self._shape[0])
        self._old = None if found.old_logprob is None else self._padded(found.of_sentences(found.old_logprob))
        # Sums over words go first where they can: a log-linear mixture is then one product.
        self._sums = found.of_sentences(found.logprob) if how == "loglinear" else None
        self._mixed: tuple[tuple[float, ...], Doubles] | None = None

    def of(self, weights: Weights) -> int:
        """Count the errors under some weights."""
        return int(self.of_penalties(weights, np.array([weights.word_penalty]))[0])

    def of_penalties(self, weights: Weights, penalties: Doubles) -> npt.NDArray[np.int64]:
        """Count the errors under each of some word penalties."""
        new = self._logprob(weights.mixture)
        share = 1.0 - weights.lm_weight if self._old is None else 1.0
        cost = weights.acoustic_scale * self._acoustic + share * self._graph + self._missing
        cost -= weights.lm_weight * (new if self._old is None else new - self._old)
        counts = np.empty(penalties.size, np.int64)
        for place, penalty in enumerate(penalties):
            chosen = (cost + penalty * self._words).argmin(1)
            counts[place] = self._edits[self._row, chosen].sum()
        return counts

    def _logprob(self, mixture: tuple[float, ...]) -> Doubles:
        """Return the mixed log-probability of each sentence, [lattices, sentences of the longest list]."""
        if self._mixed is None or self._mixed[0] != mixture:
            share = np.array(mixture)
            if self._sums is not None:
                mixed = share @ self._sums
            else:
                used = np.flatnonzero(share > 0)
                joint = np.logaddexp.reduce(self._found.logprob[used] + np.log(share[used])[:, None], axis=0)
                mixed = self._found.of_sentences(joint)
            self._mixed = mixture, self._padded(mixed)
        return self._mixed[1]

    def _padded(self, values: npt.NDArray[np.generic], missing: float = 0.0) -> Doubles:
        table = np.full(self._shape, missing)
        table[self._found.lattice, self._column] = values
        return table


def _of_grid(errors: _Errors, start: Weights, ranges: Sequence[_Range]) -> tuple[Weights, int]:
    lm_weights, scales, penalties, _ = (each.grid for each in ranges)
    best, fewest, distance = start, np.iinfo(np.int64).max, math.inf
    for mixture, lm_weight, scale in product(_mixtures(start.mixture), lm_weights, scales):
        weights = Weights(float(lm_weight), float(scale), start.word_penalty, mixture)
        for penalty, count in zip(penalties, errors.of_penalties(weights, penalties), strict=True):
            if count > fewest:
                continue
            here = replace(weights, word_penalty=float(penalty))
            away = _distance(here, start)
            if count < fewest or away < distance:
                best, fewest, distance = here, int(count), away
    return best, fewest


def _mixtures(start: tuple[float, ...]) -> list[tuple[float, ...]]:
    """Return mixture weights to try: as even a net as there is room for, and the given ones."""
    if len(start) == 1:
        return [start]
    parts = next(parts for parts in range(10, 0, -1) if parts == 1 or _num_shares(parts, len(start)) <= MAX_MIXTURES)
    net = [shares for shares in product(range(parts + 1), repeat=len(start)) if sum(shares) == parts]
    return [start, *(tuple(share / parts for share in shares) for shares in net)]


def _num_shares(parts: int, models: int) -> int:
    return math.comb(parts + models - 1, models - 1)


def _distance(weights: Weights, start: Weights) -> float:
    """How far apart weights are, in steps of the grid."""
    scale = abs(math.log2(weights.acoustic_scale / start.acoustic_scale)) / 0.25 if start.acoustic_scale else 0.0
    return math.hypot(
        (weights.lm_weight - start.lm_weight) / 0.1,
        scale,
        (weights.word_penalty - start.word_penalty) / 0.5,
        *((one - other) / 0.1 for one, other in zip(weights.mixture, start.mixture, strict=True)),
    )


def _along(
    errors: _Errors, best: Weights, fewest: int, axis: int, ranges: Sequence[_Range], share: float
) -> tuple[Weights, int]:
    """Try values of one weight about the best so far."""
    tried = ranges[min(axis, 3)]
    here = _value(best, axis)
    low, high = (max(tried.grid[0], here - tried.step * share), min(tried.grid[-1], here + tried.step * share))
    line = np.linspace(low, high, LINE)
    if axis == 2:
        counts = errors.of_penalties(best, line)
    else:
        counts = np.array([errors.of(_with(best, axis, float(value))) for value in line])
    least = int(counts.min())
    if least > fewest:
        return best, fewest
    equal = np.flatnonzero(counts == least)
    stretches = np.split(equal, np.flatnonzero(np.diff(equal) > 1) + 1)
    # The longest stretch of equals is the safest; of two the nearer one.
    longest = max(stretches, key=lambda each: (len(each), -abs(line[each].mean() - here)))
    middle = _with(best, axis, float(line[longest[len(longest) // 2]]))
    return middle, least


def _value(weights: Weights, axis: int) -> float:
    if axis < 3:
        return (weights.lm_weight, weights.acoustic_scale, weights.word_penalty)[axis]
    return weights.mixture[axis - 3]


def _with(weights: Weights, axis: int, value: float) -> Weights:
    if axis == 0:
        return replace(weights, lm_weight=value)
    if axis == 1:
        return replace(weights, acoustic_scale=value)
    if axis == 2:
        return replace(weights, word_penalty=value)
    model = axis - 3
    others = sum(weights.mixture) - weights.mixture[model]
    count = len(weights.mixture) - 1
    rest = [each / others * (1 - value) if others > 0 else (1 - value) / count for each in weights.mixture]
    rest[model] = value
    return replace(weights, mixture=tuple(rest))


def _edges(best: Weights, ranges: Sequence[_Range]) -> tuple[str, ...]:
    """Say which weights lie at the end of what was tried."""
    found = []
    for axis, tried in enumerate(ranges[:3]):
        value, low, high = _value(best, axis), float(tried.grid[0]), float(tried.grid[-1])
        near = EDGE * (high - low)
        if low + near < value < high - near or low == high:
            continue
        lower = value <= low + near
        end = f"{tried.name} {value:.3g} lies at the {'lower' if lower else 'upper'} end of what was tried"
        if axis == 0:
            end += ": the new models gain nothing" if lower else ": the old scores add nothing"
        else:
            end += f" ({low:.3g} … {high:.3g}); tune again from there"
        found.append(end)
    unused = [place for place, share in enumerate(best.mixture, 1) if share == 0]
    found += [f"model {place} of the mixture adds nothing" for place in unused]
    return tuple(found)
