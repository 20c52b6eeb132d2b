"""``ninja to-ctm-conf`` and ``ninja nbest-to-ctm``: a line for each word with its time."""

from __future__ import annotations

from functools import partial

import click
import numpy as np
import numpy.typing as npt

from ninja.cli.kaldi.joined import combined, combines_systems
from ninja.cli.kaldi.mbr_decode import DEFAULT_FRAME_SHIFT, frame_shift_option
from ninja.cli.options import command, output_file, switch, text_output
from ninja.cli.places import check_places
from ninja.cli.run import results, run_lines
from ninja.cli.source import Source, reads_lattices
from ninja.consensus import consensus_ctm, mbr_decode, path_ctm
from ninja.errors import LatticeError
from ninja.io.number_tables import read_integers
from ninja.lattice import Lattice, Scales
from ninja.parallel.pipeline import Each


def word_lines(
    lattice: Lattice,
    scales: Scales,
    decode_mbr: bool,
    print_silence: bool,
    frame_shift: float | None,
    hypotheses: dict[str, npt.NDArray[np.int32]] | None,
    hypotheses_file: str | None,
) -> tuple[str, float, int]:
    """Decode a lattice; return the lines of its words, its expected errors and its number of words."""
    start = None
    if hypotheses is not None:
        start = hypotheses.get(lattice.key)
        if start is None:
            raise LatticeError(f"{hypotheses_file} has no words for it", key=lattice.key)
    found = mbr_decode(lattice, scales, decode_mbr=decode_mbr, print_silence=print_silence, hypothesis=start)
    shift = frame_shift or lattice.frame_shift or DEFAULT_FRAME_SHIFT
    return consensus_ctm(found, shift, lattice.words), found.bayes_risk, len(found.words)


@command
@frame_shift_option("Seconds per frame; 0.03 for chain models.")
@switch("--decode-mbr", True, "Decode for least expected word error, else keep the best path's words.")
@switch("--print-silence", False, "Print bins that most probably hold no word, too.")
@click.option("--one-best", metavar="FILE", help="Table of word ids to begin with, rather than the best paths.")
@combines_systems
@output_file("Text file for the lines")
@reads_lattices
def to_ctm_conf(
    source: Source,
    output_file: str,
    frame_shift: float | None,
    decode_mbr: bool,
    print_silence: bool,
    one_best: str | None,
    scales: Scales,
    others: tuple[str, ...],
    lat_weights: str | None,
    strict: bool,
) -> None:
    """Print each word of lattices with its time and confidence.

    Lines of a CTM file: key, channel 1, begin, duration (seconds), word, confidence. Times mean something only in
    lattices whose arcs have the labels of their words (ninja align-words).

    \b
    Example:
      ninja to-ctm-conf aligned.ark.gz --words words.txt --acoustic-scale 0.1 -o words.ctm
    """
    check_places([output_file], [*others, one_best], source)
    hypotheses = None
    if one_best is not None:
        hypotheses = dict(read_integers(one_best, allow_pipes=source.allow_pipes))
    total, words = 0.0, 0
    with (
        text_output(output_file) as stream,
        combined(source, scales, others, lat_weights, strict) as (lattices, scales),
    ):
        lines = partial(
            word_lines,
            scales=scales,
            decode_mbr=decode_mbr,
            print_silence=print_silence,
            frame_shift=frame_shift,
            hypotheses=hypotheses,
            hypotheses_file=one_best,
        )
        for _, (text, risk, count) in results(Each(lines), source, lattices, to_stdout=output_file == "-"):
            stream.write(text)
            total += risk
            words += count
    num_lattices = source.console.log.lattices
    source.console.close(
        f"{num_lattices} lattices, average Bayes risk per sentence {total / max(num_lattices, 1):.6g}, per word "
        f"{total / max(words, 1):.6g}"
    )


def path_lines(lattice: Lattice, frame_shift: float | None, precision: int, print_silence: bool) -> str:
    """Return the lines of the words of a single-path lattice."""
    shift = frame_shift or lattice.frame_shift or DEFAULT_FRAME_SHIFT
    return path_ctm(lattice, shift, precision, lattice.words, print_silence=print_silence)


@command
@frame_shift_option("Seconds per frame; 0.03 for chain models.")
@click.option("--precision", type=click.IntRange(0, 100), default=2, help="Digits of times after the point.")
@switch("--print-silence", False, "Print stretches without a word, too: as <eps>, or 0.")
@output_file("Text file for the lines")
@reads_lattices
def nbest_to_ctm(
    source: Source, output_file: str, frame_shift: float | None, precision: int, print_silence: bool
) -> None:
    """Print each word of single-path lattices with its time.

    Lines of a CTM file: key, channel 1, begin, duration (seconds), word. The arcs must have the labels of their words:
    take the best paths (ninja 1best), then align them (ninja align-words).

    \b
    Example:
      ninja nbest-to-ctm aligned.ark.gz --words words.txt --frame-shift 0.03 -o words.ctm
    """
    check_places([output_file], (), source)
    lines = partial(path_lines, frame_shift=frame_shift, precision=precision, print_silence=print_silence)
    run_lines(lines, source, output_file)
    source.console.close_counting("paths")
