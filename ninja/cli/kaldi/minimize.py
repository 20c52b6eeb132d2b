"""``ninja minimize``, ``ninja push`` and ``ninja expand-ngram``."""

from __future__ import annotations

from functools import partial

import click

from ninja import graph
from ninja.cli.options import Destination, command, lattice_output, switch
from ninja.cli.run import run
from ninja.cli.source import Source, reads_lattices


@command
@lattice_output("The pushed lattices")
@switch("--push-strings", True, "Push the alignments.")
@switch("--push-weights", True, "Push the costs.")
@reads_lattices
def push(source: Source, destination: Destination, push_strings: bool, push_weights: bool) -> None:
    """Push alignments and costs of lattices towards their start.

    Labels that all ways from a state to the end begin with move before it, and so does the cost of the best of them.
    Every path keeps its words, alignment and costs.

    \b
    Example:
      ninja push lat.ark --push-weights=false -o pushed.ark
    """
    pushed = partial(graph.push, strings=push_strings, weights=push_weights)
    run(pushed, source, destination)


@command
@lattice_output("The smaller lattices")
@switch("--push-strings", True, "Push the alignments first, so that more states are alike.")
@switch("--push-weights", True, "Compare costs as if they were pushed, so that more states are alike.")
@reads_lattices
def minimize(source: Source, destination: Destination, push_strings: bool, push_weights: bool) -> None:
    """Merge states of lattices that have the same completions.

    Every path keeps its words, alignment and costs. Lattices should be deterministic, as those of decoders are;
    others become smaller, too, but not as small as can be.

    \b
    Example:
      ninja minimize lat.ark -o small.ark
    """
    smaller = partial(graph.minimize, strings=push_strings, weights=push_weights)
    run(smaller, source, destination)


@command
@lattice_output("The expanded lattices")
@click.option("--n", type=click.IntRange(1), default=3, help="Words of an n-gram.")
@reads_lattices
def expand_ngram(source: Source, destination: Destination, n: int) -> None:
    """Split the states of lattices until each has one history of n - 1 words.

    Each arc then stands for one n-gram. No path is lost or made.

    \b
    Example:
      ninja expand-ngram lat.ark --n 3 -o expanded.ark
    """
    run(partial(graph.expand_ngram, n=n), source, destination)
