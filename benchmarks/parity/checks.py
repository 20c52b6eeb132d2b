"""What "equal" means for each kind of answer of Kaldi's: functions from two files to a count and a worst difference."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

import ninja
import ninja.graph
from ninja.graph import equivalent, from_arcs, nbest, state_times
from ninja.lattice import Lattice, Scales

NUM_SEQUENCES = 1000  # of which costs and alignments are compared one by one, the best ones
EDGE = 1e-3  # cost within which a sequence may fall on either side of a bound


@dataclass(slots=True)
class Finding:
    """What a comparison came to."""

    count: int = 0  # lattices compared, or lines
    equal: int = 0
    worst: float | None = 0.0  # largest difference of a number; None where only words are compared
    unequal: tuple[str, ...] = ()  # the keys, the first few

    def add(self, key: str, same: bool, difference: float = 0.0) -> None:
        """Count one comparison."""
        self.count += 1
        self.equal += same
        if self.worst is not None:
            self.worst = max(self.worst, difference)
        if not same:
            self.unequal = (*self.unequal, key)[:5]


Check = Callable[[Path, Path], Finding]


def lattices(path: Path) -> dict[str, Lattice]:
    """Read an archive."""
    return dict(ninja.read(str(path)))


def lines(path: Path) -> list[str]:
    """Read the lines of a text file, packed or not, without blanks at their ends."""
    return [line.rstrip() for line in unpacked(path).decode().splitlines()]


def unpacked(path: Path) -> bytes:
    """Read a file, packed or not."""
    content = path.read_bytes()
    return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content


def rows(path: Path) -> dict[str, list[str]]:
    """Read the fields of each line, by its key."""
    return {fields[0]: fields[1:] for fields in (line.split() for line in lines(path)) if fields}


def paired(theirs: Path, ours: Path) -> Iterable[tuple[str, Lattice, Lattice | None]]:
    """Yield the lattices of Kaldi's archive with ours."""
    found = lattices(ours)
    for key, lattice in lattices(theirs).items():
        yield key, lattice, found.get(key)


def same_arrays(tolerance: float) -> Check:
    """Compare states, arcs and alignments one by one, costs within a tolerance."""

    def check(theirs: Path, ours: Path) -> Finding:
        finding = Finding()
        for key, kaldi, lattice in paired(theirs, ours):
            shapes = ("arc_begin", "dst", "word", "ali_begin", "ali", "final_ali_begin", "final_ali")
            if lattice is None or not all(
                np.array_equal(getattr(kaldi, each), getattr(lattice, each)) for each in shapes
            ):
                finding.add(key, False)
                continue
            worst = max(
                _largest(getattr(kaldi, each), getattr(lattice, each))
                for each in ("graph", "acoustic", "final_graph", "final_acoustic")
            )
            finding.add(key, worst <= tolerance, worst)
        return finding

    return check


_HEADER = re.compile(rb"(\xd6\xfd\xb2\x7e.{4}vector.{4}[a-z]+lattice\d+.{8}).{8}(.{16}).{8}", re.DOTALL)


def same_bytes(theirs: Path, ours: Path) -> Finding:
    """Compare entries byte by byte, binary ones but for properties and arc count in the header."""
    finding = Finding(worst=None)
    kaldi, found = _entries(theirs), _entries(ours)
    for key, entry in kaldi.items():
        finding.add(key, found.get(key) == entry)
    return finding


def _entries(path: Path) -> dict[str, bytes]:
    content = unpacked(path)
    if b"\xd6\xfd\xb2\x7e" in content[:4096]:
        bare = _HEADER.sub(rb"\1\2", content)
        begins = [match.start() for match in re.finditer(rb"[^ \n\0]+ \xd6\xfd\xb2\x7e", bare)]
        entries = [bare[begin:end] for begin, end in zip(begins, [*begins[1:], len(bare)], strict=True)]
    else:
        entries = [entry.replace(b" \n", b"\n") for entry in content.split(b"\n\n")]
    return {entry.split()[0].decode(): entry for entry in entries if entry}


def same_arcs(tolerance: float) -> Check:
    """Compare arcs as a set, by begin, labels and word, costs within a tolerance; and how many states there are."""

    def check(theirs: Path, ours: Path) -> Finding:
        finding = Finding()
        for key, kaldi, lattice in paired(theirs, ours):
            if lattice is None:
                finding.add(key, False)
                continue
            (kaldi_arcs, kaldi_costs), (arcs, costs) = _arcs(kaldi), _arcs(lattice)
            same = arcs == kaldi_arcs and kaldi.num_states == lattice.num_states
            same &= int(kaldi.is_final.sum()) == int(lattice.is_final.sum())
            worst = _largest(np.array(kaldi_costs), np.array(costs)) if same else 0.0
            finding.add(key, same and worst <= tolerance, worst)
        return finding

    return check


def _arcs(lattice: Lattice) -> tuple[list[tuple[int, bytes, int]], list[tuple[float, float]]]:
    time, begin = state_times(lattice), lattice.ali_begin
    found = sorted(
        (
            (int(time[src]), lattice.ali[begin[arc] : begin[arc + 1]].tobytes(), int(lattice.word[arc])),
            (float(lattice.graph[arc]), float(lattice.acoustic[arc])),
        )
        for arc, src in enumerate(lattice.src)
    )
    return [arc for arc, _ in found], [costs for _, costs in found]


@dataclass(frozen=True, slots=True)
class Sequences:
    """Compares word sequences: the best path's costs of each, and its alignment.

    All sequences are compared (by determinization), and the best thousand one by one with their alignments. With a
    beam, or without ``whole``, only the best thousand are, as far as the beam reaches; in both directions.
    """

    beam: float | None = None
    acoustic_scale: float = 1.0
    tolerance: float = 1e-3
    whole: bool = True
    summed: bool = False  # the sum of both costs counts, not each

    def __call__(self, theirs: Path, ours: Path) -> Finding:
        """Compare two archives."""
        finding = Finding()
        costs: Literal["total", "both"] = "total" if self.summed else "both"
        for key, kaldi, lattice in paired(theirs, ours):
            if lattice is None:
                finding.add(key, False)
                continue
            same = True
            if self.whole and self.beam is None:
                same = equivalent(kaldi, lattice, self.tolerance, self.acoustic_scale, costs)
            one_by_one, worst = self._compare(kaldi, lattice)
            finding.add(key, same and one_by_one, worst)
        return finding

    def _compare(self, kaldi: Lattice, lattice: Lattice) -> tuple[bool, float]:
        (first, bound), (second, other_bound) = self._best(kaldi), self._best(lattice)
        bound = min(bound, other_bound)
        same, worst = True, 0.0
        for here, there in ((first, second), (second, first)):
            for words, path in here.items():
                if path.cost(Scales(self.acoustic_scale)) > bound:
                    continue
                other = there.get(words)
                if other is None:
                    same = False
                    continue
                difference = path.graph_cost - other.graph_cost, path.acoustic_cost - other.acoustic_cost
                worst = max(worst, abs(sum(difference))) if self.summed else max(worst, *map(abs, difference))
                same &= np.array_equal(path.alignment, other.alignment)
        return same and worst <= self.tolerance, worst

    def _best(self, lattice: Lattice) -> tuple[dict[bytes, ninja.graph.Path], float]:
        """Return the best sequences, and the cost up to which none is missing."""
        found = nbest(lattice, NUM_SEQUENCES, Scales(self.acoustic_scale))
        last = found[-1].cost(Scales(self.acoustic_scale)) if len(found) == NUM_SEQUENCES else np.inf
        bound = np.inf if self.beam is None else found[0].cost(Scales(self.acoustic_scale)) + self.beam
        return {path.words.tobytes(): path for path in found}, min(last, bound) - EDGE


def same_fields(theirs: Path, ours: Path) -> Finding:
    """Compare printed fields, line by line."""
    finding = Finding(worst=None)
    found = rows(ours)
    for key, fields in rows(theirs).items():
        finding.add(key, found.get(key) == fields)
    return finding


def same_lines(theirs: Path, ours: Path) -> Finding:
    """Compare all printed lines, in their order; a key counts once."""
    finding = Finding(worst=None)
    kaldi, found = _by_key(lines(theirs)), _by_key(lines(ours))
    for key, printed in kaldi.items():
        finding.add(key, found.get(key) == printed)
    return finding


def _by_key(printed: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in printed:
        found.setdefault(line.split()[0], []).append(line)
    return found


def same_numbers(tolerance: float) -> Check:
    """Compare all numbers of each line, within a tolerance; other fields as they are."""

    def check(theirs: Path, ours: Path) -> Finding:
        finding = Finding()
        found = rows(ours)
        for key, fields in rows(theirs).items():
            others = found.get(key)
            if others is None or len(others) != len(fields):
                finding.add(key, False)
                continue
            pairs = [(a, b) for a, b in zip(fields, others, strict=True) if a != b]
            try:
                numbers = [(float(a), float(b)) for a, b in pairs]
            except ValueError:  # other fields
                finding.add(key, False)
                continue
            same = all(is_close(a, b, tolerance) for a, b in numbers)
            finding.add(key, same, max((abs(a - b) for a, b in numbers), default=0.0))
        return finding

    return check


def is_close(a: float, b: float, tolerance: float) -> bool:
    """Tell whether two printed numbers agree within a tolerance, and the seventh digit, the last that is printed."""
    return abs(a - b) <= tolerance + 1e-6 * abs(a)


def same_bins(tolerance: float) -> Check:
    """Compare confusion networks: of each bin the probability of each word, within a tolerance."""

    def check(theirs: Path, ours: Path) -> Finding:
        finding = Finding()
        found = {key: _bins(fields) for key, fields in rows(ours).items()}
        for key, fields in rows(theirs).items():
            bins, others = _bins(fields), found.get(key)
            if others is None or len(bins) != len(others):
                finding.add(key, False)
                continue
            worst = 0.0
            for here, there in zip(bins, others, strict=True):
                for word in here.keys() | there.keys():
                    worst = max(worst, abs(here.get(word, 0.0) - there.get(word, 0.0)))
            finding.add(key, worst <= tolerance, worst)
        return finding

    return check


def _bins(fields: Sequence[str]) -> list[dict[str, float]]:
    bins: list[dict[str, float]] = []
    values: list[str] = []
    for each in fields:
        if each == "[":
            values = []
        elif each == "]":
            bins.append({word: float(share) for word, share in zip(values[::2], values[1::2], strict=True)})
        else:
            values.append(each)
    return bins


def same_posteriors(tolerance: float) -> Check:
    """Compare the lines of arc posteriors as a set, the posterior within a tolerance."""

    def check(theirs: Path, ours: Path) -> Finding:
        finding = Finding()
        kaldi, found = _posteriors(theirs), _posteriors(ours)
        for key, arcs in kaldi.items():
            others = found.get(key, [])
            if [arc[:-1] for arc in arcs] != [arc[:-1] for arc in others]:
                finding.add(key, False)
                continue
            worst = max((abs(a[-1] - b[-1]) for a, b in zip(arcs, others, strict=True)), default=0.0)
            finding.add(key, worst <= tolerance, worst)
        return finding

    return check


def _posteriors(path: Path) -> dict[str, list[tuple[int, int, str, float]]]:
    found: dict[str, list[tuple[int, int, str, float]]] = {}
    for line in lines(path):
        key, begin, frames, posterior, word = line.split("\t")[:5]
        found.setdefault(key, []).append((int(begin), int(frames), word, float(posterior)))
    return {key: sorted(arcs) for key, arcs in found.items()}


def same_machines(tolerance: float) -> Check:
    """Compare text FSTs arc by arc, once the states of both are in topological order."""

    def check(theirs: Path, ours: Path) -> Finding:
        finding = Finding()
        found = _machines(ours)
        for key, kaldi in _machines(theirs).items():
            machine = found.get(key)
            shapes = ("arc_begin", "dst", "word")
            if machine is None or not all(
                np.array_equal(getattr(kaldi, each), getattr(machine, each)) for each in shapes
            ):
                finding.add(key, False)
                continue
            worst = max(_largest(kaldi.graph, machine.graph), _largest(kaldi.final_graph, machine.final_graph))
            finding.add(key, worst <= tolerance, worst)
        return finding

    return check


def _machines(path: Path) -> dict[str, Lattice]:
    found: dict[str, Lattice] = {}
    key: str | None = None
    arcs: list[tuple[int, int, int, float]] = []
    finals: dict[int, float] = {}
    for line in lines(path):
        fields = line.split("\t") if line else []
        if key is None:
            key, arcs, finals = line, [], {}
        elif not fields:
            src, dst, word, cost = zip(*arcs, strict=True)
            found[key] = from_arcs(key, src, dst, word, cost, finals=finals)
            key = None
        elif len(fields) <= 2:
            finals[int(fields[0])] = float(fields[1]) if len(fields) == 2 else 0.0
        else:
            assert fields[2] == fields[3], line
            arcs.append((int(fields[0]), int(fields[1]), int(fields[2]), float(fields[4]) if len(fields) == 5 else 0.0))
    return found


def _largest(a: np.ndarray, b: np.ndarray) -> float:
    """Return the largest difference; infinite costs must stand in the same places."""
    if a.shape != b.shape or not np.array_equal(np.isinf(a), np.isinf(b)):
        return float("inf")
    finite = np.isfinite(a)
    return float(np.abs(a[finite].astype(float) - b[finite].astype(float)).max(initial=0.0))
