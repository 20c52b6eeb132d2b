"""``ninja to-fst``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ninja.cli.options import output_file
from ninja.cli.reading import Reading, reads_lattices
from ninja.cli.switches import switch
from ninja.parallel.pipeline import Each

if TYPE_CHECKING:
    from ninja.lattice import Lattice
    from ninja.lattice.transition_model import TransitionModel


@dataclass(frozen=True, slots=True)
class Entry:
    """The function from a lattice to the entry of its FST in a table, picklable."""

    acoustic_scale: float
    lm_scale: float
    rm_eps: bool
    read_compact: bool
    project_input: bool
    project_output: bool
    model: TransitionModel | None
    text: bool

    def __call__(self, lattice: Lattice) -> bytes:
        """Make the FST."""
        from ninja import graph
        from ninja.formats.kaldi.fst_tables import as_image, as_text

        if self.model is not None:
            self.model.check(lattice)
        made = graph.to_fst(
            lattice,
            self.acoustic_scale,
            self.lm_scale,
            rm_eps=self.rm_eps,
            read_compact=self.read_compact,
            project_input=self.project_input,
            project_output=self.project_output,
            input_label=None if self.model is None else self.model.pdf + 1,
        )
        return as_text(made, lattice.key) if self.text else as_image(made, lattice.key)


@click.command()
@output_file("Table for the FSTs, binary, or text as ark,t:FILE")
@switch("--read-compact", True, "Take whole words as arcs, else transition ids.")
@click.option("--acoustic-scale", type=float, default=0.0, show_default=True, help="Factor of acoustic costs.")
@click.option("--lm-scale", type=float, default=0.0, show_default=True, help="Factor of graph costs.")
@switch("--rm-eps", True, "Remove epsilons, where that makes the FST no larger.")
@switch("--convert-to-pdf-labels", False, "With --read-compact=false: numbers of densities, plus 1, as input labels.")
@click.option("--trans-model", metavar="FILE", help="Transition model (final.mdl), for --convert-to-pdf-labels.")
@switch("--project-input", False, "With --read-compact=false: input labels on both sides.")
@switch("--project-output", True, "With --read-compact=false: words on both sides.")
@reads_lattices
def to_fst(
    reading: Reading,
    output_file: str,
    read_compact: bool,
    acoustic_scale: float,
    lm_scale: float,
    rm_eps: bool,
    convert_to_pdf_labels: bool,
    trans_model: str | None,
    project_input: bool,
    project_output: bool,
) -> None:
    """Convert lattices to OpenFst FSTs, without costs unless scales are given.

    \b
    Example:
      ninja to-fst lat.ark.gz --acoustic-scale 0.1 --lm-scale 1 -o ark,t:fsts.txt
    """
    from ninja.formats.kaldi.transition_model import read_transition_model
    from ninja.io.fst_table import opened_table

    model = None
    if convert_to_pdf_labels:
        if read_compact:
            raise click.UsageError("--convert-to-pdf-labels needs --read-compact=false")
        if trans_model is None:
            raise click.UsageError("--convert-to-pdf-labels needs --trans-model")
        model = read_transition_model(trans_model)
    with opened_table(output_file) as (table, text):
        entry = Entry(acoustic_scale, lm_scale, rm_eps, read_compact, project_input, project_output, model, text)
        for _, content in reading.results(Each(entry), to_stdout=output_file == "-"):
            table.write(content)
    reading.close(f"{reading.log.lattices} lattices, {reading.seconds:.1f} s")
