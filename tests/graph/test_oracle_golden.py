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
def test_oracle_edits_agree_with_lattice_oracle(
    ninja: Callable[..., tuple[int, str, str]], tmp_path: Path, name: str
) -> None:
    golden = SHARED / "golden" / name
    if not golden.exists():
        # In CI conftest refuses to run without them.
        pytest.skip(f"{golden} is not here: Kaldi's answers do not come with the project (in CI they must be there)")
    text, words, unknown = SETS[name]
    edits_file, nearest_file = tmp_path / "edits", tmp_path / "nearest.ark"
    options = ("--ref", SHARED / text, "--oov", unknown, "--edits", edits_file, "--write-lattices", nearest_file)
    code, paths, err = ninja("oracle", golden / "lat.ark.gz", "--words", SHARED / words, *options)
    assert code == 0
    expected = lines(golden / "oracle.edits.gz")
    assert {key: counts for key, *counts in map(str.split, edits_file.read_text().splitlines())} == expected
    total = sum(int(count) for (count,) in expected.values())
    references = read_text(SHARED / text)
    num_words = sum(len(references[key]) for key in expected)
    assert f"Overall %WER {100 * total / num_words:g} [ {total} / {num_words}, " in err
    # The path itself may be another one that is as near: it is one of the lattice, and as near as Kaldi's says.
    hypotheses = {key: path for key, *path in map(str.split, paths.splitlines())}
    for key, lattice in read(nearest_file):
        assert lattice.num_states == lattice.num_arcs + 1, key
        assert edits(references[key], hypotheses[key]) >= int(expected[key][0]) >= 0
