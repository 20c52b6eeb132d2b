"""Tuning of boosts: trials, search, warnings about too small or too large boosts, and the plot."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from types import SimpleNamespace
from zlib import crc32

import numpy as np
import pytest
from boost_cases import (
    CLASS_LM,
    FALSE_ALARM,
    LARGE_BOOST,
    NAMELESS,
    NAMES,
    SMALL_BOOST,
    TABLE,
    VOCABULARY,
    dev_set,
    lattice,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import ninja as package
from ninja.context.entities.lists import Entities
from ninja.context.grammar.tracker import Tracker, add_context
from ninja.context.options import ContextOptions
from ninja.errors import FormatError, LatticeError, Log, OptionError
from ninja.evaluate import edits
from ninja.graph import best_path
from ninja.lattice import Scales
from ninja.lm.ngram.model import read_arpa
from ninja.tune import boosts as tuning
from ninja.tune.boosts import DevSet, Figures, TunedContext, _With, _Without, tune_context
from ninja.tune.plot import plot_trade_off
from ninja.tune.trials import Errors, Setting, Trials


def tune(*, near=SMALL_BOOST, far=LARGE_BOOST, **options) -> TunedContext:
    contextual = dev_set(NAMES, near=near, far=far)
    return tune_context(contextual, dev_set(NAMES, misled=FALSE_ALARM, other=NAMELESS), TABLE, **options)


@pytest.fixture(autouse=True)
def few_words_suffice(monkeypatch):
    """Lower the minimum number of words, because the sets of these tests are small."""
    monkeypatch.setattr(tuning, "MIN_WORDS", 0)


def test_chosen_boost_recognises_names_without_inserting_them() -> None:
    result = tune()
    assert result.settings is not None
    assert 2.5 < result.settings.options.keyword_boost < 4.5  # a nat below the smallest harmful boost
    assert result.before == Figures(50.0, 0.0, 0.0, 0)
    assert result.without == result.before
    assert result.after == Figures(pytest.approx(100 / 6), 0.0, 50.0, 0)
    assert result.max_general_wer == 0.0


def test_the_middle_of_the_smaller_equally_good_boosts_is_chosen() -> None:
    result = tune(margin=0.0)
    assert result.settings is not None
    assert result.settings.options.keyword_boost == 4.0  # the middle of 3 … 5, where 3 is the smallest useful integer
    assert (result.settings.acoustic_scale, result.settings.word_penalty) == (0.1, 0.0)
    assert result.edges == ()


def test_max_general_rise_limits_the_boost() -> None:
    result = tune(max_general_rise=40.0)
    assert result.settings is not None
    assert result.settings.options.keyword_boost > 8
    assert result.after == Figures(0.0, pytest.approx(100 / 3), 100.0, 1)
    assert result.max_general_wer == pytest.approx(100 / 3)
    limited = tune(max_general_rise=33.0)  # two errors in six words exceed 33%
    assert limited.settings is not None
    assert limited.settings.options.keyword_boost < 5.5


def test_margin_lowers_the_boost_below_harmful_values() -> None:
    boosts = []
    for margin in (0.0, 1.0, 2.0, 2.6):
        result = tune(margin=margin)
        assert result.settings is not None
        boosts.append(result.settings.options.keyword_boost)
        assert not 5.5 - margin < boosts[-1]
    assert boosts[0] > boosts[1] > boosts[2] > 2.5 > boosts[3]
    assert result.after == result.before
    values = "all values of keyword_boost that would lower it (3 and above) raise general WER"
    with_margin = f"entities do not lower contextual WER: {values}"
    assert result.warnings[1].startswith(f"{with_margin} above 0.00, or close to it")


def test_warning_about_large_boosts_has_an_example() -> None:
    warning = (
        "general WER rises from 0.00 to 33.33 at keyword_boost 6: names are inserted "
        "(1 at 6, such as 'tom chen' for 'time gin')"
    )
    small_set = "0.2% of the 6 words of the general set is less than one error, so no additional error is allowed"
    assert tune().warnings == (f"{small_set}; use a larger set", warning)
    assert tune(max_general_rise=0.0).warnings == (warning,)
    assert tune(max_general_rise=40.0).warnings == ()


def test_curve_has_both_error_rates_of_each_boost() -> None:
    result = tune(margin=0.0)
    figures = {point.keyword_boost: point.figures for point in result.curve}
    assert list(figures) == [float(boost) for boost in range(21)]
    assert figures[2.0] == result.before
    assert figures[4.0] == result.after
    assert figures[7.0] == Figures(pytest.approx(100 / 6), pytest.approx(100 / 3), 50.0, 1)
    assert figures[9.0] == Figures(0.0, pytest.approx(100 / 3), 100.0, 1)


def test_a_warning_explains_why_no_boost_lowers_contextual_wer() -> None:
    result = tune(near=LARGE_BOOST, max_general_rise=0.0)
    assert result.settings is not None
    assert result.settings.options.keyword_boost < 8
    assert result.after == result.before
    assert result.warnings[0] == (
        "entities do not lower contextual WER: all values of keyword_boost that would lower it (9 and above) raise "
        "general WER above 0.00, or close to it"
    )
    missing_phrase = ("call tom chen", ("call time chin", 0.0))
    assert tune(near=missing_phrase, far=missing_phrase, max_general_rise=0.0).warnings[0] == (
        "entities do not lower contextual WER: check that the lattices contain the phrases; missing phrases must "
        "be added first (see augment)"
    )


def test_no_settings_are_chosen_if_all_exceed_the_general_wer(monkeypatch) -> None:
    monkeypatch.setattr(tuning, "KEYWORD_BOOSTS", (np.array([12.0, 20.0]),) * 2)
    result = tune(options=ContextOptions(keyword_boost=15.0))
    assert result.settings is None
    assert result.after == result.before
    assert result.edges == ()
    assert "no settings keep general WER safely at or below 0.00; the best settings have 33.33" in result.warnings


def test_an_optimum_at_the_end_of_the_boost_range_is_reported() -> None:
    far = ("tell mary chen", ("tell mary gin", 0.0), ("tell mary chen", 39.8))
    result = tune(near=far, far=far, max_general_rise=40.0)
    assert result.settings is not None
    assert result.edges == (
        "keyword_boost 20 is at the upper end of its range: check that the general set contains words that are similar "
        "to phrases",
    )


def test_few_words_keep_the_initial_boosts_unless_they_are_harmful() -> None:
    result = tune(min_words=500, options=ContextOptions(keyword_boost=3.0))
    assert result.settings is not None
    assert result.settings.options.keyword_boost == 3.0
    assert result.warnings[-1] == (
        "the 6 words of the contextual set are too few to choose boosts: the initial settings are kept"
    )
    harmful_start = tune(min_words=500, options=ContextOptions(keyword_boost=9.0))
    assert harmful_start.settings == tune().settings
    assert harmful_start.warnings[-1].endswith(
        "too few to choose boosts: other settings are tried, because the initial ones raise general WER too far"
    )


def test_difference_in_wer_is_paired_by_utterance_or_speaker() -> None:
    result = tune()
    assert result.difference.interval.mean == pytest.approx(100 / 6 - 50)
    assert (result.difference.num_groups, result.difference.num_words) == (2, 6)
    assert re.fullmatch(
        r"difference in contextual WER from the best settings without entities: -33.33 \[\S+, \S+\] \(95% interval\); "
        r"6 words are too few to be certain; about \d+ words would show such a difference",
        result.evidence,
    )
    with pytest.raises(FormatError, match="has no speaker"):
        tune(speakers={"near": "a"})


def test_tuning_is_deterministic_and_independent_of_utterance_order() -> None:
    assert tune() == tune()
    reordered = tune_context(
        dev_set(NAMES, far=LARGE_BOOST, near=SMALL_BOOST), dev_set(NAMES, other=NAMELESS, misled=FALSE_ALARM), TABLE
    )
    assert reordered == tune()


@pytest.fixture(scope="module")
def class_lm(tmp_path_factory):
    path = tmp_path_factory.mktemp("lm") / "class.arpa"
    path.write_text(CLASS_LM)
    return read_arpa(str(path))


def test_boost_and_weight_of_a_class_model_are_tuned(class_lm) -> None:
    contextual = dev_set(NAMES, near=SMALL_BOOST, far=LARGE_BOOST)
    result = tune(class_lm=class_lm, max_general_rise=0.0)
    assert result.settings is not None
    assert result.after.contextual_wer <= 100 / 6
    assert result.after.general_wer == 0.0
    # A run with the chosen settings has the reported WER.
    tracker = Tracker(TABLE, class_lm, result.settings.options)
    scales = Scales(result.settings.acoustic_scale, word_penalty=result.settings.word_penalty)
    errors = 0
    for key, first_pass in contextual.lattices:
        words = best_path(add_context(first_pass, tracker, NAMES.of(key)), scales).words
        errors += edits(contextual.references[key], TABLE.spell(words))
    assert 100 * errors / 6 == pytest.approx(result.after.contextual_wer)


numbers = st.integers(0, 6).map(float)
trial_settings = st.builds(Setting, numbers, numbers, st.sampled_from([0.0, 0.25, 0.5, 1.0]), numbers, numbers)
word_sequences = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=4).map(" ".join)
hypotheses = st.lists(st.tuples(word_sequences, st.floats(0, 9, width=16)), min_size=1, max_size=4)


@given(
    points=st.lists(trial_settings, min_size=1, max_size=8),
    cases=st.lists(st.tuples(word_sequences, hypotheses), min_size=2, max_size=4),
    with_lm=st.sampled_from(["none", "class", "old"]),
)
def test_trials_agree_with_a_separate_run_of_each_setting(class_lm, points, cases, with_lm) -> None:
    utterance_entities = {
        "@name": ["tom chen", {"text": "now", "weight": -1}],
        "entities": [{"class": "", "text": "gin"}],
    }
    entities = Entities.from_dict({"all": {"@name": ["mary", "time chin"]}, "utterances": {"u0": utterance_entities}})
    utterances = {f"u{number}": (reference, *sentences) for number, (reference, sentences) in enumerate(cases)}
    lm, old_lm = {"none": (None, None), "class": (class_lm, None), "old": (class_lm, class_lm)}[with_lm]
    parts = [dev_set(entities, u0=utterances["u0"]), dev_set(entities, **utterances)]
    trials = Trials(*parts, TABLE, lm, old_lm, ContextOptions(), margin=1.0)

    def errors(part: DevSet, setting: Setting, *, with_entities: bool = True) -> int:
        options = ContextOptions(
            keyword_boost=setting.keyword_boost, class_boost=setting.class_boost, class_weight=setting.class_weight
        )
        total = 0
        for key, first_pass in part.lattices:
            tracker = Tracker(TABLE, lm, options, old_lm=old_lm)
            composed = add_context(first_pass, tracker, entities.of(key) if with_entities else ())
            best = best_path(composed, Scales(setting.acoustic_scale, word_penalty=setting.word_penalty))
            total += edits(part.references[key], TABLE.spell(best.words))
        return total

    def with_larger_boost(setting: Setting) -> Setting:
        return (
            setting
            if lm is None and not setting.keyword_boost
            else setting._replace(keyword_boost=setting.keyword_boost + 1)
        )

    expected = [
        Errors(
            errors(parts[0], setting), errors(parts[1], setting), errors(parts[1], with_larger_boost(setting)),
            errors(parts[1], setting, with_entities=False),
        )
        for setting in points
    ]  # fmt: skip
    assert trials.errors_of(points[:2]) == expected[:2]
    assert trials.errors_of(points) == expected
    assert [trials.errors(setting) for setting in points] == expected


def test_class_weight_matters_without_entities(class_lm) -> None:
    utterance = ("call chen", ("call chen", 0.0), ("call time", 1.0))  # the model prefers the second by 2.3 nats
    trials = Trials(dev_set(NAMES, u=utterance), dev_set(NAMES, u=utterance), TABLE, class_lm, None, ContextOptions())
    settings = [Setting(0.0, 0.0, weight, 0.1, 0.0) for weight in (0.0, 1.0)]
    assert [errors.general_without for errors in trials.errors_of(settings)] == [0, 1]


def test_fixed_options_are_not_tuned(class_lm) -> None:
    options = ContextOptions(class_weight=1 / 3, class_boost=1 / 7, keyword_boost=3.1)
    fixed = ["class_weight", "class_boost", "acoustic_scale", "word_penalty"]
    initial = {"acoustic_scale": 1 / 12, "word_penalty": 2 / 3}
    result = tune(class_lm=class_lm, options=options, fixed=fixed, **initial)
    assert result.settings is not None
    settings = (
        replace(result.settings.options, keyword_boost=3.1),
        result.settings.acoustic_scale,
        result.settings.word_penalty,
    )
    assert settings == (options, 1 / 12, 2 / 3)
    with pytest.raises(
        OptionError, match="fixed contains 'lm_weight', but must contain only keyword_boost, class_boost, class_weight"
    ):
        tune(fixed=["lm_weight"])


class Landscape:
    """Trials with artificial errors."""

    def __init__(self, seed: int, class_lm: object) -> None:
        self.class_lm = class_lm
        self.general = SimpleNamespace(num_words=1000)
        self.seed = seed

    def random_errors(self, low: int, high: int, of: tuple[float, ...]) -> int:
        return low + crc32(repr((self.seed, low, of)).encode()) % (high - low)

    def errors(self, setting: Setting) -> Errors:
        general_without = self.errors_without([setting])[0][1]
        return Errors(
            self.random_errors(20, 60, setting),
            self.random_errors(10, 30, setting),
            self.random_errors(9, 29, setting),
            general_without,
        )

    def errors_of(self, settings: list[Setting]) -> list[Errors]:
        return [self.errors(setting) for setting in settings]

    def errors_without(self, settings: list[Setting]) -> list[tuple[int, int]]:
        return [
            (self.random_errors(30, 60, setting[2:]), self.random_errors(12, 32, setting[2:])) for setting in settings
        ]


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.booleans(), st.sampled_from([0.0, 0.25, 1.0]))
def test_no_allowed_grid_point_is_better_than_the_chosen_one(seed: int, with_lm: bool, rise: float) -> None:
    trials = Landscape(seed, object() if with_lm else None)
    start = Setting(6.0, 0.0, 0.5, 0.1, 0.0)
    axes = Setting._fields if with_lm else ("keyword_boost", "acoustic_scale", "word_penalty")
    reference = _Without(trials, axes, start).best()
    for penalty in (-2.0, 0.0, 3.0):
        alternative = start._replace(word_penalty=penalty)
        assert sum(trials.errors_without([reference])[0]) <= sum(trials.errors_without([alternative])[0])
    best = _With(trials, axes, start, reference, 20, rise).best()
    assert best == _With(trials, axes, start, reference, 20, rise).best()

    def num_excess_errors(setting: Setting) -> int:
        errors = trials.errors(setting)
        max_errors = min(20, errors.general_without, trials.errors_without([reference])[0][1]) + int(10 * rise)
        return max(errors.general - max_errors, errors.general_beyond - max_errors, 0)

    for boost in (0.0, 2.0, 12.0, 20.0):  # points of both keyword_boost grids
        for penalty in (start.word_penalty, reference.word_penalty):
            alternative = Setting(boost, 0.0, 0.5, reference.acoustic_scale, penalty)
            assert (num_excess_errors(best), trials.errors(best)) <= (
                num_excess_errors(alternative),
                trials.errors(alternative),
            )


def test_entities_are_compared_with_the_best_run_without_them() -> None:
    # A word penalty of 3 removes the general errors; the name is recognised only without a penalty.
    long, quiet = (
        ("in time", ("in time gin", 0.0), ("in time", 2.5)),
        ("tell time", ("tell time now", 0.0), ("tell time", 2.5)),
    )
    near = ("call tom chen", ("call gin", 0.0), ("call tom chen", 39.0))
    general = dev_set(NAMES, long=long, quiet=quiet)
    result = tune_context(dev_set(NAMES, near=near), general, TABLE, max_general_rise=0.0)
    assert (result.before.general_wer, result.without.general_wer, result.max_general_wer) == (50.0, 0.0, 0.0)
    assert (result.after.contextual_wer, result.after.general_wer) == (pytest.approx(200 / 3), 0.0)
    result = tune_context(dev_set(NAMES, near=near), general, TABLE, max_general_rise=50.0)
    assert (result.after.contextual_wer, result.after.general_wer) == (0.0, 50.0)


def test_development_sets_without_references_or_phrases_are_refused() -> None:
    contextual, general = dev_set(NAMES, near=SMALL_BOOST), dev_set(NAMES, other=NAMELESS)
    entities = Entities.from_dict({"utterances": {"near": {"@name": ["tom chen"]}}})
    with pytest.raises(FormatError, match="no usable lattice of the general set has a reference"):
        tune_context(contextual, replace(general, references={"x": ["tell"]}), TABLE)
    with pytest.raises(
        OptionError, match="no utterance of the general set has phrases; to count false alarms, add phrases"
    ):
        tune_context(contextual, replace(general, entities=entities), TABLE)
    with pytest.raises(
        OptionError, match="no utterance of the contextual set has phrases; check that the utterance ids match"
    ):
        tune_context(replace(contextual, entities=Entities.from_dict({"utterances": {}})), general, TABLE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"acoustic_scale": 0.0}, "acoustic_scale is 0.0, but must be above 0"),
        ({"acoustic_scale": math.nan}, "acoustic_scale is nan"),
        ({"word_penalty": math.inf}, "word_penalty is inf"),
        ({"max_general_rise": -1.0}, "max_general_rise is -1.0, but must be between 0 and 100 percent"),
        ({"max_general_rise": math.nan}, "max_general_rise is nan"),
        ({"margin": -1.0}, "margin is -1.0, but must be 0 or more"),
        ({"margin": math.inf}, "margin is inf"),
    ],
)
def test_options_out_of_range_are_refused(options, message) -> None:
    with pytest.raises(OptionError, match=message):
        tune(**options)


def test_a_lattice_that_fails_is_left_out() -> None:
    failures: list[package.NinjaError] = []
    broken = replace(lattice("near", *SMALL_BOOST[1:]), final_graph=np.full(7, np.inf, np.float32))
    good = dev_set(NAMES, far=LARGE_BOOST)
    contextual = DevSet([("near", broken), *good.lattices], {"near": ["call"], **good.references}, NAMES)
    general = dev_set(NAMES, other=NAMELESS)
    result = tune_context(contextual, general, TABLE, log=Log(on_error=failures.append))
    assert [failure.key for failure in failures] == ["near"]
    assert result.after.contextual_wer == 0.0
    with pytest.raises(LatticeError, match="near"):
        tune_context(contextual, general, TABLE)


def test_trade_off_plot_is_written(tmp_path) -> None:
    pytest.importorskip("matplotlib")
    plot_trade_off(tmp_path / "curve.svg", tune())
    assert (tmp_path / "curve.svg").stat().st_size > 1000
