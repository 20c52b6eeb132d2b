"""Choice of the weights of a context model: fewest errors on utterances with phrases, without more errors on others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from ninja.context.options import ContextOptions
from ninja.errors import FormatError
from ninja.graph import best_path
from ninja.lattice import Lattice
from ninja.lattice.text import LexicalForms
from ninja.lm import LanguageModel
from ninja.lm.mixture import Mixture
from ninja.rescoring.options import RescoreOptions
from ninja.rescoring.preparation import ContextStage
from ninja.rescoring.rescorer import Rescorer
from ninja.tune.word_errors import Reference

PRIORS = (-2.0, -1.0, 0.0, 1.0, 2.0, 3.0)  # all combinations with WEIGHTS are tried
WEIGHTS = (1.0, 0.5, 1.5)

Keyed = tuple[str, Lattice]
Model = LanguageModel | Mixture


@dataclass(frozen=True, slots=True, eq=False)
class PointerSet:
    """Development set for the weights; never a test set."""

    lattices: Sequence[Keyed]
    references: Mapping[str, Sequence[str]]  # by key
    stage: Callable[[ContextOptions], ContextStage]  # context stage with some weights

    def wer(self, lm: Model, options: RescoreOptions, context: ContextOptions) -> float:
        """Return the word error rate with some weights, percent."""
        rescorer = Rescorer(lm, replace(options, output="best"), context=self.stage(context))
        errors = words = 0
        forms = LexicalForms(options.normalizer)
        for key, lattice in rescorer(pair for pair in self.lattices if pair[0] in self.references):
            reference = Reference.of(lattice, self.references[key], forms)
            errors += reference.errors(best_path(lattice, options.scales).words)
            words += len(reference.ids)
        if not words:
            raise FormatError("no lattice has a reference; are these utterance ids of the same set?")
        return 100.0 * errors / words


@dataclass(frozen=True, slots=True)
class PointerTrial:
    """A pair of weights and the resulting word error rates, in percent."""

    prior: float
    weight: float
    wer: float  # of the contextual set
    general_wer: float | None = None  # of the general set

    def __str__(self) -> str:
        general = "" if self.general_wer is None else f"  {self.general_wer:11.2f}"
        return f"{f'prior {self.prior:g}, weight {self.weight:g}':24}{self.wer:14.2f}{general}"


@dataclass(frozen=True, slots=True)
class TunedPointer:
    """The result of ``tune_pointer``."""

    chosen: PointerTrial | None  # None if all raise general WER by more than the allowed rise
    before: PointerTrial  # with weight 0, the language model alone
    trials: tuple[PointerTrial, ...]


def tune_pointer(
    contextual: PointerSet,
    general: PointerSet | None,
    lm: Model,
    options: RescoreOptions,
    context: ContextOptions,
    max_general_rise: float = 0.2,
) -> TunedPointer:
    """Choose ``context_prior`` and ``context_weight`` for the fewest word errors.

    The lattices are rescored for each pair of weights. Of ties, the pair nearest to the defaults is chosen.

    Args:
        contextual: Utterances with phrases of their lists.
        general: Optional utterances without phrases of their lists; the lists are of the same kind.
        max_general_rise: Allowed rise of general WER above that without lists, percent absolute.

    Raises:
        FormatError: No lattice of a set has a reference.
        NinjaError: As `Rescorer`.
    """

    def trial(prior: float, weight: float) -> PointerTrial:
        weights = replace(context, context_prior=prior, context_weight=weight)
        general_wer = None if general is None else general.wer(lm, options, weights)
        return PointerTrial(prior, weight, contextual.wer(lm, options, weights), general_wer)

    before = trial(0.0, 0.0)
    trials = tuple(trial(prior, weight) for weight, prior in product(WEIGHTS, PRIORS))
    allowed = [
        pair
        for pair in trials
        if pair.general_wer is None or pair.general_wer <= (before.general_wer or 0.0) + max_general_rise
    ]
    chosen = min(allowed, key=lambda pair: (pair.wer, abs(pair.prior), abs(pair.weight - 1.0)), default=None)
    return TunedPointer(chosen, before, trials)
