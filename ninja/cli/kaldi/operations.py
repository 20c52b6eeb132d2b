"""Commands that apply a function to each lattice."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from ninja import graph
from ninja.cli import options
from ninja.cli.archives import unchanged
from ninja.cli.command import Command, Sectioned
from ninja.cli.kaldi.options import model_option
from ninja.cli.options import command, lattice_output, switch
from ninja.cli.source import reads_lattices, run
from ninja.errors import LatticeError
from ninja.io.inputs import Inputs
from ninja.lattice import Kind, Lattice
from ninja.lattice.times import check_labelled, is_timed
from ninja.pipeline import Output
from ninja.pipeline.execution import OnBatches
from ninja.pipeline.stages import OnLattices

Operation = Callable[..., Any]  # takes and returns a lattice, or takes and returns a batch


def operation(kind: Kind | None = None, *, batches: bool = False) -> Callable[[Command], Sectioned]:
    """Return a decorator that creates a command from a function that maps options to an `Operation`.

    Args:
        kind: Kind of the output lattices; None keeps the kind of the results.
        batches: Whether the operation accepts batches instead of lattices.
    """

    def decorate(function: Command) -> Sectioned:
        @functools.wraps(function)
        def applied(inputs: Inputs, destination: Output, **values: Any) -> None:
            operate: Any = function(**values)
            run(OnBatches(operate) if batches else OnLattices(operate), inputs, destination, kind=kind)

        return command(lattice_output()(reads_lattices(applied)))

    return decorate


@operation()
@switch("--project-output", True, "Keep the words instead of the transition ids.")
def project(project_output: bool) -> Operation:
    """Keep only the words, or only the transition ids, of lattices.

    The word and the transition id of each resulting arc are the same number, as in Kaldi's Lattice.

    \b
    Examples:
      ninja project lat.ark.gz -o words.ark.gz
      ninja project lat.ark.gz --project-output=false -o ids.ark.gz
    """
    return partial(projected, project_output=project_output)


def projected(lattice: Lattice, *, project_output: bool) -> Lattice:
    """Project a lattice onto its words or transition ids; raise `LatticeError` if it has no transition ids."""
    if not project_output:
        check_labelled(lattice)
    return graph.project(lattice, project_output=project_output)


@operation("compact")
def rmali() -> Operation:
    """Remove the alignments from lattices.

    This also removes the times of words.

    \b
    Example:
      ninja rmali lat.ark.gz -o small.ark.gz
    """
    return graph.remove_alignments


@operation()
def reverse() -> Operation:
    """Reverse lattices, for use with backward language models.

    \b
    Example:
      ninja reverse lat.ark.gz -o backwards.ark.gz
    """
    return graph.reverse


@operation(batches=True)
def topsort() -> Operation:
    """Sort the states of lattices topologically.

    A lattice with a cycle is reported and skipped. All other commands that write lattices sort them as well.

    \b
    Example:
      ninja topsort lat.ark.gz -o sorted.ark.gz
    """
    return unchanged


@operation()
@click.option("--acoustic-scale", default=1.0, help="Factor by which the acoustic costs in the output are multiplied.")
@options.inv_acoustic_scale
@options.lm_scale
@click.option("--acoustic2lm-scale", default=0.0, help="Add FLOAT × the input acoustic costs to the graph costs.")
@click.option("--lm2acoustic-scale", default=0.0, help="Add FLOAT × the input graph costs to the acoustic costs.")
def scale(lm_scale: float, **scales: Any) -> Operation:
    """Scale the graph and acoustic costs of lattices, or add one to the other.

    Unlike most commands, this one writes the scaled costs to the output.

    \b
    Example:
      ninja scale lat.ark.gz --lm-scale 0.7 --acoustic-scale 1.3 -o scaled.ark.gz
    """
    return partial(graph.scale, graph_scale=lm_scale, **scales)


@operation()
@click.option("--word-ins-penalty", default=0.0, help="Cost added per word, in nats.")
def add_penalty(word_ins_penalty: float) -> Operation:
    """Add a word insertion penalty to the graph costs of lattices.

    \b
    Example:
      ninja add-penalty lat.ark.gz --word-ins-penalty 0.5 -o penalised.ark.gz
    """
    return partial(graph.add_word_penalty, penalty=word_ins_penalty)


@operation()
@click.option("--max-arcs-per-frame", type=click.IntRange(1), default=1000, help="Maximum number of arcs per frame.")
@options.acoustic_scale
def limit_depth(max_arcs_per_frame: int, acoustic_scale: float) -> Operation:
    """Limit the number of arcs that cross any frame of a lattice.

    The best arcs are kept; costs are written unscaled.

    \b
    Example:
      ninja limit-depth lat.ark.gz --max-arcs-per-frame 50 --acoustic-scale 0.1 -o narrow.ark.gz
    """
    return partial(limited, max_arcs_per_frame=max_arcs_per_frame, acoustic_scale=acoustic_scale)


def limited(lattice: Lattice, max_arcs_per_frame: int, acoustic_scale: float) -> Lattice:
    """Limit the depth of a lattice; raise `LatticeError` if it has no times."""
    if lattice.num_arcs and not is_timed(lattice):
        raise LatticeError("the lattice has neither alignments nor times, so its depth is unknown", key=lattice.key)
    return graph.limit_depth(lattice, max_arcs_per_frame, acoustic_scale)


@operation(batches=True)
@switch("--push-strings", True, "Push the alignments.")
@switch("--push-weights", True, "Push the costs.")
def push(push_strings: bool, push_weights: bool) -> Operation:
    """Push alignments and costs towards the start of lattices.

    The prefix shared by the alignments of all paths from a state to the end is moved to the arcs that enter the
    state, together with the cost of the best of these paths. Words, alignments and costs of complete paths are
    unchanged.

    \b
    Example:
      ninja push lat.ark --push-weights=false -o pushed.ark
    """
    return partial(graph.push, strings=push_strings, weights=push_weights)


@operation(batches=True)
@switch("--push-strings", True, "Push the alignments first, so that more states are equivalent.")
@switch("--push-weights", True, "Compare costs as if they were pushed, so that more states are equivalent.")
def minimize(push_strings: bool, push_weights: bool) -> Operation:
    """Minimize lattices by merging equivalent states.

    Words, alignments and costs of paths are unchanged. The result is minimal if the lattice is deterministic, as is
    usual for the output of decoders.

    \b
    Example:
      ninja minimize lat.ark -o small.ark
    """
    return partial(graph.minimize, strings=push_strings, weights=push_weights)


@operation()
@click.option("--n", type=click.IntRange(1, 2**31 - 1), default=3, help="Order of the n-grams.")
def expand_ngram(n: int) -> Operation:
    """Split states of lattices so that each state has a unique history of n - 1 words.

    Each arc then belongs to one n-gram. The paths are unchanged.

    \b
    Example:
      ninja expand-ngram lat.ark --n 3 -o expanded.ark
    """
    return partial(graph.expand_ngram, n=n)


@operation("compact")
@model_option
@switch(
    "--replace-words",
    True,
    "Replace words with phones; if false, keep the words and replace the transition ids of each arc with phone ids.",
)
def to_phone_lattice(**values: Any) -> Operation:
    """Convert word lattices to phone lattices using their transition ids.

    \b
    Example:
      ninja to-phone-lattice lat.ark --model final.mdl -o phones.ark
    """
    return partial(graph.to_phone_lattice, **values)


@operation()
@model_option
@click.option("--transition-scale", default=1.0, help="Factor applied to transition costs, except for self-loops.")
@click.option(
    "--self-loop-scale", default=1.0, help="Factor applied to the costs of staying in a self-loop and of leaving it."
)
def add_trans_probs(**values: Any) -> Operation:
    """Add transition costs to the graph costs of lattices.

    Use this for lattices that were generated without transition costs.

    \b
    Example:
      ninja add-trans-probs lat.ark --model final.mdl --self-loop-scale 0.1 -o out.ark
    """
    return partial(graph.add_transition_costs, **values)
