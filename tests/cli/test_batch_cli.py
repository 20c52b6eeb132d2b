"""Output of commands that process batches: it does not depend on the batch size, and errors affect single lattices
only."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from lattice_files import write_all

from ninja.formats.kaldi import archive
from ninja.graph import from_arcs
from ninja.lattice import Lattice

Ninja = Callable[..., tuple[int, str, str]]
VERBS = {
    "best": (),
    "best-path": (),
    "posteriors": ("--words", "words"),
    "arc-post": ("--print-alignment",),
    "mbr-decode": ("--sausage", "sausage", "--times", "times"),
    "to-ctm-conf": ("--words", "words"),
    "oracle": ("--ref", "text", "--words", "words", "--write-lattices", "paths.ark"),
}
DEAD = Lattice.from_arrays("dead", [0, 1, 1, 1], [1], [1], [0], [0], [np.inf, np.inf, 0])
INCONSISTENT = from_arcs("inconsistent", [0, 0], [1, 1], [1, 2], [0.0] * 2, finals={1: 0.0}, labels=[[1], [1, 1]])


def word_lattice(number: int) -> Lattice:
    """Return a lattice with up to eight words and an alternative to each."""
    random = np.random.default_rng(number)
    states = int(random.integers(2, 10))
    src = np.repeat(np.arange(states - 1), 2)
    cost, word = random.exponential(1.0, len(src)), random.integers(1, 5, len(src))
    return from_arcs(f"u{number}", src, src + 1, word, cost, finals={states - 1: 0.0}, labels=[[7, 8]] * len(src))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write valid lattices, the same lattices mixed with damaged ones, and references for most of them."""
    monkeypatch.chdir(tmp_path)
    valid = [word_lattice(number) for number in range(40)]
    (tmp_path / "words").write_text("".join(f"{word} {number}\n" for number, word in enumerate(["<eps>", *"abcd"])))
    (tmp_path / "text").write_text("".join(f"{lattice.key} a b d\n" for lattice in [*valid[1:], DEAD, INCONSISTENT]))
    for name, lattices in (("valid", valid), ("damaged", [*valid[:9], DEAD, *valid[9:25], INCONSISTENT, *valid[25:]])):
        write_all(tmp_path / f"{name}.ark", lattices)
    return tmp_path


def run_command(ninja: Ninja, files: Path, *arguments: object) -> tuple[int, str, dict[str, bytes]]:
    """Run a command; return its exit code, its messages and the files that it writes."""
    before = {path: path.read_bytes() for path in files.iterdir()}
    code, _, errors = ninja(*arguments, "-o", "out")
    outputs = {path.name: path.read_bytes() for path in files.iterdir() if path.read_bytes() != before.get(path)}
    for name in outputs:
        (files / name).unlink()
    return code, re.sub(r", \d.* s$", "", errors, flags=re.MULTILINE), outputs


@pytest.mark.parametrize("verb", VERBS)
def test_output_does_not_depend_on_the_numbers_of_threads_and_batches(
    ninja: Ninja, files: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    expected = run_command(ninja, files, verb, "damaged.ark", *VERBS[verb], "--jobs", 1)
    assert expected[0] == 1
    for chunk in (200, 1500, 1 << 20):
        monkeypatch.setattr(archive, "CHUNK", chunk)
        for jobs in (1, 2, 3, 7):
            assert run_command(ninja, files, verb, "damaged.ark", *VERBS[verb], "--jobs", jobs) == expected


@pytest.mark.parametrize("verb", VERBS)
def test_a_failed_lattice_does_not_affect_the_others(ninja: Ninja, files: Path, verb: str) -> None:
    failed_keys = ["dead"] if verb in ("best", "best-path", "oracle") else ["dead", "inconsistent"]
    code, errors, outputs = run_command(ninja, files, verb, "damaged.ark", *VERBS[verb])
    failures = [line for line in errors.splitlines() if line.startswith("ninja: failed: ")]
    assert (code, len(failures)) == (1, len(failed_keys))
    assert all(f"key '{key}'" in line for key, line in zip(failed_keys, failures, strict=True))
    if "inconsistent" in failed_keys:
        assert run_command(ninja, files, verb, "valid.ark", *VERBS[verb])[0::2] == (0, outputs)
