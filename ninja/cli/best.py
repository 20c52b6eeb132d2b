"""``ninja best`` and ``ninja nbest``: transcripts of lattices."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TextIO

import click
import numpy as np
import numpy.typing as npt

from ninja.cli.options import output_file, scales, text_output
from ninja.cli.reading import Reading, reads_lattices
from ninja.lattice import Lattice
from ninja.parallel.pipeline import Each


@dataclass(frozen=True, slots=True)
class Transcript:
    """A path as it is printed."""

    words: list[str]  # ids where the lattice has no symbol table
    alignment: npt.NDArray[np.int32]
    graph_cost: float
    acoustic_cost: float


@dataclass(frozen=True, slots=True)
class Search:
    """The function from a lattice to its n best transcripts, picklable."""

    n: int
    acoustic_scale: float
    lm_scale: float
    word_penalty: float

    def __call__(self, lattice: Lattice) -> list[Transcript]:
        """Find the transcripts, from the best on."""
        from ninja.graph import best_path, nbest

        scales = self.acoustic_scale, self.lm_scale, self.word_penalty
        paths = [best_path(lattice, *scales)] if self.n == 1 else nbest(lattice, self.n, *scales)
        table = lattice.words
        return [
            Transcript(
                table.spell(path.words) if table else [str(word) for word in path.words.tolist()],
                path.alignment,
                path.graph_cost,
                path.acoustic_cost,
            )
            for path in paths
        ]


def transcript_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the files that take what else is known of a path."""
    for decorate in (
        click.option("--cost", metavar="FILE", help="Write here for each line its key, graph cost and acoustic cost."),
        click.option("--alignment", metavar="FILE", help="Write here for each line its key and transition ids."),
    ):
        command = decorate(command)
    return command


@click.command()
@output_file("Text file for the word sequences")
@transcript_options
@scales
@reads_lattices
def best(
    reading: Reading,
    output_file: str,
    alignment: str | None,
    cost: str | None,
    acoustic_scale: float,
    lm_scale: float,
    word_penalty: float,
) -> None:
    """Print the best word sequence of each lattice.

    One line for each: its key and its words, or word ids where --words is not given.

    \b
    Example:
      ninja best lat.ark.gz --words words.txt --acoustic-scale 0.1
    """
    _transcribe(reading, Search(1, acoustic_scale, lm_scale, word_penalty), False, (output_file, alignment, cost))


@click.command()
@output_file("Text file for the word sequences")
@click.option(
    "--n", "-n", type=click.IntRange(1), default=10, show_default=True, help="Word sequences wanted of each lattice."
)
@transcript_options
@scales
@reads_lattices
def nbest(
    reading: Reading,
    output_file: str,
    n: int,
    alignment: str | None,
    cost: str | None,
    acoustic_scale: float,
    lm_scale: float,
    word_penalty: float,
) -> None:
    """Print the n best word sequences of each lattice.

    One line for each, all different, the best first: the key with -1, -2, … and the words, or word ids where --words
    is not given.

    \b
    Example:
      ninja nbest lat.ark.gz -n 5 --words words.txt --acoustic-scale 0.1 --cost costs.txt
    """
    _transcribe(reading, Search(n, acoustic_scale, lm_scale, word_penalty), True, (output_file, alignment, cost))


def _transcribe(reading: Reading, search: Search, numbered: bool, names: tuple[str, str | None, str | None]) -> None:
    with ExitStack() as stack:
        files = [None if name is None else stack.enter_context(text_output(name)) for name in names]
        for key, transcripts in reading.results(Each(search), to_stdout=names[0] == "-"):
            for number, transcript in enumerate(transcripts, start=1):
                _write(files, f"{key}-{number}" if numbered else key, transcript)
    reading.close()


def _write(files: list[TextIO | None], key: str, transcript: Transcript) -> None:
    words, alignment, cost = files
    if words is not None:
        words.write(" ".join([key, *transcript.words]) + "\n")
    if alignment is not None:
        alignment.write(" ".join([key, *map(str, transcript.alignment.tolist())]) + "\n")
    if cost is not None:
        cost.write(f"{key} {transcript.graph_cost:.7g} {transcript.acoustic_cost:.7g}\n")
