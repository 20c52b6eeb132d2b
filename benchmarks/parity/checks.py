"""Comparisons of Kaldi's results with ours: functions of two files that count equal entries."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

import ninja
import ninja.graph
from ninja.graph import equivalent, from_arcs, nbest, state_times
from ninja.lattice import Lattice, Scales

NUM_SEQUENCES = 1000  # the best ones, whose costs and alignments are compared one by one
EDGE = 1e-3  # cost within which a sequence may fall on either side of a bound
SHAPES = ("arc_begin", "dst", "word", "ali_begin", "ali", "final_ali_begin", "final_ali")
COSTS = ("graph", "acoustic", "final_graph", "final_acoustic")


@dataclass(slots=True)
class Finding:
    """Result of a comparison."""

    count: int = 0  # lattices compared, or lines
    equal: int = 0
    worst: float | None = 0.0  # largest difference of a number; None if only words are compared
    unequal: tuple[str, ...] = ()  # the first few keys

    def add(self, key: str, is_equal: bool, difference: float = 0.0) -> None:
        """Count one comparison."""
        self.count += 1
        self.equal += is_equal
        if self.worst is not None:
            self.worst = max(self.worst, difference)
        if not is_equal:
            self.unequal = (*self.unequal, key)[:5]


Check = Callable[[Path, Path], Finding]
Compare = Callable[[Any, Any], tuple[bool, float]]  # two entries: whether they are equal, largest difference


def by_key(read: Callable[[Path], Mapping[str, Any]], compare: Compare | None = None) -> Check:
    """Return a check that reads both files and compares the entries of each key, by default for equality."""

    def check(theirs: Path, ours: Path) -> Finding:
        finding = Finding(worst=None if compare is None else 0.0)
        entries = read(ours)
        for key, entry in read(theirs).items():
            our_entry = entries.get(key)
            if compare is None or our_entry is None:
                finding.add(key, entry == our_entry)
            else:
                finding.add(key, *compare(entry, our_entry))
        return finding

    return check


def lattices(path: Path) -> dict[str, Lattice]:
    """Read an archive."""
    return dict(ninja.read(str(path)))


def lines(path: Path) -> list[str]:
    """Read the lines of a plain or gzip text file, without blanks at their ends."""
    return [line.rstrip() for line in unpacked(path).decode().splitlines()]


def unpacked(path: Path) -> bytes:
    """Read a plain or gzip file."""
    content = path.read_bytes()
    return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content


def rows(path: Path) -> dict[str, list[str]]:
    """Read the fields of each line, by its key."""
    return {fields[0]: fields[1:] for fields in (line.split() for line in lines(path)) if fields}


def _largest(theirs: np.ndarray, ours: np.ndarray) -> float:
    """Return the largest difference, infinite if the infinite costs are in other places."""
    if theirs.shape != ours.shape or not np.array_equal(np.isinf(theirs), np.isinf(ours)):
        return float("inf")
    finite = np.isfinite(theirs)
    return float(np.abs(theirs[finite].astype(float) - ours[finite].astype(float)).max(initial=0.0))


def _compare_arrays(
    tolerance: float, kaldi: Lattice, lattice: Lattice, shapes: Sequence[str] = SHAPES, costs: Sequence[str] = COSTS
) -> tuple[bool, float]:
    if not all(np.array_equal(getattr(kaldi, name), getattr(lattice, name)) for name in shapes):
        return False, 0.0
    worst = max(_largest(getattr(kaldi, name), getattr(lattice, name)) for name in costs)
    return worst <= tolerance, worst


def same_arrays(tolerance: float) -> Check:
    """Compare states, arcs and alignments one by one, costs within a tolerance."""
    return by_key(lattices, partial(_compare_arrays, tolerance))


_HEADER = re.compile(rb"(\xd6\xfd\xb2\x7e.{4}vector.{4}[a-z]+lattice\d+.{8}).{8}(.{16}).{8}", re.DOTALL)


def _entries(path: Path) -> dict[str, bytes]:
    """Read the entries of an archive, without properties and arc count in binary headers."""
    content = unpacked(path)
    if b"\xd6\xfd\xb2\x7e" in content[:4096]:
        bare = _HEADER.sub(rb"\1\2", content)
        begins = [match.start() for match in re.finditer(rb"[^ \n\0]+ \xd6\xfd\xb2\x7e", bare)]
        entries = [bare[begin:end] for begin, end in zip(begins, [*begins[1:], len(bare)], strict=True)]
    else:
        entries = [entry.replace(b" \n", b"\n") for entry in content.split(b"\n\n")]
    return {entry.split()[0].decode(): entry for entry in entries if entry}


same_bytes = by_key(_entries)


def same_arcs(tolerance: float) -> Check:
    """Compare arcs as a set, by begin, labels and word, costs within a tolerance; and the number of states."""

    def compare(kaldi: Lattice, lattice: Lattice) -> tuple[bool, float]:
        (kaldi_arcs, kaldi_costs), (arcs, costs) = _arcs(kaldi), _arcs(lattice)
        is_equal = arcs == kaldi_arcs and kaldi.num_states == lattice.num_states
        is_equal &= int(kaldi.is_final.sum()) == int(lattice.is_final.sum())
        worst = _largest(np.array(kaldi_costs), np.array(costs)) if is_equal else 0.0
        return is_equal and worst <= tolerance, worst

    return by_key(lattices, compare)


def _arcs(lattice: Lattice) -> tuple[list[tuple[int, bytes, int]], list[tuple[float, float]]]:
    time, begin = state_times(lattice), lattice.ali_begin
    arcs = sorted(
        (
            (int(time[src]), lattice.ali[begin[arc] : begin[arc + 1]].tobytes(), int(lattice.word[arc])),
            (float(lattice.graph[arc]), float(lattice.acoustic[arc])),
        )
        for arc, src in enumerate(lattice.src)
    )
    return [arc for arc, _ in arcs], [costs for _, costs in arcs]


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
    summed: bool = False  # compare the sum of both costs, not each

    def __call__(self, theirs: Path, ours: Path) -> Finding:
        """Compare two archives."""
        return by_key(lattices, self._compare)(theirs, ours)

    def _compare(self, kaldi: Lattice, lattice: Lattice) -> tuple[bool, float]:
        costs: Literal["total", "both"] = "total" if self.summed else "both"
        scales, is_equal, worst = Scales(self.acoustic_scale), True, 0.0
        if self.whole and self.beam is None:
            is_equal = equivalent(kaldi, lattice, self.tolerance, self.acoustic_scale, costs)
        (first, kaldi_bound), (second, our_bound) = self._best(kaldi, scales), self._best(lattice, scales)
        for paths, counterparts in ((first, second), (second, first)):
            for words, path in paths.items():
                if path.cost(scales) > min(kaldi_bound, our_bound):
                    continue
                counterpart = counterparts.get(words)
                if counterpart is None:
                    is_equal = False
                    continue
                difference = path.graph_cost - counterpart.graph_cost, path.acoustic_cost - counterpart.acoustic_cost
                worst = max(worst, abs(sum(difference))) if self.summed else max(worst, *map(abs, difference))
                is_equal &= np.array_equal(path.alignment, counterpart.alignment)
        return is_equal and worst <= self.tolerance, worst

    def _best(self, lattice: Lattice, scales: Scales) -> tuple[dict[bytes, ninja.graph.Path], float]:
        """Return the best sequences, and the cost up to which all are among them."""
        paths = nbest(lattice, NUM_SEQUENCES, scales)
        last = paths[-1].cost(scales) if len(paths) == NUM_SEQUENCES else np.inf
        limit = np.inf if self.beam is None else paths[0].cost(scales) + self.beam
        return {path.words.tobytes(): path for path in paths}, min(last, limit) - EDGE


def _lines_by_key(path: Path) -> dict[str, list[str]]:
    printed: dict[str, list[str]] = {}
    for line in lines(path):
        printed.setdefault(line.split()[0], []).append(line)
    return printed


same_fields = by_key(rows)
same_lines = by_key(_lines_by_key)


def same_numbers(tolerance: float) -> Check:
    """Compare all numbers of each line, within a tolerance; other fields for equality."""

    def compare(fields: list[str], our_fields: list[str]) -> tuple[bool, float]:
        if len(our_fields) != len(fields):
            return False, 0.0
        try:
            numbers = [(float(a), float(b)) for a, b in zip(fields, our_fields, strict=True) if a != b]
        except ValueError:  # other fields
            return False, 0.0
        is_equal = all(is_close(a, b, tolerance) for a, b in numbers)
        return is_equal, max((abs(a - b) for a, b in numbers), default=0.0)

    return by_key(rows, compare)


def is_close(a: float, b: float, tolerance: float) -> bool:
    """Return whether two printed numbers agree within a tolerance and the seventh digit, the last that is printed."""
    return abs(a - b) <= tolerance + 1e-6 * abs(a)


def same_bins(tolerance: float) -> Check:
    """Compare confusion networks: of each bin the probability of each word, within a tolerance."""

    def compare(fields: list[str], our_fields: list[str]) -> tuple[bool, float]:
        bins, our_bins = _bins(fields), _bins(our_fields)
        if len(bins) != len(our_bins):
            return False, 0.0
        pairs = zip(bins, our_bins, strict=True)
        gaps = (abs(a.get(word, 0.0) - b.get(word, 0.0)) for a, b in pairs for word in a.keys() | b.keys())
        worst = max(gaps, default=0.0)
        return worst <= tolerance, worst

    return by_key(rows, compare)


def _bins(fields: Iterable[str]) -> list[dict[str, float]]:
    bins = (part.split() for part in re.findall(r"\[(.*?)\]", " ".join(fields)))
    return [dict(zip(values[::2], map(float, values[1::2]), strict=True)) for values in bins]


def same_posteriors(tolerance: float) -> Check:
    """Compare the lines of arc posteriors as a set, the posterior within a tolerance."""

    def compare(arcs: list[tuple], our_arcs: list[tuple]) -> tuple[bool, float]:
        if [arc[:-1] for arc in arcs] != [arc[:-1] for arc in our_arcs]:
            return False, 0.0
        worst = max((abs(a[-1] - b[-1]) for a, b in zip(arcs, our_arcs, strict=True)), default=0.0)
        return worst <= tolerance, worst

    return by_key(_posteriors, compare)


def _posteriors(path: Path) -> dict[str, list[tuple[int, int, str, float]]]:
    arcs: dict[str, list[tuple[int, int, str, float]]] = {}
    for line in lines(path):
        key, begin, frames, posterior, word = line.split("\t")[:5]
        arcs.setdefault(key, []).append((int(begin), int(frames), word, float(posterior)))
    return {key: sorted(group) for key, group in arcs.items()}


def same_machines(tolerance: float) -> Check:
    """Compare text FSTs arc by arc, once the states of both are in topological order."""
    shapes, costs = ("arc_begin", "dst", "word"), ("graph", "final_graph")
    return by_key(_machines, partial(_compare_arrays, tolerance, shapes=shapes, costs=costs))


def _machines(path: Path) -> dict[str, Lattice]:
    machines: dict[str, Lattice] = {}
    key: str | None = None
    arcs: list[tuple[int, int, int, float]] = []
    finals: dict[int, float] = {}
    for line in lines(path):
        fields = line.split("\t") if line else []
        if key is None:
            key, arcs, finals = line, [], {}
        elif not fields:
            src, dst, word, cost = zip(*arcs, strict=True)
            machines[key] = from_arcs(key, src, dst, word, cost, finals=finals)
            key = None
        elif len(fields) <= 2:
            finals[int(fields[0])] = float(fields[1]) if len(fields) == 2 else 0.0
        else:
            assert fields[2] == fields[3], line
            arcs.append((int(fields[0]), int(fields[1]), int(fields[2]), float(fields[4]) if len(fields) == 5 else 0.0))
    return machines
