"""``ninja to-fst``."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from ninja import graph
from ninja.cli.options import command, output_file, reads, switch
from ninja.cli.run import results
from ninja.cli.source import Source, reads_lattices
from ninja.formats.kaldi.fst_archive import as_image, as_text
from ninja.formats.kaldi.transition_model import read_transition_model
from ninja.io.fst_table import opened_table
from ninja.lattice import Lattice
from ninja.lattice.transition_model import TransitionModel
from ninja.parallel.pipeline import Each


def entry(lattice: Lattice, model: TransitionModel | None, text: bool, **given: Any) -> bytes:
    """Return the FST of a lattice as an entry of a table."""
    if model is not None:
        model.check(lattice)
    made = graph.to_fst(lattice, input_label=None if model is None else model.pdf + 1, **given)
    return as_text(made, lattice.key) if text else as_image(made, lattice.key)


@command
@switch("--read-compact", True, "Take whole words as arcs, else transition ids.")
@click.option("--acoustic-scale", default=0.0, help="Factor of acoustic costs.")
@click.option("--lm-scale", default=0.0, help="Factor of graph costs.")
@switch("--rm-eps", True, "Remove epsilons, where that makes the FST no larger.")
@switch("--convert-to-pdf-labels", False, "With --read-compact=false: numbers of densities, plus 1, as input labels.")
@reads("--trans-model", "Transition model (final.mdl), for --convert-to-pdf-labels.", load=read_transition_model)
@switch("--project-input", False, "With --read-compact=false: input labels on both sides.")
@switch("--project-output", True, "With --read-compact=false: words on both sides.")
@output_file("Table for the FSTs, binary, or text as ark,t:FILE")
@reads_lattices
def to_fst(
    source: Source, output_file: str, convert_to_pdf_labels: bool, trans_model: TransitionModel | None, **given: Any
) -> None:
    """Convert lattices to OpenFst FSTs, without costs unless scales are given.

    \b
    Example:
      ninja to-fst lat.ark.gz --acoustic-scale 0.1 --lm-scale 1 -o ark,t:fsts.txt
    """
    if convert_to_pdf_labels:
        if given["read_compact"]:
            raise click.UsageError("--convert-to-pdf-labels needs --read-compact=false")
        if trans_model is None:
            raise click.UsageError("--convert-to-pdf-labels needs --trans-model")
    model = trans_model if convert_to_pdf_labels else None
    with opened_table(output_file) as (table, text):
        entry_of = partial(entry, model=model, text=text, **given)
        for _, content in results(Each(entry_of), source, to_stdout=output_file == "-"):
            table.write(content)
    source.console.close_counting()
