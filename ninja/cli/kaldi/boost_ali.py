"""``ninja boost-ali``."""

from __future__ import annotations

import click

from ninja import graph
from ninja.cli.kaldi.options import ali_option, model_option, silence_phones_option
from ninja.cli.options import Destination, command, lattice_output
from ninja.cli.places import check_places
from ninja.cli.run import run
from ninja.cli.source import Source, reads_lattices_alone
from ninja.errors import LatticeError
from ninja.formats.kaldi.transition_model import read_transition_model
from ninja.io.along import Along
from ninja.io.number_tables import read_integers
from ninja.lattice import Lattice


@command
@model_option
@ali_option
@click.option("--b", default=0.05, help="Boosting factor; more favours errors more.")
@click.option("--max-silence", type=click.FloatRange(0, 1), default=0.0, help="Error of a wrong silence.")
@silence_phones_option
@lattice_output()
@reads_lattices_alone
def boost_ali(
    source: Source,
    destination: Destination,
    model: str,
    ali: str,
    b: float,
    max_silence: float,
    silence_phones: tuple[int, ...],
) -> None:
    """Lower the graph costs of arcs by their wrong phone frames.

    For discriminative training (boosted MMI). A lattice without an alignment is reported and left out.

    \b
    Example:
      ninja boost-ali lat.ark.gz --model final.mdl --ali ark:ali.1.gz --silence-phones 1:2:3 -o boosted.ark.gz
    """
    if not silence_phones:
        source.console.say("there are no --silence-phones; make sure that this is meant")
    transitions = read_transition_model(model)
    references = Along(read_integers(ali, allow_pipes=source.allow_pipes))

    def boosted(lattice: Lattice) -> Lattice:
        alignment = references.get(lattice.key)
        if alignment is None:
            raise LatticeError(f"{ali} lacks its alignment", key=lattice.key)
        return graph.boost(lattice, alignment, transitions.phone, b, silence_phones, max_silence)

    check_places([destination.output_file], [model, ali], source)
    run(boosted, source, destination)
