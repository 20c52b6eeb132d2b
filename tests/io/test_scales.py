"""The scales of paths: the same options in all commands, and scale files next to lattices."""

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
SCALES_TEXT = "acoustic_scale 0.1, word_penalty 0.5"

PATH_COMMANDS = (
    "best nbest score mbr-decode posteriors to-ctm-conf show report prune confidence arc-post 1best to-nbest"
)


def commands() -> list[click.Command]:
    candidates = [group.get_command(None, name) for name in group.list_commands(None)]  # type: ignore[arg-type]
    return [command for command in candidates if command is not None]


@pytest.mark.parametrize("name", PATH_COMMANDS.split())
def test_commands_that_compare_paths_have_one_group_of_scales(name: str) -> None:
    command = group.get_command(None, name)
    options = {option.name: option.opts for option in command.params if getattr(option, "section", None) == "Scales"}
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
    scales_used: list[Scales] = []
    monkeypatch.setattr("ninja.cli.best._transcribe", lambda *args, scales, **kwargs: scales_used.append(scales))
    lines = ["best x --inv-acoustic-scale 10", "best x --lmwt 4 --word-ins-penalty 0.5", "best x --lm-scale 2"]
    for line in lines:
        assert CliRunner().invoke(group, line.split()).exit_code == 0
    assert scales_used == [Scales(0.1), Scales(0.25, 1.0, 0.5), Scales(1.0, 2.0)]


def fork(key: str = "utt") -> Lattice:
    """Return a lattice whose best word is "a" (id 1) at acoustic scale 1, "b" (id 2) at 0.1."""
    labels = {"ali_begin": [0, 2, 4], "ali": [1, 2, 1, 2]}
    return Lattice.from_arrays(key, [0, 2, 2], [1, 1], [1, 2], [3.0, 2.0], [10.0, 15.0], [np.inf, 0.0], **labels)


@pytest.fixture
def rescored(tmp_path: Path) -> Path:
    """Create an archive with a scale file."""
    path = tmp_path / "rescored.ark.gz"
    write_all(path, [fork()], chosen=CHOSEN)
    return path


def test_a_scale_file_is_written_next_to_the_output(rescored: Path) -> None:
    assert sorted(os.listdir(rescored.parent)) == ["rescored.ark.gz", "rescored.ark.gz.scales.toml"]
    lines = (rescored.parent / "rescored.ark.gz.scales.toml").read_text().splitlines()
    assert lines[1:] == ["acoustic_scale = 0.1", "word_penalty = 0.5", "lm_weight = 0.5"]
    scales = find_scales(rescored)
    assert scales == CHOSEN
    assert scales is not None
    assert scales.path == scales_path(str(rescored))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("number", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("name", ["out.ark", "out.jsonl"])
def test_scales_may_be_numpy_numbers(tmp_path: Path, name: str, number: Callable[[float], float]) -> None:
    options = package.RescoreOptions(acoustic_scale=number(0.5), lm_weight=number(0.25), word_penalty=number(-1.0))
    chosen = ChosenScales(options.scales, options.lm_weight)
    words = package.SymbolTable.from_words(["<eps>", "a", "b"])
    with package.write(tmp_path / name, words=words, chosen=chosen) as output:
        output.write(fork())
    assert find_scales(tmp_path / name) == ChosenScales(Scales(0.5, word_penalty=-1.0), lm_weight=0.25)
    with pytest.raises(OptionError, match="lm_weight is nan"):
        package.RescoreOptions(lm_weight=number("nan"))


@pytest.mark.parametrize("name", ["best", "nbest", "mbr-decode", "posteriors", "to-ctm-conf", "1best", "confidence"])
def test_commands_use_the_scale_file_and_report_it(ninja: Ninja, rescored: Path, name: str) -> None:
    output = rescored.parent / "out"
    (rescored.parent / "words.txt").write_text("<eps> 0\na 1\nb 2\n")
    options = ("-o", str(output), *(("--frame-shift", "0.01") if name == "to-ctm-conf" else ()))
    code, _, errors = ninja(name, rescored, *options)
    content = output.read_bytes() if output.exists() else b""
    assert f"ninja: scales from {rescored}.scales.toml: {SCALES_TEXT}" in errors.splitlines()
    explicit = ninja(name, rescored, *options, "--acoustic-scale", "0.1", "--word-penalty", "0.5")
    assert (code, content) == (explicit[0], output.read_bytes() if output.exists() else b"")
    assert "scales from" not in explicit[2]  # all scales are set by options and equal the file


def test_score_uses_the_scale_file(ninja: Ninja, rescored: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("utt b\n")
    (tmp_path / "words").write_text("<eps> 0\na 1\nb 2\n")
    score = ("score", tmp_path / "text", rescored, "--words", tmp_path / "words")
    assert ninja(*score)[1].startswith("%WER 0.00")
    code, printed, errors = ninja(*score, "--acoustic-scale", "1")
    assert (code, printed[:11]) == (0, "%WER 100.00")
    assert f"scales from {rescored}.scales.toml: {SCALES_TEXT}; overridden by options: acoustic_scale 1" in errors
    os.remove(scales_path(str(rescored)))
    assert ninja(*score)[1].startswith("%WER 100.00")


def test_report_compares_both_sides_with_the_same_scales_and_shows_them(
    ninja: Ninja, rescored: Path, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("utt b\n")
    (tmp_path / "words").write_text("<eps> 0\na 1\nb 2\n")
    write_all(tmp_path / "before.ark", [fork()])
    report_page = tmp_path / "page.html"
    options = ("--ref", tmp_path / "text", "--words", tmp_path / "words", "-o", report_page)
    for sides in ((tmp_path / "before.ark", rescored), (rescored, tmp_path / "before.ark")):
        errors = ninja("report", *sides, *options)[2]
        assert "WER 0.00% before and 0.00% after" in errors
        assert "acoustic scale 0.1, word penalty 0.5" in errors
        assert "acoustic scale 0.1, word penalty 0.5" in report_page.read_text()
    errors = ninja("report", tmp_path / "before.ark", rescored, *options, "--acoustic-scale", 1)[2]
    assert "WER 100.00% before and 100.00% after" in errors
    write_all(tmp_path / "before.ark", [fork()], chosen=ChosenScales(Scales(0.2)))
    code, _, errors = ninja("report", tmp_path / "before.ark", rescored, *options)
    assert code == 2
    assert "differ; set the scales for all lattices with --acoustic-scale and --word-penalty" in errors
    scale_options = ("--acoustic-scale", 0.1, "--word-penalty", 0)
    assert ninja("report", tmp_path / "before.ark", rescored, *options, *scale_options)[0] == 0


@pytest.mark.parametrize("verb", ["prune --beam 100", "copy", "topsort", "determinize-pruned", "1best"])
def test_the_scale_file_is_copied_with_the_lattices(ninja: Ninja, rescored: Path, tmp_path: Path, verb: str) -> None:
    for target, file_name in (("next.ark", "next.ark"), (f"ark,scp:{tmp_path}/n.ark,{tmp_path}/n.scp", "n.scp")):
        target = target if ":" in target else str(tmp_path / target)
        code, _, errors = ninja(*verb.split(), rescored, "-o", target)
        assert code == 0
        assert "wrote the scales to" in errors
        assert find_scales(str(tmp_path / file_name)) == CHOSEN


@pytest.mark.parametrize("verb", ["scale --acoustic-scale 0.1", "add-penalty --word-ins-penalty 0.5"])
def test_no_scale_file_is_written_for_scaled_costs(ninja: Ninja, rescored: Path, tmp_path: Path, verb: str) -> None:
    write_all(tmp_path / "out.ark", [fork()], chosen=CHOSEN)
    assert ninja(*verb.split(), rescored, "-o", tmp_path / "out.ark")[0] == 0
    assert find_scales(tmp_path / "out.ark") is None


def test_a_stale_scale_file_is_removed(ninja: Ninja, rescored: Path, tmp_path: Path) -> None:
    write_all(tmp_path / "plain.ark", [fork()])
    assert ninja("copy", tmp_path / "plain.ark", "-o", rescored)[0] == 0
    assert sorted(os.listdir(tmp_path)) == ["plain.ark", "rescored.ark.gz"]


def test_a_failed_output_keeps_the_previous_scale_file(rescored: Path) -> None:
    output = package.write(rescored, chosen=ChosenScales())
    with pytest.raises(RuntimeError, match="in between"), output:
        fail_after(output.write, fork())
    assert find_scales(rescored) == CHOSEN
    assert sorted(os.listdir(rescored.parent)) == ["rescored.ark.gz", "rescored.ark.gz.scales.toml"]


def test_the_scale_file_of_a_folder_is_written_inside_it(tmp_path: Path) -> None:
    write_all(tmp_path / "slf", [fork("u1"), fork("u2")], to="slf", words=table(), chosen=CHOSEN)
    assert sorted(os.listdir(tmp_path / "slf")) == ["lattices.scales.toml", "u1.slf", "u2.slf"]
    assert find_scales(tmp_path / "slf") == find_scales(tmp_path / "slf" / "u1.slf") == CHOSEN
    assert [key for key, _ in package.read(tmp_path / "slf")] == ["u1", "u2"]


def test_unrelated_scale_files_in_the_folder_are_ignored(tmp_path: Path) -> None:
    write_all(tmp_path / "lat.ark", [fork()])
    for name in ("scales.toml", "weights.toml", "gone.ark.scales.toml"):
        (tmp_path / name).write_text("acoustic_scale = 0.5\n")
    assert find_scales(tmp_path / "lat.ark") is None
    assert find_scales(tmp_path) is None


def test_scales_are_applied_to_summed_costs(tmp_path: Path) -> None:
    write_all(tmp_path / "utt.fst", [fork()], chosen=CHOSEN)
    assert os.listdir(tmp_path) == ["utt.fst"]
    ((_, lattice),) = package.read(tmp_path / "utt.fst")
    assert sorted(lattice.graph.tolist()) == [3.5, 4.0]


def fail_after(function: Callable[[Lattice], None], lattice: Lattice) -> None:
    """Call a function and raise an exception after it."""
    function(lattice)
    raise RuntimeError("in between")


def table() -> package.SymbolTable:
    """Return the symbol table of the lattices of `fork`."""
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


def test_scales_that_differ_between_sources_require_options(ninja: Ninja, rescored: Path, tmp_path: Path) -> None:
    plain = tmp_path / "other.ark"
    write_all(plain, [fork("other")])
    with pytest.raises(
        OptionError,
        match=r"other\.ark has no scale file, but other lattices have one .*; set the scales for all lattices with "
        r"--acou",
    ):
        find_scales([rescored, plain])
    code, _, errors = ninja("best", rescored, plain)
    assert (code, "has no scale file" in errors) == (2, True)
    code, printed, errors = ninja("best", rescored, plain, "--acoustic-scale", "0.1", "--word-penalty", "0")
    assert (code, printed) == (0, "utt 2\nother 2\n")
    assert "using the scales of the options instead" in errors
    code, _, errors = ninja("copy", rescored, plain, "-o", tmp_path / "both.ark")
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
def test_a_damaged_scale_file_is_refused(ninja: Ninja, rescored: Path, text: str, message: str) -> None:
    Path(scales_path(str(rescored))).write_text(text)
    with pytest.raises(FormatError, match=message):
        find_scales(rescored)
    assert ninja("best", rescored)[0] == 1


def test_a_config_sets_the_scales_of_commands_that_compare_paths(ninja: Ninja, rescored: Path, tmp_path: Path) -> None:
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


def test_a_folder_with_missing_scale_files_is_refused(tmp_path: Path) -> None:
    write_all(tmp_path / "lat.1.ark", [fork("a")], chosen=CHOSEN)
    assert find_scales(tmp_path) == CHOSEN
    (tmp_path / "notes.txt").write_text("scored on Monday")
    assert find_scales(tmp_path) == CHOSEN
    write_all(tmp_path / "lat.2.ark", [fork("b")])
    message = r"lat.2.ark has no scale file, but other lattices have one .*lat.1.ark.scales"
    with pytest.raises(OptionError, match=message):
        find_scales(tmp_path)


def test_differing_scales_are_refused_unless_options_set_both(tmp_path: Path, ninja: Ninja) -> None:
    for name, chosen in (("a.ark", CHOSEN), ("b.ark", ChosenScales(Scales(0.2)))):
        write_all(tmp_path / name, [fork(name[0])], chosen=chosen)
    both = [tmp_path / "a.ark", tmp_path / "b.ark"]
    assert ninja("best", *both, "--acoustic-scale", "0.1", "--lm-scale", "2")[0] == 2  # the penalties differ
    assert ninja("best", *both, "--acoustic-scale", "0.1", "--word-penalty", "0")[0] == 0
    (tmp_path / "text").write_text("a b\nb b\n")
    (tmp_path / "words.txt").write_text("<eps> 0\na 1\nb 2\n")
    grid = ["--acoustic-scale", "0.1,0.2", "--word-penalty", "0,1"]
    assert ninja("score", tmp_path / "text", *both, *grid)[0] == 0


def test_an_archive_rewritten_after_find_scales_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "lat.ark"
    for key in ("old", "new"):
        write_all(path, [fork(key)])
        assert [stored_key for stored_key, _ in package.read(path)] == [key]
        assert find_scales(path) is None


def spoken_lists(folder: Path, *, graph: bool) -> Path:
    """Write two-best lists whose order depends on the acoustic scale, with one score or two."""
    rows = [("a b", -10.0, -3.0), ("c", -15.0, -2.0)]
    hypotheses = [{"text": text, "am": am, **({"lm": lm} if graph else {})} for text, am, lm in rows]
    path = folder / "lists.jsonl"
    path.write_text(json.dumps({"id": "u", "nbest": hypotheses}) + "\n")
    return path


ARPA = "\\data\\\nngram 1=6\n\n\\1-grams:\n-9\t<s>\n-1\t</s>\n-1\t<unk>\n-1\ta\n-1\tb\n-1\tc\n\n\\end\\\n"


@pytest.mark.parametrize("graph", [False, True])
def test_rescoring_nbest_lists_defaults_to_acoustic_scale_1_with_a_note(
    ninja: Ninja, tmp_path: Path, graph: bool
) -> None:
    lists, out = spoken_lists(tmp_path, graph=graph), tmp_path / "out.ark"
    (tmp_path / "lm.arpa").write_text(ARPA)
    form = "json:am_score=am,lm_score=lm" if graph else "json:score=am"
    rescore = ("rescore", lists, "--from", form, "--rnnlm", tmp_path / "lm.arpa", "-o", out)
    note = "using acoustic scale 1, the default for n-best lists"
    code, _, errors = ninja(*rescore)
    assert code == 0, errors
    assert note in errors
    chosen = find_scales(out)
    assert chosen is not None
    assert chosen.scales.acoustic == 1.0
    errors = ninja(*rescore, "--acoustic-scale", 0.1)[2]
    assert note not in errors
    assert find_scales(out).scales.acoustic == 0.1  # type: ignore[union-attr]


def test_only_lattices_without_graph_costs_default_to_acoustic_scale_1(ninja: Ninja, tmp_path: Path) -> None:
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


def test_the_default_acoustic_scale_is_noted(ninja, tmp_path):
    examples = Path(__file__).resolve().parents[2] / "examples"
    shutil.copy(examples / "lat.ark.gz", tmp_path)
    score = ("score", examples / "text", tmp_path / "lat.ark.gz", "--words", examples / "words.txt")
    note = "using acoustic scale 1"
    assert note in ninja(*score)[2]
    assert note not in ninja(*score, "--acoustic-scale", "1")[2]
    for name in ("best", "nbest"):
        verb = (name, tmp_path / "lat.ark.gz", "--words", examples / "words.txt", "-o", tmp_path / "out")
        assert note in ninja(*verb)[2]
        assert note not in ninja(*verb, "--lmwt", "10")[2]
    (tmp_path / "lat.ark.gz.scales.toml").write_text("acoustic_scale = 1.0\n")
    assert note not in ninja(*score)[2]
    assert note not in ninja(*verb)[2]
    assert note not in ninja("score", examples / "text", examples / "text")[2]


def test_documentation_and_help_of_chain_models_mention_post_decode_acwt() -> None:
    root = Path(__file__).resolve().parents[2]
    texts = [
        option.help or "" for command in commands() for option in command.params if isinstance(option, click.Option)
    ]
    pages = [root / "README.md", *root.glob("docs/tutorials/*.md"), *root.glob("docs/howto/*.md")]
    texts += [part for page in pages for part in re.split(r"\n\n|\n\|", page.read_text())]
    paragraphs = [" ".join(text.split()) for text in texts if "chain model" in text and "coustic" in text]
    assert len(paragraphs) > 20
    for text in paragraphs:
        assert "post-decode-acwt" in text, text
