"""Confidence intervals of word error rates."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_scoring import bootstrap_rates

from ninja.errors import FormatError, OptionError
from ninja.evaluate import Interval, bootstrap, edits, score
from ninja.evaluate.bootstrap import EXACT_UNITS, paired_test, resample, sum_by_speaker

Ninja = Callable[..., tuple[int, str, str]]
SENTENCES = st.lists(st.sampled_from("abc"), min_size=1, max_size=6)
TEXTS = st.lists(st.tuples(SENTENCES, SENTENCES, SENTENCES), min_size=1, max_size=12)


def texts(rows: list[tuple[list[str], ...]]) -> list[dict[str, list[str]]]:
    return [{f"u{number}": row[column] for number, row in enumerate(rows)} for column in range(3)]


@given(TEXTS)
def test_system_does_not_differ_from_itself(rows: list[tuple[list[str], ...]]) -> None:
    references, hypotheses, _ = texts(rows)
    result = bootstrap(references, hypotheses, hypotheses, replications=200)
    assert result.first == result.second
    assert result.difference == Interval(0.0, 0.0)
    assert result.probability == 0.0


@given(TEXTS)
def test_intervals_contain_the_point_estimates(rows: list[tuple[list[str], ...]]) -> None:
    references, hypotheses, second_hypotheses = texts(rows)
    result = bootstrap(references, hypotheses, second_hypotheses, replications=1000)
    assert result.second is not None
    assert result.difference is not None
    rates = [score(references, system).wer for system in (hypotheses, second_hypotheses)]
    assert rates[0] in result.first
    assert rates[1] in result.second
    assert rates[1] - rates[0] in result.difference


@settings(max_examples=10)
@given(st.lists(st.tuples(SENTENCES | st.just([]), SENTENCES), min_size=1, max_size=3))
def test_many_replications_agree_with_enumeration_of_test_sets(rows: list[tuple[list[str], list[str]]]) -> None:
    references = {f"u{number}": reference for number, (reference, _) in enumerate(rows)}
    if not any(references.values()):
        return
    hypotheses = {f"u{number}": hypothesis for number, (_, hypothesis) in enumerate(rows)}
    words = [len(reference) for reference in references.values()]
    expected_rates = bootstrap_rates(words, [edits(references[key], hypotheses[key]) for key in references])
    result = bootstrap(references, hypotheses, replications=20_000)
    spread = float(np.std(expected_rates))
    assert abs(result.first.mean - np.mean(expected_rates)) <= 0.1 * spread + 1e-9
    assert abs(result.first.half_width - 1.96 * spread) <= 0.2 * spread + 1e-9


def test_replications_draw_the_same_utterances_for_all_counts() -> None:
    first = np.arange(1000)
    sums, doubled = resample([first, 2 * first], 3000, seed=1)
    assert (doubled == 2 * sums).all()
    assert len(set(sums.tolist())) > 2500
    assert (resample([np.ones(7, np.int64)], 5, seed=0)[0] == 7).all()
    assert (resample([first], 3000, seed=2)[0] != sums).any()


def test_consistently_better_system_improves_with_probability_one() -> None:
    references = {f"u{number}": ["a", "b"] for number in range(10)}
    worse = {key: ["a", "x"] for key in references}
    result = bootstrap(references, worse, references)
    assert str(result) == (
        "Set1: %WER 50.00 95% Conf Interval [ 50.00, 50.00 ]\n"
        "Set2: %WER 0.00 95% Conf Interval [ 0.00, 0.00 ]\n"
        "Probability of Set2 improving Set1: 100.00"
    )
    assert result.difference == Interval(-50.0, 0.0)
    assert bootstrap(references, references, worse).probability == 0.0


def slow_p_value(differences: list[int]) -> float:
    """Compute the p-value by enumerating all exchanges of the two systems."""
    sums = [abs(sum(sign * value for sign, value in zip(signs, differences, strict=True)))
            for signs in product((1, -1), repeat=len(differences))]  # fmt: skip
    return sum(total >= abs(sum(differences)) for total in sums) / len(sums)


@given(st.lists(st.integers(-4, 4), max_size=10))
def test_paired_test_enumerates_exchanges_of_few_units(differences: list[int]) -> None:
    assert paired_test(np.array(differences, np.int64)) == pytest.approx(slow_p_value(differences))


@settings(max_examples=10)
@given(st.lists(st.integers(-4, 4).filter(bool), min_size=EXACT_UNITS + 1, max_size=EXACT_UNITS + 1))
def test_paired_test_samples_exchanges_of_many_units(differences: list[int]) -> None:
    assert paired_test(np.array(differences, np.int64)) == pytest.approx(slow_p_value(differences), abs=0.03)


def test_paired_test_distinguishes_chance_from_improvement() -> None:
    references = {f"u{number}": ["a"] for number in range(40)}
    wrong = {key: ["x"] for key in references}
    better = bootstrap(references, wrong, references)
    assert better.p_value is not None
    assert better.p_value < 0.001
    halves = [{key: ["a" if number % 2 == half else "x"] for number, key in enumerate(references)} for half in (0, 1)]
    assert bootstrap(references, *halves).p_value == 1.0
    assert bootstrap(references, wrong).p_value is None


def test_bootstrap_draws_and_exchanges_whole_speakers() -> None:
    references = {f"u{number}": ["a"] for number in range(40)}
    wrong = {key: ["x"] for key in references}
    speakers = {key: f"s{number % 4}" for number, key in enumerate(references)}
    assert bootstrap(references, wrong, references, speakers=speakers).p_value == 2 / 2**4
    half = {key: ["a" if speakers[key] < "s2" else "x"] for key in references}
    by_utterance, by_speaker = bootstrap(references, half), bootstrap(references, half, speakers=speakers)
    assert by_speaker.first.half_width > 2 * by_utterance.first.half_width
    rows = sum_by_speaker([np.arange(40)], list(references), speakers)
    assert rows[0].tolist() == [sum(range(first, 40, 4)) for first in range(4)]
    del speakers["u7"]
    with pytest.raises(FormatError, match="1 utterance has no speaker; add to utt2spk: u7"):
        bootstrap(references, wrong, speakers=speakers)


def test_mode_determines_the_treatment_of_missing_hypotheses() -> None:
    references = {"u1": ["a"], "u2": ["b"], "u3": ["c"]}
    first, second = {"u1": ["a"], "u2": ["b"]}, {"u2": ["x"], "u3": ["c"]}
    with pytest.raises(FormatError, match="no hypothesis for 2 of 3 references"):
        bootstrap(references, first, second)
    assert bootstrap(references, first, second, "present", 10).first == Interval(0.0, 0.0)
    all_mode = bootstrap(references, first, second, "all", 5000)
    assert all_mode.first.mean == pytest.approx(100 / 3, abs=2)
    assert all_mode.second.mean == pytest.approx(200 / 3, abs=2)  # type: ignore[union-attr]
    with pytest.raises(FormatError, match="no reference has a hypothesis"):
        bootstrap(references, first, {"other": []}, "all")


def test_bootstrap_refuses_sets_without_an_error_rate() -> None:
    with pytest.raises(FormatError, match="the references contain no words, so the word error rate is undefined"):
        bootstrap({"u": []}, {"u": ["a"]})
    seeds = [seed for seed in range(20) if not resample([np.array([0, 1])], 1, seed)[0][0]]
    with pytest.raises(FormatError, match="no replication contains a reference word; use more replications"):
        bootstrap({"u": [], "v": ["a"]}, {"u": [], "v": []}, replications=1, seed=seeds[0])
    with pytest.raises(OptionError, match="replications is 0, but must be 1 or more"):
        bootstrap({"u": ["a"]}, {"u": ["a"]}, replications=0)
    with pytest.raises(OptionError, match="seed is -1, but must be 0 or more"):
        bootstrap({"u": ["a"]}, {"u": ["a"]}, seed=-1)
    with pytest.raises(OptionError, match="mode is 'some'"):
        bootstrap({"u": ["a"]}, {"u": ["a"]}, mode="some")  # type: ignore[arg-type]


def test_command_prints_the_lines_of_compute_wer_bootci(ninja: Ninja, tmp_path: Path) -> None:
    reference, before, after = (str(tmp_path / name) for name in ("text", "before", "after"))
    Path(reference).write_text("".join(f"u{number} a b c\n" for number in range(30)))
    Path(before).write_text("".join(f"u{number} a {'b' if number % 3 else 'x'}\n" for number in range(30)))
    Path(after).write_text("".join(f"u{number} a {'b' if number % 2 else 'x'} c\n" for number in range(30)))
    code, out, err = ninja("compute-wer-bootci", f"ark:{reference}", before, f"ark,t:{after}", "--seed", "7")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].startswith("Set1: %WER 44.")
    assert lines[0].endswith(" ]")
    assert lines[1].startswith("Set2: %WER 16.")
    assert lines[2] == "Probability of Set2 improving Set1: 100.00"
    assert err.startswith("ninja: Set2 - Set1: -27.")
    assert ninja("compute-wer-bootci", reference, before, after, "--seed", "7") == (code, out, err)
    assert ninja("compute-wer-bootci", reference, before, after, "--seed", "8")[1] != out
    code, single, err = ninja("compute-wer-bootci", reference, before, "--replications", 100)
    assert (code, len(single.splitlines()), err) == (0, 1, "")
    Path(after).write_text("u1 a b c\n")
    assert ninja("compute-wer-bootci", reference, before, after)[0] == 1
    assert ninja("compute-wer-bootci", reference, before, after, "--mode=present")[0] == 0
