"""N-best lists in columns: reading and rejected files."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_files import valid_entries

from ninja import read
from ninja.errors import FormatError, OptionError
from ninja.formats.format import by_mark
from ninja.formats.nbest.columns import ColumnOptions, read_columns
from ninja.graph import lattice_nbest

SHARED = Path(__file__).resolve().parents[3] / "shared/data/formats/ami_slf"
LISTS = b"""\
utt-a-0   172.140   -11.5  -9.25 |   HERE WE GO
utt-a-1   176.800   -17.0  -17.5 |   HERE
utt-b-0   1.5   -2.5  -3.5 |
"""


def test_scores_become_costs():
    first, second = valid_entries(read_columns(LISTS, "f"))
    assert (first.key, second.key) == ("utt-a", "utt-b")
    assert [hypothesis.words for hypothesis in first.hypotheses] == [("HERE", "WE", "GO"), ("HERE",)]
    assert [hypothesis.acoustic_cost for hypothesis in first.hypotheses] == [-172.14, -176.8]
    assert [hypothesis.graph_cost for hypothesis in first.hypotheses] == [11.5, 17.0]
    assert second.hypotheses[0].words == ()


def test_options_select_the_columns():
    (first, _) = valid_entries(read_columns(LISTS, "f", ColumnOptions(acoustic=None, graph=2)))
    assert [hypothesis.graph_cost for hypothesis in first.hypotheses] == [9.25, 17.5]
    assert [hypothesis.acoustic_cost for hypothesis in first.hypotheses] == [0, 0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "there are no hypotheses"),
        (b"utt-0 1 2 HERE\n", "f:1: expected a key such as utt-1, scores, a bar and words, found 'utt-0 1 2 HERE'"),
        (b"utt 1 2 | HERE\n", "f:1: expected a key such as utt-1, scores"),
        (b"utt-0 | HERE\n", "f:1: expected a key such as utt-1, scores"),
        (b"utt-0 1 x | HERE\n", "f:1, key 'utt': expected a score"),
        (b"utt-0 1 nan | HERE\n", "f:1, key 'utt': expected a score"),
        (b"utt-0 1 2 | A\nutt-1 1 | B\n", "f:2, key 'utt': the line has 1 score, but the first line has 2"),
        (b"utt-0 1 | A\n", "f:1, key 'utt': there is no column 1, because the line has 1 score"),
        (b"a-0 1 2 | A\nb-0 1 2 | B\na-1 1 2 | C\n", "f:3, key 'a': the lines of the utterance are not consecutive"),
    ],
)
def test_invalid_lines_raise_format_error_with_their_line(content, message):
    with pytest.raises(FormatError) as caught:
        valid_entries(read_columns(content, "f"))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"acoustic": -1}, "column -1 does not exist"),
        ({"acoustic": 1}, "column 1 cannot be both the acoustic and the graph cost"),
    ],
)
def test_invalid_columns_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        ColumnOptions(**options)


def test_lists_are_detected_by_their_bars_and_become_lattices(tmp_path):
    assert by_mark(LISTS).name == "columns"
    (tmp_path / "lists").write_bytes(LISTS)
    lattices = dict(read(tmp_path / "lists"))
    hypotheses = lattice_nbest(lattices["utt-a"], 5).hypotheses
    assert [hypothesis.words for hypothesis in hypotheses] == [("HERE", "WE", "GO"), ("HERE",)]


# The data are not part of the project; in CI, conftest.py turns this skip into a failure.
@pytest.mark.skipif(not SHARED.exists(), reason="needs AMI's list, which is not part of the project")
def test_the_ami_list_is_read_completely():
    (lattice,) = (lattice for _, lattice in read(next(SHARED.glob("*.nbest"))))
    lines = next(SHARED.glob("*.nbest")).read_text().splitlines()
    hypotheses = lattice_nbest(lattice, 100).hypotheses
    assert {" ".join(hypothesis.words) for hypothesis in hypotheses} == {
        " ".join(line.partition("|")[2].split()) for line in lines
    }
    costs = {" ".join(hypothesis.words): (hypothesis.acoustic_cost, hypothesis.graph_cost) for hypothesis in hypotheses}
    for line in lines:
        head, _, text = line.partition("|")
        expected = [-float(field) for field in head.split()[1:3]]
        assert sum(costs[" ".join(text.split())]) <= sum(expected) + 1e-3
