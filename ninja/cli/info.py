"""The command ``ninja info``, which prints the sizes of lattices and how well a vocabulary covers their words."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import click
import numpy as np

from ninja.cli.command import NamedFile
from ninja.cli.main import current_console
from ninja.cli.options import command, reads
from ninja.cli.source import reads_lattices, results
from ninja.errors import counted
from ninja.io.inputs import Inputs
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.times import crossings
from ninja.lm import load
from ninja.lm.word_map import MARKS
from ninja.pipeline.stages import OnLattices


class Size(NamedTuple):
    """The type and the size of a lattice."""

    kind: str
    figures: dict[str, int]  # number of states, arcs and frames, and other counts, by name
    arcs_of: dict[int, int]  # word id → number of arcs, without epsilon


def size_of(lattice: Lattice) -> Size:
    """Return the type and the size of a lattice."""
    crossed, frames = crossings(lattice)
    word, count = np.unique(lattice.word[lattice.word != 0], return_counts=True)
    figures = {"with times": int(lattice.time is not None), "with alignments": int(lattice.has_labels)}
    figures |= {"states": lattice.num_states, "arcs": lattice.num_arcs}
    figures |= {"frames": frames, "crossings": crossed}
    return Size(lattice.kind, figures, dict(zip(word.tolist(), count.tolist(), strict=True)))


def depth(figures: Mapping[str, int]) -> float:
    """Return the mean number of arcs that cross a frame; 0 if there are no frames."""
    return figures["crossings"] / max(figures["frames"], 1)


@command
@reads(
    "--rnnlm", "Language model; show how many words of the lattices are missing from its vocabulary.", kind=NamedFile()
)
@click.option("--per-lattice", is_flag=True, help="Print a line for each lattice: key, states, arcs, frames, depth.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@reads_lattices
def info(inputs: Inputs, rnnlm: str | None, per_lattice: bool, as_json: bool) -> None:
    """Show the size of lattices and how well a vocabulary covers them.

    Depth is the mean number of arcs that cross a frame.

    \b
    Example:
      ninja info lat.ark.gz --words words.txt --rnnlm model.pt
    """
    if per_lattice and as_json:
        raise click.UsageError("--per-lattice cannot be used with --json")
    if rnnlm is not None and inputs.table() is None:
        raise click.UsageError("--rnnlm requires --words, because the lattices contain only word ids")
    kinds: Counter[str] = Counter()
    total = Counter({"with times": 0, "with alignments": 0, "states": 0, "arcs": 0, "frames": 0, "crossings": 0})
    count: Counter[int] = Counter()
    for key, size in results(OnLattices(size_of), inputs, to_stdout=per_lattice):
        kinds[size.kind] += 1
        total.update(size.figures)
        count.update(size.arcs_of)
        if per_lattice:
            sizes = " ".join(str(size.figures[name]) for name in ("states", "arcs", "frames"))
            click.echo(f"{key} {sizes} {depth(size.figures):.7g}")
    if not per_lattice:
        words = inputs.table()
        figures: dict[str, Any] = {
            "formats": dict(inputs.formats),
            "lattices": inputs.log.lattices,
            "failed": len(inputs.log.failures),
            "kinds": dict(kinds),
            "with times": total["with times"],
            "with alignments": total["with alignments"],
            "symbol table": "none" if words is None else counted(len(words), "word"),
            **{name: total[name] for name in ("states", "arcs", "frames")},
            "depth": round(depth(total), 4),
            "words": len(count),
        }
        if rnnlm is not None and words is not None:
            figures |= _coverage(count, words, rnnlm)
        click.echo(json.dumps(figures, ensure_ascii=False) if as_json else _table(figures))
    inputs.log.repeated.clear()
    current_console().close()


def _coverage(count: Counter[int], words: SymbolTable, rnnlm: str) -> dict[str, Any]:
    """Return the number of unknown words, the share of arcs with unknown words, and the most frequent unknown words."""
    vocabulary = load(rnnlm).vocabulary
    spelled = Counter({words.word(number): arcs for number, arcs in count.items()})
    unknown = Counter({word: arcs for word, arcs in spelled.items() if word not in vocabulary and word not in MARKS})
    return {
        "unknown words": len(unknown),
        "unknown share of arcs": round(unknown.total() / max(count.total(), 1), 4),
        "most frequent unknown words": [word for word, _ in unknown.most_common(8)],
    }


def _table(figures: dict[str, Any]) -> str:
    lines = []
    for name, value in figures.items():
        if isinstance(value, dict):
            value = ", ".join(f"{number} {item}" for item, number in value.items())
        elif isinstance(value, list):
            value = " ".join(value)
        lines.append(f"{name:24}{value}")
    return "\n".join(lines)
