"""What reading loses is named, and what is wrong with a mapped lattice is said at the latest where it is used."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ninja
from ninja.errors import FormatError, NinjaError
from ninja.formats.slf import read_slf, read_slf_telling, read_slf_whole

SLF = """VERSION=1.0
UTTERANCE=u
lmscale=12.5
wdpenalty=-1
N=3 L=2
I=0 t=0.0 v=1
I=1 t=0.5 v=1
I=2 t=1.0 v=2
J=0 S=0 E=1 W=a a=-1.0 l=-2.0 n=-3.0
J=1 S=1 E=2 W=</s> a=-1.0 l=-2.0
"""
LOST = [
    "1 times the word '</s>': read as epsilon",
    "header fields lmscale, wdpenalty",
    "link fields n",
    "node fields v",
]


def slf(tmp_path: Path, name: str = "u.slf") -> Path:
    path = tmp_path / name
    path.write_text(SLF)
    return path


def test_reading_tells_what_it_loses(tmp_path: Path) -> None:
    lost: dict[str, list[str]] = {}
    [(key, _)] = ninja.read(slf(tmp_path), lost=lambda key, what: lost.update({key: list(what)}))
    assert lost == {key: LOST}


def test_telling_names_what_keeping_keeps() -> None:
    lattice, lost = read_slf_telling(SLF.encode(), "u")
    whole = read_slf_whole(SLF.encode(), "u")
    assert (*whole.lost, *whole.extras.names("u")) == lost
    for name in ("arc_begin", "dst", "word", "graph", "acoustic", "final_graph", "final_acoustic", "time"):
        np.testing.assert_array_equal(getattr(lattice, name), getattr(read_slf(SLF.encode(), "u"), name))


@pytest.mark.parametrize("verb", [("convert",), ("prune", "--beam=9")])
def test_verbs_that_write_lattices_name_what_reading_lost_of_how_many(tmp_path: Path, ninja, verb: tuple[str]) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    slf(folder, "u.slf")
    slf(folder, "v.slf")
    code, _, errors = ninja(*verb, folder, "-o", tmp_path / "out", "--to", "slf")
    assert code == 0
    assert [line for line in errors.splitlines() if "lost" in line] == [
        "ninja: lost in reading: link fields n (2 lattices)",
        "ninja: lost in reading: node fields v (2 lattices)",
        "ninja: lost in reading: the word '</s>': read as epsilon (2 lattices)",
        "ninja: lost in reading: header fields UTTERANCE, lmscale, wdpenalty (1 lattices)",
        "ninja: lost in reading: header fields lmscale, wdpenalty (1 lattices)",
    ]


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A file of ours with the lattices a and b; of the first a bit is flipped."""
    pytest.importorskip("pyarrow")  # an extra; CI has it (conftest.py)
    [(_, lattice)] = ninja.read(slf(tmp_path))
    path = tmp_path / "two.arrow"
    with ninja.write(str(path)) as output:
        output.write(lattice.with_key("a"))
        output.write(lattice.with_key("b"))
    content = bytearray(path.read_bytes())
    content[content.index(lattice.graph.tobytes())] ^= 1
    path.write_bytes(content)
    return path


def test_damage_in_a_mapped_lattice_is_raised_where_it_is_used(damaged: Path) -> None:
    (_, first), (_, second) = ninja.read(damaged)
    assert (first.key, second.num_arcs, len(second.dst)) == ("a", 2, 2)
    with pytest.raises(FormatError, match=r"two\.arrow, key 'a'"):
        _ = first.graph


def test_damage_in_a_mapped_lattice_leaves_it_out_where_errors_are_wanted(damaged: Path) -> None:
    errors: list[NinjaError] = []
    assert [key for key, _ in ninja.read(damaged, on_error=errors.append)] == ["b"]
    assert [error.key for error in errors] == ["a"]


def test_verbs_leave_a_damaged_mapped_lattice_out(damaged: Path, ninja) -> None:
    code, printed, errors = ninja("best", damaged)
    assert (code, [line.split()[0] for line in printed.splitlines()]) == (1, ["b"])
    assert "key 'a'" in errors
