"""``ninja to-phone-lattice`` and ``ninja add-trans-probs``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ninja.cli.options import lattice_output, resume
from ninja.cli.places import check_places
from ninja.cli.reading import Reading, reads_lattices
from ninja.cli.switches import rewrite, switch
from ninja.lattice import Lattice

if TYPE_CHECKING:
    from ninja.formats.transition_model import TransitionModel


@dataclass(frozen=True, slots=True)
class ToPhones:
    """The function from a lattice to its phone lattice, picklable."""

    model: TransitionModel
    replace_words: bool

    def __call__(self, lattice: Lattice) -> Lattice:
        """Convert a lattice."""
        from ninja.graph.transitions import to_phone_lattice

        return to_phone_lattice(lattice, self.model, replace_words=self.replace_words)


@dataclass(frozen=True, slots=True)
class Adding:
    """The function that adds the costs of transitions, picklable."""

    model: TransitionModel
    transition_scale: float
    self_loop_scale: float

    def __call__(self, lattice: Lattice) -> Lattice:
        """Add to a lattice."""
        from ninja.graph.transitions import add_transition_costs

        return add_transition_costs(lattice, self.model, self.transition_scale, self.self_loop_scale)


@click.command()
@lattice_output("The phone lattices")
@click.option("--model", metavar="FILE", required=True, help="Transition model (final.mdl).")
@switch("--replace-words", True, "Put phones in the place of words, else in the place of transition ids.")
@resume
@reads_lattices
def to_phone_lattice(reading: Reading, output_file: str, model: str, replace_words: bool, resume: bool) -> None:
    """Turn word lattices into phone lattices, by their transition ids.

    \b
    Example:
      ninja to-phone-lattice lat.ark --model final.mdl -o phones.ark
    """
    from ninja.formats.transition_model import TransitionModel

    check_places([output_file], [model], reading)
    rewrite(reading, output_file, ToPhones(TransitionModel.read(model), replace_words), resume=resume, kind="compact")


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
    from ninja.formats.transition_model import TransitionModel

    function = Adding(TransitionModel.read(model), transition_scale, self_loop_scale)
    check_places([output_file], [model], reading)
    rewrite(reading, output_file, function, resume=resume)
