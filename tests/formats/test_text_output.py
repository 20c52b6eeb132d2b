"""Destinations of text results: files, wspecifiers of Kaldi, and standard output."""

import pytest
from lattice_files import write_all

import ninja as package
from ninja.errors import OptionError
from ninja.files.output import text_output
from ninja.graph import from_arcs


@pytest.mark.parametrize("name", ["{}", "ark:{}", "ark,t:{}"])
def test_a_wspecifier_writes_to_its_file(tmp_path, name):
    path = tmp_path / "text"
    with text_output(name.format(path)) as stream:
        stream.write("a b\n")
    assert path.read_text() == "a b\n"


def test_a_wspecifier_with_two_files_is_refused(tmp_path):
    with pytest.raises(OptionError, match="specifies two files"), text_output(f"ark,scp:{tmp_path}/a,{tmp_path}/b"):
        pass


def test_outputs_must_be_different_files_in_existing_folders(tmp_path, ninja):
    path = str(tmp_path / "a")
    code, _, errors = ninja("best", "lat.ark", "-o", path, "--cost", f"{tmp_path}/./a")
    assert (code, "two outputs would be written to this file" in errors) == (2, True)
    code, _, errors = ninja("best", "lat.ark", "-o", tmp_path / "none" / "a")
    assert (code, f"the folder {tmp_path / 'none'} does not exist" in errors) == (2, True)


def test_outputs_cannot_overwrite_inputs(tmp_path, ninja):
    path = tmp_path / "lat.ark"
    write_all(path, [from_arcs("one", [0, 1], [1, 2], [5, 6], [0.5, 1.5], finals={2: 0.0})])
    for verb in ("best", "nbest", "depth", "posteriors", "confidence", "push"):
        code, _, errors = ninja(verb, path, "-o", path)
        assert (code, "is an input and would be overwritten" in errors) == (2, True), verb
    code, _, errors = ninja("best", path, "--cost", "-")
    assert (code, "two outputs would be written to this file" in errors) == (2, True)
    assert [key for key, _ in package.read(path)] == ["one"]
