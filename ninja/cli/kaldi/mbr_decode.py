"""``ninja mbr-decode`` and ``ninja confidence``: consensus decoding and sentence confidence."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

import click
import numpy as np
import numpy.typing as npt

from ninja import consensus
from ninja.cli.console import current_console
from ninja.cli.files import OutputFolder
from ninja.cli.kaldi.joined import combines_systems
from ninja.cli.kaldi.options import shown_words, word_symbol_table_option
from ninja.cli.options import Command, command, output_file, section, switch, writes
from ninja.cli.run import results
from ninja.cli.scales import scales
from ninja.cli.source import reads_lattices
from ninja.consensus import Consensus
from ninja.consensus.ctm import NO_TIMES
from ninja.errors import LatticeError, OutputError
from ninja.files.output import text_output
from ninja.files.place import SPECIFIER
from ninja.formats.mesh import write_mesh
from ninja.formats.network_json import write_network
from ninja.io.inputs import Inputs
from ninja.io.number_tables import NumberWriter
from ninja.lattice import Lattice, Scales
from ninja.lattice.batch import Batch
from ninja.pipeline.stages import OnBatches, OnLattices, Pairs

DEFAULT_FRAME_SHIFT = 0.01  # seconds, as Kaldi's tools assume
OUTPUTS = ("bayes_risk", "sausage", "times", "mesh_dir", "json_file")
MOST_COST = 1e10  # what Kaldi writes instead of infinity


def frame_shift_option(text: str) -> Callable[[Command], Command]:
    """Add ``--frame-shift``, with its help."""

    def finite(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
        if value is not None and not math.isfinite(value):
            raise click.BadParameter(f"{value} is no number of seconds")
        return value

    return click.option(
        "--frame-shift",
        type=click.FloatRange(0, min_open=True),
        callback=finite,
        help=f"{text}  [default: as the lattice says, else 0.01]",
    )


class Decoded(NamedTuple):
    """The results of one lattice."""

    words: npt.NDArray[np.int32]
    bayes_risk: float
    touches_band: bool
    outputs: dict[str, Any]  # by the option that names the file, in the form that is written


def decode(
    batch: Batch, scales: Scales, one_best_times: bool, frame_shift: float | None, wanted: Sequence[str], **how: Any
) -> list[Decoded]:
    """Decode the lattices of a batch, and print the requested results of each."""
    found = consensus.mbr_decode(batch, scales, **how)
    printed = partial(_printed, one_best_times=one_best_times, frame_shift=frame_shift, wanted=wanted)
    return list(map(printed, batch, found))


def _printed(
    lattice: Lattice, found: Consensus, one_best_times: bool, frame_shift: float | None, wanted: Sequence[str]
) -> Decoded:
    if "mesh_dir" in wanted:
        _check_file_name(lattice.key)
    if "times" in wanted and len(found.words) and not found.bin_times.max(initial=0) > 0:
        raise LatticeError(NO_TIMES, key=lattice.key)
    network = None
    if "mesh_dir" in wanted or "json_file" in wanted:
        shift = frame_shift or lattice.frame_shift or DEFAULT_FRAME_SHIFT
        network = consensus.confusion_network(found, shift, lattice.words)
    outputs: dict[str, Any] = {}
    for name in wanted:
        if name == "bayes_risk":
            outputs[name] = found.bayes_risk
        elif name == "sausage":
            outputs[name] = _sausage(found)
        elif name == "times":
            outputs[name] = _times(found.times if one_best_times else found.bin_times)
        elif network is not None:
            mesh = name == "mesh_dir"
            outputs[name] = write_mesh(consensus.without_empty_bins(network)) if mesh else write_network(network)
    if lattice.words is None:
        outputs["ids"] = found.words
    else:
        outputs["words"] = [lattice.words.word(word) for word in found.words.tolist()]
    return Decoded(found.words, found.bayes_risk, found.touches_band, outputs)


@command
@switch("--decode-mbr", True, "Decode, else keep the best path's words and build the bins around them.")
@switch("--print-silence", False, "Keep bins that most probably hold no word as words with id 0.")
@frame_shift_option("Seconds per frame, for --mesh-dir and --json.")
@section(
    "Input and output",
    output_file("Text file for the word sequences, or ark:FILE"),
    writes("--bayes-risk", "Write the expected word errors of each lattice."),
    writes("--sausage", "Write the bins of each lattice: word ids and posteriors."),
    writes("--times", "Write begin and end of each bin, in frames."),
    switch("--one-best-times", False, "Let --times hold the words decoded rather than all bins."),
    writes("--mesh-dir", "Write confusion networks as SRILM's word meshes, KEY.mesh each.", kind=OutputFolder()),
    writes("--json", "Write confusion networks, one a line, as JSON.", "json_file"),
    word_symbol_table_option,
)
@combines_systems
def mbr_decode(
    inputs: Inputs, output_file: str, word_symbol_table: str | None, lattices: Pairs | None, **given: Any
) -> None:
    """Print the word sequence of least expected word error of each lattice.

    One line for each: its key and its words, or word ids where there is no symbol table. With --with, the lattices of
    several systems are combined first, as ninja combine does it. Times mean something only in lattices whose arcs have
    the labels of their words (ninja align-words).

    \b
    Examples:
      ninja mbr-decode lat.ark.gz --words words.txt --acoustic-scale 0.1
      ninja mbr-decode a.ark --with b.ark --lat-weights 0.6:0.4 --acoustic-scale 0.1
    """
    files = {name: file for name in OUTPUTS if (file := given.pop(name)) is not None}
    if word_symbol_table is None and not SPECIFIER.fullmatch(output_file):  # else a table of integers, as Kaldi's
        inputs.spell()
    show = shown_words(current_console(), word_symbol_table)
    read = None if lattices is None else lambda _: lattices
    risk, words, approximate = 0.0, 0, []
    with ExitStack() as stack:
        transcripts = stack.enter_context(NumberWriter(output_file))
        write = {name: _writer(stack, name, file) for name, file in files.items()}
        write |= {"words": transcripts.fields, "ids": transcripts.integers}
        decoding = partial(decode, wanted=tuple(files), **given)
        for key, decoded in results(OnBatches(decoding), inputs, read=read, to_stdout=output_file == "-"):
            for name, output in decoded.outputs.items():
                write[name](key, output)
            show(key, decoded.words.tolist())
            risk += decoded.bayes_risk
            words += len(decoded.words)
            approximate += [key] * decoded.touches_band
    close_with_risk(inputs, risk, words, approximate)


def _writer(stack: ExitStack, name: str, file: str) -> Callable[[str, Any], object]:
    """Open an output, and return the function that writes a lattice's part of it."""
    if name == "mesh_dir":
        try:
            os.makedirs(file, exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot be made: {error.strerror or error}", file) from error
        return partial(_write_mesh, file)
    if name == "json_file":
        stream = stack.enter_context(text_output(file))
        return lambda key, text: stream.write(text)
    table = stack.enter_context(NumberWriter(file))
    return table.number if name == "bayes_risk" else table.fields


def close_with_risk(inputs: Inputs, risk: float, words: int, approximate: list[str]) -> NoReturn:
    """End a command with the keys of approximate results and a line of the number of lattices and their Bayes risk."""
    console = current_console()
    console.say_keys(approximate, "lattices are too long and flat to compare whole: confidences are approximate")
    count = inputs.log.lattices
    average, per_word = risk / max(count, 1), risk / max(words, 1)
    current_console().close(f"{count} lattices, average Bayes risk per sentence {average:.6g}, per word {per_word:.6g}")


@command
@scales
@output_file("Text file for the confidences, or ark:FILE")
@reads_lattices
def confidence(inputs: Inputs, output_file: str, scales: Scales) -> None:
    """Print the cost difference between the two best word sequences.

    One line for each: its key and the difference; 1e+10 where there is but one word sequence.

    \b
    Example:
      ninja confidence lat.ark.gz --acoustic-scale 0.1
    """
    difference_of = partial(consensus.sentence_confidence, scales=scales)
    alone, probability = 0, 0.0
    with NumberWriter(output_file) as table:
        for key, difference in results(OnLattices(difference_of), inputs, to_stdout=output_file == "-"):
            alone += math.isinf(difference)
            probability += math.exp(-difference)
            table.number(key, min(difference, MOST_COST))
    count = inputs.log.lattices
    average = f", average {-math.log(probability / count):.6g}" if probability > 0.0 else ""
    current_console().close(f"{count} lattices, {alone} of them with one word sequence only{average}")


def _sausage(found: Consensus) -> list[str]:
    """Print bins as Kaldi prints a ``Posterior``."""
    entry = [f"{word} {posterior:.7g} " for word, posterior in zip(found.word, found.posterior.tolist(), strict=True)]
    return [
        *(f"[ {''.join(entry[first:end])}]" for first, end in pairwise(found.bin_begin.tolist())),
        "",  # a blank at the end, as there
    ]


def _times(times: npt.NDArray[np.float32]) -> list[str]:
    """Print pairs as Kaldi prints them."""
    return [" ; ".join([f"{begin:.7g} {end:.7g}" for begin, end in times.tolist()]), ""]


def _check_file_name(key: str) -> None:
    if os.path.basename(key) != key or key in (os.curdir, os.pardir) or "\0" in key:
        raise LatticeError("the key cannot be the name of a file; write --json instead", key=key)


def _write_mesh(folder: str, key: str, text: str) -> None:
    with text_output(os.path.join(folder, f"{key}.mesh")) as stream:
        stream.write(text)
