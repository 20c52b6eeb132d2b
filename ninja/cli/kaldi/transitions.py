"""``ninja to-phone-lattice`` and ``ninja add-trans-probs``."""

from __future__ import annotations

from functools import partial

import click

from ninja import graph
from ninja.cli.kaldi.options import model_option
from ninja.cli.options import Destination, command, lattice_output, switch
from ninja.cli.places import check_places
from ninja.cli.run import run
from ninja.cli.source import Source, reads_lattices
from ninja.formats.kaldi.transition_model import read_transition_model


@command
@model_option
@switch("--replace-words", True, "Put phones in the place of words, else in the place of transition ids.")
@lattice_output("The phone lattices")
@reads_lattices
def to_phone_lattice(source: Source, destination: Destination, model: str, replace_words: bool) -> None:
    """Convert word lattices to phone lattices by their transition ids.

    \b
    Example:
      ninja to-phone-lattice lat.ark --model final.mdl -o phones.ark
    """
    check_places([destination.output_file], [model], source)
    phones = partial(graph.to_phone_lattice, model=read_transition_model(model), replace_words=replace_words)
    run(phones, source, destination, kind="compact")


@command
@model_option
@click.option("--transition-scale", default=1.0, help="Factor of transition costs, those of self-loops aside.")
@click.option("--self-loop-scale", default=1.0, help="Factor of the costs of self-loops and of leaving them.")
@lattice_output("The lattices")
@reads_lattices
def add_trans_probs(
    source: Source, destination: Destination, model: str, transition_scale: float, self_loop_scale: float
) -> None:
    """Add transition costs to the graph costs of lattices.

    \b
    Example:
      ninja add-trans-probs lat.ark --model final.mdl --self-loop-scale 0.1 -o out.ark
    """
    check_places([destination.output_file], [model], source)
    added = partial(
        graph.add_transition_costs,
        model=read_transition_model(model),
        transition_scale=transition_scale,
        self_loop_scale=self_loop_scale,
    )
    run(added, source, destination)
