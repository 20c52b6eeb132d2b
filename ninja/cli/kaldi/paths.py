"""``ninja best-path``, ``1best``, ``to-nbest`` and ``nbest-to-linear``: paths of lattices."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import click

from ninja import graph
from ninja.cli.files import LatticeFile
from ninja.cli.kaldi.operations import Operation, operation
from ninja.cli.kaldi.options import shown_words, word_symbol_table_option
from ninja.cli.options import Destination, command, lattice_output, output_file, section, switch, writes
from ninja.cli.parts import parts
from ninja.cli.run import open_output, results
from ninja.cli.scales import scales
from ninja.cli.source import Source, reads_lattices
from ninja.errors import LatticeError
from ninja.graph import Path
from ninja.io.number_tables import NumberWriter
from ninja.lattice import Lattice, Scales
from ninja.parallel.pipeline import Each


def best_lattice(lattice: Lattice, scales: Scales = Scales()) -> Lattice:
    """Return the best path as a lattice."""
    return graph.path_lattice(lattice, graph.best_path(lattice, scales))


@operation()
@scales
def one_best(scales: Scales) -> Operation:
    """Write the best path of each lattice as a lattice.

    Costs are written as they were; keys stay the same.

    \b
    Example:
      ninja 1best lat.ark.gz --acoustic-scale 0.1 -o best.ark.gz
    """
    return partial(best_lattice, scales=scales)


def some_paths(lattice: Lattice, n: int, scales: Scales, seed: int | None) -> list[Lattice]:
    """Return the n best paths of a lattice as lattices, or n random ones where a seed is given."""
    if seed is not None:
        return graph.random_paths(lattice, n, seed)
    return [graph.path_lattice(lattice, path) for path in graph.nbest(lattice, n, scales)]


@command
@scales
@click.option("--n", type=click.IntRange(1), default=1, help="Paths for each lattice.")
@switch("--random", False, "Draw random paths: all arcs that leave a state are equally probable.")
@click.option("--srand", default=0, help="Seed of the random numbers.")
@lattice_output(resume=False)
@reads_lattices
def to_nbest(source: Source, destination: Destination, scales: Scales, n: int, random: bool, srand: int) -> None:
    """Write the n best paths of each lattice as lattices.

    Their keys end in -1, -2, …; costs are written as they were. No two have the same words, whatever the lattice
    holds.

    \b
    Example:
      ninja to-nbest lat.ark.gz --n 10 --acoustic-scale 0.1 -o nbest.ark.gz
    """
    total = 0
    paths_of = partial(some_paths, n=n, scales=scales, seed=srand if random else None)
    for part, output in parts(source, destination):
        with open_output(output, part) as archive:
            for key, paths in results(Each(paths_of), part, to_stdout=output.output_file == "-"):
                for number, path in enumerate(paths, start=1):
                    total += archive.take(path.with_key(f"{key}-{number}"))
    source.console.close_counting(f"lattices, {total} paths")


def best_and_lattice(lattice: Lattice, scales: Scales, as_lattice: bool) -> tuple[Path, Lattice | None]:
    """Return the best path of a lattice, and that as a lattice on request."""
    path = graph.best_path(lattice, scales)
    return path, graph.path_lattice(lattice, path) if as_lattice else None


words_output = output_file("Table for the words, text, or ark:FILE for binary word ids")
alignments_output = writes("--alignments", "Write the transition ids here, as text, or binary as ark:FILE.")


@command
@scales
@section(
    "Input and output",
    words_output,
    alignments_output,
    writes("--write-lattices", "Write the best paths here as lattices.", kind=LatticeFile()),
)
@word_symbol_table_option
@reads_lattices
def best_path(
    source: Source,
    output_file: str,
    alignments: str | None,
    write_lattices: str | None,
    scales: Scales,
    word_symbol_table: str | None,
) -> None:
    """Write words and alignment of the best path of each lattice.

    A line of words begins with the key; without --words, words are ids.

    \b
    Example:
      ninja best-path lat.ark.gz --acoustic-scale 0.1 -o 1.tra --alignments ark:1.ali
    """
    show = shown_words(source.console, word_symbol_table)
    found = partial(best_and_lattice, scales=scales, as_lattice=write_lattices is not None)
    graph_cost = acoustic_cost = 0.0
    frames = 0
    with ExitStack() as stack:
        write = _path_writer(stack, source, output_file, alignments)
        archive = None
        if write_lattices is not None:
            archive = stack.enter_context(open_output(Destination(write_lattices), source, kind="compact"))
        for key, (path, lattice) in results(Each(found), source, to_stdout=output_file == "-"):
            write(key, path)
            show(key, path.words.tolist())
            if archive is not None and lattice is not None:
                archive.take(lattice)
            graph_cost += scales.lm * path.graph_cost
            acoustic_cost += scales.acoustic * path.acoustic_cost
            frames += len(path.alignment)
    if frames:
        cost = (graph_cost + acoustic_cost) / frames
        parts = f"{graph_cost / frames:.6g} (graph) + {acoustic_cost / frames:.6g} (acoustic)"
        source.console.say(f"cost of a frame: {cost:.6g} = {parts}, over {frames} frames")
    source.console.close_counting()


def check_only_path(lattice: Lattice) -> Lattice:
    """Return a lattice, connected, that has one path only; refuse another."""
    lattice = graph.connect(lattice)
    if lattice.num_arcs != lattice.num_states - 1 or lattice.is_final.sum() != 1:
        raise LatticeError("the lattice has more than one path; make n-best lists first", key=lattice.key)
    return lattice


def only_path(lattice: Lattice) -> Path:
    """Return the path of a lattice that has only one."""
    return graph.best_path(check_only_path(lattice))


@command
@section(
    "Input and output",
    words_output,
    alignments_output,
    writes("--lm-cost", "Write the graph costs here."),
    writes("--ac-cost", "Write the acoustic costs here."),
)
@reads_lattices
def nbest_to_linear(
    source: Source, output_file: str, alignments: str | None, lm_cost: str | None, ac_cost: str | None
) -> None:
    """Write words, alignment and costs of single-path lattices.

    A lattice with more than one path is reported and left out.

    \b
    Example:
      ninja nbest-to-linear nbest.ark.gz -o 1.tra --alignments ark:1.ali --lm-cost 1.lm --ac-cost 1.ac
    """
    with ExitStack() as stack:
        write = _path_writer(stack, source, output_file, alignments, lm_cost, ac_cost)
        for key, path in results(Each(only_path), source, to_stdout=output_file == "-"):
            write(key, path)
    source.console.close_counting()


def _path_writer(stack: ExitStack, source: Source, words_file: str, *files: str | None) -> Callable[[str, Path], None]:
    """Open tables for words and, on request, alignments and both costs; return the function that writes paths."""
    symbols = source.table()
    words = stack.enter_context(NumberWriter(words_file))
    tables = [None if name is None else stack.enter_context(NumberWriter(name)) for name in files]
    alignments, graph_costs, acoustic_costs = [*tables, None, None][:3]

    def write(key: str, path: Path) -> None:
        if symbols is None:
            words.integers(key, path.words)
        else:
            words.fields(key, symbols.spell(path.words))
        if alignments is not None:
            alignments.integers(key, path.alignment)
        if graph_costs is not None:
            graph_costs.number(key, path.graph_cost)
        if acoustic_costs is not None:
            acoustic_costs.number(key, path.acoustic_cost)

    return write
