"""Texts specified in all forms of Kaldi, and Kaldi's syntax on the command line."""

import gzip
import io

import pytest
from ended import interrupt_at
from lattice_files import write_all

from ninja import read
from ninja.errors import FormatError, InputError, Log, OptionError
from ninja.files.text import read_named
from ninja.formats.kaldi.transition_model import read_transition_model
from ninja.graph import from_arcs, prune
from ninja.pipeline import OnLattices, stream


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text").write_text("utt a b\n")
    (tmp_path / "text.gz").write_bytes(gzip.compress(b"utt a b\n"))
    return tmp_path / "text"


@pytest.fixture
def archive(tmp_path):
    write_all(tmp_path / "lat.ark", (from_arcs(key, [0], [1], [1], [1.0], finals={1: 0.0}) for key in ("a", "b", "a")))
    return tmp_path / "lat.ark"


@pytest.mark.parametrize("name", ["{}", "ark:{}", "ark,t:{}", "gunzip -c {}.gz |", "ark:zcat {}.gz|", "cat {} |"])
def test_a_text_can_be_a_kaldi_rspecifier(text, name):
    assert read_named(name.format(text)) == "utt a b\n"


@pytest.mark.parametrize("name", ["-", "ark:-", "ark,t:-"])
def test_a_text_can_be_standard_input(monkeypatch, name):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"utt \xc3\xa4\n")))
    assert read_named(name) == "utt ä\n"


def test_other_commands_are_not_run_and_binary_input_is_refused(tmp_path, monkeypatch):
    with pytest.raises(FormatError, match="is not allowed"):
        read_named("touch x |")
    with pytest.raises(InputError, match="none"):
        read_named(str(tmp_path / "none"))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"utt a\n\xff\n")))
    with pytest.raises(FormatError, match="standard input:2: not UTF-8"):
        read_named("-")


def test_the_scoring_command_line_of_kaldi_works(ninja, text, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"utt a c\n")))
    code, stdout, errors = ninja("compute-wer", "--text", "--mode=present", f"ark:{text}", "ark,p:-")
    assert code == 0, errors
    assert stdout.startswith("%WER 50.00 [ 1 / 2,")


def test_a_model_pattern_must_match_one_file(tmp_path):
    for number in (1, 2):
        (tmp_path / f"{number}.mdl").write_text("")
    with pytest.raises(InputError, match="refers to 2 files"):
        read_transition_model(f"{tmp_path}/*.mdl")


def test_a_wspecifier_as_second_argument_is_refused(ninja, archive, tmp_path):
    code, _, errors = ninja("prune", f"ark:{archive}", f"ark:{tmp_path}/out.ark")
    assert code == 2
    assert "out.ark would be read, not written; specify the output with -o" in errors
    assert ninja("prune", f"ark:{archive}", f"ark:{archive}", "-o", tmp_path / "out.ark")[0] == 0
    assert ninja("info", f"ark:{archive}", f"ark:{archive}")[0] == 0


def test_an_archive_without_lattices_fails(ninja, tmp_path):
    (tmp_path / "empty.ark").write_bytes(b"")
    code, _, errors = ninja("prune", tmp_path / "empty.ark", "-o", tmp_path / "out.ark")
    assert code == 1
    assert f"{tmp_path / 'empty.ark'}: found no lattices; no output is written" in errors
    assert not (tmp_path / "out.ark").exists()


def test_resume_skips_a_duplicate_key_only_as_often_as_written(ninja, archive, tmp_path, monkeypatch):
    output = tmp_path / "out.ark"
    with interrupt_at(2, monkeypatch):
        assert ninja("prune", archive, "-o", output, "--resume")[0] == 130
    code, _, errors = ninja("prune", archive, "-o", output, "--resume")
    assert code == 0
    assert "skipped 1 lattice that is already in the output" in errors
    assert [key for key, _ in read(output)] == ["a", "b", "a"]


def test_a_wrong_option_is_reported_once(ninja, archive, tmp_path):
    code, _, errors = ninja("prune", archive, "--acoustic-scale", "nan", "-o", tmp_path / "out.ark")
    assert code == 2
    assert len(errors.splitlines()) == 1
    failures = []
    with pytest.raises(OptionError):
        list(stream(read(archive), OnLattices(lambda lattice: prune(lattice, -1.0)), log=Log(on_error=failures.append)))
    assert failures == []
