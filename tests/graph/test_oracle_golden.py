"""``ninja oracle`` compared with lattice-oracle, if ../shared is available."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from reference_graph import SHARED

from ninja.evaluate import edits, read_text
from ninja.io import read

# Set of golden results: references, symbol table, and the id of unknown words in the recipe.
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
        # In CI, tests/conftest.py stops the run if these files are missing.
        pytest.skip(
            f"{golden} is missing: Kaldi's results are not distributed with the project (in CI they are required)"
        )
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
    # The path may differ from Kaldi's if both have the same number of edits.
    hypotheses = {key: path for key, *path in map(str.split, paths.splitlines())}
    for key, lattice in read(nearest_file):
        assert lattice.num_states == lattice.num_arcs + 1, key
        assert edits(references[key], hypotheses[key]) >= int(expected[key][0]) >= 0
