"""``ninja to-ctm-conf``, ``nbest-to-ctm`` and ``nbest-to-prons``: a line for each word with its time."""

from __future__ import annotations

from functools import partial
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from ninja.cli.console import current_console
from ninja.cli.kaldi.joined import combines_systems
from ninja.cli.kaldi.mbr_decode import DEFAULT_FRAME_SHIFT, close_with_risk, frame_shift_option
from ninja.cli.kaldi.options import model_option
from ninja.cli.kaldi.paths import check_only_path
from ninja.cli.options import command, output_file, reads, switch
from ninja.cli.run import results, run_lines
from ninja.cli.source import reads_lattices
from ninja.consensus import Consensus, consensus_ctm, mbr_decode, path_ctm
from ninja.errors import LatticeError
from ninja.files.output import text_output
from ninja.graph import pronunciations, to_compact
from ninja.io.inputs import Inputs
from ninja.io.number_tables import read_integers
from ninja.lattice import Lattice, Scales
from ninja.lattice.batch import Batch
from ninja.lattice.times import check_labelled
from ninja.lattice.transition_model import TransitionModel
from ninja.pipeline.stages import OnBatches, Pairs


def word_lines(
    batch: Batch,
    scales: Scales,
    decode_mbr: bool,
    print_silence: bool,
    frame_shift: float | None,
    hypotheses: dict[str, npt.NDArray[np.int32]] | None,
    hypotheses_file: str | None,
) -> list[tuple[str, Consensus]]:
    """Decode the lattices of a batch; return the lines of each one's words, and what they are of."""
    start = None
    if hypotheses is not None:
        start = []
        for key in batch.keys:
            if key not in hypotheses:
                raise LatticeError(f"{hypotheses_file} has no words for it", key=key)
            start.append(hypotheses[key])
    found = mbr_decode(batch, scales, decode_mbr=decode_mbr, print_silence=print_silence, hypothesis=start)
    return [
        (consensus_ctm(each, _shift(lattice, frame_shift), lattice.words), each)
        for lattice, each in zip(batch, found, strict=True)
    ]


@command
@frame_shift_option("Seconds per frame; 0.03 for chain models.")
@switch("--decode-mbr", True, "Decode for least expected word error, else keep the best path's words.")
@switch("--print-silence", False, "Print bins that most probably hold no word, too.")
@reads("--one-best", "Table of word ids to begin with, rather than the best paths.")
@output_file("Text file for the lines")
@combines_systems
def to_ctm_conf(inputs: Inputs, output_file: str, lattices: Pairs | None, one_best: str | None, **given: Any) -> None:
    """Print each word of lattices with its time and confidence.

    Lines of a CTM file: key, channel 1, begin, duration (seconds), word, confidence. Times mean something only in
    lattices whose arcs have the labels of their words (ninja align-words).

    \b
    Example:
      ninja to-ctm-conf aligned.ark.gz --words words.txt --acoustic-scale 0.1 -o words.ctm
    """
    hypotheses = None if one_best is None else dict(read_integers(one_best, allow_pipes=inputs.allow_pipes))
    inputs.spell()
    lines = partial(word_lines, hypotheses=hypotheses, hypotheses_file=one_best, **given)
    risk, words, approximate = 0.0, 0, []
    read = None if lattices is None else lambda _: lattices
    with text_output(output_file) as stream:
        for key, (text, found) in results(OnBatches(lines), inputs, read=read, to_stdout=output_file == "-"):
            stream.write(text)
            risk += found.bayes_risk
            words += len(found.words)
            approximate += [key] * found.touches_band
    close_with_risk(inputs, risk, words, approximate)


def path_lines(batch: Batch, frame_shift: float | None, precision: int, print_silence: bool) -> list[str]:
    """Return the lines of the words of single-path lattices."""
    return [
        path_ctm(lattice, _shift(lattice, frame_shift), precision, lattice.words, print_silence=print_silence)
        for lattice in batch
    ]


def _shift(lattice: Lattice, frame_shift: float | None) -> float:
    """Return the seconds per frame that are given, or else the lattice's."""
    return frame_shift or lattice.frame_shift or DEFAULT_FRAME_SHIFT


@command
@frame_shift_option("Seconds per frame; 0.03 for chain models.")
@click.option("--precision", type=click.IntRange(0, 100), default=2, help="Digits of times after the point.")
@switch("--print-silence", False, "Print stretches without a word, too: as <eps>, or 0.")
@output_file("Text file for the lines")
@reads_lattices
def nbest_to_ctm(
    inputs: Inputs, output_file: str, frame_shift: float | None, precision: int, print_silence: bool
) -> None:
    """Print each word of single-path lattices with its time.

    Lines of a CTM file: key, channel 1, begin, duration (seconds), word. The arcs must have the labels of their words:
    take the best paths (ninja 1best), then align them (ninja align-words).

    \b
    Example:
      ninja nbest-to-ctm aligned.ark.gz --words words.txt --frame-shift 0.03 -o words.ctm
    """
    inputs.spell()
    lines = partial(path_lines, frame_shift=frame_shift, precision=precision, print_silence=print_silence)
    run_lines(lines, inputs, output_file)
    current_console().close_counting("paths")


def pronunciation_lines(batch: Batch, model: TransitionModel, *, lengths: bool) -> list[str]:
    """Return a line for each word of single-path lattices, with its phones."""
    return [_pronunciation_lines(lattice, model, lengths=lengths) for lattice in batch]


def _pronunciation_lines(lattice: Lattice, model: TransitionModel, *, lengths: bool) -> str:
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
def nbest_to_prons(inputs: Inputs, output_file: str, model: TransitionModel, print_lengths_per_phone: bool) -> None:
    """Print the phones of each word of single-path lattices.

    Lines of key, first frame, number of frames, word (its id where --words is not given) and phone ids. The lattices
    must be word-aligned (ninja align-words).

    \b
    Example:
      ninja nbest-to-prons aligned.ark.gz --model final.mdl -o 1.prons
    """
    run_lines(partial(pronunciation_lines, model=model, lengths=print_lengths_per_phone), inputs, output_file)
    current_console().close_counting()
