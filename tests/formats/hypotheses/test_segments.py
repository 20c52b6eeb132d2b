"""Lists of other formats are written as SegLST."""

import json
from dataclasses import replace

import pytest
from hypothesis_files import FOLDER
from lattice_files import write_all

import ninja as package
from ninja.errors import LatticeError, OutputError
from ninja.lattice.lattice import ListRecord, Origin
from ninja.lattice.nbest import NBest, sentence

TIMED = NBest("a", (sentence(("Hello", "é."), times=((10, 50), (40, 75))),), 0.01)


def write(path, *items, to="seglst"):
    write_all(path, items, to=to)
    return json.loads(path.read_text())


def test_a_segment_contains_the_known_fields(tmp_path):
    origin = Origin(None, 0, 0, ("x",), 1.5, 2.25, speaker="Ann", channel="2")
    untimed = NBest("b", (sentence(("x",)),), record=ListRecord({}, {}, origin=origin))
    assert write(tmp_path / "x.json", TIMED, untimed, NBest("c", (sentence(()),))) == [
        {"session_id": "a", "words": "Hello é.", "start_time": 0.1, "end_time": 0.75},
        {"session_id": "b", "words": "x", "speaker": "Ann", "channel": "2", "start_time": 1.5, "end_time": 2.25},
        {"session_id": "c", "words": ""},
    ]
    assert write(tmp_path / "x.json") == []


def test_the_segments_option_sets_the_session(tmp_path):
    (tmp_path / "segments").write_text("a rec 10.5 12\n")
    to = f"seglst:segments={tmp_path}/segments"
    assert write(tmp_path / "x.json", TIMED, to=to) == [
        {"session_id": "rec", "words": "Hello é.", "start_time": 10.6, "end_time": 11.25}
    ]
    with (
        package.write(tmp_path / "x.json", to=to) as output,
        pytest.raises(LatticeError, match="has no segment for this utterance"),
    ):
        output.write(replace(TIMED, key="b"))


def test_seglst_is_unchanged_after_write_and_read(tmp_path, ninja):
    write(tmp_path / "x.json", TIMED, NBest("b", (sentence(("x",)),)))
    assert ninja("convert", tmp_path / "x.json", "-o", tmp_path / "y.json")[0] == 0
    assert (tmp_path / "y.json").read_bytes() == (tmp_path / "x.json").read_bytes()
    lattices = [lattice for _, lattice in package.read(tmp_path / "x.json", format="seglst")]
    assert [lattice.record.origin.words for lattice in lattices] == [("Hello", "é."), ("x",)]
    assert lattices[0].record.origin.begin == 0.1


def test_segments_of_a_file_cannot_be_joined_with_other_lists(tmp_path):
    (_, first), *_ = package.read(FOLDER / "seglst.json")
    with package.write(tmp_path / "x.json", to="seglst") as output:
        output.write(first)
        with pytest.raises(
            OutputError, match="lists from seglst files and other lists cannot be joined; write them to separate files"
        ):
            output.write(TIMED)


def test_losses_are_reported(tmp_path):
    with package.write(tmp_path / "x.json", to="seglst") as output:
        output.write(TIMED)
    assert set(output.lost) == {"word times"}


def test_a_file_whose_segments_all_fail_is_copied(tmp_path, ninja):
    text = (FOLDER / "seglst.json").read_text().replace('"end_time": "', '"end_time": "-')
    (tmp_path / "x.json").write_text(text)
    ninja("convert", tmp_path / "x.json", "--from", "seglst", "--to", "seglst", "-o", tmp_path / "y.json")
    assert (tmp_path / "y.json").read_text() == text
