"""Choose boosts: fewest errors where names are spoken, with hardly any more where none are."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from ninja.context.options import ContextOptions
from ninja.errors import OptionError, check_range
from ninja.evaluate import EntityReport, score_entities
from ninja.lattice import Scales
from ninja.lattice.symbols import SymbolTable
from ninja.lm.ngram.model import NgramLM
from ninja.log import Log
from ninja.tune.search import Axis, Search
from ninja.tune.trials import DevSet, Errors, LoadedSet, Setting, Trials, Words

__all__ = ["ContextSettings", "DevSet", "Figures", "Point", "TunedContext", "tune_context"]

# What is tried first, each with each. Acoustic scales are factors of the given one.
KEYWORD_BOOSTS = (np.arange(0.0, 21.0), np.array([0.0, 2.0, 4.0, 12.0, 20.0]))  # without a class model, with one
CLASS_BOOSTS = np.linspace(-16.0, 8.0, 5)
CLASS_WEIGHTS = np.linspace(0.0, 1.0, 5)
ACOUSTIC_FACTORS = 2.0 ** np.linspace(-1.0, 1.0, 5)
WORD_PENALTIES = np.linspace(-2.0, 4.0, 7)
CURVE = np.arange(0.0, 21.0)  # keyword boosts of the trade-off curve

MEANINGS = {  # of the ends of what was tried
    "keyword_boost": (
        "words of phrases need none beyond what entering a phrase gets",
        "has the general set anything that could be taken for a phrase?",
    ),
    "class_boost": ("the class model expects phrases far too often", "the class model expects phrases far too seldom"),
    "class_weight": ("the class model adds nothing outside phrases", "the first pass's language model adds nothing"),
}
DIGITS = 4  # significant ones: settings are tried as they are written down


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """Settings chosen by ``tune_context``."""

    options: ContextOptions
    acoustic_scale: float
    word_penalty: float


@dataclass(frozen=True, slots=True)
class Figures:
    """Error rates of both sets under some settings."""

    contextual_wer: float  # percent
    general_wer: float  # percent
    recall: float  # entities whole in the output of those said in the contextual set, percent; nan if none is said
    false_alarms: int  # entities put in wrongly, general set


@dataclass(frozen=True, slots=True)
class Point:
    """A point of the trade-off curve."""

    keyword_boost: float
    figures: Figures


@dataclass(frozen=True, slots=True)
class TunedContext:
    """The outcome of ``tune_context``."""

    settings: ContextSettings | None  # None: whatever was tried makes general WER too high
    before: Figures  # without any context, at the scale and penalty to start with
    without: Figures  # without entities, with the best class weight, scale and penalty there are then
    after: Figures  # as chosen; without settings, as before
    curve: tuple[Point, ...]  # other keyword boosts, everything else as chosen, by rising boost
    max_general_wer: float  # what was allowed at the settings chosen, percent
    edges: tuple[str, ...]  # which settings lie at the end of what was tried, and what that may mean
    warnings: tuple[str, ...]  # what the user should know before using them


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
    log: Log | None = None,
) -> TunedContext:
    """Choose boosts, the share of a class model, acoustic scale and word penalty.

    First the best class weight, scale and penalty are sought without entities, for the fewest word errors in both sets
    together. Then with entities all settings are, for the fewest in the contextual set, of all that raise general WER
    by no more than is allowed: above the WER without any context, above that of the best run without entities, and
    above that of the same run without entities. Equals are decided by general errors, then for the smaller boost or the
    middle of a stretch of equals. The lattices are not pruned, and every run gives the same.

    Args:
        contextual: Utterances in which phrases of their lists are said.
        general: Utterances of another kind, in which none is said, with lists of the same kind: it shows false alarms.
        class_lm: As of `Tracker`.
        options: What is not chosen (``max_tokens``, ``unk_penalty``, ``max_arcs``), and boosts that are tried, too.
        old_lm: As of `Tracker`.
        acoustic_scale: Factor of acoustic costs to start with, above 0: half to twice as much is tried.
        word_penalty: Cost of each word to start with.
        max_general_rise: How far general WER may rise, percent absolute, ≥ 0.
        margin: Nats by which the keyword boost could be larger without general WER rising further than that, ≥ 0: a
            boost that only just does no harm in one set does harm in another.
        fixed: Names of what is left as given, of ``Setting``.
        log: Of lattices that fail and are left out; without its ``on_error``, the first failure is raised.

    Raises:
        OptionError: A scale or the allowed rise is out of range, a set has no phrases, or as `Tracker`.
        FormatError: No lattice of a set has a reference.
        NinjaError: As `add_context` raises, where failures are not tolerated.
    """
    Scales(acoustic_scale, word_penalty=word_penalty)  # checks them
    check_range("acoustic_scale", acoustic_scale, above=0)
    if not 0 <= max_general_rise <= 100:
        raise OptionError(f"max_general_rise is {max_general_rise}, but must be between 0 and 100 percent")
    check_range("margin", margin, least=0, finite=True)
    if unknown := set(fixed) - set(Setting._fields):
        raise OptionError(f"fixed has {min(unknown)!r}, but may name {', '.join(Setting._fields)}")
    options = options or ContextOptions()
    trials = Trials(contextual, general, words, class_lm, old_lm, options, margin, log or Log())
    given = Setting(options.keyword_boost, options.class_boost, options.class_weight, acoustic_scale, word_penalty)
    without_lm = () if class_lm is not None else ("class_boost", "class_weight")
    axes = [axis for axis in Setting._fields if axis not in (*fixed, *without_lm)]
    reference = _Without(trials, axes, given).best()
    before = [_report(held, trials.without_context(held, given)) for held in trials.sets]
    search = _With(trials, axes, given, reference, before[1].overall.errors, max_general_rise)
    chosen = search.best()
    plain = [trials.hypotheses(held, reference, with_entities=False) for held in trials.sets]
    without = [_report(held, words) for held, words in zip(trials.sets, plain, strict=True)]
    curve = {
        boost: [
            _report(held, trials.hypotheses(held, chosen._replace(keyword_boost=boost), with_entities=True), words)
            for held, words in zip(trials.sets, plain, strict=True)
        ]
        for boost in sorted({*CURVE.tolist(), chosen.keyword_boost})
    }
    fits = not search.excess(chosen)
    return TunedContext(
        settings=ContextSettings(trials.options_of(chosen), *chosen[3:]) if fits else None,
        before=_figures(before),
        without=_figures(without),
        after=_figures(curve[chosen.keyword_boost] if fits else before),
        curve=tuple(Point(boost, _figures(reports)) for boost, reports in curve.items()),
        max_general_wer=trials.general.wer(search.most(chosen)),
        edges=tuple(search.edges(chosen)) if fits else (),
        warnings=tuple(_warnings(search, chosen, curve, without)),
    )


class _Search(Search[Setting]):
    """A search for the best setting on both sets."""

    rounds, num_on_line = 2, 9

    def __init__(
        self, trials: Trials, names: Sequence[str], grids: Mapping[str, Iterable[float]], given: Setting
    ) -> None:
        self.trials = trials
        self._given = given
        scale = given.acoustic_scale
        axes = {
            "keyword_boost": (KEYWORD_BOOSTS[0][0], KEYWORD_BOOSTS[0][-1], 2.0),
            "class_boost": (CLASS_BOOSTS[0], CLASS_BOOSTS[-1], 6.0),
            "class_weight": (0.0, 1.0, 0.25),
            "acoustic_scale": (scale * ACOUSTIC_FACTORS[0], scale * ACOUSTIC_FACTORS[-1], 0.5),
            "word_penalty": (WORD_PENALTIES[0], WORD_PENALTIES[-1], 1.0),
        }
        found = {}
        for name, (low, high, step) in axes.items():
            value = getattr(given, name)
            ends = min(low, value), max(high, value)
            found[name] = Axis(name, *ends, step, name == "acoustic_scale", DIGITS, *MEANINGS.get(name, ("", "")))
        self.axes = [found[name] for name in names]
        self._grid = [
            found[name].inside(grids[name], value) if name in names else [value]
            for name, value in given._asdict().items()
        ]

    def grid(self) -> list[Setting]:
        return [Setting(*each) for each in product(*self._grid)]

    def preference(self, point: Setting) -> tuple[Any, ...]:
        """Prefer class boosts near the given one, then small keyword boosts, then the nearest to the start."""
        away = math.hypot(
            (point.class_weight - self._given.class_weight) / 0.25,
            math.log2(point.acoustic_scale / self._given.acoustic_scale) / 0.5,
            point.word_penalty - self._given.word_penalty,
        )
        return abs(point.class_boost - self._given.class_boost), point.keyword_boost, away, point

    def value(self, point: Setting, axis: int) -> float:
        return float(getattr(point, self.axes[axis].name))

    def moved(self, point: Setting, axis: int, value: float) -> Setting:
        return point._replace(**{self.axes[axis].name: value})


class _Without(_Search):
    """Search of the best setting without entities, the baseline of their effect."""

    def __init__(self, trials: Trials, names: Sequence[str], given: Setting) -> None:
        grids = {
            "class_weight": CLASS_WEIGHTS,
            "acoustic_scale": given.acoustic_scale * ACOUSTIC_FACTORS,
            "word_penalty": WORD_PENALTIES,
        }
        super().__init__(trials, [name for name in names if name in grids], grids, given)

    def ranks(self, points: Sequence[Setting]) -> list[tuple[int, int]]:
        """Return the errors of both sets together, for recognition in general is tuned here; then the general ones."""
        return [(sum(errors), errors[1]) for errors in self.trials.errors_without(points)]


class _With(_Search):
    """Search of the best setting with entities, of those allowed."""

    def __init__(
        self, trials: Trials, names: Sequence[str], given: Setting, reference: Setting, general_before: int, rise: float
    ) -> None:
        about = {
            "keyword_boost": KEYWORD_BOOSTS[trials.class_lm is not None],
            "class_boost": CLASS_BOOSTS,
            "class_weight": [*CLASS_WEIGHTS[1:-1], reference.class_weight],
            "acoustic_scale": reference.acoustic_scale * 2.0 ** np.array([-0.5, 0.0, 0.5]),
            "word_penalty": reference.word_penalty + np.array([-1.0, 0.0, 1.0, 2.0]),
        }
        super().__init__(trials, names, about, given)
        self.max_rise = rise
        # Errors, not percentages, are compared: of few words, a small share is less than one error.
        self.allowed = math.floor(rise / 100.0 * trials.general.num_words + 1e-9)
        self._general_reference = min(general_before, trials.errors_without([reference])[0][1])

    def most(self, setting: Setting) -> int:
        """Return how many general errors a setting may make."""
        return min(self._general_reference, self.trials.errors(setting).general_without) + self.allowed

    def excess(self, setting: Setting) -> int:
        """Return how many general errors a setting makes too many, or would beyond its margin; 0 if none."""
        errors = self.trials.errors(setting)
        return max(errors.general - self.most(setting), errors.general_beyond - self.most(setting), 0)

    def ranks(self, points: Sequence[Setting]) -> list[tuple[int, Errors]]:
        """Return the errors too many of each, then the contextual and the general ones."""
        found = self.trials.errors_of(points)
        return [(self.excess(each), errors) for each, errors in zip(points, found, strict=True)]


def _warnings(
    search: _With, chosen: Setting, curve: Mapping[float, list[EntityReport]], without: Sequence[EntityReport]
) -> Iterator[str]:
    """Warn of phrases that the chosen boosts miss, and of the harm of larger ones to utterances without names."""
    words = without[1].overall.words
    most = search.most(chosen)
    limit = f"{100.0 * most / max(words, 1):.2f}"
    for held in search.trials.sets:
        yield from held.unmatched
    if search.max_rise > 0 and search.allowed == 0:
        few = f"{search.max_rise:g} % of the {words} words of the general set is less than one error"
        yield f"{few}, so that none more is allowed; choose on more words"
    contextual, general = (report.overall for report in curve[chosen.keyword_boost])
    if search.excess(chosen):
        yield f"nothing that was tried keeps general WER safely at {limit} or below; the nearest has {general.wer:.2f}"
    elif contextual.errors >= without[0].overall.errors:
        helping = [boost for boost, reports in curve.items() if reports[0].overall.errors < without[0].overall.errors]
        why = "do the lattices hold the phrases? What they lack must be added first, see augment"
        if helping:
            which = f"every keyword_boost that does, from {min(helping):g} on"
            why = f"{which}, raises general WER above {limit}, or nearly"
        yield f"entities do not lower contextual WER: {why}"
    rates = {boost: reports[1].overall for boost, reports in curve.items() if boost > chosen.keyword_boost}
    too_large = next((boost for boost, rate in rates.items() if rate.errors > most), None)
    if too_large is not None:
        rises = [f"{without[1].overall.wer:.2f} to {rates[too_large].wer:.2f} at keyword_boost {too_large:g}"]
        last = max(rates)
        if rates[last].errors > rates[too_large].errors:
            rises.append(f"to {rates[last].wer:.2f} at {last:g}")
        names = [each for each in curve[too_large][1].insertions if not each.found_before]
        shown = f", such as {names[0].entity.text!r} for {names[0].instead_of!r}" if names else ""
        yield (
            f"general WER rises from {', '.join(rises)}: names are put where none were said "
            f"({len(names)} at {too_large:g}{shown})"
        )


def _report(part: LoadedSet, hypotheses: Words, before: Words | None = None) -> EntityReport:
    return score_entities(part.references, hypotheses, part.entities.phrases(part.references), before=before)


def _figures(reports: Sequence[EntityReport]) -> Figures:
    contextual, general = reports
    return Figures(contextual.overall.wer, general.overall.wer, contextual.entities.recall, general.entities.inserted)
