"""Hash tables of the kernels: input files cannot cause collisions, and results do not depend on the hash key."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from linear_time import assert_linear

from ninja.formats.slf import read_slf
from ninja.lm.ngram.model import read_arpa

ROOT = Path(__file__).resolve().parents[2]
Words = npt.NDArray[np.uint64]
NUM_WORDS = 8_000
MURMUR = 0xC6A4A7935BD1E995
GOLDEN = 0x9E3779B97F4A7C15


def inverse(factor: int) -> np.uint64:
    return np.uint64(pow(factor, -1, 1 << 64))


def with_murmur_hashes(hashes: Words) -> Words:
    """Return the words of eight bytes that have the given hashes of libstdc++ (std::hash of a string)."""
    value = (hashes ^ hashes >> 47) * inverse(MURMUR)
    value = (value ^ value >> 47) * inverse(MURMUR)
    value = (value ^ np.uint64(0xC70F6907 ^ (8 * MURMUR & (1 << 64) - 1))) * inverse(MURMUR)
    return (value ^ value >> 47) * inverse(MURMUR)


def with_product_hashes(hashes: Words) -> Words:
    """Return the words of eight bytes that have the given hashes, computed by multiplication with a constant."""
    return (hashes ^ hashes >> 32) * inverse(GOLDEN) ^ np.uint64(8)


@cache
def colliding_words(words_of: Callable[[Words], Words]) -> list[str]:
    """Return words whose hashes end in 24 zero bits, so that they collide in every table."""
    words: list[str] = []
    step = 1 << 18
    for begin in range(1, 1 << 30, step):
        candidates = words_of(np.arange(begin, begin + step, dtype=np.uint64) << np.uint64(24))
        letters = candidates.view(np.uint8).reshape(-1, 8)
        is_word = ((letters > 39) & (letters < 127) & (letters != 92)).all(axis=1)  # no quotes, number signs, escapes
        words += (row.tobytes().decode() for row in letters[is_word])
        if len(words) >= NUM_WORDS:
            return words
    raise AssertionError("too few words")


def arpa(words: list[str], path: Path) -> Callable[[], object]:
    lines = "".join(f"-1 {word}\n" for word in words)
    path.write_text(f"\\data\\\nngram 1={len(words) + 2}\n\n\\1-grams:\n-1 <s>\n-1 </s>\n{lines}\n\\end\\\n")
    return lambda: read_arpa(str(path))


def slf(words: list[str], path: Path) -> Callable[[], object]:
    lines = "".join(f"J={number} S=0 E=1 W={word}\n" for number, word in enumerate(words))
    content = f"VERSION=1.0\nN=2 L={len(words)}\nI=0\nI=1\n{lines}".encode()
    return lambda: read_slf(content, "utt")


@pytest.mark.parametrize("words_of", [with_murmur_hashes, with_product_hashes])
@pytest.mark.parametrize("read", [arpa, slf])
def test_hash_collisions_do_not_slow_readers_down(
    read: Callable[[list[str], Path], Callable[[], object]], words_of: Callable[[Words], Words], tmp_path: Path
) -> None:
    words = colliding_words(words_of)
    assert_linear(lambda size: read(words[:size], tmp_path / "file"), len(words) // 4, largest=len(words))


def test_every_hash_table_has_a_key() -> None:
    sources = {path: path.read_text() for path in (ROOT / "ext").glob("*/*.[hp][px]*")}
    tables = [table for text in sources.values() for table in re.findall(r"unordered_\w+<.*?> \w+;", text)]
    assert tables
    assert [table for table in tables if "KeyedHash" not in table] == []
    unkeyed_pattern = re.compile(r"std::hash|0x9e3779b|0xbf58476d|0xc6a4a793", re.IGNORECASE)
    assert [path for path, text in sources.items() if unkeyed_pattern.search(text)] == []


RESULTS = """
import hashlib, sys
import ninja
from ninja import graph
from ninja.consensus import mbr_decode
from ninja.lm.ngram.model import read_arpa
digest = hashlib.sha256()
def add(lattice):
    for name in ("arc_begin", "dst", "word", "graph", "acoustic", "ali_begin", "ali", "final_graph", "final_acoustic"):
        digest.update(getattr(lattice, name).tobytes())
for _, lattice in ninja.read(sys.argv[1]):
    pruned = graph.prune(lattice, 4.0, ninja.Scales(0.1))
    bare = pruned.replace(ali=pruned.ali[:0], ali_begin=0 * pruned.ali_begin)
    for result in (
        graph.determinize_pruned(pruned, 4.0, 0.1), graph.minimize(pruned), graph.push(pruned),
        graph.union([pruned, lattice]), graph.determinize(graph.remove_epsilons(pruned)),
    ):
        add(result[0] if isinstance(result, tuple) else result)
    digest.update(mbr_decode(pruned).words.tobytes())
print(digest.hexdigest())
"""


def test_results_do_not_depend_on_the_hash_key() -> None:
    command = [sys.executable, "-c", RESULTS, str(ROOT / "examples" / "lat.ark.gz")]
    runs = [subprocess.run(command, capture_output=True, text=True) for _ in range(2)]
    assert [run.stderr for run in runs] == ["", ""]
    assert runs[0].stdout == runs[1].stdout
