"""Tuning of boosts to minimise errors on utterances with phrases, with a limit on errors on other utterances."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ninja.context.options import ContextOptions
from ninja.errors import Log, OptionError, check_range
from ninja.evaluate import EntityReport, score_entities
from ninja.evaluate.paired import PairedDifference, paired_difference
from ninja.lattice import Scales
from ninja.lattice.symbols import SymbolTable
from ninja.lm.ngram.model import NgramLM
from ninja.tune.choice import MIN_WORDS, rounded_up
from ninja.tune.expected import utterance_groups
from ninja.tune.search import Axis, Search
from ninja.tune.trials import DevSet, LoadedSet, Setting, Trials, Words

__all__ = ["ContextSettings", "DevSet", "Figures", "Point", "TunedContext", "tune_context"]

# The initial grid. The keyword boosts are for a search without a class model, and with a class model. The acoustic
# factors multiply the initial acoustic scale.
KEYWORD_BOOSTS = (np.arange(0.0, 21.0), np.array([0.0, 2.0, 4.0, 12.0, 20.0]))
CLASS_BOOSTS = np.linspace(-16.0, 8.0, 5)
CLASS_WEIGHTS = np.linspace(0.0, 1.0, 5)
ACOUSTIC_FACTORS = 2.0 ** np.linspace(-1.0, 1.0, 5)
WORD_PENALTIES = np.linspace(-2.0, 4.0, 7)
CURVE = np.arange(0.0, 21.0)  # keyword boosts of the trade-off curve

MEANINGS = {  # meaning of the lower and the upper end of each range
    "keyword_boost": (
        "words of phrases need no boost in addition to the boost for entering a phrase",
        "check that the general set contains words that are similar to phrases",
    ),
    "class_boost": ("the class model expects phrases far too often", "the class model expects phrases far too rarely"),
    "class_weight": ("the class model adds nothing outside phrases", "the first pass's language model adds nothing"),
}
DIGITS = 4  # significant digits of written settings


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """Settings chosen by ``tune_context``."""

    options: ContextOptions
    acoustic_scale: float
    word_penalty: float


@dataclass(frozen=True, slots=True)
class Figures:
    """Error rates on both development sets with the same settings."""

    contextual_wer: float  # percent
    general_wer: float  # percent
    recall: float  # recall of entities in the contextual set, percent; nan without entities
    false_alarms: int  # inserted entities in the general set


@dataclass(frozen=True, slots=True)
class Point:
    """A point on the trade-off curve: a keyword boost, and the error rates on both development sets."""

    keyword_boost: float
    figures: Figures


@dataclass(frozen=True, slots=True)
class TunedContext:
    """The result of ``tune_context``."""

    settings: ContextSettings | None  # chosen settings; None if all settings raise general WER too far
    before: Figures  # without context, at the initial scale and penalty
    without: Figures  # without entities, with the best class weight, scale and penalty
    after: Figures  # with the chosen settings, or the same as `before` without settings
    curve: tuple[Point, ...]  # other keyword boosts with the chosen settings, in increasing order
    max_general_wer: float  # maximum general WER allowed for the chosen settings, percent
    # Difference on the contextual set between the chosen settings and the best settings without entities.
    difference: PairedDifference
    edges: tuple[str, ...]  # messages about settings at the ends of their ranges, with possible causes
    warnings: tuple[str, ...]

    @property
    def evidence(self) -> str:
        """Message about the effect of entities on contextual WER.

        If the effect is uncertain, the message contains the number of words needed to show it.
        """
        text = f"difference in contextual WER from the best settings without entities: {self.difference} (95% interval)"
        needed = self.difference.words_needed
        if self.difference.is_significant or needed is None or needed <= self.difference.num_words:
            return text
        few = f"{self.difference.num_words} words are too few to be certain"
        return f"{text}; {few}; about {rounded_up(needed):,} words would show such a difference"


def tune_context(
    contextual: DevSet,
    general: DevSet,
    words: SymbolTable,
    class_lm: NgramLM | None = None,
    options: ContextOptions | None = None,
    *,
    old_lm: NgramLM | None = None,
    acoustic_scale: float = 0.1,
    word_penalty: float = 0.0,
    max_general_rise: float = 0.2,
    margin: float = 1.0,
    fixed: Collection[str] = (),
    speakers: Mapping[str, str] | None = None,
    min_words: int | None = None,
    log: Log | None = None,
) -> TunedContext:
    """Choose boosts, the class model weight, the acoustic scale and the word penalty.

    First, without entities, the class weight, scale and penalty are chosen for the fewest word errors in both sets
    together. Then, with entities, the settings with the fewest errors in the contextual set are chosen. Their general
    WER must not exceed any of three values by more than the allowed rise: the WER without context, the WER of the best
    settings without entities, and the WER of the chosen settings without entities. Ties are broken by general errors,
    then in favour of the smaller boost or the middle of the tied range. Lattices are not pruned, and the result is
    deterministic.

    Args:
        contextual: Utterances that contain phrases from their lists.
        general: Utterances that contain no phrase from their lists, used to count false alarms. The lists must be of
            the same type as in the contextual set.
        words: Symbol table of the lattices.
        class_lm: Class model, as in `Tracker`.
        options: Options that are not tuned (``max_tokens``, ``unk_penalty``, ``max_arcs``), and initial boosts.
        old_lm: Language model of the first pass, as in `Tracker`.
        acoustic_scale: Initial factor for acoustic costs, above 0. Factors from half to twice this value are tried.
        word_penalty: Initial cost per word.
        max_general_rise: Allowed rise in general WER, in percent absolute, ≥ 0.
        margin: Safety margin in nats, ≥ 0: general WER must stay within the allowed rise even if the keyword boost is
            larger by the margin.
        fixed: Names of the ``Setting`` fields that keep their initial values.
        speakers: Speaker of each utterance in the contextual set, by key. If specified, confidence intervals are
            computed over speakers instead of utterances.
        min_words: If the contextual set contains fewer reference words, the initial settings are kept, unless they
            raise general WER too much.  [default: 500]
        log: Log for errors in lattices; lattices with errors are ignored. Without ``log.on_error``, the first error is
            raised.

    Raises:
        OptionError: A number is out of range, `fixed` contains an unknown name, or a set has no phrases; see also
            `Tracker`.
        FormatError: No lattice in a set has a reference, or the references of a set contain no word.
        NinjaError: `add_context` fails, and ``log.on_error`` is not set.
    """
    Scales(acoustic_scale, word_penalty=word_penalty)  # raises an error if a scale is invalid
    check_range("acoustic_scale", acoustic_scale, above=0)
    if not 0 <= max_general_rise <= 100:
        raise OptionError(f"max_general_rise is {max_general_rise}, but must be between 0 and 100 percent")
    check_range("margin", margin, least=0, finite=True)
    if unknown := set(fixed) - set(Setting._fields):
        raise OptionError(f"fixed contains {min(unknown)!r}, but must contain only {', '.join(Setting._fields)}")
    options = options or ContextOptions()
    trials = Trials(contextual, general, words, class_lm, old_lm, options, margin, log or Log())
    start = Setting(options.keyword_boost, options.class_boost, options.class_weight, acoustic_scale, word_penalty)
    without_lm = () if class_lm is not None else ("class_boost", "class_weight")
    axes = [axis for axis in Setting._fields if axis not in (*fixed, *without_lm)]
    reference = _Without(trials, axes, start).best()
    before = [_report(dev_set, trials.without_context(dev_set, start)) for dev_set in trials.sets]
    search = _With(trials, axes, start, reference, before[1].overall.errors, max_general_rise)
    few = trials.contextual.num_words < (MIN_WORDS if min_words is None else min_words)
    chosen = start if few and not search.excess(start) else search.best()
    plain = [trials.hypotheses(dev_set, reference, with_entities=False) for dev_set in trials.sets]
    without = [_report(dev_set, words) for dev_set, words in zip(trials.sets, plain, strict=True)]
    curve = {
        boost: [
            _report(
                dev_set, trials.hypotheses(dev_set, chosen._replace(keyword_boost=boost), with_entities=True), words
            )
            for dev_set, words in zip(trials.sets, plain, strict=True)
        ]
        for boost in sorted({*CURVE.tolist(), chosen.keyword_boost})
    }
    fits = not search.excess(chosen)
    warnings = list(_warnings(search, chosen, curve, without))
    if few:
        outcome = (
            "the initial settings are kept"
            if chosen == start
            else "other settings are tried, because the initial ones raise general WER too far"
        )
        warnings.append(
            f"the {trials.contextual.num_words} words of the contextual set are too few to choose boosts: {outcome}"
        )
    return TunedContext(
        settings=ContextSettings(trials.options_of(chosen), *chosen[3:]) if fits else None,
        before=_figures(before),
        without=_figures(without),
        after=_figures(curve[chosen.keyword_boost] if fits else before),
        curve=tuple(Point(boost, _figures(reports)) for boost, reports in curve.items()),
        max_general_wer=trials.general.wer(search.most(chosen)),
        difference=_difference(trials, chosen if fits else reference, reference, speakers, with_entities=fits),
        edges=tuple(search.edges(chosen)) if fits and chosen != start else (),
        warnings=tuple(warnings),
    )


def _difference(
    trials: Trials, chosen: Setting, reference: Setting, speakers: Mapping[str, str] | None, *, with_entities: bool
) -> PairedDifference:
    """Compare two settings, `chosen` and `reference`, by their errors on the contextual set.

    `reference` is used without entities, and `chosen` is used with entities if `with_entities` is true.
    """
    part = trials.contextual
    groups, _ = utterance_groups([utterance.key for utterance in part.utterances], speakers)
    before = trials.errors_by_utterance(part, reference, with_entities=False)
    after = trials.errors_by_utterance(part, chosen, with_entities=with_entities)
    words = [len(utterance.reference) for utterance in part.utterances]
    sums = (np.bincount(groups, counts).astype(np.int64) for counts in (before, after, words))
    return paired_difference(*sums)


def _axes(names: Sequence[str], start: Setting) -> list[Axis]:
    """Return the axes of a search; their ranges contain the initial values."""
    scale = start.acoustic_scale
    ranges = {
        "keyword_boost": (KEYWORD_BOOSTS[0][0], KEYWORD_BOOSTS[0][-1], 2.0),
        "class_boost": (CLASS_BOOSTS[0], CLASS_BOOSTS[-1], 6.0),
        "class_weight": (0.0, 1.0, 0.25),
        "acoustic_scale": (scale * ACOUSTIC_FACTORS[0], scale * ACOUSTIC_FACTORS[-1], 0.5),
        "word_penalty": (WORD_PENALTIES[0], WORD_PENALTIES[-1], 1.0),
    }
    axes = []
    for name in names:
        low, high, step = ranges[name]
        value = getattr(start, name)
        ends = min(low, value), max(high, value)
        axes.append(Axis(name, *ends, step, name == "acoustic_scale", DIGITS, *MEANINGS.get(name, ("", ""))))
    return axes


class _Without(Search):
    """Search for the best setting without entities, which is the baseline."""

    def __init__(self, trials: Trials, names: Sequence[str], start: Setting) -> None:
        grids = {
            "class_weight": CLASS_WEIGHTS,
            "acoustic_scale": start.acoustic_scale * ACOUSTIC_FACTORS,
            "word_penalty": WORD_PENALTIES,
        }
        super().__init__(_axes([name for name in names if name in grids], start), grids, start)
        self.trials = trials

    def ranks(self, settings: Sequence[Setting]) -> list[tuple[Any, ...]]:
        """Return the rank of each setting: ``(total errors in both sets, general errors)``."""
        return [(sum(errors), errors[1]) for errors in self.trials.errors_without(settings)]


class _With(Search):
    """Search for the best allowed setting with entities."""

    def __init__(
        self, trials: Trials, names: Sequence[str], start: Setting, reference: Setting, general_before: int, rise: float
    ) -> None:
        grids = {
            "keyword_boost": KEYWORD_BOOSTS[trials.class_lm is not None],
            "class_boost": CLASS_BOOSTS,
            "class_weight": [*CLASS_WEIGHTS[1:-1], reference.class_weight],
            "acoustic_scale": reference.acoustic_scale * 2.0 ** np.array([-0.5, 0.0, 0.5]),
            "word_penalty": reference.word_penalty + np.array([-1.0, 0.0, 1.0, 2.0]),
        }
        super().__init__(_axes(names, start), grids, start)
        self.trials = trials
        self.max_rise = rise
        # Compare errors, not percentages: with few words, a small percentage is less than one error.
        self.allowed = math.floor(rise / 100.0 * trials.general.num_words + 1e-9)
        self._general_reference = min(general_before, trials.errors_without([reference])[0][1])

    def most(self, setting: Setting) -> int:
        """Return the maximum number of general errors allowed for a setting."""
        return min(self._general_reference, self.trials.errors(setting).general_without) + self.allowed

    def excess(self, setting: Setting) -> int:
        """Return the number of errors in the general set above the allowed maximum, or 0.

        Errors are counted with and without the margin added to the keyword boost, and the larger number is used.
        """
        errors = self.trials.errors(setting)
        return max(errors.general - self.most(setting), errors.general_beyond - self.most(setting), 0)

    def ranks(self, settings: Sequence[Setting]) -> list[tuple[Any, ...]]:
        """Return the rank of each setting: first the value of `excess`, then the `Errors`."""
        errors = self.trials.errors_of(settings)
        return [(self.excess(setting), of_setting) for setting, of_setting in zip(settings, errors, strict=True)]


def _warnings(
    search: _With, chosen: Setting, curve: Mapping[float, list[EntityReport]], without: Sequence[EntityReport]
) -> Iterator[str]:
    """Yield warnings about the sets, entities that do not help, and settings that raise the general WER too much."""
    words = without[1].overall.words
    most = search.most(chosen)
    limit = f"{100.0 * most / max(words, 1):.2f}"
    for dev_set in search.trials.sets:
        yield from dev_set.unmatched
    if search.max_rise > 0 and search.allowed == 0:
        few = f"{search.max_rise:g}% of the {words} words of the general set is less than one error"
        yield f"{few}, so no additional error is allowed; use a larger set"
    contextual, general = (report.overall for report in curve[chosen.keyword_boost])
    if search.excess(chosen):
        yield f"no settings keep general WER safely at or below {limit}; the best settings have {general.wer:.2f}"
    elif contextual.errors >= without[0].overall.errors:
        helping = [boost for boost, reports in curve.items() if reports[0].overall.errors < without[0].overall.errors]
        why = "check that the lattices contain the phrases; missing phrases must be added first (see augment)"
        if helping:
            which = f"all values of keyword_boost that would lower it ({min(helping):g} and above)"
            why = f"{which} raise general WER above {limit}, or close to it"
        yield f"entities do not lower contextual WER: {why}"
    rates = {boost: reports[1].overall for boost, reports in curve.items() if boost > chosen.keyword_boost}
    too_large = next((boost for boost, rate in rates.items() if rate.errors > most), None)
    if too_large is not None:
        rises = [f"{without[1].overall.wer:.2f} to {rates[too_large].wer:.2f} at keyword_boost {too_large:g}"]
        last = max(rates)
        if rates[last].errors > rates[too_large].errors:
            rises.append(f"to {rates[last].wer:.2f} at {last:g}")
        names = [name for name in curve[too_large][1].insertions if not name.found_before]
        shown = f", such as {names[0].entity.text!r} for {names[0].instead_of!r}" if names else ""
        yield (f"general WER rises from {', '.join(rises)}: names are inserted ({len(names)} at {too_large:g}{shown})")


def _report(part: LoadedSet, hypotheses: Words, before: Words | None = None) -> EntityReport:
    return score_entities(part.references, hypotheses, part.entities.phrases(part.references), before=before)


def _figures(reports: Sequence[EntityReport]) -> Figures:
    contextual, general = reports
    return Figures(contextual.overall.wer, general.overall.wer, contextual.entities.recall, general.entities.inserted)
