"""Commands for pruned determinization."""

from __future__ import annotations

from pathlib import Path

import pytest
from lattice_files import write_all
from reference_determinize import (
    TRANSITIONS,
    assert_contains,
    assert_matches_kaldi,
    exponential_lattice,
    transitions,
    within_beam,
)
from reference_openfst import best_ways

from ninja.graph import is_deterministic, to_raw
from ninja.io import read


def test_determinize_pruned_makes_raw_archives_compact(ninja, tmp_path: Path) -> None:
    write_all(f"ark:{tmp_path}/raw.ark", (to_raw(exponential_lattice(steps)) for steps in (3, 4)))
    code, _, err = ninja("determinize-pruned", f"{tmp_path}/raw.ark", "--beam", 3, "-o", f"ark,t:{tmp_path}/det.txt")
    assert (code, "2 lattices" in err, "smaller beam" in err) == (0, True, False)
    code, out, _ = ninja("convert", f"ark:{tmp_path}/det.txt", "-o", "ark,t:-")
    assert code == 0
    assert out.splitlines()[1].count(",") == 2  # graph cost, acoustic cost, alignment
    for (_, result), steps in zip(read(f"ark:{tmp_path}/det.txt"), (3, 4), strict=True):
        assert is_deterministic(result)
        assert_contains(best_ways(result), within_beam(exponential_lattice(steps), 3.0 - 1e-3))


@pytest.mark.parametrize("jobs", [1, 2])
def test_determinize_pruned_lists_lattices_with_a_smaller_beam(ninja, tmp_path: Path, jobs: int) -> None:
    write_all(f"ark:{tmp_path}/raw.ark", (exponential_lattice(steps) for steps in (3, 10, 11)))
    code, _, err = ninja(
        "determinize-pruned",
        f"{tmp_path}/raw.ark",
        "--beam=40",
        "--max-arcs=300",
        f"--jobs={jobs}",
        "-o",
        tmp_path / "o",
    )
    assert code == 0
    assert "exploding-3:" not in err
    for key in ("exploding-10", "exploding-11"):
        assert f"ninja: {key}: beam " in err
    assert "of 40 reached" in err
    assert "ninja: 2 lattices were determinized with a smaller beam than requested" in err
    assert "ninja: 3 lattices" in err


def test_a_failed_determinization_does_not_affect_the_others(ninja, tmp_path: Path) -> None:
    write_all(f"ark:{tmp_path}/raw.ark", [exponential_lattice(9), exponential_lattice(2)])
    code, _, err = ninja(
        "determinize-pruned", f"{tmp_path}/raw.ark", "--max-arcs=6", "--retry-cutoff=0", "-o", tmp_path / "o"
    )
    assert code == 1
    assert "failed: key 'exploding-9': the arcs limit was reached before a path was complete" in err
    assert "; increase --max-arcs, which is 6\n" in err
    assert "1 lattice" in err


def test_phone_and_word_determinization_agree_and_a_reduced_beam_is_reported(ninja, tmp_path: Path) -> None:
    write_all(f"ark:{tmp_path}/raw.ark", [exponential_lattice(10)])
    transitions()  # skips the test if there is no model
    code, _, err = ninja(
        "determinize-phone-pruned", "--model", TRANSITIONS, f"{tmp_path}/raw.ark", "--beam=3", "-o", tmp_path / "phones"
    )
    assert code == 0, err
    code, _, err = ninja("determinize-pruned", f"{tmp_path}/raw.ark", "--beam=3", "-o", tmp_path / "words")
    phones, words = (dict(read(str(tmp_path / name)))["exploding-10"] for name in ("phones", "words"))
    assert_matches_kaldi(phones, words, 3.0, 1.0)
    code, _, err = ninja("determinize", f"{tmp_path}/raw.ark", "--max-mem=100000", "-o", tmp_path / "whole")
    assert code == 0
    assert "exploding-10: beam " in err
    assert "of inf reached after" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["determinize-phone-pruned"], "Missing option '--model'"),
        (["determinize-pruned", "--beam=0"], "beam is 0.0, but must be above 0"),
        (
            ["determinize", "--acoustic-scale=0"],
            "--acoustic-scale must not be 0, because",
        ),
        (["determinize", "--beam-ratio=1"], "1.0 is not in the range 0<x<1"),
        (["determinize-pruned", "--retry-cutoff=2"], "--retry-cutoff is 2.0, but must be 0 or more and below 1"),
        (
            ["determinize-phone-pruned", "--model=m", "--phone-determinize=false", "--word-determinize=false"],
            "cannot be used together",
        ),
    ],
)
def test_usage_errors_are_reported_before_the_input_is_read(
    ninja, tmp_path: Path, arguments: list[str], message: str
) -> None:
    code, _, err = ninja(*arguments, tmp_path / "none.ark", "-o", tmp_path / "x")
    assert code == 2
    assert message in err
    assert not (tmp_path / "x").exists()
