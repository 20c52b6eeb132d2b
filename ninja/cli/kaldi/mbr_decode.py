"""``ninja mbr-decode`` and ``ninja confidence``: what lattices say on average, and how sure they are."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

import click
import numpy as np
import numpy.typing as npt

from ninja import consensus
from ninja.cli.kaldi.joined import combines_systems
from ninja.cli.kaldi.options import shown_words, word_symbol_table_option
from ninja.cli.options import Command, command, output_file, scales, section, switch, text_output, writes
from ninja.cli.run import results
from ninja.cli.source import Source, reads_lattices
from ninja.consensus import Consensus
from ninja.consensus.ctm import NO_TIMES
from ninja.errors import LatticeError, OutputError
from ninja.formats.mesh import write_mesh
from ninja.formats.network_json import write_network
from ninja.io.number_tables import NumberWriter
from ninja.lattice import Lattice, Scales
from ninja.parallel.pipeline import Each, Keyed

DEFAULT_FRAME_SHIFT = 0.01  # seconds, as Kaldi's tools assume
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
    """The results of one lattice, in the forms that are written."""

    words: npt.NDArray[np.int32]
    bayes_risk: float
    texts: dict[str, Any]  # by the name of the option


def decode(
    lattice: Lattice,
    scales: Scales,
    one_best_times: bool,
    frame_shift: float | None,
    wanted: frozenset[str],
    **how: Any,
) -> Decoded:
    """Decode a lattice, and print what is wanted of it."""
    if "mesh_dir" in wanted:
        _check_file_name(lattice.key)
    found = consensus.mbr_decode(lattice, scales, **how)
    if "times" in wanted and len(found.words) and not found.bin_times.max(initial=0) > 0:
        raise LatticeError(NO_TIMES, key=lattice.key)
    texts: dict[str, Any] = {}
    if lattice.words is not None:
        texts["words"] = [lattice.words.word(word) for word in found.words.tolist()]
    if "sausage" in wanted:
        texts["sausage"] = _sausage(found)
    if "times" in wanted:
        texts["times"] = _times(found.times if one_best_times else found.bin_times)
    if wanted & {"mesh_dir", "json_file"}:
        shift = frame_shift or lattice.frame_shift or DEFAULT_FRAME_SHIFT
        network = consensus.confusion_network(found, shift, lattice.words)
        if "mesh_dir" in wanted:
            texts["mesh_dir"] = write_mesh(consensus.without_empty_bins(network))
        if "json_file" in wanted:
            texts["json_file"] = write_network(network)
    return Decoded(found.words, found.bayes_risk, texts)


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
    click.option("--mesh-dir", metavar="DIR", help="Write confusion networks as SRILM's word meshes, KEY.mesh each."),
    writes("--json", "Write confusion networks, one a line, as JSON.", "json_file"),
    word_symbol_table_option,
)
@combines_systems
def mbr_decode(
    source: Source,
    output_file: str,
    bayes_risk: str | None,
    sausage: str | None,
    times: str | None,
    mesh_dir: str | None,
    json_file: str | None,
    word_symbol_table: str | None,
    lattices: Keyed | None,
    **given: Any,
) -> None:
    """Print the word sequence of least expected word error of each lattice.

    One line for each: its key and its words, or word ids where --words is not given. With --with, the lattices of
    several systems are combined first, as ninja combine does it. Times mean something only in lattices whose arcs have
    the labels of their words (ninja align-words).

    \b
    Examples:
      ninja mbr-decode lat.ark.gz --words words.txt --acoustic-scale 0.1
      ninja mbr-decode a.ark --with b.ark --lat-weights 0.6:0.4 --acoustic-scale 0.1
    """
    files = {"sausage": sausage, "times": times, "mesh_dir": mesh_dir, "json_file": json_file}
    wanted = frozenset(name for name, file in files.items() if file is not None)
    show = shown_words(source.console, word_symbol_table)
    if mesh_dir is not None:
        _make(mesh_dir)
    risk, words = 0.0, 0
    with ExitStack() as stack:
        transcripts = stack.enter_context(NumberWriter(output_file))
        risks, sausages, spans = (
            None if name is None else stack.enter_context(NumberWriter(name)) for name in (bayes_risk, sausage, times)
        )
        objects = None if json_file is None else stack.enter_context(text_output(json_file))
        decoding = Each(partial(decode, wanted=wanted, **given))
        for key, decoded in results(decoding, source, lattices, to_stdout=output_file == "-"):
            texts = decoded.texts
            if "words" in texts:
                transcripts.fields(key, texts["words"])
            else:
                transcripts.integers(key, decoded.words)
            show(key, decoded.words.tolist())
            if risks is not None:
                risks.number(key, decoded.bayes_risk)
            if sausages is not None:
                sausages.fields(key, texts["sausage"])
            if spans is not None:
                spans.fields(key, texts["times"])
            if objects is not None:
                objects.write(texts["json_file"])
            if mesh_dir is not None:
                _write_mesh(mesh_dir, key, texts["mesh_dir"])
            risk += decoded.bayes_risk
            words += len(decoded.words)
    close_with_risk(source, risk, words)


def close_with_risk(source: Source, risk: float, words: int) -> NoReturn:
    """End a command with a line that says how many lattices there were, and their Bayes risk."""
    count = source.console.log.lattices
    average, per_word = risk / max(count, 1), risk / max(words, 1)
    source.console.close(f"{count} lattices, average Bayes risk per sentence {average:.6g}, per word {per_word:.6g}")


@command
@scales
@output_file("Text file for the confidences, or ark:FILE")
@reads_lattices
def confidence(source: Source, output_file: str, scales: Scales) -> None:
    """Print the cost difference between the two best word sequences.

    One line for each: its key and the difference; 1e+10 where there is but one word sequence.

    \b
    Example:
      ninja confidence lat.ark.gz --acoustic-scale 0.1
    """
    difference_of = partial(consensus.sentence_confidence, scales=scales)
    alone, probability = 0, 0.0
    with NumberWriter(output_file) as table:
        for key, difference in results(Each(difference_of), source, to_stdout=output_file == "-"):
            alone += math.isinf(difference)
            probability += math.exp(-difference)
            table.number(key, min(difference, MOST_COST))
    count = source.console.log.lattices
    average = f", average {-math.log(probability / count):.6g}" if probability > 0.0 else ""
    source.console.close(f"{count} lattices, {alone} of them with one word sequence only{average}")


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


def _make(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot be made: {error.strerror or error}", folder) from error


def _check_file_name(key: str) -> None:
    if os.path.basename(key) != key or key in (os.curdir, os.pardir) or "\0" in key:
        raise LatticeError("the key cannot be the name of a file; write --json instead", key=key)


def _write_mesh(folder: str, key: str, text: str) -> None:
    with text_output(os.path.join(folder, f"{key}.mesh")) as stream:
        stream.write(text)
