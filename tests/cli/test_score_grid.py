"""`ninja score` with several scales, and with filtered words."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from example_lattices import EXAMPLES

from ninja import Scales, evaluate
from ninja.errors import FormatError, InputError, OptionError
from ninja.evaluate import ErrorRate, Hypotheses, WordFilter

Ninja = Callable[..., tuple[int, str, str]]
WORDS = ("--words", EXAMPLES / "words.txt")
SCORE = ("score", EXAMPLES / "text", EXAMPLES / "lat.ark.gz", *WORDS)


def test_each_cell_of_the_grid_agrees_with_best_and_compute_wer(ninja: Ninja, tmp_path: Path) -> None:
    weights, penalties = ("1", "6", "14"), ("0", "0.5", "4.0")
    options = ("--lmwt", "1,6,14", "--word-penalty", "0,0.5,4.0", "--wer-dir", tmp_path / "wer")
    code, printed, _ = ninja(*SCORE, *options)
    assert code == 0
    cells = {}
    for weight, penalty in product(weights, penalties):
        scales = ("--inv-acoustic-scale", weight, "--word-penalty", penalty)
        ninja("best", EXAMPLES / "lat.ark.gz", *WORDS, *scales, "-o", tmp_path / "best.txt")
        cells[weight, penalty] = ninja("compute-wer", EXAMPLES / "text", tmp_path / "best.txt")[1]
        assert (tmp_path / "wer" / f"wer_{weight}_{penalty}").read_text() == cells[weight, penalty]
    assert len(set(cells.values())) > 2  # otherwise the scales have no effect
    best = min(cells, key=lambda cell: float(cells[cell].split()[1]))
    assert cells[best] + "%CER " in printed
    assert f"* best: LMWT {best[0]} " in printed
    assert f"word penalty {best[1]}\n" in printed
    for weight in weights:
        (row,) = (line.split() for line in printed.splitlines() if line.split()[:1] == [weight])
        assert [cell.rstrip("*") for cell in row[1:]] == [cells[weight, penalty].split()[1] for penalty in penalties]
    kaldi = (tmp_path / "wer" / "best_wer").read_text()
    assert kaldi == f"{cells[best].splitlines()[0]} {tmp_path}/wer/wer_{best[0]}_{best[1]}\n"
    table = (tmp_path / "wer" / "wer_grid.tsv").read_text().splitlines()
    assert len(table) == 10
    assert [line.split("\t")[:2] for line in table[1:] if line.endswith("*")] == [list(best)]


def test_the_grid_is_the_same_for_ranges_and_several_processes(ninja: Ninja) -> None:
    code, grid, _ = ninja(*SCORE, "--lmwt", "7:9", "--word-ins-penalty", "0,1")
    assert (code, grid) == ninja(*SCORE, "--lmwt", "7,8,9", "--word-penalty", "0,1", "--jobs", "2")[:2]
    assert [line.split()[0] for line in grid.splitlines()[2:5]] == ["7", "8", "9"]


def test_a_single_pair_of_scales_prints_no_table(ninja: Ninja, tmp_path: Path) -> None:
    code, printed, _ = ninja(*SCORE, "--lmwt", "10", "--wer-dir", tmp_path)
    assert (code, printed) == (0, ninja(*SCORE, "--acoustic-scale", "0.1")[1])
    assert sorted(os.listdir(tmp_path)) == ["best_wer", "wer_10_0.0", "wer_grid.tsv"]
    assert printed.startswith((tmp_path / "wer_10_0.0").read_text() + "%CER ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--lmwt", "7:x"), "is not a list of at most 10,000 numbers such as 0.5,1 or 7:17"),
        (("--lmwt", "17:7"), "is not a list of at most 10,000 numbers"),
        (("--lmwt", "1:1000000"), "is not a list of at most 10,000 numbers"),
        (("--lmwt", "0:3"), "--inv-acoustic-scale is 0, which has no inverse"),
        (("--lmwt", "inf"), "--inv-acoustic-scale is inf, but must be finite"),
        (("--lmwt", "7:9", "--acoustic-scale", "0.1"), "cannot be used with"),
    ],
)
def test_invalid_grids_are_refused(ninja: Ninja, options: tuple[str, ...], message: str) -> None:
    code, _, errors = ninja(*SCORE, *options)
    assert (code, message in errors) == (2, True), errors


def test_score_uses_the_symbol_table_next_to_the_lattices(ninja: Ninja, tmp_path: Path) -> None:
    options = ("--lmwt", "9,10")
    shutil.copy(EXAMPLES / "lat.ark.gz", tmp_path / "lat.1.gz")
    code, _, errors = ninja("score", EXAMPLES / "text", tmp_path, *options)
    assert (code, "words.txt" in errors) == (2, True)
    shutil.copy(EXAMPLES / "words.txt", tmp_path)
    for source in (tmp_path / "lat.1.gz", tmp_path, f"ark:{tmp_path}/lat.1.gz"):
        assert ninja("score", EXAMPLES / "text", source, *options)[:2] == ninja(*SCORE, *options)[:2]


@pytest.mark.parametrize(
    "options",
    [
        ("--lmwt", "7:9"),
        ("--lmwt", "7"),
        ("--acoustic-scale", "0.1"),
        ("--lm-scale", "2"),
        ("--word-penalty", "1"),
        ("--wer-dir", "wer"),
    ],
)
def test_scales_are_refused_for_transcripts_oracles_and_confidences(
    ninja: Ninja, folder: Path, options: tuple[str, str]
) -> None:
    code, _, errors = ninja("score", EXAMPLES / "text", EXAMPLES / "text", *options)
    assert (code, "can be used only with lattices, but SOURCE contains transcripts" in errors) == (2, True), errors
    for option in ("--oracle", "--confidences"):
        code, _, errors = ninja(*SCORE, option, *options)
        assert (code, f"{option} cannot be used with --" in errors) == (2, True), errors


def test_a_grid_aligns_each_hypothesis_once_and_scores_missing_ones_as_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    hypotheses = []

    def align(reference: list[str], words: list[str]) -> evaluate.Alignment:
        hypotheses.append(words)
        return evaluate.align(reference, words)

    monkeypatch.setattr("ninja.evaluate.grid.align", align)
    lists = {"a": Hypotheses((["x"], ["y"]), (0, 1, 0, 0)), "c": Hypotheses((["x"],), (0, 0, 0, 0))}
    scales = [Scales(acoustic_scale) for acoustic_scale in (0.1, 0.2, 0.3, 0.4)]
    grid = evaluate.score_grid({"a": ["y"], "b": ["z"]}, lists, scales, "all")
    assert hypotheses == [["x"], ["y"], []]
    assert grid.best == 1
    assert grid.rates[1] == ErrorRate(2, 0, 0, 1, 2, 1, 1, 1)
    assert grid.rates[0] == grid.rates[2] == grid.rates[3] == ErrorRate(2, 1, 0, 1, 2, 2, 1, 1)
    with pytest.raises(OptionError, match="no scales"):
        evaluate.score_grid({"a": ["y"]}, {"a": Hypotheses((["x"],), ())}, [])


@pytest.fixture
def texts(tmp_path: Path) -> tuple[Path, Path]:
    """Write references and hypotheses that differ in noise words."""
    reference, hypothesis = tmp_path / "ref", tmp_path / "hyp"
    reference.write_text("u1 a b <unk> c\nu2 um d\n")
    hypothesis.write_text("u1 a <noise> b c\nu2 uh d\n")
    return reference, hypothesis


def wer(ninja: Ninja, texts: tuple[Path, Path], *options: object) -> str:
    code, printed, errors = ninja("score", *texts, *options)
    assert code == 0, errors
    return printed.split("\n")[0]


def test_score_ignores_words_on_request(ninja: Ninja, texts: tuple[Path, Path]) -> None:
    assert wer(ninja, texts) == "%WER 50.00 [ 3 / 6, 1 ins, 1 del, 1 sub ]"
    options = ("--ignore", "<unk>", "--ignore", "<noise>")
    assert wer(ninja, texts, *options) == "%WER 20.00 [ 1 / 5, 0 ins, 0 del, 1 sub ]"


def test_filters_of_kaldi_change_both_sides_or_only_hypotheses(
    ninja: Ninja, texts: tuple[Path, Path], tmp_path: Path
) -> None:
    script = tmp_path / "wer_output_filter"
    script.write_text("s:<[a-z]*>::g\ns: uh : um :g\n")
    assert wer(ninja, texts, "--filter", script) == "%WER 0.00 [ 0 / 5, 0 ins, 0 del, 0 sub ]"
    assert wer(ninja, texts, "--hyp-filter", script) == "%WER 16.67 [ 1 / 6, 0 ins, 1 del, 0 sub ]"
    program = tmp_path / "filter.py"
    program.write_text("#!/bin/sh\nexec sed -e 's:<[a-z]*>::g'\n")
    program.chmod(0o755)
    assert wer(ninja, texts, "--filter", program) == "%WER 20.00 [ 1 / 5, 0 ins, 0 del, 1 sub ]"


def test_filters_change_each_hypothesis_of_a_grid(ninja: Ninja, tmp_path: Path) -> None:
    script = tmp_path / "filter"
    script.write_text("s: .*::\n")  # removes all words
    code, printed, _ = ninja(*SCORE, "--lmwt", "1,14", "--hyp-filter", script)
    assert (code, printed.count("100.00")) == (0, 5)


@pytest.mark.parametrize(
    ("script", "error", "message"),
    [
        ("s:x", InputError, "ended with exit code 1: .*make programs executable"),
        ("1d\n", FormatError, "the output of the script does not contain the keys of the 2 input lines"),
        (None, InputError, "no such file"),
    ],
)
def test_a_failed_filter_is_an_error(tmp_path: Path, script: str | None, error: type[Exception], message: str) -> None:
    path = tmp_path / "filter"
    if script is not None:
        path.write_text(script)
    with pytest.raises(error, match=message):
        WordFilter(str(path)).texts({"u1": ["a"], "u2": ["b"]})


def test_a_global_mapping_is_applied_from_left_to_right(ninja: Ninja, texts: tuple[Path, Path], tmp_path: Path) -> None:
    glm = tmp_path / "en.glm"
    glm.write_text(
        ";; a comment\n* name \"test\"\n* case_sensitive = 'F'\n[UH] => [%HESITATION] / [ ] __ [ ] ;; more\n"
        "[UM]=>[%HESITATION]\n<noise> => / [ ] __ [ ]\n[a b] => [ab]\n"
    )
    mapping = evaluate.read_glm(glm)
    assert mapping.words(["uh", "a", "b", "a", "Um", "<noise>"]) == ["%HESITATION", "ab", "a", "%HESITATION"]
    # "a <noise> b" becomes "a b", to which no rule is applied again.
    assert wer(ninja, texts, "--glm", glm) == "%WER 40.00 [ 2 / 5, 0 ins, 0 del, 2 sub ]"


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("[I'D] => {[I WOULD] / [I HAD]} / [ ] __ [ ]", "en.glm:1: .* has alternatives"),
        ("[A] => [B] / [C] __ [ ]", "requires a context"),
        ("what is this", "is not a rule such as"),
        ("[ ] => [B]", "replaces nothing"),
    ],
)
def test_unsupported_rules_of_a_glm_are_refused(tmp_path: Path, rule: str, message: str) -> None:
    (tmp_path / "en.glm").write_text(f"{rule}\n")
    with pytest.raises(FormatError, match=message):
        evaluate.read_glm(tmp_path / "en.glm")


def test_an_empty_archive_among_several_is_reported(ninja, tmp_path):
    (tmp_path / "lat.1.gz").write_bytes(b"")
    for source in (tmp_path, tmp_path / "lat.1.gz", f"{tmp_path}/lat.*.gz"):
        code, _, errors = ninja("score", EXAMPLES / "text", source, "--lmwt", "7:9")
        assert (code, "lat.1.gz: the file is empty" in errors) == (1, True), source


@pytest.mark.parametrize("command", ["s/a/touch ran/e", "e touch ran", "w ran", "s/a/b/w ran", "r /etc/hostname"])
def test_a_sed_script_cannot_run_commands_or_write_files(
    ninja: Ninja, texts: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "filter").write_text(f"{command}\n")
    code, printed, errors = ninja("score", *texts, "--filter", "filter")
    assert (code, printed) == (1, "")
    assert "without e, r and w" in errors
    assert not (tmp_path / "ran").exists()
