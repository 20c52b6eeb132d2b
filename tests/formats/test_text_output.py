"""Destinations of text results: files, wspecifiers of Kaldi, and standard output."""

import pytest

from ninja.errors import OptionError
from ninja.files.output import text_output


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
    for outputs in (["-o", path, "--cost", f"{tmp_path}/./a"], ["--cost", "-"]):
        code, _, errors = ninja("best", "lat.ark", *outputs)
        assert (code, "two outputs would be written to this file" in errors) == (2, True)
    code, _, errors = ninja("best", "lat.ark", "-o", tmp_path / "none" / "a")
    assert (code, f"the folder {tmp_path / 'none'} does not exist" in errors) == (2, True)
