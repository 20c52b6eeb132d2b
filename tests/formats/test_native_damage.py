"""Damage of a lattice in a mapped native file raises an error when the lattice is used, or earlier."""

from __future__ import annotations

from pathlib import Path

import pytest
from lattice_files import write_all

import ninja
from ninja.errors import FormatError, NinjaError
from ninja.graph import best_path

SLF = """N=3 L=2
I=0 t=0.0
I=1 t=0.5
I=2 t=1.0
J=0 S=0 E=1 W=a a=-1.0 l=-2.0
J=1 S=1 E=2 W=b a=-1.0 l=-2.0
"""


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Write a native file with the lattices a and b, and flip one bit of a."""
    pytest.importorskip("pyarrow")  # optional; required in CI (conftest.py)
    (tmp_path / "u.slf").write_text(SLF)
    [(_, lattice)] = ninja.read(tmp_path / "u.slf")
    path = tmp_path / "two.arrow"
    write_all(str(path), [lattice.with_key("a"), lattice.with_key("b")])
    content = bytearray(path.read_bytes())
    content[content.index(lattice.graph.tobytes())] ^= 1
    path.write_bytes(content)
    return path


def test_damage_in_a_mapped_lattice_is_raised_on_first_use(damaged: Path) -> None:
    (_, first), (_, second) = ninja.read(damaged)
    assert (first.key, second.num_arcs, len(second.dst)) == ("a", 2, 2)
    with pytest.raises(FormatError, match=r"two\.arrow, key 'a'"):
        _ = first.graph


def test_damage_in_a_mapped_lattice_is_passed_to_on_error(damaged: Path) -> None:
    errors: list[NinjaError] = []
    assert [key for key, _ in ninja.read(damaged, on_error=errors.append)] == ["b"]
    assert [error.key for error in errors] == ["a"]


def test_commands_skip_a_damaged_mapped_lattice(damaged: Path, ninja) -> None:
    code, stdout, errors = ninja("best", damaged)
    assert (code, [line.split()[0] for line in stdout.splitlines()]) == (1, ["b"])
    assert "key 'a'" in errors


def test_a_huge_offset_does_not_affect_other_files_of_a_folder(damaged: Path) -> None:
    content = damaged.read_bytes()
    damaged.unlink()
    (damaged.parent / "u.slf").write_text(SLF)
    size = int.from_bytes(content[-10:-6], "little")
    footer = bytearray(content[-10 - size : -10])
    errors: list[NinjaError] = []
    for place in range(0, size - 8, 8):  # some of these words are offsets in the file
        damaged_footer = footer[:place] + (2**63 - 1).to_bytes(8, "little") + footer[place + 8 :]
        (damaged.parent / "x.arrow").write_bytes(content[: -10 - size] + damaged_footer + content[-10:])
        lattices = dict(ninja.read(damaged.parent, on_error=errors.append))
        sentences = {key: lattice.words.spell(best_path(lattice).words) for key, lattice in lattices.items()}
        assert sentences["u"] == ["a", "b"]
    assert len(errors) > 10
