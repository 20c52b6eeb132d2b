"""``ninja nbest-to-prons``."""

from __future__ import annotations

from functools import partial

from ninja.cli.kaldi.linear import check_only_path
from ninja.cli.kaldi.options import model_option
from ninja.cli.options import command, output_file, switch
from ninja.cli.places import check_places
from ninja.cli.run import run_lines
from ninja.cli.source import Source, reads_lattices
from ninja.formats.kaldi.transition_model import read_transition_model
from ninja.graph import pronunciations, to_compact
from ninja.lattice import Lattice
from ninja.lattice.times import check_labelled
from ninja.lattice.transition_model import TransitionModel


def pronunciation_lines(lattice: Lattice, model: TransitionModel, *, lengths: bool) -> str:
    """Return a line for each word of a single-path lattice, with its phones."""
    check_labelled(lattice)
    lines = []
    for each in pronunciations(to_compact(check_only_path(lattice)), model):
        length = ",".join(map(str, each.lengths)) if lengths else str(sum(each.lengths))
        word = str(each.word) if lattice.words is None else lattice.words.word(each.word)
        lines.append(" ".join([lattice.key, str(each.begin), length, word, *map(str, each.phones)]) + "\n")
    return "".join(lines)


@command
@model_option
@switch("--print-lengths-per-phone", False, "Print the length of each phone, with commas between.")
@output_file("Text file for the lines")
@reads_lattices
def nbest_to_prons(source: Source, output_file: str, model: str, print_lengths_per_phone: bool) -> None:
    """Print the phones of each word of single-path lattices.

    Lines of key, first frame, number of frames, word (its id where --words is not given) and phone ids. The lattices
    must be word-aligned (ninja align-words).

    \b
    Example:
      ninja nbest-to-prons aligned.ark.gz --model final.mdl -o 1.prons
    """
    lines = partial(pronunciation_lines, model=read_transition_model(model), lengths=print_lengths_per_phone)
    check_places([output_file], [model], source)
    run_lines(lines, source, output_file)
    source.console.close_counting()
