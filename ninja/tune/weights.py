"""Choice of the weights of a rescoring on n-best sentences with known parts of their costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product
from typing import Any

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError, OptionError
from ninja.graph import best_path
from ninja.lattice import Scales
from ninja.lattice.batch import Keyed
from ninja.lattice.text import LexicalForms
from ninja.lm import LanguageModel, Mixture
from ninja.lm.lexical import with_lexical_forms
from ninja.lm.mixture import How
from ninja.rescoring.options import RescoreOptions
from ninja.rescoring.report import RescoreReport
from ninja.rescoring.rescorer import rescore
from ninja.tune.features import Features, features
from ninja.tune.search import EDGE, Axis, Search
from ninja.tune.word_errors import Reference

# The initial grid. Acoustic scales are factors of the initial one.
LM_WEIGHTS = np.linspace(0.0, 1.0, 11)
ACOUSTIC_FACTORS = 2.0 ** np.linspace(-1.0, 1.0, 9)
WORD_PENALTIES = np.linspace(-2.0, 4.0, 13)
DIGITS = 4  # decimal places of written weights
MAX_MIXTURES = 12  # combinations of mixture weights in the grid

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of a rescoring."""

    lm_weight: float
    acoustic_scale: float
    word_penalty: float
    mixture: tuple[float, ...] = (1.0,)  # of the models, summing to 1

    def rounded(self) -> Weights:
        """Return the rounded weights; the shares of a mixture still sum to 1."""
        shares = [round(share, DIGITS) for share in self.mixture]
        last = max(place for place, share in enumerate(shares) if share > 0)
        shares[last] = round(1.0 - sum(share for place, share in enumerate(shares) if place != last), DIGITS)
        return Weights(
            round(self.lm_weight, DIGITS),
            round(self.acoustic_scale, DIGITS),
            round(self.word_penalty, DIGITS),
            tuple(shares),
        )

    def __str__(self) -> str:
        mixed = f", mixture {','.join(f'{share:.3g}' for share in self.mixture)}" if len(self.mixture) > 1 else ""
        scale, penalty = f"acoustic scale {self.acoustic_scale:.3g}", f"word penalty {self.word_penalty:.3g}"
        return f"LM weight {self.lm_weight:.3g}, {scale}, {penalty}{mixed}"


@dataclass(frozen=True, slots=True)
class Tuned:
    """The result of ``tune_weights``; word error rates in percent, all on the same sentences."""

    weights: Weights
    wer: float  # of the n-best sentences
    wer_before: float  # at the initial weights
    wer_first_pass: float  # of the original lattices, at the initial acoustic scale and word penalty
    wer_oracle: float  # of the best sentence of each lattice, a lower bound for all weights
    edges: tuple[str, ...]  # weights at the ends of their ranges, and their possible causes
    num_lattices: int
    num_sentences: int
    wer_rescored: float = math.nan  # of the lattices rescored with the weights, which may find other sentences

    @property
    def story(self) -> str:
        """Word error rates before and after."""
        expected = "" if f"{self.wer:.2f}" == f"{self.wer_rescored:.2f}" else f" ({self._expected})"
        return (
            f"WER {self.wer_first_pass:.2f} before rescoring, {self.wer_before:.2f} with the weights given, "
            f"{self.wer_rescored:.2f} rescored with these{expected}; {self.wer_oracle:.2f} is the least there is"
        )

    @property
    def _expected(self) -> str:
        return f"the search among {self.num_sentences} sentences expected {self.wer:.2f}"

    @property
    def basis(self) -> str:
        """Size of the set."""
        return f"{self.num_sentences} sentences of {self.num_lattices} lattices"


def tune_weights(
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

    The lattices are rescored with the initial weights, and each model of a mixture scores the n best sentences once.
    The search runs no network, since other weights only change the order of these sentences. Finally the lattices are
    rescored with the chosen weights, which may find other sentences.

    Args:
        lattices: A development set with symbol tables, which is kept in memory; never a test set.
        references: Reference words by key.
        lm: The language model, or a mixture, whose weights are chosen as well.
        options: Options of the rescoring, with the initial weights.
        old_lm: The language model of the first pass, as in ``rescore``.
        num_best: Number of sentences per lattice, ≥ 1.
        report: As in ``rescore``.

    Raises:
        OptionError: ``num_best`` is below 1.
        FormatError: No lattice has a reference.
        NinjaError: As ``rescore``.
    """
    if num_best < 1:
        raise OptionError(f"num_best is {num_best}, but must be 1 or more")
    options = replace(options or RescoreOptions(), output="lattice")
    how: How = lm.how if isinstance(lm, Mixture) else "loglinear"
    models, model_weights = zip(*(lm.models if isinstance(lm, Mixture) else [(lm, 1.0)]), strict=True)
    shares = np.array(model_weights)
    log = RescoreReport() if report is None else report
    lattices = [(key, lattice) for key, lattice in lattices if key in references]
    normalizer = LexicalForms(options.normalizer, log.note).normalizer(lattices[0][1].words if lattices else None)
    options, forms = replace(options, normalizer=normalizer.name), LexicalForms(normalizer)

    def rescored(source: Iterable[Keyed]) -> Iterator[Keyed]:
        return rescore(source, lm, options, old_lm=old_lm, report=log)

    bound = [with_lexical_forms(model, forms, options.lm_text) for model in (*models, old_lm)]
    sentences = features(
        lattices,
        rescored,
        references,
        [model for model in bound[:-1] if model is not None],
        options,
        old_lm=bound[-1],
        num_best=num_best,
        forms=forms,
        log=log,
    )
    mixture = tuple((shares / shares.sum()).tolist()) if shares.sum() > 0 else (1 / len(models),) * len(models)
    start = Weights(options.lm_weight, options.acoustic_scale, options.word_penalty, mixture)
    tuned = choose(sentences, start, how)
    weights = tuned.weights.rounded()
    chosen = replace(
        options, **{name: getattr(weights, name) for name in ("lm_weight", "acoustic_scale", "word_penalty")}
    )
    parts = [(model, share) for model, share in zip(models, weights.mixture, strict=True) if share > 0]
    best_lm = parts[0][0] if len(parts) == 1 else Mixture(tuple(parts), how)
    checked = RescoreReport(on_error=None if log.on_error is None else lambda error: None)  # already reported
    results = rescore(lattices, best_lm, chosen, old_lm=old_lm, report=checked)
    return replace(tuned, weights=weights, wer_rescored=word_error_rate(results, references, chosen.scales, forms))


def word_error_rate(
    results: Iterable[Keyed],
    references: Mapping[str, Sequence[str]],
    scales: Scales,
    forms: LexicalForms | None = None,
) -> float:
    """Return the word error rate of the best paths of lattices with references, percent."""
    errors = num_words = 0
    for key, lattice in results:
        if key in references:
            reference = Reference.of(lattice, references[key], forms or LexicalForms())
            errors += reference.errors(best_path(lattice, scales).words)
            num_words += len(reference.ids)
    if not num_words:
        raise FormatError("no lattice has a reference; are these utterance ids of the same set?")
    return 100.0 * errors / num_words


def choose(sentences: Features, start: Weights, how: How = "loglinear") -> Tuned:
    """Choose the weights with the fewest errors of the best sentences.

    A coarse grid around the start is searched first, then each weight in turn on shorter and shorter lines around the
    best point. Ties are broken by the distance from the start on the grid, and by the middle of a range of ties on a
    line.
    """
    search = _Search(_WordErrors(sentences, how), start)
    best = search.best()
    [fewest, initial] = search.ranks([best, start])
    for model, share in enumerate(best.mixture):
        if 0 < share <= EDGE and search.ranks([without := search.moved(best, 3 + model, 0.0)])[0] <= fewest:
            best = without  # the model is not needed
    words = max(sentences.reference_words, 1)
    nearest = np.minimum.reduceat(sentences.errors, np.flatnonzero(np.diff(sentences.lattice, prepend=-1)))
    unused = [place for place, share in enumerate(best.mixture, 1) if share == 0]
    return Tuned(
        weights=best,
        wer=100.0 * fewest / words,
        wer_before=100.0 * initial / words,
        wer_first_pass=100.0 * sentences.first_pass_errors / words,
        wer_oracle=100.0 * int(nearest.sum()) / words,
        edges=(*search.edges(best), *(f"model {place} of the mixture adds nothing" for place in unused)),
        num_lattices=sentences.num_lattices,
        num_sentences=sentences.lattice.size,
    )


class _Search(Search[Weights]):
    """The search for the weights with the fewest word errors."""

    rounds, num_on_line = 5, 21

    def __init__(self, errors: _WordErrors, start: Weights) -> None:
        self._errors = errors
        self._start = start
        self._scales = start.acoustic_scale * ACOUSTIC_FACTORS
        low, high = float(self._scales[0]), float(self._scales[-1])
        share = Axis("", 0.0, 1.0, 0.25)
        self.axes = [
            Axis("lm_weight", 0.0, 1.0, 0.1, at_low="the new models do not help", at_high="the old scores do not help"),
            Axis("acoustic_scale", low, high, (high - low) / (self._scales.size - 1)),
            Axis("word_penalty", WORD_PENALTIES[0], WORD_PENALTIES[-1], 0.5),
            *([share] * len(start.mixture) if len(start.mixture) > 1 else []),
        ]

    def grid(self) -> list[Weights]:
        axes = (_mixtures(self._start.mixture), LM_WEIGHTS.tolist(), self._scales.tolist(), WORD_PENALTIES.tolist())
        grid = [Weights(weight, scale, penalty, mixture) for mixture, weight, scale, penalty in product(*axes)]
        return [*grid, self._start]

    def ranks(self, points: Sequence[Weights]) -> list[int]:
        counts: list[int] = []
        for _, group in groupby(points, key=lambda point: (point.lm_weight, point.acoustic_scale, point.mixture)):
            alike = list(group)
            counts += self._errors.of_penalties(alike[0], [point.word_penalty for point in alike])
        return counts

    def preference(self, point: Weights) -> float:
        """Return the distance from the start in steps of the grid; the start itself comes last."""
        start = self._start
        if point is start:
            return math.inf
        scale = abs(math.log2(point.acoustic_scale / start.acoustic_scale)) / 0.25 if start.acoustic_scale else 0.0
        return math.hypot(
            (point.lm_weight - start.lm_weight) / 0.1,
            scale,
            (point.word_penalty - start.word_penalty) / 0.5,
            *((one - other) / 0.1 for one, other in zip(point.mixture, start.mixture, strict=True)),
        )

    def value(self, point: Weights, axis: int) -> float:
        return (point.lm_weight, point.acoustic_scale, point.word_penalty, *point.mixture)[axis]

    def moved(self, point: Weights, axis: int, value: float) -> Weights:
        """Change a weight; the other weights of a mixture keep their proportions, and the sum its value."""
        if axis < 3:
            changed: dict[str, Any] = {self.axes[axis].name: value}
            return replace(point, **changed)
        model = axis - 3
        others = sum(point.mixture) - point.mixture[model]
        count = len(point.mixture) - 1
        rest = [share / others * (1 - value) if others > 0 else (1 - value) / count for share in point.mixture]
        rest[model] = value
        return replace(point, mixture=tuple(rest))

    def middle(self, values: Sequence[float], ranges: Sequence[Sequence[int]], current: float) -> int:
        """Return the middle of the longest range of ties, the nearer of two."""
        line = np.array(values)
        longest = max(ranges, key=lambda tie: (len(tie), -abs(line[tie].mean() - current)))
        return longest[len(longest) // 2]


def _mixtures(start: tuple[float, ...]) -> list[tuple[float, ...]]:
    """Return the mixture weights to try: a grid as fine as MAX_MIXTURES allows, and the initial weights."""
    models = len(start)
    if models == 1:
        return [start]
    fitting = (parts for parts in range(10, 1, -1) if math.comb(parts + models - 1, models - 1) <= MAX_MIXTURES)
    parts = next(fitting, 1)
    grid = [shares for shares in product(range(parts + 1), repeat=models) if sum(shares) == parts]
    return [start, *(tuple(share / parts for share in shares) for shares in grid)]


class _WordErrors:
    """Word errors of the best sentences with any weights."""

    def __init__(self, sentences: Features, how: How) -> None:
        self._sentences = sentences
        first = np.flatnonzero(np.diff(sentences.lattice, prepend=-1))
        self._column = np.arange(sentences.lattice.size) - first[sentences.lattice]
        self._shape = (sentences.num_lattices, int(self._column.max(initial=0)) + 1)
        self._graph, self._acoustic = self._padded(sentences.graph), self._padded(sentences.acoustic)
        self._words = self._padded(sentences.num_words)
        self._missing = self._padded(np.zeros(sentences.lattice.size), np.inf)
        self._edits = self._padded(sentences.errors).astype(np.int64)
        self._row = np.arange(self._shape[0])
        self._old = (
            None if sentences.old_logprob is None else self._padded(sentences.of_sentences(sentences.old_logprob))
        )
        # A log-linear mixture is a product with the sums over words.
        self._sums = sentences.of_sentences(sentences.logprob) if how == "loglinear" else None
        self._mixed: tuple[tuple[float, ...], Doubles] | None = None

    def of_penalties(self, weights: Weights, penalties: Sequence[float]) -> list[int]:
        """Count the errors with each of several word penalties."""
        new = self._logprob(weights.mixture)
        share = 1.0 - weights.lm_weight if self._old is None else 1.0
        cost = weights.acoustic_scale * self._acoustic + share * self._graph + self._missing
        cost -= weights.lm_weight * (new if self._old is None else new - self._old)
        chosen = ((cost + penalty * self._words).argmin(1) for penalty in penalties)
        return [int(self._edits[self._row, column].sum()) for column in chosen]

    def _logprob(self, mixture: tuple[float, ...]) -> Doubles:
        """Return the mixed log-probability of each sentence, [lattices, sentences of the longest list]."""
        if self._mixed is None or self._mixed[0] != mixture:
            share = np.array(mixture)
            if self._sums is not None:
                mixed = share @ self._sums
            else:
                used = np.flatnonzero(share > 0)
                joint = np.logaddexp.reduce(self._sentences.logprob[used] + np.log(share[used])[:, None], axis=0)
                mixed = self._sentences.of_sentences(joint)
            self._mixed = mixture, self._padded(mixed)
        return self._mixed[1]

    def _padded(self, values: npt.NDArray[np.generic], missing: float = 0.0) -> Doubles:
        table = np.full(self._shape, missing)
        table[self._sentences.lattice, self._column] = values
        return table
