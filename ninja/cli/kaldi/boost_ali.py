"""``ninja boost-ali``."""

from __future__ import annotations

import click

from ninja.cli.options import lattice_output, resume
from ninja.cli.places import check_places
from ninja.cli.reading import Reading, reads_lattices_alone
from ninja.errors import LatticeError
from ninja.lattice import Lattice
from ninja.parallel.pipeline import Each


class PhoneList(click.ParamType):
    """Ids with colons between, as in Kaldi."""

    name = "ids"

    def convert(
        self, value: object, parameter: click.Parameter | None, context: click.Context | None
    ) -> tuple[int, ...]:
        """Split the list."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(int(each) for each in str(value).split(":") if each)
        except ValueError:
            self.fail(f"{value!r} is no list of ids such as 1:2:3", parameter, context)


@click.command()
@lattice_output()
@click.option("--model", metavar="FILE", required=True, help="Transition model (final.mdl).")
@click.option("--ali", metavar="FILE", required=True, help="Reference alignments, a table of transition ids.")
@click.option("--b", type=float, default=0.05, show_default=True, help="Boosting factor; more favours errors more.")
@click.option(
    "--max-silence",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help="Error of a wrong silence phone: 0 as in the paper, 1 as of any other.",
)
@click.option(
    "--silence-phones", type=PhoneList(), default=(), metavar="IDS", help="Phone ids of silences, as in 1:2:3."
)
@resume
@reads_lattices_alone
def boost_ali(
    reading: Reading,
    output_file: str,
    model: str,
    ali: str,
    b: float,
    max_silence: float,
    silence_phones: tuple[int, ...],
    resume: bool,
) -> None:
    """Lower the graph costs of arcs by their number of frames with a wrong phone.

    For discriminative training (boosted MMI). A lattice without an alignment is reported and left out.

    \b
    Example:
      ninja boost-ali lat.ark.gz --model final.mdl --ali ark:ali.1.gz --silence-phones 1:2:3 -o boosted.ark.gz
    """
    from ninja import graph
    from ninja.formats.kaldi.transition_model import read_transition_model
    from ninja.io.along import Along
    from ninja.io.number_tables import read_integers

    if not silence_phones:
        reading.say("there are no --silence-phones; make sure that this is meant")
    transitions = read_transition_model(model)
    references = Along(read_integers(ali, allow_pipes=reading.allow_pipes))

    def boosted(lattice: Lattice) -> Lattice:
        alignment = references.get(lattice.key)
        if alignment is None:
            raise LatticeError(f"{ali} lacks its alignment", key=lattice.key)
        return graph.boost(lattice, alignment, transitions.phone, b, silence_phones, max_silence)

    check_places([output_file], [model, ali], reading)
    reading.write(output_file, Each(boosted), resume=resume)
    reading.close(f"{reading.log.lattices} lattices, {reading.seconds:.1f} s")
