"""Tuning of context model weights to minimise errors on utterances with phrases while limiting errors on others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import numpy.typing as npt

from ninja.context.options import ContextOptions
from ninja.errors import FormatError
from ninja.graph import best_path
from ninja.lattice.batch import Keyed
from ninja.lattice.text import LexicalForms
from ninja.lm import LanguageModel
from ninja.lm.mixture import Mixture
from ninja.rescoring.algorithms import RescoreOptions
from ninja.rescoring.rescorer import Rescorer
from ninja.rescoring.utterances import ContextStage
from ninja.tune.choice import MIN_WORDS, Outcomes, choose_point, explain
from ninja.tune.expected import utterance_groups
from ninja.tune.word_errors import Reference, check_words

PRIORS = (-2.0, -1.0, 0.0, 1.0, 2.0, 3.0)  # all combinations with WEIGHTS are tried
WEIGHTS = (1.0, 0.5, 1.5)

Model = LanguageModel | Mixture
Count = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class PointerSet:
    """A development set for tuning the weights; it must not be a test set."""

    lattices: Sequence[Keyed]
    references: Mapping[str, Sequence[str]]  # reference words by key
    stage: Callable[[ContextOptions], ContextStage]  # returns a context stage with the weights in the options

    def errors(
        self, lm: Model, options: RescoreOptions, context: ContextOptions
    ) -> tuple[tuple[str, ...], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Rescore with the weights in `context`; return ``(keys, word errors, numbers of reference words)``."""
        rescorer = Rescorer(lm, replace(options, output="best"), context=self.stage(context))
        keys: list[str] = []
        counts: list[tuple[int, int]] = []
        forms = LexicalForms(options.normalizer)
        for key, lattice in rescorer(pair for pair in self.lattices if pair[0] in self.references):
            reference = Reference.of(lattice, self.references[key], forms)
            keys.append(key)
            counts.append((reference.errors(best_path(lattice, options.scales).words), len(reference.ids)))
        errors, words = np.array(counts, np.int64).reshape(-1, 2).T
        if not keys:
            raise FormatError("no lattice has a reference; check that the utterance ids match")
        check_words(int(words.sum()))
        return tuple(keys), errors, words


@dataclass(frozen=True, slots=True)
class PointerTrial:
    """A pair of weights, and the resulting word error rates in percent."""

    prior: float
    weight: float
    wer: float  # WER of the contextual set
    general_wer: float | None = None  # WER of the general set

    def __str__(self) -> str:
        general = "" if self.general_wer is None else f"  {self.general_wer:11.2f}"
        return f"{self.settings:24}{self.wer:14.2f}{general}"

    @property
    def settings(self) -> str:
        """The weights as text."""
        return f"prior {self.prior:g}, weight {self.weight:g}"


@dataclass(frozen=True, slots=True)
class TunedPointer:
    """The result of ``tune_pointer``."""

    chosen: PointerTrial | None  # None if all pairs raise general WER by more than the allowed rise
    before: PointerTrial  # trial with weight 0, which uses only the language model
    trials: tuple[PointerTrial, ...]
    evidence: str = (
        ""  # message about the evidence for the chosen weights, or the reason for keeping the initial weights
    )


def tune_pointer(
    contextual: PointerSet,
    general: PointerSet | None,
    lm: Model,
    options: RescoreOptions,
    context: ContextOptions,
    max_general_rise: float = 0.2,
    *,
    speakers: Mapping[str, str] | None = None,
    min_words: int = MIN_WORDS,
) -> TunedPointer:
    """Choose ``context_prior`` and ``context_weight`` for the fewest word errors.

    The lattices are rescored for each pair of weights. Among the pairs that raise general WER by at most
    `max_general_rise`, the simplest pair within one standard error of the best pair is chosen if the contextual set
    shows that it is better than the default; otherwise the default is kept. The default is the initial pair or, if that
    is not allowed, the nearest allowed pair; see ``choose_point``. Errors are counted on the best paths.

    Args:
        contextual: Utterances that contain phrases from their lists.
        general: Optional utterances that contain no phrase from their lists. The lists must be of the same type as in
            the contextual set.
        context: Options with the initial weights.
        max_general_rise: Allowed rise in general WER above the WER without lists, in percent absolute.
        speakers: Speaker of each utterance in the contextual set, as in ``tune_weights``.
        min_words: If the contextual set contains fewer reference words, the initial weights are kept.

    Raises:
        FormatError: No lattice in a set has a reference, the references of a set contain no words, or an utterance has
            no speaker.
        NinjaError: See `Rescorer`.
    """

    def trial(prior: float, weight: float) -> tuple[PointerTrial, Count, Count, tuple[str, ...]]:
        weights = replace(context, context_prior=prior, context_weight=weight)
        general_wer = None
        if general is not None:
            _, general_errors, general_words = general.errors(lm, options, weights)
            general_wer = 100.0 * int(general_errors.sum()) / int(general_words.sum())
        keys, errors, words = contextual.errors(lm, options, weights)
        wer = 100.0 * int(errors.sum()) / int(words.sum())
        return PointerTrial(prior, weight, wer, general_wer), errors, words, keys

    before, _, words, keys = trial(0.0, 0.0)
    initial = context.context_prior, context.context_weight
    pairs = dict.fromkeys([initial, *((prior, weight) for weight, prior in product(WEIGHTS, PRIORS))])
    results = [trial(*pair) for pair in pairs]
    trials = tuple(result[0] for result in results)
    most = (before.general_wer or 0.0) + max_general_rise
    allowed = [place for place, pair in enumerate(trials) if pair.general_wer is None or pair.general_wer <= most]
    if not allowed:
        return TunedPointer(None, before, trials)
    groups, by_speaker = utterance_groups(keys, speakers)
    sums = np.stack([np.bincount(groups, results[place][1]).astype(np.float64) for place in allowed])
    outcomes = Outcomes(sums, sums, np.bincount(groups, words).astype(np.int64))

    def distance(place: int) -> tuple[float, float]:
        pair = trials[place]
        return abs(pair.prior - initial[0]) + abs(pair.weight - initial[1]), abs(pair.prior)

    default = min(range(len(allowed)), key=lambda number: distance(allowed[number]))
    start = trials[allowed[default]]
    moved = np.array(
        [(trials[place].prior != start.prior) + (trials[place].weight != start.weight) for place in allowed]
    )
    choice = choose_point(outcomes, moved, default, min_words)
    unit = "speaker" if by_speaker else "utterance"
    name = "initial weights" if allowed[default] == 0 else "allowed weights nearest to the initial weights"
    evidence = explain(choice, trials[allowed[choice.candidate]].settings, int(words.sum()), unit, name)
    return TunedPointer(trials[allowed[choice.point]], before, trials, evidence)
