"""Choosing boosts: the fewest errors where names are said, and hardly one more where none are."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from ninja.context.options import ContextOptions
from ninja.errors import NinjaError, OptionError
from ninja.evaluate import EntityReport, score_entities
from ninja.graph.scale import check_scales
from ninja.lattice.symbols import SymbolTable
from ninja.lm.ngram.model import NgramLM
from ninja.tune.trials import DevSet, Held, Setting, Trials, Words

__all__ = ["ContextSettings", "DevSet", "Figures", "Point", "TunedContext", "tune_context"]

# What is tried first, each with each. Acoustic scales are factors of the given one.
KEYWORD_BOOSTS = (np.arange(0.0, 21.0), np.array([0.0, 2.0, 4.0, 12.0, 20.0]))  # without a class model, with one
CLASS_BOOSTS = np.linspace(-16.0, 8.0, 5)
CLASS_WEIGHTS = np.linspace(0.0, 1.0, 5)
ACOUSTIC_FACTORS = 2.0 ** np.linspace(-1.0, 1.0, 5)
WORD_PENALTIES = np.linspace(-2.0, 4.0, 7)
CURVE = np.arange(0.0, 21.0)  # keyword boosts of the trade-off curve

LINE = 9  # values tried along one axis when refining
ROUNDS = 2  # in each of which the lines are half as long as before
STEPS = Setting(2.0, 6.0, 0.25, 0.5, 1.0)  # half the length of each first line; acoustic scales by their logarithm to 2
DIGITS = 4  # significant ones: settings are tried as they are written down
EDGE = 0.02  # of the range of an axis: what lies nearer to its end than this lies at the end


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """What ``tune_context`` chooses."""

    options: ContextOptions
    acoustic_scale: float
    word_penalty: float


@dataclass(frozen=True, slots=True)
class Figures:
    """How both sets are recognised under some settings."""

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
    num_composed: int  # lattices composed with their context, for what it cost


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
    on_error: Callable[[NinjaError], None] | None = None,
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
        words: The symbols of all lattices.
        class_lm: As of `Tracker`.
        options: What is not chosen (``max_tokens``, ``unk_penalty``, ``max_arcs``), and boosts that are tried, too.
        old_lm: As of `Tracker`.
        acoustic_scale: Factor of acoustic costs to start with, above 0: half to twice as much is tried.
        word_penalty: Cost of each word to start with.
        max_general_rise: How far general WER may rise, percent absolute, ≥ 0.
        margin: Nats by which the keyword boost could be larger without general WER rising further than that, ≥ 0: a
            boost that only just does no harm in one set does harm in another.
        fixed: Names of what is left as given, of ``Setting``.
        on_error: Called with the failure of each lattice that is left out; None: the first one is raised.

    Raises:
        OptionError: A scale or the allowed rise is out of range, a set has no phrases, or as `Tracker`.
        FormatError: No lattice of a set has a reference.
        NinjaError: As `add_context` raises, where ``on_error`` is None.
    """
    check_scales(acoustic_scale, 1.0, word_penalty)
    if not acoustic_scale > 0:
        raise OptionError(f"acoustic_scale is {acoustic_scale}, but must be above 0")
    if not 0 <= max_general_rise <= 100:
        raise OptionError(f"max_general_rise is {max_general_rise}, but must be between 0 and 100 percent")
    if not 0 <= margin < math.inf:
        raise OptionError(f"margin is {margin}, but must be 0 or more, and finite")
    if unknown := set(fixed) - set(Setting._fields):
        raise OptionError(f"fixed has {min(unknown)!r}, but may name {', '.join(Setting._fields)}")
    options = options or ContextOptions()
    trials = Trials(contextual, general, words, class_lm, old_lm, options, margin, on_error)
    given = Setting(options.keyword_boost, options.class_boost, options.class_weight, acoustic_scale, word_penalty)
    without_lm = () if class_lm is not None else ("class_boost", "class_weight")
    axes = [axis for axis in Setting._fields if axis not in (*fixed, *without_lm)]
    reference = _Without(trials, axes, given).best()
    before = [_report(held, trials.without_context(held, given)) for held in trials.sets]
    search = _With(trials, axes, given, reference, before[1].overall.errors, max_general_rise)
    chosen = search.best()
    plain = [trials.hypotheses(held, reference, with_entities=False) for held in trials.sets]
    without = [_report(held, words) for held, words in zip(trials.sets, plain, strict=True)]
    curve = {boost: _reports(trials, chosen._replace(keyword_boost=boost), plain) for boost in _curve_of(chosen)}
    fits = not search.excess(chosen)
    return TunedContext(
        settings=ContextSettings(trials.options_of(chosen), *chosen.scales) if fits else None,
        before=_figures(before),
        without=_figures(without),
        after=_figures(curve[chosen.keyword_boost] if fits else before),
        curve=tuple(Point(boost, _figures(reports)) for boost, reports in curve.items()),
        max_general_wer=trials.general.wer(search.most(chosen)),
        edges=search.edges(chosen) if fits else (),
        warnings=tuple(_warnings(search, chosen, curve, without)),
        num_composed=trials.num_composed,
    )


class _Search:
    """A search for the best setting: a grid, refined along one axis after the other."""

    def __init__(
        self, trials: Trials, axes: Sequence[str], grids: Mapping[str, Iterable[float]], given: Setting
    ) -> None:
        self.trials = trials
        self.axes = axes
        self._given = given
        low_high: dict[str, tuple[float, float]] = {
            "keyword_boost": (KEYWORD_BOOSTS[0][0], KEYWORD_BOOSTS[0][-1]),
            "class_boost": (CLASS_BOOSTS[0], CLASS_BOOSTS[-1]),
            "class_weight": (0.0, 1.0),
            "acoustic_scale": (given.acoustic_scale * ACOUSTIC_FACTORS[0], given.acoustic_scale * ACOUSTIC_FACTORS[-1]),
            "word_penalty": (WORD_PENALTIES[0], WORD_PENALTIES[-1]),
        }
        self._range = {
            axis: (min(low, value), max(high, value))
            for (axis, (low, high)), value in zip(low_high.items(), given, strict=True)
        }
        self._grid = {
            axis: self._inside(axis, grids[axis]) if axis in axes else [value]
            for axis, value in given._asdict().items()
        }

    def best(self) -> Setting:
        """Return the best setting."""
        grid = [Setting(*each) for each in product(*self._grid.values())]
        self._count(grid)
        best = min(grid, key=self._order)
        for part in range(ROUNDS):
            for axis in self.axes:
                best = self._along(best, axis, getattr(STEPS, axis) * 0.5**part)
        return best

    @abstractmethod
    def rank(self, setting: Setting) -> tuple[Any, ...]:
        """Return what is smaller the better a setting is."""

    @abstractmethod
    def _count(self, settings: list[Setting]) -> object:
        """Count the errors of settings, before they are ranked."""

    def _order(self, setting: Setting) -> tuple[Any, ...]:
        """Return the rank; of equals, small keyword boosts come first, and what is nearest to the start."""
        away = math.hypot(
            (setting.class_weight - self._given.class_weight) / 0.25,
            math.log2(setting.acoustic_scale / self._given.acoustic_scale) / 0.5,
            setting.word_penalty - self._given.word_penalty,
        )
        entering = abs(setting.class_boost - self._given.class_boost)
        return *self.rank(setting), entering, setting.keyword_boost, away, setting

    def _inside(self, axis: str, values: Iterable[float]) -> list[float]:
        """Return the values as they are tried: inside the range, with few digits, and the given one as it is."""
        low, high = self._range[axis]
        found = {float(np.clip(_short(value), low, high)) for value in values}
        return sorted({*found, getattr(self._given, axis)})

    def _along(self, best: Setting, axis: str, step: float) -> Setting:
        """Try values of one axis about the best so far."""
        here, (low, high) = getattr(best, axis), self._range[axis]
        if axis == "acoustic_scale":
            values = np.geomspace(max(low, here * 2.0**-step), min(high, here * 2.0**step), LINE)
        else:
            values = np.linspace(max(low, here - step), min(high, here + step), LINE)
        line = [best._replace(**{axis: value}) for value in dict.fromkeys(map(_short, values))]
        self._count(line)
        ranks = [self.rank(each) for each in line]
        least = min(ranks)
        if least > self.rank(best):
            return best
        equal = np.flatnonzero([rank == least for rank in ranks])
        stretches = np.split(equal, np.flatnonzero(np.diff(equal) > 1) + 1)
        longest = max(stretches, key=len)  # the safest; of two, the lower one
        return line[longest[(len(longest) - 1) // 2]]

    def edges(self, chosen: Setting) -> tuple[str, ...]:
        """Say which settings lie at the end of what was tried."""
        found = []
        for axis in self.axes:
            value, (low, high) = getattr(chosen, axis), self._range[axis]
            near = EDGE * (high - low)
            if low + near < value < high - near:
                continue
            lower = value <= low + near
            meaning = MEANINGS.get((axis, lower), f" ({low:.3g} … {high:.3g}); tune again from there")
            end = "lower" if lower else "upper"
            found.append(f"{axis} {value:.3g} lies at the {end} end of what was tried{meaning}")
        return tuple(found)


class _Without(_Search):
    """The search for what is best without entities: what these do is measured against that."""

    def __init__(self, trials: Trials, axes: Sequence[str], given: Setting) -> None:
        grids = {
            "class_weight": CLASS_WEIGHTS,
            "acoustic_scale": given.acoustic_scale * ACOUSTIC_FACTORS,
            "word_penalty": WORD_PENALTIES,
        }
        super().__init__(trials, [axis for axis in axes if axis in grids], grids, given)

    def rank(self, setting: Setting) -> tuple[Any, ...]:
        """Return the errors of both sets together: it is recognition in general that is tuned here."""
        errors = self.trials.errors_without([setting])[0]
        return sum(errors), errors[1]

    def _count(self, settings: list[Setting]) -> object:
        return self.trials.errors_without(settings)


class _With(_Search):
    """The search for what is best with entities, of all that is allowed."""

    def __init__(
        self, trials: Trials, axes: Sequence[str], given: Setting, reference: Setting, general_before: int, rise: float
    ) -> None:
        about = {
            "keyword_boost": KEYWORD_BOOSTS[trials.class_lm is not None],
            "class_boost": CLASS_BOOSTS,
            "class_weight": [*CLASS_WEIGHTS[1:-1], reference.class_weight],
            "acoustic_scale": reference.acoustic_scale * 2.0 ** np.array([-0.5, 0.0, 0.5]),
            "word_penalty": reference.word_penalty + np.array([-1.0, 0.0, 1.0, 2.0]),
        }
        super().__init__(trials, axes, about, given)
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

    def rank(self, setting: Setting) -> tuple[Any, ...]:
        """Return the errors too many, then the contextual and the general ones."""
        return self.excess(setting), self.trials.errors(setting)

    def _count(self, settings: list[Setting]) -> object:
        return self.trials.errors_of(settings)


MEANINGS = {
    ("keyword_boost", True): ": words of phrases need none beyond what entering a phrase gets",
    ("keyword_boost", False): ": has the general set anything that could be taken for a phrase?",
    ("class_boost", True): ": the class model expects phrases far too often",
    ("class_boost", False): ": the class model expects phrases far too seldom",
    ("class_weight", True): ": the class model adds nothing outside phrases",
    ("class_weight", False): ": the first pass's language model adds nothing",
}


def _warnings(
    search: _With, chosen: Setting, curve: Mapping[float, list[EntityReport]], without: Sequence[EntityReport]
) -> Iterator[str]:
    """Say what the boosts chosen fail to do, and what larger ones do to utterances without names."""
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
            why = (
                f"every keyword_boost that does, from {min(helping):g} on, raises general WER above {limit}, or nearly"
            )
        yield f"entities do not lower contextual WER: {why}"
    larger = (boost for boost in curve if boost > chosen.keyword_boost)
    too_large = next((boost for boost in larger if curve[boost][1].overall.errors > most), None)
    if too_large is not None:
        rises = [
            f"{without[1].overall.wer:.2f} to {curve[too_large][1].overall.wer:.2f} at keyword_boost {too_large:g}"
        ]
        last = max(curve)
        if curve[last][1].overall.errors > curve[too_large][1].overall.errors:
            rises.append(f"to {curve[last][1].overall.wer:.2f} at {last:g}")
        names = [each for each in curve[too_large][1].insertions if not each.found_before]
        shown = f", such as {names[0].entity.text!r} for {names[0].instead_of!r}" if names else ""
        yield (
            f"general WER rises from {', '.join(rises)}: names are put where none were said "
            f"({len(names)} at {too_large:g}{shown})"
        )


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _curve_of(chosen: Setting) -> list[float]:
    return sorted({*CURVE.tolist(), chosen.keyword_boost})


def _report(held: Held, hypotheses: Words, before: Words | None = None) -> EntityReport:
    return score_entities(held.references, hypotheses, held.entities.phrases(held.references), before=before)


def _reports(trials: Trials, setting: Setting, before: Sequence[Words]) -> list[EntityReport]:
    return [
        _report(held, trials.hypotheses(held, setting, with_entities=True), words)
        for held, words in zip(trials.sets, before, strict=True)
    ]


def _figures(reports: Sequence[EntityReport]) -> Figures:
    contextual, general = reports
    return Figures(contextual.overall.wer, general.overall.wer, contextual.entities.recall, general.entities.inserted)
