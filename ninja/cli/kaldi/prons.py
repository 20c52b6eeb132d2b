"""``ninja nbest-to-prons``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ninja.cli.kaldi.linear import check_only_path
from ninja.cli.options import output_file, text_output
from ninja.cli.places import check_places
from ninja.cli.reading import Reading, reads_lattices
from ninja.cli.switches import switch
from ninja.parallel.pipeline import Each

if TYPE_CHECKING:
    from ninja.lattice import Lattice
    from ninja.lattice.transition_model import TransitionModel


@dataclass(frozen=True, slots=True)
class PronunciationLines:
    """The function from a lattice of one path to the lines of its words, picklable."""

    model: TransitionModel
    lengths: bool

    def __call__(self, lattice: Lattice) -> str:
        """Print the words and their phones."""
        from ninja.graph import pronunciations, to_compact
        from ninja.lattice.times import check_labelled

        check_labelled(lattice)
        lines = []
        for each in pronunciations(to_compact(check_only_path(lattice)), self.model):
            length = ",".join(map(str, each.lengths)) if self.lengths else str(sum(each.lengths))
            word = str(each.word) if lattice.words is None else lattice.words.word(each.word)
            lines.append(" ".join([lattice.key, str(each.begin), length, word, *map(str, each.phones)]) + "\n")
        return "".join(lines)


@click.command()
@output_file("Text file for the lines")
@click.option("--model", metavar="FILE", required=True, help="Transition model (final.mdl).")
@switch("--print-lengths-per-phone", False, "Print the length of each phone, with commas between.")
@reads_lattices
def nbest_to_prons(reading: Reading, output_file: str, model: str, print_lengths_per_phone: bool) -> None:
    """Print the phones of each word of single-path lattices.

    Lines of key, first frame, number of frames, word (its id where --words is not given) and phone ids. The lattices
    must be word-aligned (ninja align-words).

    \b
    Example:
      ninja nbest-to-prons aligned.ark.gz --model final.mdl -o 1.prons
    """
    from ninja.formats.kaldi.transition_model import read_transition_model

    lines = PronunciationLines(read_transition_model(model), print_lengths_per_phone)
    check_places([output_file], [model], reading)
    with text_output(output_file) as stream:
        for _, text in reading.results(Each(lines), to_stdout=output_file == "-"):
            stream.write(text)
    reading.close(f"{reading.log.lattices} lattices, {reading.seconds:.1f} s")
