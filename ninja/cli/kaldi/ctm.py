"""``ninja to-ctm-conf`` and ``ninja nbest-to-ctm``: a line for each word with its time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ninja.cli.kaldi.mbr_decode import DEFAULT_FRAME_SHIFT, frame_shift_option
from ninja.cli.kaldi.systems import Scales, Systems, combines_systems
from ninja.cli.options import output_file, text_output
from ninja.cli.places import check_places
from ninja.cli.reading import Reading, reads_lattices
from ninja.cli.switches import switch
from ninja.errors import LatticeError
from ninja.lattice import Lattice
from ninja.parallel.pipeline import Each

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class WordLines:
    """The function from a lattice to the lines of its words and its expected errors, picklable."""

    scales: Scales
    decode_mbr: bool
    print_silence: bool
    frame_shift: float | None
    hypotheses: dict[str, npt.NDArray[np.int32]] | None
    hypotheses_file: str | None

    def __call__(self, lattice: Lattice) -> tuple[str, float, int]:
        """Decode the lattice and print its words."""
        from ninja.consensus import consensus_ctm, mbr_decode

        start = None
        if self.hypotheses is not None:
            start = self.hypotheses.get(lattice.key)
            if start is None:
                raise LatticeError(f"{self.hypotheses_file} has no words for it", key=lattice.key)
        found = mbr_decode(
            lattice,
            self.scales.acoustic_scale,
            self.scales.lm_scale,
            self.scales.word_penalty,
            decode_mbr=self.decode_mbr,
            print_silence=self.print_silence,
            hypothesis=start,
        )
        shift = self.frame_shift or lattice.frame_shift or DEFAULT_FRAME_SHIFT
        return consensus_ctm(found, shift, lattice.words), found.bayes_risk, len(found.words)


@click.command()
@output_file("Text file for the lines")
@frame_shift_option("Seconds per frame; 0.03 for chain models.")
@switch("--decode-mbr", True, "Decode for least expected word error, else keep the best path's words.")
@switch("--print-silence", False, "Print bins that most probably hold no word, too.")
@click.option("--one-best", metavar="FILE", help="Table of word ids to begin with, rather than the best paths.")
@reads_lattices
@combines_systems
def to_ctm_conf(
    reading: Reading,
    scales: Scales,
    output_file: str,
    frame_shift: float | None,
    decode_mbr: bool,
    print_silence: bool,
    one_best: str | None,
) -> None:
    """Print each word of lattices with its time and confidence.

    Lines of a CTM file: key, channel 1, begin, duration (seconds), word, confidence. Times mean something only in
    lattices whose arcs have the labels of their words (ninja align-words).

    \b
    Example:
      ninja to-ctm-conf aligned.ark.gz --words words.txt --acoustic-scale 0.1 -o words.ctm
    """
    others = reading.others if isinstance(reading, Systems) else ()
    check_places([output_file], [*others, one_best], reading)
    hypotheses = None
    if one_best is not None:
        from ninja.io.number_tables import read_integers

        hypotheses = dict(read_integers(one_best, allow_pipes=reading.allow_pipes))
    lines = WordLines(scales, decode_mbr, print_silence, frame_shift, hypotheses, one_best)
    total, words = 0.0, 0
    with text_output(output_file) as stream:
        for _, (text, risk, count) in reading.results(Each(lines), to_stdout=output_file == "-"):
            stream.write(text)
            total += risk
            words += count
    lattices = reading.log.lattices
    reading.close(
        f"{lattices} lattices, average Bayes risk per sentence {total / max(lattices, 1):.6g}, per word "
        f"{total / max(words, 1):.6g}"
    )


@dataclass(frozen=True, slots=True)
class PathLines:
    """The function from a lattice of one path to the lines of its words, picklable."""

    frame_shift: float | None
    precision: int
    print_silence: bool

    def __call__(self, lattice: Lattice) -> str:
        """Print the words."""
        from ninja.consensus import path_ctm

        shift = self.frame_shift or lattice.frame_shift or DEFAULT_FRAME_SHIFT
        return path_ctm(lattice, shift, self.precision, lattice.words, print_silence=self.print_silence)


@click.command()
@output_file("Text file for the lines")
@frame_shift_option("Seconds per frame; 0.03 for chain models.")
@click.option(
    "--precision", type=click.IntRange(0, 100), default=2, show_default=True, help="Digits of times after the point."
)
@switch("--print-silence", False, "Print stretches without a word, too: as <eps>, or 0.")
@reads_lattices
def nbest_to_ctm(
    reading: Reading, output_file: str, frame_shift: float | None, precision: int, print_silence: bool
) -> None:
    """Print each word of single-path lattices with its time.

    Lines of a CTM file: key, channel 1, begin, duration (seconds), word. The arcs must have the labels of their words:
    take the best paths (ninja 1best), then align them (ninja align-words).

    \b
    Example:
      ninja nbest-to-ctm aligned.ark.gz --words words.txt --frame-shift 0.03 -o words.ctm
    """
    check_places([output_file], (), reading)
    lines = PathLines(frame_shift, precision, print_silence)
    with text_output(output_file) as stream:
        for _, text in reading.results(Each(lines), to_stdout=output_file == "-"):
            stream.write(text)
    reading.close(f"{reading.log.lattices} paths, {reading.seconds:.1f} s")
