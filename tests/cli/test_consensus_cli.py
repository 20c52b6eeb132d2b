"""Output, messages and exit codes of the commands of consensus decoding."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
from lattice_files import write_all
from reference_graph import SHARED
from whole_files import network_of_json, read_meshes

from ninja import consensus
from ninja.cli.kaldi import ctm
from ninja.consensus import confusion_network, mbr_decode, without_empty_bins
from ninja.graph import combine, from_arcs
from ninja.io import read
from ninja.io.number_tables import read_integers
from ninja.lattice import Scales

KOREAN = SHARED / "golden" / "korean"
SAMPLE = Path(__file__).parents[1] / "data" / "english" / "graph" / "lat.ark.gz"


def lattice(key, costs=(0.5, 1.5, 0.7), labels=((1,) * 3, (2,) * 4, (2,) * 4)):
    return from_arcs(key, [0, 1, 1], [1, 2, 2], [5, 6, 7], costs, finals={2: 0.0}, labels=labels)


@pytest.fixture
def archives(tmp_path):
    """Write the lattices of two systems in different orders; the second system lacks one key."""
    write_all(tmp_path / "a.ark", (lattice(key) for key in ("one", "two", "three")))
    write_all(tmp_path / "b.ark", (lattice(key, (0.5, 0.1, 2.0)) for key in ("two", "one")))
    (tmp_path / "words.txt").write_text("<eps> 0\nthe 5\ncat 6\nhat 7\n")
    return tmp_path


def golden(name):
    if not KOREAN.exists():
        # In CI, tests/conftest.py requires them.
        pytest.skip(f"{KOREAN} is missing: Kaldi's golden files are not part of the project (CI requires them)")
    return gzip.decompress((KOREAN / f"{name}.gz").read_bytes()).decode()


def test_mbr_decode_agrees_with_lattice_mbr_decode(ninja, tmp_path):
    expected = {name: golden(f"mbr.{name}") for name in ("words", "bayes_risk", "sausage", "times")}
    code, _, err = ninja(
        "mbr-decode", KOREAN / "lat.ark.gz", "-o", tmp_path / "words", "--bayes-risk", tmp_path / "bayes_risk",
        "--sausage", tmp_path / "sausage", "--times", tmp_path / "times",
    )  # fmt: skip
    assert code == 0
    assert "60 lattices, average Bayes risk per sentence 2.19852, per word 0.193987" in err
    for name, text in expected.items():
        if name in ("words", "bayes_risk"):
            text = text.replace(" \n", "\n")  # Kaldi ends lines with a space
        assert (tmp_path / name).read_text() == text


@pytest.mark.parametrize(
    ("name", "options"),
    [("ctm_conf", []), ("ctm_conf_map", ["--decode-mbr=false"]), ("ctm_conf_aligned", ["--frame-shift", "0.03"])],
)
def test_to_ctm_conf_agrees_with_lattice_to_ctm_conf(ninja, name, options):
    expected = golden(name)
    archive = KOREAN / ("align_words.ark.gz" if name == "ctm_conf_aligned" else "lat.ark.gz")
    assert ninja("to-ctm-conf", archive, *options)[:2] == (0, expected)


def test_nbest_to_ctm_agrees_with_kaldi(ninja, tmp_path):
    expected = golden("ctm_best_aligned")
    assert ninja("1best", KOREAN / "align_words.ark.gz", "-o", tmp_path / "best.ark")[0] == 0
    assert ninja("nbest-to-ctm", tmp_path / "best.ark", "--frame-shift=0.03")[:2] == (0, expected)


def test_words_are_printed_with_a_symbol_table(ninja, archives):
    code, out, _ = ninja("mbr-decode", archives / "a.ark", "--words", archives / "words.txt")
    assert (code, out) == (0, "one the hat\ntwo the hat\nthree the hat\n")
    code, out, _ = ninja("to-ctm-conf", archives / "a.ark", "--words", archives / "words.txt", "--print-silence")
    assert code == 0
    assert out.startswith("one 1 0.00 0.00 <eps> 1.00\none 1 0.00 0.03 the 1.00\none 1 0.03 0.00 <eps> 1.00\n")


def test_mbr_decode_writes_transcripts_as_a_binary_table(ninja, archives):
    assert ninja("mbr-decode", archives / "a.ark", "-o", f"ark:{archives / 'out.ark'}")[0] == 0
    transcripts = {key: ids.tolist() for key, ids in read_integers(archives / "out.ark")}
    assert transcripts == {"one": [5, 7], "two": [5, 7], "three": [5, 7]}


def test_times_are_written_for_bins_or_for_words(ninja, archives):
    for option, expected in (([], "one 0 0 ; 0 3 ; 3 3 ; 3 7 ; 7 7 "), (["--one-best-times=true"], "one 0 3 ; 3 7 ")):
        ninja("mbr-decode", archives / "a.ark", "--times", archives / "times", *option)
        assert (archives / "times").read_text().splitlines()[0] == expected


def test_confusion_networks_are_written_as_meshes_and_json(ninja, archives):
    table = ("--words", archives / "words.txt")
    code, _, _ = ninja(
        "mbr-decode", archives / "a.ark", *table, "--mesh-dir", archives / "m", "--json", archives / "j"
    )  # fmt: skip
    assert code == 0
    assert sorted(path.name for path in (archives / "m").iterdir()) == ["one.mesh", "three.mesh", "two.mesh"]
    for (key, source), row in zip(
        read(archives / "a.ark", words=archives / "words.txt"), (archives / "j").read_text().splitlines(), strict=True
    ):
        assert confusion_network(mbr_decode(source), words=source.words).identical(network := network_of_json(row))
        assert next(read_meshes(archives / "m" / f"{key}.mesh")).identical(without_empty_bins(network))
    first = json.loads((archives / "j").read_text().splitlines()[0])
    assert first["bins"][1] == [{"word": "the", "posterior": 1.0, "start": 0.0, "duration": 0.03}]


def test_a_key_that_is_not_a_file_name_is_refused_for_a_mesh(ninja, tmp_path):
    write_all(tmp_path / "a.ark", [lattice("../up")])
    code, _, err = ninja("mbr-decode", tmp_path / "a.ark", "--mesh-dir", tmp_path / "m")
    assert code == 1
    assert "key '../up': the key is not a valid file name; use --json instead of --mesh-dir" in err
    assert not (tmp_path / "up.mesh").exists()


def test_a_mesh_folder_that_cannot_be_created_is_reported(ninja, archives):
    (archives / "file").touch()
    code, _, err = ninja("mbr-decode", archives / "a.ark", "--mesh-dir", archives / "file")
    assert code == 1
    assert "file: cannot be created: File exists" in err


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_several_systems_are_combined(ninja, archives, jobs):
    code, out, err = ninja(
        "to-ctm-conf", archives / "a.ark", "--with", archives / "b.ark", "--lat-weights", "0.4:0.6", "--jobs", jobs,
        "--acoustic-scale", "0.5", "--lm-scale", "0.5",
    )  # fmt: skip
    assert code == 0
    first, second = lattice("one"), lattice("one", (0.5, 0.1, 2.0))
    expected = mbr_decode(combine([first, second], [0.4, 0.6], Scales(0.5, 0.5)))
    assert expected.words.tolist() == [5, 6]
    assert out.splitlines()[1] == f"one 1 0.03 0.04 cat {expected.confidences[1]:.2f}"
    assert f"1 key is missing from {archives / 'b.ark'}: three" in err
    assert "three 1 0.03 0.04 hat" in out


def test_combination_applies_the_word_penalty(ninja, archives):
    combined = ["mbr-decode", archives / "a.ark", "--with", archives / "a.ark", "--bayes-risk", archives / "r"]
    single = ["mbr-decode", archives / "a.ark", "--bayes-risk", archives / "s", "--word-penalty", "0.5"]
    assert ninja(*combined, "--word-penalty", "0.5")[0] == ninja(*single)[0] == 0
    for risk, single_risk in zip((archives / "r").open(), (archives / "s").open(), strict=True):
        assert float(risk.split()[1]) == pytest.approx(float(single_risk.split()[1]), abs=1e-5)


def test_a_missing_system_is_an_error_only_if_strict(ninja, archives):
    arguments = ["mbr-decode", archives / "a.ark", "--with", archives / "b.ark"]
    assert ninja(*arguments)[0] == 0
    code, out, err = ninja(*arguments, "--strict")
    assert code == 1
    assert "1 failed: three" in err
    assert len(out.splitlines()) == 3


def test_a_failed_combination_does_not_affect_the_others(ninja, archives):
    write_all(archives / "c.ark", [lattice("one"), lattice("two", labels=((1,) * 3, (2,) * 4, (2,) * 5))])
    code, out, err = ninja("mbr-decode", archives / "c.ark", "--with", archives / "b.ark")
    assert (code, out) == (1, "one the cat\n")
    assert "key 'two': state 2 is at frame 7 on one path, but at frame 8 via arc 3; the alignments are damaged" in err


def test_to_ctm_conf_starts_from_one_best_words(ninja, archives):
    (archives / "best").write_text("one 5 6\nthree 6\n")
    code, out, err = ninja("to-ctm-conf", archives / "a.ark", "--one-best", archives / "best", "--decode-mbr=false")
    assert code == 1
    assert [line.split()[4] for line in out.splitlines()] == ["the", "cat", "cat"]
    assert f"key 'two': {archives / 'best'} has no words for this key" in err


def test_lattices_without_times_have_no_ctm(ninja, tmp_path):
    write_all(tmp_path / "a.ark", [lattice("one", labels=((), (), ())), lattice("two")])
    for verb in ("to-ctm-conf", "nbest-to-ctm"):
        code, out, err = ninja(verb, tmp_path / "a.ark")
        assert code == 1
        if verb == "to-ctm-conf":
            assert {line.split()[0] for line in out.splitlines()} == {"two"}
            assert "key 'one': the arcs have neither labels nor times" in err
        else:
            assert "the lattice is not a single path; write its best path first (ninja 1best)" in err


def test_confidence_is_the_cost_difference_to_the_second_best_path(ninja, archives):
    write_all(archives / "single.ark", [from_arcs("alone", [0], [1], [5], [0.5], finals={1: 0.0})])
    code, out, err = ninja("confidence", archives / "a.ark", archives / "single.ark", "--lm-scale", "0.5")
    assert (code, out) == (0, "one 0.4\ntwo 0.4\nthree 0.4\nalone 1e+10\n")
    assert "4 lattices, 1 of them with a single word sequence, average cost difference 0.68" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mbr-decode", "--acoustic-scale", "nan"], "--acoustic-scale is nan, but must be finite"),
        (["confidence", "--acoustic-scale", "inf"], "--acoustic-scale is inf, but must be finite"),
        (["to-ctm-conf", "--frame-shift", "0"], "--frame-shift is 0.0, but must be from 1e-6 to 1e6"),
        (["to-ctm-conf", "--frame-shift", "nan"], "--frame-shift is nan, but must be"),
        (["nbest-to-ctm", "--frame-shift", "-1"], "--frame-shift is -1.0, but must be"),
        (["mbr-decode", "--frame-shift", "inf"], "--frame-shift is inf, but must be"),
        *(
            ([*command, "--frame-shift", "1e308"], "--frame-shift is 1e+308, but must be from 1e-6 to 1e6 seconds")
            for command in (["nbest-to-ctm"], ["mbr-decode"], ["stitch"], ["show"], ["ctc-decode"])
        ),
        (["nbest-to-ctm", "--precision", "-1"], "'--precision': -1 is not in the range"),
        (["mbr-decode", "--inv-acoustic-scale", "10", "--acoustic-scale", "0.1"], "cannot be used with"),
        (["mbr-decode", "--inv-acoustic-scale", "0"], "--inv-acoustic-scale is 0, which has no inverse"),
        (["mbr-decode", "--inv-acoustic-scale", "nan"], "--inv-acoustic-scale is nan, but must be finite"),
        (["mbr-decode", "--json", "-"], "-: two outputs would be written to this file"),
        (["mbr-decode", "--lat-weights", "0.5:0.5"], "--lat-weights can be used only with --with"),
        (["mbr-decode", "--one-best-times"], "--one-best-times can be used only with --times"),
        (["mbr-decode", "--frame-shift", "0.01"], "--frame-shift can be used only with --mesh-dir or --json"),
        (["to-ctm-conf", "--strict"], "--strict can be used only with --with"),
        (["copy", "--strict"], "--strict can be used only with --include or --exclude"),
        (["mbr-decode", "--with", "b", "--lat-weights", "1"], "there are 1 weights, but 2 systems"),
        (["mbr-decode", "--with", "b", "--lat-weights", "a:b"], "--lat-weights is 'a:b', but must be numbers"),
        (["mbr-decode", "--with", "b", "--lat-weights", "0:1"], "a weight is 0.0, but must be above 0"),
    ],
)
def test_invalid_options_of_consensus_commands_are_usage_errors(ninja, archives, arguments, message):
    code, out, err = ninja(*arguments, archives / "a.ark")
    assert (code, out) == (2, "")
    assert message in err


def test_inv_acoustic_scale_is_the_inverse_of_the_acoustic_scale(ninja):
    expected = ninja("mbr-decode", SAMPLE, "--acoustic-scale", "0.1")
    assert ninja("mbr-decode", SAMPLE, "--inv-acoustic-scale", "10") == expected


def test_a_note_lists_lattices_with_approximate_confidences_once(ninja, archives, monkeypatch):
    def approximate(batch, *scales, **options):
        return [replace(result, touches_band=result.key != "two") for result in mbr_decode(batch, *scales, **options)]

    note = "2 lattices are too long for an exact result; their confidences are approximate: one, three"
    for command in ("mbr-decode", "to-ctm-conf"):
        assert note not in ninja(command, archives / "a.ark")[2]
    monkeypatch.setattr(consensus, "mbr_decode", approximate)
    monkeypatch.setattr(ctm, "mbr_decode", approximate)
    for command in ("mbr-decode", "to-ctm-conf"):
        assert ninja(command, archives / "a.ark")[2].count(note) == 1
