"""Where text results go: files, Kaldi's names for them, and standard output."""

import pytest

from ninja.cli.options import check_files, text_output
from ninja.errors import OptionError


@pytest.mark.parametrize("name", ["{}", "ark:{}", "ark,t:{}"])
def test_kaldis_names_of_a_text_are_its_file(tmp_path, name):
    path = tmp_path / "text"
    with text_output(name.format(path)) as stream:
        stream.write("a b\n")
    assert path.read_text() == "a b\n"


def test_a_text_is_not_two_files(tmp_path):
    with pytest.raises(OptionError, match="names two files"), text_output(f"ark,scp:{tmp_path}/a,{tmp_path}/b"):
        pass


def test_a_result_may_not_fall_on_another_or_on_what_is_read(tmp_path):
    here = str(tmp_path / "a")
    check_files([here, None, "-"], [str(tmp_path / "b"), "-", None])
    with pytest.raises(OptionError, match="two results would go there"):
        check_files([here, f"{tmp_path}/./a"])
    with pytest.raises(OptionError, match="is read and would be written over"):
        check_files([here], [here])
    with pytest.raises(OptionError, match="there is no folder"):
        check_files([str(tmp_path / "none" / "a")])
