"""``ninja info``."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from ninja.cli.options import command
from ninja.cli.run import results
from ninja.cli.source import Source, reads_lattices
from ninja.graph import depth_per_frame
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable
from ninja.lm import load
from ninja.lm.word_map import MARKS
from ninja.parallel.pipeline import Each


@dataclass(frozen=True, slots=True)
class Size:
    """What is to be known of one lattice."""

    kind: str
    has_times: bool  # besides those that labels tell
    has_alignments: bool
    states: int
    arcs: int
    frames: int
    crossings: int  # arcs that cross a frame, over all frames
    word: npt.NDArray[np.int32]  # distinct words, epsilon left out
    count: npt.NDArray[np.int64]  # arcs that carry each

    @property
    def depth(self) -> float:
        """Mean number of arcs that cross a frame; 0 without frames."""
        return self.crossings / self.frames if self.frames else 0.0


def size_of(lattice: Lattice) -> Size:
    """Measure a lattice."""
    crossing = depth_per_frame(lattice)
    word, count = np.unique(lattice.word[lattice.word != 0], return_counts=True)
    carries = lattice.time is not None, lattice.has_labels
    counts = lattice.num_states, lattice.num_arcs, len(crossing), int(crossing.sum())
    return Size(lattice.kind, *carries, *counts, word, count)


@command
@click.option("--rnnlm", metavar="FILE", help="Show how many of the words this language model knows.")
@click.option("--per-lattice", is_flag=True, help="Print a line for each: key, states, arcs, frames, depth.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@reads_lattices
def info(source: Source, rnnlm: str | None, per_lattice: bool, as_json: bool) -> None:
    """Show the size of lattices and how well a vocabulary covers them.

    Depth is the mean number of arcs that cross a frame.

    \b
    Example:
      ninja info lat.ark.gz --words words.txt --rnnlm model.pt
    """
    if per_lattice and as_json:
        raise click.UsageError("--per-lattice cannot be used with --json")
    if rnnlm is not None and source.table() is None:
        raise click.UsageError("--rnnlm needs --words: the model knows words, the lattices only numbers")
    formats = Counter(name or "unknown" for name in source.format_names())
    kinds: Counter[str] = Counter()
    carried: Counter[str] = Counter()
    count: Counter[int] = Counter()
    total = Counter(states=0, arcs=0, frames=0, crossings=0)
    for key, size in results(Each(size_of), source, to_stdout=per_lattice):
        kinds[size.kind] += 1
        carried.update(times=size.has_times, alignments=size.has_alignments)
        total.update(states=size.states, arcs=size.arcs, frames=size.frames, crossings=size.crossings)
        count.update(dict(zip(size.word.tolist(), size.count.tolist(), strict=True)))
        if per_lattice:
            click.echo(f"{key} {size.states} {size.arcs} {size.frames} {size.depth:.7g}")
    if not per_lattice:
        words = source.table()
        figures: dict[str, Any] = {
            "formats": dict(formats),
            "lattices": source.console.log.lattices,
            "failed": len(source.console.log.failures),
            "kinds": dict(kinds),
            "with times": carried["times"],
            "with alignments": carried["alignments"],
            "symbol table": "none" if words is None else f"{len(words)} words",
            "states": total["states"],
            "arcs": total["arcs"],
            "frames": total["frames"],
            "depth": round(total["crossings"] / max(total["frames"], 1), 4),
            "words": len(count),
        }
        if rnnlm is not None and words is not None:
            figures |= _coverage(count, words, rnnlm)
        click.echo(json.dumps(figures, ensure_ascii=False) if as_json else _table(figures))
    source.console.close()


def _coverage(count: Counter[int], words: SymbolTable, rnnlm: str) -> dict[str, Any]:
    """Count the words that a language model lacks."""
    known = load(rnnlm).vocabulary
    spelled = Counter({words.word(number): arcs for number, arcs in count.items()})
    unknown = Counter({word: arcs for word, arcs in spelled.items() if word not in known and word not in MARKS})
    return {
        "unknown words": len(unknown),
        "unknown share of arcs": round(unknown.total() / max(count.total(), 1), 4),
        "commonest unknown words": [word for word, _ in unknown.most_common(8)],
    }


def _table(figures: dict[str, Any]) -> str:
    lines = []
    for name, value in figures.items():
        if isinstance(value, dict):
            value = ", ".join(f"{number} {each}" for each, number in value.items())
        elif isinstance(value, list):
            value = " ".join(value)
        lines.append(f"{name:24}{value}")
    return "\n".join(lines)
