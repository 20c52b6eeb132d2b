"""``ninja oracle``, compared with results of lattice-oracle, if ../shared is available."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from reference_graph import SHARED

from ninja.evaluate import edits, read_text
from ninja.io import read

# Folder of the answers; references; symbol table; what the recipe gave unknown words: their id.
SETS = {
    "english": ("data/english/test/libri/text", "data/english/words.txt.gz", "1"),
    "korean": ("data/korean/text", "data/korean/words.txt.gz", "1"),
}


def lines(path: Path) -> dict[str, list[str]]:
    return {key: words for key, *words in map(str.split, gzip.open(path, "rt", encoding="utf-8"))}


@pytest.mark.parametrize("name", SETS)
def test_edits_are_those_of_lattice_oracle(
    ninja: Callable[..., tuple[int, str, str]], tmp_path: Path, name: str
) -> None:
    golden = SHARED / "golden" / name
    if not golden.exists():
        # In CI conftest refuses to run without them.
        pytest.skip(f"{golden} is not here: Kaldi's answers do not come with the project (in CI they must be there)")
    text, words, unknown = SETS[name]
    found, nearest = tmp_path / "edits", tmp_path / "nearest.ark"
    given = ("--ref", SHARED / text, "--oov", unknown, "--edits", found, "--write-lattices", nearest)
    code, paths, err = ninja("oracle", golden / "lat.ark.gz", "--words", SHARED / words, *given)
    assert code == 0
    wanted = lines(golden / "oracle.edits.gz")
    assert {key: counts for key, *counts in map(str.split, found.read_text().splitlines())} == wanted
    total = sum(int(count) for (count,) in wanted.values())
    references = read_text(SHARED / text)
    said = sum(len(references[key]) for key in wanted)
    assert f"Overall %WER {100 * total / said:g} [ {total} / {said}, " in err
    # The path itself may be another one that is as near: it is one of the lattice, and as near as Kaldi's says.
    spoken = {key: path for key, *path in map(str.split, paths.splitlines())}
    for key, lattice in read(nearest):
        assert lattice.num_states == lattice.num_arcs + 1, key
        assert edits(references[key], spoken[key]) >= int(wanted[key][0]) >= 0
