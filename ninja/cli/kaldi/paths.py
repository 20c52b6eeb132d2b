"""``ninja best-path``, ``1best`` and ``to-nbest``: the best paths of lattices."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from ninja.cli import writing
from ninja.cli.kaldi.options import shown_words, word_symbol_table_option
from ninja.cli.options import lattice_output, output_file, resume
from ninja.cli.places import check_places
from ninja.cli.reading import Reading, reads_lattices
from ninja.cli.switches import rewrite, switch
from ninja.parallel.pipeline import Each

if TYPE_CHECKING:
    from ninja.graph import Path
    from ninja.lattice import Lattice

acoustic_scale_option = click.option(
    "--acoustic-scale", type=float, default=1.0, show_default=True, help="Factor of acoustic costs."
)
lm_scale_option = click.option("--lm-scale", type=float, default=1.0, show_default=True, help="Factor of graph costs.")


def best_lattice(
    lattice: Lattice, acoustic_scale: float = 1.0, lm_scale: float = 1.0, word_penalty: float = 0.0
) -> Lattice:
    """Return the best path as a lattice."""
    from ninja import graph

    return graph.path_lattice(lattice, graph.best_path(lattice, acoustic_scale, lm_scale, word_penalty))


@click.command()
@lattice_output()
@acoustic_scale_option
@lm_scale_option
@click.option(
    "--word-ins-penalty", type=float, default=0.0, show_default=True, help="Natural-log cost added for each word."
)
@resume
@reads_lattices
def one_best(
    reading: Reading,
    output_file: str,
    acoustic_scale: float,
    lm_scale: float,
    word_ins_penalty: float,
    resume: bool,
) -> None:
    """Write the best path of each lattice as a lattice.

    Costs are written as they were; keys stay the same.

    \b
    Example:
      ninja 1best lat.ark.gz --acoustic-scale 0.1 -o best.ark.gz
    """
    function = partial(best_lattice, acoustic_scale=acoustic_scale, lm_scale=lm_scale, word_penalty=word_ins_penalty)
    rewrite(reading, output_file, function, resume=resume)


@dataclass(frozen=True, slots=True)
class Drawn:
    """The function from a lattice to some of its paths, picklable."""

    n: int
    acoustic_scale: float
    lm_scale: float
    seed: int | None  # None: the best paths, else random ones

    def __call__(self, lattice: Lattice) -> list[Lattice]:
        """Find the paths."""
        from ninja import graph

        if self.seed is not None:
            return graph.random_paths(lattice, self.n, self.seed)
        found = graph.nbest(lattice, self.n, self.acoustic_scale, self.lm_scale)
        return [graph.path_lattice(lattice, path) for path in found]


@click.command()
@lattice_output()
@acoustic_scale_option
@lm_scale_option
@click.option("--n", type=click.IntRange(1), default=1, show_default=True, help="Paths wanted of each lattice.")
@switch("--random", False, "Draw paths at random: all ways on from a state are equally probable.")
@click.option("--srand", type=int, default=0, show_default=True, help="Seed of the random numbers.")
@reads_lattices
def to_nbest(
    reading: Reading, output_file: str, acoustic_scale: float, lm_scale: float, n: int, random: bool, srand: int
) -> None:
    """Write the n best paths of each lattice as lattices.

    Their keys end in -1, -2, …; costs are written as they were. No two have the same words, whatever the lattice
    holds.

    \b
    Example:
      ninja to-nbest lat.ark.gz --n 10 --acoustic-scale 0.1 -o nbest.ark.gz
    """
    total = 0
    with writing.opened(output_file, reading) as archive:
        stage = Each(Drawn(n, acoustic_scale, lm_scale, srand if random else None))
        for key, paths in reading.results(stage, to_stdout=output_file == "-"):
            for number, path in enumerate(paths, start=1):
                total += archive.take(path.with_key(f"{key}-{number}"))
    reading.close(f"{reading.log.lattices} lattices, {total} paths, {reading.seconds:.1f} s")


@dataclass(frozen=True, slots=True)
class Best:
    """The function from a lattice to its best path, and to that as a lattice where it is wanted; picklable."""

    acoustic_scale: float
    lm_scale: float
    as_lattice: bool

    def __call__(self, lattice: Lattice) -> tuple[Path, Lattice | None]:
        """Find the path."""
        from ninja import graph

        path = graph.best_path(lattice, self.acoustic_scale, self.lm_scale)
        return path, graph.path_lattice(lattice, path) if self.as_lattice else None


@click.command()
@output_file("Table for the words, text, or ark:FILE for binary word ids")
@click.option("--alignments", metavar="FILE", help="Write the transition ids here, as text, or binary as ark:FILE.")
@click.option("--write-lattices", metavar="FILE", help="Write the best paths here as lattices.")
@acoustic_scale_option
@lm_scale_option
@word_symbol_table_option
@reads_lattices
def best_path(
    reading: Reading,
    output_file: str,
    alignments: str | None,
    write_lattices: str | None,
    acoustic_scale: float,
    lm_scale: float,
    word_symbol_table: str | None,
) -> None:
    """Write words and alignment of the best path of each lattice.

    A line of words begins with the key; without --words, words are ids.

    \b
    Example:
      ninja best-path lat.ark.gz --acoustic-scale 0.1 -o 1.tra --alignments ark:1.ali
    """
    from ninja.io.number_tables import NumberWriter

    check_places([output_file, alignments, write_lattices], [word_symbol_table], reading)
    words = reading.table()
    show = shown_words(reading, word_symbol_table)
    graph_cost = acoustic_cost = 0.0
    frames = 0
    with ExitStack() as stack:
        said = stack.enter_context(NumberWriter(output_file))
        aligned = None if alignments is None else stack.enter_context(NumberWriter(alignments))
        archive = None
        if write_lattices is not None:
            archive = stack.enter_context(writing.opened(write_lattices, reading, kind="compact"))
        stage = Each(Best(acoustic_scale, lm_scale, archive is not None))
        for key, (path, lattice) in reading.results(stage, to_stdout=output_file == "-"):
            if words is None:
                said.integers(key, path.words)
            else:
                said.fields(key, words.spell(path.words))
            show(key, path.words.tolist())
            if aligned is not None:
                aligned.integers(key, path.alignment)
            if archive is not None and lattice is not None:
                archive.take(lattice)
            graph_cost += lm_scale * path.graph_cost
            acoustic_cost += acoustic_scale * path.acoustic_cost
            frames += len(path.alignment)
    if frames:
        parts = f"{graph_cost / frames:.6g} (graph) + {acoustic_cost / frames:.6g} (acoustic)"
        reading.say(f"cost of a frame: {(graph_cost + acoustic_cost) / frames:.6g} = {parts}, over {frames} frames")
    reading.close(f"{reading.log.lattices} lattices, {reading.seconds:.1f} s")
