"""Choose the weights of a context model: fewest errors where phrases are said, hardly any more where none are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from ninja.context.options import ContextOptions
from ninja.errors import FormatError
from ninja.evaluate import edits
from ninja.graph import best_path
from ninja.lattice import Lattice
from ninja.lm import LanguageModel
from ninja.lm.mixture import Mixture
from ninja.rescoring.options import RescoreOptions
from ninja.rescoring.rescorer import ContextStage, Rescorer

PRIORS = (-2.0, -1.0, 0.0, 1.0, 2.0, 3.0)  # tried, each with each
WEIGHTS = (1.0, 0.5, 1.5)

Keyed = tuple[str, Lattice]
Model = LanguageModel | Mixture


@dataclass(frozen=True, slots=True, eq=False)
class PointerSet:
    """Utterances to choose weights on; never those that results are reported on."""

    lattices: Sequence[Keyed]
    references: Mapping[str, Sequence[str]]  # words said, by key
    stage: Callable[[ContextOptions], ContextStage]  # gives them their phrases, under some weights

    def wer(self, lm: Model, options: RescoreOptions, context: ContextOptions) -> float:
        """Return the word error rate under some weights, percent."""
        rescorer = Rescorer(lm, replace(options, output="best"), context=self.stage(context))
        errors = words = 0
        for key, lattice in rescorer(pair for pair in self.lattices if pair[0] in self.references):
            assert lattice.words is not None
            said = self.references[key]
            errors += edits(said, lattice.words.spell(best_path(lattice, options.scales).words))
            words += len(said)
        if not words:
            raise FormatError("no lattice has a reference; do the utterance ids belong together?")
        return 100.0 * errors / words


@dataclass(frozen=True, slots=True)
class PointerTrial:
    """Weights that were tried; word error rates in percent."""

    prior: float
    weight: float
    wer: float  # where phrases are said
    general_wer: float | None = None  # where none are

    def __str__(self) -> str:
        general = "" if self.general_wer is None else f"  {self.general_wer:11.2f}"
        return f"{f'prior {self.prior:g}, weight {self.weight:g}':24}{self.wer:14.2f}{general}"


@dataclass(frozen=True, slots=True)
class TunedPointer:
    """The outcome of ``tune_pointer``."""

    chosen: PointerTrial | None  # None: all raise general WER by more than is allowed
    before: PointerTrial  # with weight 0: the language model without the list
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

    The lattices are rescored once for each pair that is tried. Of equals the one nearest to the defaults is taken.

    Args:
        contextual: Utterances in which phrases of their lists are said.
        general: Utterances with lists of the same kind in which none is said; None: there are none.
        max_general_rise: How far WER may rise in these above that without lists, percent absolute.

    Raises:
        FormatError: No lattice of a set has a reference.
        NinjaError: As `Rescorer` raises.
    """

    def tried(prior: float, weight: float) -> PointerTrial:
        weights = replace(context, context_prior=prior, context_weight=weight)
        rest = None if general is None else general.wer(lm, options, weights)
        return PointerTrial(prior, weight, contextual.wer(lm, options, weights), rest)

    before = tried(0.0, 0.0)
    trials = tuple(tried(prior, weight) for weight, prior in product(WEIGHTS, PRIORS))
    allowed = [
        each
        for each in trials
        if each.general_wer is None or each.general_wer <= (before.general_wer or 0.0) + max_general_rise
    ]
    chosen = min(allowed, key=lambda each: (each.wer, abs(each.prior), abs(each.weight - 1.0)), default=None)
    return TunedPointer(chosen, before, trials)
