"""Tuning of rescoring weights on n-best sentences with known cost components."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError, Log, OptionError, counted
from ninja.evaluate.bootstrap import Interval
from ninja.evaluate.lexical import check_texts
from ninja.evaluate.paired import paired_difference
from ninja.graph import best_path
from ninja.lattice import Scales
from ninja.lattice.batch import Keyed, pairs
from ninja.lattice.text import LexicalForms
from ninja.lm import LanguageModel, Mixture
from ninja.lm.lexical import with_lexical_forms
from ninja.lm.mixture import How
from ninja.rescoring.algorithms import RescoreOptions
from ninja.rescoring.carry_over import CarryOver
from ninja.rescoring.run import rescore
from ninja.rescoring.utterances import RescoreReport
from ninja.tune.choice import MIN_WORDS, Choice, Outcomes, choose_point, explain
from ninja.tune.expected import DIGITS, Weights, WordErrors, rounded_shares, utterance_groups
from ninja.tune.features import Features, features
from ninja.tune.search import Axis
from ninja.tune.word_errors import Reference, check_words

__all__ = ["Tuned", "Weights", "choose", "tune_weights", "word_error_rate"]

# Values of the grid, in addition to the initial weights. The acoustic factors multiply the initial acoustic scale.
LM_WEIGHTS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
ACOUSTIC_FACTORS = 2.0 ** np.linspace(-1.0, 1.0, 9)
WORD_PENALTIES = np.linspace(-2.0, 4.0, 13)
MAX_MIXTURES = 12  # maximum number of mixtures in the grid
MAX_ROUNDS = 4  # maximum number of rescorings with chosen weights

Points = Sequence[Weights]


@dataclass(frozen=True, slots=True)
class Tuned:
    """The result of ``tune_weights``. Word error rates are in percent, and all refer to the same lattices."""

    weights: Weights
    start: Weights  # the initial weights
    candidate: Weights  # the best simple weights, which are chosen if the set shows that they are better
    default: Weights  # the initial weights, or LM weight 0; kept unless other weights are better
    choice: Choice
    wer: float  # WER of the n-best sentences at the weights
    wer_before: float  # WER after rescoring with the initial weights
    wer_first_pass: float  # WER of the original lattices, at the initial acoustic scale, without word penalty
    wer_oracle: float  # WER of the sentence with the fewest errors of each lattice, a lower bound for all weights
    wer_rescored: float  # WER after rescoring with the weights
    edges: tuple[str, ...]  # messages about weights at the ends of their ranges, and about unused models
    num_lattices: int
    num_sentences: int
    num_words: int  # number of reference words
    by_speaker: bool  # whether differences are paired by speaker instead of by utterance

    @property
    def difference(self) -> Interval:
        """Cross-validated change in WER from `default`, with its 95% confidence interval, in percent absolute."""
        return self.choice.expected_difference

    @property
    def summary(self) -> str:
        """Word error rates before and after tuning, as text."""
        searched = "" if f"{self.wer:.2f}" == f"{self.wer_rescored:.2f}" else f" ({self.wer:.2f} among the sentences)"
        return (
            f"WER {self.wer_first_pass:.2f} before rescoring, {self.wer_before:.2f} with the initial weights, "
            f"{self.wer_rescored:.2f} rescored with the chosen weights{searched}; the oracle WER is "
            f"{self.wer_oracle:.2f}"
        )

    @property
    def basis(self) -> str:
        """Size of the development set, as text."""
        return f"{counted(self.num_sentences, 'sentence')} of {counted(self.num_lattices, 'lattice')}"

    @property
    def evidence(self) -> str:
        """Explanation of the choice of weights.

        If the best simple weights were compared with the default weights, the explanation contains the difference in
        WER. If this difference is not significant, it also contains the number of words needed to show it, if known.
        """
        unit = "speaker" if self.by_speaker else "utterance"
        is_first_pass = self.default.lm_weight == 0 < self.start.lm_weight
        default = "weights of the first pass" if is_first_pass else "initial weights"
        return explain(self.choice, str(self.candidate), self.num_words, unit, default)


def tune_weights(
    lattices: Iterable[Keyed],
    references: Mapping[str, Sequence[str]],
    lm: LanguageModel | Mixture,
    options: RescoreOptions | None = None,
    *,
    old_lm: LanguageModel | Mixture | None = None,
    num_best: int = 300,
    speakers: Mapping[str, str] | None = None,
    carry_over: CarryOver | None = None,
    min_words: int = MIN_WORDS,
    report: RescoreReport | None = None,
) -> Tuned:
    """Choose the LM weight, acoustic scale, word penalty and mixture weights with the fewest expected word errors.

    The lattices are rescored with the initial weights, and each model of a mixture scores the n best sentences once.
    `choose` then needs no network, because new weights only change the order of these sentences. The lattices are then
    rescored with the chosen weights, the new n best sentences are added, and weights are chosen again. This is
    repeated, at most four times, until the chosen weights have already been used for rescoring. The default is the
    initial weights, or LM weight 0 if the first pass has fewer expected errors. It is kept unless the set shows that
    other weights are better; see ``ninja.tune.choice.choose_point``.

    Args:
        lattices: A development set (never a test set) with symbol tables, which is held in memory.
        references: Reference words by key.
        lm: The language model, or a mixture; the weights of its models are also chosen.
        options: Rescoring options, with the initial weights.
        old_lm: The language model of the first pass, as in ``rescore``.
        num_best: Number of sentences per lattice, ≥ 1.
        speakers: Speaker of each utterance, by key. If specified, confidence intervals and cross-validation are by
            speaker instead of by utterance.
        carry_over: Recordings of the utterances, as in ``rescore``; only for a single model. If the LM weight is below
            0.05, the model scores the sentences without history from earlier utterances.
        min_words: If there are fewer reference words, the initial weights are kept.
        report: Report on rescoring, as in ``rescore``.

    Raises:
        OptionError: ``num_best`` is below 1, or ``carry_over`` is specified for a mixture.
        FormatError: No lattice has a reference, the references contain no words, or an utterance has no speaker.
        NinjaError: See ``rescore``.
    """
    if num_best < 1:
        raise OptionError(f"num_best is {num_best}, but must be 1 or more")
    if carry_over is not None and isinstance(lm, Mixture):
        raise OptionError("carry_over (--carry-over) requires a single model; omit it, or specify only one model")
    options = replace(options or RescoreOptions(), output="lattice")
    how: How = lm.how if isinstance(lm, Mixture) else "loglinear"
    models, model_weights = zip(*(lm.models if isinstance(lm, Mixture) else [(lm, 1.0)]), strict=True)
    shares = np.array(model_weights)
    log = RescoreReport() if report is None else report
    check_texts(references)
    lattices = [(key, lattice) for key, lattice in pairs(lattices) if key in references]
    normalizer = LexicalForms(options.normalizer, log.note).normalizer(lattices[0][1].words if lattices else None)
    options, forms = replace(options, normalizer=normalizer.name), LexicalForms(normalizer)
    bound = [with_lexical_forms(model, forms, options.lm_text) for model in (*models, old_lm)]
    mixture = rounded_shares(shares / shares.sum() if shares.sum() > 0 else np.full(len(models), 1 / len(models)))

    def sentences_at(weights: Weights, log: Any) -> Features:
        parts = [(model, share) for model, share in zip(models, weights.mixture, strict=True) if share > 0]
        chosen_lm = parts[0][0] if len(parts) == 1 else Mixture(tuple(parts), how)
        at = replace(
            options,
            lm_weight=weights.lm_weight,
            acoustic_scale=weights.acoustic_scale,
            word_penalty=weights.word_penalty,
        )
        return features(
            lattices,
            lambda source: rescore(source, chosen_lm, at, old_lm=old_lm, carry_over=carry_over, report=log),
            references,
            [model for model in bound[:-1] if model is not None],
            at,
            old_lm=bound[-1],
            num_best=num_best,
            forms=forms,
            log=log,
        )

    start = Weights(options.lm_weight, options.acoustic_scale, options.word_penalty, mixture)
    return choose_repeatedly(sentences_at, start, how, speakers=speakers, min_words=min_words, log=log)


def choose_repeatedly(
    sentences_at: Callable[[Weights, Any], Features],
    start: Weights,
    how: How = "loglinear",
    *,
    speakers: Mapping[str, str] | None,
    min_words: int,
    log: Log,
) -> Tuned:
    """Choose weights repeatedly, from the n best sentences at the initial weights and at all weights chosen so far.

    The iteration ends when the latest chosen weights have already been used to rescore the lattices, or after
    MAX_ROUNDS rescorings, not counting the first rescoring with the initial weights.

    Args:
        sentences_at: Function that returns the n best sentences of the lattices rescored with the given weights. Its
            second argument is a log for errors in lattices.
    """
    sentences = sentences_at(start, log)
    wer_first_pass = sentences.wer(sentences.first_pass_errors)
    rescored = {start: sentences.wer(sentences.rescored_errors)}  # word error rates by weights
    repeated = type(log)(on_error=None if log.on_error is None else lambda error: None)  # errors were already reported
    tuned = choose(sentences, start, how, speakers=speakers, min_words=min_words)
    for number in range(MAX_ROUNDS):
        if tuned.weights in rescored:
            break
        weights = tuned.weights
        sentences = sentences_at(weights, repeated).united(sentences)
        rescored[weights] = sentences.wer(sentences.rescored_errors)
        if number < MAX_ROUNDS - 1:
            tuned = choose(sentences, start, how, speakers=speakers, min_words=min_words)
    return replace(
        tuned, wer_first_pass=wer_first_pass, wer_before=rescored[start], wer_rescored=rescored[tuned.weights]
    )


def word_error_rate(
    results: Iterable[Keyed],
    references: Mapping[str, Sequence[str]],
    scales: Scales,
    forms: LexicalForms | None = None,
) -> float:
    """Return the word error rate on the best paths through lattices with references, in percent."""
    errors = num_words = num_lattices = 0
    for key, lattice in results:
        if key in references:
            num_lattices += 1
            reference = Reference.of(lattice, references[key], forms or LexicalForms())
            errors += reference.errors(best_path(lattice, scales).words)
            num_words += len(reference.ids)
    if not num_lattices:
        raise FormatError("no lattice has a reference; check that the utterance ids match")
    check_words(num_words)
    return 100.0 * errors / num_words


def choose(
    sentences: Features,
    start: Weights,
    how: How = "loglinear",
    *,
    speakers: Mapping[str, str] | None = None,
    min_words: int = MIN_WORDS,
) -> Tuned:
    """Choose weights from a grid around the initial weights, without further rescoring.

    The chosen weights trade off expected errors (see `WordErrors`) against simplicity (see `choose_point`). With
    several models, only the best one is used unless a mixture has significantly fewer expected errors. The result
    contains the word error rates of `sentences` at the initial and at the chosen weights.
    """
    points = grid(start, scales_vary=bool(sentences.graph.any()))
    groups, by_speaker = utterance_groups(sentences.keys, speakers)
    outcomes = WordErrors(sentences, how).outcomes(points, groups)
    weights, candidate, default, choice = choose_weights(points, outcomes, start, min_words)
    nearest = np.minimum.reduceat(sentences.errors, np.flatnonzero(np.diff(sentences.lattice, prepend=-1)))
    wer = outcomes.wer(points.index(weights))
    return Tuned(
        weights=weights,
        start=start,
        candidate=candidate,
        default=default,
        choice=choice,
        wer=wer,
        wer_before=outcomes.wer(points.index(start)),
        wer_first_pass=sentences.wer(sentences.first_pass_errors),
        wer_oracle=sentences.wer(nearest),
        wer_rescored=wer,
        edges=tuple(_edges(weights, start)),
        num_lattices=sentences.num_lattices,
        num_sentences=sentences.lattice.size,
        num_words=int(sentences.reference_words.sum()),
        by_speaker=by_speaker,
    )


def choose_weights(
    points: Points, outcomes: Outcomes, start: Weights, min_words: int = MIN_WORDS
) -> tuple[Weights, Weights, Weights, Choice]:
    """Choose weights among `points` by the errors at each point; `points` must include the initial weights.

    The default is the point with the initial weights. If there are at least `min_words` reference words and the
    point with LM weight 0 and word penalty 0 has fewer expected errors, that point is the default instead. If
    `_models_to_choose_from` excludes the initial mixture weights, the default uses the best mixture weights.

    Returns:
        The chosen weights, the candidate, the default, and the choice among the points with the selected models.
    """
    usable, default = _models_to_choose_from(outcomes, points, start)
    unused = replace(points[default], lm_weight=0.0, word_penalty=0.0)
    if start.mixture and outcomes.words.sum() >= min_words:
        default = min(default, points.index(unused), key=outcomes.expected.sum(1).__getitem__)
    moved = np.array([points[place].num_moved(points[default]) for place in usable])
    choice = choose_point(outcomes.of_points(usable), moved, int(np.flatnonzero(usable == default)[0]), min_words)
    weights = start if choice.reason == "too few words" else points[usable[choice.point]]
    return weights, points[usable[choice.candidate]], points[default], choice


def grid(start: Weights, *, scales_vary: bool = True) -> list[Weights]:
    """Return the points of a grid search, which include the initial weights.

    At LM weight 0, the models are not used, and sentences are compared by their first-pass costs, whose scales
    `tune_first_pass` tunes separately. Therefore LM weight 0 is combined only with the initial acoustic scale and word
    penalty 0.

    Args:
        start: The initial weights.
        scales_vary: Whether the acoustic scale varies. Pass False if the sentences have no graph costs, as in n-best
            lists: then only the ratios of acoustic scale, LM weight and word penalty matter, with or without an old
            model.
    """
    factors = ACOUSTIC_FACTORS if scales_vary else np.ones(1)
    axes = (
        _mixtures(start.mixture),
        _values(LM_WEIGHTS, start.lm_weight) if start.mixture else [start.lm_weight],
        _values(start.acoustic_scale * factors, start.acoustic_scale),
        _values(WORD_PENALTIES, start.word_penalty),
    )
    points = [Weights(weight, scale, penalty, mixture) for mixture, weight, scale, penalty in product(*axes)]
    unused = replace(start, lm_weight=0.0, word_penalty=0.0)
    return [
        point
        for point in points
        if not start.mixture or point.lm_weight > 0 or replace(point, mixture=start.mixture) in (start, unused)
    ]


def _values(values: Iterable[float], start: float) -> list[float]:
    """Return the rounded values, together with the initial value, in increasing order."""
    near = {round(float(value), DIGITS) for value in values}
    return sorted({start, *(value for value in near if abs(value - start) >= 0.5 * 10.0**-DIGITS)})


def _mixtures(start: tuple[float, ...]) -> list[tuple[float, ...]]:
    """Return the mixture weights to try: a grid as fine as MAX_MIXTURES allows, and the initial weights."""
    models = len(start)
    if models < 2:
        return [start]
    fitting = (parts for parts in range(10, 1, -1) if math.comb(parts + models - 1, models - 1) <= MAX_MIXTURES)
    parts = next(fitting, 1)
    shares = (shares for shares in product(range(parts, -1, -1), repeat=models) if sum(shares) == parts)
    return list(dict.fromkeys([start, *(rounded_shares([share / parts for share in part]) for part in shares)]))


def _models_to_choose_from(outcomes: Outcomes, points: Points, start: Weights) -> tuple[npt.NDArray[np.int64], int]:
    """Return the points that use only the best model, or the points with mixtures if these are significantly better.

    Returns:
        The indices of these points, and the index of the point that has the initial LM weight, acoustic scale and word
        penalty.
    """
    is_mixed = np.array([max(point.mixture, default=1.0) < 1.0 for point in points])
    total = outcomes.expected.sum(1)
    alone, mixed = (int(np.where(mask, total, np.inf).argmin()) for mask in (~is_mixed, is_mixed))
    usable = np.array([point.mixture == points[alone].mixture for point in points])
    default = replace(start, mixture=points[alone].mixture)
    if is_mixed.any():
        gain = paired_difference(outcomes.expected[alone], outcomes.expected[mixed], outcomes.words)
        if gain.is_significant and gain.interval.mean < 0:
            usable = is_mixed
            default = start if max(start.mixture) < 1.0 else replace(start, mixture=points[mixed].mixture)
    return np.flatnonzero(usable), points.index(default)


def _edges(weights: Weights, start: Weights) -> Iterator[str]:
    """Yield messages about weights at the ends of their ranges, and about models that are not used."""
    low, high = start.acoustic_scale * ACOUSTIC_FACTORS[[0, -1]]
    axes = (
        Axis("lm_weight", 0.0, 1.0, 0.1, at_low="the new models do not help", at_high="the old scores do not help"),
        Axis("acoustic_scale", low, high, high - low),
        Axis("word_penalty", WORD_PENALTIES[0], WORD_PENALTIES[-1], 0.5),
    )
    for axis in axes:
        value = getattr(weights, axis.name)
        if value != getattr(start, axis.name) and (edge := axis.edge(value)) is not None:
            yield edge
    for number, (share, share_before) in enumerate(zip(weights.mixture, start.mixture, strict=True), 1):
        if share_before > 0.0 == share:
            yield f"model {number} of the mixture is not used: it does not lower WER by more than chance"
