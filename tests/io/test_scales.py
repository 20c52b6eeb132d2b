"""The scales of paths: one group of options for all commands, and files of scales that accompany lattices."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner
from lattice_files import write_all

import ninja as package
from ninja import ChosenScales, Scales, find_scales
from ninja.cli.main import group
from ninja.errors import FormatError, OptionError
from ninja.io.sources import scales_path
from ninja.lattice import Lattice

Ninja = Callable[..., tuple[int, str, str]]
CHOSEN = ChosenScales(Scales(0.1, word_penalty=0.5), lm_weight=0.5)
SAID = "acoustic_scale 0.1, word_penalty 0.5"

COMPARING = "best nbest score mbr-decode posteriors to-ctm-conf show report prune confidence arc-post 1best to-nbest"


def commands() -> list[click.Command]:
    found = [group.get_command(None, name) for name in group.list_commands(None)]  # type: ignore[arg-type]
    return [each for each in found if each is not None]


@pytest.mark.parametrize("name", COMPARING.split())
def test_commands_that_compare_paths_have_one_group_of_scales(name: str) -> None:
    command = group.get_command(None, name)
    options = {each.name: each.opts for each in command.params if getattr(each, "section", None) == "Scales"}
    assert options == {
        "acoustic_scale": ["--acoustic-scale"],
        "inv_acoustic_scale": ["--inv-acoustic-scale", "--lmwt"],
        "lm_scale": ["--lm-scale"],
        "word_penalty": ["--word-penalty", "--word-ins-penalty"],
        "config": ["--config"],
    }


def test_the_inverse_acoustic_scale_is_resolved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x").touch()
    found: list[Scales] = []
    monkeypatch.setattr("ninja.cli.best._transcribe", lambda *given, scales, **more: found.append(scales))
    lines = ["best x --inv-acoustic-scale 10", "best x --lmwt 4 --word-ins-penalty 0.5", "best x --lm-scale 2"]
    for line in lines:
        assert CliRunner().invoke(group, line.split()).exit_code == 0
    assert found == [Scales(0.1), Scales(0.25, 1.0, 0.5), Scales(1.0, 2.0)]


def fork(key: str = "utt") -> Lattice:
    """Return a lattice whose best word is "a" (id 1) at acoustic scale 1, "b" (id 2) at 0.1."""
    labels = {"ali_begin": [0, 2, 4], "ali": [1, 2, 1, 2]}
    return Lattice.from_arrays(key, [0, 2, 2], [1, 1], [1, 2], [3.0, 2.0], [10.0, 15.0], [np.inf, 0.0], **labels)


@pytest.fixture
def rescored(tmp_path: Path) -> Path:
    """Create an archive with a file of scales."""
    path = tmp_path / "rescored.ark.gz"
    write_all(path, [fork()], chosen=CHOSEN)
    return path


def test_scales_stand_beside_what_is_written_with_them(rescored: Path) -> None:
    assert sorted(os.listdir(rescored.parent)) == ["rescored.ark.gz", "rescored.ark.gz.scales.toml"]
    lines = (rescored.parent / "rescored.ark.gz.scales.toml").read_text().splitlines()
    assert lines[1:] == ["acoustic_scale = 0.1", "word_penalty = 0.5", "lm_weight = 0.5"]
    found = find_scales(rescored)
    assert found == CHOSEN
    assert found is not None
    assert found.path == scales_path(str(rescored))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("number", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("name", ["out.ark", "out.jsonl"])
def test_scales_may_be_numbers_of_numpy(tmp_path: Path, name: str, number: Callable[[float], float]) -> None:
    options = package.RescoreOptions(acoustic_scale=number(0.5), lm_weight=number(0.25), word_penalty=number(-1.0))
    chosen = ChosenScales(options.scales, options.lm_weight)
    words = package.SymbolTable.from_words(["<eps>", "a", "b"])
    with package.write(tmp_path / name, words=words, chosen=chosen) as output:
        output.write(fork())
    assert find_scales(tmp_path / name) == ChosenScales(Scales(0.5, word_penalty=-1.0), lm_weight=0.25)
    with pytest.raises(OptionError, match="lm_weight is nan"):
        package.RescoreOptions(lm_weight=number("nan"))


@pytest.mark.parametrize("name", ["best", "nbest", "mbr-decode", "posteriors", "to-ctm-conf", "1best", "confidence"])
def test_commands_take_the_scales_beside_and_say_so(ninja: Ninja, rescored: Path, name: str) -> None:
    output = rescored.parent / "out"
    (rescored.parent / "words.txt").write_text("<eps> 0\na 1\nb 2\n")
    options = ("-o", str(output), *(("--frame-shift", "0.01") if name == "to-ctm-conf" else ()))
    code, _, errors = ninja(name, rescored, *options)
    found = output.read_bytes() if output.exists() else b""
    assert f"ninja: scales from {rescored}.scales.toml: {SAID}" in errors.splitlines()
    again = ninja(name, rescored, *options, "--acoustic-scale", "0.1", "--word-penalty", "0.5")
    assert (code, found) == (again[0], output.read_bytes() if output.exists() else b"")
    assert "scales from" not in again[2]  # nothing is taken and nothing differs


def test_score_takes_the_scales_beside(ninja: Ninja, rescored: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("utt b\n")
    (tmp_path / "words").write_text("<eps> 0\na 1\nb 2\n")
    score = ("score", tmp_path / "text", rescored, "--words", tmp_path / "words")
    assert ninja(*score)[1].startswith("%WER 0.00")
    code, printed, errors = ninja(*score, "--acoustic-scale", "1")
    assert (code, printed[:11]) == (0, "%WER 100.00")
    assert f"scales from {rescored}.scales.toml: {SAID}; overridden by options: acoustic_scale 1" in errors
    os.remove(scales_path(str(rescored)))
    assert ninja(*score)[1].startswith("%WER 100.00")


def test_report_compares_both_sides_with_the_same_scales_and_shows_them(
    ninja: Ninja, rescored: Path, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("utt b\n")
    (tmp_path / "words").write_text("<eps> 0\na 1\nb 2\n")
    write_all(tmp_path / "before.ark", [fork()])
    page = tmp_path / "page.html"
    more = ("--ref", tmp_path / "text", "--words", tmp_path / "words", "-o", page)
    for sides in ((tmp_path / "before.ark", rescored), (rescored, tmp_path / "before.ark")):
        errors = ninja("report", *sides, *more)[2]
        assert "WER 0.00% before and 0.00% after" in errors
        assert "acoustic scale 0.1, word penalty 0.5" in errors
        assert "acoustic scale 0.1, word penalty 0.5" in page.read_text()
    errors = ninja("report", tmp_path / "before.ark", rescored, *more, "--acoustic-scale", 1)[2]
    assert "WER 100.00% before and 100.00% after" in errors
    write_all(tmp_path / "before.ark", [fork()], chosen=ChosenScales(Scales(0.2)))
    code, _, errors = ninja("report", tmp_path / "before.ark", rescored, *more)
    assert code == 2
    assert "differ; set the scales for all lattices with --acoustic-scale and --word-penalty" in errors
    given = ("--acoustic-scale", 0.1, "--word-penalty", 0)
    assert ninja("report", tmp_path / "before.ark", rescored, *more, *given)[0] == 0


@pytest.mark.parametrize("verb", ["prune --beam 100", "copy", "topsort", "determinize-pruned", "1best"])
def test_scales_go_on_with_the_lattices(ninja: Ninja, rescored: Path, tmp_path: Path, verb: str) -> None:
    for target, place in (("next.ark", "next.ark"), (f"ark,scp:{tmp_path}/n.ark,{tmp_path}/n.scp", "n.scp")):
        target = target if ":" in target else str(tmp_path / target)
        code, _, errors = ninja(*verb.split(), rescored, "-o", target)
        assert code == 0
        assert "wrote the scales to" in errors
        assert find_scales(str(tmp_path / place)) == CHOSEN


@pytest.mark.parametrize("verb", ["scale --acoustic-scale 0.1", "add-penalty --word-ins-penalty 0.5"])
def test_scaled_costs_have_no_scales_beside_them(ninja: Ninja, rescored: Path, tmp_path: Path, verb: str) -> None:
    write_all(tmp_path / "out.ark", [fork()], chosen=CHOSEN)
    assert ninja(*verb.split(), rescored, "-o", tmp_path / "out.ark")[0] == 0
    assert find_scales(tmp_path / "out.ark") is None


def test_no_stale_scales_are_left(ninja: Ninja, rescored: Path, tmp_path: Path) -> None:
    write_all(tmp_path / "plain.ark", [fork()])
    assert ninja("copy", tmp_path / "plain.ark", "-o", rescored)[0] == 0
    assert sorted(os.listdir(tmp_path)) == ["plain.ark", "rescored.ark.gz"]


def test_an_output_that_fails_leaves_the_scales_of_the_old_one(rescored: Path) -> None:
    output = package.write(rescored, chosen=ChosenScales())
    with pytest.raises(RuntimeError, match="in between"), output:
        fail_after(output.write, fork())
    assert find_scales(rescored) == CHOSEN
    assert sorted(os.listdir(rescored.parent)) == ["rescored.ark.gz", "rescored.ark.gz.scales.toml"]


def test_a_folder_has_its_scales_inside(tmp_path: Path) -> None:
    write_all(tmp_path / "slf", [fork("u1"), fork("u2")], to="slf", words=table(), chosen=CHOSEN)
    assert sorted(os.listdir(tmp_path / "slf")) == ["lattices.scales.toml", "u1.slf", "u2.slf"]
    assert find_scales(tmp_path / "slf") == find_scales(tmp_path / "slf" / "u1.slf") == CHOSEN
    assert [key for key, _ in package.read(tmp_path / "slf")] == ["u1", "u2"]


def test_other_files_of_scales_in_the_folder_are_not_taken(tmp_path: Path) -> None:
    write_all(tmp_path / "lat.ark", [fork()])
    for name in ("scales.toml", "weights.toml", "gone.ark.scales.toml"):
        (tmp_path / name).write_text("acoustic_scale = 0.5\n")
    assert find_scales(tmp_path / "lat.ark") is None
    assert find_scales(tmp_path) is None


def test_joined_costs_have_the_scales_in_them(tmp_path: Path) -> None:
    write_all(tmp_path / "utt.fst", [fork()], chosen=CHOSEN)
    assert os.listdir(tmp_path) == ["utt.fst"]
    ((_, lattice),) = package.read(tmp_path / "utt.fst")
    assert sorted(lattice.graph.tolist()) == [3.5, 4.0]


def fail_after(function: Callable[[Lattice], None], lattice: Lattice) -> None:
    """Call a function, then fail."""
    function(lattice)
    raise RuntimeError("in between")


def table() -> package.SymbolTable:
    """Return the words of the forks."""
    return package.SymbolTable.from_words(["<eps>", "a", "b"])


def test_scales_are_found_through_lists_scripts_and_folders(rescored: Path, tmp_path: Path) -> None:
    (tmp_path / "list").write_text(f"{rescored}\n{rescored}\n")
    assert find_scales(tmp_path / "list") == CHOSEN
    assert find_scales(f"ark:gunzip -c {rescored} |") == find_scales(f"ark:{rescored}") == CHOSEN
    write_all(tmp_path / "a.ark", [fork()], chosen=CHOSEN)
    (tmp_path / "all.scp").write_text(f"utt {tmp_path}/a.ark:4\n")
    assert find_scales(f"scp:{tmp_path}/all.scp") == find_scales(tmp_path) == CHOSEN
    assert find_scales("-") is None
    assert find_scales(tmp_path / "none.ark") is None


def test_different_scales_must_be_settled(ninja: Ninja, rescored: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.ark"
    write_all(other, [fork("other")])
    with pytest.raises(
        OptionError,
        match=r"other\.ark has no scale file, but other lattices have one .*; set the scales for all lattices with "
        r"--acou",
    ):
        find_scales([rescored, other])
    code, _, errors = ninja("best", rescored, other)
    assert (code, "has no scale file" in errors) == (2, True)
    code, printed, errors = ninja("best", rescored, other, "--acoustic-scale", "0.1", "--word-penalty", "0")
    assert (code, printed) == (0, "utt 2\nother 2\n")
    assert "using the scales of the options instead" in errors
    code, _, errors = ninja("copy", rescored, other, "-o", tmp_path / "both.ark")
    assert code == 0
    assert "no scale file is written for the output" in errors
    assert find_scales(tmp_path / "both.ark") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("acoustic_scale = 'x'", "must be a number"),
        ("acoustic", "not TOML"),
        ("acoustic_scale = true", "must be a num"),
    ],
)
def test_a_damaged_file_of_scales_is_refused(ninja: Ninja, rescored: Path, text: str, message: str) -> None:
    Path(scales_path(str(rescored))).write_text(text)
    with pytest.raises(FormatError, match=message):
        find_scales(rescored)
    assert ninja("best", rescored)[0] == 1


def test_a_config_gives_scales_to_commands_that_compare_paths(ninja: Ninja, rescored: Path, tmp_path: Path) -> None:
    config = tmp_path / "weights.toml"
    config.write_text("acoustic_scale = 1.0\nlm_weight = 0.4\nrnnlm = ['lm.pt']\n")
    code, printed, errors = ninja("best", rescored, "--config", config)
    assert (code, printed) == (0, "utt 1\n")
    assert "overridden by options: acoustic_scale 1" in errors
    assert ninja("best", rescored, "--config", config, "--lmwt", "10")[1] == "utt 2\n"
    config.write_text("lm_weight = 0.4\n")
    code, _, errors = ninja("best", rescored, "--config", config)
    assert (
        code,
        "expected at least one of the options acoustic_scale, lm_scale, word_penalty, found none" in errors,
    ) == (2, True)


def test_a_folder_of_which_some_files_have_no_scales_is_refused(tmp_path: Path) -> None:
    write_all(tmp_path / "lat.1.ark", [fork("a")], chosen=CHOSEN)
    assert find_scales(tmp_path) == CHOSEN
    (tmp_path / "notes.txt").write_text("scored on Monday")
    assert find_scales(tmp_path) == CHOSEN
    write_all(tmp_path / "lat.2.ark", [fork("b")])
    message = r"lat.2.ark has no scale file, but other lattices have one .*lat.1.ark.scales"
    with pytest.raises(OptionError, match=message):
        find_scales(tmp_path)


def test_scales_that_differ_are_refused_unless_both_are_given(tmp_path: Path, ninja: Ninja) -> None:
    for name, chosen in (("a.ark", CHOSEN), ("b.ark", ChosenScales(Scales(0.2)))):
        write_all(tmp_path / name, [fork(name[0])], chosen=chosen)
    both = [tmp_path / "a.ark", tmp_path / "b.ark"]
    assert ninja("best", *both, "--acoustic-scale", "0.1", "--lm-scale", "2")[0] == 2  # the penalties differ
    assert ninja("best", *both, "--acoustic-scale", "0.1", "--word-penalty", "0")[0] == 0
    (tmp_path / "text").write_text("a b\nb b\n")
    (tmp_path / "words.txt").write_text("<eps> 0\na 1\nb 2\n")
    grid = ["--acoustic-scale", "0.1,0.2", "--word-penalty", "0,1"]
    assert ninja("score", tmp_path / "text", *both, *grid)[0] == 0


def test_a_file_written_anew_after_its_scales_were_looked_for_is_read(tmp_path: Path) -> None:
    path = tmp_path / "lat.ark"
    for key in ("old", "new"):
        write_all(path, [fork(key)])
        assert [found for found, _ in package.read(path)] == [key]
        assert find_scales(path) is None


def spoken_lists(folder: Path, *, graph: bool) -> Path:
    """Write two-best lists whose order depends on the acoustic scale, with one score or two."""
    lists = [("a b", -10.0, -3.0), ("c", -15.0, -2.0)]
    hypotheses = [{"text": text, "am": am, **({"lm": lm} if graph else {})} for text, am, lm in lists]
    path = folder / "lists.jsonl"
    path.write_text(json.dumps({"id": "u", "nbest": hypotheses}) + "\n")
    return path


ARPA = "\\data\\\nngram 1=6\n\n\\1-grams:\n-9\t<s>\n-1\t</s>\n-1\t<unk>\n-1\ta\n-1\tb\n-1\tc\n\n\\end\\\n"


@pytest.mark.parametrize("graph", [False, True])
def test_a_rescoring_of_lists_takes_acoustic_scale_1_by_default_and_says_so(
    ninja: Ninja, tmp_path: Path, graph: bool
) -> None:
    lists, out = spoken_lists(tmp_path, graph=graph), tmp_path / "out.ark"
    (tmp_path / "lm.arpa").write_text(ARPA)
    form = "json:am_score=am,lm_score=lm" if graph else "json:score=am"
    rescore = ("rescore", lists, "--from", form, "--rnnlm", tmp_path / "lm.arpa", "-o", out)
    said = "using acoustic scale 1, the default for n-best lists"
    code, _, errors = ninja(*rescore)
    assert code == 0, errors
    assert said in errors
    found = find_scales(out)
    assert found is not None
    assert found.scales.acoustic == 1.0
    errors = ninja(*rescore, "--acoustic-scale", 0.1)[2]
    assert said not in errors
    assert find_scales(out).scales.acoustic == 0.1  # type: ignore[union-attr]


def test_so_does_one_of_ctc_lattices_but_not_of_others(ninja: Ninja, tmp_path: Path) -> None:
    (tmp_path / "lm.arpa").write_text(ARPA)
    (tmp_path / "words.txt").write_text("<eps> 0\na 1\nb 2\n")
    zero = fork().with_costs(np.zeros(2, np.float32))
    for lattice, scale in ((zero, 1.0), (fork(), 0.1)):
        write_all(tmp_path / "lat.ark", [lattice])
        out = tmp_path / "out.ark"
        code, _, errors = ninja("rescore", tmp_path / "lat.ark", "--rnnlm", tmp_path / "lm.arpa", "-o", out)
        assert code == 0, errors
        assert ("acoustic scale 1, the default for lattices without graph costs" in errors) == (scale == 1.0)
        assert find_scales(out).scales.acoustic == scale  # type: ignore[union-attr]


def test_a_score_by_default_scales_says_so(ninja, tmp_path):
    examples = Path(__file__).resolve().parents[2] / "examples"
    shutil.copy(examples / "lat.ark.gz", tmp_path)
    given = ("score", examples / "text", tmp_path / "lat.ark.gz", "--words", examples / "words.txt")
    said = "using acoustic scale 1"
    assert said in ninja(*given)[2]
    assert said not in ninja(*given, "--acoustic-scale", "1")[2]
    for name in ("best", "nbest"):
        verb = (name, tmp_path / "lat.ark.gz", "--words", examples / "words.txt", "-o", tmp_path / "out")
        assert said in ninja(*verb)[2]
        assert said not in ninja(*verb, "--lmwt", "10")[2]
    (tmp_path / "lat.ark.gz.scales.toml").write_text("acoustic_scale = 1.0\n")
    assert said not in ninja(*given)[2]
    assert said not in ninja(*verb)[2]
    assert said not in ninja("score", examples / "text", examples / "text")[2]


def test_pages_and_help_say_the_same_of_chain_models() -> None:
    root = Path(__file__).resolve().parents[2]
    said = [each.help or "" for command in commands() for each in command.params if isinstance(each, click.Option)]
    pages = [root / "README.md", *root.glob("docs/tutorials/*.md"), *root.glob("docs/howto/*.md")]
    said += [part for page in pages for part in re.split(r"\n\n|\n\|", page.read_text())]
    about = [" ".join(text.split()) for text in said if "chain model" in text and "coustic" in text]
    assert len(about) > 20
    for text in about:
        assert "post-decode-acwt" in text, text
