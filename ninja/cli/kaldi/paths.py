"""The commands ``ninja best-path``, ``ninja 1best``, ``ninja to-nbest`` and ``ninja nbest-to-linear``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

import click

from ninja import graph
from ninja.cli.command import LatticeFile, given_on_command_line
from ninja.cli.kaldi.options import shown_words, word_symbol_table_option
from ninja.cli.main import current_console
from ninja.cli.normalizer import lexical_forms, normalizer_option
from ninja.cli.options import command, lattice_output, output_file, section, switch, writes
from ninja.cli.source import reads_lattices, results, run, scales
from ninja.cli.source import write as write_all
from ninja.errors import LatticeError, counted
from ninja.graph import Path
from ninja.io.inputs import Inputs
from ninja.io.number_tables import NumberWriter
from ninja.io.sources import KEYS
from ninja.lattice import Lattice, Scales
from ninja.lattice.arrays import runs
from ninja.lattice.batch import Batch
from ninja.lattice.text import NONE, LexicalForms
from ninja.pipeline import Output
from ninja.pipeline.execution import OnBatches, open_output
from ninja.pipeline.stages import OnLattices


@command
@scales
@lattice_output()
@reads_lattices
def one_best(inputs: Inputs, destination: Output, scales: Scales) -> None:
    """Write the best path of each lattice as a lattice.

    Keys and costs are unchanged.

    \b
    Example:
      ninja 1best lat.ark.gz --acoustic-scale 0.1 -o best.ark.gz
    """
    run(OnBatches(partial(graph.best_path, scales=scales)), inputs, destination)


def random_paths(batch: Batch, n: int, seed: int) -> Batch:
    """Return n random paths through each lattice as lattices; their keys end in -1, -2, …, as for n-best paths."""
    return Batch.of(
        [
            path.with_key(f"{lattice.key}-{number}")
            for lattice in batch
            for number, path in enumerate(graph.random_paths(lattice, n, seed), start=1)
        ]
    )


def nbest_paths(batch: Batch, n: int, scales: Scales, forms: LexicalForms) -> Batch:
    """Return the n best paths of each lattice as lattices; the paths of a lattice have distinct lexical forms."""
    return graph.nbest(batch, n, scales, forms=forms.common_table(batch))


@command
@scales
@click.option("--n", type=click.IntRange(1), default=1, help="Number of paths per lattice.")
@switch("--random", False, "Draw random paths, with equal probabilities for all arcs that leave a state.")
@click.option("--srand", default=0, help="With --random: seed for the random number generator.")
@normalizer_option
@lattice_output(resume=False)
@reads_lattices
def to_nbest(
    inputs: Inputs, destination: Output, scales: Scales, n: int, random: bool, srand: int, normalizer: str
) -> None:
    """Write the n best paths of each lattice as lattices.

    The keys of the paths end in -1, -2, …, and costs are unchanged. Unless --random is set, the word
    sequences of the paths are distinct or, with a normalizer, distinct after normalisation. As in Kaldi, scales have
    no effect on random paths.

    \b
    Example:
      ninja to-nbest lat.ark.gz --n 10 --acoustic-scale 0.1 -o nbest.ark.gz
    """
    without_effect = (*KEYS, "inv_acoustic_scale", "config", "normalizer") if random else ("srand",)
    if flags := given_on_command_line(without_effect):
        current_console().say(f"ignored {'with' if random else 'without'} --random: {', '.join(flags)}")
    inputs.needs_words |= normalizer != NONE.name
    paths = partial(nbest_paths, n=n, scales=scales, forms=lexical_forms(normalizer))
    if random:
        paths = partial(random_paths, n=n, seed=srand)
    total = write_all(OnBatches(paths, is_expanding=True), inputs, destination).written
    current_console().close_counting(f", {counted(total, 'path')}")


class BestPath(NamedTuple):
    """The best path through a lattice; fields that no option requests are empty."""

    path: Path
    frames: int
    lattice: Lattice | None = None  # the path as a lattice


def best_and_lattice(lattice: Lattice, scales: Scales, as_lattice: bool) -> BestPath:
    """Return the best path through a lattice; if ``as_lattice`` is set, also return this path as a lattice."""
    path = graph.best_path(lattice, scales)
    return BestPath(path, len(path.alignment), graph.path_lattice(lattice, path) if as_lattice else None)


def best_words_of(batch: Batch, scales: Scales) -> list[BestPath]:
    """Return the best path through each lattice in a batch, with words and costs, but without alignments."""
    best = graph.best_words(batch, scales)
    no_arcs, no_labels = best.begin[:0], best.words[:0]
    costs = best.graph_cost.tolist(), best.acoustic_cost.tolist(), best.num_labels.tolist()
    return [
        BestPath(Path(no_arcs, words, no_labels, graph_cost, acoustic_cost), frames)
        for words, graph_cost, acoustic_cost, frames in zip(runs(best.words, best.begin), *costs, strict=True)
    ]


words_output = output_file("Text table for the words, or ark:FILE for binary word ids")
alignments_output = writes(
    "--alignments", "Write the transition ids to a text table, or to a binary table with ark:FILE."
)


@command
@scales
@section(
    "Input and output",
    words_output,
    alignments_output,
    writes("--write-lattices", "Write the best paths as lattices.", kind=LatticeFile()),
)
@word_symbol_table_option
@reads_lattices
def best_path(
    inputs: Inputs,
    output_file: str,
    alignments: str | None,
    write_lattices: str | None,
    scales: Scales,
    word_symbol_table: str | None,
) -> None:
    """Write the words and the alignment of the best path of each lattice.

    Each line contains a key and its words, or word ids if there is no symbol table.

    \b
    Example:
      ninja best-path lat.ark.gz --acoustic-scale 0.1 -o 1.tra --alignments ark:1.ali
    """
    show = shown_words(current_console(), word_symbol_table)
    is_stdout = output_file == "-"
    if alignments is None and write_lattices is None:
        paths = results(OnBatches(partial(best_words_of, scales=scales)), inputs, to_stdout=is_stdout)
    else:
        function = partial(best_and_lattice, scales=scales, as_lattice=write_lattices is not None)
        paths = results(OnLattices(function), inputs, to_stdout=is_stdout)
    graph_cost = acoustic_cost = 0.0
    frames = 0
    with ExitStack() as stack:
        write = _path_writer(stack, inputs, output_file, alignments)
        archive = None
        if write_lattices is not None:
            archive = stack.enter_context(open_output(Output(write_lattices, kind="compact"), inputs))
        for key, (path, path_frames, lattice) in paths:
            write(key, path)
            show(key, path.words.tolist())
            if archive is not None and lattice is not None:
                archive.take(lattice)
            graph_cost += scales.lm * path.graph_cost
            acoustic_cost += scales.acoustic * path.acoustic_cost
            frames += path_frames
    if frames:
        cost = (graph_cost + acoustic_cost) / frames
        parts = f"{graph_cost / frames:.6g} (graph) + {acoustic_cost / frames:.6g} (acoustic)"
        current_console().say(f"cost per frame: {cost:.6g} = {parts}, over {frames} frames")
    current_console().close_counting()


def check_only_path(lattice: Lattice) -> Lattice:
    """Remove the unreachable states of a single-path lattice; raise `LatticeError` if there are several paths."""
    lattice = graph.connect(lattice)
    if lattice.num_arcs != lattice.num_states - 1 or lattice.is_final.sum() != 1:
        raise LatticeError("the lattice has more than one path; run `ninja to-nbest` first", key=lattice.key)
    return lattice


def only_path(lattice: Lattice) -> Path:
    """Return the only path through a single-path lattice."""
    return graph.best_path(check_only_path(lattice))


@command
@section(
    "Input and output",
    words_output,
    alignments_output,
    writes("--lm-cost", "Write the graph costs to a table."),
    writes("--ac-cost", "Write the acoustic costs to a table."),
)
@reads_lattices
def nbest_to_linear(
    inputs: Inputs, output_file: str, alignments: str | None, lm_cost: str | None, ac_cost: str | None
) -> None:
    """Write the words, alignment and costs of single-path lattices.

    A lattice with more than one path is reported and skipped.

    \b
    Example:
      ninja nbest-to-linear nbest.ark.gz -o 1.tra --alignments ark:1.ali --lm-cost 1.lm --ac-cost 1.ac
    """
    with ExitStack() as stack:
        write = _path_writer(stack, inputs, output_file, alignments, lm_cost, ac_cost)
        for key, path in results(OnLattices(only_path), inputs, to_stdout=output_file == "-"):
            write(key, path)
    current_console().close_counting()


def _path_writer(stack: ExitStack, inputs: Inputs, words_file: str, *files: str | None) -> Callable[[str, Path], None]:
    """Open tables for words, alignments, graph costs and acoustic costs; return a function that writes a path.

    A table whose name is None is not written.
    """
    symbols = inputs.table()
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
