"""``ninja to-phone-lattice`` and ``ninja add-trans-probs``."""

from __future__ import annotations

from functools import partial

import click

from ninja.cli.options import lattice_output, resume
from ninja.cli.places import check_places
from ninja.cli.reading import Reading, reads_lattices
from ninja.cli.switches import rewrite, switch


@click.command()
@lattice_output("The phone lattices")
@click.option("--model", metavar="FILE", required=True, help="Transition model (final.mdl).")
@switch("--replace-words", True, "Put phones in the place of words, else in the place of transition ids.")
@resume
@reads_lattices
def to_phone_lattice(reading: Reading, output_file: str, model: str, replace_words: bool, resume: bool) -> None:
    """Convert word lattices to phone lattices by their transition ids.

    \b
    Example:
      ninja to-phone-lattice lat.ark --model final.mdl -o phones.ark
    """
    from ninja import graph
    from ninja.formats.kaldi.transition_model import read_transition_model

    check_places([output_file], [model], reading)
    phones = partial(graph.to_phone_lattice, model=read_transition_model(model), replace_words=replace_words)
    rewrite(reading, output_file, phones, resume=resume, kind="compact")


@click.command()
@lattice_output("The lattices")
@click.option("--model", metavar="FILE", required=True, help="Transition model (final.mdl).")
@click.option("--transition-scale", type=float, default=1.0, show_default=True, help="Factor, self-loops aside.")
@click.option("--self-loop-scale", type=float, default=1.0, show_default=True, help="Factor of staying or leaving.")
@resume
@reads_lattices
def add_trans_probs(
    reading: Reading, output_file: str, model: str, transition_scale: float, self_loop_scale: float, resume: bool
) -> None:
    """Add transition costs to the graph costs of lattices made without them.

    \b
    Example:
      ninja add-trans-probs lat.ark --model final.mdl --self-loop-scale 0.1 -o out.ark
    """
    from ninja import graph
    from ninja.formats.kaldi.transition_model import read_transition_model

    check_places([output_file], [model], reading)
    added = partial(
        graph.add_transition_costs,
        model=read_transition_model(model),
        transition_scale=transition_scale,
        self_loop_scale=self_loop_scale,
    )
    rewrite(reading, output_file, added, resume=resume)
